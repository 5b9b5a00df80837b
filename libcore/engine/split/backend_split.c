/*
 * backend_split.c - one backend made of two: the CPU has the first layers, a
 * GPU the others and the output.
 *
 *   ids -> embedding, layers 0 .. l-1 (CPU) -> x -> layers l .. n-1, logits
 *
 * A pass crosses once, with the residual stream of its rows, and what comes
 * back is what a GPU gives back anyway: ids, or logits that were asked for.
 * It is this way round because the embedding is a look-up, which costs the CPU
 * nothing, and the output a large product, which costs a GPU little.
 *
 * Every layer has its weights, and its part of a cache and of a timeline, in
 * one place only.  The CPU's are used where they are mapped.
 */
#include "engine/backend.h"

#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "util/error.h"
#include "util/mem.h"

enum { FIRST, LAST, N_PART };

struct split {
    struct backend base;
    struct backend *part[N_PART];
    struct forward_row *row; /* [max_row], of one part's timelines */
    float *x;                /* [max_row, d_model] */
    char kernels[96], numerics[128], prompt_gemm[64];
};

struct split_prefix {
    struct backend_prefix base;
    struct backend_prefix *part[N_PART];
};

struct split_kv {
    struct backend_kv base;
    struct backend_kv *part[N_PART];
};

static struct split *split_of(const struct backend *b)
{
    return (struct split *)(uintptr_t)b;
}

/* ---------------------------------------------------------------- what it is
 */

static void split_free(struct backend *b)
{
    struct split *s = split_of(b);

    if (!s)
        return;
    for (int i = 0; i < N_PART; i++)
        if (s->part[i])
            s->part[i]->ops->free(s->part[i]);
    mem_free(s->row);
    mem_free(s->x);
    mem_free(s);
}

static const char *split_kernels(const struct backend *b)
{
    return split_of(b)->kernels;
}

static const char *split_numerics(const struct backend *b)
{
    return split_of(b)->numerics;
}

static cag_device_memory split_memory(const struct backend *b)
{
    const struct backend *last = split_of(b)->part[LAST];

    return last->ops->memory(last);
}

static void split_timeline(struct backend *b, backend_moment_fn *fn, void *ctx)
{
    struct backend *last = split_of(b)->part[LAST];

    if (last->ops->timeline)
        last->ops->timeline(last, fn, ctx);
}

/* ------------------------------------------------------------------ prefixes
 */

static void split_prefix_free(struct backend_prefix *base)
{
    struct split_prefix *p = (struct split_prefix *)base;

    if (!p)
        return;
    for (int i = 0; i < N_PART; i++)
        if (p->part[i])
            p->part[i]->backend->ops->prefix_free(p->part[i]);
    mem_free(p);
}

static cag_status split_prefix_new(struct backend *b, const cag_kvc *k,
                                   int n_tok, struct backend_prefix **out,
                                   cag_error *err)
{
    struct split *s = split_of(b);
    struct split_prefix *p = mem_zalloc(sizeof *p);
    cag_status st = CAG_OK;

    if (!p)
        return cag_fail_nomem(err, "prefix");
    p->base.backend = b;
    for (int i = 0; !st && i < N_PART; i++)
        st =
            s->part[i]->ops->prefix_new(s->part[i], k, n_tok, &p->part[i], err);
    if (st) {
        split_prefix_free(&p->base);
        return st;
    }
    *out = &p->base;
    return CAG_OK;
}

static uint64_t split_prefix_bytes(const struct backend_prefix *base)
{
    const struct split_prefix *p = (const struct split_prefix *)base;
    uint64_t n = 0;

    for (int i = 0; i < N_PART; i++)
        n += p->part[i]->backend->ops->prefix_private_bytes(p->part[i]);
    return n;
}

static double split_prefix_seconds(const struct backend_prefix *base)
{
    const struct split_prefix *p = (const struct split_prefix *)base;
    double s = 0;

    for (int i = 0; i < N_PART; i++)
        if (p->part[i]->backend->ops->prefix_seconds)
            s += p->part[i]->backend->ops->prefix_seconds(p->part[i]);
    return s;
}

static cag_status split_prefix_load(struct backend_prefix *base, cag_error *err)
{
    struct split_prefix *p = (struct split_prefix *)base;
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_PART; i++)
        st = p->part[i]->backend->ops->prefix_load(p->part[i], err);
    return st;
}

static struct backend_prefix *prefix_part(struct backend_prefix *p, int i)
{
    return p ? ((struct split_prefix *)p)->part[i] : NULL;
}

/* ----------------------------------------------------------------- timelines
 */

static void split_kv_free(struct backend_kv *base)
{
    struct split_kv *kv = (struct split_kv *)base;

    if (!kv)
        return;
    for (int i = 0; i < N_PART; i++)
        if (kv->part[i])
            kv->part[i]->backend->ops->kv_free(kv->part[i]);
    mem_free(kv);
}

static cag_status split_kv_new(struct backend *b, struct backend_prefix *p,
                               int max_tok, struct backend_kv **out,
                               cag_error *err)
{
    struct split *s = split_of(b);
    struct split_kv *kv = mem_zalloc(sizeof *kv);
    cag_status st = CAG_OK;

    if (!kv)
        return cag_fail_nomem(err, "session");
    kv->base.backend = b;
    for (int i = 0; !st && i < N_PART; i++)
        st = s->part[i]->ops->kv_new(s->part[i], prefix_part(p, i), max_tok,
                                     &kv->part[i], err);
    if (st) {
        split_kv_free(&kv->base);
        return st;
    }
    *out = &kv->base;
    return CAG_OK;
}

