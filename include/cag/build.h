/*
 * build.h - make a cache from texts, find that it is still right, and make it
 * again from what it records.
 */
#ifndef CAG_BUILD_H
#define CAG_BUILD_H

#include <cag/base.h>
#include <cag/kvc.h>
#include <cag/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One operand of a build, in the order given. */
typedef struct cag_source_spec {
    const char *path;          /* file, directory, glob (if is_glob) or "-" */
    const char *title;         /* name shown to the model, NULL = from path */
    const char *const *filter; /* argv, NULL-terminated; the file is its
                                  standard input and replaces {}; or NULL   */
    double filter_timeout_s;   /* 0 = 60                        */
    uint64_t filter_max_bytes; /* 0 = 64 MiB                    */
    bool is_glob;
    /* In place of filter: never run, only recorded; the text is that of
     * opts.texts, while the file is the same.  Set by cag_refresh. */
    const char *const *filter_was;
} cag_source_spec;

typedef struct cag_build_opts {
    const char *model; /* path or hub id                */
    const char *output;
    const cag_source_spec *source; /* [n_source]                    */
    int n_source;
    const char *system, *label, *refusal; /* NULL = default, or as recorded */
    const char *acknowledgement;          /* the same; used by templates
                                             without a system role         */
    bool drop_front_matter;
    int64_t n_ctx;                  /* 0 = the model's               */
    int64_t reserve;                /* -1 = default                  */
    const char *chat_template;      /* built-in name, or NULL        */
    const char *chat_template_text; /* a file's text, or NULL        */
    int64_t template_date;          /* seconds; -1 = as recorded, or
                                       else now                      */
    int64_t now;                    /* seconds, for the first build  */
    const char *codec;              /* NULL = f16z                   */
    double max_loss;                /* of a lossy codec: mean KL in nats above
                                       which nothing is written; negative = the
                                       codec's default                           */
    cag_engine_opts engine;
    bool force;          /* rebuild even if fresh         */
    bool keep_mtime;     /* fresh: leave the file's time  */
    bool checkpoint;     /* go on from, and save, OUTPUT.ckpt         */
    double checkpoint_s; /* how often; 0 = 30             */
    bool verify_full;    /* ignore remembered hashes      */
    int mode;            /* -1 = existing or default      */
    double lock_timeout_s;
    uint64_t max_memory; /* 0 = no limit                  */
    const char *depfile;
    const cag_kvc *texts; /* of sources with filter_was, or NULL       */
    cag_places places;
    cag_hooks hooks;
} cag_build_opts;
CAG_API void cag_build_opts_init(cag_build_opts *o);

typedef struct cag_build_source {
    char *name, *path;
    uint64_t size_bytes, text_bytes;
    int64_t n_tok;
} cag_build_source;

/* A place in a source that costs tokens and says little to a model. */
typedef struct cag_build_line {
    int source;           /* index                                     */
    int64_t line, n_line; /* in the source's text, from 1              */
    int64_t n_tok;
    const char *kind; /* "data: URI", "links" ...; static          */
} cag_build_line;

typedef struct cag_build_report {
    bool fresh;               /* nothing had to be done                    */
    cag_build_source *source; /* [n_source] heap                           */
    int n_source;
    cag_build_line *line; /* [n_line] heap, dry run: costliest first   */
    int n_line;
    int64_t n_tok;         /* prefix                                    */
    int64_t n_tok_kept;    /* not computed: taken from the old file ... */
    int64_t n_tok_resumed; /* ... or, of those, from a checkpoint       */
    int64_t n_ctx, reserve;
    uint64_t file_bytes, kv_raw_bytes, kv_stored_bytes;
    uint64_t build_bytes; /* memory a build needs at most (estimate)   */
    uint64_t ask_bytes;   /* private memory a question needs           */
    double about_s;       /* dry run: the prefill here, estimated      */
    double saved_s;       /* the prefill of what was kept, estimated   */
    double tokenize_s, prefill_s, write_s, total_s;
    double receipt_s;        /* of write_s: measuring a lossy codec       */
    bool has_receipt;        /* also of a cache that stays, and of one
                                that was refused (CAG_E_LOSS)             */
    cag_kvc_receipt receipt; /* without loss                              */
    char content_id[65];
    char codec[8];
    char *model_path; /* heap */
} cag_build_report;
CAG_API void cag_build_report_release(cag_build_report *r);

/*
 * Build, or find that nothing has to be done.  The report is filled as far
 * as the job got, also on failure (a text that does not fit: the per-source
 * token table).  Errors: any; the old cache is intact after each.
 */
CAG_API cag_status cag_build(const cag_build_opts *o, cag_build_report *r,
                             cag_error *err);
/* --dry-run: read, tokenize, add up; needs no weights, writes nothing. */
CAG_API cag_status cag_build_plan(const cag_build_opts *o, cag_build_report *r,
                                  cag_error *err);

/* -------------------------------------------------------------- freshness */

typedef struct cag_check_report {
    char **reason; /* [n_reason] heap: "handbook.md: changed"   */
    int n_reason;
    char **unseen; /* [n_unseen] sources that could not be seen */
    int n_unseen;
    int n_source;
    bool model_seen;
    char *rebuild; /* heap: what rebuilds it                    */
} cag_check_report;
CAG_API void cag_check_report_release(cag_check_report *r);

/*
 * Compare a cache with its sources and, where found, its model on disk.
 * CAG_OK fresh, CAG_E_STALE with reasons, CAG_E_MISSING if nothing differs
 * but something could not be seen; other errors when the cache itself is
 * unusable.  places and hooks may be NULL.
 */
CAG_API cag_status cag_check(const cag_kvc *k, const cag_places *places,
                             const cag_hooks *hooks, bool verify_full,
                             cag_check_report *r, cag_error *err);
/*
 * Rebuild a cache from what it records.  o gives engine options, places,
 * hooks, force, keep_mtime, lock and so on; its sources, prompt and output
 * are ignored.
 */
CAG_API cag_status cag_refresh(const char *path, const cag_build_opts *o,
                               cag_build_report *r, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
