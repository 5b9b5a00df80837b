/*
 * ask_read.c - see ask_read.h.
 *
 * A terminal that was asked to (CSI ? 2004 h) puts ESC [ 200 ~ and
 * ESC [ 201 ~ around what is pasted.  libedit knows neither, so characters
 * are read here: the two are taken out, and a line break between them reaches
 * libedit quoted, as a character of the line.
 */
#include "cmd/ask/ask_read.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

#include "cmd/cli/ui.h"

enum { QUOTE = 'V' & 0x1F, ESC = 27, BRACKET_MS = 50 };

static struct {
    char queue[8]; /* [n_queue] bytes read too far, the last first */
    int n_queue;
    bool pasting;
    int n_newline; /* of the paste, not yet passed on */
    int quoted;    /* the character after QUOTE, or 0 */
} in;

static EditLine *editor;
static History *history_of; /* what can be called back */
static const char *shown_prompt;

static int next_byte(void)
{
    unsigned char b;
    ssize_t n;

    if (in.n_queue)
        return (unsigned char)in.queue[--in.n_queue];
    while ((n = read(0, &b, 1)) < 0 && errno == EINTR)
        el_set(editor, EL_REFRESH); /* the window has another size, or fg */
    return n == 1 ? b : -1;
}

static bool is_waiting(void)
{
    struct pollfd p = { .fd = 0, .events = POLLIN };

    return in.n_queue || poll(&p, 1, BRACKET_MS) > 0;
}

/* After ESC: is it a bracket of a paste?  If not, nothing was read. */
static bool read_bracket(void)
{
    const char *rest = in.pasting ? "[201~" : "[200~";
    char got[8];
    int n = 0;

    while (rest[n] && is_waiting()) {
        int b = next_byte();

        if (b < 0)
            break;
        got[n++] = (char)b;
        if (b != rest[n - 1])
            break;
        if (!rest[n])
            return true;
    }
    while (n)
        in.queue[in.n_queue++] = got[--n];
    return false;
}

/* The rest of the character that b begins. */
static int decode(int b)
{
    char text[4] = { (char)b };
    mbstate_t state;
    wchar_t c;
    int n = b < 0xC0 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4, k = 1;

    while (k < n && (b = next_byte()) >= 0)
        text[k++] = (char)b;
    memset(&state, 0, sizeof state);
    return (int)mbrtowc(&c, text, (size_t)k, &state) > 0 ? (int)c : '?';
}

/* The next character of the line; negative at the end. */
static int next_char(void)
{
    if (in.quoted) {
        int c = in.quoted;

        in.quoted = 0;
        return c;
    }
    for (;;) {
        int b = next_byte();

        if (b == ESC && read_bracket()) {
            in.pasting = !in.pasting;
            in.n_newline = 0; /* those at the end of a paste say nothing */
        } else if (!in.pasting || b < 0) {
            return b < 0x80 ? b : decode(b);
        } else if (b == '\r' || b == '\n') {
            in.n_newline++;
        } else if (in.n_newline) {
            in.n_newline--;
            in.queue[in.n_queue++] = (char)b;
            in.quoted = '\n';
            return QUOTE;
        } else if (b == '\t') {
            in.quoted = b;
            return QUOTE;
        } else if (b >= ' ' && b != 0x7F) {
            return b < 0x80 ? b : decode(b);
        }
    }
}

/* While a line is edited Ctrl-C is a key of it.  libedit's own setting is lost
 * whenever it takes the terminal again. */
static void take_ctrl_c(void)
{
    struct termios t;

    if (tcgetattr(0, &t) == 0 && t.c_cc[VINTR] != _POSIX_VDISABLE) {
        t.c_cc[VINTR] = _POSIX_VDISABLE;
        tcsetattr(0, TCSADRAIN, &t);
    }
}

static int get_char(EditLine *unused, wchar_t *out)
{
    int c;

    take_ctrl_c();
    c = next_char();
    (void)unused;
    *out = c < 0 ? 0 : (wchar_t)c;
    return c >= 0;
}

static char *get_prompt(EditLine *unused)
{
    (void)unused;
    return (char *)(uintptr_t)shown_prompt;
}

/* Ctrl-C, which the terminal passes on as a character: the line is given up; an
 * empty one is told how to leave. */
static unsigned char give_up(EditLine *e, int unused)
{
    const LineInfoW *l = el_wline(e);
    int n = (int)(l->lastchar - l->buffer);

    (void)unused;
    if (!n) {
        fputs("\nCtrl-D or /quit ends\n", stdout);
        fflush(stdout);
        return CC_REDISPLAY;
    }
    el_cursor(e, (int)(l->lastchar - l->cursor));
    el_deletestr(e, n);
    return CC_REFRESH;
}

/* What keys send that libedit does not know of itself. */
static void bind_keys(void)
{
    static const char *const keys[][2] = {
        { "\\e[1~", "ed-move-to-beg" },
        { "\\e[7~", "ed-move-to-beg" },
        { "\\e[H", "ed-move-to-beg" },
        { "\\e[4~", "ed-move-to-end" },
        { "\\e[8~", "ed-move-to-end" },
        { "\\e[F", "ed-move-to-end" },
        { "\\e[3~", "ed-delete-next-char" },
        { "\\e[1;5C", "em-next-word" },
        { "\\e[1;5D", "ed-prev-word" },
        { "^R", "em-inc-search-prev" },
        { "^C", "cag-give-up" },
    };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

bool ask_read_start(int n_recall)
{
    HistEvent e;

    editor = el_init("cag-ask", stdin, stdout, stderr);
    history_of = history_init();
    if (!editor || !history_of)
        return false;
    history(history_of, &e, H_SETSIZE, n_recall);
    history(history_of, &e, H_SETUNIQUE, 1);
    el_set(editor, EL_HIST, history, history_of);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 1);
    el_set(editor, EL_PROMPT, get_prompt);
    el_set(editor, EL_GETCFN, get_char);
    el_set(editor, EL_ADDFN, "cag-give-up", "Give the line up", give_up);
    bind_keys();
    el_source(editor, NULL);
    return true;
}

void ask_read_recall(const char *line)
{
    HistEvent e;

    history(history_of, &e, H_ENTER, line);
}

void ask_read_end(void)
{
    if (history_of)
        history_end(history_of);
    if (editor)
        el_end(editor);
}

char *ask_read_typed(const char *prompt)
{
    const char *text;
    char *line;
    int n;

    shown_prompt = prompt;
    ui_bracket_paste(true);
    text = el_gets(editor, &n);
    ui_bracket_paste(false);
    line = text && n > 0 ? strdup(text) : NULL;
    if (line && line[n - 1] == '\n')
        line[n - 1] = 0;
    return line;
}
