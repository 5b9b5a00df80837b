/*
 * config_json.c - hyper-parameters from config.json, as transformers reads
 * them.
 *
 * Where transformers' configuration class of the family has a default that
 * files rely on (num_key_value_heads, head_dim, rope_theta, sliding_window,
 * max_window_layers) it is the same here; numbers that every
 * published file states are required.
 *
 * Keys fall into three classes: those read here; those known to say nothing
 * about the forward pass; and the rest.  Of the rest, one whose name speaks
 * of attention, rope, scaling, experts and the like is refused unless it is
 * null or false, because ignoring it would give fluent wrong answers; others
 * (labels, tool settings) are ignored.
 */
#include <math.h>
#include <string.h>

#include "util/sniff.h"
#include "model/config_check.h"
#include "model/rope_scale.h"

struct reader {
    const jv *root;
    const char *path;
    cag_error *err;
};

/* ------------------------------------------------------------ known keys */

static const char *const known_keys[] = {
    /* read below */
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "layer_types",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "eos_token_id",
    "quantization_config",
    /* nothing about the forward pass, though the name may sound so */
    "attention_dropout",
    "attention_probs_dropout_prob",
    "output_attentions",
    "cross_attention_hidden_size",
    "add_cross_attention",
    "num_logits_to_keep",
    "logits_to_keep",
    "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "use_flash_attn",
    "use_flash_attn_2",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
};

static const char *const suspect[] = {
    "rope",  "rotary",     "attention", "attn",   "window",      "softcap",
    "logit", "multiplier", "scal",      "expert", "moe",         "qk_",
    "norm",  "bias",       "quant",     "alibi",  "layer_types",
};

static bool inactive(const jv *v)
{
    return jv_type(v) == JV_NULL ||
           (jv_type(v) == JV_BOOL && !jv_bool(v, true));
}

static bool is_known(const char *key)
{
    size_t i;

    for (i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        if (strcmp(key, known_keys[i]) == 0)
            return true;
    return false;
}

static cag_status refuse_unknown(const struct reader *r)
{
    char shown[96];
    void *it;
    size_t i;

    for (it = jv_iter(r->root); it; it = jv_next(r->root, it)) {
        const char *key = jv_iter_key(it, NULL);

        if (inactive(jv_iter_value(it)) || is_known(key))
            continue;
        for (i = 0; i < sizeof suspect / sizeof *suspect; i++)
            if (strstr(key, suspect[i]))
                break;
        if (i == sizeof suspect / sizeof *suspect)
            continue;
        sniff_printable(shown, sizeof shown, key, strlen(key));
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key %s is not known to cag and may change what the "
                        "model computes",
                        shown);
    }
    return CAG_OK;
}

/* --------------------------------------------------------------- getters */

/* A whole number in [1, max]; absent or null leaves *out alone. */
static cag_status opt_int(const struct reader *r, const jv *o, const char *key,
                          int64_t max, int *out)
{
    const jv *v = jv_get(o, key);
    int64_t i = jv_int(v, 0);

    if (jv_type(v) == JV_NULL)
        return CAG_OK;
    if (jv_type(v) != JV_INT || i < 1 || i > max)
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key %s: expected a whole number in 1..%lld", key,
                        (long long)max);
    *out = (int)i;
    return CAG_OK;
}

static cag_status need_int(const struct reader *r, const char *key, int64_t max,
                           int *out)
{
    int64_t v = 0;
    cag_status st = jv_need_int(r->root, key, r->path, 1, max, &v, r->err);

    if (!st)
        *out = (int)v;
    return st;
}

static cag_status opt_num(const struct reader *r, const jv *o, const char *key,
                          double *out, bool *given)
{
    const jv *v = jv_get(o, key);
    double d = jv_num(v, 0.0);

    if (given)
        *given = jv_type(v) != JV_NULL;
    if (jv_type(v) == JV_NULL)
        return CAG_OK;
    if ((jv_type(v) != JV_INT && jv_type(v) != JV_REAL) || !isfinite(d))
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key %s is of type %s, expected a number", key,
                        jv_type_name(v));
    *out = d;
    return CAG_OK;
}

