/*
 * test_cuda_limits.c - where a GPU ends: values that do not fit f16, memory
 * that is not there, calls that fail, and what a split engine promises.
 */
#include "tests/cuda/cuda_model.h"

/*
 * Layer 1's norm made so large that its keys and values leave f16.  What the
 * failed passes left behind lies in tiles that are used again, where a weight
 * of 0 times an infinity would show.
 */
static void overflow_on(int sm)
{
    enum { N = 30, KEEP = 20, MORE = 90 };
    const float *y;

    shim_sm(sm);
    set_up("models/qwen3");
    struct cuda *c = cuda_of(t.gpu->backend);
    int d = t.m->config.d_model;
    float *want = mem_alloc_array(2, (size_t)t.n_vocab * sizeof *want);
    float *was = mem_alloc_array((size_t)d, sizeof *was);
    cag_session *s = mt_session(t.gpu, NULL, 200);

    assert_true(want != NULL && was != NULL);
    OK(cag_session_prefill(s, t.ids, N, &y, err));
    memcpy(want, y, (size_t)t.n_vocab * sizeof *y);
    OK(cag_session_step(&s, t.ids + N, 1, &y, err));
    memcpy(want + t.n_vocab, y, (size_t)t.n_vocab * sizeof *y);
    /* the shim's device memory is the host's */
    float *norm = (float *)(uintptr_t)c->layer[1].attn_norm;
    memcpy(was, norm, (size_t)d * sizeof *was);
    for (int round = 0; round < 2; round++) {
        OK(cag_session_truncate(s, KEEP, err));
        for (int i = 0; i < d; i++)
            norm[i] = 1e9f;
        cag_error e = CAG_ERROR_INIT;
        assert_int_equal(cag_session_prefill(s, t.ids + KEEP, MORE, NULL, &e),
                         CAG_E_UNSUPPORTED);
        assert_non_null(strstr(e.msg, "layer 1, token 20: a key or value "
                                      "does not fit f16"));
        if (round > 0)
            assert_int_equal(cag_session_step(&s, t.ids, 1, &y, &e),
                             CAG_E_UNSUPPORTED);
        assert_int_equal(cag_session_n_tok(s), KEEP);
        memcpy(norm, was, (size_t)d * sizeof *was);
        OK(cag_session_prefill(s, t.ids + KEEP, N - KEEP, &y, err));
        see(want, y, t.n_vocab, "overflow");
        OK(cag_session_step(&s, t.ids + N, 1, &y, err));
        see(want + t.n_vocab, y, t.n_vocab, "overflow");
    }
    cag_session_free(s);
    mem_free(want);
    mem_free(was);
    tear_down();
    check_median();
    shim_sm(89);
}

/* With products of bf16, and of f16, which run such a pass twice. */
static void overflow(void **state)
{
    (void)state;
    overflow_on(89);
    overflow_on(75);
}

/* ---------------------------------------------------------------- operands */

/* f16 weights are multiplied as they are; so are all before sm_80, whose
 * tensor cores take nothing else. */
