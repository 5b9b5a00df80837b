/*
 * bench_eval.c - how right are the answers of a cache, and their evidence:
 * questions with known answers, in arms; a table, JSON, and a row of JSON for
 * each answer.
 */
#include <cag/tool/eval.h>
#include <cag/tool/text_file.h>

#include <errno.h>
#include <string.h>

#include "cmd/bench/bench_cmd.h"
#include "cmd/cli/engine_opts.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui_wrap.h"

static struct {
    const char *model, *questions, *rows, *arms, *compare;
    struct engine_cli engine;
    int64_t n_predict, budget;
    bool json;
} o = { .n_predict = 40,
        .budget = 256,
        .arms = "cache,none,bm25",
        .engine.precision = CAG_PRECISION_AUTO };

static const opt_spec eval_specs[] = {
    OPT_STR(0, "questions", &o.questions, "FILE", NULL,
            "JSON Lines with answers, or SQuAD 2; '-' is stdin"),
    OPT_STR('m', "model", &o.model, "M", NULL,
            "the cache's model, if it moved (or CAG_MODEL)"),
    OPT_STR(0, "arms", &o.arms, "LIST", NULL,
            "of cache, none, bm25 (the default), focus-mask, "
            "focus-reread, focus-auto"),
    OPT_I64('n', "predict", &o.n_predict, 1, INT32_MAX, "N", NULL,
            "length of an answer in tokens, at most (40)"),
    OPT_I64(0, "budget", &o.budget, 1, INT32_MAX, "N", NULL,
            "tokens of passages for bm25 (256)"),
    OPT_STR(0, "rows", &o.rows, "FILE", NULL, "a row of JSON for each answer"),
    OPT_STR(0, "compare", &o.compare, "FILE", NULL,
            "with the --json of an earlier run; exit 1 if worse"),
    OPT_FLAG(0, "json", &o.json, "print the figures as one JSON object"),
    OPT_MORE,
    OPT_ENGINE(&o.engine, engine_precision_auto),
    OPT_COMMON,
    OPT_END
};

const opt_usage bench_eval_usage = {
    "cag-bench eval",
    "--questions GOLD [options] KB.kvc",
    "judge answers and evidence by questions with known answers",
    "  cag-bench eval --questions gold.jsonl --rows rows.jsonl kb.kvc\n",
    eval_specs,
    "*.kvc",
    NULL
};

static void parse_arms(bool arm[CAG_EVAL_ARMS])
{
    for (const char *s = o.arms; *s;) {
        size_t n = strcspn(s, ",");
        int i = 0;

        while (i < CAG_EVAL_ARMS && (strlen(cag_eval_arm_name(i)) != n ||
                                     strncmp(s, cag_eval_arm_name(i), n) != 0))
            i++;
        if (i == CAG_EVAL_ARMS)
            opt_fail("option '--arms': '%s' is none of cache, none, bm25, "
                     "focus-mask, focus-reread, focus-auto",
                     ui_clean(s));
        arm[i] = true;
        s += n + (s[n] == ',');
    }
}

static cag_status put_row(void *ctx, const char *row, size_t n, cag_error *err)
{
    (void)err;
    return fwrite(row, 1, n, ctx) == n ? CAG_OK : CAG_E_IO;
}

/* ---------------------------------------------------------------- output */

/* What an arm reads, for who does not know its name. */
static const char *arm_words(const char *name)
{
    static const char *const words[][2] = {
        { "cache", "all of the knowledge, from the cache" },
        { "none", "no knowledge: what the model says by itself" },
        { "bm25", "passages that a search by words (BM25) found" },
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(words[i][0], name))
            return words[i][1];
    return "";
}

enum { EVAL_INDENT = 18 };

