/*
 * ask_batch.c - rows in, rows out: lines of a file or of standard input.
 *
 * With -o the rows go to FILE.part, each written as it is done, and the file
 * is renamed when all are there.  --resume takes the answers that FILE.part
 * and FILE hold: rows that come out byte for byte as they stand in FILE.part
 * are not written again; at the first difference (a torn last line, a changed
 * question) the rest is cut off and written anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/ask_common.h"
#include "cmd/ask_lines.h"
#include "cmd/ui.h"

struct batch_io {
    struct ask_lines in;         /* first: next and ready get the struct    */
    int              fd;         /* of FILE.part, -1: stdout                */
    char            *out;        /* FILE, symbolic links followed; heap     */
    char            *part;       /* FILE.part; NULL: FILE is a device; heap */
    char            *old;        /* what FILE.part held                     */
    size_t           old_size, kept;            /* [0, kept) of it stands   */
    char            *done;       /* old, then what FILE held; heap          */
    size_t           done_size;
    bool             cut;
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

static cag_status fail(const struct batch_io *io, cag_error *err)
{
    err->status = CAG_E_IO;
    err->sys = errno;
    snprintf(err->file, sizeof err->file, "%s",
             io->part ? io->part : io->out);
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
        ui_put_text(stdout, row, n);
        if (ui_flush_stdout())
            return CAG_OK;
        err->status = CAG_E_IO;    /* ui_close_stdout tells it */
        return CAG_E_IO;
    }
    if (!io->cut && io->old_size - io->kept >= n &&
        !memcmp(io->old + io->kept, row, n)) {
        io->kept += n;
        return CAG_OK;
    }
    if (!io->cut) {
        if (io->part && (ftruncate(io->fd, (off_t)io->kept) != 0 ||
                         lseek(io->fd, 0, SEEK_END) < 0))
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

/* What FILE.part and FILE hold; a missing file holds nothing. */
static int read_old(struct batch_io *io)
{
    cag_error err = CAG_ERROR_INIT;
    char *file = NULL;
    size_t n = 0;

    if (cag_read_file(io->part, &io->old, &io->old_size, &err) ||
        (access(io->out, F_OK) == 0 && cag_read_file(io->out, &file, &n, &err)))
        return ui_error(&err);
    io->done = malloc(io->old_size + n + 2);
    if (!io->done) {
        cag_free(file);
        return ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    memcpy(io->done, io->old, io->old_size);
    /* a torn line of FILE.part must not run into FILE's first */
    io->done[io->old_size] = '\n';
    if (n)
        memcpy(io->done + io->old_size + 1, file, n);
    io->done_size = io->old_size + 1 + n;
    cag_free(file);
    return UI_OK;
}

/* FILE.part, locked.  A run that just ended may have renamed what was opened:
 * the file must still have its name. */
static int open_part(struct batch_io *io)
{
    struct stat a, b;

    for (;;) {
        io->fd = open(io->part, O_WRONLY | O_CLOEXEC | O_CREAT, 0666);
        if (io->fd < 0)
            return ui_fail(CAG_E_CREATE, io->part, "cannot create: %s",
                           strerror(errno));
        if (flock(io->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return ui_fail(CAG_E_LOCKED, io->part, "another run is writing it");
        if (fstat(io->fd, &a) == 0 && stat(io->part, &b) == 0 &&
            a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return UI_OK;
        close(io->fd);
    }
}

/* Open FILE.part, or FILE itself when it is a device or a pipe. */
static int open_output(const struct ask_opts *o, struct batch_io *io)
{
    struct stat st;
    bool there = stat(o->output, &st) == 0;
    int status;

    /* what /dev/stdout links to may be no path at all */
    io->out = there && S_ISREG(st.st_mode) ? realpath(o->output, NULL)
                                           : strdup(o->output);
    if (!io->out)
        return ui_fail(CAG_E_CREATE, o->output, "cannot create: %s",
                       strerror(errno));
    if (there && S_ISDIR(st.st_mode))
        return ui_fail(CAG_E_CREATE, o->output, "is a directory");
    if (there && !S_ISREG(st.st_mode)) {
        io->fd = open(io->out, O_WRONLY | O_CLOEXEC);
        return io->fd >= 0 ? UI_OK : ui_fail(CAG_E_CREATE, io->out,
                                             "cannot open: %s",
                                             strerror(errno));
    }
    if (asprintf(&io->part, "%s.part", io->out) < 0) {
        io->part = NULL;
        return ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    status = open_part(io);
    if (!status && o->resume)
        status = read_old(io);
    else if (!status && ftruncate(io->fd, 0) != 0)
        status = ui_fail(CAG_E_IO, io->part, "cannot write: %s",
                         strerror(errno));
    return status;
}

/* All rows are there: FILE.part becomes FILE. */
static int close_output(struct batch_io *io)
{
    if (io->part &&
        ((!io->cut && ftruncate(io->fd, (off_t)io->kept) != 0) ||
         fsync(io->fd) != 0 || rename(io->part, io->out) != 0))
        return ui_fail(CAG_E_IO, io->out, "cannot complete the file: %s",
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

/* Rows failed: each was a warning, which -q hides, so this is an error. */
static int too_many(const struct ask_opts *o, const struct batch_io *io,
                    const cag_batch_report *r)
{
    char where[600] = "";

    if (io->part)
        snprintf(where, sizeof where, "; the rows are in %s", io->part);
    ui_fail(CAG_E_FORMAT, io->in.name, "%lld of %lld rows failed%s%s",
            (long long)r->n_failed, (long long)(r->n_ok + r->n_failed),
            o->fail_fast ? ", the rest was not read" : "", where);
    return UI_BATCH_ERRORS;
}

static int run(const struct ask_opts *o, cag_kb *kb, struct batch_io *io)
{
    cag_batch_opts b = { .params = o->params, .parallel = o->parallel,
                         .unordered = o->unordered,
                         .fail_fast = o->fail_fast,
                         .check_only = o->dry_run, .format = o->format,
                         .name = io->in.name,
                         .done = io->done, .done_size = io->done_size,
                         .ready = line_ready };
    cag_batch_report r;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;

    ui_catch(true);
    st = cag_kb_batch(kb, &b, next_line, put_row, io, &r, &err);
    ui_catch(false);
    ui_progress_end();
    if (st && (ferror(stdout) || ui_caught()))
        return UI_IOERR;       /* ui_close_stdout says why */
    if (st)
        return ui_error(&err);
    if (ui_caught())
        return UI_OK;          /* ui_close_stdout ends by the signal */
    summary(o, &r);
    if (r.n_failed > o->max_errors || (o->fail_fast && r.n_failed))
        return too_many(o, io, &r);
    if (!r.n_row)
        ui_warn("%s: no questions", ui_clean(io->in.name));
    return io->fd >= 0 ? close_output(io) : UI_OK;
}

int ask_batch(const struct ask_opts *o, cag_kb *kb)
{
    struct batch_io io = { .fd = -1 };
    cag_error err = CAG_ERROR_INIT;
    int status;

    if (ask_lines_open(&io.in, o->batch, &err))
        return ui_error(&err);
    status = o->output && !o->dry_run ? open_output(o, &io) : UI_OK;
    if (!status)
        status = run(o, kb, &io);
    if (io.fd >= 0)
        close(io.fd);
    ask_lines_close(&io.in);
    free(io.out);
    free(io.part);
    free(io.done);
    cag_free(io.old);
    return status;
}
