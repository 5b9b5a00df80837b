/*
 * rows_avx512.h - two blocks of 32 stored weights to 64 bytes, and those to
 * 16 bits: what the row kernels with 512-bit vectors share.
 */
#ifndef KERNELS_X86_ROWS_AVX512_H
#define KERNELS_X86_ROWS_AVX512_H

#include "kernels/x86/rows_x86.h"
#include "kernels/x86/simd_avx512.h"

/* rows lie one after another, so this is the next row more often than not */
INLINE void ahead(const uint8_t *p)
{
    v_prefetch(p + 2048);
}

INLINE __m128i load16(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

INLINE __m512i load64(const void *p)
{
    return _mm512_loadu_si512(p);
}

INLINE __m512i and8(__m512i v, int mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* lanes: 4 x a, 4 x b, 4 x c, 4 x d */
INLINE __m512i quads(int a, int b, int c, int d)
{
    return _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
}

/* two blocks at p and p + size as signed bytes, 32 each */
INLINE __m512i bytes32x2(const uint8_t *p, const int type)
{
    const size_t size = kt_block_bytes(type);
    const uint8_t *n = p + size - 16;
    uint32_t bits[2];
    __m512i v;

    if (type == KT_Q8_0)
        return _mm512_inserti64x4(_mm512_castsi256_si512(load32(p + 2)),
                                  load32(p + size + 2), 1);
    v = _mm512_broadcast_i32x4(load16(n));
    v = _mm512_mask_broadcast_i32x4(v, 0xff00, load16(n + size));
    v = and8(_mm512_srlv_epi32(v, quads(0, 4, 0, 4)), 15);
    if (type == KT_Q5_0 || type == KT_Q5_1) {
        memcpy(bits, n - 4, 4);
        memcpy(bits + 1, n + size - 4, 4);
        v = _mm512_mask_add_epi8(v, bits[0] | (uint64_t)bits[1] << 32, v,
                                 _mm512_set1_epi8(16));
    }
    return v;
}

/* the block at p, in the lower lanes */
INLINE __m512i bytes32(const uint8_t *p, const int type)
{
    const uint8_t *n = p + kt_block_bytes(type) - 16;
    uint32_t bits;
    __m512i v;

    if (type == KT_Q8_0)
        return _mm512_castsi256_si512(load32(p + 2));
    v = _mm512_broadcast_i32x4(load16(n));
    v = and8(_mm512_srlv_epi32(v, quads(0, 4, 0, 4)), 15);
    if (type == KT_Q5_0 || type == KT_Q5_1) {
        memcpy(&bits, n - 4, 4);
        v = _mm512_mask_add_epi8(v, bits, v, _mm512_set1_epi8(16));
    }
    return v;
}

/* blocks j and j + 1 of a super-block, j even */
INLINE __m512i bytes_k(const uint8_t *p, int j, const int type)
{
    __m512i v, h;

    if (type == KT_Q6_K) {
        v = load64(p + j / 4 * 64);
        h = _mm512_broadcast_i64x4(load32(p + 128 + j / 4 * 32));
        if (j & 2) {
            v = _mm512_srli_epi16(v, 4);
            h = _mm512_srlv_epi32(h, quads(0, 0, 2, 2));
        } else {
            h = _mm512_sllv_epi32(h, quads(4, 4, 2, 2));
        }
        return _mm512_or_si512(and8(v, 15), and8(h, 48));
    }
    v = _mm512_broadcast_i64x4(
        load32(p + (type == KT_Q5_K ? 48 : 16) + j / 2 * 32));
    v = and8(_mm512_srlv_epi32(v, quads(0, 0, 4, 4)), 15);
    if (type == KT_Q5_K) {
        __m512i bit = quads(0x01010101, 0x01010101, 0x02020202, 0x02020202);

        h = _mm512_broadcast_i64x4(load32(p + 16));
        bit = _mm512_sll_epi32(bit, _mm_cvtsi32_si128(j));
        v = _mm512_mask_add_epi8(v, _mm512_test_epi8_mask(h, bit), v,
                                 _mm512_set1_epi8(16));
    }
    return v;
}

INLINE void split(__m512i v, __m512i *even, __m512i *odd, const int type)
{
    if (type == KT_Q8_0) {
        *even = _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8);
        *odd = _mm512_srai_epi16(v, 8);
    } else {
        *even = _mm512_and_si512(v, _mm512_set1_epi16(0xff));
        *odd = _mm512_srli_epi16(v, 8);
    }
}

#endif
