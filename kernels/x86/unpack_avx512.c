/*
 * unpack_avx512.c - stored weights to f32 for the gemm's panel.
 *
 * A block of 4-bit weights has only 16 different values: they are computed
 * once (one fma) and looked up with vpermps, which takes its index from the
 * low four bits of each lane, so low nibbles need no mask and high nibbles
 * one shift.  Five bits take two tables and vpermt2ps.  Six and eight bits
 * are converted.  Bound by the shuffle port: 3 per 32 weights for four bits.
 */
#include "kernels/x86/avx512.h"
#include "kernels/quant.h"
#include "kernels/x86/simd_avx512.h"

#include <string.h>

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE float half(const uint8_t *p)
{
    return _cvtsh_ss(quant_u16(p));
}

INLINE VF count_from(float x)
{
    return v_add(v_set1(x), _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                           12, 13, 14, 15));
}

INLINE __m512i widen(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(load16(p));
}

INLINE __m512i fifth(__m512i v, uint16_t bits)
{
    /* the nibble above is not clean: clear bit 4, then set it */
    v = _mm512_and_epi32(v, _mm512_set1_epi32(15));
    return _mm512_mask_or_epi32(v, bits, v, _mm512_set1_epi32(16));
}

/* the 16 values of a block of 4 bits, or each half of those of 5 */
INLINE VF table(const uint8_t *p, const int type, float from)
{
    VF f = v_set1(half(p));

    if (type == KT_Q4_1 || type == KT_Q5_1)
        return v_fma(f, count_from(from), v_set1(half(p + 2)));
    return v_mul(f, count_from(from - (type == KT_Q4_0 ? 8.0f : 16.0f)));
}

INLINE void blocks32(float *out, const uint8_t *p, int n, const int type)
{
    const size_t size = kt_block_bytes(type);

    for (int b = 0; b < n / 32; b++, p += size, out += 32) {
        __m512i q = widen(p + size - 16);
        VF lo = table(p, type, 0), hi;

        if (type == KT_Q4_0 || type == KT_Q4_1) {
            v_store(out, _mm512_permutexvar_ps(q, lo));
            v_store(out + 16,
                    _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), lo));
            continue;
        }
        hi = table(p, type, 16);
        v_store(out, _mm512_permutex2var_ps(
                         lo, fifth(q, quant_u16(p + size - 20)), hi));
        q = _mm512_srli_epi32(q, 4);
        v_store(out + 16, _mm512_permutex2var_ps(
                              lo, fifth(q, quant_u16(p + size - 18)), hi));
    }
}

static void blocks_q8_0(float *out, const uint8_t *p, int n)
{
    for (int b = 0; b < n / 32; b++, p += 34, out += 32) {
        VF f = v_set1(half(p));

        for (int i = 0; i < 32; i += 16)
            v_store(out + i, v_mul(f, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
                                          load16(p + 2 + i)))));
    }
}

/* Two blocks share their bytes: low nibbles of the first, high of the other */
INLINE void blocks_q4k_q5k(float *out, const uint8_t *p, int n, const int type)
{
    for (int s = 0; s < n / 256; s++, p += kt_block_bytes(type)) {
        const uint8_t *qh = p + 16, *qs = type == KT_Q5_K ? qh + 32 : qh;
        float d = half(p), dmin = half(p + 2);

        for (int j = 0; j < 8; j += 2, qs += 32, out += 64) {
            VF t[2][2];

            for (int k = 0; k < 2; k++) {
                int sc, mn;
                VF f, m;

                quant_scale_min(p + 4, j + k, &sc, &mn);
                f = v_set1(d * (float)sc);
                m = v_set1(-(dmin * (float)mn));
                t[k][0] = v_fma(f, count_from(0), m);
                if (type == KT_Q5_K)
                    t[k][1] = v_fma(f, count_from(16), m);
            }
            for (int h = 0; h < 32; h += 16) {
                __m512i q[2];

                q[0] = widen(qs + h);
                q[1] = _mm512_srli_epi32(q[0], 4);
                for (int k = 0; k < 2; k++)
                    if (type == KT_Q5_K) {
                        __m128i bit = _mm_set1_epi8((char)(1 << (j + k)));
                        uint16_t bits =
                            (uint16_t)_mm_test_epi8_mask(load16(qh + h), bit);

                        v_store(out + 32 * k + h,
                                _mm512_permutex2var_ps(
                                    t[k][0], fifth(q[k], bits), t[k][1]));
                    } else {
                        v_store(out + 32 * k + h,
                                _mm512_permutexvar_ps(q[k], t[k][0]));
                    }
            }
        }
    }
}

static void blocks_q6k(float *out, const uint8_t *p, int n)
{
    for (int s = 0; s < n / 256; s++, p += 210) {
        float d = half(p + 208);

        for (int i = 0; i < 16; i++, out += 16) {
            int j = i / 2, k = j % 4, h = i % 2 * 16;
            __m128i lo = load16(p + j / 4 * 64 + k % 2 * 32 + h);
            __m128i hi = load16(p + 128 + j / 4 * 32 + h);

            lo = _mm_srl_epi16(lo, _mm_cvtsi32_si128(k / 2 * 4));
            lo = _mm_and_si128(lo, _mm_set1_epi8(15));
            hi = _mm_srl_epi16(hi, _mm_cvtsi32_si128(2 * k));
            hi = _mm_and_si128(hi, _mm_set1_epi8(3));
            lo = _mm_or_si128(lo, _mm_slli_epi16(hi, 4));
            lo = _mm_sub_epi8(lo, _mm_set1_epi8(32));
            v_store(out, v_mul(v_set1(d * (float)(int8_t)p[192 + i]),
                               _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(lo))));
        }
    }
}

static void floats16(float *out, const uint8_t *p, int n, bool bf)
{
    for (int i = 0; i < n; i += 16) {
        int m = n - i < 16 ? n - i : 16;
        __m256i h = _mm256_maskz_loadu_epi16(v_mask(m), p + 2 * (size_t)i);
        VF v = bf ? _mm512_castsi512_ps(
                        _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))
                  : _mm512_cvtph_ps(h);

        v_store_n(out + i, v, m);
    }
}

void unpack_avx512(float *out, int type, const uint8_t *p, int n)
{
    switch (type) {
    case KT_F32:
        memcpy(out, p, (size_t)n * sizeof *out);
        break;
    case KT_F16:
        floats16(out, p, n, false);
        break;
    case KT_BF16:
        floats16(out, p, n, true);
        break;
    case KT_Q4_0:
        blocks32(out, p, n, KT_Q4_0);
        break;
    case KT_Q4_1:
        blocks32(out, p, n, KT_Q4_1);
        break;
    case KT_Q5_0:
        blocks32(out, p, n, KT_Q5_0);
        break;
    case KT_Q5_1:
        blocks32(out, p, n, KT_Q5_1);
        break;
    case KT_Q8_0:
        blocks_q8_0(out, p, n);
        break;
    case KT_Q4_K:
        blocks_q4k_q5k(out, p, n, KT_Q4_K);
        break;
    case KT_Q5_K:
        blocks_q4k_q5k(out, p, n, KT_Q5_K);
        break;
    case KT_Q6_K:
        blocks_q6k(out, p, n);
        break;
    }
}

void dequant_avx512(float *out, const struct kmat *w, int r)
{
    unpack_avx512(out, w->type, kmat_row(w, r), w->d_in);
}