static cag_status opt_bool(const struct reader *r, const jv *o, const char *key,
                           bool *out)
{
    const jv *v = jv_get(o, key);

    if (jv_type(v) == JV_NULL)
        return CAG_OK;
    if (jv_type(v) != JV_BOOL)
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key %s is of type %s, expected true or false", key,
                        jv_type_name(v));
    *out = jv_bool(v, false);
    return CAG_OK;
}

/* ------------------------------------------------------------------ rope */

static const char *const rope_keys[] = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "partial_rotary_factor",
};

static cag_status rope_known(const struct reader *r, const jv *o,
                             const char *name)
{
    char shown[96];
    void *it;
    size_t i;

    for (it = jv_iter(o); it; it = jv_next(o, it)) {
        const char *key = jv_iter_key(it, NULL);

        for (i = 0; i < sizeof rope_keys / sizeof *rope_keys; i++)
            if (strcmp(key, rope_keys[i]) == 0)
                break;
        if (i < sizeof rope_keys / sizeof *rope_keys ||
            jv_type(jv_iter_value(it)) == JV_NULL)
            continue;
        sniff_printable(shown, sizeof shown, key, strlen(key));
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key %s.%s is not known to cag", name, shown);
    }
    return CAG_OK;
}

static cag_status rope_kind(const struct reader *r, const jv *o,
                            const char *name, struct rope_spec *s)
{
    static const char *const names[] = {
        [ROPE_DEFAULT] = "default",
        [ROPE_LINEAR] = "linear",
        [ROPE_LLAMA3] = "llama3",
        [ROPE_YARN] = "yarn",
    };
    const char *type = jv_get_str(o, "rope_type", jv_get_str(o, "type", NULL));
    char shown[64];
    int k;

    if (!type && jv_type(jv_get(o, "rope_type")) == JV_NULL &&
        jv_type(jv_get(o, "type")) == JV_NULL)
        type = "default";
    for (k = ROPE_DEFAULT; type && k <= ROPE_YARN; k++)
        if (strcmp(type, names[k]) == 0) {
            s->kind = (enum rope_kind)k;
            return CAG_OK;
        }
    sniff_printable(shown, sizeof shown, type ? type : "",
                    type ? strlen(type) : 0);
    return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                    "key %s.rope_type is \"%s\"; cag computes default, "
                    "linear, llama3 and yarn",
                    name, shown);
}

/* The numbers of one scaling kind; which are required is transformers' rule. */
static cag_status rope_numbers(const struct reader *r, const jv *o,
                               const char *name, struct model_config *c,
                               struct rope_spec *s)
{
    bool has_factor = false, has_low = false, has_high = false;
    cag_status st;

