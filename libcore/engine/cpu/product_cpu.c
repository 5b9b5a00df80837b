/*
 * product_cpu.c - see product_cpu.h.
 *
 * A prompt's products are gemm over all rows: parts of the tokens one after
 * the other, so that a part's inputs stay in the cores' caches over all
 * weight rows.  A step's (and all logits) are the row kernels, ROWS_MAX
 * tokens at a time, whose inputs are small.
 *
 * The pool hands out pieces of weight rows, in a part.
 */
#include "engine/cpu/product_cpu.h"

#include <string.h>

#include "util/pool.h"

/* GEMM_ROW_GRID weight rows are a unit; MAX_UNITS at most go to a thread at
 * a time. */
enum { MAX_UNITS = 8 };

static int clamp(int n, int lo, int hi)
{
    return n < lo ? lo : n > hi ? hi : n;
}

int product_units(int n_out)
{
    return (n_out + GEMM_ROW_GRID - 1) / GEMM_ROW_GRID;
}

void product_init(struct product *pr, struct cpu *c, int r0, int n_tok,
                  bool rows, const float *x, size_t ld, int d_in)
{
    memset(pr, 0, sizeof *pr);
    pr->c = c;
    pr->r0 = r0;
    pr->n_tok = n_tok;
    pr->rows = rows;
    pr->x = x;
    pr->ld = ld;
    pr->d_in = d_in;
    pr->packed = c->packed;
}

void product_add(struct product *pr, const struct kmat *w, float *y, size_t ld)
{
    pr->mat[pr->n_mat++] = (struct out_mat){ *w, y, ld, NULL, 0 };
}

size_t product_xq_bound(const struct cpu *c, int d_in)
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
    return most * PRODUCT_MATS;
}

/* What computes a prompt's product, or NULL: the set's gemm. */
static const struct kernels_fast *family(const struct cpu *c,
                                         const struct out_mat *m)
{
    if (c->fast8 && c->fast8->takes(m->w.type))
        return c->fast8;
    return c->fast && c->fast->takes(m->w.type) ? c->fast : NULL;
}

bool product_chain(struct product *pr, struct product *next)
{
    const struct cpu *c = pr->c;

    pr->swiglu = true;
    if (pr->rows || family(c, &pr->mat[0]) || family(c, &pr->mat[1]) ||
        family(c, &next->mat[0]))
        return false;
    pr->gated = next->packed = pr->mat[0].y;
    return true;
}

void product_place(struct product *pr)
{
    const struct cpu *c = pr->c;
    uint8_t *at = (uint8_t *)c->packed;

    for (int i = 0; i < pr->n_mat; i++) {
        struct out_mat *m = &pr->mat[i];
        for (int j = 0; j < i && !m->xq; j++)
            if (pr->mat[j].w.type == m->w.type) {
                m->xq = pr->mat[j].xq;
                m->xq_stride = pr->mat[j].xq_stride;
            }
        if (m->xq)
            continue;
        m->xq_stride = c->k->rows_x_size(m->w.type, pr->d_in, c->exact);
        m->xq = at;
        at += m->xq_stride * (size_t)c->base.max_row;
    }
}

/* Where a family's inputs are. */
static float *packed_of(const struct cpu *c, const struct kernels_fast *f)
{
    return f == c->fast8 ? c->packed_fast8 : c->packed_fast;
}

/* The inputs of a prompt's products, once for each gemm that reads them. */
static void pack(const struct product *pr, const float *x, int t0, int t1)
{
    const struct cpu *c = pr->c;

    for (int i = 0; i < pr->n_mat; i++) {
        const struct kernels_fast *f = family(c, &pr->mat[i]);
        bool done = false;

        for (int j = 0; j < i; j++)
            done = done || family(c, &pr->mat[j]) == f;
        if (done)
            continue;
        if (f)
            f->gemm_pack(packed_of(c, f), x, pr->ld, pr->n_tok, pr->d_in, t0,
                         t1);
        else
            c->k->gemm_pack(pr->packed, x, pr->ld, pr->n_tok, pr->d_in, t0, t1);
    }
}

void product_encode(const struct product *pr, int t0, int t1)
{
    const struct cpu *c = pr->c;
    const float *x = pr->x + (size_t)pr->r0 * pr->ld;

    if (!pr->rows) {
        pack(pr, x, t0, t1);
        return;
    }
    for (int i = 0; i < pr->n_mat; i++) {
        const struct out_mat *m = &pr->mat[i];
        bool done = false;
        for (int j = 0; j < i; j++)
            done = done || pr->mat[j].xq == m->xq;
        for (int t = t0; t < t1 && !done; t++)
            c->k->rows_x(m->xq + (size_t)t * m->xq_stride,
                         x + (size_t)t * pr->ld, m->w.type, pr->d_in, c->exact);
    }
}

