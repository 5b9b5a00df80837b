/*
 * pipeline.h - whole jobs: build a cache, check it, ask it.
 *
 * What the programs in cmd/ do, without their printing: paths and options
 * in, structs and callbacks out.  Nothing here reads the environment; what a
 * program found there comes in cag_places.
 */
#ifndef CAG_PIPELINE_H
#define CAG_PIPELINE_H

#include <cag/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where models and remembered hashes are looked for.  All may be NULL. */
typedef struct cag_places {
    const char *model;        /* CAG_MODEL                                 */
    const char *models;       /* CAG_MODELS, colon-separated directories   */
    const char *hf_hub;       /* $HF_HOME/hub                              */
    const char *cache_dir;    /* writable, for remembered model hashes     */
    const char *cache_dir_ro; /* asked second                              */
} cag_places;

/* A remark that is no error, one line without newline. */
typedef enum cag_note {
    CAG_NOTE_WARN,
    CAG_NOTE_INFO,   /* for who asked for more     */
    CAG_NOTE_DETAIL, /* for who asked twice        */
    CAG_NOTE_WAIT    /* why nothing happens for now */
} cag_note;
typedef void (*cag_note_fn)(void *ctx, cag_note kind, const char *line);

/* Callbacks of a job; all may be NULL. */
typedef struct cag_hooks {
    cag_note_fn note;
    cag_progress_fn progress; /* "tokens" or "bytes"; false cancels        */
    void *ctx;
} cag_hooks;

/* ------------------------------------------------------------------ build */

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
/* Names of the built-in chat templates, i from 0; NULL at the end. */
CAG_API const char *cag_template_name(int i);

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

/* -------------------------------------------------------------------- ask */

typedef enum cag_stale {
    CAG_STALE_ERROR,
    CAG_STALE_WARN,
    CAG_STALE_IGNORE
} cag_stale;

typedef struct cag_kb_opts {
    const char *model; /* overrides every other place, or NULL      */
    cag_stale stale;
    bool verify_full; /* check every digest before answering       */
    bool no_cache;    /* read the whole prompt instead             */
    bool no_weights;  /* --dry-run: prompts only                   */
    int64_t n_ctx;    /* 0 = what the cache says                   */
    cag_engine_opts engine;
    cag_places places;
    cag_hooks hooks;
} cag_kb_opts;
CAG_API void cag_kb_opts_init(cag_kb_opts *o);

/* An open cache with its model, ready to answer.  One thread at a time. */
typedef struct cag_kb cag_kb;

CAG_API cag_status cag_kb_open(const char *path, const cag_kb_opts *o,
                               cag_kb **out, cag_error *err);
CAG_API void cag_kb_close(cag_kb *kb);
CAG_API const cag_kvc *cag_kb_get_kvc(const cag_kb *kb);
CAG_API const char *cag_kb_kernels(const cag_kb *kb);
CAG_API const char *cag_kb_device(const cag_kb *kb);
/* The device in words and why this one; and its memory in use. */
CAG_API const char *cag_kb_note(const cag_kb *kb);
CAG_API cag_device_memory cag_kb_device_memory(const cag_kb *kb);
CAG_API uint64_t cag_kb_device_bytes(const cag_kb *kb);
CAG_API int64_t cag_kb_n_ctx(const cag_kb *kb);
CAG_API int cag_kb_sources_unseen(const cag_kb *kb);
CAG_API double cag_kb_load_s(const cag_kb *kb);
/* bytes of K and V of the prefix: held privately; mapped and shared */
CAG_API uint64_t cag_kb_private_bytes(const cag_kb *kb);
CAG_API uint64_t cag_kb_mapped_bytes(const cag_kb *kb);

typedef struct cag_ask_params {
    int64_t max_tok; /* generated tokens at most, default 120     */
    cag_sampling sampling;
    const char *const *stop; /* [n_stop] strings that end an answer       */
    int n_stop;
    bool think;
    bool no_lookup; /* no guesses from the knowledge; the answer
                       is the same                               */
} cag_ask_params;
CAG_API void cag_ask_params_init(cag_ask_params *p);

