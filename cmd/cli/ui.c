/*
 * ui.c - the start of a program, its messages, and the end of stdout.
 *
 * Every line that talks begins with the tool's name, is one line whatever a
 * file name holds, and first clears the progress line that may stand there.
 */
#include "cmd/cli/ui.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/ui_internal.h"
#include "cmd/cli/ui_wrap.h"

static int stdout_sys; /* errno of a flush of stdout that failed */

/*
 * A program may be started with 0, 1 or 2 closed; its first open file would
 * then become its stdout.  The stand-ins for 0 and 2 are harmless; the one
 * for 1 cannot be written to, so that lost results are an error.
 */
static void fill_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
}

void ui_start(const char *tool)
{
    fill_descriptors();
    ui.tool = tool;
    setlocale(LC_CTYPE, "");
    ui_start_signals();
}

/* --- messages ------------------------------------------------------------ */

bool ui_coloured(void)
{
    const char *no = getenv("NO_COLOR");

    if (ui.color != UI_AUTO)
        return ui.color == UI_ALWAYS;
    return !(no && *no) && ui_stderr_is_smart();
}

/* "cag-ask: " in a colour, then the text and the end of the line */
static void say(const char *colour, const char *label, const char *text)
{
    bool on = colour && ui_coloured();
    struct ui_wrap w;

    ui_progress_hide();
    ui_flush_stdout(); /* on a terminal the order is what happened */
    if (!isatty(2)) {  /* in one write: a log may have several writers */
        fprintf(stderr, "%s%s:%s %s%s\n", on ? colour : "", ui.tool,
                on ? "\033[0m" : "", label, text);
        return;
    }
    fprintf(stderr, "%s%s:%s ", on ? colour : "", ui.tool, on ? "\033[0m" : "");
    ui_wrap_lines(&w, stderr, 2);
    w.col = strlen(ui.tool) + 2;
    ui_wrap_put(&w, label, strlen(label));
    ui_wrap_message(&w, text);
    putc('\n', stderr);
}

#define RED    "\033[1;31m"
#define YELLOW "\033[1;33m"

static void vsay(const char *colour, const char *label, const char *fmt,
                 va_list ap)
{
    char text[2048];

    vsnprintf(text, sizeof text, fmt, ap);
    say(colour, label, ui_clean(text));
}

void ui_say_error(const char *text)
{
    say(RED, "", ui_clean(text));
}

void ui_warn(const char *fmt, ...)
{
    va_list ap;

    if (ui.quiet)
        return;
    va_start(ap, fmt);
    vsay(YELLOW, "warning: ", fmt, ap);
    va_end(ap);
}

void ui_note(const char *fmt, ...)
{
    va_list ap;

    if (ui.quiet)
        return;
    va_start(ap, fmt);
    vsay(NULL, "", fmt, ap);
    va_end(ap);
}

void ui_sign(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsay(YELLOW, "", fmt, ap);
    va_end(ap);
}

void ui_verbose(int level, const char *fmt, ...)
{
    va_list ap;

    if (ui.quiet || ui.verbose < level)
        return;
    va_start(ap, fmt);
    vsay(NULL, "", fmt, ap);
    va_end(ap);
}

int ui_exit_code(cag_status status)
{
    switch (status) {
    case CAG_OK:
        return UI_OK;
    case CAG_E_STALE:
    case CAG_E_CHANGED:
    case CAG_E_LOSS:
        return UI_NO;
    case CAG_E_USAGE:
        return UI_USAGE;
    case CAG_E_FORMAT:
    case CAG_E_CORRUPT:
    case CAG_E_MISMATCH:
    case CAG_E_LIMIT:
        return UI_DATA;
    case CAG_E_MISSING:
        return UI_NOINPUT;
    case CAG_E_UNSUPPORTED:
    case CAG_E_BACKEND:
        return UI_UNAVAILABLE;
    case CAG_E_NOMEM:
        return UI_NOMEM;
    case CAG_E_CREATE:
        return UI_CANTCREATE;
    case CAG_E_IO:
        return UI_IOERR;
    case CAG_E_LOCKED:
        return UI_TEMPFAIL;
    case CAG_E_CONFIG:
        return UI_CONFIG;
    case CAG_E_CANCELLED:
        return 128 + (ui_caught() ? ui_caught() : 2);
    default:
        return UI_SOFTWARE;
    }
}

int ui_error(const cag_error *err)
{
    char text[2048];
    int n = 0;

    if (err->status == CAG_E_CANCELLED && ui_caught())
        return ui_exit_code(err->status);
    if (err->file[0]) {
        n = ui_format(text, sizeof text, "%s:", ui_clean(err->file));
        if (err->line > 0)
            n += ui_format(text + n, sizeof text - (size_t)n, "%d:", err->line);
        if (err->line > 0 && err->column > 0)
            n += ui_format(text + n, sizeof text - (size_t)n,
                           "%d:", err->column);
        if (err->line <= 0 && err->offset >= 0)
            n += ui_format(text + n, sizeof text - (size_t)n,
                           " byte %lld:", (long long)err->offset);
        n += ui_format(text + n, sizeof text - (size_t)n, " ");
    }
    if (err->status == CAG_E_INTERNAL)
        n += ui_format(text + n, sizeof text - (size_t)n,
                       "internal error (a bug): ");
    ui_format(text + n, sizeof text - (size_t)n, "%s",
              err->msg[0] ? ui_clean(err->msg) : cag_status_name(err->status));
    say(RED, "", text);
    return ui_exit_code(err->status);
}

int ui_fail(cag_status status, const char *file, const char *fmt, ...)
{
    cag_error err = CAG_ERROR_INIT;
    va_list ap;

    err.status = status;
    ui_format(err.file, sizeof err.file, "%s", file ? file : "");
    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    return ui_error(&err);
}

bool ui_flush_stdout(void)
{
    if (fflush(stdout) == 0)
        return !ferror(stdout);
    stdout_sys = errno;
    return false;
}

int ui_close_stdout(int status)
{
    bool bad = ferror(stdout) != 0;

    ui_progress_end();
    bad |= !ui_flush_stdout();
    if (!bad && close(1) != 0) {
        stdout_sys = errno;
        bad = true;
    }
    ui_end_by_signal();
    if (!bad)
        return status;
    /* stdio may have met the error earlier without telling which */
    if (stdout_sys != EPIPE)
        ui_fail(CAG_E_IO, "(standard output)", "cannot write%s%s",
                stdout_sys ? ": " : "", stdout_sys ? strerror(stdout_sys) : "");
    return UI_IOERR;
}
