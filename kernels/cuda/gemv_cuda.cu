/*
 * gemv_cuda.cu - products over few tokens, and the choice of the next one.
 *
 * Bound by the bandwidth of device memory: every weight is read once, as
 * stored, and multiplied with up to eight tokens; more tokens are groups of
 * eight that run side by side, so that a weight is still in the L2 cache when
 * the next group asks for it.  A pair of rows (of one matrix, or a row of gate
 * and the same row of up) is one warp's, so that every part of x that it reads
 * serves two rows; lanes take neighbouring units.  Where there are too few
 * pairs to keep the device's memory busy, four warps share one and add up at
 * the end.  The type is switched on once per warp, outside the loop: one kernel
 * serves mixed models, and three matrices of different types take one launch.
 *
 * The norm before a product is part of it: sum w[i] * (x[i] * norm[i] / rms) is
 * (sum w[i] * norm[i] * x[i]) / rms, and every block finds rms for itself, from
 * rows that lie in the L2 cache.  That is cheaper than one more kernel, which
 * in a step is mostly the time between two kernels.
 *
 * Not measured on hardware: WARPS_PER_SM below which a pair is shared.
 */
#include "kernels/cuda/quant.cuh"

#define GEMV_WARPS   4
#define WARPS_PER_SM 8

struct gemv_args {
    struct cuk_gemv g;
    int             pair[3];     /* first pair of rows after matrix i */
    int             share;       /* warps of a pair: 1 or GEMV_WARPS */
};

/* The tokens of a block: a group of at most NX of the n_x. */
struct gemv_x {
    const float *x;
    int          n;
};

/* acc[r][t] += rows a, b times the tokens, units from u on in steps; tokens
 * past the last repeat it */