typedef struct cag_answer {
    char *text; /* heap; valid UTF-8, trimmed of whitespace at
                   both ends; stop string not included       */
    size_t size;
    char *reasoning;    /* heap or NULL                              */
    bool refused;       /* exactly the refusal                       */
    const char *finish; /* "stop", "length"; static                  */
    int64_t n_cached, n_prompt, n_generated;
    /* prompt tokens computed now, not cached    */
    int64_t n_drafted, n_accepted;
    /* tokens guessed, and guessed right         */
    double prefill_s, first_s, decode_s;
    /* first_s: from the call to the first token */
} cag_answer;
CAG_API void cag_answer_release(cag_answer *a);

/* Called with answer text as it becomes final (whole UTF-8 characters), and
 * with size 0 between tokens that bring none; false stops the answer
 * (CAG_E_CANCELLED, *out filled so far). */
typedef bool (*cag_text_fn)(void *ctx, const char *text, size_t size);

/*
 * Answer one question from the clean prefix.  Errors: CAG_E_FORMAT (empty
 * or blank question, invalid UTF-8), CAG_E_LIMIT (does not fit, with the
 * numbers).
 */
CAG_API cag_status cag_kb_ask(cag_kb *kb, const char *question, size_t size,
                              const cag_ask_params *p, cag_text_fn fn,
                              void *ctx, cag_answer *out, cag_error *err);

/*
 * A conversation: earlier turns are kept, and each new turn reads again all
 * that follows the knowledge, so that turn N equals a cold run.  An answer
 * that was stopped (CAG_E_CANCELLED) is kept as far as it came; if it had not
 * begun, or after another error, the question is forgotten too.
 */
typedef struct cag_chat cag_chat;
CAG_API cag_status cag_chat_new(cag_kb *kb, cag_chat **out, cag_error *err);
CAG_API void cag_chat_free(cag_chat *c);
CAG_API void cag_chat_reset(cag_chat *c);
CAG_API cag_status cag_chat_ask(cag_chat *c, const char *question, size_t size,
                                const cag_ask_params *p, cag_text_fn fn,
                                void *ctx, cag_answer *out, cag_error *err);

/* The exact prompt of a question, and where its cached part ends. */
typedef struct cag_prompt_view {
    char *text; /* heap */
    size_t size, cached_bytes;
    int64_t n_cached, n_prompt, room; /* room: tokens left for an answer  */
} cag_prompt_view;
CAG_API cag_status cag_kb_prompt(cag_kb *kb, const char *question, size_t size,
                                 bool think, cag_prompt_view *out,
                                 cag_error *err);

/* Does the template know a switch for thinking?  Else think changes nothing. */
CAG_API bool cag_kb_knows_thinking(const cag_kb *kb);

/* One line of JSON (heap, no newline) for an answer; id may be NULL. */
CAG_API char *cag_answer_json(const cag_kb *kb, const cag_answer *a,
                              const char *question, size_t size, const char *id,
                              const cag_ask_params *p);

/* ------------------------------------------------------------------ batch */

/* A row that is put out: answered now, taken from an earlier run, or bad. */
typedef enum cag_row_kind {
    CAG_ROW_NEW,
    CAG_ROW_EARLIER,
    CAG_ROW_FAILED
} cag_row_kind;

/*
 * A file of rows that may be killed and continued.  Rows go to PATH.part,
 * each written when it is done, and PATH is replaced when all are there; a
 * PATH that is a device or a pipe is written directly.  With resume, the rows
 * that PATH.part and PATH hold are there to be taken: no whole one is lost,
 * whenever the run is killed.  One run at a time (CAG_E_LOCKED).
 */
typedef struct cag_rows cag_rows;
CAG_API cag_status cag_rows_open(const char *path, bool resume, cag_rows **out,
                                 cag_error *err);
/* One row with its newline.  Errors: CAG_E_IO, CAG_E_NOMEM. */
CAG_API cag_status cag_rows_put(cag_rows *r, const char *row, size_t size,
                                cag_row_kind kind, cag_error *err);