static void print_support(const cag_eval_figures *f)
{
    struct ui_wrap w;

    ui_wrap_lines(&w, stdout, EVAL_INDENT);
    ui_wrap_printf(&w,
                   "  support strong  %d answer%s: %d right, %d to questions "
                   "without one",
                   f->n_strong, ui_s(f->n_strong), f->n_strong_right,
                   f->n_strong_unanswerable);
    if (f->auroc >= 0)
        ui_wrap_printf(&w,
                       "; the score tells right from wrong with AUROC %.2f "
                       "(0.5 is chance)",
                       f->auroc);
    ui_wrap_printf(&w, "\n");
    ui_wrap_end(&w);
    ui_printf(stdout, 2,
              "  if answers with a lower score of evidence were withheld:\n"
              "  at least    given    right  to questions without one\n");
    for (int i = 0; i < CAG_EVAL_STEPS; i++)
        printf("  %8.2f %8d %8d %25d\n", cag_eval_threshold(i),
               f->step[i].n_passed, f->step[i].n_right,
               f->step[i].n_unanswerable);
}

static const char *look_name(int look)
{
    return look ? cag_focus_name(look) : "whole";
}

static void print_looks(const cag_eval_figures *f)
{
    for (int i = 0; i < CAG_LOOKS; i++)
        if (f->look[i].n)
            printf("  look %-10s %d right, %d given of %d, %.3f s each\n",
                   look_name(i), f->look[i].n_right, f->look[i].n_given,
                   f->look[i].n, f->look[i].seconds / f->look[i].n);
    if (f->look[0].n && f->n_gold)
        printf("  passages        hold the lines of %d of %d answerable\n",
               f->n_passages, f->n_gold);
}

static void print_arm(const cag_eval_report *r, int arm)
{
    const cag_eval_figures *f = &r->figures[arm];
    const char *name = cag_eval_arm_name(arm), *words = arm_words(name);
    int n = r->n_question;

    ui_printf(stdout, 2, "\n%s%s%s\n", name, *words ? ": " : "", words);
    ui_printf(stdout, EVAL_INDENT,
              "  right           %d of %d that have an answer\n"
              "  refused         %d of %d that have none, and %d that have "
              "one\n",
              f->n_right, f->n_answerable, f->n_refused_right,
              f->n_unanswerable, f->n_refused_wrong);
    if (r->arm[CAG_EVAL_CACHE] && arm != CAG_EVAL_CACHE)
        printf("  beside cache    %d more right, %d no longer\n", f->n_gained,
               f->n_lost);
    if (f->n_gold)
        ui_printf(stdout, EVAL_INDENT,
                  "  gold lines      first piece of evidence: in %d of %d "
                  "right answers, %d of %d in all\n"
                  "  among three     in %d of the right ones, %d in all\n",
                  f->n_right_first, f->n_right_gold, f->n_first, f->n_gold,
                  f->n_right_three, f->n_three);
    print_looks(f);
    print_support(f);
    ui_printf(stdout, EVAL_INDENT,
              "  a question      %.3f s; %.0f tokens read, %.0f made; evidence "
              "%.1f ms\n",
              f->seconds / n, (double)f->n_prompt / n,
              (double)f->n_generated / n, 1000 * f->check_s / n);
}

/* In a sentence, first of all: how many were right, and in which arm. */
static void print_sum(const cag_eval_report *r)
{
    const cag_eval_figures *f = NULL;
    struct ui_wrap w;
    int first = 0;

    while (first < CAG_EVAL_ARMS && !r->arm[first])
        first++;
    if (first == CAG_EVAL_ARMS)
        return;
    f = &r->figures[first];
    ui_wrap_lines(&w, stdout, 0);
    ui_wrap_printf(&w,
                   "%d question%s: with '%s' %d of the %d that have an "
                   "answer were answered right",
                   r->n_question, ui_s(r->n_question), cag_eval_arm_name(first),
                   f->n_right, f->n_answerable);
    for (int i = first + 1; i < CAG_EVAL_ARMS; i++)
        if (r->arm[i])
            ui_wrap_printf(&w, ", with '%s' %d", cag_eval_arm_name(i),
                           r->figures[i].n_right);
    ui_wrap_printf(&w, "; of the %d that have none '%s' refused %d.\n",
                   f->n_unanswerable, cag_eval_arm_name(first),
                   f->n_refused_right);
    ui_wrap_end(&w);
}

