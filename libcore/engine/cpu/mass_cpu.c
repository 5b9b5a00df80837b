/*
 * mass_cpu.c - see mass_cpu.h.
 *
 * When attention of a layer is done, the state of a row has its final maximum
 * and sum, so the share of a key is exp2(s - m) / l.  The scores of the few
 * heads that are asked for are computed once more, by the kernel that computed
 * them: a hundredth of the attention, and attention itself knows nothing of it.
 *
 * An item is a run of rows that add to one sum, a head and a span; no two
 * items share a place.  In it rows are added ascending, in double: sums
 * depend on the rows and their order only.
 *
 * Tried: keep maximum and sum of each tile while attention walks and rescale
 * them in the end.  Gives tiles instead of tokens, and every kernel a second
 * result, for less than 1 % of an answer.
 */
#include "engine/cpu/mass_cpu.h"

#include "engine/cpu/kvcache_cpu.h"

struct job {
    const struct attn_pass *a;
    const struct forward_req *req;
    int head0, n_head; /* of the request's, those of the layer */
    int n_run, n_span;
};

/* The request's heads of a layer: *n from the returned one on. */
static int heads_of(const struct forward_req *req, int layer, int *n)
{
    int i = 0;

    while (i < req->n_head && req->head[i].layer < layer)
        i++;
    for (*n = 0; i + *n < req->n_head && req->head[i + *n].layer == layer;)
        ++*n;
    return i;
}

int mass_first(const struct forward_req *req, int layer)
{
    int n, r = 0;

    heads_of(req, layer, &n);
    while (r < req->n_row && (n == 0 || !req->row[r].mass))
        r++;
    return r;
}

/* Shares of rows [r0, r1) in the tiles [t0, t1), all of the prefix or all
 * private; the span's first tile is first. */
static void shares(const struct job *x, struct cpu_thread *th, int head,
                   const int row[2], const int tile[2], int first)
{
    const struct attn_pass *a = x->a;
    const struct cpu *c = a->c;

    int32_t last[MASS_ROWS];
    struct attn_tiles tiles;
    struct attn_job j;
    float *p = th->share + (size_t)(tile[0] - first) * KV_TILE;
    size_t d = (size_t)c->cfg->d_head, g = (size_t)c->group;
    size_t state = (size_t)head * (size_t)c->base.max_row + (size_t)row[0];

    if (tile[0] >= tile[1])
        return;
    attend_tiles(&tiles, &j, a, &a->row[row[0]], head / c->group, tile[0],
                 tile[1]);
    for (int i = row[0]; i < row[1]; i++)
        last[i - row[0]] = a->row[i].pos;
    j.n_row = row[1] - row[0];
    j.q = (j.kv_type == KV_Q8H ? c->q_rotated : c->q) +
          (((size_t)(head / c->group) * (size_t)c->base.max_row +
            (size_t)row[0]) *
               g +
           (size_t)(head % c->group)) *
              d;
    j.ldq = g * d;
    j.last = last;
    j.m = c->row_m + state;
    j.l = c->row_l + state;
    j.scratch = th->attn;
    if (attend_fast(a, &j))
        c->fast->attn_mass(&j, p, KV_SPAN);
    else
        c->k->attn_mass(&j, p, KV_SPAN);
}

/* A run's rows, one head, one span. */
static void add_span(const struct job *x, struct cpu_thread *th, int run, int i,
                     int span)
{
    const struct attn_pass *a = x->a;
    int r0 = a->c->mass_run[run], r1 = a->c->mass_run[run + 1];
    const struct cpu_kv *kv = (const struct cpu_kv *)a->row[r0].kv;
    int first = span * KV_SPAN_TILES, end = first + KV_SPAN_TILES;
    int n_tile = (kv->n_prefix + KV_TILE - 1) / KV_TILE;
    int n = kv->n_prefix - span * KV_SPAN;
    double *sum = a->row[r0].mass;

    end = end < n_tile ? end : n_tile;
    n = n < KV_SPAN ? n : KV_SPAN;
    if (!sum || first >= end || !kv_view_any(a->row[r0].view, first, end))
        return;
    sum += (size_t)i * (size_t)kv->n_prefix + (size_t)span * KV_SPAN;
    int border = kv->n_shared < end ? kv->n_shared : end;
    for (int r = r0; r < r1; r += MASS_ROWS) {
        int row[2] = { r, r + MASS_ROWS < r1 ? r + MASS_ROWS : r1 };
        int head = x->req->head[i].head;

        shares(x, th, head, row, (int[]){ first, border }, first);
        shares(x, th, head, row,
               (int[]){ border > first ? border : first, end }, first);
        for (int k = 0; k < row[1] - row[0]; k++)
            for (int t = 0; t < n; t++)
                sum[t] += (double)th->share[k * KV_SPAN + t];
    }
}

static void mass_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct job *x = ctx;

    for (int64_t i = begin; i < end; i++) {
        int span = (int)(i % x->n_span);
        int head = (int)(i / x->n_span % x->n_head);
        int run = (int)(i / x->n_span / x->n_head);

        add_span(x, &x->a->c->thread[thread], run, x->head0 + head, span);
    }
}

void mass_add(const struct attn_pass *a, const struct forward_req *req)
{
    struct cpu *c = a->c;
    struct job x = { .a = a, .req = req };

    x.head0 = heads_of(req, a->layer, &x.n_head);
    if (x.n_head == 0)
        return;
    for (int r = a->r0; r < a->n_row; r++) {
        const struct forward_row *row = &a->row[r];
        int n_prefix = ((const struct cpu_kv *)row->kv)->n_prefix;
        int n_span = (n_prefix + KV_SPAN - 1) / KV_SPAN;

        if (r == a->r0 || row->kv != row[-1].kv || row->mass != row[-1].mass)
            c->mass_run[x.n_run++] = r;
        if (row->mass && n_span > x.n_span)
            x.n_span = n_span;
    }
    if (x.n_span == 0) /* nobody asks */
        return;
    c->mass_run[x.n_run] = a->n_row;
    pool_run(c->pool, mass_range, &x, (int64_t)x.n_run * x.n_head * x.n_span,
             1);
}
