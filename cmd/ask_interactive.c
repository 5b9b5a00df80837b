/*
 * ask_interactive.c - questions typed one after the other.
 *
 * On a terminal lines are edited by libedit; from a pipe they are read as
 * they are and nothing but answers is printed.  A block between two lines of
 * three double quotes is one question.  The first Ctrl-C stops an answer.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>

#include "cmd/ask_common.h"
#include "cmd/ui.h"

struct talk {
    const struct ask_opts *o;
    cag_kb                *kb;
    cag_chat              *chat;     /* NULL: clean prefix each time */
    bool                   tty;
    char                  *line;     /* not on a terminal */
    size_t                 cap;
    int64_t                n_asked, n_generated;
    double                 seconds;
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
        t->line[n - 1] = 0;
    return strdup(t->line);
}

/* The lines up to the closing quotes, joined. */
static char *read_block(struct talk *t)
{
    char *all = strdup(""), *line;
    size_t n = 0;

    while (all && (line = read_line(t, "... ")) != NULL) {
        size_t len = strlen(line);
        bool end = !strcmp(line, "\"\"\"");
        char *more = end ? NULL : realloc(all, n + len + 2);

        if (more) {
            memcpy(more + n, line, len);
            more[n + len] = '\n';
            more[n + len + 1] = 0;
            n += len + 1;
            all = more;
        }
        free(line);
        if (!more)
            break;
    }
    return all;
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

    fprintf(stderr, "%lld tokens cached, context %lld; %lld questions, %lld "
            "tokens generated, %.1f tokens/s\n", (long long)i->n_tok,
            (long long)cag_kb_n_ctx(t->kb), (long long)t->n_asked,
            (long long)t->n_generated,
            t->seconds > 0 ? (double)t->n_generated / t->seconds : 0.0);
}

/* Returns false to end. */
static bool command(struct talk *t, const char *line)
{
    cag_error err = CAG_ERROR_INIT;

    if (!strcmp(line, "/quit") || !strcmp(line, "/exit"))
        return false;
    if (!strcmp(line, "/sources"))
        show_sources(t);
    else if (!strcmp(line, "/stats"))
        show_stats(t);
    else if (!strcmp(line, "/reset"))
        t->chat ? cag_chat_reset(t->chat) : (void)0;
    else if (!strcmp(line, "/chat")) {
        if (!t->chat && cag_chat_new(t->kb, &t->chat, &err))
            ui_error(&err);
        else
            fprintf(stderr, "turns are kept from now on; /reset forgets "
                            "them\n");
    } else
        fprintf(stderr, "/sources  what was read    /stats  figures so far\n"
                "/chat     keep turns       /reset  forget them\n"
                "/quit     end (or Ctrl-D)  \"\"\"     begin and end a block\n");
    return true;
}

static int ask(struct talk *t, const char *question)
{
    int status;

    ui_catch(true);
    status = ask_question(t->o, t->kb, t->chat, question, strlen(question));
    if (ui_caught() && t->tty) {
        ui_forget_signal();      /* it stopped the answer, not the program */
        status = UI_OK;
    }
    ui_catch(false);
    t->n_asked++;
    return status;
}

int ask_interactive(const struct ask_opts *o, cag_kb *kb)
{
    struct talk t = { .o = o, .kb = kb,
                      .tty = isatty(0) && isatty(1) };
    cag_error err = CAG_ERROR_INIT;
    int status = UI_OK;
    char *line;

    if (o->chat && cag_chat_new(kb, &t.chat, &err))
        return ui_error(&err);
    while (!ui_caught() && (line = read_line(&t, "> ")) != NULL) {
        bool go = true;

        if (!strcmp(line, "\"\"\"")) {
            free(line);
            line = read_block(&t);
            if (!line)
                break;
        }
        if (line[strspn(line, " \t\r\n")] == 0) {
            free(line);
            continue;
        }
        if (t.tty)
            add_history(line);
        if (line[0] == '/' && !strchr(line, ' ')) {
            go = command(&t, line);
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
