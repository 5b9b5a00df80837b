/*
 * bench.h - what the parts of cag-bench share; internal.
 *
 *   bench.c          order of the measurements
 *   bench_measure.c  one function a group of figures
 *   bench_loss.c     what --precision fast loses
 *   bench_ask.c      those of questions and batches
 *   bench_check.c    what checking an answer costs, and a second look
 *   bench_job.c      may the run go on, how it opens a cache
 *   bench_report.c   facts, notes, figures and the series they come from
 *   bench_lookup.c   what prompt lookup could gain
 *   bench_text.c     text of a wanted length, caches made from it
 *   bench_limits.c   the probes of the machine; the page cache
 *   bench_machine.c  facts: CPU, system, libraries
 *   bench_doc.c      report <-> JSON, comparison of two
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <cag/ask.h>
#include <cag/build.h>
#include <cag/tool/bench.h>

#include "model/config.h"
#include "util/buf.h"
#include "util/pool.h"

/* Measurements of one figure. */
struct bench_series {
    double *v; /* [cap] heap */
    int n, cap;
};

struct bench_job {
    const cag_bench_opts *o;
    cag_bench_report *r;
    struct pool *pool;
    char *model; /* path that was found */
    char **file; /* [n_file] what a question maps */
    int n_file;
    char *dir; /* temporary directory, removed at the end */
    char codec[8];
    char *text; /* the knowledge, sources joined */
    size_t text_size;
    int64_t *off; /* [n_off] where each of its tokens begins */
    int64_t n_off;
    int64_t n_frame;               /* prefix tokens that are no knowledge */
    int64_t n_ctx, reserve, n_tok; /* of the user's cache */
    cag_precision precision;       /* as asked, or the user's cache's */
    char *system, *label, *refusal, *ack, *template_text;
    double read_bps, fma_flops;       /* best seen so far; 0: not measured */
    const struct kernels_limit *fast; /* what --precision fast multiplies
                                         with, or NULL */
    double fast_flops;                /* as above, of that */
    double weight_bytes;              /* read for one token */
    struct model_config config;       /* for counting work; pointers unused */
    double kv_bytes;                  /* of one token, as computed with */
    const char *phase; /* what is measured, for progress; or NULL */
};

/* One cache being measured. */
struct bench_case {
    const char *path;
    int64_t n_tok;
    double build_s, first_s, uncached_s; /* medians, or 0 */
};

/* --- report (bench_report.c) --- */
cag_status bench_series_init(struct bench_series *s, int n, cag_error *err);
void bench_series_release(struct bench_series *s);
void bench_series_add(struct bench_series *s, double v);
double bench_median(const struct bench_series *s);
/* A figure without values, share or batch. */
cag_bench_figure bench_figure(const char *name, const char *unit,
                              int64_t context, cag_bench_better better);
/* Add a figure; f holds name, unit, state, context, batch, better, share. */
cag_status bench_add(cag_bench_report *r, const cag_bench_figure *f,
                     const struct bench_series *s, cag_error *err);
cag_status bench_add_one(cag_bench_report *r, const cag_bench_figure *f,
                         double v, cag_error *err);
cag_status bench_notef(cag_bench_report *r, cag_error *err, const char *fmt,
                       ...) PRINTF_LIKE(3, 4);

/* --- job (bench_job.c) --- */
/* May the job go on?  Also shows what is going on. */
cag_status bench_cancelled(struct bench_job *j, const char *what,
                           cag_error *err);
/* How a cache is opened to be measured. */
void bench_kb_opts(struct bench_job *j, bool no_cache, cag_kb_opts *o);

/* --- measurements (bench_measure.c, bench_ask.c) --- */
cag_status bench_build(struct bench_job *j, struct bench_case *c,
                       cag_error *err);
/* Of a cache that bench_build made; nothing but with --precision fast. */
cag_status bench_loss(struct bench_job *j, const struct bench_case *c,
                      cag_error *err);
cag_status bench_load(struct bench_job *j, const struct bench_case *c,
                      cag_error *err);
cag_status bench_ask(struct bench_job *j, struct bench_case *c, cag_error *err);
cag_status bench_check(struct bench_job *j, const struct bench_case *c,
                       cag_error *err);
cag_status bench_decode(struct bench_job *j, const struct bench_case *c,
                        cag_error *err);
cag_status bench_batch(struct bench_job *j, const struct bench_case *c,
                       cag_error *err);
cag_status bench_process(struct bench_job *j, const struct bench_case *c,
                         cag_error *err);
cag_status bench_sizes(struct bench_job *j, const struct bench_case *c,
                       cag_error *err);
/* Seconds of a step of 1 and of CAG_STEP_MAX rows after a question. */
cag_status bench_lookup(cag_kb *kb, const char *question, double t[2],
                        cag_error *err);
/* Tokens a second an answer's drafts allow; n_generated > 1. */
double bench_lookup_bound(const cag_answer *a, const double t[2]);

/* --- text (bench_text.c) --- */
cag_status bench_text_init(struct bench_job *j, const cag_kvc *k,
                           cag_error *err);
/* A file in j->dir with text for a prefix of n tokens; *path is heap. */
cag_status bench_text_file(const struct bench_job *j, int64_t n, char **path,
                           cag_error *err);
/* Build a cache of that text at out, as the user's was built. */
cag_status bench_text_build(const struct bench_job *j, const char *text,
                            int64_t n, const char *out, cag_build_report *r,
                            cag_error *err);

/* --- machine --- */
/* Both probes by all threads of the pool, some tenths of a second. */
cag_status bench_limits(struct bench_job *j, cag_error *err);
/* Drop a file from the page cache; the part that is still there, 0 to 1. */
double bench_evict(const char *path);
cag_status bench_machine(cag_bench_report *r, cag_error *err);

#endif
