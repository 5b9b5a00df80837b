/*
 * file_out.c - a file is written aside, synced, and renamed over its target.
 *
 * The temporary lies in the target's directory (rename does not cross file
 * systems) and is locked with flock while its writer lives.  A temporary
 * that can be locked therefore belongs to a dead run and is removed when
 * the next run starts.  Between open and flock another run may take
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
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
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
static void remove_dead(const struct file_place *at)
{
    int fd = file_place_open_dir(at);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((e = readdir(d))) {
        if (!is_temporary(e->d_name, at->name))
            continue;
        fd = openat(dirfd(d), e->d_name,
                    O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    closedir(d);
}

void file_out_clean(const struct file_place *at)
{
    remove_dead(at);
}

/* --- open ---------------------------------------------------------------- */

static char *new_name(const char *name)
{
    struct buf tmp = BUF_INIT;

    buf_char(&tmp, '.');
    buf_add(&tmp, name, kept_length(name));
    buf_str(&tmp, TMP_MARK "XXXXXX" TMP_END);
    return buf_detach(&tmp, NULL);
}

/* Random letters for the X: nobody can put something there before us. */
static int draw_name(char *x)
{
    static const char letter[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    uint8_t random[TMP_XS];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    for (int i = 0; i < TMP_XS; i++)
        x[i] = letter[random[i] % 64];
    return 0;
}

/* Create and lock tmp, which ends in XXXXXX and TMP_END. */
static int create_locked(int dir, char *tmp)
{
    char *x = tmp + strlen(tmp) - strlen(TMP_END) - TMP_XS;
    struct stat s;

    for (int tries = 0; tries < 100; tries++) {
        if (fault(NULL) || draw_name(x) != 0)
            return -1;
        int fd = openat(
            dir, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
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

/* Mode, group and ACL of the temporary. */
static int set_mode(struct file_out *o, int mode)
{
    struct stat old;
    int fd = file_place_open(&o->at, O_RDONLY, 0), result;
    bool there =
        (fd >= 0 ? fstat(fd, &old) : file_place_stat(&o->at, &old)) == 0;

    if (!there && mode == -1)
        result = 0; /* it was made 0600 & ~umask */
    else
        result = fault(NULL)
                     ? -1
                     : trust_inherit(o->fd, fd, there ? &old : NULL, mode);
    if (fd >= 0)
        close(fd);
    return result;
}

static cag_status check_target(const struct file_place *at, cag_error *err)
{
    struct stat old;

    if (file_place_stat(at, &old) != 0) {
        if (errno == ENOENT)
            return CAG_OK;
        return cag_fail_sys(err, CAG_E_CREATE, errno, at->path,
                            "cannot create");
    }
    if (S_ISREG(old.st_mode))
        return CAG_OK;
    return cag_fail(err, CAG_E_CREATE, at->path, -1, "%s",
                    S_ISDIR(old.st_mode)
                        ? "is a directory"
                        : "is not a regular file, so it cannot be replaced");
}

cag_status file_can_create(const char *path, cag_error *err)
{
    struct file_place at;
    cag_status st = file_place_find_path(&at, path, err);

    if (!st)
        st = check_target(&at, err);
    if (!st && faccessat(at.dir, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        int sys = errno;
        char *dir = file_dirname(at.path);

        st = cag_fail_sys(err, CAG_E_CREATE, sys, path,
                          "cannot create a file in the directory %s",
                          dir ? dir : "");
        mem_free(dir);
    }
    file_place_release(&at);
    return st;
}

/* o->at is found. */
static cag_status open_at(struct file_out *o, int mode, cag_error *err)
{
    cag_status st = check_target(&o->at, err);

    if (st)
        return st;
    remove_dead(&o->at);
    o->tmp = new_name(o->at.name);
    if (!o->tmp)
        return cag_fail_nomem(err, "path");
    o->fd = create_locked(o->at.dir, o->tmp);
    if (o->fd < 0) {
        int sys = errno;

        mem_free(o->tmp); /* nothing to unlink */
        o->tmp = NULL;
        return cag_fail_sys(err, CAG_E_CREATE, sys, o->at.path,
                            "cannot create");
    }
    if (!file_emergency_add(o->at.dir, o->tmp))
        return cag_fail(err, CAG_E_LIMIT, o->at.path, -1,
                        "too many files are being written at once");
    if (set_mode(o, mode) != 0)
        return cag_fail_sys(err, CAG_E_CREATE, errno, o->at.path,
                            "cannot set the mode");
    return CAG_OK;
}

cag_status file_out_open(struct file_out *o, const char *path, int mode,
                         cag_error *err)
{
    cag_status st;

    *o = (struct file_out){ .fd = -1 };
    st = file_place_find_path(&o->at, path, err);
    if (!st)
        st = open_at(o, mode, err);
    if (st)
        file_out_abort(o);
    return st;
}

cag_status file_out_open_at(struct file_out *o, const struct file_place *at,
                            int mode, cag_error *err)
{
    cag_status st;

    *o = (struct file_out){ .fd = -1 };
    st = file_place_beside(&o->at, at, "", err);
    if (!st)
        st = open_at(o, mode, err);
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
    return file_pwrite(o->fd, o->at.path, data, n, off, err);
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
static cag_status sync_dir(const struct file_place *at, cag_error *err)
{
    cag_status st = CAG_OK;
    int fd = file_place_open_dir(at);

    if (fd >= 0) {
        if (sync_fd(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
            st = cag_fail_sys(err, CAG_E_IO, errno, at->path,
                              "cannot sync the directory");
        close(fd);
    }
    return st;
}

/* As file_replace; *done: it was renamed, whatever came after. */
static cag_status replace(int fd, const char *from, const struct file_place *to,
                          bool *done, cag_error *err)
{
    *done = false;
    if (sync_fd(fd) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, to->path, "cannot sync");
    if (fault(NULL) || renameat(to->dir, from, to->dir, to->name) != 0)
        return cag_fail_sys(err, CAG_E_CREATE, errno, to->path,
                            "cannot replace");
    *done = true;
    return sync_dir(to, err);
}

cag_status file_replace(int fd, const char *from, const struct file_place *to,
                        cag_error *err)
{
    bool done;

    return replace(fd, from, to, &done, err);
}

cag_status file_out_commit(struct file_out *o, cag_error *err)
{
    bool done;
    cag_status st = replace(o->fd, o->tmp, &o->at, &done, err);

    if (done) {
        file_emergency_drop(o->at.dir, o->tmp);
        mem_free(o->tmp);
        o->tmp = NULL;
    }
    file_out_abort(o);
    return st;
}

void file_out_abort(struct file_out *o)
{
    if (o->tmp) {
        unlinkat(o->at.dir, o->tmp, 0);
        file_emergency_drop(o->at.dir, o->tmp);
    }
    if (o->fd >= 0 && o->at.path) /* {0} is a valid, closed file_out */
        close(o->fd);
    mem_free(o->tmp);
    file_place_release(&o->at);
    *o = (struct file_out){ .fd = -1, .at = FILE_PLACE_NONE };
}
