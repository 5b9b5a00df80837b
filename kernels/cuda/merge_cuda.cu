/*
 * merge_cuda.cu - rows of attention whose keys several items had: their states
 * become one result.
 *
 * States of codes of q8h are still rotated.  The transform is linear, so it is
 * undone once for all of a row's.
 *
 * Bounds: nothing; a step of a long prefix has some hundred states a row.
 */
#include "kernels/cuda/attention_out.cuh"

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

int cuk_merge(struct cuk_stream *s, const struct attn_args &g)
{
    const struct cuk_shape &sh = g.a.shape;
    const unsigned threads = (unsigned)(sh.d_head + 31) / 32 * 32;

    CUK_RUN(s, "merge_kernel", merge_kernel,
            dim3((unsigned)g.a.n_row, (unsigned)sh.n_head), dim3(threads),
            threads * sizeof(float), g);
    return 0;
}

size_t cuk_state_bytes(const struct cuk_shape *shape, int n_state)
{
    return (size_t)n_state * (size_t)shape->n_head *
           (size_t)(shape->d_head + STATE_TAIL) * sizeof(float);
}
