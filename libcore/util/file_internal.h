/*
 * file_internal.h - shared by file.c and file_out.c.
 */
#ifndef UTIL_FILE_INTERNAL_H
#define UTIL_FILE_INTERNAL_H

/* The name a write to path reaches: symbolic links in the last part are
 * followed, also to a target that does not exist yet.  Heap, NULL when out
 * of memory. */
char *file_follow(const char *path);

#endif
