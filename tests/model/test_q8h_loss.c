/*
 * test_q8h_loss.c - how close codec q8h comes to the exact cache.
 *
 * The divergence of what a model says behind a cache, for the codec and for
 * what it is better than (part of the table of the spike), also where keys
 * have channels far larger than the rest; and rows of codes made exact again.
 */
#include "tests/lib/kvc_fixture.h"
#include "tests/lib/mtest.h"

#include <math.h>

#include "engine/cpu/q8h_build.h"
#include "kernels/kernels.h"
#include "model/model.h"

/* ----------------------------------------------- what q8h is compared with */

/* What is done to a row of K or V on its way into a cache of class f16. */
enum lossy { EXACT, ROWS, ROTATED };

/* int8 with one scale a row, with or without a rotation, and back */
static void spoil(float *x, int d, enum lossy lossy)
{
    int8_t code[512];
    uint16_t scale;
    float top = 0;

    if (lossy == ROTATED) {
        assert_true(kernels_scalar.q8h_encode(code, &scale, x, NULL, d));
        kernels_scalar.q8h_decode(x, code, scale, NULL, d);
        return;
    }
    for (int c = 0; c < d; c++)
        top = fmaxf(top, fabsf(x[c]));
    top = f16_to_f32(f32_to_f16_up(top / 127));
    for (int c = 0; c < d && top > 0; c++)
        x[c] = rintf(x[c] / top) * top;
}

static size_t place(int v, int d, int t, int c)
{
    int w = d - c / 32 * 32 < 32 ? d % 32 : 32;

    return v ? (size_t)(c / 32 * 64 * 32 + t * w + c % 32)
             : (size_t)((t / 16 * d + c) * 16 + t % 16);
}

static void spoil_tile(uint8_t *tile, int v, int d, enum lossy lossy)
{
    for (int t = 0; t < KV_TILE; t++) {
        float x[512];

        for (int c = 0; c < d; c++)
            x[c] = f16_to_f32(rd_le16(tile + 2 * place(v, d, t, c)));
        spoil(x, d, lossy);
        for (int c = 0; c < d; c++)
            rd_put16(tile + 2 * place(v, d, t, c), f32_to_f16(x[c]));
    }
}

static void spoil_chunk(const struct kvc_shape *shape, int layer, int chunk,
                        uint8_t *dst, const void *ctx)
{
    const enum lossy *lossy = ctx;

    (void)layer;
    for (int v = 0; v < 2; v++)
        for (int h = 0; h < shape->n_kv_head; h++)
            for (int t = 0; t < kvc_chunk_tiles(shape, chunk); t++)
                spoil_tile(dst + kvc_tile_off(shape, chunk, v, h, t), v,
                           shape->d_head, *lossy);
}

/* --------------------------------------------------------------- the loss */

struct loss {
    double mean, max; /* divergence, nats */
    int top, n;       /* positions with the same first choice */
};

static double divergence(const float *a, const float *b, int n)
{
    double top[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 }, kl = 0;

    for (int v = 0; v < n; v++) {
        top[0] = fmax(top[0], (double)a[v]);
        top[1] = fmax(top[1], (double)b[v]);
    }
    for (int v = 0; v < n; v++) {
        sum[0] += exp((double)a[v] - top[0]);
        sum[1] += exp((double)b[v] - top[1]);
    }
    for (int v = 0; v < n; v++) {
        double p = (double)a[v] - top[0] - log(sum[0]);

        kl += exp(p) * (p - ((double)b[v] - top[1] - log(sum[1])));
    }
    return kl;
}

/* Logits of n ids behind a cache against rows [n, n_vocab). */
static struct loss loss_of(cag_engine *e, const cag_kvc *k, const int32_t *ids,
                           int n, const float *rows, int n_vocab)
{
    struct loss l = { 0, 0, 0, n };
    float *got = malloc((size_t)n * (size_t)n_vocab * sizeof *got);
    cag_prefix *p = NULL;
    cag_session *s;

    assert_non_null(got);
    OK(cag_prefix_new(e, k, &p, err));
    s = mt_session(e, p, (int)cag_kvc_get_info(k)->n_tok + n);
    OK(session_prefill_rows(s, ids, n, got, err));
    for (int i = 0; i < n; i++) {
        const float *a = rows + (size_t)i * (size_t)n_vocab;
        const float *b = got + (size_t)i * (size_t)n_vocab;
        double kl = divergence(a, b, n_vocab);

        l.mean += kl / n;
        l.max = fmax(l.max, kl);
        l.top += mt_argmax(a, n_vocab) == mt_argmax(b, n_vocab);
    }
    cag_session_free(s);
    cag_prefix_free(p);
    free(got);
    return l;
}

