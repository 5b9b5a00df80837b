/*
 * manifest_value.h - numbers and dates as a manifest spells them: plain, with
 * nothing around them.  Each is false for any other text.
 */
#ifndef SOURCE_MANIFEST_VALUE_H
#define SOURCE_MANIFEST_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number, without a sign; with size K, M, G or T may follow. */
bool manifest_to_number(const char *s, bool size, int64_t *out);
/* Digits with a point and an exponent. */
bool manifest_to_real(const char *s, double *out);
/* YYYY-MM-DD, from 1970 on. */
bool manifest_is_date(const char *s);

#endif
