/*
 * gemm_u4_scalar.c - the order of operations u4s8 in portable C.
 *
 * A token's block of 32 inputs is kept as 32 integers, s and h.
 */
#include "kernels/gemm_fast.h"
#include "kernels/quant.h"

#include <math.h>

enum { BLOCK = 34 }; /* floats of a block */

size_t gemm_u4_scalar_pack_size(int n_tok, int d_in)
{
    return (size_t)n_tok * (((size_t)d_in + 31) / 32) * BLOCK;
}

static void pack_block(float *out, const float *x)
{
    float amax = 0.0f, s, inv = 0.0f, sum = 0.0f;
    bool finite = true;

    for (int i = 0; i < 32; i++) {
        finite = finite && isfinite(x[i]);
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    }
    s = !finite ? NAN : amax < 0x1p-100f ? 0.0f : amax / 127.0f;
    if (s > 0.0f)
        inv = 127.0f / amax;
    for (int i = 0; i < 32; i++) {
        out[i] = s > 0.0f ? rintf(x[i] * inv) : 0.0f;
        sum += out[i]; /* integers: exact */
    }
    out[32] = s;
    out[33] = s * sum;
}

void gemm_u4_scalar_pack(float *xp, const float *x, size_t ldx, int n_tok,
                         int d_in, int t0, int t1)
{
    size_t nb = (size_t)d_in / 32;

    (void)n_tok;
    for (int t = t0; t < t1; t++)
        for (size_t b = 0; b < nb; b++)
            pack_block(xp + ((size_t)t * nb + b) * BLOCK,
                       x + (size_t)t * ldx + b * 32);
}

void gemm_u4_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                    const struct kmat *w, int row0, int row1, float *scratch)
{
    int nb = w->d_in / 32;

    (void)scratch;
    for (int r = row0; r < row1; r++) {
        const uint8_t *row = kmat_row(w, r);

        for (int t = 0; t < n_tok; t++)
            y[(size_t)t * ldy + (size_t)r] = 0.0f;
        for (int b = 0; b < nb; b++) {
            struct quant_block k;

            quant_block(&k, w->type, row, b);
            for (int t = 0; t < n_tok; t++) {
                const float *x =
                    xp + ((size_t)t * (size_t)nb + (size_t)b) * BLOCK;
                float *out = &y[(size_t)t * ldy + (size_t)r];
                int n = 0;

                for (int i = 0; i < 32; i++)
                    n += k.q[i] * (int)x[i];
                *out = fmaf((float)n, k.f[0] * x[32], *out);
                *out = fmaf(k.m[0], x[33], *out);
            }
        }
    }
}
