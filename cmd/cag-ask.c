/*
 * cag-ask - answer questions from a cache.
 */
#include <cag/tool/text_file.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cmd/ask/ask_common.h"
#include "cmd/ask/ask_shard.h"
#include "cmd/cli/engine_opts.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

static const char *const stales[] = { "error", "warn", "ignore", NULL };
static const char *const verifies[] = { "header", "full", NULL };
static const char *const evidence_formats[] = { "text", "grep", NULL };
/* in the order of cag_support */
static const char *const supports[] = { "none", "weak", "strong", NULL };
/* in the order of cag_row_format */
static const char *const formats[] = { "auto", "text", "jsonl", NULL };

static struct {
    const char *model, *file, *batch, *output, *log, *from, *question_field,
        *shard;
    struct engine_cli engine;
    struct opt_list stop;
    int usage, stale, verify, format, parallel, top_k, evidence_format, require,
        focus, logprobs;
    int64_t n_predict, seed, n_ctx, max_errors, max_memory;
    double temperature, top_p, min_p;
    bool interactive, chat, resume, unordered, fail_fast, dry_run, think,
        no_cache, no_lookup, no_stream, json, extract, no_history, evidence;
} o = { .top_p = 1.0, .logprobs = -1, .engine.precision = CAG_PRECISION_AUTO };

static const opt_spec specs[] = {
    OPT_STR('m', "model", &o.model, "M", NULL,
            "the cache's model, if it moved (or CAG_MODEL)"),
    OPT_STR('f', "file", &o.file, "F", NULL,
            "the question from a file; '-' is stdin"),
    OPT_I64('n', "predict", &o.n_predict, 1, INT32_MAX, "N", NULL,
            "tokens of an answer at most (1024; batch: 120)"),
    OPT_FLAG('i', "interactive", &o.interactive,
             "questions line by line, each from the clean cache"),
    OPT_FLAG(0, "chat", &o.chat, "as -i, but earlier turns are kept"),
    OPT_STR(0, "batch", &o.batch, "FILE", NULL,
            "one question a line, or JSONL; '-' is stdin"),
    OPT_STR('o', "output", &o.output, "FILE", NULL,
            "rows of a batch to FILE (%i: number of the shard)"),
    OPT_COUNT('u', "usage", &o.usage,
              "tokens, times and memory, on stderr; twice: where time went"),
    OPT_FLAG(0, "json", &o.json, "the answer as one JSON object"),
    OPT_FLAG(0, "evidence", &o.evidence,
             "the lines of the sources an answer stands on"),
    OPT_CHOICE(0, "stale", &o.stale, stales, NULL,
               "what to do when sources have changed"),
    OPT_MORE,
    OPT_FLAG(0, "no-cache", &o.no_cache,
             "read the whole prompt instead: the same answer"),
    OPT_I64(0, "max-tokens", &o.n_predict, 1, INT32_MAX, "N", NULL,
            "the same as -n"),
    OPT_FLAG(0, "resume", &o.resume, "keep the rows an earlier run answered"),
    OPT_I64(0, "max-errors", &o.max_errors, 0, INT64_MAX, "N", NULL,
            "bad rows of a batch that are no failure"),
    OPT_STR(0, "question-field", &o.question_field, "NAME", NULL,
            "the question's name in a row (question)"),
    OPT_STR(0, "shard", &o.shard, "I/N", NULL,
            "only the rows I modulo N; auto: of a Slurm or Kubernetes task"),
    OPT_FLAG(0, "fail-fast", &o.fail_fast, "stop at the first bad row"),
    OPT_CHOICE(0, "output-format", &o.format, formats, NULL,
               "rows of a batch; auto: as the input"),
    OPT_INT('j', "parallel", &o.parallel, 1, 256, "N", NULL,
            "rows decoded together"),
    OPT_FLAG(0, "unordered", &o.unordered, "rows as they are done"),
    OPT_FLAG(0, "dry-run", &o.dry_run, "show the prompt, or check the rows"),
    OPT_CHOICE(0, "evidence-format", &o.evidence_format, evidence_formats, NULL,
               "grep: path:line:text, on stdout"),
    OPT_CHOICE(0, "require-evidence", &o.require, supports, NULL,
               "refuse an answer with less support"),
    OPT_CHOICE_OF(0, "focus", &o.focus, cag_focus_name, NULL,
                  "answer again from the best passages; the better counts"),
    OPT_INT(0, "logprobs", &o.logprobs, 0, CAG_TOP_LOGPROBS, "N", NULL,
            "with --json: how likely each token was, and the N likeliest"),
    OPT_DOUBLE(0, "temperature", &o.temperature, 0, 100, "T", NULL,
               "0 is greedy"),
    OPT_DOUBLE(0, "top-p", &o.top_p, 0, 1, "P", NULL, "nucleus sampling"),
    OPT_INT(0, "top-k", &o.top_k, 0, INT32_MAX, "K", NULL,
            "the K likeliest tokens; 0 is off"),
    OPT_DOUBLE(0, "min-p", &o.min_p, 0, 1, "P", NULL,
               "no token below P times the likeliest"),
    OPT_I64(0, "seed", &o.seed, 0, INT64_MAX, "N", NULL, "of the sampling"),
    OPT_LIST(0, "stop", &o.stop, "TEXT", "end the answer at TEXT; repeatable"),
    OPT_STR(0, "continue", &o.from, "FILE", NULL,
            "as --chat, after the conversation that /save wrote"),
    OPT_FLAG(0, "no-history", &o.no_history,
             "keep no questions typed with -i for the next time"),
    OPT_FLAG(0, "think", &o.think, "let the model think first, unseen"),
    OPT_CHOICE(0, "verify", &o.verify, verifies, NULL,
               "full: every digest of the file, before answering"),
    OPT_FLAG(0, "no-stream", &o.no_stream, "print the answer when complete"),
    OPT_FLAG(0, "no-lookup", &o.no_lookup,
             "no drafts from the knowledge; the answer is the same"),
    OPT_STR(0, "log", &o.log, "FILE", NULL,
            "append each answer as a JSON line to FILE"),
    OPT_FLAG('x', "extract", &o.extract, "only the first fenced code block"),
    OPT_I64('c', "ctx-size", &o.n_ctx, 1, 1 << 24, "N", NULL,
            "a smaller context than the cache's"),
    OPT_ENGINE(&o.engine, engine_precision_auto),
    OPT_SIZE(0, "max-memory", &o.max_memory, 1, INT64_MAX, "B", NULL,
             "refuse to take more memory"),
    OPT_COMMON,
    OPT_END
};

