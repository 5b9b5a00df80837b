/*
 * layer_avx2.c - norm, rotation, gate and residual with 8-wide vectors;
 * layer_simd.h is the code.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#include "kernels/layer_simd.h"

void rmsnorm_avx2(float *y, size_t ldy, const float *x, size_t ldx,
                  const float *w, int n_row, int d, float eps)
{
    rmsnorm(y, ldy, x, ldx, w, n_row, d, eps);
}

void rope_avx2(float *x, int n_head, int d_head, const float *cos,
               const float *sin, float scale)
{
    rope(x, n_head, d_head, cos, sin, scale);
}

void swiglu_avx2(float *y, const float *g, const float *u, size_t n)
{
    swiglu(y, g, u, n);
}

void add_avx2(float *y, const float *x, size_t n)
{
    add(y, x, n);
}
