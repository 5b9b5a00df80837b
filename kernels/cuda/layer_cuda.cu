/*
 * layer_cuda.cu - the small operations between the matrix products.
 *
 * All are bound by memory, or in a step by the time to start a kernel; so
 * each does everything that can be done to a row while it is in registers:
 * look-up and norm, residual and norm, norm and rotation and storing.
 */
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

/* h = x / rms(x) * w for one row that this thread block has just written;
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
    if (!cuk_mat_ok(embed) || !cuk_operand(h_type) || n_row < 1)
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

#define PAIRS (CUK_D_HEAD_MAX / 64)      /* (i, i + half) of a lane */

/* One warp, one head of one row. */
__global__ static void __launch_bounds__(32 * HEADS_PER_BLOCK)
rope_kernel(struct cuk_rope r, const float *qkv, uint16_t *q,
            const struct cuk_row *rows, const struct cuk_kv *kvs,
            int32_t *bad)
{
    const int t = (int)blockIdx.x, lane = (int)threadIdx.x % 32;
    const int nq = r.shape.n_head, nk = r.shape.n_kv_head;
    const int d = r.shape.d_head, half = d / 2;
    const int h = (int)blockIdx.y * HEADS_PER_BLOCK + (int)threadIdx.x / 32;
    const struct cuk_row row = rows[t];
    const bool is_q = h < nq, is_v = h >= nq + nk;
    const int head = is_q ? h : is_v ? h - nq - nk : h - nq;
    float a[PAIRS], b[PAIRS], sum = 0;

    if (h >= nq + 2 * nk || row.kv < 0)
        return;
    const float *bias = is_q ? r.dev_bq : is_v ? r.dev_bv : r.dev_bk;
    const float *w = is_q ? r.dev_q_norm : is_v ? NULL : r.dev_k_norm;
    qkv += ((size_t)t * (size_t)(nq + 2 * nk) + (size_t)h) * (size_t)d;
    if (bias)
        bias += head * d;
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = lane + 32 * j;
        a[j] = b[j] = 0;
        if (i < half) {
            a[j] = qkv[i] + (bias ? bias[i] : 0.0f);
            b[j] = qkv[i + half] + (bias ? bias[i + half] : 0.0f);
        }
        sum += a[j] * a[j] + b[j] * b[j];
    }
    if (w) {
        float inv = 1.0f / sqrtf(warp_sum(sum) / (float)d + r.eps);
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            int i = lane + 32 * j;
            if (i < half) {
                a[j] *= inv * w[i];
                b[j] *= inv * w[i + half];
            }
        }
    }
    if (!is_v) {
        const float *cs = r.dev_cos + (size_t)row.pos * (size_t)half;
        const float *sn = r.dev_sin + (size_t)row.pos * (size_t)half;
        float scale = is_q ? r.q_scale : 1.0f;
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            int i = lane + 32 * j;
            if (i < half) {
                float x = a[j], y = b[j];
                a[j] = (x * cs[i] - y * sn[i]) * scale;
                b[j] = (y * cs[i] + x * sn[i]) * scale;
            }
        }
    }

    bool fits = true;
    uint16_t *tile = NULL;
    const int slot = row.pos % KV_TILE;
    if (!is_q) {
        const struct cuk_kv *kv = &kvs[row.kv];
        const struct cuk_seg *seg = &kv->own;
        const size_t bytes = (size_t)KV_TILE * (size_t)d * 2;
        size_t i = (size_t)head * (size_t)seg->n_tile +
                   (size_t)(row.pos / KV_TILE - kv->n_shared);
        if (is_v)
            i += (size_t)nk * (size_t)seg->n_tile;
        tile = (uint16_t *)(seg->base +
                            (uint64_t)r.layer * seg->layer_stride +
                            i * bytes);
    } else {
        q += ((size_t)t * (size_t)nq + (size_t)head) * (size_t)d;
    }
#pragma unroll
    for (int j = 0; j < 2 * PAIRS; j++) {
        int i = lane + 32 * (j % PAIRS);
        if (i >= half)
            continue;
        float f = j < PAIRS ? a[j % PAIRS] : b[j % PAIRS];
        i += j < PAIRS ? 0 : half;
        fits = fits && fabsf(f) < 65520.0f;
        if (is_q) {
            q[i] = float_to_f16(f);
        } else if (is_v) {
            int g = i / 32, width = d - 32 * g < 32 ? d - 32 * g : 32;
            tile[g * 32 * KV_TILE + slot * width + i % 32] = float_to_f16(f);
        } else {
            tile[(slot / 16 * d + i) * 16 + slot % 16] = float_to_f16(f);
        }
    }
    if (!fits)
        atomicMin(bad, t);
}

int cuk_rope_append(struct cuk_stream *s, const struct cuk_rope *r,
                    const float *dev_qkv, uint16_t *dev_q,
                    const struct cuk_row *dev_row,
                    const struct cuk_kv *dev_kv, int n_row, int32_t *dev_bad)
{
    int heads = r->shape.n_head + 2 * r->shape.n_kv_head;

    if (!cuk_shape_ok(&r->shape) || n_row < 1)
        CUK_REFUSE(s->d, "cuk_rope_append");
    CUK_RUN(s, "rope_kernel", rope_kernel,
            dim3((unsigned)n_row, (unsigned)cuk_ceil(heads, HEADS_PER_BLOCK)),
            dim3(32 * HEADS_PER_BLOCK), 0, *r, dev_qkv, dev_q, dev_row,
            dev_kv, dev_bad);
    return 0;
}
