/*
 * prefix_cpu.h - the mapped K and V of a cache, as the CPU's attention reads
 * them.
 */
#ifndef ENGINE_CPU_PREFIX_CPU_H
#define ENGINE_CPU_PREFIX_CPU_H

#include "engine/backend.h"
#include "engine/q8h_decode.h"
#include "kvc/kvc_read.h"
#include "util/pool.h"

struct cpu_prefix {
    struct backend_prefix base;
    const cag_kvc *kvc; /* borrowed, outlives this */
    const struct kvc_shape *shape;
    int n_tok; /* of the cache's tokens, the first */
    struct pool *pool;
    int n_chunk;           /* per layer */
    const uint8_t **chunk; /* [n_layer, n_chunk], NULL until ready */
    uint8_t **buf;         /* [n_layer] expanded chunks, or NULL */
    uint8_t *ready;        /* [n_layer] */
    float *factor;         /* q8h: [n_layer, n_kv_head, d_head] */
    uint64_t private_bytes;
    double seconds; /* spent in prefix_ready */
};

/* kv_f32: the element type the engine computes with; codes of q8h are for
 * either. */
cag_status prefix_new(struct backend *b, const cag_kvc *k, int n_tok,
                      bool kv_f32, struct pool *pool,
                      struct backend_prefix **out, cag_error *err);
void prefix_free(struct backend_prefix *p);
uint64_t prefix_private_bytes(const struct backend_prefix *p);
double prefix_seconds(const struct backend_prefix *p);

/* Check and expand one layer's chunks with all threads; cheap once done. */
cag_status prefix_ready(struct cpu_prefix *p, int layer, cag_error *err);
/* The same for the first n_layer layers. */
cag_status prefix_load(struct cpu_prefix *p, int n_layer, cag_error *err);

/* A tile of a layer that is ready; tile counts from position 0. */
const uint8_t *prefix_tile(const struct cpu_prefix *p, int layer, int is_v,
                           int kv_head, int tile);
/* q8h: the scales of that tile; the factors of a head's K. */
const uint8_t *prefix_scales(const struct cpu_prefix *p, int layer, int is_v,
                             int kv_head, int tile);
const float *prefix_factors(const struct cpu_prefix *p, int layer, int kv_head);
/* q8h: copy a tile's first n_key rows into a pair of a timeline, decoded;
 * CAG_E_UNSUPPORTED when a value does not fit its type. */
cag_status prefix_decode(const struct cpu_prefix *p, int layer, int kv_head,
                         int tile, int n_key, const struct kv_pair *to,
                         cag_error *err);

static inline bool prefix_is_q8h(const struct cpu_prefix *p)
{
    return p && kvc_is_q8h(p->shape);
}

#endif
