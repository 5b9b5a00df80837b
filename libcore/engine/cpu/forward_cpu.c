/*
 * forward_cpu.c - the transformer, step by step.
 *
 *   x[t]   = embedding of id t                               [d_model]
 *   layer: h = norm(x); q, k, v = Wq h, Wk h, Wv h (+ biases)
 *          q, k = rotate(norm(q), norm(k));  k, v -> slot of t's tile
 *          x += Wo attention(q)                              [d_q]
 *          h = norm(x);  x += Wdown(silu(Wgate h) * (Wup h)) [d_ff]
 *   logits = Whead norm(x)                                   [n_vocab]
 *
 * Every value of a row is one chain of operations over that row's own
 * inputs, so it does not matter which rows share a pass or a thread.  What
 * matters is the phase: a prompt's products are gemm over all rows, a
 * step's (and all logits) are the row kernels in groups of ROWS_MAX.
 *
 * A stage is one job of the pool; between two stages all threads meet.  A
 * step has five meetings a layer (qkv, attention, Wo, gate and up, down):
 * what is cheap and per row (norms, rotation, merges) runs on the caller's
 * thread between them, or as a job of its own when there are many rows.
 *
 * In the last layer only rows whose logits are wanted go on past K and V.
 */
#include "engine/cpu/forward_cpu.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/cpu/attend_cpu.h"
#include "engine/cpu/q8h_build.h"
#include "engine/cpu/kvcache_cpu.h"
#include "engine/cpu/mass_cpu.h"
#include "engine/cpu/product_cpu.h"
#include "engine/finite.h"
#include "engine/sampler.h"
#include "util/error.h"
#include "util/mem.h"

/* From this many rows on, per-row work is worth waking the other threads. */
#define PARALLEL_ROWS 4

struct pass {
    struct cpu *c;
    const struct forward_req *req;
    const struct forward_row *row;
    int n_row;
    bool prompt;
    int r0; /* rows [r0, n_row) are active */
    int layer;
    const struct model_layer *w;
    atomic_int bad_row; /* first with a K, V or logit that is not finite */
};

/* A product of the active rows, whose input is [max_row, d_in]. */
static void pass_product(struct product *pr, const struct pass *p,
                         const float *x, int d_in)
{
    product_init(pr, p->c, p->r0, p->n_row - p->r0, !p->prompt, x, (size_t)d_in,
                 d_in);
}

static void note_bad(struct pass *p, int row)
{
    int bad = atomic_load(&p->bad_row);

    while (row < bad && !atomic_compare_exchange_weak(&p->bad_row, &bad, row))
        ;
}

/* ------------------------------------------------------- per-row stages */

/* What is done to each active row before a product reads it. */
enum stage_kind { STAGE_NORM, STAGE_ATTENTION, STAGE_PLAIN };

struct stage {
    const struct pass *p;
    struct product *pr;
    enum stage_kind kind;
    const float *norm; /* STAGE_NORM: weight of the norm */
    bool add;          /* first x += y */
    const float *bias; /* added to y before that, or NULL */
    struct attn_pass attn;
};

static void stage_rows(const struct stage *s, int t0, int t1)
{
    const struct pass *p = s->p;
    const struct cpu *c = p->c;
    size_t d = (size_t)c->cfg->d_model;

    for (int t = p->r0 + t0; t < p->r0 + t1; t++) {
        float *x = c->x + (size_t)t * d, *y = c->y + (size_t)t * d;
        if (s->kind == STAGE_ATTENTION && !p->prompt)
            attend_step_finish(&s->attn, t);
        if (s->kind != STAGE_NORM)
            continue;
        if (s->bias)
            c->k->add(y, s->bias, d);
        if (s->add)
            c->k->add(x, y, d);
        c->k->rmsnorm(c->h + (size_t)t * d, d, x, d, s->norm, 1,
                      c->cfg->d_model, c->cfg->rms_eps);
    }
    product_encode(s->pr, t0, t1);
}

/* Rows that are packed together: all are powers of two. */
static int stage_grain(const struct cpu *c)
{
    int mr = c->k->gemm_mr;

    if (c->fast && c->fast->gemm_mr > mr)
        mr = c->fast->gemm_mr;
    return c->fast8 && c->fast8->gemm_mr > mr ? c->fast8->gemm_mr : mr;
}

static void stage_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct stage *s = ctx;
    int mr = stage_grain(s->p->c), n = s->pr->n_tok;
    int t0 = (int)begin * mr, t1 = (int)end * mr;

    (void)thread;
    stage_rows(s, t0, t1 < n ? t1 : n);
}

