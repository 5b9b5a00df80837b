/*
 * test_loss_stats.c - the numbers of a receipt against sums written out once
 * more in long double with the C library's exp and log.
 */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "engine/loss_stats.h"
#include "util/rd.h"
#include "util/real.h"

enum { V = 1000 };

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static void logits(float *x, double spread)
{
    for (int i = 0; i < V; i++)
        x[i] = (float)(spread * (uniform() + uniform() + uniform() - 1.5));
}

static long double lse(const float *x)
{
    long double m = -INFINITY, s = 0;

    for (int i = 0; i < V; i++)
        m = x[i] > m ? (long double)x[i] : m;
    for (int i = 0; i < V; i++)
        s += expl((long double)x[i] - m);
    return m + logl(s);
}

static void close_to(double got, long double want, double tolerance)
{
    if (!(fabsl((long double)got - want) <= (long double)tolerance))
        fail_msg("%.17g, expected %.17Lg", got, want);
}

static void exp_and_log(void **state)
{
    (void)state;
    assert_true(real_exp(0) == 1 && real_exp(-INFINITY) == 0 &&
                real_exp(-1e9) == 0 && real_log(1) == 0);
    for (double x = -700; x <= 0; x += 0.37)
        close_to(real_exp(x) / exp(x), 1, 2e-14);
    for (double x = 1e-300; x < 1e300; x *= 1.7)
        close_to(real_log(x), logl((long double)x),
                 1e-15 + 2e-16 * fabs(log(x)));
    for (double x = 0.5; x < 2; x += 0.001)
        close_to(real_log(x), logl((long double)x), 3e-16);
}

static void one_row(void **state)
{
    (void)state;
    static float a[V], b[V];

    for (int n = 0; n < 40; n++) {
        struct loss_row r;
        long double kl = 0, za, zb;
        double noise = pow(10, -n % 7);

        seed = 7 + (uint64_t)n;
        logits(a, n % 3 ? 12 : 100);
        for (int i = 0; i < V; i++)
            b[i] = (float)((double)a[i] + noise * (uniform() - 0.5)) +
                   (n % 2 ? 3.0f : 0.0f);
        za = lse(a);
        zb = lse(b);
        for (int i = 0; i < V; i++) {
            long double p = (long double)a[i] - za, q = (long double)b[i] - zb;

            kl += expl(p) * (p - q);
        }
        assert_true(loss_of_row(a, b, V, 17, &r));
        close_to(r.kl, kl, 1e-13 + 1e-10 * (double)kl);
        close_to(r.nll_exact, za - (long double)a[17], 1e-12);
        close_to(r.nll_other, zb - (long double)b[17], 1e-12);
        /* equal logits: nothing, not a rounding error */
        assert_true(loss_of_row(a, a, V, -1, &r));
        assert_true(r.kl == 0 && r.nll_exact == 0 && r.nll_other == 0 &&
                    r.same);
    }
}

static void best_token_and_margin(void **state)
{
    (void)state;
    static const struct {
        float exact[4], other[4];
        bool same, clear;
    } c[] = {
        { { 1, 2, 3, 0 }, { 1, 2, 3, 0 }, true, true },
        { { 1, 2, 2.0625f, 0 }, { 1, 2.5f, 2, 0 }, false, false },
        { { 1, 2, 2.125f, 0 }, { 1, 2.5f, 2, 0 }, false, true },
        { { 5, 5, 1, 0 }, { 5, 4, 1, 0 }, true, false }, /* lowest of equals */
        { { 4, 5, 1, 5 }, { 4, 5, 1, 6 }, false, false },
        { { 5, 1, 2, 4.9375f }, { 5, 1, 2, 3 }, true, false },
    };
    struct loss_row r;

    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        assert_true(loss_of_row(c[i].exact, c[i].other, 4, -1, &r));
        assert_true(r.same == c[i].same && r.clear == c[i].clear);
    }
    assert_true(loss_of_row(c[0].exact, c[0].other, 1, 0, &r));
    assert_true(r.kl == 0 && r.same && !r.clear);
}

