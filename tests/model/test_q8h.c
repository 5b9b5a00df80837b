/*
 * test_q8h.c - answers from codec q8h: not those of the exact cache, but the
 * same every time, and close.
 *
 * The same: the chunks of a build and the logits of a question have the same
 * bits for any threads, passes, neighbours, guesses and sets of kernels, at
 * every kind of prefix length.  Close: the divergence from the exact cache,
 * for the codec and for what it is better than (part of the table of the
 * spike), also where keys have channels far larger than the rest.
 */
#include "../unit/kvc_fixture.h"
#include "mtest.h"

#include <math.h>

#include "engine/kv_q8h.h"
#include "kernels/kernels.h"
#include "model/model.h"

enum { N_QUESTION = 14, N_STEP = 4, N_OUT = N_STEP + 1, MORE = 64 };

/* -------------------------------------------------------------- the caches */

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

static void spoil_chunk(const struct kvc_shape *shape, int chunk, uint8_t *dst,
                        const void *ctx)
{
    const enum lossy *lossy = ctx;

    for (int v = 0; v < 2; v++)
        for (int h = 0; h < shape->n_kv_head; h++)
            for (int t = 0; t < kvc_chunk_tiles(shape, chunk); t++)
                spoil_tile(dst + kvc_tile_off(shape, chunk, v, h, t), v,
                           shape->d_head, *lossy);
}

/* All tokens of s as a cache on disk. */
static cag_kvc *write_cache(const cag_session *s, const cag_model *m,
                            const char *codec, int chunk_tok,
                            enum lossy lossy, const char *path)
{
    return mt_cache_changed(s, m, cag_session_n_tok(s), codec, chunk_tok,
                            lossy == EXACT ? NULL : spoil_chunk, &lossy,
                            path);
}

static int watched_from(int n)
{
    return n > SESSION_PROBE ? n - SESSION_PROBE : 0;
}

/* A session that read n ids, balanced. */
static cag_session *read_all(cag_engine *e, const int32_t *ids, int n)
{
    cag_session *s = mt_session(e, NULL, n + MORE);

    OK(session_gather(s, watched_from(n), err));
    OK(cag_session_prefill(s, ids, n, NULL, err));
    OK(session_balance(s, err));
    return s;
}

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
        e[j] = mt_engine(m, threads[j], chunks[j], CAG_PRECISION_DEFAULT,
                         false);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        int from = watched_from(lengths[n]);
        struct kvc_shape shape = { i->n_layer, i->n_kv_head, i->d_head, 1,
                                   lengths[n], 128 };
        cag_session *first = read_all(e[0], ids, lengths[n]), *s;

        for (int j = 1; j < 3; j++) {
            s = read_all(e[j], ids, lengths[n]);
            mt_same_chunks(first, s, &shape);
            cag_session_free(s);
        }
        for (int keep = from; keep > 0; keep /= 2) {
            cag_kvc *old = write_cache(first, m, "f16", 64, EXACT, path);

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
    struct kvc_shape shape = { 2, 2, 80, 1, 20, 64 };
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
    int    n_vocab;
    float *logits;        /* [N_OUT, n_vocab] */
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
            all[j] = j == mine
                ? (cag_step){ .session = s, .ids = id, .n_ids = 1 + extra }
                : (cag_step){ .session = other[j < mine ? j : j - 1],
                              .ids = &one, .n_ids = 1 };
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
    const char   *model;
    cag_precision precision;
    const int    *length;
    int           n_length;
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
        cag_session *s = read_all(e, ids, u->length[i]);
        cag_kvc *k = write_cache(s, m, "q8h", i % 3 ? 64 << i % 3 : 0, EXACT,
                                 path);
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
        s = read_all(e, ids, N);
        cag_kvc *k = write_cache(s, m, "q8h", 128, EXACT, path);
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
                                   info->d_head, 1, 300, 128 };
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

/* --------------------------------------------------------------- the loss */

struct loss {
    double mean, max;     /* divergence, nats */
    int    top, n;        /* positions with the same first choice */
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
static struct loss loss_of(cag_engine *e, const cag_kvc *k,
                           const int32_t *ids, int n, const float *rows,
                           int n_vocab)
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
    static const struct { const char *codec, *name; enum lossy lossy; }
        kinds[4] = { { "f16", "f16", EXACT }, { "f16", "int8 rows", ROWS },
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
    s = read_all(e, ids, n_prefix);
    for (int i = 0; i < 4; i++) {
        cag_kvc *k = write_cache(s, m, kinds[i].codec, 0, kinds[i].lossy,
                                 path);

        out[i] = loss_of(e, k, ids + n_prefix, n, rows, n_vocab);
        print_message("# %-14s %6.0f bytes/token, KL mean %.2g, max %.2g, "
                      "same first choice %d/%d\n", kinds[i].name,
                      (double)cag_kvc_get_info(k)->kv_stored_bytes /
                          n_prefix / (kinds[i].lossy == EXACT ? 1 : 2),
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
static void scale_pairs(struct wmat *w, int d_head, float f)
{
    size_t n = (size_t)w->n_out * w->row_bytes;
    struct kmat old = { w->type, w->n_out, w->d_in, w->row_bytes, w->data,
                        w->perm_half };
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
        scale_pairs(&m->weights.layer[l].wk, d, 48.0f);
        scale_pairs(&m->weights.layer[l].wq, d, 1 / 48.0f);
    }
    table(m, ids, N, PROBE, far);
    for (int l = 0; l < cag_model_get_info(m)->n_layer; l++) {
        free((void *)(uintptr_t)m->weights.layer[l].wk.data);
        free((void *)(uintptr_t)m->weights.layer[l].wq.data);
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
    s = read_all(e, ids, N);
    k = write_cache(s, m, "q8h", 64, EXACT, path);
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
            assert_true(divergence(a + r * n_vocab, b + r * n_vocab,
                                   n_vocab) < 1e-4);
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
        cmocka_unit_test(imported),
        cmocka_unit_test(outliers),
        cmocka_unit_test(demo),
    };

    return cmocka_run_group_tests_name("q8h", tests, NULL, NULL);
}
