/*
 * backend_cpu.c - the CPU as a backend: its limit of memory and its table.
 *
 * A limit of memory counts what a pass reads: weights and caches, mapped as
 * they may be, sessions and scratch.  It is asked before anything is allocated.
 */
#include "engine/cpu/cpu.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/forward_cpu.h"
#include "engine/cpu/q8h_build.h"
#include "engine/cpu/kvcache_cpu.h"
#include "util/error.h"
#include "util/mem.h"

/* A step of at most this many rows is one pass, however few a prompt's has. */
#define MIN_ROWS     64
#define DEFAULT_ROWS 512

/* -------------------------------------------------------------- the limit */

static uint64_t left_bytes(const struct cpu *c)
{
    return c->max_bytes == 0              ? UINT64_MAX
           : c->max_bytes > c->used_bytes ? c->max_bytes - c->used_bytes
                                          : 0;
}

/* Count bytes as used; CAG_E_NOMEM with both numbers if they are too many. */
static cag_status charge(struct cpu *c, uint64_t bytes, const char *what,
                         cag_error *err)
{
    const uint64_t mib = (uint64_t)1 << 20;

    if (bytes > left_bytes(c))
        return cag_fail(err, CAG_E_NOMEM, NULL, -1,
                        "%s needs %llu MiB of memory, --max-memory leaves "
                        "%llu MiB of %llu MiB",
                        what, (unsigned long long)((bytes + mib - 1) / mib),
                        (unsigned long long)(left_bytes(c) / mib),
                        (unsigned long long)(c->max_bytes / mib));
    c->used_bytes += bytes;
    return CAG_OK;
}

/* Weight bytes the CPU reads in a pass: the embedding, its layers, and the
 * head if it computes logits. */
static uint64_t cpu_weight_bytes(const struct cpu *c)
{
    const struct model_weights *w = c->w;
    uint64_t n = kmat_bytes(&w->embed) + weights_bytes(w, 0, c->base.layer1);

    if (c->base.layer1 == c->cfg->n_layer && w->head.data != w->embed.data)
        n += kmat_bytes(&w->head);
    return n;
}

/* Chunks of a cache as attention reads them, wherever they are. */
static uint64_t prefix_bytes(const struct cpu *c, const struct kvc_shape *s)
{
    uint64_t n = 0;

    for (int i = 0; i < kvc_n_chunk(s); i++)
        n += kvc_chunk_bytes(s, i);
    return n * (uint64_t)c->base.layer1;
}

static int shared_tiles(const struct backend_prefix *p)
{
    return p ? ((const struct cpu_prefix *)p)->n_tok / KV_TILE : 0;
}

/* Private tiles after n_shared whole ones of a prefix. */
static uint64_t session_bytes(const struct cpu *c, int n_shared, int max_tok)
{
    uint64_t n_tile = (uint64_t)((max_tok - 1) / KV_TILE + 1 - n_shared);
    uint64_t row = (uint64_t)c->d_kv * (c->kv_type == KV_F32 ? 4 : 2);

    return 2 * n_tile * KV_TILE * row * (uint64_t)c->base.layer1;
}

/* ------------------------------------------------------------- the table */

static struct cpu *cpu_of(struct backend *b)
{
    return (struct cpu *)b;
}

static void cpu_free(struct backend *b)
{
    struct cpu *c = cpu_of(b);

    if (!c)
        return;
    mem_free(c->scratch);
    mem_free(c->item);
    mem_free(c->state);
    mem_free(c);
}

static const char *cpu_kernels(const struct backend *b)
{
    return ((const struct cpu *)b)->k->name;
}

static const char *cpu_numerics(const struct backend *b)
{
    return ((const struct cpu *)b)->numerics;
}

static int cpu_kv_room(struct backend *b, struct backend_prefix *p, int max_tok)
{
    const struct cpu *c = cpu_of(b);
    uint64_t bytes = session_bytes(c, shared_tiles(p), max_tok);
    uint64_t left = left_bytes(c);

    return bytes == 0 || left / bytes > INT_MAX ? INT_MAX : (int)(left / bytes);
}

static cag_status cpu_prefix_new(struct backend *b, const cag_kvc *k, int n_tok,
                                 struct backend_prefix **out, cag_error *err)
{
    struct cpu *c = cpu_of(b);
    uint64_t bytes = prefix_bytes(c, kvc_get_shape(k));
    cag_status st = charge(c, bytes, "the cache", err);

    if (st)
        return st;
    st = prefix_new(b, k, n_tok, c->kv_type == KV_F32, c->pool, out, err);
    if (st)
        c->used_bytes -= bytes;
    return st;
}

static void cpu_prefix_free(struct backend_prefix *p)
{
    struct cpu *c;

    if (!p)
        return;
    c = cpu_of(p->backend);
    c->used_bytes -= prefix_bytes(c, ((struct cpu_prefix *)p)->shape);
    prefix_free(p);
}

