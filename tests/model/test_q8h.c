/*
 * test_q8h.c - answers from codec q8h: not those of the exact cache, but the
 * same every time (how close they are: test_q8h_loss.c).
 *
 * The chunks of a build and the logits of a question have the same bits for
 * any threads, passes, neighbours, guesses and sets of kernels, at every kind
 * of prefix length.
 */
#include "tests/lib/kvc_fixture.h"
#include "tests/lib/mtest.h"

#include "kernels/kernels.h"

enum { N_QUESTION = 14, N_STEP = 4, N_OUT = N_STEP + 1, MORE = 64 };

/* --------------------------------------------------------- bytes of a build */

/* Threads, passes, and a beginning taken from a cache change no byte. */
static void builds(void **state)
{
    static const int lengths[] = { 1, 64, 255, 257, 700 };
    static const int threads[] = { 1, 3, 2 }, chunks[] = { 512, 7, 64 };
    cag_model *m = mt_model("models/llama3.F16.gguf");
    const cag_model_info *i = cag_model_get_info(m);
    static int32_t ids[700];
    char *path = fix_place();
    cag_engine *e[3];

    (void)state;
    mt_ids(ids, 700, 21, mt_vocab(m));
    for (int j = 0; j < 3; j++)
        e[j] =
            mt_engine(m, threads[j], chunks[j], CAG_PRECISION_DEFAULT, false);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        int from = mt_watched_from(lengths[n]);
        struct kvc_shape shape = { i->n_layer,    i->n_kv_head, i->d_head,
                                   KVC_CLASS_Q8H, lengths[n],   128 };
        cag_session *first = mt_balanced(e[0], ids, lengths[n], MORE), *s;

        for (int j = 1; j < 3; j++) {
            s = mt_balanced(e[j], ids, lengths[n], MORE);
            mt_same_chunks(first, s, &shape);
            cag_session_free(s);
        }
        for (int keep = from; keep > 0; keep /= 2) {
            cag_kvc *old = mt_cache(first, m, lengths[n], "f16", 64, path);

            s = mt_session(e[1], NULL, lengths[n]);
            OK(session_gather(s, from, err));
            OK(session_import(s, old, keep, err));
            OK(cag_session_prefill(s, ids + keep, lengths[n] - keep, NULL,
                                   err));
            OK(session_balance(s, err));
            mt_same_chunks(first, s, &shape);
            cag_session_free(s);
            cag_kvc_close(old);
        }
        cag_session_free(first);
    }
    for (int j = 0; j < 3; j++)
        cag_engine_free(e[j]);
    fix_displace(path);
    cag_model_close(m);
}

/* What was not watched, or taken back, is not balanced with. */
static void order(void **state)
{
    cag_model *m = mt_model("models/llama3.F16.gguf");
    cag_engine *e = mt_engine(m, 1, 0, CAG_PRECISION_DEFAULT, false);
    cag_engine *e32 = mt_engine(m, 1, 0, CAG_PRECISION_DEFAULT, true);
    cag_session *s = mt_session(e, NULL, 100);
    struct kvc_shape shape = { 2, 2, 80, KVC_CLASS_Q8H, 20, 64 };
    cag_error why = CAG_ERROR_INIT;
    uint8_t *dst = mem_alloc_aligned(64, kvc_chunk_bytes(&shape, 0));
    int32_t ids[60];

    (void)state;
    mt_ids(ids, 60, 22, mt_vocab(m));
    OK(cag_session_prefill(s, ids, 20, NULL, err));
    assert_int_equal(session_balance(s, &why), CAG_E_USAGE);
    assert_int_equal(session_export_chunk(s, &shape, 0, 0, dst, &why),
                     CAG_E_USAGE);
    assert_int_equal(session_gather(s, 10, &why), CAG_E_USAGE);
    OK(session_gather(s, 30, err));
    OK(cag_session_prefill(s, ids + 20, 20, NULL, err));
    OK(session_balance(s, err));
    OK(cag_session_truncate(s, 35, err));
    OK(cag_session_prefill(s, ids + 35, 5, NULL, err));
    assert_int_equal(session_balance(s, &why), CAG_E_USAGE);
    cag_session_free(s);
    s = mt_session(e32, NULL, 100);
    OK(session_gather(s, 0, err));
    OK(cag_session_prefill(s, ids, 20, NULL, err));
    assert_int_equal(session_balance(s, &why), CAG_E_USAGE);
    cag_session_free(s);
    mem_free(dst);
    cag_engine_free(e);
    cag_engine_free(e32);
    cag_model_close(m);
}

