/*
 * test_cuda_streams.cc - the shim finds what it is there to find: a missing
 * wait, a missing barrier, lanes that part, a thread that did not choose its
 * device, what a device would refuse; and the device layer's streams,
 * graphs and errors behave as kernels_cuda.h says.
 */
#include "tests/cuda/cuda_shim.h"

#include "kernels/cuda/cuda.cuh"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/cuda_test.h"

#define SEEDS 40

__global__ static void double_kernel(float *y, const float *x)
{
    y[blockIdx.x * blockDim.x + threadIdx.x] =
        2 * x[blockIdx.x * blockDim.x + threadIdx.x];
}

/* Each thread reads what its neighbour wrote. */
__global__ static void neighbour_kernel(float *y, int with_barrier)
{
    CUK_SMEM(smem);
    float *s = (float *)smem;
    const unsigned i = threadIdx.x;

    s[i] = (float)i;
    if (with_barrier)
        __syncthreads();
    y[i] = s[(i + 1) % blockDim.x];
}

/* A copy is used before, or after, it was waited for. */
__global__ static void copy_kernel(float *y, const float *x, int with_wait)
{
    CUK_SMEM(smem);

    copy_async16(smem + 16 * threadIdx.x, x + 4 * threadIdx.x);
    copy_commit();
    if (with_wait)
        copy_wait<0>();
    y[threadIdx.x] = ((float *)smem)[4 * threadIdx.x];
}

__global__ static void parted_kernel(float *y, int how)
{
    float v = (float)threadIdx.x;

    if (how == 0) {
        if (threadIdx.x < 16)                   /* half a warp shuffles */
            v = __shfl_xor_sync(WARP_ALL, v, 1);
    } else if (how == 1) {
        if (threadIdx.x < 32)                   /* half a block waits */
            __syncthreads();
    } else if (threadIdx.x % 2) {               /* at different places */
        v = __shfl_xor_sync(WARP_ALL, v, 1);
    } else {
        v = __shfl_xor_sync(WARP_ALL, v, 1);
    }
    y[threadIdx.x] = v;
}

#ifdef __SANITIZE_ADDRESS__
/* One thread goes past the end of a block's 1 KiB or of x's 16 bytes; 0: none
 * does. */
__global__ static void past_kernel(float *y, const float *x, int how)
{
    CUK_SMEM(smem);
    const unsigned i = threadIdx.x;
    uint32_t r[4];

    if (how == 1 && i == 63)
        smem[1024] = 1;
    if (how == 2 && i == 63)
        y[64] = 1;
    if (how < 5 && i == 7) {
        copy_async16(smem + (how == 3 ? 1024 : 0), x + (how == 4 ? 4 : 0));
        copy_commit();
        copy_wait<0>();
    }
    __syncthreads();
    ldmatrix4_trans(r, smem + (how == 5 && i == 31 ? 1024 : 0));
    y[i] = (float)(r[0] & 1);
}
#endif

/* ------------------------------------------------------------- what it finds */

/* Host -> device on one stream, a kernel on another, and back. */
static bool copied_in_time(uint64_t seed, bool wait)
{
    const int n = 64;
    std::vector<float> x = rnd_floats((size_t)n);
    dev_array<float> dx((size_t)n), dy((size_t)n);
    struct cuk_stream *copies;
    struct cuk_event *arrived;
    bool same = true;

    shim_seed(seed);
    cuk_stream_new(dev, &copies);
    cuk_event_new(dev, false, &arrived);
    cuk_copy(copies, CUK_TO_DEV, dx.p, x.data(), (size_t)n * 4);
    cuk_event_record(arrived, copies);
    if (wait)
        cuk_stream_wait(stream, arrived);
    CUK_LAUNCH((double_kernel), dim3(2), dim3(32), 0, stream->s, dy.p, dx.p);
    std::vector<float> y = dy.get();
    cuk_stream_sync(copies);
    for (size_t i = 0; i < (size_t)n; i++)
        same = same && y[i] == 2 * x[i];
    cuk_event_free(arrived);
    cuk_stream_free(copies);
    return same;
}