static cag_status cpu_prefix_load(struct backend_prefix *p, cag_error *err)
{
    return prefix_load((struct cpu_prefix *)p, p->backend->layer1, err);
}

static cag_status cpu_kv_new(struct backend *b, struct backend_prefix *p,
                             int max_tok, struct backend_kv **out,
                             cag_error *err)
{
    struct cpu *c = cpu_of(b);
    struct cpu_kv *kv;
    const struct cpu_kv_shape shape = { b->layer1, c->cfg->n_kv_head,
                                        c->cfg->d_head, c->kv_type, max_tok };
    int n_row = CAG_STEP_MAX * (c->n_kvcache + 1);
    uint64_t bytes = session_bytes(c, shared_tiles(p), max_tok);
    cag_status st = charge(c, bytes, "a session", err);

    if (st)
        return st;
    if (n_row > b->max_row)
        n_row = b->max_row;
    st = cpu_reserve_step(c, n_row, (max_tok + KV_SPAN - 1) / KV_SPAN, err);
    if (!st)
        st = kvcache_new(b, (struct cpu_prefix *)p, &shape, &kv, err);
    if (st) {
        c->used_bytes -= bytes;
        return st;
    }
    c->n_kvcache++;
    *out = &kv->base;
    return CAG_OK;
}

static void cpu_kv_free(struct backend_kv *base)
{
    struct cpu_kv *kv = (struct cpu_kv *)base;
    struct cpu *c;

    if (!kv)
        return;
    c = cpu_of(base->backend);
    c->n_kvcache--;
    c->used_bytes -= session_bytes(c, kv->n_shared, kv->max_tok);
    q8h_free(kv);
    kvcache_free(kv);
}

static void cpu_kv_truncate(struct backend_kv *kv, int n_tok)
{
    q8h_truncate((struct cpu_kv *)kv, n_tok);
    kvcache_truncate((struct cpu_kv *)kv, n_tok);
}

static cag_status cpu_kv_export(const struct backend_kv *kv,
                                const struct kvc_shape *shape, int layer,
                                int chunk, uint8_t *dst, cag_error *err)
{
    const struct cpu_kv *t = (const struct cpu_kv *)kv;

    return kvc_is_q8h(shape) ? q8h_export(t, shape, layer, chunk, dst, err)
                             : kvcache_export(t, shape, layer, chunk, dst, err);
}

static cag_status cpu_kv_import(struct backend_kv *kv, const cag_kvc *k,
                                int n_tok, cag_error *err)
{
    return kvcache_import((struct cpu_kv *)kv, k, n_tok,
                          cpu_of(kv->backend)->pool, err);
}

static cag_status cpu_kv_gather(struct backend_kv *kv, int from, cag_error *err)
{
    return q8h_gather((struct cpu_kv *)kv, from, err);
}

static cag_status cpu_kv_balance(struct backend_kv *kv, int n_tok,
                                 cag_error *err)
{
    return q8h_balance((struct cpu_kv *)kv, n_tok, cpu_of(kv->backend)->pool,
                       err);
}

static cag_status cpu_forward(struct backend *b, const struct forward_req *req,
                              cag_error *err)
{
    return forward(cpu_of(b), req, err);
}

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .free = cpu_free,
    .kernels = cpu_kernels,
    .numerics = cpu_numerics,
    .prefix_new = cpu_prefix_new,
    .prefix_free = cpu_prefix_free,
    .prefix_private_bytes = prefix_private_bytes,
    .prefix_seconds = prefix_seconds,
    .prefix_load = cpu_prefix_load,
    .kv_new = cpu_kv_new,
    .kv_free = cpu_kv_free,
    .kv_truncate = cpu_kv_truncate,
    .kv_room = cpu_kv_room,
    .kv_export = cpu_kv_export,
    .kv_import = cpu_kv_import,
    .kv_gather = cpu_kv_gather,
    .kv_balance = cpu_kv_balance,
    .forward = cpu_forward,
};

static cag_status check_model(const cag_model *m, cag_error *err)
{
    const struct model_config *cfg = &m->config;

    if (!m->weights.layer)
        return cag_fail(err, CAG_E_USAGE, m->info.path, -1,
                        "the model was opened without its weights");
    if (cfg->d_head % 8 != 0)
        return cag_fail(err, CAG_E_UNSUPPORTED, m->info.path, -1,
                        "head size %d, expected a multiple of 8", cfg->d_head);
    if (cfg->n_head / cfg->n_kv_head > ATTN_ROWS)
        return cag_fail(err, CAG_E_UNSUPPORTED, m->info.path, -1,
                        "%d query heads share one KV head, expected at most "
                        "%d",
                        cfg->n_head / cfg->n_kv_head, ATTN_ROWS);
    return CAG_OK;
}

/* The families for --precision fast and fast8: those that take a weight of
 * this model. */
