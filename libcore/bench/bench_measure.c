/*
 * bench_measure.c - building, loading, sizes: figures of the files.
 */
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_codec.h"
#include "kvc/kvc_read.h"
#include "bench/bench.h"
#include "ask/kb.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

/* ----------------------------------------------------------------- encode */

struct encode {
    const cag_kvc *k;
    enum kvc_codec codec;
    const struct kvc_shape *shape;
    struct kvc_coder **coder; /* [thread] */
    uint8_t **raw, **out;
    double *taken;
    cag_error err; /* of whoever failed last */
};

static void encode_chunk(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct encode *e = ctx;
    int n = kvc_n_chunk(e->shape);

    for (int64_t i = begin; i < end; i++) {
        const uint8_t *raw;
        size_t size = kvc_chunk_bytes(e->shape, (int)(i % n)), n_out;
        cag_error err = CAG_ERROR_INIT;
        double t;
        cag_status st = kvc_chunk_load(e->k, (int)(i / n), (int)(i % n),
                                       e->raw[thread], &raw, &err);

        t = clock_s();
        if (!st)
            st = kvc_encode(e->codec, e->coder[thread], raw, size,
                            e->out[thread], &n_out, &err);
        e->taken[thread] += clock_s() - t;
        if (st)
            e->err = err;
    }
}

/* Seconds all threads need to compress the K and V of a cache. */
static cag_status encode_s(struct bench_job *j, const char *path, double *s,
                           cag_error *err)
{
    int n = pool_size(j->pool);
    struct encode e = { .err = CAG_ERROR_INIT };
    int codec = kvc_codec_find(j->codec);
    cag_kvc *k = NULL;
    cag_status st = cag_kvc_open(path, &k, err);
    bool ok = true;

    if (st)
        return st;
    e.codec = (enum kvc_codec)codec;
    e.k = k;
    e.shape = kvc_get_shape(k);
    e.coder = mem_alloc_array((size_t)n, sizeof(void *));
    e.raw = mem_alloc_array((size_t)n, sizeof(void *));
    e.out = mem_alloc_array((size_t)n, sizeof(void *));
    e.taken = mem_alloc_array((size_t)n, sizeof *e.taken);
    for (int i = 0; e.coder && e.raw && e.out && i < n; i++) {
        size_t raw = kvc_chunk_bytes(e.shape, 0);

        e.coder[i] = kvc_coder_new();
        e.raw[i] = mem_alloc_aligned(64, raw);
        e.out[i] = mem_alloc(kvc_encode_bound(raw));
        ok = ok && e.coder[i] && e.raw[i] && e.out[i];
    }
    ok = ok && e.coder && e.raw && e.out && e.taken;
    if (ok)
        pool_run(j->pool, encode_chunk, &e,
                 (int64_t)e.shape->n_layer * kvc_n_chunk(e.shape), 1);
    *s = 0;
    for (int i = 0; ok && i < n; i++)
        *s += e.taken[i] / n;
    for (int i = 0; i < n; i++) {
        if (e.coder)
            kvc_coder_free(e.coder[i]);
        if (e.raw)
            mem_free(e.raw[i]);
        if (e.out)
            mem_free(e.out[i]);
    }
    mem_free(e.coder);
    mem_free(e.raw);
    mem_free(e.out);
    mem_free(e.taken);
    cag_kvc_close(k);
    return ok ? cag_error_copy(err, &e.err) : cag_fail_nomem(err, "encoder");
}

/* ------------------------------------------------------------------ build */

enum { TOKENIZE, PREFILL, ENCODE, WRITE, BUILD, RATE, N_BUILD };

/* Operations of the prefill: matrix products, and the visible half of
 * attention's two. */
static double prefill_flop(const struct model_config *c, double n)
{
    double q = (double)c->n_head * c->d_head;
    double kv = (double)c->n_kv_head * c->d_head;
    double per_tok = c->d_model * (2 * q + 2 * kv) + 3.0 * c->d_model * c->d_ff;

    return 2 * c->n_layer * (per_tok * n + q * n * n);
}

static cag_status add_build(struct bench_job *j, const struct bench_case *c,
                            struct bench_series *s, cag_error *err)
{
    static const char *const names[] = {
        "tokenize", "prefill", "encode", "write", "build", "prefill_rate"
    };
    double limit = j->fast ? j->fast_flops : j->fma_flops;
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_BUILD; i++) {
        cag_bench_figure f =
            bench_figure(names[i], i == RATE ? "tokens/s" : "s", c->n_tok,
                         i == RATE ? CAG_BENCH_HIGHER : CAG_BENCH_LOWER);
        if (i == RATE && limit > 0)
            f.share = prefill_flop(&j->config, (double)c->n_tok) /
                      bench_median(&s[PREFILL]) / limit;
        st = bench_add(j->r, &f, &s[i], err);
    }
    return st;
}

