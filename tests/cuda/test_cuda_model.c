/*
 * test_cuda_model.c - whole models on the CUDA backend, by way of the host
 * shim, against the CPU: every family and kind of weights, in many orders of
 * what runs and arrives, split between CPU and GPU, on several GPUs.
 */
#include "tests/cuda/cuda_model.h"

#include <pthread.h>

static void models(void **state)
{
    static const char *const name[] = { "models/llama",
                                        "models/llama-bias",
                                        "models/qwen2",
                                        "models/qwen3",
                                        "models/qwen3-tied",
                                        "models/llama-yarn",
                                        "models/llama-mix.MIX.gguf",
                                        "models/llama-k.Q56_K.gguf",
                                        "models/llama.Q4_1.gguf",
                                        "models/llama.Q8_0.gguf" };

    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        shim_seed(i + 1);
        compare_model(name[i], CAG_PRECISION_DEFAULT);
    }
    check_median();
}

static void exact(void **state)
{
    (void)state;
    compare_model("models/llama.Q4_0.gguf", CAG_PRECISION_EXACT);
    check_median();
}

/* The first pass of an engine, in many orders: no layer before its weights. */
static void arrival(void **state)
{
    const float *x, *y;

    (void)state;
    t.m = mt_model("models/llama.Q8_0.gguf");
    t.n_vocab = mt_vocab(t.m);
    mt_ids(t.ids, 400, 11, t.n_vocab);
    t.cpu = mt_engine(t.m, 1, 64, CAG_PRECISION_DEFAULT, false);
    cag_session *a = prefilled(t.cpu, NULL, 0, 2, &x);
    for (unsigned seed = 1; seed <= 16; seed++) {
        shim_seed(seed);
        t.gpu = cuda_engine(t.m, 8, CAG_PRECISION_DEFAULT);
        cag_session *b = prefilled(t.gpu, NULL, 0, 2, &y);
        see(x, y, t.n_vocab, "arrival");
        cag_session_free(b);
        cag_engine_free(t.gpu);
    }
    cag_session_free(a);
    cag_engine_free(t.cpu);
    cag_model_close(t.m);
    assert_int_equal(shim_live(), 0);
    check_median();
}

/* When what arrived and ran: no layer ends before its weights and its part of
 * the cache are there, and the outcome comes last. */
struct moments {
    double weights[16], cache[16], layer[16], outcome;
    int n[3];
};

static void moment(void *ctx, const char *what, int i, double ms)
{
    struct moments *s = ctx;
    double *to = *what == 'w' ? s->weights : *what == 'c' ? s->cache : s->layer;

    assert_in_range(i, 0, 15);
    if (*what == 'o') {
        s->outcome = ms;
        return;
    }
    to[i] = ms;
    s->n[*what == 'w' ? 0 : *what == 'c' ? 1 : 2]++;
}

static void timeline(void **state)
{
    enum { N = 70 };
    struct moments s = { .outcome = -1 };
    cag_prefix *p = NULL;
    const float *x;

    (void)state;
    set_up("models/qwen3");
    int n_layer = t.m->config.n_layer;
    cag_session *source = prefilled(t.cpu, NULL, 0, N, &x);
    cag_kvc *k = mt_cache(source, t.m, N, "f16", 64, t.path);
    cag_session_free(source);
    engine_timeline(t.cpu, moment, &s);
    engine_timeline(t.gpu, moment, &s);
    assert_true(s.outcome == -1 && s.n[0] + s.n[1] + s.n[2] == 0);
    engine_trace(t.gpu);
    OK(cag_prefix_new(t.gpu, k, &p, err));
    for (int again = 0; again < 2; again++)
        cag_session_free(prefilled(t.gpu, p, N, N + 3, &x));
    engine_timeline(t.gpu, moment, &s);
    assert_int_equal(s.n[0], n_layer + 2);
    assert_int_equal(s.n[1], n_layer);
    assert_int_equal(s.n[2], n_layer);
    for (int l = 0; l < n_layer; l++) {
        assert_true(s.layer[l] > s.weights[l + 1]);
        assert_true(s.layer[l] > s.cache[l]);
        assert_true(l == 0 || s.layer[l] > s.layer[l - 1]);
    }
    assert_true(s.outcome > s.layer[n_layer - 1]);
    cag_prefix_free(p);
    cag_kvc_close(k);
    tear_down();
}

