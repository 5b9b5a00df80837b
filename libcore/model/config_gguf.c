/*
 * config_gguf.c - hyper-parameters from GGUF keys.
 *
 * Keys below "<arch>." describe the computation, so each of them must be one
 * this file knows: either used, or listed with the one value that makes it
 * harmless.  The vocabulary's size is the embedding's, because the
 * vocab_size key is optional and has been wrong.
 *
 * Two things live in tensors: a missing output.weight means a tied head, and
 * rope_freqs.weight holds the divisors of llama3 scaling.
 */
#include <stdio.h>
#include <string.h>

#include "util/sniff.h"
#include "model/config_check.h"
#include "model/rope_scale.h"

struct reader {
    const struct gguf *g;
    const char *arch;
    char key[96];
    cag_error *err;
};

static const char *key(struct reader *r, const char *tail)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, tail);
    return r->key;
}

static cag_status get_int(struct reader *r, const char *tail, bool required,
                          int64_t max, int *out)
{
    int64_t v = *out;
    cag_status st =
        gguf_get_int(r->g, key(r, tail), required, 1, max, &v, r->err);

    *out = (int)v;
    return st;
}

static cag_status get_float(struct reader *r, const char *tail, bool required,
                            double *out)
{
    float v = (float)*out;
    cag_status st = gguf_get_float(r->g, key(r, tail), required, &v, r->err);

    if (!st && gguf_find(r->g, r->key))
        *out = (double)v;
    return st;
}

static bool str_is(struct gguf_str s, const char *want)
{
    return s.n == strlen(want) && memcmp(s.s, want, s.n) == 0;
}

/* ---------------------------------------------------------- known keys */

static const char *const used_keys[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    /* say nothing about the computation */
    "rope.scaling.finetuned",
    "tensor_data_layout",
    "attention.layer_norm_epsilon",
    "embedding_length_out",
};

/* Known, and harmless with this value only. */
static const struct {
    const char *key;
    double value;
} neutral_keys[] = {
    { "expert_count", 0 },
    { "expert_used_count", 0 },
    { "use_parallel_residual", 0 },
    { "attention.causal", 1 },
    { "attention.max_alibi_bias", 0 },
    { "attn_logit_softcapping", 0 },
    { "final_logit_softcapping", 0 },
    { "logit_scale", 1 },
    { "attention.scale", 0 },
    { "leading_dense_block_count", 0 },
};

static bool is_neutral(const struct gguf *g, const struct gguf_kv *kv,
                       double want)
{
    char name[128];
    int64_t i;
    float f;
    bool b;

    if (kv->key.n >= sizeof name)
        return false;
    memcpy(name, kv->key.s, kv->key.n);
    name[kv->key.n] = '\0';
    if (kv->type == GGUF_V_BOOL)
        return !gguf_get_bool(g, name, true, &b, NULL) && (double)b == want;
    if (kv->type == GGUF_V_F32 || kv->type == GGUF_V_F64)
        return !gguf_get_float(g, name, true, &f, NULL) && (double)f == want;
    return !gguf_get_int(g, name, true, INT64_MIN, INT64_MAX, &i, NULL) &&
           (double)i == want;
}

static bool key_known(const struct gguf *g, const struct gguf_kv *kv,
                      size_t prefix)
{
    struct gguf_str tail = { kv->key.s + prefix, kv->key.n - prefix };
    size_t i;

    for (i = 0; i < sizeof used_keys / sizeof *used_keys; i++)
        if (str_is(tail, used_keys[i]))
            return true;
    for (i = 0; i < sizeof neutral_keys / sizeof *neutral_keys; i++)
        if (str_is(tail, neutral_keys[i].key))
            return is_neutral(g, kv, neutral_keys[i].value);
    return false;
}

static cag_status refuse_unknown(struct reader *r)
{
    size_t i, n = gguf_n_kv(r->g), prefix = strlen(r->arch) + 1;

    for (i = 0; i < n; i++) {
        const struct gguf_kv *kv = gguf_kv_at(r->g, i);
        char shown[96];

        if (kv->key.n < prefix || memcmp(kv->key.s, key(r, ""), prefix) != 0 ||
            key_known(r->g, kv, prefix))
            continue;
        sniff_printable(shown, sizeof shown, kv->key.s, kv->key.n);
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "key %s: not known to cag, or with a value cag does "
                        "not compute",
                        shown);
    }
    return CAG_OK;
}

/* ------------------------------------------------------------------ rope */

static cag_status rope_divisors(struct reader *r, const struct model_config *c,
                                struct rope_spec *s)
{
    const struct gguf_tensor *t = gguf_find_tensor(r->g, "rope_freqs.weight");

