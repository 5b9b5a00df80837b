/*
 * ui.c - messages, numbers for people, and the end of stdout.
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
#include <time.h>
#include <unistd.h>

#include "cmd/cli/ui_internal.h"

static int stdout_sys; /* errno of a flush of stdout that failed */

struct ui ui = { .tool = "cag" };
const char *const ui_when[] = { "auto", "always", "never", NULL };

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

/* --- text ---------------------------------------------------------------- */

size_t ui_utf8_len(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80   ? 1
                 : s[0] < 0xC2 ? 0
                 : s[0] < 0xE0 ? 2
                 : s[0] < 0xF0 ? 3
                 : s[0] < 0xF5 ? 4
                               : 0;

    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

/* Length of the character at s if a terminal may see it: no control. */
static size_t printable(const unsigned char *s, size_t n)
{
    if (s[0] < 0x20 || s[0] == 0x7F)
        return 0;
    if (s[0] == 0xC2 && n > 1 && s[1] < 0xA0) /* C1 */
        return 0;
    return ui_utf8_len(s, n);
}

const char *ui_clean(const char *s)
{
    static char bufs[4][2048];
    static int turn;
    char *out = bufs[turn++ & 3], *p = out, *end = out + sizeof bufs[0] - 8;
    size_t n = strlen(s);

    while (n > 0 && p < end) {
        size_t len = printable((const unsigned char *)s, n);
        if (len > 0) {
            memcpy(p, s, len);
            p += len;
        } else {
            len = 1;
            if (*s == '\n')
                p += ui_format(p, 8, "\\n");
            else if (*s == '\t')
                p += ui_format(p, 8, "\\t");
            else
                p += ui_format(p, 8, "\\x%02x", (unsigned char)*s);
        }
        s += len;
        n -= len;
    }
    *p = 0;
    return out;
}

void ui_put_text(FILE *to, const char *text, size_t n)
{
    if (!isatty(fileno(to))) {
        fwrite(text, 1, n, to);
        return;
    }
    while (n > 0) {
        size_t len = printable((const unsigned char *)text, n);
        if (len == 0 && (*text == '\n' || *text == '\t'))
            len = 1;
        if (len > 0)
            fwrite(text, 1, len, to);
        else
            fputs("\xEF\xBF\xBD", to);
        len += len == 0;
        text += len;
        n -= len;
    }
}

int ui_format(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(out, size, fmt, ap);
    va_end(ap);
    if (n < 0)
        return 0;
    return (size_t)n < size ? n : (int)size - 1;
}

/* --- messages ------------------------------------------------------------ */

bool ui_stderr_is_smart(void)
{
    const char *term = getenv("TERM");

    return isatty(2) && term && *term && strcmp(term, "dumb") != 0;
}

static bool coloured(void)
{
    const char *no = getenv("NO_COLOR");

    if (ui.color != UI_AUTO)
        return ui.color == UI_ALWAYS;
    return !(no && *no) && ui_stderr_is_smart();
}

/* "cag-ask: " in a colour, then the text and the end of the line */
static void say(const char *colour, const char *label, const char *text)
{
    bool on = colour && coloured();

    ui_progress_end();
    ui_flush_stdout(); /* on a terminal the order is what happened */
    fprintf(stderr, "%s%s:%s %s%s\n", on ? colour : "", ui.tool,
            on ? "\033[0m" : "", label, text);
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

/* --- numbers ------------------------------------------------------------- */

const char *ui_size(char out[UI_TEXT], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB",
                                         "TiB", "PiB", "EiB" };
    double v = (double)bytes / 1024;
    int u = 0;

    if (bytes < 1024) {
        ui_format(out, UI_TEXT, "%d B", (int)bytes);
        return out;
    }
    /* 1023.96 would be printed as 1024.0 */
    for (; v >= 1023.95 && u < 5; u++)
        v /= 1024;
    ui_format(out, UI_TEXT, "%.1f %s", v, units[u]);
    return out;
}

const char *ui_duration(char out[UI_TEXT], double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9) {
        ui_format(out, UI_TEXT, "?");
        return out;
    }
    long s = (long)(seconds + 0.5);
    if (seconds < 0.9995)
        ui_format(out, UI_TEXT, "%.0f ms", seconds * 1000);
    else if (seconds < 59.95)
        ui_format(out, UI_TEXT, "%.1f s", seconds);
    else if (s < 3600)
        ui_format(out, UI_TEXT, "%ldm%02lds", s / 60, s % 60);
    else if (s < 86400)
        ui_format(out, UI_TEXT, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    else
        ui_format(out, UI_TEXT, "%ldd%02ldh", s / 86400, s % 86400 / 3600);
    return out;
}

double ui_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
