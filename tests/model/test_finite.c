/*
 * test_finite.c - values that are not finite end in an error that names the
 * layer or the cache, however a token is chosen, and never in a token.
 */
#include "tests/lib/kvc_fixture.h"
#include "tests/lib/mtest.h"

#include <math.h>

#include "kernels/kernels.h"
#include "model/model.h"

enum { N_PREFIX = 130, N_QUESTION = 5, N_ALL = N_PREFIX + N_QUESTION };

/* How tokens are asked for; each must fail. */
enum way { PREFILL, MANY_GREEDY, MANY_SAMPLED, STEP, GREEDY, SAMPLED, N_WAY };

static cag_status take(enum way way, cag_session *s, const int32_t *ids,
                       cag_error *err)
{
    cag_session *all[1] = { s };
    const float *logits;
    cag_step step = { .session = s, .ids = ids, .n_ids = 3 };

    for (int i = 0; i < CAG_STEP_MAX; i++)
        step.best[i] = -7;
    step.greedy = way == MANY_GREEDY || way == GREEDY;
    cag_status st = way == PREFILL
                        ? cag_session_prefill(s, ids, 3, &logits, err)
                    : way == STEP ? cag_session_step(all, ids, 1, &logits, err)
                    : way == GREEDY || way == SAMPLED
                        ? cag_session_verify(&step, 1, err)
                        : cag_session_prefill_many(&step, 1, err);
    for (int i = 0; st && i < CAG_STEP_MAX; i++)
        assert_int_equal(step.best[i], -7);
    return st;
}

static void all_fail(const cag_model *m, const cag_kvc *k, cag_status want,
                     const char *place)
{
    int32_t ids[N_ALL];
    cag_engine *e = mt_engine(m, 2, 0, CAG_PRECISION_DEFAULT,
                              k && kvc_get_shape(k)->kv_class == KVC_CLASS_F32);
    cag_prefix *p = NULL;

    mt_ids(ids, N_ALL, 26, mt_vocab(m));
    if (k)
        OK(cag_prefix_new(e, k, &p, err));
    for (int way = 0; way < N_WAY; way++) {
        cag_session *s = mt_session(e, p, N_ALL);
        cag_error why = CAG_ERROR_INIT;
        int n;

        if (!k) /* what comes before is sound as long as nobody looks */
            OK(cag_session_prefill(s, ids, N_PREFIX, NULL, err));
        n = cag_session_n_tok(s);
        assert_int_equal(n, N_PREFIX);
        cag_status st = take((enum way)way, s, ids + N_PREFIX, &why);
        if (st != want || !strstr(why.msg, place))
            fail_msg("way %d: %s: %s, expected %s, %s", way,
                     cag_status_name(st), why.msg, cag_status_name(want),
                     place);
        assert_int_equal(cag_session_n_tok(s), n);
        assert_int_equal(take((enum way)way, s, ids + N_PREFIX, NULL), want);
        cag_session_free(s);
    }
    cag_prefix_free(p);
    cag_engine_free(e);
}

/* -------------------------------------------------------------- the model */

static void norm_of_the_head(void **state)
{
    cag_model *m = mt_model("models/llama.F32.gguf");
    float *norm = (float *)(uintptr_t)m->weights.out_norm, was = norm[3];
    const float bad[] = { NAN, INFINITY, -INFINITY };

    (void)state;
    for (int i = 0; i < 3; i++) {
        norm[3] = bad[i];
        all_fail(m, NULL, CAG_E_UNSUPPORTED, "the last norm or the output");
    }
    norm[3] = was;
    cag_model_close(m);
}

/* One element of a matrix, in a copy that is NaN there. */
static void poison(struct kmat *w, size_t at)
{
    size_t n = (size_t)w->n_out * w->row_bytes;
    uint8_t *copy = malloc(n);

    assert_non_null(copy);
    assert_int_equal(w->type, KT_F32);
    memcpy(copy, w->data, n);
    memset(copy + 4 * at, 0xff, 4);
    w->data = copy;
}

static void output_matrix(void **state)
{
    cag_model *m = mt_model("models/llama.F32.gguf");

    (void)state;
    poison(&m->weights.head, 1000); /* one id's logit alone */
    all_fail(m, NULL, CAG_E_UNSUPPORTED, "the last norm or the output");
    free((void *)(uintptr_t)m->weights.head.data);
    cag_model_close(m);
}

/* Behind K and V of the last layer nothing is stored that would be checked. */
static void last_layer(void **state)
{
    static const enum layer_mat mats[] = { WQ, WO, W_GATE, W_UP, W_DOWN };
    char place[32];

    (void)state;
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++) {
        cag_model *m = mt_model("models/llama.F32.gguf");
        int last = m->config.n_layer - 1;
        struct kmat *w = &m->weights.layer[last].mat[mats[i]];

        poison(w, 70);
        snprintf(place, sizeof place, "became so in layer %d", last);
        all_fail(m, NULL, CAG_E_UNSUPPORTED, place);
        free((void *)(uintptr_t)w->data);
        cag_model_close(m);
    }
}

/* -------------------------------------------------------------- the cache */

struct spot {
    int layer, is_v;
    bool inf;
};

static void forge(const struct kvc_shape *s, int layer, int chunk, uint8_t *dst,
                  const void *ctx)
{
    const struct spot *x = ctx;
    size_t at = kvc_tile_off(s, chunk, x->is_v, 0, 0);

    if (layer != x->layer || chunk)
        return;
    if (s->kv_class == KVC_CLASS_F32)
        memcpy(dst + at, x->inf ? "\0\0\x80\x7f" : "\xff\xff\xff\xff", 4);
    else
        memcpy(dst + at, x->inf ? "\0\x7c" : "\xff\xff", 2);
}

static void stored_rows(void **state)
{
    static const char *const codecs[] = { "f16", "f16z", "f32" };
    char dir[] = "/tmp/cag-test-XXXXXX", path[512], place[64];
    cag_model *m = mt_model("models/llama.F32.gguf");
    int32_t ids[N_PREFIX];

    (void)state;
    assert_non_null(mkdtemp(dir));
    mt_ids(ids, N_PREFIX, 26, mt_vocab(m));
    for (size_t c = 0; c < 3; c++) {
        bool f32 = strcmp(codecs[c], "f32") == 0;
        cag_engine *e = mt_engine(m, 2, 0, CAG_PRECISION_DEFAULT, f32);
        cag_session *s = mt_session(e, NULL, N_PREFIX);

        OK(cag_session_prefill(s, ids, N_PREFIX, NULL, err));
        for (int i = 0; i < 8; i++) {
            struct spot x = { i & 1 ? m->config.n_layer - 1 : 0, i >> 1 & 1,
                              i >> 2 };
            snprintf(path, sizeof path, "%s/%s%d.kvc", dir, codecs[c], i);
            cag_kvc *k = mt_cache_changed(s, m, N_PREFIX, codecs[c], 64, forge,
                                          &x, path);
            snprintf(place, sizeof place, "layer %d, tokens 0..63: a stored",
                     x.layer);
            /* an infinite key may as well weigh nothing: then it is harmless */
            if (!(x.inf && !x.is_v))
                all_fail(m, k, CAG_E_CORRUPT, place);
            cag_kvc_close(k);
            assert_int_equal(unlink(path), 0);
        }
        cag_session_free(s);
        cag_engine_free(e);
    }
    cag_model_close(m);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_of_the_head),
        cmocka_unit_test(output_matrix),
        cmocka_unit_test(last_layer),
        cmocka_unit_test(stored_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
