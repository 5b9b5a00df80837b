/*
 * forward.c - the transformer, step by step.
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
#include "engine/forward.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/attend.h"
#include "engine/kv_q8h.h"
#include "engine/kvcache.h"
#include "engine/sampler.h"
#include "util/error.h"
#include "util/mem.h"

/* From this many rows on, per-row work is worth waking the other threads. */
#define PARALLEL_ROWS 4

struct pass {
    struct cpu               *c;
    const struct forward_req *req;
    const struct forward_row *row;
    int                       n_row;
    bool                      prompt;
    int                       r0;        /* rows [r0, n_row) are active */
    int                       layer;
    const struct model_layer *w;
    atomic_int                bad_row;   /* first whose K or V overflows */
};

/* ---------------------------------------------------- products y = W x */

#define MAX_MATS 3

struct out_mat {
    struct kmat w;
    float      *y;        /* [max_row, ld] + the matrix' column */
    size_t      ld;
    uint8_t    *xq;       /* this type's form of the input */
    size_t      xq_stride;
};

/* An input and the matrices it is multiplied with, as one list of rows. */
struct product {
    struct pass   *p;
    const float   *x;     /* [max_row, ld] */
    size_t         ld;
    int            d_in;
    int            n_mat;
    struct out_mat mat[MAX_MATS];
    bool           swiglu;     /* mats are gate and up; gate = silu(g) * u */
    bool           rows;       /* row kernels, not gemm */
    int            n_wanted;   /* the head: rows whose logits are wanted */
    int            part, n_part;    /* tokens of a part */
    int            n_piece, n_piece_last; /* of the weight rows, in a part */
};

/* GEMM_ROW_GRID weight rows are a unit; MAX_UNITS at most go to a thread at
 * a time. */
enum { MAX_UNITS = 8 };

static int clamp(int n, int lo, int hi)
{
    return n < lo ? lo : n > hi ? hi : n;
}

static int units_of(int n_out)
{
    return (n_out + GEMM_ROW_GRID - 1) / GEMM_ROW_GRID;
}

static void product_init(struct product *pr, struct pass *p, const float *x,
                         size_t ld, int d_in)
{
    memset(pr, 0, sizeof *pr);
    pr->p = p;
    pr->x = x;
    pr->ld = ld;
    pr->d_in = d_in;
    pr->rows = !p->prompt;
}

static void product_add(struct product *pr, const struct wmat *w, float *y,
                        size_t ld)
{
    pr->mat[pr->n_mat++] =
        (struct out_mat){ kmat_of(w), y, ld, NULL, 0 };
}

size_t forward_xq_bound(const struct cpu *c, int d_in)
{
    static const int types[] = { KT_F32,  KT_F16,  KT_BF16, KT_Q8_0,
                                 KT_Q4_0, KT_Q4_1, KT_Q5_0, KT_Q5_1,
                                 KT_Q4_K, KT_Q5_K, KT_Q6_K };
    size_t most = 0;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t n = c->k->rows_x_size(types[i], d_in, c->exact);
        if (n > most)
            most = n;
    }
    return most * MAX_MATS;
}

/* Give every distinct weight type its own form of the input. */
static void product_place(struct product *pr)
{
    const struct cpu *c = pr->p->c;
    uint8_t *at = (uint8_t *)c->packed;

    for (int i = 0; i < pr->n_mat; i++) {
        struct out_mat *m = &pr->mat[i];
        for (int j = 0; j < i && m->xq == NULL; j++)
            if (pr->mat[j].w.type == m->w.type) {
                m->xq = pr->mat[j].xq;
                m->xq_stride = pr->mat[j].xq_stride;
            }
        if (m->xq != NULL)
            continue;
        m->xq_stride = c->k->rows_x_size(m->w.type, pr->d_in, c->exact);
        m->xq = at;
        at += m->xq_stride * (size_t)c->base.max_row;
    }
}

static bool is_fast(const struct cpu *c, const struct out_mat *m)
{
    return c->fast != NULL && c->fast->takes(m->w.type);
}

