/*
 * layer_cuda.cu - the small operations between the matrix products.
 *
 * All are bound by memory, or in a step by the time to start a kernel; so
 * each does everything that can be done to a row while it is in registers:
 * look-up and norm, residual and norm, norm and rotation and storing.
 */
extern "C" {                              /* q8h_block */
#include "kernels/kernels.h"
}
#include "kernels/cuda/quant.cuh"

#define NORM_THREADS 256
#define HEADS_PER_BLOCK 4

/* The sum over the block, in every thread.  part: 8 floats of shared memory. */
__device__ static float block_sum(float v, float *part)
{
    const int n_warp = (int)blockDim.x / 32;

    v = warp_sum(v);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < n_warp; i++)
        v += part[i];
    return v;
}

/* h = x / rms(x) * w for one row; where this thread block has just written x,
 * each thread reads back only what it wrote itself. */
__device__ static void norm_row(const float *x, void *h, int h_type,
                                size_t h0, const float *w, float eps, int d,
                                float sum, float *part)
{
    float r = 1.0f / sqrtf(block_sum(sum, part) / (float)d + eps);

    for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x)
        put_operand(h, h_type, h0 + (size_t)i, x[i] * r * w[i]);
}

__global__ static void __launch_bounds__(NORM_THREADS)
embed_kernel(float *x, void *h, int h_type, struct kmat embed, const float *w,
             float eps, const struct cuk_row *row)
{
    CUK_SMEM(smem);
    const int t = (int)blockIdx.x, d = embed.d_in;
    float sum = 0;

    x += (size_t)t * (size_t)d;
    put_row(x, KT_F32, 0, embed, row[t].id, (int)threadIdx.x,
            (int)blockDim.x);
    if (!h)
        return;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x)
        sum += x[i] * x[i];
    norm_row(x, h, h_type, (size_t)t * (size_t)d, w, eps, d, sum,
             (float *)smem);
}

int cuk_embed_norm(struct cuk_stream *s, float *dev_x, void *dev_h,
                   int h_type, const struct kmat *embed, const float *dev_w,
                   float eps, const struct cuk_row *dev_row, int n_row)
{
    if (!cuk_mat_ok(embed) || (dev_h && !cuk_operand(h_type)) || n_row < 1)
        CUK_REFUSE(s->d, "cuk_embed_norm");
    CUK_RUN(s, "embed_kernel", embed_kernel, dim3((unsigned)n_row),
            dim3(NORM_THREADS), 64, dev_x, dev_h, h_type, *embed, dev_w, eps,
            dev_row);
    return 0;
}

__global__ static void __launch_bounds__(NORM_THREADS)
add_norm_kernel(float *x, const float *y, const float *bias, void *h,
                int h_type, const float *w, float eps, int d)
{
    CUK_SMEM(smem);
    const size_t r0 = (size_t)blockIdx.x * (size_t)d;
    float sum = 0;

    for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x) {
        float v = x[r0 + (size_t)i];
        if (y)
            v += bias ? y[r0 + (size_t)i] + bias[i] : y[r0 + (size_t)i];
        else if (bias)
            v += bias[i];
        x[r0 + (size_t)i] = v;
        sum += v * v;
    }
    if (h)
        norm_row(x + r0, h, h_type, r0, w, eps, d, sum, (float *)smem);
}

int cuk_add_norm(struct cuk_stream *s, float *dev_x, const float *dev_y,
                 const float *dev_bias, void *dev_h, int h_type,
                 const float *dev_w, float eps, int n_row, int d)
{
    if (n_row < 1 || d < 1 || (dev_h && !cuk_operand(h_type)))
        CUK_REFUSE(s->d, "cuk_add_norm");
    CUK_RUN(s, "add_norm_kernel", add_norm_kernel, dim3((unsigned)n_row),
            dim3(NORM_THREADS), 64, dev_x, dev_y, dev_bias, dev_h, h_type,
            dev_w, eps, d);
    return 0;
}

