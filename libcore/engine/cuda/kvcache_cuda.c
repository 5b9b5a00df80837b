/*
 * kvcache_cuda.c - a cache's K and V on the device, and timelines.
 *
 * A prefix is one block: every layer's chunks as the file stores them, end to
 * end, so what is uploaded is what is mapped, and what attention reads: f16, or
 * the codes of q8h.  After them lies the tail: the last, partial tile of every
 * layer and head, gathered once, from which a timeline takes its copy in one
 * strided transfer.  It is f16, for a timeline writes into it: of codes it is
 * decoded on the host, which says when a value does not fit.
 *
 *   chunks  [n_layer] [chunk] [K, V] [kv_head] [tile of the chunk]
 *   tail    [n_layer]         [K, V] [kv_head] one tile
 *   own     [n_layer]         [K, V] [kv_head] [n_tile]
 *
 * Seen as rows of tiles, tail and own differ only in their pitch.
 *
 * Invariant: a slot at or after a timeline's end is finite: own memory is
 * cleared once, the tail's unused slots on the host, and what a pass leaves
 * after is finite unless a value overflowed, after which it is cleared.
 */
#include "engine/cuda/cuda.h"

#include <string.h>

#include "engine/kv_tile.h"
#include "engine/q8h_decode.h"
#include "util/mem.h"

/* Rows of tiles of one layer: K of every head, then V. */
static size_t layer_rows(const struct cuda *c)
{
    return 2 * (size_t)c->shape.n_kv_head;
}

static size_t own_layer_bytes(const struct cuda_kv *kv)
{
    const struct cuda *c = cuda_of(kv->base.backend);

    return layer_rows(c) * (size_t)kv->n_tile * c->tile_bytes;
}

/* ------------------------------------------------------------------ prefix */

static size_t chunk_off(const struct kvc_shape *s, int chunk)
{
    /* every chunk but a layer's last has the same size */
    return (size_t)chunk * kvc_chunk_bytes(s, 0);
}

/* Slots of the last tile after the last token, where the chunk holds it; the
 * file's word that they are zero is not enough. */
static void clear_unused(const struct kvc_shape *s, int n_tok, int chunk,
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

/* A chunk, checked, in data. */
static cag_status load_chunk(const cag_kvc *k, int layer, int chunk,
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
    cag_status st = load_chunk(p->kvc, layer, chunk, data, err);

    if (st || chunk != tail_chunk(p))
        return st;
    if (kvc_is_q8h(p->shape))
        return decode_tail(p, layer, data, err);
    clear_unused(p->shape, p->n_tok, chunk, data);
    return CAG_OK;
}

static uint8_t *tail_of(const struct cuda_prefix *p, int layer)
{
    const struct cuda *c = cuda_of(p->base.backend);

    return p->dev_tail + (size_t)layer * layer_rows(c) * c->tile_bytes;
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
                            chunk_off(p->shape, chunk),
                        data, n);

    if (code != 0 || !kvc_is_q8h(p->shape) || chunk != tail_chunk(p))
        return code;
    return cuk_copy(s, CUK_TO_DEV, tail_of(p, layer), data + n,
                    layer_rows(c) * c->tile_bytes);
}

/* The pinned slots hold whole chunks, 64-aligned for the decoder, and more. */
static size_t slot_bytes(const struct kvc_shape *s, size_t more)
{
    return (kvc_chunk_bytes(s, 0) + more + 63) & ~(size_t)63;
}

static cag_status prefix_alloc(struct cuda *c, struct cuda_prefix *p,
                               cag_error *err)
{
    const struct kvc_shape *s = p->shape;
    size_t n, tail;

    p->layer_bytes =
        chunk_off(s, p->n_chunk - 1) + kvc_chunk_bytes(s, p->n_chunk - 1);
    tail = (size_t)c->n_layer * layer_rows(c) * c->tile_bytes;
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
        size_t tail = kvc_is_q8h(s) ? layer_rows(c) * c->tile_bytes : 0;
        struct feed_desc d = { c->n_layer,          p->group_end,
                               slot_bytes(s, tail), prefix_fill,
                               prefix_send,         p,
                               "loading the cache", CUDA_CACHE };
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
                         chunk_off(s, chunk) +
                         kvc_tile_off(s, chunk, 0, 0, tile);

    return cuk_copy_2d(c->run, CUK_ON_DEV, tail_of(p, layer), c->tile_bytes,
                       src, (size_t)kvc_chunk_tiles(s, chunk) * c->tile_bytes,
                       c->tile_bytes, layer_rows(c));
}

static cag_status prefix_need(struct cuda_prefix *p, int layer, cag_error *err)
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
        st = prefix_need(p, c->n_layer - 1, err);
    if (!st && cuk_stream_sync(c->run) != 0)
        st = cuda_fail(c, "loading the cache", err);
    if (!st) {
        feed_free(p->feed);
        p->feed = NULL;
    }
    return st;
}

/* --------------------------------------------------------------- timelines */

