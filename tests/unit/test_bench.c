/*
 * test_bench.c - reports of cag-bench in memory: series, JSON and back,
 * comparison; and no allocation whose failure leaks or crashes, in a whole
 * run as well.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "util/mem.h"

static void medians(void **state)
{
    static const struct {
        double v[5];
        int n;
        double want;
    } cases[] = {
        { { 3 }, 1, 3 },
        { { 5, 1 }, 2, 3 },
        { { 9, 1, 2 }, 3, 2 },
        { { 4, 3, 2, 1 }, 4, 2.5 },
        { { 1, 1000, 2, 3, 1 }, 5, 2 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_series s;

        assert_int_equal(bench_series_init(&s, 5, NULL), CAG_OK);
        assert_true(bench_median(&s) == 0);
        for (int k = 0; k < cases[i].n; k++)
            bench_series_add(&s, cases[i].v[k]);
        assert_true(bench_median(&s) == cases[i].want);
        bench_series_release(&s);
    }
}

/* A report with n figures; false when out of memory. */
static bool make(cag_bench_report *r, int n, double factor)
{
    cag_bench_figure f = {
        .name = "ttft", .unit = "s", .state = "warm", .context = 0, .share = -1
    };

    if (cag_bench_set(r, "cpu", "one", NULL) ||
        cag_bench_set(r, "cpu", "two", NULL) ||
        cag_bench_set(r, "git", "", NULL) ||
        cag_bench_note(r, "caf\xc3\xa9 \"|\"", NULL))
        return false;
    for (int i = 0; i < n; i++) {
        f.context = i;
        f.better = i % 3;
        f.batch = i % 2;
        f.share = i % 4 ? 0.25 * i : -1;
        if (bench_add_one(r, &f, factor * (i + 0.1), NULL))
            return false;
    }
    return true;
}

static void json_and_back(void **state)
{
    cag_bench_report r = CAG_BENCH_REPORT_INIT, back = CAG_BENCH_REPORT_INIT;
    cag_error err = CAG_ERROR_INIT;
    char *text, *again;
    size_t n, n_again;

    (void)state;
    assert_true(make(&r, 100, 1));
    assert_string_equal(cag_bench_get(&r, "cpu"), "two");
    assert_null(cag_bench_get(&r, "gpu"));
    assert_int_equal(cag_bench_to_json(&r, &text, &n, &err), CAG_OK);
    assert_int_equal(cag_bench_from_json(text, n, "t", &back, &err), CAG_OK);
    assert_int_equal(back.n_figure, 100);
    for (int i = 0; i < 100; i++) {
        const cag_bench_figure *a = &r.figure[i], *b = &back.figure[i];

        assert_true(a->median == b->median && a->min == b->min);
        assert_true(a->share == b->share && a->better == b->better);
        assert_true(a->context == b->context && a->batch == b->batch);
    }
    assert_int_equal(cag_bench_to_json(&back, &again, &n_again, &err), CAG_OK);
    assert_string_equal(text, again);
    cag_free(text);
    cag_free(again);
    cag_bench_report_release(&r);
    cag_bench_report_release(&back);
}

static void worse_and_better(void **state)
{
    cag_bench_report a = CAG_BENCH_REPORT_INIT, b = CAG_BENCH_REPORT_INIT;
    cag_bench_change *c;
    char differs[256];
    int n;

    (void)state;
    assert_true(make(&a, 3, 1) && make(&b, 3, 2));
    assert_int_equal(cag_bench_set(&b, "threads", "4", NULL), CAG_OK);
    assert_int_equal(cag_bench_compare(&a, &b, 10, &c, &n, differs, NULL),
                     CAG_OK);
    /* the third is neither better nor worse */
    assert_int_equal(n, 2);
    assert_string_equal(differs, "threads");
    assert_true(c[0].percent > 99.9 && c[0].percent < 100.1);
    assert_true(c[0].regression);
    assert_true(c[1].percent > -50.1 && c[1].percent < -49.9);
    assert_false(c[1].regression);
    cag_free(c);
    cag_bench_report_release(&a);
    cag_bench_report_release(&b);
}

static void documents_without_memory(void **state)
{
    cag_bench_report a = CAG_BENCH_REPORT_INIT;
    char *text;
    size_t size;
    bool done = false;
    int64_t live;

    (void)state;
    assert_true(make(&a, 20, 1));
    assert_int_equal(cag_bench_to_json(&a, &text, &size, NULL), CAG_OK);
    live = mem_live();
    FOR_EACH_FAULT(n, done)
    {
        cag_bench_report r = CAG_BENCH_REPORT_INIT, b = CAG_BENCH_REPORT_INIT;
        cag_bench_change *c = NULL;
        cag_error err = CAG_ERROR_INIT;
        char *t = NULL, differs[256];
        int n_change;

        mem_fault(n, false);
        done = make(&b, 20, 2) &&
               !cag_bench_from_json(text, size, "t", &r, &err) &&
               !cag_bench_compare(&r, &b, 5, &c, &n_change, differs, &err) &&
               !cag_bench_to_json(&r, &t, &size, &err);
        mem_fault(0, false);
        if (!done && err.status)
            assert_int_equal(err.status, CAG_E_NOMEM);
        cag_free(t);
        cag_free(c);
        cag_bench_report_release(&r);
        cag_bench_report_release(&b);
        assert_int_equal(mem_live(), live);
        assert_in_range(n, 1, 2000);
    }
    cag_free(text);
    cag_bench_report_release(&a);
}

