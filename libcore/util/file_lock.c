/*
 * file_lock.c - see file_lock.h.
 *
 * Between open and flock the file may lose its name: its maker undoes it when
 * his run left nothing.  A lock is therefore had only while the open file is
 * the one under the name.
 */
#include "util/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/file.h"
#include "util/file_emergency.h"
#include "util/hash.h"
#include "util/trust.h"

#define SUFFIX ".lock"

/* Open the lock file, created if it is not there. */
static int open_lock(const struct file_place *lock, bool *created)
{
    int fd;

    *created = false;
    for (int tries = 0; tries < 1000; tries++) {
        fd = file_place_open(lock, O_RDWR, 0);
        if (fd < 0 && errno == EACCES) /* another user's: good enough */
            fd = file_place_open(lock, O_RDONLY, 0);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = file_place_open(lock, O_RDWR | O_CREAT | O_EXCL, 0600);
        *created = fd >= 0;
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1; /* others create and undo it all the time */
}

/* As private as the file that it protects, which the caller is to write with
 * the given mode. */
static void set_mode(int fd, const struct file_place *of, int mode)
{
    struct stat old, s;
    int old_fd = file_place_open(of, O_RDONLY, 0);
    bool exists =
        (old_fd >= 0 ? fstat(old_fd, &old) : file_place_stat(of, &old)) == 0;
    mode_t want;

    if (fstat(fd, &s) != 0 || s.st_uid != geteuid())
        goto out;
    if (mode == -1 && (!exists || !trust_owner(&old)))
        mode = 0600;
    if (exists)
        old.st_mode &= 0666;
    /* best effort: it stays narrower.  What is right is left alone, since a
     * run that has nothing to do changes no file */
    want = mode != -1 ? (mode_t)mode & 0666 : old.st_mode;
    if ((s.st_mode & 0777 & ~want) || (exists && s.st_gid != old.st_gid))
        (void)!fchmod(fd, 0600);
    (void)!trust_inherit(fd, old_fd, exists ? &old : NULL,
                         mode == -1 ? -1 : mode & 0666);
out:
    if (old_fd >= 0)
        close(old_fd);
}

/* CAG_E_LOCKED when it is not to be had until then. */
static cag_status wait_lock(int fd, const char *name, double until,
                            cag_error *err)
{
    long wait_ns = 1000000;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        double left = until - clock_s();

        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK)
            return cag_fail_sys(err, CAG_E_IO, errno, name, "cannot lock");
        if (!(left > 0))
            return cag_fail(err, CAG_E_LOCKED, name, -1,
                            "locked by another run");
        if ((double)wait_ns > left * 1e9)
            wait_ns = (long)(left * 1e9) + 1;
        nanosleep(&(struct timespec){ .tv_nsec = wait_ns }, NULL);
        if (wait_ns < 100000000)
            wait_ns *= 2;
    }
    return CAG_OK;
}

/* Has the open file its name still? */
static bool has_name(int fd, const struct file_place *lock)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && file_place_stat(lock, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* of + SUFFIX; where a directory would not take so long a name, as much of it
 * as fits before its hash, so that two names never share a lock. */
static cag_status lock_place(struct file_place *lock,
                             const struct file_place *of, cag_error *err)
{
    size_t n = strlen(of->name), keep = NAME_MAX - strlen(SUFFIX);
    char hash[64];
    cag_status st;

    if (n <= keep)
        return file_place_beside(lock, of, SUFFIX, err);
    int len = snprintf(hash, sizeof hash, "-%016llx" SUFFIX,
                       (unsigned long long)xxh3_64(of->name, n));
    st = file_place_beside(lock, of, hash, err);
    if (!st) {
        char *cut = lock->name + NAME_MAX - len;

        memmove(cut, hash, (size_t)len + 1);
    }
    return st;
}

static cag_status fail_lock(const struct file_place *lock, int sys,
                            cag_error *err)
{
    struct stat s;

    if (sys == ELOOP)
        return cag_fail(err, CAG_E_CREATE, lock->path, -1,
                        "is a symbolic link, and a lock file is never one: "
                        "remove it");
    if (sys == EACCES && file_place_stat(lock, &s) == 0)
        return cag_fail_sys(err, CAG_E_CREATE, sys, lock->path,
                            "cannot open the lock file of another user");
    return cag_fail_sys(err, CAG_E_CREATE, sys, lock->path,
                        "cannot create the lock file");
}

/* One attempt; *got tells whether the lock is had. */
static cag_status attempt(struct file_lock *l, const struct file_place *of,
                          int mode, double until, bool *got, cag_error *err)
{
    cag_status st = CAG_OK;
    struct stat s;

    l->fd = open_lock(&l->at, &l->created);
    if (l->fd < 0)
        return fail_lock(&l->at, errno, err);
    if (fstat(l->fd, &s) != 0 || !S_ISREG(s.st_mode))
        st = cag_fail(err, CAG_E_CREATE, l->at.path, -1,
                      "is not a regular file, so it cannot be the lock: "
                      "remove it");
    if (!st)
        set_mode(l->fd, of, mode);
    if (!st)
        st = wait_lock(l->fd, l->at.path, until, err);
    *got = !st && has_name(l->fd, &l->at);
    if (!*got) {
        close(l->fd);
        l->fd = -1;
        l->created = false;
    }
    return st;
}

cag_status file_lock(struct file_lock *l, const char *path, int mode,
                     double timeout_s, cag_error *err)
{
    struct file_place of;
    double until = clock_s() + timeout_s;
    bool got = false;
    cag_status st = file_place_find_path(&of, path, err);

    *l = (struct file_lock)FILE_LOCK_NONE;
    if (!st)
        st = lock_place(&l->at, &of, err);
    while (!st && !got)
        st = attempt(l, &of, mode, until, &got, err);
    file_place_release(&of);
    if (st)
        file_unlock(l);
    else if (l->created) /* no slot free: it stays, empty */
        (void)file_emergency_add(l->at.dir, l->at.name);
    return st;
}

void file_unlock(struct file_lock *l)
{
    if (l->created)
        file_emergency_drop(l->at.dir, l->at.name);
    if (l->fd >= 0)
        close(l->fd);
    file_place_release(&l->at);
    *l = (struct file_lock)FILE_LOCK_NONE;
}

void file_lock_undo(struct file_lock *l)
{
    if (l->created)
        unlinkat(l->at.dir, l->at.name, 0);
    file_unlock(l);
}
