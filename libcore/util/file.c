/*
 * file.c - reading: maps, whole files, stat, and the lock.
 *
 * A map is of a regular file only, opened without waiting, so that a FIFO
 * in the place of a model cannot hang a program.  Writing is file_out.c.
 */
#include "util/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/mem.h"

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;

    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static void set_id(struct file_id *id, const struct stat *s)
{
    id->dev = s->st_dev;
    id->ino = s->st_ino;
    id->size_bytes = (uint64_t)s->st_size;
    id->mtime_ns = (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
    id->ctime_ns = (int64_t)s->st_ctim.tv_sec * 1000000000 + s->st_ctim.tv_nsec;
}

/* An errno of open or stat on an input as our error. */
static cag_status fail_open(cag_error *err, int sys, const char *path)
{
    cag_status st = CAG_E_MISSING;

    if (sys == EMFILE || sys == ENFILE || sys == EIO)
        st = CAG_E_IO;
    else if (sys == ENOMEM)
        st = CAG_E_NOMEM;
    return cag_fail_sys(err, st, sys, path, "cannot open");
}

/* A regular file that is open; *m is zero. */
static cag_status map_fd(struct file_map *m, int fd, const char *path,
                         const struct stat *s, cag_error *err)
{
    void *p;

    m->path = mem_strdup(path);
    if (!m->path)
        return cag_fail_nomem(err, "path");
    if (s->st_size > 0) {
        p = mmap(NULL, (size_t)s->st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            int sys = errno;

            mem_free(m->path);
            m->path = NULL;
            return cag_fail_sys(err, sys == ENOMEM ? CAG_E_NOMEM : CAG_E_IO,
                                sys, path, "cannot map");
        }
        m->data = p;
        m->size = (size_t)s->st_size;
    }
    set_id(&m->id, s);
    return CAG_OK;
}

cag_status file_out_map(const struct file_out *o, struct file_map *m,
                        cag_error *err)
{
    struct stat s;

    memset(m, 0, sizeof *m);
    if (fstat(o->fd, &s) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, o->path, "cannot stat");
    return map_fd(m, o->fd, o->path, &s, err);
}

cag_status file_map(struct file_map *m, const char *path, cag_error *err)
{
    cag_status st = CAG_OK;
    struct stat s;

    memset(m, 0, sizeof *m);
    int fd = open_retry(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fail_open(err, errno, path);
    if (fstat(fd, &s) != 0) {
        st = cag_fail_sys(err, CAG_E_IO, errno, path, "cannot stat");
        goto out;
    }
    if (!S_ISREG(s.st_mode)) {
        st = cag_fail(err, CAG_E_MISSING, path, -1, "%s",
                      S_ISDIR(s.st_mode) ? "is a directory, not a file"
                                         : "is not a regular file");
        goto out;
    }
    st = map_fd(m, fd, path, &s, err);
out:
    close(fd);
    return st;
}

void file_unmap(struct file_map *m)
{
    if (m->data) {
        /* munmap takes a plain pointer; nothing is written through it */
        union {
            const void *in;
            void *out;
        } u = { m->data };
        munmap(u.out, m->size);
    }
    mem_free(m->path);
    memset(m, 0, sizeof *m);
}

cag_status file_read_fd(int fd, const char *name, size_t max_bytes,
                        struct buf *b, cag_error *err)
{
    size_t got = 0, room;
    struct stat s;

    /* a regular file is read in one piece, and one byte more shows its end */
    room = 65536;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0 &&
        (uint64_t)s.st_size < max_bytes)
        room = (size_t)s.st_size + 1;
    for (;;) {
        char *p = buf_reserve(b, room);
        if (!p)
            return cag_fail(err, CAG_E_NOMEM, name, -1,
                            "out of memory after %zu bytes", got);
        ssize_t n = read(fd, p, room);
        if (n < 0) {
            int sys = errno;
            *p = 0;
            if (sys == EINTR)
                continue;
            return cag_fail_sys(err, sys == EISDIR ? CAG_E_MISSING : CAG_E_IO,
                                sys, name, "cannot read");
        }
        if (n == 0) {
            *p = 0;
            return CAG_OK;
        }
        b->size += (size_t)n;
        b->data[b->size] = 0;
        got += (size_t)n;
        if (got > max_bytes)
            return cag_fail(err, CAG_E_LIMIT, name, -1,
                            "is larger than the limit of %zu bytes", max_bytes);
        if ((size_t)n == room)
            room = room < (size_t)1 << 20 ? 65536 : (size_t)1 << 20;
    }
}

cag_status file_read(const char *path, size_t max_bytes, struct buf *b,
                     cag_error *err)
{
    if (strcmp(path, "-") == 0)
        return file_read_fd(0, "(standard input)", max_bytes, b, err);
    int fd = open_retry(path, O_RDONLY | O_NOCTTY, 0);
    if (fd < 0)
        return fail_open(err, errno, path);
    cag_status st = file_read_fd(fd, path, max_bytes, b, err);
    close(fd);
    return st;
}

cag_status file_stat(const char *path, struct file_id *id, cag_error *err)
{
    struct stat s;

    if (stat(path, &s) != 0)
        return fail_open(err, errno, path);
    set_id(id, &s);
    return CAG_OK;
}

cag_status file_check_text(const char *path, cag_error *err)
{
    char head[4096];
    struct stat s;
    ssize_t n = 0;
    int fd;

    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode))
        return CAG_OK;
    fd = open_retry(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0)
        return CAG_OK; /* said when it is written */
    do
        n = pread(fd, head, sizeof head, 0);
    while (n < 0 && errno == EINTR);
    close(fd);
    if (n <= 0 || !memchr(head, 0, (size_t)n))
        return CAG_OK;
    return cag_fail(err, CAG_E_CREATE, path, -1,
                    "is a file but no text, so nothing is written there; "
                    "name another one");
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_dir(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

cag_status file_space(const char *path, uint64_t *free_bytes, cag_error *err)
{
    char *dir = file_dirname(path);
    struct statvfs v;
    cag_status st = CAG_OK;

    if (!dir)
        return cag_fail_nomem(err, "path");
    if (statvfs(dir, &v) != 0)
        st = cag_fail_sys(err, CAG_E_CREATE, errno, dir,
                          "cannot see the file system");
    else
        *free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    mem_free(dir);
    return st;
}

char *file_real_dir(const char *path)
{
    char real[PATH_MAX];
    char *at = file_follow(path), *dir = at ? file_dirname(at) : NULL;

    mem_free(at);
    if (dir && realpath(dir, real)) {
        mem_free(dir);
        return mem_strdup(real);
    }
    at = dir ? file_absolute(dir) : NULL;
    mem_free(dir);
    return at;
}

/* The number of an open file, when path is the name of one. */
static int fd_of(const char *path)
{
    static const char *const dirs[] = { "/proc/self/fd/", "/dev/fd/" };

    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        size_t n = strlen(dirs[i]);
        char *end;

        if (strncmp(path, dirs[i], n) != 0 || !isdigit((unsigned char)path[n]))
            continue;
        long fd = strtol(path + n, &end, 10);
        if (*end == 0 && fd <= INT_MAX)
            return (int)fd;
    }
    return -1;
}