static void print_text(const cag_eval_report *r)
{
    double even = cag_eval_break_even(r, CAG_EVAL_BM25);

    print_sum(r);
    for (int i = 0; i < CAG_EVAL_ARMS; i++)
        if (r->arm[i])
            print_arm(r, i);
    ui_printf(stdout, 0,
              "\nReading the knowledge takes %.3f s, what each question from "
              "the cache saves.\n",
              r->read_s);
    if (r->arm[CAG_EVAL_CACHE] && r->arm[CAG_EVAL_BM25]) {
        if (even >= 0)
            ui_printf(stdout, 0,
                      "Against bm25 a cache has paid after %.0f questions.\n",
                      even + 0.5);
        else
            ui_printf(stdout, 0,
                      "Against bm25 a cache pays by its answers alone.\n");
    }
}

static void json_looks(struct ui_json *j, const cag_eval_figures *f)
{
    ui_json_int(j, "passages", f->n_passages);
    ui_json_object(j, "looks");
    for (int i = 0; i < CAG_LOOKS; i++) {
        if (!f->look[i].n)
            continue;
        ui_json_object(j, look_name(i));
        ui_json_int(j, "taken", f->look[i].n);
        ui_json_int(j, "right", f->look[i].n_right);
        ui_json_int(j, "given", f->look[i].n_given);
        ui_json_double(j, "seconds", f->look[i].seconds);
        ui_json_end(j);
    }
    ui_json_end(j);
}

static void json_arm(struct ui_json *j, const cag_eval_figures *f)
{
    const struct {
        const char *key;
        int64_t v;
    } number[] = { { "answerable", f->n_answerable },
                   { "unanswerable", f->n_unanswerable },
                   { "right", f->n_right },
                   { "gained", f->n_gained },
                   { "lost", f->n_lost },
                   { "refused_right", f->n_refused_right },
                   { "refused_wrong", f->n_refused_wrong },
                   { "gold", f->n_gold },
                   { "evidence_first", f->n_first },
                   { "evidence_three", f->n_three },
                   { "right_gold", f->n_right_gold },
                   { "right_evidence_first", f->n_right_first },
                   { "right_evidence_three", f->n_right_three },
                   { "strong", f->n_strong },
                   { "strong_right", f->n_strong_right },
                   { "strong_unanswerable", f->n_strong_unanswerable },
                   { "prompt_tokens", f->n_prompt },
                   { "generated_tokens", f->n_generated } };

    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        ui_json_int(j, number[i].key, number[i].v);
    if (f->auroc >= 0)
        ui_json_double(j, "auroc", f->auroc);
    else
        ui_json_null(j, "auroc");
    ui_json_double(j, "seconds", f->seconds);
    ui_json_double(j, "evidence_seconds", f->check_s);
    if (f->look[0].n)
        json_looks(j, f);
    ui_json_array(j, "thresholds");
    for (int i = 0; i < CAG_EVAL_STEPS; i++) {
        ui_json_object(j, NULL);
        ui_json_double(j, "at", cag_eval_threshold(i));
        ui_json_int(j, "passed", f->step[i].n_passed);
        ui_json_int(j, "right", f->step[i].n_right);
        ui_json_int(j, "unanswerable", f->step[i].n_unanswerable);
        ui_json_end(j);
    }
    ui_json_end(j);
}

static void print_json(const cag_eval_report *r)
{
    double even = cag_eval_break_even(r, CAG_EVAL_BM25);
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_int(&j, "questions", r->n_question);
    ui_json_object(&j, "arms");
    for (int i = 0; i < CAG_EVAL_ARMS; i++)
        if (r->arm[i]) {
            ui_json_object(&j, cag_eval_arm_name(i));
            json_arm(&j, &r->figures[i]);
            ui_json_end(&j);
        }
    ui_json_end(&j);
    ui_json_double(&j, "read_seconds", r->read_s);
    if (even >= 0)
        ui_json_double(&j, "break_even_bm25", even);
    else
        ui_json_null(&j, "break_even_bm25");
    ui_json_end(&j);
}

