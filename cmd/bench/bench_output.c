/*
 * bench_output.c - a report as a table for people, CSV, JSON, JSON Lines.
 *
 * A line of CSV or JSON Lines stands alone: it names machine, model and
 * program beside its figure.
 */
#include <cag/tool/bench.h>
#include <cag/tool/text_file.h>

#include <string.h>
#include <unistd.h>

#include "cmd/bench/bench_cmd.h"
#include "cmd/bench/bench_words.h"
#include "cmd/cli/ui_wrap.h"
#include "cmd/cli/ui_internal.h"

const char *const bench_formats[] = { "md", "csv", "json", "jsonl", NULL };

FILE *bench_create(const char *path, cag_error *err)
{
    int fd;
    FILE *f;

    if (cag_open_output(path, false, false, &fd, err))
        return NULL;
    f = fdopen(fd, "w");
    if (!f) {
        close(fd);
        err->status = CAG_E_NOMEM;
        snprintf(err->msg, sizeof err->msg, "out of memory");
    }
    return f;
}

/* --------------------------------------------------------------- Markdown */

/* text of a fact or note in a table or list: one line, no column borders */
static void md_text(struct ui_wrap *w, const char *s)
{
    while (*s != '\0') {
        size_t n = strcspn(s, "|\n");

        ui_wrap_put(w, s, n);
        s += n;
        if (*s != '\0')
            ui_wrap_printf(w, "%s", *s++ == '|' ? "\\|" : " ");
    }
}

static void md_figure(FILE *to, const cag_bench_figure *f)
{
    struct bench_unit u = bench_unit(f->unit, f->median);
    char n[3][32];

    fprintf(to, "| %s | ", f->name);
    if (f->context >= 0)
        fprintf(to, "%lld", (long long)f->context);
    fprintf(to, " | ");
    if (f->batch > 0)
        fprintf(to, "%d", f->batch);
    fprintf(to, " | %s | %s | %s | %s | %s | %d | ", f->state,
            bench_digits(n[0], f->median / u.by),
            bench_digits(n[1], f->min / u.by),
            bench_digits(n[2], f->max / u.by), u.name, f->n);
    if (f->share >= 0)
        fprintf(to, "%.0f %%", 100 * f->share);
    fprintf(to, " |\n");
}

/* "8192", or "" for what has no number */
static const char *count(char out[32], int64_t n, int64_t least)
{
    out[0] = 0;
    if (n >= least)
        ui_format(out, 32, "%lld", (long long)n);
    return out;
}

enum { WIDE = 78 }; /* columns of the table below */

/* For a terminal: the columns aligned, or where they do not fit a line of
 * words for each figure. */
static void screen_figure(FILE *to, int columns, const cag_bench_figure *f)
{
    struct bench_unit u = bench_unit(f->unit, f->median);
    char n[3][32], tok[32], batch[32], share[32] = "";
    struct ui_wrap w;

    bench_digits(n[0], f->median / u.by);
    bench_digits(n[1], f->min / u.by);
    bench_digits(n[2], f->max / u.by);
    if (f->share >= 0)
        ui_format(share, sizeof share, "%.0f %%", 100 * f->share);
    count(tok, f->context, 0);
    count(batch, f->batch, 1);
    if (columns >= WIDE) {
        fprintf(to, "%-20s %6s %5s %-5s %6s %-8s %6s %6s %2d %5s\n", f->name,
                tok, batch, f->state, n[0], u.name, n[1], n[2], f->n, share);
        return;
    }
    ui_wrap_lines(&w, to, 4);
    ui_wrap_printf(&w, "%s: %s %s (%s to %s)", f->name, n[0], u.name, n[1],
                   n[2]);
    ui_wrap_printf(&w, "%s%s%s", *tok ? ", " : "", tok, *tok ? " tokens" : "");
    ui_wrap_printf(&w, "%s%s", *batch ? ", batch " : "", batch);
    ui_wrap_printf(&w, "%s%s", *f->state ? ", " : "", f->state);
    ui_wrap_printf(&w, "%s%s\n", *share ? ", share " : "", share);
    ui_wrap_end(&w);
}

static void print_figures(const cag_bench_report *r, FILE *to)
{
    int columns = isatty(fileno(to)) ? ui_columns(fileno(to)) : 0;

    if (columns >= WIDE)
        fprintf(to, "%-20s %6s %5s %-5s %6s %-8s %6s %6s %2s %5s\n", "figure",
                "tokens", "batch", "pages", "median", "unit", "min", "max", "n",
                "share");
    else if (!columns)
        fprintf(to, "| figure | tokens | batch | page cache | median | min | "
                    "max | unit | n | share |\n"
                    "|---|--:|--:|---|--:|--:|--:|---|--:|--:|\n");
    for (int i = 0; i < r->n_figure; i++)
        if (columns)
            screen_figure(to, columns, &r->figure[i]);
        else
            md_figure(to, &r->figure[i]);
    fputc('\n', to);
}

