/*
 * ui_json.c - JSON written as it comes.
 *
 * The nesting is a small stack of closing brackets; errors of the stream
 * show in ui_close_stdout, so no call has a status.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

void ui_json_start(struct ui_json *j, FILE *out)
{
    memset(j, 0, sizeof *j);
    j->out = out;
}

/* Of the characters that JSON lets through, a terminal may obey these: DEL and
 * C1 (U+007F..U+009F).  They only occur in strings, so that text that is JSON
 * already stays it.  Returns the bytes taken, or 0. */
static size_t escape_control(FILE *out, const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0], d = n > 1 ? (unsigned char)s[1] : 0;

    if (c == 0x7F || (c == 0xC2 && d >= 0x80 && d < 0xA0)) {
        fprintf(out, "\\u%04x", c == 0x7F ? c : d);
        return c == 0x7F ? 1 : 2;
    }
    return 0;
}

void ui_put_json(FILE *out, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t len = escape_control(out, text + at, n - at);

        if (!len) {
            putc(text[at], out);
            len = 1;
        }
        at += len;
    }
}

static void quoted(FILE *out, const char *s, size_t n)
{
    putc('"', out);
    while (n > 0) {
        size_t len = escape_control(out, s, n);
        if (len > 0) {
            s += len;
            n -= len;
            continue;
        }
        len = ui_utf8_len((const unsigned char *)s, n);
        if (len == 0) {
            fputs("\xEF\xBF\xBD", out);
            len = 1;
        } else if (len > 1) {
            fwrite(s, 1, len, out);
        } else if (*s == '"' || *s == '\\') {
            putc('\\', out);
            putc(*s, out);
        } else if (*s == '\n') {
            fputs("\\n", out);
        } else if (*s == '\t') {
            fputs("\\t", out);
        } else if ((unsigned char)*s < 0x20) {
            fprintf(out, "\\u%04x", *s);
        } else {
            putc(*s, out);
        }
        s += len;
        n -= len;
    }
    putc('"', out);
}

/* The comma and the key in front of a value. */
static void front(struct ui_json *j, const char *key)
{
    if (j->depth > 0 && j->more[j->depth])
        fputs(",", j->out);
    j->more[j->depth] = true;
    if (key) {
        quoted(j->out, key, strlen(key));
        putc(':', j->out);
    }
}

/* An outermost value is a line. */
static void back(struct ui_json *j)
{
    if (j->depth == 0)
        putc('\n', j->out);
}

static void open_level(struct ui_json *j, const char *key, char with, char end)
{
    if (j->depth + 1 >= (int)sizeof j->closer)
        abort(); /* our own nesting, never a file's */
    front(j, key);
    putc(with, j->out);
    j->depth++;
    j->more[j->depth] = false;
    j->closer[j->depth] = end;
}

void ui_json_object(struct ui_json *j, const char *key)
{
    open_level(j, key, '{', '}');
}

void ui_json_array(struct ui_json *j, const char *key)
{
    open_level(j, key, '[', ']');
}

void ui_json_end(struct ui_json *j)
{
    putc(j->closer[j->depth], j->out);
    j->depth--;
    back(j);
}

void ui_json_raw(struct ui_json *j, const char *key, const char *text, size_t n)
{
    front(j, key);
    ui_put_json(j->out, text, n);
    back(j);
}

void ui_json_strn(struct ui_json *j, const char *key, const char *s, size_t n)
{
    front(j, key);
    quoted(j->out, s, n);
    back(j);
}

void ui_json_str(struct ui_json *j, const char *key, const char *s)
{
    if (s)
        ui_json_strn(j, key, s, strlen(s));
    else
        ui_json_null(j, key);
}

void ui_json_int(struct ui_json *j, const char *key, int64_t v)
{
    char text[UI_TEXT];

    ui_json_raw(j, key, text,
                (size_t)ui_format(text, sizeof text, "%lld", (long long)v));
}

void ui_json_uint(struct ui_json *j, const char *key, uint64_t v)
{
    char text[UI_TEXT];

    ui_json_raw(
        j, key, text,
        (size_t)ui_format(text, sizeof text, "%llu", (unsigned long long)v));
}

void ui_json_double(struct ui_json *j, const char *key, double v)
{
    char text[UI_TEXT];
    int n = 0;

    if (!isfinite(v)) {
        ui_json_null(j, key);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        n = ui_format(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    if (!strpbrk(text, ".e"))
        n += ui_format(text + n, sizeof text - (size_t)n, ".0");
    ui_json_raw(j, key, text, (size_t)n);
}

void ui_json_seconds(struct ui_json *j, const char *key, double s)
{
    ui_json_double(j, key, round(s * 1e6) / 1e6);
}

void ui_json_bool(struct ui_json *j, const char *key, bool v)
{
    ui_json_raw(j, key, v ? "true" : "false", v ? 4 : 5);
}

void ui_json_null(struct ui_json *j, const char *key)
{
    ui_json_raw(j, key, "null", 4);
}
