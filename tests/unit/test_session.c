/*
 * test_session.c - what a session refuses, and that a call that failed
 * leaves no trace: the timeline goes on as if it had not been made.
 */
#include "tests/lib/unit.h"

#include <math.h>

#include "tests/lib/mtest.h"

#include "engine/session.h"
#include "model/model.h"
#include "util/mem.h"

#define MODEL "models/llama3.F16.gguf" /* 2 layers, ids up to 318 */

static cag_model *m;
static int64_t live_at_start; /* blocks, with the model open */
static int32_t ids[400];

static int setup(void **state)
{
    (void)state;
    m = mt_model(MODEL);
    mt_ids(ids, 400, 3, mt_vocab(m));
    live_at_start = mem_live();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cag_model_close(m);
    return 0;
}

static cag_engine *engine(int n_thread, int chunk)
{
    return mt_engine(m, n_thread, chunk, CAG_PRECISION_DEFAULT, false);
}

#define REFUSED(call, want, part)                                     \
    do {                                                              \
        cag_error err_ = CAG_ERROR_INIT, *err = &err_;                \
        assert_int_equal((call), (want));                             \
        assert_int_equal(err_.status, (want));                        \
        if (strstr(err_.msg, (part)) == NULL)                         \
            fail_msg("\"%s\" does not say \"%s\"", err_.msg, (part)); \
    } while (0)

static void devices(void **state)
{
    static const char *const bad[] = { "gpu",       "",      "cuda:", "cuda:x",
                                       "cuda:1234", "cudax", "CPU" };
    cag_engine_opts o = { .device = "cuda", .n_thread = 1 };
    cag_engine *e = NULL;

    (void)state;
    REFUSED(cag_engine_new(m, &o, &e, err), CAG_E_UNSUPPORTED, "CUDA plugin");
    o.device = "cuda:0";
    REFUSED(cag_engine_new(m, &o, &e, err), CAG_E_UNSUPPORTED, "cuda:0");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.device = bad[i];
        REFUSED(cag_engine_new(m, &o, &e, err), CAG_E_USAGE, "unknown device");
    }
    o.device = NULL;
    o.pass_rows = -1;
    REFUSED(cag_engine_new(m, &o, &e, err), CAG_E_USAGE, "chunk");
    o.pass_rows = 0;
    o.device = "auto";
    o.n_thread = 3;
    OK(cag_engine_new(m, &o, &e, err));
    assert_int_equal(cag_engine_n_thread(e), 3);
    assert_string_equal(cag_engine_device(e), "cpu");
    assert_true(strlen(cag_engine_kernels(e)) > 0);
    assert_true(strlen(cag_engine_numerics(e)) > 0);
    cag_engine_free(e);
    OK(cag_engine_new(m, NULL, &e, err));
    cag_engine_free(e);
    cag_engine_free(NULL);
}

static void limits(void **state)
{
    cag_engine *e = engine(1, 0);
    cag_session *s = NULL;
    const float *logits;
    int32_t bad[] = { 1, -1, 2 }, big[] = { 319 };

    (void)state;
    REFUSED(cag_session_new(e, NULL, 0, &s, err), CAG_E_USAGE, "at least 1");
    REFUSED(cag_session_new(e, NULL, 1 << 30, &s, err), CAG_E_LIMIT, "context");
    s = mt_session(e, NULL, 10);
    REFUSED(cag_session_prefill(s, ids, 0, NULL, err), CAG_E_USAGE, "0");
    REFUSED(cag_session_prefill(s, bad, 3, NULL, err), CAG_E_USAGE, "id -1");
    REFUSED(cag_session_prefill(s, big, 1, NULL, err), CAG_E_USAGE,
            "expected 0..318");
    REFUSED(cag_session_prefill(s, ids, 11, NULL, err), CAG_E_LIMIT, "0 of 10");
    OK(cag_session_prefill(s, ids, 9, &logits, err));
    REFUSED(cag_session_prefill(s, ids, 2, NULL, err), CAG_E_LIMIT, "9 of 10");
    OK(cag_session_step(&s, ids, 1, &logits, err));
    REFUSED(cag_session_step(&s, ids, 1, &logits, err), CAG_E_LIMIT,
            "10 of 10");
    REFUSED(cag_session_truncate(s, 11, err), CAG_E_USAGE, "0..10");
    REFUSED(cag_session_truncate(s, -1, err), CAG_E_USAGE, "0..10");
    assert_int_equal(cag_session_n_tok(s), 10);
    OK(cag_session_truncate(s, 0, err));
    assert_int_equal(cag_session_n_tok(s), 0);
    cag_session_free(s);
    cag_session_free(NULL);
    cag_engine_free(e);
}

