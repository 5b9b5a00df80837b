/*
 * test_conversation.c - what a conversation remembers of an answer that was
 * stopped.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"
#include "util/mem.h"

static char kvc[64];
static cag_kb *kb;
static bool cancel_prefill;

static bool on_progress(void *ctx, const cag_progress *p)
{
    (void)ctx;
    (void)p;
    return !cancel_prefill;
}

static int begin(void **state)
{
    cag_kb_opts k;

    (void)state;
    if (fault_build(kvc))
        return -1;
    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.engine.n_thread = 1;
    k.hooks.progress = on_progress;
    return cag_kb_open(kvc, &k, &kb, NULL);
}

static int end(void **state)
{
    cag_kb_close(kb);
    return fault_tear_down(state);
}

static bool stop_at_zero(void *ctx, const char *text, size_t size)
{
    int *left = ctx;

    (void)text;
    return !size || --*left > 0;
}

/* Ask; the answer is stopped when the n-th piece of text has come. */
static cag_status ask(cag_chat *c, const char *q, int n, int64_t max_tok,
                      cag_answer *a)
{
    cag_ask_params p;

    cag_ask_params_init(&p);
    p.max_tok = max_tok;
    p.no_draft = true;
    return cag_chat_ask(c, q, strlen(q), &p, n ? stop_at_zero : NULL, &n, a,
                        NULL);
}

static cag_chat *new_chat(void)
{
    cag_chat *c = NULL;

    assert_int_equal(cag_chat_new(kb, &c, NULL), CAG_OK);
    return c;
}

static void test_kept_as_far_as_it_came(void **state)
{
    cag_chat *stopped = new_chat(), *whole = new_chat(), *fresh = new_chat();
    cag_answer a, b, c;
    int64_t n;

    (void)state;
    assert_int_equal(ask(stopped, "Who?", 5, 60, &a), CAG_E_CANCELLED);
    assert_true(a.size > 0 && a.n_generated < 60);
    n = a.n_generated;
    assert_int_equal(ask(whole, "Who?", 0, n, &b), CAG_OK);
    assert_string_equal(a.text, b.text);
    cag_answer_release(&a);
    cag_answer_release(&b);
    /* the next turn is that of a conversation in which this was the answer */
    assert_int_equal(ask(stopped, "Why?", 0, 20, &a), CAG_OK);
    assert_int_equal(ask(whole, "Why?", 0, 20, &b), CAG_OK);
    assert_int_equal(ask(fresh, "Why?", 0, 20, &c), CAG_OK);
    assert_int_equal(a.n_prompt, b.n_prompt);
    assert_true(a.n_prompt > c.n_prompt);
    assert_string_equal(a.text, b.text);
    cag_answer_release(&a);
    cag_answer_release(&b);
    cag_answer_release(&c);
    cag_chat_free(stopped);
    cag_chat_free(whole);
    cag_chat_free(fresh);
}

static void test_forgotten_if_not_begun(void **state)
{
    cag_chat *stopped = new_chat(), *fresh = new_chat();
    cag_answer a, b;

    (void)state;
    cancel_prefill = true;
    assert_int_equal(ask(stopped, "Who?", 0, 60, &a), CAG_E_CANCELLED);
    cancel_prefill = false;
    assert_null(a.text);
    assert_int_equal(ask(stopped, "Why?", 0, 20, &a), CAG_OK);
    assert_int_equal(ask(fresh, "Why?", 0, 20, &b), CAG_OK);
    assert_int_equal(a.n_prompt, b.n_prompt);
    assert_string_equal(a.text, b.text);
    cag_answer_release(&a);
    cag_answer_release(&b);
    cag_chat_free(stopped);
    cag_chat_free(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_as_far_as_it_came),
        cmocka_unit_test(test_forgotten_if_not_begun),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
