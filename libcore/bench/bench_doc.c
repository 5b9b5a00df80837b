/*
 * bench_doc.c - a report as JSON and back, and two of them compared.
 *
 *   {"schema": 1, "tool": "cag-bench", "facts": {key: text, ...},
 *    "figures": [{"name", "unit", "context": n|null, "batch": n|null,
 *                 "state": "warm"|"cold"|null,
 *                 "better": "lower"|"higher"|null, "n", "median", "min",
 *                 "max", "share": x|null}, ...], "notes": [text, ...]}
 *
 * Fields may be added; a reader ignores what it does not know.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "util/error.h"
#include "util/json.h"
#include "util/mem.h"

static const char *const better_names[] = { "lower", "higher", NULL };
enum { MAX_FIGURES = 100000, MAX_FACTS = 1000 };

/* ---------------------------------------------------------------- writing */

static bool set_or_null(jv *o, const char *key, bool has, jv *value)
{
    if (has)
        return jv_set(o, key, value);
    jv_free(value);
    return jv_set(o, key, jv_new_null());
}

static jv *figure_json(const cag_bench_figure *f)
{
    jv *o = jv_new_object();
    const char *better = better_names[f->better];

    if (o && jv_set_str(o, "name", f->name) && jv_set_str(o, "unit", f->unit) &&
        set_or_null(o, "context", f->context >= 0, jv_new_int(f->context)) &&
        set_or_null(o, "batch", f->batch > 0, jv_new_int(f->batch)) &&
        set_or_null(o, "state", *f->state,
                    jv_new_str(f->state, strlen(f->state))) &&
        (better ? jv_set_str(o, "better", better)
                : jv_set(o, "better", jv_new_null())) &&
        jv_set_int(o, "n", f->n) && jv_set_real(o, "median", f->median) &&
        jv_set_real(o, "min", f->min) && jv_set_real(o, "max", f->max) &&
        set_or_null(o, "share", f->share >= 0, jv_new_real(f->share)))
        return o;
    jv_free(o);
    return NULL;
}

static bool fill(jv *o, const cag_bench_report *r)
{
    jv *facts = jv_new_object(), *figures = jv_new_array(),
       *notes = jv_new_array();
    bool ok = facts && figures && notes;

    for (int i = 0; ok && i < r->n_fact; i++)
        ok = jv_set_str(facts, r->fact[i].key, r->fact[i].value);
    for (int i = 0; ok && i < r->n_figure; i++)
        ok = jv_append(figures, figure_json(&r->figure[i]));
    for (int i = 0; ok && i < r->n_note; i++)
        ok = jv_append(notes, jv_new_str(r->note[i], strlen(r->note[i])));
    if (!ok) {
        jv_free(facts);
        jv_free(figures);
        jv_free(notes);
        return false;
    }
    /* each takes its value over, also when it fails */
    ok = jv_set_int(o, "schema", 1) & jv_set_str(o, "tool", "cag-bench");
    ok &= jv_set(o, "facts", facts);
    ok &= jv_set(o, "figures", figures);
    ok &= jv_set(o, "notes", notes);
    return ok;
}

cag_status cag_bench_to_json(const cag_bench_report *r, char **text,
                             size_t *size, cag_error *err)
{
    struct buf b = BUF_INIT;
    jv *o = jv_new_object();
    bool ok = o && fill(o, r);

    if (ok)
        jv_dump(o, &b);
    jv_free(o);
    if (!ok || buf_failed(&b)) {
        buf_free(&b);
        return cag_fail_nomem(err, "report");
    }
    *text = buf_detach(&b, size);
    return *text ? CAG_OK : cag_fail_nomem(err, "report");
}

/* ---------------------------------------------------------------- reading */

static cag_status wrong(cag_error *err, const char *file, const char *what)
{
    return cag_fail(err, CAG_E_FORMAT, file, -1, "no report of cag-bench: %s",
                    what);
}

static bool copy_name(char *to, size_t size, const jv *o, const char *key,
                      bool needed)
{
    size_t n = 0;
    const char *s = jv_str(jv_get(o, key), &n);

    if (!s || !n)
        return !needed;
    if (n >= size || strlen(s) != n)
        return false;
    memcpy(to, s, n + 1);
    return true;
}

/* A number that a figure can be; JSON has no NaN, but 1e999 */
static bool number(const jv *o, const char *key, double *out)
{
    const jv *v = jv_get(o, key);

    if (jv_type(v) != JV_INT && jv_type(v) != JV_REAL)
        return false;
    *out = jv_num(v, 0);
    return isfinite(*out);
}

