/*
 * build_report.c - see build_report.h.
 */
#include "cmd/build/build_report.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/loss_text.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui_wrap.h"
#include "cmd/cli/ui_internal.h"

static void json_sources(struct ui_json *j, const cag_build_report *r)
{
    ui_json_array(j, "sources");
    for (int i = 0; i < r->n_source; i++) {
        ui_json_object(j, NULL);
        ui_json_str(j, "name", r->source[i].name);
        ui_json_str(j, "path", r->source[i].path);
        ui_json_uint(j, "bytes", r->source[i].size_bytes);
        ui_json_int(j, "tokens", r->source[i].n_tok);
        ui_json_end(j);
    }
    ui_json_end(j);
}

static void json_skipped(struct ui_json *j, const cag_build_report *r)
{
    ui_json_int(j, "skipped", r->n_skipped);
    ui_json_str(j, "skipped_note", r->skipped);
}

static void json_build(const char *path, const cag_build_report *r)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_str(&j, "file", path);
    ui_json_bool(&j, "fresh", r->fresh);
    ui_json_str(&j, "content_id", r->content_id);
    ui_json_str(&j, "codec", r->codec);
    ui_json_int(&j, "tokens", r->n_tok);
    ui_json_int(&j, "tokens_kept", r->fresh ? r->n_tok : r->n_tok_kept);
    ui_json_seconds(&j, "seconds_saved", r->saved_s);
    ui_json_int(&j, "tokens_resumed", r->n_tok_resumed);
    ui_json_int(&j, "ctx_size", r->n_ctx);
    ui_json_int(&j, "reserve", r->reserve);
    ui_json_uint(&j, "file_bytes", r->file_bytes);
    ui_json_uint(&j, "kv_bytes", r->kv_raw_bytes);
    ui_json_uint(&j, "kv_stored_bytes", r->kv_stored_bytes);
    ui_json_seconds(&j, "tokenize_seconds", r->tokenize_s);
    ui_json_seconds(&j, "prefill_seconds", r->prefill_s);
    ui_json_seconds(&j, "write_seconds", r->write_s);
    if (r->has_receipt) {
        ui_json_seconds(&j, "receipt_seconds", r->receipt_s);
        loss_json(&j, &r->receipt, 0);
    }
    ui_json_seconds(&j, "seconds", r->total_s);
    json_skipped(&j, r);
    json_sources(&j, r);
    ui_json_end(&j);
}

