/*
 * ask_lines.c - see ask_lines.h.
 *
 * stdio would hide what it has read from poll(), so the buffer is ours.
 */
#include "cmd/ask/ask_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cli/ui.h"

#define READ_BYTES     ((size_t)64 << 10)
#define LINE_MAX_BYTES ((size_t)128 << 20)

static cag_status fail(const struct ask_lines *l, cag_status status,
                       const char *what, const char *why, cag_error *err)
{
    err->status = status;
    err->sys = errno;
    snprintf(err->file, sizeof err->file, "%s", l->name);
    snprintf(err->msg, sizeof err->msg, "%s%s", what, why);
    return status;
}

cag_status ask_lines_open(struct ask_lines *l, const char *path, cag_error *err)
{
    struct stat st;

    *l = (struct ask_lines){ .fd = 0, .name = "standard input" };
    if (strcmp(path, "-")) {
        l->name = path;
        l->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (l->fd < 0)
            return fail(l, CAG_E_MISSING, "cannot read: ", strerror(errno),
                        err);
    }
    if (fstat(l->fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        ask_lines_close(l);
        return fail(l, CAG_E_MISSING, "cannot read: ", strerror(EISDIR), err);
    }
    return CAG_OK;
}

void ask_lines_close(struct ask_lines *l)
{
    if (l->fd > 0)
        close(l->fd);
    free(l->buf);
    l->fd = -1;
    l->buf = NULL;
}

uint64_t ask_lines_count(const struct ask_lines *l)
{
    struct stat st;
    char *buf = fstat(l->fd, &st) == 0 && S_ISREG(st.st_mode)
                    ? malloc(READ_BYTES)
                    : NULL;
    off_t at = lseek(l->fd, 0, SEEK_CUR);
    bool text = false;
    uint64_t sum = 0;
    ssize_t n;

    if (!buf || at < 0) {
        free(buf);
        return 0;
    }
    while ((n = pread(l->fd, buf, READ_BYTES, at)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (buf[i] == '\n') {
                sum += text;
                text = false;
            } else if (!strchr(" \t\r", buf[i]))
                text = true;
        at += n;
    }
    free(buf);
    return n < 0 ? 0 : sum + text;
}

/* Offset of the next newline from begin on, or SIZE_MAX. */
static size_t newline(struct ask_lines *l)
{
    size_t n = l->end - l->begin;
    const char *at = n > l->scanned ? memchr(l->buf + l->begin + l->scanned,
                                             '\n', n - l->scanned)
                                    : NULL;

    l->scanned = at ? (size_t)(at - l->buf) - l->begin : n;
    return at ? l->scanned : SIZE_MAX;
}

/* One read; false after an error. */
static bool more(struct ask_lines *l, cag_error *err)
{
    ssize_t n;

    if (l->begin) {
        memmove(l->buf, l->buf + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->cap - l->end < READ_BYTES) {
        size_t cap = l->cap ? 2 * l->cap : 2 * READ_BYTES;
        char *p = cap <= LINE_MAX_BYTES ? realloc(l->buf, cap) : NULL;

        if (!p) {
            if (cap > LINE_MAX_BYTES)
                fail(l, CAG_E_LIMIT, "the line is longer than 128 MiB", "",
                     err);
            else
                fail(l, CAG_E_NOMEM, "out of memory", "", err);
            return false;
        }
        l->buf = p;
        l->cap = cap;
    }
    n = read(l->fd, l->buf + l->end, l->cap - l->end);
    if (n < 0 && errno != EINTR) {
        fail(l, CAG_E_IO, "cannot read: ", strerror(errno), err);
        return false;
    }
    l->eof = n == 0;
    l->end += n > 0 ? (size_t)n : 0;
    return true;
}

bool ask_lines_ready(struct ask_lines *l)
{
    cag_error err = CAG_ERROR_INIT;
    struct pollfd p = { .fd = l->fd, .events = POLLIN };

    while (!l->eof && newline(l) == SIZE_MAX) {
        if (poll(&p, 1, 0) <= 0)
            return false;
        /* the error comes again, and is told, when the line is asked for */
        if (!more(l, &err))
            return true;
    }
    return true;
}

const char *ask_lines_next(struct ask_lines *l, size_t *size, cag_error *err)
{
    size_t at;
    char *line;

    while ((at = newline(l)) == SIZE_MAX && !l->eof) {
        bool ok;

        ui_catch(false);
        ok = !ui_caught() && more(l, err);
        ui_catch(true);
        if (!ok && (err->status != CAG_E_LIMIT || ui_caught()))
            return NULL;
        /* a line that is too long is passed over, and then told */
        if (!ok)
            l->begin = l->end = l->scanned = 0;
    }
    line = l->buf + l->begin;
    if (ui_caught() || (at == SIZE_MAX && l->begin == l->end && !err->status))
        return NULL;
    *size = at == SIZE_MAX ? l->end - l->begin : at;
    l->begin += *size + (at != SIZE_MAX);
    l->scanned = 0;
    return line;
}