/* The table of the spike: f16, int8 rows, the same turned, and q8h, by the
 * divergence of n ids behind a prefix from exact f32 K and V. */
static void table(const cag_model *m, const int32_t *ids, int n_prefix, int n,
                  struct loss out[4])
{
    static const struct {
        const char *codec, *name;
        enum lossy lossy;
    } kinds[4] = { { "f16", "f16", EXACT },
                   { "f16", "int8 rows", ROWS },
                   { "f16", "int8 rows + H", ROTATED },
                   { "q8h", "q8h", EXACT } };
    int n_vocab = mt_vocab(m);
    float *rows = malloc((size_t)n * (size_t)n_vocab * sizeof *rows);
    cag_engine *e32 = mt_engine(m, 2, 0, CAG_PRECISION_DEFAULT, true);
    cag_engine *e = mt_engine(m, 2, 0, CAG_PRECISION_DEFAULT, false);
    cag_session *s = mt_session(e32, NULL, n_prefix + n);
    char *path = fix_place();

    assert_non_null(rows);
    OK(cag_session_prefill(s, ids, n_prefix, NULL, err));
    OK(session_prefill_rows(s, ids + n_prefix, n, rows, err));
    cag_session_free(s);
    s = mt_balanced(e, ids, n_prefix, 0);
    for (int i = 0; i < 4; i++) {
        cag_kvc *k =
            mt_cache_changed(s, m, n_prefix, kinds[i].codec, 0,
                             kinds[i].lossy == EXACT ? NULL : spoil_chunk,
                             &kinds[i].lossy, path);

        out[i] = loss_of(e, k, ids + n_prefix, n, rows, n_vocab);
        print_message("# %-14s %6.0f bytes/token, KL mean %.2g, max %.2g, "
                      "same first choice %d/%d\n",
                      kinds[i].name,
                      (double)cag_kvc_get_info(k)->kv_stored_bytes / n_prefix /
                          (kinds[i].lossy == EXACT ? 1 : 2),
                      out[i].mean, out[i].max, out[i].top, n);
        cag_kvc_close(k);
    }
    fix_displace(path);
    free(rows);
    cag_session_free(s);
    cag_engine_free(e);
    cag_engine_free(e32);
}

/* Rows r of a matrix times f, where it is pair 3 or 7 of a head. */
static void scale_pairs(struct kmat *w, int d_head, float f)
{
    size_t n = (size_t)w->n_out * w->row_bytes;
    struct kmat old = *w;
    uint8_t *copy = malloc(n);

    assert_non_null(copy);
    assert_int_equal(w->type, KT_F32);
    memcpy(copy, w->data, n);
    for (int r = 0; r < w->n_out; r++) {
        int pair = r % d_head % (d_head / 2);
        uint8_t *row = copy + (kmat_row(&old, r) - w->data);

        if (pair != 3 && pair != 7)
            continue;
        for (int i = 0; i < w->d_in; i++) {
            float x;

            memcpy(&x, row + 4 * i, 4);
            x *= f;
            memcpy(row + 4 * i, &x, 4);
        }
    }
    w->data = copy;
}

/* The outlier proxy: two rotary pairs of K times 48, of q by 48.  The
 * function is the same, so the loss must be; without balance it is not. */
static void outliers(void **state)
{
    enum { N = 600, PROBE = 100 };
    cag_model *m = mt_model("models/llama.F32.gguf");
    static int32_t ids[N + PROBE];
    struct loss plain[4], far[4];
    int d = cag_model_get_info(m)->d_head;

    (void)state;
    mt_ids(ids, N + PROBE, 26, mt_vocab(m));
    table(m, ids, N, PROBE, plain);
    for (int l = 0; l < cag_model_get_info(m)->n_layer; l++) {
        scale_pairs(&m->weights.layer[l].mat[WK], d, 48.0f);
        scale_pairs(&m->weights.layer[l].mat[WQ], d, 1 / 48.0f);
    }
    table(m, ids, N, PROBE, far);
    for (int l = 0; l < cag_model_get_info(m)->n_layer; l++) {
        free((void *)(uintptr_t)m->weights.layer[l].mat[WK].data);
        free((void *)(uintptr_t)m->weights.layer[l].mat[WQ].data);
    }
    assert_true(far[3].mean < 1.2 * plain[3].mean);
    assert_true(far[2].mean > 5 * far[3].mean);
    assert_true(far[1].mean > 5 * far[3].mean);
    cag_model_close(m);
}

