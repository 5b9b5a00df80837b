/*
 * mass_cuda.cu - what heads of attention give each token of a prefix.
 *
 * Attention leaves each row's largest score and sum, so the share of a key is
 * 2^(score - largest) / sum, and the scores of the few heads that are asked for
 * are computed once more.  A block has a tile, a head and a run; a thread a
 * key, whose channels it reads once for MASS_ROWS rows.
 *
 * Bounds: nothing; a hundredth of the attention.
 */
#include "kernels/cuda/tiles.cuh"

#define MASS_ROWS 8

/* The key of a thread: channel c at k[16 * c], f16 or a code. */
struct key {
    const uint16_t *k;
    const int8_t   *code;          /* NULL: f16 */
    float           scale;
};

__device__ static struct key find_key(const struct cuk_attn &a,
                                      const struct cuk_kv &kv, int head,
                                      int tile, int t)
{
    const int d = a.shape.d_head, n = a.shape.n_kv_head;
    const int at = t / 16 * d * 16 + t % 16;
    struct key key = { NULL, NULL, 1 };

    if (kv.codes && tile < kv.n_shared) {
        struct tiles x = find_tile<true>(kv, a.layer, n, head, tile, d);
        key.code = (const int8_t *)x.k + at;
        key.scale = f16_to_float(((const uint16_t *)x.ks)[t]);
    } else {
        struct tiles x = find_tile<false>(kv, a.layer, n, head, tile, d);
        key.k = (const uint16_t *)x.k + at;
    }
    return key;
}

/* Queries of n rows from row0 on, f32, and zeros for those that are not
 * there. */
__device__ static void load_queries(float *to, const uint16_t *q,
                                    const struct cuk_shape &s, int row0, int n,
                                    int head)
{
    const int d = s.d_head;

    for (int i = (int)threadIdx.x; i < MASS_ROWS * d; i += KV_TILE) {
        size_t row = (size_t)(row0 + i / d) * (size_t)s.n_head + (size_t)head;
        to[i] = i / d < n ? f16_to_float(q[row * (size_t)d + (size_t)(i % d)])
                          : 0.0f;
    }
}

__device__ static void dot(float s[MASS_ROWS], const float *q,
                           const struct key &key, int d)
{
#pragma unroll
    for (int r = 0; r < MASS_ROWS; r++)
        s[r] = 0;
    for (int c = 0; c < d; c++) {
        float k = key.code ? (float)key.code[16 * c]
                           : f16_to_float(key.k[16 * c]);
#pragma unroll
        for (int r = 0; r < MASS_ROWS; r++)
            s[r] += q[r * d + c] * k;
    }
}

__global__ static void __launch_bounds__(KV_TILE) mass_kernel(struct cuk_mass g)
{
    CUK_SMEM(smem);
    const struct cuk_attn &a = g.attn;
    const struct cuk_run run = g.dev_run[blockIdx.z];
    const int tile = (int)blockIdx.x, t = (int)threadIdx.x;
    const int pos = tile * KV_TILE + t, d = a.shape.d_head;
    const int head = g.dev_head[blockIdx.y];
    float *q = (float *)smem, s[MASS_ROWS];
    double sum = 0;

    if (tile * KV_TILE >= run.n_tok)
        return;
    const struct cuk_kv kv = a.dev_kv[a.dev_row[run.row0].kv];
    const uint64_t seen = seen_keys(kv, a.dev_view, tile);
    if (seen != 0) {
        const struct key key =
            find_key(a, kv, head / (a.shape.n_head / a.shape.n_kv_head), tile,
                     t);
        for (int r0 = 0; r0 < run.n_row; r0 += MASS_ROWS) {
            const int left = run.n_row - r0;
            const int n = left < MASS_ROWS ? left : MASS_ROWS;
            __syncthreads();
            load_queries(q, key.code ? a.dev_q_rotated : a.dev_q, a.shape,
                         run.row0 + r0, n, head);
            __syncthreads();
            dot(s, q, key, d);
#pragma unroll
            for (int r = 0; r < MASS_ROWS; r++) {
                const int row = run.row0 + r0 + r;
                if (r >= n || pos > a.dev_row[row].pos)
                    continue;
                const size_t at = (size_t)row * (size_t)a.shape.n_head +
                                  (size_t)head;
                const float x = key.code ? s[r] * key.scale * a.dev_q_unit[at]
                                         : s[r];
                sum += (double)(fast_exp2(x - a.dev_norm[2 * at]) /
                                a.dev_norm[2 * at + 1]);
            }
        }
    }
    if (pos < run.n_tok)
        g.dev_out[(size_t)blockIdx.z * g.run_stride +
                  (size_t)blockIdx.y * (size_t)g.n_tile * KV_TILE +
                  (size_t)pos] = seen >> t & 1 ? (float)sum : 0.0f;
}

int cuk_mass(struct cuk_stream *s, const struct cuk_mass *m)
{
    const struct cuk_shape *sh = &m->attn.shape;

    if (!cuk_shape_ok(sh) || m->n_run < 1 || m->n_head < 1 || m->n_tile < 1 ||
        !m->attn.dev_norm)
        CUK_REFUSE(s->d, "cuk_mass");
    CUK_RUN(s, "mass_kernel", mass_kernel,
            dim3((unsigned)m->n_tile, (unsigned)m->n_head, (unsigned)m->n_run),
            dim3(KV_TILE), MASS_ROWS * (size_t)sh->d_head * sizeof(float), *m);
    return 0;
}
