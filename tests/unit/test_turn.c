/*
 * test_turn.c - a question being answered, step by step, and a crew of them:
 * who else is there, what was drafted and when one is stopped changes no
 * other answer.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include "ask/crew.h"
#include "ask/kb.h"
#include "generate/repeat.h"

static char kvc[64];
static cag_kb *kb;
static int64_t rows_seen, stop_after; /* by on_progress; 0: never */

static bool on_progress(void *ctx, const cag_progress *p)
{
    (void)ctx;
    if (p->unit == CAG_UNIT_ROWS)
        rows_seen = (int64_t)p->done;
    return !stop_after || rows_seen < stop_after;
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

static cag_ask_params params(int64_t max_tok, float temperature)
{
    cag_ask_params p;

    cag_ask_params_init(&p);
    p.max_tok = max_tok;
    p.sampling.temperature = temperature;
    p.sampling.seed = 7;
    return p;
}

static cag_answer alone(const char *q, const cag_ask_params *p)
{
    cag_answer a;

    assert_int_equal(cag_kb_ask(kb, q, strlen(q), p, NULL, NULL, &a, NULL),
                     CAG_OK);
    return a;
}

static void same_answer(const cag_answer *a, const cag_answer *b)
{
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->finish, b->finish);
    assert_int_equal(a->n_generated, b->n_generated);
    assert_int_equal(a->n_prompt, b->n_prompt);
}

/* --- turn ----------------------------------------------------------------- */

static void start(struct turn *t, const char *q, const cag_ask_params *p)
{
    cag_ids ids = CAG_IDS_INIT;

    assert_int_equal(prompt_question_encode(&kb->tail, kb->tok, q, strlen(q),
                                            false, &ids, NULL),
                     CAG_OK);
    assert_int_equal(
        turn_start(t, kb,
                   &(struct turn_prompt){ .ids = ids.id, .n_ids = ids.n }, p,
                   NULL, NULL, NULL),
        CAG_OK);
    cag_ids_free(&ids);
}

static void drafts_change_nothing(void **state)
{
    (void)state;
    for (int64_t max_tok = 1; max_tok < 12; max_tok++) {
        cag_ask_params p = params(max_tok, 0);
        cag_answer want, got;

        p.no_draft = true;
        want = alone("Who leads?", &p);
        assert_int_equal(want.n_drafted, 0);
        p.no_draft = false;
        for (int drafts = 0; drafts < CAG_STEP_MAX; drafts++) {
            struct turn t;

            start(&t, "Who leads?", &p);
            while (!t.finish) {
                cag_step s;

                turn_step(&t, drafts, &s);
                assert_in_range(s.n_ids, 1, drafts + 1);
                /* each token fed picks one: never more than are wanted */
                assert_true(t.n_generated + s.n_ids <= max_tok);
                assert_int_equal(turn_verify(&s, 1, NULL), CAG_OK);
                assert_int_equal(turn_advance(&t, &s, NULL), CAG_OK);
            }
            assert_int_equal(turn_finish(&t, &got, NULL), CAG_OK);
            same_answer(&got, &want);
            cag_answer_release(&got);
        }
        cag_answer_release(&want);
    }
}

static void a_turn_ends_where_the_context_does(void **state)
{
    cag_ask_params p = params(INT32_MAX, 0);
    cag_ids ids = CAG_IDS_INIT;
    cag_error err = CAG_ERROR_INIT;
    int64_t n_ctx = kb->n_ctx;
    cag_answer a;
    struct turn t;

    (void)state;
    assert_int_equal(prompt_question_encode(&kb->tail, kb->tok, "Why?", 4,
                                            false, &ids, NULL),
                     CAG_OK);
    /* room for three tokens, for one, and for none */
    for (int room = 3; room >= 0; room -= room == 3 ? 2 : 1) {
        cag_status st;

        kb->n_ctx = (int64_t)kb->n_ids + (int64_t)ids.n + room;
        st = turn_start(&t, kb,
                        &(struct turn_prompt){ .ids = ids.id, .n_ids = ids.n },
                        &p, NULL, NULL, &err);
        if (!room) {
            assert_int_equal(st, CAG_E_LIMIT);
            assert_non_null(strstr(err.msg, "does not fit"));
            continue;
        }
        assert_int_equal(st, CAG_OK);
        assert_int_equal(turn_run(&t, NULL), CAG_OK);
        assert_int_equal(turn_finish(&t, &a, NULL), CAG_OK);
        assert_true(a.n_generated <= room);
        if (a.n_generated == room)
            assert_string_equal(a.finish, "length");
        cag_answer_release(&a);
    }
    kb->n_ctx = n_ctx;
    cag_ids_free(&ids);
}

