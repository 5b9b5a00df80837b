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
 * that the same products read.  Query rows are turned as the keys were, scores
 * take the key's scale, weights the value's (in units of the largest so far,
 * for weights are f16), and the sum is turned back at the end.  The factors
 * that a turn needs lie across the lanes as the results do, so it happens in
 * registers.
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
#include "kernels/cuda/cuda.cuh"

#define WARPS 4
#define THREADS (32 * WARPS)
#define M_ROWS (16 * WARPS)

struct attn_args {
    struct cuk_attn  a;
    float           *state;    /* [n_state, n_head][o (d_head), m, l] */
    struct q8h_block block;
};

/* ------------------------------------------------------------ shared memory */

template <int D> struct layout {
    static const int k_bytes = KV_TILE * D * 2;
    static const int stage_bytes = 2 * k_bytes;
    /* two stages; at the end o [4][16][D] f32, just one stage, m and l;
       of codes one stage, and two of codes, just as large */
    static const int codes_bytes = k_bytes;
    static const int bytes = 2 * stage_bytes;
};

/* Where 8 tokens (half h of 16) of channel c of token group b lie. */
template <int D> __device__ static uint8_t *k_at(uint8_t *k, int b, int c,
                                                 int h)
{
    return k + (b * D + c) * 32 + ((h ^ (c >> 2 & 1)) << 4);
}

/* Where channels 8 * q .. of token t lie. */
__device__ static uint8_t *v_at(uint8_t *v, int t, int q)
{
    return v + (q / 4 * KV_TILE + t) * 64 + ((q % 4 ^ (t >> 1 & 3)) << 4);
}

/* A K and a V tile of one head on the device; of codes, their scales. */
struct tiles {
    const uint8_t *k, *v, *ks, *vs;
};

/* The chunk that holds tile i of a segment, and how many tiles it has; i counts
 * from its first afterwards. */
__device__ static const uint8_t *find_chunk(const struct cuk_seg &s,
                                            int layer, int *i, int *n)
{
    const int chunk = *i / s.chunk_tile;
    const int left = s.n_tile - chunk * s.chunk_tile;

    *n = left < s.chunk_tile ? left : s.chunk_tile;
    *i -= chunk * s.chunk_tile;
    return (const uint8_t *)(s.base + (uint64_t)layer * s.layer_stride +
                             (uint64_t)chunk * s.chunk_stride);
}

template <bool CODES>
__device__ static struct tiles find_tile(const struct cuk_kv &kv, int layer,
                                         int n_kv_head, int head, int tile,
                                         int d)
{
    const bool own = !CODES && tile >= kv.n_shared;
    const size_t bytes = (size_t)KV_TILE * (size_t)d * (CODES ? 1 : 2);
    int i = own ? tile - kv.n_shared : tile, n;
    const uint8_t *base = find_chunk(own ? kv.own : kv.shared, layer, &i, &n);
    const size_t k = (size_t)head * (size_t)n + (size_t)i;
    const size_t v = k + (size_t)n_kv_head * (size_t)n;
    const uint8_t *scale = base + 2 * (size_t)n_kv_head * (size_t)n * bytes;
    struct tiles t = { base + k * bytes, base + v * bytes, NULL, NULL };

    if (CODES) {
        t.ks = scale + k * KV_TILE * 2;
        t.vs = scale + v * KV_TILE * 2;
    }
    return t;
}

/* The factors of K's channels. */
__device__ static const float *find_factors(const struct cuk_kv &kv,
                                            int layer, int n_kv_head,
                                            int head, int d)
{
    int i = 0, n;
    const uint8_t *base = find_chunk(kv.shared, layer, &i, &n);

    return (const float *)(base + 2 * (size_t)n_kv_head * (size_t)n *
                                      KV_TILE * ((size_t)d + 2)) +
           (size_t)head * (size_t)d;
}

/* Where piece j (8 elements) of a K and of a V tile lies. */
template <int D>
__device__ static void place(uint8_t *stage, int j, int d, uint8_t **k,
                             uint8_t **v)
{
    const int full = d / 32 * 256, part = d % 32 / 8;
    int r = j / 2, t, q;

    if (j < full) {
        t = j % 256 / 4;
        q = j / 256 * 4 + j % 4;
    } else {
        t = (j - full) / part;
        q = d / 32 * 4 + (j - full) % part;
    }
    *k = k_at<D>(stage, r / d, r % d, j % 2);
    *v = v_at(stage + layout<D>::k_bytes, t, q);
}

