/*
 * kvcache_cpu.c - tiles of K and V: where they are, and that unused ones are
 * zero.
 *
 *   tile  0 .. n_shared-1   whole tiles of the prefix, in place, read-only
 *   tile  n_shared ..       private; the first holds a copy of the prefix's
 *                           last, partial tile (at most 63 tokens)
 *
 * Codes of q8h are copied decoded: a tile has one kind of element, and its
 * rest is for what is computed here.
 *
 * Private tiles lie in slabs of one span (16 tiles) for all layers and
 * heads, [layer][kv_head][tile]{K, V}: attention walks tiles of one head.
 * All slabs are allocated when the timeline is made, as zero pages the
 * system supplies on first touch: a decode step can never run out of memory
 * half-way, and a tile never moves.  Slabs rather than one block, because a
 * system may refuse a single reservation larger than its memory.
 *
 * Invariant: every slot at or after the timeline's end is zero.  A masked
 * key has weight 0, and 0 times a left-over infinity would be NaN.
 */
#include "engine/cpu/kvcache_cpu.h"

#include <string.h>

#include "engine/q8h_decode.h"
#include "util/mem.h"

struct kv_slab {
    uint8_t *mem;  /* as allocated */
    uint8_t *data; /* 64-byte aligned */
    int n_tile;    /* of each layer and head */
};

static int elem_bytes(const struct cpu_kv *kv)
{
    return kv->kv_type == KV_F32 ? 4 : 2;
}

static cag_status slab_init(struct cpu_kv *kv, struct kv_slab *s, int n_tile,
                            cag_error *err)
{
    size_t n;

    if (!mem_mul(&n, 2 * kv->tile_bytes, (size_t)n_tile) ||
        !mem_mul(&n, n, (size_t)kv->n_layer * (size_t)kv->n_kv_head) ||
        !mem_add(&n, n, 63) || (s->mem = mem_zalloc(n)) == NULL)
        return cag_fail_nomem(err, "K and V of a session");
    s->data = s->mem + (-(uintptr_t)s->mem & 63);
    s->n_tile = n_tile;
    return CAG_OK;
}

cag_status kvcache_new(struct backend *b, struct cpu_prefix *p,
                       const struct cpu_kv_shape *shape, struct cpu_kv **out,
                       cag_error *err)
{
    struct cpu_kv *kv = mem_zalloc(sizeof *kv);
    cag_status st = CAG_OK;

    if (!kv)
        return cag_fail_nomem(err, "session");
    kv->base.backend = b;
    kv->prefix = p;
    kv->n_layer = shape->n_layer;
    kv->n_kv_head = shape->n_kv_head;
    kv->d_head = shape->d_head;
    kv->kv_type = shape->kv_type;
    kv->tile_bytes =
        (size_t)KV_TILE * (size_t)kv->d_head * (size_t)elem_bytes(kv);
    kv->max_tok = shape->max_tok;
    kv->n_prefix = p ? p->n_tok : 0;
    kv->n_shared = kv->n_prefix / KV_TILE;
    kv->n_dirty = kv->n_prefix;

    int n_tile = (kv->max_tok + KV_TILE - 1) / KV_TILE - kv->n_shared;
    kv->n_slab = (n_tile + KV_SPAN_TILES - 1) / KV_SPAN_TILES;
    kv->slab = mem_alloc_array((size_t)kv->n_slab, sizeof *kv->slab);
    if (!kv->slab)
        st = cag_fail_nomem(err, "session");
    for (int i = 0; !st && i < kv->n_slab; i++) {
        int left = n_tile - i * KV_SPAN_TILES;
        st = slab_init(kv, &kv->slab[i],
                       left < KV_SPAN_TILES ? left : KV_SPAN_TILES, err);
    }
    if (st) {
        kvcache_free(kv);
        return st;
    }
    *out = kv;
    return CAG_OK;
}

void kvcache_free(struct cpu_kv *kv)
{
    if (!kv)
        return;
    for (int i = 0; kv->slab && i < kv->n_slab; i++)
        mem_free(kv->slab[i].mem);
    mem_free(kv->slab);
    mem_free(kv);
}

uint8_t *kvcache_tile(const struct cpu_kv *kv, int layer, int is_v, int kv_head,
                      int tile)
{
    int i = tile - kv->n_shared;
    const struct kv_slab *s = &kv->slab[i / KV_SPAN_TILES];
    size_t at = ((size_t)layer * (size_t)kv->n_kv_head + (size_t)kv_head) *
                    (size_t)s->n_tile +
                (size_t)(i % KV_SPAN_TILES);

    return s->data + (2 * at + (size_t)is_v) * kv->tile_bytes;
}