/* Rows [row0, row1) of one matrix for tokens [t0, t1), counted from r0. */
static void multiply(const struct product *pr, const struct out_mat *m,
                     int thread, int t0, int t1, int row0, int row1)
{
    const struct cpu *c = pr->c;
    const struct kernels_fast *f = family(c, m);
    float *y = m->y + (size_t)(pr->r0 + t0) * m->ld;

    if (pr->rows) {
        for (int t = t0; t < t1; t += ROWS_MAX, y += ROWS_MAX * m->ld)
            c->k->rows(y, m->ld, m->xq + (size_t)t * m->xq_stride, m->xq_stride,
                       t1 - t < ROWS_MAX ? t1 - t : ROWS_MAX, &m->w, row0, row1,
                       c->exact, c->thread[thread].gemm);
    } else if (f) {
        f->gemm(y, m->ld, packed_of(c, f) + f->gemm_pack_size(t0, pr->d_in),
                t1 - t0, &m->w, row0, row1, c->thread[thread].gemm);
    } else {
        c->k->gemm(y, m->ld, pr->packed + c->k->gemm_pack_size(t0, pr->d_in),
                   t1 - t0, &m->w, row0, row1, c->thread[thread].gemm);
    }
}

static void swiglu_slice(const struct product *pr, int t0, int t1, int row0,
                         int row1)
{
    const struct cpu *c = pr->c;

    for (int t = pr->r0 + t0; t < pr->r0 + t1; t++) {
        float *g = pr->mat[0].y + (size_t)t * pr->mat[0].ld + row0;
        const float *u = pr->mat[1].y + (size_t)t * pr->mat[1].ld + row0;
        c->k->swiglu(g, g, u, (size_t)(row1 - row0));
    }
}

/* Rows [row0, row1) of gate and up, and what is made of them. */
static void multiply_gate_up(const struct product *pr, int thread, int t0,
                             int t1, int row0, int row1)
{
    const struct cpu *c = pr->c;
    const struct kmat *g = &pr->mat[0].w, *u = &pr->mat[1].w;

    if (pr->gated) {
        c->k->gemm_gated(pr->gated + c->k->gemm_pack_size(t0, g->n_out),
                         pr->packed + c->k->gemm_pack_size(t0, pr->d_in),
                         t1 - t0, g, u, row0, row1, c->thread[thread].gemm);
        return;
    }
    multiply(pr, &pr->mat[0], thread, t0, t1, row0, row1);
    multiply(pr, &pr->mat[1], thread, t0, t1, row0, row1);
    swiglu_slice(pr, t0, t1, row0, row1);
}

/* Units [begin, end) of the list of weight rows for tokens [t0, t1). */
static void multiply_units(const struct product *pr, int thread, int t0, int t1,
                           int64_t begin, int64_t end)
{
    int64_t base = 0;

    for (int i = 0; i < pr->n_mat && (i == 0 || !pr->swiglu); i++) {
        const struct out_mat *m = &pr->mat[i];
        int64_t n = product_units(m->w.n_out);
        int64_t b = begin > base ? begin - base : 0;
        int64_t e = end - base < n ? end - base : n;
        if (b < e) {
            int row0 = (int)b * GEMM_ROW_GRID;
            int row1 = (int)e * GEMM_ROW_GRID;
            if (row1 > m->w.n_out)
                row1 = m->w.n_out;
            if (pr->swiglu)
                multiply_gate_up(pr, thread, t0, t1, row0, row1);
            else
                multiply(pr, m, thread, t0, t1, row0, row1);
        }
        base += n;
    }
}

static int64_t product_total(const struct product *pr)
{
    int64_t n = 0;

    for (int i = 0; i < pr->n_mat && (i == 0 || !pr->swiglu); i++)
        n += product_units(pr->mat[i].w.n_out);
    return n;
}

/* Item i: a piece of the weight rows for a part of the tokens. */
static void product_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct product *pr = ctx;
    int64_t total = product_total(pr);

    for (int64_t i = begin; i < end; i++) {
        int64_t before = (int64_t)(pr->n_part - 1) * pr->n_piece;
        bool last = i >= before;
        int t0 = (last ? pr->n_part - 1 : (int)(i / pr->n_piece)) * pr->part;
        int64_t n = last ? pr->n_piece_last : pr->n_piece;
        int64_t piece = last ? i - before : i % n;

        multiply_units(pr, thread, t0,
                       pr->n_tok - t0 < pr->part ? pr->n_tok : t0 + pr->part,
                       total * piece / n, total * (piece + 1) / n);
    }
}

/*
 * Parts of the tokens one after the other, so that a part's inputs stay in
 * the cores' caches over all weight rows.  These are handed out in pieces:
 * large, so that a panel is used well (an input, in a step), and of the last
 * part small, so that threads finish together.
 */
void product_run(struct product *pr)
{
    const struct cpu *c = pr->c;
    int n_tok = pr->n_tok, n_thread = pool_size(c->pool);
    int units = (int)product_total(pr);
    int least = (units + MAX_UNITS - 1) / MAX_UNITS;

    pr->part = n_tok;
    if (!pr->rows && !family(c, &pr->mat[0]))
        pr->part = c->k->gemm_part(n_tok, pr->d_in);
    pr->n_part = (n_tok + pr->part - 1) / pr->part;
    pr->n_piece = clamp(4 * n_thread / pr->n_part, least, units);
    pr->n_piece_last = clamp(8 * n_thread, pr->n_piece, units);
    if (pr->rows)
        pr->n_piece_last = pr->n_piece;
    pool_run(c->pool, product_range, pr,
             (int64_t)(pr->n_part - 1) * pr->n_piece + pr->n_piece_last, 1);
}
