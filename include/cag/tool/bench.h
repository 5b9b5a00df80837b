/*
 * bench.h - measure a cache, its model and this machine in one run.
 *
 * A report is facts (what was measured, where, with what), figures, and
 * notes.  It is written to JSON and read back without loss, so that figures
 * are shown, drawn and compared from a file as from a run.
 *
 * Figures, by name (each with its number of prefix tokens):
 *   tokenize prefill encode write build       seconds of a construction
 *   prefill_rate                              prefix tokens a second
 *   loss_kl loss_same                         of --precision fast against
 *                                             default: mean KL in nats, and
 *                                             in % equal first choices
 *   map open expand verify                    seconds of a load
 *   question_prefill                          seconds, cache already loaded
 *   first_token answer                        seconds from opening the cache
 *   first_token_uncached answer_uncached      the same, reading everything
 *   answer_rate answer_rate_plain             tokens a second of that answer
 *                                             with and without prompt lookup
 *   answer_per_step                           tokens a step, with it
 *   evidence                                  seconds to check an answer
 *   copy_heads                                % that measuring where the model
 *                                             looks adds to an answer
 *   focus_mask focus_reread                   % that a second look adds
 *   decode_rate                               generated tokens a second; also
 *                                             without any prefix (context 0)
 *   batch_rate                                the same, batch questions at once
 *   batch_answers                             seconds for all of a batch
 *   ttft ttft_uncached                        seconds from the start of a
 *                                             cag-ask process to its first
 *                                             byte of answer
 *   private_bytes mapped_bytes shared_bytes   of that process, then
 *   file_bytes kv_bytes_per_tok               of the cache
 *   break_even                                questions that pay for a build
 *   limit_read limit_fma limit_fast           of this machine, in this run
 */
#ifndef CAG_TOOL_BENCH_H
#define CAG_TOOL_BENCH_H

#include <cag/base.h>
#include <cag/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- report */

typedef struct cag_bench_fact {
    char *key, *value; /* heap */
} cag_bench_fact;

typedef enum cag_bench_better {
    CAG_BENCH_LOWER,
    CAG_BENCH_HIGHER,
    CAG_BENCH_NEITHER
} cag_bench_better;

typedef struct cag_bench_figure {
    char name[24], unit[16];
    char state[8];   /* page cache: "warm", "cold", or ""         */
    int64_t context; /* tokens of the prefix; -1: has none        */
    int batch;       /* questions at once; 0: has none            */
    cag_bench_better better;
    int n; /* measurements                              */
    double median, min, max;
    double share; /* of the machine's limit, or -1             */
} cag_bench_figure;

typedef struct cag_bench_report {
    cag_bench_fact *fact; /* [n_fact] heap */
    int n_fact;
    cag_bench_figure *figure; /* [n_figure] heap */
    int n_figure;
    char **note; /* [n_note] heap */
    int n_note;
} cag_bench_report;
#define CAG_BENCH_REPORT_INIT     \
    {                             \
        NULL, 0, NULL, 0, NULL, 0 \
    }
void cag_bench_report_release(cag_bench_report *r);

/* The value of a fact, or NULL. */
const char *cag_bench_get(const cag_bench_report *r, const char *key);
/* Add a fact (a key there is replaced) or a note. */
cag_status cag_bench_set(cag_bench_report *r, const char *key,
                         const char *value, cag_error *err);
cag_status cag_bench_note(cag_bench_report *r, const char *text,
                          cag_error *err);

/* The report as one line of JSON, and back: heap string (cag_free), no
 * newline.  name is for messages.  CAG_E_FORMAT says what is wrong. */
cag_status cag_bench_to_json(const cag_bench_report *r, char **text,
                             size_t *size, cag_error *err);
cag_status cag_bench_from_json(const char *text, size_t size, const char *name,
                               cag_bench_report *out, cag_error *err);

/* ---------------------------------------------------------------- compare */

typedef struct cag_bench_change {
    const cag_bench_figure *was, *is; /* borrowed from the reports      */
    double percent;  /* change of the median; above 0 is worse     */
    bool regression; /* worse by more than the threshold           */
} cag_bench_change;

/*
 * Figures that both reports hold (name, context, batch, state), apart from
 * those that are neither better nor worse.  *out [*n] is heap (cag_free).
 * differs: facts that make a comparison doubtful (CPU, threads, model ...)
 * are named in it, "" if none.
 */
cag_status cag_bench_compare(const cag_bench_report *was,
                             const cag_bench_report *is,
                             double threshold_percent, cag_bench_change **out,
                             int *n, char differs[256], cag_error *err);

/* -------------------------------------------------------------------- run */

enum {
    CAG_BENCH_BUILD = 1,
    CAG_BENCH_LOAD = 2,
    CAG_BENCH_ASK = 4,
    CAG_BENCH_DECODE = 8,
    CAG_BENCH_BATCH = 16,
    CAG_BENCH_TTFT = 32,
    CAG_BENCH_ALL = 63
};

/* A cag-ask process: start it, stop at the first byte of its answer, look at
 * its memory, let it end. */
typedef struct cag_bench_process {
    double first_s;
    uint64_t private_bytes; /* anonymous                                 */
    uint64_t mapped_bytes;  /* of files, resident                        */
    uint64_t shared_bytes;  /* its proportional share of everything      */
    bool has_memory;        /* the three are known                       */
} cag_bench_process;
typedef cag_status (*cag_bench_process_fn)(void *ctx, const char *kvc,
                                           const char *model,
                                           const char *question, bool no_cache,
                                           cag_bench_process *out,
                                           cag_error *err);

typedef struct cag_bench_opts {
    const char *kvc;
    const char *model;      /* as cag_kb_opts.model                  */
    unsigned what;          /* CAG_BENCH_...                         */
    const int64_t *context; /* [n_context] lengths made of the cache's
                               text, cut or repeated; none: as it is */
    int n_context;
    const int *batch; /* [n_batch] questions at once           */
    int n_batch;
    const char *const *question; /* [n_question] at least one             */
    int n_question;
    int repeat, warmup;
    int n_gen;                    /* generated tokens                      */
    const char *tmp_dir;          /* for caches made to be measured        */
    cag_bench_process_fn process; /* NULL: no ttft figures                 */
    void *process_ctx;
    cag_engine_opts engine;
    cag_places places;
    cag_hooks hooks;
} cag_bench_opts;
void cag_bench_opts_init(cag_bench_opts *o);

/* Measure; facts already in the report stay.  After an error it holds what
 * was measured so far. */
cag_status cag_bench_run(const cag_bench_opts *o, cag_bench_report *r,
                         cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
