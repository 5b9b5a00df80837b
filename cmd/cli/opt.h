/*
 * opt.h - one table per program: parsing, --help, -V, --print-config, and
 * completions for three shells.
 *
 *   static struct { bool json; const char *model; int n_thread; } o;
 *   static const opt_spec specs[] = {
 *       OPT_FLAG(0, "json", &o.json, "print one JSON object a line"),
 *       OPT_STR('m', "model", &o.model, "M", "CAG_MODEL", "path or hub id"),
 *       OPT_MORE,              // the rest is shown by --help all
 *       OPT_INT('t', "threads", &o.n_thread, 1, 512, "N", "CAG_THREADS",
 *               "CPU threads"),
 *       OPT_COMMON,            // -q -v --progress ... -h -V
 *       OPT_END
 *   };
 *   static const opt_usage usage = { "cag-ask", "[options] FILE.kvc ...",
 *                                    "answer questions from a cache",
 *                                    examples, specs, "*.kvc", NULL };
 *
 * The variables' values before opt_parse are the defaults.  Options stand
 * anywhere among the operands; "--" ends them; a name is never abbreviated.
 * Anything wrong ends the program with 64, one line, and "Try ...".
 */
#ifndef CMD_CLI_OPT_H
#define CMD_CLI_OPT_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/cli/ui.h"

enum opt_type {
    OPT_T_END,
    OPT_T_MORE,
    OPT_T_FLAG,
    OPT_T_COUNT,
    OPT_T_STR,
    OPT_T_INT,
    OPT_T_I64,
    OPT_T_DOUBLE,
    OPT_T_SIZE,
    OPT_T_CHOICE,
    OPT_T_LIST,
    OPT_T_HELP,
    OPT_T_VERSION,
    OPT_T_CONFIG,
    OPT_T_COMPLETION
};

enum { OPT_LIST_MAX = 64 };
struct opt_list {
    const char *item[OPT_LIST_MAX];
    int n;
};

typedef struct opt_spec {
    enum opt_type type;
    char letter;      /* 0 for none                         */
    const char *name; /* without "--"                       */
    union {
        bool *flag;            /* FLAG                               */
        int *num;              /* COUNT, INT, CHOICE (index)         */
        const char **str;      /* STR                                */
        int64_t *i64;          /* I64, SIZE (bytes)                  */
        double *dbl;           /* DOUBLE                             */
        struct opt_list *list; /* LIST: every use adds one           */
    } var;
    const char *arg; /* its value's name in --help; NULL: the choices */
    const char *env; /* used when not given; or NULL       */
    const char *help;
    const char *const *choices;      /* CHOICE: names, NULL at the end     */
    const char *(*choice_at)(int i); /* or the library's list of them    */
    int64_t imin, imax;              /* INT, I64, SIZE                     */
    double dmin, dmax;               /* DOUBLE                             */
} opt_spec;

#define OPT_FLAG(c, n, v, h)                                                 \
    {                                                                        \
        .type = OPT_T_FLAG, .letter = c, .name = n, .var.flag = v, .help = h \
    }
#define OPT_COUNT(c, n, v, h)                                                \
    {                                                                        \
        .type = OPT_T_COUNT, .letter = c, .name = n, .var.num = v, .help = h \
    }
#define OPT_STR(c, n, v, a, e, h)                                          \
    {                                                                      \
        .type = OPT_T_STR, .letter = c, .name = n, .var.str = v, .arg = a, \
        .env = e, .help = h                                                \
    }
#define OPT_INT(c, n, v, lo, hi, a, e, h)                                  \
    {                                                                      \
        .type = OPT_T_INT, .letter = c, .name = n, .var.num = v, .arg = a, \
        .env = e, .help = h, .imin = lo, .imax = hi                        \
    }
#define OPT_I64(c, n, v, lo, hi, a, e, h)                                  \
    {                                                                      \
        .type = OPT_T_I64, .letter = c, .name = n, .var.i64 = v, .arg = a, \
        .env = e, .help = h, .imin = lo, .imax = hi                        \
    }
#define OPT_DOUBLE(c, n, v, lo, hi, a, e, h)                                  \
    {                                                                         \
        .type = OPT_T_DOUBLE, .letter = c, .name = n, .var.dbl = v, .arg = a, \
        .env = e, .help = h, .dmin = lo, .dmax = hi                           \
    }
