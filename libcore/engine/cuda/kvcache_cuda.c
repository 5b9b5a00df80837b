/*
 * kvcache_cuda.c - timelines: K and V that sessions wrote, on the device.
 *
 * Whole tiles of a prefix are shared; what follows is a timeline's own block,
 * which begins with its copy of the prefix's partial tile.
 *
 * Invariant: a slot at or after a timeline's end is finite: own memory is
 * cleared once, and what a pass leaves after is finite unless a value
 * overflowed, after which it is cleared.
 */
#include <string.h>

#include "engine/cuda/kv_cuda.h"
#include "engine/kv_tile.h"
#include "util/mem.h"

static cag_status own_bytes(const struct cuda *c, const struct cuda_prefix *p,
                            int max_tok, int *n_tile, size_t *bytes,
                            cag_error *err)
{
    *n_tile = (max_tok + KV_TILE - 1) / KV_TILE - (p ? p->n_shared : 0);
    if (mem_mul(bytes, (size_t)c->n_layer * cuda_kv_layer_rows(c),
                (size_t)*n_tile) &&
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
    size_t own = cuda_kv_layer_bytes(kv);

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

/* One private tile of all heads of n_layer layers, from packed tiles. */
static int put_tile(struct cuda_kv *kv, enum cuk_dir dir, int tile, int layer,
                    int n_layer, const void *src)
{
    struct cuda *c = cuda_of(kv->base.backend);

    return cuk_copy_2d(c->run, dir, cuda_kv_tile(kv, layer, tile),
                       (size_t)kv->n_tile * c->tile_bytes, src, c->tile_bytes,
                       c->tile_bytes, (size_t)n_layer * cuda_kv_layer_rows(c));
}

cag_status cuda_kv_ready(struct cuda_kv *kv, int layer, cag_error *err)
{
    struct cuda *c = cuda_of(kv->base.backend);
    struct cuda_prefix *p = kv->prefix;

    if (!p || layer < kv->n_layer_ready)
        return CAG_OK;
    cag_status st = cuda_prefix_need(p, layer, err);
    if (st)
        return st;
    /* all that has arrived; the whole of it in one copy when that is all */
    int n = p->n_ready - kv->n_layer_ready;
    size_t at =
        (size_t)kv->n_layer_ready * cuda_kv_layer_rows(c) * c->tile_bytes;
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
    size_t rows = (size_t)c->n_layer * cuda_kv_layer_rows(c);
    size_t n_head = (size_t)c->shape.n_kv_head;
    uint8_t *host = mem_alloc_array(rows, c->tile_bytes);
    bool ok;

    if (!host)
        return cag_fail_nomem(err, "clearing a session");
    ok = cuk_copy_2d(c->run, CUK_FROM_DEV, host, c->tile_bytes,
                     cuda_kv_tile(kv, 0, tile),
                     (size_t)kv->n_tile * c->tile_bytes, c->tile_bytes,
                     rows) == 0 &&
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
    size_t rows = (size_t)c->n_layer * cuda_kv_layer_rows(c);
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
                       cuda_kv_tile(kv, 0, tile) +
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
