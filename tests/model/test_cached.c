/*
 * test_cached.c - cached equals cold, bit for bit.
 *
 * The cold run is one session that never saw a cache.  The cached run writes
 * a .kvc from another cold session, opens it, and answers from it with other
 * threads, other chunks and other sessions in the same step.  Every logit of
 * every token must have the same bits.
 */
#include "tests/lib/kvc_fixture.h"
#include "tests/lib/mtest.h"

#include <sys/wait.h>

#include "kernels/kernels.h"

enum { N_QUESTION = 14, N_STEP = 4, N_OUT = N_STEP + 1, MAX_TOK = 2200 };

static const int lengths[] = { 1,    2,    63,   64,   65,   127,  128,
                               129,  191,  192,  700,  1023, 1024, 1025,
                               1087, 1088, 1089, 2047, 2048, 2049, 2100 };
enum { N_LENGTH = sizeof lengths / sizeof lengths[0] };

/* The demo model is real and slow: few lengths. */
static const int short_lengths[] = { 63, 64, 129 };

struct setup {
    const char *model;
    cag_precision precision;
    bool kv_f32;
    const char *codec;
    const int *length;
    int n_length;
};

/* The logits after the question and after each of N_STEP greedy tokens. */
struct outcome {
    int n_vocab;
    float *logits; /* [N_OUT, n_vocab] */
};

static struct outcome outcome_new(int n_vocab)
{
    struct outcome o = { n_vocab, NULL };

    o.logits = calloc((size_t)n_vocab * N_OUT, sizeof(float));
    assert_non_null(o.logits);
    return o;
}

static void outcome_set(struct outcome *o, int i, const float *logits)
{
    memcpy(o->logits + (size_t)i * (size_t)o->n_vocab, logits,
           (size_t)o->n_vocab * sizeof(float));
}

static const float *outcome_at(const struct outcome *o, int i)
{
    return o->logits + (size_t)i * (size_t)o->n_vocab;
}

static void same(const struct outcome *a, const struct outcome *b,
                 const char *what, int n)
{
    for (int i = 0; i < N_OUT; i++)
        for (int v = 0; v < a->n_vocab; v++) {
            const float *x = outcome_at(a, i) + v, *y = outcome_at(b, i) + v;
            if (memcmp(x, y, sizeof *x) != 0)
                fail_msg("%s, prefix %d: logit %d after token %d is %.9g "
                         "cold, %.9g cached",
                         what, n, v, i, (double)*x, (double)*y);
        }
}

/* Greedy steps of s in company of others, who repeat id 1; every other step
 * with a wrong guess or several, which are taken back. */
static void steps(struct outcome *o, cag_session *s, cag_session *const *other,
                  int n_other)
{
    for (int i = 0; i < N_STEP; i++) {
        cag_step all[4];
        int32_t one = 1, id[CAG_STEP_MAX] = { 0, 1, 2, 3 };
        int mine = i % (n_other + 1), extra = i % CAG_STEP_MAX;

        if (cag_session_n_tok(s) + 1 + extra > MAX_TOK)
            extra = 0;
        id[0] = mt_argmax(outcome_at(o, i), o->n_vocab);
        for (int j = 0; j <= n_other; j++)
            all[j] =
                j == mine
                    ? (cag_step){ .session = s, .ids = id, .n_ids = 1 + extra }
                    : (cag_step){ .session = other[j < mine ? j : j - 1],
                                  .ids = &one,
                                  .n_ids = 1,
                                  .greedy = true };
        OK(cag_session_verify(all, n_other + 1, err));
        outcome_set(o, i + 1, all[mine].logits);
        OK(cag_session_truncate(s, cag_session_n_tok(s) - extra, err));
    }
}

/* One prefix length: a cached session against what the cold one gave. */
static void check_length(const struct setup *u, const cag_model *m,
                         cag_session *source, const int32_t *ids, int i,
                         const struct outcome *cold, const char *path)
{
    static const int threads[] = { 1, 2, 3, 5 }, chunks[] = { 1, 7, 64, 512 };
    int n = u->length[i], company = i % 3;
    cag_kvc *k = mt_cache(source, m, n, u->codec, 64 << i % 4, path);
    cag_engine *e = mt_engine(m, threads[i % 4], chunks[i / 4 % 4],
                              u->precision, u->kv_f32);
    cag_prefix *p = NULL;
    struct outcome got = outcome_new(mt_vocab(m));
    cag_session *s, *other[2] = { NULL, NULL };
    const float *logits;

    OK(cag_prefix_new(e, k, &p, err));
    for (int j = 0; j < company; j++) {
        /* one neighbour shares the prefix, the other has none */
        other[j] = mt_session(e, j == 0 ? p : NULL, MAX_TOK);
        OK(cag_session_prefill(other[j], ids, 3 + 100 * j, NULL, err));
    }
    s = mt_session(e, p, MAX_TOK);
    assert_int_equal(cag_session_n_tok(s), n);
    OK(cag_session_prefill(s, ids + n, N_QUESTION, &logits, err));
    outcome_set(&got, 0, logits);
    steps(&got, s, other, company);
    same(cold, &got, u->model, n);

    /* the next question of the same session starts from the clean prefix */
    OK(cag_session_truncate(s, n, err));
    OK(cag_session_prefill(s, ids + n, N_QUESTION, &logits, err));
    assert_memory_equal(logits, outcome_at(cold, 0),
                        (size_t)cold->n_vocab * sizeof *logits);
    assert_true((cag_prefix_private_bytes(p) > 0) ==
                (strcmp(u->codec, "f16z") == 0));
    for (int j = 0; j < company; j++)
        cag_session_free(other[j]);
    cag_session_free(s);
    cag_prefix_free(p);
    cag_engine_free(e);
    cag_kvc_close(k);
    free(got.logits);
}

