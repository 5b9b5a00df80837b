/*
 * support_scan.h - the numbers and dates of a text, each as a key that is
 * the same however it is written.
 *
 *   "1024" for 1,024; "1.1 million", "5 %" for what belongs together;
 *   "=2021-3-12" for a date, with 0 for a part that is not given
 */
#ifndef EVIDENCE_SUPPORT_SCAN_H
#define EVIDENCE_SUPPORT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

struct support_fact {
    size_t from, to; /* bytes of the text */
    const char *key;
};
typedef cag_status (*support_fact_fn)(void *ctx, const struct support_fact *f,
                                      cag_error *err);

/*
 * all: every key that the text supports: also the parts of a date, the bare
 * number of "1.1 million", numbers inside words ("xz-5.2.1") and one to twelve
 * in words.  Without all: what an answer claims, each fact once.
 */
cag_status support_scan(const char *s, size_t n, bool all, support_fact_fn fn,
                        void *ctx, cag_error *err);

#endif