const uint8_t *kvcache_any_tile(const struct cpu_kv *kv, int layer, int is_v,
                                int kv_head, int tile)
{
    if (tile < kv->n_shared)
        return prefix_tile(kv->prefix, layer, is_v, kv_head, tile);
    return kvcache_tile(kv, layer, is_v, kv_head, tile);
}

void kvcache_truncate(struct cpu_kv *kv, int n_tok)
{
    if (kv->n_dirty <= n_tok)
        return;
    for (int t = n_tok / KV_TILE; t * KV_TILE < kv->n_dirty; t++) {
        int slot = t == n_tok / KV_TILE ? n_tok % KV_TILE : 0;
        for (int l = 0; l < kv->n_layer; l++)
            for (int h = 0; h < kv->n_kv_head; h++)
                kv_tile_clear(kvcache_tile(kv, l, 0, h, t),
                              kvcache_tile(kv, l, 1, h, t), elem_bytes(kv),
                              kv->d_head, slot);
    }
    kv->n_dirty = n_tok;
}

cag_status kvcache_ready(struct cpu_kv *kv, int layer, cag_error *err)
{
    if (!kv->prefix || layer < kv->n_layer_ready)
        return CAG_OK;
    cag_status st = prefix_ready(kv->prefix, layer, err);
    if (st)
        return st;
    int slot = kv->n_prefix % KV_TILE, t = kv->n_shared;
    for (int h = 0; !st && slot != 0 && h < kv->n_kv_head; h++) {
        uint8_t *k = kvcache_tile(kv, layer, 0, h, t);
        uint8_t *v = kvcache_tile(kv, layer, 1, h, t);
        if (prefix_is_q8h(kv->prefix)) {
            struct kv_pair to = { kv->kv_type, k, v };

            st = prefix_decode(kv->prefix, layer, h, t, slot, &to, err);
            continue; /* the slots after it were never written */
        }
        memcpy(k, prefix_tile(kv->prefix, layer, 0, h, t), kv->tile_bytes);
        memcpy(v, prefix_tile(kv->prefix, layer, 1, h, t), kv->tile_bytes);
        /* the file's word that the rest is zero is not enough here */
        kv_tile_clear(k, v, elem_bytes(kv), kv->d_head, slot);
    }
    if (!st)
        kv->n_layer_ready = layer + 1;
    return st;
}

static cag_status check_shape(const struct cpu_kv *kv,
                              const struct kvc_shape *s, const char *path,
                              cag_error *err)
{
    if (s->n_layer >= kv->n_layer && s->n_kv_head == kv->n_kv_head &&
        s->d_head == kv->d_head &&
        (kvc_elem_bytes(s) == elem_bytes(kv) || kvc_is_q8h(s)))
        return CAG_OK;
    return cag_fail(err, CAG_E_MISMATCH, path, -1,
                    "the cache is %d layers x %d heads x %d at f%d, the "
                    "session %d x %d x %d at f%d",
                    s->n_layer, s->n_kv_head, s->d_head, 8 * kvc_elem_bytes(s),
                    kv->n_layer, kv->n_kv_head, kv->d_head, 8 * elem_bytes(kv));
}

cag_status kvcache_check_export(const struct cpu_kv *kv,
                                const struct kvc_shape *shape, cag_error *err)
{
    cag_status st = check_shape(kv, shape, NULL, err);

    if (st)
        return st;
    if (prefix_is_q8h(kv->prefix))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "K and V of a q8h prefix cannot be exported");
    return CAG_OK;
}

cag_status kvcache_export(const struct cpu_kv *kv,
                          const struct kvc_shape *shape, int layer, int chunk,
                          uint8_t *dst, cag_error *err)
{
    cag_status st = kvcache_check_export(kv, shape, err);
    int tile0 = chunk * (shape->chunk_tok / KVC_TILE);

    if (st)
        return st;
    /* loading is not thread-safe, so it is not done here */
    if (kv->prefix && layer >= kv->n_layer_ready)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "layer %d of the session's prefix was never used: "
                        "its K and V cannot be exported",
                        layer);
    for (int h = 0; h < kv->n_kv_head; h++)
        for (int i = 0; i < kvc_chunk_tiles(shape, chunk); i++) {
            uint8_t *k = dst + kvc_tile_off(shape, chunk, 0, h, i);
            uint8_t *v = dst + kvc_tile_off(shape, chunk, 1, h, i);
            int left = shape->n_tok - (tile0 + i) * KV_TILE;
            memcpy(k, kvcache_any_tile(kv, layer, 0, h, tile0 + i),
                   kv->tile_bytes);
            memcpy(v, kvcache_any_tile(kv, layer, 1, h, tile0 + i),
                   kv->tile_bytes);
            if (left < KV_TILE)
                kv_tile_clear(k, v, elem_bytes(kv), kv->d_head, left);
        }
    return CAG_OK;
}

