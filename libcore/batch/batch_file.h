/*
 * batch_file.h - what earlier runs left in PATH.part and PATH, from the inside.
 */
#ifndef BATCH_BATCH_FILE_H
#define BATCH_BATCH_FILE_H

#include <cag/tool/batch_file.h>

#include "batch/batch_earlier.h"

/* CAG_E_CREATE: what PATH.part holds was not written by a batch. */
cag_status rows_foreign(const cag_rows *r, cag_error *err);
/* earlier_each, earlier_read: of PATH.part, PATH and the files added. */
cag_status rows_each(const cag_rows *r, earlier_line_fn fn, void *ctx,
                     cag_error *err);
bool rows_read(const cag_rows *r, uint64_t at, size_t size, struct buf *b);

#endif
