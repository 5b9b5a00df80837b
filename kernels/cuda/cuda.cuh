/*
 * cuda.cuh - what the .cu files share: errors, launches, conversions, and
 * the few instructions that are not C++.
 *
 * Everything that only a GPU has goes through a name defined here (or, for
 * the host, in tests/cuda/cuda_shim.h, which is then included first): the
 * kernels themselves are the same text on both.  All shared memory is one
 * dynamic array per block, so that the shim can own and poison it.
 */
#ifndef KERNELS_CUDA_CUH
#define KERNELS_CUDA_CUH

#ifndef CUDA_SHIM_H
#include <cublas_v2.h>
#include <cuda_runtime.h>
#endif

#include <math.h>
#include <stdint.h>

#include "kernels/cuda/kernels_cuda.h"

/* --------------------------------------------------------- host: structs */

struct cuk_dev {
    int             ordinal;
    struct cuk_info info;
    int             failed;        /* atomic: err is being or was written */
    struct cuk_err  err;
};

struct cuk_stream {
    struct cuk_dev *d;
    cudaStream_t    s;
    cublasHandle_t  blas;          /* NULL until cuk_gemm_prepare */
    void           *dev_blas;      /* its workspace */
};

struct cuk_event {
    struct cuk_dev *d;
    cudaEvent_t     e;
};

struct cuk_graph {
    struct cuk_dev *d;
    cudaGraphExec_t exec;
};

/* Keep the first failure of d; gives code back. */
int cuk_fail(struct cuk_dev *d, int code, const char *name, const char *call,
             const char *file, int line);

#define CUK_CALL(d, fn, args)                                                \
    do {                                                                     \
        cudaError_t e_ = fn args;                                            \
        if (e_ != cudaSuccess)                                               \
            return cuk_fail(d, (int)e_, cudaGetErrorName(e_), #fn, __FILE__, \
                            __LINE__);                                       \
    } while (0)

#define CUK_REFUSE(d, what)                                       \
    return cuk_fail(d, (int)cudaErrorInvalidValue,                \
                    cudaGetErrorName(cudaErrorInvalidValue), what, \
                    __FILE__, __LINE__)

#ifndef CUDA_SHIM_H
#define CUK_LAUNCH(kernel, grid, block, smem, stream, ...) \
    kernel<<<grid, block, smem, stream>>>(__VA_ARGS__)
#define CUK_SMEM(name) extern __shared__ __align__(128) uint8_t name[]
#endif

/* Launch on s and return from the launcher if that failed. */
#define CUK_RUN(s, name, kernel, grid, block, smem, ...)                     \
    do {                                                                     \
        CUK_LAUNCH((kernel), grid, block, smem, (s)->s, __VA_ARGS__);        \
        cudaError_t e_ = cudaGetLastError();                                 \
        if (e_ != cudaSuccess)                                               \
            return cuk_fail((s)->d, (int)e_, cudaGetErrorName(e_), name,     \
                            __FILE__, __LINE__);                             \
    } while (0)

/* ------------------------------------------------- device: instructions */

#ifndef CUDA_SHIM_H

__device__ inline float f16_to_float(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

__device__ inline uint16_t float_to_f16(float f)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

__device__ inline uint32_t smem_addr(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes, global to shared, both 16-aligned; done after copy_wait */
__device__ inline void copy_async16(void *smem, const void *dev_p)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(smem_addr(smem)), "l"(dev_p) : "memory");
#else
    *(uint4 *)smem = *(const uint4 *)dev_p;
#endif
}

__device__ inline void copy_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Wait for all but the last N committed groups of this thread. */
template <int N> __device__ inline void copy_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}

/*
 * Four 8 x 8 matrices of f16, transposed: lane l gives the address of row
 * l % 8 of matrix l / 8 (16 bytes); r[i] holds, for matrix i, the elements
 * [2 * (l % 4)][l / 4] and [2 * (l % 4) + 1][l / 4].
 */
