/*
 * bench_words.c - see bench_words.h.
 */
#include "cmd/bench/bench_words.h"

#include <math.h>
#include <string.h>

#include "cmd/cli/ui_internal.h"

struct bench_unit bench_unit(const char *unit, double v)
{
    static const struct bench_unit bytes[] = {
        { "B", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 }
    };
    int k = 0;

    v = fabs(v);
    if (!strcmp(unit, "bytes")) {
        while (k < 3 && v >= 1000 * bytes[k].by)
            k++;
        return bytes[k];
    }
    if (!strcmp(unit, "s") && v < 0.9995e-3)
        return (struct bench_unit){ "us", 1e-6 };
    if (!strcmp(unit, "s") && v < 0.9995)
        return (struct bench_unit){ "ms", 1e-3 };
    return (struct bench_unit){ unit, 1 };
}

const char *bench_digits(char out[32], double v)
{
    ui_format(out, 32, fabs(v) >= 99.95 ? "%.0f" : "%.3g", v);
    return out;
}

const char *bench_amount(char out[48], const char *unit, double v)
{
    struct bench_unit u = bench_unit(unit, v);
    char n[32];

    ui_format(out, 48, "%s %s", bench_digits(n, v / u.by), u.name);
    return out;
}

const cag_bench_figure *bench_find(const cag_bench_report *r, const char *name)
{
    const cag_bench_figure *best = NULL;

    for (int i = 0; i < r->n_figure; i++) {
        const cag_bench_figure *f = &r->figure[i];

        if (!strcmp(f->name, name) && strcmp(f->state, "cold") &&
            (!best || f->context > best->context))
            best = f;
    }
    return best;
}

/* Both as seconds, however small one is: they are to be compared. */
static const char *seconds(char out[32], double s)
{
    ui_format(out, 32,
              s < 0.995  ? "%.2f s"
              : s < 9.95 ? "%.1f s"
                         : "%.0f s",
              s);
    return out;
}

const char *bench_summary(const cag_bench_report *r, char out[256])
{
    static const char *const names[][3] = {
        { "ttft", "ttft_uncached", "from the start of cag-ask" },
        { "first_token", "first_token_uncached", "with the model loaded" },
    };
    char a[32], b[32];

    out[0] = 0;
    for (int i = 0; i < 2; i++) {
        const cag_bench_figure *with = bench_find(r, names[i][0]);
        const cag_bench_figure *without = bench_find(r, names[i][1]);
        double ratio;

        if (!with || !without || with->context != without->context ||
            !(with->median > 0))
            continue;
        ratio = without->median / with->median;
        ui_format(out, 256,
                  ratio >= 1.05 ? "%s instead of %s to the first token, %.*f "
                                  "times as fast: %lld tokens of knowledge, %s"
                                : "%s and %s to the first token with and "
                                  "without the cache (%.*f times): %lld tokens "
                                  "of knowledge, %s",
                  seconds(a, with->median), seconds(b, without->median),
                  ratio < 9.95 ? 1 : 0, ratio, (long long)with->context,
                  names[i][2]);
        return out;
    }
    return out;
}
