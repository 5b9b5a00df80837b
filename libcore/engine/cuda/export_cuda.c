/*
 * export_cuda.c - chunks of a timeline to the host, and a cache into a
 * timeline.
 *
 * A chunk comes back through pinned memory on the copy stream: many threads
 * write a cache, and while one copies out of a slot another's chunk arrives.
 */
#include <string.h>

#include "engine/cuda/kv_cuda.h"
#include "engine/kv_tile.h"
#include "util/mem.h"

/* Where tile, of a layer, lies in rows of tiles: the first row, its pitch,
 * and how many tiles follow each other there. */
static const uint8_t *find_tile(const struct cuda_kv *kv, int layer, int tile,
                                size_t *pitch, int *n)
{
    const struct cuda *c = cuda_of(kv->base.backend);
    const struct cuda_prefix *p = kv->prefix;

    if (tile >= kv->n_shared) {
        *pitch = (size_t)kv->n_tile * c->tile_bytes;
        *n = kv->n_tile - (tile - kv->n_shared);
        return cuda_kv_tile(kv, layer, tile);
    }
    int per_chunk = p->shape->chunk_tok / KVC_TILE, chunk = tile / per_chunk;
    int in_chunk = kvc_chunk_tiles(p->shape, chunk);
    *pitch = (size_t)in_chunk * c->tile_bytes;
    *n = in_chunk - tile % per_chunk;
    if (*n > kv->n_shared - tile)
        *n = kv->n_shared - tile;
    return p->dev + (size_t)layer * p->layer_bytes +
           cuda_chunk_off(p->shape, chunk) +
           kvc_tile_off(p->shape, chunk, 0, 0, tile % per_chunk);
}

static cag_status check_shape(const struct cuda *c, const struct kvc_shape *s,
                              const char *path, cag_error *err)
{
    if (s->n_layer == c->cfg->n_layer && s->n_kv_head == c->cfg->n_kv_head &&
        s->d_head == c->cfg->d_head && s->kv_class == KVC_CLASS_F16)
        return CAG_OK;
    return cag_fail(err, CAG_E_MISMATCH, path, -1,
                    "the cache is %d layers x %d heads x %d at f%d, the "
                    "session %d x %d x %d at f16",
                    s->n_layer, s->n_kv_head, s->d_head, 8 * kvc_elem_bytes(s),
                    c->cfg->n_layer, c->cfg->n_kv_head, c->cfg->d_head);
}

static size_t export_bytes(const struct cuda *c, int n_tile)
{
    return (size_t)n_tile * c->tile_bytes * cuda_kv_layer_rows(c);
}

/* A slot of the caller's that holds so many bytes; the lock is held. */
static cag_status take_slot(struct cuda *c, size_t bytes,
                            struct cuda_slot **out, cag_error *err)
{
    struct cuda_slot *s = NULL;

    while (!s) {
        for (int i = 0; !s && i < CUDA_EXPORT_SLOTS; i++)
            s = c->slot[i].busy ? NULL : &c->slot[i];
        if (!s)
            pthread_cond_wait(&c->slot_free, &c->lock);
    }
    if (s->bytes < bytes) {
        cuk_host_free(c->dev, s->host);
        s->host = NULL;
        s->bytes = 0;
        if (cuk_host_alloc(c->dev, &s->host, bytes, NULL) != 0)
            return cag_fail_nomem(err, "pinned memory");
        s->bytes = bytes;
    }
    s->busy = true;
    *out = s;
    return CAG_OK;
}

static int export_tiles(const struct cuda_kv *kv, int layer, int tile0,
                        int n_tile, uint8_t *dst)
{
    struct cuda *c = cuda_of(kv->base.backend);
    int code = 0, n;

    for (int t = 0; code == 0 && t < n_tile; t += n) {
        size_t pitch;
        const uint8_t *src = find_tile(kv, layer, tile0 + t, &pitch, &n);
        n = n < n_tile - t ? n : n_tile - t;
        code =
            cuk_copy_2d(c->copy, CUK_FROM_DEV, dst + (size_t)t * c->tile_bytes,
                        (size_t)n_tile * c->tile_bytes, src, pitch,
                        (size_t)n * c->tile_bytes, cuda_kv_layer_rows(c));
    }
    return code != 0 ? code : cuk_stream_sync(c->copy);
}

/* Writers of a cache come with many threads. */
static cag_status export_pinned(const struct cuda_kv *kv, int layer, int tile0,
                                int n_tile, uint8_t *dst, cag_error *err)
{
    struct cuda *c = cuda_of(kv->base.backend);
    size_t bytes = export_bytes(c, n_tile);
    struct cuda_slot *s = NULL;
    cag_status st = CAG_OK;

    pthread_mutex_lock(&c->lock);
    if (cuk_attach(c->dev) != 0)
        st = cuda_fail(c, "reading K and V back", err);
    if (!st)
        st = take_slot(c, bytes, &s, err);
    if (!st && export_tiles(kv, layer, tile0, n_tile, s->host) != 0)
        st = cuda_fail(c, "reading K and V back", err);
    pthread_mutex_unlock(&c->lock);
    if (!st)
        memcpy(dst, s->host, bytes);
    if (s) {
        pthread_mutex_lock(&c->lock);
        s->busy = false;
        pthread_cond_signal(&c->slot_free);
        pthread_mutex_unlock(&c->lock);
    }
    return st;
}

