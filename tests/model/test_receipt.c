/*
 * test_receipt.c - what a build says a codec lost is what it lost.
 *
 * The receipt of a file that cag_build wrote is computed once more here from
 * the file alone, with other sessions, other passes and long double; and a
 * coder that is a little wrong is refused.
 */
#include "tests/lib/kvc_fixture.h"

#include "tests/lib/mtest.h"

#include <cag/ask.h>
#include <cag/build.h>

#include "engine/engine.h"
#include "engine/session.h"
#include "kernels/kernels.h"
#include "build/build_job.h"
#include "build/measure_loss.h"

#define MODEL GOLDEN "models/qwen3.F16.gguf"
enum { N_MAX = 256 };

static char *dir, *path, *text;

/* A text of n lines that are not all alike. */
static void write_text(int n)
{
    FILE *f = fopen(text, "w");

    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fprintf(f, "Item %d of %d lies in box %d, under %s.\n", i, n,
                i * 7919 % 97, i % 3 ? "the stairs" : "a red cloth");
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
    (void)state;
    dir = fix_mkdir();
    path = file_join(dir, "kb.kvc");
    text = file_join(dir, "text.md");
    return !path || !text;
}

static int tear_down(void **state)
{
    (void)state;
    fix_unlink(dir, "kb.kvc");
    fix_unlink(dir, "kb.kvc.lock");
    fix_unlink(dir, "text.md");
    assert_int_equal(rmdir(dir), 0);
    mem_free(path);
    mem_free(text);
    mem_free(dir);
    return 0;
}

static void build(const char *model, const char *codec, int chunk,
                  cag_build_report *r)
{
    cag_source_spec src = { .path = text, .title = "text.md" };
    cag_build_opts o;

    cag_build_opts_init(&o);
    o.model = model;
    o.output = path;
    o.source = &src;
    o.n_source = 1;
    o.codec = codec;
    o.max_loss = 1;
    o.force = true;
    o.now = 1764000000;
    o.engine.device = "cpu";
    o.engine.n_thread = 2;
    o.engine.pass_rows = chunk;
    OK(cag_build(&o, r, err));
}

/* ---------------------------------------------------- once more, by itself */