cag_status bench_build(struct bench_job *j, struct bench_case *c,
                       cag_error *err)
{
    bool wanted = j->o->what & CAG_BENCH_BUILD;
    int n = wanted ? j->o->repeat : 1, skip = wanted ? j->o->warmup : 0;
    struct bench_series s[N_BUILD] = { { NULL, 0, 0 } };
    bool packed = !kvc_codec_in_place((enum kvc_codec)kvc_codec_find(j->codec));
    char *text = NULL;
    cag_status st = bench_text_file(j, c->n_tok, &text, err);

    for (int i = 0; !st && i < N_BUILD; i++)
        st = bench_series_init(&s[i], n, err);
    for (int i = -skip; !st && i < n; i++) {
        cag_build_report r;
        double pack = 0;

        memset(&r, 0, sizeof r);
        st = bench_text_build(j, text, c->n_tok, c->path, &r, err);
        if (!st && packed && wanted)
            st = encode_s(j, c->path, &pack, err);
        if (!st)
            c->n_tok = r.n_tok;
        if (!st && i >= 0) {
            bench_series_add(&s[TOKENIZE], r.tokenize_s);
            bench_series_add(&s[PREFILL], r.prefill_s);
            if (packed)
                bench_series_add(&s[ENCODE], pack);
            bench_series_add(&s[WRITE], r.write_s);
            bench_series_add(&s[BUILD], r.tokenize_s + r.prefill_s + r.write_s);
            bench_series_add(&s[RATE], (double)r.n_tok / r.prefill_s);
        }
        cag_build_report_release(&r);
    }
    if (!st && wanted) {
        c->build_s = bench_median(&s[BUILD]);
        st = add_build(j, c, s, err);
    }
    for (int i = 0; i < N_BUILD; i++)
        bench_series_release(&s[i]);
    mem_free(text);
    return st;
}

/* ------------------------------------------------------------------- load */

enum { MAP, OPEN, EXPAND, VERIFY, N_LOAD };

/* Mapping and verifying, by themselves; the file is in memory. */
static cag_status check_once(struct bench_job *j, const struct bench_case *c,
                             double t[N_LOAD], cag_error *err)
{
    cag_kvc *k = NULL;
    double start = clock_s();
    cag_status st = cag_kvc_open(c->path, &k, err);

    t[MAP] = clock_s() - start;
    start = clock_s();
    if (!st)
        st = cag_kvc_verify(k, pool_size(j->pool), NULL, NULL, err);
    t[VERIFY] = clock_s() - start;
    cag_kvc_close(k);
    return st;
}

static cag_status load_once(struct bench_job *j, const struct bench_case *c,
                            double t[N_LOAD], cag_error *err)
{
    cag_kb_opts o;
    cag_kb *kb = NULL;
    double start;
    cag_status st;

    bench_kb_opts(j, false, &o);
    start = clock_s();
    st = cag_kb_open(c->path, &o, &kb, err);
    t[OPEN] = clock_s() - start;
    if (st)
        return st;
    start = clock_s();
    st = cag_prefix_load(kb->prefix, err);
    t[EXPAND] = clock_s() - start;
    cag_kb_close(kb);
    return st;
}

/* Drop what a question maps; false, with a note, where the system would
 * not. */
static bool evicted(struct bench_job *j, const struct bench_case *c,
                    cag_error *err, cag_status *st)
{
    double worst = bench_evict(c->path);
    const char *which = c->path;

    for (int i = 0; i < j->n_file; i++) {
        double left = bench_evict(j->file[i]);
        if (left > worst) {
            worst = left;
            which = j->file[i];
        }
    }
    if (worst <= 0.02)
        return true;
    *st = bench_notef(j->r, err,
                      "no cold figures at %lld tokens: %.0f %% of %s stayed "
                      "in the page cache (mapped by another process, or not "
                      "ours to write)",
                      (long long)c->n_tok, 100 * worst, which);
    return false;
}

static cag_status add_load(struct bench_job *j, const struct bench_case *c,
                           const char *state, struct bench_series *s,
                           cag_error *err)
{
    static const char *const names[] = { "map", "open", "expand", "verify" };
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_LOAD; i++) {
        cag_bench_figure f =
            bench_figure(names[i], "s", c->n_tok, CAG_BENCH_LOWER);
        snprintf(f.state, sizeof f.state, "%s", state);
        st = bench_add(j->r, &f, &s[i], err);
    }
    return st;
}

static cag_status load_series(struct bench_job *j, const struct bench_case *c,
                              bool cold, cag_error *err)
{
    struct bench_series s[N_LOAD] = { { NULL, 0, 0 } };
    cag_status st = CAG_OK;
    bool ok = true;

    for (int i = 0; !st && i < N_LOAD; i++)
        st = bench_series_init(&s[i], j->o->repeat, err);
    for (int i = cold ? 0 : -j->o->warmup; ok && !st && i < j->o->repeat; i++) {
        double t[N_LOAD];

        st = bench_cancelled(j, cold ? "cold load" : "load", err);
        if (!st && cold)
            ok = evicted(j, c, err, &st);
        if (!st && ok)
            st = load_once(j, c, t, err);
        if (!st && !cold)
            st = check_once(j, c, t, err);
        for (int k = 0; ok && !st && i >= 0 && k < N_LOAD; k++)
            if (!cold || k == OPEN || k == EXPAND)
                bench_series_add(&s[k], t[k]);
    }
    if (!st)
        st = add_load(j, c, cold ? "cold" : "warm", s, err);
    for (int i = 0; i < N_LOAD; i++)
        bench_series_release(&s[i]);
    return st;
}