/* Bring active rows [t0, t1) (counted from r0) into the products' form. */
static void product_encode(const struct product *pr, int t0, int t1)
{
    const struct cpu *c = pr->p->c;
    const float *x = pr->x + (size_t)pr->p->r0 * pr->ld;

    if (!pr->rows) {
        bool fast = false, plain = false;
        int n = pr->p->n_row - pr->p->r0;
        for (int i = 0; i < pr->n_mat; i++)
            *(is_fast(c, &pr->mat[i]) ? &fast : &plain) = true;
        if (fast)
            c->fast->gemm_pack(c->packed_fast, x, pr->ld, n, pr->d_in, t0,
                               t1);
        if (plain)
            c->k->gemm_pack(c->packed, x, pr->ld, n, pr->d_in, t0, t1);
        return;
    }
    for (int i = 0; i < pr->n_mat; i++) {
        const struct out_mat *m = &pr->mat[i];
        bool done = false;
        for (int j = 0; j < i; j++)
            done = done || pr->mat[j].xq == m->xq;
        for (int t = t0; t < t1 && !done; t++)
            c->k->rows_x(m->xq + (size_t)t * m->xq_stride,
                         x + (size_t)t * pr->ld, m->w.type, pr->d_in,
                         c->exact);
    }
}

/* Rows [row0, row1) of one matrix for tokens [t0, t1), counted from r0. */
static void multiply(const struct product *pr, const struct out_mat *m,
                     int thread, int t0, int t1, int row0, int row1)
{
    const struct cpu *c = pr->p->c;
    float *y = m->y + (size_t)(pr->p->r0 + t0) * m->ld;

    if (pr->rows) {
        for (int t = t0; t < t1; t += ROWS_MAX, y += ROWS_MAX * m->ld)
            c->k->rows(y, m->ld, m->xq + (size_t)t * m->xq_stride,
                       m->xq_stride, t1 - t < ROWS_MAX ? t1 - t : ROWS_MAX,
                       &m->w, row0, row1, c->exact);
    } else if (is_fast(c, m)) {
        c->fast->gemm(y, m->ld,
                      c->packed_fast + c->fast->gemm_pack_size(t0, pr->d_in),
                      t1 - t0, &m->w, row0, row1, c->thread[thread].gemm);
    } else {
        c->k->gemm(y, m->ld, c->packed + c->k->gemm_pack_size(t0, pr->d_in),
                   t1 - t0, &m->w, row0, row1, c->thread[thread].gemm);
    }
}

static void swiglu_slice(const struct product *pr, int t0, int t1, int row0,
                         int row1)
{
    const struct cpu *c = pr->p->c;

    for (int t = pr->p->r0 + t0; t < pr->p->r0 + t1; t++) {
        float *g = pr->mat[0].y + (size_t)t * pr->mat[0].ld + row0;
        const float *u = pr->mat[1].y + (size_t)t * pr->mat[1].ld + row0;
        c->k->swiglu(g, g, u, (size_t)(row1 - row0));
    }
}

/* Units [begin, end) of the list of weight rows for tokens [t0, t1). */
static void product_units(const struct product *pr, int thread, int t0,
                          int t1, int64_t begin, int64_t end)
{
    int64_t base = 0;

    for (int i = 0; i < pr->n_mat; i++) {
        const struct out_mat *m = &pr->mat[i];
        int64_t n = units_of(m->w.n_out);
        int64_t b = begin > base ? begin - base : 0;
        int64_t e = end - base < n ? end - base : n;
        if (pr->swiglu) {
            b = begin;     /* both matrices have the same rows */
            e = end;
        }
        if (b < e) {
            int row0 = (int)b * GEMM_ROW_GRID;
            int row1 = (int)e * GEMM_ROW_GRID;
            if (row1 > m->w.n_out)
                row1 = m->w.n_out;
            multiply(pr, m, thread, t0, t1, row0, row1);
            if (pr->swiglu && i == 1)
                swiglu_slice(pr, t0, t1, row0, row1);
        }
        base += n;
    }
}

static int64_t product_total(const struct product *pr)
{
    int64_t n = 0;

    for (int i = 0; i < pr->n_mat && (i == 0 || !pr->swiglu); i++)
        n += units_of(pr->mat[i].w.n_out);
    return n;
}

/* Item i: a piece of the weight rows for a part of the tokens. */
static void product_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct product *pr = ctx;
    int n_tok = pr->p->n_row - pr->p->r0;
    int64_t total = product_total(pr);

    for (int64_t i = begin; i < end; i++) {
        int64_t before = (int64_t)(pr->n_part - 1) * pr->n_piece;
        bool last = i >= before;
        int t0 = (last ? pr->n_part - 1 : (int)(i / pr->n_piece)) * pr->part;
        int64_t n = last ? pr->n_piece_last : pr->n_piece;
        int64_t piece = last ? i - before : i % n;

        product_units(pr, thread, t0,
                      n_tok - t0 < pr->part ? n_tok : t0 + pr->part,
                      total * piece / n, total * (piece + 1) / n);
    }
}

