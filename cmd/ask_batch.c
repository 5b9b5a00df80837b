/*
 * ask_batch.c - rows in, rows out: lines of a file or of standard input.
 *
 * With -o the rows go to FILE.part, each flushed as it is written, and the
 * file is renamed when all are there.  --resume keeps the rows of an
 * interrupted run: a row that comes out byte for byte as it stands in
 * FILE.part is not written again; at the first difference the rest is cut off
 * and written anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ask_common.h"
#include "cmd/opt.h"
#include "cmd/ui.h"

struct batch_io {
    FILE       *in;
    const char *in_name;
    char       *line;
    size_t      line_cap;
    int         fd;              /* of FILE.part, -1: stdout                */
    const char *part;            /* its name                                */
    char       *old;             /* what FILE.part held                     */
    size_t      old_size, kept;  /* [0, kept) of it stands                  */
    bool        cut;
};

static const char *next_line(void *ctx, size_t *size, cag_error *err)
{
    struct batch_io *io = ctx;
    ssize_t n;

    if (ui_caught())
        return NULL;
    errno = 0;
    n = getline(&io->line, &io->line_cap, io->in);
    if (n < 0) {
        if (ferror(io->in)) {
            err->status = CAG_E_IO;
            snprintf(err->file, sizeof err->file, "%s", io->in_name);
            snprintf(err->msg, sizeof err->msg, "cannot read: %s",
                     strerror(errno));
        }
        return NULL;
    }
    if (n && io->line[n - 1] == '\n')
        io->line[--n] = 0;
    *size = (size_t)n;
    return io->line;
}

static cag_status fail(const struct batch_io *io, cag_error *err)
{
    err->status = CAG_E_IO;
    err->sys = errno;
    snprintf(err->file, sizeof err->file, "%s",
             io->fd < 0 ? "standard output" : io->part);
    snprintf(err->msg, sizeof err->msg, "cannot write: %s", strerror(errno));
    return CAG_E_IO;
}

static cag_status put_row(void *ctx, const char *row, size_t n, bool failed,
                          cag_error *err)
{
    struct batch_io *io = ctx;

    (void)failed;
    if (io->fd < 0) {
        ui_progress_end();
        if (fwrite(row, 1, n, stdout) != n || fflush(stdout) != 0)
            return fail(io, err);
        return CAG_OK;
    }
    if (!io->cut && io->old_size - io->kept >= n &&
        !memcmp(io->old + io->kept, row, n)) {
        io->kept += n;
        return CAG_OK;
    }
    if (!io->cut) {
        if (ftruncate(io->fd, (off_t)io->kept) != 0 ||
            lseek(io->fd, 0, SEEK_END) < 0)
            return fail(io, err);
        io->cut = true;
    }
    while (n) {
        ssize_t w = write(io->fd, row, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return fail(io, err);
        row += w;
        n -= (size_t)w;
    }
    return CAG_OK;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Open FILE.part; with --resume its rows, or those of FILE, are *done. */
static int open_part(const struct ask_opts *o, struct batch_io *io,
                     char *part, char **done, size_t *done_size)
{
    cag_error err = CAG_ERROR_INIT;

    if (o->resume && exists(part)) {
        if (cag_read_file(part, &io->old, &io->old_size, &err))
            return ui_error(&err);
        *done = io->old;
        *done_size = io->old_size;
    } else if (o->resume && exists(o->output)) {
        if (cag_read_file(o->output, done, done_size, &err))
            return ui_error(&err);
    }
    io->fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC |
                            (io->old ? 0 : O_TRUNC), 0666);
    if (io->fd < 0)
        return ui_fail(CAG_E_CREATE, part, "cannot create: %s",
                       strerror(errno));
    io->part = part;
    return UI_OK;
}

/* All rows are there: FILE.part becomes FILE. */
static int close_part(const struct ask_opts *o, struct batch_io *io)
{
    if ((!io->cut && ftruncate(io->fd, (off_t)io->kept) != 0) ||
        fsync(io->fd) != 0 || rename(io->part, o->output) != 0)
        return ui_fail(CAG_E_IO, o->output, "cannot complete the file: %s",
                       strerror(errno));
    return UI_OK;
}

static void summary(const struct ask_opts *o, const cag_batch_report *r)
{
    char t[UI_TEXT];

    if (o->dry_run)
        ui_note("%lld rows checked, %lld bad", (long long)r->n_row,
                (long long)r->n_failed);
    else if (o->usage || o->output)
        ui_note("%lld rows: %lld answered, %lld failed, %lld from an earlier "
                "run; %lld tokens in %s, %.1f tokens/s",
                (long long)(r->n_ok + r->n_failed),
                (long long)(r->n_ok - r->n_resumed), (long long)r->n_failed,
                (long long)r->n_resumed, (long long)r->n_generated,
                ui_duration(t, r->seconds),
                r->seconds > 0 ? (double)r->n_generated / r->seconds : 0.0);
}

static int run(const struct ask_opts *o, cag_kb *kb, struct batch_io *io,
               const char *done, size_t done_size)
{
    cag_batch_opts b = { .params = o->params, .parallel = o->parallel,
                         .unordered = o->unordered,
                         .fail_fast = o->fail_fast,
                         .check_only = o->dry_run, .format = o->format,
                         .done = done, .done_size = done_size };
    cag_batch_report r;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;

    /* a coprocess waits for each answer before it sends the next question */
    if (!b.parallel && !strcmp(o->batch, "-"))
        b.parallel = 1;
    ui_catch(true);
    st = cag_kb_batch(kb, &b, next_line, put_row, io, &r, &err);
    ui_catch(false);
    ui_progress_end();
    if (st)
        return err.sys == EPIPE ? UI_IOERR : ui_error(&err);
    if (ui_caught())
        return UI_OK;          /* ui_close_stdout ends by the signal */
    summary(o, &r);
    if (r.n_failed > o->max_errors || (o->fail_fast && r.n_failed))
        return UI_BATCH_ERRORS;
    if (!r.n_row)
        ui_warn("%s: no questions", ui_clean(io->in_name));
    return io->fd >= 0 ? close_part(o, io) : UI_OK;
}

int ask_batch(const struct ask_opts *o, cag_kb *kb)
{
    struct batch_io io = { .fd = -1, .in = stdin,
                           .in_name = "standard input" };
    char *part = NULL, *done = NULL;
    size_t done_size = 0;
    int status = UI_OK;

    if (strcmp(o->batch, "-")) {
        io.in_name = o->batch;
        io.in = fopen(o->batch, "re");
        if (!io.in)
            return ui_fail(CAG_E_MISSING, o->batch, "cannot read: %s",
                           strerror(errno));
    }
    if (o->output && !o->dry_run) {
        if (asprintf(&part, "%s.part", o->output) < 0)
            status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
        else
            status = open_part(o, &io, part, &done, &done_size);
    }
    if (!status)
        status = run(o, kb, &io, done, done_size);
    if (io.fd >= 0)
        close(io.fd);
    if (io.in != stdin)
        fclose(io.in);
    free(io.line);
    free(part);
    if (done != io.old)
        cag_free(done);
    cag_free(io.old);
    return status;
}
