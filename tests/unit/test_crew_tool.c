/*
 * test_crew_tool.c - questions that join and leave one by one, and caches that
 * share model and engine: the answers are those of a question alone.
 */
#include "tests/lib/unit.h"

#include <cag/tool/crew.h>
#include <string.h>

#include "ask/kb.h"
#include "tests/lib/fault.h"
#include "util/buf.h"
#include "util/mem.h"

#define N 6

static char kvc[64];
static cag_kb *kb;
static const char *const question[N] = {
    "How long?", "Who leads?", "Why?", "How long?", "When did it fly?", "x"
};

static cag_kb *open_kb(const cag_kb *with, cag_precision precision)
{
    cag_kb_opts k;
    cag_kb *out = NULL;

    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.engine.n_thread = 1;
    k.engine.precision = precision;
    k.with = with;
    assert_int_equal(cag_kb_open(kvc, &k, &out, NULL), CAG_OK);
    return out;
}

static int begin(void **state)
{
    (void)state;
    if (fault_build(kvc))
        return -1;
    kb = open_kb(NULL, CAG_PRECISION_AUTO);
    return 0;
}

static int end(void **state)
{
    cag_kb_close(kb);
    return fault_tear_down(state);
}

static void params(cag_ask_params *p, int i)
{
    cag_ask_params_init(p);
    p->max_tok = 5 + 3 * i;
    p->evidence = i % 2;
    p->sampling.temperature = i == 4 ? 1.0f : 0.0f;
}

static char *alone(cag_kb *of, int i)
{
    cag_ask_params p;
    cag_answer a;

    params(&p, i);
    assert_int_equal(cag_kb_ask(of, question[i], strlen(question[i]), &p, NULL,
                                NULL, &a, NULL),
                     CAG_OK);
    char *text = mem_strdup(a.text);
    assert_non_null(text);
    cag_answer_release(&a);
    return text;
}

static bool add_text(void *ctx, const char *text, size_t n)
{
    buf_add(ctx, text, n);
    return true;
}

/* One joins at each step; two leave before their end. */
static void members_come_and_go(void **state)
{
    cag_ask_params p[N];
    cag_question q[N];
    cag_member *m[N] = { NULL };
    struct buf text[N];
    cag_crew *c;
    int n_done = 0;

    (void)state;
    memset(text, 0, sizeof text);
    assert_int_equal(cag_crew_new(kb, N, &c, NULL), CAG_OK);
    assert_int_equal(cag_crew_parallel(c), N);
    for (int step = 0; n_done < N; step++) {
        if (step < N) {
            params(&p[step], step);
            q[step] = (cag_question){ .text = question[step],
                                      .size = strlen(question[step]),
                                      .params = &p[step] };
            assert_true(cag_crew_has_room(c));
            assert_int_equal(cag_crew_join(c, NULL, &q[step], NULL, add_text,
                                           &text[step], &m[step], NULL),
                             CAG_OK);
        }
        assert_int_equal(cag_crew_step(c, NULL), CAG_OK);
        for (int i = 0; i < N; i++) {
            bool gives_up = i == 2 && step == 4;
            cag_answer a;
            cag_status st;

            if (!m[i] || (!cag_member_done(m[i]) && !gives_up))
                continue;
            st = cag_crew_leave(c, m[i], &a, NULL);
            m[i] = NULL;
            n_done++;
            if (st == CAG_E_CANCELLED) {
                assert_int_equal(i, 2);
            } else {
                char *want = alone(kb, i);

                assert_int_equal(st, CAG_OK);
                assert_string_equal(a.text, want);
                assert_string_equal(text[i].data ? text[i].data : "", want);
                assert_true((a.checked != NULL) == p[i].evidence);
                mem_free(want);
            }
            cag_answer_release(&a);
            buf_free(&text[i]);
        }
    }
    cag_crew_free(c);
}

/* What is wrong with a question is told when it leaves; others go on. */
static void a_bad_question_is_alone(void **state)
{
    static const char blank[] = "  ";
    cag_ask_params p;
    cag_question q = { .text = blank, .size = 2 };
    cag_error err = CAG_ERROR_INIT;
    cag_member *m;
    cag_answer a;
    cag_crew *c;

    (void)state;
    assert_int_equal(cag_crew_new(kb, 2, &c, NULL), CAG_OK);
    assert_int_equal(cag_crew_join(c, NULL, &q, NULL, NULL, NULL, &m, NULL),
                     CAG_OK);
    assert_true(cag_member_done(m));
    assert_int_equal(cag_crew_leave(c, m, &a, &err), CAG_E_FORMAT);
    params(&p, 0);
    p.max_tok = 0;
    q = (cag_question){ .text = question[0], .size = 9, .params = &p };
    assert_int_equal(cag_crew_join(c, NULL, &q, NULL, NULL, NULL, &m, NULL),
                     CAG_OK);
    assert_int_equal(cag_crew_leave(c, m, &a, &err), CAG_E_USAGE);
    assert_int_equal(cag_crew_step(c, NULL), CAG_OK);
    cag_crew_free(c);
}

