/*
 * real.h - exp and log in double, of our own: plain multiplications,
 * additions and one division, so that no C library's choice of code enters a
 * result that is stored or sampled.
 */
#ifndef UTIL_REAL_H
#define UTIL_REAL_H

/* e^x for x <= 0, relative error below 1e-14; 0 below -708. */
double real_exp(double x);
/* ln x for x > 0, normal and finite; absolute error below 1e-15 + 1e-16 |ln x|.
 */
double real_log(double x);

#endif
