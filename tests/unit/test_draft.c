/*
 * test_draft.c - which guesses are made, and what they may cost.
 */
#include "tests/lib/unit.h"

#include "generate/draft.h"
#include "util/mem.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const int32_t kb[] = { 1, 2, 3, 4, 5, 6, 2, 3, 7, 8, 9, 9, 9, 9, 9 };

static struct draft start(const int32_t *own, size_t n)
{
    struct draft l;

    assert_int_equal(draft_init(&l, kb, COUNT(kb), 64, NULL), CAG_OK);
    draft_add(&l, own, n);
    l.balance = 4.0; /* money is no object */
    return l;
}

static void expect(const int32_t *own, size_t n_own, int most,
                   const int32_t *want, int n_want)
{
    struct draft l = start(own, n_own);
    int32_t out[3] = { -1, -1, -1 };

    assert_int_equal(draft_propose(&l, most, out), n_want);
    for (int i = 0; i < n_want; i++)
        assert_int_equal(out[i], want[i]);
    for (int i = n_want; i < 3; i++)
        assert_int_equal(out[i], -1);
    draft_release(&l);
}

#define OWN(...) \
    (const int32_t[]){ __VA_ARGS__ }, COUNT(((const int32_t[]){ __VA_ARGS__ }))

#define W(...)        \
    (const int32_t[]) \
    {                 \
        __VA_ARGS__   \
    }

static void guesses(void **state)
{
    (void)state;
    expect(OWN(20, 4, 5), 3, W(6, 2, 3), 3);
    expect(OWN(20, 4, 5), 2, W(6, 2), 2);
    expect(OWN(20, 4, 5), 0, NULL, 0);
    expect(OWN(20, 21), 3, NULL, 0);         /* never seen */
    expect(OWN(20, 4), 3, NULL, 0);          /* one token is chance */
    expect(OWN(20, 2, 3), 3, W(7, 8, 9), 3); /* equal pasts: the last */
    expect(OWN(1, 2, 3), 3, W(4, 5, 6), 3);  /* the longer past */
    expect(OWN(30, 31, 32, 30, 31), 3, W(32, 30, 31), 3); /* its own words */
    expect(OWN(30, 31, 30, 31), 3, W(30, 31), 2); /* no further than the end */
    expect(OWN(1, 2, 3, 30, 1, 2, 3), 3, W(30, 1, 2), 3);
}

/* The past of a match may begin in the knowledge and end behind it. */
static void across_the_seam(void **state)
{
    (void)state;
    expect(OWN(40, 41, 9, 40), 3, W(41, 9, 40), 3);
    expect(OWN(50, 9, 50), 3, W(9, 50), 2);
}

static void nothing_known(void **state)
{
    struct draft l;
    int32_t out[3], one = 1;

    (void)state;
    assert_int_equal(draft_init(&l, NULL, 0, 2, NULL), CAG_OK);
    assert_int_equal(draft_propose(&l, 3, out), 0);
    draft_add(&l, &one, 1);
    assert_int_equal(draft_propose(&l, 3, out), 0);
    draft_add(&l, &one, 1);
    draft_add(&l, &one, 1); /* full: forgotten */
    assert_int_equal(l.n_own, 2);
    draft_release(&l);
}

/* The last two tokens were always seen before, at no end. */
static int run(struct draft *l, int n, bool right, int *most)
{
    int drafted = 0;

    for (int i = 0; i < n; i++) {
        int32_t out[3];
        int k = draft_propose(l, 3, out);

        draft_result(l, k, right ? k : 0);
        drafted += k;
        *most = k > *most ? k : *most;
    }
    return drafted;
}

static void what_it_may_cost(void **state)
{
    static const int32_t own[] = { 4, 5 };
    struct draft l;
    int most = 0, n = 1000;

    (void)state;
    assert_int_equal(draft_init(&l, kb, COUNT(kb), 64, NULL), CAG_OK);
    draft_add(&l, own, 2);
    /* always wrong: 3 % of the steps, at 0.6 a guess, and one to begin with */
    assert_in_range(run(&l, n, false, &most), n * 4 / 100, n * 5 / 100 + 1);
    assert_int_equal(most, 1);
    assert_int_equal(l.n_accepted, 0);
    /* always right: soon all the guesses that are allowed */
    assert_in_range(run(&l, n, true, &most), 3 * n - 100, 3 * n);
    assert_int_equal(most, 3);
    /* what was earned does not pay for more than a few failures */
    int64_t before = l.n_drafted;
    run(&l, 20, false, &most);
    assert_in_range(l.n_drafted - before, 1, 8);
    draft_release(&l);
}

static void no_memory(void **state)
{
    struct draft l;

    (void)state;
    mem_fault(1, false);
    assert_int_equal(draft_init(&l, kb, COUNT(kb), 64, NULL), CAG_E_NOMEM);
    mem_fault(0, false);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses),       cmocka_unit_test(across_the_seam),
        cmocka_unit_test(nothing_known), cmocka_unit_test(what_it_may_cost),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests_name("lookup", tests, NULL, NULL);
}
