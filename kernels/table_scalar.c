/*
 * table_scalar.c - the scalar set, assembled.
 */
#include "kernels/scalar.h"

const struct kernels kernels_scalar = {
    .name = "scalar",
    .numerics = "f32-lanes.1",
    .dequant_row = dequant_ref,
    .gemm_mr = 1,
    .gemm_part = gemm_ref_part,
    .gemm_pack_size = gemm_ref_pack_size,
    .gemm_pack = gemm_ref_pack,
    .gemm = gemm_scalar,
    .gemm_gated = gemm_scalar_gated,
    .rows_x_size = rows_scalar_x_size,
    .rows_x = rows_scalar_x,
    .rows = rows_scalar,
    .rmsnorm = rmsnorm_scalar,
    .rope = rope_scalar,
    .swiglu = swiglu_scalar,
    .add = add_ref,
    .kv_store = kvstore_ref,
    .q8h_encode = q8h_scalar_encode,
    .q8h_decode = q8h_scalar_decode,
    .q8h_rotate = q8h_scalar_rotate,
    .attn = attention_scalar,
    .attn_mass = attention_scalar_mass,
    .attn_merge = attention_scalar_merge,
    .attn_finish = attention_ref_finish,
};
