/*
 * attention_cuda.cu - softmax(q k) v on tensor cores, over tiles as stored.
 *
 * A block has four warps, one item (up to 64 query rows: tokens times the
 * heads that share a KV head) and one KV head.  Tiles of 64 keys come
 * asynchronously, two in flight.
 *
 *   many rows   a warp has 16 of the rows and all keys of a tile
 *   up to 16    all warps have the same rows, each a quarter of the keys,
 *               and their states are merged at the end: a step's few rows
 *               over a long prefix still read with four warps
 *
 * Both halves of the product read the tiles as they are: K [16 tokens of a
 * row of channels] and V [tokens][32 channels] both have the index that is
 * summed over outermost, which is what ldmatrix.trans turns into a B operand.
 * Rows of 16 bytes are exchanged within a line of shared memory (the xor in
 * k_at and v_at) so that eight of them hit eight different bank groups.
 *
 * Tiles of codec q8h are read as they are, too: int8 codes come into the room
 * of the other stage, two tiles in flight, and are spread there to the f16 tile
 * that the same products read.  Query rows come rotated as the keys are
 * (cuk_rope_append), scores take the key's scale, weights the value's (in units
 * of the largest so far, for weights are f16).  The sum stays rotated in its
 * state: the transform is linear, so merge_kernel undoes it once for all items
 * of a row.  Items of codes always leave states, for a row's own tiles are f16.
 *
 * Tiles that a view hides as a whole are skipped, hidden keys of others are
 * masked as those past a row's end.
 *
 * Scores are in units of log2, so p = 2^(s - max); the running maximum and
 * sum are kept per row, the output is scaled when the maximum grows.  Items
 * that cover only part of a row's keys leave (m, l, o) for merge_kernel.
 *
 * Bounds: a prefill by tensor cores and by exp2; a step by memory.
 */
extern "C" {                              /* q8h_block */
#include "kernels/kernels.h"
}
#include "kernels/cuda/tiles.cuh"

#define M_ROWS (16 * WARPS)

struct attn_args {
    struct cuk_attn  a;
    float           *state;    /* [n_state, n_head][o (d_head), tail] */
    struct q8h_block block;
};

/* After a state's o: m, l, whether o is rotated, and a gap. */
enum { STATE_M, STATE_L, STATE_ROTATED, STATE_TAIL = 4 };

/* ---------------------------------------------------------------- the walk */

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

__device__ static void load_scales(struct scales *s, const struct tiles &from,
                                   int lane)
{
    s->k = ((const uint32_t *)from.ks)[lane];
    s->v = ((const uint32_t *)from.vs)[lane];
}

__device__ static float low_half(uint32_t u)
{
    return f16_to_float((uint16_t)u);
}

__device__ static float high_half(uint32_t u)
{
    return f16_to_float((uint16_t)(u >> 16));
}

/* The A operand of channels 16 * kk .. of a lane's rows. */
template <int D>
__device__ static void load_q(uint32_t a[4], const struct rows<D> &r, int kk,
                              int d, int lane)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int c = 16 * kk + 8 * (i / 2) + 2 * (lane % 4);
        const uint16_t *q = r.q[i % 2];
        a[i] = q && c < d ? *(const uint32_t *)(q + c) : 0;
    }
}

/* Scores of NB groups of 16 keys from group b0 on: s[b] is two n-tiles. */
template <int D, int NB>
__device__ static void scores(float s[NB][8], uint8_t *k, int b0,
                              const uint32_t (*qf)[4], int lane)
{
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            s[b][i] = 0;
#pragma unroll
    for (int kk = 0; kk < D / 16; kk++) {
#pragma unroll
        for (int b = 0; b < NB; b++) {
            uint32_t f[4];
            int c = 16 * kk + (lane / 8 % 2) * 8 + lane % 8;
            ldmatrix4_trans(f, k_at<D>(k, b0 + b, c, lane / 16));
            mma_f16(s[b], qf[kk], f[0], f[1]);
            mma_f16(s[b] + 4, qf[kk], f[2], f[3]);
        }
    }
}