/* Start copying a tile pair: 8 * d pieces of 16 bytes each. */
template <int D>
__device__ static void fetch(uint8_t *stage, const struct tiles &from, int d)
{
    for (int j = (int)threadIdx.x; j < 8 * d; j += THREADS) {
        uint8_t *k, *v;
        place<D>(stage, j, d, &k, &v);
        copy_async16(k, from.k + 16 * j);
        copy_async16(v, from.v + 16 * j);
    }
}

/* The same of codes, to where they wait: 4 * d pieces, K then V. */
__device__ static void fetch_codes(uint8_t *to, const struct tiles &from,
                                   int d)
{
    for (int j = (int)threadIdx.x; j < 4 * d; j += THREADS) {
        copy_async16(to + 16 * j, from.k + 16 * j);
        copy_async16(to + KV_TILE * d + 16 * j, from.v + 16 * j);
    }
}

struct alignas(8) codes8 { uint32_t w[2]; };
struct alignas(16) half8 { uint32_t w[4]; };

/* Codes that have arrived, to the f16 tile pair. */
template <int D>
__device__ static void spread(uint8_t *stage, const uint8_t *codes, int d)
{
    for (int j = (int)threadIdx.x; j < 8 * d; j += THREADS) {
        const struct codes8 a = ((const struct codes8 *)codes)[j];
        const struct codes8 b = ((const struct codes8 *)codes)[8 * d + j];
        struct half8 h;
        uint8_t *k, *v;
        place<D>(stage, j, d, &k, &v);
        codes_f16(h.w, a.w[0]);
        codes_f16(h.w + 2, a.w[1]);
        *(struct half8 *)k = h;
        codes_f16(h.w, b.w[0]);
        codes_f16(h.w + 2, b.w[1]);
        *(struct half8 *)v = h;
    }
}

/* ---------------------------------------------------------------- the walk */

/* What a lane knows of its two rows (lane / 4 and that + 8 of its 16). */
template <int D> struct rows {
    const uint16_t *q[2];      /* NULL: no such row */
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

/*
 * The transform of kernels.h over each row's channels in blocks of n >= 8, as
 * o lies: channel 8 * j + 2 * (lane % 4) + i of row h is x[j][2 * h + i].
 */
template <int D>
__device__ static void hadamard(float (*x)[4], int n, int lane)
{
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            float a = x[j][i], b = x[j][i + 1];
            x[j][i] = a + b;
            x[j][i + 1] = a - b;
        }
#pragma unroll
    for (int other = 1; other <= 2; other *= 2)
#pragma unroll
        for (int j = 0; j < D / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float b = __shfl_xor_sync(WARP_ALL, x[j][i], other);
                x[j][i] = lane & other ? b - x[j][i] : x[j][i] + b;
            }
#pragma unroll
    for (int h = 1; h < D / 8; h *= 2)
        if (8 * h < n) {
#pragma unroll
            for (int j = 0; j < D / 8; j++)
#pragma unroll
                for (int i = 0; i < 4 && !(j & h); i++) {
                    float a = x[j][i], b = x[j + h][i];
                    x[j][i] = a + b;
                    x[j + h][i] = a - b;
                }
        }
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

/*
 * The same for keys of codes: turned, and in units of the row's largest value,
 * so that all fits f16.  o, still unused, is the room to do it.
 */
template <int D>
__device__ static void load_turned(uint32_t (*qf)[4], struct scales *s,
                                   struct rows<D> &r, const float *f, int d,
                                   const struct q8h_block &block, int lane)
{
    float top[2] = { 0, 0 };

#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int c = 8 * j + 2 * (lane % 4) + i % 2;
            const uint16_t *q = r.q[i / 2];
            r.o[j][i] = q && c < d ? f16_to_float(q[c]) * f[c] : 0.0f;
        }
    hadamard<D>(r.o, block.n, lane);
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            top[i / 2] = fmaxf(top[i / 2], fabsf(r.o[j][i]));
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(WARP_ALL, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(WARP_ALL, top[h], 2));
        s->unit[h] = top[h] * block.inverse;
        top[h] = top[h] > 0 ? 1.0f / top[h] : 1.0f;
    }
