/*
 * batch_file.c - a file of rows that is killed and continued, and in the end
 * has every row once.
 *
 * Rows go to PATH.part, each written when it is done; PATH.part becomes PATH
 * when all are there.  No whole row that an earlier run wrote is ever lost
 * on the way, whenever the power fails:
 *
 *   STAND   rows come out as they stand in PATH.part: nothing is written
 *   APPEND  all of PATH.part stands; only a torn last line is cut off
 *   COPY    at the first row that differs, the rows so far are copied to a
 *           temporary which goes on with the right ones, and replaces
 *           PATH.part at the end.  PATH.part stays until then, and new
 *           answers are appended to it as well.
 *
 * Earlier rows are read where they lie, one at a time, so memory does not
 * grow with them.
 */
#include "batch/batch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/trust.h"

#define READ_BYTES ((size_t)64 << 10)
#define TRIES      100
#define ROW_BEGIN  "{\"schema\":1,"

enum mode { ROWS_STAND, ROWS_APPEND, ROWS_COPY };

struct cag_rows {
    int fd;                       /* PATH.part, locked; or the device         */
    struct file_place path, part; /* of the device: only path.path */
    bool device;                  /* or a pipe: there is no PATH.part */
    enum mode mode;
    uint64_t old, kept; /* whole rows found; of them, those that stand */
    uint64_t end;       /* where PATH.part goes on                  */
    struct file_out copy;
    struct buf scratch;
    int path_fd;             /* PATH, to resume; or -1                  */
    struct earlier *earlier; /* PATH.part, PATH, other shards           */
};

/* ------------------------------------------------------------------- open */

/* Opened for writing, so never through a link, and created with the mode that
 * PATH has.  -1 with errno. */
static int open_new_or_old(const cag_rows *r)
{
    struct stat s;
    int old = file_place_open(&r->path, O_RDONLY, 0);
    bool there =
        (old >= 0 ? fstat(old, &s) : file_place_stat(&r->path, &s)) == 0;
    int fd = file_place_open(&r->part, O_RDWR | O_CREAT | O_EXCL,
                             there ? 0600 : 0666);
    int sys;

    if (fd < 0 && errno == EEXIST) {
        fd = file_place_open(&r->part, O_RDWR, 0);
    } else if (fd >= 0 && there && trust_inherit(fd, old, &s, -1) != 0) {
        sys = errno;
        unlinkat(r->part.dir, r->part.name, 0);
        close(fd);
        fd = -1;
        errno = sys;
    }
    sys = errno;
    if (old >= 0)
        close(old);
    errno = sys;
    return fd;
}

/* May rows go to what was found under the name?  Somebody else's file, or
 * one that has another name, was not left by a run of ours. */
static cag_status may_use(const cag_rows *r, const struct stat *s,
                          cag_error *err)
{
    if (!S_ISREG(s->st_mode))
        return cag_fail(err, CAG_E_CREATE, r->part.path, -1,
                        "is not a regular file");
    if (!trust_owner(s))
        return cag_fail(err, CAG_E_CREATE, r->part.path, -1,
                        "belongs to another user: move it away, or choose "
                        "another output");
    if (s->st_nlink > 1)
        return cag_fail(err, CAG_E_CREATE, r->part.path, -1,
                        "has another name too (a hard link): move it away, or "
                        "choose another output");
    return CAG_OK;
}

/* PATH.part, locked.  A run that just ended may have renamed what was opened:
 * the file must still have its name. */
