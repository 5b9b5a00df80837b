/*
 * batch_earlier.h - files that hold rows of earlier runs, read where they lie.
 *
 * The first two are PATH.part and PATH of a file of rows (batch_file.h); then
 * come the files of other shards.  A row is named by one number, its offset
 * and its file, so that an index of millions of rows stays small.
 */
#ifndef BATCH_BATCH_EARLIER_H
#define BATCH_BATCH_EARLIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"
#include "util/error.h"

enum { EARLIER_OPEN = 64 }; /* files of other shards, at a time */

struct earlier {
    struct earlier_file {
        int fd;        /* borrowed, or opened when it is read; -1    */
        uint64_t size; /* up to the end of the last whole row        */
        char *path;    /* owned                                      */
        bool borrowed;
    } * file; /* [n] */
    int n;
    int open[EARLIER_OPEN]; /* 1 + index of the file that is open there  */
};

/* Called with each whole line, without its newline; at names it for
 * earlier_read.  Lines longer than 64 MiB are passed over. */
typedef cag_status (*earlier_line_fn)(void *ctx, const char *line, size_t size,
                                      uint64_t at, cag_error *err);

/* Lines of fd, called path, that begin and end before size. */
cag_status earlier_lines(int fd, const char *path, uint64_t size,
                         earlier_line_fn fn, void *ctx, cag_error *err);
/* The end of the last whole line of fd. */
cag_status earlier_whole(int fd, const char *path, uint64_t *size,
                         cag_error *err);

/* Add a file: fd stays the caller's; -1: opened by its name when it is read.
 * CAG_E_NOMEM, CAG_E_LIMIT. */
cag_status earlier_add(struct earlier *e, const char *path, int fd,
                       uint64_t size, cag_error *err);
void earlier_release(struct earlier *e);
/* Every line of every file; memory for one line at a time. */
cag_status earlier_each(struct earlier *e, earlier_line_fn fn, void *ctx,
                        cag_error *err);
/* Put that line, again, into b; false if it cannot be had. */
bool earlier_read(struct earlier *e, uint64_t at, size_t size, struct buf *b);

#endif
