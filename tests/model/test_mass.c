/*
 * test_mass.c - what heads give each token of a prefix.
 *
 *   - it is what plain attention in double gives, summed over the rows of
 *     the question, and over those of the answer, apart
 *   - its bits depend on nothing else: not on threads, rows of a pass,
 *     guesses that were taken back, or on neighbours
 *   - hidden tokens get nothing, and the logits do not notice
 */
#include "tests/lib/place.h"

#include "util/mem.h"

enum { N_HEAD = 3, QUESTION = 0, ANSWER = 1 };

/* One head in the first layer, two in the last. */
static void heads_of(const struct place *x, struct copy_head *head)
{
    const struct model_config *c = &x->m->config;

    head[0] = (struct copy_head){ 0, c->n_head - 1 };
    head[1] = (struct copy_head){ c->n_layer - 1, 0 };
    head[2] = (struct copy_head){ c->n_layer - 1, c->n_head - 1 };
}

static size_t sums(const struct place *x)
{
    return (size_t)N_HEAD * (size_t)x->n;
}

/*
 * A question and N_STEP answer tokens that are given, not chosen; with guesses
 * that are taken back, kept later, or not there.  sum [2, N_HEAD, n]; the last
 * logits, [n_vocab].
 */
static void ask(const struct place *x, cag_session *s,
                cag_session *const *other, int n_other, int guess, double *sum,
                float *last)
{
    const int32_t *id = x->ids + x->n + N_QUESTION;
    size_t bytes = (size_t)x->n_vocab * sizeof *last;
    const float *logits;
    int done = 0;

    if (sum)
        OK(session_set_mass(s, sum, err));
    /* in two prompts: rows that no logits are asked of */
    OK(cag_session_prefill(s, x->ids + x->n, 4, NULL, err));
    OK(cag_session_prefill(s, x->ids + x->n + 4, N_QUESTION - 4, &logits, err));
    if (sum)
        OK(session_set_mass(s, sum + sums(x), err));
    while (done < N_STEP) {
        int32_t one = 1, in[CAG_STEP_MAX];
        int n = guess ? 1 + (done + guess) % CAG_STEP_MAX : 1;
        int good = guess == 2 ? n : 1; /* 2: they are right, as far as needed */
        cag_step all[8];

        good = good < N_STEP - done ? good : N_STEP - done;
        for (int t = 0; t < n; t++)
            in[t] = t < good ? id[done + t] : 2 + t;
        for (int j = 0; j < n_other; j++)
            all[j] = (cag_step){ .session = other[j], .ids = &one, .n_ids = 1 };
        all[n_other] = (cag_step){ .session = s, .ids = in, .n_ids = n };
        OK(cag_session_verify(all, n_other + 1, err));
        logits = all[n_other].logits + (size_t)(good - 1) * (size_t)x->n_vocab;
        if (good < n)
            OK(cag_session_truncate(s, cag_session_n_tok(s) - (n - good), err));
        done += good;
    }
    memcpy(last, logits, bytes);
    if (sum)
        OK(session_set_mass(s, NULL, err));
}

/* ----------------------------------------------------------- the reference */

struct expected {
    const struct place *x;
    struct copy_head head[N_HEAD];
    double *sum; /* [2, N_HEAD, n] */
};

static void collect(void *ctx, int layer, int head, int q, const double *share)
{
    struct expected *w = ctx;
    int n = w->x->n, answer = q >= n + N_QUESTION ? ANSWER : QUESTION;

    for (int i = 0; i < N_HEAD; i++) {
        if (q < n || w->head[i].layer != layer || w->head[i].head != head)
            continue;
        double *to =
            w->sum + (size_t)answer * sums(w->x) + (size_t)i * (size_t)n;
        for (int t = 0; t < n; t++)
            to[t] += share[t];
    }
}

static double *new_sums(const struct place *x)
{
    return plain_alloc(2 * sums(x));
}

