/*
 * prefix.h - the mapped K and V of a cache, as the CPU's attention reads
 * them.
 */
#ifndef ENGINE_PREFIX_H
#define ENGINE_PREFIX_H

#include "engine/backend.h"
#include "kvc/kvc_read.h"
#include "util/pool.h"

struct prefix {
    struct backend_prefix   base;
    const cag_kvc          *kvc;      /* borrowed, outlives this */
    const struct kvc_shape *shape;
    int                     n_tok;    /* of the cache's tokens, the first */
    struct pool            *pool;
    int                     n_chunk;  /* per layer */
    const uint8_t         **chunk;    /* [n_layer, n_chunk], NULL until ready */
    uint8_t               **buf;      /* [n_layer] expanded chunks, or NULL */
    uint8_t                *ready;    /* [n_layer] */
    uint64_t                private_bytes;
};

/* kv_f32: the element type the engine computes with. */
cag_status prefix_new(struct backend *b, const cag_kvc *k, int n_tok,
                      bool kv_f32, struct pool *pool,
                      struct backend_prefix **out, cag_error *err);
void       prefix_free(struct backend_prefix *p);
uint64_t   prefix_private_bytes(const struct backend_prefix *p);

/* Check and expand one layer's chunks with all threads; cheap once done. */
cag_status prefix_ready(struct prefix *p, int layer, cag_error *err);
cag_status prefix_load(struct backend_prefix *p, cag_error *err);

/* A tile of a layer that is ready; tile counts from position 0. */
const uint8_t *prefix_tile(const struct prefix *p, int layer, int is_v,
                           int kv_head, int tile);

#endif