static void operands(void **state)
{
    static const struct {
        const char *model, *numerics;
        int sm;
    } of[] = {
        { "models/llama3.F16.gguf", "cuda-f16.1", 89 },
        { "models/llama-bias.BF16.gguf", "cuda-bf16.1", 80 },
        { "models/llama-bias.BF16.gguf", "cuda-f16.1", 75 },
        { "models/llama.Q4_1.gguf", "cuda-f16.1", 75 },
        { "models/qwen3-tied.F32.gguf", "cuda-f32.1", 75 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        shim_sm(of[i].sm);
        cag_model *m = mt_model(of[i].model);
        cag_engine *e = cuda_engine(m, 40, CAG_PRECISION_DEFAULT);
        assert_string_equal(cag_engine_numerics(e), of[i].numerics);
        cag_engine_free(e);
        cag_model_close(m);
        compare_model(of[i].model, CAG_PRECISION_DEFAULT);
    }
    shim_sm(89);
    check_median();
}

/*
 * A feed-forward whose input leaves f16 while K and V stay small: a prompt, and
 * a step of many rows, are what rows one by one are, whose activations are f32.
 * Others are not computed twice.
 */
static void wide(void **state)
{
    enum { N = 20, N_ROW = 12 };
    const float *x, *y;
    uint64_t launches[2];

    (void)state;
    set_up("models/llama3.F16.gguf");
    struct cuda *c = cuda_of(t.gpu->backend);
    float *norm = (float *)(uintptr_t)c->layer[0].ffn_norm;
    cag_session *s[N_ROW], *one = mt_session(t.gpu, NULL, 40);
    cag_step step[N_ROW];

    OK(cag_session_prefill(one, t.ids, 1, &x, err));
    for (int wide = 0; wide < 2; wide++) {
        for (int i = 0; wide && i < t.m->config.d_model; i++)
            norm[i] *= 1e6f;
        for (int i = 0; i < N_ROW; i++) {
            s[i] = mt_session(t.gpu, NULL, 40);
            step[i] =
                (cag_step){ .session = s[i], .ids = t.ids + N + i, .n_ids = 1 };
        }
        launches[wide] = shim_counts().launches;
        OK(cag_session_prefill(s[0], t.ids, N, &y, err));
        launches[wide] = shim_counts().launches - launches[wide];
        OK(cag_session_truncate(one, 0, err));
        for (int i = 0; i < N; i++)
            OK(cag_session_step(&one, t.ids + i, 1, &x, err));
        see(x, y, t.n_vocab, "a wide prompt");
        for (int i = 1; i < N_ROW; i++)
            OK(cag_session_prefill(s[i], t.ids, N, &y, err));
        for (int again = 0; again < 2; again++) { /* the second is replayed */
            OK(cag_session_verify(step, N_ROW, err));
            for (int i = 0; i < N_ROW; i += 5) {
                OK(cag_session_truncate(one, N, err));
                OK(cag_session_step(&one, t.ids + N + i, 1, &x, err));
                see(x, step[i].logits, t.n_vocab, "a wide step");
            }
            for (int i = 0; i < N_ROW; i++)
                OK(cag_session_truncate(s[i], N, err));
        }
        for (int i = 0; i < N_ROW; i++)
            cag_session_free(s[i]);
    }
    assert_true(launches[1] >= 2 * launches[0]);
    cag_session_free(one);
    tear_down();
    check_median();
}

static cag_status try_open(uint64_t max_memory, cag_error *err)
{
    struct backend_opts bo = { .max_memory = max_memory };
    struct backend *b = NULL;
    cag_status st;

    *err = (cag_error)CAG_ERROR_INIT;
    assert_int_equal(pool_new(&bo.pool, 1, err), CAG_OK);
    st = cag_cuda_plugin()->open(0, t.m, &bo, &b, err);
    if (st == CAG_OK)
        b->ops->free(b);
    pool_free(bo.pool);
    return st;
}

static void memory(void **state)
{
    cag_error err;

    (void)state;
    t.m = mt_model("models/qwen3");
    shim_memory((uint64_t)70 << 20);
    assert_int_equal(try_open(0, &err), CAG_E_NOMEM);
    assert_non_null(strstr(err.msg, "MiB of 70 MiB are free"));
    assert_int_equal(shim_live(), 0);
    shim_memory((uint64_t)1 << 30);
    assert_int_equal(try_open(1 << 20, &err), CAG_E_NOMEM);
    assert_non_null(strstr(err.msg, "--max-memory"));
    assert_int_equal(try_open((uint64_t)512 << 20, &err), CAG_OK);
    shim_sm(70);
    assert_int_equal(try_open(0, &err), CAG_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "7.0"));
    shim_sm(89);
    assert_int_equal(shim_live(), 0);
    cag_model_close(t.m);
}

/* Every call of the runtime fails once (a stride of them, to stay quick):
 * an error that names a call, nothing lost, nothing left. */
static void failures(void **state)
{
    (void)state;
    t.m = mt_model("models/llama.Q4_0.gguf");
    int64_t live = mem_live();
    bool failed = true;
    int n_failed = 0;

    for (int n = 1; failed; n += 1 + n / 16) {
        cag_error err = CAG_ERROR_INIT;
        struct backend_opts bo = { .pass_rows = 8 };
        struct backend *b = NULL;
        struct backend_kv *kv = NULL;
        struct forward_row row[2] = { { .pos = 0, .id = 1 },
                                      { .pos = 1, .id = 2 } };
        struct forward_req req = { .phase = FORWARD_PROMPT,
                                   .n_row = 2,
                                   .row = row };
        float *logits = mem_alloc_array((size_t)mt_vocab(t.m), sizeof *logits);

        assert_int_equal(pool_new(&bo.pool, 1, &err), CAG_OK);
        shim_seed((uint64_t)n);
        shim_fail(n, 700);
        cag_status st = cag_cuda_plugin()->open(0, t.m, &bo, &b, &err);
        if (st == CAG_OK)
            st = b->ops->kv_new(b, NULL, 9, &kv, &err);
        row[0].kv = row[1].kv = kv;
        row[1].logits = logits;
        if (st == CAG_OK)
            st = b->ops->forward(b, &req, &err);
        if (st == CAG_OK) {
            req.phase = FORWARD_STEP;
            row[0].pos = 2;
            row[1].pos = 3;
            st = b->ops->forward(b, &req, &err);
        }
        shim_fail(0, 0);
        failed = st != CAG_OK;
        n_failed += failed;
        if (failed && st != CAG_E_BACKEND && st != CAG_E_NOMEM)
            fail_msg("call %d: %s: %s", n, cag_status_name(st), err.msg);
        if (b != NULL) {
            b->ops->kv_free(kv);
            b->ops->free(b);
        }
        pool_free(bo.pool);
        mem_free(logits);
        assert_int_equal(shim_live(), 0);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n_failed > 20);
    cag_model_close(t.m);
}

