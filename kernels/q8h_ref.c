/*
 * q8h_ref.c - rows of codec q8h: the transform by its definition.
 *
 * Row i of the Hadamard matrix has the sign (-1)^(number of ones in i & j) in
 * column j; the butterflies of kernels.h compute the same sums.
 */
#include "kernels/ref.h"

#include <math.h>

enum { D_MAX = 512 };

struct q8h_block q8h_block(int d_head)
{
    struct q8h_block b = { d_head & -d_head, 1.0f, 1.0f };

    for (int n = b.n; n >= 4; n /= 4)
        b.r *= 0.5f;
    b.inverse = 1.0f / ((float)b.n * b.r);
    return b;
}

static int odd_ones(unsigned u)
{
    int odd = 0;

    for (; u; u &= u - 1)
        odd = !odd;
    return odd;
}

static void hadamard(double *y, const double *x, int d_head, int n)
{
    for (int i = 0; i < d_head; i++) {
        y[i] = 0;
        for (int j = 0; j < n; j++) {
            double v = x[i / n * n + j];

            y[i] += odd_ones((unsigned)(i % n & j)) ? -v : v;
        }
    }
}

bool q8h_ref_encode(int8_t *code, uint16_t *scale, const float *x,
                    const float *f, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    double in[D_MAX] = { 0 }, y[D_MAX], amax = 0, s;

    for (int i = 0; i < d_head; i++)
        in[i] = (double)x[i] / (f ? (double)f[i] : 1.0);
    hadamard(y, in, d_head, b.n);
    for (int i = 0; i < d_head; i++) {
        y[i] *= (double)b.r;
        if (!(fabs(y[i]) <= (double)65504.0f * 127))
            return false;
        amax = fabs(y[i]) > amax ? fabs(y[i]) : amax;
    }
    *scale = f32_to_f16_up((float)(amax / 127));
    s = (double)f16_to_f32(*scale);
    for (int i = 0; i < d_head; i++)
        code[i] = s > 0 ? (int8_t)nearbyint(y[i] / s) : 0;
    return true;
}

void q8h_ref_decode(float *x, const int8_t *code, uint16_t scale,
                    const float *f, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    double in[D_MAX] = { 0 }, y[D_MAX];

    for (int i = 0; i < d_head; i++)
        in[i] = code[i] * (double)f16_to_f32(scale);
    hadamard(y, in, d_head, b.n);
    for (int i = 0; i < d_head; i++)
        x[i] = (float)(y[i] * (double)b.inverse * (f ? (double)f[i] : 1.0));
}

void q8h_ref_rotate(float *x, const float *f, int n_row, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    double in[D_MAX] = { 0 }, y[D_MAX];

    for (int r = 0; r < n_row; r++, x += d_head) {
        for (int i = 0; i < d_head; i++)
            in[i] = (double)x[i] * (f ? (double)f[i] : 1.0);
        hadamard(y, in, d_head, b.n);
        for (int i = 0; i < d_head; i++)
            x[i] = (float)(y[i] * (double)b.inverse);
    }
}
