/*
 * opt.c - option tables over getopt_long.
 *
 * getopt_long alone is too forgiving: it takes any unique prefix of a name
 * (so a new option can break a script), takes "--json" as the value of a
 * forgotten one, and reorders by an environment variable.  So operands are
 * collected here (the "-" mode), what was typed is compared with the full
 * name, and a value that is an option of ours is refused.
 */
#include "cmd/cli/opt.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/opt_internal.h"

static const opt_usage *usage;
static bool wants_config;
static const char *origin_of[OPT_MAX];
static char origin_text[OPT_MAX][80];
static const char *shown[OPT_MAX]; /* for values nobody gave */

static int count_specs(void)
{
    int n = 0;

    while (usage->specs[n].type != OPT_T_END)
        n++;
    return n;
}

/* --- values ---------------------------------------------------------------*/

bool opt_parse_size(const char *s, int64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double v;

    if (!(*s >= '0' && *s <= '9') || s[strspn(s, "0123456789.")] == 'x')
        return false;
    size_t n = strspn(s, "0123456789");
    if (s[n] != '.') {
        errno = 0;
        long long whole = strtoll(s, &end, 10);
        if (errno)
            return false;
        const char *u = *end ? strchr(units, *end == 'k' ? 'K' : *end) : NULL;
        int shift = u ? 10 * (int)(u - units + 1) : 0;
        end += u != NULL;
        if (u && strcmp(end, "iB") == 0)
            end += 2;
        if (*end || whole > INT64_MAX >> shift)
            return false;
        *bytes = (int64_t)whole << shift;
        return true;
    }
    v = strtod(s, &end);
    const char *u = *end ? strchr(units, *end == 'k' ? 'K' : *end) : NULL;
    if (!u || (end[1] && strcmp(end + 1, "iB") != 0))
        return false;
    for (int i = 0; i <= u - units; i++)
        v *= 1024;
    if (!(v < 9e18))
        return false;
    *bytes = (int64_t)v;
    return true;
}

/* from is "option '--threads'" or "environment CAG_THREADS" */
static int64_t whole_number(const opt_spec *s, const char *from,
                            const char *text)
{
    char *end;

    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || *text == ' ' || *text == '\t')
        opt_fail("%s: '%s' is not a whole number", from, text);
    if (errno || v < s->imin || v > s->imax)
        opt_fail("%s: %s is out of range, expected %lld..%lld", from, text,
                 (long long)s->imin, (long long)s->imax);
    return v;
}

static double real_number(const opt_spec *s, const char *from, const char *text)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || text[strspn(text, "0123456789.+-eE")])
        opt_fail("%s: '%s' is not a number", from, text);
    if (!(v >= s->dmin && v <= s->dmax))
        opt_fail("%s: %s is out of range, expected %g..%g", from, text, s->dmin,
                 s->dmax);
    return v;
}

static int choice(const opt_spec *s, const char *from, const char *text)
{
    char all[256];
    int n = 0;

    const char *names[OPT_CHOICE_MAX + 1] = { NULL };

    for (int i = 0; i < OPT_CHOICE_MAX && (names[i] = opt_choice(s, i)); i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
        n += ui_format(all + n, sizeof all - (size_t)n, "%s%s", i ? ", " : "",
                       names[i]);
    }
    const char *near = opt_did_you_mean(text, names);
    if (near)
        opt_fail("%s: unknown value '%s'; did you mean '%s'? (one of: %s)",
                 from, text, near, all);
    opt_fail("%s: unknown value '%s', expected one of: %s", from, text, all);
}

static void set(const opt_spec *s, const char *from, const char *text)
{
    int64_t v;

    switch (s->type) {
    case OPT_T_FLAG:
        *s->var.flag = true;
        break;
    case OPT_T_COUNT:
        ++*s->var.num;
        break;
    case OPT_T_STR:
        *s->var.str = text;
        break;
    case OPT_T_INT:
        *s->var.num = (int)whole_number(s, from, text);
        break;
    case OPT_T_I64:
        *s->var.i64 = whole_number(s, from, text);
        break;
    case OPT_T_DOUBLE:
        *s->var.dbl = real_number(s, from, text);
        break;
    case OPT_T_CHOICE:
        *s->var.num = choice(s, from, text);
        break;
    case OPT_T_SIZE:
        if (!opt_parse_size(text, &v))
            opt_fail("%s: '%s' is not a size (examples: 800M, 1.5G)", from,
                     text);
        if (v < s->imin || v > s->imax)
            opt_fail("%s: %s is out of range", from, text);
        *s->var.i64 = v;
        break;
    case OPT_T_LIST:
        if (s->var.list->n == OPT_LIST_MAX)
            opt_fail("%s: given more than %d times", from, OPT_LIST_MAX);
        s->var.list->item[s->var.list->n++] = text;
        break;
    default:
        break;
    }
}