template <int T, int NX>
__device__ static void dot2(float acc[2][NX], const uint8_t *a,
                            const uint8_t *b, const struct cuk_gemv &g,
                            const struct gemv_x &gx, int u, int step)
{
#pragma unroll (NX == 1 ? 4 : 1)
    for (; u < g.w[0].d_in / 8; u += step) {
        float wa[8], wb[8];
        int p0, p1;

        unit8<T>(a, u, wa, &p0, &p1);
        unit8<T>(b, u, wb, &p0, &p1);
        if (g.dev_norm) {
            float4 v = *(const float4 *)(g.dev_norm + p0);
            float4 z = *(const float4 *)(g.dev_norm + p1);
            float f[8] = { v.x, v.y, v.z, v.w, z.x, z.y, z.z, z.w };
#pragma unroll
            for (int i = 0; i < 8; i++) {
                wa[i] *= f[i];
                wb[i] *= f[i];
            }
        }
#pragma unroll
        for (int t = 0; t < NX; t++) {
            const float *x = gx.x + (size_t)(t < gx.n ? t : gx.n - 1) * g.ldx;
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

/* 1 / rms of each token in inv[t], by the whole block. */
__device__ static void find_rms(float *inv, const struct cuk_gemv &g,
                                const struct gemv_x &gx)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int d = g.w[0].d_in;

    for (int t = warp; t < gx.n; t += GEMV_WARPS) {
        const float4 *x = (const float4 *)(gx.x + (size_t)t * g.ldx);
        float sum = 0;
        for (int i = lane; i < d / 4; i += 32) {
            float4 v = x[i];
            sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
        sum = warp_sum(sum);
        if (lane == 0)
            inv[t] = 1.0f / sqrtf(sum / (float)d + g.eps);
    }
    __syncthreads();
}

/* Where four warps had parts of the same pair: their sum, in the first. */
template <int NX>
__device__ static void add_up(float acc[2][NX], float *part)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;

    if (lane == 0 && warp > 0)
#pragma unroll
        for (int i = 0; i < 2 * NX; i++)
            part[2 * NX * (warp - 1) + i] = acc[i / NX][i % NX];
    __syncthreads();
    if (warp == 0)
#pragma unroll
        for (int i = 0; i < 2 * NX; i++)
            for (int w = 0; w < GEMV_WARPS - 1; w++)
                acc[i / NX][i % NX] += part[2 * NX * w + i];
}

/* One row's sum for token t of the launch, to where the mode says. */
__device__ static void put_sum(const struct cuk_gemv &g, int m, int t, int row,
                               float v)
{
    float *y = g.dev_y[m] + (size_t)t * g.ldy[m] + (size_t)row;

    if (g.dev_bias[m])
        v += g.dev_bias[m][row];
    *y = g.mode == CUK_ADD ? *y + v : v;
}

/* Sums of rows a and b of one type each; of two types: two walks, of one row
 * each (gate and up seldom differ). */
template <int NX>
__device__ static void dot_pair(float acc[2][NX], const uint8_t *a, int type_a,
                                const uint8_t *b, int type_b,
                                const struct cuk_gemv &g,
                                const struct gemv_x &gx, int u, int step)
{
    const int walks = type_a == type_b ? 1 : 2;
    float first[NX];

#pragma unroll 1
    for (int k = 0; k < walks; k++) {
        const uint8_t *r0 = k ? b : a, *r1 = walks == 1 ? b : r0;
        const int type = k ? type_b : type_a;
#pragma unroll
        for (int t = 0; t < NX; t++)
            acc[0][t] = acc[1][t] = 0;
        CUK_TYPE_SWITCH(type, dot2<T, NX>(acc, r0, r1, g, gx, u, step))
#pragma unroll
        for (int t = 0; t < NX; t++)
            first[t] = k ? first[t] : acc[0][t];
    }
#pragma unroll
    for (int t = 0; t < NX; t++) {
        acc[0][t] = warp_sum(first[t]);
        acc[1][t] = warp_sum(acc[1][t]);
    }
}

template <int NX>
__global__ static void __launch_bounds__(32 * GEMV_WARPS)
gemv_kernel(struct gemv_args ga)
{
    CUK_SMEM(smem);
    const struct cuk_gemv &g = ga.g;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const bool swiglu = g.mode == CUK_SWIGLU;
    const int t0 = (int)blockIdx.y * NX;
    const struct gemv_x gx = { g.dev_x + (size_t)t0 * g.ldx,
                               g.n_x - t0 < NX ? g.n_x - t0 : NX };
    float *inv = (float *)smem, acc[2][NX];
    int p = (int)blockIdx.x * (GEMV_WARPS / ga.share) + warp / ga.share, m = 0;

    if (g.dev_norm)
        find_rms(inv, g, gx);
    while (m < g.n_mat && p >= ga.pair[m])
        m++;
    if (m == g.n_mat)            /* all of a block that shares a pair, or none */
        return;
    if (m > 0)
        p -= ga.pair[m - 1];
    const struct kmat &wa = g.w[swiglu ? 0 : m], &wb = g.w[swiglu ? 1 : m];
    const int ra = swiglu ? p : 2 * p, rb = swiglu ? p : 2 * p + 1;
    const bool two = rb < wb.n_out;

    dot_pair<NX>(acc, device_row(wa, ra), wa.type,
                 device_row(wb, two ? rb : ra), wb.type, g, gx,
                 lane + 32 * (warp % ga.share), 32 * ga.share);
    if (ga.share > 1)
        add_up<NX>(acc, inv + NX);
    if (lane != 0 || warp % ga.share != 0)
        return;
#pragma unroll
    for (int t = 0; t < NX; t++) {
        if (t >= gx.n)
            break;
        float scale = g.dev_norm ? inv[t] : 1.0f;
        float a = acc[0][t] * scale, b = acc[1][t] * scale;
        if (swiglu) {
            g.dev_y[0][(size_t)(t0 + t) * g.ldy[0] + (size_t)p] =
                a / (1.0f + expf(-a)) * b;
            continue;
        }
        put_sum(g, m, t0 + t, ra, a);
        if (two)
            put_sum(g, m, t0 + t, rb, b);
    }
}

/* Whether a launch is one that the kernel can do; fills in its pairs. */
static bool plan_gemv(struct gemv_args *a, const struct cuk_gemv *g, int *pairs)
{
    if (g->n_mat < 1 || g->n_mat > 3 || g->n_x < 1 ||
        g->n_x > CUK_GEMV_MOST || g->ldx % 4 != 0 ||
        (uintptr_t)g->dev_x % 16 != 0 || (uintptr_t)g->dev_norm % 16 != 0 ||
        (g->mode == CUK_SWIGLU &&
         (g->n_mat != 2 || g->w[0].n_out != g->w[1].n_out)))
        return false;
    a->g = *g;
    *pairs = 0;
    for (int i = 0; i < g->n_mat; i++) {
        if (!cuk_mat_ok(&g->w[i]) || g->w[i].d_in != g->w[0].d_in)
            return false;
        *pairs += cuk_ceil(g->w[i].n_out, 2);
        a->pair[i] = *pairs;
    }
    if (g->mode == CUK_SWIGLU) {
        *pairs = a->pair[0] = g->w[0].n_out;
        a->g.n_mat = 1;
    }
    return true;
}

template <int NX>
static int launch(struct cuk_stream *s, const char *name,
                  const struct gemv_args &a, int pairs)
{
    dim3 grid((unsigned)cuk_ceil(pairs, GEMV_WARPS / a.share),
              (unsigned)cuk_ceil(a.g.n_x, NX));

    /* 1 / rms of each token, and the sums of three warps */
    CUK_RUN(s, name, gemv_kernel<NX>, grid, dim3(32 * GEMV_WARPS),
            (1 + 2 * (GEMV_WARPS - 1)) * NX * sizeof(float), a);
    return 0;
}

int cuk_gemv(struct cuk_stream *s, const struct cuk_gemv *g)
{
    struct gemv_args a;
    int pairs;

    if (!plan_gemv(&a, g, &pairs))
        CUK_REFUSE(s->d, "cuk_gemv");
    a.share = pairs < WARPS_PER_SM * s->d->info.n_sm ? GEMV_WARPS : 1;
    return g->n_x == 1   ? launch<1>(s, "gemv_kernel<1>", a, pairs)
           : g->n_x <= 4 ? launch<4>(s, "gemv_kernel<4>", a, pairs)
                         : launch<8>(s, "gemv_kernel<8>", a, pairs);
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
