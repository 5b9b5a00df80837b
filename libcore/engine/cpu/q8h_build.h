/*
 * q8h_build.h - codec q8h between a timeline's tiles and a cache's chunks.
 *
 * A build computes on f16 tiles as always and codes them when it writes:
 *
 *   q8h_gather    before the prefill: watch the queries from a position on
 *   (the passes)     q8h_watch adds each row's
 *   q8h_balance   behind it: the factors of every layer and head
 *   q8h_export    chunk by chunk
 *
 * A reader attends to whole tiles where they are mapped (attend_cpu.c); what it
 * has to copy, it copies decoded: q8h_tile.
 */
#ifndef ENGINE_CPU_Q8H_BUILD_H
#define ENGINE_CPU_Q8H_BUILD_H

#include "engine/cpu/kvcache_cpu.h"

cag_status q8h_gather(struct kvcache *kv, int from, cag_error *err);
void q8h_free(struct kvcache *kv);
/* Positions from n_tok on are dropped. */
void q8h_truncate(struct kvcache *kv, int n_tok);
/* The rotated, scaled queries of one token of a layer:
 * q [n_kv_head] rows of [group, d_head], ldq apart. */
void q8h_watch(struct kvcache *kv, int layer, int pos, const float *q,
               size_t ldq, int group);
/* CAG_E_USAGE when the queries of a position between from and n_tok were not
 * seen. */
cag_status q8h_balance(struct kvcache *kv, int n_tok, struct pool *pool,
                       cag_error *err);
/* As kvcache_export; CAG_E_UNSUPPORTED names the layer and token whose row
 * cannot be coded. */
cag_status q8h_export(const struct kvcache *kv, const struct kvc_shape *shape,
                      int layer, int chunk, uint8_t *dst, cag_error *err);

/* The factors [d_head] of a head, out of any raw chunk of a layer. */
void q8h_factors(const struct kvc_shape *s, const uint8_t *raw, int chunk,
                 int kv_head, float *out);
/*
 * Decode the first n_key rows of a tile of a raw chunk into a K and a V tile
 * of kernels.h (kv_type KV_F16 or KV_F32; other rows are left alone).  False
 * when a value does not fit.
 */
bool q8h_tile(const struct kvc_shape *s, const uint8_t *raw, int chunk,
              int kv_head, int tile_in_chunk, int n_key, int kv_type,
              void *k_tile, void *v_tile);

#endif
