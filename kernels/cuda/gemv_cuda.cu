/*
 * gemv_cuda.cu - products over few tokens, and the choice of the next one.
 *
 * Bound by the bandwidth of device memory: every weight is read once, as
 * stored, and multiplied with up to eight tokens.  A warp takes two rows
 * (of one matrix, or a row of gate and the same row of up), so that every
 * part of x that it reads serves two rows; lanes take neighbouring units.
 * The type is switched on once per warp, outside the loop: one kernel serves
 * mixed models, and three matrices of different types take one launch.
 */
#include "kernels/cuda/quant.cuh"

#define GEMV_WARPS 4

struct gemv_args {
    struct cuk_gemv g;
    int             pair[3];     /* first pair of rows behind matrix i */
};

/* acc[r][t] += rows a, b times the tokens; those past n_x repeat the last */
template <int T, int NX>
__device__ static void dot2(float acc[2][NX], const uint8_t *a,
                            const uint8_t *b, const struct cuk_gemv &g,
                            int lane)
{
    for (int u = lane; u < g.w[0].d_in / 8; u += 32) {
        float wa[8], wb[8];
        int p0, p1;

        unit8<T>(a, u, wa, &p0, &p1);
        unit8<T>(b, u, wb, &p0, &p1);
#pragma unroll
        for (int t = 0; t < NX; t++) {
            int n = t < g.n_x ? t : g.n_x - 1;
            const float *x = g.dev_x + (size_t)n * g.ldx;
            float4 v = *(const float4 *)(x + p0);
            float4 z = *(const float4 *)(x + p1);
            float f[8] = { v.x, v.y, v.z, v.w, z.x, z.y, z.z, z.w };
#pragma unroll
            for (int i = 0; i < 8; i++) {
                acc[0][t] = fmaf(wa[i], f[i], acc[0][t]);
                acc[1][t] = fmaf(wb[i], f[i], acc[1][t]);
            }
        }
    }
}

template <int NX>
__global__ static void __launch_bounds__(32 * GEMV_WARPS)
gemv_kernel(struct gemv_args ga)
{
    const struct cuk_gemv &g = ga.g;
    const int lane = (int)threadIdx.x % 32;
    const bool swiglu = g.mode == CUK_SWIGLU;
    int p = (int)blockIdx.x * GEMV_WARPS + (int)threadIdx.x / 32, m = 0;
    float acc[2][NX], first[NX];

    while (m < g.n_mat && p >= ga.pair[m])
        m++;
    if (m == g.n_mat)
        return;
    if (m > 0)
        p -= ga.pair[m - 1];
    const struct kmat &wa = g.w[swiglu ? 0 : m], &wb = g.w[swiglu ? 1 : m];
    const int ra = swiglu ? p : 2 * p, rb = swiglu ? p : 2 * p + 1;
    const bool two = rb < wb.n_out;
    const uint8_t *a = device_row(wa, ra), *b = device_row(wb, two ? rb : ra);

    /* gate and up of different types: rare, two walks of one row each */
    const int walks = wa.type == wb.type ? 1 : 2;
#pragma unroll 1
    for (int k = 0; k < walks; k++) {
        const uint8_t *r0 = k ? b : a, *r1 = walks == 1 ? b : r0;
        const int type = k ? wb.type : wa.type;
#pragma unroll
        for (int t = 0; t < NX; t++)
            acc[0][t] = acc[1][t] = 0;
        CUK_TYPE_SWITCH(type, dot2<T, NX>(acc, r0, r1, g, lane))
#pragma unroll
        for (int t = 0; t < NX; t++)
            first[t] = k ? first[t] : acc[0][t];
    }
#pragma unroll
    for (int t = 0; t < NX; t++) {
        acc[0][t] = warp_sum(first[t]);
        acc[1][t] = warp_sum(acc[1][t]);
    }
    if (lane != 0)
        return;
#pragma unroll
    for (int t = 0; t < NX; t++) {
        if (t >= g.n_x)
            break;
        if (swiglu) {
            float v = acc[0][t];
            g.dev_y[0][(size_t)t * g.ldy[0] + (size_t)p] =
                v / (1.0f + expf(-v)) * acc[1][t];
            continue;
        }
        for (int k = 0; k < (two ? 2 : 1); k++) {
            float *y = g.dev_y[m] + (size_t)t * g.ldy[m] + (size_t)(ra + k);
            float v = acc[k][t];
            if (g.dev_bias[m])
                v += g.dev_bias[m][ra + k];
            *y = g.mode == CUK_ADD ? *y + v : v;
        }
    }
}

