/*
 * check_agree.c - comparisons of check_cuda: a GPU's logits with the CPU's,
 * those of many rows in one pass with the same rows one by one, and those of
 * a part of a cache, with what heads give its tokens.
 *
 * The promise is that of README: the least cosine of the logits is 0.999.
 */
#include "tests/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/mem.h"

#define PROMISED 0.999

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

static void promise(jv *step, double least)
{
    if (check_why[0] == '\0' && !(least >= PROMISED))
        snprintf(check_why, sizeof check_why, "cosine %.6f, promised %.3f",
                 least, PROMISED);
    jv_set_real(step, "least_cosine", least);
}

void check_against_cpu(const cag_model *m, cag_engine *gpu, const char *name,
                       const char *cache)
{
    enum { N = 70, STEPS = 4 };
    int n_vocab = cag_model_get_info(m)->n_vocab;
    struct check_prompt a = { .n = N, .more = STEPS }, b;
    cag_session *s = NULL, *q = NULL;
    cag_kvc *k = NULL;
    const float *x, *y;
    cag_error err = CAG_ERROR_INIT;
    double start = check_now(), t, least = 1;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(N + STEPS, n_vocab);
    cag_engine *cpu = check_engine(m, "cpu", 0);

    a.ids = ids;
    b = a;
    if (cpu && cache && check_ok(cag_kvc_open(cache, &k, &err), &err) &&
        check_ok(cag_prefix_new(cpu, k, &a.prefix, &err), &err) &&
        check_ok(cag_prefix_new(gpu, k, &b.prefix, &err), &err))
        a.depth = b.depth = (int)cag_kvc_get_info(k)->n_tok;
    if (check_why[0] == '\0')
        s = check_prefill(cpu, &a, &x, &t);
    if (s)
        q = check_prefill(gpu, &b, &y, &t);
    for (int i = 0; q && i <= STEPS; i++) {
        least = fmin(least, cosine(x, y, n_vocab));
        if (i < STEPS &&
            (!check_ok(cag_session_step(&s, &ids[N + i], 1, &x, &err), &err) ||
             !check_ok(cag_session_step(&q, &ids[N + i], 1, &y, &err), &err)))
            break;
    }
    promise(step, least);
    jv_set_int(step, "depth", a.depth);
    cag_session_free(s);
    cag_session_free(q);
    cag_prefix_free(a.prefix);
    cag_prefix_free(b.prefix);
    cag_kvc_close(k);
    cag_engine_free(cpu);
    mem_free(ids);
    check_finish(CHECK_COMPARE, name, step, start);
}

/* ------------------------------------------------------- seen in part */

/* A token's share of attention, summed over the rows of a question. */
#define SHARE_PROMISED 2e-2

enum { N_SEEN = 20, N_HEAD = 2 };

/* Logits and shares after a question that sees a part of the cache. */
static bool ask_part(cag_engine *e, const cag_kvc *k, const int32_t *ids,
                     float *logits, double *sum)
{
    const cag_model_info *m = cag_model_get_info(e->model);
    const struct copy_head head[N_HEAD] = { { 0, 0 },
                                            { m->n_layer - 1, m->n_head - 1 } };
    int n = (int)cag_kvc_get_info(k)->n_tok;
    const struct token_range part[2] = { { 3, 20 }, { n - 40, n - 1 } };
    cag_error err = CAG_ERROR_INIT;
    cag_prefix *p = NULL;
    cag_session *s = NULL;
    const float *x;

    bool ok = check_ok(engine_set_heads(e, head, N_HEAD, &err), &err) &&
              check_ok(cag_prefix_new(e, k, &p, &err), &err) &&
              check_ok(cag_session_new(e, p, n + N_SEEN + 1, &s, &err), &err) &&
              check_ok(session_set_view(s, part, 2, &err), &err) &&
              check_ok(session_set_mass(s, sum, &err), &err) &&
              check_ok(cag_session_prefill(s, ids, N_SEEN, &x, &err), &err) &&
              check_ok(cag_session_step(&s, &ids[N_SEEN], 1, &x, &err), &err) &&
              check_ok(session_set_mass(s, NULL, &err), &err);
    if (ok)
        memcpy(logits, x, (size_t)m->n_vocab * sizeof *x);
    cag_session_free(s);
    cag_prefix_free(p);
    return ok;
}