static long double lse(const float *x, int n)
{
    long double m = x[0], s = 0;

    for (int i = 1; i < n; i++)
        m = (long double)x[i] > m ? (long double)x[i] : m;
    for (int i = 0; i < n; i++)
        s += expl((long double)x[i] - m);
    return m + logl(s);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Logits after each of the last n ids, behind what p holds or from nothing. */
static float *last_logits(cag_engine *e, cag_prefix *p, const int32_t *ids,
                          int n_tok, int n)
{
    int n_vocab = e->model->config.n_vocab, from = p ? n_tok - n : 0;
    cag_session *s = mt_session(e, p, n_tok);
    const float *row;
    float *all;

    all = malloc((size_t)n * (size_t)n_vocab * sizeof *all);
    assert_non_null(all);
    if (from < n_tok - n)
        OK(cag_session_prefill(s, ids, n_tok - n, NULL, err));
    for (int i = 0; i < n; i++) {
        OK(cag_session_prefill(s, ids + n_tok - n + i, 1, &row, err));
        memcpy(all + (size_t)i * (size_t)n_vocab, row,
               (size_t)n_vocab * sizeof *row);
    }
    cag_session_free(s);
    return all;
}

static void near(double got, double want, double part)
{
    if (!(fabs(got - want) <= part * fabs(want)))
        fail_msg("%.9g, expected %.9g", got, want);
}

static void check_receipt(const cag_kvc *k, cag_engine *e, int n)
{
    const cag_kvc_receipt *r = cag_kvc_get_receipt(k);
    int n_vocab = e->model->config.n_vocab, same = 0, clear = 0;
    size_t n_ids;
    const int32_t *ids = cag_kvc_ids(k, &n_ids);
    static double kl[N_MAX];
    double sum = 0;
    long double nll = 0;
    cag_prefix *p = NULL;
    float *a = last_logits(e, NULL, ids, (int)n_ids, n), *b;

    OK(prefix_new_part(e, k, (int)n_ids - n, &p, err));
    b = last_logits(e, p, ids, (int)n_ids, n);
    for (int i = 0; i < n; i++) {
        const float *x = a + (size_t)i * (size_t)n_vocab;
        const float *y = b + (size_t)i * (size_t)n_vocab;
        long double za = lse(x, n_vocab), zb = lse(y, n_vocab), d = 0;
        int32_t best = mt_argmax(x, n_vocab);
        float second = -INFINITY;

        for (int v = 0; v < n_vocab; v++) {
            d += expl((long double)x[v] - za) *
                 ((long double)x[v] - za - (long double)y[v] + zb);
            if (v != best && x[v] > second)
                second = x[v];
        }
        kl[i] = (double)d;
        sum += kl[i];
        same += mt_argmax(y, n_vocab) == best;
        clear += mt_argmax(y, n_vocab) != best && x[best] - second > 0.1f;
        if (i + 1 < n) {
            int32_t id = ids[(int)n_ids - n + i + 1];

            nll += (zb - (long double)y[id]) - (za - (long double)x[id]);
        }
    }
    qsort(kl, (size_t)n, sizeof *kl, by_value);
    assert_int_equal(r->end, n_ids);
    assert_int_equal(r->begin, (int)n_ids - n);
    near((double)r->kl_mean, sum / n, 1e-5);
    near((double)r->kl_max, kl[n - 1], 1e-5);
    near((double)r->kl_p99, kl[(int)ceil(0.99 * n - 1e-9) - 1], 1e-5);
    assert_int_equal(r->n_same, same);
    assert_int_equal(r->n_clear_flip, clear);
    assert_true(fabsl((long double)r->ppl_change - expm1l(nll / (n - 1))) <
                1e-7L);
    print_message("# %zu tokens: KL mean %.3g, p99 %.3g, max %.3g, same "
                  "%d/%d, perplexity %+.3g %%\n",
                  n_ids, (double)r->kl_mean, (double)r->kl_p99,
                  (double)r->kl_max, same, n, 100 * (double)r->ppl_change);
    cag_prefix_free(p);
    free(a);
    free(b);
}

/* Of a short and a long text; the span is half of the prefix, at most 256. */
static void once_more(void **state)
{
    static const int lines[] = { 1, 4, 30 }, chunks[] = { 7, 0, 64 };
    cag_model *m = NULL;
    cag_engine *e;

    (void)state;
    OK(cag_model_open(MODEL, 0, &m, err));
    e = mt_engine(m, 1, 33, CAG_PRECISION_DEFAULT, false);
    for (int i = 0; i < 3; i++) {
        cag_build_report r;
        cag_kvc *k = NULL;
        int n;

        write_text(lines[i]);
        build(MODEL, "q8h", chunks[i], &r);
        n = r.n_tok / 2 < 256 ? (int)r.n_tok / 2 : 256;
        assert_true(i < 2 ? n < 256 : n == 256);
        assert_true(r.has_receipt && r.receipt.begin == r.n_tok - n);
        OK(cag_kvc_open(path, &k, err));
        assert_true(r.receipt.kl_mean == cag_kvc_get_receipt(k)->kl_mean);
        check_receipt(k, e, n);
        cag_kvc_close(k);
        cag_build_report_release(&r);
    }
    cag_engine_free(e);
    cag_model_close(m);
}

/* -------------------------------------------------- the values, a bad coder */

struct coder {
    const cag_session *s;
    struct kvc_shape shape;
    int wrong; /* scales of V are 3 to 6 % too large */
};

static cag_status give(void *ctx, int layer, int chunk, uint8_t *dst,
                       cag_error *err)
{
    const struct coder *c = ctx;
    cag_status st =
        session_export_chunk(c->s, &c->shape, layer, chunk, dst, err);

    for (int h = 0; !st && c->wrong && h < c->shape.n_kv_head; h++)
        for (int t = 0; t < kvc_chunk_tiles(&c->shape, chunk); t++)
            for (int i = 0; i < KVC_TILE; i++) {
                uint8_t *p =
                    dst + 2 * i + kvc_scale_off(&c->shape, chunk, 1, h, t);
                uint16_t f = rd_le16(p);

                rd_put16(p, f > 0x400 ? (uint16_t)(f + 64) : f);
            }
    return st;
}

/* The rms of stored - exact over that of exact, from a second f16 cache. */
static void check_values(const cag_kvc *k, cag_engine *e,
                         const cag_session *exact)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    struct kvc_shape f16 = { s->n_layer,    s->n_kv_head, s->d_head,
                             KVC_CLASS_F16, s->n_tok,     64 };
    cag_session *in = mt_session(e, NULL, s->n_tok);
    size_t bytes = kvc_chunk_bytes(&f16, 0);
    uint8_t *a = mem_alloc_aligned(64, bytes);
    uint8_t *b = mem_alloc_aligned(64, bytes);

    assert_true(a && b);
    OK(session_import(in, k, s->n_tok, err)); /* decoded, rounded to f16 */
    for (int l = 0; l < s->n_layer; l++)
        for (int v = 0; v < 2; v++) {
            const cag_kvc_loss *got = &cag_kvc_get_receipt(k)->loss[2 * l + v];
            double square = 0, diff = 0, max = 0;

            for (int c = 0; c < kvc_n_chunk(&f16); c++) {
                OK(session_export_chunk(exact, &f16, l, c, a, err));
                OK(session_export_chunk(in, &f16, l, c, b, err));
                for (size_t i = 0; i < bytes / 4; i++) {
                    size_t at = (size_t)v * bytes / 2 + 2 * i;
                    double x = (double)f16_to_f32(rd_le16(a + at));
                    double y = (double)f16_to_f32(rd_le16(b + at));

                    square += x * x;
                    diff += (x - y) * (x - y);
                    max = fmax(max, fabs(x));
                }
            }
            assert_true((double)got->max_abs == max);
            near((double)got->rel_rms, sqrt(diff / square), 0.01);
            assert_int_equal(got->n_overflow, 0);
        }
    mem_free(a);
    mem_free(b);
    cag_session_free(in);
}

