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
 * Scores are in units of log2, so p = 2^(s - max); the running maximum and
 * sum are kept per row, the output is scaled when the maximum grows.  Items
 * that cover only part of a row's keys leave (m, l, o) for merge_kernel.
 *
 * Bounds: a prefill by tensor cores and by exp2; a step by memory.
 */
#include "kernels/cuda.cuh"

#define WARPS 4
#define THREADS (32 * WARPS)
#define M_ROWS (16 * WARPS)

struct attn_args {
    struct cuk_attn a;
    float          *state;    /* [n_state, n_head][o (d_head), m, l] */
};

/* ------------------------------------------------------------ shared memory */

template <int D> struct layout {
    static const int k_bytes = KV_TILE * D * 2;
    static const int stage_bytes = 2 * k_bytes;
    /* two stages; at the end o [4][16][D] f32, just one stage, m and l */
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

/* Device addresses of the K and V tile of one head. */
__device__ static void find_tile(const struct cuk_kv &kv, int layer,
                                 int n_kv_head, int head, int tile, int d,
                                 const uint8_t **k, const uint8_t **v)
{
    const bool own = tile >= kv.n_shared;
    const struct cuk_seg &s = own ? kv.own : kv.shared;
    const int i = own ? tile - kv.n_shared : tile;
    const int chunk = i / s.chunk_tile;
    const int left = s.n_tile - chunk * s.chunk_tile;
    const int tiles = left < s.chunk_tile ? left : s.chunk_tile;
    const size_t bytes = (size_t)KV_TILE * (size_t)d * 2;

    *k = (const uint8_t *)(s.base + (uint64_t)layer * s.layer_stride +
                           (uint64_t)chunk * s.chunk_stride) +
         ((size_t)head * (size_t)tiles + (size_t)(i - chunk * s.chunk_tile)) *
             bytes;
    *v = *k + (size_t)n_kv_head * (size_t)tiles * bytes;
}

/* Start copying a tile pair: 8 * d pieces of 16 bytes each. */
template <int D>
__device__ static void fetch(uint8_t *stage, const uint8_t *k,
                             const uint8_t *v, int d)
{
    uint8_t *ks = stage, *vs = stage + layout<D>::k_bytes;
    const int full = d / 32 * 256, part = d % 32 / 8;

    for (int j = (int)threadIdx.x; j < 8 * d; j += THREADS) {
        int r = j / 2, t, q;
        copy_async16(k_at<D>(ks, r / d, r % d, j % 2), k + 16 * j);
        if (j < full) {
            t = j % 256 / 4;
            q = j / 256 * 4 + j % 4;
        } else {
            t = (j - full) / part;
            q = d / 32 * 4 + (j - full) % part;
        }
        copy_async16(v_at(vs, t, q), v + 16 * j);
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

/* Continue the rows' state over NB groups of 16 keys of a tile. */
template <int D, int NB>
__device__ static void step(struct rows<D> &r, uint8_t *stage, int key0,
                            int b0, const uint32_t (*qf)[4], int lane)
{
    uint8_t *v = stage + layout<D>::k_bytes;
    float s[NB][8], top[2] = { r.m[0], r.m[1] };

    scores<D, NB>(s, stage, b0, qf, lane);
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
        float scale = fast_exp2(r.m[h] - base);
        r.l[h] *= scale;
        r.m[h] = top[h];
        top[h] = base;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            r.o[j][2 * h] *= scale;
            r.o[j][2 * h + 1] *= scale;
        }
    }
#pragma unroll
    for (int b = 0; b < NB; b++) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            s[b][i] = fast_exp2(s[b][i] - top[i / 2 % 2]);
            r.l[i / 2 % 2] += s[b][i];
        }
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

template <int D, bool FEW>
__device__ static void attend(const struct attn_args &g,
                              const struct cuk_item &it, int n, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int group = s.n_head / s.n_kv_head, d = s.d_head;
    const int head = (int)blockIdx.y;
    const struct cuk_kv kv = g.a.dev_kv[it.kv];
    uint32_t qf[D / 16][4];
    struct rows<D> r;
    const uint8_t *k, *v;

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
#pragma unroll
    for (int kk = 0; kk < D / 16; kk++)
        load_q<D>(qf[kk], r, kk, d, lane);
    if (d < D) {      /* channels that no copy fills */
        for (int j = (int)threadIdx.x;
             j < layout<D>::bytes / 4; j += THREADS)
            ((uint32_t *)smem)[j] = 0;
        __syncthreads();
    }

    find_tile(kv, g.a.layer, s.n_kv_head, head, it.tile0, d, &k, &v);
    fetch<D>(smem, k, v, d);
    copy_commit();
    for (int tile = it.tile0, stage = 0; tile < it.tile1;
         tile++, stage ^= layout<D>::stage_bytes) {
        if (tile + 1 < it.tile1) {
            find_tile(kv, g.a.layer, s.n_kv_head, head, tile + 1, d, &k, &v);
            fetch<D>(smem + (stage ^ layout<D>::stage_bytes), k, v, d);
        }
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        if (FEW)
            step<D, 1>(r, smem + stage, tile * KV_TILE, warp, qf, lane);
        else if (16 * warp < n)
            step<D, 4>(r, smem + stage, tile * KV_TILE, 0, qf, lane);
        __syncthreads();
    }

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

template <int D>
__global__ static void __launch_bounds__(THREADS)
attention_kernel(struct attn_args g)
{
    CUK_SMEM(smem);
    const struct cuk_item it = g.a.dev_item[blockIdx.x];
    const int n = it.n_row * (g.a.shape.n_head / g.a.shape.n_kv_head);

    if (n == 0)
        return;
    if (n <= 16)
        attend<D, true>(g, it, n, smem);
    else
        attend<D, false>(g, it, n, smem);
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
    st = sh->d_head <= 64 ? launch<64>(s, g) : launch<128>(s, g);
    if (st == 0)
        CUK_RUN(s, "merge_kernel", merge_kernel,
                dim3((unsigned)a->n_row, (unsigned)sh->n_head),
                dim3((unsigned)(sh->d_head + 31) / 32 * 32), 0, g);
    return st;
}