static void a_conversation_goes_on(void **state)
{
    cag_ask_params p;
    cag_question q = { .text = question[1],
                       .size = strlen(question[1]),
                       .params = &p };
    cag_chat *chat;
    cag_answer want, a;
    cag_member *m;
    cag_crew *c;

    (void)state;
    params(&p, 1);
    assert_int_equal(cag_chat_new(kb, &chat, NULL), CAG_OK);
    assert_int_equal(
        cag_chat_ask(chat, question[0], 9, &p, NULL, NULL, &a, NULL), CAG_OK);
    cag_answer_release(&a);
    assert_int_equal(cag_crew_new(kb, 2, &c, NULL), CAG_OK);
    assert_int_equal(cag_crew_join(c, chat, &q, NULL, NULL, NULL, &m, NULL),
                     CAG_OK);
    assert_int_equal(
        cag_chat_ask(chat, q.text, q.size, &p, NULL, NULL, &want, NULL),
        CAG_OK);
    cag_chat_free(chat); /* the member has what it needs */
    while (!cag_member_done(m))
        assert_int_equal(cag_crew_step(c, NULL), CAG_OK);
    assert_int_equal(cag_crew_leave(c, m, &a, NULL), CAG_OK);
    assert_string_equal(a.text, want.text);
    assert_int_equal(a.n_prompt, want.n_prompt);
    assert_int_equal(a.checked->n_evidence, want.checked->n_evidence);
    cag_answer_release(&a);
    cag_answer_release(&want);
    cag_crew_free(c);
}

static void run_one(cag_status *st)
{
    cag_ask_params p;
    cag_question q = { .text = question[1],
                       .size = strlen(question[1]),
                       .params = &p };
    cag_member *m = NULL;
    cag_answer a = { 0 };
    cag_crew *c = NULL;

    params(&p, 1);
    *st = cag_crew_new(kb, 1, &c, NULL);
    if (!*st)
        *st = cag_crew_join(c, NULL, &q, NULL, NULL, NULL, &m, NULL);
    while (!*st && !cag_member_done(m))
        *st = cag_crew_step(c, NULL);
    if (m) {
        cag_status left = cag_crew_leave(c, m, &a, NULL);

        *st = *st ? *st : left;
    }
    cag_answer_release(&a);
    cag_crew_free(c);
}

static void memory_runs_out(void **state)
{
    bool done = false;
    cag_status st;
    int64_t before;

    (void)state;
    run_one(&st);
    assert_int_equal(st, CAG_OK);
    before = mem_live();
    FOR_EACH_FAULT(n, done)
    {
        mem_fault(n, false);
        run_one(&st);
        done = fault_missed(n);
        assert_int_equal(st, done ? CAG_OK : CAG_E_NOMEM);
        assert_int_equal(mem_live(), before);
    }
}

/* Ask turn n of a conversation through c, as owner; the tokens it found read
 * are returned, and its answer equals that of a conversation. */
static int64_t next_turn(cag_crew *c, cag_chat *chat, const char *owner, int n)
{
    cag_ask_params p;
    cag_question q = { .text = question[n],
                       .size = strlen(question[n]),
                       .params = &p };
    cag_member *m;
    cag_answer want, a;
    int64_t same;

    cag_ask_params_init(&p);
    p.max_tok = 30;
    assert_int_equal(cag_crew_join(c, chat, &q, owner, NULL, NULL, &m, NULL),
                     CAG_OK);
    while (!cag_member_done(m))
        assert_int_equal(cag_crew_step(c, NULL), CAG_OK);
    assert_int_equal(cag_crew_leave(c, m, &a, NULL), CAG_OK);
    assert_int_equal(
        cag_chat_ask(chat, q.text, q.size, &p, NULL, NULL, &want, NULL),
        CAG_OK);
    assert_string_equal(a.text, want.text);
    assert_int_equal(a.n_generated, want.n_generated);
    assert_int_equal(a.n_cached + a.n_prompt, want.n_cached + want.n_prompt);
    same = a.n_cached - want.n_cached;
    cag_answer_release(&a);
    cag_answer_release(&want);
    return same;
}

