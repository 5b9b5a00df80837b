/*
 * batch_csv.h - rows of a batch as comma-separated values (RFC 4180), or with
 * tabs for the commas.
 *
 * The first record names the columns; each other one becomes the JSON object
 * that a row is otherwise, all values strings.  A value in quotes may hold
 * commas, "" for a quote, and newlines: then a record is several lines.
 */
#ifndef BATCH_BATCH_CSV_H
#define BATCH_BATCH_CSV_H

#include <stdbool.h>

#include "util/buf.h"
#include "util/json.h"

struct csv {
    char separator;    /* ',' or a tab                             */
    const char *field; /* borrowed: a column that must be there    */
    jv *names;         /* array of strings; NULL before the header */
    struct buf record; /* the lines of a record so far             */
    size_t n_quote;    /* in these                                 */
    struct buf json;   /* the last record as an object             */
};

void csv_release(struct csv *c);
/* Add a line, without its newline; false: the record goes on.  CAG_E_NOMEM. */
bool csv_add(struct csv *c, const char *line, size_t size);
/*
 * The record that is whole, into names or json; it is empty again.  What is
 * wrong with it: CAG_E_FORMAT (a quote in the wrong place, another number of
 * values than the header, a name twice, no column field, invalid UTF-8), or
 * CAG_E_NOMEM.
 */
cag_status csv_take(struct csv *c, cag_error *err);

#endif