/* --------------------------------------------------------------- whole run */

static char dir[] = "/tmp/test_bench-XXXXXX", kvc[64], source[64];

static int setup(void **state)
{
    cag_source_spec src = { .path = source };
    cag_build_opts o;
    cag_build_report r;
    FILE *f;

    (void)state;
    if (!mkdtemp(dir))
        return 1;
    snprintf(kvc, sizeof kvc, "%s/kb.kvc", dir);
    snprintf(source, sizeof source, "%s/kb.md", dir);
    f = fopen(source, "w");
    if (!f || fputs("The Sparrow-7 flies 47 minutes.\n", f) < 0 || fclose(f))
        return 1;
    cag_build_opts_init(&o);
    memset(&r, 0, sizeof r);
    o.model = "tests/golden/models/qwen3";
    o.output = kvc;
    o.source = &src;
    o.n_source = 1;
    if (cag_build(&o, &r, NULL))
        return 1;
    cag_build_report_release(&r);
    return 0;
}

static int teardown(void **state)
{
    char lock[80];

    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", kvc);
    unlink(lock);
    unlink(kvc);
    unlink(source);
    return rmdir(dir); /* fails if a run left anything there */
}

static void options(cag_bench_opts *o)
{
    static const char *const question[] = { "How long?" };
    static const int batch[] = { 2 };

    cag_bench_opts_init(o);
    o->kvc = kvc;
    o->tmp_dir = dir;
    o->question = question;
    o->n_question = 1;
    o->batch = batch;
    o->n_batch = 1;
    o->repeat = 1;
    o->warmup = 0;
    o->n_gen = 2;
    o->engine.n_thread = 1;
}

static bool stop_later(void *ctx, const cag_progress *p)
{
    int *left = ctx;

    (void)p;
    return --*left > 0;
}

static void run_and_cancel(void **state)
{
    cag_bench_report r = CAG_BENCH_REPORT_INIT;
    cag_error err = CAG_ERROR_INIT;
    int64_t live = mem_live();
    cag_bench_opts o;
    int left = 1000000;

    (void)state;
    options(&o);
    o.hooks.progress = stop_later;
    o.hooks.ctx = &left;
    assert_int_equal(cag_bench_run(&o, &r, &err), CAG_OK);
    assert_true(r.n_figure > 20);
    cag_bench_report_release(&r);
    for (int stop = 1; stop < 1000000 - left; stop += 150) {
        int n = stop;

        o.hooks.ctx = &n;
        assert_int_equal(cag_bench_run(&o, &r, &err), CAG_E_CANCELLED);
        cag_bench_report_release(&r);
        assert_int_equal(mem_live(), live);
    }
    o.repeat = 0;
    assert_int_equal(cag_bench_run(&o, &r, &err), CAG_E_USAGE);
}

/* Some of the thousands of allocations of a run; more with CAG_TEST_LONG. */
static void run_without_memory(void **state)
{
    cag_bench_report r = CAG_BENCH_REPORT_INIT;
    cag_error err = CAG_ERROR_INIT;
    int64_t live = mem_live(), total, step;
    cag_bench_opts o;

    (void)state;
    options(&o);
    o.what = CAG_BENCH_LOAD | CAG_BENCH_DECODE | CAG_BENCH_BUILD;
    mem_fault(0, false);
    assert_int_equal(cag_bench_run(&o, &r, &err), CAG_OK);
    cag_bench_report_release(&r);
    total = mem_count();
    step = total / (getenv("CAG_TEST_LONG") ? 200 : 6) + 1;
    for (int64_t n = 1; n <= total; n += step) {
        cag_status st;

        mem_fault(n, false);
        st = cag_bench_run(&o, &r, &err);
        mem_fault(0, false);
        /* what can be left out may be: a remembered hash, say */
        if (st)
            assert_int_equal(st, CAG_E_NOMEM);
        cag_bench_report_release(&r);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(json_and_back),
        cmocka_unit_test(worse_and_better),
        cmocka_unit_test(documents_without_memory),
        cmocka_unit_test(run_and_cancel),
        cmocka_unit_test(run_without_memory),
    };

    return cmocka_run_group_tests_name("bench", tests, setup, teardown);
}
