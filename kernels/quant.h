/*
 * quant.h - the stored weight formats, one block at a time.
 *
 * Every quantized format is a row of blocks of 32 weights (eight of them in
 * a super-block for the K types), and every weight is  f * q + m  with an
 * integer q, a scale f and an offset m that 32 or, for Q6_K, 16 weights
 * share.  quant_block gives these parts; scalar kernels compute from them,
 * and the value of a weight (kernels.h) is made from them in one place.
 *
 *   type   bytes/weights  layout (f16 little-endian)
 *   Q4_0    18 / 32   d, 16 nibble bytes: low = weights 0..15, high = 16..31
 *   Q4_1    20 / 32   d, m, nibbles
 *   Q5_0    22 / 32   d, u32 of fifth bits (bit i = weight i), nibbles
 *   Q5_1    24 / 32   d, m, fifth bits, nibbles
 *   Q8_0    34 / 32   d, 32 signed bytes
 *   Q4_K   144 / 256  d, dmin, 12 bytes of 6-bit scales and mins, 128 bytes:
 *                     each 32 hold block 2i (low) and 2i + 1 (high nibbles)
 *   Q5_K   176 / 256  d, dmin, 12, 32 bytes: bit i of byte j = fifth bit of
 *                     weight j of block i, then as Q4_K
 *   Q6_K   210 / 256  128 bytes of low 4 bits, 64 of high 2 bits, 16 signed
 *                     scales (one per 16 weights), d; each half of 128
 *                     weights: low nibbles of 64 bytes are its blocks 0, 1,
 *                     high nibbles 2, 3; bits 2i.. of 32 bytes go to block i
 *
 * Source: the format descriptions of the GGUF ecosystem; the tests compare
 * with values recorded from the public gguf package.
 */
#ifndef KERNELS_QUANT_H
#define KERNELS_QUANT_H

#include "kernels/kernels.h"

struct quant_block {
    int16_t q[32];
    float f[2], m[2]; /* of weights 0..15 and 16..31 */
};

/* Block b (32 weights) of a row of a quantized type. */
void quant_block(struct quant_block *out, int type, const uint8_t *row, int b);

/* out [n] = the values of a row of any type, as kernels.h defines them */
void quant_row(float *out, int type, const uint8_t *row, int n);

static inline uint16_t quant_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* 6-bit scale and min j (0..7) of a Q4_K or Q5_K super-block */
static inline void quant_scale_min(const uint8_t *s, int j, int *sc, int *mn)
{
    if (j < 4) {
        *sc = s[j] & 63;
        *mn = s[j + 4] & 63;
    } else {
        *sc = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *mn = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

#endif
