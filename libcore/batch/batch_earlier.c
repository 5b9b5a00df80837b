/*
 * batch_earlier.c - see batch_earlier.h.
 *
 * A run of a thousand shards must not take a thousand descriptors, so files of
 * other shards are opened when a row of theirs is read.  One that was replaced
 * in between gives other bytes, or none: who reads a row compares it in full
 * (batch_known.c), so the row is then computed again, and nothing is wrong.
 */
#include "batch/batch_earlier.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "util/mem.h"

#define READ_BYTES ((size_t)64 << 10)
#define MAX_LINE   ((size_t)64 << 20)
#define FILE_BITS  16

cag_status earlier_whole(int fd, const char *path, uint64_t *size,
                         cag_error *err)
{
    char part[4096];
    off_t end = lseek(fd, 0, SEEK_END);

    if (end < 0)
        return cag_fail_sys(err, CAG_E_IO, errno, path, "cannot read");
    *size = (uint64_t)end;
    while (*size > 0) {
        size_t n = *size < sizeof part ? (size_t)*size : sizeof part;
        ssize_t got = pread(fd, part, n, (off_t)(*size - n));
        const char *nl;

        if (got != (ssize_t)n)
            return cag_fail_sys(err, CAG_E_IO, got < 0 ? errno : EIO, path,
                                "cannot read");
        nl = memrchr(part, '\n', n);
        if (nl) {
            *size -= n - (size_t)(nl + 1 - part);
            return CAG_OK;
        }
        *size -= n;
    }
    return CAG_OK;
}

/* Lines of a file, numbered file. */
static cag_status each_line(int fd, const char *path, uint64_t size, int file,
                            earlier_line_fn fn, void *ctx, cag_error *err)
{
    struct buf b = BUF_INIT;
    uint64_t start = 0;
    bool skip = false; /* in a line that is too long */
    cag_status st = CAG_OK;

    while (!st && start + b.size < size) {
        char *p = buf_reserve(&b, READ_BYTES);
        size_t used = 0, seen = b.size;
        ssize_t got = p ? pread(fd, p, READ_BYTES, (off_t)(start + b.size)) : 0;
        const char *nl;

        if (!p)
            st = cag_fail_nomem(err, "rows to resume");
        else if (got <= 0)
            st = cag_fail_sys(err, CAG_E_IO, got < 0 ? errno : EIO, path,
                              "cannot read");
        if (st)
            break;
        b.size += (size_t)got;
        while (!st && (nl = memchr(b.data + seen, '\n', b.size - seen))) {
            size_t n = (size_t)(nl - b.data) - used;

            if (!skip)
                st = fn(ctx, b.data + used, n,
                        (start + used) << FILE_BITS | (unsigned)file, err);
            skip = false;
            used = seen = used + n + 1;
        }
        if (b.size - used > MAX_LINE) {
            skip = true;
            used = b.size;
        }
        memmove(b.data, b.data + used, b.size - used);
        buf_truncate(&b, b.size - used);
        start += used;
    }
    buf_free(&b);
    return st;
}

cag_status earlier_lines(int fd, const char *path, uint64_t size,
                         earlier_line_fn fn, void *ctx, cag_error *err)
{
    return each_line(fd, path, size, 0, fn, ctx, err);
}

cag_status earlier_add(struct earlier *e, const char *path, int fd,
                       uint64_t size, cag_error *err)
{
    struct earlier_file *file = NULL;
    char *name = mem_strdup(path);
    size_t bytes;

    if (e->n >= 1 << FILE_BITS) {
        mem_free(name);
        return cag_fail(err, CAG_E_LIMIT, path, -1,
                        "more than %d files of earlier rows", 1 << FILE_BITS);
    }
    if (name && mem_mul(&bytes, (size_t)e->n + 1, sizeof *e->file))
        file = mem_realloc(e->file, bytes);
    if (!file) {
        mem_free(name);
        return cag_fail_nomem(err, "rows to resume");
    }
    e->file = file;
    file[e->n++] = (struct earlier_file){ fd, size, name, fd >= 0 };
    return CAG_OK;
}

void earlier_release(struct earlier *e)
{
    for (int i = 0; i < e->n; i++) {
        if (!e->file[i].borrowed && e->file[i].fd >= 0)
            close(e->file[i].fd);
        mem_free(e->file[i].path);
    }
    mem_free(e->file);
    memset(e, 0, sizeof *e);
}

/* The descriptor of file i; one that is open in its place is closed.  -1 with
 * errno. */
static int descriptor(struct earlier *e, int i)
{
    struct earlier_file *f = &e->file[i];
    int *place = &e->open[i % EARLIER_OPEN];

    if (f->fd >= 0)
        return f->fd;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd >= 0 && *place) {
        close(e->file[*place - 1].fd);
        e->file[*place - 1].fd = -1;
    }
    if (f->fd >= 0)
        *place = i + 1;
    return f->fd;
}

cag_status earlier_each(struct earlier *e, earlier_line_fn fn, void *ctx,
                        cag_error *err)
{
    cag_status st = CAG_OK;

    for (int i = 0; i < e->n && !st; i++) {
        const struct earlier_file *f = &e->file[i];
        int fd = f->size ? descriptor(e, i) : -1;

        if (fd >= 0)
            st = each_line(fd, f->path, f->size, i, fn, ctx, err);
        else if (f->size && errno != ENOENT)
            st = cag_fail_sys(err, CAG_E_IO, errno, f->path, "cannot read");
    }
    return st;
}

bool earlier_read(struct earlier *e, uint64_t at, size_t size, struct buf *b)
{
    char *p = buf_reserve(b, size);
    int fd = p ? descriptor(e, (int)(at & ((1 << FILE_BITS) - 1))) : -1;

    if (fd < 0 || pread(fd, p, size, (off_t)(at >> FILE_BITS)) != (ssize_t)size)
        return false;
    b->size += size;
    b->data[b->size] = 0;
    return true;
}
