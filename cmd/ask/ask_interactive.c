/*
 * ask_interactive.c - questions typed one after the other.
 *
 * On a terminal lines are edited by libedit; from a pipe they are read as
 * they are and nothing but answers is printed.  A block between three double
 * quotes, on as many lines as there are, is one question.  The first Ctrl-C
 * stops an answer.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cag/tool/text_file.h>

#include "cmd/ask/ask_read.h"
#include "cmd/ask/ask_talk.h"
#include "cmd/cli/model_words.h"
#include "cmd/cli/ui.h"

#define QUOTES "\"\"\""
enum { N_QUOTES = 3 };

/* A line without its newline, heap; NULL at the end of input. */
static char *read_line(struct talk *t, const char *prompt)
{
    ssize_t n;

    if (t->tty)
        return ask_read_typed(prompt);
    n = getline(&t->line, &t->cap, stdin);
    if (n < 0)
        return NULL;
    if (n && t->line[n - 1] == '\n')
        t->line[--n] = 0;
    t->holds_nul |= strlen(t->line) != (size_t)n;
    return strdup(t->line);
}

/* Does s end with the quotes?  If so they are removed. */
static bool cut_quotes(char *s)
{
    size_t n = strlen(s);

    if (n < N_QUOTES || strcmp(s + n - N_QUOTES, QUOTES))
        return false;
    s[n - N_QUOTES] = 0;
    return true;
}

/* The block that line begins: everything up to the closing quotes, or to the
 * end of input.  Takes line over. */
static char *read_block(struct talk *t, char *line)
{
    size_t n = strlen(line) - N_QUOTES;
    bool end;

    memmove(line, line + N_QUOTES, n + 1);
    end = cut_quotes(line);
    while (!end) {
        char *next = read_line(t, "... "), *all = NULL;

        if (!next)
            break;
        end = cut_quotes(next);
        if (asprintf(&all, "%s%s%s", line, *line ? "\n" : "", next) < 0)
            all = NULL;
        free(next);
        free(line);
        line = all;
        if (!line)
            break;
    }
    return line;
}

static int ask(struct talk *t, const char *question)
{
    int status;

    ui_catch(true);
    status =
        ask_question(t->o, t->kb, t->chat, question, strlen(question), &t->sum);
    if (ui_caught() && t->tty) {
        ui_forget_signal(); /* it stopped the answer, not the program */
        status = UI_OK;
    }
    ui_catch(false);
    return status;
}

/* What this is, and how to go on; for who sits at a terminal. */
static void banner(const struct talk *t)
{
    const cag_kvc_info *i = cag_kvc_get_info(cag_kb_get_kvc(t->kb));
    char text[512];
    struct ui_wrap w;
    int n;

    if (ui.quiet)
        return;
    n = snprintf(text, sizeof text,
                 "%s: %lld tokens, %d source%s; %s\n"
                 "%s. /help lists commands, Ctrl-D ends.\n",
                 ui_clean(i->path), (long long)i->n_tok, i->n_source,
                 ui_s(i->n_source), ui_clean(model_words(i)),
                 t->chat ? "Turns are kept"
                         : "Each question finds the clean cache");
    ui_wrap_start(&w, stderr);
    ui_wrap_put(&w, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
    ui_wrap_end(&w);
}

static int open_chat(struct talk *t)
{
    cag_error err = CAG_ERROR_INIT;
    char *text;
    size_t n;
    cag_status st;

    if (!t->o->chat && !t->o->from)
        return UI_OK;
    st = cag_chat_new(t->kb, &t->chat, &err);
    if (!st && t->o->from) {
        st = cag_read_file(t->o->from, &text, &n, &err);
        if (!st) {
            st = cag_chat_load(t->chat, text, n, t->o->from, &err);
            cag_free(text);
        }
    }
    return st ? ui_error(&err) : UI_OK;
}

/* One line or block; false to end. */
static bool one(struct talk *t, char *line, int *status)
{
    int s;

    if (line[strspn(line, " \t\r\n")] == 0)
        return true;
    if (t->holds_nul) {
        *status = ui_fail(CAG_E_FORMAT, NULL,
                          "the question holds a NUL byte, expected text");
        t->holds_nul = false;
        return true;
    }
    if (talk_is_command(line)) {
        if (t->tty)
            ask_read_recall(line);
        return talk_command(t, line, status);
    }
    if (t->tty)
        ask_history_add(line);
    s = ask(t, line);
    *status = s ? s : *status;
    return true;
}

int ask_interactive(const struct ask_opts *o, cag_kb *kb)
{
    struct talk t = { .o = o, .kb = kb, .tty = isatty(0) && isatty(1) };
    int status = open_chat(&t);
    char *line = NULL;
    bool go = true;

    if (status) {
        cag_chat_free(t.chat);
        return status;
    }
    if (t.tty && !ask_read_start(ASK_N_RECALL)) {
        cag_chat_free(t.chat);
        return ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    if (t.tty) {
        ask_history_open(!o->no_history);
        banner(&t);
    }
    while (go && !ui_caught() && (line = read_line(&t, "> ")) != NULL) {
        if (!strncmp(line, QUOTES, N_QUOTES) &&
            !(line = read_block(&t, line))) {
            status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
            break;
        }
        go = one(&t, line, &status) && status != UI_IOERR;
        free(line);
    }
    if (t.tty && go && !line)
        putchar('\n'); /* Ctrl-D: the shell's prompt begins a line */
    if (t.tty)
        ask_read_end();
    ask_figures_forget(&t.sum);
    cag_chat_free(t.chat);
    free(t.line);
    /* at a terminal errors were seen and answered; a script needs them */
    return t.tty && status != UI_IOERR ? UI_OK : status;
}