int cuk_gemv(struct cuk_stream *s, const struct cuk_gemv *g)
{
    struct gemv_args a;
    int pairs = 0;

    if (g->n_mat < 1 || g->n_mat > 3 || g->n_x < 1 ||
        g->n_x > CUK_GEMV_ROWS || g->ldx % 4 != 0 ||
        (uintptr_t)g->dev_x % 16 != 0 ||
        (g->mode == CUK_SWIGLU &&
         (g->n_mat != 2 || g->w[0].n_out != g->w[1].n_out)))
        CUK_REFUSE(s->d, "cuk_gemv");
    a.g = *g;
    for (int i = 0; i < g->n_mat; i++) {
        if (!cuk_mat_ok(&g->w[i]) || g->w[i].d_in != g->w[0].d_in)
            CUK_REFUSE(s->d, "cuk_gemv: matrix");
        pairs += cuk_ceil(g->w[i].n_out, 2);
        a.pair[i] = pairs;
    }
    if (g->mode == CUK_SWIGLU) {
        pairs = a.pair[0] = g->w[0].n_out;
        a.g.n_mat = 1;
    }
    dim3 grid((unsigned)cuk_ceil(pairs, GEMV_WARPS)), block(32 * GEMV_WARPS);
    if (g->n_x == 1)
        CUK_RUN(s, "gemv_kernel<1>", gemv_kernel<1>, grid, block, 0, a);
    else if (g->n_x <= 4)
        CUK_RUN(s, "gemv_kernel<4>", gemv_kernel<4>, grid, block, 0, a);
    else
        CUK_RUN(s, "gemv_kernel<8>", gemv_kernel<8>, grid, block, 0, a);
    return 0;
}

/* ------------------------------------------------------------------- argmax */

struct best {
    float   logit;
    int32_t id;
};

#define ARGMAX_THREADS 256

#define BEST_NONE       (-2) /* nothing looked at yet */
#define BEST_NOT_FINITE (-1) /* and stays so           */

/* The larger, then the earlier. */
__device__ static struct best better(struct best a, struct best b)
{
    bool take = b.id == BEST_NOT_FINITE || a.id == BEST_NONE ||
                (b.id != BEST_NONE && a.id != BEST_NOT_FINITE &&
                 (b.logit > a.logit ||
                  (b.logit == a.logit && b.id < a.id)));
    return take ? b : a;
}

/* The best of all threads, in thread 0.  part: one per warp. */
__device__ static struct best block_best(struct best v, struct best *part)
{
    const int warp = (int)threadIdx.x / 32;

    for (int i = 16; i > 0; i /= 2) {
        struct best o;
        o.logit = __shfl_xor_sync(WARP_ALL, v.logit, i);
        o.id = __shfl_xor_sync(WARP_ALL, v.id, i);
        v = better(v, o);
    }
    if (threadIdx.x % 32 == 0)
        part[warp] = v;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < (int)blockDim.x / 32; i++)
            v = better(v, part[i]);
    return v;
}

__global__ static void __launch_bounds__(ARGMAX_THREADS)
argmax_parts_kernel(struct best *out, const float *logits, size_t ld, int n)
{
    CUK_SMEM(smem);
    const int t = (int)blockIdx.y;
    struct best v = { 0, BEST_NONE };

    logits += (size_t)t * ld;
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n;
         i += CUK_ARGMAX_PARTS * ARGMAX_THREADS) {
        struct best o = { logits[i], i };
        if (!(fabsf(o.logit) < INFINITY))
            o.id = BEST_NOT_FINITE;
        v = better(v, o);
    }
    v = block_best(v, (struct best *)smem);
    if (threadIdx.x == 0)
        out[(size_t)t * CUK_ARGMAX_PARTS + blockIdx.x] = v;
}

__global__ static void __launch_bounds__(CUK_ARGMAX_PARTS)
argmax_kernel(int32_t *id, const struct best *parts)
{
    CUK_SMEM(smem);
    const int t = (int)blockIdx.x;
    struct best v = block_best(
        parts[(size_t)t * CUK_ARGMAX_PARTS + threadIdx.x],
        (struct best *)smem);

    if (threadIdx.x == 0)
        id[t] = v.id;
}

int cuk_argmax(struct cuk_stream *s, int32_t *dev_id,
               const float *dev_logits, size_t ld, int n_row, int n_vocab,
               void *dev_scratch)
{
    struct best *parts = (struct best *)dev_scratch;

    if (n_row < 1 || n_row > 65535 || n_vocab < 1)
        CUK_REFUSE(s->d, "cuk_argmax");
    CUK_RUN(s, "argmax_parts_kernel", argmax_parts_kernel,
            dim3(CUK_ARGMAX_PARTS, (unsigned)n_row), dim3(ARGMAX_THREADS),
            64, parts, dev_logits, ld, n_vocab);
    CUK_RUN(s, "argmax_kernel", argmax_kernel, dim3((unsigned)n_row),
            dim3(CUK_ARGMAX_PARTS), 64, dev_id, parts);
    return 0;
}
