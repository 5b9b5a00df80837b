/*
 * bench_ask.c - asking, generating, batches: figures of the engine.
 *
 * Decoding is measured on a session of its own, over a fixed number of
 * tokens: an answer ends where the model likes.  The answer's own time is
 * what cag_kb_ask takes.
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "ask/kb.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

/* ------------------------------------------------------------------ asking */

enum {
    PREFILL,
    FIRST,
    ANSWER,
    FIRST_UNCACHED,
    ANSWER_UNCACHED,
    STEP,
    STEP_GUESSES,
    RATE,
    RATE_PLAIN,
    RATE_BOUND,
    PER_STEP,
    N_ASK
};

/* Ask a loaded cache, with and without guessing from the knowledge: the
 * answer is the same, so the rates compare, with each other and with what
 * the drafts allow. */
static cag_status ask_loaded(cag_kb *kb, const char *question,
                             cag_ask_params *p, double t[N_ASK], cag_error *err)
{
    double step[2];
    cag_status st = bench_lookup(kb, question, step, err);

    t[STEP] = step[0];
    t[STEP_GUESSES] = step[1];
    for (int plain = 0; !st && plain < 2; plain++) {
        cag_answer a;

        p->no_draft = plain;
        st = cag_kb_ask(kb, question, strlen(question), p, NULL, NULL, &a, err);
        if (st)
            break;
        /* the first token is the prefill's */
        if (a.n_generated > 1 && a.decode_s > 0)
            t[plain ? RATE_PLAIN : RATE] =
                (double)(a.n_generated - 1) / a.decode_s;
        if (!plain) {
            t[PREFILL] = a.prefill_s;
            if (a.n_generated > 1)
                t[RATE_BOUND] = bench_lookup_bound(&a, step);
            if (a.n_generated > 1)
                t[PER_STEP] = (double)(a.n_generated - 1) /
                              (double)(a.n_generated - 1 - a.n_accepted);
        }
        cag_answer_release(&a);
    }
    return st;
}

/* Open and ask; t[first] and t[answer] count from the opening. */
static cag_status ask_once(struct bench_job *j, const struct bench_case *c,
                           const char *question, bool no_cache, double t[N_ASK],
                           cag_error *err)
{
    cag_ask_params p;
    cag_answer a;
    cag_kb_opts o;
    cag_kb *kb = NULL;
    double start = clock_s();
    cag_status st;

    cag_ask_params_init(&p);
    p.max_tok = j->o->n_gen;
    bench_kb_opts(j, no_cache, &o);
    st = cag_kb_open(c->path, &o, &kb, err);
    if (!st)
        st =
            cag_kb_ask(kb, question, strlen(question), &p, NULL, NULL, &a, err);
    if (!st) {
        double answer = clock_s() - start;

        t[no_cache ? ANSWER_UNCACHED : ANSWER] = answer;
        t[no_cache ? FIRST_UNCACHED : FIRST] = answer - a.decode_s;
        cag_answer_release(&a);
    }
    if (!st && !no_cache)
        st = ask_loaded(kb, question, &p, t, err);
    cag_kb_close(kb);
    return st;
}

cag_status bench_ask(struct bench_job *j, struct bench_case *c, cag_error *err)
{
    static const char *const names[] = {
        "question_prefill",     "first_token",     "answer",
        "first_token_uncached", "answer_uncached", "step",
        "step_guesses",         "answer_rate",     "answer_rate_plain",
        "answer_rate_bound",    "answer_per_step"
    };
    const cag_bench_opts *o = j->o;
    struct bench_series s[N_ASK] = { { NULL, 0, 0 } };
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_ASK; i++)
        st = bench_series_init(&s[i], o->repeat, err);
    for (int i = -o->warmup; !st && i < o->repeat; i++) {
        const char *q = o->question[(i + o->warmup) % o->n_question];
        double t[N_ASK] = { 0 };

        st = bench_cancelled(j, "questions", err);
        if (!st)
            st = ask_once(j, c, q, false, t, err);
        /* reading everything needs no warming up */
        if (!st && i >= 0)
            st = ask_once(j, c, q, true, t, err);
        for (int k = 0; !st && i >= 0 && k < N_ASK; k++)
            if (t[k] > 0) /* an answer of one token has no rate */
                bench_series_add(&s[k], t[k]);
    }
    for (int i = 0; !st && i < N_ASK; i++) {
        bool rate = i >= RATE;
        cag_bench_figure f =
            bench_figure(names[i],
                         i == PER_STEP ? "tokens"
                         : rate        ? "tokens/s"
                                       : "s",
                         c->n_tok, rate ? CAG_BENCH_HIGHER : CAG_BENCH_LOWER);
        snprintf(f.state, sizeof f.state, "warm");
        if (i == RATE && s[RATE_BOUND].n > 0)
            f.share = bench_median(&s[RATE]) / bench_median(&s[RATE_BOUND]);
        st = bench_add(j->r, &f, &s[i], err);
    }
    if (!st) {
        c->first_s = bench_median(&s[FIRST]);
        c->uncached_s = bench_median(&s[FIRST_UNCACHED]);
    }
    for (int i = 0; i < N_ASK; i++)
        bench_series_release(&s[i]);
    return st;
}

