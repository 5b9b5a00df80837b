/*
 * gemm_avx2.c - the prompt phase with 8-wide vectors; gemm_simd.h is the code.
 *
 * Bound by the two FMA ports: 6 rows x 2 vectors are 12 independent chains
 * (8 hide a latency of 4 on two ports) and leave 3 of 16 registers for two
 * vectors of tokens and a broadcast weight; 8 loads per 12 FMAs.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#define MR     6
#define PB     4
#define UNPACK unpack_avx2
#define SWIGLU swiglu_avx2
#include "kernels/gemm_simd.h"

int gemm_avx2_part(int n_tok, int d_in)
{
    return part_of(n_tok, d_in);
}

size_t gemm_avx2_pack_size(int n_tok, int d_in)
{
    return pack_size(n_tok, d_in);
}

void gemm_avx2_pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                    int t0, int t1)
{
    pack(xp, x, ldx, n_tok, d_in, t0, t1);
}

void gemm_avx2(float *y, size_t ldy, const float *xp, int n_tok,
               const struct kmat *w, int row0, int row1, float *scratch)
{
    gemm(y, ldy, xp, n_tok, w, row0, row1, scratch);
}

void gemm_avx2_gated(float *gp, const float *xp, int n_tok,
                     const struct kmat *gate, const struct kmat *up, int row0,
                     int row1, float *scratch)
{
    gated(gp, xp, n_tok, gate, up, row0, row1, scratch);
}
