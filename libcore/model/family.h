/*
 * family.h - what sets one model family apart from the next; a row each.
 *
 * The transformer itself is one: norm, attention with rotated heads, norm,
 * gated feed-forward.  What differs between families is data in a row here;
 * config_json.c, config_gguf.c, weights.c and both forward passes read the
 * row's flags (or what they led to: a bias or a norm that is not NULL), and
 * nobody compares names.  A family that needs what no row has yet (a norm
 * offset, a scaled embedding, another activation, a window in some layers,
 * experts) adds the column and the place that reads it together.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

/* Biases of the attention's projections. */
enum family_bias {
    BIAS_NEVER,  /* key attention_bias is refused                */
    BIAS_BY_KEY, /* attention_bias: of q, k, v and of the output */
    BIAS_QKV     /* always of q, k, v, never of the output       */
};

/* How config.json speaks of a sliding window. */
enum family_window {
    WINDOW_NEVER, /* key sliding_window is refused              */
    WINDOW_ALL,   /* sliding_window: in every layer             */
    WINDOW_ASKED  /* only with use_sliding_window, from layer
                     max_window_layers on, or by layer_types    */
};

struct model_family {
    const char *type; /* model_type of config.json                        */
    const char *arch; /* general.architecture of GGUF; the name shown     */
    bool gguf_pairs;  /* GGUF: rows of Wq and Wk are rotary pairs,
                         interleaved per head                             */
    bool qk_norm;     /* an RMS norm of each head of q and k              */
    enum family_bias bias;
    enum family_window window;
    /* what transformers' configuration class takes for a key that is
     * absent (null is not absent) */
    int d_head;         /* 0: d_model / n_head   */
    int n_kv_head;      /* 0: n_head             */
    int sliding_window; /* 0: none               */
    int n_full;         /* of max_window_layers  */
};

/* The row of a name; NULL if there is none.  Rows of one arch differ only in
 * how config.json is read, so a GGUF file takes the first. */
const struct model_family *family_of_type(const char *type);
const struct model_family *family_of_arch(const char *arch, size_t n);
/* "llama, qwen2 and qwen3": the names of one container, for messages. */
const char *family_types(char *out, size_t size);
const char *family_archs(char *out, size_t size);

#endif
