/*
 * batch.h - many questions on one cache, as rows of text or JSON.
 *
 * For input that need not fit memory, and output that need not wait for its
 * end.  What a row may say, and what comes out: cag-ask(1), BATCHES.
 */
#ifndef CAG_BATCH_H
#define CAG_BATCH_H

#include <cag/ask.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A row that is put out: answered now, taken from an earlier run, or bad. */
typedef enum cag_row_kind {
    CAG_ROW_NEW,
    CAG_ROW_EARLIER,
    CAG_ROW_FAILED
} cag_row_kind;

/* How rows are written. */
typedef enum cag_row_format {
    CAG_ROWS_AS_INPUT, /* JSON if the first row is                         */
    CAG_ROWS_TEXT,     /* the answer alone, newlines become blanks         */
    CAG_ROWS_JSON
} cag_row_format;

/* A file of rows that may be killed and continued; cag-ask(1) has one, a
 * program leaves it NULL. */
typedef struct cag_rows cag_rows;

typedef struct cag_batch_opts {
    size_t size;                  /* set by cag_batch_opts_init            */
    const cag_ask_params *params; /* of rows that say nothing else; NULL:
                                     defaults                              */
    int parallel; /* rows at a time; 0 = from cores and memory */
    cag_row_format format;
    bool unordered;          /* rows leave as they are done, not as they came */
    bool fail_fast;          /* stop after the first bad row               */
    bool check_only;         /* check rows, answer none (no_weights)       */
    const char *name;        /* of the input, for notes; or NULL           */
    const cag_rows *earlier; /* rows already answered (--resume), or NULL  */
    /* May the next line be had without waiting?  Asked while rows are being
     * answered; NULL = always. */
    bool (*ready)(void *ctx);
    /* ',' or a tab: the input is values between these, with a header; 0: text
     * or JSON */
    char separator;
    const char *question_field; /* its name in a row; NULL: "question"      */
    /* Answer only the rows whose number, from 0, is shard modulo n_shard; 0:
     * all.  Rows must be JSON. */
    int shard, n_shard;
} cag_batch_opts;
CAG_API void cag_batch_opts_init_size(cag_batch_opts *o, size_t size);
static inline void cag_batch_opts_init(cag_batch_opts *o)
{
    cag_batch_opts_init_size(o, sizeof *o);
}

typedef struct cag_batch_report {
    int64_t n_row;          /* rows read, of this shard               */
    int64_t n_ok, n_failed; /* rows put out                           */
    int64_t n_resumed;      /* of n_ok: from an earlier run           */
    int64_t n_withheld;     /* of n_ok: for want of evidence          */
    int64_t n_generated;    /* tokens of answers computed now ...     */
    int64_t n_prompt;       /* ... and of their questions             */
    double seconds;
    int64_t n_input;       /* rows read, those of other shards too   */
    uint64_t input_digest; /* n_shard: 8 bytes of their SHA-256      */
    int64_t n_cut;         /* of n_ok: ended by max_tok or a full context    */
} cag_batch_report;

/* The next line of input without its newline, valid until the next call; NULL
 * at the end, or with err->status set, which ends the batch.  A line with
 * err->status set is a bad row, whatever its text. */
typedef const char *(*cag_line_fn)(void *ctx, size_t *size, cag_error *err);
/* One output row with its newline, valid during the call; anything but CAG_OK
 * stops the batch with that error. */
typedef cag_status (*cag_row_fn)(void *ctx, const char *row, size_t size,
                                 cag_row_kind kind, cag_error *err);

/*
 * Answer rows until the input ends.  A bad row is reported in its place and
 * ends nothing.  Equal greedy questions are answered once, as long as the
 * first is among the last few hundred; memory does not grow with the input,
 * except for 24 bytes an earlier row and 16 an id.
 *
 *   o    NULL: defaults
 *   ctx  of in, out and o->ready
 *   r    zeroed first; filled as far as the batch came, also on failure
 *
 * Errors: those of in and out; CAG_E_USAGE, CAG_E_CANCELLED (the kb's
 * progress, "rows"), CAG_E_CORRUPT, CAG_E_BACKEND, CAG_E_IO (earlier rows),
 * CAG_E_NOMEM.  JSON rows that were done by then are put out.
 */
CAG_API cag_status cag_kb_batch(cag_kb *kb, const cag_batch_opts *o,
                                cag_line_fn in, cag_row_fn out, void *ctx,
                                cag_batch_report *r, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