static int by_tokens(const void *a, const void *b)
{
    const cag_build_source *const *x = a, *const *y = b;

    if ((*x)->n_tok != (*y)->n_tok)
        return (*x)->n_tok < (*y)->n_tok ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

/* Pointers to the sources, the largest first; NULL when memory is short. */
static const cag_build_source **by_size(const cag_build_report *r)
{
    const cag_build_source **v = calloc((size_t)r->n_source, sizeof *v);

    for (int i = 0; v && i < r->n_source; i++)
        v[i] = &r->source[i];
    if (v)
        qsort(v, (size_t)r->n_source, sizeof *v, by_tokens);
    return v;
}

enum { ALL = 12, LARGEST = 8 }; /* lines for sources in a table */
enum { TABLE_INDENT = 17 };     /* where names stand in a table */

/* Tokens by source; of many sources the largest. */
static void source_lines(const cag_build_report *r)
{
    bool few = r->n_source <= ALL || ui.verbose;
    const cag_build_source **v = few ? NULL : by_size(r);
    int n = few ? r->n_source : LARGEST;
    int64_t rest = 0;

    for (int i = 0; i < n && (few || v); i++) {
        const cag_build_source *s = few ? &r->source[i] : v[i];

        ui_note("%8lld tokens  %s", (long long)s->n_tok, s->name);
    }
    for (int i = n; i < r->n_source && v; i++)
        rest += v[i]->n_tok;
    if (n < r->n_source && v)
        ui_note("%8lld tokens  in %d more source%s (-v lists them)",
                (long long)rest, r->n_source - n, ui_s(r->n_source - n));
    free(v);
}

static void kept_line(const cag_build_report *r)
{
    char t[UI_TEXT];

    if (r->n_tok_kept)
        ui_note("%lld tokens kept from %s, %lld computed; about %s saved",
                (long long)r->n_tok_kept,
                r->n_tok_resumed ? "an interrupted build" : "the old cache",
                (long long)(r->n_tok - r->n_tok_kept),
                ui_duration(t, r->saved_s));
}

static void loss_line(const char *path, const cag_build_report *r)
{
    char kl[LOSS_TEXT], top[LOSS_TEXT];

    if (r->has_receipt)
        ui_note("%s: %s over the last %lld tokens; %s", ui_clean(path),
                loss_kl(kl, &r->receipt),
                (long long)(r->receipt.end - r->receipt.begin),
                loss_top(top, &r->receipt));
}

void report_build(const char *path, const cag_build_report *r, bool json)
{
    char size[UI_TEXT], total[UI_TEXT], build[UI_TEXT], write[UI_TEXT];
    char read[2 * UI_TEXT];
    int64_t computed = r->n_tok - r->n_tok_kept;

    if (json)
        json_build(path, r);
    if (r->fresh) {
        /* silence is for scripts; who waits at a terminal is told */
        ui_verbose(isatty(2) ? 0 : 1, "%s: fresh, nothing to do (%lld tokens)",
                   ui_clean(path), (long long)r->n_tok);
        return;
    }
    if (ui.verbose || r->n_source > 1)
        source_lines(r);
    if (r->skipped)
        ui_note("%s", ui_clean(r->skipped));
    kept_line(r);
    loss_line(path, r);
    if (computed > 0 && r->prefill_s > 0)
        ui_format(read, sizeof read, "read %s at %.0f tokens/s",
                  ui_duration(build, r->prefill_s),
                  (double)computed / r->prefill_s);
    else
        ui_format(read, sizeof read, "nothing to read");
    ui_note("%s: %lld token%s, %s, K and V %.0f bytes a token (%s); %s: %s, "
            "write %s",
            ui_clean(path), (long long)r->n_tok, ui_s(r->n_tok),
            ui_size(size, r->file_bytes),
            (double)r->kv_stored_bytes / (double)r->n_tok, r->codec,
            ui_duration(total, r->total_s), read,
            ui_duration(write, r->write_s));
}

static void json_plan(const cag_build_report *r, uint64_t free_bytes)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_bool(&j, "fits", report_fits(r));
    ui_json_int(&j, "tokens", r->n_tok);
    ui_json_int(&j, "ctx_size", r->n_ctx);
    ui_json_int(&j, "reserve", r->reserve);
    ui_json_int(&j, "room", r->n_ctx - r->reserve - r->n_tok);
    ui_json_uint(&j, "file_bytes_at_most", r->file_bytes);
    ui_json_uint(&j, "kv_bytes", r->kv_raw_bytes);
    ui_json_uint(&j, "build_memory_bytes", r->build_bytes);
    ui_json_uint(&j, "ask_memory_bytes", r->ask_bytes);
    ui_json_uint(&j, "free_memory_bytes", free_bytes);
    ui_json_seconds(&j, "prefill_seconds_about", r->about_s);
    ui_json_bool(&j, "built", r->has_old);
    ui_json_int(&j, "tokens_kept", r->n_tok_kept);
    json_skipped(&j, r);
    json_sources(&j, r);
    ui_json_array(&j, "costly");
    for (int i = 0; i < r->n_line; i++) {
        const cag_build_line *l = &r->line[i];

        ui_json_object(&j, NULL);
        ui_json_str(&j, "source", r->source[l->source].name);
        ui_json_int(&j, "line", l->line);
        ui_json_int(&j, "lines", l->n_line);
        ui_json_int(&j, "tokens", l->n_tok);
        ui_json_str(&j, "kind", l->kind);
        ui_json_end(&j);
    }
    ui_json_end(&j);
    ui_json_end(&j);
}

/* A path as it can be clicked on: from here, where it lies below. */
static const char *from_here(const char *path)
{
    char here[PATH_MAX];
    size_t n;

    if (!getcwd(here, sizeof here))
        return path;
    n = strlen(here);
    return n > 1 && !strncmp(path, here, n) && path[n] == '/' ? path + n + 1
                                                              : path;
}

static void costly_lines(FILE *to, const cag_build_report *r)
{
    char lines[UI_TEXT + 16];

    for (int i = 0; i < r->n_line; i++) {
        const cag_build_line *l = &r->line[i];
        const cag_build_source *s = &r->source[l->source];

        lines[0] = 0;
        if (l->n_line > 1)
            ui_format(lines, sizeof lines, ", %lld lines",
                      (long long)l->n_line);
        ui_printf(to, TABLE_INDENT, "%8lld tokens  %s:%lld: %s%s\n",
                  (long long)l->n_tok,
                  ui_clean(strcmp(s->path, "-") ? from_here(s->path) : s->name),
                  (long long)l->line, l->kind, lines);
    }
}