static void reference(void **state)
{
    static const int lengths[] = { 1100, 300, 130, 1088, 200, 90 };
    static const double tolerance[] = { 1e-5, 5e-3, 1e-2, 8e-2, 0.1, 0.1 };
    static const int seen[] = { 0, 6, 9, 8 };

    (void)state;
    for (int i = 0; i < N_SETUP; i++) {
        struct place x;
        struct expected w = { .x = &x };
        cag_prefix *p = NULL;
        cag_engine *e;
        cag_session *s;
        double worst = 0;

        place_open(&x, &setups[i], lengths[i]);
        heads_of(&x, w.head);
        e = engine_of(&x, 2, 0);
        OK(engine_set_heads(e, w.head, N_HEAD, err));
        OK(cag_prefix_new(e, x.k, &p, err));
        s = mt_session(e, p, x.n + MORE);
        struct plain *plain = plain_new(x.m, x.n + MORE);
        float *last = calloc((size_t)x.n_vocab, sizeof *last);
        assert_non_null(last);
        plain_run(plain, x.ids, x.n, NULL);
        for (size_t v = 0; v < sizeof seen / sizeof seen[0]; v++) {
            struct plain_view pv = { .n = x.n };
            double *got = new_sums(&x), given = 0;

            w.sum = new_sums(&x);
            pv.n_range = ranges_of(&views[seen[v]], x.n, pv.range);
            plain->sees = sees;
            plain->ctx = &pv;
            plain->shares = collect;
            plain->shares_ctx = &w;
            plain->n_tok = x.n;
            plain_run(plain, x.ids + x.n, N_QUESTION + N_STEP, NULL);
            set_view(s, &views[seen[v]], x.n);
            ask(&x, s, NULL, 0, 0, got, last);
            OK(cag_session_truncate(s, x.n, err));
            for (size_t t = 0; t < 2 * sums(&x); t++) {
                worst = fmax(worst, fabs(got[t] - w.sum[t]));
                given += got[t];
                if (!sees(&pv, x.n, (int)(t % (size_t)x.n)))
                    assert_true(got[t] == 0);
            }
            assert_true(given > 0 || pv.n_range == 0);
            free(got);
            free(w.sum);
        }
        print_message("%-22s %-4s %-7s: mass of a token is off by %.1e\n",
                      setups[i].model + 7, setups[i].codec,
                      cag_precision_name(setups[i].precision), worst);
        assert_true(worst <= tolerance[i]);
        free(last);
        plain_free(plain);
        cag_session_free(s);
        cag_prefix_free(p);
        cag_engine_free(e);
        place_close(&x);
    }
}

/* ---------------------------------------------------------------- the bits */

static void check(const struct place *x, const double *want, const float *last,
                  int n_thread, int rows, int guess, const struct view *v)
{
    cag_engine *e = engine_of(x, n_thread, rows);
    struct copy_head head[N_HEAD];
    double *got = new_sums(x), *beside = new_sums(x);
    float *here = calloc((size_t)x->n_vocab, sizeof *here);
    cag_session *s, *other[3];
    cag_prefix *p = NULL;

    assert_non_null(here);
    heads_of(x, head);
    OK(engine_set_heads(e, head, N_HEAD, err));
    OK(cag_prefix_new(e, x->k, &p, err));
    for (int j = 0; j < 3; j++) {
        other[j] = mt_session(e, j < 2 ? p : NULL, x->n + MORE);
        if (j == 0)
            OK(session_set_mass(other[j], beside, err));
        OK(cag_session_prefill(other[j], x->ids, 2 + 9 * j, NULL, err));
    }
    s = mt_session(e, p, x->n + MORE);
    set_view(s, v, x->n);
    ask(x, s, other, 3, guess, got, here);
    if (memcmp(got, want, 2 * sums(x) * sizeof *got) != 0)
        fail_msg("%s, %s: %d threads, %d rows, guesses %d change the mass",
                 x->u->model, x->u->codec, n_thread, rows, guess);
    assert_memory_equal(here, last, (size_t)x->n_vocab * sizeof *here);
    for (int j = 0; j < 3; j++)
        cag_session_free(other[j]);
    cag_session_free(s);
    cag_prefix_free(p);
    cag_engine_free(e);
    free(got);
    free(beside);
    free(here);
}

static void bits(void **state)
{
    static const int lengths[] = { 1100, 1024, 64, 2111, 1, 1088 };
    static const int threads[] = { 1, 2, 8 }, rows[] = { 512, 1, 7 };
    static const int seen[] = { 0, 9 };

    (void)state;
    for (int i = 0; i < N_SETUP; i++)
        for (int v = 0; v < 2; v++) {
            struct place x;
            struct copy_head head[N_HEAD];
            cag_prefix *p = NULL;
            cag_session *s;
            cag_engine *e;

            place_open(&x, &setups[i], lengths[i]);
            heads_of(&x, head);
            e = engine_of(&x, 1, 0);
            OK(cag_prefix_new(e, x.k, &p, err));
            s = mt_session(e, p, x.n + MORE);
            set_view(s, &views[seen[v]], x.n);
            double *want = new_sums(&x);
            float *last = calloc((size_t)x.n_vocab, sizeof *last);
            float *plain = calloc((size_t)x.n_vocab, sizeof *plain);
            assert_true(last && plain);
            /* logits are those of a session that is not measured */
            ask(&x, s, NULL, 0, 0, NULL, plain);
            OK(cag_session_truncate(s, x.n, err));
            OK(engine_set_heads(e, head, N_HEAD, err));
            ask(&x, s, NULL, 0, 0, want, last);
            assert_memory_equal(last, plain, (size_t)x.n_vocab * sizeof *last);
            cag_session_free(s);
            cag_prefix_free(p);
            cag_engine_free(e);
            for (int j = 0; j < 3; j++)
                check(&x, want, last, threads[j], rows[(i + j) % 3], j,
                      &views[seen[v]]);
            free(want);
            free(last);
            free(plain);
            place_close(&x);
        }
}

