/*
 * attention.cuh - what a warp does with a tile: scores, weights, and the sum
 * of values, on tensor cores; and what a launch of attention is given.
 *
 * Both halves of the product read the tiles as they are: K [16 tokens of a
 * row of channels] and V [tokens][32 channels] both have the index that is
 * summed over outermost, which is what ldmatrix.trans turns into a B operand.
 *
 * Scores are in units of log2, so p = 2^(s - max); the running maximum and
 * sum are kept per row, the output is scaled when the maximum grows.
 *
 * Of codes of q8h, scores take the key's scale, weights the value's (in units
 * of the largest so far, for weights are f16).
 */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

extern "C" {                              /* q8h_block */
#include "kernels/kernels.h"
}
#include "kernels/cuda/tiles.cuh"

struct attn_args {
    struct cuk_attn  a;
    float           *state;    /* [n_state, n_head][o (d_head), tail] */
    struct q8h_block block;
};

/* After a state's o: m, l, whether o is rotated, and a gap. */
enum { STATE_M, STATE_L, STATE_ROTATED, STATE_TAIL = 4 };

/* The states of each row's items, joined to its result. */
int cuk_merge(struct cuk_stream *s, const struct attn_args &g);

/* ---------------------------------------------------------------- of a tile */

/* What a lane knows of its two rows (lane / 4 and that + 8 of its 16). */
template <int D> struct rows {
    const uint16_t *q[2];      /* NULL: no such row; of codes, rotated */
    float           unit[2];   /* of codes: what q is in */
    int             last[2];   /* position of the last visible key, or -1 */
    float           m[2], l[2];
    float           o[D / 8][4];
};

/* What the rows of codes need beside; of a tile, a lane keeps the scales of
 * tokens 2 * lane and the next. */
struct scales {
    uint32_t k, v;             /* two f16 each */
    float    unit[2];          /* of a row's scores */
    float    top;              /* the largest of V so far: the unit of o */
};

__device__ inline void load_scales(struct scales *s, const struct tiles &from,
                                   int lane)
{
    s->k = ((const uint32_t *)from.ks)[lane];
    s->v = ((const uint32_t *)from.vs)[lane];
}

__device__ inline float low_half(uint32_t u)
{
    return f16_to_float((uint16_t)u);
}

__device__ inline float high_half(uint32_t u)
{
    return f16_to_float((uint16_t)(u >> 16));
}

/* The A operand of channels 16 * kk .. of a lane's rows. */
template <int D>
__device__ inline void load_q(uint32_t a[4], const struct rows<D> &r, int kk,
                              int d, int lane)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int c = 16 * kk + 8 * (i / 2) + 2 * (lane % 4);
        const uint16_t *q = r.q[i % 2];
        a[i] = q && c < d ? *(const uint32_t *)(q + c) : 0;
    }
}

/*
 * All of them: in registers, where there is room beside the sums; else read
 * again for each tile, from the L1 cache (a sixteenth of the operands of K).
 */
template <int D, bool KEPT = !layout<D>::turns> struct queries {
    uint32_t f[D / 16][4];

    __device__ void load(const struct rows<D> &r, int d, int lane)
    {
#pragma unroll
        for (int kk = 0; kk < D / 16; kk++)
            load_q<D>(f[kk], r, kk, d, lane);
    }
    __device__ void get(uint32_t a[4], const struct rows<D> &, int kk,
                        int) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = f[kk][i];
    }
};

template <int D> struct queries<D, false> {
    int d;

    __device__ void load(const struct rows<D> &, int d_head, int)
    {
        d = d_head;
    }
    __device__ void get(uint32_t a[4], const struct rows<D> &r, int kk,
                        int lane) const
    {
        load_q<D>(a, r, kk, d, lane);
    }
};

/* Scores of NB groups of 16 keys from group b0 on: s[b] is two n-tiles. */
template <int D, int NB>
__device__ inline void scores(float s[NB][8], uint8_t *k, int b0,
                              const struct rows<D> &r,
                              const struct queries<D> &q, int lane)
{
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            s[b][i] = 0;
#pragma unroll (layout<D>::turns ? 2 : D / 16)   /* registers */
    for (int kk = 0; kk < D / 16; kk++) {
        uint32_t a[4];
        q.get(a, r, kk, lane);
#pragma unroll
        for (int b = 0; b < NB; b++) {
            uint32_t f[4];
            int c = 16 * kk + (lane / 8 % 2) * 8 + lane % 8;
            ldmatrix4_trans(f, k_at<D>(k, b0 + b, c, lane / 16));
            mma_f16(s[b], a, f[0], f[1]);
            mma_f16(s[b] + 4, a, f[2], f[3]);
        }
    }
}

