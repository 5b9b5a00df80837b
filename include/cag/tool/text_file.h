/*
 * text_file.h - files that a program reads as text, and writes as text.
 */
#ifndef CAG_TOOL_TEXT_FILE_H
#define CAG_TOOL_TEXT_FILE_H

#include <cag/base.h>
#include <cag/kvc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CAG_E_CREATE when path cannot be written, or is a file that holds no text,
 * such as a model or a cache: a slip of the hand must not cost it.  For what is
 * opened only after long work; makes nothing. */
cag_status cag_check_text_output(const char *path, cag_error *err);
/*
 * Open path for writing: append to it, or (false) begin it anew; one that is
 * made has the mode 0666 or, with own, 0600, less the umask.  A FIFO that
 * gets no reader within seconds is an error.  A file of another user is not
 * written.  *fd is the caller's.
 * CAG_E_CREATE: as above, or the way leads through a link of another user, or
 * the system says no.
 */
cag_status cag_open_output(const char *path, bool append, bool own, int *fd,
                           cag_error *err);
/* text and a newline in the place of path, aside and renamed, with this mode;
 * as cag_open_output, nothing is written through another user's link. */
cag_status cag_write_text(const char *path, const char *text, int mode,
                          cag_error *err);
/* CAG_E_USAGE when path is a source that k was built from, or a directory or
 * pattern of it would take it as one: for what a program writes that uses k. */
cag_status cag_check_beside(const cag_kvc *k, const char *path, cag_error *err);
/* A whole file ("-" is standard input) as a heap block with a NUL after it. */
cag_status cag_read_file(const char *path, char **data, size_t *size,
                         cag_error *err);
/* The same, checked: UTF-8 without NUL bytes; a byte order mark is dropped. */
cag_status cag_read_text(const char *path, const char **text, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
