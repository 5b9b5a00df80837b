/*
 * cuda_shim.h - the CUDA runtime, language and instructions that kernels/
 * uses, on a host without a GPU.
 *
 * Included before a .cu file that g++ compiles as C++ (-x c++ -include).
 *
 *   threads   fibers, run one at a time in a random, seeded order; a barrier
 *             that not all threads of a block reach, or that they reach at
 *             different lines, ends the program
 *   warps     shuffles, ldmatrix and mma collect the operands of 32 lanes and
 *             are computed once all have come to the same line
 *   memory    shared memory is new for every block, filled with NaNs and
 *             guarded by ASan; so is device memory
 *   cp.async  copies happen at once or at the wait, at random
 *   streams   queues; work runs late, in a random order that stream order
 *             and events allow (shim_stream.cc)
 *   devices   each thread has a current one; what belongs to another is refused
 *   limits    shared memory above 48 KiB has to be asked for, device memory
 *             comes in pages, some calls are refused in a capture
 *
 * Arithmetic: mma adds in double and rounds once; a GPU rounds somewhere in
 * between, so tests have tolerances.
 */
#ifndef CUDA_SHIM_H
#define CUDA_SHIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

extern "C" {
#include "kernels/kernels.h"
}

/* ----------------------------------------------------------- the language */

#define __global__
#define __device__
#define __noinline__
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

struct shim_place {
    dim3 thread, block, block_dim, grid_dim;
};
const shim_place &shim_here(void);
#define threadIdx (shim_here().thread)
#define blockIdx  (shim_here().block)
#define blockDim  (shim_here().block_dim)
#define gridDim   (shim_here().grid_dim)

uint8_t *shim_smem(void);
#define CUK_SMEM(name) uint8_t *name = shim_smem()

typedef struct shim_stream *cudaStream_t;
struct shim_kernel {
    const char *name;
    const void *fn; /* what cudaFuncSetAttribute names */
};
void shim_launch(shim_kernel k, dim3 grid, dim3 block, size_t smem,
                 cudaStream_t s, std::function<void()> body);