/* --------------------------------------------------------------- decoding */

struct rows {
    cag_session **s; /* [n] */
    int32_t *id;     /* [n] next token of each */
    cag_step *step;  /* [n] */
    int n;
};

static void rows_release(struct rows *r)
{
    for (int i = 0; r->s && i < r->n; i++)
        cag_session_free(r->s[i]);
    mem_free(r->s);
    mem_free(r->id);
    mem_free(r->step);
}

/* n timelines on the prefix (or none), each with its question read. */
static cag_status rows_start(struct rows *r, struct bench_job *j, cag_kb *kb,
                             bool with_prefix, int n, cag_error *err)
{
    const cag_bench_opts *o = j->o;
    cag_status st = CAG_OK;

    r->s = mem_alloc_array((size_t)n, sizeof(void *));
    r->id = mem_alloc_array((size_t)n, sizeof *r->id);
    r->step = mem_alloc_array((size_t)n, sizeof *r->step);
    if (!r->s || !r->id || !r->step)
        return cag_fail_nomem(err, "sessions");
    r->n = n;
    for (int i = 0; !st && i < n; i++) {
        const char *q = o->question[i % o->n_question];
        cag_ids ids = CAG_IDS_INIT;
        int64_t n_before = with_prefix ? (int64_t)kb->n_ids : 0;

        st = prompt_question_encode(&kb->tail, kb->tok, q, strlen(q), false,
                                    &ids, err);
        if (!st && n_before + (int64_t)ids.n + o->n_gen > kb->n_ctx)
            st = cag_fail(err, CAG_E_LIMIT, NULL, -1,
                          "%lld tokens of prefix, %zu of question and %d to "
                          "generate do not fit the context of %lld",
                          (long long)n_before, ids.n, o->n_gen,
                          (long long)kb->n_ctx);
        if (!st)
            st = cag_session_new(kb->engine, with_prefix ? kb->prefix : NULL,
                                 (int)(n_before + (int64_t)ids.n) + o->n_gen,
                                 &r->s[i], err);
        if (!st) {
            r->step[i] = (cag_step){ .session = r->s[i],
                                     .ids = ids.id,
                                     .n_ids = (int)ids.n,
                                     .greedy = true };
            st = cag_session_prefill_many(&r->step[i], 1, err);
        }
        r->id[i] = r->step[i].best[0];
        r->step[i].ids = &r->id[i];
        r->step[i].n_ids = 1;
        cag_ids_free(&ids);
    }
    return st;
}

/* Generate n_gen tokens for every row; *s are the seconds. */
static cag_status rows_run(struct rows *r, int n_gen, double *s, cag_error *err)
{
    double start = clock_s();
    cag_status st = CAG_OK;

    for (int t = 0; !st && t < n_gen; t++) {
        st = cag_session_verify(r->step, r->n, err);
        for (int i = 0; !st && i < r->n; i++)
            r->id[i] = r->step[i].best[0];
    }
    *s = clock_s() - start;
    return st;
}

static cag_status rate_once(struct bench_job *j, cag_kb *kb, bool with_prefix,
                            int n, double *rate, double *reading,
                            cag_error *err)
{
    struct rows r = { NULL, NULL, NULL, 0 };
    double s = 0, start = clock_s();
    cag_status st = rows_start(&r, j, kb, with_prefix, n, err);

    *reading = clock_s() - start;
    if (!st)
        st = rows_run(&r, j->o->n_gen, &s, err);
    *rate = s > 0 ? (double)n * j->o->n_gen / s : 0;
    rows_release(&r);
    return st;
}

