/*
 * draft.c - see draft.h.
 *
 * The last occurrence with the longest common past wins; a past of one token
 * is chance.  There is no index: a scan of the ids costs microseconds where
 * a step costs milliseconds, at any length, and nothing before the first.
 *
 * How many guesses, is a matter of money.  The unit is a step of one row.  A
 * row more is charged COST (measured 0.2 on a machine short of memory
 * bandwidth, 0.6 on one with plenty of it), a right guess earns the step it
 * saves, each token of the answer adds ALLOWANCE.  Only what is owned is
 * staked, so text that is never quoted costs the allowance at most, and
 * quoting text soon affords as many guesses as a step takes.  What is owned
 * is bounded: yesterday's quote does not pay for a page of prose.
 */
#include "ask/draft.h"

#include <string.h>

#include "util/error.h"
#include "util/mem.h"

#define MIN_PAST   2
#define MAX_PAST   16
#define COST       0.6
#define ALLOWANCE  0.03
#define MOST_OWNED 4.0

cag_status draft_init(struct draft *l, const int32_t *prefix, size_t n_prefix,
                      size_t cap, cag_error *err)
{
    memset(l, 0, sizeof *l);
    l->own = mem_alloc_array(cap, sizeof *l->own);
    if (!l->own)
        return cag_fail_nomem(err, "tokens of an answer");
    l->prefix = prefix;
    l->n_prefix = n_prefix;
    l->cap = cap;
    l->balance = COST;
    return CAG_OK;
}

void draft_release(struct draft *l)
{
    mem_free(l->own);
    memset(l, 0, sizeof *l);
}

void draft_add(struct draft *l, const int32_t *ids, size_t n)
{
    if (n > l->cap - l->n_own)
        n = l->cap - l->n_own;
    memcpy(l->own + l->n_own, ids, n * sizeof *ids);
    l->n_own += n;
}

static int32_t at(const struct draft *l, size_t i)
{
    return i < l->n_prefix ? l->prefix[i] : l->own[i - l->n_prefix];
}

/* Tokens equal before i and before end, i < end; at least one is. */
static size_t common_past(const struct draft *l, size_t i, size_t end)
{
    size_t n = 1;

    while (n < MAX_PAST && n < i && at(l, i - 1 - n) == at(l, end - 1 - n))
        n++;
    return n;
}

/* Look for the last token in ids[n], which lie at base; *best and *from are
 * improved. */
static void scan(const struct draft *l, const int32_t *ids, size_t n,
                 size_t base, size_t *best, size_t *from)
{
    size_t end = l->n_prefix + l->n_own;
    int32_t last = at(l, end - 1);

    for (size_t i = 0; i < n; i++) {
        size_t past;

        if (ids[i] != last || base + i + 1 == end)
            continue;
        past = common_past(l, base + i + 1, end);
        if (past >= *best) {
            *best = past;
            *from = base + i + 1;
        }
    }
}

int draft_propose(struct draft *l, int most, int32_t *out)
{
    size_t best = MIN_PAST, from = 0, end = l->n_prefix + l->n_own;
    int afford, n = 0;

    l->balance += ALLOWANCE;
    if (l->balance > MOST_OWNED)
        l->balance = MOST_OWNED;
    afford = (int)(l->balance / COST);
    most = most < afford ? most : afford;
    if (most < 1 || end < 1)
        return 0;
    scan(l, l->prefix, l->n_prefix, 0, &best, &from);
    scan(l, l->own, l->n_own, l->n_prefix, &best, &from);
    for (; from > 0 && n < most && from + (size_t)n < end; n++)
        out[n] = at(l, from + (size_t)n);
    return n;
}

void draft_result(struct draft *l, int n_drafted, int n_accepted)
{
    l->balance += n_accepted - COST * n_drafted;
    l->n_drafted += n_drafted;
    l->n_accepted += n_accepted;
}
