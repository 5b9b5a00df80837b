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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "kvc/kvc_read.h"
#include "build/build_job.h"
#include "ask/kb.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/note.h"

/* ----------------------------------------------------------------- report */

void cag_bench_report_release(cag_bench_report *r)
{
    for (int i = 0; i < r->n_fact; i++) {
        mem_free(r->fact[i].key);
        mem_free(r->fact[i].value);
    }
    for (int i = 0; i < r->n_note; i++)
        mem_free(r->note[i]);
    mem_free(r->fact);
    mem_free(r->figure);
    mem_free(r->note);
    memset(r, 0, sizeof *r);
}

const char *cag_bench_get(const cag_bench_report *r, const char *key)
{
    for (int i = 0; i < r->n_fact; i++)
        if (!strcmp(r->fact[i].key, key))
            return r->fact[i].value;
    return NULL;
}

/* Room for one more element; arrays grow by half. */
static bool grow(void **v, int n, size_t size)
{
    size_t bytes;
    void *p;

    if (n && (n < 8 || (n & (n - 1)))) /* full at 8, 16, 32 ... */
        return true;
    if (!mem_mul(&bytes, n ? 2 * (size_t)n : 8, size))
        return false;
    p = mem_realloc(*v, bytes);
    if (p)
        *v = p;
    return p != NULL;
}

cag_status cag_bench_set(cag_bench_report *r, const char *key,
                         const char *value, cag_error *err)
{
    char *v = mem_strdup(value), *k = NULL;
    void *fact = r->fact;

    for (int i = 0; v && i < r->n_fact; i++)
        if (!strcmp(r->fact[i].key, key)) {
            mem_free(r->fact[i].value);
            r->fact[i].value = v;
            return CAG_OK;
        }
    k = v ? mem_strdup(key) : NULL;
    if (!k || !grow(&fact, r->n_fact, sizeof *r->fact)) {
        mem_free(k);
        mem_free(v);
        return cag_fail_nomem(err, "report");
    }
    r->fact = fact;
    r->fact[r->n_fact++] = (cag_bench_fact){ k, v };
    return CAG_OK;
}

cag_status cag_bench_note(cag_bench_report *r, const char *text, cag_error *err)
{
    char *copy = mem_strdup(text);
    void *note = r->note;

    if (!copy || !grow(&note, r->n_note, sizeof *r->note)) {
        mem_free(copy);
        return cag_fail_nomem(err, "report");
    }
    r->note = note;
    r->note[r->n_note++] = copy;
    return CAG_OK;
}

cag_status bench_notef(cag_bench_report *r, cag_error *err, const char *fmt,
                       ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return cag_bench_note(r, text, err);
}

cag_status bench_series_init(struct bench_series *s, int n, cag_error *err)
{
    s->n = 0;
    s->cap = n;
    s->v = mem_alloc_array((size_t)n, sizeof *s->v);
    return s->v ? CAG_OK : cag_fail_nomem(err, "measurements");
}

void bench_series_release(struct bench_series *s)
{
    mem_free(s->v);
    s->v = NULL;
}

void bench_series_add(struct bench_series *s, double v)
{
    if (s->n < s->cap)
        s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double bench_median(const struct bench_series *s)
{
    if (!s->n)
        return 0;
    qsort(s->v, (size_t)s->n, sizeof *s->v, by_value);
    return s->n % 2 ? s->v[s->n / 2]
                    : (s->v[s->n / 2 - 1] + s->v[s->n / 2]) / 2;
}

cag_bench_figure bench_figure(const char *name, const char *unit,
                              int64_t context, cag_bench_better better)
{
    cag_bench_figure f = { .context = context, .better = better, .share = -1 };

    snprintf(f.name, sizeof f.name, "%s", name);
    snprintf(f.unit, sizeof f.unit, "%s", unit);
    return f;
}

cag_status bench_add(cag_bench_report *r, const cag_bench_figure *f,
                     const struct bench_series *s, cag_error *err)
{
    void *figure = r->figure;
    cag_bench_figure *to;

    if (!s->n)
        return CAG_OK;
    if (!grow(&figure, r->n_figure, sizeof *r->figure))
        return cag_fail_nomem(err, "report");
    r->figure = figure;
    to = &r->figure[r->n_figure++];
    *to = *f;
    to->n = s->n;
    to->median = bench_median(s);
    to->min = s->v[0];
    to->max = s->v[s->n - 1];
    return CAG_OK;
}

cag_status bench_add_one(cag_bench_report *r, const cag_bench_figure *f,
                         double v, cag_error *err)
{
    struct bench_series one = { &v, 1, 1 };

    return bench_add(r, f, &one, err);
}

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

/* May the job go on?  Also shows what is going on. */
cag_status bench_cancelled(const struct bench_job *j, const char *what,
                           cag_error *err)
{
    if (!note_progress(&j->o->hooks, what, CAG_UNIT_NONE, 0, 0))
        return cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    return CAG_OK;
}

void bench_kb_opts(const struct bench_job *j, bool no_cache, cag_kb_opts *o)
{
    cag_kb_opts_init(o);
    o->model = j->model ? j->model : j->o->model;
    o->stale = CAG_STALE_WARN; /* checked as always, but no obstacle */
    o->no_cache = no_cache;
    o->engine = j->o->engine;
    o->places = j->o->places;
    o->hooks.progress = j->o->hooks.progress;
    o->hooks.ctx = j->o->hooks.ctx;
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

/* The probes' best of the whole run; shares are told of these. */
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
    return st ? st : bench_add_one(j->r, &fma, j->fma_flops * 1e-9, err);
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