#pragma unroll
    for (int kk = 0; kk < D / 16; kk++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *x = &r.o[2 * kk + i / 2][2 * (i % 2)];
            qf[kk][i] = pack_f16(x[0] * top[i % 2], x[1] * top[i % 2]);
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

/* Continue the rows' state over NB groups of 16 keys of a tile. */
template <int D, int NB, bool CODES>
__device__ static void step(struct rows<D> &r, struct scales &sc,
                            uint8_t *stage, int key0, int b0,
                            const uint32_t (*qf)[4], int lane)
{
    uint8_t *v = stage + layout<D>::k_bytes;
    float s[NB][8], top[2] = { r.m[0], r.m[1] }, grown = 1, inv[2];

    scores<D, NB>(s, stage, b0, qf, lane);
    if (CODES) {
        scale<NB>(s, sc.k, b0, sc.unit, lane);
        grown = grow_unit(&sc, inv);
    }
#pragma unroll
    for (int b = 0; b < NB; b++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int key = key0 + 16 * (b0 + b) + 8 * (i / 4) + 2 * (lane % 4) +
                      i % 2;
            if (key > r.last[i / 2 % 2])
                s[b][i] = -INFINITY;
            top[i / 2 % 2] = fmaxf(top[i / 2 % 2], s[b][i]);
        }
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

/* Two neighbouring channels of a row's result, from its state's parts. */
__device__ static void put_pair(const struct attn_args &g,
                                const struct cuk_item &it, int i, int c,
                                float o0, float o1, float m, float l)
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
        at = ((size_t)t * (size_t)s.n_head + head) * (size_t)s.d_head +
             (size_t)c;
        float inv = 1.0f / l;
        put_operand(g.a.dev_out, g.a.out_type, at, o0 * inv);
        put_operand(g.a.dev_out, g.a.out_type, at + 1, o1 * inv);
        return;
    }
    at = (size_t)(g.a.dev_state0[t] + it.split) * (size_t)s.n_head + head;
    float *to = g.state + at * (size_t)(s.d_head + 2);
    if (c == 0) {
        to[s.d_head] = m;
        to[s.d_head + 1] = l;
    }
    to[c] = o0;
    to[c + 1] = o1;
}

/* All warps had the same rows: join their states through shared memory. */
template <int D>
__device__ static void join(const struct attn_args &g,
                            const struct cuk_item &it, int n,
                            const struct rows<D> &r, uint8_t *smem)
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
        float top = -INFINITY, sum = 0, o0 = 0, o1 = 0;
        for (int w = 0; w < WARPS; w++)
            top = fmaxf(top, m[16 * w + i]);
        for (int w = 0; w < WARPS && top != -INFINITY; w++) {
            float f = fast_exp2(m[16 * w + i] - top);
            sum += f * l[16 * w + i];
            o0 += f * o[(16 * w + i) * D + c];
            o1 += f * o[(16 * w + i) * D + c + 1];
        }
        put_pair(g, it, i, c, o0, o1, top, sum);
    }
}

/* Every warp has rows of its own. */
template <int D>
__device__ static void put_rows(const struct attn_args &g,
                                const struct cuk_item &it, int n,
                                const struct rows<D> &r)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = 16 * warp + lane / 4 + 8 * h;
        if (i >= n)
            continue;
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            put_pair(g, it, i, 8 * j + 2 * (lane % 4), r.o[j][2 * h],
                     r.o[j][2 * h + 1], r.m[h], r.l[h]);
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
    for (int tile = it.tile0, stage = 0; tile < it.tile1;
         tile++, stage ^= layout<D>::stage_bytes) {
        if (tile + 1 < it.tile1)
            fetch<D>(smem + (stage ^ layout<D>::stage_bytes),
                     find_tile<false>(kv, g.a.layer, s.n_kv_head, head,
                                      tile + 1, d), d);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        if (FEW)
            step<D, 1, false>(r, none, smem + stage, tile * KV_TILE, warp, qf,
                              lane);
        else if (16 * warp < n)
            step<D, 4, false>(r, none, smem + stage, tile * KV_TILE, 0, qf,
                              lane);
        __syncthreads();
    }
}

