/*
 * test_weights.c - names to roles; a tensor that is missing, left over or of
 * another shape is named.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights.h"
#include "tests/lib/gguf_make.h"
#include "util/mem.h"

/* A file, and what was read of it. */
struct loaded {
    struct gm m;
    struct gguf *g;
    struct model_config c;
    struct model_weights w;
    struct arena a;
};

static void start(struct loaded *l, const char *arch, const char *skip)
{
    memset(l, 0, sizeof *l);
    gm_model(&l->m, arch, skip);
}

static cag_status load(struct loaded *l, cag_error *err)
{
    cag_status st;

    gm_finish(&l->m);
    st = gguf_parse(l->m.file.data, l->m.file.size, "t.gguf", &l->g, err);
    if (!st)
        st = config_from_gguf(l->g, &l->c, err);
    if (!st)
        st = weights_from_gguf(l->g, &l->c, &l->a, &l->w, err);
    return st;
}

static void release(struct loaded *l)
{
    gguf_close(l->g);
    arena_release(&l->a);
    gm_free(&l->m);
}

/* Consumes l. */
static void refused(struct loaded *l, cag_status want, const char *msg)
{
    cag_error err = CAG_ERROR_INIT;
    cag_status st = load(l, &err);

    if (st != want || !strstr(err.msg, msg))
        print_message("%s: %s (wanted %s)\n", cag_status_name(st), err.msg,
                      msg);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.msg, msg));
    assert_null(l->w.layer);
    release(l);
}

/* Row r of the mathematics, as struct kmat says where it is stored. */
static float first_of_row(const struct kmat *w, int r)
{
    int d = 2 * w->perm_half, j = d ? r % d : 0;
    uint32_t bits;
    float f;

    if (d)
        r += j % w->perm_half * 2 + j / w->perm_half - j;
    bits = rd_le32(w->data + (size_t)r * w->row_bytes);
    memcpy(&f, &bits, 4);
    return f;
}

static void reads_gguf(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct loaded l;
    const struct model_layer *y;

    (void)state;
    start(&l, "llama", NULL);
    assert_int_equal(load(&l, &err), CAG_OK);
    assert_int_equal(l.w.embed.n_out, 8);
    assert_int_equal(l.w.embed.d_in, 32);
    assert_int_equal(l.w.embed.row_bytes, 128);
    assert_ptr_not_equal(l.w.head.data, l.w.embed.data);
    y = &l.w.layer[0];
    assert_int_equal(y->mat[WQ].perm_half, 8);
    assert_int_equal(y->mat[WK].perm_half, 8);
    assert_int_equal(y->mat[WK].n_out, 16);
    assert_int_equal(y->mat[WV].perm_half, 0);
    assert_int_equal(y->mat[W_DOWN].d_in, 64);
    /* Wq, Wo [32, 32], Wk, Wv [16, 32], gate, up, down [64, 32], in f32 */
    assert_int_equal(weights_bytes(&l.w, 0, 1),
                     4 * 32 * (32 + 32 + 16 + 16 + 3 * 64));
    assert_int_equal(weights_bytes(&l.w, 1, 1), 0);
    assert_null(y->bq);
    assert_null(y->q_norm);
    assert_true(y->attn_norm[3] == 3.0f / 16);
    /* stored row 1 holds channel 8: rows are pairs */
    assert_true(first_of_row(&y->mat[WQ], 8) == 32.0f / 16);
    assert_true(first_of_row(&y->mat[WQ], 1) == 64.0f / 16);
    assert_true(first_of_row(&y->mat[WQ], 16) == 16 * 32.0f / 16);
    assert_true(first_of_row(&y->mat[WV], 1) == 32.0f / 16);
    release(&l);
}

/* A head that is not there is the embedding (B74). */
static void ties_the_head(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct loaded l;

    (void)state;
    start(&l, "llama", "output.weight");
    assert_int_equal(load(&l, &err), CAG_OK);
    assert_true(l.c.tied);
    assert_ptr_equal(l.w.head.data, l.w.embed.data);
    assert_int_equal(l.w.head.n_out, 8);
    release(&l);
}

