/*
 * bench_axes.h - from values to places on a drawing.
 */
#ifndef CMD_BENCH_AXES_H
#define CMD_BENCH_AXES_H

#include <stdbool.h>

/* Values v0 .. v1 at the places p0 .. p1. */
struct axis {
    double v0, v1, p0, p1;
    bool is_log;
    double step; /* between ticks that are round: to add, or to multiply by */
};
/* From 0, or over decades where the values differ by more than 20 times. */
struct axis axis_of_values(double low, double high, double p0, double p1);
/* Sizes that double are equally far apart. */
struct axis axis_of_sizes(double low, double high, double p0, double p1);
double axis_at(const struct axis *a, double v);
/* The i-th tick, from 0; false past the last. */
bool axis_tick(const struct axis *a, int i, double *v);

#endif