/* --- crew ----------------------------------------------------------------- */

static const char *const asked[] = { "Who leads?",  "Why?",      "How long?",
                                     "Who leads?",  "Where to?", "Why?",
                                     "What is it?", "Who leads?" };
enum { N = sizeof asked / sizeof *asked };

static bool stop_soon(void *ctx, const char *text, size_t size)
{
    int *left = ctx;

    (void)text;
    return !size || --*left > 0;
}

static void add(struct crew *c, struct crew_member *m, const char *q,
                const cag_ask_params *p)
{
    *m = (struct crew_member){
        .question = q, .size = strlen(q), .params = p, .key = "k"
    };
    assert_true(crew_has_room(c));
    assert_int_equal(crew_add(c, m, NULL), CAG_OK);
}

static void a_crew_of_any_size_gives_the_same_answers(void **state)
{
    cag_ask_params p[N];
    cag_answer want[N];
    int64_t generated = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        p[i] = params(3 + i, i % 3 == 2 ? 0.8f : 0);
        want[i] = alone(asked[i], &p[i]);
        generated += want[i].n_generated;
    }
    for (int parallel = 1; parallel <= N; parallel++) {
        struct crew_member m[N];
        struct crew c;
        int n = 0, done = 0;

        assert_int_equal(crew_init(&c, kb, parallel, 0, 20, NULL), CAG_OK);
        while (done < N) {
            while (n < N && crew_has_room(&c)) {
                add(&c, &m[n], asked[n], &p[n]);
                m[n].key[0] = (char)('a' + n); /* no two are equal */
                n++;
            }
            assert_in_range(c.n_running, 1, parallel);
            assert_int_equal(crew_step(&c, NULL), CAG_OK);
            for (done = 0; done < n && m[done].state == CREW_DONE;)
                done++;
        }
        assert_int_equal(c.n_generated, generated);
        assert_int_equal(c.n_member, 0);
        crew_release(&c);
        for (int i = 0; i < N; i++) {
            same_answer(&m[i].answer, &want[i]);
            cag_answer_release(&m[i].answer);
        }
    }
    for (int i = 0; i < N; i++)
        cag_answer_release(&want[i]);
}

static void equal_greedy_questions_are_answered_once(void **state)
{
    cag_ask_params greedy = params(6, 0), sampled = params(6, 0.7f);
    cag_answer want = alone("Why?", &greedy);
    struct crew_member m[4];
    int left = 1000;
    struct crew c;

    (void)state;
    assert_int_equal(crew_init(&c, kb, 4, 0, 6, NULL), CAG_OK);
    add(&c, &m[0], "Why?", &greedy);
    add(&c, &m[1], "Why?", &greedy);
    assert_int_equal(m[1].state, CREW_WAITING);
    add(&c, &m[2], "Why?", &sampled);
    assert_int_equal(m[2].state, CREW_RUNNING);
    /* who wants text on the way is answered for himself */
    m[3] = (struct crew_member){ .question = "Why?",
                                 .size = 4,
                                 .params = &greedy,
                                 .key = "k",
                                 .fn = stop_soon,
                                 .ctx = &left };
    assert_int_equal(crew_add(&c, &m[3], NULL), CAG_OK);
    assert_int_equal(m[3].state, CREW_RUNNING);
    assert_int_equal(c.n_running, 3);
    while (c.n_member)
        assert_int_equal(crew_step(&c, NULL), CAG_OK);
    same_answer(&m[0].answer, &want);
    same_answer(&m[1].answer, &want);
    same_answer(&m[3].answer, &want);
    assert_int_equal(c.n_generated,
                     2 * want.n_generated + m[2].answer.n_generated);
    crew_release(&c);
    for (int i = 0; i < 4; i++)
        cag_answer_release(&m[i].answer);
    cag_answer_release(&want);
}

