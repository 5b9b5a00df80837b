/*
 * ask_evidence.c - what an answer stands on, for people on stderr, or as
 * "path:line:text" on stdout for grep's readers: editors, pipes.
 *
 * Text is the source's, byte for byte; a line after the first of a piece
 * stands four blanks in.  On a terminal control characters are replaced, lines
 * of one sentence are joined and wrapped, and three dots stand where a sentence
 * goes on before or after a piece.
 */
#include <string.h>
#include <unistd.h>

#include "cmd/ask/ask_common.h"
#include "cmd/cli/ui.h"

#define PLACE "\033[35m"
#define LABEL "\033[1;32m"
#define PLAIN "\033[0m"

static const char *piece_file(const cag_piece *p)
{
    return ui_clean(p->file ? p->file : p->source);
}

/* Why the lines may not be found in the file of today; or "". */
static const char *remark(const cag_piece *p)
{
    if (p->state == CAG_SOURCE_CHANGED)
        return " (changed since)";
    if (p->state == CAG_SOURCE_MISSING)
        return " (missing now)";
    if (p->state == CAG_SOURCE_PIPE)
        return " (from a pipe)";
    return p->filtered ? " (text of its filter)" : "";
}

/* The length of the line of text at i, without its end; *next follows it. */
static size_t line_at(const cag_piece *p, size_t i, size_t *next)
{
    const char *nl = memchr(p->text + i, '\n', p->size - i);
    size_t n = nl ? (size_t)(nl - p->text) - i : p->size - i;

    *next = i + n + 1;
    return n && p->text[i + n - 1] == '\r' ? n - 1 : n;
}

static bool is_word(char c)
{
    return (c & 0x80) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

/* Does a sentence go on across the border at i, in the middle of a line or
 * over the end of one?  A mark, a blank line and a heading end it. */
static bool goes_on(const char *text, size_t n, size_t i)
{
    bool begins = i && text[i - 1] == '\n';
    bool ends = i < n && (text[i] == '\n' || text[i] == '\r');
    size_t next = i, last = i - 1, line;

    if (!i || i >= n)
        return false;
    if (!begins && !ends)
        return true;
    if (begins) {
        last -= last > 0;
    } else {
        next += text[next] == '\r';
        next += next < n && text[next] == '\n';
    }
    last -= last && text[last] == '\r';
    for (line = last; line && text[line - 1] != '\n';)
        line--;
    return next < n && is_word(text[next]) && text[line] != '#' &&
           !strchr("\n.!?:;|", text[last]);
}

/* Is a piece cut in mid-sentence, at its begin and its end? */
static void look_around(const cag_kb *kb, const cag_piece *p, bool cut[2])
{
    size_t n;
    const char *text = cag_kvc_text(cag_kb_get_kvc(kb), &n);

    cut[0] = cut[1] = false;
    if (!isatty(2) || !text || p->text < text || p->text + p->size > text + n)
        return;
    cut[0] = goes_on(text, n, (size_t)(p->text - text));
    cut[1] = goes_on(text, n, (size_t)(p->text - text) + p->size);
}

static void print_piece(const cag_kb *kb, const cag_piece *p, bool colour)
{
    struct ui_wrap w;
    bool cut[2], joined;
    size_t next;
    int at;

    look_around(kb, p, cut);
    at = fprintf(stderr, "%s%s:%lld", colour ? PLACE : "", piece_file(p),
                 (long long)p->line_from);
    if (p->line_to > p->line_from)
        at += fprintf(stderr, "-%lld", (long long)p->line_to);
    at += fprintf(stderr, "%s%s:", colour ? PLAIN : "", remark(p));
    if (colour)
        at -= (int)(strlen(PLACE) + strlen(PLAIN));
    ui_wrap_lines(&w, stderr, 4);
    if (w.columns)
        w.col = (size_t)at % w.columns;
    for (size_t i = 0; i < p->size; i = next) {
        size_t n = line_at(p, i, &next);

        /* where lines are wrapped, those of one sentence are one */
        joined = i && w.columns && goes_on(p->text, p->size, i);
        if (i && !joined)
            ui_wrap_put(&w, "\n", 1);
        ui_wrap_put(&w, i && !joined ? "    " : " ", i && !joined ? 4 : 1);
        if (!i && cut[0])
            ui_wrap_put(&w, "... ", 4);
        ui_wrap_put(&w, p->text + i, n);
        if (next >= p->size && cut[1])
            ui_wrap_put(&w, " ...", 4);
    }
    ui_wrap_put(&w, "\n", 1);
}

void ask_print_evidence(const cag_kb *kb, const cag_checked *c)
{
    bool colour = ui_coloured();
    struct ui_wrap w;

    ui_flush_stdout(); /* on a terminal the answer comes first */
    for (int i = 0; i < c->n_evidence; i++)
        print_piece(kb, &c->evidence[i].at, colour);
    fprintf(stderr, "%ssupport:%s %s\n", colour ? LABEL : "",
            colour ? PLAIN : "", cag_support_name(c->support));
    ui_wrap_lines(&w, stderr, 4);
    for (int i = 0; i < c->n_unsupported; i++) {
        ui_wrap_printf(&w, "%s", i ? ", " : "unsupported: ");
        ui_wrap_put(&w, c->unsupported[i], strlen(c->unsupported[i]));
    }
    if (c->n_unsupported)
        ui_wrap_put(&w, "\n", 1);
}

void ask_print_grep(const cag_checked *c)
{
    for (int k = 0; k < c->n_evidence; k++) {
        const cag_piece *p = &c->evidence[k].at;
        int64_t line = p->line_from;
        size_t next;

        if (*remark(p))
            ui_warn("%s%s: its lines are those of the cached text",
                    piece_file(p), remark(p));
        for (size_t i = 0; i < p->size; i = next, line++) {
            size_t n = line_at(p, i, &next);

            if (!n)
                continue;
            printf("%s:%lld:", piece_file(p), (long long)line);
            ui_put_text(stdout, p->text + i, n);
            putchar('\n');
        }
    }
}

int ask_withheld(const cag_answer *a, cag_support asked)
{
    const cag_checked *c = a->checked;

    if (c->withheld)
        ui_note("an answer was withheld: its support is %s, asked for is %s "
                "(--json shows it)",
                cag_support_name(c->support), cag_support_name(asked));
    return UI_REFUSED;
}
