/*
 * attention_out.cuh - what an item of attention leaves: results, or the state
 * (m, l, o) of rows whose other keys other items have.
 */
#ifndef KERNELS_CUDA_ATTENTION_OUT_CUH
#define KERNELS_CUDA_ATTENTION_OUT_CUH

#include "kernels/cuda/attention.cuh"

/* Row i of the item: its token and head. */
__device__ inline int token_of(const struct cuk_item &it, int i, int group)
{
    return it.row0 + i / group;
}

/* Two neighbouring channels of a row's state. */
struct part {
    float o0, o1, m, l;
    bool  rotated;
};

/* What weights of a row and head are made of, for whoever asks. */
__device__ inline void put_norm(float *norm, size_t at, float m, float l)
{
    if (!norm)
        return;
    norm[2 * at] = m;
    norm[2 * at + 1] = l;
}

/* To the result, or to the state. */
__device__ inline void put_pair(const struct attn_args &g,
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
__device__ inline void join(const struct attn_args &g,
                            const struct cuk_item &it, int n,
                            const struct rows<D> &r, bool rotated,
                            uint8_t *smem)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int W = layout<D>::turns ? D / 2 : D;     /* channels at once */
    float *o = (float *)smem;                       /* [WARPS][16][W] */
    float *m = o + 16 * WARPS * W;
    float *l = m + 16 * WARPS;                      /* [WARPS][16] */

#pragma unroll
    for (int h = 0; h < 2; h++)
        if (lane % 4 == 0) {
            m[16 * warp + lane / 4 + 8 * h] = r.m[h];
            l[16 * warp + lane / 4 + 8 * h] = r.l[h];
        }
#pragma unroll
    for (int c0 = 0; c0 < D; c0 += W) {
        if (c0)
            __syncthreads();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *to = o + (16 * warp + lane / 4 + 8 * h) * W + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < W / 8; j++) {
                to[8 * j] = r.o[c0 / 8 + j][2 * h];
                to[8 * j + 1] = r.o[c0 / 8 + j][2 * h + 1];
            }
        }
        __syncthreads();
        for (int j = (int)threadIdx.x; j < n * (W / 2); j += THREADS) {
            int i = j / (W / 2), c = j % (W / 2) * 2;
            struct part p = { 0, 0, -INFINITY, 0, rotated };
            for (int w = 0; w < WARPS; w++)
                p.m = fmaxf(p.m, m[16 * w + i]);
            for (int w = 0; w < WARPS && p.m != -INFINITY; w++) {
                float f = fast_exp2(m[16 * w + i] - p.m);
                p.l += f * l[16 * w + i];
                p.o0 += f * o[(16 * w + i) * W + c];
                p.o1 += f * o[(16 * w + i) * W + c + 1];
            }
            put_pair(g, it, i, c0 + c, p);
        }
    }
}

/* Every warp has rows of its own. */
template <int D>
__device__ inline void put_rows(const struct attn_args &g,
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

#endif
