/*
 * rows_avx2.c - generation phase: one to four tokens, each weight row read
 * once, as it lies in the model file.
 *
 * Quantized types: 32 weights become a vector of bytes, split into even and
 * odd elements as i16 (no widening shuffle), and vpmaddwd with x gives the
 * exact sums of quads that kernels.h asks for.  rows_x86.h has the form of
 * x and the scales of 64 blocks, prepared ahead of them.
 *
 * Bound by reading the weights when they come from memory and one core has
 * little of its bandwidth, else by the ALU ports: 9 operations per block of
 * 32 for Q4_1, 4 of them vpmaddwd, conversion and fma per token.
 * Tried: several rows at a time, software prefetch: both slower (SPIKES.md).
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#include "kernels/x86/rows_x86.h"

#include <math.h>

size_t rows_avx2_x_size(int type, int d_in, bool exact)
{
    size_t n = (size_t)d_in;

    if (is_float(type, exact))
        return ((n + 31) / 32 * 32 * sizeof(float) + 63) & ~(size_t)63;
    return (q_offset(type, d_in) + n * sizeof(int16_t) + 63) & ~(size_t)63;
}

INLINE int hsum(__m256i v)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v),
                              _mm256_extracti128_si256(v, 1));

    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

/* 32 values to i16: even and odd elements, sums of the halves, the scale */
INLINE float quantize(const float *x, __m256i *even, __m256i *odd, int sum[2])
{
    const __m256i abs = _mm256_set1_epi32(0x7fffffff);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i v[4], top, lo, hi;
    uint32_t t[8], u;
    float amax;
    VF inv;

    for (int i = 0; i < 4; i++)
        v[i] = _mm256_and_si256(_mm256_castps_si256(v_load(x + 8 * i)), abs);
    top = _mm256_max_epi32(_mm256_max_epi32(v[0], v[1]),
                           _mm256_max_epi32(v[2], v[3]));
    top = _mm256_max_epi32(top, _mm256_permute4x64_epi64(top, 0x4e));
    top = _mm256_max_epi32(top, _mm256_shuffle_epi32(top, 0x4e));
    top = _mm256_max_epi32(top, _mm256_shuffle_epi32(top, 0xb1));
    _mm256_storeu_si256((__m256i *)(void *)t, top);
    u = t[0];
    memcpy(&amax, &u, sizeof amax);
    *even = *odd = _mm256_setzero_si256();
    sum[0] = sum[1] = 0;
    if (u >= 0x7f800000)
        return NAN;
    if (amax < 0x1p-100f)
        return 0.0f;
    inv = v_set1(32767.0f / amax);
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(v_mul(v_load(x + 8 * i), inv));
    lo = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8);
    hi = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2], v[3]), 0xd8);
    sum[0] = hsum(_mm256_madd_epi16(lo, ones));
    sum[1] = hsum(_mm256_madd_epi16(hi, ones));
    *even = _mm256_packus_epi32(_mm256_and_si256(lo, low),
                                _mm256_and_si256(hi, low));
    *odd = _mm256_packus_epi32(_mm256_srli_epi32(lo, 16),
                               _mm256_srli_epi32(hi, 16));
    *even = _mm256_permute4x64_epi64(*even, 0xd8);
    *odd = _mm256_permute4x64_epi64(*odd, 0xd8);
    return amax / 32767.0f;
}

void rows_avx2_x(void *xq, const float *x, int type, int d_in, bool exact)
{
    int nb = d_in / 32;
    float *s = xq, *sum = s + n8(d_in);
    int16_t *q = (int16_t *)(void *)((uint8_t *)xq + q_offset(type, d_in));

    if (is_float(type, exact)) {
        memcpy(xq, x, (size_t)d_in * sizeof *x);
        memset(s + d_in, 0, (size_t)(-d_in & 31) * sizeof *s);
        return;
    }
    memset(xq, 0, q_offset(type, d_in));
    for (int b = 0; b < nb; b++) {
        int16_t *to = q + b / 2 * 64 + b % 2 * 16;
        __m256i even, odd;
        int n[2];

        s[b] = quantize(x + 32 * b, &even, &odd, n);
        if (type == KT_Q6_K) {
            sum[2 * b] = s[b] * (float)n[0];
            sum[2 * b + 1] = s[b] * (float)n[1];
        } else {
            sum[b] = s[b] * (float)(n[0] + n[1]);
        }
        _mm256_storeu_si256((__m256i *)(void *)to, even);
        _mm256_storeu_si256((__m256i *)(void *)(to + ((b | 1) < nb ? 32 : 16)),
                            odd);
    }
}

