/*
 * cuda_model.h - what the tests of whole models on the host shim share: an
 * engine on the shim's device, the comparison with the CPU, a cache between
 * the two.
 *
 * The stated tolerance: over the logits after prompts and along greedy steps,
 * the cosine has a median of at least 0.9999 and a minimum of at least 0.999,
 * and the first choice is the CPU's wherever its margin is above 0.5.  The
 * shim runs what is queued in random legal orders and copies late, so a
 * missing wait shows up here under some seed.  Include first.
 */
#ifndef CUDA_MODEL_H
#define CUDA_MODEL_H

#include "tests/lib/kvc_fixture.h"

#include <math.h>

#include "tests/lib/mtest.h"

#include "engine/cuda/cuda.h"
#include "engine/engine.h"
#include "tests/cuda/shim_control.h"

/* The plugin is part of this program. */
extern const struct cuda_plugin *cag_cuda_plugin(void);

#define MAX_POINT 4096

static struct {
    double cosine[MAX_POINT];
    int n;
    int n_choice; /* compared first choices */
} seen;

/* Of the engines made from here on; see backend.h. */
static int gpu_layers;
static int ordinal; /* of the device */

/* An engine on the shim's device; backend_load would look for a file. */
static inline cag_engine *cuda_engine(const cag_model *m, int chunk,
                                      cag_precision precision)
{
    cag_engine *e = NULL;
    struct backend_opts bo = { .pass_rows = chunk,
                               .precision = precision,
                               .gpu_layers = gpu_layers };
    struct backend *b = NULL;

    OK(pool_new(&bo.pool, 2, err));
    OK(cag_cuda_plugin()->open(ordinal, m, &bo, &b, err));
    if (b->layer0 > 0)
        OK(split_new(m, &bo, b, &b, err));
    OK(engine_with_backend(m, bo.pool, b, &e, err));
    return e;
}

static inline int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline void see(const float *cpu, const float *gpu, int n,
                       const char *what)
{
    double ab = 0, aa = 0, bb = 0;
    int32_t best = mt_argmax(cpu, n);
    float second = -INFINITY;

    for (int i = 0; i < n; i++) {
        ab += (double)cpu[i] * (double)gpu[i];
        aa += (double)cpu[i] * (double)cpu[i];
        bb += (double)gpu[i] * (double)gpu[i];
        if (i != best && cpu[i] > second)
            second = cpu[i];
    }
    double cosine = ab / sqrt(aa * bb);
    if (!(cosine >= 0.999))
        fail_msg("%s: cosine %.7f", what, cosine);
    if (cpu[best] - second > 0.5f) {
        seen.n_choice++;
        if (mt_argmax(gpu, n) != best)
            fail_msg("%s: first choice %d, the CPU's is %d by %.3f", what,
                     mt_argmax(gpu, n), best, (double)(cpu[best] - second));
    }
    assert_true(seen.n < MAX_POINT);
    seen.cosine[seen.n++] = cosine;
}

static inline void check_median(void)
{
    qsort(seen.cosine, (size_t)seen.n, sizeof *seen.cosine, compare_double);
    print_message("# %d logits, %d first choices: cosine median %.7f, "
                  "least %.7f\n",
                  seen.n, seen.n_choice, seen.cosine[seen.n / 2],
                  seen.cosine[0]);
    assert_true(seen.n > 0);
    assert_true(seen.cosine[seen.n / 2] >= 0.9999);
    memset(&seen, 0, sizeof seen);
}

/* Prompts of several lengths and a few forced steps on both. */
static inline void compare_model(const char *name, cag_precision precision)
{
    static const int length[] = { 2, 66 };
    cag_model *m = mt_model(name);
    cag_engine *cpu = mt_engine(m, 2, 64, precision, false);
    cag_engine *gpu = cuda_engine(m, 40, precision);
    int n_vocab = mt_vocab(m);
    int32_t ids[160];

    mt_ids(ids, 160, 5, n_vocab);
    for (size_t i = 0; i < sizeof length / sizeof length[0]; i++) {
        cag_session *a = mt_session(cpu, NULL, 160);
        cag_session *b = mt_session(gpu, NULL, 160);
        const float *x, *y;
        int n = length[i];

        OK(cag_session_prefill(a, ids, n, &x, err));
        OK(cag_session_prefill(b, ids, n, &y, err));
        see(x, y, n_vocab, name);
        for (int k = 0; k < 2; k++) {
            OK(cag_session_step(&a, &ids[n + k], 1, &x, err));
            OK(cag_session_step(&b, &ids[n + k], 1, &y, err));
            see(x, y, n_vocab, name);
        }
        assert_int_equal(cag_session_n_tok(b), n + 2);
        cag_session_free(a);
        cag_session_free(b);
    }
    cag_engine_free(cpu);
    cag_engine_free(gpu);
    cag_model_close(m);
}

/* ------------------------------------------------------------------ caches */

static struct {
    char dir[64], path[96];
    cag_model *m;
    cag_engine *cpu, *gpu;
    int n_vocab;
    int32_t ids[400];
} t;

static inline void set_up(const char *model)
{
    snprintf(t.dir, sizeof t.dir, "/tmp/cag-cuda-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    snprintf(t.path, sizeof t.path, "%s/kb.kvc", t.dir);
    t.m = mt_model(model);
    t.n_vocab = mt_vocab(t.m);
    mt_ids(t.ids, 400, 11, t.n_vocab);
    t.cpu = mt_engine(t.m, 2, 64, CAG_PRECISION_DEFAULT, false);
    t.gpu = cuda_engine(t.m, 64, CAG_PRECISION_DEFAULT);
}

static inline void tear_down(void)
{
    cag_engine_free(t.cpu);
    cag_engine_free(t.gpu);
    cag_model_close(t.m);
    unlink(t.path);
    rmdir(t.dir);
    assert_int_equal(shim_live(), 0);
}

static inline cag_session *prefilled(cag_engine *e, cag_prefix *p, int from,
                                     int to, const float **logits)
{
    cag_session *s = mt_session(e, p, to + 20);

    OK(cag_session_prefill(s, t.ids + from, to - from, logits, err));
    return s;
}

#endif
