/*
 * backend_cpu.c - the CPU as a backend: its memory and its table.
 *
 * All scratch of a pass is one block, carved once when the engine is made
 * for passes of max_row rows.  It is not touched before it is used, so a
 * short question costs the memory of a short question.
 *
 * A limit of memory counts what a pass reads: weights and caches, mapped as
 * they may be, sessions and scratch.  It is asked before anything is allocated.
 */
#include "engine/cpu/cpu.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/forward_cpu.h"
#include "engine/cpu/q8h_build.h"
#include "engine/cpu/kvcache_cpu.h"
#include "engine/cpu/product_cpu.h"
#include "util/error.h"
#include "util/mem.h"

/* Steps of at least this many rows take one pass, however small the chunk. */
#define MIN_ROWS      64
#define DEFAULT_CHUNK 512

struct carve {
    uint8_t *base; /* NULL: only measure */
    size_t off;
    bool overflow;
};

/* n * m elements of size, 64-byte aligned */
static void *carve(struct carve *cv, size_t n, size_t m, size_t size)
{
    size_t bytes, at = cv->off;

    if (!mem_mul(&bytes, n, m) || !mem_mul(&bytes, bytes, size) ||
        !mem_add(&bytes, bytes, 63) ||
        !mem_add(&cv->off, cv->off, bytes & ~(size_t)63))
        cv->overflow = true;
    return cv->base ? cv->base + at : NULL;
}

/* Bytes of the inputs of any product, in the form it wants. */
static size_t packed_bytes(const struct cpu *c)
{
    const struct model_config *cfg = c->cfg;
    int width[3] = { cfg->d_model, c->d_q, cfg->d_ff };
    size_t most = 0;

    for (int i = 0; i < 3; i++) {
        size_t n =
            c->k->gemm_pack_size(c->base.max_row, width[i]) * sizeof(float);
        if (n > most)
            most = n;
        n = product_xq_bound(c, width[i]) * (size_t)c->base.max_row;
        if (n > most)
            most = n;
    }
    return most;
}

/* Floats of the inputs of any product that the other gemm computes. */
static size_t packed_fast_floats(const struct cpu *c)
{
    const struct model_config *cfg = c->cfg;
    int width[3] = { cfg->d_model, c->d_q, cfg->d_ff };
    size_t most = 0;

    for (int i = 0; c->fast && i < 3; i++) {
        size_t n = c->fast->gemm_pack_size(c->base.max_row, width[i]);
        if (n > most)
            most = n;
    }
    return most;
}

/* [max_row, d_ff], or that packed for gemm */
static size_t gate_floats(const struct cpu *c)
{
    size_t rows = (size_t)c->base.max_row * (size_t)c->cfg->d_ff;
    size_t packed = c->k->gemm_pack_size(c->base.max_row, c->cfg->d_ff);

    return rows > packed ? rows : packed;
}

static void carve_all(struct cpu *c, struct carve *cv)
{
    const struct model_config *cfg = c->cfg;
    size_t n = (size_t)c->base.max_row, d = (size_t)cfg->d_head;
    int n_thread = pool_size(c->pool);

    c->x = carve(cv, n, (size_t)cfg->d_model, sizeof(float));
    c->y = carve(cv, n, (size_t)cfg->d_model, sizeof(float));
    c->h = carve(cv, n, (size_t)cfg->d_model, sizeof(float));
    c->qkv = carve(cv, n, (size_t)c->d_qkv, sizeof(float));
    c->q = carve(cv, n, (size_t)c->d_q, sizeof(float));
    c->turned = carve(cv, n, (size_t)c->d_q, sizeof(float));
    c->att = carve(cv, n, (size_t)c->d_q, sizeof(float));
    c->gate = carve(cv, gate_floats(c), 1, sizeof(float));
    c->up = carve(cv, n, (size_t)cfg->d_ff, sizeof(float));
    c->cos = carve(cv, n, d / 2, sizeof(float));
    c->sin = carve(cv, n, d / 2, sizeof(float));
    c->last = carve(cv, n, (size_t)c->group, sizeof(int32_t));
    c->packed = carve(cv, packed_bytes(c), 1, 1);
    c->packed_fast = carve(cv, packed_fast_floats(c), 1, sizeof(float));
    c->thread = carve(cv, (size_t)n_thread, sizeof *c->thread, 1);
    for (int i = 0; i < n_thread; i++) {
        struct cpu_thread t;
        t.gemm = carve(cv, GEMM_SCRATCH, 1, sizeof(float));
        t.attn = carve(cv, ATTN_SCRATCH, 1, sizeof(float));
        t.m = carve(cv, 2 * ATTN_ROWS, 1, sizeof(float));
        t.l = carve(cv, 2 * ATTN_ROWS, 1, sizeof(float));
        t.o = carve(cv, 2 * ATTN_ROWS, d, sizeof(float));
        t.slice = carve(cv, ROWS_MAX, HEAD_SLICE, sizeof(float));
        if (cv->base)
            c->thread[i] = t;
    }
}

