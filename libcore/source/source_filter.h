/*
 * source_filter.h - an external command that turns a source into text.
 *
 * Run without a shell (execvp), in its own process group, with a time limit
 * and an output cap; only a manifest can name one, never a .kvc.
 */
#ifndef SOURCE_SOURCE_FILTER_H
#define SOURCE_SOURCE_FILTER_H

#include <cag/build.h>

#include "util/buf.h"

/*
 * raw is written to the command's standard input; "{}" in an argument is
 * replaced by path.  Its output is appended to out; its stderr is passed
 * through as part of the error message when it fails.  Errors: CAG_E_MISSING
 * (no such command), CAG_E_FORMAT (non-zero exit, with its first line of
 * stderr), CAG_E_LIMIT (time or size), CAG_E_CANCELLED (hooks->progress, asked
 * ten times a second; hooks may be NULL).
 */
cag_status filter_run(const cag_source_spec *spec, const char *path,
                      const void *raw, size_t raw_size, struct buf *out,
                      const cag_hooks *hooks, cag_error *err);

#endif
