/*
 * test_cuda_batch.c - many timelines on the host shim: questions on one prefix
 * in one pass, ids chosen on the device, blocks that serve a thousand times.
 */
#include "tests/cuda/cuda_model.h"

enum { N_BATCH = 11 };

/* Many questions on one prefix in one step, with one that has none. */
static void check_batch(const char *model)
{
    enum { N = 70 };
    const float *x[N_BATCH], *y[N_BATCH];
    cag_session *a[N_BATCH], *b[N_BATCH];
    cag_prefix *p = NULL, *q = NULL;
    int32_t id[N_BATCH];

    set_up(model);
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

static void batch(void **state)
{
    (void)state;
    check_batch("models/llama-bias");
    check_batch("models/llama.Q4_0.gguf");
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

/* Of a model whose first layers are the CPU's. */
static void split(void **state)
{
    gpu_layers = 1;
    batch(state);
    gpu_layers = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch),
        cmocka_unit_test(greedy),
        cmocka_unit_test(a_thousand_questions),
        cmocka_unit_test(split),
    };
    return cmocka_run_group_tests_name("cuda_batch", tests, NULL, NULL);
}
