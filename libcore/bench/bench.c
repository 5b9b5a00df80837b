/*
 * bench.c - one run of cag-bench: what is measured, in which order.
 *
 * Everything goes through the code a user's question goes through: caches
 * are built by cag_build, opened by cag_kb_open, asked by cag_kb_ask.  What
 * is compared (with and without the cache) is measured in turns, so that a
 * machine that gets busy slows both.  Nothing is mapped while files are
 * dropped from the page cache: mapped pages cannot be dropped.
 */
#include "bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "kernels/limits.h"
#include "kvc/kvc_read.h"
#include "build/build_job.h"
#include "ask/kb.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

/* -------------------------------------------------------------------- job */

void cag_bench_opts_init(cag_bench_opts *o)
{
    memset(o, 0, sizeof *o);
    o->what = CAG_BENCH_ALL;
    o->repeat = 5;
    o->warmup = 1;
    o->n_gen = 32;
    o->engine.precision = CAG_PRECISION_AUTO;
}

/* As cag_kb_open decides it. */
static const char *precision_of(const cag_kvc_info *i, const cag_engine_opts *e)
{
    return e->precision == CAG_PRECISION_AUTO
               ? i->precision
               : cag_precision_name(e->precision);
}

static cag_status facts_of_kb(cag_bench_report *r, const cag_kb *kb,
                              const cag_engine_opts *e, cag_error *err)
{
    const cag_kvc_info *i = cag_kvc_get_info(kb->kvc);
    const cag_model_info *m = cag_model_get_info(kb->model);
    const char *precision = precision_of(i, e);
    const cag_kvc_receipt *loss = cag_kvc_get_receipt(kb->kvc);
    char threads[16], bytes[32], tok[32], kl[64];
    const char *fact[][2] = {
        { "threads", threads },
        { "kernels", cag_kb_kernels(kb) },
        { "device", cag_kb_device(kb) },
        { "precision", precision },
        { "numerics", cag_engine_numerics(kb->engine) },
        { "model", m->name },
        { "model_type", m->weight_type },
        { "model_bytes", bytes },
        { "model_sha256", i->weights_sha256 },
        { "codec", i->codec },
        { "loss", loss ? kl : NULL },
        { "cache_tokens", tok },
        { "content_id", i->content_id },
    };
    cag_status st = CAG_OK;

    snprintf(threads, sizeof threads, "%d", cag_engine_n_thread(kb->engine));
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)m->size_bytes);
    snprintf(tok, sizeof tok, "%lld", (long long)i->n_tok);
    if (loss)
        snprintf(kl, sizeof kl, "mean KL %.2g nats over %lld tokens",
                 (double)loss->kl_mean, (long long)(loss->end - loss->begin));
    for (size_t f = 0; !st && f < sizeof fact / sizeof fact[0]; f++)
        st = !fact[f][1] ? CAG_OK
                         : cag_bench_set(r, fact[f][0], fact[f][1], err);
    return st;
}

static cag_status keep_files(struct bench_job *j, const cag_model *m)
{
    j->file = mem_alloc_array((size_t)m->n_file, sizeof *j->file);
    for (int i = 0; j->file && i < m->n_file; i++) {
        j->file[i] = mem_strdup(m->file[i]);
        if (!j->file[i])
            return CAG_E_NOMEM;
        j->n_file++;
    }
    return j->file ? CAG_OK : CAG_E_NOMEM;
}

/* Open the user's cache once: what it is, where its model lies. */
static cag_status look(struct bench_job *j, cag_error *err)
{
    cag_kb_opts o;
    cag_kb *kb = NULL;
    cag_status st;

    bench_kb_opts(j, false, &o);
    st = cag_kb_open(j->o->kvc, &o, &kb, err);
    if (st)
        return st;
    j->config = kb->model->config;
    j->fast = kernels_limit(cag_engine_products(kb->engine));
    j->weight_bytes = (double)(kmat_bytes(&kb->model->weights.head) +
                               weights_bytes(&kb->model->weights, 0,
                                             kb->model->config.n_layer));
    j->kv_bytes = 2.0 * j->config.n_layer * j->config.n_kv_head *
                  kvc_row_bytes(kvc_get_shape(kb->kvc));
    snprintf(j->codec, sizeof j->codec, "%s", cag_kvc_get_info(kb->kvc)->codec);
    st = facts_of_kb(j->r, kb, &o.engine, err);
    if (!st && (keep_files(j, kb->model) ||
                !(j->model = mem_strdup(kb->model->info.path))))
        st = cag_fail_nomem(err, "path");
    if (!st)
        st = bench_text_init(j, kb->kvc, err);
    if (!st)
        st = pool_new(&j->pool, cag_engine_n_thread(kb->engine), err);
    cag_kb_close(kb);
    return st;
}

static cag_status make_dir(struct bench_job *j, cag_error *err)
{
    j->dir =
        file_join(j->o->tmp_dir ? j->o->tmp_dir : "/tmp", "cag-bench-XXXXXX");
    if (!j->dir)
        return cag_fail_nomem(err, "path");
    if (!mkdtemp(j->dir)) {
        cag_fail_sys(err, CAG_E_CREATE, errno, j->dir,
                     "cannot make a temporary directory");
        mem_free(j->dir);
        j->dir = NULL;
        return CAG_E_CREATE;
    }
    return CAG_OK;
}

static void remove_dir(struct bench_job *j)
{
    static const char *const names[] = { "text.md", "text.md.lock", "kb.kvc",
                                         "kb.kvc.lock", NULL };

    if (!j->dir)
        return;
    for (int i = 0; names[i]; i++) {
        char *path = file_join(j->dir, names[i]);
        if (path)
            unlink(path);
        mem_free(path);
    }
    rmdir(j->dir);
    mem_free(j->dir);
}

