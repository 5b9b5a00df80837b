/*
 * rows_few_simd.h - up to FEW tokens and a row of quantized weights with
 * 512-bit vectors; included by rows_avx512.c and rows_avx512vnni.c, which
 * bring quad_sums: the sums over pairs of a times x, and those of b times y.
 */
#ifndef KERNELS_X86_ROWS_FEW_SIMD_H
#define KERNELS_X86_ROWS_FEW_SIMD_H

#include "kernels/x86/rows_avx512.h"

/* the scales of two blocks, at fs, to the lanes they belong to */
INLINE VF spread(const float *fs, const int type)
{
    if (type == KT_Q6_K)
        return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(fs)),
                                    quads(0, 1, 2, 3));
    return _mm512_permutevar_ps(
        _mm512_castsi512_ps(_mm512_broadcastq_epi64(
            _mm_loadl_epi64((const __m128i *)(const void *)fs))),
        quads(0, 0, 1, 1));
}

/* the lone last block, in the lower lanes */
INLINE VF last(VF acc, const uint8_t *p, const int16_t *q, float f,
               const int type)
{
    __m512i even, odd;
    __m256i n;
    __m256 a;

    split(bytes32(p, type), &even, &odd, type);
    n = _mm256_add_epi32(
        _mm256_madd_epi16(_mm512_castsi512_si256(even), load32(q)),
        _mm256_madd_epi16(_mm512_castsi512_si256(odd), load32(q + 16)));
    a = _mm256_fmadd_ps(_mm256_cvtepi32_ps(n), _mm256_set1_ps(f),
                        _mm512_castps512_ps256(acc));
    return _mm512_insertf32x8(acc, a, 0);
}

/* two blocks of weights, the i-th of x and the b-th of fs */
INLINE void two(VF *acc, __m512i v, const struct xrow *x, float fs[][2 * SPAN],
                int i, int b, const int type, const int n_x)
{
    const int per = type == KT_Q6_K ? 2 : 1;
    __m512i even, odd;

    split(v, &even, &odd, type);
#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++) {
        const int16_t *q = x[t].q + 32 * i;
        __m512i d = quad_sums(even, load64(q), odd, load64(q + 32));

        acc[t] =
            v_fma(_mm512_cvtepi32_ps(d), spread(fs[t] + b * per, type), acc[t]);
    }
}

INLINE void dot_int(float *y, size_t ldy, const uint8_t *row,
                    const struct xrow *x, int nb, const int type, const int n_x)
{
    const int per_block = kt_block_weights(type) / 32;
    const int pairs = per_block == 1 ? 1 : 4; /* so that shifts are known */
    const size_t size = kt_block_bytes(type);
    float fs[FEW][2 * SPAN];
    __m256 off[FEW], a;
    VF acc[FEW];

#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++) {
        acc[t] = v_zero();
        off[t] = _mm256_setzero_ps();
    }
    for (int b0 = 0; b0 < nb; b0 += SPAN) {
        int n = nb - b0 < SPAN ? nb - b0 : SPAN, b = 0;

        prepare(fs, off, row, x, b0, n, type, n_x);
        for (; b + pairs * 2 <= n; b += pairs * 2) {
            int i = b0 + b;
            const uint8_t *p = row + (size_t)i * size / (size_t)per_block;

#pragma GCC unroll 4
            for (int j = 0; j < pairs * 2; j += 2) {
                ahead(p + (size_t)j * size / (size_t)per_block);
                two(acc,
                    per_block == 1 ? bytes32x2(p, type) : bytes_k(p, j, type),
                    x, fs, i + j, b + j, type, n_x);
            }
        }
        if (b < n)
            for (int t = 0; t < n_x; t++)
                acc[t] = last(acc[t], row + (size_t)(b0 + b) * size,
                              x[t].q + 32 * (b0 + b), fs[t][b], type);
    }
#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++) {
        a = _mm256_add_ps(_mm512_castps512_ps256(acc[t]),
                          _mm512_extractf32x8_ps(acc[t], 1));
        if (type != KT_Q8_0)
            a = _mm256_add_ps(a, off[t]);
        y[(size_t)t * ldy] = v_fold8(a);
    }
}

INLINE void rows_int(float *y, size_t ldy, const uint8_t *xq, size_t stride,
                     const struct kmat *w, int row0, int row1, const int type,
                     const int n_x)
{
    struct xrow x[FEW];

    xrow_init(x, xq, stride, w, n_x);
    for (int r = row0; r < row1; r++)
        dot_int(y + r, ldy, kmat_row(w, r), x, w->d_in / 32, type, n_x);
}

#define FEW_CASE(rows, type)                                     \
    case type:                                                   \
        if (n_x == 1)                                            \
            rows(y, ldy, xq, xq_stride, w, row0, row1, type, 1); \
        else if (n_x == 2)                                       \
            rows(y, ldy, xq, xq_stride, w, row0, row1, type, 2); \
        else if (n_x == 3)                                       \
            rows(y, ldy, xq, xq_stride, w, row0, row1, type, 3); \
        else                                                     \
            rows(y, ldy, xq, xq_stride, w, row0, row1, type, 4); \
        break

static void few_quantized(float *y, size_t ldy, const uint8_t *xq,
                          size_t xq_stride, int n_x, const struct kmat *w,
                          int row0, int row1)
{
    switch (w->type) {
        FEW_CASE(rows_int, KT_Q4_0);
        FEW_CASE(rows_int, KT_Q4_1);
        FEW_CASE(rows_int, KT_Q5_0);
        FEW_CASE(rows_int, KT_Q5_1);
        FEW_CASE(rows_int, KT_Q8_0);
        FEW_CASE(rows_int, KT_Q4_K);
        FEW_CASE(rows_int, KT_Q5_K);
        FEW_CASE(rows_int, KT_Q6_K);
    }
}

#endif
