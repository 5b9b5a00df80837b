/*
 * gemm_u4_avxvnni.c - 4-bit weights and 8-bit activations with AVX-VNNI, for
 * CPUs that have no AVX-512; gemm_u4_x86.h is the code.
 *
 * vpdpbusd adds four products to 32 bits.  6 rows x 16 tokens: 12 such sums
 * in registers, those in f32 stay in acc, in L1.
 *
 * Bound by the vector ports: of 12 operations for 8 tokens, a row and 32
 * inputs 8 multiply.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#define MR 6
#define NG 1
#include "kernels/x86/gemm_u4_x86.h"

/* as asm: of an intrinsic gcc 12 copies the sum at every step */
INLINE __m256i dot(__m256i sum, __m256i w, __m256i x)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
    return sum;
}

INLINE void rows(float *acc, const struct panel *p, const float *x, int nb,
                 const int nr)
{
    for (int b = 0; b < nb; b++, x += BLOCK) {
        const uint8_t *q = (const uint8_t *)(x + 2 * GW);
        __m256i c[MR][2];

#pragma GCC unroll 6
        for (int r = 0; r < nr; r++)
            c[r][0] = c[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m256i a0 = load32(q + 64 * i), a1 = load32(q + 64 * i + 32);

#pragma GCC unroll 6
            for (int r = 0; r < nr; r++) {
                __m256i w = _mm256_set1_epi32(four_weights(p, r, b, i));

                c[r][0] = dot(c[r][0], w, a0);
                c[r][1] = dot(c[r][1], w, a1);
            }
        }
#pragma GCC unroll 6
        for (int r = 0; r < nr; r++) {
            VF f = v_bcast(p->f + r * NB + b), o = v_bcast(p->o + r * NB + b);

#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                float *y = acc + r * GW + 8 * v;
                VF s = v_mul(f, v_load(x + 8 * v));
                VF n = v_fma(_mm256_cvtepi32_ps(c[r][v]), s, v_load(y));

                v_store(y, v_fma(o, v_load(x + GW + 8 * v), n));
            }
        }
    }
}

static void micro(float *acc, size_t lda, const struct panel *p, const float *x,
                  size_t ldx, int nb, int nr, int ng)
{
    (void)lda;
    (void)ldx;
    (void)ng;
    switch (nr) {
    case 1:
        rows(acc, p, x, nb, 1);
        break;
    case 2:
        rows(acc, p, x, nb, 2);
        break;
    case 3:
        rows(acc, p, x, nb, 3);
        break;
    case 4:
        rows(acc, p, x, nb, 4);
        break;
    case 5:
        rows(acc, p, x, nb, 5);
        break;
    default:
        rows(acc, p, x, nb, 6);
    }
}

GEMM_U4(gemm_u4_avxvnni)
