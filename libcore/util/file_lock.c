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

#include "util/buf.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/file_emergency.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/trust.h"

#define SUFFIX ".lock"
#define FLAGS  (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

static int open_retry(const char *name, int flags)
{
    int fd;

    do
        fd = open(name, flags | FLAGS, 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Open the lock file, created if it is not there. */
static int open_lock(const char *name, bool *created)
{
    int fd;

    *created = false;
    for (int tries = 0; tries < 1000; tries++) {
        fd = open_retry(name, O_RDWR);
        if (fd < 0 && errno == EACCES) /* another user's: good enough */
            fd = open_retry(name, O_RDONLY);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = open_retry(name, O_RDWR | O_CREAT | O_EXCL);
        *created = fd >= 0;
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1; /* others create and undo it all the time */
}

/* As private as the file that it protects: path, which the caller is to write
 * with the given mode. */
static void set_mode(int fd, const char *path, int mode)
{
    struct stat old, s;
    bool exists = stat(path, &old) == 0;
    mode_t want;

    if (fstat(fd, &s) != 0 || s.st_uid != geteuid())
        return;
    if (mode == -1 && (!exists || !trust_owner(&old)))
        mode = 0600;
    if (exists)
        old.st_mode &= 0666;
    /* best effort: it stays narrower.  What is right is left alone, since a
     * run that has nothing to do changes no file */
    want = mode != -1 ? (mode_t)mode & 0666 : old.st_mode;
    if ((s.st_mode & 0777 & ~want) || (exists && s.st_gid != old.st_gid))
        (void)!fchmod(fd, 0600);
    (void)!trust_inherit(fd, path, exists ? &old : NULL,
                         mode == -1 ? -1 : mode & 0666);
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
static bool has_name(int fd, const char *name)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && lstat(name, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* path + SUFFIX; where a directory would not take so long a name, as much of
 * it as fits before its hash, so that two names never share a lock. */
static void lock_name(struct buf *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
    size_t n = strlen(path + dir), keep = NAME_MAX - strlen(SUFFIX);
    char hash[32];

    if (n <= keep) {
        buf_str(out, path);
    } else {
        int len = snprintf(hash, sizeof hash, "-%016llx",
                           (unsigned long long)xxh3_64(path + dir, n));

        buf_add(out, path, dir + keep - (size_t)len);
        buf_str(out, hash);
    }
    buf_str(out, SUFFIX);
}

static cag_status fail_lock(const char *name, int sys, cag_error *err)
{
    if (sys == ELOOP)
        return cag_fail(err, CAG_E_CREATE, name, -1,
                        "is a symbolic link, and a lock file is never one: "
                        "remove it");
    if (sys == EACCES && file_exists(name))
        return cag_fail_sys(err, CAG_E_CREATE, sys, name,
                            "cannot open the lock file of another user");
    return cag_fail_sys(err, CAG_E_CREATE, sys, name,
                        "cannot create the lock file");
}

/* One attempt; *got tells whether the lock is had. */
static cag_status attempt(struct file_lock *l, const char *name,
                          const char *path, int mode, double until, bool *got,
                          bool *created, cag_error *err)
{
    cag_status st = CAG_OK;
    struct stat s;

    l->fd = open_lock(name, created);
    if (l->fd < 0)
        return fail_lock(name, errno, err);
    if (fstat(l->fd, &s) != 0 || !S_ISREG(s.st_mode))
        st = cag_fail(err, CAG_E_CREATE, name, -1,
                      "is not a regular file, so it cannot be the lock: "
                      "remove it");
    if (!st)
        set_mode(l->fd, path, mode);
    if (!st)
        st = wait_lock(l->fd, name, until, err);
    *got = !st && has_name(l->fd, name);
    if (!*got) {
        close(l->fd);
        l->fd = -1;
    }
    return st;
}

cag_status file_lock(struct file_lock *l, const char *path, int mode,
                     double timeout_s, cag_error *err)
{
    char *real = file_follow(path);
    struct buf name = BUF_INIT;
    double until = clock_s() + timeout_s;
    bool created = false, got = false;
    cag_status st = CAG_OK;

    *l = (struct file_lock){ -1, NULL };
    if (real)
        lock_name(&name, real);
    if (!real || buf_failed(&name))
        st = cag_fail_nomem(err, "path of the lock");
    while (!st && !got)
        st = attempt(l, name.data, real, mode, until, &got, &created, err);
    if (!st && created)
        l->created = buf_detach(&name, NULL);
    if (l->created) /* no slot free: it stays, empty */
        (void)file_emergency_add(l->created);
    buf_free(&name);
    mem_free(real);
    return st;
}

void file_unlock(struct file_lock *l)
{
    if (l->created)
        file_emergency_drop(l->created);
    if (l->fd >= 0)
        close(l->fd);
    mem_free(l->created);
    *l = (struct file_lock){ -1, NULL };
}

void file_lock_undo(struct file_lock *l)
{
    if (l->created)
        unlink(l->created);
    file_unlock(l);
}
