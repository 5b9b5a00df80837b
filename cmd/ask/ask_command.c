/*
 * ask_command.c - see ask_talk.h.
 *
 * What a command shows is talk: it goes to standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cag/tool/text_file.h>

#include "cmd/ask/ask_talk.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/ui.h"

static bool show_sources(struct talk *t, const char *arg, int *status)
{
    const cag_kvc *k = cag_kb_get_kvc(t->kb);
    int n = cag_kvc_get_info(k)->n_source;

    (void)arg;
    (void)status;
    for (int i = 0; i < n; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, i);

        ui_printf(stderr, 17, "%8lld tokens  %s\n",
                  (long long)(s->tok_end - s->tok_begin), ui_clean(s->name));
    }
    return true;
}

static bool show_stats(struct talk *t, const char *arg, int *status)
{
    const struct ask_figures *f = &t->sum;
    int64_t n_cached = cag_kvc_get_info(cag_kb_get_kvc(t->kb))->n_tok;
    int64_t n_ctx = cag_kb_n_ctx(t->kb);
    /* without --chat every question finds the clean prefix */
    int64_t n_used = t->chat && f->n_used ? f->n_used : n_cached;

    (void)arg;
    (void)status;
    fprintf(stderr,
            "cached        %lld tokens\n"
            "conversation  %lld tokens\n"
            "room          %lld tokens of %lld\n",
            (long long)n_cached, (long long)(n_used - n_cached),
            (long long)(n_ctx - n_used), (long long)n_ctx);
    fprintf(stderr,
            "questions     %lld\n"
            "generated     %lld tokens, %.1f a second\n",
            (long long)f->n_asked, (long long)f->n_generated,
            f->seconds > 0 ? (double)f->n_generated / f->seconds : 0.0);
    return true;
}

/* Of an answer that was given without --evidence it is found now. */
static bool show_evidence(struct talk *t, const char *arg, int *status)
{
    struct ask_figures *f = &t->sum;
    cag_error err = CAG_ERROR_INIT;
    cag_ask_params p = t->o->params;
    cag_text question = { f->question, 0, 0 }, before = { f->before, 0, 0 };

    (void)arg;
    if (!f->question) {
        ui_note("nothing was answered yet");
        return true;
    }
    question.size = strlen(f->question);
    before.size = f->before ? strlen(f->before) : 0;
    p.require = CAG_SUPPORT_NONE; /* it was given */
    if (!f->last.checked &&
        cag_answer_check(t->kb, &question, f->before ? &before : NULL, &p,
                         &f->last, &err))
        *status = ui_error(&err);
    else
        ask_print_evidence(t->kb, f->last.checked);
    return true;
}

static bool start_chat(struct talk *t, const char *arg, int *status)
{
    cag_error err = CAG_ERROR_INIT;

    (void)arg;
    if (!t->chat && cag_chat_new(t->kb, &t->chat, &err))
        *status = ui_error(&err);
    else
        ui_note("turns are kept from now on; /reset forgets them");
    return true;
}

static bool reset_chat(struct talk *t, const char *arg, int *status)
{
    (void)arg;
    (void)status;
    if (t->chat)
        cag_chat_reset(t->chat);
    t->sum.n_used = 0;
    ask_figures_forget(&t->sum);
    return true;
}

/* Never in the place of another kind of file. */
static int save_text(const char *path, const char *text)
{
    cag_error err = CAG_ERROR_INIT;
    char first = '[';
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat s;
    bool other = fd < 0 && errno != ENOENT;

    if (fd >= 0) {
        other = fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) ||
                read(fd, &first, 1) < 0 || first != '[';
        close(fd);
    }
    if (other)
        return ui_fail(CAG_E_CREATE, path,
                       "this file holds no conversation: not replaced");
    return cag_write_text(path, text, 0600, &err) ? ui_error(&err) : UI_OK;
}

