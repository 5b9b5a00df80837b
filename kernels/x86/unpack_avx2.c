/*
 * unpack_avx2.c - stored weights to f32, a run of whole blocks at a time.
 *
 * For the gemm's panel, the embedding and exact rows.  Every type comes down
 * to 16 integer bytes, a scale and an offset (put16); the layouts are in
 * quant.h.  Bound by the shuffle port (one widening of 8 bytes per vector):
 * about 0.25 cycles a weight, against d_in * n_tok / 16 for its use.
 */
#include "kernels/x86/avx2.h"
#include "kernels/quant.h"
#include "kernels/x86/simd_avx2.h"

#include <string.h>

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE float half(const uint8_t *p)
{
    return _cvtsh_ss(quant_u16(p));
}

/* out[i] = f * q[i], signed bytes */
INLINE void put16_mul(float *out, __m128i q, VF f)
{
    VF a = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    VF b = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));

    v_store(out, v_mul(f, a));
    v_store(out + 8, v_mul(f, b));
}

/* out[i] = fmaf(f, q[i], m) */
INLINE void put16_fma(float *out, __m128i q, VF f, VF m)
{
    VF a = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    VF b = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));

    v_store(out, v_fma(f, a, m));
    v_store(out + 8, v_fma(f, b, m));
}

INLINE __m128i low4(__m128i v)
{
    return _mm_and_si128(v, _mm_set1_epi8(15));
}

INLINE __m128i high4(__m128i v)
{
    return low4(_mm_srli_epi16(v, 4));
}

/* 16 bits to 16 bytes of 0 or 16 */
INLINE __m128i fifth(const uint8_t *p)
{
    const __m128i spread =
        _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i bit = _mm_set1_epi64x((long long)0x8040201008040201ull);
    __m128i v = _mm_shuffle_epi8(_mm_set1_epi16((int16_t)quant_u16(p)), spread);

    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(v, bit), bit),
                         _mm_set1_epi8(16));
}

INLINE void blocks32(float *out, const uint8_t *p, int n, const int type)
{
    size_t size = kt_block_bytes(type);

    for (int b = 0; b < n / 32; b++, p += size, out += 32) {
        bool has_m = type == KT_Q4_1 || type == KT_Q5_1;
        bool five = type == KT_Q5_0 || type == KT_Q5_1;
        VF f = v_set1(half(p)), m = has_m ? v_set1(half(p + 2)) : v_zero();
        __m128i lo, hi, off;

        if (type == KT_Q8_0) {
            put16_mul(out, load16(p + 2), f);
            put16_mul(out + 16, load16(p + 18), f);
            continue;
        }
        lo = low4(load16(p + size - 16));
        hi = high4(load16(p + size - 16));
        if (five) {
            lo = _mm_or_si128(lo, fifth(p + size - 20));
            hi = _mm_or_si128(hi, fifth(p + size - 18));
        }
        if (has_m) {
            put16_fma(out, lo, f, m);
            put16_fma(out + 16, hi, f, m);
            continue;
        }
        off = _mm_set1_epi8(five ? 16 : 8);
        put16_mul(out, _mm_sub_epi8(lo, off), f);
        put16_mul(out + 16, _mm_sub_epi8(hi, off), f);
    }
}

INLINE void blocks_q4k_q5k(float *out, const uint8_t *p, int n, const int type)
{
    for (int s = 0; s < n / 256; s++, p += kt_block_bytes(type)) {
        const uint8_t *qh = p + 16, *qs = type == KT_Q5_K ? qh + 32 : qh;
        float d = half(p), dmin = half(p + 2);

        for (int j = 0; j < 8; j++, out += 32) {
            int sc, mn;
            VF f, m;

            quant_scale_min(p + 4, j, &sc, &mn);
            f = v_set1(d * (float)sc);
            m = v_set1(-(dmin * (float)mn));
            for (int h = 0; h < 32; h += 16) {
                __m128i v = load16(qs + j / 2 * 32 + h);

                v = j % 2 ? high4(v) : low4(v);
                if (type == KT_Q5_K) {
                    __m128i bit = _mm_set1_epi8((char)(1 << j));
                    __m128i on =
                        _mm_cmpeq_epi8(_mm_and_si128(load16(qh + h), bit), bit);

                    v = _mm_or_si128(v, _mm_and_si128(on, _mm_set1_epi8(16)));
                }
                put16_fma(out + h, v, f, m);
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

            lo = k / 2 ? high4(lo) : low4(lo);
            hi = _mm_and_si128(_mm_srl_epi16(hi, _mm_cvtsi32_si128(2 * k)),
                               _mm_set1_epi8(3));
            lo = _mm_or_si128(lo, _mm_slli_epi16(hi, 4));
            put16_mul(out, _mm_sub_epi8(lo, _mm_set1_epi8(32)),
                      v_set1(d * (float)(int8_t)p[192 + i]));
        }
    }
}

static void floats16(float *out, const uint8_t *p, int n, bool bf)
{
    int i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i h = load16(p + 2 * (size_t)i);

        v_store(out + i, bf ? _mm256_castsi256_ps(_mm256_slli_epi32(
                                  _mm256_cvtepu16_epi32(h), 16))
                            : _mm256_cvtph_ps(h));
    }
    for (; i < n; i++) {
        uint16_t h = quant_u16(p + 2 * (size_t)i);

        out[i] = bf ? bf16_to_f32(h) : f16_to_f32(h);
    }
}

void unpack_avx2(float *out, int type, const uint8_t *p, int n)
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
        blocks32(out, p, n, KT_Q8_0);
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

void dequant_avx2(float *out, const struct kmat *w, int r)
{
    unpack_avx2(out, w->type, kmat_row(w, r), w->d_in);
}
