/*
 * opt_table.c - what every reader of an option table needs.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/opt_internal.h"

_Noreturn void opt_fail(const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ui_say_error(text);
    fprintf(stderr, "Try '%s --help'\n", ui.tool);
    exit(UI_USAGE);
}

const char *opt_choice(const opt_spec *s, int i)
{
    return s->choices ? s->choices[i] : s->choice_at ? s->choice_at(i) : NULL;
}

bool opt_has_choices(const opt_spec *s)
{
    return s->choices || s->choice_at;
}

bool opt_takes_value(const opt_spec *s)
{
    return (s->type >= OPT_T_STR && s->type <= OPT_T_LIST) ||
           s->type == OPT_T_COMPLETION;
}

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

/* Edit distance with swaps of neighbours; only for short words. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), d[3][64];

    if (n >= 60 || m >= 60)
        return INT_MAX;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            row[j] = min3(up[j] + 1, row[j - 1] + 1,
                          up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && up2[j - 2] + 1 < row[j])
                row[j] = up2[j - 2] + 1;
        }
    }
    return d[n % 3][m];
}

const char *opt_did_you_mean(const char *word, const char *const *names)
{
    const char *best = NULL, *starts = NULL;
    int best_d = INT_MAX, n_start = 0;
    size_t len = strlen(word);

    for (; *names; names++) {
        int d = distance(word, *names);
        if (d < best_d) {
            best_d = d;
            best = *names;
        }
        if (len > 0 && strncmp(word, *names, len) == 0) {
            starts = *names;
            n_start++;
        }
    }
    if (n_start == 1)
        return starts;
    return best_d <= (len < 4 ? 1 : len < 8 ? 2 : 3) ? best : NULL;
}