static cag_status own_bytes(const struct cuda *c, const struct cuda_prefix *p,
                            int max_tok, int *n_tile, size_t *bytes,
                            cag_error *err)
{
    *n_tile = (max_tok + KV_TILE - 1) / KV_TILE - (p ? p->n_shared : 0);
    if (mem_mul(bytes, (size_t)c->n_layer * layer_rows(c), (size_t)*n_tile) &&
        mem_mul(bytes, *bytes, c->tile_bytes))
        return CAG_OK;
    return cag_fail_nomem(err, "K and V of a session");
}

cag_status cuda_kv_new(struct backend *b, struct backend_prefix *base,
                       int max_tok, struct backend_kv **out, cag_error *err)
{
    struct cuda *c = cuda_of(b);
    struct cuda_prefix *p = (struct cuda_prefix *)base;
    struct cuda_kv *kv = mem_zalloc(sizeof *kv);
    cag_status st;
    size_t bytes;
    void *dev = NULL;

    if (!kv)
        return cag_fail_nomem(err, "session");
    kv->base.backend = b;
    kv->prefix = p;
    kv->n_prefix = p ? p->n_tok : 0;
    kv->n_shared = kv->n_prefix / KV_TILE;
    kv->n_dirty = kv->n_prefix;
    st = cuda_enter(c, err);
    if (!st)
        st = own_bytes(c, p, max_tok, &kv->n_tile, &bytes, err);
    if (!st)
        st = cuda_positions(c, max_tok, err);
    if (!st)
        kv->bytes = bytes;
    if (!st && bytes > 0)
        st = cuda_take(c, &dev, &kv->bytes, "a session", err);
    if (!st && bytes > 0) {
        kv->dev = dev;
        if (cuk_memset(c->run, kv->dev, 0, bytes) != 0)
            st = cuda_fail(c, "making a session", err);
    }
    if (st) {
        cuda_kv_free(&kv->base);
        return st;
    }
    *out = &kv->base;
    return CAG_OK;
}

void cuda_kv_free(struct backend_kv *base)
{
    struct cuda_kv *kv = (struct cuda_kv *)base;

    if (!kv)
        return;
    cuk_attach(cuda_of(base->backend)->dev);
    /* a pass that failed half-way may still be under way: on the run stream */
    cuda_give(cuda_of(base->backend), kv->dev, kv->bytes);
    mem_free(kv);
}

int cuda_kv_room(struct backend *b, struct backend_prefix *p, int max_tok)
{
    struct cuda *c = cuda_of(b);
    size_t bytes;
    uint64_t room;
    int n_tile;

    if (cuda_enter(c, NULL) ||
        own_bytes(c, (struct cuda_prefix *)p, max_tok, &n_tile, &bytes, NULL) ||
        cuda_room(c, &room, NULL))
        return 0;
    if (bytes == 0)
        return CUDA_STEP_ROWS;
    room /= cuda_block_bytes(bytes);
    return room > CUDA_STEP_ROWS ? CUDA_STEP_ROWS : (int)room;
}

void cuda_kv_describe(const struct cuda_kv *kv, struct cuk_kv *out)
{
    const struct cuda_prefix *p = kv->prefix;
    size_t own = own_layer_bytes(kv);

    memset(out, 0, sizeof *out);
    if (p && kv->n_shared > 0) {
        out->codes = kvc_is_q8h(p->shape);
        out->shared =
            (struct cuk_seg){ (uint64_t)(uintptr_t)p->dev, p->layer_bytes,
                              kvc_chunk_bytes(p->shape, 0),
                              p->shape->chunk_tok / KVC_TILE,
                              kvc_n_tile(p->shape) };
    }
    out->own = (struct cuk_seg){ (uint64_t)(uintptr_t)kv->dev, own, own,
                                 kv->n_tile, kv->n_tile };
    out->n_shared = kv->n_shared;
}

static uint8_t *own_tile(const struct cuda_kv *kv, int layer, int tile)
{
    const struct cuda *c = cuda_of(kv->base.backend);

    return kv->dev + (size_t)layer * own_layer_bytes(kv) +
           (size_t)(tile - kv->n_shared) * c->tile_bytes;
}

/* One private tile of all heads of n_layer layers, from packed tiles. */
static int put_tile(struct cuda_kv *kv, enum cuk_dir dir, int tile, int layer,
                    int n_layer, const void *src)
{
    struct cuda *c = cuda_of(kv->base.backend);

    return cuk_copy_2d(c->run, dir, own_tile(kv, layer, tile),
                       (size_t)kv->n_tile * c->tile_bytes, src, c->tile_bytes,
                       c->tile_bytes, (size_t)n_layer * layer_rows(c));
}

