/*
 * table_avx2.c - the AVX2 set, assembled.
 */
#include "kernels/x86/avx2.h"

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .numerics = "f32-lanes.1",
    .dequant_row = dequant_avx2,
    .gemm_mr = 16,
    .gemm_part = gemm_avx2_part,
    .gemm_pack_size = gemm_avx2_pack_size,
    .gemm_pack = gemm_avx2_pack,
    .gemm = gemm_avx2,
    .gemm_gated = gemm_avx2_gated,
    .rows_x_size = rows_avx2_x_size,
    .rows_x = rows_avx2_x,
    .rows = rows_avx2,
    .rmsnorm = rmsnorm_avx2,
    .rope = rope_avx2,
    .swiglu = swiglu_avx2,
    .add = add_avx2,
    .kv_store = kvstore_avx2,
    .q8h_encode = q8h_avx2_encode,
    .q8h_decode = q8h_avx2_decode,
    .q8h_rotate = q8h_avx2_rotate,
    .attn = attention_avx2,
    .attn_mass = attention_avx2_mass,
    .attn_merge = attention_avx2_merge,
    .attn_finish = attention_avx2_finish,
};