static bool told_before(const cag_bench_report *r, int i)
{
    for (int k = 0; k < i; k++)
        if (!strcmp(r->note[k], r->note[i]))
            return true;
    return false;
}

/* What it comes to, the figures, what is to be said of them; and last what
 * they were measured with. */
static void print_md(const cag_bench_report *r, FILE *to)
{
    struct ui_wrap w;
    char text[256];

    if (*bench_summary(r, text))
        ui_printf(to, 0, "**%s.**\n\n", text);
    print_figures(r, to);
    for (int i = 0; i < r->n_note; i++) {
        if (told_before(r, i))
            continue;
        ui_wrap_lines(&w, to, 2);
        ui_wrap_printf(&w, "Note: ");
        md_text(&w, r->note[i]);
        ui_wrap_printf(&w, "\n\n");
        ui_wrap_end(&w);
    }
    for (int i = 0; i < r->n_fact; i++) {
        ui_wrap_lines(&w, to, 2);
        ui_wrap_printf(&w, "- %s: ", r->fact[i].key);
        md_text(&w, r->fact[i].value);
        ui_wrap_printf(&w, "\n");
        ui_wrap_end(&w);
    }
}

/* -------------------------------------------------------------------- CSV */

static const char *const csv_facts[] = {
    "date",       "cpu",          "threads", "kernels", "device", "model",
    "model_type", "model_sha256", "codec",   "tool",    "git",    NULL
};

static void csv_text(FILE *to, const char *s)
{
    fputc('"', to);
    while (*s != '\0') {
        size_t n = strcspn(s, "\"");

        ui_put_text(to, s, n);
        s += n;
        if (*s != '\0') {
            fputs("\"\"", to);
            s++;
        }
    }
    fputc('"', to);
}

static void print_csv(const cag_bench_report *r, FILE *to)
{
    fprintf(to, "figure,context,batch,state,unit,n,median,min,max,share");
    for (int i = 0; csv_facts[i]; i++)
        fprintf(to, ",%s", csv_facts[i]);
    fputc('\n', to);
    for (int i = 0; i < r->n_figure; i++) {
        const cag_bench_figure *f = &r->figure[i];

        csv_text(to, f->name);
        fputc(',', to);
        if (f->context >= 0)
            fprintf(to, "%lld", (long long)f->context);
        fputc(',', to);
        if (f->batch > 0)
            fprintf(to, "%d", f->batch);
        fprintf(to, ",%s,%s,%d,%.9g,%.9g,%.9g,", f->state, f->unit, f->n,
                f->median, f->min, f->max);
        if (f->share >= 0)
            fprintf(to, "%.4g", f->share);
        for (int k = 0; csv_facts[k]; k++) {
            const char *v = cag_bench_get(r, csv_facts[k]);
            fputc(',', to);
            csv_text(to, v ? v : "");
        }
        fputc('\n', to);
    }
}

/* ------------------------------------------------------------- JSON Lines */

static void jsonl_figure(const cag_bench_report *r, const cag_bench_figure *f,
                         FILE *to)
{
    struct ui_json j;

    ui_json_start(&j, to);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_str(&j, "name", f->name);
    ui_json_str(&j, "unit", f->unit);
    if (f->context >= 0)
        ui_json_int(&j, "context", f->context);
    else
        ui_json_null(&j, "context");
    if (f->batch > 0)
        ui_json_int(&j, "batch", f->batch);
    else
        ui_json_null(&j, "batch");
    ui_json_str(&j, "state", f->state[0] != '\0' ? f->state : NULL);
    ui_json_int(&j, "n", f->n);
    ui_json_double(&j, "median", f->median);
    ui_json_double(&j, "min", f->min);
    ui_json_double(&j, "max", f->max);
    if (f->share >= 0)
        ui_json_double(&j, "share", f->share);
    else
        ui_json_null(&j, "share");
    ui_json_object(&j, "facts");
    for (int i = 0; i < r->n_fact; i++)
        ui_json_str(&j, r->fact[i].key, r->fact[i].value);
    ui_json_end(&j);
    ui_json_end(&j);
}

bool bench_print(const cag_bench_report *r, int format, FILE *to)
{
    cag_error err = CAG_ERROR_INIT;
    char *text;
    size_t size;

    switch (format) {
    case BENCH_MD:
        print_md(r, to);
        break;
    case BENCH_CSV:
        print_csv(r, to);
        break;
    case BENCH_JSONL:
        for (int i = 0; i < r->n_figure; i++)
            jsonl_figure(r, &r->figure[i], to);
        break;
    default:
        if (cag_bench_to_json(r, &text, &size, &err) != CAG_OK) {
            ui_error(&err);
            return false;
        }
        ui_put_json(to, text, size);
        fputc('\n', to);
        cag_free(text);
    }
    return true;
}
