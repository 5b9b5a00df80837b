/*
 * rows_avx512.c - generation phase with 512-bit vectors: two blocks of 32
 * weights at a time, in the 16 lanes that kernels.h gives to even and odd
 * blocks.  The form of x and the scales are rows_avx2.c's (rows_x86.h).
 *
 * Bound by reading the weights from memory; in cache by the two vector ports:
 * for Q4_1 5 operations unpack 64 weights and 6 use them, per token: two
 * vpmaddwd, add, conversion, broadcast of two scales, fma.  What quantized
 * weights take is rows_few_simd.h: with VNNI there is no add.
 *
 * Prefetching 2 KB ahead: on a Sapphire Rapids guest, where one core reads
 * 9-14 GB/s, 100 MB of weights went from 7.4 to 9.5 GB/s (BF16), 8.1 to 12.5
 * (Q4_1), 8.1 to 11.7 (Q8_0), 4.9 to 10.6 (Q4_K): the hardware's stream ends
 * at every page.  Tried: 512 bytes (no gain), 4 KB and 8 KB (less).
 *
 * The four pairs of a super-block are written out, because their shifts and
 * masks are constants then: on a Zen 5, one token, in cache, Q4_K 34 to 48,
 * Q5_K 29 to 37, Q6_K 31 to 40 GMAC/s.  Tried there: the same for four pairs
 * of a small type (no gain); their f16 scales by loads and stores, not a
 * gather (0.6 to 0.9 of the speed); two rows of floats at a time, for four
 * tokens (0.95 in cache, 0.65 from memory).
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/rows_avx512.h"

size_t rows_avx512_x_size(int type, int d_in, bool exact)
{
    return rows_avx2_x_size(type, d_in, exact);
}

void rows_avx512_x(void *xq, const float *x, int type, int d_in, bool exact)
{
    rows_avx2_x(xq, x, type, d_in, exact);
}

INLINE __m512i quad_sums(__m512i a, __m512i x, __m512i b, __m512i y)
{
    return _mm512_add_epi32(_mm512_madd_epi16(a, x), _mm512_madd_epi16(b, y));
}

#include "kernels/x86/rows_few_simd.h"

INLINE VF load_w(const uint8_t *p, const int type)
{
    const void *q = p;

    if (type == KT_F32)
        return v_load(q);
    if (type == KT_F16)
        return v_load_f16(q);
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(load32(p)), 16));
}

INLINE void dot_float(float *y, size_t ldy, const uint8_t *row, const float *x,
                      size_t ldx, int n, const int type, const int n_x)
{
    const size_t size = kt_block_bytes(type);
    VF acc[FEW][2];
    int i = 0;

#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++)
        acc[t][0] = acc[t][1] = v_zero();
    for (; i + 32 <= n; i += 32) {
        VF a = load_w(row + (size_t)i * size, type);
        VF b = load_w(row + (size_t)(i + 16) * size, type);

        ahead(row + (size_t)i * size);
#pragma GCC unroll 4
        for (int t = 0; t < n_x; t++) {
            const float *p = x + (size_t)t * ldx + i;

            acc[t][0] = v_fma(a, v_load(p), acc[t][0]);
            acc[t][1] = v_fma(b, v_load(p + 16), acc[t][1]);
        }
    }
    if (i < n) {
        uint8_t tail[128] = { 0 };

        memcpy(tail, row + (size_t)i * size, (size_t)(n - i) * size);
#pragma GCC unroll 4
        for (int t = 0; t < n_x; t++)
            for (int j = 0; j < 2; j++)
                acc[t][j] =
                    v_fma(load_w(tail + (size_t)(16 * j) * size, type),
                          v_load(x + (size_t)t * ldx + i + 16 * j), acc[t][j]);
    }
#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++)
        y[(size_t)t * ldy] = v_fold32(acc[t]);
}

INLINE void rows_float(float *y, size_t ldy, const uint8_t *xq, size_t stride,
                       const struct kmat *w, int row0, int row1, const int type,
                       const int n_x)
{
    const void *p = xq;
    const float *x = p;

    for (int r = row0; r < row1; r++)
        dot_float(y + r, ldy, kmat_row(w, r), x, stride / sizeof *x, w->d_in,
                  type, n_x);
}

static void few(float *y, size_t ldy, const uint8_t *xq, size_t xq_stride,
                int n_x, const struct kmat *w, int row0, int row1)
{
    switch (w->type) {
        FEW_CASE(rows_float, KT_F32);
        FEW_CASE(rows_float, KT_F16);
        FEW_CASE(rows_float, KT_BF16);
    default:
        few_quantized(y, ldy, xq, xq_stride, n_x, w, row0, row1);
    }
}

void rows_avx512(float *y, size_t ldy, const void *xq, size_t xq_stride,
                 int n_x, const struct kmat *w, int row0, int row1, bool exact,
                 float *scratch)
{
    const uint8_t *x = xq;

    if (exact && kt_quantized(w->type)) {
        rows_avx2(y, ldy, xq, xq_stride, n_x, w, row0, row1, exact, scratch);
        return;
    }
    for (int t = 0; t < n_x; t += FEW)
        few(y + (size_t)t * ldy, ldy, x + (size_t)t * xq_stride, xq_stride,
            n_x - t < FEW ? n_x - t : FEW, w, row0, row1);
}