static void check_setup(const struct setup *u)
{
    cag_model *m = mt_model(u->model);
    cag_engine *e = mt_engine(m, 2, 512, u->precision, u->kv_f32);
    cag_engine *e1 = mt_engine(m, 1, 64, u->precision, u->kv_f32);
    cag_session *s = mt_session(e, NULL, MAX_TOK);
    cag_session *source = mt_session(e1, NULL, MAX_TOK);
    struct outcome cold = outcome_new(mt_vocab(m));
    static int32_t ids[MAX_TOK];
    char *path = fix_place();
    const float *logits;

    assert_non_null(path);
    mt_ids(ids, MAX_TOK, 11, mt_vocab(m));
    OK(cag_session_prefill(source, ids, u->length[u->n_length - 1], NULL, err));
    for (int i = 0; i < u->n_length; i++) {
        int n = cag_session_n_tok(s), end = u->length[i] + N_QUESTION;
        /* the last is one uninterrupted pass */
        if (i == u->n_length - 1) {
            OK(cag_session_truncate(s, 0, err));
            n = 0;
        }
        OK(cag_session_prefill(s, ids + n, end - n, &logits, err));
        outcome_set(&cold, 0, logits);
        steps(&cold, s, NULL, 0);
        OK(cag_session_truncate(s, u->length[i], err));
        check_length(u, m, source, ids, i, &cold, path);
    }
    fix_displace(path);
    free(cold.logits);
    cag_session_free(s);
    cag_session_free(source);
    cag_engine_free(e);
    cag_engine_free(e1);
    cag_model_close(m);
}

static void run_setup(void **state)
{
    check_setup(*state);
}

/* Skipped where `make model` has not run. */
static void demo(void **state)
{
    static const struct setup u = {
        "../../models/SmolLM2-135M-Instruct.Q4_1.gguf",
        CAG_PRECISION_DEFAULT,
        false,
        "f16z",
        short_lengths,
        sizeof short_lengths / sizeof short_lengths[0]
    };
    char path[256];

    (void)state;
    snprintf(path, sizeof path, GOLDEN "%s", u.model);
    if (access(path, R_OK) != 0)
        skip();
    check_setup(&u);
}

/* --------------------------------------------------------- partial rebuild */

/* Tokens kept from an old cache and the rest computed: the same chunks. */
static void rebuild(void **state)
{
    static const int keep[] = { 1, 63, 64, 65, 500, 1024 };
    enum { N = 1100 };
    cag_model *m = mt_model("models/llama3.F16.gguf");
    cag_engine *e = mt_engine(m, 3, 64, CAG_PRECISION_DEFAULT, false);
    cag_session *full = mt_session(e, NULL, N);
    static int32_t ids[N];
    char *path = fix_place();

    (void)state;
    mt_ids(ids, N, 12, mt_vocab(m));
    OK(cag_session_prefill(full, ids, N, NULL, err));
    cag_kvc *old = mt_cache(full, m, N, "f16z", 128, path);
    for (size_t i = 0; i < sizeof keep / sizeof keep[0]; i++) {
        cag_session *part = mt_session(e, NULL, N);
        OK(session_import(part, old, keep[i], err));
        assert_int_equal(cag_session_n_tok(part), keep[i]);
        OK(cag_session_prefill(part, ids + keep[i], N - keep[i], NULL, err));
        mt_same_chunks(full, part, kvc_get_shape(old));
        cag_session_free(part);
    }
    cag_kvc_close(old);
    fix_displace(path);
    cag_session_free(full);
    cag_engine_free(e);
    cag_model_close(m);
}

/* ------------------------------------------- the first tokens of a cache */

/* A prefix cut short equals a shorter cold run; so do the logits of every
 * token of a prompt asked for at once. */