cag_status cpu_reserve_step(struct cpu *c, int n_row, int n_span,
                            cag_error *err)
{
    size_t n, width = (size_t)c->cfg->d_head + 2;
    size_t items = (size_t)n_row * (size_t)n_span;

    if (items < (size_t)c->base.max_row)
        items = (size_t)c->base.max_row; /* a prompt's blocks */
    if (items > INT32_MAX || !mem_mul(&n, items, (size_t)c->cfg->n_head))
        return cag_fail_nomem(err, "attention states");
    if (items > (size_t)c->cap_item) {
        struct attn_item *it = mem_alloc_array(items, sizeof *it);
        if (!it)
            return cag_fail_nomem(err, "attention items");
        mem_free(c->item);
        c->item = it;
        c->cap_item = (int)items;
    }
    n = (size_t)n_row * (size_t)n_span * (size_t)c->cfg->n_head;
    if (n > c->cap_state) {
        size_t bytes;
        float *s = NULL;
        if (mem_mul(&bytes, n, width * sizeof *s))
            s = mem_alloc_aligned(64, bytes);
        if (!s)
            return cag_fail_nomem(err, "attention states");
        mem_free(c->state);
        c->state = s;
        c->cap_state = n;
    }
    return CAG_OK;
}

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

/* Weight bytes the CPU reads in a pass: its layers, and the head if it
 * computes logits. */
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
    return p ? ((const struct prefix *)p)->n_tok / KV_TILE : 0;
}

/* Private tiles behind n_shared whole ones of a prefix. */
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
    const struct cpu *c = (const struct cpu *)b;

    return c->fast ? c->fast->numerics : c->k->numerics;
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
    c->used_bytes -= prefix_bytes(c, ((struct prefix *)p)->shape);
    prefix_free(p);
}

static cag_status cpu_prefix_load(struct backend_prefix *p, cag_error *err)
{
    return prefix_load((struct prefix *)p, p->backend->layer1, err);
}

static cag_status cpu_kv_new(struct backend *b, struct backend_prefix *p,
                             int max_tok, struct backend_kv **out,
                             cag_error *err)
{
    struct cpu *c = cpu_of(b);
    struct kvcache *kv;
    int n_row = CAG_STEP_MAX * (c->n_kvcache + 1);
    uint64_t bytes = session_bytes(c, shared_tiles(p), max_tok);
    cag_status st = charge(c, bytes, "a session", err);

    if (st)
        return st;
    if (n_row > b->max_row)
        n_row = b->max_row;
    st = cpu_reserve_step(c, n_row, (max_tok + KV_SPAN - 1) / KV_SPAN, err);
    if (!st)
        st = kvcache_new(b, (struct prefix *)p, b->layer1, c->cfg->n_kv_head,
                         c->cfg->d_head, c->kv_type, max_tok, &kv, err);
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
    struct kvcache *kv = (struct kvcache *)base;
    struct cpu *c;

    if (!kv)
        return;
    c = cpu_of(base->backend);
    c->n_kvcache--;
    c->used_bytes -= session_bytes(c, kv->n_shared, kv->max_tok);
    kvcache_free(kv);
}

