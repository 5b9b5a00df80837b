/*
 * clock.h - the one monotonic clock, for reports and waits; never for results.
 */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>

/* Seconds, and nanoseconds, since one moment; they never go back. */
double clock_s(void);
int64_t clock_ns(void);

#endif