/* Follow the links of the last part; stop where *fd, unless NULL, is open. */
static char *follow(const char *path, int *fd)
{
    char *at = mem_strdup(path);

    for (int hops = 0; at && hops < 40; hops++) {
        char link[4096];
        ssize_t n = readlink(at, link, sizeof link - 1);

        if (fd && (*fd = fd_of(at)) >= 0)
            return at;
        if (n < 0 || (size_t)n == sizeof link - 1)
            return at;
        link[n] = 0;
        char *dir = file_dirname(at);
        char *next = dir ? file_join(dir, link) : NULL;
        mem_free(dir);
        mem_free(at);
        at = next;
    }
    return at;
}

char *file_follow(const char *path)
{
    return follow(path, NULL);
}

int file_named_fd(const char *path)
{
    int fd = -1;

    mem_free(follow(path, &fd));
    return fd;
}

/* Open the lock file, created if it is not there. */
static int open_lock(const char *name, bool *created)
{
    int fd;

    *created = false;
    do {
        fd = open_retry(name, O_RDWR | O_NOCTTY, 0);
        if (fd < 0 && errno == EACCES) /* another user's: good enough */
            fd = open_retry(name, O_RDONLY | O_NOCTTY, 0);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = open_retry(name, O_RDWR | O_CREAT | O_EXCL | O_NOCTTY, 0666);
        *created = fd >= 0;
    } while (fd < 0 && errno == EEXIST);
    return fd;
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

/* Has the open file its name still?  Whoever made it may have undone that. */
static bool has_name(int fd, const char *name)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(name, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

cag_status file_lock(struct file_lock *l, const char *path, double timeout_s,
                     cag_error *err)
{
    char *real = file_follow(path);
    struct buf name = BUF_INIT;
    double until = clock_s() + timeout_s;
    bool created = false, got = false;
    cag_status st = CAG_OK;

    *l = (struct file_lock){ -1, NULL };
    if (real) {
        buf_str(&name, real);
        buf_str(&name, ".lock");
    }
    if (!real || buf_failed(&name))
        st = cag_fail_nomem(err, "path of the lock");
    while (!st && !got) {
        l->fd = open_lock(name.data, &created);
        if (l->fd < 0) {
            st = cag_fail_sys(err, CAG_E_CREATE, errno, name.data,
                              "cannot create the lock file");
            break;
        }
        st = wait_lock(l->fd, name.data, until, err);
        got = !st && has_name(l->fd, name.data);
        if (!got) {
            close(l->fd);
            l->fd = -1;
        }
    }
    if (!st && created)
        l->created = buf_detach(&name, NULL);
    if (l->created)
        file_emergency_add(l->created);
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
