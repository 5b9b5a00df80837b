/*
 * check_speed.c - measurements of check_cuda.
 *
 * What happens once (tables of rotations, cuBLAS loading its kernels, the
 * first graph) is done before the clock starts: a prompt of the same length in
 * a session of the same size comes first, and is not counted.
 */
#include "tests/cuda/check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/mem.h"

enum { N_STEP = 32, N_TIMED = 3 };

static double median(double *v, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && v[j] < v[j - 1]; j--) {
            double t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Prompts as often as the step has time for; the last one's session. */
static cag_session *time_prompts(cag_engine *e, const struct check_prompt *p,
                                 jv *step)
{
    double t, timed[N_TIMED];
    cag_session *s = check_prefill(e, p, NULL, &t);
    int n = 0;

    while (s && n < N_TIMED &&
           (n == 0 || check_now() + 2 * timed[n - 1] < check.deadline)) {
        cag_session_free(s);
        s = check_prefill(e, p, NULL, &timed[n]);
        n += s != NULL;
    }
    if (n > 0) {
        jv_set_real(step, "prompt_tokens_per_s", p->n / median(timed, n));
        jv_set_int(step, "prompts", n);
    }
    return s;
}

/* Seconds of a generated token, or 0. */
static double time_steps(cag_session *s)
{
    int32_t next = 1;
    cag_step one = { .session = s, .ids = &next, .n_ids = 1, .greedy = true };
    cag_error err = CAG_ERROR_INIT;
    double t = 0;
    int n = 0;

    /* the first two record the graph */
    for (; n < N_STEP + 2 && check_now() < check.deadline &&
           check_ok(cag_session_verify(&one, 1, &err), &err);
         n++) {
        next = one.best[0];
        if (n == 1)
            t = check_now();
    }
    return n > 2 ? (check_now() - t) / (n - 2) : 0;
}

static void set_device_bytes(jv *step, const cag_engine *e)
{
    jv_set_int(step, "device_mib", (int64_t)(cag_engine_device_bytes(e) >> 20));
}

void check_speed(const cag_model *m, cag_engine *e, const char *of, int depth,
                 double seconds)
{
    const cag_model_info *i = cag_model_get_info(m);
    struct check_prompt p = { .n = depth, .more = N_STEP + 2 };
    double start = check_now(), t = 0;
    cag_session *s = NULL;

    if (!check_begin("speed", of, seconds))
        return;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(depth, i->n_vocab);
    p.ids = ids;
    if (ids)
        s = time_prompts(e, &p, step);
    if (s)
        t = time_steps(s);
    if (t > 0) {
        double gb =
            ((double)i->size_bytes + (double)i->kv_bytes_per_tok * depth) *
            1e-9;
        jv_set_real(step, "generated_tokens_per_s", 1 / t);
        jv_set_real(step, "read_gb_per_s", gb / t);
        if (check.bandwidth > 0)
            jv_set_real(step, "share_of_bandwidth", gb / t / check.bandwidth);
    }
    jv_set_str(step, "of", of);
    jv_set_int(step, "depth", depth);
    set_device_bytes(step, e);
    cag_session_free(s);
    mem_free(ids);
    check_finish(CHECK_MEASURE, "speed", step, start);
}

bool check_make_cache(const cag_model *m, cag_engine *e, int n)
{
    struct check_prompt p = { .n = n, .more = 1 };
    cag_error err = CAG_ERROR_INIT;
    double start = check_now();
    cag_session *s = NULL;

    if (!check_begin("cache", "", 12))
        return false;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(n, cag_model_get_info(m)->n_vocab);
    p.ids = ids;
    if (ids)
        s = check_prefill(e, &p, NULL, &check.recompute_s);
    double written = check_now();
    bool there =
        s && check_ok(check_cache_write(s, m, n, check.cache, &err), &err);
    jv_set_int(step, "tokens", n);
    jv_set_real(step, "compute_s", check.recompute_s);
    jv_set_real(step, "write_s", check_now() - written);
    cag_session_free(s);
    mem_free(ids);
    check_finish(CHECK_MEASURE, "cache", step, start);
    return there;
}

/* ----------------------------------------------------------------- loading */

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

/* On a GPU layers run while copies are still to come. */
static void check_overlap(jv *step, const struct listing *l)
{
    jv_set_real(step, "first_layer_ms", l->layer0);
    jv_set_real(step, "last_copy_ms", l->copied);
    if (!check.tiny && jv_count(l->list) > 0 && !(l->layer0 < l->copied))
        snprintf(check_why, sizeof check_why,
                 "the first layer ended after the last copy: nothing overlaps");
}

void check_load(const cag_model *m)
{
    enum { N = 30 };
    cag_step q = { .n_ids = N, .greedy = true };
    struct listing l = { 0 };
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    cag_prefix *p = NULL;
    double start = check_now(), opened = 0;

    if (!check_begin("load", "", 8))
        return;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(N, cag_model_get_info(m)->n_vocab);
    l.list = jv_new_array();
    q.ids = ids;
    start = check_now();
    cag_engine *e = ids ? check_engine(m, check.device, 0) : NULL;
    if (e) {
        opened = check_now() - start;
        engine_trace(e);
        if (check_ok(cag_kvc_open(check.cache, &k, &err), &err) &&
            check_ok(cag_prefix_new(e, k, &p, &err), &err) &&
            check_ok(cag_session_new(e, p, cag_kvc_get_info(k)->n_tok + N + 1,
                                     &q.session, &err),
                     &err) &&
            check_ok(cag_session_prefill_many(&q, 1, &err), &err)) {
            double first = check_now() - start;
            engine_timeline(e, moment, &l);
            jv_set_real(step, "open_s", opened);
            jv_set_real(step, "first_token_s", first);
            jv_set_real(step, "recompute_s", check.recompute_s);
            check_overlap(step, &l);
            set_device_bytes(step, e);
        }
    }
    jv_set(step, "timeline", l.list);
    cag_session_free(q.session);
    cag_prefix_free(p);
    cag_kvc_close(k);
    cag_engine_free(e);
    mem_free(ids);
    check_finish(CHECK_MEASURE, "load", step, start);
}

/* --------------------------------------------------------------- questions */

enum { MAX_QUESTION = 256, N_ASK = 16, N_ANSWER = 8 };

/* Steps of all n, the first two untimed; seconds of one, or 0. */
static double answer(cag_step *q, int n)
{
    static int32_t id[MAX_QUESTION];
    cag_error err = CAG_ERROR_INIT;
    double t = 0;
    int k = 0;

    for (; k < N_ANSWER + 2 && check_now() < check.deadline; k++) {
        for (int i = 0; i < n; i++) {
            id[i] = q[i].best[0];
            q[i].ids = &id[i];
            q[i].n_ids = 1;
        }
        if (!check_ok(cag_session_verify(q, n, &err), &err))
            break;
        if (k == 1)
            t = check_now();
    }
    return k > 2 ? (check_now() - t) / (k - 2) : 0;
}

/* n questions on the one cache, read and answered together. */
static void questions(const cag_model *m, cag_engine *e, cag_prefix *p,
                      const cag_kvc_info *cache, int n)
{
    static cag_step q[MAX_QUESTION];
    int depth = (int)cache->n_tok, made = 0;
    cag_error err = CAG_ERROR_INIT;
    double start = check_now(), t = 0;

    if (!check_begin("questions", "", 5))
        return;
    jv *step = jv_new_object();
    int32_t *ids = check_ids(N_ASK + n, cag_model_get_info(m)->n_vocab);
    for (; ids && made < n; made++) {
        q[made] =
            (cag_step){ .ids = ids + made, .n_ids = N_ASK, .greedy = true };
        if (!check_ok(cag_session_new(e, p, depth + N_ASK + N_ANSWER + 2,
                                      &q[made].session, &err),
                      &err))
            break;
    }
    if (made == n && check_ok(cag_session_prefill_many(q, n, &err), &err)) {
        jv_set_real(step, "read_s", check_now() - start);
        t = answer(q, n);
    }
    if (t > 0)
        jv_set_real(step, "generated_tokens_per_s", n / t);
    jv_set_str(step, "codec", cache->codec);
    jv_set_int(step, "questions", n);
    jv_set_int(step, "depth", depth);
    set_device_bytes(step, e);
    while (made > 0)
        cag_session_free(q[--made].session);
    mem_free(ids);
    check_finish(CHECK_MEASURE, "questions", step, start);
}

void check_questions(const cag_model *m, cag_engine *e, const int *group,
                     int n_group)
{
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    cag_prefix *p = NULL;
    double start = check_now();

    if (!check_begin("questions", "", 5))
        return;
    if (check_ok(cag_kvc_open(check.cache, &k, &err), &err) &&
        check_ok(cag_prefix_new(e, k, &p, &err), &err) &&
        check_ok(cag_prefix_load(p, &err), &err))
        for (int i = 0; i < n_group; i++)
            questions(m, e, p, cag_kvc_get_info(k), group[i]);
    else
        check_finish(CHECK_MEASURE, "questions", jv_new_object(), start);
    cag_prefix_free(p);
    cag_kvc_close(k);
}

void check_codes(const cag_model *m, cag_engine *e, int depth)
{
    static const int group[] = { 1, 64 };
    cag_error err = CAG_ERROR_INIT;
    double start = check_now();

    if (!check_begin("codes", "", 8))
        return;
    if (check_ok(check_cache_codes(m, depth, check.cache, &err), &err))
        check_questions(m, e, group, 2);
    else
        check_finish(CHECK_MEASURE, "codes", jv_new_object(), start);
}