static bool save_chat(struct talk *t, const char *arg, int *status)
{
    const char *path = arg ? arg : t->o->from;
    cag_error err = CAG_ERROR_INIT;
    char *text = NULL;

    if (!t->chat)
        *status = ui_fail(CAG_E_USAGE, NULL,
                          "no turns are kept: /chat keeps them from then on");
    else if (!path)
        *status = ui_fail(CAG_E_USAGE, NULL, "a file is missing: /save FILE");
    else if (cag_check_text_output(path, &err) ||
             cag_check_beside(cag_kb_get_kvc(t->kb), path, &err))
        *status = ui_error(&err);
    else if (!(text = cag_chat_json(t->chat)))
        *status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    else if (!(*status = save_text(path, text)))
        ui_note("saved; cag-ask --continue %s goes on with it", path);
    cag_free(text);
    return true;
}

static bool quit(struct talk *t, const char *arg, int *status)
{
    (void)t;
    (void)arg;
    (void)status;
    return false;
}

static bool show_help(struct talk *t, const char *arg, int *status);

static const struct command {
    const char *name, *arg, *help;
    bool (*run)(struct talk *t, const char *arg, int *status);
} commands[] = {
    { "/sources", NULL, "what was read", show_sources },
    { "/stats", NULL, "figures, and room left", show_stats },
    { "/evidence", NULL, "what the last answer stands on", show_evidence },
    { "/chat", NULL, "keep turns from now on", start_chat },
    { "/reset", NULL, "forget the turns", reset_chat },
    { "/save", "FILE", "for --continue FILE", save_chat },
    { "/help", NULL, "this list", show_help },
    { "/quit", NULL, "end (or Ctrl-D)", quit },
    { "/exit", NULL, NULL, quit },
};
enum { N_COMMAND = sizeof commands / sizeof *commands };

static bool show_help(struct talk *t, const char *arg, int *status)
{
    (void)t;
    (void)arg;
    (void)status;
    for (int i = 0; i < N_COMMAND; i++)
        if (commands[i].help)
            fprintf(stderr, "%s%s%-*s%s\n", commands[i].name,
                    commands[i].arg ? " " : "",
                    13 - (int)strlen(commands[i].name) -
                        (commands[i].arg ? 1 : 0),
                    commands[i].arg ? commands[i].arg : "", commands[i].help);
    fputs("\"\"\"          begin and end a block of lines\n"
          "Ctrl-C       stop an answer\n",
          stderr);
    return true;
}

bool talk_is_command(const char *line)
{
    size_t n = strspn(line + 1, "abcdefghijklmnopqrstuvwxyz?");

    return line[0] == '/' && n && strchr(" \t", line[1 + n]) != NULL &&
           !strchr(line, '\n');
}

static void unknown_command(const char *name, int *status)
{
    const char *names[N_COMMAND + 1] = { NULL }, *near;
    char list[200] = "";
    size_t n = 0;

    for (int i = 0; i < N_COMMAND; i++)
        names[i] = commands[i].name;
    near = opt_did_you_mean(name, names);
    for (int i = 0; i < N_COMMAND; i++)
        if (commands[i].help)
            n += (size_t)snprintf(list + n, sizeof list - n, " %s",
                                  commands[i].name);
    *status =
        near ? ui_fail(CAG_E_USAGE, NULL,
                       "unknown command '%s'; did you mean '%s'? There are:%s",
                       name, near, list)
             : ui_fail(CAG_E_USAGE, NULL, "unknown command '%s'; there are:%s",
                       name, list);
}

bool talk_command(struct talk *t, char *line, int *status)
{
    char *arg = line + strcspn(line, " \t");
    size_t n;

    if (*arg)
        *arg++ = 0;
    arg += strspn(arg, " \t");
    for (n = strlen(arg); n && strchr(" \t", arg[n - 1]); n--)
        arg[n - 1] = 0;
    for (int i = 0; i < N_COMMAND; i++) {
        const struct command *c = &commands[i];

        if (strcmp(line, c->name) &&
            (c->run != show_help || strcmp(line, "/?")))
            continue;
        if (!*arg || c->arg)
            return c->run(t, *arg ? arg : NULL, status);
        *status =
            ui_fail(CAG_E_USAGE, NULL, "%s takes no word after it", c->name);
        return true;
    }
    unknown_command(line, status);
    return true;
}
