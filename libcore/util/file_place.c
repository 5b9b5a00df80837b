/*
 * file_place.c - see file_place.h.
 *
 * /proc holds links that only look like paths ("pipe:[17]", or a name that is
 * no longer the file's); the kernel follows them, and nobody else can make
 * one, so they are left to it.
 */
#include "util/file_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/trust.h"

#define MAX_LINKS 40
#define LOOK      (O_PATH | O_CLOEXEC)

struct link {
    bool is, proc;
    char to[4096];
};

/* dir: what could not be entered; NULL: it is the file itself. */
static cag_status fail_walk(cag_error *err, int sys, const char *path,
                            const char *dir)
{
    cag_status st = sys == ENOMEM ? CAG_E_NOMEM : CAG_E_CREATE;

    if (dir)
        return cag_fail_sys(err, st, sys, path,
                            "cannot create a file in the directory %s", dir);
    return cag_fail_sys(err, st, sys, path, "cannot create");
}

static cag_status fail_owner(cag_error *err, unsigned long uid,
                             const char *path, const char *dir)
{
    if (dir)
        return cag_fail(err, CAG_E_CREATE, path, -1,
                        "the way to it, %s, goes through a link that user %lu "
                        "has made, who would choose what is written over; "
                        "name the directory itself",
                        dir, uid);
    return cag_fail(err, CAG_E_CREATE, path, -1,
                    "is a link that user %lu has made, who would choose what "
                    "is written over; name the file itself",
                    uid);
}

/* What fd, opened with O_PATH and O_NOFOLLOW, is, if it may be gone through. */
static cag_status look_link(int fd, const char *path, const char *dir,
                            struct link *l, cag_error *err)
{
    struct statfs fs;
    struct stat s;
    ssize_t n;

    l->is = l->proc = false;
    if (fstat(fd, &s) != 0)
        return fail_walk(err, errno, path, dir);
    if (!S_ISLNK(s.st_mode))
        return CAG_OK;
    l->is = true;
    l->proc = fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    if (!l->proc && !trust_owner(&s))
        return fail_owner(err, (unsigned long)s.st_uid, path, dir);
    n = readlinkat(fd, "", l->to, sizeof l->to - 1);
    if (n <= 0 || (size_t)n == sizeof l->to - 1)
        return fail_walk(err, n < 0 ? errno : ENAMETOOLONG, path, dir);
    l->to[n] = 0;
    return CAG_OK;
}

static int step(int *at, const char *name, int flags)
{
    int fd = openat(*at, name, LOOK | flags);

    if (fd < 0)
        return -1;
    close(*at);
    *at = fd;
    return 0;
}

/* One part of a directory's path, from *at.  A link's target goes before what
 * is left of the path. */
static cag_status walk_part(int *at, const char *part, const char *left,
                            struct buf *next, const char *path, const char *dir,
                            cag_error *err)
{
    struct link l = { false };
    int fd = openat(*at, part, LOOK | O_NOFOLLOW);
    cag_status st = fd < 0 ? fail_walk(err, errno, path, dir)
                           : look_link(fd, path, dir, &l, err);

    if (fd >= 0)
        close(fd);
    if (st)
        return st;
    if (l.is && !l.proc) {
        buf_str(next, l.to);
        buf_char(next, '/');
        buf_str(next, left);
        part = l.to[0] == '/' ? "/" : ".";
    }
    return step(at, part, O_DIRECTORY | (l.is ? 0 : O_NOFOLLOW)) == 0
               ? CAG_OK
               : fail_walk(err, errno, path, dir);
}

/* The directory dir, of path; *out is closed by the caller. */
static cag_status walk(const char *dir, const char *path, int *out,
                       cag_error *err)
{
    char *rest = mem_strdup(dir), *p = rest;
    cag_status st = CAG_OK;
    int links = 0;

    *out = open(dir[0] == '/' ? "/" : ".", LOOK | O_DIRECTORY);
    if (!rest)
        st = cag_fail_nomem(err, "path");
    else if (*out < 0)
        st = fail_walk(err, errno, path, dir);
    while (!st && *(p += strspn(p, "/"))) {
        struct buf next = BUF_INIT;
        char *end = p + strcspn(p, "/");
        bool linked;

        if (*end)
            *end++ = 0;
        st = walk_part(out, p, end, &next, path, dir, err);
        linked = next.size || buf_failed(&next);
        p = end;
        if (!st && linked) {
            mem_free(rest);
            p = rest = buf_detach(&next, NULL);
            if (!rest)
                st = cag_fail_nomem(err, "path");
            else if (++links > MAX_LINKS)
                st = fail_walk(err, ELOOP, path, dir);
        }
        buf_free(&next);
    }
    mem_free(rest);
    return st;
}

/* The name in p->dir: where does it lead, if it is a link?  *next is NULL if
 * it is none. */