static void stage_run(struct stage *s)
{
    const struct cpu *c = s->p->c;
    int n = s->pr->n_tok, mr = stage_grain(c);

    if (s->pr->rows)
        product_place(s->pr);
    if (n < PARALLEL_ROWS) {
        stage_rows(s, 0, n);
        return;
    }
    pool_run(c->pool, stage_range, s, (n + mr - 1) / mr, 1);
}

/* ---------------------------------------------------- embedding, rotation */

static void embed_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct pass *p = ctx;
    struct cpu *c = p->c;
    struct kmat w = c->w->embed;
    size_t half = (size_t)c->cfg->d_head / 2;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        c->k->dequant_row(c->x + (size_t)t * (size_t)c->cfg->d_model, &w,
                          p->row[t].id);
        rope_table(c->cos + (size_t)t * half, c->sin + (size_t)t * half,
                   p->row[t].pos, c->cfg->inv_freq, (int)half,
                   c->cfg->rope_mscale);
        for (int j = 0; j < c->group; j++)
            c->last[t * c->group + j] = p->row[t].pos;
    }
}

/*
 * Biases, norms and rotation of one token's q, k, v [d_qkv]; then q goes to
 * the layout of attention, k and v to their slot.
 */
static void rotate_row(struct pass *p, int t)
{
    struct cpu *c = p->c;
    const struct model_config *cfg = c->cfg;
    const struct model_layer *w = p->w;
    const struct cpu_kv *kv = (const struct cpu_kv *)p->row[t].kv;
    int d = cfg->d_head, pos = p->row[t].pos;
    float *q = c->qkv + (size_t)t * (size_t)c->d_qkv;
    float *k = q + c->d_q, *v = k + c->d_kv;
    const float *cs = c->cos + (size_t)t * (size_t)(d / 2);
    const float *sn = c->sin + (size_t)t * (size_t)(d / 2);
    size_t n = (size_t)c->group * (size_t)d;

    if (w->bq)
        c->k->add(q, w->bq, (size_t)c->d_q);
    if (w->bk)
        c->k->add(k, w->bk, (size_t)c->d_kv);
    if (w->bv)
        c->k->add(v, w->bv, (size_t)c->d_kv);
    if (w->q_norm)
        c->k->rmsnorm(q, (size_t)d, q, (size_t)d, w->q_norm, cfg->n_head, d,
                      cfg->rms_eps);
    if (w->k_norm)
        c->k->rmsnorm(k, (size_t)d, k, (size_t)d, w->k_norm, cfg->n_kv_head, d,
                      cfg->rms_eps);
    c->k->rope(q, cfg->n_head, d, cs, sn, c->q_scale);
    c->k->rope(k, cfg->n_kv_head, d, cs, sn, 1.0f);
    for (int h = 0; h < cfg->n_kv_head; h++) {
        size_t at = ((size_t)h * (size_t)c->base.max_row + (size_t)t) * n;

        memcpy(c->q + at, q + (size_t)h * n, n * sizeof *q);
        if (prefix_is_q8h(kv->prefix)) {
            memcpy(c->q_rotated + at, q + (size_t)h * n, n * sizeof *q);
            c->k->q8h_rotate(c->q_rotated + at,
                             prefix_factors(kv->prefix, p->layer, h), c->group,
                             d);
        }
        if (!c->k->kv_store(
                c->kv_type, kvcache_tile(kv, p->layer, 0, h, pos / KV_TILE),
                kvcache_tile(kv, p->layer, 1, h, pos / KV_TILE), pos % KV_TILE,
                k + (size_t)h * (size_t)d, v + (size_t)h * (size_t)d, d))
            note_bad(p, t);
    }
}

static void rotate_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    for (int64_t t = begin; t < end; t++)
        rotate_row(ctx, (int)t);
}

/* A prompt's rows in pieces of a tile: 16 positions share K's cache lines. */
static void run_rows(struct pass *p, pool_fn *fn)
{
    if (p->n_row < PARALLEL_ROWS)
        fn(p, 0, 0, p->n_row);
    else
        pool_run(p->c->pool, fn, p, p->n_row, p->prompt ? KV_TILE : 8);
}

/* A build with codec q8h wants to know the spread of the last queries. */
static void gather_rows(const struct pass *p)
{
    const struct cpu *c = p->c;
    size_t n = (size_t)c->group * (size_t)c->cfg->d_head;

    for (int t = 0; t < p->n_row; t++)
        q8h_add_queries((struct cpu_kv *)p->row[t].kv, p->layer, p->row[t].pos,
                        c->q + (size_t)t * n, (size_t)c->base.max_row * n,
                        c->group);
}

/* --------------------------------------------------------------- a layer */

/* The rows that go on past K and V of the last layer. */
static int first_wanted(const struct forward_req *req)
{
    int r = 0;

    while (r < req->n_row && !req->row[r].logits)
        r++;
    return r;
}

