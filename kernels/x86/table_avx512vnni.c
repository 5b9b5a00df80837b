/*
 * table_avx512vnni.c - the AVX-512 set where the CPU has VNNI: its row kernels
 * for many tokens; the rest is table_avx512.c's.
 */
#include "kernels/x86/avx512vnni.h"

const struct kernels kernels_avx512vnni = {
    .name = "avx512",
    .numerics = "f32-lanes.1",
    .dequant_row = dequant_avx512,
    .gemm_mr = 32,
    .gemm_part = gemm_avx512_part,
    .gemm_pack_size = gemm_avx512_pack_size,
    .gemm_pack = gemm_avx512_pack,
    .gemm = gemm_avx512,
    .gemm_gated = gemm_avx512_gated,
    .rows_x_size = rows_avx512_x_size,
    .rows_x = rows_avx512_x,
    .rows = rows_avx512vnni,
    .rmsnorm = rmsnorm_avx512,
    .rope = rope_avx512,
    .swiglu = swiglu_avx512,
    .add = add_avx512,
    .kv_store = kvstore_avx2,
    .q8h_encode = q8h_avx512_encode,
    .q8h_decode = q8h_avx512_decode,
    .q8h_rotate = q8h_avx512_rotate,
    .attn = attention_avx512,
    .attn_mass = attention_avx512_mass,
    .attn_merge = attention_avx512_merge,
    .attn_finish = attention_avx512_finish,
};