static void part(void **state)
{
    static const int cut[] = { 1, 63, 64, 65, 200, 256, 300 };
    static const char *const codecs[] = { "f16", "f16z" };
    enum { N = 300, N_ROW = 30 };
    cag_model *m = mt_model("models/llama3.F16.gguf");
    int n_vocab = mt_vocab(m);
    cag_engine *e = mt_engine(m, 2, 7, CAG_PRECISION_DEFAULT, false);
    cag_session *full = mt_session(e, NULL, N), *cold;
    size_t bytes = N_ROW * (size_t)n_vocab * sizeof(float);
    float *rows = malloc(bytes);
    static int32_t ids[N + N_ROW];
    char *path = fix_place();
    const float *logits;
    cag_prefix *p = NULL;

    (void)state;
    assert_non_null(rows);
    mt_ids(ids, N + N_ROW, 14, n_vocab);
    OK(cag_session_prefill(full, ids, N, NULL, err));
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        cag_kvc *k = mt_cache(full, m, N, codecs[i % 2], 64 << i % 3, path);
        OK(prefix_new_part(e, k, cut[i], &p, err));
        cag_session *s = mt_session(e, p, N + N_ROW);
        assert_int_equal(cag_session_n_tok(s), cut[i]);
        OK(session_prefill_rows(s, ids + cut[i], N_ROW, rows, err));
        assert_int_equal(cag_session_n_tok(s), cut[i] + N_ROW);
        cold = mt_session(e, NULL, N + N_ROW);
        OK(cag_session_prefill(cold, ids, cut[i], NULL, err));
        for (int r = 0; r < N_ROW; r++) {
            OK(cag_session_prefill(cold, ids + cut[i] + r, 1, &logits, err));
            assert_memory_equal(logits, rows + (size_t)r * (size_t)n_vocab,
                                bytes / N_ROW);
        }
        cag_session_free(cold);
        cag_session_free(s);
        cag_prefix_free(p);
        cag_error why = CAG_ERROR_INIT;
        assert_int_equal(prefix_new_part(e, k, 0, &p, &why), CAG_E_USAGE);
        assert_int_equal(prefix_new_part(e, k, N + 1, &p, &why), CAG_E_USAGE);
        assert_string_equal(why.msg, "301 tokens asked of a cache of 300");
        cag_kvc_close(k);
    }
    fix_displace(path);
    free(rows);
    cag_session_free(full);
    cag_engine_free(e);
    cag_model_close(m);
}

/* --------------------------------------------- every set of kernels, again */

/* Logits of a short run under CAG_KERNELS=name, by a process of its own. */
static void child_logits(const char *name, const char *model, float *out,
                         int n_vocab)
{
    int fd[2];
    size_t want = (size_t)n_vocab * N_OUT * sizeof *out;

    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static int32_t ids[80];
        const float *logits;
        setenv("CAG_KERNELS", name, 1);
        cag_model *m = mt_model(model);
        cag_engine *e = mt_engine(m, 2, 64, CAG_PRECISION_DEFAULT, false);
        cag_session *s = mt_session(e, NULL, 100);
        struct outcome o = outcome_new(n_vocab);
        bool ok = strcmp(cag_engine_kernels(e), name) == 0;
        mt_ids(ids, 80, 13, n_vocab);
        OK(cag_session_prefill(s, ids, 80, &logits, err));
        outcome_set(&o, 0, logits);
        steps(&o, s, NULL, 0);
        ok = ok && write(fd[1], o.logits, want) == (ssize_t)want;
        _exit(ok ? 0 : 1);
    }
    close(fd[1]);
    mt_from_child(pid, fd[0], out, want);
}

static void kernel_sets(void **state)
{
    static const char *const models[] = { "models/llama-mix.MIX.gguf",
                                          "models/llama-k.Q56_K.gguf",
                                          "models/qwen3.F16.gguf" };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        cag_model *m = mt_model(models[i]);
        int n_vocab = mt_vocab(m);
        struct outcome first = outcome_new(n_vocab);
        struct outcome next = outcome_new(n_vocab);
        const struct kernels *k;
        bool usable;
        child_logits("scalar", models[i], first.logits, n_vocab);
        for (int j = 0; (k = kernels_at(j, &usable)) != NULL; j++) {
            if (!usable || strcmp(k->name, "ref") == 0)
                continue;
            child_logits(k->name, models[i], next.logits, n_vocab);
            same(&first, &next, k->name, 80);
        }
        free(first.logits);
        free(next.logits);
        cag_model_close(m);
    }
}

/* ---------------------------------------------------------- less precision */

/* The same promise for --precision fast and fast8: mixed weight types, so that
 * all products take part where a family takes only some. */
