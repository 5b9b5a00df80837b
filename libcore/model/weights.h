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
#include "kernels/kernels.h"
#include "model/config.h"
#include "util/arena.h"

/* The matrices of a layer, in the order in which a pass reads them. */
enum layer_mat { WQ, WK, WV, WO, W_GATE, W_UP, W_DOWN, N_MAT };

struct model_layer {
    struct kmat mat[N_MAT];            /* stored as the file has them  */
    const float *attn_norm, *ffn_norm; /* [d_model]                    */
    const float *bq, *bk, *bv, *bo;    /* or NULL; half-split order    */
    const float *q_norm, *k_norm;      /* [d_head] or NULL             */
};

struct model_weights {
    struct kmat embed;         /* [n_vocab, d_model]      */
    struct kmat head;          /* = embed when tied       */
    const float *out_norm;     /* [d_model]               */
    struct model_layer *layer; /* [n_layer]               */
};

cag_status weights_from_gguf(const struct gguf *g, const struct model_config *c,
                             struct arena *a, struct model_weights *w,
                             cag_error *err);
cag_status weights_from_st(const struct st *s, const struct model_config *c,
                           struct arena *a, struct model_weights *w,
                           cag_error *err);
/* Bytes of the matrices of layers [layer0, layer1); embedding and head are
 * not counted, since not every part of a model reads both. */
uint64_t weights_bytes(const struct model_weights *w, int layer0, int layer1);
static inline uint64_t kmat_bytes(const struct kmat *w)
{
    return (uint64_t)w->row_bytes * (uint64_t)w->n_out;
}
/* A tensor that only repeats the configuration (rope_freqs.weight, which
 * config.h reads, or a buffer that old checkpoints saved): no weight. */
bool weights_redundant(const char *name, bool gguf);

#endif