/* bytes, with K, M, G or T (powers of 1024) */
#define OPT_SIZE(c, n, v, lo, hi, a, e, h)                                  \
    {                                                                       \
        .type = OPT_T_SIZE, .letter = c, .name = n, .var.i64 = v, .arg = a, \
        .env = e, .help = h, .imin = lo, .imax = hi                         \
    }
/* --help shows the names in the place of arg */
#define OPT_CHOICE(c, n, v, list, e, h)                             \
    {                                                               \
        .type = OPT_T_CHOICE, .letter = c, .name = n, .var.num = v, \
        .choices = list, .env = e, .help = h                        \
    }
/* the same, with a list of the library's: at(i), NULL at the end */
#define OPT_CHOICE_OF(c, n, v, at, e, h)                            \
    {                                                               \
        .type = OPT_T_CHOICE, .letter = c, .name = n, .var.num = v, \
        .choice_at = at, .env = e, .help = h                        \
    }
#define OPT_LIST(c, n, v, a, h)                                              \
    {                                                                        \
        .type = OPT_T_LIST, .letter = c, .name = n, .var.list = v, .arg = a, \
        .help = h                                                            \
    }
#define OPT_MORE           \
    {                      \
        .type = OPT_T_MORE \
    }
#define OPT_END           \
    {                     \
        .type = OPT_T_END \
    }
#define OPT_COMMON                                                      \
    OPT_FLAG('q', "quiet", &ui.quiet, "say nothing but errors"),        \
        OPT_COUNT('v', "verbose", &ui.verbose, "say more; repeatable"), \
        OPT_CHOICE(0, "progress", &ui.progress, ui_when, NULL,          \
                   "progress on standard error"),                       \
        OPT_CHOICE(0, "color", &ui.color, ui_when, NULL,                \
                   "colour on messages"),                               \
        { .type = OPT_T_CONFIG,                                         \
          .name = "print-config",                                       \
          .help = "print every value and its origin" },                 \
        { .type = OPT_T_COMPLETION,                                     \
          .name = "completion",                                         \
          .choices = opt_shells,                                        \
          .help = "print a completion script" },                        \
        { .type = OPT_T_HELP,                                           \
          .letter = 'h',                                                \
          .name = "help",                                               \
          .help = "print this text; '--help all': every option" },      \
    {                                                                   \
        .type = OPT_T_VERSION, .letter = 'V', .name = "version",        \
        .help = "print what this program is made of"                    \
    }

typedef struct opt_usage {
    const char *tool;      /* "cag-ask"                                 */
    const char *synopsis;  /* after the name; more forms on more lines  */
    const char *summary;   /* one line: what it does                    */
    const char *examples;  /* lines, indented as they shall appear      */
    const opt_spec *specs; /* OPT_END at the end; at most OPT_MAX       */
    const char *operand;   /* "*.kvc" if those are usual; NULL: any file */
    const struct opt_usage *const *commands; /* of a tool with commands and an
                                 operand, NULL at the end; or NULL         */
} opt_usage;
enum { OPT_MAX = 96, OPT_CHOICE_MAX = 15 };
extern const char *const opt_shells[]; /* of --completion */

/*
 * Start the user interface (ui_start) and parse.  Returns the operands,
 * NULL-terminated, inside argv; fewer than min_operand of them is wrong
 * usage.  Does not return for -h, -V, --completion and wrong usage.  With
 * --print-config opt_wants_config() is true and min_operand is not asked for:
 * the program adds what its manifest sets, then calls opt_print_config and
 * ends.
 */
char **opt_parse(const opt_usage *u, int argc, char **argv, int min_operand);
bool opt_wants_config(void);
/* What git called the source this was built from. */
const char *opt_git_id(void);

/* Where a value came from: NULL for the default, else "option --model",
 * "environment CAG_MODEL", or what opt_set_origin said ("manifest kb.yaml").
 * var is the address given in the table. */
const char *opt_origin(const void *var);
void opt_set_origin(const void *var, const char *origin);
/* What --print-config says of a value that nobody gave: "model", say, for a
 * number that the model decides. */
void opt_show(const void *var, const char *text);
/* "name = value  (origin)", one line each, on standard output */
void opt_print_config(void);

/* Wrong usage: "cag-ask: <message>", "Try 'cag-ask --help'", exit 64. */
_Noreturn void opt_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* The one of names (NULL at the end) that word was probably meant to be;
 * NULL if none is near. */
const char *opt_did_you_mean(const char *word, const char *const *names);

/* "512M" -> bytes; false unless s is a whole number of bytes >= 0. */
bool opt_parse_size(const char *s, int64_t *bytes);

#endif