static void windows(void **state)
{
    cag_engine *e = engine(1, 0);
    cag_session *s = NULL;

    (void)state;
    m->config.window = 100;
    REFUSED(cag_session_new(e, NULL, 101, &s, err), CAG_E_UNSUPPORTED,
            "sliding window of 100");
    OK(cag_session_new(e, NULL, 100, &s, err));
    m->config.window = 0;
    cag_session_free(s);
    cag_engine_free(e);
}

static void no_weights(void **state)
{
    cag_model *bare = NULL;
    cag_engine *e = NULL;

    (void)state;
    OK(cag_model_open(GOLDEN MODEL,
                      CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER, &bare,
                      err));
    REFUSED(cag_engine_new(bare, NULL, &e, err), CAG_E_USAGE,
            "without its weights");
    cag_model_close(bare);
}

static void bad_steps(void **state)
{
    cag_engine *e = engine(2, 0), *e2 = engine(1, 0);
    cag_session *s[2] = { mt_session(e, NULL, 20), mt_session(e, NULL, 20) };
    cag_session *other = mt_session(e2, NULL, 20);
    cag_session *twice[2] = { s[0], s[0] }, *mixed[2] = { s[0], other };
    int32_t good[2] = { 1, 2 }, bad[2] = { 1, 319 };
    const float *logits[2];

    (void)state;
    REFUSED(cag_session_step(s, good, 0, logits, err), CAG_E_USAGE,
            "at least 1");
    REFUSED(cag_session_step(twice, good, 2, logits, err), CAG_E_USAGE,
            "twice");
    REFUSED(cag_session_step(mixed, good, 2, logits, err), CAG_E_USAGE,
            "different engines");
    REFUSED(cag_session_step(s, bad, 2, logits, err), CAG_E_USAGE, "319");
    assert_int_equal(cag_session_n_tok(s[0]), 0);
    assert_int_equal(cag_session_n_tok(s[1]), 0);
    OK(cag_session_step(s, good, 2, logits, err));
    assert_int_equal(cag_session_n_tok(s[1]), 1);
    for (int i = 0; i < 2; i++)
        cag_session_free(s[i]);
    cag_session_free(other);
    cag_engine_free(e);
    cag_engine_free(e2);
}

/* ---------------------------------------------------------------- progress */

struct watch {
    int calls, cancel_at;
    uint64_t last, total;
};

static bool watch(void *ctx, const cag_progress *p)
{
    struct watch *w = ctx;

    assert_string_equal(p->what, "prefill");
    assert_int_equal(p->unit, CAG_UNIT_TOKENS);
    assert_true(p->done >= w->last && p->done <= p->total);
    w->last = p->done;
    w->total = p->total;
    return ++w->calls != w->cancel_at;
}

