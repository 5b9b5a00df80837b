/*
 * test_sampler.c - what each option keeps, and that a seed means the same
 * ids everywhere.
 */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include <cag/session.h>

#include "util/mem.h"

static cag_sampler *make(cag_sampling p, int n_vocab)
{
    cag_sampler *s = NULL;
    cag_error err = CAG_ERROR_INIT;

    if (cag_sampler_new(&p, n_vocab, &s, &err) != CAG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static cag_sampling sampling(float temperature, int top_k, float top_p,
                             float min_p, uint64_t seed, uint64_t row)
{
    cag_sampling p = { temperature, top_k, top_p, min_p, seed, row };

    return p;
}

static void greedy(void **state)
{
    static const cag_sampling p = CAG_SAMPLING_INIT;
    cag_sampler *s = make(p, 5);
    float ties[5] = { 1, 3, 2, 3, 3 }, nan_first[5] = { NAN, -1, NAN, 4, 3 };
    float low[5] = { -INFINITY, -9, -INFINITY, -9, -10 };

    (void)state;
    assert_int_equal(cag_sampler_pick(s, ties), 1);
    assert_int_equal(cag_sampler_pick(s, nan_first), 3);
    assert_int_equal(cag_sampler_pick(s, low), 1);
    cag_sampler_free(s);
    cag_sampler_free(NULL);
}

/* Draw n times and count. */
static void count(cag_sampling p, const float *logits, int n_vocab, int n,
                  int *counts)
{
    cag_sampler *s = make(p, n_vocab);

    memset(counts, 0, (size_t)n_vocab * sizeof *counts);
    for (int i = 0; i < n; i++) {
        int32_t id = cag_sampler_pick(s, logits);
        assert_in_range(id, 0, n_vocab - 1);
        counts[id]++;
    }
    cag_sampler_free(s);
}

/* Probabilities 8/15 4/15 2/15 1/15 at temperature 1, in a mixed order. */
static const float four[4] = { 0.6931472f, 2.0794415f, 0.0f, 1.3862944f };

static void near_share(int got, int n, double share)
{
    double sd = sqrt((double)n * share * (1.0 - share));

    if (fabs(got - n * share) > 5.0 * sd)
        fail_msg("%d of %d, expected %.0f +- %.0f", got, n, n * share, sd);
}

static void distribution(void **state)
{
    int c[4];

    (void)state;
    count(sampling(1, 0, 1, 0, 1, 2), four, 4, 30000, c);
    near_share(c[1], 30000, 8.0 / 15);
    near_share(c[3], 30000, 4.0 / 15);
    near_share(c[0], 30000, 2.0 / 15);
    near_share(c[2], 30000, 1.0 / 15);
    /* half the temperature squares the ratios: 64 16 4 1 of 85 */
    count(sampling(0.5f, 0, 1, 0, 1, 3), four, 4, 30000, c);
    near_share(c[1], 30000, 64.0 / 85);
    near_share(c[2], 30000, 1.0 / 85);
}

static void top_k(void **state)
{
    static const float same[6] = { 1, 2, 2, 2, 2, 0 };
    int c[6];

    (void)state;
    count(sampling(1, 2, 1, 0, 5, 0), four, 4, 9000, c);
    assert_int_equal(c[0] + c[2], 0);
    near_share(c[1], 9000, 8.0 / 12);
    count(sampling(1, 1, 1, 0, 5, 0), four, 4, 100, c);
    assert_int_equal(c[1], 100);
    /* equal logits at the border: the lower ids stay */
    count(sampling(1, 3, 1, 0, 5, 0), same, 6, 3000, c);
    assert_int_equal(c[0] + c[4] + c[5], 0);
    assert_true(c[1] > 0 && c[2] > 0 && c[3] > 0);
    /* more than there are */
    count(sampling(1, 99, 1, 0, 5, 0), four, 4, 9000, c);
    near_share(c[2], 9000, 1.0 / 15);
}

static void top_p(void **state)
{
    int c[4];

    (void)state;
    /* 8/15 = 0.533, then 0.8, then 0.933 */
    count(sampling(1, 0, 0.5f, 0, 6, 0), four, 4, 100, c);
    assert_int_equal(c[1], 100);
    count(sampling(1, 0, 0.6f, 0, 6, 0), four, 4, 9000, c);
    assert_int_equal(c[0] + c[2], 0);
    near_share(c[3], 9000, 4.0 / 12);
    count(sampling(1, 0, 0.9f, 0, 6, 0), four, 4, 9000, c);
    assert_int_equal(c[2], 0);
    assert_true(c[0] > 0);
    /* a share of what top_k leaves: 8/14, 12/14 of the best three */
    count(sampling(1, 3, 0.85f, 0, 6, 0), four, 4, 9000, c);
    assert_int_equal(c[0] + c[2], 0);
    assert_true(c[3] > 0);
}

static void min_p(void **state)
{
    int c[4];

    (void)state;
    /* weights relative to the best: 1, 1/2, 1/4, 1/8 */
    count(sampling(1, 0, 1, 0.3f, 7, 0), four, 4, 9000, c);
    assert_int_equal(c[0] + c[2], 0);
    near_share(c[1], 9000, 8.0 / 12);
    count(sampling(1, 0, 1, 1.0f, 7, 0), four, 4, 100, c);
    assert_int_equal(c[1], 100);
    count(sampling(1, 0, 1, 0.01f, 7, 0), four, 4, 9000, c);
    near_share(c[2], 9000, 1.0 / 15);
}

/* Recorded once: the same on every machine, for ever. */
static void recorded(void **state)
{
    static const int32_t want[2][12] = {
        { 54, 62, 32, 43, 97, 29, 16, 54, 48, 59, 75, 8 },
        { 27, 89, 89, 13, 54, 35, 27, 8, 62, 21, 32, 51 }
    };
    float logits[100];

    (void)state;
    for (int i = 0; i < 100; i++)
        logits[i] = (float)(i * 37 % 100) / 16.0f;
    for (uint64_t row = 0; row < 2; row++) {
        cag_sampler *s = make(sampling(0.8f, 40, 0.95f, 0.01f, 42, row), 100);
        for (int i = 0; i < 12; i++)
            assert_int_equal(cag_sampler_pick(s, logits), want[row][i]);
        cag_sampler_free(s);
    }
}

static void extremes(void **state)
{
    float wild[4] = { -INFINITY, 3e38f, -3e38f, NAN };
    float none[3] = { NAN, NAN, NAN };
    cag_sampler *s = make(sampling(1.5f, 0, 1, 0, 0, 0), 4);

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(cag_sampler_pick(s, wild), 1);
    cag_sampler_free(s);
    s = make(sampling(1e-30f, 0, 0.9f, 0, 0, 0), 4);
    assert_int_equal(cag_sampler_pick(s, four), 1);
    cag_sampler_free(s);
    s = make(sampling(1, 5, 0.9f, 0.1f, 0, 0), 3);
    assert_in_range(cag_sampler_pick(s, none), 0, 2);
    cag_sampler_free(s);
}

static void refused(void **state)
{
    static const cag_sampling bad[] = {
        { -1, 0, 1, 0, 0, 0 },       { NAN, 0, 1, 0, 0, 0 },
        { INFINITY, 0, 1, 0, 0, 0 }, { 1, -1, 1, 0, 0, 0 },
        { 1, 0, 0, 0, 0, 0 },        { 1, 0, 1.5f, 0, 0, 0 },
        { 1, 0, NAN, 0, 0, 0 },      { 1, 0, 1, -0.1f, 0, 0 },
        { 1, 0, 1, 1.1f, 0, 0 }
    };
    cag_sampling ok = sampling(1, 0, 1, 0, 0, 0);
    cag_sampler *s = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(cag_sampler_new(&bad[i], 4, &s, NULL), CAG_E_USAGE);
    assert_int_equal(cag_sampler_new(&ok, 0, &s, NULL), CAG_E_USAGE);
    assert_null(s);
}

static void no_memory(void **state)
{
    cag_sampling p = sampling(1, 0, 1, 0, 0, 0);
    int64_t live = mem_live();

    (void)state;
    for (int n = 1; n < 100; n++) {
        cag_sampler *s = NULL;
        mem_fault(n, true);
        cag_status st = cag_sampler_new(&p, 10, &s, NULL);
        mem_fault(0, false);
        cag_sampler_free(s);
        assert_int_equal(mem_live(), live);
        if (st == CAG_OK) {
            assert_int_equal(n, 4);
            return;
        }
        assert_int_equal(st, CAG_E_NOMEM);
    }
    fail();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy),    cmocka_unit_test(distribution),
        cmocka_unit_test(top_k),     cmocka_unit_test(top_p),
        cmocka_unit_test(min_p),     cmocka_unit_test(recorded),
        cmocka_unit_test(extremes),  cmocka_unit_test(refused),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
