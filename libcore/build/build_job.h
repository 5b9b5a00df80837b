/*
 * build_job.h - everything a build knows before the first token is computed.
 *
 * The steps are: look at the output, read the sources, find the model; then,
 * with the output locked, choose the prompt's parts, render and tokenize, add
 * up.  A dry run ends there; so does a build that finds its cache fresh.
 */
#ifndef BUILD_BUILD_JOB_H
#define BUILD_BUILD_JOB_H

#include <cag/build.h>

#include "kvc/kvc_layout.h"
#include "build/build_kit.h"
#include "model/model.h"
#include "prompt/prompt.h"
#include "binding/record.h"

struct build_job {
    const cag_build_opts *o;
    cag_build_report *r;
    struct source_set src;
    struct record_range *range; /* [src.n] */
    char *dir;                  /* of the output, for recorded paths */
    char *model_path;
    double start;             /* for the report                    */
    const char *hub;          /* the hub id asked for, or NULL     */
    struct kit_parts kit;     /* the model, its digests, an engine */
    cag_model *model;         /* that of kit                       */
    cag_kvc *old;             /* the cache at the output, or NULL  */
    bool old_damaged;         /* found by verify_full              */
    cag_error no_write;       /* why the output cannot be replaced */
    const cag_tokenizer *tok; /* the model's, or the old cache's   */
    const char *template_text;
    struct prompt_parts parts; /* as they will be recorded          */
    int64_t date_s;            /* the template's frozen time        */
    struct prompt prompt;
    cag_ids ids;
    int64_t n_ctx, reserve;
    const char *codec;
    struct kvc_shape shape; /* of the file                       */
    struct kvc_shape exact; /* of what is computed: q8h is coded
                               from f16 at the end               */
    const char *exact_codec;
    float max_loss; /* of a lossy codec, else 0          */
    bool lossy;
    jv *meta, *sources, *prmt;
};

/* The job's own copy of a program's options, however old that is; r is zeroed.
 * Errors: those of sized_take. */
cag_status build_job_opts(cag_build_opts *own, const cag_build_opts *given,
                          cag_build_report *r, cag_error *err);
/* What needs no lock, so that a call that cannot work leaves no lock file
 * after.  The job must be released, also after a failure. */
cag_status build_job_begin(struct build_job *j, const cag_build_opts *o,
                           cag_build_report *r, cag_error *err);
/* The steps of both that concern the model, in build_model.c. */
cag_status build_job_find_model(struct build_job *j, cag_error *err);
cag_status build_job_open_model(struct build_job *j, bool with_weights,
                                cag_error *err);
struct source_opts build_job_source_opts(const struct build_job *j);
/* The rest.  On failure the report holds what is known so far. */
cag_status build_job_prepare(struct build_job *j, bool with_weights,
                             cag_error *err);
/* META (without provenance), SRCS, PRMT of the file to write. */
cag_status build_job_records(struct build_job *j, cag_error *err);
/* Add META.provenance: where and how the numbers are computed. */
cag_status build_job_provenance(struct build_job *j, const char *numerics,
                                const char *device, cag_error *err);
/* Why the old cache is not what this job would write, one by one: each call
 * of say is a reason, until one fails. */
typedef cag_status build_reason_fn(void *ctx, const char *what, const char *why,
                                   cag_error *err);
cag_status build_job_reasons(const struct build_job *j, build_reason_fn *say,
                             void *ctx, cag_error *err);
/* Is the old cache what this job would write? */
cag_status build_job_is_fresh(const struct build_job *j, bool *fresh,
                              cag_error *err);
void build_job_release(struct build_job *j);

#endif
