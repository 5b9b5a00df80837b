/*
 * simd_avx2.h - vectors of 8 floats: what gemm_simd.h, attention_simd.h and
 * layer_simd.h are written in.  simd_avx512.h has the same names at 16.
 *
 *   VW               lanes of a VF
 *   v_*_n(.., n)     the first n lanes only, 0 <= n <= VW; memory after them
 *                    is not touched; the lanes that are left out are zero
 *   v_fold16, 32     the fold of kernels.h over 16 / VW or 32 / VW vectors
 */
#ifndef KERNELS_X86_SIMD_AVX2_H
#define KERNELS_X86_SIMD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/exp2.h"
#include "kernels/set.h"

#define VW 8

typedef __m256 VF;

INLINE __m256i v_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
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
    return _mm256_setzero_ps();
}
INLINE VF v_set1(float x)
{
    return _mm256_set1_ps(x);
}
INLINE VF v_bcast(const float *p)
{
    return _mm256_broadcast_ss(p);
}
INLINE VF v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE void v_store(float *p, VF v)
{
    _mm256_storeu_ps(p, v);
}
INLINE VF v_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, v_mask(n));
}
INLINE void v_store_n(float *p, VF v, int n)
{
    _mm256_maskstore_ps(p, v_mask(n), v);
}
/* lanes from n on replaced by those of other */
INLINE VF v_keep_n(VF v, VF other, int n)
{
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(v_mask(n)));
}
INLINE VF v_add(VF a, VF b)
{
    return _mm256_add_ps(a, b);
}
INLINE VF v_sub(VF a, VF b)
{
    return _mm256_sub_ps(a, b);
}
INLINE VF v_mul(VF a, VF b)
{
    return _mm256_mul_ps(a, b);
}
INLINE VF v_div(VF a, VF b)
{
    return _mm256_div_ps(a, b);
}
INLINE VF v_max(VF a, VF b)
{
    return _mm256_max_ps(a, b);
}
INLINE VF v_fma(VF a, VF b, VF c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE VF v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
/* n is VW: d_head is a multiple of 8 */
INLINE VF v_load_f16_n(const uint16_t *p, int n)
{
    (void)n;
    return v_load_f16(p);
}

INLINE VF v_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
        _mm_loadl_epi64((const __m128i *)(const void *)p)));
}
/* n is VW here too, and below */
INLINE VF v_load_i8_n(const int8_t *p, int n)
{
    (void)n;
    return v_load_i8(p);
}
/* to nearest even; |v| <= 127 */
INLINE void v_store_i8_n(int8_t *p, VF v, int n)
{
    __m256i i = _mm256_cvtps_epi32(v);
    __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(i),
                                _mm256_extracti128_si256(i, 1));

    (void)n;
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(h, h));
}
INLINE VF v_abs(VF v)
{
    return _mm256_andnot_ps(v_set1(-0.0f), v);
}
INLINE bool v_all_finite(VF v)
{
    VF ok = _mm256_cmp_ps(v_abs(v), v_set1(3.40282347e+38f), _CMP_LE_OQ);

    return _mm256_movemask_ps(ok) == 0xff;
}
/* lane i <-> lane i ^ h, h = 1, 2, 4 */
INLINE VF v_swap(VF v, int h)
{
    return h == 1   ? _mm256_permute_ps(v, 0xb1)
           : h == 2 ? _mm256_permute_ps(v, 0x4e)
                    : _mm256_permute2f128_ps(v, v, 0x01);
}
/* lanes i with i & h negated */
INLINE VF v_negate_upper(VF v, int h)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i upper = _mm256_and_si256(lane, _mm256_set1_epi32(h));
    __m256i sign = _mm256_slli_epi32(
        _mm256_cmpgt_epi32(upper, _mm256_setzero_si256()), 31);

    return _mm256_xor_ps(v, _mm256_castsi256_ps(sign));
}

INLINE VF v_exp2(VF x)
{
    VF below = _mm256_cmp_ps(x, v_set1(EXP2_LO), _CMP_LT_OQ), t, f, p;

    x = _mm256_min_ps(v_set1(EXP2_HI), x); /* in this order a NaN stays */
    t = v_add(x, v_set1(EXP2_MAGIC));
    f = v_sub(x, v_sub(t, v_set1(EXP2_MAGIC)));
    p = v_fma(v_set1(EXP2_C6), f, v_set1(EXP2_C5));
    p = v_fma(p, f, v_set1(EXP2_C4));
    p = v_fma(p, f, v_set1(EXP2_C3));
    p = v_fma(p, f, v_set1(EXP2_C2));
    p = v_fma(p, f, v_set1(EXP2_C1));
    p = v_fma(p, f, v_set1(1.0f));
    t = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
    return _mm256_andnot_ps(below, v_mul(p, t));
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
    return v_fold8(v_add(v[0], v[1]));
}
INLINE float v_fold32(const VF *v)
{
    return v_fold8(v_add(v_add(v[0], v[2]), v_add(v[1], v[3])));
}

INLINE float v_hmax(VF v)
{
    __m128 a =
        _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

/* r[i] lane j <-> r[j] lane i */
INLINE void v_transpose(VF r[VW])
{
    VF t[8], u[8];

    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            u[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

#endif
