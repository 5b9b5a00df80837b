/*
 * shim_stream.cc - the runtime's queues: streams, events, copies, graphs,
 * memory, and cuBLAS.
 *
 * Nothing runs when it is queued.  Whenever somebody waits, and now and then
 * in between, work is taken from the head of a random stream whose head may
 * run; so what is not ordered by a stream, an event or a graph edge happens
 * in any order, copies come as late as they may, and a host that reuses a
 * buffer too early is caught by what arrives.  One lock covers everything:
 * several threads may queue work.
 */
#include "tests/cuda/shim.h"

#include <stdio.h>
#include <stdlib.h>

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

struct shim_event {
    int         dev = 0;
    uint64_t    recorded = 0, done = 0;     /* versions */
    float       ms = 0;                     /* when done */
    shim_graph *graph = nullptr;            /* recorded while capturing */
    int         node = -1;
};

struct node {
    std::function<void()> fn;
    std::vector<int>      after;
};

struct shim_graph {
    std::vector<node>       nodes;
    bool                    invalid = false;  /* a call was refused */
    std::set<shim_stream *> streams;
};

enum op_kind { OP_RUN, OP_RECORD, OP_WAIT };

struct op {
    op_kind               kind;
    std::function<void()> fn;
    shim_event           *event;
    uint64_t              version;
};

struct shim_stream {
    std::deque<op>   q;
    int              dev = 0;
    shim_graph      *graph = nullptr;       /* being captured into */
    std::vector<int> last;                  /* nodes the next one follows */
};

struct shim_blas {
    shim_stream *s = nullptr;
    int          dev = 0;
};

namespace {

std::recursive_mutex big_lock;
uint64_t rng = 1;
uint64_t clock_steps, n_calls;
int      n_dev = 1, sm = 89, driver = 13000, runtime = 13000;
int      fail_in, fail_code, last_error, lost;
char     fail_name[64];
const int MAX_DEV = 8;
uint64_t mem_total = (uint64_t)1 << 30, mem_used[MAX_DEV], mem_peak;
struct shim_count counts;
bool     in_graph;
thread_local int current;               /* device */
/* shared memory that a kernel may have on a device, where it asked for it */
std::map<std::pair<int, const void *>, size_t> smem_of;
const size_t SMEM_PLAIN = 48 * 1024, SMEM_MOST = 99 * 1024;

struct area { size_t size; int dev; };
std::map<uintptr_t, area> dev_mem, host_mem;
std::set<shim_stream *> streams;
std::set<shim_event *>  events;
std::set<shim_graph *>  graphs;

[[noreturn]] void stop(const char *what)
{
    fprintf(stderr, "# shim: %s\n", what);
    abort();
}

/* The context is lost: what was queued never runs. */
void lose(int code)
{
    lost = code;
    for (shim_stream *s : streams)
        s->q.clear();
    for (shim_event *e : events)
        e->done = e->recorded;
}

/* Each entry of the runtime: the failure a test asked for; after one that a
 * context does not survive, every later one. */
cudaError_t enter(const char *name)
{
    n_calls++;
    if (lost != 0) {
        last_error = lost;
        return (cudaError_t)lost;
    }
    if (fail_in > 0 && (fail_name[0] == 0 || !strcmp(fail_name, name)) &&
        --fail_in == 0) {
        last_error = fail_code;
        if (fail_code == cudaErrorIllegalAddress ||
            fail_code == cudaErrorLaunchFailure)
            lose(fail_code);
        return (cudaError_t)fail_code;
    }
    return cudaSuccess;
}
#define LOCK() std::lock_guard<std::recursive_mutex> hold_(big_lock)
#define ENTER()                        \
    LOCK();                            \
    cudaError_t e_ = enter(__func__);  \
    if (e_ != cudaSuccess)             \
        return e_

cudaError_t error(cudaError_t e)
{
    last_error = (int)e;
    return e;
}

bool capturing(void)
{
    return !graphs.empty() && [] {
        for (shim_stream *s : streams)
            if (s->graph)
                return true;
        return false;
    }();
}

/* What must not be called while a stream is captured: it says so, and the
 * capture comes to nothing. */
bool refuse_capture(void)
{
    for (shim_stream *s : streams)
        if (s->graph)
            s->graph->invalid = true;
    if (capturing())
        last_error = cudaErrorStreamCaptureUnsupported;
    return capturing();
}
#define NOT_IN_CAPTURE()  \
    if (refuse_capture()) \
    return cudaErrorStreamCaptureUnsupported

/* What n bytes take: blocks of more than half a page have whole ones. */
uint64_t paged(size_t n)
{
    const size_t page = (size_t)2 << 20;

    return n > page / 2 ? (n + page - 1) / page * page : n;
}

/* Run one piece of queued work; false when there is none that may run. */
bool step(void)
{
    std::vector<shim_stream *> can;

    for (shim_stream *s : streams)
        if (!s->q.empty() && (s->q.front().kind != OP_WAIT ||
                              s->q.front().event->done >=
                                  s->q.front().version))
            can.push_back(s);
    if (can.empty())
        return false;
    shim_stream *s = can[shim_random() % can.size()];
    op o = s->q.front();
    s->q.pop_front();
    clock_steps++;
    if (o.kind == OP_RUN) {
        o.fn();
    } else if (o.kind == OP_RECORD && o.event->done < o.version) {
        o.event->done = o.version;
        o.event->ms = (float)clock_steps * 1e-3f;
    }
    return true;
}

void drain(const std::function<bool()> &done)
{
    while (!done())
        if (!step())
            stop("waiting for work that waits for an event nobody records");
}

int add_node(shim_stream *s, std::function<void()> fn)
{
    s->graph->nodes.push_back({ std::move(fn), s->last });
    s->last = { (int)s->graph->nodes.size() - 1 };
    return s->last[0];
}

void queue(shim_stream *s, std::function<void()> fn)
{
    if (!streams.count(s))
        stop("work for a stream that does not exist");
    if (s->graph) {
        add_node(s, std::move(fn));
        return;
    }
    s->q.push_back({ OP_RUN, std::move(fn), nullptr, 0 });
    while (shim_random() % 8 == 0 && step())
        ;
}

/* The live allocation around [p, p + n) is there, and dev's; or abort. */
void check_range(const char *what, const std::map<uintptr_t, area> &in,
                 const void *p, size_t n, int dev)
{
    auto it = in.upper_bound((uintptr_t)p);

    if (it != in.begin()) {
        --it;
        if ((uintptr_t)p + n <= it->first + it->second.size) {
            if (it->second.dev != dev)
                stop("memory of another device");
            return;
        }
    }
    stop(what);
}

}  // namespace

