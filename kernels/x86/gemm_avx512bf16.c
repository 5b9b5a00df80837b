/*
 * gemm_avx512bf16.c - the prompt phase in pairs of bf16 (AVX512-BF16), the
 * order of operations that kernels.h calls bf16-pairs; gemm_simd.h is the
 * code.
 *
 * Bound by the ports of vdpbf16ps: as many multiplications of pairs as there
 * are of f32 on a Zen 4, a quarter as many on a Sapphire Rapids.
 */
#include "kernels/x86/avx512.h"
#include "kernels/gemm_fast.h"
#include "kernels/x86/simd_avx512.h"

/* n > 0 floats at x: 16 pairs, the first of each in the lower half */
INLINE VF load_pairs(const float *x, int n)
{
    VF lo = n >= VW ? v_load(x) : v_load_n(x, n);
    VF hi = n >= 2 * VW ? v_load(x + VW)
            : n > VW    ? v_load_n(x + VW, n - VW)
                        : v_zero();

    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(hi, lo));
}

INLINE VF muladd(VF a, VF b, VF c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
}

static void unpack_pairs(float *out, int type, const uint8_t *p, int n)
{
    float stage[512];

    unpack_avx512(stage, type, p, n);
    for (int i = 0; i < n; i += 2 * VW)
        v_store_n(out + i / 2, load_pairs(stage + i, n - i),
                  n - i < 2 * VW ? (n - i + 1) / 2 : VW);
}

#define MR         14
#define PB         2
#define UNIT       2
#define LOAD_UNITS load_pairs
#define MULADD     muladd
#define UNPACK     unpack_pairs
#include "kernels/gemm_simd.h"

_Static_assert(KC *UNIT <= 512, "the stage of unpack_pairs is too small");

GEMM_ENTRIES(gemm_avx512bf16)