    s->orig_ctx = c->n_ctx;
    if ((st = opt_num(r, o, "factor", &s->factor, &has_factor)) ||
        (st = opt_num(r, o, "original_max_position_embeddings", &s->orig_ctx,
                      NULL)) ||
        (st = opt_num(r, r->root, "original_max_position_embeddings",
                      &s->orig_ctx, NULL)) ||
        (st = opt_num(r, o, "low_freq_factor", &s->low_freq, &has_low)) ||
        (st = opt_num(r, o, "high_freq_factor", &s->high_freq, &has_high)) ||
        (st = opt_num(r, o, "attention_factor", &s->attention_factor, NULL)) ||
        (st = opt_num(r, o, "mscale", &s->mscale, NULL)) ||
        (st = opt_num(r, o, "mscale_all_dim", &s->mscale_all, NULL)) ||
        (st = opt_num(r, o, "beta_fast", &s->beta_fast, NULL)) ||
        (st = opt_num(r, o, "beta_slow", &s->beta_slow, NULL)) ||
        (st = opt_bool(r, o, "truncate", &s->truncate)))
        return st;
    if (s->kind == ROPE_YARN && !has_factor && jv_get(o, "factor") &&
        s->orig_ctx > 0.0) {
        s->factor = c->n_ctx / s->orig_ctx; /* "factor": null */
        has_factor = true;
    }
    if (s->kind != ROPE_DEFAULT && !has_factor)
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key %s.factor is missing", name);
    if (s->kind == ROPE_LLAMA3 && (!has_low || !has_high))
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key %s.%s is missing", name,
                        has_low ? "high_freq_factor" : "low_freq_factor");
    if (s->kind == ROPE_YARN && s->orig_ctx * s->factor > c->n_ctx &&
        s->orig_ctx * s->factor <= CONFIG_MAX_CTX)
        c->n_ctx = (int)(s->orig_ctx * s->factor);
    return CAG_OK;
}

static cag_status whole_head(const struct reader *r, const jv *o)
{
    double part = 1.0;
    cag_status st = opt_num(r, o, "partial_rotary_factor", &part, NULL);

    if (!st && part != 1.0)
        st = cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                      "key partial_rotary_factor is %g; cag rotates whole "
                      "heads only",
                      part);
    return st;
}

/* rope_scaling (transformers 4) wins over rope_parameters (5), as there. */
static cag_status read_rope(const struct reader *r, struct model_config *c)
{
    struct rope_spec s = ROPE_SPEC_INIT;
    const char *name = "rope_scaling";
    const jv *o = jv_get(r->root, name);
    cag_status st;

    if (jv_type(o) == JV_NULL ||
        (jv_type(o) == JV_OBJECT && jv_count(o) == 0)) {
        name = "rope_parameters";
        o = jv_get(r->root, name);
    }
    if (jv_type(o) != JV_NULL && jv_type(o) != JV_OBJECT)
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key %s is of type %s, expected an object", name,
                        jv_type_name(o));
    if ((st = whole_head(r, r->root)) ||
        (st = opt_num(r, r->root, "rope_theta", &s.theta, NULL)))
        return st;
    if (jv_type(o) == JV_OBJECT &&
        ((st = rope_known(r, o, name)) || (st = rope_kind(r, o, name, &s)) ||
         (st = whole_head(r, o)) ||
         (st = opt_num(r, o, "rope_theta", &s.theta, NULL)) ||
         (st = rope_numbers(r, o, name, c, &s))))
        return st;
    return rope_scale(&s, r->path, c, r->err);
}

/* ---------------------------------------------------------------- window */

/* Layers with a window among all, by layer_types or max_window_layers. */
static cag_status windowed_layers(const struct reader *r,
                                  const struct model_config *c, bool first_full,
                                  int *n_windowed, const char **key)
{
    const jv *types = jv_get(r->root, "layer_types");
    const jv *first = jv_get(r->root, "max_window_layers");
    size_t i;

    *key = "layer_types";
    *n_windowed = 0;
    if (jv_type(types) == JV_NULL) {
        *key = "max_window_layers";
        if (!first_full)
            *n_windowed = c->n_layer;
        else if (first && (jv_type(first) != JV_INT || jv_int(first, 0) < 0))
            return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                            "key max_window_layers: expected a whole number");
        else if (jv_int(first, c->family->n_full) < c->n_layer)
            *n_windowed = c->n_layer - (int)jv_int(first, c->family->n_full);
        return CAG_OK;
    }
    if (jv_type(types) != JV_ARRAY || jv_count(types) != (size_t)c->n_layer)
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key layer_types: expected an array of %d", c->n_layer);
    for (i = 0; i < jv_count(types); i++) {
        const char *t = jv_str(jv_at(types, i), NULL);

        if (t && strcmp(t, "sliding_attention") == 0)
            ++*n_windowed;
        else if (!t || strcmp(t, "full_attention") != 0)
            return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                            "key layer_types: cag computes full_attention "
                            "and sliding_attention only");
    }
    return CAG_OK;
}

