/*
 * kv_cuda.h - where K and V lie on the device; shared by prefix_cuda.c,
 * kvcache_cuda.c and export_cuda.c.
 *
 *   chunks  [n_layer] [chunk] [K, V] [kv_head] [tile of the chunk]
 *   tail    [n_layer]         [K, V] [kv_head] one tile
 *   own     [n_layer]         [K, V] [kv_head] [n_tile]
 *
 * chunks and tail are a prefix's, own is a timeline's.  Seen as rows of tiles,
 * tail and own differ only in their pitch.
 */
#ifndef ENGINE_CUDA_KV_CUDA_H
#define ENGINE_CUDA_KV_CUDA_H

#include "engine/cuda/cuda.h"

/* Rows of tiles of one layer: K of every head, then V. */
static inline size_t cuda_kv_layer_rows(const struct cuda *c)
{
    return 2 * (size_t)c->shape.n_kv_head;
}

/* A timeline's own memory of one layer. */
static inline size_t cuda_kv_layer_bytes(const struct cuda_kv *kv)
{
    const struct cuda *c = cuda_of(kv->base.backend);

    return cuda_kv_layer_rows(c) * (size_t)kv->n_tile * c->tile_bytes;
}

/* The first head's K of a private tile. */
static inline uint8_t *cuda_kv_tile(const struct cuda_kv *kv, int layer,
                                    int tile)
{
    const struct cuda *c = cuda_of(kv->base.backend);

    return kv->dev + (size_t)layer * cuda_kv_layer_bytes(kv) +
           (size_t)(tile - kv->n_shared) * c->tile_bytes;
}

static inline size_t cuda_chunk_off(const struct kvc_shape *s, int chunk)
{
    /* every chunk but a layer's last has the same size */
    return (size_t)chunk * kvc_chunk_bytes(s, 0);
}

/* The pinned slots hold whole chunks, 64-aligned for the decoder, and more. */
static inline size_t cuda_slot_bytes(const struct kvc_shape *s, size_t more)
{
    return (kvc_chunk_bytes(s, 0) + more + 63) & ~(size_t)63;
}

/* ----------------------------------------------------------- prefix_cuda.c */

/* Slots of the last tile after the last token, where the chunk holds it; the
 * file's word that they are zero is not enough. */
void cuda_clear_unused(const struct kvc_shape *s, int n_tok, int chunk,
                       uint8_t *data);
/* A chunk, checked, in data. */
cag_status cuda_load_chunk(const cag_kvc *k, int layer, int chunk,
                           uint8_t *data, cag_error *err);
/* The run stream comes after all of the layer, its tail gathered. */
cag_status cuda_prefix_need(struct cuda_prefix *p, int layer, cag_error *err);

#endif