/* --------------------------------------------- 32 weights as signed bytes */

INLINE __m256i and8(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* low nibbles to the low, high nibbles to the high half */
INLINE __m256i nibbles(const uint8_t *p)
{
    const __m256i shift = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    __m256i v = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)p));

    return and8(_mm256_srlv_epi32(v, shift), 15);
}

/* 32 bits to 32 bytes of 0 or 16 */
INLINE __m256i fifths(const uint8_t *p)
{
    const __m256i spread = _mm256_setr_epi64x(
        0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    uint32_t u;
    __m256i v;

    memcpy(&u, p, sizeof u);
    v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)u), spread);
    return and8(_mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), 16);
}

INLINE __m256i bytes32(const uint8_t *p, const int type)
{
    const size_t size = kt_block_bytes(type);

    if (type == KT_Q8_0)
        return load32(p + 2);
    if (type == KT_Q5_0 || type == KT_Q5_1)
        return _mm256_or_si256(nibbles(p + size - 16), fifths(p + size - 20));
    return nibbles(p + size - 16);
}

/* blocks j and j + 1 of a super-block, j even */
INLINE void bytes_k(const uint8_t *p, int j, const int type, __m256i v[2])
{
    if (type == KT_Q6_K) {
        const uint8_t *ql = p + j / 4 * 64, *qh = p + 128 + j / 4 * 32;
        __m256i h = load32(qh);

        v[0] = load32(ql);
        v[1] = load32(ql + 32);
        if (j & 2) {
            v[0] = _mm256_srli_epi16(v[0], 4);
            v[1] = _mm256_srli_epi16(v[1], 4);
            v[0] = _mm256_or_si256(and8(v[0], 15), and8(h, 48));
            h = _mm256_srli_epi16(h, 2);
        } else {
            v[0] = _mm256_or_si256(and8(v[0], 15),
                                   and8(_mm256_slli_epi16(h, 4), 48));
            h = _mm256_slli_epi16(h, 2);
        }
        v[1] = _mm256_or_si256(and8(v[1], 15), and8(h, 48));
        return;
    }
    v[1] = load32(p + (type == KT_Q5_K ? 48 : 16) + j / 2 * 32);
    v[0] = and8(v[1], 15);
    v[1] = and8(_mm256_srli_epi16(v[1], 4), 15);
    if (type == KT_Q5_K) {
        __m256i h = _mm256_srl_epi16(load32(p + 16), _mm_cvtsi32_si128(j));

        v[0] = _mm256_or_si256(v[0], and8(_mm256_slli_epi16(h, 4), 16));
        v[1] = _mm256_or_si256(v[1], and8(_mm256_slli_epi16(h, 3), 16));
    }
}

/* -------------------------------------------------------- one weight row */

