/*
 * batch_row.h - one question as JSON in, one answer as JSON out.
 *
 * An output row carries the input row's own fields along, each number as it
 * was written; ours are schema, line, id, question, answer, refused,
 * finish_reason, usage, content_id, options, seconds, or error and
 * error_code.  Input fields of such names are in an object "input", unless
 * the row is an output row itself.  temperature, top_p, top_k, min_p, seed,
 * max_tokens, stop and think are obeyed, or the row is bad.
 * "options" is a short digest of everything besides the question that decides
 * an answer, for --resume.
 */
#ifndef BATCH_BATCH_ROW_H
#define BATCH_BATCH_ROW_H

#include <cag/ask.h>

#include "util/buf.h"
#include "util/json.h"

struct row {
    int64_t line; /* 1-based line of the input             */
    jv *input;    /* the whole object, or NULL (plain text) */
    char *text;   /* heap: it as it was written, or NULL    */
    size_t text_size;
    char *question; /* heap */
    size_t size;
    cag_ask_params params; /* stop points into input                */
    const char **stop;     /* heap */
    cag_error error;       /* status != 0: the row is bad           */
};

/*
 * Parse line n of a batch: one JSON object, whose question is in field, or with
 * field NULL text.  Whatever is wrong with the
 * row ends up in r->error; the result is CAG_E_NOMEM at most.
 */
cag_status row_parse(struct row *r, const char *text, size_t size, int64_t line,
                     const char *field, const cag_ask_params *defaults,
                     cag_error *err);
/* A line that could not be had, such as one that is too long. */
void row_unreadable(struct row *r, int64_t line, const cag_error *why);
void row_release(struct row *r);

/* "id" and "custom_id" of a row, each as it was written, so that 1 and "1", and
 * any two numbers, differ.  text is the row's, or NULL. */
void row_ids(struct buf *b, const jv *row, const char *text, size_t size);

/* 16 hex digits and a NUL. */
cag_status row_options_key(const cag_kb *kb, const cag_ask_params *p,
                           char key[17], cag_error *err);
/* Append one line with its newline: a's answer, or r->error. */
cag_status row_write(const cag_kb *kb, const struct row *r, const cag_answer *a,
                     const char *key, struct buf *out, cag_error *err);
/* The answer that an output row holds; false if it holds none, or not one of
 * ours.  *a is released by the caller. */
bool row_read_answer(const jv *row, cag_answer *a);
/* The answer on one line of text; an empty line for an error. */
void row_write_text(const cag_answer *a, struct buf *out);

#endif
