/*
 * depfile.h - the make rule of a built cache.
 */
#ifndef BINDING_DEPFILE_H
#define BINDING_DEPFILE_H

#include <cag/build.h>

/*
 * Write "target: prerequisites" and an empty rule for every prerequisite to
 * path (aside and renamed; a new file has the mode that the umask leaves).
 * Names are spelled so that GNU make reads each back, and ninja all that it
 * can.  A target that make cannot spell is a warning.
 */
cag_status depfile_write(const char *path, const char *target,
                         const char *const *dep, int n_dep,
                         const cag_hooks *hooks, cag_error *err);
/* CAG_E_CREATE when path is a file that depfile_write cannot have written, for
 * this target or another one: a slip of the hand must not cost it. */
cag_status depfile_check_replace(const char *path, const char *target,
                                 cag_error *err);

#endif