struct import_job {
    struct cpu_kv *kv;
    const cag_kvc *kvc;
    const struct kvc_shape *shape;
    int n_tok, n_chunk; /* chunks of a layer to read */
    uint8_t **scratch;  /* [threads], NULL if in place */
    uint8_t *failed;    /* [n_layer * n_chunk] */
};

static cag_status import_chunk(const struct import_job *j, int item,
                               uint8_t *scratch, cag_error *err)
{
    struct cpu_kv *kv = j->kv;
    int layer = item / j->n_chunk, chunk = item % j->n_chunk;
    int tile0 = chunk * (j->shape->chunk_tok / KVC_TILE);
    struct q8h_chunk from = { j->shape, NULL, layer, chunk,
                              cag_kvc_get_info(j->kvc)->path };
    cag_status st =
        kvc_chunk_load(j->kvc, layer, chunk, scratch, &from.raw, err);

    if (st)
        return st;
    const uint8_t *raw = from.raw;
    for (int h = 0; h < kv->n_kv_head; h++)
        for (int i = 0; i < kvc_chunk_tiles(j->shape, chunk); i++) {
            int left = j->n_tok - (tile0 + i) * KV_TILE;
            if (left <= 0)
                break;
            uint8_t *k = kvcache_tile(kv, layer, 0, h, tile0 + i);
            uint8_t *v = kvcache_tile(kv, layer, 1, h, tile0 + i);
            if (kvc_is_q8h(j->shape)) {
                struct kv_pair to = { kv->kv_type, k, v };

                st = q8h_tile(&from, h, i, left < KV_TILE ? left : KV_TILE, &to,
                              err);
                if (st)
                    return st;
                continue;
            }
            memcpy(k, raw + kvc_tile_off(j->shape, chunk, 0, h, i),
                   kv->tile_bytes);
            memcpy(v, raw + kvc_tile_off(j->shape, chunk, 1, h, i),
                   kv->tile_bytes);
            if (left < KV_TILE)
                kv_tile_clear(k, v, elem_bytes(kv), kv->d_head, left);
        }
    return CAG_OK;
}

static void import_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct import_job *j = ctx;
    uint8_t *scratch = j->scratch ? j->scratch[thread] : NULL;

    for (int64_t i = begin; i < end; i++)
        j->failed[i] = import_chunk(j, (int)i, scratch, NULL) != CAG_OK;
}

cag_status kvcache_import(struct cpu_kv *kv, const cag_kvc *k, int n_tok,
                          struct pool *pool, cag_error *err)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    struct import_job j = { kv, k, s, n_tok, 0, NULL, NULL };
    int n_thread = pool_size(pool), n_item;
    cag_status st = check_shape(kv, s, cag_kvc_get_info(k)->path, err);

    if (st)
        return st;
    if (n_tok > s->n_tok)
        return cag_fail(err, CAG_E_USAGE, cag_kvc_get_info(k)->path, -1,
                        "%d tokens asked of a cache of %d", n_tok, s->n_tok);
    j.n_chunk = (n_tok + s->chunk_tok - 1) / s->chunk_tok;
    n_item = j.n_chunk * kv->n_layer;
    j.failed = mem_zalloc((size_t)n_item);
    if (!kvc_chunk_in_place(k)) {
        j.scratch = mem_alloc_array((size_t)n_thread, sizeof *j.scratch);
        for (int i = 0; j.scratch && i < n_thread; i++) {
            j.scratch[i] = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
            if (!j.scratch[i])
                st = CAG_E_NOMEM;
        }
        if (!j.scratch)
            st = CAG_E_NOMEM;
    }
    if (!j.failed || st) {
        st = cag_fail_nomem(err, "import of a cache");
        goto out;
    }
    kv->n_dirty = n_tok;
    pool_run(pool, import_range, &j, n_item, 1);
    /* once more for the message, and in file order; see prefix_cpu.c */
    for (int i = 0; !st && i < n_item; i++)
        if (j.failed[i])
            st = import_chunk(&j, i, j.scratch ? j.scratch[0] : NULL, err);
out:
    for (int i = 0; j.scratch && i < n_thread; i++)
        mem_free(j.scratch[i]);
    mem_free(j.scratch);
    mem_free(j.failed);
    return st;
}