/* Cancelled at every possible moment, then run again: nothing is left. */
static void cancel(void **state)
{
    cag_engine *e = engine(2, 64);
    cag_session *s = mt_session(e, NULL, 400);
    struct watch w = { 0, 0, 0, 0 };
    size_t bytes = (size_t)mt_vocab(m) * sizeof(float);
    float *want = malloc(bytes);
    const float *logits;
    int calls = 4 * 2 + 1; /* more where a layer takes long */

    (void)state;
    assert_non_null(want);
    OK(cag_session_prefill(s, ids, 100, NULL, err));
    cag_engine_set_progress(e, watch, &w);
    OK(cag_session_prefill(s, ids + 100, 200, &logits, err));
    memcpy(want, logits, bytes);
    assert_true(w.calls >= calls);
    assert_int_equal(w.last, 200);
    assert_int_equal(w.total, 200);
    for (int at = 1; at < calls; at++) {
        OK(cag_session_truncate(s, 100, err));
        w = (struct watch){ 0, at, 0, 0 };
        REFUSED(cag_session_prefill(s, ids + 100, 200, &logits, err),
                CAG_E_CANCELLED, "cancelled");
        assert_int_equal(cag_session_n_tok(s), 100);
        w = (struct watch){ 0, 0, 0, 0 };
        OK(cag_session_prefill(s, ids + 100, 200, &logits, err));
        assert_memory_equal(logits, want, bytes);
    }
    free(want);
    cag_session_free(s);
    cag_engine_free(e);
}

/* ---------------------------------------------------------------- overflow */

/* Layer 1's norm made so large that its keys and values leave f16. */
static void overflow(void **state)
{
    struct model_layer *l = &m->weights.layer[1];
    const float *norm = l->attn_norm;
    int d = cag_model_get_info(m)->d_model, n_vocab = mt_vocab(m);
    float *big = malloc((size_t)d * sizeof *big), *want;
    cag_engine *e = engine(2, 16);
    cag_session *s = mt_session(e, NULL, 100);
    const float *logits;

    (void)state;
    want = malloc((size_t)n_vocab * sizeof *want);
    assert_non_null(big);
    assert_non_null(want);
    for (int i = 0; i < d; i++)
        big[i] = 1e7f;
    /* short of the failing call: what it left behind lies in the same tile,
     * where a weight of 0 times an infinity would show */
    OK(cag_session_prefill(s, ids, 30, &logits, err));
    memcpy(want, logits, (size_t)n_vocab * sizeof *want);
    OK(cag_session_truncate(s, 20, err));
    l->attn_norm = big;
    REFUSED(cag_session_prefill(s, ids + 20, 50, NULL, err), CAG_E_UNSUPPORTED,
            "layer 1, token 20");
    REFUSED(cag_session_step(&s, ids, 1, &logits, err), CAG_E_UNSUPPORTED,
            "f16");
    assert_int_equal(cag_session_n_tok(s), 20);
    l->attn_norm = norm;
    OK(cag_session_prefill(s, ids + 20, 10, &logits, err));
    assert_memory_equal(logits, want, (size_t)n_vocab * sizeof *want);
    cag_session_free(s);
    cag_engine_free(e);
    /* f32 holds them */
    l->attn_norm = big;
    e = mt_engine(m, 2, 16, CAG_PRECISION_DEFAULT, true);
    s = mt_session(e, NULL, 100);
    OK(cag_session_prefill(s, ids, 50, NULL, err));
    big[3] = INFINITY;
    REFUSED(cag_session_prefill(s, ids, 10, NULL, err), CAG_E_UNSUPPORTED,
            "f32");
    l->attn_norm = norm;
    cag_session_free(s);
    cag_engine_free(e);
    free(big);
    free(want);
}

/* ------------------------------------------------------------------ batches */

