/*
 * ui_wrap.c - see ui_wrap.h.
 *
 * A word is printed when the character after it is known.  Characters of two
 * columns (CJK) may stand on either side of a break, so each is a word.
 */
#include "cmd/cli/ui_wrap.h"

#include <string.h>
#include <unistd.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

void ui_wrap_start(struct ui_wrap *w, FILE *to)
{
    memset(w, 0, sizeof *w);
    w->to = to;
    if (isatty(fileno(to)))
        w->columns = (size_t)ui_columns(fileno(to));
}

static void put_word(struct ui_wrap *w)
{
    if (!w->n)
        return;
    if (!w->code && w->col > 0 && w->col + w->blanks + w->width > w->columns) {
        putc('\n', w->to);
        w->col = w->blanks = 0;
    }
    fprintf(w->to, "%*s", (int)w->blanks, "");
    ui_put_text(w->to, w->word, w->n);
    w->col += w->blanks + w->width;
    w->n = w->width = w->blanks = 0;
}

static void put_newline(struct ui_wrap *w)
{
    put_word(w);
    putc('\n', w->to);
    w->col = w->blanks = 0;
    w->tick = 0;
}

static void put_char(struct ui_wrap *w, const char *s, size_t len)
{
    size_t width = ui_width(s, len);

    w->tick = *s == '`' && w->tick >= 0 ? w->tick + 1 : -1;
    if (w->tick == 3)
        w->code = !w->code;
    if (width > 1 || w->n + len > sizeof w->word ||
        (w->columns && w->width + width > w->columns))
        put_word(w);
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
