/*
 * real.c - see real.h.
 */
#include "util/real.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ln 2 in two parts: k times the first is exact for |k| < 2^20 */
#define LN2_HI 6.93147180369123816490e-01
#define LN2_LO 1.90821492927058770002e-10

double real_exp(double x)
{
    static const double coef[] = { 1.0 / 479001600,
                                   1.0 / 39916800,
                                   1.0 / 3628800,
                                   1.0 / 362880,
                                   1.0 / 40320,
                                   1.0 / 5040,
                                   1.0 / 720,
                                   1.0 / 120,
                                   1.0 / 24,
                                   1.0 / 6,
                                   0.5,
                                   1.0,
                                   1.0 };
    double y = 0.0, k, scale;

    if (!(x > -708.0))
        return 0.0;
    k = floor(x * 1.4426950408889634 + 0.5);
    x = (x - k * LN2_HI) - k * LN2_LO;
    for (size_t i = 0; i < sizeof coef / sizeof coef[0]; i++)
        y = y * x + coef[i];
    uint64_t bits = (uint64_t)(1023 + (int64_t)k) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return y * scale;
}

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m-1)/(m+1)). */
double real_log(double x)
{
    double s, z, y = 0.0, m;
    uint64_t bits;
    int k;

    memcpy(&bits, &x, sizeof bits);
    k = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        k++;
    }
    s = (m - 1.0) / (m + 1.0);
    z = s * s;
    for (int i = 21; i >= 1; i -= 2)
        y = y * z + 1.0 / i;
    return (k * LN2_LO + 2.0 * s * y) + k * LN2_HI;
}