static cag_status read_window(const struct reader *r, struct model_config *c)
{
    bool asked = c->family->window == WINDOW_ASKED, use = !asked;
    const char *key;
    int window = 0, n_windowed;
    cag_status st;

    if (!jv_get(r->root, "sliding_window"))
        window = c->family->sliding_window;
    if ((st = opt_int(r, r->root, "sliding_window", INT32_MAX, &window)) ||
        (st = opt_bool(r, r->root, "use_sliding_window", &use)) ||
        (st = windowed_layers(r, c, use && asked, &n_windowed, &key)))
        return st;
    /* one that reaches over the whole context changes nothing */
    if (!use || window >= c->n_ctx)
        window = 0;
    if (!window) {
        if (n_windowed && strcmp(key, "layer_types") == 0 && !use)
            return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                            "key layer_types asks for sliding attention, but "
                            "use_sliding_window is not true");
        return CAG_OK;
    }
    if (n_windowed && n_windowed < c->n_layer)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key %s: a sliding window in %d of %d layers; cag "
                        "computes all or none",
                        key, n_windowed, c->n_layer);
    if (c->family->window == WINDOW_NEVER)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key sliding_window in a model of type %s",
                        c->family->type);
    c->window = n_windowed ? window : 0;
    return CAG_OK;
}

/* ---------------------------------------------------------------- shapes */

static cag_status read_type(const struct reader *r, struct model_config *c)
{
    const char *type;
    char shown[64], names[128];
    cag_status st = jv_need_str(r->root, "model_type", r->path, &type, r->err);

    if (st)
        return st;
    c->family = family_of_type(type);
    if (c->family)
        return CAG_OK;
    sniff_printable(shown, sizeof shown, type, strlen(type));
    return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                    "model_type is \"%s\"; cag runs %s", shown,
                    family_types(names, sizeof names));
}

static cag_status read_dims(const struct reader *r, struct model_config *c)
{
    cag_status st;

    if ((st = need_int(r, "num_hidden_layers", MODEL_MAX_LAYER, &c->n_layer)) ||
        (st = need_int(r, "hidden_size", CONFIG_MAX_DIM, &c->d_model)) ||
        (st = need_int(r, "intermediate_size", CONFIG_MAX_DIM, &c->d_ff)) ||
        (st =
             need_int(r, "num_attention_heads", CONFIG_MAX_HEAD, &c->n_head)) ||
        (st = need_int(r, "vocab_size", CONFIG_MAX_VOCAB, &c->n_vocab)) ||
        (st =
             need_int(r, "max_position_embeddings", CONFIG_MAX_CTX, &c->n_ctx)))
        return st;
    c->n_kv_head = c->n_head;
    if (c->family->n_kv_head && !jv_get(r->root, "num_key_value_heads")) {
        c->n_kv_head = c->family->n_kv_head;
        if (c->n_head % c->n_kv_head)
            return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                            "key num_key_value_heads is missing, and the %d "
                            "that a model of type %s then has do not divide "
                            "%d heads",
                            c->n_kv_head, c->family->type, c->n_head);
    }
    if ((st = opt_int(r, r->root, "num_key_value_heads", c->n_head,
                      &c->n_kv_head)) ||
        (st = opt_int(r, r->root, "head_dim", CONFIG_MAX_DIM, &c->d_head)))
        return st;
    if (!jv_get(r->root, "head_dim"))
        c->d_head = c->family->d_head;
    if (!c->d_head) {
        if (c->d_model % c->n_head)
            return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                            "hidden_size %d is no multiple of %d heads, and "
                            "head_dim is not given",
                            c->d_model, c->n_head);
        c->d_head = c->d_model / c->n_head;
    }
    return CAG_OK;
}

