/*
 * test_cuda_model.c - whole models on the CUDA backend, by way of the host
 * shim, against the CPU and against the recorded logits.
 *
 * The stated tolerance: over the logits after prompts and along greedy steps,
 * the cosine has a median of at least 0.9999 and a minimum of at least 0.999,
 * and the first choice is the CPU's wherever its margin is above 0.5.  The
 * shim runs what is queued in random legal orders and copies late, so a
 * missing wait shows up here under some seed.
 */
#include "tests/lib/kvc_fixture.h"

#include <math.h>

#include "tests/lib/mtest.h"

#include "engine/cuda/cuda.h"
#include "engine/engine.h"
#include "tests/cuda/shim_control.h"

/* The plugin is part of this program. */
extern const struct cuda_plugin *cag_cuda_plugin(void);

#define MAX_POINT 4096

static struct {
    double cosine[MAX_POINT];
    int n;
    int n_choice; /* compared first choices */
} seen;

/* Of the engines made from here on; see backend.h. */
static int gpu_layers;

/* An engine on the shim's device; backend_load would look for a file. */
static cag_engine *cuda_engine(const cag_model *m, int chunk,
                               cag_precision precision)
{
    cag_engine_opts o = { .device = "cpu", .n_thread = 2, .pass_rows = chunk };
    cag_engine *e = NULL;
    struct backend_opts bo = { .chunk = chunk,
                               .precision = precision,
                               .gpu_layers = gpu_layers };
    struct backend *b = NULL;

    OK(cag_engine_new(m, &o, &e, err));
    bo.pool = e->pool;
    OK(cag_cuda_plugin()->open(0, m, &bo, &b, err));
    if (b->layer0 > 0)
        OK(split_new(m, &bo, b, &b, err));
    e->backend->ops->free(e->backend);
    e->backend = b;
    e->chunk = b->chunk;
    mem_free(e->row);
    e->row = mem_alloc_array((size_t)b->max_row, sizeof *e->row);
    assert_non_null(e->row);
    return e;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void see(const float *cpu, const float *gpu, int n, const char *what)
{
    double ab = 0, aa = 0, bb = 0;
    int32_t best = mt_argmax(cpu, n);
    float second = -INFINITY;

    for (int i = 0; i < n; i++) {
        ab += (double)cpu[i] * (double)gpu[i];
        aa += (double)cpu[i] * (double)cpu[i];
        bb += (double)gpu[i] * (double)gpu[i];
        if (i != best && cpu[i] > second)
            second = cpu[i];
    }
    double cosine = ab / sqrt(aa * bb);
    if (!(cosine >= 0.999))
        fail_msg("%s: cosine %.7f", what, cosine);
    if (cpu[best] - second > 0.5f) {
        seen.n_choice++;
        if (mt_argmax(gpu, n) != best)
            fail_msg("%s: first choice %d, the CPU's is %d by %.3f", what,
                     mt_argmax(gpu, n), best, (double)(cpu[best] - second));
    }
    assert_true(seen.n < MAX_POINT);
    seen.cosine[seen.n++] = cosine;
}

static void check_median(void)
{
    qsort(seen.cosine, (size_t)seen.n, sizeof *seen.cosine, compare_double);
    print_message("# %d logits, %d first choices: cosine median %.7f, "
                  "least %.7f\n",
                  seen.n, seen.n_choice, seen.cosine[seen.n / 2],
                  seen.cosine[0]);
    assert_true(seen.n > 0);
    assert_true(seen.cosine[seen.n / 2] >= 0.9999);
    memset(&seen, 0, sizeof seen);
}

/* Prompts of several lengths and a few forced steps on both. */
static void compare_model(const char *name, cag_precision precision)
{
    static const int length[] = { 2, 66 };
    cag_model *m = mt_model(name);
    cag_engine *cpu = mt_engine(m, 2, 64, precision, false);
    cag_engine *gpu = cuda_engine(m, 40, precision);
    int n_vocab = mt_vocab(m);
    int32_t ids[160];

    mt_ids(ids, 160, 5, n_vocab);
    for (size_t i = 0; i < sizeof length / sizeof length[0]; i++) {
        cag_session *a = mt_session(cpu, NULL, 160);
        cag_session *b = mt_session(gpu, NULL, 160);
        const float *x, *y;
        int n = length[i];

        OK(cag_session_prefill(a, ids, n, &x, err));
        OK(cag_session_prefill(b, ids, n, &y, err));
        see(x, y, n_vocab, name);
        for (int k = 0; k < 2; k++) {
            OK(cag_session_step(&a, &ids[n + k], 1, &x, err));
            OK(cag_session_step(&b, &ids[n + k], 1, &y, err));
            see(x, y, n_vocab, name);
        }
        assert_int_equal(cag_session_n_tok(b), n + 2);
        cag_session_free(a);
        cag_session_free(b);
    }
    cag_engine_free(cpu);
    cag_engine_free(gpu);
    cag_model_close(m);
}

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

/* ------------------------------------------------------------------ caches */

enum { N_QUESTION = 5, N_BATCH = 11 };

/* K's scales in the last layer's first tile, of head 0, to the one at ctx */
static void false_scale(const struct kvc_shape *shape, int layer, int chunk,
                        uint8_t *dst, const void *ctx)
{
    if (chunk > 0 || layer < shape->n_layer - 1)
        return;
    dst += kvc_scale_off(shape, chunk, 0, 0, 0);
    for (int t = 0; t < KVC_TILE; t++)
        memcpy(dst + 2 * t, ctx, 2);
}

static struct {
    char dir[64], path[96];
    cag_model *m;
    cag_engine *cpu, *gpu;
    int n_vocab;
    int32_t ids[400];
} t;

static void set_up(const char *model)
{
    snprintf(t.dir, sizeof t.dir, "/tmp/cag-cuda-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    snprintf(t.path, sizeof t.path, "%s/kb.kvc", t.dir);
    t.m = mt_model(model);
    t.n_vocab = mt_vocab(t.m);
    mt_ids(t.ids, 400, 11, t.n_vocab);
    t.cpu = mt_engine(t.m, 2, 64, CAG_PRECISION_DEFAULT, false);
    t.gpu = cuda_engine(t.m, 64, CAG_PRECISION_DEFAULT);
}

static void tear_down(void)
{
    cag_engine_free(t.cpu);
    cag_engine_free(t.gpu);
    cag_model_close(t.m);
    unlink(t.path);
    rmdir(t.dir);
    assert_int_equal(shim_live(), 0);
}

static cag_session *prefilled(cag_engine *e, cag_prefix *p, int from, int to,
                              const float **logits)
{
    cag_session *s = mt_session(e, p, to + 20);

    OK(cag_session_prefill(s, t.ids + from, to - from, logits, err));
    return s;
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

/* Many questions on one prefix in one step, with one that has none. */
static void batch(void **state)
{
    enum { N = 70 };
    const float *x[N_BATCH], *y[N_BATCH];
    cag_session *a[N_BATCH], *b[N_BATCH];
    cag_prefix *p = NULL, *q = NULL;
    int32_t id[N_BATCH];

    (void)state;
    set_up("models/llama-bias");
    a[0] = prefilled(t.cpu, NULL, 0, N, x);
    cag_kvc *k = mt_cache(a[0], t.m, N, "f16z", 64, t.path);
    cag_session_free(a[0]);
    OK(cag_prefix_new(t.cpu, k, &p, err));
    OK(cag_prefix_new(t.gpu, k, &q, err));
    OK(cag_prefix_load(q, err));
    for (int i = 0; i < N_BATCH; i++) {
        bool alone = i == 4;
        int from = alone ? 0 : N + i;
        a[i] = prefilled(t.cpu, alone ? NULL : p, from, from + 1 + i, x);
        b[i] = prefilled(t.gpu, alone ? NULL : q, from, from + 1 + i, y);
        see(*x, *y, t.n_vocab, "batch");
        id[i] = t.ids[100 + i];
    }
    /* 11 rows by the large products, 3 by the small ones, and again from
     * the recorded graph */
    for (int i = 0; i < 4; i++) {
        int n = i % 2 == 0 ? N_BATCH : 3;
        OK(cag_session_step(a, id, n, x, err));
        OK(cag_session_step(b, id, n, y, err));
        for (int r = 0; r < n; r++)
            see(x[r], y[r], t.n_vocab, "batch");
    }
    /* prompts of many in one pass */
    cag_step sa[N_BATCH], sb[N_BATCH];
    for (int i = 0; i < N_BATCH; i++) {
        sa[i] = (cag_step){ .session = a[i],
                            .ids = t.ids + 20 * i,
                            .n_ids = 1 + 3 * i % 7 };
        sb[i] = sa[i];
        sb[i].session = b[i];
    }
    OK(cag_session_prefill_many(sa, N_BATCH, err));
    OK(cag_session_prefill_many(sb, N_BATCH, err));
    for (int i = 0; i < N_BATCH; i++)
        see(sa[i].logits, sb[i].logits, t.n_vocab, "prompts");
    for (int i = 0; i < N_BATCH; i++) {
        cag_session_free(a[i]);
        cag_session_free(b[i]);
    }
    cag_prefix_free(p);
    cag_prefix_free(q);
    cag_kvc_close(k);
    tear_down();
    check_median();
}

/*
 * Greedy rows: the id that their logits would give, chosen on the device.  A
 * step is one launch and one wait, whatever its rows, and sends back an id a
 * row; rows that sample get their logits in the same wait.
 */
static void check_greedy(const cag_step *plain, const cag_step *greedy, int n,
                         int n_row)
{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < (n_row > 0 ? n_row : plain[i].n_ids); r++) {
            const float *x = plain[i].logits + (size_t)r * (size_t)t.n_vocab;

            if (greedy[i].greedy)
                assert_int_equal(greedy[i].best[r], mt_argmax(x, t.n_vocab));
            else
                assert_memory_equal(greedy[i].logits +
                                        (size_t)r * (size_t)t.n_vocab,
                                    x, (size_t)t.n_vocab * sizeof *x);
            assert_true(!greedy[i].greedy || greedy[i].logits == NULL);
        }
}

static void greedy(void **state)
{
    enum { N = 20 };
    struct shim_count was, is;
    cag_step a[N], b[N];

    (void)state;
    set_up("models/llama-bias");
    for (int i = 0; i < N; i++) {
        a[i] = (cag_step){ .session = mt_session(t.gpu, NULL, 60),
                           .ids = t.ids + 7 * i,
                           .n_ids = 2 + i % 3 };
        b[i] = a[i];
        b[i].session = mt_session(t.gpu, NULL, 60);
        b[i].greedy = true;
    }
    OK(cag_session_prefill_many(a, N, err));
    OK(cag_session_prefill_many(b, N, err));
    check_greedy(a, b, N, 1);
    /* one to four rows of 20 timelines and of 2; then some that sample */
    for (int k = 0; k < 6; k++) {
        int n = k % 2 == 0 ? N : 2;

        for (int i = 0; i < n; i++) {
            a[i].n_ids = b[i].n_ids = n == N ? 1 + (i + k) % CAG_STEP_MAX : 2;
            b[i].greedy = k < 4 || i % 5 != 0;
        }
        OK(cag_session_verify(a, n, err));
        was = shim_counts();
        OK(cag_session_verify(b, n, err));
        is = shim_counts();
        check_greedy(a, b, n, 0);
        assert_int_equal(is.replays - was.replays, 1);
        if (k < 4) {
            assert_int_equal(is.syncs - was.syncs, 1);
            assert_true(is.bytes_back - was.bytes_back < 512);
        }
    }
    was = shim_counts();
    OK(cag_session_verify(a, 1, err));
    assert_int_equal(shim_counts().syncs - was.syncs, 1);
    for (int i = 0; i < N; i++) {
        cag_session_free(a[i].session);
        cag_session_free(b[i].session);
    }
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

/* --------------------------------------------------------------- overflow */

/*
 * Layer 1's norm made so large that its keys and values leave f16.  What the
 * failed passes left behind lies in tiles that are used again, where a weight
 * of 0 times an infinity would show.
 */
static void overflow(void **state)
{
    enum { N = 30, KEEP = 20, MORE = 90 };
    const float *y;

    (void)state;
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
}

/* ------------------------------------------------------------------ limits */

/* A thousand questions on one prefix, a few alive at a time, of five sizes:
 * once each size was seen, nothing is allocated any more. */
static void a_thousand_questions(void **state)
{
    enum { N = 70, ALIVE = 4 };
    cag_session *s[ALIVE] = { NULL };
    struct shim_count settled = { 0 };
    cag_prefix *p = NULL;
    const float *x;
    int live = 0;

    (void)state;
    set_up("models/llama.Q4_0.gguf");
    cag_session *source = prefilled(t.cpu, NULL, 0, N, &x);
    cag_kvc *k = mt_cache(source, t.m, N, "f16", 64, t.path);
    OK(cag_prefix_new(t.gpu, k, &p, err));
    OK(cag_prefix_load(p, err));
    uint64_t bytes = 0;
    for (int i = 0; i < 1000; i++) {
        cag_session **q = &s[i % ALIVE];
        cag_session_free(*q);
        *q = mt_session(t.gpu, p, N + 1 + i * 37 % 300);
        if (i % 100 == 0)
            OK(cag_session_prefill(*q, t.ids, 1, &x, err));
        if (i == 299) {
            settled = shim_counts();
            live = shim_live();
            bytes = cag_engine_device_bytes(t.gpu);
        } else if (i > 299) {
            assert_int_equal(shim_counts().allocs, settled.allocs);
            assert_int_equal(shim_counts().frees, settled.frees);
            assert_int_equal(shim_live(), live);
        }
    }
    assert_in_range(cag_engine_device_bytes(t.gpu), bytes / 2, 2 * bytes);
    for (int i = 0; i < ALIVE; i++)
        cag_session_free(s[i]);
    /* spare blocks make room for what does not fit beside them */
    assert_int_equal(shim_counts().frees, settled.frees);
    assert_int_equal(cag_engine_room(t.gpu, NULL, 300), 256);
    shim_peak();
    shim_memory(shim_peak() + ((uint64_t)66 << 20));
    int n = cag_engine_room(t.gpu, NULL, 300);
    assert_in_range(n, 4, 255);
    cag_session **all = mem_alloc_array((size_t)n, sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < n; i++)
        all[i] = mt_session(t.gpu, NULL, 300);
    assert_true(shim_counts().frees > settled.frees);
    assert_int_equal(cag_engine_room(t.gpu, NULL, 300), 0);
    shim_memory((uint64_t)1 << 30);
    for (int i = 0; i < n; i++)
        cag_session_free(all[i]);
    mem_free(all);
    cag_prefix_free(p);
    cag_kvc_close(k);
    cag_session_free(source);
    tear_down();
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

/* ----------------------------------------------------- layers on the CPU */

/* A model split before any of its layers is the model; so are caches,
 * batches and files of one. */
static void split(void **state)
{
    static const char *const name[] = { "models/mistral", "models/llama-bias",
                                        "models/qwen3-tied",
                                        "models/llama.Q4_0.gguf" };

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
    gpu_layers = 1;
    cached(state);
    codes(state);
    batch(state);
    written(state);
    gpu_layers = 0;
}

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
    enum { FULL = 3 };
    struct backend_opts bo = { .gpu_layers = CAG_GPU_LAYERS_AUTO,
                               .chunk = 64,
                               .room_tok = 4000 };
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
        assert_true(room >= (uint64_t)n * 4000 * 4 *
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
    struct backend_opts bo = { .gpu_layers = 1, .chunk = 8 };
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
        struct backend_opts bo = { .chunk = 8 };
        struct backend *b = NULL;
        struct backend_kv *kv = NULL;
        struct forward_row row[2] = { { NULL, 0, 1, NULL, NULL },
                                      { NULL, 1, 2, NULL, NULL } };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test(exact),
        cmocka_unit_test(arrival),
        cmocka_unit_test(cached),
        cmocka_unit_test(codes),
        cmocka_unit_test(codes_that_lie),
        cmocka_unit_test(batch),
        cmocka_unit_test(greedy),
        cmocka_unit_test(overflow),
        cmocka_unit_test(written),
        cmocka_unit_test(a_thousand_questions),
        cmocka_unit_test(memory),
        cmocka_unit_test(failures),
        cmocka_unit_test(timeline),
        cmocka_unit_test(split),
        cmocka_unit_test(split_described),
        cmocka_unit_test(split_auto),
        cmocka_unit_test(split_oom),
    };
    return cmocka_run_group_tests_name("cuda_model", tests, NULL, NULL);
}