/* x *= the scales of the keys that it is of, times unit of its row. */
template <int NB>
__device__ static void scale(float x[NB][8], uint32_t all, int b0,
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
__device__ static float grow_unit(struct scales *s, float inv[2])
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
__device__ static void hide(float s[NB][8], const int last[2], int key0,
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

/* Continue the rows' state over NB groups of 16 keys of a tile. */
template <int D, int NB, bool CODES>
__device__ static void step(struct rows<D> &r, struct scales &sc,
                            uint8_t *stage, const struct keys &of, int b0,
                            const uint32_t (*qf)[4], int lane)
{
    uint8_t *v = stage + layout<D>::k_bytes;
    float s[NB][8], top[2] = { r.m[0], r.m[1] }, grown = 1, inv[2];

    scores<D, NB>(s, stage, b0, qf, lane);
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

/* ------------------------------------------------------------------ results */

/* Row i of the item: its token and head. */
__device__ static int token_of(const struct cuk_item &it, int i, int group)
{
    return it.row0 + i / group;
}

/* Two neighbouring channels of a row's state. */
struct part {
    float o0, o1, m, l;
    bool  rotated;
};

/* What weights of a row and head are made of, for whoever asks. */
__device__ static void put_norm(float *norm, size_t at, float m, float l)
{
    if (!norm)
        return;
    norm[2 * at] = m;
    norm[2 * at + 1] = l;
}

/* To the result, or to the state. */
__device__ static void put_pair(const struct attn_args &g,
                                const struct cuk_item &it, int i, int c,
                                const struct part &p)
{
    const struct cuk_shape &s = g.a.shape;
    const int group = s.n_head / s.n_kv_head;
    const int t = token_of(it, i, group);
    const size_t head = (size_t)blockIdx.y * (size_t)group +
                        (size_t)(i % group);
    size_t at;

    if (c >= s.d_head)
        return;
    if (it.split < 0) {
        at = (size_t)t * (size_t)s.n_head + head;
        if (c == 0)
            put_norm(g.a.dev_norm, at, p.m, p.l);
        at = at * (size_t)s.d_head + (size_t)c;
        float inv = 1.0f / p.l;
        put_operand(g.a.dev_out, g.a.out_type, at, p.o0 * inv);
        put_operand(g.a.dev_out, g.a.out_type, at + 1, p.o1 * inv);
        return;
    }
    at = (size_t)(g.a.dev_state0[t] + it.split) * (size_t)s.n_head + head;
    float *to = g.state + at * (size_t)(s.d_head + STATE_TAIL);
    if (c == 0) {
        to[s.d_head + STATE_M] = p.m;
        to[s.d_head + STATE_L] = p.l;
        to[s.d_head + STATE_ROTATED] = p.rotated ? 1.0f : 0.0f;
    }
    to[c] = p.o0;
    to[c + 1] = p.o1;
}

/* All warps had the same rows: join their states through shared memory. */
template <int D>
__device__ static void join(const struct attn_args &g,
                            const struct cuk_item &it, int n,
                            const struct rows<D> &r, bool rotated,
                            uint8_t *smem)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *o = (float *)smem;                       /* [WARPS][16][D] */
    float *m = (float *)(smem + layout<D>::stage_bytes);
    float *l = m + 16 * WARPS;                      /* [WARPS][16] */

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = 16 * warp + lane / 4 + 8 * h;
        if (lane % 4 == 0) {
            m[row] = r.m[h];
            l[row] = r.l[h];
        }
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            o[row * D + 8 * j + 2 * (lane % 4)] = r.o[j][2 * h];
            o[row * D + 8 * j + 2 * (lane % 4) + 1] = r.o[j][2 * h + 1];
        }
    }
    __syncthreads();
    for (int j = (int)threadIdx.x; j < n * (D / 2); j += THREADS) {
        int i = j / (D / 2), c = j % (D / 2) * 2;
        struct part p = { 0, 0, -INFINITY, 0, rotated };
        for (int w = 0; w < WARPS; w++)
            p.m = fmaxf(p.m, m[16 * w + i]);
        for (int w = 0; w < WARPS && p.m != -INFINITY; w++) {
            float f = fast_exp2(m[16 * w + i] - p.m);
            p.l += f * l[16 * w + i];
            p.o0 += f * o[(16 * w + i) * D + c];
            p.o1 += f * o[(16 * w + i) * D + c + 1];
        }
        put_pair(g, it, i, c, p);
    }
}

