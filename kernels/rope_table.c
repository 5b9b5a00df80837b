/*
 * rope_table.c - cos and sin of rotary angles, without libm, so that a cache
 * built on one machine holds the same bits as one built on another.
 *
 * In double, with no fused operation: k = round(x * 2/pi), r = x - k * pi/2
 * with pi/2 in three parts of 33 bits, so that k times the first two is exact
 * for k below 2^20, then the Taylor series of sin and cos on [-pi/4, pi/4] up
 * to terms below 2^-54.  The result is rounded to f32 once: its error is
 * half an ulp plus less than 2^-20 ulp, except next to a multiple of pi/2
 * where r is still good to 2^-60 absolutely.
 */
#include "kernels/kernels.h"

#include <string.h>

/* 33 bits each of pi/2 */
#define PIO2_1      0x1.921fb544p+0
#define PIO2_2      0x1.0b4611a6p-34
#define PIO2_3      0x1.3198a2e037073p-69
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define ROUND       6755399441055744.0 /* 1.5 * 2^52 */

static double poly_sin(double r)
{
    double z = r * r;

    return r + r * z *
                   (-1.0 / 6 +
                    z * (1.0 / 120 +
                         z * (-1.0 / 5040 +
                              z * (1.0 / 362880 +
                                   z * (-1.0 / 39916800 +
                                        z * (1.0 / 6227020800.0 +
                                             z * (-1.0 / 1307674368000.0)))))));
}

static double poly_cos(double r)
{
    double z = r * r;

    return 1.0 +
           z * (-0.5 +
                z * (1.0 / 24 +
                     z * (-1.0 / 720 +
                          z * (1.0 / 40320 +
                               z * (-1.0 / 3628800 +
                                    z * (1.0 / 479001600.0 +
                                         z * (-1.0 / 87178291200.0 +
                                              z * (1.0 /
                                                   20922789888000.0))))))));
}

static void sin_cos(double x, double *s, double *c)
{
    double t = x * TWO_OVER_PI + ROUND, k = t - ROUND;
    double r = ((x - k * PIO2_1) - k * PIO2_2) - k * PIO2_3;
    double ps = poly_sin(r), pc = poly_cos(r);
    uint64_t n;

    memcpy(&n, &t, sizeof n);
    *s = n & 1 ? pc : ps;
    *c = n & 1 ? ps : pc;
    if (n & 2)
        *s = -*s;
    if ((n + 1) & 2)
        *c = -*c;
}

void rope_table(float *cos, float *sin, int32_t pos, const float *inv_freq,
                int half, float mscale)
{
    for (int i = 0; i < half; i++) {
        float angle = (float)pos * inv_freq[i];
        double s, c;

        sin_cos((double)angle, &s, &c);
        cos[i] = (float)c * mscale;
        sin[i] = (float)s * mscale;
    }
}
