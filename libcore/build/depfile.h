/*
 * depfile.h - the make rule of a built cache.
 */
#ifndef BUILD_DEPFILE_H
#define BUILD_DEPFILE_H

#include <cag/build.h>

/*
 * Write "target: prerequisites" and an empty phony rule for every
 * prerequisite to path (aside and renamed).  Names are escaped so that GNU
 * make and ninja read them back; a name that make cannot spell (one with a
 * newline or ';') is left out with a warning.
 */
cag_status depfile_write(const char *path, const char *target,
                         const char *const *dep, int n_dep,
                         const cag_hooks *hooks, cag_error *err);

#endif
