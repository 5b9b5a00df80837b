/*
 * file_out.c - a file is written aside, synced, and renamed over its target.
 *
 * The temporary lies in the target's directory (rename does not cross file
 * systems) and is locked with flock while its writer lives.  A temporary
 * that can be locked therefore belongs to a dead run and is removed when
 * the next run starts.  Between mkostemp and flock another run may take
 * ours for a dead one: after locking, a file without a name is given up and
 * the whole is tried again.
 *
 * SIGXFSZ (file size limit) would kill the process from inside write; it is
 * blocked in this thread for the call and taken back, so that the caller
 * sees EFBIG as any other error and the library needs no handler.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/file_emergency.h"
#include "util/mem.h"
#include "util/trust.h"

#define TMP_MARK  ".cag-"
#define TMP_END   ".tmp"
#define TMP_XS    6
/* "." name ".cag-XXXXXX.tmp" must stay below NAME_MAX */
#define NAME_KEEP (NAME_MAX - 1 - 5 - TMP_XS - 4)

/* --- the test hook ------------------------------------------------------ */

static _Atomic int64_t fault_left;
static atomic_int fault_sys;

void file_fault(int64_t nth, int sys)
{
    atomic_store(&fault_left, 0);
    atomic_store(&fault_sys, sys);
    atomic_store(&fault_left, nth);
}

int64_t file_fault_left(void)
{
    return atomic_load(&fault_left);
}

/* Call before each write-side system call: true if it must fail, errno set.
 * half, if not NULL, is set when the call must do half of its work. */
static bool fault(bool *half)
{
    int64_t left = atomic_load(&fault_left);

    while (left > 0)
        if (atomic_compare_exchange_weak(&fault_left, &left, left - 1))
            break;
    if (left != 1)
        return false;
    errno = atomic_load(&fault_sys);
    if (errno == 0 && half)
        *half = true;
    return errno != 0;
}

/* --- names ----------------------------------------------------------------*/

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static size_t kept_length(const char *name)
{
    size_t n = strlen(name);

    return n > NAME_KEEP ? NAME_KEEP : n;
}

/* Is entry a temporary of the target called name? */
static bool is_temporary(const char *entry, const char *name)
{
    size_t n = kept_length(name), mark = strlen(TMP_MARK);

    return strlen(entry) == 1 + n + mark + TMP_XS + strlen(TMP_END) &&
           entry[0] == '.' && memcmp(entry + 1, name, n) == 0 &&
           memcmp(entry + 1 + n, TMP_MARK, mark) == 0 &&
           strcmp(entry + 1 + n + mark + TMP_XS, TMP_END) == 0;
}