uint32_t shim_random(void)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33);
}

/* ----------------------------------------------------------------- control */

void shim_seed(uint64_t seed) { rng = seed * 2654435761u + 12345; }
void shim_devices(int n) { n_dev = n < MAX_DEV ? n : MAX_DEV; }
void shim_memory(uint64_t total) { mem_total = total; }
void shim_sm(int v) { sm = v; }
void shim_versions(int d, int r) { driver = d; runtime = r; }
uint64_t shim_calls(void) { return n_calls; }

int shim_live(void)
{
    return (int)(dev_mem.size() + host_mem.size() + streams.size() +
                 events.size() + graphs.size());
}

uint64_t shim_peak(void)
{
    uint64_t p = mem_peak;

    mem_peak = mem_used[current];
    return p;
}

void shim_fail(int n, int code)
{
    shim_fail_in("", n, code);
}

void shim_fail_in(const char *name, int n, int code)
{
    snprintf(fail_name, sizeof fail_name, "%s", name);
    fail_in = n;
    fail_code = code;
    last_error = lost = 0;
}

struct shim_count shim_counts(void)
{
    LOCK();
    return counts;
}

/*
 * A plugin is told by the environment, and tells at the end what it did:
 *   CAG_SHIM   words: devices=N memory=MIB sm=N driver=N seed=N
 *              fail=NAME:N:CODE (the N-th call of NAME)
 *   CAG_SHIM_COUNTS   the file that gets the counts, one line each
 */
static void from_environment(void)
{
    const char *s = getenv("CAG_SHIM");
    char name[64];
    int n, code, used;

    for (; s && *s; s += used) {
        used = 0;
        if (sscanf(s, " devices=%d%n", &n, &used) == 1 && used > 0)
            shim_devices(n);
        else if (sscanf(s, " memory=%d%n", &n, &used) == 1 && used > 0)
            mem_total = (uint64_t)n << 20;
        else if (sscanf(s, " sm=%d%n", &n, &used) == 1 && used > 0)
            sm = n;
        else if (sscanf(s, " driver=%d%n", &n, &used) == 1 && used > 0)
            driver = n;
        else if (sscanf(s, " seed=%d%n", &n, &used) == 1 && used > 0)
            shim_seed((uint64_t)n);
        else if (sscanf(s, " fail=%63[A-Za-z0-9_]:%d:%d%n", name, &n, &code,
                        &used) == 3 && used > 0)
            shim_fail_in(name, n, code);
        else
            stop("CAG_SHIM is not understood");
    }
}

