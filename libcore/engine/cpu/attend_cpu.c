/*
 * attend_cpu.c - attention: who walks which tiles, in which order.
 *
 * The arithmetic of a query row is fixed by kernels.h and by the absolute
 * grid: every span of 1,024 keys is walked from a fresh state, its tiles
 * ascending, and the spans' states are merged ascending.  Nothing here may
 * change that order; what is chosen here is only who does it and which rows
 * share a walk:
 *
 *   prompt   an item is a KV head and a block of rows (ATTN_ROWS = tokens x
 *            query heads of the group); it walks all its spans and merges
 *   step     an item is a KV head, a span and a block of rows, so that two
 *            cores share even one token's walk over a long prefix; the
 *            states are merged row by row afterwards
 *
 * Tiles of a prefix are read once for all rows that share it, whatever
 * session they belong to: in the span where the prefix ends the rows' state
 * is continued, session by session, over that session's private tiles.
 *
 * Rows that see different parts of a prefix (kv_view.h) walk apart; a span of
 * which a row sees nothing is neither walked nor merged, so that what a row
 * gets depends on its own view only.
 *
 * A prefix of codes (q8h) is walked with rotated queries, and what its tiles
 * add up to in a span is rotated back before private tiles continue: the two
 * never share an accumulator.  It is then a state like any other.
 *
 * Queries lie as [kv_head][row * group + head_in_group][d_head], so a block
 * of rows is one matrix.
 */
#include "engine/cpu/attend_cpu.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/kvcache_cpu.h"
#include "util/error.h"
#include "util/mem.h"

static const struct cpu_kv *kv_of(const struct forward_row *r)
{
    return (const struct cpu_kv *)r->kv;
}

/* First row after r0 that belongs to another timeline, at most end. */
static int run_end(const struct forward_row *row, int r0, int end)
{
    int r = r0 + 1;

    while (r < end && row[r].kv == row[r0].kv)
        r++;
    return r;
}

/* First row after r0 that reads another prefix (or none) or sees something
 * else of it, at most end. */
static int group_end(const struct forward_row *row, int r0, int end)
{
    int r = r0 + 1;

    while (r < end && kv_of(&row[r])->prefix == kv_of(&row[r0])->prefix &&
           kv_view_same(row[r].view, row[r0].view))
        r++;
    return r;
}

/* Does the row see any key of the span?  (Not whether it reaches that far.) */
static bool span_seen(const struct forward_row *r, int span)
{
    return kv_view_any(r->view, span * KV_SPAN_TILES,
                       (span + 1) * KV_SPAN_TILES);
}

/* The first span the row sees; there is one, for it sees itself. */
static int first_span(const struct forward_row *r)
{
    int s = 0;

    while (!span_seen(r, s))
        s++;
    return s;
}

void attend_tiles(struct attn_tiles *x, struct attn_job *j,
                  const struct attn_pass *a, const struct forward_row *row,
                  int head, int t0, int t1)
{
    const struct cpu_kv *kv = kv_of(row);
    bool codes = t0 < kv->n_shared && prefix_is_q8h(kv->prefix);
    bool hidden = false;

    for (int t = t0; t < t1; t++) {
        int i = t - t0;

        x->k[i] = kvcache_any_tile(kv, a->layer, 0, head, t);
        x->v[i] = kvcache_any_tile(kv, a->layer, 1, head, t);
        x->see[i] = kv_view_tile(row->view, t);
        hidden = hidden || x->see[i] != UINT64_MAX;
        if (codes) {
            x->ks[i] = prefix_scales(kv->prefix, a->layer, 0, head, t);
            x->vs[i] = prefix_scales(kv->prefix, a->layer, 1, head, t);
        }
    }
    *j = (struct attn_job){ .kv_type = codes ? KV_Q8H : a->c->kv_type,
                            .d_head = a->c->cfg->d_head,
                            .see = hidden ? x->see : NULL,
                            .n_tile = t1 - t0,
                            .key0 = t0 * KV_TILE,
                            .k = x->k,
                            .v = x->v,
                            .ks = x->ks,
                            .vs = x->vs };
}

bool attend_fast(const struct attn_pass *a, const struct attn_job *j)
{
    return a->prompt && kernels_fast_attends(a->c->fast, j->kv_type, j->d_head);
}

static int block_tokens(const struct cpu *c)
{
    return ATTN_ROWS / c->group;
}

/* Rows [r0, r1) of the pass, of one prefix and view, for one KV head; and the
 * state they continue:  m, l [(r1 - r0) * group]   o [.., d_head]. */
struct rows {
    int head, r0, r1;
    float *m, *l, *o;
};

/* Walk tiles [t0, t1) of the first row's timeline, all of its prefix or all
 * private. */
