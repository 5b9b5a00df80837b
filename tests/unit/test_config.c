/*
 * test_config.c - hyper-parameters from both containers; rotary frequencies
 * against transformers' own.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config.h"
#include "tests/lib/gguf_make.h"
#include "util/mem.h"

/* ------------------------------------------------------------- config.json */

#define BASE(type)                                         \
    "\"model_type\":\"" type "\",\"hidden_size\":64,"      \
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"    \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2," \
    "\"vocab_size\":100,\"max_position_embeddings\":4096," \
    "\"rms_norm_eps\":1e-5"

static cag_status parse(const char *text, const char *generation,
                        struct model_config *c, cag_error *err)
{
    jv *v = NULL, *g = NULL;
    cag_status st;

    assert_int_equal(jv_parse(text, strlen(text), "config.json", &v, err),
                     CAG_OK);
    if (generation)
        assert_int_equal(jv_parse(generation, strlen(generation), "g", &g, err),
                         CAG_OK);
    st = config_from_json(v, g, "config.json", c, err);
    jv_free(v);
    jv_free(g);
    return st;
}

static void accepts(const char *text, struct model_config *c)
{
    cag_error err = CAG_ERROR_INIT;
    cag_status st = parse(text, NULL, c, &err);

    if (st)
        print_message("%s\n  %s\n", text, err.msg);
    assert_int_equal(st, CAG_OK);
}

static void refuses(const char *text, cag_status want, const char *msg)
{
    struct model_config c;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;

    memset(&c, 0x5a, sizeof c);
    st = parse(text, NULL, &c, &err);
    if (st != want || !strstr(err.msg, msg))
        print_message("%s\n  %s: %s\n", text, cag_status_name(st), err.msg);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.msg, msg));
    assert_int_equal(c.n_layer, 0x5a5a5a5a); /* untouched on failure */
}

static void families(void **state)
{
    char names[128];

    (void)state;
    assert_string_equal(family_types(names, sizeof names),
                        "llama, mistral, qwen2 and qwen3");
    assert_string_equal(family_archs(names, sizeof names),
                        "llama, qwen2 and qwen3");
    assert_string_equal(family_archs(names, 9), "llama, q"); /* cut, ended */
    assert_null(family_of_type("llam"));
    assert_null(family_of_arch("llam", 4));
    assert_null(family_of_arch("mistral", 7));
    assert_string_equal(family_of_arch("qwen3moe", 5)->type, "qwen3");
    assert_ptr_equal(family_of_arch("llama", 5), family_of_type("llama"));
    assert_string_equal(family_of_type("mistral")->arch, "llama");
}

static void json_dims(void **state)
{
    struct model_config c;

    (void)state;
    accepts("{" BASE("llama") "}", &c);
    assert_string_equal(c.family->arch, "llama");
    assert_int_equal(c.n_layer, 2);
    assert_int_equal(c.n_head, 4);
    assert_int_equal(c.n_kv_head, 2);
    assert_int_equal(c.d_head, 16);
    assert_int_equal(c.d_model, 64);
    assert_int_equal(c.d_ff, 96);
    assert_int_equal(c.n_vocab, 100);
    assert_int_equal(c.n_ctx, 4096);
    assert_int_equal(c.window, 0);
    assert_false(c.tied);
    assert_false(c.qkv_bias);
    assert_true(c.rms_eps == 1e-5f);

    /* head_dim given; absent in qwen3 it is 128, null it is derived */
    accepts("{" BASE("llama") ",\"head_dim\":32}", &c);
    assert_int_equal(c.d_head, 32);
    accepts("{" BASE("qwen3") "}", &c);
    assert_int_equal(c.d_head, 128);
    accepts("{" BASE("qwen3") ",\"head_dim\":null}", &c);
    assert_int_equal(c.d_head, 16);

    accepts("{" BASE("qwen2") ",\"tie_word_embeddings\":true}", &c);
    assert_true(c.tied);
    assert_true(c.qkv_bias);
    assert_false(c.o_bias);
    accepts("{" BASE("llama") ",\"attention_bias\":true}", &c);
    assert_true(c.qkv_bias && c.o_bias);
}

