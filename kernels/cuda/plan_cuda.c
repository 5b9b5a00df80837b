/*
 * plan_cuda.c - attention of a pass, cut into items.
 *
 * Rows that share a prefix read its tiles as one group, in blocks of as many
 * tokens as fill CUK_ATTN_ROWS query rows; what follows the prefix, or all
 * when nobody shares, is read timeline by timeline.  A prefix of codes is read
 * by itself even when it is not shared.  The tiles of a block are
 * split so that about n_block blocks are busy: a single question over a long
 * prefix uses the whole device, a long prompt is not split at all and needs
 * no states.  Tiles that a view hides are no work: an item begins and ends with
 * tiles that are seen, and those between are skipped.
 */
#include "kernels/cuda/kernels_cuda.h"

#include <limits.h>

#define MIN_SPLIT 4

static int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Rows [r0, end) of one timeline, or of one prefix; r0 is not empty. */
static int run_end(const struct cuk_row *row, int r0, int n)
{
    int r = r0 + 1;

    while (r < n && row[r].kv == row[r0].kv)
        r++;
    return r;
}

static int group_end(const struct cuk_row *row, const struct cuk_kv *kv, int r0,
                     int n)
{
    const struct cuk_kv *a = &kv[row[r0].kv];
    int r = r0 + 1;

    for (; r < n && row[r].kv >= 0; r++) {
        const struct cuk_kv *b = &kv[row[r].kv];
        if (row[r].kv != row[r0].kv &&
            (a->n_shared == 0 || b->n_shared != a->n_shared ||
             b->shared.base != a->shared.base || b->view != a->view ||
             b->n_view != a->n_view))
            break;
    }
    return r;
}

struct planner {
    struct cuk_plan *p;
    const struct cuk_row *row;
    const struct cuk_kv *kv;
    int tokens; /* of a block */
    int split;
    int64_t work; /* tiles of all blocks, when measuring */
    bool measure, full;
};

static void emit(struct planner *pl, int r0, int r1, int tile0, int tile1,
                 int split)
{
    struct cuk_plan *p = pl->p;

    if (p->n_item == p->cap_item) {
        pl->full = true;
        return;
    }
    p->item[p->n_item++] =
        (struct cuk_item){ r0,    r1 - r0, tile0, tile1, pl->row[r0].kv,
                           split, { 0, 0 } };
}

/* The first tile in [t, end) that row r sees something of, or end. */
static int next_seen(const struct planner *pl, int r, int t, int end)
{
    const struct cuk_kv *kv = &pl->kv[pl->row[r].kv];

    while (t < end && t < kv->n_view && pl->p->view[kv->view + t] == 0)
        t++;
    return t;
}

/* The end of the first n tiles in [t, end) that row r sees something of; n
 * becomes how many there are. */
static int seen_end(const struct planner *pl, int r, int t, int end, int *n)
{
    int most = *n, last = t;

    for (*n = 0; *n < most && (t = next_seen(pl, r, t, end)) < end; ++*n)
        last = ++t;
    return last;
}

static int n_seen(const struct planner *pl, int r, int tile0, int tile1)
{
    int n = INT_MAX;

    if (pl->kv[pl->row[r].kv].n_view == 0)
        return tile1 - tile0;
    seen_end(pl, r, tile0, tile1, &n);
    return n;
}

/* Tiles [tile0, tile1) for rows [r0, r1), as splits from number base on. */
static int cut(struct planner *pl, int r0, int r1, int tile0, int tile1,
               int base)
{
    int n_item = 0;

    for (int t = tile0, end, n; (t = next_seen(pl, r0, t, tile1)) < tile1;
         t = end) {
        n = pl->split;
        end = seen_end(pl, r0, t, tile1, &n);
        emit(pl, r0, r1, t, end, base + n_item++);
    }
    return n_item;
}

