/*
 * engine_rate.c - see engine_rate.h.
 *
 * The probe is the matrix product of prompts at a size whose weights stay in
 * the caches, on all threads: what a prefill of a small model reaches.
 */
#include "engine/engine_rate.h"

#include <string.h>

#include "kernels/kernels.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/pool.h"

enum { PROBE_TOK = 128, PROBE_IN = 512, PROBE_OUT = 1024 };

struct probe {
    const struct kernels *k;
    struct kmat w;
    float *x, *xp, *y, *scratch;
};

static void probe_rows(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct probe *p = ctx;

    p->k->gemm(p->y, PROBE_OUT, p->xp, PROBE_TOK, &p->w, (int)begin, (int)end,
               p->scratch + (size_t)thread * GEMM_SCRATCH);
}

/* The mean over enough time: what other programs take now counts. */
static double mean_pass(struct probe *p, struct pool *pool)
{
    double start, taken = 0;
    int n = 0;

    pool_run(pool, probe_rows, p, PROBE_OUT, 2 * GEMM_ROW_GRID);
    for (start = clock_s(); n < 3 || taken < 0.03; n++) {
        pool_run(pool, probe_rows, p, PROBE_OUT, 2 * GEMM_ROW_GRID);
        taken = clock_s() - start;
    }
    return taken > 1e-6 ? taken / n : 1e-6;
}

cag_status engine_rate(int n_thread, double *per_s, cag_error *err)
{
    const char *why = NULL;
    struct probe p = { .k = kernels_get(&why) };
    struct pool *pool = NULL;
    size_t n_w = (size_t)PROBE_OUT * PROBE_IN * sizeof(float), n_xp;
    uint8_t *w = NULL;
    cag_status st;

    if (!p.k)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1, "%s", why);
    n_xp = p.k->gemm_pack_size(PROBE_TOK, PROBE_IN) * sizeof(float);
    st = pool_new(&pool, n_thread, err);
    if (st)
        return st;
    w = mem_alloc_aligned(64, n_w);
    p.x = mem_zalloc((size_t)PROBE_TOK * PROBE_IN * sizeof(float));
    p.xp = mem_alloc_aligned(64, n_xp);
    p.y = mem_alloc_aligned(64, (size_t)PROBE_TOK * PROBE_OUT * sizeof(float));
    p.scratch = mem_alloc_aligned(64, (size_t)pool_size(pool) * GEMM_SCRATCH *
                                          sizeof(float));
    if (!w || !p.x || !p.xp || !p.y || !p.scratch) {
        st = cag_fail_nomem(err, "estimate");
        goto out;
    }
    memset(w, 0, n_w);
    p.w = (struct kmat){ KT_F32, PROBE_OUT, PROBE_IN, PROBE_IN * sizeof(float),
                         w,      0 };
    p.k->gemm_pack(p.xp, p.x, PROBE_IN, PROBE_TOK, PROBE_IN, 0, PROBE_TOK);
    *per_s = (double)PROBE_TOK * PROBE_IN * PROBE_OUT / mean_pass(&p, pool);
out:
    mem_free(w);
    mem_free(p.x);
    mem_free(p.xp);
    mem_free(p.y);
    mem_free(p.scratch);
    pool_free(pool);
    return st;
}