static const char examples[] =
    "  cag-ask handbook.kvc How do I reset my badge?\n"
    "  cag-ask --batch questions.jsonl -o answers.jsonl handbook.kvc\n"
    "  cag-ask -i handbook.kvc\n";

static const opt_usage usage = { "cag-ask",
                                 "[options] FILE.kvc [QUESTION...]",
                                 "answer questions from a cache",
                                 examples,
                                 specs,
                                 "*.kvc",
                                 NULL };

/* One question is waited for and can be stopped; what it says is wanted whole.
 * A batch is not watched, and a row that rambles holds up all the others. */
enum { N_ONE = 1024, N_BATCH = 120 };

static void fill(struct ask_opts *a)
{
    memset(a, 0, sizeof *a);
    cag_kb_opts_init(&a->kb);
    cag_ask_params_init(&a->params);
    a->kb.model = o.model;
    a->kb.stale = o.stale == 0   ? CAG_STALE_ERROR
                  : o.stale == 1 ? CAG_STALE_WARN
                                 : CAG_STALE_IGNORE;
    a->kb.verify_full = o.verify == 1;
    a->kb.no_cache = o.no_cache;
    a->kb.no_weights = o.dry_run;
    a->kb.n_ctx = o.n_ctx;
    engine_opts_fill(&o.engine, &a->kb.engine);
    a->kb.engine.max_memory = (uint64_t)o.max_memory;
    a->kb.engine.max_host = (uint64_t)o.max_memory;
    a->kb.places = *places_get();
    a->kb.hooks = places_hooks();
    if (o.batch) {
        a->kb.hooks.progress = ask_batch_progress;
        a->kb.hooks.ctx = a;
    }
    a->params.max_tok = o.n_predict ? o.n_predict : o.batch ? N_BATCH : N_ONE;
    a->params.sampling.temperature = (float)o.temperature;
    a->params.sampling.top_k = o.top_k;
    a->params.sampling.top_p = (float)o.top_p;
    a->params.sampling.min_p = (float)o.min_p;
    a->params.sampling.seed = (uint64_t)o.seed;
    a->params.stop = o.stop.item;
    a->params.n_stop = o.stop.n;
    a->params.think = o.think;
    a->params.no_draft = o.no_lookup;
    /* who gives a length gets that; a batch has its own, short one */
    a->params.end_loops = !o.batch && !o.n_predict;
    a->params.evidence = o.evidence || o.evidence_format;
    a->params.require = (cag_support)o.require;
    a->params.focus = (cag_focus)o.focus;
    a->params.logprobs = o.logprobs >= 0;
    a->params.n_top = o.logprobs > 0 ? o.logprobs : 0;
    a->evidence = a->params.evidence;
    a->grep = o.evidence_format == 1;
    a->json = o.json;
    a->no_stream = o.no_stream;
    a->usage = o.usage;
    a->extract = o.extract;
    a->chat = o.chat;
    a->from = o.from;
    a->no_history = o.no_history;
    a->log = o.log;
    a->batch = o.batch;
    a->question_field = o.question_field;
    a->output = o.output && strcmp(o.output, "-") ? o.output : NULL;
    if (o.shard) {
        ask_shard_parse(o.shard, &a->shard, &a->n_shard);
        a->pattern = a->output;
        if (a->output)
            a->output = a->shard_file =
                ask_shard_name(a->output, a->shard, a->n_shard);
    }
    a->format = o.batch && o.json ? CAG_ROWS_JSON : (cag_row_format)o.format;
    a->parallel = o.parallel;
    a->resume = o.resume;
    a->unordered = o.unordered;
    a->fail_fast = o.fail_fast;
    a->dry_run = o.dry_run;
    a->max_errors = o.max_errors;
}

