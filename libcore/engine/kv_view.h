/*
 * kv_view.h - what rows see of their prefix.
 *
 * A view names tokens of a prefix that stay visible; to attention the others
 * are not there.  Positions stay absolute, so nothing is rotated anew, and
 * what comes after the prefix is always seen.  A view is bits on the grid of
 * tiles: a hidden tile is not read, and a span of hidden tiles is no span of
 * the row's at all.
 */
#ifndef ENGINE_KV_VIEW_H
#define ENGINE_KV_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct kv_view {
    int n_tile;      /* of the prefix, the last maybe partial          */
    uint64_t tile[]; /* bit t of tile i: position 64 i + t; set after the
                        prefix's end                                   */
};

/* The keys of a tile that may be seen; v NULL: all. */
static inline uint64_t kv_view_tile(const struct kv_view *v, int tile)
{
    return v && tile < v->n_tile ? v->tile[tile] : UINT64_MAX;
}

/* Is anything of the tiles [t0, t1) seen? */
static inline bool kv_view_any(const struct kv_view *v, int t0, int t1)
{
    for (int t = t0; t < t1; t++)
        if (kv_view_tile(v, t))
            return true;
    return false;
}

/* Rows of equal views share their walks. */
static inline bool kv_view_same(const struct kv_view *a,
                                const struct kv_view *b)
{
    return a == b || (a && b && a->n_tile == b->n_tile &&
                      memcmp(a->tile, b->tile,
                             (size_t)a->n_tile * sizeof a->tile[0]) == 0);
}

#endif
