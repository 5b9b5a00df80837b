/*
 * q8h_decode.h - values out of a cache's codes (codec q8h).
 *
 * Attention reads whole tiles of codes where they are mapped; who needs
 * values (a partial tile, an import, the measure of loss) decodes them here,
 * on the host, whatever the device.
 */
#ifndef ENGINE_Q8H_DECODE_H
#define ENGINE_Q8H_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include <cag/error.h>

#include "kvc/kvc_layout.h"

#define Q8H_D_MAX 512 /* channels of a head */

/* A raw chunk, and where it is from. */
struct q8h_chunk {
    const struct kvc_shape *shape;
    const uint8_t *raw;
    int layer, chunk;
    const char *path; /* named by errors; may be NULL */
};

/* Where a tile is decoded to: tiles of kernels.h. */
struct kv_pair {
    int kv_type; /* KV_F16 or KV_F32 */
    void *k, *v;
};

/* The factors [d_head] of a head: every chunk of a layer has them. */
void q8h_factors(const struct q8h_chunk *from, int kv_head, float *out);
/*
 * Decode the first n_key rows of a tile into a K and a V tile; the other
 * rows are left alone.  CAG_E_UNSUPPORTED:
 * a value does not fit that type, the head is too large, or there is no set
 * of kernels (the message says why).
 */
cag_status q8h_tile(const struct q8h_chunk *from, int kv_head,
                    int tile_in_chunk, int n_key, const struct kv_pair *to,
                    cag_error *err);

#endif
