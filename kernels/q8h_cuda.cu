/*
 * q8h_cuda.cu - a chunk of codec q8h, as it came over the bus, to the f16 tiles
 * that attention reads.
 *
 * Half the bytes travel; what is expanded is written once, by the copy stream,
 * at a hundred times the bus' rate, so it hides behind the next copy.  A block
 * takes one tile of one head: codes times scales to shared memory, the
 * Hadamard transform in place, and out again in the order of the codes.  Rows
 * are one float longer than they need be: a column's elements then lie in
 * different banks.
 */
extern "C" {                              /* q8h_block */
#include "kernels/kernels.h"
}
#include "kernels/cuda.cuh"

#define Q8H_THREADS 256
#define F16_NAN 0x7e00

/* Element i of a tile: its token, and its channel in *c. */
__device__ static int element(int i, bool is_v, int d, int *c)
{
    if (!is_v) {
        *c = i / 16 % d;
        return i / (16 * d) * 16 + i % 16;
    }
    int g = i / (32 * KV_TILE), width = d - 32 * g < 32 ? d - 32 * g : 32;
    i -= g * 32 * KV_TILE;
    *c = 32 * g + i % width;
    return i / width;
}

__global__ static void __launch_bounds__(Q8H_THREADS)
q8h_kernel(uint16_t *out, const uint8_t *raw, int d, int n_key, int block,
           float inverse)
{
    CUK_SMEM(smem);
    float *x = (float *)smem;              /* [KV_TILE][d + 1] */
    const int n_tile = (int)gridDim.x, n_head = (int)gridDim.y;
    const int head = (int)blockIdx.y, n = KV_TILE * d;
    const bool is_v = blockIdx.z != 0;
    const size_t rows = 2 * (size_t)n_head * (size_t)n_tile;
    const size_t at = ((size_t)blockIdx.z * (size_t)n_head + (size_t)head) *
                          (size_t)n_tile + blockIdx.x;
    const int8_t *code = (const int8_t *)raw + at * (size_t)n;
    const uint16_t *scale = (const uint16_t *)(raw + rows * (size_t)n) +
                            at * KV_TILE;
    const float *f = (const float *)(raw + rows * ((size_t)n + 2 * KV_TILE)) +
                     (size_t)head * (size_t)d;
    const int keep = n_key - (int)blockIdx.x * KV_TILE;
    int c;

    for (int i = (int)threadIdx.x; i < n; i += Q8H_THREADS) {
        int t = element(i, is_v, d, &c);
        x[t * (d + 1) + c] = (float)code[i] * f16_to_float(scale[t]);
    }
    __syncthreads();
    for (int h = 1; h < block; h *= 2) {
        for (int i = (int)threadIdx.x; i < n / 2; i += Q8H_THREADS) {
            int p = i % (d / 2);
            float *a = x + i / (d / 2) * (d + 1) + p / h * 2 * h + p % h;
            float u = a[0], v = a[h];
            a[0] = u + v;
            a[h] = u - v;
        }
        __syncthreads();
    }
    out += at * (size_t)n;
    for (int i = (int)threadIdx.x; i < n; i += Q8H_THREADS) {
        int t = element(i, is_v, d, &c);
        float v = x[t * (d + 1) + c] * inverse;
        if (!is_v)
            v *= f[c];
        out[i] = t >= keep                ? (uint16_t)0
                 : fabsf(v) < 65520.0f    ? float_to_f16(v)
                                          : (uint16_t)F16_NAN;
    }
}

int cuk_q8h_expand(struct cuk_stream *s, void *dev_out, const void *dev_raw,
                   const struct cuk_shape *shape, int n_tile, int n_key)
{
    struct q8h_block b = q8h_block(shape->d_head);
    const size_t smem = KV_TILE * ((size_t)shape->d_head + 1) * sizeof(float);

    if (!cuk_shape_ok(shape) || n_tile < 1 || n_key < 0)
        CUK_REFUSE(s->d, "cuk_q8h_expand");
    CUK_RUN(s, "q8h_kernel", q8h_kernel,
            dim3((unsigned)n_tile, (unsigned)shape->n_kv_head, 2),
            dim3(Q8H_THREADS), smem, (uint16_t *)dev_out,
            (const uint8_t *)dev_raw, shape->d_head, n_key, b.n, b.inverse);
    return 0;
}