static void test_missing_wait(void)
{
    int found = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        CHECK(copied_in_time(seed, true), "seed %d with the wait", (int)seed);
        found += !copied_in_time(seed, false);
    }
    CHECK(found >= SEEDS / 8, "found with %d of %d seeds", found, SEEDS);
    CHECK(found < SEEDS, "no order lets it pass: not random");
}

/* A host buffer that is written again before its copy was waited for. */
static void test_reused_buffer(void)
{
    int found = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        dev_array<float> dx(1);
        float x = 1;
        shim_seed(seed);
        cuk_copy(stream, CUK_TO_DEV, dx.p, &x, 4);
        x = 2;
        found += dx.get()[0] != 1;
    }
    CHECK(found >= SEEDS / 2, "found with %d of %d seeds", found, SEEDS);
}

static void test_missing_barrier(void)
{
    int bad[2] = { 0, 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int with = 0; with < 2; with++) {
            dev_array<float> y(64);
            shim_seed(seed);
            CUK_LAUNCH((neighbour_kernel), dim3(1), dim3(64), 256, stream->s,
                       y.p, with);
            std::vector<float> got = y.get();
            bool same = true;
            for (int i = 0; i < 64; i++)
                same = same && got[(size_t)i] == (float)((i + 1) % 64);
            bad[with] += !same;
        }
    CHECK(bad[0] == SEEDS, "without: found with %d of %d seeds", bad[0],
          SEEDS);
    CHECK(bad[1] == 0, "with: wrong with %d seeds", bad[1]);
}

static void test_missing_copy_wait(void)
{
    std::vector<float> x = rnd_floats(128);
    int bad[2] = { 0, 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int with = 0; with < 2; with++) {
            dev_array<float> dx(x), y(32);
            shim_seed(seed);
            CUK_LAUNCH((copy_kernel), dim3(1), dim3(32), 512, stream->s, y.p,
                       dx.p, with);
            std::vector<float> got = y.get();
            bool same = true;
            for (size_t i = 0; i < 32; i++)
                same = same && got[i] == x[4 * i];
            bad[with] += !same;
        }
    CHECK(bad[0] == SEEDS && bad[1] == 0, "without %d, with %d of %d", bad[0],
          bad[1], SEEDS);
}