/* x *= the scales of the keys that it is of, times unit of its row. */
template <int NB>
__device__ inline void scale(float x[NB][8], uint32_t all, int b0,
                             const float unit[2], int lane)
{
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t u = __shfl_sync(WARP_ALL, all,
                                     8 * (b0 + b) + 4 * h + lane % 4);
            float *p = x[b] + 4 * h, lo = low_half(u), hi = high_half(u);
            p[0] *= lo * unit[0];
            p[1] *= hi * unit[0];
            p[2] *= lo * unit[1];
            p[3] *= hi * unit[1];
        }
}

/* V's scales of a tile: o's unit grows to the largest.  What o is to be scaled
 * by, and what the tile's scales are. */
__device__ inline float grow_unit(struct scales *s, float inv[2])
{
    float top = fmaxf(low_half(s->v), high_half(s->v)), old = s->top;

#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, i));
    s->top = fmaxf(top, old);
    inv[0] = inv[1] = s->top > 0 ? 1.0f / s->top : 0.0f;
    return s->top > old ? old * inv[0] : 1.0f;
}

/* Keys past a row's last one, and those that are not seen, of NB groups from
 * key0 on: only where a row ends in them, which is the last tile of most items,
 * or where something is hidden. */
template <int NB>
__device__ inline void hide(float s[NB][8], const int last[2], int key0,
                            uint64_t seen, int lane)
{
    if (key0 + 16 * NB - 1 <= last[0] && key0 + 16 * NB - 1 <= last[1] &&
        seen == ~(uint64_t)0)
        return;
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int key = key0 + 16 * b + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
            if (key > last[i / 2 % 2] || !(seen >> (key % KV_TILE) & 1))
                s[b][i] = -INFINITY;
        }
}

/* A tile's: the first one's position, and which are seen. */
struct keys {
    int      first;
    uint64_t seen;
};

/* The weights s of NB groups of 16 keys of a tile; the rows' state is scaled
 * to the largest so far, and has their sum. */
template <int D, int NB, bool CODES>
__device__ inline void weigh(float s[NB][8], struct rows<D> &r,
                             struct scales &sc, uint8_t *k,
                             const struct keys &of, int b0,
                             const struct queries<D> &q, int lane)
{
    float top[2] = { r.m[0], r.m[1] }, grown = 1, inv[2];

    scores<D, NB>(s, k, b0, r, q, lane);
    if (CODES) {
        scale<NB>(s, sc.k, b0, sc.unit, lane);
        grown = grow_unit(&sc, inv);
    }
    hide<NB>(s, r.last, of.first + 16 * b0, of.seen, lane);
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            top[i / 2 % 2] = fmaxf(top[i / 2 % 2], s[b][i]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(WARP_ALL, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(WARP_ALL, top[h], 2));
        /* no key yet: keep clear of -inf - -inf */
        float base = top[h] == -INFINITY ? 0.0f : top[h];
        float less = fast_exp2(r.m[h] - base);
        r.l[h] *= less;
        r.m[h] = top[h];
        top[h] = base;
        less *= grown;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            r.o[j][2 * h] *= less;
            r.o[j][2 * h + 1] *= less;
        }
    }
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            s[b][i] = fast_exp2(s[b][i] - top[i / 2 % 2]);
            r.l[i / 2 % 2] += s[b][i];
        }
    if (CODES)
        scale<NB>(s, sc.v, b0, inv, lane);
}

/* The values of these keys, by their weights. */
template <int D, int NB>
__device__ inline void add_values(struct rows<D> &r, uint8_t *v,
                                  const float s[NB][8], int b0, int lane)
{
#pragma unroll
    for (int b = 0; b < NB; b++) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = pack_f16(s[b][2 * i], s[b][2 * i + 1]);
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            uint32_t f[4];
            int t = 16 * (b0 + b) + (lane / 8 % 2) * 8 + lane % 8;
            ldmatrix4_trans(f, v_at(v, t, 2 * j + lane / 16));
            mma_f16(r.o[2 * j], a, f[0], f[1]);
            mma_f16(r.o[2 * j + 1], a, f[2], f[3]);
        }
    }
}

/* Both, of a tile whose K and V are there. */
template <int D, int NB, bool CODES>
__device__ inline void step(struct rows<D> &r, struct scales &sc,
                            uint8_t *stage, const struct keys &of, int b0,
                            const struct queries<D> &q, int lane)
{
    float s[NB][8];

    weigh<D, NB, CODES>(s, r, sc, stage, of, b0, q, lane);
    add_values<D, NB>(r, stage + layout<D>::k_bytes, s, b0, lane);
}

#endif