/* one block into acc: bytes v, x at q and q + odd, scales at fs */
INLINE VF step(VF acc, __m256i v, const int16_t *q, int odd, const float *fs,
               const int type)
{
    __m256i even, n;
    VF f;

    if (type == KT_Q8_0) {
        even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
        v = _mm256_srai_epi16(v, 8);
    } else {
        even = _mm256_and_si256(v, _mm256_set1_epi16(0xff));
        v = _mm256_srli_epi16(v, 8);
    }
    n = _mm256_add_epi32(_mm256_madd_epi16(even, load32(q)),
                         _mm256_madd_epi16(v, load32(q + odd)));
    if (type == KT_Q6_K)
        f = _mm256_permutevar_ps(
            _mm256_castsi256_ps(_mm256_broadcastq_epi64(
                _mm_loadl_epi64((const __m128i *)(const void *)fs))),
            _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    else
        f = v_bcast(fs);
    return v_fma(_mm256_cvtepi32_ps(n), f, acc);
}

INLINE void dot_int(float *y, size_t ldy, const uint8_t *row,
                    const struct xrow *x, int nb, const int type, const int n_x)
{
    const int per = type == KT_Q6_K ? 2 : 1;
    const size_t size = kt_block_bytes(type);
    float fs[FEW][2 * SPAN];
    VF acc[FEW][2], off[FEW];

#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++)
        acc[t][0] = acc[t][1] = off[t] = v_zero();
    for (int b0 = 0; b0 < nb; b0 += SPAN) {
        int n = nb - b0 < SPAN ? nb - b0 : SPAN, b = 0;

        prepare(fs, off, row, x, b0, n, type, n_x);
        for (; b + 2 <= n; b += 2) {
            int i = b0 + b;
            __m256i v[2];

            if (kt_block_weights(type) == 256) {
                bytes_k(row + (size_t)(i / 8) * size, i % 8, type, v);
            } else {
                v[0] = bytes32(row + (size_t)i * size, type);
                v[1] = bytes32(row + (size_t)i * size + size, type);
            }
#pragma GCC unroll 4
            for (int t = 0; t < n_x; t++) {
                const int16_t *q = x[t].q + 32 * i;

                acc[t][0] = step(acc[t][0], v[0], q, 32, fs[t] + b * per, type);
                acc[t][1] = step(acc[t][1], v[1], q + 16, 32,
                                 fs[t] + b * per + per, type);
            }
        }
        if (b < n) {
            __m256i v = bytes32(row + (size_t)(b0 + b) * size, type);

            for (int t = 0; t < n_x; t++)
                acc[t][0] = step(acc[t][0], v, x[t].q + 32 * (b0 + b), 16,
                                 fs[t] + b, type);
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < n_x; t++) {
        VF a = v_add(acc[t][0], acc[t][1]);

        if (type != KT_Q8_0)
            a = v_add(a, off[t]);
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

/* -------------------------------------------------------- float weights */

INLINE VF load_w(const uint8_t *p, const int type)
{
    const void *q = p;

    if (type == KT_F32)
        return v_load(q);
    if (type == KT_F16)
        return v_load_f16(q);
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)q)), 16));
}

INLINE void dot_float(float *y, size_t ldy, const uint8_t *row, const float *x,
                      size_t ldx, int n, const int type, const int n_x)
{
    const size_t size = kt_block_bytes(type);
    VF acc[2][4];
    int i = 0;

#pragma GCC unroll 2
    for (int t = 0; t < n_x; t++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            acc[t][j] = v_zero();
    for (; i + 32 <= n; i += 32)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            VF w = load_w(row + (size_t)(i + 8 * j) * size, type);

#pragma GCC unroll 2
            for (int t = 0; t < n_x; t++)
                acc[t][j] = v_fma(w, v_load(x + (size_t)t * ldx + i + 8 * j),
                                  acc[t][j]);
        }
    if (i < n) {
        uint8_t tail[128] = { 0 };

        memcpy(tail, row + (size_t)i * size, (size_t)(n - i) * size);
        for (int j = 0; j < 4; j++)
            for (int t = 0; t < n_x; t++)
                acc[t][j] =
                    v_fma(load_w(tail + (size_t)(8 * j) * size, type),
                          v_load(x + (size_t)t * ldx + i + 8 * j), acc[t][j]);
    }
    for (int t = 0; t < n_x; t++)
        y[(size_t)t * ldy] = v_fold32(acc[t]);
}