/* --- getopt -------------------------------------------------------------- */

static _Noreturn void unknown_option(const char *word, int letter)
{
    const char *names[OPT_MAX + 1];
    char typed[64];
    int n = 0;

    if (strncmp(word, "--", 2) != 0)
        opt_fail("unknown option '-%c'", letter);
    for (int i = 0; usage->specs[i].type != OPT_T_END; i++)
        if (usage->specs[i].name)
            names[n++] = usage->specs[i].name;
    names[n] = NULL;
    ui_format(typed, sizeof typed, "%.*s", (int)strcspn(word + 2, "="),
              word + 2);
    const char *near = opt_did_you_mean(typed, names);
    if (near)
        opt_fail("unknown option '--%s'; did you mean '--%s'?", typed, near);
    opt_fail("unknown option '--%s'", typed);
}

static void name_of(const opt_spec *s, bool is_long, char *out, size_t size)
{
    if (is_long)
        ui_format(out, size, "option '--%s'", s->name);
    else
        ui_format(out, size, "option '-%c'", s->letter);
}

/* Is word one of our options in full?  ("-5" and "-" are values.) */
static bool is_option(const char *word)
{
    for (const opt_spec *s = usage->specs; s->type != OPT_T_END; s++) {
        if (word[0] != '-' || !s->name)
            continue;
        if (word[1] == '-' && strcmp(word + 2, s->name) == 0)
            return true;
        if (s->letter && word[1] == s->letter && !word[2])
            return true;
    }
    return false;
}

struct tables {
    struct option longs[OPT_MAX + 1];
    char shorts[2 * OPT_MAX + 4];
    int n;
};

static void make_tables(struct tables *t)
{
    char *p = t->shorts;
    int k = 0;

    memset(t, 0, sizeof *t);
    *p++ = '-'; /* operands come in their place */
    *p++ = ':'; /* a missing value is ':'       */
    t->n = count_specs();
    if (t->n > OPT_MAX)
        abort();
    for (int i = 0; i < t->n; i++) {
        const opt_spec *s = &usage->specs[i];
        if (!s->name)
            continue;
        int arg = opt_takes_value(s) ? required_argument : no_argument;
        t->longs[k++] = (struct option){ s->name, arg, NULL, 256 + i };
        if (s->letter) {
            *p++ = s->letter;
            if (arg == required_argument)
                *p++ = ':';
        }
    }
}

static int spec_of(int c)
{
    if (c >= 256)
        return c - 256;
    for (int i = 0; usage->specs[i].type != OPT_T_END; i++)
        if (usage->specs[i].letter == c)
            return i;
    return -1;
}

/* next is the word after the option, or "". */
static void one_option(int c, const char *word, const char *next)
{
    int i = spec_of(c);
    const opt_spec *s = &usage->specs[i];
    bool is_long = c >= 256;
    char from[80];

    name_of(s, is_long, from, sizeof from);
    if (is_long && strcspn(word + 2, "=") != strlen(s->name))
        opt_fail("option '%.*s' is abbreviated; write '--%s'",
                 (int)strcspn(word, "="), word, s->name);
    if (s->type == OPT_T_HELP) {
        opt_print_help(usage, !strcmp(next, "all"));
        exit(ui_close_stdout(0));
    }
    if (s->type == OPT_T_VERSION) {
        opt_print_version(usage);
        exit(ui_close_stdout(0));
    }
    if (s->type == OPT_T_COMPLETION) {
        opt_print_completion(usage, choice(s, from, optarg));
        exit(ui_close_stdout(0));
    }
    if (s->type == OPT_T_CONFIG)
        wants_config = true;
    set(s, from, optarg);
    if (is_long)
        ui_format(origin_text[i], sizeof origin_text[i], "option --%s",
                  s->name);
    else
        ui_format(origin_text[i], sizeof origin_text[i], "option -%c",
                  s->letter);
    origin_of[i] = origin_text[i];
}

static _Noreturn void bad_option(int c, const char *word)
{
    const opt_spec *s;
    char from[80];
    int i = optopt ? spec_of(optopt) : -1;

    if (i < 0)
        unknown_option(word, optopt);
    s = &usage->specs[i];
    name_of(s, optopt >= 256, from, sizeof from);
    if (c == ':')
        opt_fail("%s needs a value", from);
    opt_fail("%s takes no value", from);
}

