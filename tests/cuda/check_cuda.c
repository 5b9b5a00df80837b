/*
 * check_cuda.c - prove the CUDA backend on a machine that has a GPU, and
 * measure it there; `make check-cuda`.
 *
 *   check_cuda [--device DEV] [--plugin FILE] [--tiny] [--budget S]
 *              [--bandwidth GB/S] OUT.json | --probe
 *
 * Runs a tree that was built elsewhere.  Weights are random, written on the
 * spot as bf16 safetensors in the shapes of Qwen3-0.6B and Qwen3-4B; nothing
 * is downloaded.  Steps run in the order of their worth.  Each has a budget: it
 * begins only while the whole one has room for that, ends early when it is
 * spent, and OUT.json is rewritten after each, so that a run that is cut off
 * leaves what it had.  --bandwidth is what probe_cuda measured, for the share
 * of it that a step of generated tokens reaches.  --probe only looks whether
 * there is a GPU.  Exit: 0 all as promised, 1 a check failed, 69 no GPU.
 *
 * --tiny --device cpu runs every step in seconds on a CPU: it tests this
 * program, not a GPU.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cag/session.h>

#include "engine/engine.h"
#include "tests/cuda/check_model.h"
#include "util/json.h"
#include "util/mem.h"

static const struct check_shape big[2] = {
    { "qwen3-0.6b", 1024, 3072, 28, 16, 8, 128, 151936 },
    { "qwen3-4b", 2560, 9728, 36, 32, 8, 128, 151936 }
};
static const struct check_shape small[2] = {
    { "tiny-a", 64, 192, 2, 4, 2, 32, 512 },
    { "tiny-b", 128, 256, 3, 8, 2, 32, 512 }
};

static struct {
    const char *device, *plugin, *out;
    bool tiny, probe;
    double budget, start, bandwidth;
    double deadline; /* of the step */
    char dir[64], cache[80];
    double recompute_s; /* the cache's tokens, computed */
    jv *steps;
    int n_bad;
} g = { .device = "cuda", .budget = 220 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double left(void)
{
    return g.budget - (now() - g.start);
}

/* ------------------------------------------------------------------ budgets */

static void finish(const char *name, jv *step, double seconds, const char *bad);

/* Whether a step of so many seconds may begin; one that may not is noted. */
static bool begin(const char *name, const char *of, double seconds)
{
    jv *step;

    seconds = g.tiny ? 1 : seconds;
    g.deadline = now() + seconds;
    if (left() >= seconds)
        return true;
    step = jv_new_object();
    jv_set_str(step, "of", of);
    jv_set_real(step, "skipped_needs_s", seconds);
    jv_set_real(step, "left_s", left());
    finish(name, step, 0, "");
    return false;
}

static bool in_time(void *ctx, const cag_progress *p)
{
    (void)ctx, (void)p;
    return now() < g.deadline;
}

/* ----------------------------------------------------------------- results */

/* What was not done in its time; no failure. */
#define CUT_OFF "cut off"

/* Add a step's result and write all results so far. */
static void finish(const char *name, jv *step, double seconds, const char *bad)
{
    struct buf b = BUF_INIT;
    FILE *f;

    jv_set_str(step, "step", name);
    jv_set_real(step, "seconds", seconds);
    if (strcmp(bad, CUT_OFF) == 0) {
        jv_set_bool(step, "cut_off", true);
        bad = "";
    }
    if (bad[0] != '\0') {
        jv_set_str(step, "failed", bad);
        g.n_bad++;
    }
    jv_dump(step, &b);
    printf("%s%.*s\n", bad[0] != '\0' ? "FAILED " : "", (int)b.size, b.data);
    fflush(stdout);
    buf_free(&b);
    jv_append(g.steps, step);
    jv_dump(g.steps, &b);
    f = fopen(g.out, "w");
    if (f == NULL || fwrite(b.data, 1, b.size, f) != b.size || fclose(f) != 0)
        fprintf(stderr, "check_cuda: cannot write %s: %s\n", g.out,
                strerror(errno));
    buf_free(&b);
}

/* ------------------------------------------------------------------- steps */

static char why[1600];

static bool ok(cag_status st, const cag_error *err)
{
    if (st == CAG_E_CANCELLED)
        snprintf(why, sizeof why, CUT_OFF);
    else if (st != CAG_OK)
        snprintf(why, sizeof why, "%s%s%s", err->file,
                 err->file[0] != '\0' ? ": " : "", err->msg);
    return st == CAG_OK;
}

static cag_engine *engine(const cag_model *m, const char *device, int layers)
{
    cag_engine_opts o = { .device = device,
                          .plugin = g.plugin,
                          .gpu_layers = layers };
    cag_error err = CAG_ERROR_INIT;
    cag_engine *e = NULL;

    if (!ok(cag_engine_new(m, &o, &e, &err), &err))
        return NULL;
    cag_engine_set_progress(e, in_time, NULL);
    return e;
}

static int32_t *some_ids(int n, int n_vocab)
{
    int32_t *ids = mem_alloc_array((size_t)n, sizeof *ids);

    for (int i = 0; ids != NULL && i < n; i++)
        ids[i] = (int32_t)(check_random() % (uint64_t)n_vocab);
    return ids;
}

/* A session with n tokens behind a cache of depth (or none); seconds of
 * that. */
static cag_session *prefilled(cag_engine *e, cag_prefix *p, int depth,
                              const int32_t *ids, int n, int more,
                              const float **logits, double *seconds)
{
    cag_error err = CAG_ERROR_INIT;
    cag_session *s = NULL;
    double start = now();

    if (!ok(cag_session_new(e, p, depth + n + more, &s, &err), &err))
        return NULL;
    if (!ok(cag_session_prefill(s, ids, n, logits, &err), &err)) {
        cag_session_free(s);
        return NULL;
    }
    *seconds = now() - start;
    return s;
}

static double cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;

    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* The same prompt and steps on both, behind a cache (or none); the least cosine
 * of the logits. */
static void agreement(const cag_model *m, cag_engine *gpu, const char *name,
                      const char *cache)
{
    enum { N = 70, STEPS = 4 };
    int n_vocab = cag_model_get_info(m)->n_vocab, depth = 0;
    int32_t *ids = some_ids(N + STEPS, n_vocab);
    cag_engine *cpu = engine(m, "cpu", 0);
    cag_prefix *p = NULL, *q = NULL;
    cag_kvc *k = NULL;
    cag_session *a = NULL, *b = NULL;
    const float *x, *y;
    cag_error err = CAG_ERROR_INIT;
    double start = now(), t, least = 1;
    jv *step = jv_new_object();

    why[0] = '\0';
    if (cpu != NULL && cache != NULL &&
        ok(cag_kvc_open(cache, &k, &err), &err) &&
        ok(cag_prefix_new(cpu, k, &p, &err), &err) &&
        ok(cag_prefix_new(gpu, k, &q, &err), &err))
        depth = (int)cag_kvc_get_info(k)->n_tok;
    if (cpu != NULL && ids != NULL && why[0] == '\0')
        a = prefilled(cpu, p, depth, ids, N, STEPS, &x, &t);
    if (a != NULL)
        b = prefilled(gpu, q, depth, ids, N, STEPS, &y, &t);
    for (int i = 0; b != NULL && i <= STEPS; i++) {
        least = fmin(least, cosine(x, y, n_vocab));
        if (i < STEPS &&
            (!ok(cag_session_step(&a, &ids[N + i], 1, &x, &err), &err) ||
             !ok(cag_session_step(&b, &ids[N + i], 1, &y, &err), &err)))
            break;
    }
    if (why[0] == '\0' && !(least >= 0.999))
        snprintf(why, sizeof why, "cosine %.6f, promised 0.999", least);
    jv_set_real(step, "least_cosine", least);
    jv_set_int(step, "depth", depth);
    cag_session_free(a);
    cag_session_free(b);
    cag_prefix_free(p);
    cag_prefix_free(q);
    cag_kvc_close(k);
    cag_engine_free(cpu);
    mem_free(ids);
    finish(name, step, now() - start, why);
}

/* Every number of layers on the CPU, and a cache of codes: of a small model. */
static void parts(const cag_model *m, cag_engine *gpu)
{
    cag_error err = CAG_ERROR_INIT;

    if (!begin("codes", "", 4))
        return;
    why[0] = '\0';
    if (ok(check_cache_codes(m, 200, g.cache, &err), &err))
        agreement(m, gpu, "codes", g.cache);
    else
        finish("codes", jv_new_object(), 0, why);
    for (int n = 1; why[0] == '\0' && n < cag_model_get_info(m)->n_layer; n++) {
        if (!begin("split", "", 4))
            break;
        cag_engine *e = engine(m, g.device, n);
        if (e != NULL)
            agreement(m, e, "split", g.cache);
        else
            finish("split", jv_new_object(), 0, why);
        cag_engine_free(e);
    }
    unlink(g.cache);
}

/* Prompt tokens per second, then generated ones at that depth. */
static void speed(const cag_model *m, cag_engine *e, const char *of, int depth,
                  double seconds)
{
    enum { STEPS = 32 };
    int n_vocab = cag_model_get_info(m)->n_vocab;
    int32_t *ids = some_ids(depth, n_vocab), next = 1;
    const float *logits;
    cag_error err = CAG_ERROR_INIT;
    double start = now(), t = 0;
    cag_session *s = NULL;
    int n = 0;

    if (!begin("speed", of, seconds)) {
        mem_free(ids);
        return;
    }
    jv *step = jv_new_object();
    why[0] = '\0';
    if (ids != NULL)
        s = prefilled(e, NULL, 0, ids, depth, STEPS + 2, &logits, &t);
    if (s != NULL) {
        cag_step one = {
            .session = s, .ids = &next, .n_ids = 1, .greedy = true
        };
        jv_set_real(step, "prompt_tokens_per_s", depth / t);
        /* the first two record the graph */
        for (; n < STEPS + 2 && now() < g.deadline &&
               ok(cag_session_verify(&one, 1, &err), &err);
             n++) {
            next = one.best[0];
            if (n == 1)
                t = now();
        }
        t = (now() - t) / (n - 2);
    }
    if (n > 2) {
        const cag_model_info *i = cag_model_get_info(m);
        double gb =
            ((double)i->size_bytes + (double)i->kv_bytes_per_tok * depth) *
            1e-9;
        jv_set_real(step, "generated_tokens_per_s", 1 / t);
        jv_set_real(step, "read_gb_per_s", gb / t);
        if (g.bandwidth > 0)
            jv_set_real(step, "share_of_bandwidth", gb / t / g.bandwidth);
    }
    jv_set_str(step, "of", of);
    jv_set_int(step, "depth", depth);
    jv_set_int(step, "device_mib", (int64_t)(cag_engine_device_bytes(e) >> 20));
    cag_session_free(s);
    mem_free(ids);
    finish("speed", step, now() - start, why);
}

/* What the cache of the next steps holds, computed and written. */
static bool cache(const cag_model *m, cag_engine *e, int n)
{
    int32_t *ids = some_ids(n, cag_model_get_info(m)->n_vocab);
    cag_error err = CAG_ERROR_INIT;
    double start = now();
    cag_session *s = NULL;

    if (!begin("cache", "", 12)) {
        mem_free(ids);
        return false;
    }
    jv *step = jv_new_object();
    why[0] = '\0';
    if (ids != NULL)
        s = prefilled(e, NULL, 0, ids, n, 1, NULL, &g.recompute_s);
    double written = now();
    if (s != NULL)
        ok(check_cache_write(s, m, n, g.cache, &err), &err);
    jv_set_int(step, "tokens", n);
    jv_set_real(step, "compute_s", g.recompute_s);
    jv_set_real(step, "write_s", now() - written);
    cag_session_free(s);
    mem_free(ids);
    finish("cache", step, now() - start, why);
    return why[0] == '\0';
}

struct listing {
    jv *list;
    double layer0, copied; /* ms: the first layer's end, the last copy's */
};

static void moment(void *ctx, const char *what, int i, double ms)
{
    struct listing *l = ctx;
    jv *o = jv_new_object();

    jv_set_str(o, "what", what);
    jv_set_int(o, "i", i);
    jv_set_real(o, "ms", ms);
    jv_append(l->list, o);
    if (strcmp(what, "layer") == 0 && i == 0)
        l->layer0 = ms;
    if (what[0] != 'l' && what[0] != 'o' && ms > l->copied)
        l->copied = ms;
}

/* From nothing to the first token of a question on the cache, weights and
 * cache in the page cache: with when each copy and each layer was over. */
static void load(const cag_model *m)
{
    enum { N = 30 };
    int n_vocab = cag_model_get_info(m)->n_vocab;
    int32_t *ids = some_ids(N, n_vocab);
    cag_step q = { .ids = ids, .n_ids = N, .greedy = true };
    struct listing l = { jv_new_array(), 0, 0 };
    cag_error err = CAG_ERROR_INIT;
    cag_engine *e = NULL;
    cag_kvc *k = NULL;
    cag_prefix *p = NULL;
    double start = now(), opened = 0;
    bool done = false;

    if (!begin("load", "", 8)) {
        jv_free(l.list);
        mem_free(ids);
        return;
    }
    jv *step = jv_new_object();
    why[0] = '\0';
    if (ids != NULL)
        e = engine(m, g.device, 0);
    if (e != NULL) {
        opened = now() - start;
        engine_trace(e);
        done = ok(cag_kvc_open(g.cache, &k, &err), &err) &&
               ok(cag_prefix_new(e, k, &p, &err), &err) &&
               ok(cag_session_new(e, p, cag_kvc_get_info(k)->n_tok + N + 1,
                                  &q.session, &err),
                  &err) &&
               ok(cag_session_prefill_many(&q, 1, &err), &err);
    }
    if (done) {
        double first = now() - start;
        engine_timeline(e, moment, &l);
        jv_set_real(step, "open_s", opened);
        jv_set_real(step, "first_token_s", first);
        jv_set_real(step, "recompute_s", g.recompute_s);
        jv_set_real(step, "first_layer_ms", l.layer0);
        jv_set_real(step, "last_copy_ms", l.copied);
        jv_set_int(step, "device_mib",
                   (int64_t)(cag_engine_device_bytes(e) >> 20));
        /* on a GPU: layers run while copies are still to come */
        if (!g.tiny && jv_count(l.list) > 0 && !(l.layer0 < l.copied))
            snprintf(why, sizeof why,
                     "the first layer ended after the last "
                     "copy: nothing overlaps");
    }
    jv_set(step, "timeline", l.list);
    cag_session_free(q.session);
    cag_prefix_free(p);
    cag_kvc_close(k);
    cag_engine_free(e);
    mem_free(ids);
    finish("load", step, now() - start, why);
}

/* n questions on the one cache, read and answered together. */
static void questions(const cag_model *m, cag_engine *e, cag_prefix *p,
                      const char *codec, int depth, int n)
{
    enum { STEPS = 8, N_ASK = 16, MAX = 256 };
    static cag_step q[MAX];
    static int32_t id[MAX];
    int32_t *ids = some_ids(N_ASK + n, cag_model_get_info(m)->n_vocab);
    cag_error err = CAG_ERROR_INIT;
    double start = now(), t = 0, read = 0;
    int made = 0, k = 0;

    if (!begin("questions", "", 5)) {
        mem_free(ids);
        return;
    }
    jv *step = jv_new_object();
    why[0] = '\0';
    for (; ids != NULL && made < n; made++) {
        q[made] =
            (cag_step){ .ids = ids + made, .n_ids = N_ASK, .greedy = true };
        if (!ok(cag_session_new(e, p, depth + N_ASK + STEPS + 2,
                                &q[made].session, &err),
                &err))
            break;
    }
    if (made == n && ok(cag_session_prefill_many(q, n, &err), &err)) {
        read = now() - start;
        for (; k < STEPS + 2 && why[0] == '\0' && now() < g.deadline; k++) {
            for (int i = 0; i < n; i++) {
                id[i] = q[i].best[0];
                q[i].ids = &id[i];
                q[i].n_ids = 1;
            }
            ok(cag_session_verify(q, n, &err), &err);
            if (k == 1)
                t = now();
        }
    }
    jv_set_str(step, "codec", codec);
    jv_set_int(step, "questions", n);
    jv_set_int(step, "depth", depth);
    jv_set_real(step, "read_s", read);
    if (k > 2)
        jv_set_real(step, "generated_tokens_per_s", n * (k - 2) / (now() - t));
    jv_set_int(step, "device_mib", (int64_t)(cag_engine_device_bytes(e) >> 20));
    while (made > 0)
        cag_session_free(q[--made].session);
    mem_free(ids);
    finish("questions", step, now() - start, why);
}

static void run_questions(const cag_model *m, cag_engine *e, int depth,
                          const int *group, int n_group)
{
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    cag_prefix *p = NULL;

    why[0] = '\0';
    if (!ok(cag_kvc_open(g.cache, &k, &err), &err) ||
        !ok(cag_prefix_new(e, k, &p, &err), &err) ||
        !ok(cag_prefix_load(p, &err), &err))
        finish("questions", jv_new_object(), 0, why);
    for (int i = 0; why[0] == '\0' && i < n_group; i++)
        questions(m, e, p, cag_kvc_get_info(k)->codec, depth, group[i]);
    cag_prefix_free(p);
    cag_kvc_close(k);
}

/* The same questions on as long a cache of codes: half the bytes. */
static void run_codes(const cag_model *m, cag_engine *e, int depth)
{
    static const int group[] = { 1, 64 };
    cag_error err = CAG_ERROR_INIT;

    if (!begin("codes", "", 8))
        return;
    why[0] = '\0';
    if (ok(check_cache_codes(m, depth, g.cache, &err), &err))
        run_questions(m, e, depth, group, 2);
    else
        finish("codes", jv_new_object(), 0, why);
}

static void run_model(const struct check_shape *s, bool first)
{
    static const int group[] = { 1, 16, 64, 256 };
    int depth = g.tiny ? 129 : 8192;
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_engine *e = NULL;
    double start = now();

    if (!begin("open", s->name, first ? 10 : 25))
        return;
    jv *step = jv_new_object();
    why[0] = '\0';
    if (!check_model_make(s, g.dir))
        snprintf(why, sizeof why, "cannot write a model");
    jv_set_real(step, "write_s", now() - start);
    double open = now();
    if (why[0] == '\0' &&
        ok(cag_model_open(g.dir, CAG_MODEL_NO_TOKENIZER, &m, &err), &err))
        e = engine(m, g.device, 0);
    jv_set_real(step, "open_s", now() - open);
    jv_set_str(step, "of", s->name);
    if (e != NULL) {
        jv_set_str(step, "device", cag_engine_note(e, NULL));
        jv_set_int(step, "device_mib",
                   (int64_t)(cag_engine_device_bytes(e) >> 20));
    }
    finish("open", step, now() - start, why);
    if (e != NULL && first && begin("cpu against gpu", s->name, 15))
        agreement(m, e, "cpu against gpu", NULL);
    if (e != NULL && g.tiny)
        parts(m, e);
    if (e != NULL) {
        speed(m, e, s->name, g.tiny ? 33 : 2048, 4);
        speed(m, e, s->name, depth, 6);
        speed(m, e, s->name, 16, 3);
    }
    if (e != NULL && first && cache(m, e, depth)) {
        run_questions(m, e, depth, group, 4);
        load(m);
        run_codes(m, e, depth);
    }
    if (e != NULL)
        speed(m, e, s->name, g.tiny ? 500 : 32000, 12);
    unlink(g.cache);
    cag_engine_free(e);
    cag_model_close(m);
}

static int usage(void)
{
    fputs("usage: check_cuda [--device DEV] [--plugin FILE] [--tiny] "
          "[--budget S] [--bandwidth GB/S] OUT.json | --probe\n",
          stderr);
    return 64;
}

/* Whether the device can be used, by opening a small model on it. */
static bool has_device(void)
{
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_engine *e = NULL;
    bool there =
        check_model_make(&small[0], g.dir) &&
        ok(cag_model_open(g.dir, CAG_MODEL_NO_TOKENIZER, &m, &err), &err);

    if (there)
        e = engine(m, g.device, 0);
    there = e != NULL;
    cag_engine_free(e);
    cag_model_close(m);
    return there;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' },
        { "plugin", required_argument, NULL, 'p' },
        { "budget", required_argument, NULL, 'b' },
        { "bandwidth", required_argument, NULL, 'w' },
        { "tiny", no_argument, NULL, 't' },
        { "probe", no_argument, NULL, 'o' },
        { NULL, 0, NULL, 0 }
    };
    const char *tmp = getenv("TMPDIR");
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (c == 'd')
            g.device = optarg;
        else if (c == 'p')
            g.plugin = optarg;
        else if (c == 'b')
            g.budget = strtod(optarg, NULL);
        else if (c == 'w')
            g.bandwidth = strtod(optarg, NULL);
        else if (c == 'o')
            g.probe = true;
        else if (c == 't')
            g.tiny = true;
        else
            return usage();
    if (optind + !g.probe != argc)
        return usage();
    g.out = argv[optind];
    g.start = now();
    snprintf(g.dir, sizeof g.dir, "%.40s/cag-cuda-XXXXXX",
             tmp != NULL && *tmp != '\0' ? tmp : "/tmp");
    if (mkdtemp(g.dir) == NULL) {
        fprintf(stderr, "check_cuda: %s: %s\n", g.dir, strerror(errno));
        return 73;
    }
    snprintf(g.cache, sizeof g.cache, "%s/kb.kvc", g.dir);
    g.deadline = now() + 10;
    if (!has_device()) {
        fprintf(stderr, "check_cuda: %s\n", why);
        check_model_remove(g.dir);
        return 69;
    }
    if (g.probe) {
        check_model_remove(g.dir);
        return 0;
    }
    g.steps = jv_new_array();
    for (int i = 0; i < 2; i++)
        run_model(g.tiny ? &small[i] : &big[i], i == 0);
    check_model_remove(g.dir);
    jv_free(g.steps);
    return g.n_bad != 0;
}
