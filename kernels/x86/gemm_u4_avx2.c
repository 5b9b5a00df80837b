/*
 * gemm_u4_avx2.c - 4-bit weights and 8-bit activations with AVX2;
 * gemm_u4_x86.h is the code.
 *
 * vpmaddubsw multiplies, and a block of 32 adds up in 16 bits: 8 * 2 * 15 *
 * 127 = 30,480.  4 rows x 16 tokens: 8 accumulators in 16 bits, those in f32
 * stay in acc, in L1.
 *
 * Bound by the vector ports: of 20 operations for 8 tokens, a row and 32
 * inputs 16 are multiplications and additions in 16 bits.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#define MR 4
#define NG 1
#include "kernels/x86/gemm_u4_x86.h"

/* the compiler keeps n sums in registers, however it would rather not */
#define KEEP(x) __asm__("" : "+x"(x))

INLINE void rows(float *acc, const struct panel *p, const float *x, int nb,
                 const int nr)
{
    const __m256i ones = _mm256_set1_epi16(1);

    for (int b = 0; b < nb; b++, x += BLOCK) {
        const uint8_t *q = (const uint8_t *)(x + 2 * GW);
        __m256i c[MR][2];

#pragma GCC unroll 4
        for (int r = 0; r < nr; r++)
            c[r][0] = c[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m256i a0 = load32(q + 64 * i), a1 = load32(q + 64 * i + 32);

#pragma GCC unroll 4
            for (int r = 0; r < nr; r++) {
                __m256i w = _mm256_set1_epi32(four_weights(p, r, b, i));

                c[r][0] =
                    _mm256_add_epi16(c[r][0], _mm256_maddubs_epi16(w, a0));
                c[r][1] =
                    _mm256_add_epi16(c[r][1], _mm256_maddubs_epi16(w, a1));
                KEEP(c[r][0]);
                KEEP(c[r][1]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++) {
            VF f = v_bcast(p->f + r * NB + b), o = v_bcast(p->o + r * NB + b);

#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                float *y = acc + r * GW + 8 * v;
                VF n = _mm256_cvtepi32_ps(_mm256_madd_epi16(c[r][v], ones));
                VF s = v_mul(f, v_load(x + 8 * v));

                n = v_fma(n, s, v_load(y));
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
    default:
        rows(acc, p, x, nb, 4);
    }
}

GEMM_U4(gemm_u4_avx2)
