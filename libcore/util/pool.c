/*
 * pool.c - threads that run one function over a range.
 *
 * A job is opened and closed by one bit of `gate`, whose other bits count
 * the workers inside.  The caller need not wait for workers that never woke
 * up: it works off what is left, closes the gate, and waits until those
 * inside have left.  A late worker finds the gate closed and goes back to
 * waiting.  The fields of a job are written only while the gate is closed
 * and nobody is inside, and read only from inside.
 *
 * Waiting, on both sides, is a spin of some 50 us (a decode step is a
 * sequence of jobs only microseconds apart), then a sleep.  "Store mine,
 * then look at yours" on both sides, sequentially consistent, makes sure
 * that a sleeper is seen or does not sleep.
 *
 * A worker that loses its CPU to another program in the middle of a range
 * keeps the caller waiting for a time slice or several, milliseconds after
 * a job of microseconds.  So the caller keeps an account: what the workers
 * saved it on one side, what it waited for them on the other.  When they cost
 * more than they bring, it works alone for a while, twice as long each time
 * that happens again: on a machine whose CPUs are taken, a decode step then
 * costs what it costs one thread, not a time slice at each of its 150
 * meetings.  (A single late worker says nothing: a virtual CPU stops for some
 * 200 us many times a second on an idle machine.)
 */
#include "util/pool.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/clock.h"
#include "util/mem.h"

#define POOL_MAX     512
#define SPIN_NS      50000
#define CALL_NS      20000    /* waking workers who then do not come */
#define LOSS_NS      5000000  /* lost that much: work alone */
#define GAIN_NS      10000000 /* earlier gains count up to here */
#define WATCH_NS     50000000
#define ALONE_MIN_NS 25000000
#define ALONE_MAX_NS 1600000000
#define CLOSED       (1u << 31)

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    int n_thread;

    pool_fn *fn; /* the job; see gate */
    void *ctx;
    int64_t n, grain;

    /* the caller's own: the workers' account, and until when it goes alone */
    int64_t balance_ns, alone_until_ns, alone_ns;
    bool (*go_on)(void *ctx);
    void *go_on_ctx;
    int64_t asked_ns;
    bool cancelled;

    _Alignas(64) _Atomic int64_t next;
    _Alignas(64) atomic_uint gate;
    _Alignas(64) atomic_uint epoch; /* counts jobs and the end */
    atomic_int n_asleep;
    atomic_bool caller_asleep, stop;
    pthread_mutex_t lock;
    pthread_cond_t job_there, all_out;
    struct worker workers[];
};

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin until *word differs from while_it_is; false when the time is up. */
static bool spin(atomic_uint *word, unsigned while_it_is)
{
    int64_t start = clock_ns();

    do {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != while_it_is)
                return true;
            cpu_pause();
        }
    } while (clock_ns() - start < SPIN_NS);
    return false;
}

/* The caller between two ranges: shall it go on? */
static bool may_go_on(struct pool *p)
{
    if (!p->cancelled && p->go_on && clock_ns() - p->asked_ns > WATCH_NS) {
        p->cancelled = !p->go_on(p->go_on_ctx);
        p->asked_ns = clock_ns();
    }
    return !p->cancelled;
}

/* Items done here. */
static int64_t work(struct pool *p, int index)
{
    int64_t begin, n = p->n, grain = p->grain, done = 0;

    while ((begin = atomic_fetch_add_explicit(&p->next, grain,
                                              memory_order_relaxed)) < n) {
        int64_t end = grain < n - begin ? begin + grain : n;
        p->fn(p->ctx, index, begin, end);
        done += end - begin;
        if (index == 0 && !may_go_on(p))
            atomic_store(&p->next, n);
    }
    return done;
}

/* Leave the gate; the last one out wakes a caller that sleeps there. */
static void leave(struct pool *p)
{
    if (atomic_fetch_sub(&p->gate, 1) != (CLOSED | 1))
        return;
    if (atomic_load(&p->caller_asleep)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->all_out);
        pthread_mutex_unlock(&p->lock);
    }
}