    if (!t)
        return CAG_OK;
    if (t->type != GGUF_F32 || t->n_dims != 1 ||
        t->dims[0] != (uint64_t)c->d_head / 2)
        return cag_fail(r->err, CAG_E_FORMAT, gguf_path(r->g), -1,
                        "tensor rope_freqs.weight: %llu elements of type %s, "
                        "expected %d of F32",
                        (unsigned long long)t->dims[0], gguf_type_name(t->type),
                        c->d_head / 2);
    if (s->kind != ROPE_DEFAULT)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "both rope_freqs.weight and a rope scaling type");
    s->divisor = t->data;
    return CAG_OK;
}

static cag_status yarn_keys(struct reader *r, struct model_config *c,
                            struct rope_spec *s)
{
    double ext = 1.0, attn = 1.0, log_mul = 0.0;
    cag_status st;

    s->kind = ROPE_YARN;
    s->orig_ctx = c->n_ctx;
    if ((st = get_float(r, "rope.scaling.factor", true, &s->factor)) ||
        (st = get_float(r, "rope.scaling.yarn_beta_fast", false,
                        &s->beta_fast)) ||
        (st = get_float(r, "rope.scaling.yarn_beta_slow", false,
                        &s->beta_slow)) ||
        (st = get_float(r, "rope.scaling.yarn_attn_factor", false,
                        &s->attention_factor)) ||
        (st = get_float(r, "rope.scaling.yarn_log_multiplier", false,
                        &log_mul)) ||
        (st = get_float(r, "rope.scaling.attn_factor", false, &attn)) ||
        (st = get_float(r, "rope.scaling.yarn_ext_factor", false, &ext)))
        return st;
    if (gguf_find(r->g, key(r, "rope.scaling.original_context_length"))) {
        int64_t orig = 0;

        st = gguf_get_int(r->g, r->key, true, 1, CONFIG_MAX_CTX, &orig, r->err);
        if (st)
            return st;
        s->orig_ctx = (double)orig;
    }
    if (ext != 1.0)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "key %s is %g, cag computes 1 only",
                        key(r, "rope.scaling.yarn_ext_factor"), ext);
    if (attn != 1.0)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "key %s is %g, cag computes 1 only",
                        key(r, "rope.scaling.attn_factor"), attn);
    if (log_mul != 0.0) {
        s->mscale = 1.0;
        s->mscale_all = log_mul;
    }
    if (s->orig_ctx * s->factor > c->n_ctx &&
        s->orig_ctx * s->factor <= CONFIG_MAX_CTX)
        c->n_ctx = (int)(s->orig_ctx * s->factor);
    return CAG_OK;
}

static cag_status read_rope(struct reader *r, struct model_config *c)
{
    struct rope_spec s = ROPE_SPEC_INIT;
    struct gguf_str type = { "linear", 6 };
    const char *tail;
    char shown[64];
    cag_status st;
    int n_rot = c->d_head;

    if ((st = get_int(r, "rope.dimension_count", false, CONFIG_MAX_DIM,
                      &n_rot)) ||
        (st = get_float(r, "rope.freq_base", false, &s.theta)) ||
        (st = gguf_get_str(r->g, key(r, "rope.scaling.type"), false, &type,
                           r->err)))
        return st;
    if (n_rot != c->d_head)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "key %s is %d with heads of %d: partial rotary "
                        "embedding",
                        key(r, "rope.dimension_count"), n_rot, c->d_head);
    if (str_is(type, "linear")) {
        /* the type's default, and without a factor no scaling at all */
        tail = "rope.scaling.factor";
        if (!gguf_find(r->g, key(r, tail)))
            tail = "rope.scale_linear";
        st = get_float(r, tail, false, &s.factor);
        if (st)
            return st;
        if (s.factor == 0.0)
            s.factor = 1.0;
        if (s.factor != 1.0)
            s.kind = ROPE_LINEAR;
    } else if (str_is(type, "yarn")) {
        st = yarn_keys(r, c, &s);
        if (st)
            return st;
    } else if (!str_is(type, "none")) {
        sniff_printable(shown, sizeof shown, type.s, type.n);
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "key %s is \"%s\"; cag computes none, linear, yarn "
                        "and rope_freqs.weight",
                        key(r, "rope.scaling.type"), shown);
    }
    st = rope_divisors(r, c, &s);
    if (st)
        return st;
    return rope_scale(&s, gguf_path(r->g), c, r->err);
}

/* ---------------------------------------------------------------- shapes */