/* ----------------------------------------------------- layers on the CPU */

/* A model split before any of its layers is the model. */
static void split(void **state)
{
    static const char *const name[] = { "models/mistral", "models/llama-bias",
                                        "models/qwen3-tied",
                                        "models/llama.Q4_0.gguf" };

    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        cag_model *m = mt_model(name[i]);
        int n = m->config.n_layer;

        cag_model_close(m);
        assert_in_range(n, 2, 3);
        /* once beyond what there is; then tied, biased, quantized ones */
        int most = i == 0 ? n + 1 : 1;
        for (gpu_layers = 1; gpu_layers <= most; gpu_layers++) {
            shim_seed(i + 1);
            compare_model(name[i], CAG_PRECISION_DEFAULT);
        }
    }
    check_median();
    gpu_layers = 0;
}

/* ----------------------------------------------------------- several GPUs */

struct asked {
    cag_session *s;
    const float *logits;
};

static void *ask(void *arg)
{
    struct asked *q = arg;

    OK(cag_session_prefill(q->s, t.ids, 40, &q->logits, err));
    OK(cag_session_step(&q->s, t.ids + 40, 1, &q->logits, err));
    return NULL;
}

/* Engines on two devices, used in turn by one thread, then by another that
 * never opened one: each stays with its device. */
static void devices(void **state)
{
    const float *want;
    cag_session *s[2][2];
    cag_engine *e[2];
    pthread_t thread;

    (void)state;
    shim_devices(2);
    set_up("models/qwen3");
    for (ordinal = 0; ordinal < 2; ordinal++)
        e[ordinal] = cuda_engine(t.m, 64, CAG_PRECISION_DEFAULT);
    ordinal = 0;
    assert_non_null(strstr(cag_engine_note(e[1], NULL), "cuda:1 host shim 1"));
    cag_session *cold = prefilled(t.cpu, NULL, 0, 40, &want);
    cag_kvc *k = mt_cache(cold, t.m, 40, "f16", 64, t.path);
    OK(cag_session_step(&cold, t.ids + 40, 1, &want, err));
    for (int i = 0; i < 4; i++) /* both start before either computes */
        s[i % 2][i / 2] = mt_session(e[i % 2], NULL, 60);
    for (int i = 0; i < 4; i++) {
        struct asked q = { s[i % 2][i / 2], NULL };
        if (i < 2) {
            ask(&q);
        } else {
            assert_int_equal(pthread_create(&thread, NULL, ask, &q), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
        see(want, q.logits, t.n_vocab, "devices");
    }
    for (int i = 0; i < 2; i++) {
        cag_prefix *p = NULL;
        const float *y;
        assert_in_range(cag_engine_room(e[i], NULL, 60), 1, 256);
        OK(cag_prefix_new(e[i], k, &p, err));
        OK(cag_prefix_load(p, err));
        cag_session *q = mt_session(e[i], p, 60);
        OK(cag_session_prefill(q, t.ids + 40, 1, &y, err));
        see(want, y, t.n_vocab, "devices");
        cag_session_free(q);
        q = mt_session(e[i], NULL, 60);
        OK(session_import(q, k, 40, err));
        OK(cag_session_prefill(q, t.ids + 40, 1, &y, err));
        see(want, y, t.n_vocab, "devices");
        cag_session_free(q);
        cag_prefix_free(p);
    }
    for (int i = 0; i < 4; i++)
        cag_session_free(s[i % 2][i / 2]);
    cag_engine_free(e[0]);
    cag_engine_free(e[1]);
    cag_session_free(cold);
    cag_kvc_close(k);
    tear_down();
    shim_devices(1);
    check_median();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),  cmocka_unit_test(exact),
        cmocka_unit_test(arrival), cmocka_unit_test(timeline),
        cmocka_unit_test(split),   cmocka_unit_test(devices),
    };
    return cmocka_run_group_tests_name("cuda_model", tests, NULL, NULL);
}
