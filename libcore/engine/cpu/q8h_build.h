/*
 * q8h_build.h - codec q8h between a timeline's tiles and a cache's chunks.
 *
 * A build computes on f16 tiles as always and codes them when it writes:
 *
 *   q8h_gather       before the prefill: gather queries from a position on
 *   q8h_add_queries  in the passes: those of one row and layer
 *   q8h_balance      after it: the factors of every layer and head
 *   q8h_export       chunk by chunk
 *
 * What codes become again is engine/q8h_decode.h.
 */
#ifndef ENGINE_CPU_Q8H_BUILD_H
#define ENGINE_CPU_Q8H_BUILD_H

#include "engine/cpu/kvcache_cpu.h"

cag_status q8h_gather(struct cpu_kv *kv, int from, cag_error *err);
void q8h_free(struct cpu_kv *kv);
/* Positions from n_tok on are dropped. */
void q8h_truncate(struct cpu_kv *kv, int n_tok);
/* The rotated, scaled queries of one token of a layer:
 * q [n_kv_head] rows of [group, d_head], ldq apart. */
void q8h_add_queries(struct cpu_kv *kv, int layer, int pos, const float *q,
                     size_t ldq, int group);
/* CAG_E_USAGE when the queries of a position between from and n_tok were not
 * seen. */
cag_status q8h_balance(struct cpu_kv *kv, int n_tok, struct pool *pool,
                       cag_error *err);
/* As kvcache_export; CAG_E_UNSUPPORTED names the layer and token whose row
 * cannot be coded. */
cag_status q8h_export(const struct cpu_kv *kv, const struct kvc_shape *shape,
                      int layer, int chunk, uint8_t *dst, cag_error *err);

#endif