/* A step whose capture is refused runs all the same, and is recorded the next
 * time. */
static void capture_refused(void **state)
{
    static const struct {
        const char *call;
        int code;
    } refused[] = { { "cudaMemcpy2DAsync", 900 },
                    { "cudaStreamEndCapture", 901 },
                    { "cudaGraphInstantiate", 907 } };
    const float *x, *y;

    (void)state;
    set_up("models/qwen3");
    cag_session *a = prefilled(t.cpu, NULL, 0, 30, &x);
    for (int i = 0; i < 3; i++) {
        OK(cag_session_step(&a, t.ids + i, 1, &x, err));
        t.gpu = (cag_engine_free(t.gpu),
                 cuda_engine(t.m, 64, CAG_PRECISION_DEFAULT));
        cag_session *b = prefilled(t.gpu, NULL, 0, 30, &y);
        for (int k = 0; k < i; k++)
            OK(cag_session_prefill(b, t.ids + k, 1, &y, err));
        shim_fail_in(refused[i].call, 1, refused[i].code);
        uint64_t replays = shim_counts().replays;
        OK(cag_session_step(&b, t.ids + i, 1, &y, err));
        see(x, y, t.n_vocab, refused[i].call);
        assert_int_equal(shim_counts().replays, replays);
        OK(cag_session_truncate(b, 30 + i, err));
        OK(cag_session_step(&b, t.ids + i, 1, &y, err));
        see(x, y, t.n_vocab, refused[i].call);
        assert_int_equal(shim_counts().replays, replays + 1);
        cag_session_free(b);
    }
    cag_session_free(a);
    tear_down();
    check_median();
}

/* ----------------------------------------------------- layers on the CPU */

/* What a split engine says of itself, and what it takes. */
static void split_described(void **state)
{
    (void)state;
    gpu_layers = 1;
    set_up("models/mistral");
    bool warn = true;
    const char *note = cag_engine_note(t.gpu, &warn);
    uint64_t bytes = cag_engine_device_bytes(t.gpu);

    assert_false(warn);
    assert_non_null(strstr(note, "cuda:0 host shim 0"));
    assert_non_null(strstr(note, ": layers 2-2 of 3, the CPU has the others"));
    assert_string_equal(cag_engine_device(t.gpu), "cpu+cuda");
    assert_non_null(
        strstr(cag_engine_numerics(t.gpu), cag_engine_numerics(t.cpu)));
    assert_non_null(strstr(cag_engine_numerics(t.gpu), "+cuda-bf16.1@2"));
    cag_session *s = mt_session(t.gpu, NULL, 64);
    uint64_t one = cag_engine_device_bytes(t.gpu) - bytes;
    cag_device_memory m = cag_engine_device_memory(t.gpu);
    assert_int_equal(m.caches, 0);
    assert_int_equal(m.sessions, (uint64_t)2 * KV_TILE * 2 *
                                     (uint64_t)t.m->config.n_kv_head *
                                     (uint64_t)t.m->config.d_head);
    assert_true(m.weights > 0 && m.scratch > CUK_GEMM_WORKSPACE);
    assert_int_equal(m.weights + m.sessions + m.scratch, bytes + one);
    cag_session_free(s);
    assert_int_equal(cag_engine_device_memory(t.gpu).sessions, m.sessions);
    assert_int_equal(cag_engine_device_memory(t.cpu).weights, 0);
    /* the plain engine has three layers' weights, K and V on the device */
    gpu_layers = 0;
    cag_engine *whole = cuda_engine(t.m, 64, CAG_PRECISION_DEFAULT);
    assert_true(cag_engine_device_bytes(whole) > bytes);
    bytes = cag_engine_device_bytes(whole);
    s = mt_session(whole, NULL, 64);
    assert_true(cag_engine_device_bytes(whole) - bytes > one);
    cag_session_free(s);
    cag_engine_free(whole);
    /* K and V of another shape are nobody's */
    cag_session *q = mt_session(t.gpu, NULL, 64);
    struct kvc_shape shape = {
        2, t.m->config.n_kv_head, t.m->config.d_head, KVC_CLASS_F16, 1, 64
    };
    uint8_t byte;
    assert_int_equal(session_export_chunk(q, &shape, 0, 0, &byte, NULL),
                     CAG_E_USAGE);
    cag_error e = CAG_ERROR_INIT;
    assert_int_equal(session_gather(q, 0, &e), CAG_E_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "not built on device cpu+cuda"));
    cag_session_free(q);
    tear_down();
}

