/*
 * plain.h - the transformer in double, token by token: nothing shared with
 * the engine but the weights, and attention as one softmax over the keys that
 * a function names.  Include after cmocka.h.
 */
#ifndef TESTS_PLAIN_H
#define TESTS_PLAIN_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "model/model.h"

/* Does the token at position q see the one at position k? */
typedef bool plain_sees_fn(const void *ctx, int q, int k);
/* What a head of the token at position q gives the keys [0, q]. */
typedef void plain_shares_fn(void *ctx, int layer, int head, int q,
                             const double *share);

struct plain {
    const struct model_config *c;
    const struct model_weights *w;
    double **mat;  /* [n_layer * N_MAT], dequantized */
    double *k, *v; /* [n_layer, max_tok, n_kv_head, d_head] */
    int n_tok, max_tok;
    plain_sees_fn *sees; /* NULL: all */
    const void *ctx;
    plain_shares_fn *shares; /* or NULL */
    void *shares_ctx;
};

static inline double *plain_alloc(size_t n)
{
    double *p = calloc(n ? n : 1, sizeof *p);

    assert_non_null(p);
    return p;
}

static inline double *plain_matrix(const struct kmat *m)
{
    double *out = plain_alloc((size_t)m->n_out * (size_t)m->d_in), *to = out;
    float *row = calloc((size_t)m->d_in, sizeof *row);

    assert_non_null(row);
    for (int r = 0; r < m->n_out; r++) {
        kernels_ref.dequant_row(row, m, r);
        for (int i = 0; i < m->d_in; i++)
            *to++ = (double)row[i];
    }
    free(row);
    return out;
}

static inline struct plain *plain_new(const cag_model *m, int max_tok)
{
    struct plain *p = calloc(1, sizeof *p);
    size_t n;

    assert_non_null(p);
    p->c = &m->config;
    p->w = &m->weights;
    p->max_tok = max_tok;
    n = (size_t)p->c->n_layer * (size_t)max_tok * (size_t)p->c->n_kv_head *
        (size_t)p->c->d_head;
    p->k = plain_alloc(n);
    p->v = plain_alloc(n);
    p->mat = calloc((size_t)(p->c->n_layer * N_MAT), sizeof *p->mat);
    assert_non_null(p->mat);
    for (int i = 0; i < p->c->n_layer * N_MAT; i++)
        p->mat[i] = plain_matrix(&p->w->layer[i / N_MAT].mat[i % N_MAT]);
    return p;
}

static inline void plain_free(struct plain *p)
{
    for (int i = 0; i < p->c->n_layer * N_MAT; i++)
        free(p->mat[i]);
    free(p->mat);
    free(p->k);
    free(p->v);
    free(p);
}

static inline void plain_norm(double *y, const double *x, const float *w, int n,
                              double eps)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + eps) * (double)w[i];
}

/* y [n_out] = W x (+ bias) */
static inline void plain_product(double *y, const double *w, const double *x,
                                 int n_out, int d_in, const float *bias)
{
    for (int r = 0; r < n_out; r++, w += d_in) {
        y[r] = bias ? (double)bias[r] : 0;
        for (int i = 0; i < d_in; i++)
            y[r] += w[i] * x[i];
    }
}

/* A head of q or k: its norm, if there is one, and its rotation. */
static inline void plain_head(const struct plain *p, double *x,
                              const float *norm, int pos)
{
    int half = p->c->d_head / 2;

    if (norm)
        plain_norm(x, x, norm, p->c->d_head, (double)p->c->rms_eps);
    for (int i = 0; i < half; i++) {
        double angle = (double)((float)pos * p->c->inv_freq[i]);
        double cs = cos(angle) * (double)p->c->rope_mscale;
        double sn = sin(angle) * (double)p->c->rope_mscale;
        double a = x[i], b = x[i + half];

        x[i] = a * cs - b * sn;
        x[i + half] = b * cs + a * sn;
    }
}

static inline double *plain_key(const struct plain *p, double *kv, int layer,
                                int pos, int kv_head)
{
    return kv + (((size_t)layer * (size_t)p->max_tok + (size_t)pos) *
                     (size_t)p->c->n_kv_head +
                 (size_t)kv_head) *
                    (size_t)p->c->d_head;
}