/* A part of the cache, and what two heads give its tokens. */
static void part(const cag_model *m, cag_engine *gpu, const char *name,
                 const char *cache)
{
    int n_vocab = cag_model_get_info(m)->n_vocab;
    cag_error err = CAG_ERROR_INIT;
    double start = check_now(), least = 1, off = 0;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(N_SEEN + 1, n_vocab);
    float *x = mem_alloc_array(2 * (size_t)n_vocab, sizeof *x);
    cag_engine *cpu = check_engine(m, "cpu", 0);
    double *sum = NULL;
    cag_kvc *k = NULL;
    size_t n = 0;

    if (cpu && check_ok(cag_kvc_open(cache, &k, &err), &err)) {
        n = N_HEAD * (size_t)cag_kvc_get_info(k)->n_tok;
        sum = mem_zalloc(2 * n * sizeof *sum);
    }
    if (k && (!ids || !x || !sum))
        snprintf(check_why, sizeof check_why, "no memory");
    if (check_why[0] == '\0' && ask_part(cpu, k, ids, x, sum) &&
        ask_part(gpu, k, ids, x + n_vocab, sum + n)) {
        least = cosine(x, x + n_vocab, n_vocab);
        for (size_t i = 0; i < n; i++)
            off = fmax(off, fabs(sum[i] - sum[n + i]));
    }
    promise(step, least);
    if (check_why[0] == '\0' && !(off <= SHARE_PROMISED))
        snprintf(check_why, sizeof check_why,
                 "a token's share is off by %.1e, promised %.1e", off,
                 SHARE_PROMISED);
    jv_set_real(step, "worst_share", off);
    cag_kvc_close(k);
    cag_engine_free(cpu);
    mem_free(sum);
    mem_free(x);
    mem_free(ids);
    check_finish(CHECK_COMPARE, name, step, start);
}

/* --------------------------------------------------------- many as one */

enum { N_BATCH = 12, N_STEP = 3, N_ASK = 5 };

/* Row i's logits after its prompt and each step, alone. */
static bool alone(cag_engine *e, const struct check_prompt *p, float *out,
                  int n_vocab)
{
    cag_error err = CAG_ERROR_INIT;
    const float *x;
    double t;
    cag_session *s = check_prefill(e, p, &x, &t);
    bool ok = s != NULL;

    for (int i = 0; ok; i++, out += n_vocab) {
        memcpy(out, x, (size_t)n_vocab * sizeof *out);
        if (i == N_STEP)
            break;
        ok = check_ok(cag_session_step(&s, &p->ids[N_ASK + i], 1, &x, &err),
                      &err);
    }
    cag_session_free(s);
    return ok;
}

/* The least cosine of a row of the batch with the same row alone. */
static double least_of(const cag_step *q, const float *want, int at,
                       int n_vocab)
{
    double least = 1;

    for (int r = 0; r < N_BATCH; r++)
        least = fmin(least, cosine(q[r].logits,
                                   want + (size_t)(r * (N_STEP + 1) + at) *
                                              (size_t)n_vocab,
                                   n_vocab));
    return least;
}

/* All rows together: prompts in one pass, then steps, which from the third
 * on are replayed from a graph. */
static double together(cag_engine *e, const struct check_prompt *p,
                       const float *want, int n_vocab)
{
    cag_step q[N_BATCH] = { { 0 } };
    cag_error err = CAG_ERROR_INIT;
    double least = 1;
    int n = 0;

    for (; n < N_BATCH; n++) {
        q[n] = (cag_step){ .ids = p->ids + n, .n_ids = N_ASK };
        if (!check_ok(cag_session_new(e, p->prefix, p->depth + N_ASK + N_STEP,
                                      &q[n].session, &err),
                      &err))
            break;
    }
    if (n == N_BATCH &&
        check_ok(cag_session_prefill_many(q, N_BATCH, &err), &err))
        least = least_of(q, want, 0, n_vocab);
    for (int i = 0; check_why[0] == '\0' && i < N_STEP; i++) {
        for (int r = 0; r < N_BATCH; r++) {
            q[r].ids = p->ids + r + N_ASK + i;
            q[r].n_ids = 1;
        }
        if (check_ok(cag_session_verify(q, N_BATCH, &err), &err))
            least = fmin(least, least_of(q, want, i + 1, n_vocab));
    }
    for (int r = 0; r < N_BATCH; r++)
        cag_session_free(q[r].session);
    return least;
}