static void walk(const struct attn_pass *a, struct cpu_thread *th,
                 const struct rows *w, int t0, int t1)
{
    const struct cpu *c = a->c;
    const struct forward_row *row = &a->row[w->r0];
    struct attn_tiles tiles;
    struct attn_job j;

    if (!kv_view_any(row->view, t0, t1))
        return;
    attend_tiles(&tiles, &j, a, row, w->head, t0, t1);
    size_t row0 = (size_t)w->r0 * (size_t)c->group;
    j.n_row = (w->r1 - w->r0) * c->group;
    j.q =
        (j.kv_type == KV_Q8H ? c->q_rotated : c->q) +
        ((size_t)w->head * (size_t)c->base.max_row * (size_t)c->group + row0) *
            (size_t)c->cfg->d_head;
    j.ldq = (size_t)c->cfg->d_head;
    j.last = c->last + row0;
    j.m = w->m;
    j.l = w->l;
    j.o = w->o;
    j.scratch = th->attn;
    if (attend_fast(a, &j))
        c->fast->attn(&j);
    else
        c->k->attn(&j);
    if (j.kv_type == KV_Q8H)
        c->k->q8h_rotate(w->o, NULL, j.n_row, j.d_head);
}

/* The state of one span, from fresh. */
static void span_state(const struct attn_pass *a, struct cpu_thread *th,
                       const struct rows *w, int span)
{
    size_t g = (size_t)a->c->group, d = (size_t)a->c->cfg->d_head;
    size_t n = (size_t)(w->r1 - w->r0) * g;
    int first = span * KV_SPAN_TILES, end = first + KV_SPAN_TILES;
    int n_shared = kv_of(&a->row[w->r0])->n_shared;
    int own = n_shared > first ? n_shared : first;

    for (size_t i = 0; i < n; i++)
        w->m[i] = -INFINITY;
    memset(w->l, 0, n * sizeof *w->l);
    memset(w->o, 0, n * d * sizeof *w->o);
    walk(a, th, w, first, n_shared < end ? n_shared : end);
    for (int r = w->r0, next; r < w->r1; r = next) {
        next = run_end(a->row, r, w->r1);
        int tiles = a->row[next - 1].pos / KV_TILE + 1;
        size_t i = (size_t)(r - w->r0) * g;
        struct rows run = {
            w->head, r, next, w->m + i, w->l + i, w->o + i * d
        };

        walk(a, th, &run, own, tiles < end ? tiles : end);
    }
}

/* out[row] = o / l for the heads of one KV head; o [group, d_head].  The state
 * stays, for mass_cpu.c. */
static void finish(const struct cpu *c, int head, int row, const float *m,
                   const float *l, const float *o)
{
    size_t d = (size_t)c->cfg->d_head;
    size_t at = (size_t)(head * c->group) * (size_t)c->base.max_row;

    for (int g = 0; g < c->group; g++, at += (size_t)c->base.max_row) {
        c->row_m[at + (size_t)row] = m[g];
        c->row_l[at + (size_t)row] = l[g];
    }
    float *out = c->att + (size_t)row * (size_t)c->d_q +
                 (size_t)head * (size_t)c->group * d;

    c->k->attn_finish(out, d, l, o, c->group, c->cfg->d_head);
}

/* ------------------------------------------------------------------ prompt */

static void prompt_block(const struct attn_pass *a, struct cpu_thread *th,
                         int head, int r0, int r1)
{
    const struct cpu *c = a->c;
    size_t g = (size_t)c->group, d = (size_t)c->cfg->d_head;
    struct rows w = { head, r0, r1, th->m, th->l, th->o };
    struct rows next = { head,
                         r0,
                         r1,
                         th->m + ATTN_ROWS,
                         th->l + ATTN_ROWS,
                         th->o + ATTN_ROWS * d };
    int last = 0, first = first_span(&a->row[r0]);

    for (int r = r0; r < r1; r++)
        last = a->row[r].pos > last ? a->row[r].pos : last;
    span_state(a, th, &w, first);
    for (int s = first + 1; s * KV_SPAN <= last; s++) {
        if (!span_seen(&a->row[r0], s))
            continue;
        span_state(a, th, &next, s);
        c->k->attn_merge(w.m, w.l, w.o, next.m, next.l, next.o,
                         (r1 - r0) * c->group, c->cfg->d_head);
    }
    for (int r = r0; r < r1; r++) {
        size_t i = (size_t)(r - r0) * g;
        finish(c, head, r, w.m + i, w.l + i, w.o + i * d);
    }
}

static void prompt_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct attn_pass *a = ctx;
    const struct cpu *c = a->c;

    for (int64_t i = begin; i < end; i++) {
        /* the last rows see the most keys: they go first */
        const struct attn_item *it =
            &c->item[c->n_item - 1 - (int)(i / c->cfg->n_kv_head)];
        prompt_block(a, &c->thread[thread], (int)(i % c->cfg->n_kv_head),
                     it->r0, it->r1);
    }
}