__global__ static void __launch_bounds__(NORM_THREADS)
pick_norm_kernel(void *h, int h_type, const float *x, const int32_t *index,
                 const float *w, float eps, int d)
{
    CUK_SMEM(smem);
    const float *from = x + (size_t)index[blockIdx.x] * (size_t)d;
    float sum = 0;

    for (int i = (int)threadIdx.x; i < d; i += (int)blockDim.x)
        sum += from[i] * from[i];
    norm_row(from, h, h_type, (size_t)blockIdx.x * (size_t)d, w, eps, d, sum,
             (float *)smem);
}

int cuk_pick_norm(struct cuk_stream *s, void *dev_h, int h_type,
                  const float *dev_x, const int32_t *dev_index,
                  const float *dev_w, float eps, int n_row, int d)
{
    if (n_row < 1 || d < 1 || !cuk_operand(h_type))
        CUK_REFUSE(s->d, "cuk_pick_norm");
    CUK_RUN(s, "pick_norm_kernel", pick_norm_kernel, dim3((unsigned)n_row),
            dim3(NORM_THREADS), 64, dev_h, h_type, dev_x, dev_index, dev_w,
            eps, d);
    return 0;
}

__global__ static void __launch_bounds__(NORM_THREADS)
swiglu_kernel(void *out, int out_type, const float *g, const float *u,
              size_t ld, int d)
{
    const size_t t = blockIdx.x;
    const int i = (int)(blockIdx.y * blockDim.x + threadIdx.x);

    if (i >= d)
        return;
    float a = g[t * ld + (size_t)i], b = u[t * ld + (size_t)i];
    put_operand(out, out_type, t * (size_t)d + (size_t)i,
                a / (1.0f + expf(-a)) * b);
}

int cuk_swiglu(struct cuk_stream *s, void *dev_out, int out_type,
               const float *dev_g, const float *dev_u, size_t ld, int n_row,
               int d)
{
    if (n_row < 1 || d < 1 || !cuk_operand(out_type))
        CUK_REFUSE(s->d, "cuk_swiglu");
    CUK_RUN(s, "swiglu_kernel", swiglu_kernel,
            dim3((unsigned)n_row, (unsigned)cuk_ceil(d, NORM_THREADS)),
            dim3(NORM_THREADS), 0, dev_out, out_type, dev_g, dev_u, ld, d);
    return 0;
}

/* ------------------------------------------------- norm, rotation, storing */

/* D: as many channels as a head has at most.  A lane has D / 64 pairs
 * (i, i + half), D / 32 channels. */

struct rope_args {
    struct cuk_rope       r;
    struct q8h_block      block;
    const float          *qkv;
    uint16_t             *q;
    const struct cuk_row *row;
    const struct cuk_kv  *kv;
    int32_t              *bad;
};

/* The factors of K's channels, of a head of a prefix of codes: they follow
 * tiles and scales of the first chunk. */
__device__ static const float *find_factors(const struct cuk_kv &kv, int layer,
                                            int n_kv_head, int head, int d)
{
    int i = 0, n;
    const uint8_t *base = find_chunk(kv.shared, layer, &i, &n);

    return (const float *)(base + 2 * (size_t)n_kv_head * (size_t)n *
                                      KV_TILE * ((size_t)d + 2)) +
           (size_t)head * (size_t)d;
}

/* x[j] of a warp's lanes is channel lane + 32 * j: transformed in blocks of n,
 * a power of two. */
template <int CHANNELS>
__device__ static void hadamard(float x[CHANNELS], int n, int lane)
{
    for (int h = 1; h < 32 && h < n; h *= 2)
#pragma unroll
        for (int j = 0; j < CHANNELS; j++) {
            float other = __shfl_xor_sync(WARP_ALL, x[j], h);
            x[j] = lane & h ? other - x[j] : x[j] + other;
        }
#pragma unroll
    for (int h = 1; h < CHANNELS; h *= 2)
        if (32 * h < n) {
#pragma unroll
            for (int j = 0; j < CHANNELS; j++) {
                if (j & h)
                    continue;
                float a = x[j], b = x[j + h];
                x[j] = a + b;
                x[j + h] = a - b;
            }
        }
}

/*
 * A head's query as keys of codes want it: times their factors, rotated, and in
 * units of its largest value, so that all fits f16.  room: d floats of q as
 * f16 has it.
 */
