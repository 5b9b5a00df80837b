/*
 * attention_bf16.h - what the attentions in bf16 have in common: rows and
 * pairs of bf16, and a tile of K and V expanded to pairs.  Included where
 * attention_rows_simd.h would be, with the same parameters.
 *
 *   kb  [key / 16][channel / 2][16 keys][2 bf16]
 *   vb  [channel / 16][key / 2][16 channels][2 bf16]
 *
 * A tile of K lies as 16 keys of a channel, one of V as channels of a key:
 * two neighbours make a row of pairs, nothing is transposed.
 */
#ifndef KERNELS_X86_ATTENTION_BF16_H
#define KERNELS_X86_ATTENTION_BF16_H

#include "kernels/x86/simd_avx512.h"

#include "kernels/attention_rows_simd.h"

/* 32 floats to bf16, in order */
INLINE void put_row(uint16_t *out, const float *x)
{
    _mm512_store_si512(out,
                       (__m512i)_mm512_cvtne2ps_pbh(v_load(x + VW), v_load(x)));
}

/* lanes of a and of b in turns, as bf16 */
INLINE void put_pairs(uint16_t *out, VF a, VF b)
{
    const __m512i in_turns = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
        6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

    _mm512_store_si512(out, _mm512_permutexvar_epi16(
                                in_turns, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
}

INLINE void expand_k(uint16_t *kb, const void *k, int d, const int kv_type)
{
    for (int g = 0; g < KV_TILE / 16; g++)
        for (int c = 0; c < d; c += 2, kb += 32) {
            size_t at = (size_t)(g * d + c) * 16;

            put_pairs(kb, load_kv(k, at, kv_type),
                      load_kv(k, at + 16, kv_type));
        }
}

INLINE void expand_v(uint16_t *vb, const void *v, int d, const int kv_type)
{
    for (int c = 0; c < d; c += 16)
        for (int t = 0; t < KV_TILE; t += 2, vb += 32) {
            size_t at = (size_t)((c / 32 * KV_TILE + t) * 32 + c % 32);

            put_pairs(vb, load_kv(v, at, kv_type),
                      load_kv(v, at + 32, kv_type));
        }
}

INLINE void load_scales(float *out, const void *scale)
{
    for (int t = 0; t < KV_TILE; t += VW)
        v_store(out + t, load_kv(scale, (size_t)t, KV_F16));
}

/* A tile to pairs. */
struct pairs {
    uint16_t *k, *v;                /* v: NULL, if only scores are wanted */
    float ks[KV_TILE], vs[KV_TILE]; /* of KV_Q8H */
};

static void expand_tile(struct pairs *to, const struct attn_job *job, int i)
{
    if (job->kv_type == KV_Q8H) {
        expand_k(to->k, job->k[i], job->d_head, KV_Q8H);
        load_scales(to->ks, job->ks[i]);
        if (to->v) {
            expand_v(to->v, job->v[i], job->d_head, KV_Q8H);
            load_scales(to->vs, job->vs[i]);
        }
    } else {
        expand_k(to->k, job->k[i], job->d_head, KV_F16);
        if (to->v)
            expand_v(to->v, job->v[i], job->d_head, KV_F16);
    }
}

/* nr rows of s times 64 scales */
static void scale_rows(float *s, const float *scale, int nr)
{
    for (int r = 0; r < nr; r++, s += KV_TILE)
        for (int j = 0; j < KV_TILE; j += VW)
            v_store(s + j, v_mul(v_load(s + j), v_load(scale + j)));
}

#endif
