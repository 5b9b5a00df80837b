/*
 * prefix_cuda.c - a cache's K and V on their way to the device.
 *
 * A prefix is one block: every layer's chunks as the file stores them, end to
 * end, so what is uploaded is what is mapped, and what attention reads: f16, or
 * the codes of q8h.  After them lies the tail: the last, partial tile of every
 * layer and head, gathered once, from which a timeline takes its copy in one
 * strided transfer.  It is f16, for a timeline writes into it: of codes it is
 * decoded on the host, which says when a value does not fit.
 *
 * Invariant: a slot at or after the prefix's end is finite: the tail's unused
 * slots are cleared on the host.
 */
#include <string.h>

#include "engine/cuda/kv_cuda.h"
#include "engine/kv_tile.h"
#include "engine/q8h_decode.h"
#include "util/mem.h"

void cuda_clear_unused(const struct kvc_shape *s, int n_tok, int chunk,
                       uint8_t *data)
{
    int tile = n_tok / KVC_TILE - chunk * (s->chunk_tok / KVC_TILE);
    int slot = n_tok % KVC_TILE;

    if (slot == 0 || tile < 0 || tile >= kvc_chunk_tiles(s, chunk))
        return;
    for (int h = 0; h < s->n_kv_head; h++)
        kv_tile_clear(data + kvc_tile_off(s, chunk, 0, h, tile),
                      data + kvc_tile_off(s, chunk, 1, h, tile),
                      kvc_elem_bytes(s), s->d_head, slot);
}

cag_status cuda_load_chunk(const cag_kvc *k, int layer, int chunk,
                           uint8_t *data, cag_error *err)
{
    const uint8_t *raw;
    cag_status st = kvc_chunk_load(k, layer, chunk, data, &raw, err);

    if (!st && raw != data)
        memcpy(data, raw, kvc_chunk_bytes(kvc_get_shape(k), chunk));
    return st;
}

/* The chunk that a prefix's partial tile lies in; -1: it has none. */
static int tail_chunk(const struct cuda_prefix *p)
{
    return p->n_tok % KVC_TILE == 0 ? -1 : p->n_tok / p->shape->chunk_tok;
}

/* After codes in the slot: the partial tile of each head, decoded. */
static cag_status decode_tail(const struct cuda_prefix *p, int layer,
                              uint8_t *data, cag_error *err)
{
    const struct kvc_shape *s = p->shape;
    const struct cuda *c = cuda_of(p->base.backend);
    int chunk = tail_chunk(p), tile = p->n_shared % (s->chunk_tok / KVC_TILE);
    uint8_t *tail = data + kvc_chunk_bytes(s, chunk);
    size_t v = (size_t)s->n_kv_head * c->tile_bytes;
    struct q8h_chunk from = { s, data, layer, chunk,
                              cag_kvc_get_info(p->kvc)->path };
    cag_status st = CAG_OK;

    memset(tail, 0, 2 * v);
    for (int h = 0; !st && h < s->n_kv_head; h++, tail += c->tile_bytes) {
        struct kv_pair to = { KV_F16, tail, tail + v };

        st = q8h_tile(&from, h, tile, p->n_tok % KVC_TILE, &to, err);
    }
    return st;
}

static cag_status prefix_fill(void *ctx, int item, uint8_t *data,
                              cag_error *err)
{
    const struct cuda_prefix *p = ctx;
    int layer = p->base.backend->layer0 + item / p->n_chunk;
    int chunk = item % p->n_chunk;
    cag_status st = cuda_load_chunk(p->kvc, layer, chunk, data, err);

    if (st || chunk != tail_chunk(p))
        return st;
    if (kvc_is_q8h(p->shape))
        return decode_tail(p, layer, data, err);
    cuda_clear_unused(p->shape, p->n_tok, chunk, data);
    return CAG_OK;
}

static uint8_t *tail_of(const struct cuda_prefix *p, int layer)
{
    const struct cuda *c = cuda_of(p->base.backend);

    return p->dev_tail + (size_t)layer * cuda_kv_layer_rows(c) * c->tile_bytes;
}

static int prefix_send(void *ctx, struct cuk_stream *s, int item,
                       const uint8_t *data)
{
    const struct cuda_prefix *p = ctx;
    const struct cuda *c = cuda_of(p->base.backend);
    int layer = item / p->n_chunk, chunk = item % p->n_chunk;
    size_t n = kvc_chunk_bytes(p->shape, chunk);
    int code = cuk_copy(s, CUK_TO_DEV,
                        p->dev + (size_t)layer * p->layer_bytes +
                            cuda_chunk_off(p->shape, chunk),
                        data, n);

    if (code != 0 || !kvc_is_q8h(p->shape) || chunk != tail_chunk(p))
        return code;
    return cuk_copy(s, CUK_TO_DEV, tail_of(p, layer), data + n,
                    cuda_kv_layer_rows(c) * c->tile_bytes);
}

