/*
 * config.h - a model's hyper-parameters, from config.json or GGUF keys.
 *
 * Anything that would change the computation and is not known here (another
 * activation, a rope type, a sliding window shorter than the context, a
 * logit soft-cap) is CAG_E_UNSUPPORTED naming the key, never ignored.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/gguf.h"
#include "model/family.h"
#include "util/error.h"
#include "util/json.h"

#define MODEL_MAX_LAYER  1024
#define MODEL_MAX_D_HEAD 512
#define MODEL_MAX_EOS    16

struct model_config {
    const struct model_family *family;
    int n_layer, n_head, n_kv_head, d_head, d_model, d_ff, n_vocab, n_ctx;
    float rms_eps;
    bool tied;             /* output matrix = embedding            */
    bool qkv_bias, o_bias; /* biases of the attention projections  */
    /* Sliding window: position p sees keys > p - window; 0 = full. Refused
     * at open when shorter than the context asked for. */
    int window;
    /* inv_freq[i], i < d_head / 2, rounded to f32 as transformers does, all
     * scaling (linear, llama3, yarn) already applied */
    float inv_freq[MODEL_MAX_D_HEAD / 2];
    float rope_mscale;          /* factor on cos and sin (yarn), else 1 */
    char rope_text[256];        /* canonical description, for the binding */
    int32_t eos[MODEL_MAX_EOS]; /* from config/generation_config         */
    int n_eos;
};

/* How many positions a timeline may have: of the context those that a window,
 * which is computed only while it reaches over all of them, leaves. */
static inline int config_context(const struct model_config *c)
{
    return c->window > 0 && c->window < c->n_ctx ? c->window : c->n_ctx;
}

cag_status config_from_gguf(const struct gguf *g, struct model_config *c,
                            cag_error *err);
/* generation may be NULL; path names config.json in messages */
cag_status config_from_json(const jv *config, const jv *generation,
                            const char *path, struct model_config *c,
                            cag_error *err);

#endif