cag_status cuda_kv_ready(struct cuda_kv *kv, int layer, cag_error *err)
{
    struct cuda *c = cuda_of(kv->base.backend);
    struct cuda_prefix *p = kv->prefix;

    if (!p || layer < kv->n_layer_ready)
        return CAG_OK;
    cag_status st = prefix_need(p, layer, err);
    if (st)
        return st;
    /* all that has arrived; the whole of it in one copy when that is all */
    int n = p->n_ready - kv->n_layer_ready;
    size_t at = (size_t)kv->n_layer_ready * layer_rows(c) * c->tile_bytes;
    if (kv->n_prefix % KV_TILE != 0 &&
        put_tile(kv, CUK_ON_DEV, kv->n_shared, kv->n_layer_ready, n,
                 p->dev_tail + at) != 0)
        return cuda_fail(c, "starting a session", err);
    kv->n_layer_ready = p->n_ready;
    return CAG_OK;
}

bool cuda_kv_settled(const struct cuda_kv *kv)
{
    return !kv->prefix ||
           (!kv->prefix->feed &&
            kv->n_layer_ready == cuda_of(kv->base.backend)->n_layer);
}

/* Zero the slots from slot on of one private tile, over the host. */
static cag_status clear_slots(struct cuda_kv *kv, int tile, int slot,
                              cag_error *err)
{
    struct cuda *c = cuda_of(kv->base.backend);
    size_t rows = (size_t)c->n_layer * layer_rows(c);
    size_t n_head = (size_t)c->shape.n_kv_head;
    uint8_t *host = mem_alloc_array(rows, c->tile_bytes);
    bool ok;

    if (!host)
        return cag_fail_nomem(err, "clearing a session");
    ok = cuk_copy_2d(c->run, CUK_FROM_DEV, host, c->tile_bytes,
                     own_tile(kv, 0, tile), (size_t)kv->n_tile * c->tile_bytes,
                     c->tile_bytes, rows) == 0 &&
         cuk_stream_sync(c->run) == 0;
    for (size_t r = 0; ok && r < rows; r++)
        if (r / n_head % 2 == 0)
            kv_tile_clear(host + r * c->tile_bytes,
                          host + (r + n_head) * c->tile_bytes, 2,
                          c->shape.d_head, slot);
    ok = ok && put_tile(kv, CUK_TO_DEV, tile, 0, c->n_layer, host) == 0 &&
         cuk_stream_sync(c->run) == 0;
    mem_free(host);
    return ok ? CAG_OK : cuda_fail(c, "clearing a session", err);
}

cag_status cuda_kv_clean(struct cuda_kv *kv, cag_error *err)
{
    struct cuda *c = cuda_of(kv->base.backend);
    size_t rows = (size_t)c->n_layer * layer_rows(c);
    int tile = kv->n_dirty / KV_TILE, slot = kv->n_dirty % KV_TILE;
    cag_status st;

    if (!kv->overflowed)
        return CAG_OK;
    if (slot != 0) {
        st = clear_slots(kv, tile++, slot, err);
        if (st)
            return st;
    }
    int left = kv->n_shared + kv->n_tile - tile;
    for (size_t r = 0; left > 0 && r < rows; r++)
        if (cuk_memset(c->run,
                       own_tile(kv, 0, tile) +
                           r * (size_t)kv->n_tile * c->tile_bytes,
                       0, (size_t)left * c->tile_bytes) != 0)
            return cuda_fail(c, "clearing a session", err);
    kv->overflowed = false;
    return CAG_OK;
}

void cuda_kv_truncate(struct backend_kv *base, int n_tok)
{
    struct cuda_kv *kv = (struct cuda_kv *)base;

    if (n_tok < kv->n_dirty)
        kv->n_dirty = n_tok;
}

/* --------------------------------------------------------- export, import */

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
        return own_tile(kv, layer, tile);
    }
    int per_chunk = p->shape->chunk_tok / KVC_TILE, chunk = tile / per_chunk;
    int in_chunk = kvc_chunk_tiles(p->shape, chunk);
    *pitch = (size_t)in_chunk * c->tile_bytes;
    *n = in_chunk - tile % per_chunk;
    if (*n > kv->n_shared - tile)
        *n = kv->n_shared - tile;
    return p->dev + (size_t)layer * p->layer_bytes +
           chunk_off(p->shape, chunk) +
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
    return (size_t)n_tile * c->tile_bytes * layer_rows(c);
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
                        (size_t)n * c->tile_bytes, layer_rows(c));
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
        clear_unused(shape, shape->n_tok, chunk, dst);
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
        load_chunk(j->kvc, j->kv->base.backend->layer0 + item / j->n_chunk,
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
                       kv->dev + (size_t)layer * own_layer_bytes(kv) +
                           (size_t)tile0 * c->tile_bytes,
                       (size_t)kv->n_tile * c->tile_bytes, data,
                       (size_t)in_chunk * c->tile_bytes,
                       (size_t)(n < in_chunk ? n : in_chunk) * c->tile_bytes,
                       layer_rows(c));
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
        1,           &end, slot_bytes(s, 0),    import_fill,
        import_send, &j,   "importing a cache", CUDA_N_MARK
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