/*
 * Parts of the tokens one after the other, so that a part's inputs stay in
 * the cores' caches over all weight rows.  These are handed out in pieces:
 * large, so that a panel is used well (an input, in a step), and of the last
 * part small, so that threads finish together.
 */
static void product_run(struct product *pr)
{
    const struct cpu *c = pr->p->c;
    int n_tok = pr->p->n_row - pr->p->r0, n_thread = pool_size(c->pool);
    int units = (int)product_total(pr);
    int least = (units + MAX_UNITS - 1) / MAX_UNITS;

    pr->part = n_tok;
    if (!pr->rows && !is_fast(c, &pr->mat[0]))
        pr->part = c->k->gemm_part(n_tok, pr->d_in);
    pr->n_part = (n_tok + pr->part - 1) / pr->part;
    pr->n_piece = clamp(4 * n_thread / pr->n_part, least, units);
    pr->n_piece_last = clamp(8 * n_thread, pr->n_piece, units);
    if (pr->rows)
        pr->n_piece_last = pr->n_piece;
    pool_run(c->pool, product_range, pr,
             (int64_t)(pr->n_part - 1) * pr->n_piece + pr->n_piece_last, 1);
}

/* ------------------------------------------------------- per-row stages */

/* What is done to each active row before a product reads it. */
enum stage_kind { STAGE_NORM, STAGE_ATTENTION, STAGE_PLAIN };

struct stage {
    struct product *pr;
    enum stage_kind kind;
    const float    *norm;     /* STAGE_NORM: weight of the norm */
    bool            add;      /* first x += y */
    const float    *bias;     /* added to y before that, or NULL */
    struct attn_pass attn;
};

static void stage_rows(const struct stage *s, int t0, int t1)
{
    const struct pass *p = s->pr->p;
    const struct cpu *c = p->c;
    size_t d = (size_t)c->cfg->d_model;

    for (int t = p->r0 + t0; t < p->r0 + t1; t++) {
        float *x = c->x + (size_t)t * d, *y = c->y + (size_t)t * d;
        if (s->kind == STAGE_ATTENTION && !p->prompt)
            attend_step_finish(&s->attn, t);
        if (s->kind != STAGE_NORM)
            continue;
        if (s->bias != NULL)
            c->k->add(y, s->bias, d);
        if (s->add)
            c->k->add(x, y, d);
        c->k->rmsnorm(c->h + (size_t)t * d, d, x, d, s->norm, 1,
                      c->cfg->d_model, c->cfg->rms_eps);
    }
    product_encode(s->pr, t0, t1);
}

/* Rows that are packed together: both are powers of two. */
static int stage_grain(const struct cpu *c)
{
    return c->fast != NULL && c->fast->gemm_mr > c->k->gemm_mr
               ? c->fast->gemm_mr : c->k->gemm_mr;
}

static void stage_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct stage *s = ctx;
    int mr = stage_grain(s->pr->p->c), n = s->pr->p->n_row - s->pr->p->r0;
    int t0 = (int)begin * mr, t1 = (int)end * mr;

    (void)thread;
    stage_rows(s, t0, t1 < n ? t1 : n);
}

