/*
 * cag-bench.c - measure a cache, its model and this machine.
 *
 *   run KB.kvc       everything, on the user's own cache; also without "run"
 *   build ttft decode batch load
 *                    one group of figures of it
 *   show FILE.json   a stored report: print, draw or compare it again
 *   eval KB.kvc      how right its answers are, and their evidence
 *   probe            evaluate given token ids
 *
 * The measuring itself is libcore's (cag/tool/bench.h); here are options, the
 * clock on a cag-ask process, and output.
 */
#include <cag.h>
#include <cag/tool/bench.h>
#include <cag/tool/text_file.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/bench/bench_cmd.h"
#include "cmd/bench/bench_words.h"
#include "cmd/cli/engine_opts.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

enum { MAX_LIST = 32, MAX_QUESTION = 4096 };

static struct {
    const char *model, *questions, *context, *batch, *tmp_dir;
    const char *export_json, *compare, *svg;
    struct engine_cli engine;
    int repeat, warmup, n_gen, format;
    double threshold;
} o = { .batch = "4,16",
        .repeat = 5,
        .warmup = 1,
        .n_gen = 32,
        .threshold = 10,
        .engine.precision = CAG_PRECISION_AUTO };

#define OUTPUT_SPECS                                                       \
    OPT_CHOICE('o', "output", &o.format, bench_formats, NULL,              \
               "how figures are printed"),                                 \
        OPT_STR(0, "export-json", &o.export_json, "FILE", NULL,            \
                "also write the report to FILE"),                          \
        OPT_STR(0, "compare", &o.compare, "FILE", NULL,                    \
                "compare with an earlier report; exit 1 on a regression"), \
        OPT_DOUBLE(0, "threshold", &o.threshold, 0, 1e6, "PCT", NULL,      \
                   "per cent worse that is a regression (default 10)"),    \
        OPT_STR(0, "svg", &o.svg, "FILE", NULL,                            \
                "draw the figures over tokens")

static const opt_spec run_specs[] = {
    OPT_STR(0, "questions", &o.questions, "FILE", NULL,
            "one question a line; '-' is stdin"),
    OPT_INT('r', "repeat", &o.repeat, 1, 1000, "N", NULL,
            "measurements of each figure (default 5)"),
    OPT_STR(0, "context", &o.context, "LIST", NULL,
            "sweep: knowledge of so many tokens, made of the cache's text"),
    OPT_STR(0, "batch", &o.batch, "LIST", NULL,
            "questions answered at once (default 4,16)"),
    OUTPUT_SPECS,
    OPT_MORE,
    OPT_STR('m', "model", &o.model, "M", NULL,
            "the cache's model, if it moved (or CAG_MODEL)"),
    OPT_INT(0, "warmup", &o.warmup, 0, 1000, "N", NULL,
            "runs before those that count (default 1)"),
    OPT_INT('n', "max-tokens", &o.n_gen, 1, 100000, "N", NULL,
            "generated tokens (default 32)"),
    OPT_ENGINE(&o.engine, engine_precision_auto),
    OPT_STR(0, "tmp-dir", &o.tmp_dir, "DIR", "TMPDIR",
            "where caches that are only measured are made"),
    OPT_COMMON,
    OPT_END
};

static const opt_spec show_specs[] = { OUTPUT_SPECS, OPT_MORE, OPT_COMMON,
                                       OPT_END };

static const char run_examples[] =
    "  cag-bench kb.kvc\n"
    "  cag-bench run --questions questions.txt -o json kb.kvc\n"
    "  cag-bench ttft --context 512,2048 --svg sweep.svg kb.kvc\n";
#define RUN_USAGE(name, summary)                                        \
    {                                                                   \
        "cag-bench " name, "[options] FILE.kvc", summary, run_examples, \
            run_specs, "*.kvc", NULL                                    \
    }

static const opt_usage run_usage[] = {
    RUN_USAGE("run", "measure everything about a cache"),
    RUN_USAGE("build", "measure building a cache"),
    RUN_USAGE("ttft", "measure cag-ask from its start to its first byte"),
    RUN_USAGE("decode", "measure generating tokens"),
    RUN_USAGE("batch", "measure many questions at once"),
    RUN_USAGE("load", "measure opening and checking a cache"),
};
static const unsigned run_what[] = { CAG_BENCH_ALL,   CAG_BENCH_BUILD,
                                     CAG_BENCH_TTFT,  CAG_BENCH_DECODE,
                                     CAG_BENCH_BATCH, CAG_BENCH_LOAD };
enum { N_RUN = sizeof run_what / sizeof run_what[0] };

