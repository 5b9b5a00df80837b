/*
 * clock.h - the one monotonic clock, for reports and waits; never for results.
 */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

/* Seconds since some moment; never goes back. */
double clock_s(void);

#endif