/* The same, of codes; o is what it is of f16 at the end. */
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
    load_turned<D>(qf, &sc, r, find_factors(kv, g.a.layer, s.n_kv_head, head,
                                            d), d, g.block, lane);
    sc.top = 0;
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[j][i] = 0;
    for (int tile = it.tile0, stage = 0; tile < it.tile1;
         tile++, stage ^= layout<D>::codes_bytes) {
        sc.k = next.k;
        sc.v = next.v;
        if (tile + 1 < it.tile1) {
            from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head, tile + 1,
                                   d);
            fetch_codes(codes + (stage ^ layout<D>::codes_bytes), from, d);
            load_scales(&next, from, lane);
        }
        copy_commit();
        copy_wait<1>();
        /* these codes are there, and nobody reads the tile before any more */
        __syncthreads();
        spread<D>(smem, codes + stage, d);
        __syncthreads();
        if (FEW)
            step<D, 1, true>(r, sc, smem, tile * KV_TILE, warp, qf, lane);
        else if (16 * warp < n)
#pragma unroll 1               /* registers */
            for (int b = 0; b < KV_TILE / 16; b += 2)
                step<D, 2, true>(r, sc, smem, tile * KV_TILE, b, qf, lane);
    }
    hadamard<D>(r.o, g.block.n, lane);
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
        r.last[h] = -1;
        r.m[h] = -INFINITY;
        r.l[h] = 0;
        if (i < n) {
            r.last[h] = g.a.dev_row[t].pos;
            r.q[h] = g.a.dev_q + ((size_t)t * (size_t)s.n_head +
                                  (size_t)(head * group + i % group)) *
                                     (size_t)d;
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
        join<D>(g, it, n, r, smem);
    else
        put_rows<D>(g, it, n, r);
}

/* A function by itself: inlined beside f16, both would spill registers. */
template <int D, bool FEW>
__device__ __noinline__ static void attend_codes(const struct attn_args &g,
                                                 const struct cuk_item &it,
                                                 const struct cuk_kv &kv,
                                                 int n, uint8_t *smem)
{
    attend<D, FEW, true>(g, it, kv, n, smem);
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
        attend_codes<D, true>(g, it, kv, n, smem);
    else if (codes)
        attend_codes<D, false>(g, it, kv, n, smem);
    else if (n <= 16)
        attend<D, true, false>(g, it, kv, n, smem);
    else
        attend<D, false, false>(g, it, kv, n, smem);
}

/* ------------------------------------------------------------------ merging */

/* One block per token and head: the states of its items, by log-sum-exp. */
__global__ static void __launch_bounds__(CUK_D_HEAD_MAX)
merge_kernel(struct attn_args g)
{
    const struct cuk_shape &s = g.a.shape;
    const int t = (int)blockIdx.x, c = (int)threadIdx.x;
    const int first = g.a.dev_state0[t], end = g.a.dev_state0[t + 1];
    const size_t nh = (size_t)s.n_head, head = blockIdx.y;
    const size_t d = (size_t)s.d_head;
    float top = -INFINITY, sum = 0, o = 0;

    if (first == end || c >= s.d_head)
        return;
    for (int i = first; i < end; i++)
        top = fmaxf(top, g.state[((size_t)i * nh + head) * (d + 2) + d]);
    for (int i = first; i < end && top != -INFINITY; i++) {
        const float *from = g.state + ((size_t)i * nh + head) * (d + 2);
        float f = fast_exp2(from[d] - top);
        sum += f * from[d + 1];
        o += f * from[c];
    }
    put_operand(g.a.dev_out, g.a.out_type,
                ((size_t)t * nh + head) * d + (size_t)c,
                o / sum);
}

/* ---------------------------------------------------------------- launching */

size_t cuk_state_bytes(const struct cuk_shape *shape, int n_state)
{
    return (size_t)n_state * (size_t)shape->n_head *
           (size_t)(shape->d_head + 2) * sizeof(float);
}

template <int D>
static int launch(struct cuk_stream *s, const struct attn_args &g)
{
    const int bytes = layout<D>::bytes;
    dim3 grid((unsigned)g.a.n_item, (unsigned)g.a.shape.n_kv_head);

    if (bytes > s->d->info.smem_block)
        CUK_REFUSE(s->d, "cuk_attention: shared memory of this device");
    CUK_CALL(s->d, cudaFuncSetAttribute,
             ((const void *)attention_kernel<D>,
              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CUK_RUN(s, "attention_kernel", attention_kernel<D>, grid, dim3(THREADS),
            (size_t)bytes, g);
    return 0;
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
    if (st == 0)
        CUK_RUN(s, "merge_kernel", merge_kernel,
                dim3((unsigned)a->n_row, (unsigned)sh->n_head),
                dim3((unsigned)(sh->d_head + 31) / 32 * 32), 0, g);
    return st;
}
