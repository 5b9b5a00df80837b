/*
 * batch_known.h - answers that a batch need not compute.
 *
 * Two kinds: rows of an earlier, interrupted run (--resume), found by id,
 * question and options wherever they stand now, and read where they lie; and
 * equal greedy questions of this run, of which the last few hundred are
 * remembered.
 */
#ifndef BATCH_BATCH_KNOWN_H
#define BATCH_BATCH_KNOWN_H

#include <cag/tool/batch_file.h>

#include "batch/batch_row.h"
#include "batch/batch_file.h"

enum { KNOWN_RECENT = 512 };

struct known {
    const cag_rows *earlier; /* borrowed, or NULL */
    struct known_row {       /* sorted by hash */
        uint64_t hash;
        uint64_t at; /* for rows_read */
        uint32_t size;
    } * row;
    size_t n_row, cap_row;
    struct known_answer { /* a slot of a table, replaced by the next   */
        char *question;   /* heap, NULL = free                         */
        size_t size;
        char key[17]; /* row_options_key                           */
        cag_answer answer;
    } * recent; /* [KNOWN_RECENT] */
    struct known_id {
        uint64_t hash;
        int64_t line;
    } * id; /* open hashing  */
    size_t n_id, cap_id;
};

/* earlier: borrowed until known_release, or NULL.  CAG_E_IO, CAG_E_NOMEM. */
cag_status known_init(struct known *k, const cag_rows *earlier, cag_error *err);
void known_release(struct known *k);

/* The answer that an earlier run gave to row r, whose options are key. */
bool known_earlier(const struct known *k, const struct row *r, const char *key,
                   cag_answer *a);
/* Remember a greedy answer; what does not fit is not remembered. */
void known_add(struct known *k, const struct row *r, const char *key,
               const cag_answer *a);
/* borrowed until the next known_add; or NULL */
const cag_answer *known_recent(const struct known *k, const struct row *r,
                               const char *key);
/* Has an earlier row the id of r?  *line is then its line, else 0. */
cag_status known_id(struct known *k, const struct row *r, int64_t *line,
                    cag_error *err);

#endif
