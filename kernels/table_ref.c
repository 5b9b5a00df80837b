/*
 * table_ref.c - the reference set, assembled.
 */
#include "kernels/ref.h"

const struct kernels kernels_ref = {
    .name = "ref",
    .numerics = "ref-f64.1",
    .dequant_row = dequant_ref,
    .gemm_mr = 1,
    .gemm_part = gemm_ref_part,
    .gemm_pack_size = gemm_ref_pack_size,
    .gemm_pack = gemm_ref_pack,
    .gemm = gemm_ref,
    .gemm_gated = gemm_ref_gated,
    .rows_x_size = rows_ref_x_size,
    .rows_x = rows_ref_x,
    .rows = rows_ref,
    .rmsnorm = rmsnorm_ref,
    .rope = rope_ref,
    .swiglu = swiglu_ref,
    .add = add_ref,
    .kv_store = kvstore_ref,
    .q8h_encode = q8h_ref_encode,
    .q8h_decode = q8h_ref_decode,
    .q8h_rotate = q8h_ref_rotate,
    .attn = attention_ref,
    .attn_mass = attention_ref_mass,
    .attn_merge = attention_ref_merge,
    .attn_finish = attention_ref_finish,
};
