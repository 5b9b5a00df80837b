/*
 * prefix_cpu.c - chunks of a cache, checked and expanded layer by layer.
 *
 * A chunk of a plain codec is computed on where it is mapped; a compressed
 * one is expanded into memory of this process.  Both happen when a forward
 * pass first reaches the layer, by all threads, one chunk each: the first
 * layer of a question starts while the rest of the file is still unread.
 * A chunk is checked before anything reads it (XXH3 of the stored bytes).
 *
 * Nothing here is written after a layer is ready, so any number of sessions
 * read it.
 */
#include "engine/cpu/prefix_cpu.h"

#include <string.h>

#include "engine/q8h_decode.h"
#include "util/clock.h"
#include "util/mem.h"

cag_status prefix_new(struct backend *b, const cag_kvc *k, int n_tok,
                      bool kv_f32, struct pool *pool,
                      struct backend_prefix **out, cag_error *err)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    const char *path = cag_kvc_get_info(k)->path;
    struct cpu_prefix *p;

    if (!kvc_is_q8h(s) &&
        s->kv_class != (kv_f32 ? KVC_CLASS_F32 : KVC_CLASS_F16))
        return cag_fail(err, CAG_E_MISMATCH, path, -1,
                        "the cache holds K and V as f%d, the engine computes "
                        "with f%d",
                        8 * kvc_elem_bytes(s), kv_f32 ? 32 : 16);
    p = mem_zalloc(sizeof *p);
    if (!p)
        return cag_fail_nomem(err, "prefix");
    p->base.backend = b;
    p->kvc = k;
    p->shape = s;
    p->n_tok = n_tok;
    p->pool = pool;
    p->n_chunk = kvc_n_chunk(s);
    p->chunk = mem_alloc_array((size_t)s->n_layer * (size_t)p->n_chunk,
                               sizeof *p->chunk);
    p->buf = mem_alloc_array((size_t)s->n_layer, sizeof *p->buf);
    p->ready = mem_alloc_array((size_t)s->n_layer, 1);
    if (kvc_is_q8h(s))
        p->factor = mem_alloc_array((size_t)s->n_layer * (size_t)s->n_kv_head,
                                    (size_t)s->d_head * sizeof *p->factor);
    if (!p->chunk || !p->buf || !p->ready || (kvc_is_q8h(s) && !p->factor)) {
        prefix_free(&p->base);
        return cag_fail_nomem(err, "prefix");
    }
    *out = &p->base;
    return CAG_OK;
}

void prefix_free(struct backend_prefix *base)
{
    struct cpu_prefix *p = (struct cpu_prefix *)base;

    if (!p)
        return;
    for (int l = 0; p->buf && l < p->shape->n_layer; l++)
        mem_free(p->buf[l]);
    mem_free(p->buf);
    mem_free(p->chunk);
    mem_free(p->ready);
    mem_free(p->factor);
    mem_free(p);
}

uint64_t prefix_private_bytes(const struct backend_prefix *base)
{
    return ((const struct cpu_prefix *)base)->private_bytes;
}

double prefix_seconds(const struct backend_prefix *base)
{
    return ((const struct cpu_prefix *)base)->seconds;
}

static size_t chunk_off(const struct cpu_prefix *p, int chunk)
{
    /* every chunk but a layer's last has the same size */
    return (size_t)chunk * kvc_chunk_bytes(p->shape, 0);
}

struct load_job {
    struct cpu_prefix *p;
    int layer;
};

static cag_status load_chunk(struct cpu_prefix *p, int layer, int chunk,
                             cag_error *err)
{
    uint8_t *dst = p->buf[layer];

    if (dst)
        dst += chunk_off(p, chunk);
    return kvc_chunk_load(p->kvc, layer, chunk, dst,
                          &p->chunk[layer * p->n_chunk + chunk], err);
}

