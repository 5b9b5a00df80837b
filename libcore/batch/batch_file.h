/*
 * batch_file.h - what earlier runs left in PATH.part and PATH, from the inside.
 */
#ifndef BATCH_BATCH_FILE_H
#define BATCH_BATCH_FILE_H

#include <cag/tool/batch_file.h>

#include "util/buf.h"

/* CAG_E_CREATE: what PATH.part holds was not written by a batch. */
cag_status rows_foreign(const cag_rows *r, cag_error *err);
/* Called with each whole line, without its newline; at names it for
 * rows_read.  Lines longer than 64 MiB are passed over. */
typedef cag_status (*rows_line_fn)(void *ctx, const char *line, size_t size,
                                   uint64_t at, cag_error *err);
/* Every line of PATH.part, then of PATH; memory for one line at a time. */
cag_status rows_each(const cag_rows *r, rows_line_fn fn, void *ctx,
                     cag_error *err);
/* Put that line, again, into b; false if it cannot be had. */
bool rows_read(const cag_rows *r, uint64_t at, size_t size, struct buf *b);

#endif