template <int D>
__device__ static void rotate_q(uint16_t *out, float *unit, const float *room,
                                const float *factor, int d,
                                const struct q8h_block &block, int lane)
{
    const int CHANNELS = D / 32;
    float x[CHANNELS], top = 0;

#pragma unroll
    for (int j = 0; j < CHANNELS; j++) {
        int i = lane + 32 * j;
        x[j] = i < d ? room[i] * factor[i] : 0.0f;
    }
    hadamard<CHANNELS>(x, block.n, lane);
#pragma unroll
    for (int j = 0; j < CHANNELS; j++)
        top = fmaxf(top, fabsf(x[j]));
    for (int i = 16; i > 0; i /= 2)
        top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, i));
    if (lane == 0)
        *unit = top * block.inverse;
    top = top > 0 ? 1.0f / top : 1.0f;
#pragma unroll
    for (int j = 0; j < CHANNELS; j++)
        if (lane + 32 * j < d)
            out[lane + 32 * j] = float_to_f16(x[j] * top);
}

/* A head of a row, in a warp: lane's channels i and i + half, i = lane + 32 j. */
template <int D> struct head {
    bool  is_q, is_v;
    int   index;                         /* among those of its kind */
    float a[D / 64], b[D / 64];
};

/* Its values, with bias; with norm where there is one. */
template <int D>
__device__ static void load_head(struct head<D> *h, const struct cuk_rope &r,
                                 const float *qkv, int lane)
{
    const int d = r.shape.d_head, half = d / 2;
    const float *bias = h->is_q   ? r.dev_bq
                        : h->is_v ? r.dev_bv
                                  : r.dev_bk;
    const float *w = h->is_q ? r.dev_q_norm : h->is_v ? NULL : r.dev_k_norm;
    float sum = 0;

    if (bias)
        bias += h->index * d;
#pragma unroll
    for (int j = 0; j < D / 64; j++) {
        int i = lane + 32 * j;
        h->a[j] = h->b[j] = 0;
        if (i < half) {
            h->a[j] = qkv[i] + (bias ? bias[i] : 0.0f);
            h->b[j] = qkv[i + half] + (bias ? bias[i + half] : 0.0f);
        }
        sum += h->a[j] * h->a[j] + h->b[j] * h->b[j];
    }
    if (!w)
        return;
    float inv = 1.0f / sqrtf(warp_sum(sum) / (float)d + r.eps);
#pragma unroll
    for (int j = 0; j < D / 64; j++) {
        int i = lane + 32 * j;
        if (i < half) {
            h->a[j] *= inv * w[i];
            h->b[j] *= inv * w[i + half];
        }
    }
}

template <int D>
__device__ static void rotate_head(struct head<D> *h, const struct cuk_rope &r,
                                   int pos, int lane)
{
    const int half = r.shape.d_head / 2;
    const float *cs = r.dev_cos + (size_t)pos * (size_t)half;
    const float *sn = r.dev_sin + (size_t)pos * (size_t)half;
    const float scale = h->is_q ? r.q_scale : 1.0f;

#pragma unroll
    for (int j = 0; j < D / 64; j++) {
        int i = lane + 32 * j;
        if (i < half) {
            float x = h->a[j], y = h->b[j];
            h->a[j] = (x * cs[i] - y * sn[i]) * scale;
            h->b[j] = (y * cs[i] + x * sn[i]) * scale;
        }
    }
}

/* The private tile of K or V that a position lies in. */
template <int D>
__device__ static uint16_t *own_tile(const struct cuk_rope &r,
                                     const struct head<D> &h,
                                     const struct cuk_kv &kv, int pos)
{
    const struct cuk_seg *seg = &kv.own;
    size_t i = (size_t)h.index * (size_t)seg->n_tile +
               (size_t)(pos / KV_TILE - kv.n_shared);

    if (h.is_v)
        i += (size_t)r.shape.n_kv_head * (size_t)seg->n_tile;
    return (uint16_t *)(seg->base + (uint64_t)r.layer * seg->layer_stride +
                        i * KV_TILE * (size_t)r.shape.d_head * 2);
}

/* Channel i of slot in a tile of K or V. */
__device__ static size_t in_tile(bool is_v, int i, int slot, int d)
{
    int g = i / 32, width = d - 32 * g < 32 ? d - 32 * g : 32;

    return (size_t)(is_v ? g * 32 * KV_TILE + slot * width + i % 32
                         : (slot / 16 * d + i) * 16 + slot % 16);
}