/* Every warp has rows of its own. */
template <int D>
__device__ static void put_rows(const struct attn_args &g,
                                const struct cuk_item &it, int n,
                                const struct rows<D> &r, bool rotated)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = 16 * warp + lane / 4 + 8 * h;
        if (i >= n)
            continue;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            struct part p = { r.o[j][2 * h], r.o[j][2 * h + 1], r.m[h],
                              r.l[h], rotated };
            put_pair(g, it, i, 8 * j + 2 * (lane % 4), p);
        }
    }
}

/* All tiles of an item, f16. */
template <int D, bool FEW>
__device__ static void walk(const struct attn_args &g,
                            const struct cuk_item &it,
                            const struct cuk_kv &kv, int n, struct rows<D> &r,
                            uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int head = (int)blockIdx.y, d = s.d_head;
    uint32_t qf[D / 16][4];
    struct scales none = {};

#pragma unroll
    for (int kk = 0; kk < D / 16; kk++)
        load_q<D>(qf[kk], r, kk, d, lane);
    fetch<D>(smem, find_tile<false>(kv, g.a.layer, s.n_kv_head, head,
                                    it.tile0, d), d);
    copy_commit();
    for (int tile = it.tile0, stage = 0, next; tile < it.tile1;
         tile = next, stage ^= layout<D>::stage_bytes) {
        next = next_seen(kv, g.a.dev_view, tile + 1, it.tile1);
        if (next < it.tile1)
            fetch<D>(smem + (stage ^ layout<D>::stage_bytes),
                     find_tile<false>(kv, g.a.layer, s.n_kv_head, head, next,
                                      d), d);
        copy_commit();
        const struct keys of = { tile * KV_TILE,
                                 seen_keys(kv, g.a.dev_view, tile) };
        copy_wait<1>();
        __syncthreads();
        if (FEW)
            step<D, 1, false>(r, none, smem + stage, of, warp, qf, lane);
        else if (16 * warp < n)
            step<D, 4, false>(r, none, smem + stage, of, 0, qf, lane);
        __syncthreads();
    }
}

/* The same, of codes; o stays rotated. */
template <int D, bool FEW>
__device__ static void walk_codes(const struct attn_args &g,
                                  const struct cuk_item &it,
                                  const struct cuk_kv &kv, int n,
                                  struct rows<D> &r, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int head = (int)blockIdx.y, d = s.d_head;
    uint8_t *codes = smem + layout<D>::stage_bytes;
    struct tiles from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head,
                                        it.tile0, d);
    uint32_t qf[D / 16][4];
    struct scales sc, next;

    fetch_codes(codes, from, d);
    copy_commit();
    load_scales(&next, from, lane);
#pragma unroll
    for (int kk = 0; kk < D / 16; kk++)
        load_q<D>(qf[kk], r, kk, d, lane);
    sc.unit[0] = r.unit[0];
    sc.unit[1] = r.unit[1];
    sc.top = 0;
    for (int tile = it.tile0, stage = 0, after; tile < it.tile1;
         tile = after, stage ^= layout<D>::codes_bytes) {
        after = next_seen(kv, g.a.dev_view, tile + 1, it.tile1);
        sc.k = next.k;
        sc.v = next.v;
        if (after < it.tile1) {
            from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head, after, d);
            fetch_codes(codes + (stage ^ layout<D>::codes_bytes), from, d);
            load_scales(&next, from, lane);
        }
        copy_commit();
        const struct keys of = { tile * KV_TILE,
                                 seen_keys(kv, g.a.dev_view, tile) };
        copy_wait<1>();
        /* these codes are there, and nobody reads the tile before any more */
        __syncthreads();
        spread<D>(smem, codes + stage, d);
        __syncthreads();
        if (FEW)
            step<D, 1, true>(r, sc, smem, of, warp, qf, lane);
        else if (16 * warp < n)