static const char *const names[] = { "run",  "build", "ttft", "decode", "batch",
                                     "load", "show",  "eval", "probe",  NULL };

static const opt_usage show_usage = {
    "cag-bench show",
    "[options] FILE.json",
    "print, draw or compare a stored report",
    "  cag-bench show new.json --compare old.json --threshold 5\n"
    "  cag-bench show -o csv new.json\n",
    show_specs,
    "*.json",
    NULL
};

/* ---------------------------------------------------------------- options */

/* "512,2048" -> numbers in [1, max] */
static int parse_list(const char *s, const char *option, long max,
                      int64_t out[MAX_LIST])
{
    int n = 0;

    while (s && *s != '\0') {
        char *end;
        errno = 0;
        long v = strtol(s, &end, 10);
        if (end == s || errno != 0 || v < 1 || v > max || *s == '+' ||
            *s == ' ' || (*end != ',' && *end != '\0') ||
            (*end == ',' && end[1] == '\0'))
            opt_fail("--%s is not a list of numbers from 1 to %ld: '%s'",
                     option, max, ui_clean(s));
        if (n == MAX_LIST)
            opt_fail("--%s takes %d numbers at most", option, MAX_LIST);
        out[n++] = v;
        s = *end == ',' ? end + 1 : end;
    }
    return n;
}

static const char default_question[] =
    "What is the most important thing that the text says?";

/* Lines of text that are not blank, in place. */
static int split_lines(char *text, const char *line[MAX_QUESTION])
{
    int n = 0;

    for (char *s = text; s && n < MAX_QUESTION;) {
        char *end = strchr(s, '\n');
        if (end)
            *end = '\0';
        size_t len = strlen(s);
        if (len > 0 && s[len - 1] == '\r')
            s[len - 1] = '\0';
        if (s[strspn(s, " \t")] != '\0')
            line[n++] = s;
        s = end ? end + 1 : NULL;
    }
    return n;
}

/* ----------------------------------------------------------------- output */

static int write_to(const char *path, const cag_bench_report *r, bool svg)
{
    bool to_stdout = strcmp(path, "-") == 0, ok = true;
    cag_error err = CAG_ERROR_INIT;
    FILE *f = to_stdout ? stdout : bench_create(path, &err);

    if (!f)
        return ui_error(&err);
    if (svg && !bench_print_svg(r, f))
        ui_warn("%s: nothing to draw: no figure has a number of tokens",
                ui_clean(path));
    if (!svg)
        ok = bench_print(r, BENCH_JSON, f);
    if (to_stdout)
        return ok ? UI_OK : UI_NOMEM;
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed)
        return ui_fail(CAG_E_IO, path, "cannot write: %s", strerror(errno));
    return ok ? UI_OK : UI_NOMEM;
}

static void print_change(const cag_bench_change *c)
{
    double high =
        c->was->median > c->is->median ? c->was->median : c->is->median;
    struct bench_unit u = bench_unit(c->is->unit, high);
    char was[32], is[32], where[96];
    int n = 0;

    where[0] = '\0';
    if (c->is->context >= 0)
        n = ui_format(where, sizeof where, " at %lld tokens",
                      (long long)c->is->context);
    if (c->is->batch > 0)
        n += ui_format(where + n, sizeof where - (size_t)n, ", batch %d",
                       c->is->batch);
    if (c->is->state[0] != '\0')
        ui_format(where + n, sizeof where - (size_t)n, ", %s", c->is->state);
    ui_note("%s%s%s: %s -> %s %s, %.1f %% %s",
            c->regression ? "REGRESSION " : "", c->is->name, where,
            bench_digits(was, c->was->median / u.by),
            bench_digits(is, c->is->median / u.by), u.name,
            c->percent < 0 ? -c->percent : c->percent,
            c->percent > 0 ? "worse" : "better");
}

/* Less than a tenth of a per cent is no change that a line could show. */
static bool is_equal(const cag_bench_change *c)
{
    return c->percent > -0.05 && c->percent < 0.05;
}

static cag_status read_report(const char *path, cag_bench_report *r,
                              cag_error *err)
{
    char *text;
    size_t size;
    cag_status st = cag_read_file(path, &text, &size, err);

    if (st)
        return st;
    st = cag_bench_from_json(text, size, path, r, err);
    cag_free(text);
    return st;
}

