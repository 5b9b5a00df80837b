/*
 * ktest.h - what the kernel tests share: the sets under test, a generator,
 * comparison by bits, and rows of stored weights that look like real ones.
 */
#ifndef TESTS_KTEST_H
#define TESTS_KTEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

/* Sets that must equal scalar bit for bit and that this CPU runs. */
static inline int kt_fast_sets(const struct kernels *set[4])
{
    const struct kernels *k;
    bool usable;
    int n = 0;

    for (int i = 0; (k = kernels_at(i, &usable)); i++) {
        if (strcmp(k->numerics, kernels_scalar.numerics) != 0 ||
            k == &kernels_scalar)
            continue;
        if (usable)
            set[n++] = k;
        else
            printf("# skip %s: this CPU or system lacks it\n", k->name);
    }
    return n;
}

static inline uint32_t kt_rand(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* roughly normal, deviation 1 */
static inline float kt_normal(uint64_t *s)
{
    float sum = 0;

    for (int i = 0; i < 6; i++)
        sum += (float)(kt_rand(s) & 0xffff) / 65536.0f - 0.5f;
    return sum * 1.41f;
}

static inline void kt_fill(float *x, size_t n, uint64_t *s)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kt_normal(s);
}

/* Equal bits, or both NaN: which NaN an operation gives is the CPU's choice. */
static inline void kt_same_at(const float *got, const float *want, size_t n,
                              const char *what, const char *set,
                              const char *file, int line)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t a, b;

        memcpy(&a, got + i, 4);
        memcpy(&b, want + i, 4);
        if (a != b && !(isnan(got[i]) && isnan(want[i]))) {
            print_error("%s, %s: element %zu is %.9g (%08x), expected %.9g "
                        "(%08x)\n",
                        set, what, i, (double)got[i], a, (double)want[i], b);
            _fail(file, line);
        }
    }
}
#define kt_same(got, want, n, what, set) \
    kt_same_at(got, want, n, what, set, __FILE__, __LINE__)

static inline void *kt_alloc(size_t n)
{
    void *p = aligned_alloc(64, (n + 127) & ~(size_t)63);

    assert_non_null(p);
    memset(p, 0xff, (n + 127) & ~(size_t)63); /* NaN, as floats */
    return p;
}

static const int kt_types[] = { KT_F32,  KT_F16,  KT_BF16, KT_Q4_0,
                                KT_Q4_1, KT_Q5_0, KT_Q5_1, KT_Q8_0,
                                KT_Q4_K, KT_Q5_K, KT_Q6_K };
enum { KT_N_TYPE = sizeof kt_types / sizeof kt_types[0] };

static inline const char *kt_name(int type)
{
    switch (type) {
    case KT_F32:
        return "F32";
    case KT_F16:
        return "F16";
    case KT_BF16:
        return "BF16";
    case KT_Q4_0:
        return "Q4_0";
    case KT_Q4_1:
        return "Q4_1";
    case KT_Q5_0:
        return "Q5_0";
    case KT_Q5_1:
        return "Q5_1";
    case KT_Q8_0:
        return "Q8_0";
    case KT_Q4_K:
        return "Q4_K";
    case KT_Q5_K:
        return "Q5_K";
    default:
        return "Q6_K";
    }
}

static inline void kt_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

/*
 * A random matrix.  The bytes start at an odd address and end at the end of
 * their allocation, so that ASan sees a kernel that reads too far.
 * Release with kt_mat_free.
 */
static inline void kt_mat(struct kmat *w, int type, int n_out, int d_in,
                          uint64_t *s)
{
    size_t block = kt_block_bytes(type);
    size_t nb = (size_t)d_in / (size_t)kt_block_weights(type) * (size_t)n_out;
    uint8_t *p = malloc(nb * block + 1), *q = p + 1;

    assert_non_null(p);
    for (size_t i = 0; i < nb * block; i++)
        q[i] = (uint8_t)kt_rand(s);
    for (size_t b = 0; b < nb; b++, q += block) {
        float f = kt_normal(s) * 0.05f, g = kt_normal(s) * 0.05f;

        switch (type) {
        case KT_F32:
            memcpy(q, &f, 4);
            break;
        case KT_BF16: {
            uint32_t u;

            memcpy(&u, &f, 4);
            kt_put16(q, (uint16_t)(u >> 16));
            break;
        }
        case KT_Q6_K:
            kt_put16(q + 208, f32_to_f16(f));
            break;
        case KT_Q4_1:
        case KT_Q5_1:
        case KT_Q4_K:
        case KT_Q5_K:
            kt_put16(q + 2, f32_to_f16(g));
            kt_put16(q, f32_to_f16(f));
            break;
        default:
            kt_put16(q, f32_to_f16(f));
        }
    }
    memset(w, 0, sizeof *w);
    w->type = type;
    w->n_out = n_out;
    w->d_in = d_in;
    w->row_bytes = nb * block / (size_t)n_out;
    w->data = p + 1;
}

static inline void kt_mat_free(struct kmat *w)
{
    free((void *)(uintptr_t)(w->data - 1));
}

#endif