/* Rows of a prompt apart: each is what it adds, however prompts are cut. */
static void rows_apart(void **state)
{
    (void)state;
    for (int i = 0; i < N_SETUP; i++) {
        static const int cut[][2] = { { N_QUESTION, 0 },
                                      { 3, N_QUESTION - 3 } };
        struct place x;
        struct copy_head head[N_HEAD];
        cag_prefix *p = NULL;

        place_open(&x, &setups[i], 150);
        heads_of(&x, head);
        size_t n = sums(&x);
        double *all = plain_alloc(n), *row = plain_alloc(N_QUESTION * n);
        for (int j = 0; j < 2; j++) {
            cag_engine *e = engine_of(&x, 1 + j, j ? 2 : 0);
            cag_session *s;

            OK(engine_set_heads(e, head, N_HEAD, err));
            OK(cag_prefix_new(e, x.k, &p, err));
            s = mt_session(e, p, x.n + MORE);
            memset(all, 0, n * sizeof *all);
            memset(row, 0, N_QUESTION * n * sizeof *row);
            OK(session_set_mass(s, all, err));
            OK(cag_session_prefill(s, x.ids + x.n, N_QUESTION, NULL, err));
            OK(cag_session_truncate(s, x.n, err));
            for (int part = 0, at = 0; part < 2; at += cut[j][part++])
                if (cut[j][part]) {
                    OK(session_set_mass_rows(s, row + (size_t)at * n, err));
                    OK(cag_session_prefill(s, x.ids + x.n + at, cut[j][part],
                                           NULL, err));
                }
            OK(session_set_mass(s, NULL, err));
            for (size_t t = 0; t < n; t++) {
                double sum = 0;

                for (int r = 0; r < N_QUESTION; r++)
                    sum += row[(size_t)r * n + t];
                assert_true(sum == all[t]); /* added in the same order */
            }
            cag_session_free(s);
            cag_prefix_free(p);
            cag_engine_free(e);
        }
        free(all);
        free(row);
        place_close(&x);
    }
}

/* ----------------------------------------------------------------- refused */

static void refused(void **state)
{
    static const struct copy_head bad[][2] = {
        { { -1, 0 }, { 0, 0 } }, { { 0, -1 }, { 0, 0 } },
        { { 0, 0 }, { 2, 0 } },  { { 0, 0 }, { 0, 99 } },
        { { 0, 0 }, { 0, 0 } },  { { 1, 0 }, { 0, 1 } },
    };
    const struct copy_head good[] = { { 0, 0 }, { 1, 1 } };
    cag_error why = CAG_ERROR_INIT;
    struct place x;
    cag_prefix *p = NULL;
    cag_session *s, *bare;
    cag_engine *e;
    double *sum;

    (void)state;
    place_open(&x, &setups[1], 70);
    e = engine_of(&x, 1, 0);
    OK(cag_prefix_new(e, x.k, &p, err));
    s = mt_session(e, p, x.n + MORE);
    bare = mt_session(e, NULL, x.n + MORE);
    sum = new_sums(&x);
    assert_int_equal(session_set_mass(s, sum, &why), CAG_E_USAGE);
    assert_non_null(strstr(why.msg, "without heads"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(engine_set_heads(e, bad[i], 2, &why), CAG_E_USAGE);
    mem_fault(1, false);
    assert_int_equal(engine_set_heads(e, good, 2, &why), CAG_E_NOMEM);
    mem_fault(0, false);
    OK(engine_set_heads(e, good, 2, err));
    assert_int_equal(session_set_mass(bare, sum, &why), CAG_E_USAGE);
    mem_fault(1, false);
    assert_int_equal(session_set_mass(s, sum, &why), CAG_E_NOMEM);
    mem_fault(0, false);
    OK(session_set_mass(s, sum, err));
    assert_int_equal(engine_set_heads(e, good, 1, &why), CAG_E_USAGE);
    assert_non_null(strstr(why.msg, "1 of its sessions"));
    OK(session_set_mass(s, NULL, err));
    OK(session_set_mass(s, NULL, err));
    OK(engine_set_heads(e, good, 1, err));
    OK(engine_set_heads(e, NULL, 0, err));
    free(sum);
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
        cmocka_unit_test(rows_apart),
        cmocka_unit_test(reference),
    };

    return cmocka_run_group_tests_name("mass", tests, NULL, NULL);
}