/* More sessions than rows of a pass; each equals the same run alone. */
static void many(void **state)
{
    enum { N = 70, STEPS = 3 };
    cag_engine *e = engine(3, 1);
    cag_session *s[N], *alone = mt_session(e, NULL, 200);
    size_t bytes = (size_t)mt_vocab(m) * sizeof(float);
    const float *logits[N], *single;
    int32_t id[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        s[i] = mt_session(e, NULL, 200);
        OK(cag_session_prefill(s[i], ids + i, 1 + i % 67, NULL, err));
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++)
            id[i] = ids[i + step];
        OK(cag_session_step(s, id, N, logits, err));
    }
    for (int i = 0; i < N; i += 23) {
        OK(cag_session_truncate(alone, 0, err));
        OK(cag_session_prefill(alone, ids + i, 1 + i % 67, NULL, err));
        for (int step = 0; step < STEPS; step++)
            OK(cag_session_step(&alone, &ids[i + step], 1, &single, err));
        assert_memory_equal(single, logits[i], bytes);
    }
    for (int i = 0; i < N; i++)
        cag_session_free(s[i]);
    cag_session_free(alone);
    cag_engine_free(e);
}

/*
 * Rows of right guesses are what single steps give; wrong ones are taken
 * back without a trace.  Two sessions, one of them with guesses.
 */
static void guesses(void **state)
{
    enum { N = 40, START = 61 }; /* over the end of a tile */
    cag_engine *e = engine(2, 16);
    cag_session *a = mt_session(e, NULL, 200), *b = mt_session(e, NULL, 200);
    cag_session *other = mt_session(e, NULL, 200);
    size_t n_vocab = (size_t)mt_vocab(m);
    const float *logits;

    (void)state;
    OK(cag_session_prefill(a, ids, START, NULL, err));
    OK(cag_session_prefill(b, ids, START, NULL, err));
    for (int i = 0, k = 0; i < N; k++) {
        int right = 1 + k % CAG_STEP_MAX, wrong = k / 2 % CAG_STEP_MAX;
        int32_t id[CAG_STEP_MAX];

        wrong = wrong < CAG_STEP_MAX - right ? wrong : CAG_STEP_MAX - right;
        for (int j = 0; j < right + wrong; j++)
            id[j] = ids[START + i + j] + (j >= right ? 1 : 0);
        cag_step s[2] = { { other, ids, 1 + k % 2, NULL, true, { 0 } },
                          { a, id, right + wrong, NULL, false, { 0 } } };
        OK(cag_session_verify(s, 2, err));
        assert_int_equal(cag_session_n_tok(a), START + i + right + wrong);
        for (int j = 0; j < right; j++) {
            OK(cag_session_step(&b, &ids[START + i + j], 1, &logits, err));
            assert_memory_equal(s[1].logits + (size_t)j * n_vocab, logits,
                                n_vocab * sizeof *logits);
        }
        OK(cag_session_truncate(a, START + i + right, err));
        i += right;
    }
    cag_session_free(a);
    cag_session_free(b);
    cag_session_free(other);
    cag_engine_free(e);
}

