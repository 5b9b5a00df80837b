/*
 * ask_batch.c - rows in, rows out: lines of a file or of standard input, to
 * standard output or, with -o, to a file that can be continued (cag_rows).
 */
#include <cag/tool/batch_file.h>
#include <cag/tool/shard.h>
#include <cag/tool/text_file.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cmd/ask/ask_common.h"
#include "cmd/ask/ask_lines.h"
#include "cmd/ask/ask_shard.h"
#include "cmd/cli/ui.h"

struct batch_io {
    struct ask_lines in; /* first: next and ready get the struct */
    cag_rows *rows;      /* NULL: standard output                */
    const char *log;     /* or NULL */
    const cag_kb *kb;
    bool log_failed; /* and was told */
    bool text;       /* rows are lines, which do not say that they were cut */
};

static const char *next_line(void *ctx, size_t *size, cag_error *err)
{
    struct batch_io *io = ctx;

    return ask_lines_next(&io->in, size, err);
}

static bool line_ready(void *ctx)
{
    struct batch_io *io = ctx;

    return ask_lines_ready(&io->in);
}

bool ask_batch_progress(void *ctx, const cag_progress *p)
{
    const struct ask_opts *o = ctx;

    if (p->unit == CAG_UNIT_ROWS)
        return ui_progress(ui_rows, p->what, p->done,
                           p->done <= o->n_row ? o->n_row : 0);
    return ui_progress(ui_bytes, p->what, p->done, p->total);
}

/* An answer of this run, to the log. */
static cag_status log_row(struct batch_io *io, const char *row, size_t n,
                          cag_error *err)
{
    static const char begin[] = "{\"schema\":";

    if (n < sizeof begin || memcmp(row, begin, sizeof begin - 1) != 0) {
        err->status = CAG_E_USAGE;
        snprintf(err->msg, sizeof err->msg,
                 "--log needs rows as JSON: add --output-format jsonl");
    } else if (ask_log(io->log, io->kb, row, n - 1)) {
        err->status = CAG_E_IO;
        io->log_failed = true;
    }
    return err->status;
}

static cag_status put_row(void *ctx, const char *row, size_t n,
                          cag_row_kind kind, cag_error *err)
{
    struct batch_io *io = ctx;

    io->text = io->text || (n && row[0] != '{');
    if (io->log && kind == CAG_ROW_NEW && log_row(io, row, n, err))
        return err->status;
    if (io->rows)
        return cag_rows_put(io->rows, row, n, kind, err);
    ui_progress_hide();
    ui_put_text(stdout, row, n);
    if (ui_flush_stdout())
        return CAG_OK;
    err->status = CAG_E_IO; /* ui_close_stdout tells it */
    return CAG_E_IO;
}

static void summary(const struct ask_opts *o, const struct batch_io *io,
                    const cag_batch_report *r)
{
    char t[UI_TEXT];

    if (o->dry_run)
        ui_note("%lld row%s checked, %lld bad", (long long)r->n_row,
                ui_s(r->n_row), (long long)r->n_failed);
    else if (o->usage || o->output)
        ui_note("%lld row%s: %lld answered, %lld failed, %lld from an earlier "
                "run; %lld tokens in %s, %.1f tokens/s",
                (long long)(r->n_ok + r->n_failed), ui_s(r->n_ok + r->n_failed),
                (long long)(r->n_ok - r->n_resumed), (long long)r->n_failed,
                (long long)r->n_resumed, (long long)r->n_generated,
                ui_duration(t, r->seconds),
                r->seconds > 0 ? (double)r->n_generated / r->seconds : 0.0);
    if (r->n_cut && (io->text || o->usage || o->output))
        ui_note("%lld of %lld answer%s cut, after %lld tokens where their "
                "rows do not say otherwise; -n allows more",
                (long long)r->n_cut, (long long)r->n_ok,
                r->n_ok == 1 ? " was" : "s were", (long long)o->params.max_tok);
    if (r->n_withheld)
        ui_note("%lld answer%s withheld for want of evidence",
                (long long)r->n_withheld,
                r->n_withheld == 1 ? " was" : "s were");
}

/* Rows failed: each was a warning, which -q hides, so this is an error. */
static int too_many(const struct ask_opts *o, const struct batch_io *io,
                    const cag_batch_report *r)
{
    const char *part = io->rows ? cag_rows_part(io->rows) : NULL;
    char where[600] = "";

    if (part)
        snprintf(where, sizeof where,
                 "; the rows are in %s: mend the input and repeat the command "
                 "with --resume",
                 part);
    ui_fail(CAG_E_FORMAT, io->in.name, "%lld of %lld row%s failed%s%s",
            (long long)r->n_failed, (long long)(r->n_ok + r->n_failed),
            ui_s(r->n_ok + r->n_failed),
            o->fail_fast ? ", the rest was not read" : "", where);
    return UI_BATCH_ERRORS;
}