static cag_status follow_name(struct file_place *p, const char *path,
                              bool by_path, char **next, cag_error *err)
{
    struct link l = { false };
    struct stat s;
    char *dir;
    int fd = openat(p->dir, p->name, LOOK | O_NOFOLLOW);
    cag_status st;

    *next = NULL;
    if (fd < 0)
        return errno == ENOENT ? CAG_OK : fail_walk(err, errno, path, NULL);
    st = look_link(fd, path, NULL, &l, err);
    close(fd);
    p->open = l.is && l.proc;
    if (st || !l.is || (p->open && !by_path))
        return st;
    if (p->open && (fstatat(p->dir, p->name, &s, 0) != 0 ||
                    !S_ISREG(s.st_mode) || l.to[0] != '/'))
        return cag_fail(err, CAG_E_CREATE, path, -1,
                        "is not a regular file, so it cannot be replaced");
    dir = file_dirname(p->path);
    *next = dir ? file_join(dir, l.to) : NULL;
    mem_free(dir);
    return *next ? CAG_OK : cag_fail_nomem(err, "path");
}

/* The directory of p->path, and its last part. */
static cag_status enter(struct file_place *p, const char *path, cag_error *err)
{
    char *slash = strrchr(p->path, '/');
    char *dir = slash == p->path ? mem_strdup("/")
                : slash ? mem_strndup(p->path, (size_t)(slash - p->path))
                        : mem_strdup(".");
    cag_status st;

    p->name = slash ? slash + 1 : p->path;
    if (p->dir >= 0)
        close(p->dir);
    p->dir = -1;
    if (!dir)
        return cag_fail_nomem(err, "path");
    st = walk(dir, path, &p->dir, err);
    mem_free(dir);
    if (!st && (!*p->name || !strcmp(p->name, ".") || !strcmp(p->name, "..")))
        st = cag_fail(err, CAG_E_CREATE, path, -1, "is a directory");
    return st;
}

static cag_status find(struct file_place *p, const char *path, bool by_path,
                       cag_error *err)
{
    cag_status st = CAG_OK;

    *p = (struct file_place)FILE_PLACE_NONE;
    p->path = mem_strdup(path);
    if (!p->path)
        return cag_fail_nomem(err, "path");
    for (int links = 0; !st; links++) {
        char *next;

        st = links > MAX_LINKS ? fail_walk(err, ELOOP, path, NULL)
                               : enter(p, path, err);
        if (!st)
            st = follow_name(p, path, by_path, &next, err);
        if (st || !next)
            return st;
        mem_free(p->path);
        p->path = next;
    }
    return st;
}

cag_status file_place_find(struct file_place *p, const char *path,
                           cag_error *err)
{
    return find(p, path, false, err);
}

cag_status file_place_find_path(struct file_place *p, const char *path,
                                cag_error *err)
{
    return find(p, path, true, err);
}

cag_status file_place_beside(struct file_place *p, const struct file_place *of,
                             const char *suffix, cag_error *err)
{
    struct buf b = BUF_INIT;

    *p = (struct file_place)FILE_PLACE_NONE;
    buf_str(&b, of->path);
    buf_str(&b, suffix);
    p->path = buf_detach(&b, NULL);
    if (!p->path)
        return cag_fail_nomem(err, "path");
    p->name = p->path + (of->name - of->path);
    p->dir = fcntl(of->dir, F_DUPFD_CLOEXEC, 0);
    return p->dir >= 0 ? CAG_OK : fail_walk(err, errno, p->path, NULL);
}

void file_place_release(struct file_place *p)
{
    if (p->path && p->dir >= 0)
        close(p->dir);
    mem_free(p->path);
    *p = (struct file_place)FILE_PLACE_NONE;
}

int file_place_open(const struct file_place *p, int flags, mode_t mode)
{
    int fd;

    flags |= O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (p->open ? 0 : O_NOFOLLOW);
    do
        fd = openat(p->dir, p->name, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int file_place_open_output(const struct file_place *p, int flags, mode_t mode)
{
    double until = clock_s() + FILE_PLACE_FIFO_S;
    int fd = file_place_open(p, flags | O_WRONLY, mode);

    while (fd < 0 && errno == ENXIO && clock_s() < until) {
        if (nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL) != 0)
            return -1;
        fd = file_place_open(p, flags | O_WRONLY, mode);
    }
    if (fd >= 0)
        fcntl(fd, F_SETFL, flags & O_APPEND);
    return fd;
}

int file_place_stat(const struct file_place *p, struct stat *s)
{
    return fstatat(p->dir, p->name, s, p->open ? 0 : AT_SYMLINK_NOFOLLOW);
}

int file_place_open_dir(const struct file_place *p)
{
    return openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void file_place_remove(const char *path)
{
    struct file_place p;

    if (file_place_find(&p, path, NULL) == CAG_OK && !p.open)
        unlinkat(p.dir, p.name, 0);
    file_place_release(&p);
}
