/*
 * opt_help.c - --help and --version, from the same table.
 *
 * --help fits a screen of 24 lines: examples come first, then the options in
 * use every day with a line each.  Those after OPT_MORE are explained by
 * --help all.
 */
#include <cag.h>
#include <cag/tool/names.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/opt_internal.h"
#include "cmd/cli/ui_wrap.h"

/* Where the terminal is narrower than NARROW, the explanation of an option
 * stands below it. */
enum { COLUMNS = 79, HELP_COLUMN = 26, NARROW = 60, NARROW_COLUMN = 8 };

static int columns(void)
{
    int n = isatty(1) ? ui_columns(1) : COLUMNS;

    return n < COLUMNS ? n : COLUMNS;
}

/* "-m, --model M", "    --progress auto|always|never" */
static void left_side(const opt_spec *s, char *out, size_t size)
{
    int n;

    if (s->letter)
        n = ui_format(out, size, "-%c, --%s", s->letter, s->name);
    else
        n = ui_format(out, size, "    --%s", s->name);
    if (s->arg)
        ui_format(out + n, size - (size_t)n, " %s", s->arg);
    for (int i = 0; !s->arg && opt_choice(s, i); i++)
        n += ui_format(out + n, size - (size_t)n, "%c%s", i ? '|' : ' ',
                       opt_choice(s, i));
}

/* text in words from column at on, which is where the cursor is */
static void wrapped(const char *text, int at, int indent)
{
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (at > indent && at + 1 + n > columns()) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            putchar(' ');
            at++;
        }
        printf("%.*s", n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void one_line(const opt_spec *s)
{
    int n, column = columns() < NARROW ? NARROW_COLUMN : HELP_COLUMN;
    char left[128], right[256];

    left_side(s, left, sizeof left);
    n = (int)strlen(left) + 2;
    ui_printf(stdout, 6, "  %s%s", left, n + 2 > column ? "\n" : "");
    if (n + 2 > column)
        n = 0;
    printf("%*s", column - n, "");
    if (s->env)
        ui_format(right, sizeof right, "%s [%s]", s->help, s->env);
    else
        ui_format(right, sizeof right, "%s", s->help);
    wrapped(right, column, column);
}

static void print_usage(const opt_usage *u)
{
    const char *line = u->synopsis;
    bool first = true;

    for (; *line; first = false) {
        int n = (int)strcspn(line, "\n");
        ui_printf(stdout, 10, "%s %s %.*s\n", first ? "usage:" : "      ",
                  u->tool, n, line);
        line += n;
        line += *line == '\n';
    }
}

/* The name of command i, without the program's. */
static const char *command_name(const opt_usage *u, int i)
{
    return u->commands[i]->tool + strlen(u->tool) + 1;
}

static void print_commands(const opt_usage *u)
{
    printf("\nCommands:\n");
    for (int i = 0; u->commands[i]; i++)
        ui_printf(stdout, 10, "  %-7s %s\n", command_name(u, i),
                  u->commands[i]->summary);
}

/* The tables of the commands, once each, but for what all programs have. */
static void print_command_options(const opt_usage *u)
{
    struct ui_wrap w;

    for (int i = 0; u->commands[i]; i++) {
        const opt_spec *s = u->commands[i]->specs;

        if (i && s == u->commands[i - 1]->specs)
            continue;
        ui_wrap_lines(&w, stdout, 4);
        ui_wrap_printf(&w, "\nOptions of ");
        for (int k = i; u->commands[k] && u->commands[k]->specs == s; k++)
            ui_wrap_printf(&w, "%s%s", k > i ? ", " : "", command_name(u, k));
        ui_wrap_printf(&w, ":\n");
        ui_wrap_end(&w);
        for (; s->type != OPT_T_END && strcmp(s->name ? s->name : "", "quiet");
             s++)
            if (s->type != OPT_T_MORE)
                one_line(s);
    }
}

void opt_print_help(const opt_usage *u, bool all)
{
    const opt_spec *s = u->specs;

    print_usage(u);
    if (u->summary)
        wrapped(u->summary, 0, 0);
    if (u->examples)
        ui_printf(stdout, 6, "\nExamples:\n%s", u->examples);
    if (u->commands && !all) {
        print_commands(u);
        ui_printf(stdout, 2, "Options: %s COMMAND --help; all: %s --help all\n",
                  u->tool, u->tool);
        return;
    }
    printf("\nOptions:\n");
    for (; s->type != OPT_T_END && (all || s->type != OPT_T_MORE); s++)
        if (s->type != OPT_T_MORE)
            one_line(s);
    if (u->commands)
        print_command_options(u);
    /* a command stands in its program's page */
    if (s->type == OPT_T_MORE)
        ui_printf(stdout, 2, "All options: %s --help all, or %.*s(1)\n",
                  u->tool, (int)strcspn(u->tool, " "), u->tool);
}

const char *opt_git_id(void)
{
    return CAG_GIT_ID;
}

void opt_print_version(const opt_usage *u)
{
    const char *name;
    bool usable, chosen;

    printf("%s %s\n", u->tool, CAG_VERSION);
    printf("git %s\n", CAG_GIT_ID);
    printf("kvc reads and writes version %d.%d\n", CAG_KVC_MAJOR,
           CAG_KVC_MINOR);
    for (int i = 0; (name = cag_kernels_at(i, &usable, &chosen)); i++)
        printf("kernels %s%s\n", name,
               chosen   ? " (used here)"
               : usable ? ""
                        : " (not on this CPU)");
    for (int i = 0; (name = cag_backend_at(i)); i++)
        printf("backend %s\n", name);
}