static void from_environment(void)
{
    for (int i = 0; usage->specs[i].type != OPT_T_END; i++) {
        const opt_spec *s = &usage->specs[i];
        const char *text = s->env ? secure_getenv(s->env) : NULL;
        if (!text || !*text || origin_of[i])
            continue;
        ui_format(origin_text[i], sizeof origin_text[i], "environment %s",
                  s->env);
        set(s, origin_text[i], text);
        origin_of[i] = origin_text[i];
    }
}

/* What to type, for who typed too little: the first example. */
static _Noreturn void fail_bare(int n_operand)
{
    const char *line = usage->examples ? usage->examples : "";
    const char *remark;
    size_t n;

    line += strspn(line, " ");
    n = strcspn(line, "\n");
    remark = strstr(line, "  ");
    if (remark && remark < line + n)
        n = (size_t)(remark - line);
    opt_fail("%s%s%.*s",
             n_operand ? "too few arguments" : "no file or argument given",
             n ? ", as in: " : "", (int)n, line);
}

char **opt_parse(const opt_usage *u, int argc, char **argv, int min_operand)
{
    static struct tables t;
    int n_operand = 0, c;
    char **operand;

    ui_start(u->tool);
    usage = u;
    make_tables(&t);
    if (argc < 1)
        opt_fail("started without a name");
    /* operands move to the front of argv: never past what is being read */
    operand = argv + 1;
    optind = 1;
    opterr = 0;
    for (;;) {
        const char *word = optind < argc ? argv[optind] : "";
        int at = optind;
        c = getopt_long(argc, argv, t.shorts, t.longs, NULL);
        if (c == -1)
            break;
        if (c == 1) {
            operand[n_operand++] = optarg;
            continue;
        }
        if (c == '?' || c == ':')
            bad_option(c, word);
        /* a value in the next word that is an option of ours was forgotten */
        if (optarg && optind - at == 2 && optarg == argv[optind - 1] &&
            is_option(optarg))
            opt_fail("option '%s' needs a value, found '%s'", word, optarg);
        one_option(c, word, optind < argc ? argv[optind] : "");
    }
    while (optind < argc)
        operand[n_operand++] = argv[optind++];
    operand[n_operand] = NULL;
    from_environment();
    if (n_operand < min_operand && !wants_config)
        fail_bare(n_operand);
    return operand;
}

/* --- origins --------------------------------------------------------------*/

bool opt_wants_config(void)
{
    return wants_config;
}

/* The next entry from i on that sets var (two names may be one option), or
 * -1. */
static int index_of(const void *var, int i)
{
    for (; usage->specs[i].type != OPT_T_END; i++)
        if (usage->specs[i].name &&
            (const void *)usage->specs[i].var.flag == var)
            return i;
    return -1;
}

const char *opt_origin(const void *var)
{
    for (int i = 0; (i = index_of(var, i)) >= 0; i++)
        if (origin_of[i])
            return origin_of[i];
    return NULL;
}

void opt_set_origin(const void *var, const char *origin)
{
    int i = index_of(var, 0);

    if (i < 0)
        return;
    ui_format(origin_text[i], sizeof origin_text[i], "%s", origin);
    origin_of[i] = origin_text[i];
}

void opt_show(const void *var, const char *text)
{
    for (int i = 0; (i = index_of(var, i)) >= 0; i++)
        shown[i] = text;
}

static void print_value(const opt_spec *s)
{
    switch (s->type) {
    case OPT_T_FLAG:
        fputs(*s->var.flag ? "yes" : "no", stdout);
        break;
    case OPT_T_COUNT:
    case OPT_T_INT:
        printf("%d", *s->var.num);
        break;
    case OPT_T_STR:
        fputs(*s->var.str ? ui_clean(*s->var.str) : "-", stdout);
        break;
    case OPT_T_I64:
    case OPT_T_SIZE:
        printf("%lld", (long long)*s->var.i64);
        break;
    case OPT_T_DOUBLE:
        printf("%.15g", *s->var.dbl);
        break;
    case OPT_T_CHOICE:
        fputs(opt_choice(s, *s->var.num), stdout);
        break;
    case OPT_T_LIST:
        if (s->var.list->n == 0)
            putchar('-');
        for (int i = 0; i < s->var.list->n; i++)
            printf("%s%s", i ? ", " : "", ui_clean(s->var.list->item[i]));
        break;
    default:
        break;
    }
}

void opt_print_config(void)
{
    for (int i = 0; usage->specs[i].type != OPT_T_END; i++) {
        const opt_spec *s = &usage->specs[i];
        if (s->type < OPT_T_FLAG || s->type > OPT_T_LIST)
            continue;
        const char *origin = opt_origin(s->var.flag);
        printf("%s = ", s->name);
        if (shown[i] && !origin)
            fputs(shown[i], stdout);
        else
            print_value(s);
        printf("  (%s)\n", origin ? origin : "default");
    }
}
