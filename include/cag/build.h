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
    double filter_timeout_s;   /* 0 = 60                                    */
    uint64_t filter_max_bytes; /* 0 = 64 MiB                                */
    bool is_glob;
    /* In place of filter: never run, only recorded; the text is that of
     * opts.texts, while the file is the same.  Set by cag_refresh. */
    const char *const *filter_was;
    const void *reserved[4]; /* NULL                                        */
} cag_source_spec;

/*
 * What a build leaves for the next one of the same model: the open model with
 * its digests, and its engine.  The model's files must not have changed since.
 */
typedef struct cag_build_kit cag_build_kit;
CAG_API cag_status cag_build_kit_new(cag_build_kit **out, cag_error *err);
CAG_API void cag_build_kit_free(cag_build_kit *k);
/* Are copy heads looked for (cag_kvc_attention)? */
typedef enum cag_calibrate {
    CAG_CALIBRATE_AUTO, /* where that is below 5 % of the build: from 2,560
                           tokens on, where the device measures attention   */
    CAG_CALIBRATE_OFF,
    CAG_CALIBRATE_HEADS /* of any text                                      */
} cag_calibrate;
/* "auto", "off", "heads"; NULL past the last */
CAG_API const char *cag_calibrate_name(int i);

/* All that is pointed to is borrowed for the call. */
typedef struct cag_build_opts {
    size_t size;       /* set by cag_build_opts_init                        */
    const char *model; /* path or hub id; NULL = places.model               */
    const char *output;
    const cag_source_spec *source; /* [n_source] at least one               */
    int n_source;
    const char *system, *label, *refusal; /* NULL = default, or as recorded */
    const char *acknowledgement;          /* the same; used by templates
                                             without a system role          */
    bool drop_front_matter;
    int64_t n_ctx;                  /* tokens; 0 = the model's              */
    int64_t reserve;                /* tokens kept for question and answer;
                                       -1 = default                         */
    const char *chat_template;      /* built-in name, or NULL               */
    const char *chat_template_text; /* a file's text, or NULL               */
    int64_t template_date;          /* seconds since 1970; -1 = as recorded,
                                       or else now                          */
    int64_t now;                    /* seconds, for the first build         */
    const char *codec;              /* "f16z", "f16", "q8h", "f32"; NULL =
                                       f16z                                 */
    double max_loss; /* of a lossy codec: mean KL in nats above which
                        nothing is written; negative = the codec's      */
    cag_engine_opts engine;
    bool force;            /* rebuild even if fresh                           */
    bool keep_mtime;       /* fresh: leave the file's time                    */
    bool checkpoint;       /* go on from, and save, OUTPUT.ckpt               */
    double checkpoint_s;   /* how often; 0 = 30                               */
    bool verify_full;      /* ignore remembered hashes                        */
    int mode;              /* permission bits; -1 = existing or default       */
    double lock_timeout_s; /* how long to wait for another build            */
    uint64_t max_memory;   /* bytes; 0 = no limit                           */
    const char *depfile;   /* a make rule goes there; or NULL               */
    const cag_kvc *texts;  /* of sources with filter_was, or NULL           */
    cag_places places;
    cag_hooks hooks;
    /* Patterns as in gitignore(5), NULL-terminated, or NULL: what directories
     * take in place of text files; what directories and patterns leave out. */
    const char *const *include, *const *exclude;
    /* A real directory below which all sources lie, links followed, else
     * CAG_E_USAGE; or NULL.  Set by cag_refresh, unless allow_outside. */
    const char *below;
    bool allow_outside; /* cag_refresh: read what the cache names anywhere */
    /* The hub id that led to model, a path then; recorded in its place.  Set
     * by cag_refresh. */
    const char *model_hub;
    cag_build_kit *kit; /* of builds one after another, or NULL             */
    cag_calibrate calibrate;
} cag_build_opts;
CAG_API void cag_build_opts_init_size(cag_build_opts *o, size_t size);
static inline void cag_build_opts_init(cag_build_opts *o)
{
    cag_build_opts_init_size(o, sizeof *o);
}

typedef struct cag_build_source {
    char *name, *path;               /* heap                                */
    uint64_t size_bytes, text_bytes; /* of the file; of its text            */
    int64_t n_tok;
} cag_build_source;

/* A place in a source that costs tokens and says little to a model. */
typedef struct cag_build_line {
    int source;           /* index                                          */
    int64_t line, n_line; /* in the source's text, from 1                   */
    int64_t n_tok;
    const char *kind; /* "data: URI", "links" ...; static                   */
} cag_build_line;

/* Filled by a call as far as it came, also on failure (a text that does not
 * fit: the per-source token table), and the caller's to release. */
