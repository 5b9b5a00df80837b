/*
 * test_view.c - a session that sees a part of its prefix.
 *
 *   - a view of everything gives the bits of no view
 *   - a view gives what plain attention in double gives with the hidden keys
 *     left out, for every kind of cache and arithmetic
 *   - its bits depend on nothing else: not on threads, rows of a pass,
 *     guesses, or on what its neighbours in a step see
 */
#include "tests/lib/place.h"

#include "util/mem.h"

/*
 * The logits after the question and after each of N_STEP greedy tokens, [N_OUT,
 * n_vocab]; with rejected guesses beside every other step, and neighbours that
 * repeat an id.
 */
static void answer(const struct place *x, cag_session *s,
                   cag_session *const *other, int n_other, bool guess,
                   float *out)
{
    size_t width = (size_t)x->n_vocab;
    const float *logits;

    OK(cag_session_prefill(s, x->ids + x->n, N_QUESTION, &logits, err));
    memcpy(out, logits, width * sizeof *out);
    for (int i = 0; i < N_STEP; i++) {
        int32_t one = 1, id[CAG_STEP_MAX] = { 0, 1, 2, 3 };
        int extra = guess ? i % CAG_STEP_MAX : 0;
        cag_step all[8];

        id[0] = mt_argmax(out + (size_t)i * width, x->n_vocab);
        for (int j = 0; j < n_other; j++)
            all[j] = (cag_step){ .session = other[j], .ids = &one, .n_ids = 1 };
        all[n_other] =
            (cag_step){ .session = s, .ids = id, .n_ids = 1 + extra };
        OK(cag_session_verify(all, n_other + 1, err));
        memcpy(out + (size_t)(i + 1) * width, all[n_other].logits,
               width * sizeof *out);
        OK(cag_session_truncate(s, cag_session_n_tok(s) - extra, err));
    }
}

static float *room(const struct place *x)
{
    float *p = calloc((size_t)x->n_vocab * N_OUT, sizeof *p);

    assert_non_null(p);
    return p;
}

static void same(const struct place *x, const float *got, const float *want,
                 const char *view, const char *what)
{
    if (memcmp(got, want, (size_t)x->n_vocab * N_OUT * sizeof *got) != 0)
        fail_msg("%s, %s, %d tokens, view '%s': %s changes the logits",
                 x->u->model, x->u->codec, x->n, view, what);
}

/* ----------------------------------------------------------- the reference */

/* Largest difference of the logits of an answer to plain ones, as a share of
 * the largest logit. */
static double distance(const struct place *x, struct plain *p,
                       const struct view *v, const float *got)
{
    struct plain_view pv = { .n = x->n };
    double *want = plain_alloc((size_t)x->n_vocab), worst = 0;

    pv.n_range = ranges_of(v, x->n, pv.range);
    p->sees = sees;
    p->ctx = &pv;
    p->n_tok = x->n;
    plain_run(p, x->ids + x->n, N_QUESTION, want);
    for (int i = 0; i < N_OUT; i++, got += x->n_vocab) {
        double top = 0, off = 0;

        for (int j = 0; j < x->n_vocab; j++) {
            top = fmax(top, fabs(want[j]));
            off = fmax(off, fabs(want[j] - (double)got[j]));
        }
        worst = fmax(worst, off / top);
        if (i < N_STEP) {
            int32_t id = mt_argmax(got, x->n_vocab);

            plain_run(p, &id, 1, want);
        }
    }
    free(want);
    return worst;
}

static void reference(void **state)
{
    (void)state;
    for (int i = 0; i < N_SETUP; i++) {
        struct place x;
        cag_prefix *p = NULL;
        cag_engine *e;
        cag_session *s;
        struct plain *plain;
        float *got;
        double worst = 0, power = INFINITY;

        place_open(&x, &setups[i], i % 2 ? 300 : 1100);
        e = engine_of(&x, 2, 0);
        OK(cag_prefix_new(e, x.k, &p, err));
        s = mt_session(e, p, x.n + MORE);
        plain = plain_new(x.m, x.n + MORE);
        plain_run(plain, x.ids, x.n, NULL);
        got = room(&x);
        for (int v = 0; v < N_VIEW; v++) {
            set_view(s, &views[v], x.n);
            answer(&x, s, NULL, 0, false, got);
            OK(cag_session_truncate(s, x.n, err));
            worst = fmax(worst, distance(&x, plain, &views[v], got));
            if (v > 0) /* it matters what is hidden */
                power = fmin(power, distance(&x, plain, &views[0], got));
        }
        print_message("%-22s %-4s %-7s: a logit is off by %.1e; with all "
                      "visible, by %.1e\n",
                      setups[i].model + 7, setups[i].codec,
                      cag_precision_name(setups[i].precision), worst, power);
        if (worst > setups[i].tolerance || power < 2 * worst)
            fail_msg("%s, %s: %g, expected %g at most", setups[i].model,
                     setups[i].codec, worst, setups[i].tolerance);
        free(got);
        plain_free(plain);
        cag_session_free(s);
        cag_prefix_free(p);
        cag_engine_free(e);
        place_close(&x);
    }
}

/* ---------------------------------------------------------------- the bits */

/* Every view of one prefix with these threads and rows, in a step with three
 * sessions that see other things, against the bits of a session alone. */