cag_status cuda_kv_export(const struct backend_kv *base,
                          const struct kvc_shape *shape, int layer, int chunk,
                          uint8_t *dst, cag_error *err)
{
    const struct cuda_kv *kv = (const struct cuda_kv *)base;
    struct cuda *c = cuda_of(base->backend);
    int n_tile = kvc_chunk_tiles(shape, chunk);
    int tile0 = chunk * (shape->chunk_tok / KVC_TILE);
    int l = layer - base->backend->layer0;
    cag_status st = check_shape(c, shape, NULL, err);

    if (st)
        return st;
    if (kv->prefix && kvc_is_q8h(kv->prefix->shape))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "K and V of a q8h prefix cannot be exported");
    /* loading is not thread-safe, so it is not done here */
    if (kv->prefix && l >= kv->n_layer_ready)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "layer %d of the session's prefix was never used: "
                        "its K and V cannot be exported",
                        layer);
    st = export_pinned(kv, l, tile0, n_tile, dst, err);
    if (!st && (tile0 + n_tile) * KVC_TILE > shape->n_tok)
        cuda_clear_unused(shape, shape->n_tok, chunk, dst);
    return st;
}

struct import {
    struct cuda_kv *kv;
    const cag_kvc *kvc;
    const struct kvc_shape *shape;
    int n_tok, n_chunk; /* chunks of a layer to read */
};

static cag_status import_fill(void *ctx, int item, uint8_t *data,
                              cag_error *err)
{
    const struct import *j = ctx;
    int chunk = item % j->n_chunk;
    cag_status st =
        cuda_load_chunk(j->kvc, j->kv->base.backend->layer0 + item / j->n_chunk,
                        chunk, data, err);
    int left = j->n_tok - chunk * j->shape->chunk_tok;

    /* the tile in which the import ends */
    if (!st && left < j->shape->chunk_tok && left % KVC_TILE != 0)
        for (int h = 0; h < j->shape->n_kv_head; h++)
            kv_tile_clear(
                data + kvc_tile_off(j->shape, chunk, 0, h, left / KVC_TILE),
                data + kvc_tile_off(j->shape, chunk, 1, h, left / KVC_TILE), 2,
                j->shape->d_head, left % KVC_TILE);
    return st;
}

static int import_send(void *ctx, struct cuk_stream *s, int item,
                       const uint8_t *data)
{
    const struct import *j = ctx;
    struct cuda_kv *kv = j->kv;
    const struct cuda *c = cuda_of(kv->base.backend);
    int layer = item / j->n_chunk, chunk = item % j->n_chunk;
    int tile0 = chunk * (j->shape->chunk_tok / KVC_TILE);
    int n = (j->n_tok + KVC_TILE - 1) / KVC_TILE - tile0;
    int in_chunk = kvc_chunk_tiles(j->shape, chunk);

    return cuk_copy_2d(s, CUK_TO_DEV,
                       kv->dev + (size_t)layer * cuda_kv_layer_bytes(kv) +
                           (size_t)tile0 * c->tile_bytes,
                       (size_t)kv->n_tile * c->tile_bytes, data,
                       (size_t)in_chunk * c->tile_bytes,
                       (size_t)(n < in_chunk ? n : in_chunk) * c->tile_bytes,
                       cuda_kv_layer_rows(c));
}

cag_status cuda_kv_import(struct backend_kv *base, const cag_kvc *k, int n_tok,
                          cag_error *err)
{
    struct cuda_kv *kv = (struct cuda_kv *)base;
    struct cuda *c = cuda_of(base->backend);
    const struct kvc_shape *s = kvc_get_shape(k);
    const char *path = cag_kvc_get_info(k)->path;
    struct import j = { kv, k, s, n_tok, 0 };
    struct feed *feed = NULL;
    cag_status st = check_shape(c, s, path, err);
    int end;

    if (!st)
        st = cuda_enter(c, err);
    if (st)
        return st;
    if (n_tok > s->n_tok)
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "%d tokens asked of a cache of %d", n_tok, s->n_tok);
    j.n_chunk = (n_tok + s->chunk_tok - 1) / s->chunk_tok;
    end = j.n_chunk * c->n_layer;
    struct feed_desc d = {
        1,           &end, cuda_slot_bytes(s, 0), import_fill,
        import_send, &j,   "importing a cache",   CUDA_N_MARK
    };
    /* the timeline was cleared on the run stream; that comes first */
    if (cuk_stream_sync(c->run) != 0)
        return cuda_fail(c, d.what, err);
    st = feed_new(c, &d, &feed, err);
    if (!st)
        st = feed_need(feed, 0, err);
    kv->n_dirty = n_tok;
    feed_free(feed);
    return st;
}
