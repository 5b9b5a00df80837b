/*
 * source_path.h - how a .kvc names its sources: relative to the directory
 * where the file really lies.
 */
#ifndef SOURCE_SOURCE_PATH_H
#define SOURCE_SOURCE_PATH_H

#include <cag/build.h>

/* A path as a .kvc in directory dir records it: relative (heap string). */
char *source_path(const char *path, const char *dir);
/* The directory paths of a cache are relative to: where the file really
 * lies, symbolic links followed (heap string). */
char *source_dir_of(const char *kvc_path);

/* CAG_E_FORMAT if the path could not be recorded: JSON is UTF-8.  path may
 * be NULL. */
cag_status source_path_check(const char *path, const char *dir, cag_error *err);

/* What is recorded as the filter of a source; NULL: it has none. */
const char *const *source_filter_of(const cag_source_spec *s);

/* CAG_E_USAGE unless the real path of something of spec lies below the
 * directory (real, too).  The message says all that is in the way. */
cag_status source_check_below(const char *below, const char *real,
                              const cag_source_spec *spec, const char *shown,
                              cag_error *err);

#endif