/* For --print-config: in words what 0 and NULL stand for. */
static void show_defaults(void)
{
    opt_show(&o.n_predict, o.batch ? "120" : "1024");
    opt_show(&o.model,
             places_get()->model ? "the cache's, or CAG_MODEL" : "the cache's");
    opt_show(&o.n_ctx, "the cache's");
    opt_show(&o.parallel, "processors");
    opt_show(&o.top_k, "off");
    opt_show(&o.min_p, "off");
    opt_show(&o.max_memory, "no limit");
    engine_opts_show(&o.engine);
}

/* Options that would be passed over in silence. */
static void warn_idle(void)
{
    static const void *const sampling[] = { &o.top_p, &o.top_k, &o.min_p,
                                            &o.seed };
    const char *from;

    for (size_t i = 0; i < sizeof sampling / sizeof *sampling; i++)
        if (o.temperature <= 0 && !o.batch &&
            (from = opt_origin(sampling[i])) != NULL)
            ui_warn("%s changes nothing at temperature 0, where the likeliest "
                    "token is taken",
                    from);
    if (o.no_stream && (o.json || o.extract))
        ui_warn("option --no-stream changes nothing with %s",
                o.json ? "--json" : "-x");
    if (o.no_history && (o.batch || !(isatty(0) && isatty(1))))
        ui_warn("option --no-history changes nothing but with -i on a "
                "terminal");
}

static bool is_cache(const char *word)
{
    size_t n = strlen(word);

    return n > 4 && !strcmp(word + n - 4, ".kvc") && access(word, F_OK) == 0;
}