/* To out as f16: q's row or a tile; to room, too, if that is there.  Whether
 * everything fits. */
template <int D>
__device__ static bool put_head(const struct head<D> &h, uint16_t *out, int slot,
                                int d, float *room, int lane)
{
    const int half = d / 2, PAIRS = D / 64;
    bool fits = true;

#pragma unroll
    for (int j = 0; j < 2 * PAIRS; j++) {
        int i = lane + 32 * (j % PAIRS);
        if (i >= half)
            continue;
        float f = j < PAIRS ? h.a[j % PAIRS] : h.b[j % PAIRS];
        uint16_t f16 = float_to_f16(f);
        i += j < PAIRS ? 0 : half;
        fits = fits && fabsf(f) < 65520.0f;
        out[h.is_q ? (size_t)i : in_tile(h.is_v, i, slot, d)] = f16;
        if (room)
            room[i] = f16_to_float(f16);
    }
    return fits;
}

/* One warp, one head of one row. */
template <int D>
__global__ static void __launch_bounds__(32 * HEADS_PER_BLOCK)
rope_kernel(struct rope_args g)
{
    CUK_SMEM(smem);
    const struct cuk_rope &r = g.r;
    const int t = (int)blockIdx.x, warp = (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32, d = r.shape.d_head;
    const int nq = r.shape.n_head, nk = r.shape.n_kv_head;
    const int i = (int)blockIdx.y * HEADS_PER_BLOCK + warp;
    const struct cuk_row row = g.row[t];
    struct head<D> h;

    if (i >= nq + 2 * nk || row.kv < 0)
        return;
    h.is_q = i < nq;
    h.is_v = i >= nq + nk;
    h.index = h.is_q ? i : h.is_v ? i - nq - nk : i - nq;
    load_head(&h, r,
              g.qkv + ((size_t)t * (size_t)(nq + 2 * nk) + (size_t)i) *
                          (size_t)d,
              lane);
    if (!h.is_v)
        rotate_head(&h, r, row.pos, lane);

    const struct cuk_kv &kv = g.kv[row.kv];
    const bool codes = h.is_q && kv.codes && kv.n_shared > 0;
    const size_t at = (size_t)t * (size_t)nq + (size_t)h.index;
    float *room = codes ? (float *)smem + warp * d : NULL;
    uint16_t *out = h.is_q ? g.q + at * (size_t)d : own_tile(r, h, kv, row.pos);

    if (!put_head(h, out, row.pos % KV_TILE, d, room, lane))
        atomicMin(g.bad, t);
    if (!codes)
        return;
    __syncwarp();
    rotate_q<D>(r.dev_q_rotated + at * (size_t)d, r.dev_q_unit + at, room,
             find_factors(kv, r.layer, nk, h.index / (nq / nk), d), d, g.block,
             lane);
}

int cuk_rope_append(struct cuk_stream *s, const struct cuk_rope *r,
                    const float *dev_qkv, uint16_t *dev_q,
                    const struct cuk_row *dev_row,
                    const struct cuk_kv *dev_kv, int n_row, int32_t *dev_bad)
{
    int heads = r->shape.n_head + 2 * r->shape.n_kv_head;

    if (!cuk_shape_ok(&r->shape) || n_row < 1)
        CUK_REFUSE(s->d, "cuk_rope_append");
    struct rope_args g = { *r,     q8h_block(r->shape.d_head), dev_qkv, dev_q,
                           dev_row, dev_kv,                    dev_bad };
    const dim3 grid((unsigned)n_row,
                    (unsigned)cuk_ceil(heads, HEADS_PER_BLOCK));
    const size_t room = HEADS_PER_BLOCK * (size_t)r->shape.d_head *
                        sizeof(float);
    if (r->shape.d_head <= 128)
        CUK_RUN(s, "rope_kernel", rope_kernel<128>, grid,
                dim3(32 * HEADS_PER_BLOCK), room, g);
    else
        CUK_RUN(s, "rope_kernel", rope_kernel<256>, grid,
                dim3(32 * HEADS_PER_BLOCK), room, g);
    return 0;
}
