/*
 * repeat.c - see repeat.h.
 */
#include "generate/repeat.h"

/* How many tokens at the end are equal to those `period` before them, up to
 * most. */
static size_t same(const int32_t *ids, size_t n, size_t period, size_t most)
{
    size_t k = 0;

    while (k < most && ids[n - 1 - k] == ids[n - 1 - k - period])
        k++;
    return k;
}

bool repeat_ends(const int32_t *ids, size_t n)
{
    for (size_t period = 1; period <= REPEAT_MAX; period++) {
        size_t all = period * REPEAT_TIMES;

        if (all < REPEAT_TOKENS)
            all = REPEAT_TOKENS;
        if (all > n)
            return false;
        if (same(ids, n, period, all - period) == all - period)
            return true;
    }
    return false;
}
