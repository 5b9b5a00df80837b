/*
 * test_logits.c - logits and greedy continuations of every tiny model
 * against what transformers computed (tests/golden/README.md).
 *
 * The arithmetic differs from torch's only in the order of additions, so in
 * exact precision with K and V as f32 the logits agree to 1e-4.  Kept as f16
 * they are compared with a run of transformers that rounded them too; a sum
 * that lands on the other side of a rounding border moves a logit by 1e-3.
 * What each mistake would do is listed in tests/golden/README.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include "tests/lib/mtest.h"

#include "kernels/kernels.h"

#define MAX_TOK 2200

static const char *const goldens[] = {
    "llama",      "llama3",        "llama-yarn",   "llama-linear",
    "llama-bias", "qwen2",         "qwen3",        "qwen3-tied",
    "mistral",    "llama-mix.MIX", "llama-k.Q4_K", "llama-k.Q56_K",
    "llama.Q4_0", "llama.Q4_1",    "llama.Q5_0",   "llama.Q5_1",
    "llama.Q8_0"
};
enum { N_GOLDEN = sizeof goldens / sizeof goldens[0] };

/* How far a logit may be from the recorded one. */
struct tolerance {
    double logit;  /* after the prompt */
    double margin; /* greedy ids are compared while margins are above */
};

static double worst; /* of the running test, printed at its end */

static void check_logits(const jv *list, const float *logits, double tol,
                         const char *what, int n)
{
    assert_true(jv_count(list) > 0);
    for (size_t i = 0; i < jv_count(list); i++) {
        int64_t id = jv_int(jv_at(jv_at(list, i), 0), -1);
        double want = jv_num(jv_at(jv_at(list, i), 1), NAN);
        double diff = fabs((double)logits[id] - want);
        if (!(diff <= tol))
            fail_msg("%s, %d tokens: logit of %d is %.7g, expected %.7g", what,
                     n, (int)id, (double)logits[id], want);
        worst = diff > worst ? diff : worst;
    }
}

/* Greedy steps from logits; leaves the session where it was. */
static void check_next(cag_session *s, const float *logits, int n_vocab,
                       const jv *want, const struct tolerance *tol,
                       const char *what)
{
    int n = cag_session_n_tok(s);
    const jv *next = jv_get(want, "next"), *margin = jv_get(want, "margin");

    for (size_t i = 0; i < jv_count(next); i++) {
        if (jv_num(jv_at(margin, i), 0.0) < tol->margin)
            break;
        int32_t id = mt_argmax(logits, n_vocab);
        if (id != jv_int(jv_at(next, i), -1))
            fail_msg("%s, %d tokens: greedy id %zu is %d, expected %d", what, n,
                     i, id, (int)jv_int(jv_at(next, i), -1));
        OK(cag_session_step(&s, &id, 1, &logits, err));
    }
    OK(cag_session_truncate(s, n, err));
}

static jv *read_golden(const char *name)
{
    char path[256];
    jv *g = NULL;

    snprintf(path, sizeof path, GOLDEN "logits/%s.json", name);
    OK(jv_parse_file(path, 1 << 20, &g, err));
    return g;
}

enum path { BY_PREFILL, BY_STEP };

/* Walk one sequence through all recorded lengths up to max_n. */
static void check_walk(cag_engine *e, const jv *g, const char *kv,
                       enum path path, int max_n, const struct tolerance *tol,
                       const char *what)
{
    int n_vocab = (int)jv_get_int(g, "n_vocab", 0);
    static int32_t ids[MAX_TOK];
    cag_session *s = mt_session(e, NULL, MAX_TOK);
    const jv *prompts = jv_get(g, "prompts");
    const float *logits = NULL;
    int at = 0;

    assert_true(jv_count(prompts) >= 10);
    mt_ids(ids, MAX_TOK, (uint64_t)jv_get_int(g, "id_seed", 0), n_vocab);
    for (size_t i = 0; i < jv_count(prompts) && at < max_n; i++) {
        const jv *p = jv_at(prompts, i), *want = jv_get(p, kv);
        int n = (int)jv_get_int(p, "n", 0);
        if (path == BY_PREFILL)
            OK(cag_session_prefill(s, ids + at, n - at, &logits, err));
        for (; path == BY_STEP && at < n; at++)
            OK(cag_session_step(&s, &ids[at], 1, &logits, err));
        at = n;
        check_logits(jv_get(want, "top"), logits, tol->logit, what, n);
        check_logits(jv_get(want, "fixed"), logits, tol->logit, what, n);
        check_next(s, logits, n_vocab, want, tol, what);
    }
    assert_int_equal(at, max_n);
    cag_session_free(s);
}

/*
 * A directory holds the weights of its GGUF file: that they are found is
 * shown by a few lengths.  Step by step one model crosses a span border.
 */
static int walk_length(const char *name, enum path path, int max_n)
{
    bool dir = strstr(name, ".gguf") == NULL;
    bool far = path == BY_PREFILL || strstr(name, "llama3.F16") != NULL;

    return dir || !far ? (max_n < 65 ? max_n : 65) : max_n;
}