/* UI_NO when something got worse by more than the threshold. */
static int compare(const cag_bench_report *is)
{
    cag_bench_report was = CAG_BENCH_REPORT_INIT;
    cag_bench_change *c = NULL;
    cag_error err = CAG_ERROR_INIT;
    char differs[256];
    int n = 0, n_worse = 0, n_equal = 0;
    cag_status st = read_report(o.compare, &was, &err);

    if (!st)
        st = cag_bench_compare(&was, is, o.threshold, &c, &n, differs, &err);
    if (st) {
        cag_bench_report_release(&was);
        return ui_error(&err);
    }
    if (differs[0] != '\0')
        ui_warn("the two reports differ in: %s", differs);
    for (int i = 0; i < n; i++) {
        n_worse += c[i].regression;
        n_equal += is_equal(&c[i]);
        if (!is_equal(&c[i]))
            print_change(&c[i]);
    }
    if (n == 0)
        ui_warn("%s holds no figure that was measured now",
                ui_clean(o.compare));
    else
        ui_note("%d of %d figures are more than %g %% worse, %d are equal",
                n_worse, n, o.threshold, n_equal);
    cag_free(c);
    cag_bench_report_release(&was);
    return n == 0 ? UI_DATA : n_worse > 0 ? UI_NO : UI_OK;
}

/* What is written must not be what is read; operand is a cache or a report. */
static int check_output(const char *path, const char *operand)
{
    const char *const in[] = { operand, o.questions, o.compare };
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    cag_status st;

    if (!path || !strcmp(path, "-"))
        return UI_OK;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (in[i] && ui_same_file(in[i], path))
            return ui_fail(CAG_E_USAGE, path,
                           "this file is read (%s); write elsewhere", in[i]);
    st = cag_check_text_output(path, &err);
    if (!st && !cag_kvc_open(operand, &k, NULL))
        st = cag_check_beside(k, path, &err);
    cag_kvc_close(k);
    return st ? ui_error(&err) : UI_OK;
}

static int check_outputs(const char *operand)
{
    int status = check_output(o.export_json, operand);

    return status ? status : check_output(o.svg, operand);
}

static int give(const cag_bench_report *r)
{
    bool drawn_out = o.svg && strcmp(o.svg, "-") == 0;
    bool json_out = o.export_json && strcmp(o.export_json, "-") == 0;
    int status = UI_OK;

    if (!drawn_out && !json_out && !bench_print(r, o.format, stdout))
        status = UI_NOMEM;
    if (status == UI_OK && o.export_json)
        status = write_to(o.export_json, r, false);
    if (status == UI_OK && o.svg)
        status = write_to(o.svg, r, true);
    if (status == UI_OK && o.compare)
        status = compare(r);
    return status;
}

/* --------------------------------------------------------------- commands */

/* The options as the library takes them; what they point to lives as long as
 * the program. */
static void fill(cag_bench_opts *b, unsigned what, const char *kvc)
{
    static int64_t context[MAX_LIST], batch[MAX_LIST];
    static int batch_n[MAX_LIST];

    cag_bench_opts_init(b);
    b->n_context = parse_list(o.context, "context", 1 << 24, context);
    b->n_batch = parse_list(o.batch, "batch", 1024, batch);
    for (int i = 0; i < b->n_batch; i++)
        batch_n[i] = (int)batch[i];
    b->kvc = kvc;
    b->model = o.model;
    b->what = what;
    b->context = context;
    b->batch = batch_n;
    b->repeat = o.repeat;
    b->warmup = o.warmup;
    b->n_gen = o.n_gen;
    b->tmp_dir = o.tmp_dir;
    engine_opts_fill(&o.engine, &b->engine);
    b->places = *places_get();
    b->hooks = places_hooks();
}

/* The questions of --questions, or the one of ours.  *text is heap. */
static int fill_questions(cag_bench_opts *b, char **text)
{
    static const char *question[MAX_QUESTION] = { default_question };
    cag_error err = CAG_ERROR_INIT;
    const char *all;

    b->question = question;
    b->n_question = 1;
    if (!o.questions)
        return UI_OK;
    if (cag_read_text(o.questions, &all, &err))
        return ui_error(&err);
    *text = strdup(all);
    cag_free((void *)(uintptr_t)all);
    if (!*text)
        return ui_fail(CAG_E_NOMEM, "", "out of memory (questions)");
    b->n_question = split_lines(*text, question);
    return b->n_question
               ? UI_OK
               : ui_fail(CAG_E_FORMAT, o.questions, "no question in this file");
}