/* What must have one value, and the biases. */
static cag_status read_rest(const struct reader *r, struct model_config *c)
{
    const jv *quant = jv_get(r->root, "quantization_config");
    const jv *act = jv_get(r->root, "hidden_act");
    bool bias = false, mlp_bias = false, has_eps;
    double eps = 0.0;
    cag_status st;

    if ((st = opt_num(r, r->root, "rms_norm_eps", &eps, &has_eps)) ||
        (st = opt_bool(r, r->root, "tie_word_embeddings", &c->tied)) ||
        (st = opt_bool(r, r->root, "attention_bias", &bias)) ||
        (st = opt_bool(r, r->root, "mlp_bias", &mlp_bias)))
        return st;
    if (!has_eps)
        return cag_fail(r->err, CAG_E_FORMAT, r->path, -1,
                        "key rms_norm_eps is missing");
    c->rms_eps = (float)eps;
    if (jv_type(quant) != JV_NULL) {
        char shown[64];
        const char *m = jv_get_str(quant, "quant_method", "unknown");

        sniff_printable(shown, sizeof shown, m, strlen(m));
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key quantization_config: weights quantized by \"%s\""
                        "; use the F16, BF16 or F32 model, or a GGUF file",
                        shown);
    }
    if (jv_type(act) != JV_NULL &&
        strcmp(jv_get_str(r->root, "hidden_act", ""), "silu") != 0) {
        char shown[64];
        const char *a = jv_get_str(r->root, "hidden_act", "");

        sniff_printable(shown, sizeof shown, a, strlen(a));
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key hidden_act is \"%s\"; cag computes silu", shown);
    }
    if (mlp_bias)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key mlp_bias: cag computes no biases there");
    if (bias && c->family->bias == BIAS_NEVER)
        return cag_fail(r->err, CAG_E_UNSUPPORTED, r->path, -1,
                        "key attention_bias in a model of type %s",
                        c->family->type);
    c->qkv_bias = bias || c->family->bias == BIAS_QKV;
    c->o_bias = bias && c->family->bias == BIAS_BY_KEY;
    return CAG_OK;
}

/* eos_token_id: a number, a list of them, or null. */
static cag_status read_eos(const jv *root, const char *path,
                           struct model_config *c, cag_error *err)
{
    const jv *v = jv_get(root, "eos_token_id");
    bool list = jv_type(v) == JV_ARRAY;
    size_t i, n = list ? jv_count(v) : jv_type(v) != JV_NULL;

    for (i = 0; i < n; i++) {
        const jv *e = list ? jv_at(v, i) : v;

        if (jv_type(e) != JV_INT || !config_add_eos(c, jv_int(e, -1)))
            return cag_fail(err, CAG_E_FORMAT, path, -1,
                            "key eos_token_id: expected at most %d token ids "
                            "below vocab_size %d",
                            MODEL_MAX_EOS, c->n_vocab);
    }
    return CAG_OK;
}

cag_status config_from_json(const jv *config, const jv *generation,
                            const char *path, struct model_config *c,
                            cag_error *err)
{
    struct reader r = { config, path, err };
    struct model_config got = { 0 };
    cag_status st;

    if (jv_type(config) != JV_OBJECT)
        return cag_fail(err, CAG_E_FORMAT, path, -1, "not a JSON object");
    if ((st = read_type(&r, &got)) || (st = refuse_unknown(&r)) ||
        (st = read_dims(&r, &got)) || (st = read_rest(&r, &got)) ||
        (st = config_check(&got, path, err)) || (st = read_rope(&r, &got)) ||
        (st = read_window(&r, &got)) ||
        (st = read_eos(config, path, &got, err)) ||
        (st = read_eos(generation, "generation_config.json", &got, err)))
        return st;
    *c = got;
    return CAG_OK;
}
