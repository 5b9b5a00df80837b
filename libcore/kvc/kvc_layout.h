/*
 * kvc_layout.h - where a tile of K or V lies inside a cache's chunks.
 *
 * A chunk is one layer x chunk_tok tokens: all K, then all V, inside
 * [kv_head][tile].  The last chunk of a layer holds only the tiles that have
 * tokens.  Tiles themselves are laid out by kernels.h.  The same layout is
 * used in memory by a session's prefix.  Pure arithmetic on checked numbers.
 */
#ifndef KVC_LAYOUT_H
#define KVC_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define KVC_TILE 64

struct kvc_shape {
    int n_layer, n_kv_head, d_head;
    int elem_bytes;               /* 2 (f16) or 4 (f32) */
    int n_tok;                    /* tokens of the prefix */
    int chunk_tok;                /* 64 * 2^k */
};

/* The largest 64 * 2^k whose raw K+V of one layer is at most 1 MiB, at
 * least 64. */
int    kvc_chunk_tok(int n_kv_head, int d_head, int elem_bytes);
int    kvc_n_tile(const struct kvc_shape *s);            /* of all tokens */
int    kvc_n_chunk(const struct kvc_shape *s);           /* per layer */
int    kvc_chunk_tiles(const struct kvc_shape *s, int chunk);
size_t kvc_tile_bytes(const struct kvc_shape *s);
size_t kvc_chunk_bytes(const struct kvc_shape *s, int chunk);  /* raw, K+V */
/* Offset of a tile inside its chunk; tile counts from the chunk's first. */
size_t kvc_tile_off(const struct kvc_shape *s, int chunk, int is_v,
                    int kv_head, int tile_in_chunk);

#endif
