/*
 * limits.c - see limits.h.
 *
 * Ten chains of multiply-adds hide the latency of two units of four or five
 * cycles; an empty asm keeps the loop from being folded.  Reading is four
 * sums over cache lines in order: hardware prefetch does the rest, and one
 * addition a word is far below what memory delivers.
 */
#include "kernels/limits.h"

#include <string.h>

#define PEAK_BODY(T, set1, fma)                                              \
    T a0 = set1(1), a1 = set1(2), a2 = set1(3), a3 = set1(4), a4 = set1(5),  \
      a5 = set1(6), a6 = set1(7), a7 = set1(8), a8 = set1(9), a9 = set1(10), \
      x = set1(0.5f), y = set1(0.1f);                                        \
    for (int i = 0; i < n; i++) {                                            \
        a0 = fma(a0, x, y);                                                  \
        a1 = fma(a1, x, y);                                                  \
        a2 = fma(a2, x, y);                                                  \
        a3 = fma(a3, x, y);                                                  \
        a4 = fma(a4, x, y);                                                  \
        a5 = fma(a5, x, y);                                                  \
        a6 = fma(a6, x, y);                                                  \
        a7 = fma(a7, x, y);                                                  \
        a8 = fma(a8, x, y);                                                  \
        a9 = fma(a9, x, y);                                                  \
        KEEP(x);                                                             \
    }                                                                        \
    a0 = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9

#if defined(__x86_64__)
#include <immintrin.h>

#define KEEP(x) __asm__ volatile("" : "+x"(x))

__attribute__((target("avx2,fma"))) static float peak256(int n)
{
    PEAK_BODY(__m256, _mm256_set1_ps, _mm256_fmadd_ps);
    return a0[0];
}

__attribute__((target("avx512f"))) static float peak512(int n)
{
    PEAK_BODY(__m512, _mm512_set1_ps, _mm512_fmadd_ps);
    return a0[0];
}

static int width(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return 16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return 8;
    return 4;
}
#undef KEEP
#else
static int width(void)
{
    return 4;
}
#endif

/* What the compiler makes of four floats, multiply and add apart. */
typedef float f4 __attribute__((vector_size(16)));
#define F4_SET1(v)      ((f4){ (v), (v), (v), (v) })
#define F4_FMA(a, b, c) ((a) * (b) + (c))
#define KEEP(x)         __asm__ volatile("" : "+m"(x))

static float peak_portable(int n)
{
    PEAK_BODY(f4, F4_SET1, F4_FMA);
    return a0[0];
}

float kernels_fma_run(int n)
{
#if defined(__x86_64__)
    if (width() == 16)
        return peak512(n);
    if (width() == 8)
        return peak256(n);
#endif
    return peak_portable(n);
}

double kernels_fma_flop(void)
{
    return 2.0 * 10 * width();
}

const char *kernels_fma_name(void)
{
    return width() == 16 ? "fma 512" : width() == 8 ? "fma 256" : "portable";
}

#if defined(__x86_64__)
/*
 * Ten chains of an instruction whose inputs are zero, in asm: not every
 * compiler knows each of them, and none may leave it out.
 */
#define DOT(c, insn, a) __asm__ volatile(insn : "+" c(a) : c(x))
#define DOT_BODY(T, zero, c, insn)                                      \
    T a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, \
      a6 = zero, a7 = zero, a8 = zero, a9 = zero, x = zero;             \
    for (int i = 0; i < n; i++) {                                       \
        DOT(c, insn, a0);                                               \
        DOT(c, insn, a1);                                               \
        DOT(c, insn, a2);                                               \
        DOT(c, insn, a3);                                               \
        DOT(c, insn, a4);                                               \
        DOT(c, insn, a5);                                               \
        DOT(c, insn, a6);                                               \
        DOT(c, insn, a7);                                               \
        DOT(c, insn, a8);                                               \
        DOT(c, insn, a9);                                               \
    }                                                                   \
    return (float)(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9)[0]

__attribute__((target("avx512f"))) static float run_bf16(int n)
{
    DOT_BODY(__m512i, _mm512_setzero_si512(), "v", "vdpbf16ps %1, %1, %0");
}

__attribute__((target("avx512f"))) static float run_vnni512(int n)
{
    DOT_BODY(__m512i, _mm512_setzero_si512(), "v", "vpdpbusd %1, %1, %0");
}

__attribute__((target("avx2"))) static float run_vnni256(int n)
{
    DOT_BODY(__m256i, _mm256_setzero_si256(), "x",
             "%{vex%} vpdpbusd %1, %1, %0");
}

/* the sum in 16 bits is part of it */
__attribute__((target("avx2"))) static float run_madd(int n)
{
    DOT_BODY(__m256i, _mm256_setzero_si256(), "x",
             "vpmaddubsw %1, %1, %%ymm15\n\tvpaddw %%ymm15, %0, %0");
}

/* four tiles of sums of 16 x 16, each 32 products deep */
static float run_amx(int n)
{
    static const struct {
        uint8_t palette, zero[15];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { 1,
                 { 0 },
                 { 64, 64, 64, 64, 64, 64, 64, 64 },
                 { 16, 16, 16, 16, 16, 16, 16, 16 } };

    __asm__ volatile("ldtilecfg %0\n\t"
                     "tilezero %%tmm0\n\ttilezero %%tmm1\n\t"
                     "tilezero %%tmm2\n\ttilezero %%tmm3\n\t"
                     "tilezero %%tmm4\n\ttilezero %%tmm5"
                     :
                     : "m"(config));
    for (int i = 0; i < n; i++)
        __asm__ volatile("tdpbf16ps %tmm4, %tmm5, %tmm0\n\t"
                         "tdpbf16ps %tmm4, %tmm5, %tmm1\n\t"
                         "tdpbf16ps %tmm4, %tmm5, %tmm2\n\t"
                         "tdpbf16ps %tmm4, %tmm5, %tmm3");
    __asm__ volatile("tilerelease");
    return 0;
}

static const struct kernels_limit limits[] = {
    { "amx", run_amx, 4 * 2.0 * 16 * 16 * 32 },
    { "avx512bf16", run_bf16, 10 * 2.0 * 32 },
    { "avx512vnni", run_vnni512, 10 * 2.0 * 64 },
    { "avxvnni", run_vnni256, 10 * 2.0 * 32 },
    { "avx2", run_madd, 10 * 2.0 * 32 },
    { NULL, NULL, 0 },
};
#else
static const struct kernels_limit limits[] = { { NULL, NULL, 0 } };
#endif

const struct kernels_limit *kernels_limit(const char *family)
{
    const char *space = strrchr(family, ' ');

    for (int i = 0; limits[i].instructions; i++)
        if (!strcmp(limits[i].instructions, space ? space + 1 : family))
            return &limits[i];
    return NULL;
}

uint64_t kernels_read_run(const uint64_t *p, size_t n)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;

    for (size_t i = 0; i < n; i += 8) {
        a += p[i] + p[i + 4];
        b += p[i + 1] + p[i + 5];
        c += p[i + 2] + p[i + 6];
        d += p[i + 3] + p[i + 7];
    }
    return a + b + c + d;
}