static void one_that_is_bad_or_stopped_is_alone_with_it(void **state)
{
    cag_ask_params p = params(8, 0);
    cag_answer want = alone("Who leads?", &p);
    struct crew_member m[3];
    int left = 2;
    struct crew c;

    (void)state;
    assert_int_equal(crew_init(&c, kb, 3, 0, 8, NULL), CAG_OK);
    add(&c, &m[0], "", &p);
    assert_int_equal(m[0].state, CREW_DONE);
    assert_int_equal(m[0].error.status, CAG_E_FORMAT);
    add(&c, &m[1], "Who leads?", &p);
    m[2] = (struct crew_member){ .question = "Who leads?",
                                 .size = 10,
                                 .params = &p,
                                 .key = "k",
                                 .fn = stop_soon,
                                 .ctx = &left };
    assert_int_equal(crew_add(&c, &m[2], NULL), CAG_OK);
    while (c.n_member)
        assert_int_equal(crew_step(&c, NULL), CAG_OK);
    assert_int_equal(m[1].error.status, CAG_OK);
    same_answer(&m[1].answer, &want);
    assert_int_equal(m[2].error.status, CAG_E_CANCELLED);
    assert_string_equal(m[2].answer.finish, "cancelled");
    assert_true(m[2].answer.n_generated < want.n_generated);
    crew_release(&c);
    for (int i = 1; i < 3; i++)
        cag_answer_release(&m[i].answer);
    cag_answer_release(&want);
    /* and one that is left in the middle gives back what it has */
    assert_int_equal(crew_init(&c, kb, 3, 0, 8, NULL), CAG_OK);
    add(&c, &m[0], "Why?", &p);
    add(&c, &m[1], "Why?", &p);
    assert_int_equal(crew_step(&c, NULL), CAG_OK);
    crew_release(&c);
}

/* --- cag_kb_ask_many ------------------------------------------------------ */

static void many_questions_many_answers(void **state)
{
    cag_ask_params p = params(5, 0), hot = params(5, 0.9f), bad = params(-1, 0);
    cag_question q[N + 3];
    cag_answer a[N + 3], want;
    cag_error e[N + 3];

    (void)state;
    memset(q, 0, sizeof q);
    for (int i = 0; i < N; i++)
        q[i] = (cag_question){ .text = asked[i],
                               .size = strlen(asked[i]),
                               .params = i % 2 ? &hot : &p };
    q[N] = (cag_question){ .text = " ", .size = 1, .params = &p };
    q[N + 1] = (cag_question){ .text = "Why?", .size = 4, .params = &bad };
    q[N + 2] = (cag_question){ .text = "Why?", .size = 4 }; /* defaults */
    hot.evidence = true;
    for (int parallel = 0; parallel < 5; parallel++) {
        memset(a, 0x55, sizeof a);
        assert_int_equal(cag_kb_ask_many(kb, q, N + 3, parallel, a,
                                         parallel % 2 ? e : NULL, NULL),
                         CAG_OK);
        assert_int_equal(rows_seen, N + 3);
        assert_null(a[N].text);
        assert_null(a[N + 1].text);
        if (parallel % 2) {
            assert_int_equal(e[0].status, CAG_OK);
            assert_int_equal(e[N].status, CAG_E_FORMAT);
            assert_int_equal(e[N + 1].status, CAG_E_USAGE);
            assert_int_equal(e[N + 2].status, CAG_OK);
        }
        for (int i = 0; i < N + 3; i++) {
            if (i != N && i != N + 1) {
                want = alone(q[i].text, q[i].params);
                same_answer(&a[i], &want);
                assert_int_equal(a[i].checked != NULL, i < N && i % 2);
                if (a[i].checked)
                    assert_int_equal(a[i].checked->support,
                                     want.checked->support);
                cag_answer_release(&want);
            }
            cag_answer_release(&a[i]);
        }
    }
    assert_int_equal(cag_kb_ask_many(kb, NULL, 0, 0, NULL, NULL, NULL), CAG_OK);
    assert_int_equal(cag_kb_ask_many(kb, q, -1, 0, a, e, NULL), CAG_E_USAGE);
    assert_int_equal(cag_kb_ask_many(kb, q, 1, -1, a, e, NULL), CAG_E_USAGE);
}