static cag_status layer_kv(struct pass *p, cag_error *err)
{
    struct cpu *c = p->c;
    size_t ld = (size_t)c->d_qkv;
    struct product pr;
    struct stage st = { p,    &pr,  STAGE_NORM, p->w->attn_norm, p->layer > 0,
                        NULL, { 0 } };

    pass_product(&pr, p, c->h, c->cfg->d_model);
    product_add(&pr, &p->w->mat[WQ], c->qkv, ld);
    product_add(&pr, &p->w->mat[WK], c->qkv + c->d_q, ld);
    product_add(&pr, &p->w->mat[WV], c->qkv + c->d_q + c->d_kv, ld);
    stage_run(&st);
    product_run(&pr);
    run_rows(p, rotate_range);
    gather_rows(p);
    int bad = atomic_load(&p->bad_row);
    if (bad == INT_MAX)
        return CAG_OK;
    return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                    "layer %d, token %d: a key or value does not fit %s",
                    p->layer, p->row[bad].pos,
                    c->kv_type == KV_F32 ? "f32 (infinite or not a number)"
                                         : "f16 (above 65504 or not a number)");
}

/* Attention of the active rows, and in the last layer of those that ask for
 * mass; a step's states are merged when a product reads them. */
static void attend(const struct pass *p, struct attn_pass *a)
{
    int r0 = mass_first(p->req, p->layer);

    *a = (struct attn_pass){ p->c,     p->row,   p->r0 < r0 ? p->r0 : r0,
                             p->n_row, p->layer, p->prompt };
    if (!p->prompt) {
        attend_step(a);
    } else if (a->r0 < a->n_row) {
        attend_prompt(a);
        mass_add(a, p->req);
    }
}

static void layer_rest(struct pass *p)
{
    struct cpu *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ff = (size_t)c->cfg->d_ff;
    struct attn_pass a;
    struct product o, gu, down;

    attend(p, &a);
    if (p->r0 == p->n_row)
        return;
    pass_product(&o, p, c->att, c->d_q);
    product_add(&o, &p->w->mat[WO], c->y, d);
    struct stage so = { p, &o, STAGE_ATTENTION, NULL, false, NULL, a };
    stage_run(&so);
    if (!p->prompt)
        mass_add(&a, p->req);
    product_run(&o);

    pass_product(&gu, p, c->h, c->cfg->d_model);
    product_add(&gu, &p->w->mat[W_GATE], c->gate, ff);
    product_add(&gu, &p->w->mat[W_UP], c->up, ff);
    pass_product(&down, p, c->gate, c->cfg->d_ff);
    product_add(&down, &p->w->mat[W_DOWN], c->y, d);
    bool chained = product_chain(&gu, &down);
    struct stage sg = { p,    &gu,      STAGE_NORM, p->w->ffn_norm,
                        true, p->w->bo, { 0 } };
    stage_run(&sg);
    product_run(&gu);

    struct stage sd = { p, &down, STAGE_PLAIN, NULL, false, NULL, { 0 } };
    if (!chained)
        stage_run(&sd);
    product_run(&down);
}

/* ----------------------------------------------------------------- logits */

struct head_job {
    const struct pass *p;
    const struct out_mat *m;
    int n_wanted; /* rows whose logits are wanted */
};

static void head_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct head_job *job = ctx;
    const struct pass *p = job->p;
    const struct cpu *c = p->c;
    const struct out_mat *m = job->m;
    int n = job->n_wanted;
    float *slice = c->thread[thread].slice;

    for (int row0 = (int)begin * GEMM_ROW_GRID;
         row0 < m->w.n_out && row0 < (int)end * GEMM_ROW_GRID;
         row0 += HEAD_SLICE) {
        int r = p->r0;
        int rows = m->w.n_out - row0, left = (int)end * GEMM_ROW_GRID - row0;
        struct kmat w = m->w;
        rows = rows < left ? rows : left;
        rows = rows < HEAD_SLICE ? rows : HEAD_SLICE;
        w.data += (size_t)row0 * w.row_bytes;
        w.n_out = rows;
        for (int t = 0; t < n; t += ROWS_MAX) {
            int g = n - t < ROWS_MAX ? n - t : ROWS_MAX;
            c->k->rows(slice, HEAD_SLICE, m->xq + (size_t)t * m->xq_stride,
                       m->xq_stride, g, &w, 0, rows, c->exact,
                       c->thread[thread].gemm);
            for (int i = 0; i < g; i++) {
                while (!p->row[r].logits)
                    r++;
                memcpy(p->row[r++].logits + row0,
                       slice + (size_t)i * HEAD_SLICE,
                       (size_t)rows * sizeof *slice);
            }
        }
    }
}

