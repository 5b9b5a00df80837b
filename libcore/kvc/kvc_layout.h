/*
 * kvc_layout.h - where a tile of K or V lies inside a cache's chunks.
 *
 * A chunk is one layer x chunk_tok tokens: all K, then all V, inside
 * [kv_head][tile].  The last chunk of a layer holds only the tiles that have
 * tokens.  Tiles themselves are laid out by kernels.h.  The same layout is
 * used in memory by a session's prefix.  Pure arithmetic on checked numbers.
 *
 * What an element is, is the shape's class.  In class q8h the elements are
 * int8 codes, and the scales and factors after the tiles (kvc_format.h) are
 * what they are multiplied with.
 */
#ifndef KVC_KVC_LAYOUT_H
#define KVC_KVC_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVC_TILE 64

/* What the bytes of a chunk mean; codecs of one class hold the same bytes. */
enum kvc_class { KVC_CLASS_F16, KVC_CLASS_F32, KVC_CLASS_Q8H, KVC_N_CLASS };

struct kvc_shape {
    int n_layer, n_kv_head, d_head;
    enum kvc_class kv_class;
    int n_tok;     /* tokens of the prefix */
    int chunk_tok; /* 64 * 2^k */
};

static inline bool kvc_is_q8h(const struct kvc_shape *s)
{
    return s->kv_class == KVC_CLASS_Q8H;
}

const char *kvc_class_name(enum kvc_class c); /* "f16", "f32", "q8h" */
/* Bytes of one element of a tile: 2, 4 or 1. */
int kvc_elem_bytes(const struct kvc_shape *s);
/* The largest 64 * 2^k whose raw K+V of one layer is at most 1 MiB, at
 * least 64. */
int kvc_chunk_tok(int n_kv_head, int d_head, enum kvc_class c);
int kvc_n_tile(const struct kvc_shape *s);  /* of all tokens */
int kvc_n_chunk(const struct kvc_shape *s); /* per layer */
int kvc_chunk_tiles(const struct kvc_shape *s, int chunk);
/* What attention reads of one token and head of K, or of V. */
size_t kvc_row_bytes(const struct kvc_shape *s);
size_t kvc_tile_bytes(const struct kvc_shape *s);
size_t kvc_chunk_bytes(const struct kvc_shape *s, int chunk); /* raw, K+V */
/* Offset of a tile inside its chunk; tile counts from the chunk's first. */
size_t kvc_tile_off(const struct kvc_shape *s, int chunk, int is_v, int kv_head,
                    int tile_in_chunk);
/* The same of the 64 scales of a tile, and of a head's factors; q8h only. */
size_t kvc_scale_off(const struct kvc_shape *s, int chunk, int is_v,
                     int kv_head, int tile_in_chunk);
size_t kvc_factor_off(const struct kvc_shape *s, int chunk, int kv_head);

#endif
