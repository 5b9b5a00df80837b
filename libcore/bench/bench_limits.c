/*
 * bench_limits.c - probes of the machine, and the page cache.
 *
 * The read probe goes over 256 MiB, more than most caches hold and about
 * what a small model is; where the last-level cache is larger (some server
 * CPUs), its speed is what weights are read with too.  The best of several
 * passes counts: a limit is not an average.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/limits.h"
#include "bench/bench.h"
#include "util/clock.h"
#include "util/mem.h"

#define PROBE_WORDS (((size_t)256 << 20) / 8)
enum { PROBE_ROUNDS = 20000, PROBE_GRAIN_WORDS = 1 << 17 };

struct probe {
    const uint64_t *p;
    uint64_t sum[512]; /* [thread] */
    float fma[512];
    const struct kernels_limit *fast;
};

static void read_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct probe *p = ctx;

    p->sum[thread] +=
        kernels_read_run(p->p + begin * PROBE_GRAIN_WORDS,
                         (size_t)(end - begin) * PROBE_GRAIN_WORDS);
}

static void fma_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct probe *p = ctx;

    for (int64_t i = begin; i < end; i++)
        p->fma[thread] += kernels_fma_run(PROBE_ROUNDS);
}

static void fast_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct probe *p = ctx;

    for (int64_t i = begin; i < end; i++)
        p->fma[thread] += p->fast->run(PROBE_ROUNDS);
}

/* Multiplications of all threads, once; *best is the best so far. */
static void probe_flops(struct bench_job *j, struct probe *p, pool_fn *range,
                        double flop, double *best)
{
    int n_item = 64 * pool_size(j->pool);
    double t = clock_s(), s;

    pool_run(j->pool, range, p, n_item, 1);
    s = clock_s() - t;
    if (s > 0 && flop * PROBE_ROUNDS * n_item / s > *best)
        *best = flop * PROBE_ROUNDS * n_item / s;
}

cag_status bench_limits(struct bench_job *j, cag_error *err)
{
    struct probe *p = mem_zalloc(sizeof *p);
    uint64_t *data = mem_alloc_aligned(4096, PROBE_WORDS * 8);
    double start = clock_s();

    if (!p || !data) {
        mem_free(data);
        mem_free(p);
        return cag_fail_nomem(err, "read probe");
    }
    memset(data, 1, PROBE_WORDS * 8);
    p->p = data;
    p->fast = j->fast;
    for (int i = 0; i < 4 || clock_s() - start < 0.3; i++) {
        double t = clock_s(), s;

        pool_run(j->pool, read_range, p,
                 (int64_t)(PROBE_WORDS / PROBE_GRAIN_WORDS), 1);
        s = clock_s() - t;
        if (s > 0 && (double)PROBE_WORDS * 8 / s > j->read_bps)
            j->read_bps = (double)PROBE_WORDS * 8 / s;
        probe_flops(j, p, fma_range, kernels_fma_flop(), &j->fma_flops);
        if (j->fast)
            probe_flops(j, p, fast_range, j->fast->flop, &j->fast_flops);
    }
    mem_free(data);
    mem_free(p);
    return CAG_OK;
}

/* Pages of a file in memory, 0 to 1.  The kernel tells only who may write
 * the file; to others everything seems to be there. */
static double resident(int fd, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = (size + page - 1) / page, n_in = 0;
    unsigned char *in = mem_alloc(n);
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

    if (in && map != MAP_FAILED && mincore(map, size, in) == 0)
        for (size_t i = 0; i < n; i++)
            n_in += in[i] & 1;
    else
        n_in = n;
    if (map != MAP_FAILED)
        munmap(map, size);
    mem_free(in);
    return (double)n_in / (double)n;
}

double bench_evict(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat s;
    double left = 1;

    if (fd < 0)
        return 1;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
        (void)fdatasync(fd); /* pages not yet written stay */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        left = resident(fd, (size_t)s.st_size);
    }
    close(fd);
    return left;
}