static void tell_counts(void)
{
    const char *path = getenv("CAG_SHIM_COUNTS");
    FILE *f = path ? fopen(path, "w") : nullptr;

    if (!f)
        return;
    fprintf(f, "allocs %llu\nfrees %llu\nsyncs %llu\nlaunches %llu\n"
            "graphs %llu\nreplays %llu\nbytes_back %llu\nlive %d\n",
            (unsigned long long)counts.allocs,
            (unsigned long long)counts.frees,
            (unsigned long long)counts.syncs,
            (unsigned long long)counts.launches,
            (unsigned long long)counts.graphs,
            (unsigned long long)counts.replays,
            (unsigned long long)counts.bytes_back, shim_live());
    fclose(f);
}

static struct at_load {
    at_load() { from_environment(); }
    ~at_load() { tell_counts(); }
} at_load_;

/* ----------------------------------------------------------------- devices */

const char *cudaGetErrorName(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
        return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorInvalidResourceHandle:
        return "cudaErrorInvalidResourceHandle";
    case cudaErrorStreamCaptureInvalidated:
        return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined:
        return "cudaErrorStreamCaptureUnjoined";
    default: return "cudaErrorUnknown";
    }
}

cudaError_t cudaGetLastError(void)
{
    int e = last_error;

    last_error = 0;
    return (cudaError_t)e;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
    ENTER();
    *v = runtime;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *v)
{
    ENTER();
    *v = driver;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    ENTER();
    *n = 0;
    if (driver != 0 && driver < runtime)
        return error(cudaErrorInsufficientDriver);
    if (n_dev == 0 || driver == 0)
        return error(driver == 0 ? cudaErrorInsufficientDriver
                                 : cudaErrorNoDevice);
    *n = n_dev;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int i)
{
    ENTER();
    if (i < 0 || i >= n_dev)
        return error(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "host shim %d", i);
    p->major = sm / 10;
    p->minor = sm % 10;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = mem_total;
    p->sharedMemPerBlockOptin = SMEM_MOST;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int i)
{
    ENTER();
    if (i < 0 || i >= n_dev)
        return error(cudaErrorInvalidDevice);
    current = i;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    ENTER();
    NOT_IN_CAPTURE();
    drain([] {
        for (shim_stream *s : streams)
            if (s->dev == current && !s->q.empty())
                return false;
        return true;
    });
    return cudaSuccess;
}

/* ------------------------------------------------------------------ memory */

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    ENTER();
    *free_bytes = mem_total - mem_used[current];
    *total_bytes = mem_total;
    return cudaSuccess;
}

/* Of the exact size, so that ASan sees the byte after it. */
static void *fresh(std::map<uintptr_t, area> &in, size_t n)
{
    void *p = nullptr;

    if (posix_memalign(&p, 256, n) != 0)
        stop("out of memory");
    memset(p, 0xff, n);      /* NaN of every float type */
    in[(uintptr_t)p] = { n, current };
    return p;
}

