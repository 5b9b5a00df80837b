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
    for (int i = 0; opt_choice(s, i); i++)
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

void opt_print_help(const opt_usage *u, bool all)
{
    const opt_spec *s = u->specs;

    print_usage(u);
    if (u->summary)
        wrapped(u->summary, 0, 0);
    if (u->examples)
        ui_printf(stdout, 6, "\nExamples:\n%s", u->examples);
    printf("\nOptions:\n");
    for (; s->type != OPT_T_END && (all || s->type != OPT_T_MORE); s++)
        if (s->type != OPT_T_MORE)
            one_line(s);
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