/* qwen2 has biases and no permutation; llama's biases are put in order. */
static void reads_biases(void **state)
{
    static const char *const archs[] = { "qwen2", "llama" };
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        cag_error err = CAG_ERROR_INIT;
        struct loaded l;
        const struct model_layer *y;

        start(&l, archs[i], NULL);
        gm_tensor(&l.m, "blk.0.attn_q.bias", GGUF_F32, 32, 0);
        gm_tensor(&l.m, "blk.0.attn_k.bias", GGUF_F32, 16, 0);
        gm_tensor(&l.m, "blk.0.attn_v.bias", GGUF_F32, 16, 0);
        assert_int_equal(load(&l, &err), CAG_OK);
        y = &l.w.layer[0];
        assert_int_equal(y->mat[WQ].perm_half, i ? 8 : 0);
        assert_true(y->bq[1] == (i ? 2.0f : 1.0f) / 16);
        assert_true(y->bq[8] == (i ? 1.0f : 8.0f) / 16);
        assert_true(y->bq[17] == (i ? 18.0f : 17.0f) / 16);
        assert_true(y->bv[1] == 1.0f / 16);
        assert_null(y->bo);
        release(&l);
    }
}

/* Every tensor of the model missing in turn. */
static void names_the_missing(void **state)
{
    static const struct {
        const char *arch, *skip, *missing;
    } cases[] = {
        { "llama", "output_norm.weight", NULL },
        { "llama", "blk.0.attn_norm.weight", NULL },
        { "llama", "blk.0.ffn_norm.weight", NULL },
        { "llama", "blk.0.attn_q.weight", NULL },
        { "llama", "blk.0.attn_k.weight", NULL },
        { "llama", "blk.0.attn_v.weight", NULL },
        { "llama", "blk.0.attn_output.weight", NULL },
        { "llama", "blk.0.ffn_gate.weight", NULL },
        { "llama", "blk.0.ffn_up.weight", NULL },
        { "llama", "blk.0.ffn_down.weight", NULL },
        { "qwen2", NULL, "blk.0.attn_q.bias" },
        { "qwen3", NULL, "blk.0.attn_q_norm.weight" },
    };
    char msg[96];
    struct loaded l;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(&l, cases[i].arch, cases[i].skip);
        snprintf(msg, sizeof msg, "tensor %s is missing",
                 cases[i].skip ? cases[i].skip : cases[i].missing);
        refused(&l, CAG_E_FORMAT, msg);
    }
}

/* B81: a tensor that is left over is an error that names it. */
static void names_the_unused(void **state)
{
    static const char *const names[] = {
        "blk.1.attn_q.weight", "blk.0.attn_q_norm.weight",
        "blk.0.ffn_gate.bias", "blk.0.attn_rot_embd",
        "mtp.weight",
    };
    char msg[96];
    struct loaded l;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        start(&l, "llama", NULL);
        gm_tensor(&l.m, names[i], GGUF_F32, 16, 0);
        snprintf(msg, sizeof msg, "tensor %s has no place", names[i]);
        refused(&l, CAG_E_UNSUPPORTED, msg);
    }
}

static void names_the_shape(void **state)
{
    static const struct {
        const char *name;
        int type;
        uint64_t d0, d1;
        cag_status want;
        const char *msg;
    } cases[] = {
        { "blk.0.attn_k.weight", GGUF_F32, 32, 32, CAG_E_FORMAT,
          "attn_k.weight has the shape [32, 32], expected [16, 32]" },
        { "blk.0.ffn_down.weight", GGUF_F32, 32, 64, CAG_E_FORMAT,
          "[64, 32], expected [32, 64]" },
        { "blk.0.attn_norm.weight", GGUF_F32, 31, 0, CAG_E_FORMAT,
          "[31], expected [32]" },
        { "blk.0.attn_norm.weight", GGUF_Q8_0, 32, 0, CAG_E_UNSUPPORTED,
          "attn_norm.weight has type Q8_0" },
        { "output.weight", GGUF_F32, 32, 7, CAG_E_FORMAT,
          "output.weight has the shape [7, 32]" },
    };
    struct loaded l;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(&l, "llama", cases[i].name);
        gm_tensor(&l.m, cases[i].name, cases[i].type, cases[i].d0, cases[i].d1);
        refused(&l, cases[i].want, cases[i].msg);
    }
}

/* ----------------------------------------------------------- safetensors */

/* A Hugging Face model of no layers' worth: only the ends, one layer less. */
static cag_status load_ends(const char *tensors, size_t n_data, bool tied,
                            struct model_weights *w, struct arena *a,
                            struct st **s, struct buf *b, cag_error *err)
{
    struct model_config c = { .family = family_of_type("llama"),
                              .n_layer = 0,
                              .n_head = 1,
                              .n_kv_head = 1,
                              .d_head = 8,
                              .d_model = 8,
                              .d_ff = 8,
                              .n_vocab = 2,
                              .tied = tied };
    uint8_t len[8];
    cag_status st;
    size_t i;

    rd_put64(len, strlen(tensors));
    buf_add(b, len, 8);
    buf_str(b, tensors);
    for (i = 0; i < n_data; i++)
        buf_char(b, (char)i);
    st = st_parse(b->data, b->size, "m.safetensors", s, err);
    return st ? st : weights_from_st(*s, &c, a, w, err);
}