cudaError_t cudaMalloc(void **p, size_t n)
{
    ENTER();
    NOT_IN_CAPTURE();
    if (paged(n) > mem_total - mem_used[current])
        return error(cudaErrorMemoryAllocation);
    *p = fresh(dev_mem, n);
    counts.allocs++;
    mem_used[current] += paged(n);
    if (mem_used[current] > mem_peak)
        mem_peak = mem_used[current];
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    LOCK();
    auto it = dev_mem.find((uintptr_t)p);

    if (it == dev_mem.end())
        stop("cudaFree of what cudaMalloc did not give");
    NOT_IN_CAPTURE();
    cudaDeviceSynchronize();
    counts.frees++;
    mem_used[it->second.dev] -= paged(it->second.size);
    dev_mem.erase(it);
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned)
{
    ENTER();
    NOT_IN_CAPTURE();
    *p = fresh(host_mem, n);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    LOCK();
    auto it = host_mem.find((uintptr_t)p);

    if (it == host_mem.end())
        stop("cudaFreeHost of what cudaHostAlloc did not give");
    NOT_IN_CAPTURE();
    cudaDeviceSynchronize();
    host_mem.erase(it);
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            cudaMemcpyKind kind, cudaStream_t s)
{
    return cudaMemcpy2DAsync(dst, n, src, n, n, 1, kind, s);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dp, const void *src,
                              size_t sp, size_t width, size_t n_row,
                              cudaMemcpyKind kind, cudaStream_t s)
{
    ENTER();
    if (width > dp || width > sp)
        return error(cudaErrorInvalidValue);
    if (kind != cudaMemcpyDeviceToHost)
        check_range("a copy to what is not device memory", dev_mem, dst,
                    (n_row - 1) * dp + width, s->dev);
    if (kind != cudaMemcpyHostToDevice)
        check_range("a copy from what is not device memory", dev_mem, src,
                    (n_row - 1) * sp + width, s->dev);
    if (kind == cudaMemcpyDeviceToHost && !s->graph)
        counts.bytes_back += n_row * width;
    queue(s, [=] {
        if (kind == cudaMemcpyDeviceToHost && in_graph)
            counts.bytes_back += n_row * width;
        for (size_t i = 0; i < n_row; i++)
            memcpy((uint8_t *)dst + i * dp, (const uint8_t *)src + i * sp,
                   width);
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t s)
{
    ENTER();
    check_range("a memset of what is not device memory", dev_mem, p, n,
                s->dev);
    queue(s, [=] { memset(p, byte, n); });
    return cudaSuccess;
}

/* --------------------------------------------------------- streams, events */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    ENTER();
    *s = new shim_stream;
    (*s)->dev = current;
    streams.insert(*s);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    LOCK();
    drain([=] { return s->q.empty(); });
    streams.erase(s);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    ENTER();
    if (s->graph)
        NOT_IN_CAPTURE();
    counts.syncs++;
    drain([=] { return s->q.empty(); });
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    ENTER();
    if (e->graph && e->graph != s->graph) {     /* s joins the capture */
        s->graph = e->graph;
        s->graph->streams.insert(s);
        s->last.clear();
    }
    if (s->graph) {
        if (e->graph != s->graph)
            return error(cudaErrorStreamCaptureUnsupported);
        s->last.push_back(e->node);
        return cudaSuccess;
    }
    s->q.push_back({ OP_WAIT, nullptr, e, e->recorded });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    ENTER();
    *e = new shim_event;
    (*e)->dev = current;
    events.insert(*e);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    LOCK();
    cudaDeviceSynchronize();        /* nothing queued names it any more */
    events.erase(e);
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    ENTER();
    if (e->dev != s->dev)
        return error(cudaErrorInvalidResourceHandle);
    if (s->graph) {
        e->graph = s->graph;
        e->node = add_node(s, [] {});
        return cudaSuccess;
    }
    e->graph = nullptr;
    s->q.push_back({ OP_RECORD, nullptr, e, ++e->recorded });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    ENTER();
    NOT_IN_CAPTURE();
    drain([=] { return e->done >= e->recorded; });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    ENTER();
    NOT_IN_CAPTURE();
    if (shim_random() % 2)
        step();
    return e->done >= e->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    ENTER();
    if (a->done < a->recorded || b->done < b->recorded)
        return error(cudaErrorNotReady);
    *ms = b->ms - a->ms;
    return cudaSuccess;
}

/* ------------------------------------------------------------------ graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    ENTER();
    s->graph = new shim_graph;
    graphs.insert(s->graph);
    s->graph->streams.insert(s);
    s->last.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    LOCK();
    shim_graph *g = s->graph;
    bool joined = true;

    if (!g)
        return error(cudaErrorInvalidValue);
    std::vector<bool> followed(g->nodes.size(), false);
    for (const node &n : g->nodes)
        for (int a : n.after)
            followed[(size_t)a] = true;
    for (int a : s->last)
        followed[(size_t)a] = true;
    for (bool f : followed)
        joined = joined && f;
    for (shim_stream *t : g->streams)
        t->graph = nullptr;
    for (shim_event *e : events)
        if (e->graph == g)
            e->graph = nullptr;
    cudaError_t e = enter(__func__);
    if (e == cudaSuccess && g->invalid)
        e = error(cudaErrorStreamCaptureInvalidated);
    if (e == cudaSuccess && !joined)
        e = error(cudaErrorStreamCaptureUnjoined);
    if (e != cudaSuccess) {
        cudaGraphDestroy(g);
        return e;
    }
    *out = g;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g,
                                 unsigned long long)
{
    ENTER();
    *e = new shim_graph(*g);
    graphs.insert(*e);
    counts.graphs++;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    LOCK();
    graphs.erase(g);
    delete g;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    LOCK();
    cudaDeviceSynchronize();
    return cudaGraphDestroy(e);
}

static void run_graph(const shim_graph *g)
{
    std::vector<char> done(g->nodes.size(), 0);

    for (size_t left = g->nodes.size(); left > 0; left--) {
        std::vector<size_t> can;
        for (size_t i = 0; i < g->nodes.size(); i++) {
            bool ok = !done[i];
            for (int a : g->nodes[i].after)
                ok = ok && done[(size_t)a];
            if (ok)
                can.push_back(i);
        }
        size_t i = can[shim_random() % can.size()];
        g->nodes[i].fn();
        done[i] = 1;
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{
    ENTER();
    if (s->dev != current)
        return error(cudaErrorInvalidResourceHandle);
    counts.replays++;
    queue(s, [=] {
        in_graph = true;
        run_graph(e);
        in_graph = false;
    });
    return cudaSuccess;
}

/* ----------------------------------------------------------------- kernels */

static size_t smem_allowed(const void *fn)
{
    auto it = smem_of.find({ current, fn });

    return it == smem_of.end() ? SMEM_PLAIN : it->second;
}

void shim_launch(shim_kernel k, dim3 grid, dim3 block, size_t smem,
                 cudaStream_t s, std::function<void()> body)
{
    LOCK();
    if (enter(k.name) != cudaSuccess)
        return;
    counts.launches++;
    if (s->dev != current) {
        error(cudaErrorInvalidResourceHandle);
        return;
    }
    if (grid.x == 0 || grid.y == 0 || grid.y > 65535 || grid.z > 65535 ||
        block.x * block.y * block.z > 1024 || block.x == 0 ||
        smem > smem_allowed(k.fn)) {
        error(cudaErrorInvalidValue);
        return;
    }
    queue(s, [=] { shim_run_kernel(k.name, grid, block, smem, body); });
}

/* Of 100 KiB a multiprocessor, a KiB of each block the system's. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n,
                                                          const void *fn, int,
                                                          size_t smem)
{
    ENTER();
    if (smem > smem_allowed(fn))
        return error(cudaErrorInvalidValue);
    *n = (int)((SMEM_MOST + 1024) / (smem + 1024));
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *fn, cudaFuncAttribute, int v)
{
    ENTER();
    if (v < 0 || (size_t)v > SMEM_MOST)
        return error(cudaErrorInvalidValue);
    smem_of[{ current, fn }] = (size_t)v > SMEM_PLAIN ? (size_t)v : SMEM_PLAIN;
    return cudaSuccess;
}

/* ------------------------------------------------------------------ cuBLAS */

const char *cublasGetStatusName(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                      : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasCreate(cublasHandle_t *h)
{
    LOCK();
    if (enter(__func__) != cudaSuccess) {
        last_error = 0;
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *h = new shim_blas;
    (*h)->dev = current;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t h)
{
    delete h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s)
{
    h->s = s;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *p, size_t n)
{
    check_range("a workspace that is not device memory", dev_mem, p, n,
                current);
    return CUBLAS_STATUS_SUCCESS;
}

static double operand(const void *p, cudaDataType_t t, size_t i)
{
    if (t == CUDA_R_32F)
        return (double)((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return (double)(t == CUDA_R_16F ? f16_to_f32(h) : bf16_to_f32(h));
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta,
                            cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *a,
                            cudaDataType_t at, int lda, const void *b,
                            cudaDataType_t bt, int ldb, const void *beta,
                            void *c, cudaDataType_t ct, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t)
{
    LOCK();
    float al = *(const float *)alpha, be = *(const float *)beta;

    if (enter(__func__) != cudaSuccess) {
        last_error = 0;
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (h->dev != current || h->s->dev != current)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (at != bt || ct != CUDA_R_32F || ta != CUBLAS_OP_T ||
        tb != CUBLAS_OP_N || lda < k || ldb < k || ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    queue(h->s, [=] {
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                double sum = 0;
                float *y = (float *)c + (size_t)j * (size_t)ldc + i;
                for (int p = 0; p < k; p++)
                    sum += operand(a, at, (size_t)i * (size_t)lda +
                                              (size_t)p) *
                           operand(b, bt, (size_t)j * (size_t)ldb +
                                              (size_t)p);
                *y = (float)((double)al * sum) +
                     (be != 0 ? be * *y : 0.0f);
            }
    });
    return CUBLAS_STATUS_SUCCESS;
}
