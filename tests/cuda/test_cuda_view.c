/*
 * test_cuda_view.c - parts of a prefix, and what heads give its tokens, on the
 * CUDA backend and split between CPU and GPU, by way of the host shim.
 *
 *   - logits agree with the CPU's within the tolerance of cuda_model.h
 *   - shares agree with the CPU's, and what is hidden gets 0
 *   - neighbours, guesses and passes that are cut change neither
 *   - a step is recorded once, whatever it sees
 */
#include "tests/lib/place.h"

#include "tests/cuda/cuda_model.h"
#include "util/mem.h"

enum { N_HEAD = 4, MAX_N = 300 };

/* Two heads in the first layer, two in the last. */
static void heads_of(const struct place *x, struct copy_head *head)
{
    const struct model_config *c = &x->m->config;

    head[0] = (struct copy_head){ 0, 0 };
    head[1] = (struct copy_head){ 0, c->n_head - 1 };
    head[2] = (struct copy_head){ c->n_layer - 1, 0 };
    head[3] = (struct copy_head){ c->n_layer - 1, c->n_head - 1 };
}

static const int32_t *question(const struct place *x)
{
    return x->ids + x->n;
}

static const int32_t *forced(const struct place *x)
{
    return x->ids + x->n + N_QUESTION;
}

/* What a session said and measured. */
struct told {
    float *logits; /* [N_OUT, n_vocab] */
    double *sum;   /* [N_HEAD, n] or NULL */
};

static struct told told_new(const struct place *x, bool measured)
{
    struct told r = { calloc((size_t)(N_OUT * x->n_vocab), sizeof *r.logits),
                      measured ? plain_alloc((size_t)(N_HEAD * x->n)) : NULL };

    assert_non_null(r.logits);
    return r;
}

static void told_free(struct told *r)
{
    free(r->logits);
    free(r->sum);
}

/*
 * A question in two prompts, the first without logits, and forced steps;
 * guess: with drafts that are taken back.  other: sessions that step beside.
 */
static void ask(const struct place *x, cag_session *s,
                cag_session *const *other, int n_other, bool guess,
                struct told *r)
{
    size_t width = (size_t)x->n_vocab;
    const float *y;

    if (r->sum)
        OK(session_set_mass(s, r->sum, err));
    OK(cag_session_prefill(s, question(x), 5, NULL, err));
    OK(cag_session_prefill(s, question(x) + 5, N_QUESTION - 5, &y, err));
    memcpy(r->logits, y, width * sizeof *y);
    for (int i = 0; i < N_STEP; i++) {
        int32_t one = 1, id[CAG_STEP_MAX] = { forced(x)[i], 1, 2, 3 };
        int extra = guess ? i % CAG_STEP_MAX : 0;
        cag_step all[8];

        for (int j = 0; j < n_other; j++)
            all[j] = (cag_step){ .session = other[j], .ids = &one, .n_ids = 1 };
        all[n_other] =
            (cag_step){ .session = s, .ids = id, .n_ids = 1 + extra };
        OK(cag_session_verify(all, n_other + 1, err));
        memcpy(r->logits + (size_t)(i + 1) * width, all[n_other].logits,
               width * sizeof *y);
        OK(cag_session_truncate(s, cag_session_n_tok(s) - extra, err));
    }
    if (r->sum)
        OK(session_set_mass(s, NULL, err));
    OK(cag_session_truncate(s, x->n, err));
}

static double worst_share;

static void agree(const struct place *x, const struct told *cpu,
                  const struct told *gpu, const struct view *v,
                  double tolerance)
{
    struct plain_view pv = { .n = x->n };

    pv.n_range = ranges_of(v, x->n, pv.range);
    for (int i = 0; i < N_OUT; i++)
        see(cpu->logits + (size_t)(i * x->n_vocab),
            gpu->logits + (size_t)(i * x->n_vocab), x->n_vocab, v->name);
    for (int i = 0; cpu->sum && i < N_HEAD * x->n; i++) {
        double off = fabs(cpu->sum[i] - gpu->sum[i]);

        if (!sees(&pv, x->n, i % x->n))
            assert_true(gpu->sum[i] == 0 && cpu->sum[i] == 0);
        worst_share = fmax(worst_share, off);
        if (!(off <= tolerance))
            fail_msg("%s, %s, view '%s': head %d gives token %d %g, the CPU's "
                     "%g",
                     x->u->model, x->u->codec, v->name, i / x->n, i % x->n,
                     gpu->sum[i], cpu->sum[i]);
    }
}

/* A shape's models are random: rows attend nearly evenly, and 17 rows add. */
static const struct setup on_gpu[] = {
    { "models/qwen3.F16.gguf", CAG_PRECISION_DEFAULT, false, "f16", 3e-2 },
    { "models/llama3.F16.gguf", CAG_PRECISION_EXACT, false, "q8h", 1e-2 },
    { "models/llama-yarn.F32.gguf", CAG_PRECISION_DEFAULT, false, "f16z",
      1e-2 },
};