__device__ inline void ldmatrix4_trans(uint32_t r[4], const void *smem_row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_addr(smem_row)) : "memory");
}

/*
 * c [16, 8] f32 += a [16, 16] f16 * b [16, 8] f16.  Lane l holds, with
 * g = l / 4 and j = 2 * (l % 4):
 *   a[0] = a[g][j..], a[1] = a[g + 8][j..], a[2] = a[g][j + 8..],
 *   a[3] = a[g + 8][j + 8..];  b0 = b[j..][g], b1 = b[j + 8..][g]
 *   c[0], c[1] = c[g][j], c[g][j + 1];  c[2], c[3] = the same of row g + 8
 */
__device__ inline void mma_f16(float c[4], const uint32_t a[4], uint32_t b0,
                               uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0),
                   "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

/*
 * Four int8 codes to f16, exactly: after the high byte of 1,024 a byte is an
 * f16 of 1,024 and more, and 1,152 takes the offset of 128 off again.
 */
__device__ inline void codes_f16(uint32_t r[2], uint32_t codes)
{
    asm("{.reg .b32 u;\n"
        "xor.b32 u, %2, 0x80808080;\n"
        "prmt.b32 %0, u, 0x64646464, 0x4140;\n"
        "prmt.b32 %1, u, 0x64646464, 0x4342;\n"
        "sub.rn.f16x2 %0, %0, %3;\n"
        "sub.rn.f16x2 %1, %1, %3;}"
        : "=&r"(r[0]), "=&r"(r[1]) : "r"(codes), "r"(0x64806480u));
}

__device__ inline float fast_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif

/* --------------------------------------------------- device: small helpers */

#define WARP_ALL 0xffffffffu

__device__ inline float bf16_to_float(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}

/* To nearest even; a NaN stays one. */
__device__ inline uint16_t float_to_bf16(float f)
{
    uint32_t u = __float_as_uint(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

__device__ inline uint32_t pack_f16(float lo, float hi)
{
    return (uint32_t)float_to_f16(lo) | (uint32_t)float_to_f16(hi) << 16;
}

__device__ inline uint32_t pack_bf16(float lo, float hi)
{
    return (uint32_t)float_to_bf16(lo) | (uint32_t)float_to_bf16(hi) << 16;
}

/* Element i of an array of operands. */
__device__ inline void put_operand(void *p, int type, size_t i, float f)
{
    if (type == KT_BF16)
        ((uint16_t *)p)[i] = float_to_bf16(f);
    else if (type == KT_F16)
        ((uint16_t *)p)[i] = float_to_f16(f);
    else
        ((float *)p)[i] = f;
}

__device__ inline float warp_sum(float v)
{
    for (int i = 16; i > 0; i /= 2)
        v += __shfl_xor_sync(WARP_ALL, v, i);
    return v;
}

/* The chunk that holds tile i of a segment, and how many tiles it has; i counts
 * from its first afterwards. */
__device__ inline const uint8_t *find_chunk(const struct cuk_seg &s,
                                            int layer, int *i, int *n)
{
    const int chunk = *i / s.chunk_tile;
    const int left = s.n_tile - chunk * s.chunk_tile;

    *n = left < s.chunk_tile ? left : s.chunk_tile;
    *i -= chunk * s.chunk_tile;
    return (const uint8_t *)(s.base + (uint64_t)layer * s.layer_stride +
                             (uint64_t)chunk * s.chunk_stride);
}

static inline int cuk_ceil(int a, int b)
{
    return (a + b - 1) / b;
}

static inline bool cuk_operand(int type)
{
    return type == KT_F32 || type == KT_F16 || type == KT_BF16;
}

static inline bool cuk_shape_ok(const struct cuk_shape *s)
{
    return s->d_head >= 8 && s->d_head <= CUK_D_HEAD_MAX &&
           s->d_head % 8 == 0 && s->n_kv_head >= 1 &&
           s->n_head % s->n_kv_head == 0 &&
           s->n_head / s->n_kv_head <= CUK_ATTN_ROWS;
}

#endif
