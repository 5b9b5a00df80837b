/*
 * gemm_bf16_scalar.c - the orders of operations bf16-tiles and bf16-pairs in
 * portable C.
 *
 * Values in bf16 are kept as the f32 they stand for: a product of two is
 * exact in f32 but for its range, and the chains are fmaf's with denormals
 * taken out.
 */
#include "kernels/gemm_fast.h"
#include "kernels/quant.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 256,      /* weights expanded at a time: a block of any type */
    TK = 32           /* of a step */
};

static uint32_t bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static float of_bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/* denormals are zeros of their sign */
static float flush(float x)
{
    return bits(x) & 0x7f800000 ? x : of_bits(bits(x) & 0x80000000);
}

static float round_bf16(float x)
{
    uint32_t u = bits(flush(x));

    if (isnan(x))
        return of_bits((u | 0x00400000) & 0xffff0000);
    return of_bits((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000);
}

/* a and b are in bf16 and normal, or 0, inf, NaN; c is none either */
static float fmaz(float a, float b, float c)
{
    float y = fmaf(a, b, c);

    /* rounded up to 2^-126 among denormals, but not where 24 bits count */
    if (fabsf(y) == 0x1p-126f &&
        fabsf(fmaf(a * 0x1p32f, b * 0x1p32f, c * 0x1p64f)) < 0x1p-62f)
        return copysignf(0.0f, y);
    return flush(y);
}

static float addz(float a, float b)
{
    return flush(a + b);
}

void gemm_bf16_scalar_pack(float *xp, const float *x, size_t ldx, int n_tok,
                            int d_in, int t0, int t1)
{
    (void)n_tok;
    for (int t = t0; t < t1; t++)
        for (int i = 0; i < d_in; i++)
            xp[(size_t)t * (size_t)d_in + (size_t)i] =
                round_bf16(x[(size_t)t * ldx + (size_t)i]);
}

/* y after n <= 32 more inputs: bf16-tiles */
static float tile_step(float y, const float *x, const float *w, int n)
{
    float sum[2] = { 0.0f, 0.0f };

    for (int i = 0; i < TK; i++)
        sum[i % 2] = i < n ? fmaz(x[i], w[i], sum[i % 2])
                           : fmaz(0.0f, 0.0f, sum[i % 2]);
    return addz(y, addz(sum[0], sum[1]));
}

/* y after n <= 32 more inputs: bf16-pairs */
static float pair_step(float y, const float *x, const float *w, int n)
{
    for (int i = 0; i < n; i += 2) {
        y = i + 1 < n ? fmaz(x[i + 1], w[i + 1], y) : fmaz(0.0f, 0.0f, y);
        y = fmaz(x[i], w[i], y);
    }
    return y;
}

typedef float step_fn(float y, const float *x, const float *w, int n);

static void multiply(float *y, size_t ldy, const float *xp, int n_tok,
                     const struct kmat *w, int row0, int row1, float *scratch,
                     step_fn *step)
{
    size_t block = (size_t)kt_block_weights(w->type);

    for (int r = row0; r < row1; r++) {
        const uint8_t *row = kmat_row(w, r);

        for (int t = 0; t < n_tok; t++)
            y[(size_t)t * ldy + (size_t)r] = 0.0f;
        for (int i = 0; i < w->d_in; i += CHUNK) {
            int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

            quant_row(scratch, w->type, row, n);
            for (int j = 0; j < n; j++)
                scratch[j] = round_bf16(scratch[j]);
            row += (size_t)n / block * kt_block_bytes(w->type);
            for (int t = 0; t < n_tok; t++) {
                const float *x = xp + (size_t)t * (size_t)w->d_in + i;
                float *out = &y[(size_t)t * ldy + (size_t)r];

                for (int j = 0; j < n; j += TK)
                    *out = step(*out, x + j, scratch + j,
                                n - j < TK ? n - j : TK);
            }
        }
    }
}

void gemm_tiles_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                       const struct kmat *w, int row0, int row1,
                       float *scratch)
{
    multiply(y, ldy, xp, n_tok, w, row0, row1, scratch, tile_step);
}

void gemm_pairs_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                       const struct kmat *w, int row0, int row1,
                       float *scratch)
{
    multiply(y, ldy, xp, n_tok, w, row0, row1, scratch, pair_step);
}
