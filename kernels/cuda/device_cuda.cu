/*
 * device_cuda.cu - devices, memory, streams, events and graphs: thin covers
 * of the runtime that remember where the first thing went wrong.
 *
 * The runtime reports a kernel's fault at some later, unrelated call.  So the
 * first error of a device is kept with the call that saw it, and errors after
 * which the context is lost are told apart from those one can go on from.
 */
#include "kernels/cuda/cuda.cuh"

#include <stdlib.h>
#include <string.h>

/* The context does not survive these.  Numbers: not in every toolkit's list. */
static bool is_sticky(int code)
{
    switch (code) {
    case 220:                       /* cudaErrorNvlinkUncorrectable */
    case 226:                       /* cudaErrorContained */
    case 709:                       /* cudaErrorContextIsDestroyed */
    case 721:                       /* cudaErrorTensorMemoryLeak */
    case 806:                       /* cudaErrorMpsRpcFailure */
    case 810:                       /* cudaErrorMpsClientTerminated */
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

static void fill(struct cuk_err *err, int code, const char *name,
                 const char *call, const char *file, int line)
{
    if (!err)
        return;
    err->code = code;
    err->name = name;
    err->call = call;
    err->file = file;
    err->line = line;
    err->sticky = is_sticky(code) && strncmp(name, "CUBLAS", 6) != 0;
}

int cuk_fail(struct cuk_dev *d, int code, const char *name, const char *call,
             const char *file, int line)
{
    int free_slot = 0;

    if (__atomic_compare_exchange_n(&d->failed, &free_slot, 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        fill(&d->err, code, name, call, file, line);
    return code;
}

const struct cuk_err *cuk_error(const struct cuk_dev *d)
{
    return &d->err;
}

void cuk_clear(struct cuk_dev *d)
{
    cudaGetLastError();
    memset(&d->err, 0, sizeof d->err);
    __atomic_store_n(&d->failed, 0, __ATOMIC_RELEASE);
}

/* For calls that have no device yet, or whose failure is not kept. */
#define CUK_TRY(err, fn, args)                                             \
    do {                                                                   \
        cudaError_t e_ = fn args;                                          \
        if (e_ != cudaSuccess) {                                           \
            fill(err, (int)e_, cudaGetErrorName(e_), #fn, __FILE__,        \
                 __LINE__);                                                \
            cudaGetLastError();                                            \
            return (int)e_;                                                \
        }                                                                  \
    } while (0)

/* ---------------------------------------------------------------- devices */

int cuk_count(int *n, int *driver, int *runtime, struct cuk_err *err)
{
    int dv = 0, rv = 0;

    *n = 0;
    if (driver)
        *driver = 0;
    if (runtime)
        *runtime = 0;
    CUK_TRY(err, cudaRuntimeGetVersion, (&rv));
    if (runtime)
        *runtime = rv;
    CUK_TRY(err, cudaDriverGetVersion, (&dv));
    if (driver)
        *driver = dv;
    cudaError_t e = cudaGetDeviceCount(n);
    if (e == cudaErrorNoDevice) {        /* a count like any other */
        cudaGetLastError();
        *n = 0;
        return 0;
    }
    if (e != cudaSuccess) {
        fill(err, (int)e, cudaGetErrorName(e), "cudaGetDeviceCount",
             __FILE__, __LINE__);
        cudaGetLastError();
    }
    return (int)e;
}

int cuk_info(int ordinal, struct cuk_info *info, struct cuk_err *err)
{
    cudaDeviceProp p;

    memset(info, 0, sizeof *info);
    CUK_TRY(err, cudaGetDeviceProperties, (&p, ordinal));
    CUK_TRY(err, cudaDriverGetVersion, (&info->driver));
    CUK_TRY(err, cudaRuntimeGetVersion, (&info->runtime));
    for (size_t i = 0; p.name[i] && i < sizeof info->name - 1; i++)
        info->name[i] = p.name[i];
    info->sm = 10 * p.major + p.minor;
    info->n_sm = p.multiProcessorCount;
    info->mem_total = p.totalGlobalMem;
    info->smem_block = (int)p.sharedMemPerBlockOptin;
    return 0;
}

int cuk_open(int ordinal, struct cuk_dev **out, struct cuk_err *err)
{
    struct cuk_dev *d = (struct cuk_dev *)calloc(1, sizeof *d);
    int code;

    *out = NULL;
    if (!d) {
        fill(err, (int)cudaErrorMemoryAllocation,
             cudaGetErrorName(cudaErrorMemoryAllocation), "calloc", __FILE__,
             __LINE__);
        return (int)cudaErrorMemoryAllocation;
    }
    d->ordinal = ordinal;
    code = cuk_info(ordinal, &d->info, err);
    if (code == 0 && (code = cuk_attach(d)) != 0 && err)
        *err = d->err;
    if (code != 0) {
        cudaGetLastError(); /* else the next device's first launch reads it */
        free(d);
        return code;
    }
    *out = d;
    return 0;
}

void cuk_close(struct cuk_dev *d)
{
    free(d);
}

const struct cuk_info *cuk_get_info(const struct cuk_dev *d)
{
    return &d->info;
}

int cuk_attach(struct cuk_dev *d)
{
    CUK_CALL(d, cudaSetDevice, (d->ordinal));
    return 0;
}

int cuk_sync(struct cuk_dev *d)
{
    CUK_CALL(d, cudaDeviceSynchronize, ());
    return 0;
}

/* ----------------------------------------------------------------- memory */

int cuk_mem(struct cuk_dev *d, uint64_t *free_bytes, uint64_t *total_bytes)
{
    size_t f = 0, t = 0;

    CUK_CALL(d, cudaMemGetInfo, (&f, &t));
    *free_bytes = f;
    *total_bytes = t;
    return 0;
}

int cuk_alloc(struct cuk_dev *d, void **out, size_t bytes,
              struct cuk_err *err)
{
    cudaError_t e;

    *out = NULL;
    e = cudaMalloc(out, bytes ? bytes : 1);
    if (e == cudaSuccess)
        return 0;
    *out = NULL;
    fill(err, (int)e, cudaGetErrorName(e), "cudaMalloc", __FILE__, __LINE__);
    if (e == cudaErrorMemoryAllocation)
        cudaGetLastError();
    else
        cuk_fail(d, (int)e, cudaGetErrorName(e), "cudaMalloc", __FILE__,
                 __LINE__);
    return (int)e;
}

void cuk_free(struct cuk_dev *d, void *dev_p)
{
    cudaError_t e = dev_p ? cudaFree(dev_p) : cudaSuccess;

    if (e != cudaSuccess)
        cuk_fail(d, (int)e, cudaGetErrorName(e), "cudaFree", __FILE__,
                 __LINE__);
}

int cuk_host_alloc(struct cuk_dev *d, void **out, size_t bytes,
                   struct cuk_err *err)
{
    cudaError_t e;

    *out = NULL;
    e = cudaHostAlloc(out, bytes ? bytes : 1, cudaHostAllocPortable);
    if (e == cudaSuccess)
        return 0;
    *out = NULL;
    fill(err, (int)e, cudaGetErrorName(e), "cudaHostAlloc", __FILE__,
         __LINE__);
    if (e == cudaErrorMemoryAllocation)
        cudaGetLastError();
    else
        cuk_fail(d, (int)e, cudaGetErrorName(e), "cudaHostAlloc", __FILE__,
                 __LINE__);
    return (int)e;
}

void cuk_host_free(struct cuk_dev *d, void *p)
{
    cudaError_t e = p ? cudaFreeHost(p) : cudaSuccess;

    if (e != cudaSuccess)
        cuk_fail(d, (int)e, cudaGetErrorName(e), "cudaFreeHost", __FILE__,
                 __LINE__);
}

/* ---------------------------------------------------------------- streams */

int cuk_stream_new(struct cuk_dev *d, struct cuk_stream **out)
{
    struct cuk_stream *s = (struct cuk_stream *)calloc(1, sizeof *s);
    cudaError_t e = cudaErrorMemoryAllocation;

    *out = NULL;
    if (s)
        /* not ordered with the legacy default stream */
        e = cudaStreamCreateWithFlags(&s->s, cudaStreamNonBlocking);
    if (e != cudaSuccess) {
        free(s);
        return cuk_fail(d, (int)e, cudaGetErrorName(e),
                        "cudaStreamCreateWithFlags", __FILE__, __LINE__);
    }
    s->d = d;
    *out = s;
    return 0;
}

void cuk_stream_free(struct cuk_stream *s)
{
    if (!s)
        return;
    cudaStreamSynchronize(s->s);
    if (s->blas)
        cublasDestroy(s->blas);
    cuk_free(s->d, s->dev_blas);
    cudaStreamDestroy(s->s);
    free(s);
}

int cuk_stream_sync(struct cuk_stream *s)
{
    CUK_CALL(s->d, cudaStreamSynchronize, (s->s));
    return 0;
}

int cuk_stream_wait(struct cuk_stream *s, const struct cuk_event *e)
{
    CUK_CALL(s->d, cudaStreamWaitEvent, (s->s, e->e, 0));
    return 0;
}

/* ----------------------------------------------------------------- events */

int cuk_event_new(struct cuk_dev *d, bool timing, struct cuk_event **out)
{
    struct cuk_event *ev = (struct cuk_event *)calloc(1, sizeof *ev);
    cudaError_t e = cudaErrorMemoryAllocation;

    *out = NULL;
    if (ev)
        e = cudaEventCreateWithFlags(&ev->e, timing ? cudaEventDefault
                                                    : cudaEventDisableTiming);
    if (e != cudaSuccess) {
        free(ev);
        return cuk_fail(d, (int)e, cudaGetErrorName(e),
                        "cudaEventCreateWithFlags", __FILE__, __LINE__);
    }
    ev->d = d;
    *out = ev;
    return 0;
}

void cuk_event_free(struct cuk_event *e)
{
    if (!e)
        return;
    cudaEventDestroy(e->e);
    free(e);
}

int cuk_event_record(struct cuk_event *e, struct cuk_stream *s)
{
    CUK_CALL(e->d, cudaEventRecord, (e->e, s->s));
    return 0;
}

int cuk_event_sync(struct cuk_event *e)
{
    CUK_CALL(e->d, cudaEventSynchronize, (e->e));
    return 0;
}

int cuk_event_done(const struct cuk_event *e, bool *done)
{
    cudaError_t r = cudaEventQuery(e->e);

    *done = r == cudaSuccess;
    if (r == cudaSuccess || r == cudaErrorNotReady)
        return 0;
    return cuk_fail(e->d, (int)r, cudaGetErrorName(r), "cudaEventQuery",
                    __FILE__, __LINE__);
}

int cuk_event_ms(const struct cuk_event *from, const struct cuk_event *to,
                 float *ms)
{
    CUK_CALL(from->d, cudaEventElapsedTime, (ms, from->e, to->e));
    return 0;
}

/* ----------------------------------------------------------------- copies */

static cudaMemcpyKind kind_of(enum cuk_dir dir)
{
    return dir == CUK_TO_DEV     ? cudaMemcpyHostToDevice
           : dir == CUK_FROM_DEV ? cudaMemcpyDeviceToHost
                                 : cudaMemcpyDeviceToDevice;
}

int cuk_copy(struct cuk_stream *s, enum cuk_dir dir, void *dst,
             const void *src, size_t bytes)
{
    if (bytes)
        CUK_CALL(s->d, cudaMemcpyAsync,
                 (dst, src, bytes, kind_of(dir), s->s));
    return 0;
}

int cuk_copy_2d(struct cuk_stream *s, enum cuk_dir dir, void *dst,
                size_t dst_pitch, const void *src, size_t src_pitch,
                size_t width, size_t n_row)
{
    if (width && n_row)
        CUK_CALL(s->d, cudaMemcpy2DAsync,
                 (dst, dst_pitch, src, src_pitch, width, n_row, kind_of(dir),
                  s->s));
    return 0;
}

int cuk_memset(struct cuk_stream *s, void *dev_p, int byte, size_t bytes)
{
    if (bytes)
        CUK_CALL(s->d, cudaMemsetAsync, (dev_p, byte, bytes, s->s));
    return 0;
}

/* ----------------------------------------------------------------- graphs */

int cuk_capture_begin(struct cuk_stream *s)
{
    CUK_CALL(s->d, cudaStreamBeginCapture,
             (s->s, cudaStreamCaptureModeRelaxed));
    return 0;
}

bool cuk_capture_refused(int code)
{
    return code >= cudaErrorStreamCaptureUnsupported &&
           code <= cudaErrorStreamCaptureWrongThread;
}

int cuk_capture_end(struct cuk_stream *s, struct cuk_graph **out)
{
    struct cuk_graph *g;
    cudaGraph_t graph = NULL;

    *out = NULL;
    CUK_CALL(s->d, cudaStreamEndCapture, (s->s, &graph));
    g = (struct cuk_graph *)calloc(1, sizeof *g);
    cudaError_t e = g ? cudaGraphInstantiate(&g->exec, graph, 0)
                      : cudaErrorMemoryAllocation;
    cudaGraphDestroy(graph);
    if (e != cudaSuccess) {
        free(g);
        return cuk_fail(s->d, (int)e, cudaGetErrorName(e),
                        "cudaGraphInstantiate", __FILE__, __LINE__);
    }
    g->d = s->d;
    *out = g;
    return 0;
}

int cuk_graph_launch(struct cuk_graph *g, struct cuk_stream *s)
{
    CUK_CALL(g->d, cudaGraphLaunch, (g->exec, s->s));
    return 0;
}

void cuk_graph_free(struct cuk_graph *g)
{
    if (!g)
        return;
    cudaGraphExecDestroy(g->exec);
    free(g);
}
