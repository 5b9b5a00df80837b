/*
 * simd_avx512.h - vectors of 16 floats; the names are simd_avx2.h's.
 */
#ifndef KERNELS_X86_SIMD_AVX512_H
#define KERNELS_X86_SIMD_AVX512_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/exp2.h"
#include "kernels/set.h"

#define VW 16

typedef __m512 VF;

INLINE __mmask16 v_mask(int n)
{
    return (__mmask16)((1u << n) - 1);
}

/* The line of p to all caches; to L2; to L1 for writing. */
INLINE void v_prefetch(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}
INLINE void v_prefetch_l2(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T1);
}
INLINE void v_prefetch_write(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_ET0);
}

INLINE VF v_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE VF v_set1(float x)
{
    return _mm512_set1_ps(x);
}
INLINE VF v_bcast(const float *p)
{
    return _mm512_set1_ps(*p);
}
INLINE VF v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void v_store(float *p, VF v)
{
    _mm512_storeu_ps(p, v);
}
INLINE VF v_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(v_mask(n), p);
}
INLINE void v_store_n(float *p, VF v, int n)
{
    _mm512_mask_storeu_ps(p, v_mask(n), v);
}
INLINE VF v_keep_n(VF v, VF other, int n)
{
    return _mm512_mask_blend_ps(v_mask(n), other, v);
}
INLINE VF v_add(VF a, VF b)
{
    return _mm512_add_ps(a, b);
}
INLINE VF v_sub(VF a, VF b)
{
    return _mm512_sub_ps(a, b);
}
INLINE VF v_mul(VF a, VF b)
{
    return _mm512_mul_ps(a, b);
}
INLINE VF v_div(VF a, VF b)
{
    return _mm512_div_ps(a, b);
}
INLINE VF v_max(VF a, VF b)
{
    return _mm512_max_ps(a, b);
}
INLINE VF v_fma(VF a, VF b, VF c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE VF v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(
        _mm256_loadu_si256((const __m256i *)(const void *)p));
}
INLINE VF v_load_f16_n(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_mask(n), p));
}

INLINE VF v_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
        _mm_loadu_si128((const __m128i *)(const void *)p)));
}
INLINE VF v_load_i8_n(const int8_t *p, int n)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(v_mask(n), p)));
}
/* to nearest even; |v| <= 127 */
INLINE void v_store_i8_n(int8_t *p, VF v, int n)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, v_mask(n), _mm512_cvtps_epi32(v));
}
INLINE VF v_abs(VF v)
{
    return _mm512_abs_ps(v);
}
INLINE bool v_all_finite(VF v)
{
    return _mm512_cmp_ps_mask(v_abs(v), v_set1(3.40282347e+38f), _CMP_LE_OQ) ==
           0xffff;
}
/* lane i <-> lane i ^ h, h = 1, 2, 4, 8 */
INLINE VF v_swap(VF v, int h)
{
    return h == 1   ? _mm512_permute_ps(v, 0xb1)
           : h == 2 ? _mm512_permute_ps(v, 0x4e)
           : h == 4 ? _mm512_shuffle_f32x4(v, v, 0xb1)
                    : _mm512_shuffle_f32x4(v, v, 0x4e);
}
/* lanes i with i & h negated */
INLINE VF v_negate_upper(VF v, int h)
{
    const __mmask16 upper = h == 1   ? 0xaaaa
                            : h == 2 ? 0xcccc
                            : h == 4 ? 0xf0f0
                                     : 0xff00;

    return _mm512_mask_xor_ps(v, upper, v, v_set1(-0.0f));
}

INLINE VF v_exp2(VF x)
{
    __mmask16 keep = _mm512_cmp_ps_mask(x, v_set1(EXP2_LO), _CMP_NLT_UQ);
    VF t, f, p;

    x = _mm512_min_ps(v_set1(EXP2_HI), x); /* in this order a NaN stays */
    t = v_add(x, v_set1(EXP2_MAGIC));
    f = v_sub(x, v_sub(t, v_set1(EXP2_MAGIC)));
    p = v_fma(v_set1(EXP2_C6), f, v_set1(EXP2_C5));
    p = v_fma(p, f, v_set1(EXP2_C4));
    p = v_fma(p, f, v_set1(EXP2_C3));
    p = v_fma(p, f, v_set1(EXP2_C2));
    p = v_fma(p, f, v_set1(EXP2_C1));
    p = v_fma(p, f, v_set1(1.0f));
    t = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
    return _mm512_maskz_mul_ps(keep, p, t);
}

/* of x <= 0: the cubic of exp2.h */
INLINE VF v_exp2_cubic(VF x)
{
    VF t, f, p;

    x = v_max(v_set1(EXP2_CUBIC_LO), x); /* in this order a NaN stays */
    t = v_add(x, v_set1(EXP2_MAGIC));
    f = v_sub(x, v_sub(t, v_set1(EXP2_MAGIC)));
    p = v_fma(v_set1(EXP2_CUBIC_C3), f, v_set1(EXP2_CUBIC_C2));
    p = v_fma(p, f, v_set1(EXP2_CUBIC_C1));
    p = v_fma(p, f, v_set1(EXP2_CUBIC_C0));
    t = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
    return v_mul(p, t);
}

INLINE VF v_ceil(VF v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

INLINE float v_fold8(__m256 v)
{
    __m128 a =
        _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
INLINE float v_fold16(const VF *v)
{
    return v_fold8(_mm256_add_ps(_mm512_castps512_ps256(v[0]),
                                 _mm512_extractf32x8_ps(v[0], 1)));
}
INLINE float v_fold32(const VF *v)
{
    VF a = v_add(v[0], v[1]);

    return v_fold16(&a);
}

INLINE float v_hmax(VF v)
{
    __m256 b =
        _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 a =
        _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));

    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

/* r[i] lane j <-> r[j] lane i */
INLINE void v_transpose(VF r[VW])
{
    VF t[16], u[16];

    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = _mm512_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            u[i + 2 * j + 1] = _mm512_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) { /* u[4a + i]: rows 4a.., columns 4b + i */
        t[i] = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

#endif