static void json_refused(void **state)
{
    (void)state;
    refuses("[]", CAG_E_FORMAT, "not a JSON object");
    refuses("{}", CAG_E_FORMAT, "model_type");
    refuses("{" BASE("gemma3") "}", CAG_E_UNSUPPORTED, "gemma3");
    refuses("{\"model_type\":\"llama\",\"hidden_size\":64}", CAG_E_FORMAT,
            "num_hidden_layers");
    refuses("{" BASE("llama") ",\"head_dim\":12}", CAG_E_UNSUPPORTED,
            "head size of 12");
    refuses("{" BASE("llama") ",\"head_dim\":1024}", CAG_E_UNSUPPORTED,
            "head size of 1024");
    refuses("{" BASE("llama") ",\"head_dim\":\"16\"}", CAG_E_FORMAT,
            "head_dim");
    refuses("{" BASE("llama") ",\"hidden_act\":\"gelu\"}", CAG_E_UNSUPPORTED,
            "hidden_act is \"gelu\"");
    refuses("{" BASE("llama") ",\"mlp_bias\":true}", CAG_E_UNSUPPORTED,
            "mlp_bias");
    refuses("{" BASE("llama") ",\"attention_bias\":1}", CAG_E_FORMAT,
            "attention_bias");
    refuses("{" BASE("llama") ",\"quantization_config\":"
                              "{\"quant_method\":\"awq\"}}",
            CAG_E_UNSUPPORTED, "awq");
    refuses("{" BASE("llama") ",\"attn_logit_softcapping\":50.0}",
            CAG_E_UNSUPPORTED, "attn_logit_softcapping");
    refuses("{" BASE("llama") ",\"rope_interleaved\":true}", CAG_E_UNSUPPORTED,
            "rope_interleaved");
    refuses("{" BASE("llama") ",\"num_local_experts\":8}", CAG_E_UNSUPPORTED,
            "num_local_experts");
    refuses("{" BASE("llama") ",\"partial_rotary_factor\":0.5}",
            CAG_E_UNSUPPORTED, "partial_rotary_factor");
    refuses("{" BASE("llama") ",\"rope_theta\":0}", CAG_E_FORMAT, "theta");
    refuses("{\"model_type\":\"llama\",\"hidden_size\":64,"
            "\"intermediate_size\":96,\"num_hidden_layers\":2,"
            "\"num_attention_heads\":4,\"num_key_value_heads\":3,"
            "\"vocab_size\":100,\"max_position_embeddings\":4096,"
            "\"rms_norm_eps\":1e-5}",
            CAG_E_FORMAT, "groups of 3");
    refuses("{\"model_type\":\"llama\",\"hidden_size\":64,"
            "\"intermediate_size\":96,\"num_hidden_layers\":4000000000,"
            "\"num_attention_heads\":4}",
            CAG_E_FORMAT, "num_hidden_layers");
}

/* Keys that are known to be harmless, or inactive, are no reason to refuse. */
static void json_harmless(void **state)
{
    struct model_config c;

    (void)state;
    accepts(
        "{" BASE(
            "llama") ",\"attention_dropout\":0.0,"
                     "\"rope_interleaved\":false,\"architectures\":[\"X\"],"
                     "\"transformers.js_config\":{\"kv_cache_dtype\":{}},"
                     "\"output_attentions\":false,\"quantization_config\":null,"
                     "\"hidden_act\":\"silu\",\"pretraining_tp\":1,"
                     "\"torch_dtype\":\"bfloat16\",\"use_cache\":true}",
        &c);
}

#define FEW(type, heads)                                    \
    "\"model_type\":\"" type "\",\"hidden_size\":256,"      \
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"     \
    "\"num_attention_heads\":" heads ",\"vocab_size\":100," \
    "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5"