/* Rows of a batch go other ways than one: large products instead of small
 * ones, attention of a shared prefix, graphs of many rows. */
static void batch(const cag_model *m, cag_engine *e, const char *cache)
{
    int n_vocab = cag_model_get_info(m)->n_vocab;
    struct check_prompt p = { .n = N_ASK, .more = N_STEP };
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    double start = check_now(), least = 1;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(N_BATCH + N_ASK + N_STEP, n_vocab);
    size_t row = (size_t)(N_STEP + 1) * (size_t)n_vocab;
    float *want = mem_alloc_array(N_BATCH * row, sizeof *want);

    p.ids = ids;
    if (want && ids && check_ok(cag_kvc_open(cache, &k, &err), &err) &&
        check_ok(cag_prefix_new(e, k, &p.prefix, &err), &err)) {
        bool ok = true;
        p.depth = (int)cag_kvc_get_info(k)->n_tok;
        for (int r = 0; ok && r < N_BATCH; r++, p.ids++)
            ok = alone(e, &p, want + (size_t)r * row, n_vocab);
        p.ids = ids;
        if (ok)
            least = together(e, &p, want, n_vocab);
    } else if (check_why[0] == '\0') {
        snprintf(check_why, sizeof check_why, "no memory");
    }
    promise(step, least);
    jv_set_int(step, "rows", N_BATCH);
    cag_prefix_free(p.prefix);
    cag_kvc_close(k);
    mem_free(want);
    mem_free(ids);
    check_finish(CHECK_COMPARE, "batch", step, start);
}

/* --------------------------------------------------------------- parts */

/* A cache of f16 of the GPU's own making; whether it is there. */
static bool f16_cache(const cag_model *m, cag_engine *gpu, int n)
{
    struct check_prompt p = { .n = n, .more = 1 };
    int32_t *ids = check_ids(n, cag_model_get_info(m)->n_vocab);
    cag_error err = CAG_ERROR_INIT;
    cag_session *s = NULL;
    double t;

    p.ids = ids;
    if (ids)
        s = check_prefill(gpu, &p, NULL, &t);
    bool ok =
        s && check_ok(check_cache_write(s, m, n, check.cache, &err), &err);
    cag_session_free(s);
    mem_free(ids);
    return ok;
}

void check_parts(const cag_model *m, cag_engine *gpu)
{
    enum { N = 200 };
    int n_layer = cag_model_get_info(m)->n_layer;
    cag_error err = CAG_ERROR_INIT;

    if (check_begin("f16 cache", "", 4)) {
        if (f16_cache(m, gpu, N))
            check_against_cpu(m, gpu, "f16 cache", check.cache);
        else
            check_finish(CHECK_COMPARE, "f16 cache", jv_new_object(),
                         check_now());
        if (access(check.cache, R_OK) == 0 && check_begin("batch", "", 4))
            batch(m, gpu, check.cache);
        if (access(check.cache, R_OK) == 0 && check_begin("part", "", 4))
            part(m, gpu, "part", check.cache);
    }
    if (!check_begin("codes", "", 4))
        return;
    if (!check_ok(check_cache_codes(m, N, check.cache, &err), &err)) {
        check_finish(CHECK_COMPARE, "codes", jv_new_object(), check_now());
        return;
    }
    check_against_cpu(m, gpu, "codes", check.cache);
    if (check_begin("part of codes", "", 4))
        part(m, gpu, "part of codes", check.cache);
    for (int n = 1; n < n_layer && check_begin("split", "", 4); n++) {
        cag_engine *e = check_engine(m, check.device, n);
        if (e)
            check_against_cpu(m, e, "split", check.cache);
        if (e && check_begin("split part", "", 4))
            part(m, e, "split part", check.cache);
        else if (!e)
            check_finish(CHECK_COMPARE, "split", jv_new_object(), check_now());
        cag_engine_free(e);
    }
    unlink(check.cache);
}