/* four tokens are two passes over a row: 16 accumulators would spill */
INLINE void rows_float(float *y, size_t ldy, const uint8_t *xq, size_t stride,
                       int n_x, const struct kmat *w, int row0, int row1,
                       const int type)
{
    const void *p = xq;
    const float *x = p;
    size_t ldx = stride / sizeof *x;

    for (int r = row0; r < row1; r++)
        for (int t = 0; t < n_x; t += 2) {
            float *to = y + (size_t)t * ldy + r;

            if (n_x - t > 1)
                dot_float(to, ldy, kmat_row(w, r), x + (size_t)t * ldx, ldx,
                          w->d_in, type, 2);
            else
                dot_float(to, ldy, kmat_row(w, r), x + (size_t)t * ldx, ldx,
                          w->d_in, type, 1);
        }
}

/* exact: quantized weights expanded, f32 x; not made for speed */
static void rows_exact(float *y, size_t ldy, const uint8_t *xq, size_t stride,
                       int n_x, const struct kmat *w, int row0, int row1)
{
    enum { CHUNK = 256 };
    size_t block = (size_t)kt_block_weights(w->type);

    for (int r = row0; r < row1; r++) {
        const uint8_t *row = kmat_row(w, r);
        VF acc[FEW][4];
        float buf[CHUNK];

        for (int t = 0; t < n_x; t++)
            for (int j = 0; j < 4; j++)
                acc[t][j] = v_zero();
        for (int i = 0; i < w->d_in; i += CHUNK) {
            int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

            unpack_avx2(buf, w->type,
                        row + (size_t)i / block * kt_block_bytes(w->type), n);
            for (int t = 0; t < n_x; t++) {
                const void *p = xq + (size_t)t * stride;
                const float *x = p;

                for (int k = 0; k < n; k += 32)
                    for (int j = 0; j < 4; j++)
                        acc[t][j] = v_fma(v_load(buf + k + 8 * j),
                                          v_load(x + i + k + 8 * j), acc[t][j]);
            }
        }
        for (int t = 0; t < n_x; t++)
            y[(size_t)t * ldy + (size_t)r] = v_fold32(acc[t]);
    }
}

#define INT_CASE(type)                                               \
    case type:                                                       \
        if (n_x == 1)                                                \
            rows_int(y, ldy, xq, xq_stride, w, row0, row1, type, 1); \
        else if (n_x == 2)                                           \
            rows_int(y, ldy, xq, xq_stride, w, row0, row1, type, 2); \
        else if (n_x == 3)                                           \
            rows_int(y, ldy, xq, xq_stride, w, row0, row1, type, 3); \
        else                                                         \
            rows_int(y, ldy, xq, xq_stride, w, row0, row1, type, 4); \
        break
#define FLOAT_CASE(type)                                             \
    case type:                                                       \
        rows_float(y, ldy, xq, xq_stride, n_x, w, row0, row1, type); \
        break

static void few(float *y, size_t ldy, const uint8_t *xq, size_t xq_stride,
                int n_x, const struct kmat *w, int row0, int row1, bool exact)
{
    if (exact && kt_quantized(w->type)) {
        rows_exact(y, ldy, xq, xq_stride, n_x, w, row0, row1);
        return;
    }
    switch (w->type) {
        FLOAT_CASE(KT_F32);
        FLOAT_CASE(KT_F16);
        FLOAT_CASE(KT_BF16);
        INT_CASE(KT_Q4_0);
        INT_CASE(KT_Q4_1);
        INT_CASE(KT_Q5_0);
        INT_CASE(KT_Q5_1);
        INT_CASE(KT_Q8_0);
        INT_CASE(KT_Q4_K);
        INT_CASE(KT_Q5_K);
        INT_CASE(KT_Q6_K);
    }
}

void rows_avx2(float *y, size_t ldy, const void *xq, size_t xq_stride, int n_x,
               const struct kmat *w, int row0, int row1, bool exact,
               float *scratch)
{
    const uint8_t *x = xq;

    (void)scratch;
    for (int t = 0; t < n_x; t += FEW)
        few(y + (size_t)t * ldy, ldy, x + (size_t)t * xq_stride, xq_stride,
            n_x - t < FEW ? n_x - t : FEW, w, row0, row1, exact);
}