#pragma unroll 1               /* registers */
            for (int b = 0; b < KV_TILE / 16; b += 2)
                step<D, 2, true>(r, sc, smem, of, b, qf, lane);
    }
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[j][i] *= sc.top * g.block.inverse;
    __syncthreads();           /* what follows has other use for the memory */
}

template <int D, bool FEW, bool CODES>
__device__ static void attend(const struct attn_args &g,
                              const struct cuk_item &it,
                              const struct cuk_kv &kv, int n, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int group = s.n_head / s.n_kv_head, d = s.d_head;
    const int head = (int)blockIdx.y;
    struct rows<D> r;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = (FEW ? 0 : 16 * warp) + lane / 4 + 8 * h;
        int t = token_of(it, i, group);
        r.q[h] = NULL;
        r.unit[h] = 0;
        r.last[h] = -1;
        r.m[h] = -INFINITY;
        r.l[h] = 0;
        if (i < n) {
            const size_t row = (size_t)t * (size_t)s.n_head +
                               (size_t)(head * group + i % group);
            r.last[h] = g.a.dev_row[t].pos;
            r.q[h] = (CODES ? g.a.dev_q_rotated : g.a.dev_q) + row * (size_t)d;
            if (CODES)
                r.unit[h] = g.a.dev_q_unit[row];
        }
    }
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[j][i] = 0;
    if (d < D) {      /* channels that no copy fills */
        for (int j = (int)threadIdx.x;
             j < layout<D>::bytes / 4; j += THREADS)
            ((uint32_t *)smem)[j] = 0;
        __syncthreads();
    }

    if constexpr (CODES)
        walk_codes<D, FEW>(g, it, kv, n, r, smem);
    else
        walk<D, FEW>(g, it, kv, n, r, smem);

#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.l[h] += __shfl_xor_sync(WARP_ALL, r.l[h], 1);
        r.l[h] += __shfl_xor_sync(WARP_ALL, r.l[h], 2);
    }
    if constexpr (FEW)
        join<D>(g, it, n, r, CODES, smem);
    else
        put_rows<D>(g, it, n, r, CODES);
}

template <int D>
__global__ static void __launch_bounds__(THREADS)
attention_kernel(struct attn_args g)
{
    CUK_SMEM(smem);
    const struct cuk_item it = g.a.dev_item[blockIdx.x];
    const int n = it.n_row * (g.a.shape.n_head / g.a.shape.n_kv_head);

    if (n == 0)
        return;
    const struct cuk_kv kv = g.a.dev_kv[it.kv];
    const bool codes = kv.codes && it.tile0 < kv.n_shared;
    if (codes && n <= 16)
        attend<D, true, true>(g, it, kv, n, smem);
    else if (codes)
        attend<D, false, true>(g, it, kv, n, smem);
    else if (n <= 16)
        attend<D, true, false>(g, it, kv, n, smem);
    else
        attend<D, false, false>(g, it, kv, n, smem);
}

/* ------------------------------------------------------------------ merging */

/* x of the block's threads, each a channel, transformed in blocks of n. */
__device__ static float hadamard(float x, int n, float *room)
{
    const int c = (int)threadIdx.x;

    for (int h = 1; h < n; h *= 2) {
        room[c] = x;
        __syncthreads();
        float other = room[c ^ h];
        x = c & h ? other - x : x + other;
        __syncthreads();
    }
    return x;
}

