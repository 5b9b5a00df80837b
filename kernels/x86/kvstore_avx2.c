/*
 * kvstore_avx2.c - one token's K and V of one head into a tile pair.
 *
 * K goes to every 16th element and is stored one by one; what is gained over
 * ref is the conversion of eight values at once, and the test for overflow.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

/* Eight channels to f16; clears ok's lanes where one does not fit. */
INLINE __m128i to_f16(const float *x, __m128i *ok)
{
    const __m128i top = _mm_set1_epi16(0x7c00);
    __m128i h = _mm256_cvtps_ph(v_load(x), _MM_FROUND_TO_NEAREST_INT);

    *ok = _mm_andnot_si128(_mm_cmpeq_epi16(_mm_and_si128(h, top), top), *ok);
    return h;
}

bool kvstore_avx2(int kv_type, void *k_tile, void *v_tile, int t,
                  const float *k, const float *v, int d_head)
{
    uint16_t *kt = (uint16_t *)k_tile + (t / 16 * d_head * 16 + t % 16);
    uint16_t *vt = v_tile, buf[8];
    __m128i ok = _mm_set1_epi16(-1);

    if (kv_type == KV_F32)
        return kvstore_ref(kv_type, k_tile, v_tile, t, k, v, d_head);
    for (int c = 0; c < d_head; c += 8) {
        int g = c / 32, width = d_head - 32 * g < 32 ? d_head - 32 * g : 32;
        uint16_t *to = vt + (g * 32 * KV_TILE + t * width + c % 32);

        _mm_storeu_si128((__m128i *)(void *)to, to_f16(v + c, &ok));
        _mm_storeu_si128((__m128i *)(void *)buf, to_f16(k + c, &ok));
        for (int i = 0; i < 8; i++)
            kt[16 * (c + i)] = buf[i];
    }
    return _mm_movemask_epi8(ok) == 0xffff;
}