typedef struct cag_build_report {
    bool fresh;               /* nothing had to be done                     */
    cag_build_source *source; /* [n_source] heap                            */
    int n_source;
    cag_build_line *line; /* [n_line] heap, dry run: costliest first        */
    int n_line;
    int64_t n_tok;         /* prefix                                        */
    int64_t n_tok_kept;    /* not computed: taken from the old file ...     */
    int64_t n_tok_resumed; /* ... or, of those, from a checkpoint           */
    int64_t n_ctx, reserve;
    uint64_t file_bytes, kv_raw_bytes, kv_stored_bytes;
    uint64_t build_bytes; /* memory a build needs at most (estimate)        */
    uint64_t ask_bytes;   /* private memory a question needs                */
    double about_s;       /* dry run: the prefill here, estimated           */
    double saved_s;       /* the prefill of what was kept, estimated        */
    double tokenize_s, prefill_s, write_s, total_s;
    double receipt_s;        /* of write_s: measuring a lossy codec         */
    double calibrate_s;      /* of write_s: finding copy heads            */
    bool has_receipt;        /* also of a cache that stays, and of one that
                                was refused (CAG_E_LOSS)                    */
    cag_kvc_receipt receipt; /* without loss                                */
    char content_id[65];     /* 64 hex digits                               */
    char codec[8];
    char *model_path;  /* heap                                              */
    int64_t n_skipped; /* files and links that directories passed over      */
    char *skipped;     /* heap: how many and why, or NULL for none          */
    bool has_old;      /* dry run: a cache is there, of which n_tok_kept
                          tokens would be kept                              */
    uint64_t reserved[5];
} cag_build_report;
CAG_API void cag_build_report_release(cag_build_report *r);

/*
 * Build, or find that nothing has to be done.  The file appears whole or not
 * at all, and the old cache is intact after each error: CAG_E_USAGE,
 * CAG_E_MISSING (source, model), CAG_E_FORMAT (a source that is no text, a
 * model), CAG_E_LIMIT (does not fit), CAG_E_LOSS, CAG_E_CHANGED (a source,
 * while it was read), CAG_E_LOCKED, CAG_E_CREATE, CAG_E_CANCELLED,
 * CAG_E_UNSUPPORTED, CAG_E_BACKEND, CAG_E_IO, CAG_E_NOMEM.
 */
CAG_API cag_status cag_build(const cag_build_opts *o, cag_build_report *r,
                             cag_error *err);
/* --dry-run: read, tokenize, add up; needs no weights, writes nothing.
 * Errors as above. */
CAG_API cag_status cag_build_plan(const cag_build_opts *o, cag_build_report *r,
                                  cag_error *err);

/* -------------------------------------------------------------- freshness */

/* Filled also with CAG_E_STALE and CAG_E_MISSING; the caller's to release. */
typedef struct cag_check_report {
    char **reason; /* [n_reason] heap: "handbook.md: changed"              */
    int n_reason;
    char **unseen; /* [n_unseen] heap: sources that could not be seen      */
    int n_unseen;
    int n_source;
    bool model_seen;
    char *rebuild; /* heap: the command that rebuilds it                   */
    char *model_unseen; /* heap: which model is not there, or NULL         */
    uint64_t reserved[3];
} cag_check_report;
CAG_API void cag_check_report_release(cag_check_report *r);

/*
 * Compare a cache with its sources and, where found, its model on disk.
 * CAG_OK fresh, CAG_E_STALE with reasons, CAG_E_MISSING if nothing differs
 * but something could not be seen; other errors when the cache itself is
 * unusable.  verify_full reads every byte of it first (CAG_E_CORRUPT) and
 * hashes what is remembered.  places and hooks may be NULL.
 */
CAG_API cag_status cag_check(const cag_kvc *k, const cag_places *places,
                             const cag_hooks *hooks, bool verify_full,
                             cag_check_report *r, cag_error *err);
/*
 * Would this build find its output fresh?  As cag_check, but compared with all
 * that the build says, not only with what the cache records; computes nothing.
 * CAG_E_STALE with reasons; CAG_E_MISSING where the output is not built yet.
 * r->rebuild is NULL: it is this build.
 */
CAG_API cag_status cag_build_check(const cag_build_opts *o, cag_check_report *r,
                                   cag_error *err);

/*
 * Rebuild the cache at path from what it records.  o gives engine options,
 * places, hooks, force, keep_mtime, lock and so on; its sources, prompt and
 * output are ignored.  Errors as cag_build, and those of a cache that cannot
 * be read.
 */
CAG_API cag_status cag_refresh(const char *path, const cag_build_opts *o,
                               cag_build_report *r, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