/* What to leave out, the largest first, so that the rest fits. */
static void hint(FILE *to, const cag_build_report *r)
{
    enum { NAMED = 5 };
    int64_t need = r->n_tok + r->reserve - r->n_ctx;
    const cag_build_source **v = need > 0 ? by_size(r) : NULL;
    struct ui_wrap w;
    int n = 0;

    while (v && n < r->n_source && need > 0)
        need -= v[n++]->n_tok;
    if (v && need <= 0 && n < r->n_source) {
        ui_wrap_lines(&w, to, 2);
        if (n > NAMED)
            ui_wrap_printf(&w, "without the %d largest it fits: ", n);
        else
            ui_wrap_printf(&w, "without ");
        for (int i = 0; i < n && i < NAMED; i++)
            ui_wrap_printf(&w, "%s%s",
                           !i           ? ""
                           : i == n - 1 ? " and "
                                        : ", ",
                           ui_clean(v[i]->name));
        ui_wrap_printf(&w, n > NAMED ? ", ...\n" : " it fits\n");
        ui_wrap_end(&w);
    }
    free(v);
}

void report_table(FILE *to, const cag_build_report *r, bool all)
{
    int64_t sum = 0, rest = 0, room = r->n_ctx - r->reserve - r->n_tok;
    const cag_build_source **v = all ? NULL : by_size(r);
    int n = v && r->n_source > ALL ? LARGEST : r->n_source;

    for (int i = 0; i < r->n_source; i++) {
        const cag_build_source *s = v ? v[i] : &r->source[i];

        if (i < n)
            ui_printf(to, TABLE_INDENT, "%8lld tokens  %s\n",
                      (long long)s->n_tok, ui_clean(s->name));
        else
            rest += s->n_tok;
        sum += s->n_tok;
    }
    if (n < r->n_source)
        ui_printf(to, TABLE_INDENT,
                  "%8lld tokens  in %d more source%s (-n lists them)\n",
                  (long long)rest, r->n_source - n, ui_s(r->n_source - n));
    ui_printf(to, TABLE_INDENT,
              "%8lld tokens  instructions, headings and template\n",
              (long long)(r->n_tok - sum));
    ui_printf(to, TABLE_INDENT,
              "%8lld tokens  in all, of %lld; %lld kept free, %lld %s\n",
              (long long)r->n_tok, (long long)r->n_ctx, (long long)r->reserve,
              (long long)(room < 0 ? -room : room),
              room < 0 ? "too many" : "left over");
    if (r->skipped)
        ui_printf(to, 2, "%s\n", ui_clean(r->skipped));
    hint(to, r);
    free(v);
}

bool report_fits(const cag_build_report *r)
{
    return r->n_tok + r->reserve <= r->n_ctx;
}

void report_plan(const char *path, const cag_build_report *r, bool json)
{
    uint64_t free_bytes = places_free_memory();
    char a[UI_TEXT], b[UI_TEXT], c[UI_TEXT], d[UI_TEXT], e[UI_TEXT];
    const bool done = r->has_old && r->n_tok_kept == r->n_tok;

    if (!r->n_source || !r->n_ctx)
        return; /* failed before anything was counted */
    if (json) {
        json_plan(r, free_bytes);
        return;
    }
    report_table(stdout, r, true);
    if (done)
        ui_printf(stdout, 2, "%s is there: nothing to compute\n",
                  ui_clean(path));
    else if (r->has_old)
        ui_printf(stdout, 2, "%s is there: %lld tokens kept, %lld to compute\n",
                  ui_clean(path), (long long)r->n_tok_kept,
                  (long long)(r->n_tok - r->n_tok_kept));
    if (r->file_bytes)
        ui_printf(stdout, 2,
                  "file at most %s (%s); memory about %s to build, %s to ask "
                  "beside the model, free now %s%s%s%s\n",
                  ui_size(a, r->file_bytes), r->codec,
                  ui_size(b, r->build_bytes), ui_size(c, r->ask_bytes),
                  free_bytes ? ui_size(d, free_bytes) : "unknown",
                  done ? "" : "; about ",
                  done ? "" : ui_duration(e, r->about_s),
                  done ? "" : " to read it");
    if (r->n_line) {
        printf("what costs much and says little:\n");
        costly_lines(stdout, r);
    }
}
