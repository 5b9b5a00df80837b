/*
 * batch.h - many questions on one cache, as rows of text or JSON.
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

/* A file of rows that may be killed and continued: tool/batch_file.h. */
typedef struct cag_rows cag_rows;

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

#ifdef __cplusplus
}
#endif
#endif