static int split_kv_room(struct backend *b, struct backend_prefix *p,
                         int max_tok)
{
    struct split *s = split_of(b);
    int n[N_PART];

    for (int i = 0; i < N_PART; i++)
        n[i] = s->part[i]->ops->kv_room(s->part[i], prefix_part(p, i), max_tok);
    return n[FIRST] < n[LAST] ? n[FIRST] : n[LAST];
}

static void split_kv_truncate(struct backend_kv *base, int n_tok)
{
    const struct split_kv *kv = (const struct split_kv *)base;

    for (int i = 0; i < N_PART; i++)
        kv->part[i]->backend->ops->kv_truncate(kv->part[i], n_tok);
}

static cag_status split_kv_export(const struct backend_kv *base,
                                  const struct kvc_shape *shape, int layer,
                                  int chunk, uint8_t *dst, cag_error *err)
{
    const struct split_kv *kv = (const struct split_kv *)base;
    const struct backend *first = kv->part[FIRST]->backend;
    const struct backend_kv *part =
        kv->part[layer < first->layer1 ? FIRST : LAST];

    return part->backend->ops->kv_export(part, shape, layer, chunk, dst, err);
}

static cag_status split_kv_import(struct backend_kv *base, const cag_kvc *k,
                                  int n_tok, cag_error *err)
{
    const struct split_kv *kv = (const struct split_kv *)base;
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_PART; i++)
        st = kv->part[i]->backend->ops->kv_import(kv->part[i], k, n_tok, err);
    return st;
}

/* ---------------------------------------------------------------- the pass */

static cag_status split_forward(struct backend *b,
                                const struct forward_req *req, cag_error *err)
{
    struct split *s = split_of(b);
    struct forward_req r = *req;
    cag_status st = CAG_OK;

    r.row = s->row;
    r.x = s->x;
    s->part[LAST]->trace = b->trace;
    for (int i = 0; !st && i < N_PART; i++) {
        for (int t = 0; t < r.n_row; t++) {
            s->row[t] = req->row[t];
            s->row[t].kv = ((const struct split_kv *)req->row[t].kv)->part[i];
        }
        st = s->part[i]->ops->forward(s->part[i], &r, err);
    }
    return st;
}

/* ------------------------------------------------------------------- making */

static const struct backend_ops split_ops = {
    .name = "cpu+cuda",
    .free = split_free,
    .kernels = split_kernels,
    .numerics = split_numerics,
    .memory = split_memory,
    .prefix_new = split_prefix_new,
    .prefix_free = split_prefix_free,
    .prefix_private_bytes = split_prefix_bytes,
    .prefix_seconds = split_prefix_seconds,
    .prefix_load = split_prefix_load,
    .kv_new = split_kv_new,
    .kv_free = split_kv_free,
    .kv_truncate = split_kv_truncate,
    .kv_room = split_kv_room,
    .kv_export = split_kv_export,
    .kv_import = split_kv_import,
    .forward = split_forward,
    .timeline = split_timeline,
};

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Where the border lies is part of the numerics: K and V after it differ. */
static void describe(struct split *s, int n_layer)
{
    const struct backend *a = s->part[FIRST], *b = s->part[LAST];

    s->base.ops = &split_ops;
    s->base.layer1 = n_layer;
    s->base.views = a->views && b->views;
    s->base.masses = a->masses && b->masses;
    s->base.pass_rows = min_int(a->pass_rows, b->pass_rows);
    s->base.max_row = min_int(a->max_row, b->max_row);
    s->base.prompt_gemm = s->prompt_gemm;
    snprintf(s->prompt_gemm, sizeof s->prompt_gemm, "%s+%s", a->prompt_gemm,
             b->prompt_gemm);
    snprintf(s->kernels, sizeof s->kernels, "%s+%s", a->ops->kernels(a),
             b->ops->kernels(b));
    snprintf(s->numerics, sizeof s->numerics, "%s+%s@%d", a->ops->numerics(a),
             b->ops->numerics(b), b->layer0);
    snprintf(s->base.note, sizeof s->base.note,
             "%.300s: layers %d-%d of %d, the CPU has the others", b->note,
             b->layer0, n_layer - 1, n_layer);
}

cag_status split_new(const cag_model *m, const struct backend_opts *opts,
                     struct backend *last, struct backend **out, cag_error *err)
{
    struct backend_opts o = *opts;
    struct split *s = mem_zalloc(sizeof *s);
    cag_status st;

    if (!s) {
        last->ops->free(last);
        return cag_fail_nomem(err, "engine");
    }
    s->part[LAST] = last;
    o.pass_rows = last->pass_rows;
    o.layer1 = last->layer0;
    st = cpu_new(m, &o, &s->part[FIRST], err);
    if (!st) {
        describe(s, m->config.n_layer);
        s->row = mem_alloc_array((size_t)s->base.max_row, sizeof *s->row);
        s->x = mem_alloc_array(
            (size_t)s->base.max_row * (size_t)m->config.d_model, sizeof *s->x);
        if (!s->row || !s->x)
            st = cag_fail_nomem(err, "engine");
    }
    if (st) {
        split_free(&s->base);
        return st;
    }
    *out = &s->base;
    return CAG_OK;
}