template <class... P, class... A>
void shim_launch_args(const char *name, dim3 grid, dim3 block, size_t smem,
                      cudaStream_t s, void (*kernel)(P...), const A &...a)
{
    std::tuple<P...> bound(a...); /* values as of the launch */
    shim_launch({ name, (const void *)kernel }, grid, block, smem, s,
                [=] { std::apply(kernel, bound); });
}
#define CUK_LAUNCH(kernel, grid, block, smem, stream, ...) \
    shim_launch_args(#kernel, grid, block, smem, stream, kernel, __VA_ARGS__)

/* ---------------------------------------------------------- block and warp */

void shim_barrier(int line);
#define __syncthreads() shim_barrier(__LINE__)

/* Wait until 32 lanes have come with the same function and line; it is then
 * called once with their operands. */
typedef void shim_warp_fn(void *lane[32]);
void shim_warp(shim_warp_fn *fn, int line, void *operand);

inline void shim_nothing(void **)
{
}
#define __syncwarp() shim_warp(shim_nothing, __LINE__, NULL)

struct shim_shfl {
    uint32_t in, out;
    int x;
};
void shim_shfl_xor(void *lane[32]);
template <class T> T shim_shfl_call(uint32_t mask, T v, int x, int line)
{
    static_assert(sizeof(T) == 4, "32 bits");
    shim_shfl op = { 0, 0, mask == 0xffffffffu ? x : -1 };
    memcpy(&op.in, &v, 4);
    shim_warp(shim_shfl_xor, line, &op);
    memcpy(&v, &op.out, 4);
    return v;
}
#define __shfl_xor_sync(mask, v, x) shim_shfl_call(mask, v, x, __LINE__)

void shim_shfl_from(void *lane[32]);
inline uint32_t shim_from_call(uint32_t mask, uint32_t v, int from, int line)
{
    shim_shfl op = { v, 0, mask == 0xffffffffu ? from : -1 };
    shim_warp(shim_shfl_from, line, &op);
    return op.out;
}
#define __shfl_sync(mask, v, from) shim_from_call(mask, v, from, __LINE__)

struct shim_ldm {
    const void *row;
    uint32_t *r;
};
void shim_ldmatrix4_trans(void *lane[32]);
#define ldmatrix4_trans(r, row)                          \
    do {                                                 \
        shim_ldm op_ = { row, r };                       \
        shim_warp(shim_ldmatrix4_trans, __LINE__, &op_); \
    } while (0)

struct shim_mma {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};
void shim_mma_f16(void *lane[32]);
#define mma_f16(c, a, b0, b1)                    \
    do {                                         \
        shim_mma op_ = { c, a, { b0, b1 } };     \
        shim_warp(shim_mma_f16, __LINE__, &op_); \
    } while (0)

void copy_async16(void *smem, const void *dev_p);
void copy_commit(void);
void shim_copy_wait(int n);
template <int N> void copy_wait(void)
{
    shim_copy_wait(N);
}

int atomicMin(int *p, int v);

inline float f16_to_float(uint16_t h)
{
    return f16_to_f32(h);
}
inline uint16_t float_to_f16(float f)
{
    return f32_to_f16(f);
}
inline float fast_exp2(float x)
{
    return exp2f(x);
}
inline void codes_f16(uint32_t r[2], uint32_t codes)
{
    for (int i = 0; i < 4; i++) {
        uint32_t h = f32_to_f16((float)(int8_t)(codes >> 8 * i));
        r[i / 2] = i % 2 ? r[i / 2] | h << 16 : h;
    }
}
inline float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
inline uint32_t __float_as_uint(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* -------------------------------------------------------------- the runtime */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorECCUncorrectable = 214,
    cudaErrorNvlinkUncorrectable = 220,
    cudaErrorContained = 226,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorContextIsDestroyed = 709,
    cudaErrorAssert = 710,
    cudaErrorHardwareStackError = 714,
    cudaErrorIllegalInstruction = 715,
    cudaErrorMisalignedAddress = 716,
    cudaErrorInvalidAddressSpace = 717,
    cudaErrorInvalidPc = 718,
    cudaErrorLaunchFailure = 719,
    cudaErrorTensorMemoryLeak = 721,
    cudaErrorMpsRpcFailure = 806,
    cudaErrorMpsClientTerminated = 810,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureWrongThread = 908,
    cudaErrorUnknown = 999
};
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem, sharedMemPerBlockOptin;
};
typedef struct shim_event *cudaEvent_t;
typedef struct shim_graph *cudaGraph_t;
typedef struct shim_graph *cudaGraphExec_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
};
enum {
    cudaHostAllocPortable = 1,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventDisableTiming = 2
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

const char *cudaGetErrorName(cudaError_t e);
cudaError_t cudaGetLastError(void);
cudaError_t cudaRuntimeGetVersion(int *v);
cudaError_t cudaDriverGetVersion(int *v);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int i);
cudaError_t cudaSetDevice(int i);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMalloc(void **p, size_t n);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                              size_t src_pitch, size_t width, size_t n_row,
                              cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t s);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode m);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e);
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n,
                                                          const void *fn,
                                                          int threads,
                                                          size_t smem);
cudaError_t cudaFuncSetAttribute(const void *fn, cudaFuncAttribute a, int v);

/* ------------------------------------------------------------------- cuBLAS */

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_INVALID_VALUE = 7
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
typedef struct shim_blas *cublasHandle_t;

const char *cublasGetStatusName(cublasStatus_t s);
cublasStatus_t cublasCreate(cublasHandle_t *h);
cublasStatus_t cublasDestroy(cublasHandle_t h);
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s);
cublasStatus_t cublasSetWorkspace(cublasHandle_t h, void *p, size_t n);
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta,
                            cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType_t at,
                            int lda, const void *b, cudaDataType_t bt, int ldb,
                            const void *beta, void *c, cudaDataType_t ct,
                            int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo);

#endif
