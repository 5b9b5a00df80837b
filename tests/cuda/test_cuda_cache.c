/*
 * test_cuda_cache.c - caches on the host shim: read as f16 and as codes of
 * q8h, whole and cut short, written and read again, with layers on the CPU.
 */
#include "tests/cuda/cuda_model.h"

#include <pthread.h>

#include "util/mem.h"

enum { N_QUESTION = 5 };

/* K's scales in the last layer's first tile, of head 0, to the one at ctx */
static void false_scale(const struct kvc_shape *shape, int layer, int chunk,
                        uint8_t *dst, const void *ctx)
{
    if (chunk > 0 || layer < shape->n_layer - 1)
        return;
    dst += kvc_scale_off(shape, chunk, 0, 0, 0);
    for (int i = 0; i < KVC_TILE; i++)
        memcpy(dst + 2 * i, ctx, 2);
}

/* A cache from the CPU, its first n tokens used on the GPU: as the CPU
 * without a cache. */
static void check_cached(int n, int more, const char *codec)
{
    size_t bytes = (size_t)t.n_vocab * sizeof(float);
    float *asked = mem_alloc(bytes), *stepped = mem_alloc(bytes);
    const float *x, *y;
    cag_session *source = prefilled(t.cpu, NULL, 0, n + more, &x);
    cag_session *cold = prefilled(t.cpu, NULL, 0, n + N_QUESTION, &x);
    cag_kvc *k = mt_cache(source, t.m, n + more, codec, 64, t.path);
    cag_prefix *p = NULL;

    assert_true(asked != NULL && stepped != NULL);
    memcpy(asked, x, bytes);
    OK(cag_session_step(&cold, &t.ids[0], 1, &x, err));
    memcpy(stepped, x, bytes);
    OK(prefix_new_part(t.gpu, k, n, &p, err));
    assert_true(cag_prefix_private_bytes(p) > 0);
    /* the first session starts while layers arrive, the second after */
    for (int i = 0; i < 2; i++) {
        cag_session *s = prefilled(t.gpu, p, n, n + N_QUESTION, &y);
        see(asked, y, t.n_vocab, codec);
        for (int again = 0; again < 2; again++) {
            OK(cag_session_step(&s, &t.ids[0], 1, &y, err));
            see(stepped, y, t.n_vocab, codec);
            OK(cag_session_truncate(s, n + N_QUESTION, err));
        }
        cag_session_free(s);
    }
    cag_prefix_free(p);
    cag_kvc_close(k);
    cag_session_free(source);
    cag_session_free(cold);
    mem_free(asked);
    mem_free(stepped);
}

static void cached(void **state)
{
    static const int length[] = { 1, 64, 130 };

    (void)state;
    set_up("models/qwen3");
    for (unsigned seed = 1; seed <= 2; seed++) {
        shim_seed(seed);
        for (int i = 0; i < 3; i++)
            check_cached(length[i], seed == 2 ? 70 : 0,
                         (seed + (unsigned)i) % 2 ? "f16z" : "f16");
    }
    tear_down();
    check_median();
}

/* What a cache takes of the device: its raw chunks, and a tile of f16 of each
 * layer and head that was not full; of the layers that are there. */
static void check_held(const cag_kvc *k, const cag_prefix *p)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    uint64_t n_layer =
        gpu_layers > 0 ? (uint64_t)gpu_layers : (uint64_t)s->n_layer;
    uint64_t rows = 2 * (uint64_t)s->n_kv_head, want = 0;

    for (int i = 0; i < kvc_n_chunk(s); i++)
        want += kvc_chunk_bytes(s, i);
    want += rows * KV_TILE * (uint64_t)s->d_head * 2;
    assert_int_equal(cag_prefix_private_bytes(p), n_layer * want);
    assert_int_equal(cag_engine_device_memory(t.gpu).caches, n_layer * want);
}

/* Codes travel and are attended to as they are, on the device as on the CPU;
 * from the whole cache, and from one cut short. */
static void codes(void **state)
{
    static const int length[] = { 2, 64, 150, 330 };
    const float *x, *y;

    (void)state;
    set_up("models/qwen3");
    for (int i = 0; i < 4; i++) {
        int n = length[i];
        cag_session *source = mt_session(t.cpu, NULL, n);
        cag_prefix *p = NULL, *q = NULL;

        shim_seed((uint64_t)i);
        OK(session_gather(source, 0, err));
        OK(cag_session_prefill(source, t.ids, n, NULL, err));
        OK(session_balance(source, err));
        cag_kvc *k = mt_cache(source, t.m, n, "q8h", 64, t.path);
        for (int cut = 0; cut < (n > 100 ? 2 : 1); cut++) {
            int m = n - 70 * cut;
            OK(prefix_new_part(t.cpu, k, m, &p, err));
            OK(prefix_new_part(t.gpu, k, m, &q, err));
            check_held(k, q);
            cag_session *a = prefilled(t.cpu, p, m, m + N_QUESTION, &x);
            cag_session *b = prefilled(t.gpu, q, m, m + N_QUESTION, &y);
            see(x, y, t.n_vocab, "q8h");
            OK(cag_session_step(&a, t.ids, 1, &x, err));
            OK(cag_session_step(&b, t.ids, 1, &y, err));
            see(x, y, t.n_vocab, "q8h");
            cag_session_free(a);
            cag_session_free(b);
            cag_prefix_free(p);
            cag_prefix_free(q);
        }
        cag_kvc_close(k);
        cag_session_free(source);
    }
    tear_down();
    check_median();
}

/* A file can say what no build writes: the tile that is decoded is refused, in
 * the words of the CPU. */
