/*
 * conv.c - f16, bf16 and f32, one value at a time, in integer arithmetic.
 *
 * The fast sets use the CPU's own conversion (F16C), which these equal for
 * every input: to f16 rounds to nearest even, overflow gives infinity, and a
 * NaN stays a quiet NaN with the top bits of its payload.
 */
#include "kernels/kernels.h"

#include <string.h>

static float bits_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t e = (h >> 10) & 31, m = h & 0x3ff;

    if (e == 31) /* infinity, or a NaN made quiet */
        return bits_float(sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
    if (e == 0) { /* zero or subnormal: m * 2^-24 is exact */
        float f = (float)m * 0x1p-24f;
        return sign ? -f : f;
    }
    return bits_float(sign | (e + 112) << 23 | m << 13);
}

uint16_t f32_to_f16(float f)
{
    uint32_t u, sign, a;

    memcpy(&u, &f, sizeof u);
    sign = u >> 16 & 0x8000;
    a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) { /* below 2^-14: let the adder round the bits */
        float t = bits_float(a) + 0.5f;
        memcpy(&a, &t, sizeof a);
        return (uint16_t)(sign | (a - 0x3f000000));
    }
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | (a - 0x38000000) >> 13);
}

uint16_t f32_to_f16_up(float f)
{
    uint16_t h = f32_to_f16(f);

    return f16_to_f32(h) < f ? (uint16_t)(h + 1) : h;
}

float bf16_to_f32(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}
