/*
 * error.c - the one place where a cag_error is filled.
 *
 * A message is one line of clean text whatever a hostile file put into its
 * parts: control bytes become '?', and a text that does not fit is cut
 * between characters.  A path that does not fit keeps its tail, which is
 * what tells files apart.
 */
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static const char *const names[CAG_N_STATUS] = {
    [CAG_OK] = "ok",
    [CAG_E_USAGE] = "usage",
    [CAG_E_NOMEM] = "nomem",
    [CAG_E_IO] = "io",
    [CAG_E_FORMAT] = "format",
    [CAG_E_UNSUPPORTED] = "unsupported",
    [CAG_E_CORRUPT] = "corrupt",
    [CAG_E_MISMATCH] = "mismatch",
    [CAG_E_LIMIT] = "limit",
    [CAG_E_BACKEND] = "backend",
    [CAG_E_MISSING] = "missing",
    [CAG_E_CREATE] = "create",
    [CAG_E_LOCKED] = "locked",
    [CAG_E_STALE] = "stale",
    [CAG_E_CHANGED] = "changed",
    [CAG_E_LOSS] = "loss",
    [CAG_E_CONFIG] = "config",
    [CAG_E_CANCELLED] = "cancelled",
    [CAG_E_INTERNAL] = "internal",
};

const char *cag_status_name(cag_status status)
{
    if ((int)status < 0 || status >= CAG_N_STATUS)
        return "unknown";
    return names[status];
}

/* Length of s without a UTF-8 character that was cut at its end. */
static size_t whole_chars(const char *s, size_t n)
{
    size_t i = n;

    while (i > 0 && n - i < 3 && ((unsigned char)s[i - 1] & 0xC0) == 0x80)
        i--;
    if (i == 0)
        return n;
    unsigned char lead = (unsigned char)s[i - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return n - i + 1 < want ? i - 1 : n;
}

static void set_file(cag_error *err, const char *file)
{
    size_t n = file ? strlen(file) : 0;

    if (n < sizeof err->file) {
        if (n)
            memmove(err->file, file, n);
        err->file[n] = 0;
        return;
    }
    size_t keep = sizeof err->file - 4;
    const char *tail = file + n - keep;
    while (((unsigned char)*tail & 0xC0) == 0x80 && keep > 0) {
        tail++;
        keep--;
    }
    memcpy(err->file, "...", 3);
    memcpy(err->file + 3, tail, keep);
    err->file[3 + keep] = 0;
}

static void set_msg(cag_error *err, const char *fmt, va_list ap)
{
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);

    if (n < 0) {
        err->msg[0] = 0;
        return;
    }
    if ((size_t)n >= sizeof err->msg)
        err->msg[whole_chars(err->msg, sizeof err->msg - 1)] = 0;
    for (char *p = err->msg; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = '?';
}

static void fill(cag_error *err, cag_status status, const char *file,
                 const char *fmt, va_list ap)
{
    /* the parts may point into *err itself, so the message comes first */
    set_msg(err, fmt, ap);
    set_file(err, file);
    err->status = status;
    err->sys = 0;
    err->offset = -1;
    err->line = err->column = 0;
}

cag_status cag_fail(cag_error *err, cag_status status, const char *file,
                    int64_t offset, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return status;
    va_start(ap, fmt);
    fill(err, status, file, fmt, ap);
    va_end(ap);
    err->offset = offset;
    return status;
}

cag_status cag_fail_sys(cag_error *err, cag_status status, int sys,
                        const char *file, const char *fmt, ...)
{
    char why[128] = "";
    va_list ap;

    if (!err)
        return status;
    va_start(ap, fmt);
    fill(err, status, file, fmt, ap);
    va_end(ap);
    err->sys = sys;
    /* the GNU strerror_r, thread-safe; it may or may not use the buffer */
    const char *text = strerror_r(sys, why, sizeof why);
    size_t n = strlen(err->msg), room = sizeof err->msg - 1;
    size_t need = strlen(text) + 2;
    if (n + need > room)
        n = need < room ? whole_chars(err->msg, room - need) : 0;
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", text);
    return status;
}

cag_status cag_fail_at(cag_error *err, cag_status status, const char *file,
                       int line, int column, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return status;
    va_start(ap, fmt);
    fill(err, status, file, fmt, ap);
    va_end(ap);
    err->line = line;
    err->column = column;
    return status;
}

cag_status cag_fail_nomem(cag_error *err, const char *what)
{
    return cag_fail(err, CAG_E_NOMEM, NULL, -1, "out of memory (%s)", what);
}

cag_status cag_error_copy(cag_error *dst, const cag_error *src)
{
    if (!src)
        return CAG_OK;
    if (dst && dst != src)
        *dst = *src;
    return src->status;
}