/* A later turn reads what is new; another owner reads all. */
static void sessions_are_kept(void **state)
{
    cag_chat *chat, *other;
    cag_kept *k;
    cag_crew *c;
    int64_t same[4], n_reused;
    uint64_t bytes;
    int n;

    (void)state;
    assert_int_equal(cag_chat_new(kb, &chat, NULL), CAG_OK);
    assert_int_equal(cag_chat_new(kb, &other, NULL), CAG_OK);
    assert_int_equal(cag_kept_new(2, 1 << 30, 1000, &k, NULL), CAG_OK);
    assert_int_equal(cag_crew_new(kb, 2, &c, NULL), CAG_OK);
    cag_crew_keep(c, k);
    for (int i = 0; i < 4; i++)
        same[i] = next_turn(c, chat, "alice", i);
    assert_int_equal(same[0], 0);
    assert_true(same[1] > 0);
    assert_true(same[2] > same[1] + 30); /* the answer before is read once */
    assert_true(same[3] > same[2] + 30);
    cag_kept_figures(k, &n, &bytes, &n_reused);
    assert_int_equal(n, 1);
    assert_true(bytes > 0);
    assert_int_equal(n_reused, same[1] + same[2] + same[3]);
    /* the same tokens, of somebody else */
    assert_int_equal(next_turn(c, other, "bob", 0), 0);
    assert_true(next_turn(c, other, "bob", 1) > 0);
    cag_chat_reset(other);
    assert_int_equal(next_turn(c, other, "carol", 0), 0);
    cag_kept_figures(k, &n, &bytes, &n_reused);
    assert_int_equal(n, 2); /* alice's was the oldest */
    assert_int_equal(next_turn(c, chat, "alice", 0), 0);
    cag_kept_forget(k, kb);
    cag_kept_figures(k, &n, &bytes, &n_reused);
    assert_int_equal(n, 0);
    assert_int_equal(bytes, 0);
    cag_crew_free(c);
    cag_kept_free(k);
    cag_chat_free(chat);
    cag_chat_free(other);
}

/* No room, no time: nothing is kept, and the answers are the same. */
static void limits_of_what_is_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        cag_chat *chat;
        cag_kept *k;
        cag_crew *c;

        assert_int_equal(cag_chat_new(kb, &chat, NULL), CAG_OK);
        assert_int_equal(
            cag_kept_new(4, i ? 1 << 30 : 1000, i ? -1 : 1000, &k, NULL),
            CAG_OK);
        assert_int_equal(cag_crew_new(kb, 2, &c, NULL), CAG_OK);
        cag_crew_keep(c, k);
        for (int t = 0; t < 3; t++) {
            assert_int_equal(next_turn(c, chat, "alice", t), 0);
            cag_kept_expire(k);
        }
        cag_crew_free(c);
        cag_kept_free(k);
        cag_chat_free(chat);
    }
}

/* Of one model and equal options: one model, one engine, in any order of
 * closing; other options have an engine of their own. */
static void caches_share(void **state)
{
    cag_kb *a = open_kb(kb, CAG_PRECISION_AUTO);
    cag_kb *b = open_kb(a, CAG_PRECISION_EXACT);
    cag_kb *c = open_kb(b, CAG_PRECISION_EXACT);
    char *want = alone(kb, 0), *got = alone(a, 0), *exact = alone(b, 0);

    (void)state;
    assert_ptr_equal(a->engine, kb->engine);
    assert_ptr_equal(b->model, kb->model);
    assert_ptr_not_equal(b->engine, kb->engine);
    assert_ptr_equal(c->engine, b->engine);
    assert_string_equal(got, want);
    mem_free(got);
    cag_kb_close(b);
    got = alone(c, 0);
    assert_string_equal(got, exact);
    mem_free(got);
    cag_kb_close(kb);
    got = alone(a, 0);
    assert_string_equal(got, want);
    kb = a;
    cag_kb_close(c);
    mem_free(got);
    mem_free(want);
    mem_free(exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_and_go),
        cmocka_unit_test(a_bad_question_is_alone),
        cmocka_unit_test(a_conversation_goes_on),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(sessions_are_kept),
        cmocka_unit_test(limits_of_what_is_kept),
        cmocka_unit_test(caches_share),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
