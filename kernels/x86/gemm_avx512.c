/*
 * gemm_avx512.c - the prompt phase with 16-wide vectors; gemm_simd.h is the
 * code.
 *
 * Bound by the two FMA ports: 14 rows x 2 vectors are 28 independent chains
 * and leave 4 of 32 registers for two vectors of tokens and a broadcast
 * weight; 16 loads per 28 FMAs.
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/simd_avx512.h"

#define MR     14
#define PB     2
#define UNPACK unpack_avx512
#define SWIGLU swiglu_avx512
#include "kernels/gemm_simd.h"

int gemm_avx512_part(int n_tok, int d_in)
{
    return part_of(n_tok, d_in);
}

size_t gemm_avx512_pack_size(int n_tok, int d_in)
{
    return pack_size(n_tok, d_in);
}

void gemm_avx512_pack(float *xp, const float *x, size_t ldx, int n_tok,
                      int d_in, int t0, int t1)
{
    pack(xp, x, ldx, n_tok, d_in, t0, t1);
}

void gemm_avx512(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch)
{
    gemm(y, ldy, xp, n_tok, w, row0, row1, scratch);
}

void gemm_avx512_gated(float *gp, const float *xp, int n_tok,
                       const struct kmat *gate, const struct kmat *up, int row0,
                       int row1, float *scratch)
{
    gated(gp, xp, n_tok, gate, up, row0, row1, scratch);
}