/* Prompts read together, over the ends of passes: each equals itself alone. */
static void together(void **state)
{
    enum { N = 5 };
    static const int length[N] = { 3, 70, 1, 29, 14 };
    cag_engine *e = engine(2, 32);
    cag_session *alone = mt_session(e, NULL, 200);
    size_t bytes = (size_t)mt_vocab(m) * sizeof(float);
    const float *logits;
    cag_step p[N];

    (void)state;
    for (int i = 0; i < N; i++)
        p[i] = (cag_step){ .session = mt_session(e, NULL, 100),
                           .ids = ids + 40 * i,
                           .n_ids = length[i] };
    p[1].n_ids = 101;
    REFUSED(cag_session_prefill_many(p, N, err), CAG_E_LIMIT, "0 of 100");
    p[1].n_ids = 0;
    REFUSED(cag_session_prefill_many(p, N, err), CAG_E_USAGE, "0 token ids");
    p[1].n_ids = length[1];
    REFUSED(cag_session_prefill_many(p, 0, err), CAG_E_USAGE, "at least 1");
    for (int turn = 0; turn < 2; turn++) {
        int k = turn == 0 ? N : 1;

        assert_int_equal(cag_session_n_tok(p[0].session), 3 * turn);
        OK(cag_session_prefill_many(p, k, err));
        for (int i = 0; i < k; i++) {
            OK(cag_session_truncate(alone, 0, err));
            for (int t = 0; t <= turn; t++)
                OK(cag_session_prefill(alone, ids + 40 * i, length[i], &logits,
                                       err));
            assert_memory_equal(p[i].logits, logits, bytes);
        }
    }
    /* only the choice of some */
    for (int i = 0; i < N; i++) {
        OK(cag_session_truncate(p[i].session, 0, err));
        p[i].greedy = i % 2 == 0;
    }
    OK(cag_session_prefill_many(p, N, err));
    for (int i = 0; i < N; i++) {
        OK(cag_session_truncate(alone, 0, err));
        OK(cag_session_prefill(alone, ids + 40 * i, length[i], &logits, err));
        if (p[i].greedy) {
            assert_null(p[i].logits);
            assert_int_equal(p[i].best[0], mt_argmax(logits, mt_vocab(m)));
        } else {
            assert_memory_equal(p[i].logits, logits, bytes);
        }
    }
    cag_step twice[2] = { p[0], p[0] };
    REFUSED(cag_session_prefill_many(twice, 2, err), CAG_E_USAGE, "twice");
    for (int i = 0; i < N; i++)
        cag_session_free(p[i].session);
    cag_session_free(alone);
    cag_engine_free(e);
}

static void bad_guesses(void **state)
{
    cag_engine *e = engine(1, 16);
    cag_session *s = mt_session(e, NULL, 10);
    int32_t bad[] = { 1, 2, -1 };

    (void)state;
    OK(cag_session_prefill(s, ids, 7, NULL, err));
    cag_step step = { s, ids, 0, NULL, false, { 0 } };
    REFUSED(cag_session_verify(&step, 1, err), CAG_E_USAGE, "1..4");
    step.n_ids = CAG_STEP_MAX + 1;
    REFUSED(cag_session_verify(&step, 1, err), CAG_E_USAGE, "1..4");
    step.n_ids = 4;
    REFUSED(cag_session_verify(&step, 1, err), CAG_E_LIMIT, "7 of 10");
    step = (cag_step){ s, bad, 3, NULL, false, { 0 } };
    REFUSED(cag_session_verify(&step, 1, err), CAG_E_USAGE, "id -1");
    REFUSED(cag_session_verify(&step, 0, err), CAG_E_USAGE, "at least 1");
    assert_int_equal(cag_session_n_tok(s), 7);
    step = (cag_step){ s, ids, 3, NULL, false, { 0 } };
    OK(cag_session_verify(&step, 1, err));
    assert_int_equal(cag_session_n_tok(s), 10);
    cag_session_free(s);
    cag_engine_free(e);
}

/* ------------------------------------------------------------------- memory */

/* Everything a user does, with every allocation failing once. */
static cag_status life(int64_t nth)
{
    cag_engine_opts o = { .device = "cpu", .n_thread = 2, .pass_rows = 16 };
    cag_engine *e = NULL;
    cag_session *s[2] = { NULL, NULL };
    const float *logits[2];
    cag_error err = CAG_ERROR_INIT;

    mem_fault(nth, true);
    cag_status st = cag_engine_new(m, &o, &e, &err);
    for (int i = 0; st == CAG_OK && i < 2; i++)
        st = cag_session_new(e, NULL, 2000, &s[i], &err);
    for (int i = 0; st == CAG_OK && i < 2; i++)
        st = cag_session_prefill(s[i], ids, 20, &logits[i], &err);
    if (st == CAG_OK)
        st = cag_session_step(s, ids, 2, logits, &err);
    mem_fault(0, false);
    assert_int_equal(err.status, st);
    cag_session_free(s[0]);
    cag_session_free(s[1]);
    cag_engine_free(e);
    return st;
}