static bool figure_read(const jv *o, cag_bench_figure *f)
{
    int64_t n = jv_get_int(o, "n", 0), batch = jv_get_int(o, "batch", 0);
    const char *better = jv_get_str(o, "better", "");

    memset(f, 0, sizeof *f);
    f->context = jv_get_int(o, "context", -1);
    f->better = CAG_BENCH_NEITHER;
    for (int i = 0; better_names[i]; i++)
        if (!strcmp(better, better_names[i]))
            f->better = (cag_bench_better)i;
    if (!copy_name(f->name, sizeof f->name, o, "name", true) ||
        !copy_name(f->unit, sizeof f->unit, o, "unit", true) ||
        !copy_name(f->state, sizeof f->state, o, "state", false) || n < 1 ||
        n > 1000000 || batch < 0 || batch > 1000000 || f->context < -1 ||
        !number(o, "median", &f->median) || !number(o, "min", &f->min) ||
        !number(o, "max", &f->max))
        return false;
    f->n = (int)n;
    f->batch = (int)batch;
    if (!number(o, "share", &f->share) || f->share < 0)
        f->share = -1;
    return true;
}

static cag_status facts_read(const jv *facts, const char *file,
                             cag_bench_report *r, cag_error *err)
{
    cag_status st = CAG_OK;

    if (jv_type(facts) != JV_OBJECT || jv_count(facts) > MAX_FACTS)
        return wrong(err, file, "\"facts\" is no object");
    for (void *it = jv_iter(facts); !st && it; it = jv_next(facts, it)) {
        size_t n;
        const char *key = jv_iter_key(it, &n);
        const char *value = jv_str(jv_iter_value(it), &n);

        st = value ? cag_bench_set(r, key, value, err)
                   : wrong(err, file, "a fact is no text");
    }
    return st;
}

cag_status cag_bench_from_json(const char *text, size_t size, const char *name,
                               cag_bench_report *out, cag_error *err)
{
    cag_bench_report r = CAG_BENCH_REPORT_INIT;
    const jv *figures, *notes;
    jv *v = NULL;
    cag_status st = jv_parse(text, size, name, &v, err);

    if (st)
        return st;
    figures = jv_get(v, "figures");
    notes = jv_get(v, "notes");
    if (jv_get_int(v, "schema", 0) != 1)
        st = wrong(err, name, "\"schema\" is not 1");
    else if (jv_type(figures) != JV_ARRAY || jv_count(figures) > MAX_FIGURES)
        st = wrong(err, name, "\"figures\" is no array");
    if (!st)
        st = facts_read(jv_get(v, "facts"), name, &r, err);
    for (size_t i = 0; !st && i < jv_count(figures); i++) {
        cag_bench_figure f;
        struct bench_series one = { &f.median, 1, 1 };
        char what[64];

        snprintf(what, sizeof what, "figure %zu", i);
        if (!figure_read(jv_at(figures, i), &f)) {
            st = wrong(err, name, what);
            break;
        }
        st = bench_add(&r, &f, &one, err);
        if (!st)
            r.figure[r.n_figure - 1] = f;
    }
    for (size_t i = 0; !st && i < jv_count(notes); i++) {
        const char *s = jv_str(jv_at(notes, i), NULL);
        st = s ? cag_bench_note(&r, s, err)
               : wrong(err, name, "a note is no text");
    }
    jv_free(v);
    if (st)
        cag_bench_report_release(&r);
    else
        *out = r;
    return st;
}

/* ---------------------------------------------------------------- compare */

static const cag_bench_figure *find(const cag_bench_report *r,
                                    const cag_bench_figure *f)
{
    for (int i = 0; i < r->n_figure; i++) {
        const cag_bench_figure *g = &r->figure[i];
        if (!strcmp(f->name, g->name) && !strcmp(f->unit, g->unit) &&
            !strcmp(f->state, g->state) && f->context == g->context &&
            f->batch == g->batch)
            return g;
    }
    return NULL;
}

static void list_differences(const cag_bench_report *a,
                             const cag_bench_report *b, char out[256])
{
    static const char *const keys[] = { "cpu",    "threads",   "kernels",
                                        "device", "precision", "model_sha256",
                                        "codec",  "generated" };
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *x = cag_bench_get(a, keys[i]);
        const char *y = cag_bench_get(b, keys[i]);
        if ((!x && !y) || (x && y && !strcmp(x, y)))
            continue;
        n += (size_t)snprintf(out + n, 256 - n, "%s%s", n ? ", " : "", keys[i]);
    }
}

cag_status cag_bench_compare(const cag_bench_report *was,
                             const cag_bench_report *is,
                             double threshold_percent, cag_bench_change **out,
                             int *n, char differs[256], cag_error *err)
{
    cag_bench_change *c = mem_alloc_array((size_t)is->n_figure + 1, sizeof *c);

    if (!c)
        return cag_fail_nomem(err, "comparison");
    *n = 0;
    for (int i = 0; i < is->n_figure; i++) {
        const cag_bench_figure *f = &is->figure[i], *old = find(was, f);
        cag_bench_change *d = &c[*n];

        if (!old || f->better == CAG_BENCH_NEITHER || old->median <= 0 ||
            f->median <= 0)
            continue;
        d->was = old;
        d->is = f;
        /* a rate that halves is as bad as a time that doubles */
        d->percent = f->better == CAG_BENCH_LOWER
                         ? 100 * (f->median / old->median - 1)
                         : 100 * (old->median / f->median - 1);
        d->regression = d->percent > threshold_percent;
        (*n)++;
    }
    list_differences(was, is, differs);
    *out = c;
    return CAG_OK;
}
