/*
 * batch_file.h - the file that rows of a batch are written to.
 */
#ifndef CAG_TOOL_BATCH_FILE_H
#define CAG_TOOL_BATCH_FILE_H

#include <cag/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file that rows must not replace, and what it is ("the cache"). */
typedef struct cag_rows_keep {
    const char *path; /* "/dev/stdin" for standard input; NULL: none */
    const char *what;
} cag_rows_keep;

/*
 * A file of rows that may be killed and continued.  Rows go to PATH.part,
 * each written when it is done, and PATH is replaced when all are there; a
 * PATH that is a device or a pipe is written directly.  With resume, the rows
 * that PATH.part and PATH hold are there to be taken: no whole one is lost,
 * whenever the run is killed.  One run at a time (CAG_E_LOCKED).
 *
 *   keep  [n_keep] CAG_E_USAGE if one of them is PATH or PATH.part
 *
 * PATH.part is never followed where it is a link, and never taken from another
 * user or from another name of a file; without resume, one that is not empty
 * is not touched either (CAG_E_CREATE).  It has the mode of PATH.
 */
cag_status cag_rows_open(const char *path, bool resume,
                         const cag_rows_keep *keep, int n_keep, cag_rows **out,
                         cag_error *err);
/* With resume: take rows of this file, too, one of another shard; a file that
 * is not there, is a link or another user's is passed over. */
cag_status cag_rows_also(cag_rows *r, const char *path, cag_error *err);
/* One row with its newline.  Errors: CAG_E_IO, CAG_E_NOMEM. */
cag_status cag_rows_put(cag_rows *r, const char *row, size_t size,
                        cag_row_kind kind, cag_error *err);
/* All rows were put: PATH.part holds them in order and, if good, becomes
 * PATH. */
cag_status cag_rows_end(cag_rows *r, bool good, cag_error *err);
/* Without cag_rows_end: what is done can be resumed. */
void cag_rows_close(cag_rows *r);
/* "PATH.part", or NULL where PATH is written directly. */
const char *cag_rows_part(const cag_rows *r);

#ifdef __cplusplus
}
#endif
#endif
