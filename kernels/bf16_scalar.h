/*
 * bf16_scalar.h - fmaz, addz and the steps of bf16-tiles and bf16-pairs
 * (kernels.h, struct kernels_fast) in portable C.
 *
 * Values in bf16 are kept as the f32 they stand for: a product of two is
 * exact in f32 but for its range, and the chains are fmaf's with denormals
 * taken out.
 */
#ifndef KERNELS_BF16_SCALAR_H
#define KERNELS_BF16_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BF16_STEP = 32 };

static inline uint32_t bf16_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float bf16_of_bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/* denormals are zeros of their sign */
static inline float bf16_flush(float x)
{
    return bf16_bits(x) & 0x7f800000 ? x
                                     : bf16_of_bits(bf16_bits(x) & 0x80000000);
}

static inline float bf16_round(float x)
{
    uint32_t u = bf16_bits(bf16_flush(x));

    if (isnan(x))
        return bf16_of_bits((u | 0x00400000) & 0xffff0000);
    return bf16_of_bits((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000);
}

/* a and b are in bf16 and normal, or 0, inf, NaN; c is none either */
static inline float bf16_fmaz(float a, float b, float c)
{
    float y = fmaf(a, b, c);

    /* rounded up to 2^-126 among denormals, but not where 24 bits count */
    if (fabsf(y) == 0x1p-126f &&
        fabsf(fmaf(a * 0x1p32f, b * 0x1p32f, c * 0x1p64f)) < 0x1p-62f)
        return copysignf(0.0f, y);
    return bf16_flush(y);
}

static inline float bf16_addz(float a, float b)
{
    return bf16_flush(a + b);
}

/* y after n <= 32 more inputs: bf16-tiles */
static inline float bf16_tile_step(float y, const float *x, const float *w,
                                   int n)
{
    float sum[2] = { 0.0f, 0.0f };

    for (int i = 0; i < BF16_STEP; i++)
        sum[i % 2] = i < n ? bf16_fmaz(x[i], w[i], sum[i % 2])
                           : bf16_fmaz(0.0f, 0.0f, sum[i % 2]);
    return bf16_addz(bf16_flush(y), bf16_addz(sum[0], sum[1]));
}

/* the same: bf16-pairs; y is no denormal */
static inline float bf16_pair_step(float y, const float *x, const float *w,
                                   int n)
{
    for (int i = 0; i < n; i += 2) {
        y = i + 1 < n ? bf16_fmaz(x[i + 1], w[i + 1], y)
                      : bf16_fmaz(0.0f, 0.0f, y);
        y = bf16_fmaz(x[i], w[i], y);
    }
    return y;
}

#endif