#define NORM                                                  \
    "\"model.norm.weight\":{\"dtype\":\"F16\",\"shape\":[8]," \
    "\"data_offsets\":[0,16]}"
#define EMBED                                            \
    "\"model.embed_tokens.weight\":{\"dtype\":\"BF16\"," \
    "\"shape\":[2,8],\"data_offsets\":[16,48]}"
#define HEAD                                                  \
    "\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[2,8]," \
    "\"data_offsets\":[48,80]}"
/* the same in the place of the embedding; an embedding in that of the norm */
#define HEAD_2ND                                              \
    "\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[2,8]," \
    "\"data_offsets\":[16,48]}"
#define EMBED_1ST                                        \
    "\"model.embed_tokens.weight\":{\"dtype\":\"BF16\"," \
    "\"shape\":[2,8],\"data_offsets\":[0,32]}"
#define INV                                                        \
    "\"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":" \
    "\"F32\",\"shape\":[4],\"data_offsets\":[80,96]}"

static void ties_like_transformers(void **state)
{
    static const struct {
        const char *tensors;
        size_t n_data;
        bool tied;
        const char *msg;
        int head, embed; /* offset of the first byte's value */
    } cases[] = {
        { "{" NORM "," EMBED "," HEAD "}", 80, false, NULL, 48, 16 },
        { "{" NORM "," EMBED "," HEAD "}", 80, true, NULL, 48, 16 },
        { "{" NORM "," EMBED "}", 48, true, NULL, 16, 16 },
        { "{" NORM "," HEAD_2ND "}", 48, true, NULL, 16, 16 },
        { "{" NORM "," EMBED "," HEAD "," INV "}", 96, false, NULL, 48, 16 },
        { "{" NORM "," EMBED "}", 48, false,
          "lm_head.weight is missing, and tie_word_embeddings", 0, 0 },
        { "{" NORM "," HEAD_2ND "}", 48, false,
          "model.embed_tokens.weight is missing", 0, 0 },
        { "{" NORM "}", 16, true, "model.embed_tokens.weight is missing", 0,
          0 },
        { "{" EMBED_1ST "}", 32, true, "model.norm.weight is missing", 0, 0 },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        cag_error err = CAG_ERROR_INIT;
        struct model_weights w = { 0 };
        struct arena a = { 0 };
        struct buf b = BUF_INIT;
        struct st *s = NULL;
        cag_status st = load_ends(cases[i].tensors, cases[i].n_data,
                                  cases[i].tied, &w, &a, &s, &b, &err);

        if (cases[i].msg) {
            assert_int_equal(st, CAG_E_FORMAT);
            assert_non_null(strstr(err.msg, cases[i].msg));
        } else {
            if (st)
                print_message("%s\n", err.msg);
            assert_int_equal(st, CAG_OK);
            assert_int_equal(w.head.data[0], cases[i].head);
            assert_int_equal(w.embed.data[0], cases[i].embed);
            assert_int_equal(w.head.perm_half, 0);
            /* f16 subnormals, then a normal number */
            assert_true(w.out_norm[0] == 0x0100 * 0x1p-24f);
            assert_true(w.out_norm[1] == 0x0302 * 0x1p-24f);
            assert_true(w.out_norm[2] == 0x0504 * 0x1p-24f);
        }
        st_close(s);
        arena_release(&a);
        buf_free(&b);
    }
}

static void survives_oom(void **state)
{
    struct loaded l;
    cag_error err = CAG_ERROR_INIT;
    int64_t n, live;
    cag_status st = CAG_E_NOMEM;

    (void)state;
    start(&l, "llama", NULL);
    gm_finish(&l.m);
    live = mem_live();
    for (n = 1; st; n++) {
        memset(&l.w, 0, sizeof l.w);
        assert_int_equal(
            gguf_parse(l.m.file.data, l.m.file.size, "t", &l.g, &err), CAG_OK);
        assert_int_equal(config_from_gguf(l.g, &l.c, &err), CAG_OK);
        mem_fault(n, false);
        st = weights_from_gguf(l.g, &l.c, &l.a, &l.w, &err);
        mem_fault(0, false);
        if (st)
            assert_int_equal(st, CAG_E_NOMEM);
        gguf_close(l.g);
        arena_release(&l.a);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n > 2);
    gm_free(&l.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_gguf),
        cmocka_unit_test(ties_the_head),
        cmocka_unit_test(reads_biases),
        cmocka_unit_test(names_the_missing),
        cmocka_unit_test(names_the_unused),
        cmocka_unit_test(names_the_shape),
        cmocka_unit_test(ties_like_transformers),
        cmocka_unit_test(survives_oom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