cag_status bench_load(struct bench_job *j, const struct bench_case *c,
                      cag_error *err)
{
    cag_status st = load_series(j, c, false, err);

    return st ? st : load_series(j, c, true, err);
}

/* -------------------------------------------------------------- processes */

enum { FIRST, UNCACHED, COLD, N_PROCESS };

static cag_status add_memory(struct bench_job *j, const struct bench_case *c,
                             const cag_bench_process *p, cag_error *err)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } m[] = {
        { "private_bytes", p->private_bytes },
        { "mapped_bytes", p->mapped_bytes },
        { "shared_bytes", p->shared_bytes },
    };
    cag_status st = CAG_OK;

    if (!p->has_memory)
        return bench_notef(j->r, err,
                           "no memory figures: smaps_rollup of cag-ask could "
                           "not be read");
    for (size_t i = 0; !st && i < sizeof m / sizeof m[0]; i++) {
        cag_bench_figure f =
            bench_figure(m[i].name, "bytes", c->n_tok,
                         i ? CAG_BENCH_NEITHER : CAG_BENCH_LOWER);
        st = bench_add_one(j->r, &f, (double)m[i].bytes, err);
    }
    return st;
}

static cag_status add_process(struct bench_job *j, const struct bench_case *c,
                              struct bench_series *s, cag_error *err)
{
    static const char *const names[] = { "ttft", "ttft_uncached", "ttft" };
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_PROCESS; i++) {
        cag_bench_figure f =
            bench_figure(names[i], "s", c->n_tok, CAG_BENCH_LOWER);
        snprintf(f.state, sizeof f.state, "%s", i == COLD ? "cold" : "warm");
        st = bench_add(j->r, &f, &s[i], err);
    }
    return st;
}

cag_status bench_process(struct bench_job *j, const struct bench_case *c,
                         cag_error *err)
{
    const cag_bench_opts *o = j->o;
    struct bench_series s[N_PROCESS] = { { NULL, 0, 0 } };
    cag_bench_process p, last;
    cag_status st = CAG_OK;
    bool ok = true;

    memset(&last, 0, sizeof last);
    for (int i = 0; !st && i < N_PROCESS; i++)
        st = bench_series_init(&s[i], o->repeat, err);
    for (int i = -o->warmup; !st && i < o->repeat; i++) {
        const char *q = o->question[(i + o->warmup) % o->n_question];

        st = bench_cancelled(j, "first byte", err);
        if (!st)
            st = o->process(o->process_ctx, c->path, j->model, q, false, &p,
                            err);
        if (!st && i >= 0) {
            bench_series_add(&s[FIRST], p.first_s);
            if (p.has_memory) /* a short answer may end before the look */
                last = p;
        }
        if (!st && i >= 0)
            st =
                o->process(o->process_ctx, c->path, j->model, q, true, &p, err);
        if (!st && i >= 0)
            bench_series_add(&s[UNCACHED], p.first_s);
    }
    for (int i = 0; ok && !st && i < o->repeat; i++) {
        ok = evicted(j, c, err, &st);
        if (!st && ok)
            st = o->process(o->process_ctx, c->path, j->model,
                            o->question[i % o->n_question], false, &p, err);
        if (!st && ok)
            bench_series_add(&s[COLD], p.first_s);
    }
    if (!st)
        st = add_process(j, c, s, err);
    if (!st)
        st = add_memory(j, c, &last, err);
    for (int i = 0; i < N_PROCESS; i++)
        bench_series_release(&s[i]);
    return st;
}

/* ------------------------------------------------------------------ sizes */

cag_status bench_sizes(struct bench_job *j, const struct bench_case *c,
                       cag_error *err)
{
    cag_bench_figure file =
        bench_figure("file_bytes", "bytes", c->n_tok, CAG_BENCH_LOWER);
    cag_bench_figure kv =
        bench_figure("kv_bytes_per_tok", "bytes", c->n_tok, CAG_BENCH_LOWER);
    cag_kvc *k = NULL;
    cag_status st = cag_kvc_open(c->path, &k, err);

    if (!st) {
        const cag_kvc_info *i = cag_kvc_get_info(k);

        /* against plain f16 */
        kv.share = (double)i->kv_stored_bytes / (double)i->n_tok /
                   (4.0 * i->n_layer * i->n_kv_head * i->d_head);
        st = bench_add_one(j->r, &file, (double)i->size_bytes, err);
        if (!st)
            st = bench_add_one(
                j->r, &kv, (double)i->kv_stored_bytes / (double)i->n_tok, err);
    }
    cag_kvc_close(k);
    return st;
}