void attend_prompt(const struct attn_pass *a)
{
    struct cpu *c = a->c;
    int tokens = block_tokens(c);
    struct attn_pass copy = *a;

    c->n_item = 0;
    for (int g0 = a->r0, g1; g0 < a->n_row; g0 = g1) {
        g1 = group_end(a->row, g0, a->n_row);
        for (int r = g0; r < g1; r += tokens) {
            struct attn_item *it = &c->item[c->n_item++];
            it->r0 = r;
            it->r1 = r + tokens < g1 ? r + tokens : g1;
            it->span = 0;
        }
    }
    pool_run(c->pool, prompt_range, &copy,
             (int64_t)c->n_item * c->cfg->n_kv_head, 1);
}

/* -------------------------------------------------------------------- step */

static int span_of(int32_t pos)
{
    return pos / KV_SPAN;
}

/* Items of the rows [r0, r1), which share a prefix of n_shared whole tiles and
 * what they see of it. */
static void plan_group(struct cpu *c, const struct forward_row *row, int r0,
                       int r1, int n_shared)
{
    int tokens = block_tokens(c);
    int shared = (n_shared + KV_SPAN_TILES - 1) / KV_SPAN_TILES;

    for (int s = 0; s < shared; s++)
        for (int r = r0; r < r1 && span_seen(&row[r0], s); r += tokens)
            c->item[c->n_item++] =
                (struct attn_item){ r, r + tokens < r1 ? r + tokens : r1, s };
    for (int r = r0, next; r < r1; r = next) {
        next = run_end(row, r, r1);
        if (next - r > tokens)
            next = r + tokens;
        for (int s = shared; s <= span_of(row[next - 1].pos); s++)
            c->item[c->n_item++] = (struct attn_item){ r, next, s };
    }
}

cag_status attend_step_plan(struct cpu *c, const struct forward_row *row,
                            int n_row, cag_error *err)
{
    int n_span = 0;

    for (int r = 0; r < n_row; r++)
        if (span_of(row[r].pos) + 1 > n_span)
            n_span = span_of(row[r].pos) + 1;
    cag_status st = cpu_reserve_step(c, n_row, n_span, err);
    if (st)
        return st;
    c->state_row = n_row;
    c->state_span = n_span;
    c->n_item = 0;
    for (int r = 0, next; r < n_row; r = next) {
        next = group_end(row, r, n_row);
        plan_group(c, row, r, next, kv_of(&row[r])->n_shared);
    }
    return CAG_OK;
}

/* Where the state of (head, span, row) lies. */
static void state_at(const struct cpu *c, int head, int span, int row,
                     float **m, float **l, float **o)
{
    size_t n = (size_t)c->cfg->n_kv_head * (size_t)c->state_span *
               (size_t)c->state_row * (size_t)c->group;
    size_t i = (((size_t)head * (size_t)c->state_span + (size_t)span) *
                    (size_t)c->state_row +
                (size_t)row) *
               (size_t)c->group;

    *m = c->state + i;
    *l = c->state + n + i;
    *o = c->state + 2 * n + i * (size_t)c->cfg->d_head;
}

static void step_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct attn_pass *a = ctx;
    const struct cpu *c = a->c;

    for (int64_t i = begin; i < end; i++) {
        const struct attn_item *it = &c->item[i / c->cfg->n_kv_head];
        int head = (int)(i % c->cfg->n_kv_head);
        struct rows w = { head, it->r0, it->r1, NULL, NULL, NULL };

        state_at(c, head, it->span, it->r0, &w.m, &w.l, &w.o);
        span_state(a, &c->thread[thread], &w, it->span);
    }
}

void attend_step(const struct attn_pass *a)
{
    struct attn_pass copy = *a;

    pool_run(a->c->pool, step_range, &copy,
             (int64_t)a->c->n_item * a->c->cfg->n_kv_head, 1);
}

void attend_step_finish(const struct attn_pass *a, int row)
{
    const struct cpu *c = a->c;
    int first = first_span(&a->row[row]);

    for (int head = 0; head < c->cfg->n_kv_head; head++) {
        float *m, *l, *o, *m2, *l2, *o2;

        state_at(c, head, first, row, &m, &l, &o);
        for (int s = first + 1; s <= span_of(a->row[row].pos); s++) {
            if (!span_seen(&a->row[row], s))
                continue;
            state_at(c, head, s, row, &m2, &l2, &o2);
            c->k->attn_merge(m, l, o, m2, l2, o2, c->group, c->cfg->d_head);
        }
        finish(c, head, row, m, l, o);
    }
}