/* Part of the table of the spike, on real text and weights; skipped where
 * `make model` has not run. */
static void demo(void **state)
{
    enum { N = 700, PROBE = 96, MAX = 5000 };
    const char *path = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    static char text[20000];
    cag_ids ids = CAG_IDS_INIT;
    struct loss l[4];
    cag_model *m = NULL;
    FILE *f;

    (void)state;
    if (getenv("CAG_DEMO_MODEL"))
        path = getenv("CAG_DEMO_MODEL");
    if (access(path, R_OK) != 0)
        skip();
    OK(cag_model_open(path, 0, &m, err));
    f = fopen("examples/docs/time.md", "r");
    assert_non_null(f);
    cag_text piece = { text, fread(text, 1, MAX, f), 0 };
    fclose(f);
    OK(cag_encode(cag_model_get_tokenizer(m), &piece, 1, 0, &ids, err));
    assert_true(ids.n >= N + PROBE);
    table(m, ids.id, N, PROBE, l);
    assert_true(l[0].mean < 1e-6 && l[0].top == PROBE);
    assert_true(l[3].mean < 1e-4 && l[3].top >= PROBE - 3);
    assert_true(l[3].mean < l[2].mean && l[2].mean < l[1].mean);
    cag_ids_free(&ids);
    cag_model_close(m);
}

/* ------------------------------------------------------------- in f16 again */

/* Rows imported into an exact session mean what the mapped codes mean. */
static void imported(void **state)
{
    static const int cut[] = { 1, 64, 100, 300 };
    enum { N = 300, PROBE = 20 };
    cag_model *m = mt_model("models/qwen3-tied.F32.gguf");
    cag_engine *e = mt_engine(m, 2, 0, CAG_PRECISION_DEFAULT, false);
    int n_vocab = mt_vocab(m);
    float *a = malloc(PROBE * (size_t)n_vocab * sizeof *a);
    float *b = malloc(PROBE * (size_t)n_vocab * sizeof *b);
    static int32_t ids[N + PROBE];
    char *path = fix_place();
    cag_session *s;
    cag_kvc *k;

    (void)state;
    assert_true(a && b);
    mt_ids(ids, N + PROBE, 27, n_vocab);
    s = mt_balanced(e, ids, N, 0);
    k = mt_cache(s, m, N, "q8h", 64, path);
    cag_session_free(s);
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        cag_prefix *p = NULL;
        cag_error why = CAG_ERROR_INIT;
        struct kvc_shape shape = *kvc_get_shape(k);
        uint8_t *dst = mem_alloc_aligned(64, kvc_chunk_bytes(&shape, 0));

        s = mt_session(e, NULL, N + PROBE);
        OK(session_import(s, k, cut[i], err));
        OK(session_prefill_rows(s, ids + cut[i], PROBE, a, err));
        cag_session_free(s);
        OK(prefix_new_part(e, k, cut[i], &p, err));
        s = mt_session(e, p, N + PROBE);
        OK(session_prefill_rows(s, ids + cut[i], PROBE, b, err));
        assert_int_equal(session_export_chunk(s, &shape, 0, 0, dst, &why),
                         CAG_E_USAGE);
        cag_session_free(s);
        cag_prefix_free(p);
        mem_free(dst);
        for (int r = 0; r < PROBE; r++)
            assert_true(divergence(a + r * n_vocab, b + r * n_vocab, n_vocab) <
                        1e-4);
    }
    cag_kvc_close(k);
    fix_displace(path);
    free(a);
    free(b);
    cag_engine_free(e);
    cag_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imported),
        cmocka_unit_test(outliers),
        cmocka_unit_test(demo),
    };

    return cmocka_run_group_tests_name("q8h_loss", tests, NULL, NULL);
}