/* The wait status of a program that calls fn; 0: it ended well. */
static int ending(void (*fn)(int), int arg)
{
    int status = -1;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        fn(arg);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static bool aborts(void (*fn)(int), int arg)
{
    int status = ending(fn, arg);

    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void part(int how)
{
    dev_array<float> y(64);

    CUK_LAUNCH((parted_kernel), dim3(1), dim3(64), 0, stream->s, y.p, how);
    y.get();
}

static void foreign_copy(int to)
{
    static float host[4];

    cuk_copy(stream, to ? CUK_TO_DEV : CUK_FROM_DEV, host, host, 16);
}

static void test_aborts(void)
{
    CHECK(aborts(part, 0), "half a warp shuffles");
    CHECK(aborts(part, 1), "half a block waits");
    CHECK(aborts(part, 2), "lanes shuffle at different lines");
    CHECK(aborts(foreign_copy, 0), "a copy from host memory as a device's");
    CHECK(aborts(foreign_copy, 1), "a copy to host memory as a device's");
}

#ifdef __SANITIZE_ADDRESS__
static void past(int how)
{
    dev_array<float> y(64), x(4);

    CUK_LAUNCH((past_kernel), dim3(1), dim3(64), 1024, stream->s, y.p, x.p,
               how);
    y.get();
}

static void test_past(void)
{
    CHECK(ending(past, 0) == 0, "within all ends");
    CHECK(ending(past, 1) != 0, "written past shared memory");
    CHECK(ending(past, 2) != 0, "written past device memory");
    CHECK(ending(past, 3) != 0, "cp.async to past shared memory");
    CHECK(ending(past, 4) != 0, "cp.async from past device memory");
    CHECK(ending(past, 5) != 0, "ldmatrix past shared memory");
}
#endif

/* ---------------------------------------------------------- the device layer */

/* y = 2 x, and beside it on a second stream z = 2 w; joined; then y2 = 2 y. */
static void test_graph(void)
{
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        dev_array<float> x(32), y(32), z(32), y2(32);
        struct cuk_stream *side;
        struct cuk_event *fork_ev, *join_ev;
        struct cuk_graph *g;

        shim_seed(seed);
        cuk_stream_new(dev, &side);
        cuk_event_new(dev, false, &fork_ev);
        cuk_event_new(dev, false, &join_ev);
        CHECK(cuk_capture_begin(stream) == 0, "begin");
        CUK_LAUNCH((double_kernel), dim3(1), dim3(32), 0, stream->s, y.p, x.p);
        cuk_event_record(fork_ev, stream);
        cuk_stream_wait(side, fork_ev);
        CUK_LAUNCH((double_kernel), dim3(1), dim3(32), 0, side->s, z.p, y.p);
        CUK_LAUNCH((double_kernel), dim3(1), dim3(32), 0, stream->s, y2.p,
                   y.p);
        cuk_event_record(join_ev, side);
        cuk_stream_wait(stream, join_ev);
        CHECK(cuk_capture_end(stream, &g) == 0, "end: %s", cuk_error(dev)->name);
        for (int i = 1; i <= 3; i++) {
            x.put(std::vector<float>(32, (float)i));
            CHECK(cuk_graph_launch(g, stream) == 0, "launch");
            CHECK(y2.get()[31] == 4 * (float)i && z.get()[0] == 4 * (float)i,
                  "replay %d", i);
        }
        cuk_graph_free(g);

        /* the second stream is not joined */
        CHECK(cuk_capture_begin(stream) == 0, "begin");
        cuk_event_record(fork_ev, stream);
        cuk_stream_wait(side, fork_ev);
        CUK_LAUNCH((double_kernel), dim3(1), dim3(32), 0, side->s, z.p, y.p);
        CHECK(cuk_capture_end(stream, &g) != 0 && g == NULL, "not joined");
        CHECK(strcmp(cuk_error(dev)->call, "cudaStreamEndCapture") == 0, "%s",
              cuk_error(dev)->call);
        cuk_clear(dev);
        cuk_event_free(fork_ev);
        cuk_event_free(join_ev);
        cuk_stream_free(side);
    }
}

/* Another thread's current device is 0 until it says otherwise. */
static void *launch_on(void *arg)
{
    struct cuk_stream *s = (struct cuk_stream *)arg;
    void *p = NULL;
    int attached = 0, plain;

    plain = cuk_add_norm(s, NULL, NULL, NULL, NULL, KT_F32, NULL, 0, 1, 8);
    cuk_clear(s->d);
    if (cuk_attach(s->d) == 0 && cuk_alloc(s->d, &p, 64, NULL) == 0)
        attached = cuk_memset(s, p, 0, 64) == 0 &&
                   cuk_add_norm(s, (float *)p, NULL, NULL, NULL, KT_F32, NULL,
                                0, 1, 8) == 0 &&
                   cuk_stream_sync(s) == 0;
    cuk_free(s->d, p);
    return (void *)(intptr_t)(plain == cudaErrorInvalidResourceHandle &&
                              attached);
}

static void test_devices(void)
{
    struct cuk_dev *second;
    struct cuk_stream *s;
    struct cuk_err err = {};
    dev_array<float> x(8);
    pthread_t other;
    void *ok = NULL;

    shim_devices(2);
    CHECK(cuk_open(1, &second, &err) == 0 && cuk_stream_new(second, &s) == 0,
          "cuda:1");
    CHECK(pthread_create(&other, NULL, launch_on, s) == 0 &&
              pthread_join(other, &ok) == 0 && ok != NULL,
          "a thread has to attach");
    /* this thread's current device is the second */
    CHECK(cuk_memset(stream, x.p, 0, 32) == 0 &&
              cuk_add_norm(stream, x.p, NULL, NULL, NULL, KT_F32, NULL, 0, 1,
                           8) == cudaErrorInvalidResourceHandle,
          "a stream of another device");
    CHECK(cuk_attach(dev) == 0, "back");
    cuk_clear(dev);
    cuk_attach(second);
    cuk_stream_free(s);
    cuk_close(second);
    cuk_attach(dev);
    shim_devices(1);
}

__global__ static void plain_kernel(int n) { (void)n; }

static cudaError_t launch_with(size_t smem)
{
    CUK_LAUNCH((plain_kernel), dim3(1), dim3(32), smem, stream->s, 0);
    return cudaGetLastError();
}

static void test_limits(void)
{
    const size_t kib = 1024;
    uint64_t was, is, total;
    void *a, *b, *c;

    CHECK(launch_with(48 * kib) == cudaSuccess, "48 KiB");
    CHECK(launch_with(49 * kib) == cudaErrorInvalidValue, "49 KiB, not asked");
    CHECK(cudaFuncSetAttribute((const void *)plain_kernel,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               64 * 1024) == cudaSuccess &&
              launch_with(64 * kib) == cudaSuccess, "64 KiB, asked for");
    CHECK(launch_with(65 * kib) == cudaErrorInvalidValue, "more than asked");
    CHECK(cudaFuncSetAttribute((const void *)plain_kernel,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               100 * 1024) == cudaErrorInvalidValue,
          "more than a block can have");
    cudaGetLastError();
    cuk_stream_sync(stream);

    cuk_mem(dev, &was, &total);
    cuk_alloc(dev, &a, 1536 * kib, NULL);
    cuk_alloc(dev, &b, 2049 * kib, NULL);
    cuk_alloc(dev, &c, 4 * kib, NULL);
    cuk_mem(dev, &is, &total);
    CHECK(was - is == ((2 + 4) * 1024 + 4) * kib, "%llu KiB are taken",
          (unsigned long long)((was - is) / kib));
    cuk_free(dev, a);
    cuk_free(dev, b);
    cuk_free(dev, c);
}

/* What a device refuses in a capture spoils it. */
static void test_capture(void)
{
    struct cuk_event *e;
    void *spare, *p = NULL;
    bool done;

    cuk_event_new(dev, false, &e);
    cuk_event_record(e, stream);
    cuk_stream_sync(stream);
    cuk_alloc(dev, &spare, 64, NULL);
    for (int i = 0; i < 6; i++) {
        struct cuk_graph *g;
        CHECK(cuk_capture_begin(stream) == 0, "begin");
        int code = i == 0   ? cuk_alloc(dev, &p, 64, NULL)
                   : i == 1 ? cuk_event_done(e, &done)
                   : i == 2 ? cuk_event_sync(e)
                   : i == 3 ? cuk_host_alloc(dev, &p, 64, NULL)
                   : i == 4 ? cuk_stream_sync(stream)
                            : (cuk_free(dev, spare), cuk_error(dev)->code);
        CHECK(code == cudaErrorStreamCaptureUnsupported && p == NULL,
              "call %d gave %d", i, code);
        CHECK(cuk_capture_end(stream, &g) == cudaErrorStreamCaptureInvalidated
                  && g == NULL, "call %d left the capture whole", i);
        cuk_clear(dev);
    }
    cuk_free(dev, spare);
    cuk_event_free(e);
}

static void test_copies(void)
{
    std::vector<float> x = rnd_floats(60);
    dev_array<float> a(60), b(24);
    std::vector<float> got(24);
    struct cuk_event *from, *to;
    bool done = false;
    float ms = -1;

    cuk_event_new(dev, true, &from);
    cuk_event_new(dev, true, &to);
    cuk_event_record(from, stream);
    cuk_copy_2d(stream, CUK_TO_DEV, a.p, 40, x.data(), 40, 40, 6);
    cuk_copy_2d(stream, CUK_ON_DEV, b.p, 16, a.p + 3, 40, 16, 6);
    cuk_copy_2d(stream, CUK_FROM_DEV, got.data(), 16, b.p, 16, 16, 6);
    cuk_event_record(to, stream);
    for (int i = 0; i < 1000 && !done; i++)
        CHECK(cuk_event_done(to, &done) == 0, "done");
    CHECK(done, "never done");
    CHECK(cuk_event_ms(from, to, &ms) == 0 && ms > 0, "%g ms", (double)ms);
    for (size_t i = 0; i < 24; i++)
        CHECK(got[i] == x[i / 4 * 10 + 3 + i % 4], "element %zu", i);
    cuk_event_free(from);
    cuk_event_free(to);
}

static void test_errors(void)
{
    struct cuk_err err = {};
    struct cuk_info info;
    void *p;
    int n, driver, runtime;
    uint64_t free_bytes, total;

    CHECK(cuk_mem(dev, &free_bytes, &total) == 0 && free_bytes <= total, "mem");
    CHECK(cuk_alloc(dev, &p, total + 1, &err) != 0 && p == NULL &&
              strcmp(err.name, "cudaErrorMemoryAllocation") == 0 &&
              strcmp(err.call, "cudaMalloc") == 0 && !err.sticky,
          "too much memory");
    CHECK(cuk_error(dev)->code == 0, "a lack of memory is not kept");

    shim_fail(1, cudaErrorIllegalAddress);
    CHECK(cuk_sync(dev) == cudaErrorIllegalAddress, "failed sync");
    shim_fail(1, cudaErrorInvalidValue);
    CHECK(cuk_sync(dev) == cudaErrorInvalidValue, "another");
    CHECK(cuk_error(dev)->code == cudaErrorIllegalAddress &&
              cuk_error(dev)->sticky &&
              strcmp(cuk_error(dev)->call, "cudaDeviceSynchronize") == 0,
          "the first is kept");
    cuk_clear(dev);

    /* what a context does not survive, and what it does */
    for (int code : { 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717,
                      718, 719, 721, 806, 810, 999, 1, 400, 600, 805, 901 }) {
        shim_fail(1, code);
        CHECK(cuk_sync(dev) == code, "code %d", code);
        CHECK(cuk_error(dev)->sticky ==
                  (code > 200 && code != 400 && code != 600 && code != 805 &&
                   code != 901),
              "code %d", code);
        shim_fail(0, 0);
        cuk_clear(dev);
    }

    dev_array<float> x(64);
    shim_fail(1, cudaErrorLaunchFailure);
    CHECK(cuk_add_norm(stream, x.p, NULL, NULL, NULL, KT_F32, NULL, 0, 1, 8)
              == cudaErrorLaunchFailure, "failed launch");
    CHECK(strcmp(cuk_error(dev)->call, "add_norm_kernel") == 0, "%s",
          cuk_error(dev)->call);
    CHECK(cuk_sync(dev) == cudaErrorLaunchFailure, "lost for good");
    shim_fail(0, 0);
    cuk_clear(dev);

    CHECK(cuk_info(7, &info, &err) != 0 &&
              strcmp(err.name, "cudaErrorInvalidDevice") == 0, "device 7");
    CHECK(cuk_info(0, &info, &err) == 0 && info.sm == 89 && info.n_sm > 0,
          "sm %d", info.sm);
    shim_versions(12000, 13000);
    CHECK(cuk_count(&n, &driver, &runtime, &err) != 0 && n == 0 &&
              driver == 12000 && runtime == 13000 &&
              strcmp(err.name, "cudaErrorInsufficientDriver") == 0,
          "an old driver");
    shim_versions(13000, 13000);
    CHECK(cuk_count(&n, &driver, &runtime, &err) == 0 && n == 1, "%d", n);
}

int main(void)
{
    dev_open();
    tap("a missing wait is found", test_missing_wait);
    tap("a host buffer reused too early is found", test_reused_buffer);
    tap("a missing barrier is found", test_missing_barrier);
    tap("a missing wait for cp.async is found", test_missing_copy_wait);
    tap("parted lanes and foreign memory end the program", test_aborts);
#ifdef __SANITIZE_ADDRESS__
    tap("what a kernel touches past an end ends the program", test_past);
#endif
    tap("graphs replay with edges, and must be joined", test_graph);
    tap("a thread chooses its device", test_devices);
    tap("limits of shared memory, pages of device memory", test_limits);
    tap("calls that a capture does not take", test_capture);
    tap("copies of rows, events", test_copies);
    tap("errors: which call, kept, sticky", test_errors);
    dev_close();
    tap("nothing is left", [] { CHECK(shim_live() == 0, "%d", shim_live()); });
    return tap_end();
}
