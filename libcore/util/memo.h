/*
 * memo.h - small files in which the tools remember something between runs.
 *
 * They save time and are never needed: that one cannot be read or written, or
 * that another user could have written it or its directory (trust.h), is no
 * error, only nothing remembered.
 */
#ifndef UTIL_MEMO_H
#define UTIL_MEMO_H

#include "util/buf.h"

/* dir/name of at most max_bytes into b; b is empty if there is none. */
void memo_load(const char *dir, const char *name, size_t max_bytes,
               struct buf *b);

/* What is to stand in the file, given what does (old may be empty). */
typedef void memo_fn(void *ctx, const struct buf *old, struct buf *out);
/* Replace dir/name whole, under its lock, so that of two writers none loses
 * what the other added. */
void memo_update(const char *dir, const char *name, size_t max_bytes,
                 memo_fn *compose, void *ctx);

#endif
