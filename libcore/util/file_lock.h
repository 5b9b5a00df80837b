/*
 * file_lock.h - one writer of a file at a time.
 */
#ifndef UTIL_FILE_LOCK_H
#define UTIL_FILE_LOCK_H

#include "util/error.h"
#include "util/file_place.h"

/*
 * flock on path + ".lock" (created, close-on-exec; a name that would be too
 * long for a directory is shortened).  It stays when it is unlocked, for
 * whoever else locks it, such as flock(1); file_lock_undo takes away what this
 * file_lock created, for a run that left nothing to protect.
 *
 * Who may read the lock may hold it, so it is as private as path is (mode, or
 * the present file's where that is -1, else 0600): its owner's next run makes
 * it so.  A link or another kind of file in its place is CAG_E_CREATE at once,
 * never followed.  Waits at most timeout_s seconds (0: not at all), then
 * CAG_E_LOCKED.
 */
struct file_lock {
    int fd;
    struct file_place at;
    bool created; /* it was not there before */
};
#define FILE_LOCK_NONE             \
    {                              \
        -1, FILE_PLACE_NONE, false \
    }
cag_status file_lock(struct file_lock *l, const char *path, int mode,
                     double timeout_s, cag_error *err);
void file_unlock(struct file_lock *l);
void file_lock_undo(struct file_lock *l);

#endif