static void print_change(void *ctx, const cag_eval_change *c)
{
    bool *worse = ctx;

    *worse = *worse || c->worse;
    ui_note("%s: %s %lld, was %lld%s", cag_eval_arm_name(c->arm), c->key,
            (long long)c->now, (long long)c->was, c->worse ? ": worse" : "");
}

static int compare(const cag_eval_report *r, const char *old)
{
    cag_error err = CAG_ERROR_INIT;
    bool worse = false;

    if (cag_eval_compare(old, strlen(old), o.compare, r, print_change, &worse,
                         &err))
        return ui_error(&err);
    return worse ? UI_NO : UI_OK;
}

/* ------------------------------------------------------------------- run */

static int judge(cag_kb *kb, const cag_gold_set *gold, const char *old,
                 cag_eval_opts *e)
{
    cag_error err = CAG_ERROR_INIT;
    cag_eval_report r;
    int status = UI_OK;
    FILE *rows = NULL;

    for (int i = 0; o.rows && i < 2; i++) {
        const char *in = i ? o.compare : o.questions;

        if (in && ui_same_file(in, o.rows))
            return ui_fail(CAG_E_USAGE, o.rows,
                           "this file is read (%s); write elsewhere", in);
    }
    if (o.rows && (cag_check_text_output(o.rows, &err) ||
                   cag_check_beside(cag_kb_get_kvc(kb), o.rows, &err)))
        return ui_error(&err);
    if (o.rows && !(rows = bench_create(o.rows, &err)))
        return ui_error(&err);
    e->row = rows ? put_row : NULL;
    e->ctx = rows;
    ui_catch(true);
    if (cag_eval_run(kb, gold, e, &r, &err))
        status = err.status ? ui_error(&err) : UI_IOERR;
    ui_catch(false);
    ui_progress_end();
    if (rows && fclose(rows) && !status)
        status = ui_fail(CAG_E_IO, o.rows, "cannot write: %s", strerror(errno));
    if (!status)
        (o.json ? print_json : print_text)(&r);
    if (!status && old)
        status = compare(&r, old);
    return status;
}

int bench_eval(int argc, char **argv)
{
    char **word = opt_parse(&bench_eval_usage, argc, argv, 1);
    cag_error err = CAG_ERROR_INIT;
    cag_gold_set gold = { NULL, 0 };
    cag_eval_opts e;
    cag_kb_opts ko;
    cag_kb *kb = NULL;
    const char *text = NULL, *old = NULL;
    int status = UI_OK;

    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    if (word[1])
        opt_fail("unexpected operand '%s'", ui_clean(word[1]));
    if (!o.questions)
        opt_fail("no questions: use --questions FILE");
    memset(&e, 0, sizeof e);
    parse_arms(e.arm);
    cag_kb_opts_init(&ko);
    ko.model = o.model;
    ko.places = *places_get();
    ko.hooks = places_hooks();
    engine_opts_fill(&o.engine, &ko.engine);
    cag_ask_params_init(&e.params);
    e.params.max_tok = o.n_predict;
    e.budget = o.budget;
    if ((o.compare && cag_read_text(o.compare, &old, &err)) ||
        cag_read_text(o.questions, &text, &err) ||
        cag_kb_open(word[0], &ko, &kb, &err) ||
        cag_gold_read(kb, text, strlen(text), o.questions, &gold, &err) ||
        cag_gold_check(&gold, o.questions, &err))
        status = ui_error(&err);
    if (!status)
        status = judge(kb, &gold, old, &e);
    cag_gold_release(&gold);
    cag_kb_close(kb);
    cag_free((void *)(uintptr_t)text);
    cag_free((void *)(uintptr_t)old);
    return ui_close_stdout(status);
}
