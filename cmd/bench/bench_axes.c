/*
 * bench_axes.c - see bench_axes.h.
 */
#include "cmd/bench/bench_axes.h"

#include <math.h>

/* The smallest of 1, 2, 5, 10, 20 ... that makes at most n steps of v. */
static double round_step(double v, int n)
{
    double ten = pow(10, floor(log10(v / n)));

    for (int i = 0; i < 4; i++) {
        static const double by[] = { 1, 2, 5, 10 };

        if (v <= n * by[i] * ten * (1 + 1e-9))
            return by[i] * ten;
    }
    return 20 * ten;
}

struct axis axis_of_values(double low, double high, double p0, double p1)
{
    struct axis a = { 0, high, p0, p1, low > 0 && high / low > 20, 10 };

    if (a.is_log) {
        a.v0 = pow(10, floor(log10(low)));
        a.v1 = pow(10, ceil(log10(high)));
        return a;
    }
    if (!(high > 0))
        a.v1 = 1;
    a.step = round_step(a.v1, 5);
    a.v1 = a.step * ceil(a.v1 / a.step * (1 - 1e-9));
    return a;
}

struct axis axis_of_sizes(double low, double high, double p0, double p1)
{
    struct axis a = { low, high, p0, p1, true, 2 };

    if (high <= low) { /* a single one stands in the middle */
        a.v0 = low / 2;
        a.v1 = low * 2;
    }
    return a;
}

double axis_at(const struct axis *a, double v)
{
    double t = a->is_log ? log(fmax(v, a->v0) / a->v0) / log(a->v1 / a->v0)
                         : (v - a->v0) / (a->v1 - a->v0);

    return a->p0 + t * (a->p1 - a->p0);
}

bool axis_tick(const struct axis *a, int i, double *v)
{
    *v = a->is_log ? a->v0 * pow(a->step, i) : a->v0 + a->step * i;
    return *v <= a->v1 * (1 + 1e-9);
}