/* One query head of the token at pos: out [d_head]. */
static inline void plain_attend(const struct plain *p, double *out,
                                const double *q, int layer, int head, int pos)
{
    int d = p->c->d_head, kv_head = head / (p->c->n_head / p->c->n_kv_head);
    double *s = plain_alloc((size_t)pos + 1), top = -INFINITY, sum = 0;

    for (int t = 0; t <= pos; t++) {
        const double *k = plain_key(p, p->k, layer, t, kv_head);

        s[t] = -INFINITY;
        if (p->sees && !p->sees(p->ctx, pos, t))
            continue;
        s[t] = 0;
        for (int c = 0; c < d; c++)
            s[t] += q[c] * k[c];
        s[t] /= sqrt(d);
        top = fmax(top, s[t]);
    }
    for (int t = 0; t <= pos; t++)
        sum += s[t] = exp(s[t] - top);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int t = 0; t <= pos; t++) {
        const double *v = plain_key(p, p->v, layer, t, kv_head);

        s[t] /= sum;
        for (int c = 0; c < d; c++)
            out[c] += s[t] * v[c];
    }
    if (p->shares)
        p->shares(p->shares_ctx, layer, head, pos, s);
    free(s);
}

static inline void plain_layer(struct plain *p, double *x, int layer, int pos)
{
    const struct model_config *c = p->c;
    const struct model_layer *w = &p->w->layer[layer];
    double *const *m = p->mat + layer * N_MAT;
    int d = c->d_head, d_q = c->n_head * d, d_kv = c->n_kv_head * d;
    int width = d_q > c->d_ff ? d_q : c->d_ff;
    double *h = plain_alloc((size_t)c->d_model), *q = plain_alloc((size_t)d_q);
    double *a = plain_alloc((size_t)width), *u = plain_alloc((size_t)width);
    double *y = plain_alloc((size_t)c->d_model);

    plain_norm(h, x, w->attn_norm, c->d_model, (double)c->rms_eps);
    plain_product(q, m[WQ], h, d_q, c->d_model, w->bq);
    plain_product(plain_key(p, p->k, layer, pos, 0), m[WK], h, d_kv, c->d_model,
                  w->bk);
    plain_product(plain_key(p, p->v, layer, pos, 0), m[WV], h, d_kv, c->d_model,
                  w->bv);
    for (int i = 0; i < c->n_kv_head; i++)
        plain_head(p, plain_key(p, p->k, layer, pos, i), w->k_norm, pos);
    for (int i = 0; i < c->n_head; i++) {
        plain_head(p, q + i * d, w->q_norm, pos);
        plain_attend(p, a + i * d, q + i * d, layer, i, pos);
    }
    plain_product(y, m[WO], a, c->d_model, d_q, w->bo);
    for (int i = 0; i < c->d_model; i++)
        x[i] += y[i];
    plain_norm(h, x, w->ffn_norm, c->d_model, (double)c->rms_eps);
    plain_product(a, m[W_GATE], h, c->d_ff, c->d_model, NULL);
    plain_product(u, m[W_UP], h, c->d_ff, c->d_model, NULL);
    for (int i = 0; i < c->d_ff; i++)
        a[i] = a[i] / (1 + exp(-a[i])) * u[i];
    plain_product(y, m[W_DOWN], a, c->d_model, c->d_ff, NULL);
    for (int i = 0; i < c->d_model; i++)
        x[i] += y[i];
    free(h);
    free(q);
    free(a);
    free(u);
    free(y);
}

/* Append n ids; the logits after the last, [n_vocab], unless NULL. */
static inline void plain_run(struct plain *p, const int32_t *ids, int n,
                             double *logits)
{
    int d = p->c->d_model;
    double *x = plain_alloc((size_t)d);
    float *row = calloc((size_t)d, sizeof *row);

    assert_true(row && p->n_tok + n <= p->max_tok);
    for (int i = 0; i < n; i++, p->n_tok++) {
        kernels_ref.dequant_row(row, &p->w->embed, ids[i]);
        for (int c = 0; c < d; c++)
            x[c] = (double)row[c];
        for (int l = 0; l < p->c->n_layer; l++)
            plain_layer(p, x, l, p->n_tok);
    }
    plain_norm(x, x, p->w->out_norm, d, (double)p->c->rms_eps);
    for (int v = 0; logits && v < p->c->n_vocab; v++) {
        kernels_ref.dequant_row(row, &p->w->head, v);
        logits[v] = 0;
        for (int c = 0; c < d; c++)
            logits[v] += (double)row[c] * x[c];
    }
    free(x);
    free(row);
}

#endif