static unsigned wait_epoch(struct pool *p, unsigned seen)
{
    if (!spin(&p->epoch, seen)) {
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add(&p->n_asleep, 1);
        while (atomic_load(&p->epoch) == seen)
            pthread_cond_wait(&p->job_there, &p->lock);
        atomic_fetch_sub(&p->n_asleep, 1);
        pthread_mutex_unlock(&p->lock);
    }
    return atomic_load(&p->epoch);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    unsigned seen = 0;

    for (;;) {
        seen = wait_epoch(p, seen);
        if (atomic_load(&p->stop))
            return NULL;
        if (!(atomic_fetch_add(&p->gate, 1) & CLOSED))
            work(p, w->index);
        leave(p);
    }
}

static void next_epoch(struct pool *p)
{
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->n_asleep) > 0) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->job_there);
        pthread_mutex_unlock(&p->lock);
    }
}

static void wait_all_out(struct pool *p)
{
    unsigned in = atomic_load(&p->gate);
    int64_t start = clock_ns();

    while (in != CLOSED) {
        if (!spin(&p->gate, in) || clock_ns() - start > SPIN_NS)
            break;
        in = atomic_load(&p->gate);
    }
    if (atomic_load(&p->gate) == CLOSED)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_asleep, true);
    while (atomic_load(&p->gate) != CLOSED)
        pthread_cond_wait(&p->all_out, &p->lock);
    atomic_store(&p->caller_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

/*
 * The caller did mine of n items from begin to done, then waited.  At its pace
 * the others' items would have taken it saved ns.  When jobs go well for as
 * long as the last time alone, half of it is forgiven.
 */
static void judge(struct pool *p, int64_t begin, int64_t done, int64_t mine,
                  int64_t n)
{
    int64_t now = clock_ns(), waited = now - done;
    double pace = mine > 0 ? (double)(done - begin) / (double)mine : 0;
    int64_t saved = (int64_t)(pace * (double)(n - mine));

    p->balance_ns += saved - waited - (mine == n ? CALL_NS : 0);
    if (p->balance_ns > GAIN_NS)
        p->balance_ns = GAIN_NS;
    if (p->balance_ns < -LOSS_NS) {
        p->balance_ns = 0;
        p->alone_ns = p->alone_ns < ALONE_MIN_NS / 2   ? ALONE_MIN_NS
                      : p->alone_ns > ALONE_MAX_NS / 2 ? ALONE_MAX_NS
                                                       : 2 * p->alone_ns;
        p->alone_until_ns = now + p->alone_ns;
    } else if (p->alone_ns && now - p->alone_until_ns > p->alone_ns) {
        p->alone_ns /= 2;
        p->alone_until_ns = now;
    }
}

static void run_alone(struct pool *p, pool_fn *fn, void *ctx, int64_t n,
                      int64_t grain)
{
    for (int64_t i = 0; i < n && may_go_on(p); i += grain)
        fn(ctx, 0, i, grain < n - i ? i + grain : n);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t n, int64_t grain)
{
    int64_t begin, done;

    if (n <= 0 || p->cancelled)
        return;
    if (grain < 1)
        grain = 1;
    if (grain > n)
        grain = n;
    begin = p->n_thread > 1 && n > grain ? clock_ns() : 0;
    if (p->n_thread == 1 || n == grain || begin < p->alone_until_ns) {
        run_alone(p, fn, ctx, n, grain);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->n = n;
    p->grain = grain;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_fetch_and(&p->gate, ~CLOSED);
    next_epoch(p);
    int64_t mine = work(p, 0);
    atomic_fetch_or(&p->gate, CLOSED);
    done = clock_ns();
    wait_all_out(p);
    judge(p, begin, done, mine, n);
}

void pool_watch(struct pool *p, bool (*go_on)(void *ctx), void *ctx)
{
    p->go_on = go_on;
    p->go_on_ctx = ctx;
    p->asked_ns = clock_ns();
    p->cancelled = false;
}

bool pool_cancelled(const struct pool *p)
{
    return p->cancelled;
}

int pool_size(const struct pool *p)
{
    return p->n_thread;
}

/* Signals go to the program's own threads; faults stay where they happen. */
static void mask_signals(sigset_t *old)
{
    sigset_t set;

    sigfillset(&set);
    sigdelset(&set, SIGBUS);
    sigdelset(&set, SIGSEGV);
    sigdelset(&set, SIGFPE);
    sigdelset(&set, SIGILL);
    sigdelset(&set, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &set, old);
}

cag_status pool_new(struct pool **out, int n_thread, cag_error *err)
{
    struct pool *p;
    sigset_t old;
    int i, sys = 0;

    if (n_thread == 0)
        n_thread = pool_default_size();
    if (n_thread < 1 || n_thread > POOL_MAX)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%d threads asked for, expected 1..%d", n_thread,
                        POOL_MAX);
    size_t size = sizeof *p + (size_t)n_thread * sizeof p->workers[0];
    p = mem_alloc_aligned(64, size);
    if (!p)
        return cag_fail_nomem(err, "threads");
    memset(p, 0, size);
    atomic_store(&p->gate, CLOSED);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->job_there, NULL);
    pthread_cond_init(&p->all_out, NULL);
    mask_signals(&old);
    for (i = 1; i < n_thread && !sys; i++) {
        p->workers[i] = (struct worker){ .pool = p, .index = i };
        sys = pthread_create(&p->workers[i].thread, NULL, worker_main,
                             &p->workers[i]);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    p->n_thread = sys ? i - 1 : n_thread;
    if (sys) {
        pool_free(p);
        /* EAGAIN, too, is the system's resources, nothing of the input's */
        return cag_fail_sys(err, CAG_E_NOMEM, sys, NULL,
                            "cannot start thread %d of %d", i - 1, n_thread);
    }
    *out = p;
    return CAG_OK;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    next_epoch(p);
    for (int i = 1; i < p->n_thread; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->all_out);
    pthread_cond_destroy(&p->job_there);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

/* --- how many CPUs ------------------------------------------------------- */

static int affinity(void)
{
    int n = 1024;

    for (;;) {
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        size_t size = CPU_ALLOC_SIZE((size_t)n);
        if (!set)
            return 1;
        CPU_ZERO_S(size, set);
        int r = sched_getaffinity(0, size, set);
        int count = r == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
        if (r == 0 || errno != EINVAL || n > 1 << 20)
            return 1;
        n *= 2; /* the machine's mask is longer */
    }
}

/* CPUs that "quota period" or "max period" allows, rounded up; 0 no limit */
static int read_cpu_max(const char *path)
{
    struct buf b = BUF_INIT;
    long long quota, period;
    int n = 0;

    if (file_read(path, 4096, &b, NULL) == CAG_OK && b.size > 0 &&
        sscanf(b.data, "%lld %lld", &quota, &period) == 2 && quota > 0 &&
        period > 0) {
        long long cpus = quota / period + (quota % period != 0);
        n = cpus > POOL_MAX ? POOL_MAX : (int)cpus;
    }
    buf_free(&b);
    return n;
}

/* The tightest cpu.max from our cgroup (version 2) up to the root. */
static int cgroup_limit(void)
{
    struct buf group = BUF_INIT, path = BUF_INIT;
    int limit = 0;

    if (file_read("/proc/self/cgroup", 65536, &group, NULL) != CAG_OK ||
        group.size == 0)
        goto out;
    char *line = strncmp(group.data, "0::", 3) == 0
                     ? group.data
                     : strstr(group.data, "\n0::");
    if (!line)
        goto out;
    line = strchr(line, '/');
    if (!line)
        goto out;
    line[strcspn(line, "\n")] = 0;
    for (;;) {
        size_t n = strlen(line);
        while (n > 0 && line[n - 1] == '/')
            line[--n] = 0;
        buf_clear(&path);
        buf_printf(&path, "/sys/fs/cgroup%s/cpu.max", line);
        if (buf_failed(&path))
            break;
        int here = read_cpu_max(path.data);
        if (here > 0 && (limit == 0 || here < limit))
            limit = here;
        if (n == 0)
            break;
        char *slash = strrchr(line, '/');
        if (!slash)
            break;
        *slash = 0;
    }
out:
    buf_free(&path);
    buf_free(&group);
    return limit;
}

int pool_default_size(void)
{
    int n = affinity(), limit = cgroup_limit();

    if (limit > 0 && limit < n)
        n = limit;
    return n > POOL_MAX ? POOL_MAX : n;
}