/* A word, not the first, that names a cache which is there. */
static void check_words(char **word)
{
    for (char **w = word + 1; word[0] && *w; w++) {
        if (!is_cache(*w))
            continue;
        if (is_cache(word[0]))
            opt_fail("one cache at a time; did you mean: cag-ask %s '...' "
                     "and cag-ask %s '...'?",
                     word[0], *w);
        opt_fail("the cache comes first; did you mean: cag-ask %s '%s%s'?", *w,
                 word[0], word[2] ? " ..." : "");
    }
}

static bool is_table(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && (!strcasecmp(dot, ".csv") || !strcasecmp(dot, ".tsv"));
}

static void check_usage(char **word)
{
    bool talk = o.interactive || o.chat || o.from;

    if (talk && (word[1] || o.file || o.batch))
        opt_fail("-i, --chat and --continue take no other question");
    if (talk && o.dry_run)
        opt_fail("--dry-run takes one question, or --batch");
    if (o.json && o.extract)
        opt_fail("--json and -x exclude each other");
    if (o.evidence_format == 1 && (o.json || o.extract || o.batch))
        opt_fail("--evidence-format grep does not go with --json, -x and "
                 "--batch");
    if (o.logprobs >= 0 && (!o.json || o.batch || talk))
        opt_fail("--logprobs goes with --json and one question");
    if (o.top_p <= 0)
        opt_fail("option '--top-p': 0 is out of range, expected more than 0");
    for (int i = 0; i < o.stop.n; i++)
        if (!o.stop.item[i][0])
            opt_fail("option '--stop': the text is empty");
    if (o.batch && (word[1] || o.file))
        opt_fail("--batch takes its questions from the file only");
    if (o.batch && o.extract)
        opt_fail("-x does not go with --batch");
    if (o.batch && o.json && o.format == CAG_ROWS_TEXT)
        opt_fail("--json and --output-format text exclude each other");
    if (!o.batch &&
        (o.output || o.resume || o.unordered || o.fail_fast || o.parallel ||
         o.format || o.max_errors || o.question_field || o.shard))
        opt_fail("-o, -j, --resume, --unordered, --fail-fast, --max-errors, "
                 "--question-field, --shard and --output-format belong to "
                 "--batch");
    if (o.shard && o.format == CAG_ROWS_TEXT)
        opt_fail("--shard needs rows as JSON: --output-format jsonl");
    if (o.batch && o.output && is_table(o.output))
        opt_fail("-o %s: answers are written as JSON Lines (or text), not as a "
                 "table; name them .jsonl",
                 ui_clean(o.output));
    if (o.resume && (!o.output || !strcmp(o.output, "-")))
        opt_fail("--resume needs -o FILE");
    if (o.resume && o.unordered)
        opt_fail("--resume and --unordered exclude each other");
    if (o.resume && o.format == CAG_ROWS_TEXT)
        opt_fail("--resume needs rows as JSON: --output-format jsonl");
    check_words(word);
    warn_idle();
}

/* The question of the command line, -f and stdin; heap, or NULL after a
 * message with *status set; NULL with *status 0: nobody asked anything. */
static char *get_question(char **word, size_t *n, int *status)
{
    cag_error err = CAG_ERROR_INIT;
    const char *text = NULL;
    char *q;
    size_t size = 0, text_n;
    bool from_stdin = !word[0] && !o.file && !isatty(0);

    if ((o.file || from_stdin) &&
        cag_read_text(o.file ? o.file : "-", &text, &err)) {
        *status = ui_error(&err);
        return NULL;
    }
    text_n = text ? strlen(text) : 0;
    while (text_n && (text[text_n - 1] == '\n' || text[text_n - 1] == '\r'))
        text_n--;
    if (!word[0] && !text)
        return NULL;
    for (char **w = word; *w; w++)
        size += strlen(*w) + 1;
    q = malloc(size + text_n + 1);
    if (!q) {
        *status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    } else {
        *n = 0;
        for (char **w = word; *w; w++) {
            size_t len = strlen(*w);

            memcpy(q + *n, *w, len);
            *n += len;
            q[(*n)++] = w[1] ? ' ' : '\n';
        }
        if (word[0] && !text)
            (*n)--;
        if (text)
            memcpy(q + *n, text, text_n);
        *n += text_n;
        q[*n] = 0;
    }
    cag_free((void *)(uintptr_t)text);
    return q;
}