/* --------------------------------------------------------------- a question */

struct outcome {
    int n_vocab;
    float *logits; /* [N_OUT, n_vocab] */
};

static float *outcome_at(const struct outcome *o, int i)
{
    return o->logits + (size_t)i * (size_t)o->n_vocab;
}

/* A question and greedy steps, in company of one session of the same prefix
 * and one of none, with guesses that are taken back. */
static void ask(cag_engine *e, cag_prefix *p, const int32_t *ids, int company,
                struct outcome *o)
{
    size_t row = (size_t)o->n_vocab * sizeof(float);
    int n;
    cag_session *other[2], *s = mt_session(e, p, 4000);
    const float *logits;

    for (int j = 0; j < company; j++) {
        other[j] = mt_session(e, j == 0 ? p : NULL, 4000);
        OK(cag_session_prefill(other[j], ids, 5 + 90 * j, NULL, err));
    }
    n = cag_session_n_tok(s);
    OK(cag_session_prefill(s, ids, N_QUESTION, &logits, err));
    memcpy(outcome_at(o, 0), logits, row);
    for (int i = 0; i < N_STEP; i++) {
        int32_t one = 1, id[CAG_STEP_MAX] = { 0, 1, 2, 3 };
        int extra = company ? i % CAG_STEP_MAX : 0, mine = i % (company + 1);
        cag_step all[3];

        id[0] = mt_argmax(outcome_at(o, i), o->n_vocab);
        for (int j = 0; j <= company; j++)
            all[j] =
                j == mine
                    ? (cag_step){ .session = s, .ids = id, .n_ids = 1 + extra }
                    : (cag_step){ .session = other[j < mine ? j : j - 1],
                                  .ids = &one,
                                  .n_ids = 1 };
        OK(cag_session_verify(all, company + 1, err));
        memcpy(outcome_at(o, i + 1), all[mine].logits, row);
        OK(cag_session_truncate(s, cag_session_n_tok(s) - extra, err));
    }
    /* once more from the clean prefix */
    OK(cag_session_truncate(s, n, err));
    OK(cag_session_prefill(s, ids, N_QUESTION, &logits, err));
    assert_memory_equal(logits, outcome_at(o, 0), row);
    for (int j = 0; j < company; j++)
        cag_session_free(other[j]);
    cag_session_free(s);
}

struct setup {
    const char *model;
    cag_precision precision;
    const int *length;
    int n_length;
};

static void questions(void **state)
{
    static const int threads[] = { 2, 3, 1, 5 }, chunks[] = { 512, 1, 7, 64 };
    const struct setup *u = *state;
    cag_model *m = mt_model(u->model);
    cag_engine *e = mt_engine(m, 1, 512, u->precision, false);
    struct outcome want = { mt_vocab(m), NULL }, got = want;
    static int32_t ids[2200], question[100];
    char *path = fix_place();
    size_t bytes = N_OUT * (size_t)want.n_vocab * sizeof(float);

    want.logits = malloc(bytes);
    got.logits = malloc(bytes);
    assert_true(want.logits && got.logits);
    mt_ids(ids, 2200, 23, want.n_vocab);
    mt_ids(question, 100, 24, want.n_vocab);
    for (int i = 0; i < u->n_length; i++) {
        cag_session *s = mt_balanced(e, ids, u->length[i], MORE);
        cag_kvc *k =
            mt_cache(s, m, u->length[i], "q8h", i % 3 ? 64 << i % 3 : 0, path);
        cag_engine *e2 = mt_engine(m, threads[i % 4], chunks[i / 2 % 4],
                                   u->precision, false);
        cag_prefix *p = NULL, *p2 = NULL;

        OK(cag_kvc_verify(k, 1, NULL, NULL, err));
        OK(cag_prefix_new(e, k, &p, err));
        OK(cag_prefix_new(e2, k, &p2, err));
        ask(e, p, question, 0, &want);
        ask(e2, p2, question, 2, &got);
        if (memcmp(want.logits, got.logits, bytes) != 0)
            fail_msg("%s, prefix %d: logits differ", u->model, u->length[i]);
        assert_int_equal(cag_prefix_private_bytes(p), 0);
        cag_prefix_free(p);
        cag_prefix_free(p2);
        cag_engine_free(e2);
        cag_kvc_close(k);
        cag_session_free(s);
    }
    fix_displace(path);
    free(want.logits);
    free(got.logits);
    cag_engine_free(e);
    cag_model_close(m);
}

