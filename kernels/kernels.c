/*
 * kernels.c - which sets exist, which of them this CPU runs, which is used.
 *
 * A set needs the CPU's instructions and an operating system that saves
 * their registers: CPUID says the first, XGETBV the second.  Both are asked
 * here and nowhere else; on other architectures only ref and scalar exist.
 */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t os_state(void)
{
    uint32_t lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_vectors(bool wide)
{
    const uint32_t need1 = bit_FMA | bit_AVX | bit_F16C | bit_OSXSAVE;
    const uint32_t need7 =
        bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    uint32_t a, b, c, d;
    uint64_t os;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need1) != need1)
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return false;
    os = os_state();
    if ((os & 0x06) != 0x06) /* xmm, ymm */
        return false;
    return !wide || ((b & need7) == need7 && (os & 0xe0) == 0xe0);
}

static bool has_vnni(void)
{
    uint32_t a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & bit_AVX512VNNI);
}
#define HAVE_VECTOR_SETS 1
#endif

static const struct kernels *const sets[] = {
    &kernels_ref,
    &kernels_scalar,
#ifdef HAVE_VECTOR_SETS
    &kernels_avx2,
    &kernels_avx512,
#endif
};
enum { N_SET = sizeof sets / sizeof sets[0] };

const struct kernels *kernels_at(int i, bool *usable)
{
    if (i < 0 || i >= N_SET)
        return NULL;
    *usable = true;
#ifdef HAVE_VECTOR_SETS
    if (i >= 2)
        *usable = has_vectors(i == 3);
    if (i == 3 && *usable && has_vnni())
        return &kernels_avx512vnni;
#endif
    return sets[i];
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct kernels *chosen;
static char refusal[160];

/* SET[+FAMILY] */
static bool names(const char *want, const char *set)
{
    size_t n = strcspn(want, "+");

    return strncmp(want, set, n) == 0 && set[n] == 0;
}

static void choose(void)
{
    const char *want = getenv("CAG_KERNELS");
    bool usable;

    for (int i = N_SET - 1; i >= 0; i--) {
        const struct kernels *k = kernels_at(i, &usable);

        if (want && *want && !names(want, k->name))
            continue;
        if (usable) {
            chosen = k;
            return;
        }
        if (want && *want) {
            snprintf(refusal, sizeof refusal,
                     "CAG_KERNELS is '%s', which this CPU cannot run", want);
            return;
        }
    }
    snprintf(refusal, sizeof refusal,
             "CAG_KERNELS is '%.40s', which is no set; known are ref, scalar, "
             "avx2, avx512",
             want);
}

const char *kernels_family(void)
{
    const char *want = getenv("CAG_KERNELS");
    const char *plus = want ? strchr(want, '+') : NULL;

    return plus ? plus + 1 : NULL;
}

const struct kernels *kernels_get(const char **why)
{
    pthread_once(&once, choose);
    if (!chosen && why)
        *why = refusal;
    return chosen;
}