static cag_status read_dims(struct reader *r, struct model_config *c)
{
    double eps = 0.0;
    cag_status st;
    int d_v;

    if ((st = get_int(r, "block_count", true, MODEL_MAX_LAYER, &c->n_layer)) ||
        (st = get_int(r, "context_length", true, CONFIG_MAX_CTX, &c->n_ctx)) ||
        (st = get_int(r, "embedding_length", true, CONFIG_MAX_DIM,
                      &c->d_model)) ||
        (st = get_int(r, "feed_forward_length", true, CONFIG_MAX_DIM,
                      &c->d_ff)) ||
        (st = get_int(r, "attention.head_count", true, CONFIG_MAX_HEAD,
                      &c->n_head)) ||
        (st = get_float(r, "attention.layer_norm_rms_epsilon", true, &eps)))
        return st;
    c->rms_eps = (float)eps;
    c->n_kv_head = c->n_head;
    c->d_head = c->d_model / c->n_head;
    if ((st = get_int(r, "attention.head_count_kv", false, c->n_head,
                      &c->n_kv_head)) ||
        (st = get_int(r, "attention.key_length", false, CONFIG_MAX_DIM,
                      &c->d_head)))
        return st;
    d_v = gguf_find(r->g, key(r, "attention.key_length"))
              ? c->d_model / c->n_head
              : c->d_head;
    st = get_int(r, "attention.value_length", false, CONFIG_MAX_DIM, &d_v);
    if (st)
        return st;
    if (d_v != c->d_head)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                        "key heads of %d and value heads of %d: cag needs "
                        "them equal",
                        c->d_head, d_v);
    if (!gguf_find(r->g, key(r, "attention.key_length")) &&
        c->d_model % c->n_head)
        return cag_fail(r->err, CAG_E_FORMAT, gguf_path(r->g), -1,
                        "an embedding length of %d is no multiple of %d "
                        "heads",
                        c->d_model, c->n_head);
    return config_check(c, gguf_path(r->g), r->err);
}

/* The embedding decides; vocab_size or the token list in a file without
 * tensors, and they must not contradict it. */
static cag_status read_vocab(struct reader *r, struct model_config *c)
{
    const struct gguf_tensor *t = gguf_find_tensor(r->g, "token_embd.weight");
    const struct gguf_kv *kv = gguf_find(r->g, "tokenizer.ggml.tokens");
    int n_vocab = 0;
    cag_status st;

    st = get_int(r, "vocab_size", false, CONFIG_MAX_VOCAB, &n_vocab);
    if (st)
        return st;
    if (t && t->n_dims == 2 && t->dims[1] <= CONFIG_MAX_VOCAB)
        c->n_vocab = (int)t->dims[1];
    else if (n_vocab)
        c->n_vocab = n_vocab;
    else if (kv && kv->type == GGUF_V_ARRAY && kv->n_elem >= 1 &&
             kv->n_elem <= CONFIG_MAX_VOCAB)
        c->n_vocab = (int)kv->n_elem;
    else
        return cag_fail(r->err, CAG_E_FORMAT, gguf_path(r->g), -1,
                        "no way to tell the vocabulary's size: "
                        "token_embd.weight, %s and tokenizer.ggml.tokens "
                        "are missing",
                        key(r, "vocab_size"));
    if (n_vocab && n_vocab != c->n_vocab)
        return cag_fail(r->err, CAG_E_FORMAT, gguf_path(r->g), -1,
                        "key %s is %d, but token_embd.weight has %d rows",
                        key(r, "vocab_size"), n_vocab, c->n_vocab);
    return CAG_OK;
}

static cag_status read_eos(struct reader *r, struct model_config *c)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
    };
    size_t i;

    for (i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t id = -1;
        cag_status st =
            gguf_get_int(r->g, keys[i], false, 0, c->n_vocab - 1, &id, r->err);
        if (st)
            return st;
        if (id >= 0)
            config_add_eos(c, id);
    }
    return CAG_OK;
}

static cag_status read_arch(struct reader *r, struct model_config *c)
{
    struct gguf_str s = { "", 0 };
    cag_status st;
    char shown[64], names[128];

    st = gguf_get_str(r->g, "general.architecture", true, &s, r->err);
    if (st)
        return st;
    c->family = family_of_arch(s.s, s.n);
    if (c->family) {
        r->arch = c->family->arch;
        return CAG_OK;
    }
    sniff_printable(shown, sizeof shown, s.s, s.n);
    return cag_fail(r->err, CAG_E_UNSUPPORTED, gguf_path(r->g), -1,
                    "general.architecture is \"%s\"; cag runs %s", shown,
                    family_archs(names, sizeof names));
}

cag_status config_from_gguf(const struct gguf *g, struct model_config *c,
                            cag_error *err)
{
    struct reader r = { g, "", "", err };
    struct model_config got = { 0 };
    cag_status st;
    int window = 0;

    if ((st = read_arch(&r, &got)) || (st = refuse_unknown(&r)) ||
        (st = read_dims(&r, &got)) || (st = read_vocab(&r, &got)) ||
        (st = read_rope(&r, &got)) || (st = read_eos(&r, &got)) ||
        (st = get_int(&r, "attention.sliding_window", false, CONFIG_MAX_CTX,
                      &window)))
        return st;
    /* a window that reaches over the whole context changes nothing */
    got.window = window < got.n_ctx ? window : 0;
    got.tied = !gguf_find_tensor(g, "output.weight");
    got.qkv_bias = gguf_find_tensor(g, "blk.0.attn_q.bias") ||
                   got.family->bias == BIAS_QKV;
    got.o_bias = gguf_find_tensor(g, "blk.0.attn_output.bias") != NULL;
    *c = got;
    return CAG_OK;
}
