/*
 * weights.h - tensor names -> roles; every shape is checked once, here.
 *
 * Matrices stay mapped as stored; a view says how to read them.  Vectors
 * (norms, biases) are converted to f32 once, un-permuted, in the model's
 * arena.  An unknown, unused or missing tensor is an error that names it.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "format/gguf.h"
#include "format/safetensors.h"
#include "model/config.h"
#include "util/arena.h"

/*
 * w [n_out, d_in] row-major as stored, possibly unaligned.
 *
 * llama-architecture GGUF files hold the rows of Wq and Wk permuted per
 * head (interleaved rotary pairs).  perm_half = d_head / 2 for those, else
 * 0.  The row r that the mathematics means (half-split order) is stored at
 *     h = r / d_head, j = r % d_head:
 *     h * d_head + (j % perm_half) * 2 + j / perm_half
 */
struct wmat {
    int type; /* enum gguf_type */
    int n_out, d_in;
    size_t row_bytes;
    const uint8_t *data;
    int perm_half;
};

struct model_layer {
    const float *attn_norm, *ffn_norm; /* [d_model]               */
    struct wmat wq, wk, wv, wo;
    const float *bq, *bk, *bv, *bo; /* or NULL; half-split order */
    const float *q_norm, *k_norm;   /* [d_head] or NULL        */
    struct wmat w_gate, w_up, w_down;
};

struct model_weights {
    struct wmat embed;         /* [n_vocab, d_model]      */
    struct wmat head;          /* = embed when tied       */
    const float *out_norm;     /* [d_model]               */
    struct model_layer *layer; /* [n_layer]               */
};

cag_status weights_from_gguf(const struct gguf *g, const struct model_config *c,
                             struct arena *a, struct model_weights *w,
                             cag_error *err);
cag_status weights_from_st(const struct st *s, const struct model_config *c,
                           struct arena *a, struct model_weights *w,
                           cag_error *err);
/* A tensor that only repeats the configuration (rope_freqs.weight, which
 * config.h reads, or a buffer that old checkpoints saved): no weight. */
bool weights_redundant(const char *name, bool gguf);

#endif