static void what_is_answered_before_a_stop_stays(void **state)
{
    cag_ask_params p = params(5, 0);
    cag_question q[N];
    cag_answer a[N];
    int n = 0;

    (void)state;
    memset(q, 0, sizeof q);
    for (int i = 0; i < N; i++)
        q[i] = (cag_question){ .text = asked[i],
                               .size = strlen(asked[i]),
                               .params = &p };
    rows_seen = 0;
    stop_after = 2;
    assert_int_equal(cag_kb_ask_many(kb, q, N, 1, a, NULL, NULL),
                     CAG_E_CANCELLED);
    stop_after = rows_seen = 0;
    for (int i = 0; i < N; i++) {
        n += a[i].text != NULL;
        cag_answer_release(&a[i]);
    }
    assert_true(n >= 2 && n < N);
    /* and the kb answers as before */
    a[0] = alone("Why?", &p);
    cag_answer_release(&a[0]);
}

/* n tokens that begin as they like and end in `times` copies of period ones */
static bool ends(int n_begin, int period, int times, int spoil)
{
    int32_t ids[4096];
    size_t n = 0;

    for (int i = 0; i < n_begin; i++)
        ids[n++] = 100000 + i;
    for (int i = 0; i < period * times; i++)
        ids[n++] = i % period;
    if (spoil)
        ids[n - (size_t)spoil] = -1;
    return repeat_ends(ids, n);
}

static void only_an_exact_repetition_is_a_loop(void **state)
{
    (void)state;
    assert_false(repeat_ends(NULL, 0));
    for (int period = 1; period <= REPEAT_MAX; period++) {
        int times = REPEAT_TOKENS / period + (REPEAT_TOKENS % period != 0);

        times = times < REPEAT_TIMES ? REPEAT_TIMES : times;
        assert_true(ends(0, period, times, 0));
        assert_true(ends(50, period, times, 0));
        if (period > 1) /* what stands before it does not count */
            assert_false(ends(50, period, times - 1, 0));
        for (int at = 1; at <= REPEAT_TOKENS; at += 13)
            assert_false(ends(50, period, times, at));
    }
    assert_false(ends(0, REPEAT_MAX + 1, 8, 0));
    assert_false(ends(4000, 1, 1, 0)); /* no token twice */
}

/* With it an answer is what it was, up to where it only repeats itself. */
static void ending_loops_changes_no_other_answer(void **state)
{
    static const char *const q[] = { "What?", "Who leads it?", "a a a a a a" };
    cag_ask_params p = params(250, 0), l = p;

    (void)state;
    l.end_loops = true;
    for (int i = 0; i < 3; i++) {
        cag_answer a = alone(q[i], &p), b = alone(q[i], &l);

        assert_false(a.looped);
        if (!b.looped)
            assert_string_equal(a.text, b.text);
        else
            assert_true(b.n_generated < a.n_generated &&
                        !strcmp(b.finish, "length") &&
                        !strncmp(a.text, b.text, b.size));
        cag_answer_release(&a);
        cag_answer_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_change_nothing),
        cmocka_unit_test(only_an_exact_repetition_is_a_loop),
        cmocka_unit_test(ending_loops_changes_no_other_answer),
        cmocka_unit_test(a_turn_ends_where_the_context_does),
        cmocka_unit_test(a_crew_of_any_size_gives_the_same_answers),
        cmocka_unit_test(equal_greedy_questions_are_answered_once),
        cmocka_unit_test(one_that_is_bad_or_stopped_is_alone_with_it),
        cmocka_unit_test(many_questions_many_answers),
        cmocka_unit_test(what_is_answered_before_a_stop_stays),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
