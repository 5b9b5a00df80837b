/*
 * Probabilities of an answer's tokens: against the C library's exp and log,
 * equal logits, what is kept of them when the text is cut.
 */
#include "ask/token_logprobs.h"

#include <math.h>

#include "tests/lib/unit.h"

enum { N = 1000 };

static float logits[N];

static void fill(unsigned seed)
{
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        logits[i] = (float)(seed >> 8) * 0x1p-20f - 8; /* -8 to 8 */
    }
}

static void test_values(void **state)
{
    struct token_logprobs l = { 0 };
    cag_answer a = { 0 };
    double sum = 0, all = 0;

    (void)state;
    fill(7);
    for (int i = 0; i < N; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < N; i++)
        assert_int_equal(
            token_logprobs_add(&l, logits, N, i, i % 21, (size_t)i, NULL), 0);
    token_logprobs_end(&l, N, &a);
    assert_int_equal(a.n_logprob, N);
    for (int i = 0; i < N; i++) {
        const cag_logprob *p = &a.logprob[i];

        assert_int_equal(p->id, i);
        assert_int_equal(p->n_top, i % 21);
        assert_true(fabs(p->logprob - (logits[i] - log(sum))) < 1e-9);
        all += exp(p->logprob);
        for (int j = 0; j < p->n_top; j++) {
            int better = 0;

            for (int k = 0; k < N; k++)
                better += logits[k] > logits[p->top[j].id];
            assert_int_equal(better, j);
            assert_true(p->top[j].logprob == a.logprob[p->top[j].id].logprob);
        }
    }
    assert_true(fabs(all - 1) < 1e-9);
    cag_answer_release(&a);
}

static void test_equal(void **state)
{
    struct token_logprobs l = { 0 };
    cag_answer a = { 0 };

    (void)state;
    for (int i = 0; i < N; i++)
        logits[i] = i == 500 ? -1e30f : 3;
    assert_int_equal(token_logprobs_add(&l, logits, N, 500, 3, 0, NULL), 0);
    token_logprobs_end(&l, 1, &a);
    for (int j = 0; j < 3; j++)
        assert_int_equal(a.logprob[0].top[j].id, j);
    assert_true(a.logprob[0].logprob < -1e29);
    cag_answer_release(&a);
}

static void test_cut(void **state)
{
    const size_t off[] = { 0, 0, 4, 9, 9, 12 };
    struct token_logprobs l = { 0 };
    cag_answer a = { 0 };

    (void)state;
    fill(1);
    for (int i = 0; i < 6; i++)
        assert_int_equal(token_logprobs_add(&l, logits, N, i, 0, off[i], NULL),
                         0);
    token_logprobs_end(&l, 9, &a); /* what stands at 9 is not in it */
    assert_int_equal(a.n_logprob, 3);
    assert_null(l.item);
    cag_answer_release(&a);
    token_logprobs_end(&l, 9, &a); /* none */
    assert_null(a.logprob);
    assert_int_equal(a.n_logprob, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests_name("token_logprobs", tests, NULL, NULL);
}
