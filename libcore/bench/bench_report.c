/*
 * bench_report.c - a report grows: facts, notes, and figures made from series
 * of measurements.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "util/error.h"
#include "util/mem.h"

void cag_bench_report_release(cag_bench_report *r)
{
    for (int i = 0; i < r->n_fact; i++) {
        mem_free(r->fact[i].key);
        mem_free(r->fact[i].value);
    }
    for (int i = 0; i < r->n_note; i++)
        mem_free(r->note[i]);
    mem_free(r->fact);
    mem_free(r->figure);
    mem_free(r->note);
    memset(r, 0, sizeof *r);
}

const char *cag_bench_get(const cag_bench_report *r, const char *key)
{
    for (int i = 0; i < r->n_fact; i++)
        if (!strcmp(r->fact[i].key, key))
            return r->fact[i].value;
    return NULL;
}

/* Room for one more element; arrays grow by half. */
static bool grow(void **v, int n, size_t size)
{
    size_t bytes;
    void *p;

    if (n && (n < 8 || (n & (n - 1)))) /* full at 8, 16, 32 ... */
        return true;
    if (!mem_mul(&bytes, n ? 2 * (size_t)n : 8, size))
        return false;
    p = mem_realloc(*v, bytes);
    if (p)
        *v = p;
    return p != NULL;
}

cag_status cag_bench_set(cag_bench_report *r, const char *key,
                         const char *value, cag_error *err)
{
    char *v = mem_strdup(value), *k = NULL;
    void *fact = r->fact;

    for (int i = 0; v && i < r->n_fact; i++)
        if (!strcmp(r->fact[i].key, key)) {
            mem_free(r->fact[i].value);
            r->fact[i].value = v;
            return CAG_OK;
        }
    k = v ? mem_strdup(key) : NULL;
    if (!k || !grow(&fact, r->n_fact, sizeof *r->fact)) {
        mem_free(k);
        mem_free(v);
        return cag_fail_nomem(err, "report");
    }
    r->fact = fact;
    r->fact[r->n_fact++] = (cag_bench_fact){ k, v };
    return CAG_OK;
}

cag_status cag_bench_note(cag_bench_report *r, const char *text, cag_error *err)
{
    char *copy = mem_strdup(text);
    void *note = r->note;

    if (!copy || !grow(&note, r->n_note, sizeof *r->note)) {
        mem_free(copy);
        return cag_fail_nomem(err, "report");
    }
    r->note = note;
    r->note[r->n_note++] = copy;
    return CAG_OK;
}

cag_status bench_notef(cag_bench_report *r, cag_error *err, const char *fmt,
                       ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return cag_bench_note(r, text, err);
}

cag_status bench_series_init(struct bench_series *s, int n, cag_error *err)
{
    s->n = 0;
    s->cap = n;
    s->v = mem_alloc_array((size_t)n, sizeof *s->v);
    return s->v ? CAG_OK : cag_fail_nomem(err, "measurements");
}

void bench_series_release(struct bench_series *s)
{
    mem_free(s->v);
    s->v = NULL;
}

void bench_series_add(struct bench_series *s, double v)
{
    if (s->n < s->cap)
        s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double bench_median(const struct bench_series *s)
{
    if (!s->n)
        return 0;
    qsort(s->v, (size_t)s->n, sizeof *s->v, by_value);
    return s->n % 2 ? s->v[s->n / 2]
                    : (s->v[s->n / 2 - 1] + s->v[s->n / 2]) / 2;
}

cag_bench_figure bench_figure(const char *name, const char *unit,
                              int64_t context, cag_bench_better better)
{
    cag_bench_figure f = { .context = context, .better = better, .share = -1 };

    snprintf(f.name, sizeof f.name, "%s", name);
    snprintf(f.unit, sizeof f.unit, "%s", unit);
    return f;
}

cag_status bench_add(cag_bench_report *r, const cag_bench_figure *f,
                     const struct bench_series *s, cag_error *err)
{
    void *figure = r->figure;
    cag_bench_figure *to;

    if (!s->n)
        return CAG_OK;
    if (!grow(&figure, r->n_figure, sizeof *r->figure))
        return cag_fail_nomem(err, "report");
    r->figure = figure;
    to = &r->figure[r->n_figure++];
    *to = *f;
    to->n = s->n;
    to->median = bench_median(s);
    to->min = s->v[0];
    to->max = s->v[s->n - 1];
    return CAG_OK;
}

cag_status bench_add_one(cag_bench_report *r, const cag_bench_figure *f,
                         double v, cag_error *err)
{
    struct bench_series one = { &v, 1, 1 };

    return bench_add(r, f, &one, err);
}