/* A key that is absent has the value that the family's own configuration
 * class gives it (transformers 5.24); null is no value, and not absent. */
static void json_class_defaults(void **state)
{
    struct model_config c;

    (void)state;
    accepts("{" FEW("llama", "16") "}", &c);
    assert_int_equal(c.n_kv_head, 16);
    assert_int_equal(c.window, 0);
    accepts("{" FEW("mistral", "16") "}", &c);
    assert_int_equal(c.n_kv_head, 8);
    assert_int_equal(c.window, 4096);
    accepts("{" FEW("mistral", "16") ",\"num_key_value_heads\":null,"
                                     "\"sliding_window\":null}",
            &c);
    assert_int_equal(c.n_kv_head, 16);
    assert_int_equal(c.window, 0);
    accepts("{" FEW("qwen2", "32") "}", &c);
    assert_int_equal(c.n_kv_head, 32);
    assert_int_equal(c.window, 0);
    accepts("{" FEW("qwen2", "32") ",\"use_sliding_window\":true,"
                                   "\"max_window_layers\":0}",
            &c);
    assert_int_equal(c.window, 4096);
    accepts("{" FEW("qwen2", "32") ",\"use_sliding_window\":true}", &c);
    assert_int_equal(c.window, 0); /* max_window_layers is 28 */
    refuses("{" FEW("qwen3", "16") "}", CAG_E_FORMAT,
            "num_key_value_heads is missing, and the 32");
    refuses("{" FEW("mistral", "4") "}", CAG_E_FORMAT,
            "num_key_value_heads is missing, and the 8");
}

static void json_eos(void **state)
{
    struct model_config c;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(parse("{" BASE("llama") ",\"eos_token_id\":7}",
                           "{\"eos_token_id\":[9,7]}", &c, &err),
                     CAG_OK);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 7);
    assert_int_equal(c.eos[1], 9);
    assert_int_equal(
        parse("{" BASE("llama") ",\"eos_token_id\":null}", "{}", &c, &err),
        CAG_OK);
    assert_int_equal(c.n_eos, 0);
    refuses("{" BASE("llama") ",\"eos_token_id\":100}", CAG_E_FORMAT,
            "eos_token_id");
    refuses("{" BASE("llama") ",\"eos_token_id\":[1,\"2\"]}", CAG_E_FORMAT,
            "eos_token_id");
    refuses("{" BASE("llama") ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,"
                              "13,14,15,16,17]}",
            CAG_E_FORMAT, "at most 16");
}

static void json_window(void **state)
{
    struct model_config c;

    (void)state;
    accepts("{" BASE("mistral") ",\"sliding_window\":1024}", &c);
    assert_string_equal(c.family->arch, "llama");
    assert_int_equal(c.window, 1024);
    accepts("{" BASE("mistral") ",\"sliding_window\":4096}", &c);
    assert_int_equal(c.window, 0);
    accepts("{" BASE("mistral") ",\"sliding_window\":null}", &c);
    assert_int_equal(c.window, 0);
    accepts(
        "{" BASE(
            "qwen2") ",\"sliding_window\":1024,"
                     "\"use_sliding_window\":false,\"max_window_layers\":1}",
        &c);
    assert_int_equal(c.window, 0);
    accepts("{" BASE(
                "qwen2") ",\"sliding_window\":1024,"
                         "\"use_sliding_window\":true,\"max_window_layers\":2}",
            &c);
    assert_int_equal(c.window, 0);
    accepts("{" BASE(
                "qwen3") ",\"sliding_window\":1024,"
                         "\"use_sliding_window\":true,\"max_window_layers\":0}",
            &c);
    assert_int_equal(c.window, 1024);
    refuses("{" BASE(
                "qwen2") ",\"sliding_window\":1024,"
                         "\"use_sliding_window\":true,\"max_window_layers\":1}",
            CAG_E_UNSUPPORTED, "max_window_layers");
    refuses("{" BASE("qwen3") ",\"sliding_window\":1024,"
                              "\"use_sliding_window\":true,\"layer_types\":"
                              "[\"sliding_attention\",\"full_attention\"]}",
            CAG_E_UNSUPPORTED, "layer_types");
    accepts("{" BASE("qwen3") ",\"sliding_window\":null,"
                              "\"use_sliding_window\":false,\"layer_types\":"
                              "[\"full_attention\",\"full_attention\"]}",
            &c);
    refuses("{" BASE("qwen3") ",\"layer_types\":[\"full_attention\"]}",
            CAG_E_FORMAT, "layer_types");
    refuses("{" BASE("qwen3") ",\"layer_types\":"
                              "[\"linear_attention\",\"full_attention\"]}",
            CAG_E_UNSUPPORTED, "layer_types");
    refuses("{" BASE("qwen3") ",\"layer_types\":"
                              "[\"sliding_attention\",\"sliding_attention\"]}",
            CAG_E_FORMAT, "use_sliding_window");
    refuses("{" BASE("llama") ",\"sliding_window\":1024}", CAG_E_UNSUPPORTED,
            "sliding_window");
}