/* Every view of caches of each kind, whole on the GPU and split. */
static void views_agree(void **state)
{
    static const int lengths[] = { 130, 200, 64 };

    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct setup *u = &on_gpu[i % 3];
        struct copy_head head[N_HEAD];
        cag_prefix *p = NULL, *q = NULL;
        cag_engine *cpu, *gpu;
        struct place x;

        shim_seed((unsigned)i + 1);
        place_open(&x, u, lengths[i % 3]);
        heads_of(&x, head);
        cpu = engine_of(&x, 2, 0);
        gpu_layers = i < 3 ? 0 : 1;
        gpu = cuda_engine(x.m, 40, u->precision);
        gpu_layers = 0;
        OK(engine_set_heads(cpu, head, N_HEAD, err));
        OK(engine_set_heads(gpu, head, N_HEAD, err));
        OK(cag_prefix_new(cpu, x.k, &p, err));
        OK(cag_prefix_new(gpu, x.k, &q, err));
        cag_session *a = mt_session(cpu, p, x.n + MORE);
        cag_session *b = mt_session(gpu, q, x.n + MORE);
        for (int v = 0; v < N_VIEW; v += i < 3 ? 1 : 3) {
            struct told want = told_new(&x, true), got = told_new(&x, true);

            set_view(a, &views[v], x.n);
            set_view(b, &views[v], x.n);
            ask(&x, a, NULL, 0, false, &want);
            ask(&x, b, NULL, 0, v % 2, &got);
            agree(&x, &want, &got, &views[v], u->tolerance);
            told_free(&want);
            told_free(&got);
        }
        print_message("# %s %s, %s: a token's share is off by %.1e\n",
                      u->model + 7, u->codec, cag_engine_device(gpu),
                      worst_share);
        worst_share = 0;
        cag_session_free(a);
        cag_session_free(b);
        cag_prefix_free(p);
        cag_prefix_free(q);
        cag_engine_free(cpu);
        cag_engine_free(gpu);
        place_close(&x);
    }
    check_median();
}

/* Beside sessions that see other things, are measured or are not, or have no
 * prefix; in passes of few rows and of all. */
static void company(void **state)
{
    static const int rows[] = { 512, 7 };
    static const int seen_here[] = { 6, 9, 1 };
    struct copy_head head[N_HEAD];
    struct place x;

    (void)state;
    place_open(&x, &on_gpu[2], 130);
    heads_of(&x, head);
    for (int i = 0; i < 2; i++) {
        cag_engine *e = cuda_engine(x.m, rows[i], CAG_PRECISION_DEFAULT);
        cag_session *s, *other[5];
        cag_prefix *p = NULL;

        shim_seed((unsigned)i + 7);
        OK(engine_set_heads(e, head, N_HEAD, err));
        OK(cag_prefix_new(e, x.k, &p, err));
        s = mt_session(e, p, x.n + MORE);
        for (int k = i; k < 3 - i; k++) {
            int v = seen_here[k];
            struct told want = told_new(&x, true), got = told_new(&x, true);
            struct told beside = told_new(&x, true);

            set_view(s, &views[v], x.n);
            ask(&x, s, NULL, 0, false, &want);
            for (int j = 0; j < 5; j++) {
                other[j] = mt_session(e, j < 4 ? p : NULL, x.n + MORE);
                if (j < 3) /* the same view, and others */
                    set_view(other[j], &views[(v + j * 3) % N_VIEW], x.n);
                if (j == 1)
                    OK(session_set_mass(other[j], beside.sum, err));
                OK(cag_session_prefill(other[j], x.ids, 1 + 3 * j, NULL, err));
            }
            ask(&x, s, other, 5, true, &got);
            /* many rows go through other products than one */
            agree(&x, &want, &got, &views[v], on_gpu[2].tolerance);
            for (int j = 0; j < 5; j++)
                cag_session_free(other[j]);
            told_free(&want);
            told_free(&got);
            told_free(&beside);
        }
        cag_session_free(s);
        cag_prefix_free(p);
        cag_engine_free(e);
    }
    place_close(&x);
    check_median();
}

/* Questions of all views in one pass, measured with all that it may hold. */
static void together(void **state)
{
    struct copy_head head[N_HEAD];
    cag_step step[2][N_VIEW];
    cag_prefix *p[2] = { NULL, NULL };
    struct told r[2][N_VIEW];
    cag_engine *e[2];
    struct place x;

    (void)state;
    place_open(&x, &on_gpu[1], MAX_N);
    heads_of(&x, head);
    e[0] = engine_of(&x, 2, 100);
    e[1] = cuda_engine(x.m, 200, CAG_PRECISION_EXACT);
    for (int i = 0; i < 2; i++) {
        OK(engine_set_heads(e[i], head, N_HEAD, err));
        OK(cag_prefix_new(e[i], x.k, &p[i], err));
        for (int v = 0; v < N_VIEW; v++) {
            cag_session *s = mt_session(e[i], p[i], x.n + MORE);

            r[i][v] = told_new(&x, true);
            set_view(s, &views[v], x.n);
            OK(session_set_mass(s, r[i][v].sum, err));
            step[i][v] = (cag_step){ .session = s,
                                     .ids = question(&x),
                                     .n_ids = N_QUESTION };
        }
        OK(cag_session_prefill_many(step[i], N_VIEW, err));
    }
    for (int v = 0; v < N_VIEW; v++) {
        see(step[0][v].logits, step[1][v].logits, x.n_vocab, views[v].name);
        for (int i = 0; i < N_HEAD * x.n; i++)
            assert_true(fabs(r[0][v].sum[i] - r[1][v].sum[i]) <=
                        on_gpu[1].tolerance);
    }
    for (int i = 0; i < 2; i++) {
        for (int v = 0; v < N_VIEW; v++) {
            cag_session_free(step[i][v].session);
            told_free(&r[i][v]);
        }
        cag_prefix_free(p[i]);
        cag_engine_free(e[i]);
    }
    place_close(&x);
    assert_int_equal(shim_live(), 0);
    check_median();
}

