/*
 * kvc_layout.c - arithmetic on a checked shape; see kvc_layout.h.
 *
 *   chunk   | K: head 0 tile 0, tile 1, ... head 1 ... | V: the same |
 *   bytes     n_kv_head * tiles * tile_bytes             the same
 *
 * The capacities of kvc_format.h keep all products far below SIZE_MAX.
 */
#include "kvc/kvc_layout.h"

#include <assert.h>

#include "kvc/kvc_format.h"

_Static_assert(sizeof(size_t) >= 8, "cag needs a 64-bit address space");

int kvc_chunk_tok(int n_kv_head, int d_head, int elem_bytes)
{
    size_t per_tok = (size_t)2 * (size_t)n_kv_head * (size_t)d_head *
                     (size_t)elem_bytes;
    int    n_tok = KVC_TILE;

    assert(per_tok > 0);
    while ((size_t)n_tok * 2 * per_tok <= KVC_MAX_CHUNK)
        n_tok *= 2;
    return n_tok;
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
    return (size_t)KVC_TILE * (size_t)s->d_head * (size_t)s->elem_bytes;
}

size_t kvc_chunk_bytes(const struct kvc_shape *s, int chunk)
{
    return (size_t)2 * (size_t)s->n_kv_head *
           (size_t)kvc_chunk_tiles(s, chunk) * kvc_tile_bytes(s);
}

size_t kvc_tile_off(const struct kvc_shape *s, int chunk, int is_v,
                    int kv_head, int tile_in_chunk)
{
    size_t tiles = (size_t)kvc_chunk_tiles(s, chunk);
    size_t row = (size_t)(is_v ? s->n_kv_head : 0) + (size_t)kv_head;

    assert(kv_head >= 0 && kv_head < s->n_kv_head);
    assert(tile_in_chunk >= 0 && (size_t)tile_in_chunk < tiles);
    return (row * tiles + (size_t)tile_in_chunk) * kvc_tile_bytes(s);
}
