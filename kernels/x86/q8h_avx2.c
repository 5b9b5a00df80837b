/*
 * q8h_avx2.c - rows of codec q8h with 8-wide vectors; q8h_simd.h is the
 * code.  A row is a few hundred operations in L1: bound by them.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/q8h_simd.h"

bool q8h_avx2_encode(int8_t *code, uint16_t *scale, const float *x,
                     const float *f, int d_head)
{
    return encode(code, scale, x, f, d_head);
}

void q8h_avx2_decode(float *x, const int8_t *code, uint16_t scale,
                     const float *f, int d_head)
{
    decode(x, code, scale, f, d_head);
}

void q8h_avx2_rotate(float *x, const float *f, int n_row, int d_head)
{
    rotate(x, f, n_row, d_head);
}