static void check_all(cag_precision precision, bool kv_f32, enum path path,
                      int max_n, const struct tolerance *tol)
{
    worst = 0.0;
    for (int i = 0; i < N_GOLDEN; i++) {
        jv *g = read_golden(goldens[i]);
        const jv *files = jv_get(g, "files");
        for (size_t f = 0; f < jv_count(files); f++) {
            const char *name = jv_str(jv_at(files, f), NULL);
            cag_model *m = mt_model(name);
            cag_engine *e = mt_engine(m, 2, 0, precision, kv_f32);
            check_walk(e, g, kv_f32 ? "f32" : "f16", path,
                       walk_length(name, path, max_n), tol, name);
            cag_engine_free(e);
            cag_model_close(m);
        }
        jv_free(g);
    }
    print_message("worst difference %.3g\n", worst);
}

/* The portable kernels are a hundred times slower: shorter prompts then. */
static int longest(void)
{
    const char *name = kernels_get(NULL)->name;

    return strcmp(name, "scalar") == 0 || strcmp(name, "ref") == 0 ? 700 : 2100;
}

static void exact_f32(void **state)
{
    static const struct tolerance tol = { 3e-4, 0.01 };

    (void)state;
    check_all(CAG_PRECISION_EXACT, true, BY_PREFILL, longest(), &tol);
}

static void default_f16(void **state)
{
    static const struct tolerance tol = { 4e-3, 0.02 };

    (void)state;
    check_all(CAG_PRECISION_DEFAULT, false, BY_PREFILL, longest(), &tol);
}

/* bf16 and fewer bits: far from f32, but no further than this. */
static void fast_f16(void **state)
{
    static const struct tolerance bf16 = { 0.25, 0.6 }, u4s8 = { 0.6, 1.5 };
    const int type = KT_Q4_1;
    const char *why;
    const struct kernels_fast *f =
        kernels_fast_get(kernels_get(NULL), &type, 1, &why);

    (void)state;
    if (f == NULL)
        skip();
    print_message("%s\n", f->name);
    check_all(CAG_PRECISION_FAST, false, BY_PREFILL, longest(),
              strstr(f->numerics, "bf16") ? &bf16 : &u4s8);
    check_all(CAG_PRECISION_FAST8, false, BY_PREFILL, longest(), &u4s8);
}

static void steps(void **state)
{
    static const struct tolerance tol = { 3e-4, 0.01 };

    (void)state;
    check_all(CAG_PRECISION_EXACT, true, BY_STEP, longest() < 2100 ? 65 : 1025,
              &tol);
}

/* ------------------------------------------------------- the demo model */

/* Real text through real weights; skipped where `make model` has not run. */
static void demo(void **state)
{
    static const struct tolerance tol = { 0.02, 0.05 };
    jv *g = read_golden("demo");
    const jv *prompts = jv_get(g, "prompts");
    int n_vocab = (int)jv_get_int(g, "n_vocab", 0);
    int max_n = getenv("CAG_TEST_LONG") != NULL ? 5000 : 300;
    char path[256];

    (void)state;
    snprintf(path, sizeof path, "models/%s",
             jv_str(jv_at(jv_get(g, "files"), 0), NULL));
    if (access(path, R_OK) != 0) {
        jv_free(g);
        skip();
    }
    worst = 0.0;
    cag_model *m = NULL;
    OK(cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m, err));
    cag_engine *e = mt_engine(m, 2, 0, CAG_PRECISION_DEFAULT, false);
    cag_session *s = mt_session(e, NULL, 5000);
    for (size_t i = 0; i < jv_count(prompts); i++) {
        const jv *p = jv_at(prompts, i), *want = jv_get(p, "f16");
        const char *what = jv_get_str(p, "text", "");
        int n = (int)jv_count(jv_get(p, "ids"));
        static int32_t ids[5000];
        const float *logits;
        if (n > max_n)
            continue;
        for (int t = 0; t < n; t++)
            ids[t] = (int32_t)jv_int(jv_at(jv_get(p, "ids"), (size_t)t), -1);
        OK(cag_session_truncate(s, 0, err));
        OK(cag_session_prefill(s, ids, n, &logits, err));
        check_logits(jv_get(want, "top"), logits, tol.logit, what, n);
        check_logits(jv_get(want, "fixed"), logits, tol.logit, what, n);
        check_next(s, logits, n_vocab, want, &tol, what);
    }
    print_message("worst difference %.3g\n", worst);
    cag_session_free(s);
    cag_engine_free(e);
    cag_model_close(m);
    jv_free(g);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_f32), cmocka_unit_test(default_f16),
        cmocka_unit_test(fast_f16),  cmocka_unit_test(steps),
        cmocka_unit_test(demo),
    };

    return cmocka_run_group_tests_name("logits", tests, NULL, NULL);
}
