/*
 * test_eval_score.c - when an answer is right, and what tells right from wrong.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "eval/score.h"

static bool right(const char *gold, const char *answer)
{
    char *v[] = { (char *)(uintptr_t) "never", (char *)(uintptr_t)gold };
    cag_gold g = { .answer = v, .n_answer = 2, .answerable = true };
    bool r;

    assert_int_equal(score_is_right(&g, answer, strlen(answer), &r, NULL),
                     CAG_OK);
    return r;
}

static void an_answer_contains_a_gold_one(void **state)
{
    (void)state;
    assert_true(right("Igor Pavlov", "It was igor  PAVLOV."));
    assert_true(right("a b", "x a\n  b y"));
    assert_true(right("été", "ÉTE\xCC\x81"));
    assert_true(right("don't", "don\xE2\x80\x99t"));
    assert_false(right("Pavlov", "Pavlo"));
    assert_false(right("x", ""));
    assert_false(right("", "x"));
}

static void numbers_are_whole(void **state)
{
    (void)state;
    assert_true(right("24", "It is 24."));
    assert_true(right("24 MiB", "24 MiB"));
    assert_true(right("1024", "1,024 euros"));
    assert_true(right("1,024", "1024"));
    assert_true(right("2.5", "about 2.5, or"));
    assert_false(right("24", "124"));
    assert_false(right("24", "240"));
    assert_false(right("24", "24.5"));
    assert_false(right("5", "2.5"));
    /* another place in the answer may be the right one */
    assert_true(right("24", "240 or 24"));
}

static void places_touch_gold_lines_of_their_source(void **state)
{
    cag_gold g = { .line_from = 4, .line_to = 5 };
    cag_piece p = { .source = "a.md", .line_from = 5, .line_to = 8 };

    (void)state;
    assert_true(score_is_hit(&g, &p));
    p.line_from = 6;
    assert_false(score_is_hit(&g, &p));
    p.line_from = 1;
    p.line_to = 4;
    assert_true(score_is_hit(&g, &p));
    g.source = (char *)(uintptr_t) "b.md";
    assert_false(score_is_hit(&g, &p));
    g.source = (char *)(uintptr_t) "a.md";
    assert_true(score_is_hit(&g, &p));
    g.line_from = 0;
    assert_false(score_is_hit(&g, &p));
}

static void auroc_counts_pairs(void **state)
{
    const double v[] = { 3, 1, 2, 2 };
    const bool good[] = { true, false, true, false };
    const bool all[] = { true, true, true, true };

    (void)state;
    assert_true(score_auroc(v, good, 4) == 3.5 / 4);
    assert_true(score_auroc(v, all, 4) == -1);
    assert_true(score_auroc(v, good, 0) == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_contains_a_gold_one),
        cmocka_unit_test(numbers_are_whole),
        cmocka_unit_test(places_touch_gold_lines_of_their_source),
        cmocka_unit_test(auroc_counts_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