static cag_status prefix_alloc(struct cuda *c, struct cuda_prefix *p,
                               cag_error *err)
{
    const struct kvc_shape *s = p->shape;
    size_t n, tail;

    p->layer_bytes =
        cuda_chunk_off(s, p->n_chunk - 1) + kvc_chunk_bytes(s, p->n_chunk - 1);
    tail = (size_t)c->n_layer * cuda_kv_layer_rows(c) * c->tile_bytes;
    if (!mem_mul(&n, p->layer_bytes, (size_t)c->n_layer) ||
        !mem_add(&n, n, tail))
        return cag_fail_nomem(err, "the cache on the device");
    void *dev;
    cag_status st = cuda_alloc(c, &dev, n, "the cache", err);
    if (st)
        return st;
    p->dev = dev;
    p->bytes = n;
    c->cache_bytes += n;
    p->dev_tail = p->dev + (n - tail);
    return CAG_OK;
}

cag_status cuda_prefix_new(struct backend *b, const cag_kvc *k, int n_tok,
                           struct backend_prefix **out, cag_error *err)
{
    struct cuda *c = cuda_of(b);
    const struct kvc_shape *s = kvc_get_shape(k);
    struct cuda_prefix *p;
    cag_status st;

    if (s->kv_class != KVC_CLASS_F16 && !kvc_is_q8h(s))
        return cag_fail(err, CAG_E_MISMATCH, cag_kvc_get_info(k)->path, -1,
                        "the cache holds K and V as f%d, a GPU computes with "
                        "f16",
                        8 * kvc_elem_bytes(s));
    st = cuda_enter(c, err);
    if (st)
        return st;
    p = mem_zalloc(sizeof *p);
    if (!p)
        return cag_fail_nomem(err, "prefix");
    p->base.backend = b;
    p->kvc = k;
    p->shape = s;
    p->n_chunk = kvc_n_chunk(s);
    p->n_tok = n_tok;
    p->n_shared = n_tok / KVC_TILE;
    p->group_end = mem_alloc_array((size_t)c->n_layer, sizeof *p->group_end);
    st = p->group_end ? prefix_alloc(c, p, err) : cag_fail_nomem(err, "prefix");
    if (!st) {
        size_t tail = kvc_is_q8h(s) ? cuda_kv_layer_rows(c) * c->tile_bytes : 0;
        struct feed_desc d = {
            c->n_layer,          p->group_end, cuda_slot_bytes(s, tail),
            prefix_fill,         prefix_send,  p,
            "loading the cache", CUDA_CACHE
        };
        for (int l = 0; l < c->n_layer; l++)
            p->group_end[l] = (l + 1) * p->n_chunk;
        st = feed_new(c, &d, &p->feed, err);
    }
    if (st) {
        cuda_prefix_free(&p->base);
        return st;
    }
    *out = &p->base;
    return CAG_OK;
}

void cuda_prefix_free(struct backend_prefix *base)
{
    struct cuda_prefix *p = (struct cuda_prefix *)base;

    if (!p)
        return;
    cuk_attach(cuda_of(base->backend)->dev);
    feed_free(p->feed);
    cuda_of(base->backend)->cache_bytes -= p->bytes;
    cuda_free(cuda_of(base->backend), p->dev, p->bytes);
    mem_free(p->group_end);
    mem_free(p);
}

uint64_t cuda_prefix_bytes(const struct backend_prefix *p)
{
    return ((const struct cuda_prefix *)p)->bytes;
}

/* The last, partial tile of a layer's heads, gathered; decoded ones were. */
static int gather_tail(struct cuda *c, const struct cuda_prefix *p, int layer)
{
    const struct kvc_shape *s = p->shape;
    int chunk = tail_chunk(p), tile = p->n_shared % (s->chunk_tok / KVC_TILE);

    if (chunk < 0 || kvc_is_q8h(s))
        return 0;
    const uint8_t *src = p->dev + (size_t)layer * p->layer_bytes +
                         cuda_chunk_off(s, chunk) +
                         kvc_tile_off(s, chunk, 0, 0, tile);

    return cuk_copy_2d(c->run, CUK_ON_DEV, tail_of(p, layer), c->tile_bytes,
                       src, (size_t)kvc_chunk_tiles(s, chunk) * c->tile_bytes,
                       c->tile_bytes, cuda_kv_layer_rows(c));
}

cag_status cuda_prefix_need(struct cuda_prefix *p, int layer, cag_error *err)
{
    struct cuda *c = cuda_of(p->base.backend);

    if (layer < p->n_ready)
        return CAG_OK;
    cag_status st = feed_need(p->feed, layer, err);
    while (!st && p->n_ready <= layer) {
        if (gather_tail(c, p, p->n_ready) != 0)
            return cuda_fail(c, "loading the cache", err);
        p->n_ready++;
    }
    return st;
}

cag_status cuda_prefix_load(struct backend_prefix *base, cag_error *err)
{
    struct cuda_prefix *p = (struct cuda_prefix *)base;
    struct cuda *c = cuda_of(base->backend);
    cag_status st = cuda_enter(c, err);

    if (!st)
        st = cuda_prefix_need(p, c->n_layer - 1, err);
    if (!st && cuk_stream_sync(c->run) != 0)
        st = cuda_fail(c, "loading the cache", err);
    if (!st) {
        feed_free(p->feed);
        p->feed = NULL;
    }
    return st;
}