/* One block per token and head: the states of its items, by log-sum-exp. */
__global__ static void __launch_bounds__(CUK_D_HEAD_MAX)
merge_kernel(struct attn_args g)
{
    CUK_SMEM(smem);
    const struct cuk_shape &s = g.a.shape;
    const int t = (int)blockIdx.x, c = (int)threadIdx.x;
    const int first = g.a.dev_state0[t], end = g.a.dev_state0[t + 1];
    const size_t nh = (size_t)s.n_head, head = blockIdx.y;
    const size_t d = (size_t)s.d_head, size = d + STATE_TAIL;
    float top = -INFINITY, sum = 0, o = 0, rotated = 0;
    bool any = false;

    if (first == end)
        return;
    for (int i = first; i < end; i++)
        top = fmaxf(top, g.state[((size_t)i * nh + head) * size + d + STATE_M]);
    for (int i = first; i < end && top != -INFINITY; i++) {
        const float *from = g.state + ((size_t)i * nh + head) * size;
        float f = fast_exp2(from[d + STATE_M] - top);
        float v = c < s.d_head ? f * from[c] : 0.0f;
        sum += f * from[d + STATE_L];
        if (from[d + STATE_ROTATED] != 0) {
            any = true;
            rotated += v;
        } else {
            o += v;
        }
    }
    if (c == 0)
        put_norm(g.a.dev_norm, (size_t)t * nh + head, top, sum);
    if (any)
        o += hadamard(rotated, g.block.n, (float *)smem);
    if (c < s.d_head)
        put_operand(g.a.dev_out, g.a.out_type,
                    ((size_t)t * nh + head) * d + (size_t)c, o / sum);
}

/* ---------------------------------------------------------------- launching */

size_t cuk_state_bytes(const struct cuk_shape *shape, int n_state)
{
    return (size_t)n_state * (size_t)shape->n_head *
           (size_t)(shape->d_head + STATE_TAIL) * sizeof(float);
}

/* More shared memory than a kernel has unasked. */
template <int D>
static int ask_shared_memory(struct cuk_dev *d)
{
    const int bytes = layout<D>::bytes;

    if (bytes > d->info.smem_block)
        CUK_REFUSE(d, "cuk_attention: shared memory of this device");
    CUK_CALL(d, cudaFuncSetAttribute,
             ((const void *)attention_kernel<D>,
              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return 0;
}

template <int D>
static int launch(struct cuk_stream *s, const struct attn_args &g)
{
    dim3 grid((unsigned)g.a.n_item, (unsigned)g.a.shape.n_kv_head);
    int st = ask_shared_memory<D>(s->d);

    if (st == 0)
        CUK_RUN(s, "attention_kernel", attention_kernel<D>, grid,
                dim3(THREADS), (size_t)layout<D>::bytes, g);
    return st;
}

template <int D>
static int fitting_blocks(struct cuk_dev *d, int *n)
{
    int st = ask_shared_memory<D>(d);

    if (st == 0)
        CUK_CALL(d, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                 (n, (const void *)attention_kernel<D>, THREADS,
                  layout<D>::bytes));
    return st;
}

int cuk_attention_blocks(struct cuk_dev *d, const struct cuk_shape *shape,
                         int *n)
{
    int st = shape->d_head <= 64 ? fitting_blocks<64>(d, n)
                                 : fitting_blocks<128>(d, n);

    *n = (st == 0 && *n > 0 ? *n : 1) * d->info.n_sm;
    return st;
}

int cuk_attention(struct cuk_stream *s, const struct cuk_attn *a)
{
    const struct cuk_shape *sh = &a->shape;
    struct attn_args g;
    int st;

    if (!cuk_shape_ok(sh) || a->n_item < 1 || a->n_row < 1 ||
        !cuk_operand(a->out_type))
        CUK_REFUSE(s->d, "cuk_attention");
    g.a = *a;
    g.state = (float *)a->dev_state;
    g.block = q8h_block(sh->d_head);
    st = sh->d_head <= 64 ? launch<64>(s, g) : launch<128>(s, g);
    if (st == 0 && a->n_state != 0) {
        const unsigned threads = (unsigned)(sh->d_head + 31) / 32 * 32;
        CUK_RUN(s, "merge_kernel", merge_kernel,
                dim3((unsigned)a->n_row, (unsigned)sh->n_head), dim3(threads),
                threads * sizeof(float), g);
    }
    return st;
}