/* Close the gaps that rows whose logits nobody wants leave in the input. */
static int keep_wanted(const struct pass *p, const struct out_mat *m)
{
    int n = 0;

    for (int r = p->r0; r < p->n_row; r++) {
        if (!p->row[r].logits)
            continue;
        if (n != r - p->r0)
            memcpy(m->xq + (size_t)n * m->xq_stride,
                   m->xq + (size_t)(r - p->r0) * m->xq_stride, m->xq_stride);
        n++;
    }
    return n;
}

/* Logits that are not finite choose nothing. */
static void choose_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct pass *p = ctx;
    int n = p->c->cfg->n_vocab;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const struct forward_row *row = &p->row[r];

        if (row->logits && !finite_all(row->logits, (size_t)n))
            note_bad(p, (int)r);
        else if (row->best)
            *row->best = sampler_best(row->logits, n);
    }
}

/* Logits of the active rows; always by the row kernels. */
static cag_status head(struct pass *p, cag_error *err)
{
    struct cpu *c = p->c;
    struct product pr;
    struct stage st = { p, &pr, STAGE_NORM, c->w->out_norm, true, NULL, { 0 } };

    pass_product(&pr, p, c->h, c->cfg->d_model);
    product_add(&pr, &c->w->head, NULL, 0);
    pr.rows = true;
    stage_run(&st);
    struct head_job job = { p, &pr.mat[0], keep_wanted(p, &pr.mat[0]) };
    pool_run(c->pool, head_range, &job, product_units(pr.mat[0].w.n_out),
             HEAD_SLICE / GEMM_ROW_GRID);
    run_rows(p, choose_range);
    int bad = atomic_load(&p->bad_row);
    if (bad == INT_MAX || pool_cancelled(c->pool))
        return CAG_OK;
    return finite_fail(c->cfg, p->row[bad].pos,
                       c->x + (size_t)bad * (size_t)c->cfg->d_model, err);
}

/* The residual stream after the last layer that is ours. */
static void hand_over(const struct pass *p)
{
    const struct cpu *c = p->c;
    size_t n = (size_t)p->n_row * (size_t)c->cfg->d_model;

    c->k->add(c->x, c->y, n);
    memcpy(p->req->x, c->x, n * sizeof *c->x);
}

/* --------------------------------------------------------------- the pass */

static void mark_dirty(const struct forward_req *req)
{
    for (int r = 0; r < req->n_row; r++) {
        struct cpu_kv *kv = (struct cpu_kv *)req->row[r].kv;
        if (kv->n_dirty <= req->row[r].pos)
            kv->n_dirty = req->row[r].pos + 1;
    }
}

static cag_status ready(const struct forward_req *req, int layer,
                        cag_error *err)
{
    cag_status st = CAG_OK;

    for (int r = 0; !st && r < req->n_row; r++)
        st = kvcache_ready((struct cpu_kv *)req->row[r].kv, layer, err);
    return st;
}

static bool go_on(void *ctx)
{
    const struct pass *p = ctx;

    return p->req->progress(p->req->ctx, p->layer, p->c->cfg->n_layer);
}

static cag_status layers(struct pass *p, cag_error *err)
{
    struct cpu *c = p->c;
    int n_layer = c->cfg->n_layer;
    cag_status st;

    run_rows(p, embed_range);
    for (int l = 0; l < c->base.layer1; l++) {
        p->layer = l;
        if (p->req->progress && !go_on(p))
            return cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
        p->w = &c->w->layer[l];
        st = ready(p->req, l, err);
        if (!st)
            st = layer_kv(p, err);
        if (st)
            return st;
        if (l == n_layer - 1)
            p->r0 = first_wanted(p->req);
        layer_rest(p);
    }
    if (p->r0 == p->n_row)
        return CAG_OK;
    if (!p->req->x)
        return head(p, err);
    hand_over(p);
    return CAG_OK;
}

/*
 * A layer of a large model takes longer than a user waits for Ctrl-C, so the
 * jobs ask too; what a cancelled job left undone is never looked at.
 */
cag_status forward(struct cpu *c, const struct forward_req *req, cag_error *err)
{
    struct pass p = { .c = c,
                      .req = req,
                      .row = req->row,
                      .n_row = req->n_row,
                      .prompt = req->phase == FORWARD_PROMPT };
    cag_status st = CAG_OK;

    atomic_init(&p.bad_row, INT_MAX);
    if (!p.prompt)
        st = attend_step_plan(c, req->row, req->n_row, err);
    if (st)
        return st;
    mark_dirty(req);
    if (req->progress)
        pool_watch(c->pool, go_on, &p);
    st = layers(&p, err);
    if (pool_cancelled(c->pool))
        st = cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    pool_watch(c->pool, NULL, NULL);
    return st;
}