/* Remove what dead runs left.  Best effort: nobody needs to hear of it. */
static void remove_dead(const char *dir, const char *name)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    if (!d)
        return;
    while ((e = readdir(d))) {
        if (!is_temporary(e->d_name, name))
            continue;
        int fd = openat(dirfd(d), e->d_name,
                        O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    closedir(d);
}

void file_out_clean(const char *path)
{
    char *real = file_follow(path), *dir = real ? file_dirname(real) : NULL;

    if (dir)
        remove_dead(dir, base_name(real));
    mem_free(dir);
    mem_free(real);
}

/* --- open ---------------------------------------------------------------- */

/* Create and lock o->tmp, which ends in XXXXXX and TMP_END. */
static int create_locked(char *tmp)
{
    char *x = tmp + strlen(tmp) - strlen(TMP_END) - TMP_XS;
    struct stat s;

    for (int tries = 0; tries < 100; tries++) {
        memset(x, 'X', TMP_XS);
        if (fault(NULL))
            return -1;
        int fd = mkostemps(tmp, (int)strlen(TMP_END), O_CLOEXEC);
        if (fd < 0)
            return -1;
        /* no lock on this file system: then nobody takes ours either */
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
            ;
        if (fstat(fd, &s) == 0 && s.st_nlink > 0)
            return fd;
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

/* Mode, group and ACL of the temporary; old is path's, or NULL. */
static int set_mode(int fd, const char *path, const struct stat *old, int mode)
{
    if (!old && mode == -1)
        return 0; /* mkostemps made it 0600 & ~umask */
    return fault(NULL) ? -1 : trust_inherit(fd, path, old, mode);
}

static cag_status check_target(const char *path, struct stat *old, bool *exists,
                               cag_error *err)
{
    *exists = stat(path, old) == 0;
    if (!*exists) {
        if (errno == ENOENT)
            return CAG_OK;
        return cag_fail_sys(err, CAG_E_CREATE, errno, path, "cannot create");
    }
    if (S_ISREG(old->st_mode))
        return CAG_OK;
    return cag_fail(err, CAG_E_CREATE, path, -1, "%s",
                    S_ISDIR(old->st_mode)
                        ? "is a directory"
                        : "is not a regular file, so it cannot be replaced");
}

cag_status file_can_create(const char *path, cag_error *err)
{
    char *real = file_follow(path);
    char *dir = real ? file_dirname(real) : NULL;
    struct stat s;
    bool exists;
    cag_status st;

    if (!dir)
        st = cag_fail_nomem(err, "path");
    else
        st = trust_links(path, err);
    if (!st)
        st = check_target(real, &s, &exists, err);
    if (!st && access(dir, W_OK | X_OK) != 0)
        st = cag_fail_sys(err, CAG_E_CREATE, errno, path,
                          "cannot create a file in the directory %s", dir);
    mem_free(dir);
    mem_free(real);
    return st;
}

cag_status file_out_open(struct file_out *o, const char *path, int mode,
                         cag_error *err)
{
    char *dir = NULL;
    struct buf tmp = BUF_INIT;
    struct stat old;
    bool exists;
    cag_status st;

    memset(o, 0, sizeof *o);
    o->fd = -1;
    o->path = file_follow(path);
    dir = o->path ? file_dirname(o->path) : NULL;
    if (!dir) {
        st = cag_fail_nomem(err, "path");
        goto out;
    }
    st = trust_links(path, err);
    if (!st)
        st = check_target(o->path, &old, &exists, err);
    if (st)
        goto out;
    const char *name = base_name(o->path);
    if (!*name) {
        st = cag_fail(err, CAG_E_CREATE, path, -1, "is not a file name");
        goto out;
    }
    remove_dead(dir, name);
    buf_str(&tmp, dir);
    buf_str(&tmp, "/.");
    buf_add(&tmp, name, kept_length(name));
    buf_str(&tmp, TMP_MARK "XXXXXX" TMP_END);
    o->tmp = buf_detach(&tmp, NULL);
    if (!o->tmp) {
        st = cag_fail_nomem(err, "path");
        goto out;
    }
    o->fd = create_locked(o->tmp);
    if (o->fd < 0) {
        int sys = errno;
        mem_free(o->tmp); /* nothing to unlink */
        o->tmp = NULL;
        st = cag_fail_sys(err, CAG_E_CREATE, sys, path, "cannot create");
        goto out;
    }
    if (!file_emergency_add(o->tmp))
        st = cag_fail(err, CAG_E_LIMIT, path, -1,
                      "too many files are being written at once");
    else if (set_mode(o->fd, o->path, exists ? &old : NULL, mode) != 0)
        st =
            cag_fail_sys(err, CAG_E_CREATE, errno, path, "cannot set the mode");
out:
    mem_free(dir);
    if (st)
        file_out_abort(o);
    return st;
}

/* --- write --------------------------------------------------------------- */

static void mask_xfsz(sigset_t *set, sigset_t *old)
{
    sigemptyset(set);
    sigaddset(set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, set, old);
}

static void unmask_xfsz(const sigset_t *set, const sigset_t *old, bool sent)
{
    int keep = errno;

    if (sent && !sigismember(old, SIGXFSZ))
        sigtimedwait(set, NULL, &(struct timespec){ 0 });
    pthread_sigmask(SIG_SETMASK, old, NULL);
    errno = keep;
}

cag_status file_pwrite(int fd, const char *path, const void *data, size_t n,
                       uint64_t off, cag_error *err)
{
    const char *p = data;
    sigset_t set, old;
    int sys = 0;

    if (off > INT64_MAX || n > INT64_MAX - off)
        return cag_fail_sys(err, CAG_E_IO, EFBIG, path, "cannot write");
    mask_xfsz(&set, &old);
    while (n > 0) {
        /* the kernel writes at most 2 GiB at once, and may write less */
        size_t part = n < (size_t)1 << 30 ? n : (size_t)1 << 30;
        bool half = false;
        ssize_t w = -1;

        if (!fault(&half)) {
            if (half && part > 1)
                part /= 2;
            w = pwrite(fd, p, part, (off_t)off);
        }
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            sys = w < 0 ? errno : ENOSPC;
            break;
        }
        p += w;
        off += (uint64_t)w;
        n -= (size_t)w;
    }
    unmask_xfsz(&set, &old, sys == EFBIG);
    if (sys)
        return cag_fail_sys(err, CAG_E_IO, sys, path, "cannot write");
    return CAG_OK;
}

cag_status file_out_pwrite(struct file_out *o, const void *data, size_t n,
                           uint64_t off, cag_error *err)
{
    return file_pwrite(o->fd, o->path, data, n, off, err);
}

cag_status file_out_write(struct file_out *o, const void *data, size_t n,
                          cag_error *err)
{
    cag_status st = file_out_pwrite(o, data, n, o->off, err);

    if (!st)
        o->off += n;
    return st;
}

/* --- commit and abort ---------------------------------------------------- */

static int sync_fd(int fd)
{
    int r;

    do
        r = fault(NULL) ? -1 : fsync(fd);
    while (r != 0 && errno == EINTR);
    return r;
}

/* The rename itself must survive a crash.  Some file systems cannot sync a
 * directory, and one may be writable but not readable: both are fine. */
static cag_status sync_dir(const char *dir, cag_error *err)
{
    cag_status st = CAG_OK;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        if (sync_fd(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
            st = cag_fail_sys(err, CAG_E_IO, errno, dir,
                              "cannot sync the directory");
        close(fd);
    }
    return st;
}

/* As file_replace; *done: it was renamed, whatever came after. */
static cag_status replace(int fd, const char *from, const char *to, bool *done,
                          cag_error *err)
{
    /* taken first: memory that is short must not fail what is done */
    char *dir = file_dirname(to);
    cag_status st = CAG_OK;

    *done = false;
    if (!dir) {
        st = cag_fail_nomem(err, "path");
    } else if (sync_fd(fd) != 0) {
        st = cag_fail_sys(err, CAG_E_IO, errno, to, "cannot sync");
    } else if (fault(NULL) || rename(from, to) != 0) {
        st = cag_fail_sys(err, CAG_E_CREATE, errno, to, "cannot replace");
    } else {
        *done = true;
        st = sync_dir(dir, err);
    }
    mem_free(dir);
    return st;
}

cag_status file_replace(int fd, const char *from, const char *to,
                        cag_error *err)
{
    bool done;

    return replace(fd, from, to, &done, err);
}

cag_status file_out_commit(struct file_out *o, cag_error *err)
{
    bool done;
    cag_status st = replace(o->fd, o->tmp, o->path, &done, err);

    if (done) {
        file_emergency_drop(o->tmp);
        mem_free(o->tmp);
        o->tmp = NULL;
    }
    file_out_abort(o);
    return st;
}

void file_out_abort(struct file_out *o)
{
    if (o->tmp) {
        unlink(o->tmp);
        file_emergency_drop(o->tmp);
    }
    if (o->fd >= 0 && o->path) /* {0} is a valid, closed file_out */
        close(o->fd);
    mem_free(o->tmp);
    mem_free(o->path);
    memset(o, 0, sizeof *o);
    o->fd = -1;
}