static int show_prompt(cag_kb *kb, const char *question, size_t n)
{
    cag_error err = CAG_ERROR_INIT;
    cag_prompt_view v;

    if (cag_kb_prompt(kb, question, n, o.think, &v, &err))
        return ui_error(&err);
    if (o.json) {
        struct ui_json j;

        ui_json_start(&j, stdout);
        ui_json_object(&j, NULL);
        ui_json_int(&j, "schema", 1);
        ui_json_strn(&j, "prompt", v.text, v.size);
        ui_json_uint(&j, "cached_bytes", v.cached_bytes);
        ui_json_int(&j, "cached_tokens", v.n_cached);
        ui_json_int(&j, "question_tokens", v.n_prompt);
        ui_json_int(&j, "room", v.room);
        ui_json_end(&j);
    } else {
        ui_put_text(stdout, v.text, v.cached_bytes);
        printf("[cached part ends here: %lld tokens]", (long long)v.n_cached);
        ui_put_text(stdout, v.text + v.cached_bytes, v.size - v.cached_bytes);
        printf("\n[question: %lld tokens; room for an answer: %lld]\n",
               (long long)v.n_prompt, (long long)v.room);
    }
    cag_free(v.text);
    return v.room > 0 ? UI_OK
                      : ui_fail(CAG_E_LIMIT, NULL, "the question does not fit");
}

/* What was asked for, and this cache cannot do, or only in part. */
static void warn_limits(const cag_kb *kb)
{
    const cag_kvc_attention *a = cag_kvc_get_attention(cag_kb_get_kvc(kb));

    if (o.think && !cag_kb_knows_thinking(kb))
        ui_warn("the cache's chat template has no switch for thinking; "
                "--think changes nothing");
    if (o.require == CAG_SUPPORT_WEAK && !(a && a->has_null))
        ui_warn("the cache was built without questions, so weak support is "
                "that of quotes alone; cag-build --questions FILE measures "
                "more: cag-build(1)");
    else if (o.require == CAG_SUPPORT_WEAK &&
             !strcmp(cag_kb_evidence_by(kb), "words"))
        ui_warn("attention is not measured here, so that weak support is "
                "that of quotes alone");
}

int main(int argc, char **argv)
{
    char **word = opt_parse(&usage, argc, argv, 1);
    cag_error err = CAG_ERROR_INIT;
    struct ask_opts a;
    cag_kb *kb = NULL;
    char *question = NULL;
    size_t n = 0;
    int status = UI_OK;
    bool talk = o.interactive || o.chat || o.from;

    if (opt_wants_config()) {
        show_defaults();
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    check_usage(word);
    fill(&a);
    if (!talk && !o.batch) {
        question = get_question(word + 1, &n, &status);
        if (!question && !status)
            talk = isatty(0) && isatty(1);
        if (!question && !status && !talk)
            opt_fail("no question: write it after the cache, or pipe it in");
    }
    if (!status && o.log && cag_check_text_output(o.log, &err))
        status = ui_error(&err);
    if (!status) {
        ui_catch(true);
        if (cag_kb_open(word[0], &a.kb, &kb, &err))
            status = ui_error(&err);
        ui_catch(false);
    }
    if (!status && o.log && cag_check_beside(cag_kb_get_kvc(kb), o.log, &err))
        status = ui_error(&err);
    if (!status)
        warn_limits(kb);
    if (!status && o.batch)
        status = ask_batch(&a, kb);
    else if (!status && talk)
        status = ask_interactive(&a, kb);
    else if (!status && o.dry_run)
        status = show_prompt(kb, question, n);
    else if (!status) {
        ui_catch(true);
        status = ask_question(&a, kb, NULL, question, n, NULL);
        ui_catch(false);
    }
    cag_kb_close(kb);
    free(a.shard_file);
    free(question);
    return ui_close_stdout(status);
}