/* All rows were put: PATH.part holds them in order and, if good, becomes
 * PATH. */
CAG_API cag_status cag_rows_end(cag_rows *r, bool good, cag_error *err);
/* Without cag_rows_end: what is done can be resumed. */
CAG_API void cag_rows_close(cag_rows *r);
/* "PATH.part", or NULL where PATH is written directly. */
CAG_API const char *cag_rows_part(const cag_rows *r);

typedef struct cag_batch_opts {
    cag_ask_params params;
    int parallel; /* rows decoded together; 0 = from cores     */
    bool unordered;
    bool fail_fast;
    bool check_only;         /* --dry-run: check rows, answer none        */
    int format;              /* 0 as the input, 1 text, 2 jsonl           */
    const char *name;        /* of the input, for notes; or NULL          */
    const cag_rows *earlier; /* rows already answered (--resume), or NULL */
    /* May the next line be had without waiting?  Asked while rows are being
     * answered; NULL = always. */
    bool (*ready)(void *ctx);
} cag_batch_opts;

typedef struct cag_batch_report {
    int64_t n_row, n_ok, n_failed, n_resumed;
    int64_t n_generated, n_prompt;
    double seconds;
} cag_batch_report;

/* Next line of input without its newline, NULL at the end; valid until the
 * next call. */
typedef const char *(*cag_line_fn)(void *ctx, size_t *size, cag_error *err);
/* One output row with its newline; not CAG_OK stops the batch. */
typedef cag_status (*cag_row_fn)(void *ctx, const char *row, size_t size,
                                 cag_row_kind kind, cag_error *err);

/*
 * Answer rows until the input ends.  A bad row is reported in its place and
 * ends nothing.  Equal greedy questions are answered once, as long as the
 * first is among the last few hundred; memory does not grow with the input,
 * except for 24 bytes an earlier row and, with check_only, the ids.
 */
CAG_API cag_status cag_kb_batch(cag_kb *kb, const cag_batch_opts *o,
                                cag_line_fn in, cag_row_fn out, void *ctx,
                                cag_batch_report *r, cag_error *err);

/* ---------------------------------------------------------------- inspect */

/*
 * A prompt as a model would read it, without any cache: the messages (JSON
 * text, [{"role", "content"}, ...]) or, when NULL, the knowledge-base prompt
 * with "..." in the places of knowledge and question.  One of model (path or
 * hub id) and template_text may be NULL.  cached_bytes is where a cache would
 * end (0 without a model, whose tokenizer knows the control tokens).
 */
CAG_API cag_status cag_render_prompt(const char *model,
                                     const char *template_text,
                                     const char *messages, size_t n_messages,
                                     bool think, int64_t date_s,
                                     const cag_places *places,
                                     cag_prompt_view *out, cag_error *err);

/* A model for its tokenizer and template only (path or hub id). */
CAG_API cag_status cag_open_tokenizer(const char *model,
                                      const cag_places *places, cag_model **out,
                                      cag_error *err);

/* How two caches differ: one line each, heap strings. */
typedef struct cag_diff {
    char **line;
    int n_line;
    int64_t first_tok;  /* first differing token, -1 if the ids are equal */
    int64_t n_tok_kept; /* tokens a rebuild of B over A would keep        */
} cag_diff;
CAG_API cag_status cag_kvc_diff(const cag_kvc *a, const cag_kvc *b,
                                cag_diff *out, cag_error *err);
CAG_API void cag_diff_release(cag_diff *d);

/* ------------------------------------------------------------------ files */

/* CAG_E_CREATE when path is a file that holds no text, such as a model or a
 * cache: a slip of the hand must not cost it. */
CAG_API cag_status cag_check_text_output(const char *path, cag_error *err);
/* A whole file ("-" is standard input) as a heap block with a NUL behind it. */
CAG_API cag_status cag_read_file(const char *path, char **data, size_t *size,
                                 cag_error *err);
/* The same, checked: UTF-8 without NUL bytes; a byte order mark is dropped. */
CAG_API cag_status cag_read_text(const char *path, const char **text,
                                 cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