/* One block of one timeline, after n_shared splits of its prefix. */
static void own_block(struct planner *pl, int r0, int r1, int tile0,
                      int n_shared)
{
    struct cuk_plan *p = pl->p;
    int tile1 = pl->row[r1 - 1].pos / KV_TILE + 1, n = 0;
    int seen = n_seen(pl, r0, tile0, tile1);

    if (pl->measure) {
        pl->work += seen;
        return;
    }
    if (n_shared == 0 && seen <= pl->split)
        emit(pl, r0, r1, next_seen(pl, r0, tile0, tile1), tile1, -1);
    else
        n = n_shared + cut(pl, r0, r1, tile0, tile1, n_shared);
    for (int r = r0; r < r1; r++) {
        p->state0[r] = p->n_state;
        if (p->cap_state - p->n_state < n) {
            pl->full = true;
            return;
        }
        p->n_state += n;
    }
}

static void group(struct planner *pl, int g0, int g1)
{
    int shared = 0, splits = 0;

    if (pl->kv[pl->row[g0].kv].codes || run_end(pl->row, g0, g1) < g1) {
        shared = pl->kv[pl->row[g0].kv].n_shared;
        for (int r = g0; r < g1; r += pl->tokens)
            if (pl->measure)
                pl->work += n_seen(pl, g0, 0, shared);
            else
                splits = cut(pl, r, min_int(r + pl->tokens, g1), 0, shared, 0);
    }
    for (int r0 = g0, r1; r0 < g1; r0 = r1) {
        r1 = run_end(pl->row, r0, g1);
        for (int r = r0; r < r1; r += pl->tokens)
            own_block(pl, r, min_int(r + pl->tokens, r1), shared, splits);
    }
}

static void walk(struct planner *pl, int n_row)
{
    for (int r = 0, next; r < n_row && !pl->full; r = next) {
        next = r + 1;
        if (pl->row[r].kv < 0) {
            if (!pl->measure)
                pl->p->state0[r] = pl->p->n_state;
            continue;
        }
        next = group_end(pl->row, pl->kv, r, n_row);
        group(pl, r, next);
    }
}

static int block_tokens(const struct cuk_shape *shape)
{
    int n = CUK_ATTN_ROWS / (shape->n_head / shape->n_kv_head);

    return n < 1 ? 1 : n;
}

static int target_items(const struct cuk_shape *shape, int n_block)
{
    return n_block > shape->n_kv_head ? n_block / shape->n_kv_head : 1;
}

/* A prompt's last blocks see the most tiles: they come first, so that none of
 * them is still running when all others are done. */
static void longest_first(struct cuk_plan *p)
{
    for (int i = 0, j = p->n_item - 1; i < j; i++, j--) {
        struct cuk_item t = p->item[i];
        p->item[i] = p->item[j];
        p->item[j] = t;
    }
}

bool cuk_plan_make(struct cuk_plan *p, const struct cuk_shape *shape,
                   const struct cuk_row *row, int n_row,
                   const struct cuk_kv *kv, int n_block, int split_tile)
{
    struct planner pl = { p,          row, kv,   block_tokens(shape),
                          split_tile, 0,   true, false };

    p->n_item = p->n_state = 0;
    if (n_row > p->cap_row)
        return false;
    if (split_tile <= 0) {
        int64_t target = target_items(shape, n_block);
        walk(&pl, n_row);
        pl.split = (int)((pl.work + target - 1) / target);
        if (pl.split < MIN_SPLIT)
            pl.split = MIN_SPLIT;
    }
    pl.measure = false;
    walk(&pl, n_row);
    if (pl.full)
        return false;
    p->state0[n_row] = p->n_state;
    longest_first(p);
    return true;
}

/*
 * A block with T tiles has at most T / split + 1 items and 1 / split is at
 * most target / work, so all blocks together have at most target + (number
 * of blocks); a timeline's rows are in one block of the prefix and one of
 * their own.  Only blocks of more than one item need states: either T >
 * split, then at most 2 * T / split for each of the block's tokens; or a
 * prefix and something after it, two for each token.
 */
void cuk_plan_bound(const struct cuk_shape *shape, int n_row, int n_run,
                    int n_block, int *cap_item, int *cap_state)
{
    int target = target_items(shape, n_block);
    int tokens = min_int(block_tokens(shape), n_row);
    int blocks = ceil_div(n_row, block_tokens(shape));

    *cap_item = target + 2 * (blocks + n_run);
    *cap_state = 2 * tokens * target + 4 * n_row;
}