/* A step's graph serves every view of its size, and other heads have others;
 * what is hidden is not copied, computed or waited for one by one. */
static void recorded(void **state)
{
    struct copy_head head[N_HEAD];
    double *sum;
    cag_prefix *p = NULL;
    const float *y;
    struct place x;

    (void)state;
    place_open(&x, &on_gpu[0], MAX_N);
    heads_of(&x, head);
    sum = plain_alloc((size_t)(N_HEAD * x.n));
    cag_engine *e = cuda_engine(x.m, 40, CAG_PRECISION_DEFAULT);
    OK(cag_prefix_new(e, x.k, &p, err));
    cag_session *s = mt_session(e, p, x.n + MORE);
    OK(cag_session_prefill(s, question(&x), 3, &y, err));
    for (int i = 0; i < 12; i++) {
        struct shim_count before = shim_counts(), after;

        if (i == 4) /* the first heads */
            OK(engine_set_heads(e, head, N_HEAD, err));
        if (i == 8) { /* others: as many, elsewhere */
            OK(session_set_mass(s, NULL, err));
            head[1] = (struct copy_head){ 0, 1 };
            OK(engine_set_heads(e, head, N_HEAD, err));
        }
        if (i == 4 || i == 8)
            OK(session_set_mass(s, sum, err));
        set_view(s, &views[i % N_VIEW], x.n);
        before = shim_counts();
        OK(cag_session_step(&s, forced(&x) + i % N_STEP, 1, &y, err));
        after = shim_counts();
        assert_int_equal(after.replays - before.replays, 1);
        /* the first of its kind is recorded, and room for it made */
        assert_int_equal(after.graphs - before.graphs, i % 4 == 0);
        if (i % 4 != 0)
            assert_int_equal(after.allocs - before.allocs, 0);
    }
    OK(session_set_mass(s, NULL, err));
    cag_session_free(s);
    cag_prefix_free(p);
    cag_engine_free(e);
    free(sum);
    place_close(&x);
    assert_int_equal(shim_live(), 0);
}

/* Without room for what is seen or measured a question fails, and the session
 * is as it was. */
static void no_room(void **state)
{
    struct copy_head head[N_HEAD];
    cag_error why = CAG_ERROR_INIT;
    struct place x;

    (void)state;
    place_open(&x, &on_gpu[0], 130);
    heads_of(&x, head);
    for (int n = 1; n <= 3; n++) { /* pinned and device memory, and the heads */
        cag_engine *e = cuda_engine(x.m, 40, CAG_PRECISION_DEFAULT);
        struct told want = told_new(&x, true), got = told_new(&x, true);
        cag_prefix *p = NULL;

        OK(engine_set_heads(e, head, N_HEAD, err));
        OK(cag_prefix_new(e, x.k, &p, err));
        cag_session *s = mt_session(e, p, x.n + MORE);
        set_view(s, &views[5], x.n);
        OK(session_set_mass(s, want.sum, err));
        OK(cag_prefix_load(p, err));
        if (n < 3)
            shim_fail_in(n == 1 ? "cudaMalloc" : "cudaHostAlloc", 1, 2);
        else
            mem_fault(1, false);
        assert_int_equal(cag_session_prefill(s, question(&x), 5, NULL, &why),
                         CAG_E_NOMEM);
        shim_fail(0, 0);
        shim_fail_in("", 0, 0);
        mem_fault(0, false);
        OK(session_set_mass(s, NULL, err));
        memset(want.sum, 0, (size_t)(N_HEAD * x.n) * sizeof *want.sum);
        assert_int_equal(cag_session_n_tok(s), x.n);
        ask(&x, s, NULL, 0, false, &want);
        ask(&x, s, NULL, 0, false, &got);
        agree(&x, &want, &got, &views[5], 1e-6);
        told_free(&want);
        told_free(&got);
        cag_session_free(s);
        cag_prefix_free(p);
        cag_engine_free(e);
        assert_int_equal(shim_live(), 0);
    }
    place_close(&x);
    check_median();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_agree), cmocka_unit_test(company),
        cmocka_unit_test(together),    cmocka_unit_test(recorded),
        cmocka_unit_test(no_room),
    };

    return cmocka_run_group_tests_name("cuda_view", tests, NULL, NULL);
}