static void codes_that_lie(void **state)
{
    enum { N = 60 };
    cag_error e = CAG_ERROR_INIT;
    cag_prefix *p = NULL;
    const float *x;

    (void)state;
    set_up("models/qwen3");
    cag_session *source = mt_session(t.cpu, NULL, N);
    OK(session_gather(source, 0, err));
    OK(cag_session_prefill(source, t.ids, N, NULL, err));
    OK(session_balance(source, err));
    const uint16_t largest = 0x7bff; /* of f16 */
    cag_kvc *k = mt_cache_changed(source, t.m, N, "q8h", 64, false_scale,
                                  &largest, t.path);
    cag_engine *const device[] = { t.cpu, t.gpu };
    for (int i = 0; i < 2; i++) {
        OK(cag_prefix_new(device[i], k, &p, err));
        cag_session *s = mt_session(device[i], p, N + 20);
        e = (cag_error)CAG_ERROR_INIT;
        assert_int_equal(cag_session_prefill(s, t.ids, 3, &x, &e),
                         CAG_E_UNSUPPORTED);
        assert_non_null(strstr(e.file, "kb.kvc"));
        assert_string_equal(e.msg, "layer 1: a decoded key or value does not "
                                   "fit f16");
        cag_session_free(s);
        cag_prefix_free(p);
    }
    cag_kvc_close(k);
    cag_session_free(source);
    tear_down();
}

/* K and V of the GPU in a file: read by the CPU, and imported again. */
static void written(void **state)
{
    enum { N = 131, KEEP = 70 };
    const float *x, *y;

    (void)state;
    set_up("models/llama.Q4_1.gguf");
    cag_session *g = prefilled(t.gpu, NULL, 0, N, &y);
    cag_session *cold = prefilled(t.cpu, NULL, 0, N + N_QUESTION, &x);
    cag_kvc *k = mt_cache(g, t.m, N, "f16z", 64, t.path);
    cag_prefix *p = NULL;
    OK(cag_prefix_new(t.cpu, k, &p, err));
    cag_session *s = prefilled(t.cpu, p, N, N + N_QUESTION, &y);
    see(x, y, t.n_vocab, "written");
    cag_session_free(s);
    cag_prefix_free(p);

    s = mt_session(t.gpu, NULL, N + 20);
    OK(session_import(s, k, KEEP, err));
    assert_int_equal(cag_session_n_tok(s), KEEP);
    OK(cag_session_prefill(s, t.ids + KEEP, N + N_QUESTION - KEEP, &y, err));
    see(x, y, t.n_vocab, "imported");
    cag_session_free(s);
    cag_session_free(g);
    cag_session_free(cold);
    cag_kvc_close(k);
    tear_down();
    check_median();
}

/* ---------------------------------------------------------------- exports */

enum { N_EXPORT = 4, EXPORT_TOK = 200 };

struct exporter {
    cag_session *s;
    struct kvc_shape shape;
    int layer;
    uint8_t *dst; /* its layer's chunks */
    cag_status st;
};

static void *export_layer(void *arg)
{
    struct exporter *x = arg;
    uint8_t *dst = x->dst;

    for (int i = 0; !x->st && i < kvc_n_chunk(&x->shape); i++) {
        x->st = session_export_chunk(x->s, &x->shape, x->layer, i, dst, NULL);
        dst += kvc_chunk_bytes(&x->shape, i);
    }
    return NULL;
}

/* More threads than slots, each with a layer, give what one gives; without
 * pinned memory a chunk fails, and the next try has it. */
static void exports(void **state)
{
    struct exporter x[N_EXPORT];
    pthread_t thread[N_EXPORT];
    const float *y;

    (void)state;
    set_up("models/llama.Q8_0.gguf");
    cag_session *s = prefilled(t.gpu, NULL, 0, EXPORT_TOK, &y);
    const struct kvc_shape shape = { t.m->config.n_layer, t.m->config.n_kv_head,
                                     t.m->config.d_head,  KVC_CLASS_F16,
                                     EXPORT_TOK,          64 };
    size_t bytes = 0;

    for (int i = 0; i < kvc_n_chunk(&shape); i++)
        bytes += kvc_chunk_bytes(&shape, i);
    uint8_t *want = mem_alloc_array(2, bytes);
    uint8_t *got = mem_zalloc(N_EXPORT * bytes);
    assert_true(want && got);
    x[0] = (struct exporter){ s, shape, 0, want, CAG_OK };
    shim_fail_in("cudaHostAlloc", 1, 2);
    export_layer(&x[0]);
    assert_int_equal(x[0].st, CAG_E_NOMEM);
    shim_fail_in("", 0, 0);
    for (int l = 0; l < 2; l++) {
        x[l] =
            (struct exporter){ s, shape, l, want + (size_t)l * bytes, CAG_OK };
        export_layer(&x[l]);
        OK(x[l].st);
    }
    for (int i = 0; i < N_EXPORT; i++) {
        x[i] = (struct exporter){ s, shape, i % 2, got + (size_t)i * bytes,
                                  CAG_OK };
        assert_int_equal(pthread_create(&thread[i], NULL, export_layer, &x[i]),
                         0);
    }
    for (int i = 0; i < N_EXPORT; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        OK(x[i].st);
        assert_memory_equal(x[i].dst, want + (size_t)(i % 2) * bytes, bytes);
    }
    mem_free(want);
    mem_free(got);
    cag_session_free(s);
    tear_down();
}

/* Of a model whose first layers are the CPU's. */
static void split(void **state)
{
    gpu_layers = 1;
    cached(state);
    codes(state);
    written(state);
    gpu_layers = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached),         cmocka_unit_test(codes),
        cmocka_unit_test(codes_that_lie), cmocka_unit_test(written),
        cmocka_unit_test(split),          cmocka_unit_test(exports),
    };
    return cmocka_run_group_tests_name("cuda_cache", tests, NULL, NULL);
}