/* The layers that fit, by what is free, or an error that says what does not. */
static void split_auto(void **state)
{
    enum { FULL = 3, ROOM = 16000 };
    struct backend_opts bo = { .gpu_layers = CAG_GPU_LAYERS_AUTO,
                               .pass_rows = 64,
                               .room_tok = ROOM };
    cag_error e = CAG_ERROR_INIT;
    struct backend *b = NULL;
    bool seen_n[FULL + 1] = { false };

    (void)state;
    t.m = mt_model("models/mistral");
    OK(pool_new(&bo.pool, 1, err));
    for (uint64_t kib = 100 << 10; kib <= 150 << 10; kib += 1024) {
        shim_memory(kib << 10);
        cag_status st = cag_cuda_plugin()->open(0, t.m, &bo, &b, &e);
        if (st != CAG_OK) {
            assert_int_equal(st, CAG_E_NOMEM);
            assert_non_null(strstr(e.msg, "even one layer, with the output"));
            assert_non_null(strstr(e.msg, "MiB are free"));
            assert_false(seen_n[1]);
            continue;
        }
        int n = FULL - b->layer0;
        assert_in_range(n, 1, FULL);
        for (int i = n + 1; i <= FULL; i++) /* more room, more layers */
            assert_false(seen_n[i]);
        seen_n[n] = true;
        /* what was promised is there */
        uint64_t room;
        OK(cuda_room(cuda_of(b), &room, err));
        assert_true(room >= (uint64_t)n * ROOM * 4 *
                                (uint64_t)t.m->config.n_kv_head *
                                (uint64_t)t.m->config.d_head);
        b->ops->free(b);
    }
    for (int i = 1; i <= FULL; i++)
        assert_true(seen_n[i]);
    shim_memory((uint64_t)1 << 30);
    pool_free(bo.pool);
    cag_model_close(t.m);
    assert_int_equal(shim_live(), 0);
}

/* Every allocation fails once: nothing is lost, neither part stays. */
static void split_oom(void **state)
{
    struct backend_opts bo = { .gpu_layers = 1, .pass_rows = 8 };
    cag_status st = CAG_E_NOMEM;

    (void)state;
    t.m = mt_model("models/qwen3");
    OK(pool_new(&bo.pool, 1, err));
    int64_t live = mem_live();
    for (int n = 1; st != CAG_OK; n++) {
        struct backend *b = NULL;
        struct backend_kv *kv = NULL;
        cag_error e = CAG_ERROR_INIT;

        OK(cag_cuda_plugin()->open(0, t.m, &bo, &b, err));
        mem_fault(n, false);
        st = split_new(t.m, &bo, b, &b, &e);
        if (st == CAG_OK)
            st = b->ops->kv_new(b, NULL, 100, &kv, &e);
        else
            b = NULL;
        mem_fault(0, false);
        if (st != CAG_OK)
            assert_int_equal(st, CAG_E_NOMEM);
        if (b != NULL) {
            b->ops->kv_free(kv);
            b->ops->free(b);
        }
        assert_int_equal(mem_live(), live);
        assert_int_equal(shim_live(), 0);
        assert_true(n < 100);
    }
    pool_free(bo.pool);
    cag_model_close(t.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflow),
        cmocka_unit_test(operands),
        cmocka_unit_test(wide),
        cmocka_unit_test(memory),
        cmocka_unit_test(failures),
        cmocka_unit_test(capture_refused),
        cmocka_unit_test(split_described),
        cmocka_unit_test(split_auto),
        cmocka_unit_test(split_oom),
    };
    return cmocka_run_group_tests_name("cuda_limits", tests, NULL, NULL);
}
