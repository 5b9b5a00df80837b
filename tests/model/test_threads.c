/*
 * test_threads.c - one model and one cache, used by many threads at once,
 * each with an engine of its own: every answer is what one thread alone gets.
 * Under ThreadSanitizer (make MODE=tsan check) no access races.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include <cag/ask.h>
#include <cag/build.h>

#include "tests/lib/mtest.h"

#define N_THREAD 6
#define N_STEP   6

static char dir[] = "/tmp/cag-threads-XXXXXX";
static char kvc[3][64];
static const char *const codecs[3] = { "f16z", "f16", "f32" };

struct shared {
    const cag_model *model;
    const cag_kvc *kvc;
    bool f32;
};

struct worker {
    const struct shared *s;
    pthread_t thread;
    int n_thread; /* of its engine */
    int32_t id[N_STEP];
    cag_status st;
    cag_error err;
};

static cag_status greedy(struct worker *w, cag_session *s, const float *logits)
{
    int n_vocab = cag_model_get_info(w->s->model)->n_vocab;
    cag_status st = CAG_OK;

    for (int i = 0; i < N_STEP && !st; i++) {
        w->id[i] = mt_argmax(logits, n_vocab);
        st = cag_session_step(&s, &w->id[i], 1, &logits, &w->err);
    }
    return st;
}

/* A whole use of the cache: tokenize, attach, read a question, answer it. */
static void *work(void *arg)
{
    const cag_text piece = { "Who leads the project?", 22, 0 };
    struct worker *w = arg;
    cag_engine_opts o = { .device = "cpu",
                          .n_thread = w->n_thread,
                          .pass_rows = 16,
                          .kv_f32 = w->s->f32 };
    const cag_tokenizer *t = cag_kvc_tokenizer(w->s->kvc);
    cag_engine *e = NULL;
    cag_prefix *p = NULL;
    cag_session *s = NULL;
    cag_ids ids = CAG_IDS_INIT;
    const float *logits;

    w->err = (cag_error)CAG_ERROR_INIT;
    w->st = t ? cag_encode(t, &piece, 1, 0, &ids, &w->err) : CAG_E_INTERNAL;
    if (!w->st)
        w->st = cag_engine_new(w->s->model, &o, &e, &w->err);
    if (!w->st)
        w->st = cag_prefix_new(e, w->s->kvc, &p, &w->err);
    if (!w->st)
        w->st = cag_session_new(e, p, 1000, &s, &w->err);
    if (!w->st)
        w->st = cag_session_prefill(s, ids.id, (int)ids.n, &logits, &w->err);
    if (!w->st)
        w->st = greedy(w, s, logits);
    cag_session_free(s);
    cag_prefix_free(p);
    cag_engine_free(e);
    cag_ids_free(&ids);
    return NULL;
}

static void *verify(void *arg)
{
    struct worker *w = arg;
    cag_kvc *k = NULL;

    /* a second opening of the same file goes on beside it */
    w->st = cag_kvc_open(cag_kvc_get_info(w->s->kvc)->path, &k, &w->err);
    if (!w->st)
        w->st = cag_kvc_verify(k, 2, NULL, NULL, &w->err);
    cag_kvc_close(k);
    return NULL;
}

static void many(void **state)
{
    int which = *(const int *)*state;
    cag_model *m = mt_model("models/qwen3");
    cag_kvc *k = NULL;
    struct shared shared;
    struct worker alone, w[N_THREAD], check;
    cag_kvc_checked seen;

    OK(cag_kvc_open(kvc[which], &k, err));
    shared = (struct shared){ m, k, which == 2 };
    memset(w, 0, sizeof w);
    check = (struct worker){ .s = &shared };
    for (int i = 0; i < N_THREAD; i++) {
        w[i].s = &shared;
        w[i].n_thread = 1 + i % 2;
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    assert_int_equal(pthread_create(&check.thread, NULL, verify, &check), 0);
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
    assert_int_equal(pthread_join(check.thread, NULL), 0);
    unit_ok(check.st, &check.err, __LINE__);
    alone = (struct worker){ .s = &shared, .n_thread = 1 };
    work(&alone);
    unit_ok(alone.st, &alone.err, __LINE__);
    for (int i = 0; i < N_THREAD; i++) {
        unit_ok(w[i].st, &w[i].err, __LINE__);
        assert_memory_equal(w[i].id, alone.id, sizeof alone.id);
    }
    cag_kvc_get_checked(k, &seen);
    assert_int_equal(seen.n_chunk, seen.of_chunk);
    cag_kvc_close(k);
    cag_model_close(m);
}

static int set_up(void **state)
{
    char text[64];
    cag_source_spec source = { .path = text };
    FILE *f;

    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(text, sizeof text, "%s/a.md", dir);
    f = fopen(text, "w");
    if (!f)
        return -1;
    fputs("Maya Sen leads the project. Sparrow-7 flies 47 minutes.\n", f);
    fclose(f);
    for (int i = 0; i < 3; i++) {
        cag_build_opts o;
        cag_build_report r;

        snprintf(kvc[i], sizeof kvc[i], "%s/%s.kvc", dir, codecs[i]);
        cag_build_opts_init(&o);
        o.model = GOLDEN "models/qwen3";
        o.source = &source;
        o.n_source = 1;
        o.output = kvc[i];
        o.codec = codecs[i];
        o.now = 1764000000;
        o.engine.device = "cpu";
        OK(cag_build(&o, &r, err));
        cag_build_report_release(&r);
    }
    return 0;
}

static int tear_down(void **state)
{
    char cmd[64];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return system(cmd);
}

int main(void)
{
    static int which[3] = { 0, 1, 2 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(many, &which[0]),
        cmocka_unit_test_prestate(many, &which[1]),
        cmocka_unit_test_prestate(many, &which[2]),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