static void stage_run(struct stage *s)
{
    const struct cpu *c = s->pr->p->c;
    int n = s->pr->p->n_row - s->pr->p->r0, mr = stage_grain(c);

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
    struct kmat w = kmat_of(&c->w->embed);
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
    const struct kvcache *kv = (const struct kvcache *)p->row[t].kv;
    int d = cfg->d_head, pos = p->row[t].pos;
    float *q = c->qkv + (size_t)t * (size_t)c->d_qkv;
    float *k = q + c->d_q, *v = k + c->d_kv;
    const float *cs = c->cos + (size_t)t * (size_t)(d / 2);
    const float *sn = c->sin + (size_t)t * (size_t)(d / 2);
    size_t n = (size_t)c->group * (size_t)d;

    if (w->bq != NULL)
        c->k->add(q, w->bq, (size_t)c->d_q);
    if (w->bk != NULL)
        c->k->add(k, w->bk, (size_t)c->d_kv);
    if (w->bv != NULL)
        c->k->add(v, w->bv, (size_t)c->d_kv);
    if (w->q_norm != NULL)
        c->k->rmsnorm(q, (size_t)d, q, (size_t)d, w->q_norm, cfg->n_head, d,
                      cfg->rms_eps);
    if (w->k_norm != NULL)
        c->k->rmsnorm(k, (size_t)d, k, (size_t)d, w->k_norm, cfg->n_kv_head,
                      d, cfg->rms_eps);
    c->k->rope(q, cfg->n_head, d, cs, sn, c->q_scale);
    c->k->rope(k, cfg->n_kv_head, d, cs, sn, 1.0f);
    for (int h = 0; h < cfg->n_kv_head; h++) {
        size_t at = ((size_t)h * (size_t)c->base.max_row + (size_t)t) * n;

        memcpy(c->q + at, q + (size_t)h * n, n * sizeof *q);
        if (prefix_is_q8h(kv->prefix)) {
            memcpy(c->turned + at, q + (size_t)h * n, n * sizeof *q);
            c->k->q8h_rotate(c->turned + at,
                             prefix_factors(kv->prefix, p->layer, h),
                             c->group, d);
        }
        if (!c->k->kv_store(c->kv_type,
                            kvcache_tile(kv, p->layer, 0, h, pos / KV_TILE),
                            kvcache_tile(kv, p->layer, 1, h, pos / KV_TILE),
                            pos % KV_TILE, k + (size_t)h * (size_t)d,
                            v + (size_t)h * (size_t)d, d)) {
            int bad = atomic_load(&p->bad_row);
            while (t < bad &&
                   !atomic_compare_exchange_weak(&p->bad_row, &bad, t))
                ;
        }
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
static void watch_rows(const struct pass *p)
{
    const struct cpu *c = p->c;
    size_t n = (size_t)c->group * (size_t)c->cfg->d_head;

    for (int t = 0; t < p->n_row; t++)
        kv_q8h_watch((struct kvcache *)p->row[t].kv, p->layer, p->row[t].pos,
                     c->q + (size_t)t * n, (size_t)c->base.max_row * n,
                     c->group);
}

/* --------------------------------------------------------------- a layer */

/* The rows that go on past K and V of the last layer. */
static int first_wanted(const struct forward_req *req)
{
    int r = 0;

    while (r < req->n_row && req->row[r].logits == NULL)
        r++;
    return r;
}

static cag_status layer_kv(struct pass *p, cag_error *err)
{
    struct cpu *c = p->c;
    size_t ld = (size_t)c->d_qkv;
    struct product pr;
    struct stage st = { &pr, STAGE_NORM, p->w->attn_norm, p->layer > 0,
                        NULL, { 0 } };

    product_init(&pr, p, c->h, (size_t)c->cfg->d_model, c->cfg->d_model);
    product_add(&pr, &p->w->wq, c->qkv, ld);
    product_add(&pr, &p->w->wk, c->qkv + c->d_q, ld);
    product_add(&pr, &p->w->wv, c->qkv + c->d_q + c->d_kv, ld);
    stage_run(&st);
    product_run(&pr);
    run_rows(p, rotate_range);
    watch_rows(p);
    int bad = atomic_load(&p->bad_row);
    if (bad == INT_MAX)
        return CAG_OK;
    return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                    "layer %d, token %d: a key or value does not fit %s",
                    p->layer, p->row[bad].pos,
                    c->kv_type == KV_F32
                        ? "f32 (infinite or not a number)"
                        : "f16 (above 65504 or not a number)");
}

static void layer_rest(struct pass *p)
{
    struct cpu *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ff = (size_t)c->cfg->d_ff;
    struct attn_pass a = { c, p->row, p->r0, p->n_row, p->layer };
    struct product o, gu, down;

    if (p->prompt)
        attend_prompt(&a);
    else
        attend_step(&a);
    product_init(&o, p, c->att, (size_t)c->d_q, c->d_q);
    product_add(&o, &p->w->wo, c->y, d);
    struct stage so = { &o, STAGE_ATTENTION, NULL, false, NULL, a };
    stage_run(&so);
    product_run(&o);

    product_init(&gu, p, c->h, d, c->cfg->d_model);
    product_add(&gu, &p->w->w_gate, c->gate, ff);
    product_add(&gu, &p->w->w_up, c->up, ff);
    gu.swiglu = true;
    struct stage sg = { &gu, STAGE_NORM, p->w->ffn_norm, true, p->w->bo,
                        { 0 } };
    stage_run(&sg);
    product_run(&gu);

    product_init(&down, p, c->gate, ff, c->cfg->d_ff);
    product_add(&down, &p->w->w_down, c->y, d);
    struct stage sd = { &down, STAGE_PLAIN, NULL, false, NULL, { 0 } };
    stage_run(&sd);
    product_run(&down);
}

/* ----------------------------------------------------------------- logits */

static void head_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct product *pr = ctx;
    const struct pass *p = pr->p;
    const struct cpu *c = p->c;
    const struct out_mat *m = &pr->mat[0];
    int n = pr->n_wanted;
    float *slice = c->thread[thread].slice;

    for (int row0 = (int)begin * GEMM_ROW_GRID; row0 < m->w.n_out &&
         row0 < (int)end * GEMM_ROW_GRID; row0 += HEAD_SLICE) {
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
                       m->xq_stride, g, &w, 0, rows, c->exact);
            for (int i = 0; i < g; i++) {
                while (p->row[r].logits == NULL)
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
        if (p->row[r].logits == NULL)
            continue;
        if (n != r - p->r0)
            memcpy(m->xq + (size_t)n * m->xq_stride,
                   m->xq + (size_t)(r - p->r0) * m->xq_stride, m->xq_stride);
        n++;
    }
    return n;
}

