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
#include <unistd.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

static struct {
    _Atomic(const char *) what, unit;
    _Atomic uint64_t done, total, start_ms;
} now;

char ui_tokens[] = "tokens", ui_bytes[] = "bytes", ui_rows[] = "rows";

/*
 * Every kind of work keeps its own clock, so that one that is interrupted by
 * another, as a prefill is by its checkpoints, goes on with its true time.
 * The rate is that since the older of two marks, which move: work that
 * becomes slower as it goes on, and a start that was given, do not count for
 * ever.
 */
struct work {
    char what[64]; /* a copy: a caller's text may vanish */
    uint64_t start_ms, done;
    struct {
        double s;
        uint64_t done;
    } mark[2];
};
enum { N_WORK = 8 };
static struct work works[N_WORK];

#define MARK_S 8.0

static double last_draw;
static volatile sig_atomic_t drawn;

static uint64_t now_ms(void)
{
    return (uint64_t)(ui_now() * 1000);
}

static bool wanted(void)
{
    if (ui.progress != UI_AUTO)
        return ui.progress == UI_ALWAYS;
    return !ui.quiet && ui_stderr_is_smart();
}

static struct work *work_of(const char *what)
{
    static int turn;
    struct work *w;

    for (w = works; w < works + N_WORK; w++)
        if (!strcmp(w->what, what))
            return w;
    w = &works[turn++ % N_WORK];
    *w = (struct work){ .done = UINT64_MAX };
    ui_format(w->what, sizeof w->what, "%s", what);
    return w;
}

static void keep_time(struct work *w, uint64_t done)
{
    double t = ui_now();

    if (done < w->done) { /* it begins, or begins again */
        w->start_ms = now_ms();
        for (int i = 0; i < 2; i++) {
            w->mark[i].s = t;
            w->mark[i].done = done;
        }
    }
    w->done = done;
    if (t - w->mark[1].s >= MARK_S) {
        w->mark[0] = w->mark[1];
        w->mark[1].s = t;
        w->mark[1].done = done;
    }
}

/* Per second, or 0 where it cannot be said yet. */
static double rate_of(const struct work *w)
{
    double s = ui_now() - w->mark[0].s;

    return s >= 0.5 && w->done > w->mark[0].done
               ? (double)(w->done - w->mark[0].done) / s
               : 0;
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

/* Whole seconds below a minute: tenths would only flicker. */
static const char *time_left(char out[UI_TEXT], double s)
{
    if (s < 59)
        ui_format(out, UI_TEXT, "%d s", (int)s + 1);
    else
        ui_duration(out, s);
    return out;
}

/* The parts of the line; the higher its number, the sooner one is left out
 * where the line is too long for the terminal. */
enum part { P_WHAT, P_PERCENT, P_LEFT, P_COUNT, P_TOOL, P_RATE, N_PART };

static void make_parts(char part[N_PART][160], const struct work *w,
                       const char *unit, uint64_t total)
{
    char a[UI_TEXT], b[UI_TEXT];
    bool bytes = unit == ui_bytes, named = unit && !strcmp(w->what, unit);
    double rate = rate_of(w);
    int n = 0;

    for (int i = 0; i < N_PART; i++)
        part[i][0] = 0;
    ui_format(part[P_TOOL], 160, "%s: ", ui.tool);
    if (!named) /* "17/40 rows" says what it is about */
        ui_format(part[P_WHAT], 160, "%s ", ui_clean(w->what));
    if (total > 0 && !named)
        ui_format(part[P_PERCENT], 160, "%3d%%  ",
                  (int)(100.0 * (double)w->done / (double)total));
    if (!unit && !total) /* nothing is counted */
        return;
    n = ui_format(part[P_COUNT], 160, "%s", amount(a, (double)w->done, bytes));
    if (total > 0)
        n += ui_format(part[P_COUNT] + n, (size_t)(160 - n), "/%s",
                       amount(b, (double)total, bytes));
    ui_format(part[P_COUNT] + n, (size_t)(160 - n), "%s%s  ",
              unit && !bytes ? " " : "", unit && !bytes ? unit : "");
    if (rate > 0)
        ui_format(part[P_RATE], 160, "%s/s  ", amount(a, rate, bytes));
    if (rate > 0 && total > w->done)
        ui_format(part[P_LEFT], 160, "%s left",
                  time_left(a, (double)(total - w->done) / rate));
}

static void draw(const struct work *w, const char *unit, uint64_t total)
{
    static const enum part order[] = { P_TOOL,  P_WHAT, P_PERCENT,
                                       P_COUNT, P_RATE, P_LEFT };
    char part[N_PART][160], line[N_PART * 160];
    bool smart = ui_stderr_is_smart();
    size_t wide = smart ? (size_t)ui_columns(2) - 1 : sizeof line;
    int n_part = N_PART, n;

    make_parts(part, w, unit, total);
    do {
        n = 0;
        for (int i = 0; i < N_PART; i++)
            if ((int)order[i] < n_part)
                n += ui_format(line + n, sizeof line - (size_t)n, "%s",
                               part[order[i]]);
        while (n > 0 && line[n - 1] == ' ')
            line[--n] = 0;
    } while (ui_width(line, (size_t)n) > wide && --n_part > P_PERCENT + 1);
    /* a log or pipe gets whole lines, a terminal one line again and again */
    if (smart)
        fprintf(stderr, "\r\033[K%.*s", (int)ui_fitting(line, (size_t)n, wide),
                line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

bool ui_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct work *w = work_of(what ? what : "working");
    bool fresh = w->what != atomic_load(&now.what) || done < w->done;

    keep_time(w, done);
    atomic_store(&now.unit, (const char *)ctx);
    atomic_store(&now.done, done);
    atomic_store(&now.total, total);
    atomic_store(&now.start_ms, w->start_ms);
    atomic_store(&now.what, w->what);
    if (wanted()) {
        double t = ui_now();
        double pause = ui_stderr_is_smart() ? 0.1 : 2.0;
        if (fresh || t - last_draw >= pause || (total && done == total)) {
            draw(w, ctx, total);
            last_draw = t;
            drawn = ui_stderr_is_smart();
        }
    }
    return ui_caught() == 0;
}

void ui_progress_hide(void)
{
    if (drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        drawn = false;
    }
}

void ui_progress_end(void)
{
    ui_progress_hide();
    atomic_store(&now.what, NULL);
    memset(works, 0, sizeof works);
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
        if (!unit || strcmp(what, unit)) {
            n = put_str(line, n, cap, what);
            n = put_str(line, n, cap, " ");
        }
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