static const int fast_lengths[] = { 1, 64, 65, 129, 700, 1024, 1089 };
enum { N_FAST = sizeof fast_lengths / sizeof fast_lengths[0] };

static void fast(void **state)
{
    static const struct setup setups[] = {
        { "models/llama.Q4_1.gguf", CAG_PRECISION_FAST, false, "f16z",
          fast_lengths, N_FAST },
        { "models/llama-mix.MIX.gguf", CAG_PRECISION_FAST, false, "f16",
          fast_lengths, N_FAST },
        { "models/llama-mix.MIX.gguf", CAG_PRECISION_FAST8, false, "f16",
          fast_lengths, N_FAST },
        { "models/llama-k.Q4_K.gguf", CAG_PRECISION_FAST, false, "f16",
          fast_lengths, N_FAST },
        { "models/llama-k.Q4_K.gguf", CAG_PRECISION_FAST8, false, "f16z",
          fast_lengths, N_FAST },
        { "models/qwen3.F16.gguf", CAG_PRECISION_FAST, false, "f16",
          fast_lengths, N_FAST },
    };

    (void)state;
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        cag_model *m = mt_model(setups[i].model);
        cag_engine *e = mt_engine(m, 1, 64, setups[i].precision, false);

        print_message("%s: %s, %s\n", setups[i].model, cag_engine_products(e),
                      cag_engine_numerics(e));
        assert_true(
            (strcmp(cag_engine_products(e), "f32") == 0) ==
            (strcmp(cag_engine_numerics(e), kernels_get(NULL)->numerics) == 0));
        cag_engine_free(e);
        cag_model_close(m);
        check_setup(&setups[i]);
    }
}

/* Is there a set of this name and, after its +, such a family? */
static bool has(const char *kernels)
{
    size_t n_set = strcspn(kernels, "+");
    bool set = false, family = !kernels[n_set], usable;
    const struct kernels_fast *f;
    const struct kernels *k;

    for (int i = 0; (k = kernels_at(i, &usable)) != NULL; i++)
        set = set || (usable && strlen(k->name) == n_set &&
                      !strncmp(k->name, kernels, n_set));
    for (int i = 0; !family && (f = kernels_fast_at(i, &usable)); i++) {
        const char *space = strrchr(f->name, ' ');

        family =
            usable && !strcmp(space ? space + 1 : f->name, kernels + n_set + 1);
    }
    return set && family;
}

/* What CAG_KERNELS brings is chosen once per process: another one for each. */
static void fast_families(void **state)
{
    static const char *const kernels[] = { "avx2", "avx2+avx2",
                                           "avx512+avx512vnni",
                                           "avx512+avx512bf16" };

    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        int status = 0;
        pid_t pid;

        if (!has(kernels[i])) {
            print_message("# skip %s: this CPU or system lacks it\n",
                          kernels[i]);
            continue;
        }
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            setenv("CAG_KERNELS", kernels[i], 1);
            /* what it reports must not stand among our own tests */
            dup2(STDERR_FILENO, STDOUT_FILENO);
            execl("/proc/self/exe", "test_cached", "fast", (char *)NULL);
            _exit(127);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(int argc, char **argv)
{
    static struct setup setups[] = {
        { "models/llama.Q4_1.gguf", CAG_PRECISION_DEFAULT, false, "f16z",
          lengths, N_LENGTH },
        { "models/llama3.F16.gguf", CAG_PRECISION_DEFAULT, false, "f16",
          lengths, N_LENGTH },
        { "models/qwen3-tied.F32.gguf", CAG_PRECISION_EXACT, false, "f16",
          lengths, N_LENGTH },
        { "models/mistral.F16.gguf", CAG_PRECISION_DEFAULT, true, "f32",
          lengths, N_LENGTH },
        { "models/qwen2.F16.gguf", CAG_PRECISION_DEFAULT, false, "f16z",
          lengths, N_LENGTH },
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_sets),
        cmocka_unit_test_prestate(run_setup, &setups[0]),
        cmocka_unit_test_prestate(run_setup, &setups[1]),
        cmocka_unit_test_prestate(run_setup, &setups[2]),
        cmocka_unit_test_prestate(run_setup, &setups[3]),
        cmocka_unit_test_prestate(run_setup, &setups[4]),
        cmocka_unit_test(rebuild),
        cmocka_unit_test(part),
        cmocka_unit_test(fast),
        cmocka_unit_test(demo),
        cmocka_unit_test(fast_families),
    };
    const struct CMUnitTest only_fast[] = { cmocka_unit_test(fast) };

    if (argc > 1 && strcmp(argv[1], "fast") == 0)
        return cmocka_run_group_tests_name("cached, fast", only_fast, NULL,
                                           NULL);
    return cmocka_run_group_tests_name("cached", tests, NULL, NULL);
}