static int measure(unsigned what, const char *kvc)
{
    struct bench_ask ask = { .engine = &o.engine, .n_gen = o.n_gen };
    cag_bench_report r = CAG_BENCH_REPORT_INIT;
    cag_error err = CAG_ERROR_INIT;
    char *text = NULL, *found = NULL;
    cag_bench_opts b;
    cag_status st;
    int status;

    status = check_outputs(kvc);
    if (status)
        return status;
    fill(&b, what, kvc);
    if (what & CAG_BENCH_TTFT) {
        ask.ask = found = bench_find_ask();
        if (!found)
            return ui_fail(CAG_E_MISSING, "cag-ask",
                           "not found beside cag-bench; ttft starts it");
        b.process = bench_ask_process;
        b.process_ctx = &ask;
    }
    status = fill_questions(&b, &text);
    if (status)
        goto out;
    st = cag_bench_set(&r, "tool", "cag " CAG_VERSION, &err);
    if (!st) {
        ui_catch(true);
        st = cag_bench_run(&b, &r, &err);
        ui_catch(false);
        ui_progress_end();
    }
    if (!st)
        st = cag_bench_set(&r, "git", opt_git_id(), &err);
    status = st ? ui_error(&err) : give(&r);
out:
    cag_bench_report_release(&r);
    free(text);
    free(found);
    return status;
}

static _Noreturn void unknown_command(const char *word)
{
    const char *near = opt_did_you_mean(word, names);
    char list[128] = "";
    size_t n = 0;

    if (near)
        opt_fail("unknown command '%s'; did you mean '%s'?", ui_clean(word),
                 near);
    for (int i = 0; names[i]; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              names[i]);
    opt_fail("'%s' is neither a cache nor a command; there are %s",
             ui_clean(word), list);
}

static int run(int which, int argc, char **argv)
{
    char **rest = opt_parse(&run_usage[which], argc, argv, 1);

    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    for (int i = 0; rest[1] && names[i]; i++)
        if (strcmp(rest[0], names[i]) == 0)
            opt_fail("the command comes first: cag-bench %s ...", names[i]);
    if (rest[1] && access(rest[0], F_OK) != 0)
        unknown_command(rest[0]);
    if (rest[1])
        opt_fail("one cache at a time: '%s'", ui_clean(rest[1]));
    return ui_close_stdout(measure(run_what[which], rest[0]));
}

static int show(int argc, char **argv)
{
    cag_bench_report r = CAG_BENCH_REPORT_INIT;
    cag_error err = CAG_ERROR_INIT;
    char **rest = opt_parse(&show_usage, argc, argv, 1);
    int status;

    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    if (rest[1])
        opt_fail("one report at a time: '%s'", ui_clean(rest[1]));
    if (read_report(rest[0], &r, &err) != CAG_OK)
        status = ui_error(&err);
    else if ((status = check_outputs(rest[0])) == UI_OK)
        status = give(&r);
    cag_bench_report_release(&r);
    return ui_close_stdout(status);
}

/* --------------------------------------------------------------- dispatch */

static const opt_spec specs[] = { OPT_COMMON, OPT_END };
static const opt_usage *const usages[] = {
    &run_usage[0],      &run_usage[1], &run_usage[2], &run_usage[3],
    &run_usage[4],      &run_usage[5], &show_usage,   &bench_eval_usage,
    &bench_probe_usage, NULL
};
static const opt_usage usage = {
    "cag-bench",
    "[COMMAND] [options] FILE\nCOMMAND --help",
    "measure a cache, its model and this machine; commands: run, build, ttft, "
    "decode, batch, load, show, eval, probe",
    "  cag-bench kb.kvc\n"
    "  cag-bench run --context 512,2048,8192 --svg sweep.svg kb.kvc\n"
    "  cag-bench show new.json --compare old.json\n"
    "  cag-bench probe -m MODEL --ids ids.json --json\n",
    specs,
    "*.kvc",
    usages
};

/* Does a word that is no command mean "run"? */
static bool is_operand(const char *word)
{
    size_t n = strlen(word);

    return (n > 4 && strcmp(word + n - 4, ".kvc") == 0) ||
           access(word, F_OK) == 0;
}

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < N_RUN; i++)
        if (strcmp(argv[1], names[i]) == 0)
            return run(i, argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "show") == 0)
        return show(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "eval") == 0)
        return bench_eval(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        return bench_probe(argc - 1, argv + 1);
    /* a first word that is neither a command nor a file is a mistyped one */
    bool named = argc > 1 && argv[1][0] != '-' && !is_operand(argv[1]);
    for (int i = 1; i < argc && !named; i++)
        if (is_operand(argv[i]))
            return run(0, argc, argv);
    char **rest = opt_parse(&usage, argc, argv, 1);
    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    unknown_command(*rest);
}