/* ---------------------------------------------------- every set of kernels */

/* A build and a question under CAG_KERNELS=name, by a process of its own:
 * the first chunk of the last layer, then logits. */
static void child(const char *name, const char *model, uint8_t *out,
                  size_t want)
{
    int fd[2];
    pid_t pid;

    assert_int_equal(pipe(fd), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        enum { N = 300 };
        static int32_t ids[N];
        cag_model *m;
        cag_engine *e;
        cag_session *s;
        cag_prefix *p = NULL;
        struct outcome o;
        const uint8_t *raw;
        char *path = fix_place();

        setenv("CAG_KERNELS", name, 1);
        m = mt_model(model);
        e = mt_engine(m, 2, 64, CAG_PRECISION_DEFAULT, false);
        if (strcmp(cag_engine_kernels(e), name) != 0)
            _exit(1);
        mt_ids(ids, N, 25, mt_vocab(m));
        s = mt_balanced(e, ids, N, MORE);
        cag_kvc *k = mt_cache(s, m, N, "q8h", 128, path);
        const struct kvc_shape *shape = kvc_get_shape(k);
        size_t n = kvc_chunk_bytes(shape, 0);
        o.n_vocab = mt_vocab(m);
        o.logits = malloc(N_OUT * (size_t)o.n_vocab * sizeof(float));
        OK(kvc_chunk_load(k, shape->n_layer - 1, 0, NULL, &raw, err));
        OK(cag_prefix_new(e, k, &p, err));
        ask(e, p, ids, 1, &o);
        fix_displace(path);
        bool ok = write(fd[1], raw, n) == (ssize_t)n &&
                  write(fd[1], o.logits, want - n) == (ssize_t)(want - n);
        _exit(ok ? 0 : 1);
    }
    close(fd[1]);
    mt_from_child(pid, fd[0], out, want);
}

static void kernel_sets(void **state)
{
    static const char *const models[] = { "models/llama3.F16.gguf",
                                          "models/llama-k.Q4_K.gguf" };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        cag_model *m = mt_model(models[i]);
        const cag_model_info *info = cag_model_get_info(m);
        struct kvc_shape shape = { info->n_layer, info->n_kv_head,
                                   info->d_head,  KVC_CLASS_Q8H,
                                   300,           128 };
        size_t n = kvc_chunk_bytes(&shape, 0) +
                   N_OUT * (size_t)mt_vocab(m) * sizeof(float);
        uint8_t *first = malloc(n), *next = malloc(n);
        const struct kernels *k;
        bool usable;

        assert_true(first && next);
        child("scalar", models[i], first, n);
        for (int j = 0; (k = kernels_at(j, &usable)) != NULL; j++) {
            if (!usable || strcmp(k->name, "ref") == 0)
                continue;
            child(k->name, models[i], next, n);
            assert_memory_equal(first, next, n);
        }
        free(first);
        free(next);
        cag_model_close(m);
    }
}

int main(void)
{
    static const int lengths[] = { 2,    3,    63,   64,   65,   127,
                                   255,  256,  257,  700,  1023, 1024,
                                   1025, 1087, 1088, 2047, 2049, 2100 };
    static const int few[] = { 2, 65, 128, 300, 1025 };
    static struct setup setups[] = {
        { "models/llama3.F16.gguf", CAG_PRECISION_DEFAULT, lengths, 18 },
        { "models/qwen3-tied.F32.gguf", CAG_PRECISION_EXACT, few, 5 },
        { "models/qwen3.F16.gguf", CAG_PRECISION_DEFAULT, few, 5 },
        { "models/llama.Q4_1.gguf", CAG_PRECISION_DEFAULT, few, 5 },
        { "models/mistral.F16.gguf", CAG_PRECISION_DEFAULT, few, 5 },
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_sets),
        cmocka_unit_test(builds),
        cmocka_unit_test(order),
        cmocka_unit_test_prestate(questions, &setups[0]),
        cmocka_unit_test_prestate(questions, &setups[1]),
        cmocka_unit_test_prestate(questions, &setups[2]),
        cmocka_unit_test_prestate(questions, &setups[3]),
        cmocka_unit_test_prestate(questions, &setups[4]),
    };

    return cmocka_run_group_tests_name("q8h", tests, NULL, NULL);
}
