/*
 * kv_tile.c - see kv_tile.h.
 */
#include "engine/kv_tile.h"

#include <string.h>

void kv_tile_clear(uint8_t *k, uint8_t *v, int elem, int d_head, int slot)
{
    size_t e = (size_t)elem, d = (size_t)d_head, t = (size_t)slot;

    /* K [64/16][d_head][16] */
    if (t % 16 != 0)
        for (size_t c = 0; c < d; c++)
            memset(k + ((t / 16 * d + c) * 16 + t % 16) * e, 0,
                   (16 - t % 16) * e);
    for (size_t g = (t + 15) / 16; g < KV_TILE / 16; g++)
        memset(k + g * d * 16 * e, 0, d * 16 * e);
    /* V [d_head/32][64][32], the last group narrower */
    for (size_t c = 0; c < d; c += 32) {
        size_t w = d - c < 32 ? d - c : 32;
        memset(v + (c * KV_TILE + t * w) * e, 0, (KV_TILE - t) * w * e);
    }
}
