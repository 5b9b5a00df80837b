/*
 * file_place.h - where a file that is to be written lies: a directory that is
 * held open, and a name in it.
 *
 * Between a look at a path and its use somebody else may change what the path
 * means, in any directory that he can write.  So the path is walked once, link
 * by link; what happens afterwards happens to the name in the directory that
 * was found (openat, renameat), and a link that has come under that name in
 * the meantime is not followed.  cag(7), SECURITY.
 */
#ifndef UTIL_FILE_PLACE_H
#define UTIL_FILE_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "util/error.h"

struct file_place {
    int dir;    /* O_PATH; -1: none                                  */
    char *path; /* for messages: links of the last part followed     */
    char *name; /* its last part, in path                            */
    bool open;  /* the name is /proc's for an open file: that is meant */
};
#define FILE_PLACE_NONE       \
    {                         \
        -1, NULL, NULL, false \
    }

/*
 * Walk path, whose last part need not be there.  A link on the way, a
 * directory's or the last one, which neither the caller nor root has made
 * would let its owner choose what is written over: CAG_E_CREATE.  So is what
 * cannot be reached.  The place is to be released, also after an error.
 */
cag_status file_place_find(struct file_place *p, const char *path,
                           cag_error *err);
/* The same where an open file that the path names (/dev/stdout) is only the
 * path under which it was opened, since that is to be replaced.  What has none
 * is CAG_E_CREATE. */
cag_status file_place_find_path(struct file_place *p, const char *path,
                                cag_error *err);
/* suffix after the name, in the same directory.  CAG_E_NOMEM. */
cag_status file_place_beside(struct file_place *p, const struct file_place *of,
                             const char *suffix, cag_error *err);
void file_place_release(struct file_place *p); /* {0} is a valid, empty one */

/* open(2) of the place, without waiting and without a link; close-on-exec. */
int file_place_open(const struct file_place *p, int flags, mode_t mode);
/*
 * The same for writing, of what may be a device or a FIFO; writes to it wait.
 * A FIFO without a reader gets FILE_PLACE_FIFO_S seconds for one to come, then
 * ENXIO; a signal ends the wait with EINTR.
 */
#define FILE_PLACE_FIFO_S 5
int file_place_open_output(const struct file_place *p, int flags, mode_t mode);
/* 0, or -1 with errno. */
int file_place_stat(const struct file_place *p, struct stat *s);
/* Unlink path if file_place_find finds it; best effort. */
void file_place_remove(const char *path);
/* The directory itself for reading: to list or to sync it.  -1 with errno. */
int file_place_open_dir(const struct file_place *p);

#endif
