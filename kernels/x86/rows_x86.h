/*
 * rows_x86.h - the form of x for quantized weights, and the scales of a
 * weight row: what the AVX2 and AVX-512 rows kernels share.  256-bit code.
 *
 * An x row is
 *
 *   | float s[n8] | float sum[n8 * halves] | pad | int16_t q[] |
 *
 * n8 = blocks rounded up to 8, filled with zeros; halves is 2 for Q6_K, else
 * 1; q per pair of blocks: even elements of both, odd elements of both, 64 in
 * all (a lone last block: even, odd).
 */
#ifndef KERNELS_X86_ROWS_X86_H
#define KERNELS_X86_ROWS_X86_H

#include <immintrin.h>
#include <string.h>

#include "kernels/quant.h"
#include "kernels/set.h"

enum {
    SPAN = 64, /* blocks whose scales are prepared together */
    FEW = 4    /* tokens that share a weight row in registers */
};

INLINE bool is_float(int type, bool exact)
{
    return exact || !kt_quantized(type);
}

INLINE size_t n8(int d_in)
{
    return ((size_t)d_in / 32 + 7) & ~(size_t)7;
}

INLINE size_t q_offset(int type, int d_in)
{
    size_t n = n8(d_in) * (type == KT_Q6_K ? 3 : 2) * sizeof(float);

    return (n + 63) & ~(size_t)63;
}

INLINE __m256i mask8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* f and o of n <= 8 blocks of a 32-weight type; zero after them */
INLINE void scales32(const uint8_t *p, int n, const int type, __m256 *f,
                     __m256 *o)
{
    const int size = (int)kt_block_bytes(type);
    const __m256i at = _mm256_mullo_epi32(
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(size));
    __m256i v = _mm256_mask_i32gather_epi32(
        _mm256_setzero_si256(), (const int *)(const void *)p, at, mask8(n), 1);
    __m256i lo = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));

    v = _mm256_packus_epi32(lo, _mm256_srli_epi32(v, 16));
    v = _mm256_permute4x64_epi64(v, 0xd8);
    *f = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
    if (type == KT_Q4_0)
        *o = _mm256_mul_ps(*f, _mm256_set1_ps(-8.0f));
    else if (type == KT_Q5_0)
        *o = _mm256_mul_ps(*f, _mm256_set1_ps(-16.0f));
    else
        *o = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
}

/* f and o of the eight blocks of a Q4_K or Q5_K super-block */
INLINE void scales_k(const uint8_t *p, __m256 *f, __m256 *o)
{
    uint32_t u[3], sc[2], mn[2];
    __m256 d = _mm256_set1_ps(_cvtsh_ss(quant_u16(p)));
    __m256 dmin = _mm256_set1_ps(_cvtsh_ss(quant_u16(p + 2)));

    memcpy(u, p + 4, 12);
    sc[0] = u[0] & 0x3f3f3f3f;
    mn[0] = u[1] & 0x3f3f3f3f;
    sc[1] = (u[2] & 0x0f0f0f0f) | (u[0] >> 6 & 0x03030303) << 4;
    mn[1] = (u[2] >> 4 & 0x0f0f0f0f) | (u[1] >> 6 & 0x03030303) << 4;
    *f = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(
                              _mm_loadl_epi64((const __m128i *)(void *)sc))));
    *o =
        _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(
                                _mm_loadl_epi64((const __m128i *)(void *)mn))));
    *o = _mm256_xor_ps(*o, _mm256_set1_ps(-0.0f));
}

/* f and o of eight of the 16 halves of a Q6_K super-block */
INLINE void scales_6k(const uint8_t *p, int h, __m256 *f, __m256 *o)
{
    const void *sc = p + 192 + h;

    *f = _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(quant_u16(p + 208))),
                       _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
                           _mm_loadl_epi64((const __m128i *)sc))));
    *o = _mm256_mul_ps(*f, _mm256_set1_ps(-32.0f));
}

/* f and o of eight scales from the i-th after block b on, n of which a row
 * may still have */
INLINE void scales(const uint8_t *row, int b, int i, int n, const int type,
                   __m256 *f, __m256 *o)
{
    if (type == KT_Q6_K)
        scales_6k(row + (size_t)(b / 8) * 210, i % 16, f, o);
    else if (kt_block_weights(type) == 256)
        scales_k(row + (size_t)(b / 8) * kt_block_bytes(type), f, o);
    else
        scales32(row + (size_t)b * kt_block_bytes(type), n < 8 ? n : 8, type, f,
                 o);
}

struct xrow {
    const float *s, *sum;
    const int16_t *q;
};

/*
 * Scales of blocks [b0, b0 + n) times those of x into fs, offsets into off.
 */
INLINE void prepare(float fs[][2 * SPAN], __m256 *off, const uint8_t *row,
                    const struct xrow *x, int b0, int n, const int type,
                    const int n_x)
{
    const int per = type == KT_Q6_K ? 2 : 1; /* scales of a block */

    for (int i = 0; i < n * per; i += 8) {
        int b = b0 + i / per;
        __m256 f, o;

        scales(row, b, i, n - i, type, &f, &o);
        for (int t = 0; t < n_x; t++) {
            __m256 s;

            if (type == KT_Q6_K) {
                s = _mm256_castps128_ps256(_mm_loadu_ps(x[t].s + b));
                s = _mm256_permutevar8x32_ps(
                    s, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
            } else {
                s = _mm256_loadu_ps(x[t].s + b);
            }
            _mm256_storeu_ps(fs[t] + i, _mm256_mul_ps(f, s));
            if (type != KT_Q8_0)
                off[t] = _mm256_fmadd_ps(
                    o, _mm256_loadu_ps(x[t].sum + b0 * per + i), off[t]);
        }
    }
}

/* the parts of n_x rows of x */
INLINE void xrow_init(struct xrow *x, const uint8_t *xq, size_t stride,
                      const struct kmat *w, int n_x)
{
    for (int t = 0; t < n_x; t++) {
        const void *p = xq + (size_t)t * stride;
        const void *q = xq + (size_t)t * stride + q_offset(w->type, w->d_in);

        x[t].s = p;
        x[t].sum = x[t].s + n8(w->d_in);
        x[t].q = q;
    }
}

#endif