static void job_release(struct bench_job *j)
{
    remove_dir(j);
    pool_free(j->pool);
    for (int i = 0; i < j->n_file; i++)
        mem_free(j->file[i]);
    mem_free(j->file);
    mem_free(j->model);
    mem_free(j->text);
    mem_free(j->off);
    mem_free(j->system);
    mem_free(j->label);
    mem_free(j->refusal);
    mem_free(j->ack);
    mem_free(j->template_text);
}

/* ------------------------------------------------------------------- runs */

static cag_status break_even(struct bench_job *j, const struct bench_case *c,
                             cag_error *err)
{
    cag_bench_figure f = { .name = "break_even",
                           .unit = "questions",
                           .context = c->n_tok,
                           .share = -1,
                           .better = CAG_BENCH_NEITHER };
    double saved = c->uncached_s - c->first_s, n;

    if (c->build_s <= 0 || c->uncached_s <= 0)
        return CAG_OK;
    if (saved <= 0)
        return bench_notef(j->r, err, "at %lld tokens the cache saves nothing",
                           (long long)c->n_tok);
    n = c->build_s / saved;
    if (n > (double)(int64_t)n)
        n = (double)((int64_t)n + 1);
    return bench_add_one(j->r, &f, n, err);
}

static cag_status measure(struct bench_job *j, struct bench_case *c,
                          cag_error *err)
{
    unsigned what = j->o->what;
    cag_status st = CAG_OK;

    if (what & CAG_BENCH_LOAD)
        st = bench_load(j, c, err);
    if (!st && (what & CAG_BENCH_ASK))
        st = bench_ask(j, c, err);
    if (!st && (what & CAG_BENCH_ASK))
        st = bench_check(j, c, err);
    if (!st && (what & CAG_BENCH_DECODE))
        st = bench_decode(j, c, err);
    if (!st && (what & CAG_BENCH_BATCH))
        st = bench_batch(j, c, err);
    if (!st && (what & CAG_BENCH_TTFT) && j->o->process)
        st = bench_process(j, c, err);
    if (!st && (what & (CAG_BENCH_LOAD | CAG_BENCH_BUILD)))
        st = bench_sizes(j, c, err);
    if (!st)
        st = break_even(j, c, err);
    return st;
}

/* n 0: the user's cache itself; only a build needs one of our own. */
static cag_status run_case(struct bench_job *j, int64_t n, cag_error *err)
{
    struct bench_case c = { .path = j->o->kvc, .n_tok = n ? n : j->n_tok };
    char *made = file_join(j->dir, "kb.kvc");
    cag_status st = made ? bench_limits(j, err) : cag_fail_nomem(err, "path");

    if (!st && ((j->o->what & CAG_BENCH_BUILD) || n)) {
        c.path = made;
        st = bench_build(j, &c, err);
        if (!st && (j->o->what & CAG_BENCH_BUILD))
            st = bench_loss(j, &c, err);
        if (!st && !n && c.n_tok != j->n_tok)
            st = bench_notef(j->r, err,
                             "building is measured on the text of the cache as "
                             "one source, %lld tokens; the cache has %lld, "
                             "with its own headings",
                             (long long)c.n_tok, (long long)j->n_tok);
        if (!n) { /* the user's file is what is asked */
            c.path = j->o->kvc;
            c.n_tok = j->n_tok;
        }
    }
    if (!st)
        st = measure(j, &c, err);
    mem_free(made);
    return st;
}

/* Add the machine's limits, the best of the whole run; `share' of other figures
 * is relative to them. */
static cag_status add_limits(struct bench_job *j, cag_error *err)
{
    cag_bench_figure read = { .name = "limit_read",
                              .unit = "GB/s",
                              .context = -1,
                              .share = -1,
                              .better = CAG_BENCH_NEITHER };
    cag_bench_figure fma = read;
    cag_status st;

    memcpy(fma.name, "limit_fma", sizeof "limit_fma");
    memcpy(fma.unit, "GFLOP/s", sizeof "GFLOP/s");
    st = bench_add_one(j->r, &read, j->read_bps * 1e-9, err);
    if (!st)
        st = bench_add_one(j->r, &fma, j->fma_flops * 1e-9, err);
    if (!st && j->fast) {
        memcpy(fma.name, "limit_fast", sizeof "limit_fast");
        st = bench_add_one(j->r, &fma, j->fast_flops * 1e-9, err);
    }
    return st;
}

cag_status cag_bench_run(const cag_bench_opts *o, cag_bench_report *r,
                         cag_error *err)
{
    struct bench_job j = { .o = o, .r = r };
    char number[32];
    cag_status st = CAG_OK;

    if (o->repeat < 1 || o->warmup < 0 || o->n_gen < 1 || o->n_question < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "nothing to measure: %d repeats, %d generated "
                        "tokens, %d questions",
                        o->repeat, o->n_gen, o->n_question);
    st = bench_machine(r, err);
    if (!st)
        st = look(&j, err);
    if (!st)
        st = make_dir(&j, err);
    snprintf(number, sizeof number, "%d", o->repeat);
    if (!st)
        st = cag_bench_set(r, "repeat", number, err);
    snprintf(number, sizeof number, "%d", o->warmup);
    if (!st)
        st = cag_bench_set(r, "warmup", number, err);
    snprintf(number, sizeof number, "%d", o->n_gen);
    if (!st)
        st = cag_bench_set(r, "generated", number, err);
    if (!st && !o->n_context)
        st = run_case(&j, 0, err);
    for (int i = 0; !st && i < o->n_context; i++)
        st = run_case(&j, o->context[i], err);
    if (!st)
        st = add_limits(&j, err);
    job_release(&j);
    return st;
}
