/*
 * quant.c - reading stored weights; the layouts are in quant.h.
 *
 * Written to be read.  Both the reference and the scalar set use it: what a
 * stored weight means is a fact of the file format, not of an
 * implementation, and tests/golden/quant checks it from outside.
 */
#include "kernels/quant.h"

#include <math.h>
#include <string.h>

/* q[0..15] = low, q[16..31] = high nibbles of 16 bytes */
static void nibbles(int16_t *q, const uint8_t *qs)
{
    for (int i = 0; i < 16; i++) {
        q[i] = qs[i] & 15;
        q[16 + i] = qs[i] >> 4;
    }
}

static void fifth_bits(int16_t *q, const uint8_t *qh)
{
    for (int i = 0; i < 32; i++)
        q[i] = (int16_t)(q[i] + ((qh[i / 8] >> i % 8 & 1) << 4));
}

static void block_q4k_q5k(struct quant_block *out, int type, const uint8_t *s,
                          int j)
{
    const uint8_t *qh = s + 16;
    const uint8_t *qs = (type == KT_Q5_K ? qh + 32 : qh) + j / 2 * 32;
    float d = f16_to_f32(quant_u16(s)), dmin = f16_to_f32(quant_u16(s + 2));
    int sc, mn;

    quant_scale_min(s + 4, j, &sc, &mn);
    out->f[0] = out->f[1] = d * (float)sc;
    out->m[0] = out->m[1] = -(dmin * (float)mn);
    for (int i = 0; i < 32; i++) {
        int q = j % 2 ? qs[i] >> 4 : qs[i] & 15;

        if (type == KT_Q5_K)
            q += (qh[i] >> j & 1) << 4;
        out->q[i] = (int16_t)q;
    }
}

static void block_q6k(struct quant_block *out, const uint8_t *s, int j)
{
    int half = j / 4, k = j % 4;
    const uint8_t *ql = s + 64 * half + k % 2 * 32;
    const uint8_t *qh = s + 128 + 32 * half, *sc = s + 192 + 2 * j;
    float d = f16_to_f32(quant_u16(s + 208));

    for (int h = 0; h < 2; h++) {
        out->f[h] = d * (float)(int8_t)sc[h];
        out->m[h] = -32.0f * out->f[h];
    }
    for (int i = 0; i < 32; i++) {
        int lo = k / 2 ? ql[i] >> 4 : ql[i] & 15;

        out->q[i] = (int16_t)(lo | (qh[i] >> 2 * k & 3) << 4);
    }
}

void quant_block(struct quant_block *out, int type, const uint8_t *row, int b)
{
    const uint8_t *p = row + (size_t)b * kt_block_bytes(type);

    if (kt_block_weights(type) == 256) {
        p = row + (size_t)(b / 8) * kt_block_bytes(type);
        if (type == KT_Q6_K)
            block_q6k(out, p, b % 8);
        else
            block_q4k_q5k(out, type, p, b % 8);
        return;
    }
    out->f[0] = f16_to_f32(quant_u16(p));
    switch (type) {
    case KT_Q4_0:
        nibbles(out->q, p + 2);
        out->m[0] = -8.0f * out->f[0];
        break;
    case KT_Q4_1:
        nibbles(out->q, p + 4);
        out->m[0] = f16_to_f32(quant_u16(p + 2));
        break;
    case KT_Q5_0:
        nibbles(out->q, p + 6);
        fifth_bits(out->q, p + 2);
        out->m[0] = -16.0f * out->f[0];
        break;
    case KT_Q5_1:
        nibbles(out->q, p + 8);
        fifth_bits(out->q, p + 4);
        out->m[0] = f16_to_f32(quant_u16(p + 2));
        break;
    default: /* Q8_0 */
        for (int i = 0; i < 32; i++)
            out->q[i] = (int8_t)p[2 + i];
        out->m[0] = 0.0f;
    }
    out->f[1] = out->f[0];
    out->m[1] = out->m[0];
}

/* One weight from the parts of its block: the table of kernels.h. */
static float value(int type, float f, int q, float m)
{
    switch (type) {
    case KT_Q4_0:
        return f * (float)(q - 8);
    case KT_Q5_0:
        return f * (float)(q - 16);
    case KT_Q6_K:
        return f * (float)(q - 32);
    case KT_Q8_0:
        return f * (float)q;
    default:
        return fmaf(f, (float)q, m);
    }
}

void quant_row(float *out, int type, const uint8_t *row, int n)
{
    switch (type) {
    case KT_F32:
        memcpy(out, row, (size_t)n * sizeof *out);
        return;
    case KT_F16:
        for (int i = 0; i < n; i++)
            out[i] = f16_to_f32(quant_u16(row + 2 * (size_t)i));
        return;
    case KT_BF16:
        for (int i = 0; i < n; i++)
            out[i] = bf16_to_f32(quant_u16(row + 2 * (size_t)i));
        return;
    }
    for (int b = 0; b < n / 32; b++) {
        struct quant_block k;

        quant_block(&k, type, row, b);
        for (int i = 0; i < 32; i++)
            out[32 * b + i] = value(type, k.f[i / 16], k.q[i], k.m[i / 16]);
    }
}