static void cpu_kv_truncate(struct backend_kv *kv, int n_tok)
{
    kvcache_truncate((struct kvcache *)kv, n_tok);
}

static cag_status cpu_kv_export(const struct backend_kv *kv,
                                const struct kvc_shape *shape, int layer,
                                int chunk, uint8_t *dst, cag_error *err)
{
    return kvcache_export((const struct kvcache *)kv, shape, layer, chunk, dst,
                          err);
}

static cag_status cpu_kv_import(struct backend_kv *kv, const cag_kvc *k,
                                int n_tok, cag_error *err)
{
    return kvcache_import((struct kvcache *)kv, k, n_tok,
                          cpu_of(kv->backend)->pool, err);
}

static cag_status cpu_kv_gather(struct backend_kv *kv, int from, cag_error *err)
{
    return q8h_gather((struct kvcache *)kv, from, err);
}

static cag_status cpu_kv_balance(struct backend_kv *kv, int n_tok,
                                 cag_error *err)
{
    return q8h_balance((struct kvcache *)kv, n_tok, cpu_of(kv->backend)->pool,
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

/* The family for --precision fast: one that takes a weight of this model. */
static const struct kernels_fast *choose_fast(const struct cpu *c)
{
    int type[N_MAT], n_type = 0;

    for (int l = 0; l < c->base.layer1; l++) {
        const struct kmat *m = c->w->layer[l].mat;

        for (int i = 0; i < N_MAT; i++) {
            int j = 0;
            while (j < n_type && type[j] != m[i].type)
                j++;
            if (j == n_type && n_type < N_MAT)
                type[n_type++] = m[i].type;
        }
    }
    return kernels_fast_get(c->k, type, n_type);
}

cag_status cpu_new(const cag_model *m, const struct backend_opts *opts,
                   struct backend **out, cag_error *err)
{
    const struct model_config *cfg = &m->config;
    struct carve cv = { NULL, 0, false };
    const char *why = NULL;
    const struct kernels *k = kernels_get(&why);
    struct cpu *c;
    cag_status st;

    if (!k)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1, "%s", why);
    st = check_model(m, err);
    if (st)
        return st;
    c = mem_zalloc(sizeof *c);
    if (!c)
        return cag_fail_nomem(err, "engine");
    c->base.ops = &cpu_ops;
    c->base.chunk = opts->chunk != 0 ? opts->chunk : DEFAULT_CHUNK;
    c->base.max_row = c->base.chunk > MIN_ROWS ? c->base.chunk : MIN_ROWS;
    c->base.layer1 = opts->layer1 != 0 ? opts->layer1 : cfg->n_layer;
    c->k = k;
    c->cfg = cfg;
    c->w = &m->weights;
    c->pool = opts->pool;
    c->exact = opts->precision == CAG_PRECISION_EXACT;
    c->kv_type = opts->kv_f32 ? KV_F32 : KV_F16;
    if (opts->precision == CAG_PRECISION_FAST)
        c->fast = choose_fast(c);
    c->base.products = c->fast ? c->fast->name : "f32";
    c->group = cfg->n_head / cfg->n_kv_head;
    c->d_q = cfg->n_head * cfg->d_head;
    c->d_kv = cfg->n_kv_head * cfg->d_head;
    c->d_qkv = c->d_q + 2 * c->d_kv;
    c->q_scale = (float)(1.4426950408889634 / sqrt((double)cfg->d_head));

    carve_all(c, &cv);
    c->max_bytes = opts->max_host;
    st = charge(c, cpu_weight_bytes(c) + cv.off, "the model with its scratch",
                err);
    if (st)
        goto out;
    if (!cv.overflow)
        c->scratch = mem_alloc_aligned(64, cv.off);
    if (!c->scratch) {
        st = cag_fail_nomem(err, "scratch of the engine");
        goto out;
    }
    cv.base = c->scratch;
    cv.off = 0;
    carve_all(c, &cv);
    st = cpu_reserve_step(c, 1, 1, err);
out:
    if (st) {
        cpu_free(&c->base);
        return st;
    }
    *out = &c->base;
    return CAG_OK;
}