/* What a step must read at least, over what the machine reads in a second:
 * the weights once, the prefix once for all rows.  Nothing for what fits into
 * a core's own caches: memory is not what bounds it. */
#define SMALL (32.0 * 1024 * 1024)
static double share(const struct bench_job *j, double steps_per_s,
                    int64_t depth)
{
    double bytes = j->weight_bytes + j->kv_bytes * (double)depth;

    if (j->read_bps <= 0 || bytes < SMALL)
        return -1;
    return bytes * steps_per_s / j->read_bps;
}

static cag_status rates(struct bench_job *j, const struct bench_case *c,
                        cag_kb *kb, bool with_prefix, int batch, cag_error *err)
{
    cag_bench_figure f =
        bench_figure(batch ? "batch_rate" : "decode_rate", "tokens/s",
                     with_prefix ? c->n_tok : 0, CAG_BENCH_HIGHER);
    cag_bench_figure whole =
        bench_figure("batch_answers", "s", c->n_tok, CAG_BENCH_LOWER);
    struct bench_series s, w;
    int n = batch ? batch : 1;
    cag_status st = bench_series_init(&s, j->o->repeat, err);

    if (st)
        return st;
    st = bench_series_init(&w, j->o->repeat, err);
    for (int i = -j->o->warmup; !st && i < j->o->repeat; i++) {
        double rate, reading;

        st = bench_cancelled(j, batch ? "batches" : "decoding", err);
        if (!st)
            st = rate_once(j, kb, with_prefix, n, &rate, &reading, err);
        if (!st && i >= 0) {
            bench_series_add(&s, rate);
            bench_series_add(&w, reading + n * j->o->n_gen / rate);
        }
    }
    f.batch = whole.batch = batch;
    f.share = share(j, bench_median(&s) / n, with_prefix ? c->n_tok : 0);
    if (!st)
        st = bench_add(j->r, &f, &s, err);
    if (!st && batch)
        st = bench_add(j->r, &whole, &w, err);
    bench_series_release(&s);
    bench_series_release(&w);
    return st;
}

static cag_status open_loaded(struct bench_job *j, const struct bench_case *c,
                              cag_kb **kb, cag_error *err)
{
    cag_kb_opts o;
    cag_status st;

    bench_kb_opts(j, false, &o);
    st = cag_kb_open(c->path, &o, kb, err);
    return st ? st : cag_prefix_load((*kb)->prefix, err);
}

/* What the device holds for as long as the cache is open. */
static cag_status add_device_memory(struct bench_job *j,
                                    const struct bench_case *c,
                                    const cag_kb *kb, cag_error *err)
{
    const cag_device_memory m = cag_kb_device_memory(kb);
    const struct {
        const char *name;
        uint64_t bytes;
    } part[] = { { "device_weight_bytes", m.weights },
                 { "device_cache_bytes", m.caches },
                 { "device_scratch_bytes", m.scratch } };
    cag_status st = CAG_OK;

    for (int i = 0; !st && cag_kb_device_bytes(kb) && i < 3; i++) {
        cag_bench_figure f =
            bench_figure(part[i].name, "bytes", c->n_tok, CAG_BENCH_LOWER);
        st = bench_add_one(j->r, &f, (double)part[i].bytes, err);
    }
    return st;
}

cag_status bench_decode(struct bench_job *j, const struct bench_case *c,
                        cag_error *err)
{
    cag_kb *kb = NULL;
    cag_status st = open_loaded(j, c, &kb, err);
    bool known = false;

    /* without a prefix all lengths are one */
    for (int i = 0; i < j->r->n_figure; i++)
        known |= !strcmp(j->r->figure[i].name, "decode_rate");
    if (!st && !known)
        st = rates(j, c, kb, false, 0, err);
    if (!st)
        st = rates(j, c, kb, true, 0, err);
    if (!st)
        st = add_device_memory(j, c, kb, err);
    cag_kb_close(kb);
    return st;
}

cag_status bench_batch(struct bench_job *j, const struct bench_case *c,
                       cag_error *err)
{
    cag_kb *kb = NULL;
    cag_status st = open_loaded(j, c, &kb, err);

    for (int i = 0; !st && i < j->o->n_batch; i++)
        st = rates(j, c, kb, true, j->o->batch[i], err);
    cag_kb_close(kb);
    return st;
}
