/*
 * manifest_value.c - see manifest_value.h.
 */
#include "source/manifest_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool manifest_to_number(const char *s, bool size, int64_t *out)
{
    static const char units[] = "KMGT";
    const char *u;
    char *end;
    long long v;

    errno = 0;
    v = strtoll(s, &end, 10);
    if (errno || end == s || strchr(" \t+-", *s))
        return false;
    if (size && *end && (u = strchr(units, *end)) != NULL && !end[1]) {
        int shift = 10 * (int)(u - units + 1);

        if (v > (INT64_MAX >> shift))
            return false;
        v <<= shift;
        end++;
    }
    *out = v;
    return !*end;
}

/* Digits with a point and an exponent; no sign in front, no hex, no words. */
bool manifest_to_real(const char *s, double *out)
{
    char *end;

    if (!strchr("0123456789.", *s) || strpbrk(s, "xX"))
        return false;
    errno = 0;
    *out = strtod(s, &end);
    return end != s && !*end && !errno;
}

bool manifest_is_date(const char *s)
{
    struct tm tm;
    const char *end = strptime(s, "%Y-%m-%d", &tm);

    return end && !*end && strlen(s) == 10 && tm.tm_year >= 70;
}
