/*
 * bench_loss.c - what --precision fast loses against the default.
 *
 * The ids of the cache that was built are read once more by both: all but the
 * last N, then these, as a question would be.  The logits after each of the N
 * are compared as a receipt's are (loss_stats.h); here the keys and values
 * before them differ, too, as they do in two caches.
 */
#include "bench/bench.h"

#include <stdatomic.h>
#include <string.h>

#include "ask/kb.h"
#include "engine/loss_stats.h"
#include "build/measure_loss.h"
#include "engine/session.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/note.h"

enum { ROWS = 64 }; /* logits held at a time, of each */

struct loss {
    const struct bench_job *j;
    int n_vocab, n; /* positions that are compared */
    const int32_t *ids;
    int n_ids;
    cag_session *session[2]; /* default, fast */
    float *logits[2];        /* [ROWS, n_vocab] */
    struct loss_row *row;    /* [n] */
    int at;                  /* first row of the block */
    atomic_bool bad;         /* a logit is not finite */
};

static void compare_rows(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct loss *l = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int row = l->at + (int)i, next = l->n_ids - l->n + row + 1;
        size_t off = (size_t)i * (size_t)l->n_vocab;

        if (!loss_of_row(l->logits[0] + off, l->logits[1] + off, l->n_vocab,
                         next < l->n_ids ? l->ids[next] : -1, &l->row[row]))
            atomic_store(&l->bad, true);
    }
}

static bool on_progress(void *ctx, const cag_progress *now)
{
    const struct loss *l = ctx;

    (void)now;
    return note_progress(&l->j->o->hooks, "loss", CAG_UNIT_NONE, 0, 0);
}

static cag_status read_both(struct loss *l, cag_error *err)
{
    int before = l->n_ids - l->n;
    cag_status st = CAG_OK;

    for (int k = 0; !st && k < 2; k++)
        st = cag_session_prefill(l->session[k], l->ids, before, NULL, err);
    for (l->at = 0; !st && l->at < l->n; l->at += ROWS) {
        int n = l->n - l->at < ROWS ? l->n - l->at : ROWS;

        for (int k = 0; !st && k < 2; k++)
            st = session_prefill_rows(l->session[k], l->ids + before + l->at, n,
                                      l->logits[k], err);
        if (!st)
            pool_run(l->j->pool, compare_rows, l, n, 1);
    }
    if (!st && atomic_load(&l->bad))
        st = cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                      "what --precision fast loses cannot be measured: logits "
                      "are not finite");
    return st;
}

static cag_status add_loss(struct bench_job *j, const struct loss *l,
                           const char *products, cag_error *err)
{
    cag_bench_figure kl =
        bench_figure("loss_kl", "nats", l->n_ids - l->n, CAG_BENCH_LOWER);
    cag_bench_figure same =
        bench_figure("loss_same", "%", l->n_ids - l->n, CAG_BENCH_HIGHER);
    cag_kvc_receipt r = { 0 };
    cag_status st;

    loss_of_rows(l->row, l->n, l->n - 1, &r);
    st = bench_add_one(j->r, &kl, (double)r.kl_mean, err);
    if (!st)
        st = bench_add_one(j->r, &same, 100.0 * (double)r.n_same / l->n, err);
    if (!st)
        st = bench_notef(j->r, err,
                         "--precision %s (%s) beside default: mean KL %.2g "
                         "nats over %d positions behind %d tokens, the "
                         "likeliest token the same at %lld",
                         cag_precision_name(j->precision), products,
                         (double)r.kl_mean, l->n, l->n_ids - l->n,
                         (long long)r.n_same);
    return st;
}

static cag_status measure(struct bench_job *j, cag_kb *kb, cag_error *err)
{
    cag_engine_opts o = j->o->engine;
    cag_engine *engine[2] = { NULL, kb->engine };
    struct loss l = { .j = j,
                      .n_vocab = kb->n_vocab,
                      .ids = kb->ids,
                      .n_ids = (int)kb->n_ids,
                      .n = measure_loss_n((int)kb->n_ids) };
    cag_status st;

    atomic_init(&l.bad, false);
    if (l.n < 1)
        return CAG_OK;
    o.precision = CAG_PRECISION_DEFAULT;
    st = cag_engine_new(kb->model, &o, &engine[0], err);
    l.row = mem_alloc_array((size_t)l.n, sizeof *l.row);
    for (int k = 0; !st && k < 2; k++) {
        l.logits[k] = mem_alloc_array((size_t)l.n_vocab, ROWS * sizeof(float));
        if (!l.logits[k] || !l.row)
            st = cag_fail_nomem(err, "loss");
        if (!st)
            st = cag_session_new(engine[k], NULL, l.n_ids, &l.session[k], err);
        if (!st && j->o->hooks.progress)
            cag_engine_set_progress(engine[k], on_progress, &l);
    }
    if (!st)
        st = read_both(&l, err);
    if (!st)
        st = add_loss(j, &l, cag_engine_products(kb->engine), err);
    for (int k = 0; k < 2; k++) {
        cag_session_free(l.session[k]);
        mem_free(l.logits[k]);
    }
    mem_free(l.row);
    cag_engine_free(engine[0]);
    return st;
}

cag_status bench_loss(struct bench_job *j, const struct bench_case *c,
                      cag_error *err)
{
    cag_kb_opts o;
    cag_kb *kb = NULL;
    cag_status st;

    if (j->precision != CAG_PRECISION_FAST &&
        j->precision != CAG_PRECISION_FAST8)
        return CAG_OK;
    bench_kb_opts(j, true, &o);
    o.engine.precision = j->precision;
    st = cag_kb_open(c->path, &o, &kb, err);
    /* nothing is faster here, or a GPU computes: nothing of ours is lost */
    if (!st && strcmp(cag_engine_products(kb->engine), "f32") &&
        !strcmp(cag_engine_device(kb->engine), "cpu"))
        st = measure(j, kb, err);
    cag_kb_close(kb);
    return st;
}
