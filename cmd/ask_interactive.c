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

#include <editline/readline.h>

#include "cmd/ask_common.h"
#include "cmd/cli/ui.h"

#define QUOTES "\"\"\""
enum { N_QUOTES = 3 };

struct talk {
    const struct ask_opts *o;
    cag_kb *kb;
    cag_chat *chat; /* NULL: clean prefix each time */
    bool tty;
    char *line; /* not on a terminal */
    size_t cap;
    bool holds_nul;
    struct ask_figures sum;
};

/* A line without its newline, heap; NULL at the end of input. */
static char *read_line(struct talk *t, const char *prompt)
{
    ssize_t n;

    if (t->tty)
        return readline(prompt);
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

static void show_sources(const struct talk *t)
{
    const cag_kvc *k = cag_kb_get_kvc(t->kb);
    int n = cag_kvc_get_info(k)->n_source;

    for (int i = 0; i < n; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, i);

        fprintf(stderr, "%8lld tokens  %s\n",
                (long long)(s->tok_end - s->tok_begin), ui_clean(s->name));
    }
}

static void show_stats(const struct talk *t)
{
    const cag_kvc_info *i = cag_kvc_get_info(cag_kb_get_kvc(t->kb));

    fprintf(stderr,
            "%lld tokens cached, context %lld; %lld questions, %lld "
            "tokens generated, %.1f tokens/s\n",
            (long long)i->n_tok, (long long)cag_kb_n_ctx(t->kb),
            (long long)t->sum.n_asked, (long long)t->sum.n_generated,
            t->sum.seconds > 0 ? (double)t->sum.n_generated / t->sum.seconds
                               : 0.0);
}

/* Returns false to end; a command that is none is an error in a script. */
static bool command(struct talk *t, const char *line, int *status)
{
    cag_error err = CAG_ERROR_INIT;

    if (!strcmp(line, "/quit") || !strcmp(line, "/exit"))
        return false;
    if (!strcmp(line, "/sources"))
        show_sources(t);
    else if (!strcmp(line, "/stats"))
        show_stats(t);
    else if (!strcmp(line, "/reset")) {
        if (t->chat)
            cag_chat_reset(t->chat);
    } else if (!strcmp(line, "/chat")) {
        if (!t->chat && cag_chat_new(t->kb, &t->chat, &err))
            *status = ui_error(&err);
        else
            ui_note("turns are kept from now on; /reset forgets them");
    } else if (strcmp(line, "/help") && !t->tty)
        *status = ui_fail(CAG_E_USAGE, NULL,
                          "unknown command '%s'; /help "
                          "lists them",
                          line);
    else
        fprintf(
            stderr,
            "/sources  what was read    /stats  figures so far\n"
            "/chat     keep turns       /reset  forget them\n"
            "/quit     end (or Ctrl-D)  \"\"\"     begin and end a block\n");
    return true;
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

int ask_interactive(const struct ask_opts *o, cag_kb *kb)
{
    struct talk t = { .o = o, .kb = kb, .tty = isatty(0) && isatty(1) };
    cag_error err = CAG_ERROR_INIT;
    int status = UI_OK;
    char *line;

    if (o->chat && cag_chat_new(kb, &t.chat, &err))
        return ui_error(&err);
    while (!ui_caught() && (line = read_line(&t, "> ")) != NULL) {
        bool go = true;

        if (!strncmp(line, QUOTES, N_QUOTES) &&
            !(line = read_block(&t, line))) {
            status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
            break;
        }
        if (line[strspn(line, " \t\r\n")] == 0) {
            free(line);
            continue;
        }
        if (t.tty)
            add_history(line);
        if (t.holds_nul) {
            status = ui_fail(CAG_E_FORMAT, NULL,
                             "the question holds a NUL byte, expected text");
            t.holds_nul = false;
        } else if (line[0] == '/' && !line[strcspn(line, " \n")]) {
            go = command(&t, line, &status);
        } else {
            int s = ask(&t, line);

            status = s ? s : status;
        }
        free(line);
        if (!go || status == UI_IOERR)
            break;
    }
    cag_chat_free(t.chat);
    free(t.line);
    /* at a terminal errors were seen and answered; a script needs them */
    return t.tty && status != UI_IOERR ? UI_OK : status;
}