static void no_memory(void **state)
{
    int64_t live = mem_live();
    int n = 1;

    (void)state;
    for (; n < 200; n++) {
        cag_status st = life(n);
        assert_int_equal(mem_live(), live);
        if (st == CAG_OK)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
    }
    assert_in_range(n, 10, 199);
}

/* A session allocates when it is made, never afterwards. */
static void no_heap(void **state)
{
    cag_engine *e = engine(2, 64);
    cag_session *s[3];
    const float *logits[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        s[i] = mt_session(e, NULL, 1500);
    mem_fault(0, false);
    for (int i = 0; i < 3; i++)
        OK(cag_session_prefill(s[i], ids, 300, NULL, err));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            OK(cag_session_prefill(s[i], ids, 300, NULL, err));
    for (int i = 0; i < 70; i++)
        OK(cag_session_step(s, ids + i, 3, logits, err));
    for (int i = 0; i < 20; i++) {
        cag_step step[3] = { { s[0], ids, 4, NULL, false, { 0 } },
                             { s[1], ids, 4, NULL, false, { 0 } },
                             { s[2], ids, 4, NULL, false, { 0 } } };

        OK(cag_session_verify(step, 3, err));
    }
    assert_int_equal(mem_count(), 0);
    for (int i = 0; i < 3; i++)
        cag_session_free(s[i]);
    cag_engine_free(e);
}

/* A limit of the host's memory: what does not fit is refused before it is
 * allocated, what was freed fits again, and room tells how much does. */
static void host_limit(void **state)
{
    enum { MAX = 128 };
    cag_engine_opts o = {
        .device = "cpu", .n_thread = 1, .pass_rows = 8, .max_host = 1 << 16
    };
    cag_session *s[MAX];
    cag_engine *e = NULL;
    int n;

    (void)state;
    assert_int_equal(mem_live(), live_at_start);
    REFUSED(cag_engine_new(m, &o, &e, err), CAG_E_NOMEM,
            "the model with its scratch needs");
    assert_int_equal(mem_live(), live_at_start);
    while (cag_engine_new(m, &o, &e, NULL) != CAG_OK)
        o.max_host += 1 << 20;
    cag_engine_free(e);
    o.max_host += 1 << 20;
    OK(cag_engine_new(m, &o, &e, err));
    n = cag_engine_room(e, NULL, 128);
    assert_in_range(n, 8, MAX - 1);
    assert_in_range(cag_engine_room(e, NULL, 256), n / 2 - 1, n / 2);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++)
            s[i] = mt_session(e, NULL, 128);
        assert_int_equal(cag_engine_room(e, NULL, 128), 0);
        REFUSED(cag_session_new(e, NULL, 128, &s[n], err), CAG_E_NOMEM,
                "a session needs 1 MiB of memory, --max-memory leaves 0 MiB");
        for (int i = 0; i < n; i++)
            cag_session_free(s[i]);
        assert_int_equal(cag_engine_room(e, NULL, 128), n);
    }
    cag_engine_free(e);
    o.max_host = 0;
    OK(cag_engine_new(m, &o, &e, err));
    assert_int_equal(cag_engine_room(e, NULL, 128), INT32_MAX);
    cag_engine_free(e);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),   cmocka_unit_test(limits),
        cmocka_unit_test(windows),   cmocka_unit_test(no_weights),
        cmocka_unit_test(bad_steps), cmocka_unit_test(cancel),
        cmocka_unit_test(overflow),  cmocka_unit_test(many),
        cmocka_unit_test(guesses),   cmocka_unit_test(bad_guesses),
        cmocka_unit_test(together),  cmocka_unit_test(host_limit),
        cmocka_unit_test(no_memory), cmocka_unit_test(no_heap),
    };

    return cmocka_run_group_tests_name("session", tests, setup, teardown);
}