static void best_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct pass *p = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        if (p->row[r].best != NULL)
            *p->row[r].best = sampler_best(p->row[r].logits,
                                           p->c->cfg->n_vocab);
}

/* Logits of the active rows; always by the row kernels. */
static void head(struct pass *p)
{
    struct cpu *c = p->c;
    struct product pr;
    struct stage st = { &pr, STAGE_NORM, c->w->out_norm, true, NULL, { 0 } };

    product_init(&pr, p, c->h, (size_t)c->cfg->d_model, c->cfg->d_model);
    product_add(&pr, &c->w->head, NULL, 0);
    pr.rows = true;
    stage_run(&st);
    pr.n_wanted = keep_wanted(p, &pr.mat[0]);
    pool_run(c->pool, head_range, &pr, units_of(pr.mat[0].w.n_out),
             HEAD_SLICE / GEMM_ROW_GRID);
    run_rows(p, best_range);
}

/* --------------------------------------------------------------- the pass */

static void mark_dirty(const struct forward_req *req)
{
    for (int r = 0; r < req->n_row; r++) {
        struct kvcache *kv = (struct kvcache *)req->row[r].kv;
        if (kv->n_dirty <= req->row[r].pos)
            kv->n_dirty = req->row[r].pos + 1;
    }
}

static cag_status ready(const struct forward_req *req, int layer,
                        cag_error *err)
{
    cag_status st = CAG_OK;

    for (int r = 0; st == CAG_OK && r < req->n_row; r++)
        st = kvcache_ready((struct kvcache *)req->row[r].kv, layer, err);
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
    for (int l = 0; l < n_layer; l++) {
        p->layer = l;
        if (p->req->progress != NULL && !go_on(p))
            return cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
        p->w = &c->w->layer[l];
        st = ready(p->req, l, err);
        if (st == CAG_OK)
            st = layer_kv(p, err);
        if (st != CAG_OK)
            return st;
        if (l == n_layer - 1)
            p->r0 = first_wanted(p->req);
        if (p->r0 == p->n_row)
            return CAG_OK;
        layer_rest(p);
    }
    head(p);
    return CAG_OK;
}

/*
 * A layer of a large model takes longer than a user waits for Ctrl-C, so the
 * jobs ask too; what a cancelled job left undone is never looked at.
 */
cag_status forward(struct cpu *c, const struct forward_req *req,
                   cag_error *err)
{
    struct pass p = { .c = c, .req = req, .row = req->row,
                      .n_row = req->n_row,
                      .prompt = req->phase == FORWARD_PROMPT };
    cag_status st = CAG_OK;

    atomic_init(&p.bad_row, INT_MAX);
    if (!p.prompt)
        st = attend_step_plan(c, req->row, req->n_row, err);
    if (st != CAG_OK)
        return st;
    mark_dirty(req);
    if (req->progress != NULL)
        pool_watch(c->pool, go_on, &p);
    st = layers(&p, err);
    if (pool_cancelled(c->pool))
        st = cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    pool_watch(c->pool, NULL, NULL);
    return st;
}
