/*
 * gemm_u4_avx512vnni.c - 4-bit weights and 8-bit activations with AVX512-VNNI;
 * gemm_u4_x86.h is the code.
 *
 * vpdpbusd adds four products to 32 bits.  6 rows x 32 tokens: 12 such sums
 * and 12 chains in f32, all in registers.
 *
 * Bound by the vector ports: of 12 operations for 16 tokens, a row and 32
 * inputs 8 multiply.  Tried on a Zen 5: 12 rows, the chains in L1 (0.65-0.9
 * of the speed).
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/simd_avx512.h"

#define MR 6
#define NG 2
#include "kernels/x86/gemm_u4_x86.h"

/* as asm: of an intrinsic gcc 12 copies the sum at every step */
INLINE __m512i dot(__m512i sum, __m512i w, __m512i x)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
}

INLINE void rows(float *acc, size_t lda, const struct panel *p, const float *x,
                 size_t ldx, int nb, const int nr, const int ng)
{
    VF y[MR][NG];

#pragma GCC unroll 6
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 2
        for (int g = 0; g < ng; g++)
            y[r][g] = v_load(acc + (size_t)g * lda + r * GW);
    for (int b = 0; b < nb; b++, x += BLOCK) {
        __m512i c[MR][NG];

#pragma GCC unroll 6
        for (int r = 0; r < nr; r++)
#pragma GCC unroll 2
            for (int g = 0; g < ng; g++)
                c[r][g] = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m512i a[NG];

#pragma GCC unroll 2
            for (int g = 0; g < ng; g++)
                a[g] = _mm512_load_si512(x + (size_t)g * ldx + 2 * GW + 16 * i);
#pragma GCC unroll 6
            for (int r = 0; r < nr; r++) {
                __m512i w = _mm512_set1_epi32(four_weights(p, r, b, i));

#pragma GCC unroll 2
                for (int g = 0; g < ng; g++)
                    c[r][g] = dot(c[r][g], w, a[g]);
            }
        }
#pragma GCC unroll 6
        for (int r = 0; r < nr; r++) {
            VF f = v_bcast(p->f + r * NB + b), o = v_bcast(p->o + r * NB + b);

#pragma GCC unroll 2
            for (int g = 0; g < ng; g++) {
                const float *scales = x + (size_t)g * ldx;
                VF s = v_mul(f, v_load(scales));

                y[r][g] = v_fma(_mm512_cvtepi32_ps(c[r][g]), s, y[r][g]);
                y[r][g] = v_fma(o, v_load(scales + GW), y[r][g]);
            }
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 2
        for (int g = 0; g < ng; g++)
            v_store(acc + (size_t)g * lda + r * GW, y[r][g]);
}

#define ROWS_CASE(n)                              \
    case n:                                       \
        if (ng == NG)                             \
            rows(acc, lda, p, x, ldx, nb, n, NG); \
        else                                      \
            rows(acc, lda, p, x, ldx, nb, n, 1);  \
        break

static void micro(float *acc, size_t lda, const struct panel *p, const float *x,
                  size_t ldx, int nb, int nr, int ng)
{
    switch (nr) {
        ROWS_CASE(1);
        ROWS_CASE(2);
        ROWS_CASE(3);
        ROWS_CASE(4);
        ROWS_CASE(5);
        ROWS_CASE(6);
    }
}

GEMM_U4(gemm_u4_avx512vnni)
