/*
 * kvc_layout.c - arithmetic on a checked shape; see kvc_layout.h.
 *
 *   chunk   | K: head 0 tile 0, tile 1, ... head 1 ... | V: the same | q8h
 *   bytes     n_kv_head * tiles * tile_bytes             the same
 *
 * The capacities of kvc_format.h keep all products far below SIZE_MAX.
 */
#include "kvc/kvc_layout.h"

#include <assert.h>

#include "kvc/kvc_format.h"

_Static_assert(sizeof(size_t) >= 8, "cag needs a 64-bit address space");

static const struct {
    const char *name;
    int elem_bytes;
} classes[KVC_N_CLASS] = {
    [KVC_CLASS_F16] = { "f16", 2 },
    [KVC_CLASS_F32] = { "f32", 4 },
    [KVC_CLASS_Q8H] = { "q8h", 1 },
};

const char *kvc_class_name(enum kvc_class c)
{
    return classes[c].name;
}

int kvc_elem_bytes(const struct kvc_shape *s)
{
    return classes[s->kv_class].elem_bytes;
}

/* Of a tile's scales, and of all factors; nothing but in class q8h. */
static size_t scale_bytes(const struct kvc_shape *s)
{
    return kvc_is_q8h(s) ? (size_t)KVC_TILE * 2 : 0;
}

static size_t factor_bytes(const struct kvc_shape *s)
{
    return kvc_is_q8h(s) ? (size_t)s->n_kv_head * (size_t)s->d_head * 4 : 0;
}

int kvc_chunk_tok(int n_kv_head, int d_head, enum kvc_class c)
{
    struct kvc_shape s = { 1, n_kv_head, d_head, c, 0, KVC_TILE };
    size_t fixed = factor_bytes(&s), row;

    row = 2 * (size_t)n_kv_head * (kvc_tile_bytes(&s) + scale_bytes(&s));
    assert(row > 0);
    for (size_t n = 2; n * row + fixed <= KVC_MAX_CHUNK; n *= 2)
        s.chunk_tok *= 2;
    return s.chunk_tok;
}

int kvc_n_tile(const struct kvc_shape *s)
{
    return (s->n_tok + KVC_TILE - 1) / KVC_TILE;
}

int kvc_n_chunk(const struct kvc_shape *s)
{
    int per_chunk = s->chunk_tok / KVC_TILE;

    return (kvc_n_tile(s) + per_chunk - 1) / per_chunk;
}

int kvc_chunk_tiles(const struct kvc_shape *s, int chunk)
{
    int per_chunk = s->chunk_tok / KVC_TILE;
    int left = kvc_n_tile(s) - chunk * per_chunk;

    assert(chunk >= 0 && left > 0);
    return left < per_chunk ? left : per_chunk;
}

size_t kvc_tile_bytes(const struct kvc_shape *s)
{
    return (size_t)KVC_TILE * (size_t)s->d_head * (size_t)kvc_elem_bytes(s);
}

size_t kvc_row_bytes(const struct kvc_shape *s)
{
    return (kvc_tile_bytes(s) + scale_bytes(s)) / KVC_TILE;
}

size_t kvc_chunk_bytes(const struct kvc_shape *s, int chunk)
{
    return (size_t)2 * (size_t)s->n_kv_head *
               (size_t)kvc_chunk_tiles(s, chunk) * KVC_TILE * kvc_row_bytes(s) +
           factor_bytes(s);
}

/* Which of a chunk's tiles, counted through K and V. */
static size_t tile_at(const struct kvc_shape *s, int chunk, int is_v,
                      int kv_head, int tile_in_chunk)
{
    size_t tiles = (size_t)kvc_chunk_tiles(s, chunk);
    size_t row = (size_t)(is_v ? s->n_kv_head : 0) + (size_t)kv_head;

    assert(kv_head >= 0 && kv_head < s->n_kv_head);
    assert(tile_in_chunk >= 0 && (size_t)tile_in_chunk < tiles);
    return row * tiles + (size_t)tile_in_chunk;
}

size_t kvc_tile_off(const struct kvc_shape *s, int chunk, int is_v, int kv_head,
                    int tile_in_chunk)
{
    return tile_at(s, chunk, is_v, kv_head, tile_in_chunk) * kvc_tile_bytes(s);
}

/* Where the scales begin. */
static size_t scales_off(const struct kvc_shape *s, int chunk)
{
    return 2 * (size_t)s->n_kv_head * (size_t)kvc_chunk_tiles(s, chunk) *
           kvc_tile_bytes(s);
}

size_t kvc_scale_off(const struct kvc_shape *s, int chunk, int is_v,
                     int kv_head, int tile_in_chunk)
{
    assert(kvc_is_q8h(s));
    return scales_off(s, chunk) +
           tile_at(s, chunk, is_v, kv_head, tile_in_chunk) * scale_bytes(s);
}

size_t kvc_factor_off(const struct kvc_shape *s, int chunk, int kv_head)
{
    assert(kvc_is_q8h(s) && kv_head >= 0 && kv_head < s->n_kv_head);
    return kvc_chunk_bytes(s, chunk) -
           (size_t)(s->n_kv_head - kv_head) * (size_t)s->d_head * 4;
}