static cag_status write_coded(struct receipt *r, const cag_session *s,
                              int wrong, cag_error *why)
{
    struct build_job *j = r->j;
    struct coder c = { s, j->shape, wrong };
    struct fix f = { .codec = "q8h", .shape = j->shape };
    struct pool *pool = NULL;
    struct kvc_desc d;
    cag_status st;

    fix_init(&f);
    d = fix_desc(&f);
    d.chunk = give;
    d.ctx = &c;
    d.receipt = measure_loss;
    d.receipt_ctx = r;
    OK(pool_new(&pool, 2, err));
    st = kvc_write(path, &d, -1, pool, why);
    pool_free(pool);
    fix_free(&f);
    return st;
}

static void a_bad_coder(void **state)
{
    enum { N = 500 };
    static int32_t ids[N];
    cag_build_opts o;
    cag_build_report report = { .fresh = false };
    struct build_job j = {
        .o = &o, .r = &report, .codec = "q8h", .lossy = true, .max_loss = 1
    };
    struct receipt r;
    cag_error why = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    cag_session *s;
    cag_engine *e;
    float good;

    (void)state;
    cag_build_opts_init(&o);
    o.output = path;
    j.model = mt_model("models/qwen3.F16.gguf");
    j.shape = (struct kvc_shape){ j.model->config.n_layer,
                                  j.model->config.n_kv_head,
                                  j.model->config.d_head,
                                  KVC_CLASS_Q8H,
                                  N,
                                  64 };
    j.exact = j.shape;
    j.exact.kv_class = KVC_CLASS_F16;
    mt_ids(ids, N, 41, mt_vocab(j.model));
    j.ids.id = ids;
    j.ids.n = N;
    e = mt_engine(j.model, 2, 64, CAG_PRECISION_DEFAULT, false);
    s = mt_session(e, NULL, N);
    OK(session_gather(s, N - SESSION_PROBE, err));
    OK(measure_loss_init(&r, &j, e, s, err));
    assert_int_equal(r.n, N / 2);
    OK(cag_session_prefill(s, ids, N - r.n, NULL, err));
    OK(session_prefill_rows(s, ids + N - r.n, r.n, r.logits, err));
    OK(session_balance(s, err));
    OK(write_coded(&r, s, 0, err));
    good = report.receipt.kl_mean;
    OK(cag_kvc_open(path, &k, err));
    check_values(k, e, s);
    cag_kvc_close(k);
    /* the limit is what was measured: the right coder passes, one whose
     * scales are a little off does not */
    j.max_loss = good;
    OK(write_coded(&r, s, 0, err));
    unlink(path);
    assert_int_equal(write_coded(&r, s, 1, &why), CAG_E_LOSS);
    assert_true(report.receipt.kl_mean > 3 * good);
    assert_non_null(strstr(why.msg, "codec q8h loses too much here"));
    assert_false(file_exists(path));
    /* logits that are none */
    r.logits[17] = NAN;
    assert_int_equal(write_coded(&r, s, 0, &why), CAG_E_UNSUPPORTED);
    assert_string_equal(why.msg, "the logits after token 250 are not finite: "
                                 "what codec q8h loses cannot be measured; use "
                                 "--codec f16z");
    assert_false(file_exists(path));
    /* a prefix of one token leaves nothing to measure */
    measure_loss_release(&r);
    j.ids.n = 1;
    assert_int_equal(measure_loss_init(&r, &j, e, s, &why), CAG_E_UNSUPPORTED);
    measure_loss_release(&r);
    cag_session_free(s);
    cag_engine_free(e);
    cag_model_close(j.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_more),
        cmocka_unit_test(a_bad_coder),
    };

    return cmocka_run_group_tests_name("receipt", tests, set_up, tear_down);
}
