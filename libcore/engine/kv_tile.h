/*
 * kv_tile.h - a tile of K or V (kernels.h, "KV tile layout") where a host
 * writes into it without kernels.
 */
#ifndef ENGINE_KV_TILE_H
#define ENGINE_KV_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Element of a tile: token t, channel c. */
static inline size_t kv_tile_at(bool is_v, int d_head, int t, int c)
{
    int g = c / 32, width = d_head - 32 * g < 32 ? d_head - 32 * g : 32;

    return is_v ? (size_t)(g * 32 * KV_TILE + t * width + c % 32)
                : (size_t)(t / 16 * d_head + c) * 16 + (size_t)(t % 16);
}

/* Zero the slots [slot, 64) of a K and a V tile. */
void kv_tile_clear(uint8_t *k, uint8_t *v, int elem_bytes, int d_head,
                   int slot);

#endif
