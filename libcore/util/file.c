/*
 * file.c - reading: maps, whole files, stat.
 *
 * A map is of a regular file only, opened without waiting, so that a FIFO
 * in the place of a model cannot hang a program.  Writing is file_out.c.
 */
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/mem.h"

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;

    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

void file_id_of(struct file_id *id, const struct stat *s)
{
    id->dev = s->st_dev;
    id->ino = s->st_ino;
    id->size_bytes = (uint64_t)s->st_size;
    id->mtime_ns = (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
    id->ctime_ns = (int64_t)s->st_ctim.tv_sec * 1000000000 + s->st_ctim.tv_nsec;
}

bool file_id_same(const struct file_id *a, const struct file_id *b)
{
    return a->dev == b->dev && a->ino == b->ino &&
           a->size_bytes == b->size_bytes && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
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
    file_id_of(&m->id, s);
    m->owner = s->st_uid;
    m->mode = s->st_mode;
    return CAG_OK;
}

cag_status file_out_map(const struct file_out *o, struct file_map *m,
                        cag_error *err)
{
    struct stat s;

    memset(m, 0, sizeof *m);
    if (fstat(o->fd, &s) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, o->at.path, "cannot stat");
    return map_fd(m, o->fd, o->at.path, &s, err);
}

/* Never waits, as the open of a FIFO does.  *fd is to be closed if there is no
 * error. */
static cag_status open_regular(const char *path, int *fd, struct stat *s,
                               cag_error *err)
{
    cag_status st = CAG_OK;

    *fd = open_retry(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (*fd < 0)
        return fail_open(err, errno, path);
    if (fstat(*fd, s) != 0)
        st = cag_fail_sys(err, CAG_E_IO, errno, path, "cannot stat");
    else if (!S_ISREG(s->st_mode))
        st = cag_fail(err, CAG_E_MISSING, path, -1, "%s",
                      S_ISDIR(s->st_mode) ? "is a directory, not a file"
                                          : "is not a regular file");
    if (st)
        close(*fd);
    return st;
}

cag_status file_map(struct file_map *m, const char *path, cag_error *err)
{
    cag_status st;
    struct stat s;
    int fd;

    memset(m, 0, sizeof *m);
    st = open_regular(path, &fd, &s, err);
    if (st)
        return st;
    st = map_fd(m, fd, path, &s, err);
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

cag_status file_read_regular(const char *path, size_t max_bytes, struct buf *b,
                             cag_error *err)
{
    struct stat s;
    int fd;
    cag_status st = open_regular(path, &fd, &s, err);

    if (st)
        return st;
    st = file_read_fd(fd, path, max_bytes, b, err);
    close(fd);
    return st;
}

cag_status file_stat(const char *path, struct file_id *id, cag_error *err)
{
    struct stat s;

    if (stat(path, &s) != 0)
        return fail_open(err, errno, path);
    file_id_of(id, &s);
    return CAG_OK;
}

cag_status file_check_text(int fd, const char *name, cag_error *err)
{
    char head[4096];
    struct stat s;
    ssize_t n;

    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))
        return CAG_OK;
    do
        n = pread(fd, head, sizeof head, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || !memchr(head, 0, (size_t)n))
        return CAG_OK;
    return cag_fail(err, CAG_E_CREATE, name, -1,
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
