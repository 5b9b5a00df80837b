/*
 * util/error.h - fill a cag_error where a fault is noticed.
 *
 * All return the status they were given, so that a caller can write
 *     return cag_fail(err, CAG_E_FORMAT, path, off, "...");
 * err may be NULL.  Messages are one line: no newline, no trailing period.
 */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include <cag/error.h>
#include <stdarg.h>

#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* file may be NULL; offset -1 for none. */
cag_status cag_fail(cag_error *err, cag_status status, const char *file,
                    int64_t offset, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* As cag_fail, with an errno: the message ends in ": <strerror>". */
cag_status cag_fail_sys(cag_error *err, cag_status status, int sys,
                        const char *file, const char *fmt, ...)
    PRINTF_LIKE(5, 6);

/* As cag_fail, with a place in a text file; line and column count from 1. */
cag_status cag_fail_at(cag_error *err, cag_status status, const char *file,
                       int line, int column, const char *fmt, ...)
    PRINTF_LIKE(6, 7);

/* CAG_E_NOMEM with "out of memory (<what>)". */
cag_status cag_fail_nomem(cag_error *err, const char *what);

/* Copy src over dst (either may be NULL); returns src's status or CAG_OK. */
cag_status cag_error_copy(cag_error *dst, const cag_error *src);

#endif