/* The last line of a shard whose rows are all there. */
static cag_status put_end(struct batch_io *io, const cag_batch_opts *b,
                          const cag_batch_report *r, cag_error *err)
{
    char *line = NULL;
    cag_shard s;
    size_t n;
    cag_status st = cag_shard_of(io->kb, b, r, &s, err);

    if (!st)
        st = cag_shard_line(&s, &line, &n, err);
    if (!st) /* no answer: it is not to be found by --resume */
        st = put_row(io, line, n, CAG_ROW_FAILED, err);
    if (!st)
        ui_note("shard %d of %d is complete: %lld of %lld rows, cache %.12s, "
                "options %s",
                s.shard, s.n_shard, (long long)s.n_row, (long long)s.n_input,
                s.content_id, s.options);
    cag_free(line);
    return st;
}

/* Of the values in a file of that name; 0: it holds text or JSON. */
static char separator_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && !strcasecmp(dot, ".csv")   ? ','
           : dot && !strcasecmp(dot, ".tsv") ? '\t'
                                             : 0;
}

static int run(const struct ask_opts *o, cag_kb *kb, struct batch_io *io)
{
    cag_batch_opts b;
    cag_batch_report r;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;
    bool bad;

    cag_batch_opts_init(&b);
    b.params = &o->params;
    b.parallel = o->parallel;
    b.unordered = o->unordered;
    b.fail_fast = o->fail_fast;
    b.check_only = o->dry_run;
    b.format = o->format;
    b.name = io->in.name;
    b.ready = line_ready;
    b.separator = separator_of(o->batch);
    b.question_field = o->question_field;
    b.shard = o->shard;
    b.n_shard = o->n_shard;
    if (o->resume && io->rows && cag_rows_part(io->rows))
        b.earlier = io->rows;
    ui_catch(true);
    st = cag_kb_batch(kb, &b, next_line, put_row, io, &r, &err);
    ui_catch(false);
    ui_progress_end();
    if (st && (ferror(stdout) || ui_caught() || io->log_failed))
        return UI_IOERR; /* ui_close_stdout says why, or it was told */
    if (st)
        return ui_error(&err);
    if (ui_caught())
        return UI_OK; /* ui_close_stdout ends by the signal */
    summary(o, io, &r);
    bad = r.n_failed > o->max_errors || (o->fail_fast && r.n_failed);
    if (!bad && o->n_shard && !o->dry_run && put_end(io, &b, &r, &err))
        return err.status && !ferror(stdout) ? ui_error(&err) : UI_IOERR;
    if (io->rows && !(o->fail_fast && r.n_failed) &&
        cag_rows_end(io->rows, !bad, &err))
        return ui_error(&err);
    if (!bad && o->n_shard && io->rows && cag_rows_part(io->rows))
        ask_shard_retire(o->pattern, o->output, o->shard, o->n_shard);
    if (bad)
        return too_many(o, io, &r);
    if (!r.n_input)
        ui_warn("%s: no questions", ui_clean(io->in.name));
    return UI_OK;
}

/* Where rows go; they would replace what is read. */
static cag_status open_rows(const struct ask_opts *o, const cag_kb *kb,
                            cag_rows **out, cag_error *err)
{
    const cag_rows_keep keep[] = {
        { strcmp(o->batch, "-") ? o->batch : "/dev/stdin",
          "what the batch reads" },
        { cag_kvc_get_info(cag_kb_get_kvc(kb))->path, "the cache" },
        { cag_kb_model_path(kb), "the model" }
    };

    cag_status st = cag_check_beside(cag_kb_get_kvc(kb), o->output, err);

    if (!st)
        st = cag_rows_open(o->output, o->resume, keep,
                           sizeof keep / sizeof *keep, out, err);

    return !st && o->resume && o->pattern && cag_rows_part(*out)
               ? ask_shard_also(*out, o->pattern, o->output, err)
               : st;
}

int ask_batch(struct ask_opts *o, cag_kb *kb)
{
    struct batch_io io = { .log = o->log, .kb = kb };
    cag_error err = CAG_ERROR_INIT;
    int status = UI_OK;

    if (ask_lines_open(&io.in, o->batch, &err))
        return ui_error(&err);
    o->n_row = ask_lines_count(&io.in);
    if (o->n_shard)
        o->n_row = (o->n_row + (uint64_t)(o->n_shard - 1 - o->shard)) /
                   (uint64_t)o->n_shard;
    if (o->output && !o->dry_run && open_rows(o, kb, &io.rows, &err))
        status = ui_error(&err);
    if (!status)
        status = run(o, kb, &io);
    cag_rows_close(io.rows);
    ask_lines_close(&io.in);
    return status;
}
