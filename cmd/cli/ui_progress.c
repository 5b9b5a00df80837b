/*
 * ui_progress.c - one line on stderr that is rewritten, and SIGUSR1.
 *
 * The state lies in lock-free atomics, so that the signal handler can print
 * a line at any time, even while the program waits for something else.  The
 * handler formats with its own integer code: stdio is not safe there.
 */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

static struct {
    _Atomic(const char *) what, unit;
    _Atomic uint64_t done, total, start_ms;
} now;

char ui_tokens[] = "tokens", ui_bytes[] = "bytes";

static double last_draw;
static volatile sig_atomic_t drawn;
static char whats[8][64]; /* copies: a caller's text may vanish */

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool wanted(void)
{
    if (ui.progress != UI_AUTO)
        return ui.progress == UI_ALWAYS;
    return !ui.quiet && ui_stderr_is_smart();
}

static const char *keep_what(const char *what)
{
    static int turn;

    for (int i = 0; i < 8; i++)
        if (strcmp(whats[i], what) == 0)
            return whats[i];
    char *slot = whats[turn++ & 7];
    ui_format(slot, sizeof whats[0], "%s", what);
    return slot;
}

/* "1234", or "12.3 MiB" for bytes */
static const char *amount(char out[UI_TEXT], double v, bool bytes)
{
    if (bytes)
        return ui_size(out, (uint64_t)v);
    ui_format(out, UI_TEXT,
              v < 99.95 && v != (double)(uint64_t)v ? "%.1f" : "%.0f", v);
    return out;
}

static void draw(const char *what, const char *unit, uint64_t done,
                 uint64_t total, double seconds)
{
    char a[UI_TEXT], b[UI_TEXT], c[UI_TEXT], line[256];
    bool bytes = unit == ui_bytes;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    int n;

    n = ui_format(line, sizeof line, "%s: %s", ui.tool, ui_clean(what));
    if (total > 0)
        n += ui_format(line + n, sizeof line - (size_t)n, " %3d%%  %s/%s",
                       (int)(100.0 * (double)done / (double)total),
                       amount(a, (double)done, bytes),
                       amount(b, (double)total, bytes));
    else
        n += ui_format(line + n, sizeof line - (size_t)n, " %s",
                       amount(a, (double)done, bytes));
    if (unit && !bytes)
        n += ui_format(line + n, sizeof line - (size_t)n, " %s", unit);
    if (seconds >= 0.5 && done > 0) {
        n += ui_format(line + n, sizeof line - (size_t)n, "  %s/s",
                       amount(c, rate, bytes));
        if (total > done)
            ui_format(line + n, sizeof line - (size_t)n, "  %s left",
                      ui_duration(a, (double)(total - done) / rate));
    }
    /* a log or pipe gets whole lines, a terminal one line again and again */
    if (ui_stderr_is_smart())
        fprintf(stderr, "\r\033[K%.*s", 79, line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

bool ui_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const char *kept = keep_what(what ? what : "working");
    bool fresh =
        kept != atomic_load(&now.what) || done < atomic_load(&now.done);

    atomic_store(&now.unit, (const char *)ctx);
    atomic_store(&now.done, done);
    atomic_store(&now.total, total);
    if (fresh) {
        atomic_store(&now.start_ms, now_ms());
        atomic_store(&now.what, kept);
    }
    if (wanted()) {
        double t = ui_now();
        double pause = ui_stderr_is_smart() ? 0.1 : 2.0;
        if (fresh || t - last_draw >= pause || (total && done == total)) {
            draw(kept, ctx, done, total,
                 (double)(now_ms() - atomic_load(&now.start_ms)) / 1000);
            last_draw = t;
            drawn = ui_stderr_is_smart();
        }
    }
    return ui_caught() == 0;
}

void ui_progress_end(void)
{
    if (drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        drawn = false;
    }
    atomic_store(&now.what, NULL);
    atomic_store(&now.done, 0);
}

/* --- from a signal handler ----------------------------------------------- */

static size_t put_str(char *out, size_t n, size_t cap, const char *s)
{
    while (*s && n < cap)
        out[n++] = *s++;
    return n;
}

static size_t put_num(char *out, size_t n, size_t cap, uint64_t v)
{
    char digits[24];
    size_t k = sizeof digits;

    digits[--k] = 0;
    do
        digits[--k] = (char)('0' + v % 10);
    while (v /= 10);
    return put_str(out, n, cap, digits + k);
}

void ui_clear_progress(void)
{
    static const char clear[] = "\r\033[K";

    if (drawn)
        (void)!write(2, clear, sizeof clear - 1);
}

void ui_report_progress(void)
{
    char line[256];
    size_t n = 0, cap = sizeof line - 1;
    const char *what = atomic_load(&now.what), *unit = atomic_load(&now.unit);
    uint64_t done = atomic_load(&now.done), total = atomic_load(&now.total);

    if (drawn)
        n = put_str(line, n, cap, "\r\033[K");
    n = put_str(line, n, cap, ui.tool);
    n = put_str(line, n, cap, ": ");
    if (!what) {
        n = put_str(line, n, cap, "running");
    } else {
        n = put_str(line, n, cap, what);
        n = put_str(line, n, cap, " ");
        n = put_num(line, n, cap, done);
        if (total) {
            n = put_str(line, n, cap, "/");
            n = put_num(line, n, cap, total);
        }
        if (unit) {
            n = put_str(line, n, cap, " ");
            n = put_str(line, n, cap, unit);
        }
        n = put_str(line, n, cap, ", ");
        n = put_num(line, n, cap,
                    (now_ms() - atomic_load(&now.start_ms)) / 1000);
        n = put_str(line, n, cap, " s so far");
    }
    line[n++] = '\n';
    (void)!write(2, line, n);
}
