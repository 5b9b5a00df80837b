/*
 * test_bench_axes.c - ticks are round, and axes hold what is drawn on them.
 */
#include "tests/lib/unit.h"

#include <math.h>

#include "cmd/bench/bench_axes.h"
#include "cmd/bench/bench_words.h"

/* v is 1, 2 or 5 times a power of ten. */
static bool is_round(double v)
{
    double m = v / pow(10, floor(log10(v) + 1e-9));

    return fabs(m - 1) < 1e-6 || fabs(m - 2) < 1e-6 || fabs(m - 5) < 1e-6;
}

static void ticks_are_round(void **state)
{
    (void)state;
    for (double high = 1e-6; high < 1e9; high *= 1.37) {
        struct axis a = axis_of_values(high / 3, high, 0, 100);
        int n = 0;
        double v;

        assert_false(a.is_log);
        assert_true(is_round(a.step));
        assert_true(a.v1 >= high * (1 - 1e-9) && a.v1 < 2 * high + a.step);
        while (axis_tick(&a, n, &v))
            n++;
        assert_in_range(n, 3, 6);
        assert_true(axis_at(&a, high) > 45 && axis_at(&a, high) <= 100.0001);
        a = axis_of_values(high / 30, high, 0, 100);
        assert_true(a.is_log);
        for (n = 0; axis_tick(&a, n, &v); n++)
            assert_true(fabs(log10(v) - round(log10(v))) < 1e-6);
        assert_in_range(n, 3, 4);
        assert_true(axis_at(&a, high / 30) >= -0.001 &&
                    axis_at(&a, high) <= 100.001);
    }
}

static void odd_values_have_an_axis(void **state)
{
    struct axis a = axis_of_values(0, 0, 0, 100);

    (void)state;
    assert_true(axis_at(&a, 0) == 0 && isfinite(axis_at(&a, 1)));
    a = axis_of_sizes(300, 300, 0, 100);
    assert_true(fabs(axis_at(&a, 300) - 50) < 1e-9);
    a = axis_of_sizes(256, 1024, 0, 100);
    assert_true(fabs(axis_at(&a, 512) - 50) < 1e-9);
}

static void units_for_people(void **state)
{
    static const struct {
        const char *unit;
        double v;
        const char *text;
    } t[] = {
        { "s", 0.0863, "86.3 ms" },      { "s", 1.4, "1.4 s" },
        { "s", 0.00002, "20 us" },       { "s", 0.9999, "1 s" },
        { "bytes", 11489280, "11 MiB" }, { "bytes", 6344704, "6.05 MiB" },
        { "bytes", 400, "400 B" },       { "tokens/s", 630.4, "630 tokens/s" },
        { "bytes", 5e9, "4.66 GiB" },    { "tokens", 0, "0 tokens" },
    };
    char out[48];

    (void)state;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        assert_string_equal(bench_amount(out, t[i].unit, t[i].v), t[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(odd_values_have_an_axis),
        cmocka_unit_test(units_for_people),
    };
    return cmocka_run_group_tests_name("bench_axes", tests, NULL, NULL);
}
