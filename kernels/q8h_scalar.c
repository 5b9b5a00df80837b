/*
 * q8h_scalar.c - rows of codec q8h in the order of kernels.h.
 */
#include <float.h>

#include "kernels/scalar.h"

enum { D_MAX = 512 };

static void hadamard(float *x, int d_head, int n)
{
    for (int h = 1; h < n; h *= 2)
        for (int i = 0; i < d_head; i++)
            if ((i & h) == 0) {
                float a = x[i], b = x[i + h];

                x[i] = a + b;
                x[i + h] = a - b;
            }
}

/* to nearest even; |x| < 2^22 */
static int round_even(float x)
{
    float t = x + 12582912.0f; /* 1.5 * 2^23 */
    int32_t n;

    memcpy(&n, &t, sizeof n);
    return n - 0x4b400000;
}

bool q8h_scalar_encode(int8_t *code, uint16_t *scale, const float *x,
                       const float *f, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    float y[D_MAX], amax = 0.0f, inv;

    for (int i = 0; i < d_head; i++)
        y[i] = f ? x[i] / f[i] : x[i];
    hadamard(y, d_head, b.n);
    for (int i = 0; i < d_head; i++) {
        y[i] *= b.r;
        if (!(fabsf(y[i]) <= FLT_MAX))
            return false;
        amax = fabsf(y[i]) > amax ? fabsf(y[i]) : amax;
    }
    *scale = f32_to_f16_up(amax / 127.0f);
    if (*scale >= 0x7c00)
        return false;
    inv = *scale ? 1.0f / f16_to_f32(*scale) : 0.0f;
    for (int i = 0; i < d_head; i++)
        code[i] = (int8_t)round_even(y[i] * inv);
    return true;
}

void q8h_scalar_decode(float *x, const int8_t *code, uint16_t scale,
                       const float *f, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    float s = f16_to_f32(scale);

    for (int i = 0; i < d_head; i++)
        x[i] = (float)code[i] * s;
    hadamard(x, d_head, b.n);
    for (int i = 0; i < d_head; i++)
        x[i] = f ? x[i] * b.inverse * f[i] : x[i] * b.inverse;
}

void q8h_scalar_rotate(float *x, const float *f, int n_row, int d_head)
{
    struct q8h_block b = q8h_block(d_head);

    for (int r = 0; r < n_row; r++, x += d_head) {
        for (int i = 0; f && i < d_head; i++)
            x[i] *= f[i];
        hadamard(x, d_head, b.n);
        for (int i = 0; i < d_head; i++)
            x[i] *= b.inverse;
    }
}
