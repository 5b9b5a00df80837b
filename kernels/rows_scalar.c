/*
 * rows_scalar.c - generation phase: few tokens, weights read once.
 *
 * The form of x for quantized types, per token (kernels.h has the rule):
 *
 *   | float s[n_block] | float sum[n_half] | int16_t q[d_in] |
 *
 * n_half counts blocks of 32, or of 16 for Q6_K, whose halves have offsets of
 * their own.  For float types: f32, filled up with zeros to a multiple of 32.
 */
#include "kernels/quant.h"
#include "kernels/scalar.h"

static bool is_float(int type, bool exact)
{
    return exact || !kt_quantized(type);
}

static size_t n_sum(int type, int d_in)
{
    return (size_t)d_in / (type == KT_Q6_K ? 16 : 32);
}

size_t rows_scalar_x_size(int type, int d_in, bool exact)
{
    size_t n = (size_t)d_in, size;

    if (is_float(type, exact))
        size = (n + 31) / 32 * 32 * sizeof(float);
    else
        size =
            (n / 32 + n_sum(type, d_in)) * sizeof(float) + n * sizeof(int16_t);
    return (size + 63) & ~(size_t)63;
}

/* One block of 32 to i16; returns its scale s. */
static float quantize(int16_t q[32], const float *x)
{
    uint32_t top = 0;
    float amax, inv;

    for (int i = 0; i < 32; i++) {
        uint32_t u;

        memcpy(&u, x + i, sizeof u);
        u &= 0x7fffffff;
        if (u > top)
            top = u;
    }
    memset(q, 0, 32 * sizeof *q);
    memcpy(&amax, &top, sizeof amax);
    if (top >= 0x7f800000)
        return NAN;
    if (amax < 0x1p-100f)
        return 0.0f;
    inv = 32767.0f / amax;
    for (int i = 0; i < 32; i++) {
        float t = x[i] * inv + 12582912.0f; /* rounds to nearest even */
        int32_t n;

        memcpy(&n, &t, sizeof n);
        q[i] = (int16_t)(n - 0x4b400000);
    }
    return amax / 32767.0f;
}

void rows_scalar_x(void *xq, const float *x, int type, int d_in, bool exact)
{
    int nb = d_in / 32, half = type == KT_Q6_K ? 16 : 32;
    float *s = xq, *sum = s + nb;
    int16_t *q = (int16_t *)(void *)(sum + n_sum(type, d_in));

    if (is_float(type, exact)) {
        memcpy(xq, x, (size_t)d_in * sizeof *x);
        memset(s + d_in, 0, (size_t)(-d_in & 31) * sizeof *s);
        return;
    }
    for (int b = 0; b < nb; b++, q += 32) {
        s[b] = quantize(q, x + 32 * b);
        for (int i = 0; i < 32; i += half) {
            int n = 0;

            for (int j = 0; j < half; j++)
                n += q[i + j];
            *sum++ = s[b] * (float)n;
        }
    }
}

static float dot_float(const float *x, const struct kmat *w, const uint8_t *row)
{
    enum { CHUNK = 256 };
    size_t block = (size_t)kt_block_weights(w->type);
    float lane[32] = { 0 }, buf[CHUNK];

    for (int i = 0; i < w->d_in; i += CHUNK) {
        int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

        quant_row(buf, w->type, row, n);
        row += (size_t)n / block * kt_block_bytes(w->type);
        for (int j = 0; j < n; j += 32)
            dot32_scalar_step(lane, buf + j, x + i + j, n - j);
    }
    return fold_scalar(lane, 32);
}

static float dot_int(const void *xq, const struct kmat *w, const uint8_t *row)
{
    int nb = w->d_in / 32, n_half = w->type == KT_Q6_K ? 2 : 1;
    const float *s = xq, *sum = s + nb;
    const int16_t *q = (const int16_t *)(const void *)(sum + nb * n_half);
    float acc[16] = { 0 }, off[8] = { 0 };

    for (int b = 0; b < nb; b++, q += 32) {
        struct quant_block k;

        quant_block(&k, w->type, row, b);
        for (int j = 0; j < 8; j++) {
            int n = 0;

            for (int i = 4 * j; i < 4 * j + 4; i++)
                n += k.q[i] * q[i];
            acc[8 * (b % 2) + j] =
                fmaf((float)n, k.f[j / 4] * s[b], acc[8 * (b % 2) + j]);
        }
        for (int h = 0; h < n_half && w->type != KT_Q8_0; h++) {
            int i = n_half * b + h;

            off[i % 8] = fmaf(k.m[h], sum[i], off[i % 8]);
        }
    }
    for (int i = n_half * nb; i % 8; i++)
        off[i % 8] = fmaf(0.0f, 0.0f, off[i % 8]);
    for (int j = 0; j < 8; j++) {
        acc[j] = acc[j] + acc[8 + j];
        if (w->type != KT_Q8_0)
            acc[j] = acc[j] + off[j];
    }
    return fold_scalar(acc, 8);
}

void rows_scalar(float *y, size_t ldy, const void *xq, size_t xq_stride,
                 int n_x, const struct kmat *w, int row0, int row1, bool exact,
                 float *scratch)
{
    (void)scratch;
    for (int r = row0; r < row1; r++)
        for (int t = 0; t < n_x; t++) {
            const void *x = (const uint8_t *)xq + (size_t)t * xq_stride;

            y[(size_t)t * ldy + (size_t)r] =
                is_float(w->type, exact) ? dot_float(x, w, kmat_row(w, r))
                                         : dot_int(x, w, kmat_row(w, r));
        }
}
