/*
 * draft.c - see draft.h.
 *
 * The last occurrence with the longest common past wins; a past of one token
 * is chance.  There is no index: a scan of the ids costs microseconds where
 * a step costs milliseconds, at any length, and nothing before the first.
 *
 * How long a draft is, is budgeted in steps of one row.  Each drafted token
 * costs COST (a row more in a step: measured 0.2 on a machine short of memory
 * bandwidth, 0.6 on one with plenty of it), each right one gains 1, the step
 * it saves, and each token of the answer adds ALLOWANCE.  No more is drafted
 * than the balance pays, so text that is never quoted costs the allowance at
 * most; the balance is capped at MOST_OWNED, so that a long quote does not pay
 * for a page of prose.
 */
#include "generate/draft.h"

#include <string.h>

#include "util/error.h"
#include "util/mem.h"

#define MIN_PAST   2
#define MAX_PAST   16
#define COST       0.6
#define ALLOWANCE  0.03
#define MOST_OWNED 4.0

cag_status draft_init(struct draft *d, const int32_t *prefix, size_t n_prefix,
                      size_t cap, cag_error *err)
{
    memset(d, 0, sizeof *d);
    d->own = mem_alloc_array(cap, sizeof *d->own);
    if (!d->own)
        return cag_fail_nomem(err, "tokens of an answer");
    d->prefix = prefix;
    d->n_prefix = n_prefix;
    d->cap = cap;
    d->balance = COST;
    return CAG_OK;
}

void draft_release(struct draft *d)
{
    mem_free(d->own);
    memset(d, 0, sizeof *d);
}

void draft_add(struct draft *d, const int32_t *ids, size_t n)
{
    if (n > d->cap - d->n_own)
        n = d->cap - d->n_own;
    memcpy(d->own + d->n_own, ids, n * sizeof *ids);
    d->n_own += n;
}

static int32_t at(const struct draft *d, size_t i)
{
    return i < d->n_prefix ? d->prefix[i] : d->own[i - d->n_prefix];
}

/* Tokens equal before i and before end, i < end; at least one is. */
static size_t common_past(const struct draft *d, size_t i, size_t end)
{
    size_t n = 1;

    while (n < MAX_PAST && n < i && at(d, i - 1 - n) == at(d, end - 1 - n))
        n++;
    return n;
}

/* Look for the last token in ids[n], which lie at base; *best and *from are
 * improved. */
static void scan(const struct draft *d, const int32_t *ids, size_t n,
                 size_t base, size_t *best, size_t *from)
{
    size_t end = d->n_prefix + d->n_own;
    int32_t last = at(d, end - 1);

    for (size_t i = 0; i < n; i++) {
        size_t past;

        if (ids[i] != last || base + i + 1 == end)
            continue;
        past = common_past(d, base + i + 1, end);
        if (past >= *best) {
            *best = past;
            *from = base + i + 1;
        }
    }
}

int draft_propose(struct draft *d, int most, int32_t *out)
{
    size_t best = MIN_PAST, from = 0, end = d->n_prefix + d->n_own;
    int afford, n = 0;

    d->balance += ALLOWANCE;
    if (d->balance > MOST_OWNED)
        d->balance = MOST_OWNED;
    afford = (int)(d->balance / COST);
    most = most < afford ? most : afford;
    if (most < 1 || end < 1)
        return 0;
    scan(d, d->prefix, d->n_prefix, 0, &best, &from);
    scan(d, d->own, d->n_own, d->n_prefix, &best, &from);
    for (; from > 0 && n < most && from + (size_t)n < end; n++)
        out[n] = at(d, from + (size_t)n);
    return n;
}

void draft_result(struct draft *d, int n_drafted, int n_accepted)
{
    d->balance += n_accepted - COST * n_drafted;
    d->n_drafted += n_drafted;
    d->n_accepted += n_accepted;
}
