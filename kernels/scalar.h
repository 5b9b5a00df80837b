/*
 * scalar.h - the operations of the scalar set.
 *
 * The order of operations of kernels.h in portable C: what the vector sets
 * must reproduce bit for bit, and what runs where there are none.  fmaf is
 * the C library's, exact with or without an instruction for it.
 */
#ifndef KERNELS_SCALAR_H
#define KERNELS_SCALAR_H

#include <math.h>
#include <string.h>

#include "kernels/exp2.h"
#include "kernels/ref.h"

static inline float exp2_scalar(float x)
{
    float t, f, p;
    uint32_t n;

    if (x < EXP2_LO)
        return 0.0f;
    if (x > EXP2_HI)
        x = EXP2_HI;
    t = x + EXP2_MAGIC;
    f = x - (t - EXP2_MAGIC);
    p = fmaf(EXP2_C6, f, EXP2_C5);
    p = fmaf(p, f, EXP2_C4);
    p = fmaf(p, f, EXP2_C3);
    p = fmaf(p, f, EXP2_C2);
    p = fmaf(p, f, EXP2_C1);
    p = fmaf(p, f, 1.0f);
    memcpy(&n, &t, sizeof n);
    n <<= 23;
    memcpy(&t, &n, sizeof t);
    return p * t;
}

/* of x <= 0: the cubic of exp2.h */
static inline float exp2_cubic_scalar(float x)
{
    float t, f, p;
    uint32_t n;

    if (x < EXP2_CUBIC_LO)
        x = EXP2_CUBIC_LO;
    t = x + EXP2_MAGIC;
    f = x - (t - EXP2_MAGIC);
    p = fmaf(EXP2_CUBIC_C3, f, EXP2_CUBIC_C2);
    p = fmaf(p, f, EXP2_CUBIC_C1);
    p = fmaf(p, f, EXP2_CUBIC_C0);
    memcpy(&n, &t, sizeof n);
    n <<= 23;
    memcpy(&t, &n, sizeof t);
    return p * t;
}

/* fold of kernels.h; n a power of two */
static inline float fold_scalar(float *a, int n)
{
    while (n > 1) {
        n /= 2;
        for (int j = 0; j < n; j++)
            a[j] = a[j] + a[j + n];
    }
    return a[0];
}

/* dot32 of kernels.h, one group of at most 32 at a time */
static inline void dot32_scalar_step(float lane[32], const float *a,
                                     const float *b, int n)
{
    for (int j = 0; j < 32; j++)
        lane[j] = j < n ? fmaf(a[j], b[j], lane[j]) : fmaf(0.0f, 0.0f, lane[j]);
}

/*
 * Storing, adding, dividing and expanding have no order to keep: the set
 * takes those from ref.
 */
KERNEL_SET_ORDERED(scalar);

#endif