static void load_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct load_job *j = ctx;

    (void)thread;
    for (int64_t c = begin; c < end; c++)
        if (load_chunk(j->p, j->layer, (int)c, NULL) != CAG_OK)
            j->p->chunk[j->layer * j->p->n_chunk + c] = NULL;
}

static size_t factor_at(const struct cpu_prefix *p, int layer, int kv_head)
{
    return ((size_t)layer * (size_t)p->shape->n_kv_head + (size_t)kv_head) *
           (size_t)p->shape->d_head;
}

static cag_status make_ready(struct cpu_prefix *p, int layer, cag_error *err)
{
    struct load_job j = { p, layer };

    if (!kvc_chunk_in_place(p->kvc) && !p->buf[layer]) {
        size_t n = chunk_off(p, p->n_chunk - 1) +
                   kvc_chunk_bytes(p->shape, p->n_chunk - 1);
        p->buf[layer] = mem_alloc_aligned(64, n);
        if (!p->buf[layer])
            return cag_fail_nomem(err, "expanded cache");
        p->private_bytes += n;
    }
    pool_run(p->pool, load_range, &j, p->n_chunk, 1);
    /* A chunk that failed is loaded once more here, for its message: the
     * first in file order, whichever thread was first to notice one. */
    for (int c = 0; c < p->n_chunk; c++) {
        if (p->chunk[layer * p->n_chunk + c] != NULL)
            continue;
        cag_status st = load_chunk(p, layer, c, err);
        if (st) {
            p->chunk[layer * p->n_chunk + c] = NULL;
            return st;
        }
    }
    struct q8h_chunk first = { p->shape, p->chunk[layer * p->n_chunk], layer, 0,
                               NULL };
    for (int h = 0; p->factor && h < p->shape->n_kv_head; h++)
        q8h_factors(&first, h, p->factor + factor_at(p, layer, h));
    p->ready[layer] = 1;
    return CAG_OK;
}

cag_status prefix_ready(struct cpu_prefix *p, int layer, cag_error *err)
{
    double start;
    cag_status st;

    if (p->ready[layer])
        return CAG_OK;
    start = clock_s();
    st = make_ready(p, layer, err);
    p->seconds += clock_s() - start;
    return st;
}

cag_status prefix_load(struct cpu_prefix *p, int n_layer, cag_error *err)
{
    cag_status st = CAG_OK;

    for (int l = 0; !st && l < n_layer; l++)
        st = prefix_ready(p, l, err);
    return st;
}

/* The chunk a tile lies in; *tile counts from its first afterwards. */
static int chunk_of(const struct cpu_prefix *p, int *tile)
{
    int per_chunk = p->shape->chunk_tok / KVC_TILE;
    int chunk = *tile / per_chunk;

    *tile %= per_chunk;
    return chunk;
}

const uint8_t *prefix_tile(const struct cpu_prefix *p, int layer, int is_v,
                           int kv_head, int tile)
{
    int chunk = chunk_of(p, &tile);

    return p->chunk[layer * p->n_chunk + chunk] +
           kvc_tile_off(p->shape, chunk, is_v, kv_head, tile);
}

const uint8_t *prefix_scales(const struct cpu_prefix *p, int layer, int is_v,
                             int kv_head, int tile)
{
    int chunk = chunk_of(p, &tile);

    return p->chunk[layer * p->n_chunk + chunk] +
           kvc_scale_off(p->shape, chunk, is_v, kv_head, tile);
}

const float *prefix_factors(const struct cpu_prefix *p, int layer, int kv_head)
{
    return p->factor + factor_at(p, layer, kv_head);
}

cag_status prefix_decode(const struct cpu_prefix *p, int layer, int kv_head,
                         int tile, int n_key, const struct kv_pair *to,
                         cag_error *err)
{
    int chunk = chunk_of(p, &tile);
    struct q8h_chunk from = { p->shape, p->chunk[layer * p->n_chunk + chunk],
                              layer, chunk, cag_kvc_get_info(p->kvc)->path };

    return q8h_tile(&from, kv_head, tile, n_key, to, err);
}
