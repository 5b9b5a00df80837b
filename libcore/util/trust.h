/*
 * trust.h - whose files are believed, and who may read what replaces them.
 *
 * State that a program left in a file (digests of models, a checkpoint, keys
 * and values) is believed only if nobody else can have written it: the file
 * is the caller's or root's, and writable by nobody else.  What replaces a
 * file is open to nobody to whom that was closed.  cag(7), SECURITY.
 */
#ifndef UTIL_TRUST_H
#define UTIL_TRUST_H

#include <stdbool.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/buf.h"

/* The caller's (effective user) or root's. */
bool trust_owner(const struct stat *s);
/* That, and no write permission for group and others. */
bool trust_stat(const struct stat *s);

/* The same of a file called name with this owner and mode; if not, the error
 * says why: CAG_E_UNSUPPORTED. */
cag_status trust_check(uid_t owner, mode_t mode, const char *name,
                       cag_error *err);
/* Is fd, called name, a regular file that is to be believed? */
cag_status trust_fd(int fd, const char *name, cag_error *err);
/* Open path for reading if it is such a file; never waits (a FIFO).  *fd is -1
 * after an error.  CAG_E_MISSING, CAG_E_UNSUPPORTED. */
cag_status trust_open(const char *path, int *fd, cag_error *err);
/* All of such a file, appended to b; also CAG_E_LIMIT above max_bytes. */
cag_status trust_read(const char *path, size_t max_bytes, struct buf *b,
                      cag_error *err);
/* The same of a directory. */
bool trust_dir(const char *path);

/*
 * fd is a new file of the caller, mode 0600, that is to replace another one
 * (old is its stat, or NULL if there is none; old_fd is open for reading, or -1
 * if it could not be opened).  It gets the given mode, or, where that is -1,
 * the mode, group and access ACL of the old file, as far as all of them can be
 * kept; what cannot be kept makes it narrower.  From a file of another user
 * nothing is taken.  Returns 0, or -1 with errno.
 */
int trust_inherit(int fd, int old_fd, const struct stat *old, int mode);

#endif