static void json_rope_refused(void **state)
{
    (void)state;
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"type\":\"dynamic\","
                              "\"factor\":2}}",
            CAG_E_UNSUPPORTED, "dynamic");
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"rope_type\":\"longrope\","
                              "\"factor\":2}}",
            CAG_E_UNSUPPORTED, "longrope");
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"rope_type\":3}}",
            CAG_E_UNSUPPORTED, "rope_type");
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"type\":\"linear\"}}",
            CAG_E_FORMAT, "rope_scaling.factor is missing");
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"type\":\"linear\","
                              "\"factor\":0}}",
            CAG_E_FORMAT, "factor is 0");
    refuses("{" BASE("llama") ",\"rope_parameters\":{\"rope_type\":"
                              "\"default\",\"mrope_section\":[1]}}",
            CAG_E_UNSUPPORTED, "rope_parameters.mrope_section");
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"rope_type\":\"llama3\","
                              "\"factor\":8}}",
            CAG_E_FORMAT, "low_freq_factor");
    refuses("{" BASE("llama") ",\"rope_scaling\":\"yarn\"}", CAG_E_FORMAT,
            "expected an object");
    refuses("{" BASE("llama") ",\"rope_scaling\":{\"rope_type\":\"yarn\","
                              "\"factor\":2,\"beta_fast\":-1}}",
            CAG_E_FORMAT, "beta_fast");
}

/* ------------------------------------------------------------------ rope */

