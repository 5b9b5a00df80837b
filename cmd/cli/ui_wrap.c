/*
 * ui_wrap.c - see ui_wrap.h.
 *
 * A word is printed when the character after it is known.  Characters of two
 * columns (CJK) may stand on either side of a break, so each is a word.
 */
#include "cmd/cli/ui_wrap.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/ui_internal.h"

void ui_wrap_start(struct ui_wrap *w, FILE *to)
{
    memset(w, 0, sizeof *w);
    w->to = to;
    if (isatty(fileno(to)))
        w->columns = (size_t)ui_columns(fileno(to));
}

/* Has the word to go to the next line? */
static bool goes_down(const struct ui_wrap *w)
{
    if (w->code || w->joined || w->col <= w->start ||
        w->col + w->blanks + w->width <= w->columns)
        return false;
    return !w->whole || w->indent + w->width <= w->columns;
}

static void break_line(struct ui_wrap *w)
{
    putc('\n', w->to);
    w->col = w->start = 0;
    w->blanks = w->indent;
}

static void put_word(struct ui_wrap *w)
{
    if (!w->n)
        return;
    if (goes_down(w))
        break_line(w);
    fprintf(w->to, "%*s", (int)w->blanks, "");
    ui_put_text(w->to, w->word, w->n);
    w->col += w->blanks + w->width;
    w->n = w->width = w->blanks = 0;
    w->joined = false;
}

static void put_newline(struct ui_wrap *w)
{
    put_word(w);
    putc('\n', w->to);
    w->col = w->start = w->blanks = 0;
    w->tick = 0;
}

static void put_char(struct ui_wrap *w, const char *s, size_t len)
{
    size_t width = ui_width(s, len);

    w->tick = *s == '`' && w->tick >= 0 ? w->tick + 1 : -1;
    if (w->tick == 3)
        w->code = !w->code;
    if (width > 1 || w->n + len > sizeof w->word ||
        (w->columns && !w->whole && w->width + width > w->columns)) {
        bool same = w->whole && w->n && width == 1;

        put_word(w);
        w->joined = same;
    }
    memcpy(w->word + w->n, s, len);
    w->n += len;
    w->width += width;
    if (width > 1)
        put_word(w);
}

void ui_wrap_put(struct ui_wrap *w, const char *text, size_t n)
{
    if (!w->columns) {
        ui_put_text(w->to, text, n);
        return;
    }
    for (size_t len; n > 0; text += len, n -= len) {
        len = ui_utf8_len((const unsigned char *)text, n);
        len += !len;
        if (*text == '\n') {
            put_newline(w);
        } else if (*text == ' ') {
            put_word(w);
            w->blanks++;
        } else if (*text == '\t') {
            put_word(w);
            w->blanks += 8 - (w->col + w->blanks) % 8;
        } else {
            put_char(w, text, len);
        }
    }
}

void ui_wrap_end(struct ui_wrap *w)
{
    put_word(w);
}

/* Where a command begins that text suggests: after a colon; or its end. */
static size_t command_at(const char *text)
{
    static const char *const words[] = { "cag-", "iconv ", "jq ", "hf ", NULL };

    for (const char *p = text; (p = strstr(p, ": ")) != NULL;) {
        p += 2;
        for (int i = 0; words[i]; i++)
            if (!strncmp(p, words[i], strlen(words[i])))
                return (size_t)(p - text);
    }
    return strlen(text);
}

void ui_wrap_message(struct ui_wrap *w, const char *text)
{
    size_t at = command_at(text), n = strlen(text) - at;

    ui_wrap_put(w, text, at);
    ui_wrap_end(w);
    if (!n)
        return;
    if (w->columns && w->col + w->blanks + ui_width(text + at, n) > w->columns)
        break_line(w);
    fprintf(w->to, "%*s", (int)w->blanks, "");
    ui_put_text(w->to, text + at, n);
    w->col += w->blanks + ui_width(text + at, n);
    w->blanks = 0;
}

void ui_wrap_lines(struct ui_wrap *w, FILE *to, int indent)
{
    ui_wrap_start(w, to);
    w->whole = true;
    w->indent = (size_t)indent;
}

static void wrap_vprintf(struct ui_wrap *w, const char *fmt, va_list ap)
{
    char *text;
    va_list again;
    int n = -1;

    va_copy(again, ap);
    if (w->columns)
        n = vasprintf(&text, fmt, again);
    va_end(again);
    if (n < 0) { /* no terminal, or no memory to serve it well */
        vfprintf(w->to, fmt, ap);
        return;
    }
    ui_wrap_put(w, text, (size_t)n);
    free(text);
}

void ui_wrap_printf(struct ui_wrap *w, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    wrap_vprintf(w, fmt, ap);
    va_end(ap);
}

void ui_printf(FILE *to, int indent, const char *fmt, ...)
{
    struct ui_wrap w;
    va_list ap;

    ui_wrap_lines(&w, to, indent);
    va_start(ap, fmt);
    wrap_vprintf(&w, fmt, ap);
    va_end(ap);
    ui_wrap_end(&w);
}