static void choose_fast(struct cpu *c, bool eight_bits, const char **why)
{
    int type[N_MAT], n_type = 0;

    if (!c->w->layer) /* opened without its weights: to measure */
        type[n_type++] = KT_F32;
    for (int l = 0; c->w->layer && l < c->base.layer1; l++) {
        const struct kmat *m = c->w->layer[l].mat;

        for (int i = 0; i < N_MAT; i++) {
            int j = 0;
            while (j < n_type && type[j] != m[i].type)
                j++;
            if (j == n_type && n_type < N_MAT)
                type[n_type++] = m[i].type;
        }
    }
    c->fast = kernels_fast_get(c->k, type, n_type, why);
    if (eight_bits)
        c->fast8 = kernels_fast8_get(c->k, c->fast, type, n_type);
}

/* What computes and in which order, as it is shown and recorded. */
static void name_products(struct cpu *c)
{
    const char *fast = c->fast ? c->fast->name : "f32";
    const char *numerics = c->fast ? c->fast->numerics : c->k->numerics;

    /* a family's numerics begin with the set's, which are there already */
    snprintf(c->prompt_gemm, sizeof c->prompt_gemm, "%s%s%s", fast,
             c->fast8 ? ", " : "", c->fast8 ? c->fast8->name : "");
    snprintf(c->numerics, sizeof c->numerics, "%s%s", numerics,
             c->fast8 ? strrchr(c->fast8->numerics, '+') : "");
    c->base.prompt_gemm = c->prompt_gemm;
}

/* What is known of the model and the options, without memory of its own. */
static cag_status describe(struct cpu *c, const cag_model *m,
                           const struct backend_opts *opts, cag_error *err)
{
    const struct model_config *cfg = &m->config;
    const char *why = NULL;

    c->k = kernels_get(&why);
    if (!c->k)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1, "%s", why);
    c->base.ops = &cpu_ops;
    c->base.pass_rows = opts->pass_rows != 0 ? opts->pass_rows : DEFAULT_ROWS;
    c->base.max_row =
        c->base.pass_rows > MIN_ROWS ? c->base.pass_rows : MIN_ROWS;
    c->base.layer1 = opts->layer1 != 0 ? opts->layer1 : cfg->n_layer;
    c->cfg = cfg;
    c->w = &m->weights;
    c->pool = opts->pool;
    c->exact = opts->precision == CAG_PRECISION_EXACT;
    c->kv_type = opts->kv_f32 ? KV_F32 : KV_F16;
    if (opts->precision == CAG_PRECISION_FAST ||
        opts->precision == CAG_PRECISION_FAST8)
        choose_fast(c, opts->precision == CAG_PRECISION_FAST8, &why);
    if (why)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1, "%s", why);
    c->base.views = c->base.masses = true;
    name_products(c);
    c->group = cfg->n_head / cfg->n_kv_head;
    c->d_q = cfg->n_head * cfg->d_head;
    c->d_kv = cfg->n_kv_head * cfg->d_head;
    c->d_qkv = c->d_q + 2 * c->d_kv;
    c->q_scale = (float)(1.4426950408889634 / sqrt((double)cfg->d_head));
    c->max_bytes = opts->max_host;
    return CAG_OK;
}

cag_status cpu_scratch_bytes(const cag_model *m,
                             const struct backend_opts *opts, int n_thread,
                             uint64_t *bytes, cag_error *err)
{
    struct cpu c;
    size_t n;
    cag_status st;

    memset(&c, 0, sizeof c);
    st = describe(&c, m, opts, err);
    if (st)
        return st;
    if (!cpu_carve(&c, n_thread, NULL, &n))
        return cag_fail_nomem(err, "scratch of the engine");
    *bytes = n;
    return CAG_OK;
}

cag_status cpu_new(const cag_model *m, const struct backend_opts *opts,
                   struct backend **out, cag_error *err)
{
    struct cpu *c = mem_zalloc(sizeof *c);
    size_t bytes;
    bool fits;
    cag_status st;

    if (!c)
        return cag_fail_nomem(err, "engine");
    st = describe(c, m, opts, err);
    if (!st)
        st = check_model(m, err);
    if (st)
        goto out;
    fits = cpu_carve(c, pool_size(c->pool), NULL, &bytes);
    st = charge(c, cpu_weight_bytes(c) + bytes, "the model with its scratch",
                err);
    if (st)
        goto out;
    if (fits)
        c->scratch = mem_alloc_aligned(64, bytes);
    if (!c->scratch) {
        st = cag_fail_nomem(err, "scratch of the engine");
        goto out;
    }
    cpu_carve(c, pool_size(c->pool), c->scratch, &bytes);
    st = cpu_reserve_step(c, 1, 1, err);
out:
    if (st) {
        cpu_free(&c->base);
        return st;
    }
    *out = &c->base;
    return CAG_OK;
}