static uint32_t bits_of(float f)
{
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

/* Every case of the golden: how many frequencies differ, and by how much. */
static void rope_equals_transformers(void **state)
{
    jv *root = NULL;
    const jv *cases;
    cag_error err = CAG_ERROR_INIT;
    size_t i, j, n = 0, n_diff = 0;

    (void)state;
    assert_int_equal(
        jv_parse_file("tests/golden/rope/inv_freq.json", 1 << 20, &root, &err),
        CAG_OK);
    cases = jv_get(root, "cases");
    assert_true(jv_count(cases) > 20);
    for (i = 0; i < jv_count(cases); i++) {
        const jv *e = jv_at(cases, i), *f = jv_get(e, "inv_freq");
        const char *name = jv_get_str(e, "name", "");
        struct model_config c;

        assert_int_equal(
            config_from_json(jv_get(e, "config"), NULL, name, &c, &err),
            CAG_OK);
        assert_int_equal(jv_count(f), c.d_head / 2);
        assert_int_equal(bits_of(c.rope_mscale),
                         strtoul(jv_get_str(e, "scaling", ""), NULL, 16));
        for (j = 0; j < jv_count(f); j++, n++) {
            long want = strtol(jv_str(jv_at(f, j), NULL), NULL, 16);
            long d = (long)bits_of(c.inv_freq[j]) - want;

            if (d) {
                n_diff++;
                print_message("%s [%zu]: %ld ulp\n", name, j, d);
            }
            assert_in_range(d + 1, 0, 2);
        }
    }
    print_message("%zu of %zu frequencies differ\n", n_diff, n);
    assert_true(n_diff * 50 <= n);
    jv_free(root);
}

/* ------------------------------------------------------------------ GGUF */

static cag_status from_gguf(struct gm *m, struct model_config *c,
                            cag_error *err)
{
    struct gguf *g = NULL;
    cag_status st;

    gm_finish(m);
    st = gguf_parse(m->file.data, m->file.size, "t.gguf", &g, err);
    if (!st)
        st = config_from_gguf(g, c, err);
    gguf_close(g);
    return st;
}

/* What a file has beyond the model of gguf_make.h: a key, or what add adds. */
struct more {
    const char *key;
    int type;
    uint32_t u;
    float f;
    const char *s;
    void (*add)(struct gm *);
};
#define U32(key, v)                       \
    {                                     \
        key, GGUF_V_U32, v, 0, NULL, NULL \
    }
#define F32(key, v)                       \
    {                                     \
        key, GGUF_V_F32, 0, v, NULL, NULL \
    }
#define STR(key, v)                    \
    {                                  \
        key, GGUF_V_STR, 0, 0, v, NULL \
    }
#define ADD(fn)                 \
    {                           \
        NULL, 0, 0, 0, NULL, fn \
    }
#define MORE(...)         \
    (const struct more[]) \
    {                     \
        __VA_ARGS__,      \
        {                 \
            .key = NULL   \
        }                 \
    }

/* more ends with an entry that has neither key nor add. */
static void gguf_with(const char *arch, const struct more *more,
                      cag_status want, const char *msg, struct model_config *c)
{
    struct gm m;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;

    gm_model(&m, arch, NULL);
    for (; more->key || more->add; more++)
        if (more->add)
            more->add(&m);
        else if (more->type == GGUF_V_U32)
            gm_kv_u32(&m, more->key, more->u);
        else if (more->type == GGUF_V_F32)
            gm_kv_f32(&m, more->key, more->f);
        else
            gm_kv_str(&m, more->key, more->s);
    st = from_gguf(&m, c, &err);
    if (st != want || (msg && !strstr(err.msg, msg)))
        print_message("%s: %s\n", cag_status_name(st), err.msg);
    assert_int_equal(st, want);
    if (msg)
        assert_non_null(strstr(err.msg, msg));
    gm_free(&m);
}

static void divisors(struct gm *m)
{
    int i;

    gm_entry(m, "rope_freqs.weight", GGUF_F32, 1, 8, 0, m->data.size);
    for (i = 0; i < 8; i++)
        gm_u32(&m->data, i < 4 ? 0x3f800000 : 0x41000000); /* 1, 8 */
}
static void short_divisors(struct gm *m)
{
    gm_tensor(m, "rope_freqs.weight", GGUF_F32, 7, 0);
}
static void zero_divisors(struct gm *m)
{
    gm_tensor(m, "rope_freqs.weight", GGUF_F32, 8, 0);
}

#define YARN                                    \
    STR("llama.rope.scaling.type", "yarn"),     \
        F32("llama.rope.scaling.factor", 4.0f), \
        U32("llama.rope.scaling.original_context_length", 128)

static void gguf_dims(void **state)
{
    static const struct more none[] = { { .key = NULL } };
    struct model_config c, d;
    int i;

    (void)state;
    gguf_with("llama", none, CAG_OK, NULL, &c);
    assert_int_equal(c.d_head, 16);
    assert_int_equal(c.n_kv_head, 1);
    assert_int_equal(c.n_vocab, 8);
    assert_int_equal(c.n_ctx, 128);
    assert_false(c.tied);
    gguf_with("qwen2", none, CAG_OK, NULL, &d);
    assert_true(d.qkv_bias);
    gguf_with("llama",
              MORE(U32("llama.attention.key_length", 32),
                   U32("llama.attention.value_length", 32)),
              CAG_OK, NULL, &d);
    assert_int_equal(d.d_head, 32);
    gguf_with("llama",
              MORE(F32("llama.attn_logit_softcapping", 0.0f),
                   U32("llama.expert_count", 0),
                   STR("llama.tensor_data_layout", "Meta AI original pth")),
              CAG_OK, NULL, &d);
    gguf_with("llama",
              MORE(U32("tokenizer.ggml.eos_token_id", 3),
                   U32("tokenizer.ggml.eot_token_id", 5)),
              CAG_OK, NULL, &d);
    assert_int_equal(d.n_eos, 2);
    assert_int_equal(d.eos[1], 5);
    gguf_with("llama", MORE(U32("llama.attention.sliding_window", 64)), CAG_OK,
              NULL, &d);
    assert_int_equal(d.window, 64);
    gguf_with("llama", MORE(U32("llama.attention.sliding_window", 4096)),
              CAG_OK, NULL, &d);
    assert_int_equal(d.window, 0);
    /* a factor without a type is linear; divisors divide */
    gguf_with("llama", MORE(F32("llama.rope.scaling.factor", 4.0f)), CAG_OK,
              NULL, &d);
    for (i = 0; i < 8; i++)
        assert_true(d.inv_freq[i] == c.inv_freq[i] / 4.0f);
    assert_string_not_equal(c.rope_text, d.rope_text);
    gguf_with("llama", MORE(ADD(divisors)), CAG_OK, NULL, &d);
    for (i = 0; i < 8; i++)
        assert_true(d.inv_freq[i] == c.inv_freq[i] / (i < 4 ? 1.0f : 8.0f));
    gguf_with("llama", MORE(YARN), CAG_OK, NULL, &d);
    assert_true(d.rope_mscale > 1.138f && d.rope_mscale < 1.139f);
    assert_int_equal(d.n_ctx, 512);
}

static void gguf_refused(void **state)
{
    static const struct {
        const char *arch;
        struct more more[5];
        cag_status want;
        const char *msg;
    } cases[] = {
        { "gemma3", { { .key = NULL } }, CAG_E_UNSUPPORTED, "gemma3" },
        { "llama",
          { U32("llama.rope.dimension_count", 8) },
          CAG_E_UNSUPPORTED,
          "rope.dimension_count is 8" },
        { "llama",
          { STR("llama.rope.scaling.type", "longrope") },
          CAG_E_UNSUPPORTED,
          "longrope" },
        { "llama",
          { F32("llama.attn_scale_x", 1.0f) },
          CAG_E_UNSUPPORTED,
          "llama.attn_scale_x" },
        { "llama",
          { F32("llama.attn_logit_softcapping", 50.0f) },
          CAG_E_UNSUPPORTED,
          "attn_logit_softcapping" },
        { "llama",
          { U32("llama.expert_count", 8) },
          CAG_E_UNSUPPORTED,
          "expert_count" },
        { "llama",
          { U32("llama.attention.key_length", 32) },
          CAG_E_UNSUPPORTED,
          "value heads of 16" },
        { "llama",
          { U32("llama.vocab_size", 9) },
          CAG_E_FORMAT,
          "vocab_size is 9" },
        { "llama",
          { U32("tokenizer.ggml.eos_token_id", 8) },
          CAG_E_FORMAT,
          "eos_token_id is 8" },
        { "qwen3",
          { STR("qwen3.rope.freq_base", "10000") },
          CAG_E_FORMAT,
          "qwen3.rope.freq_base" },
        { "llama", { ADD(short_divisors) }, CAG_E_FORMAT, "rope_freqs.weight" },
        { "llama", { ADD(zero_divisors) }, CAG_E_FORMAT, "rope_freqs.weight" },
        { "llama",
          { YARN, F32("llama.rope.scaling.yarn_ext_factor", 0.5f) },
          CAG_E_UNSUPPORTED,
          "yarn_ext_factor" },
    };
    struct model_config c;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        gguf_with(cases[i].arch, cases[i].more, cases[i].want, cases[i].msg,
                  &c);
}

/* Each required key missing in turn. */
static void gguf_missing_keys(void **state)
{
    struct gm m;
    struct model_config c;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    gm_init(&m);
    assert_int_equal(from_gguf(&m, &c, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "general.architecture"));
    gm_kv_str(&m, "general.architecture", "llama");
    assert_int_equal(from_gguf(&m, &c, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "llama.block_count is missing"));
    gm_free(&m);
    gm_init(&m);
    gm_model_keys(&m, "llama"); /* no tensors, no token list */
    assert_int_equal(from_gguf(&m, &c, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "token_embd.weight"));
    gm_free(&m);
}

/* The same model in both containers has the same configuration. */
static void containers_agree(void **state)
{
    static const char *const pairs[][2] = {
        { "llama", "llama.F16" },
        { "llama-bias", "llama-bias.BF16" },
        { "llama-linear", "llama-linear.F16" },
        { "llama-yarn", "llama-yarn.F32" },
        { "llama3", "llama3.F16" },
        { "mistral", "mistral.F16" },
        { "qwen2", "qwen2.F16" },
        { "qwen3", "qwen3.F16" },
        { "qwen3-tied", "qwen3-tied.F32" },
    };
    size_t i;
    int j;

    (void)state;
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct model_config a, b;
        cag_error err = CAG_ERROR_INIT;
        struct gguf *g = NULL;
        jv *v = NULL;
        char path[128];

        snprintf(path, sizeof path, "tests/golden/models/%s/config.json",
                 pairs[i][0]);
        assert_int_equal(jv_parse_file(path, 1 << 20, &v, &err), CAG_OK);
        assert_int_equal(config_from_json(v, NULL, path, &a, &err), CAG_OK);
        snprintf(path, sizeof path, "tests/golden/models/%s.gguf", pairs[i][1]);
        assert_int_equal(gguf_open(path, &g, &err), CAG_OK);
        assert_int_equal(config_from_gguf(g, &b, &err), CAG_OK);
        jv_free(v);
        gguf_close(g);
        assert_string_equal(a.family->arch, b.family->arch);
        assert_int_equal(a.n_layer, b.n_layer);
        assert_int_equal(a.n_head, b.n_head);
        assert_int_equal(a.n_kv_head, b.n_kv_head);
        assert_int_equal(a.d_head, b.d_head);
        assert_int_equal(a.d_model, b.d_model);
        assert_int_equal(a.d_ff, b.d_ff);
        assert_int_equal(a.n_vocab, b.n_vocab);
        assert_int_equal(a.n_ctx, b.n_ctx);
        assert_int_equal(a.tied, b.tied);
        assert_int_equal(a.qkv_bias, b.qkv_bias);
        assert_int_equal(a.o_bias, b.o_bias);
        assert_true(a.rms_eps == b.rms_eps);
        assert_true(a.rope_mscale == b.rope_mscale);
        for (j = 0; j < a.d_head / 2; j++) {
            /* llama3's divisors are rounded once more: 2 ulp */
            long d =
                (long)bits_of(a.inv_freq[j]) - (long)bits_of(b.inv_freq[j]);
            assert_in_range(d + 2, strcmp(pairs[i][0], "llama3") ? 2 : 0,
                            strcmp(pairs[i][0], "llama3") ? 2 : 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(json_dims),
        cmocka_unit_test(json_refused),
        cmocka_unit_test(json_harmless),
        cmocka_unit_test(json_class_defaults),
        cmocka_unit_test(json_eos),
        cmocka_unit_test(json_window),
        cmocka_unit_test(json_rope_refused),
        cmocka_unit_test(rope_equals_transformers),
        cmocka_unit_test(gguf_dims),
        cmocka_unit_test(gguf_refused),
        cmocka_unit_test(gguf_missing_keys),
        cmocka_unit_test(containers_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