static void in_company(const struct place *x, float *const *want, int n_thread,
                       int rows)
{
    cag_engine *e = engine_of(x, n_thread, rows);
    cag_session *s, *other[4];
    cag_prefix *p = NULL;
    float *got = room(x);

    OK(cag_prefix_new(e, x->k, &p, err));
    s = mt_session(e, p, x->n + MORE);
    for (int v = 0; v < N_VIEW; v++) {
        for (int j = 0; j < 4; j++) {
            other[j] = mt_session(e, j < 3 ? p : NULL, x->n + MORE);
            if (j < 2) /* the same view, and another one */
                set_view(other[j], &views[(v + j * 3) % N_VIEW], x->n);
            OK(cag_session_prefill(other[j], x->ids, 1 + 9 * j, NULL, err));
        }
        set_view(s, &views[v], x->n);
        answer(x, s, other, 4, true, got);
        OK(cag_session_truncate(s, x->n, err));
        same(x, got, want[v], views[v].name, "company");
        for (int j = 0; j < 4; j++)
            cag_session_free(other[j]);
    }
    free(got);
    cag_session_free(s);
    cag_prefix_free(p);
    cag_engine_free(e);
}

/* Questions of all views in one pass. */
static void together(const struct place *x, float *const *want)
{
    cag_engine *e = engine_of(x, 2, 100);
    cag_session *s[N_VIEW];
    cag_step step[N_VIEW];
    cag_prefix *p = NULL;

    OK(cag_prefix_new(e, x->k, &p, err));
    for (int v = 0; v < N_VIEW; v++) {
        s[v] = mt_session(e, p, x->n + MORE);
        set_view(s[v], &views[v], x->n);
        step[v] = (cag_step){ .session = s[v],
                              .ids = x->ids + x->n,
                              .n_ids = N_QUESTION };
    }
    OK(cag_session_prefill_many(step, N_VIEW, err));
    for (int v = 0; v < N_VIEW; v++) {
        assert_memory_equal(step[v].logits, want[v],
                            (size_t)x->n_vocab * sizeof(float));
        cag_session_free(s[v]);
    }
    cag_prefix_free(p);
    cag_engine_free(e);
}

static void bits(void **state)
{
    static const int lengths[] = { 1100, 1024, 64, 2111, 1, 1088 };
    static const int threads[] = { 1, 2, 8 }, rows[] = { 512, 1, 7 };

    (void)state;
    for (int i = 0; i < N_SETUP; i++) {
        struct place x;
        cag_prefix *p = NULL;
        cag_engine *e;
        float *want[N_VIEW], *none;

        place_open(&x, &setups[i], lengths[i]);
        e = engine_of(&x, 1, 0);
        OK(cag_prefix_new(e, x.k, &p, err));
        for (int v = 0; v < N_VIEW; v++) {
            cag_session *s = mt_session(e, p, x.n + MORE);

            want[v] = room(&x);
            set_view(s, &views[v], x.n);
            answer(&x, s, NULL, 0, false, want[v]);
            cag_session_free(s);
        }
        none = room(&x);
        cag_session *s = mt_session(e, p, x.n + MORE);
        answer(&x, s, NULL, 0, false, none);
        same(&x, want[0], none, "all", "a view of everything");
        /* and a view that was taken back */
        set_view(s, &views[1], x.n);
        OK(session_set_view(s, NULL, 0, err));
        OK(cag_session_truncate(s, x.n, err));
        answer(&x, s, NULL, 0, false, want[0]);
        same(&x, want[0], none, "all", "a view taken back");
        cag_session_free(s);
        cag_prefix_free(p);
        cag_engine_free(e);
        for (int j = 0; j < 3; j++)
            in_company(&x, want, threads[j], rows[(i + j) % 3]);
        together(&x, want);
        for (int v = 0; v < N_VIEW; v++)
            free(want[v]);
        free(none);
        place_close(&x);
    }
}

/* ----------------------------------------------------------------- refused */

static void refused(void **state)
{
    static const struct token_range bad[][2] = {
        { { 0, 0 }, { 1, 2 } },   { { 3, 2 }, { 4, 5 } },
        { { -1, 2 }, { 4, 5 } },  { { 0, 3 }, { 2, 5 } },
        { { 0, 3 }, { 60, 71 } }, { { 8, 9 }, { 0, 1 } },
    };
    const struct token_range good = { 0, 5 };
    struct place x;
    cag_prefix *p = NULL;
    cag_session *s, *bare;
    cag_engine *e;
    float *want, *got;
    int64_t live;

    (void)state;
    place_open(&x, &setups[1], 70);
    e = engine_of(&x, 1, 0);
    OK(cag_prefix_new(e, x.k, &p, err));
    s = mt_session(e, p, x.n + MORE);
    bare = mt_session(e, NULL, x.n + MORE);
    want = room(&x);
    got = room(&x);
    OK(session_set_view(s, &good, 1, err));
    answer(&x, s, NULL, 0, false, want);
    OK(cag_session_truncate(s, x.n, err));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cag_error err = CAG_ERROR_INIT;

        assert_int_equal(session_set_view(s, bad[i], 2, &err), CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "expected ascending ranges"));
    }
    cag_error err = CAG_ERROR_INIT;
    assert_int_equal(session_set_view(bare, &good, 1, &err), CAG_E_USAGE);
    assert_non_null(strstr(err.msg, "no prefix"));
    live = mem_live();
    mem_fault(1, false);
    assert_int_equal(session_set_view(s, &good, 1, &err), CAG_E_NOMEM);
    mem_fault(0, false);
    assert_int_equal(mem_live(), live);
    answer(&x, s, NULL, 0, false, got);
    same(&x, got, want, "0 to 5", "a view that was refused");
    free(want);
    free(got);
    cag_session_free(bare);
    cag_session_free(s);
    cag_prefix_free(p);
    cag_engine_free(e);
    place_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(bits),
        cmocka_unit_test(reference),
    };

    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