static void not_finite(void **state)
{
    (void)state;
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    static float a[V], b[V];
    struct loss_row r;

    seed = 3;
    logits(a, 10);
    memcpy(b, a, sizeof a);
    for (int i = 0; i < 3; i++)
        for (int at = 0; at < V; at += 333) {
            float keep = a[at];

            a[at] = bad[i];
            assert_false(loss_of_row(a, b, V, 0, &r));
            assert_false(loss_of_row(b, a, V, 0, &r));
            a[at] = keep;
        }
    assert_true(loss_of_row(a, b, V, 0, &r));
}

static void summary(void **state)
{
    (void)state;
    static struct loss_row row[256];
    cag_kvc_receipt r;

    /* p99 is the smallest that 99 of 100 do not exceed */
    for (int n = 1; n <= 256; n++) {
        int want = (int)ceil(0.99 * n - 1e-9);

        memset(row, 0, sizeof row);
        for (int i = 0; i < n; i++)
            row[i].kl = (i * 7919) % n + 1; /* 1 .. n in some order */
        loss_of_rows(row, n, 0, &r);
        assert_true(r.kl_max == (float)n && r.kl_p99 == (float)want &&
                    r.kl_mean == (float)((n + 1) / 2.0));
        assert_true(r.ppl_change == 0);
    }
    memset(row, 0, sizeof row);
    for (int i = 0; i < 10; i++) {
        row[i].kl = 0.1f;
        row[i].same = i < 6;
        row[i].clear = i % 2 == 0;
        row[i].nll_exact = i;
        row[i].nll_other = i < 9 ? i + 0.25 : 1e9; /* nothing follows it */
    }
    loss_of_rows(row, 10, 9, &r);
    assert_int_equal(r.n_same, 6);
    assert_int_equal(r.n_clear_flip, 2);
    assert_true(r.kl_mean <= r.kl_max && r.kl_p99 <= r.kl_max);
    close_to((double)r.ppl_change, expm1l(0.25L), 1e-7);
    row[0].nll_other = row[0].nll_exact - 9;
    for (int i = 1; i < 9; i++)
        row[i].nll_other = row[i].nll_exact;
    loss_of_rows(row, 10, 9, &r);
    close_to((double)r.ppl_change, expm1l(-1), 1e-7);
    row[0].nll_other = 1e9;
    loss_of_rows(row, 10, 9, &r);
    assert_true(isfinite(r.ppl_change) && r.ppl_change > 1e30f);
}

static void add(struct loss_sum *s, uint16_t exact, float stored)
{
    uint8_t le[2];

    rd_put16(le, exact);
    loss_add(s, le, &stored, 1);
}

static void values(void **state)
{
    (void)state;
    struct loss_sum s = { .n_overflow = 0 };
    cag_kvc_loss l;

    add(&s, 0x3c00, 1.5f);  /* 1 */
    add(&s, 0xc400, -4.0f); /* -4 */
    add(&s, 0x0001, 0.0f);  /* the smallest subnormal */
    add(&s, 0x8000, 0.0f);  /* -0 is none */
    add(&s, 0x83ff, 0.0f);
    add(&s, 0x0400, 0.0f); /* normal */
    loss_of_sum(&s, &l);
    assert_true(l.max_abs == 4);
    assert_int_equal(l.n_subnormal, 2);
    assert_int_equal(l.n_overflow, 0);
    close_to((double)l.rel_rms, sqrtl(0.25L / 17), 1e-8);
    add(&s, 0x7bff, 65504.0f);
    add(&s, 0xfbff, -65505.0f);
    loss_of_sum(&s, &l);
    assert_true(l.max_abs == 65504);
    assert_int_equal(l.n_overflow, 1);
    memset(&s, 0, sizeof s);
    loss_of_sum(&s, &l);
    assert_true(l.rel_rms == 0 && l.max_abs == 0);
    add(&s, 0, 0.5f);
    loss_of_sum(&s, &l);
    assert_true(l.rel_rms == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log),
        cmocka_unit_test(one_row),
        cmocka_unit_test(best_token_and_margin),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(summary),
        cmocka_unit_test(values),
    };

    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