static cag_status open_part(cag_rows *r, cag_error *err)
{
    struct stat a, b;
    int locked;

    for (int i = 0; i < TRIES; i++) {
        cag_status st;

        r->fd = open_new_or_old(r);
        if (r->fd < 0 && errno == ENOENT && i + 1 < TRIES)
            continue; /* it was there, and was renamed */
        if (r->fd < 0 && errno == ELOOP)
            return cag_fail(err, CAG_E_CREATE, r->part.path, -1,
                            "is a symbolic link: remove it, rows go there "
                            "first");
        if (r->fd < 0 || fstat(r->fd, &a) != 0)
            return cag_fail_sys(err, CAG_E_CREATE, errno, r->part.path,
                                "cannot create");
        st = may_use(r, &a, err);
        if (st)
            return st;
        /* a file system without locks: then nobody else has one either */
        while ((locked = flock(r->fd, LOCK_EX | LOCK_NB)) != 0 &&
               errno == EINTR)
            ;
        if (locked != 0 && errno == EWOULDBLOCK)
            return cag_fail(err, CAG_E_LOCKED, r->part.path, -1,
                            "another run is writing it");
        if (file_place_stat(&r->part, &b) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return CAG_OK;
        close(r->fd);
        r->fd = -1;
    }
    return cag_fail(err, CAG_E_LOCKED, r->part.path, -1,
                    "other runs come and go under this name");
}

/* A file without one whole row: is it a row that was torn? */
static cag_status check_torn(const cag_rows *r, cag_error *err)
{
    char head[sizeof ROW_BEGIN - 1];
    ssize_t n = pread(r->fd, head, sizeof head, 0);

    if (n < 0)
        return cag_fail_sys(err, CAG_E_IO, errno, r->part.path, "cannot read");
    return memcmp(head, ROW_BEGIN, (size_t)n) ? rows_foreign(r, err) : CAG_OK;
}

static cag_status find_earlier(cag_rows *r, cag_error *err)
{
    uint64_t size = 0;
    struct stat s;
    cag_status st = earlier_whole(r->fd, r->part.path, &r->old, err);

    if (!st && !r->old)
        st = check_torn(r, err);
    if (st)
        return st;
    st = earlier_add(r->earlier, r->part.path, r->fd, r->old, err);
    if (st)
        return st;
    r->path_fd = file_place_open(&r->path, O_RDONLY, 0);
    if (r->path_fd < 0)
        return errno == ENOENT ? CAG_OK
                               : cag_fail_sys(err, CAG_E_IO, errno,
                                              r->path.path, "cannot read");
    if (fstat(r->path_fd, &s) != 0 || !trust_owner(&s))
        return cag_fail(err, CAG_E_CREATE, r->path.path, -1,
                        "belongs to another user, so its rows are not "
                        "believed: move it away, or choose another output");
    st = earlier_whole(r->path_fd, r->path.path, &size, err);
    return st ? st
              : earlier_add(r->earlier, r->path.path, r->path_fd, size, err);
}

/* PATH and PATH.part are none of the files that are read. */
static cag_status check_keep(const cag_rows *r, const char *path,
                             const cag_rows_keep *keep, int n_keep,
                             cag_error *err)
{
    struct stat k, s;

    for (int i = 0; i < n_keep; i++) {
        if (!keep[i].path || stat(keep[i].path, &k) != 0)
            continue;
        if (file_place_stat(&r->path, &s) == 0 && s.st_dev == k.st_dev &&
            s.st_ino == k.st_ino)
            return cag_fail(err, CAG_E_USAGE, path, -1, "the output is %s",
                            keep[i].what);
        if (file_place_stat(&r->part, &s) == 0 && s.st_dev == k.st_dev &&
            s.st_ino == k.st_ino)
            return cag_fail(err, CAG_E_USAGE, r->part.path, -1,
                            "rows go to this file first, and it is %s",
                            keep[i].what);
    }
    return CAG_OK;
}

/* What an earlier run left is not thrown away because --resume was forgotten;
 * nor is what only has the name. */
static cag_status refuse_content(const cag_rows *r, cag_error *err)
{
    struct stat s;

    if (fstat(r->fd, &s) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, r->part.path, "cannot read");
    return s.st_size ? cag_fail(err, CAG_E_CREATE, r->part.path, -1,
                                "is there: rows of an earlier run, or another "
                                "file; go on with --resume, or move it away")
                     : CAG_OK;
}

static cag_status open_file(cag_rows *r, const char *path, bool resume,
                            const cag_rows_keep *keep, int n_keep,
                            cag_error *err)
{
    cag_status st = file_place_beside(&r->part, &r->path, ".part", err);
    int fd;

    if (!st)
        st = check_keep(r, path, keep, n_keep, err);
    if (!st && (fd = file_place_open(&r->path, O_RDONLY, 0)) >= 0) {
        st = file_check_text(fd, r->path.path, err);
        close(fd);
    }
    if (!st)
        st = open_part(r, err);
    if (st)
        return st;
    file_out_clean(&r->part);
    if (resume)
        return find_earlier(r, err);
    r->mode = ROWS_APPEND;
    return refuse_content(r, err);
}

cag_status rows_foreign(const cag_rows *r, cag_error *err)
{
    return cag_fail(err, CAG_E_CREATE, r->part.path, -1,
                    "holds no rows of cag-ask: move it away, or choose "
                    "another output");
}

/* Written as it comes.  An open file that is named goes on where it stands:
 * `>> log' is not cut. */
static cag_status open_device(cag_rows *r, int named, cag_error *err)
{
    r->device = true;
    r->fd = named >= 0 ? fcntl(named, F_DUPFD_CLOEXEC, 0)
                       : file_place_open_output(&r->path, 0, 0);
    if (r->fd < 0 && errno == ENXIO)
        return cag_fail(err, CAG_E_CREATE, r->path.path, -1,
                        "is a FIFO that nobody reads");
    if (r->fd < 0)
        return cag_fail_sys(err, CAG_E_CREATE, errno, r->path.path,
                            "cannot open");
    return CAG_OK;
}

cag_status cag_rows_open(const char *path, bool resume,
                         const cag_rows_keep *keep, int n_keep, cag_rows **out,
                         cag_error *err)
{
    cag_rows *r = mem_zalloc(sizeof *r);
    int named = file_named_fd(path);
    struct stat s;
    cag_status st;

    if (!r)
        return cag_fail_nomem(err, "rows");
    r->fd = r->copy.fd = r->path_fd = -1;
    r->earlier = mem_zalloc(sizeof *r->earlier);
    st = r->earlier ? file_place_find(&r->path, path, err)
                    : cag_fail_nomem(err, "path");
    if (st) {
        /* not ours to follow */
    } else if (named >= 0 || r->path.open ||
               (file_place_stat(&r->path, &s) == 0 && !S_ISREG(s.st_mode) &&
                !S_ISDIR(s.st_mode))) {
        st = open_device(r, named, err);
    } else if (file_place_stat(&r->path, &s) == 0 && S_ISDIR(s.st_mode)) {
        st = cag_fail(err, CAG_E_CREATE, path, -1, "is a directory");
    } else {
        st = open_file(r, path, resume, keep, n_keep, err);
    }
    if (st)
        cag_rows_close(r);
    else
        *out = r;
    return st;
}

const char *cag_rows_part(const cag_rows *r)
{
    return r->device ? NULL : r->part.path;
}

/* -------------------------------------------------------------------- put */

static cag_status put_device(cag_rows *r, const char *row, size_t n,
                             cag_error *err)
{
    while (n) {
        ssize_t w = write(r->fd, row, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return cag_fail_sys(err, CAG_E_IO, errno, r->path.path,
                                "cannot write");
        row += w;
        n -= (size_t)w;
    }
    return CAG_OK;
}

/* Does the row stand in PATH.part where it is to be? */
static bool stands(cag_rows *r, const char *row, size_t n)
{
    char *p;

    if (r->old - r->kept < n)
        return false;
    buf_clear(&r->scratch);
    p = buf_reserve(&r->scratch, n);
    return p && pread(r->fd, p, n, (off_t)r->kept) == (ssize_t)n &&
           !memcmp(p, row, n);
}

static cag_status append(cag_rows *r, const char *row, size_t n, cag_error *err)
{
    cag_status st = file_pwrite(r->fd, r->part.path, row, n, r->end, err);

    if (!st)
        r->end += n;
    return st;
}

/* The rows that stand, into the temporary. */
static cag_status start_copy(cag_rows *r, cag_error *err)
{
    struct stat s;
    uint64_t at = 0;
    cag_status st;
    char *p;

    if (fstat(r->fd, &s) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, r->part.path, "cannot read");
    buf_clear(&r->scratch);
    p = buf_reserve(&r->scratch, READ_BYTES);
    if (!p)
        return cag_fail_nomem(err, "rows");
    st = file_out_open_at(&r->copy, &r->part, (int)(s.st_mode & 0777), err);
    while (!st && at < r->kept) {
        size_t n =
            r->kept - at < READ_BYTES ? (size_t)(r->kept - at) : READ_BYTES;
        ssize_t got = pread(r->fd, p, n, (off_t)at);

        if (got <= 0)
            st = cag_fail_sys(err, CAG_E_IO, got < 0 ? errno : EIO,
                              r->part.path, "cannot read");
        else
            st = file_out_write(&r->copy, p, (size_t)got, err);
        at += got > 0 ? (uint64_t)got : 0;
    }
    return st;
}

/* The first row that PATH.part does not have in its place. */
static cag_status leave_stand(cag_rows *r, cag_error *err)
{
    r->mode = r->kept == r->old ? ROWS_APPEND : ROWS_COPY;
    r->end = r->old;
    if (ftruncate(r->fd, (off_t)r->old) != 0) /* a torn last line */
        return cag_fail_sys(err, CAG_E_IO, errno, r->part.path, "cannot write");
    return r->mode == ROWS_COPY ? start_copy(r, err) : CAG_OK;
}

cag_status cag_rows_put(cag_rows *r, const char *row, size_t n,
                        cag_row_kind kind, cag_error *err)
{
    cag_status st = CAG_OK;

    if (r->device)
        return put_device(r, row, n, err);
    if (r->mode == ROWS_STAND) {
        if (stands(r, row, n)) {
            r->kept += n;
            return CAG_OK;
        }
        st = leave_stand(r, err);
    }
    if (!st && (r->mode == ROWS_APPEND || kind == CAG_ROW_NEW))
        st = append(r, row, n, err);
    if (!st && r->mode == ROWS_COPY)
        st = file_out_write(&r->copy, row, n, err);
    return st;
}

/* -------------------------------------------------------------------- end */

/* The temporary becomes PATH.part, and stays locked. */
static cag_status take_copy(cag_rows *r, cag_error *err)
{
    int fd = fcntl(r->copy.fd, F_DUPFD_CLOEXEC, 0);
    cag_status st;

    if (fd < 0)
        return cag_fail_sys(err, CAG_E_IO, errno, r->part.path, "cannot write");
    st = file_out_commit(&r->copy, err);
    if (st) {
        close(fd);
        return st;
    }
    close(r->fd);
    r->fd = fd;
    earlier_release(r->earlier); /* its first descriptor is gone */
    r->mode = ROWS_APPEND;
    return CAG_OK;
}

cag_status cag_rows_end(cag_rows *r, bool good, cag_error *err)
{
    cag_status st = CAG_OK;

    if (r->device)
        return CAG_OK;
    if (r->mode == ROWS_COPY)
        st = take_copy(r, err);
    if (st || !good)
        return st;
    if (r->mode == ROWS_STAND && ftruncate(r->fd, (off_t)r->kept) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, r->part.path, "cannot write");
    return file_replace(r->fd, r->part.name, &r->path, err);
}

void cag_rows_close(cag_rows *r)
{
    if (!r)
        return;
    file_out_abort(&r->copy);
    if (r->earlier)
        earlier_release(r->earlier);
    mem_free(r->earlier);
    if (r->path_fd >= 0)
        close(r->path_fd);
    if (r->fd >= 0)
        close(r->fd);
    buf_free(&r->scratch);
    file_place_release(&r->part);
    file_place_release(&r->path);
    mem_free(r);
}

/* ---------------------------------------------------------------- earlier */

cag_status rows_each(const cag_rows *r, earlier_line_fn fn, void *ctx,
                     cag_error *err)
{
    return earlier_each(r->earlier, fn, ctx, err);
}

bool rows_read(const cag_rows *r, uint64_t at, size_t size, struct buf *b)
{
    return earlier_read(r->earlier, at, size, b);
}

/* Rows of a sibling are believed as those of PATH.part are: if nobody else can
 * have put the file there. */
cag_status cag_rows_also(cag_rows *r, const char *path, cag_error *err)
{
    struct stat s;
    uint64_t size = 0;
    cag_status st = CAG_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

    if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
        trust_owner(&s) && earlier_whole(fd, path, &size, NULL) == CAG_OK &&
        size)
        st = earlier_add(r->earlier, path, -1, size, err);
    if (fd >= 0)
        close(fd);
    return st;
}
