/*
 * kvcache_cpu.h - one timeline's K and V on the CPU: the mapped tiles of a
 * prefix, then private ones.
 */
#ifndef ENGINE_CPU_KVCACHE_CPU_H
#define ENGINE_CPU_KVCACHE_CPU_H

#include "engine/backend.h"
#include "engine/cpu/prefix_cpu.h"
#include "engine/kv_tile.h"
#include "kernels/kernels.h"

#define KV_SPAN_TILES (KV_SPAN / KV_TILE)

struct kv_slab;
struct kv_q8h;
struct cpu_kv {
    struct backend_kv base;
    struct cpu_prefix *prefix; /* or NULL */
    int n_layer;               /* held: the model's first ones */
    int n_kv_head, d_head;
    int kv_type; /* KV_F16 or KV_F32 */
    size_t tile_bytes;
    int max_tok;
    int n_prefix; /* tokens of the prefix */
    int n_shared; /* whole tiles of it, never copied */
    int n_dirty;  /* positions >= this were never written */
    int n_layer_ready;
    int n_slab;
    struct kv_slab *slab; /* private tiles, a span's worth each */
    struct kv_q8h *q8h;   /* of a build with that codec, or NULL: made and
                             freed by q8h_build.c */
};

struct cpu_kv_shape {
    int n_layer, n_kv_head, d_head, kv_type;
    int max_tok; /* the prefix included */
};
cag_status kvcache_new(struct backend *b, struct cpu_prefix *p,
                       const struct cpu_kv_shape *shape, struct cpu_kv **out,
                       cag_error *err);
void kvcache_free(struct cpu_kv *kv);
void kvcache_truncate(struct cpu_kv *kv, int n_tok);

/* Before a pass touches a layer: its prefix chunks are loaded and the last,
 * partial prefix tile is copied (decoded, where it is codes). */
cag_status kvcache_ready(struct cpu_kv *kv, int layer, cag_error *err);

/* A private tile (tile >= n_shared); writable. */
uint8_t *kvcache_tile(const struct cpu_kv *kv, int layer, int is_v, int kv_head,
                      int tile);
/* Any tile of a layer that is ready. */
const uint8_t *kvcache_any_tile(const struct cpu_kv *kv, int layer, int is_v,
                                int kv_head, int tile);

/* Whether chunks of this shape can be made of the timeline; CAG_E_MISMATCH,
 * CAG_E_USAGE (a prefix of codes). */
cag_status kvcache_check_export(const struct cpu_kv *kv,
                                const struct kvc_shape *shape, cag_error *err);
/* Of the timeline's own element type; codes are q8h_export's (q8h_build.h). */
cag_status kvcache_export(const struct cpu_kv *kv,
                          const struct kvc_shape *shape, int layer, int chunk,
                          uint8_t *dst, cag_error *err);
cag_status kvcache_import(struct cpu_kv *kv, const cag_kvc *k, int n_tok,
                          struct pool *pool, cag_error *err);

#endif
