/*
 * weights_cuda.c - the model on its way to the device, layer by layer.
 *
 * All tensors lie in one block of device memory, as stored, each 256-aligned;
 * they are cut into pieces of at most 4 MiB and travel in the order in which a
 * pass uses them.  The embedding comes first, then each layer, then what
 * follows the last one, so that the first pass starts after the embedding.
 */
#include "engine/cuda/cuda.h"

#include <string.h>

#include "util/mem.h"

#define PIECE ((size_t)4 << 20)
#define ALIGN 256

struct piece {
    const uint8_t *src;
    uint8_t *dst;
    size_t n;
};

struct weight_load {
    struct piece *piece;
    int *group_end; /* [c->n_layer + 2] */
    struct feed *feed;
};

/* One walk over all tensors serves to measure, to count and to place. */
struct walk {
    struct cuda *c; /* NULL: only measure */
    uint8_t *base;
    uint64_t off;
    int n_piece;
    struct piece *piece; /* NULL: only count */
    bool overflow;
};

/* Device address of n bytes that are at src on the host. */
static void *place(struct walk *w, const void *src, uint64_t n)
{
    uint64_t at = w->off;

    if (n > UINT64_MAX / 4 || w->off > UINT64_MAX / 4) {
        w->overflow = true;
        return NULL;
    }
    w->off += (n + ALIGN - 1) / ALIGN * ALIGN;
    for (uint64_t i = 0; i < n; i += PIECE) {
        if (w->piece)
            w->piece[w->n_piece] =
                (struct piece){ (const uint8_t *)src + i, w->base + at + i,
                                n - i < PIECE ? (size_t)(n - i) : PIECE };
        if (w->n_piece++ == INT32_MAX - 1)
            w->overflow = true;
    }
    return w->base ? w->base + at : NULL;
}

static struct kmat matrix(struct walk *w, const struct kmat *m)
{
    struct kmat k = *m;
    size_t n;

    k.data = NULL;
    if (!mem_mul(&n, m->row_bytes, (size_t)m->n_out))
        w->overflow = true;
    else
        k.data = place(w, m->data, n);
    return k;
}

static const float *vector(struct walk *w, const float *v, int n)
{
    return v ? place(w, v, (uint64_t)n * sizeof *v) : NULL;
}

static void walk_layer(struct walk *w, const struct model_layer *m,
                       const struct model_config *cfg, struct cuda_layer *out)
{
    int d = cfg->d_model, kv = cfg->n_kv_head * cfg->d_head;

    out->attn_norm = vector(w, m->attn_norm, d);
    out->mat[WQ] = matrix(w, &m->mat[WQ]);
    out->mat[WK] = matrix(w, &m->mat[WK]);
    out->mat[WV] = matrix(w, &m->mat[WV]);
    out->bq = vector(w, m->bq, cfg->n_head * cfg->d_head);
    out->bk = vector(w, m->bk, kv);
    out->bv = vector(w, m->bv, kv);
    out->q_norm = vector(w, m->q_norm, cfg->d_head);
    out->k_norm = vector(w, m->k_norm, cfg->d_head);
    out->mat[WO] = matrix(w, &m->mat[WO]);
    out->bo = vector(w, m->bo, d);
    out->ffn_norm = vector(w, m->ffn_norm, d);
    out->mat[W_GATE] = matrix(w, &m->mat[W_GATE]);
    out->mat[W_UP] = matrix(w, &m->mat[W_UP]);
    out->mat[W_DOWN] = matrix(w, &m->mat[W_DOWN]);
}

/* Whoever has the first layer looks the ids up. */
static void walk_all(struct walk *w, const struct model_weights *m,
                     const struct model_config *cfg, int layer0, int *group_end)
{
    struct cuda_layer none;
    struct kmat embed = { 0 }, head;
    int n = cfg->n_layer - layer0;
    const float *norm;

    if (layer0 == 0)
        embed = matrix(w, &m->embed);
    if (group_end)
        group_end[0] = w->n_piece;
    for (int l = 0; l < n; l++) {
        walk_layer(w, &m->layer[layer0 + l], cfg,
                   w->c ? &w->c->layer[l] : &none);
        if (group_end)
            group_end[l + 1] = w->n_piece;
    }
    norm = vector(w, m->out_norm, cfg->d_model);
    head = layer0 == 0 && m->head.data == m->embed.data ? embed
                                                        : matrix(w, &m->head);
    if (group_end)
        group_end[n + 1] = w->n_piece;
    if (w->c) {
        w->c->embed = embed;
        w->c->head = head;
        w->c->out_norm = norm;
    }
}

cag_status weights_cuda_size(const struct model_weights *w,
                             const struct model_config *cfg, int layer0,
                             uint64_t *out, cag_error *err)
{
    struct walk walk = { 0 };

    walk_all(&walk, w, cfg, layer0, NULL);
    if (walk.overflow)
        return cag_fail_nomem(err, "weights on the device");
    *out = walk.off;
    return CAG_OK;
}

static cag_status fill(void *ctx, int item, uint8_t *data, cag_error *err)
{
    const struct weight_load *l = ctx;

    (void)err;
    memcpy(data, l->piece[item].src, l->piece[item].n);
    return CAG_OK;
}

static int send(void *ctx, struct cuk_stream *s, int item, const uint8_t *data)
{
    const struct weight_load *l = ctx;

    return cuk_copy(s, CUK_TO_DEV, l->piece[item].dst, data, l->piece[item].n);
}

cag_status weights_cuda_start(struct cuda *c, cag_error *err)
{
    struct walk w = { .c = NULL };
    struct weight_load *l = mem_zalloc(sizeof *l);
    struct feed_desc d = {
        c->n_layer + 2,        NULL,        PIECE, fill, send, l,
        "loading the weights", CUDA_WEIGHTS
    };
    cag_status st = CAG_OK;

    if (!l)
        return cag_fail_nomem(err, "loader");
    c->load = l;
    walk_all(&w, c->w, c->cfg, c->base.layer0, NULL);
    l->piece = mem_alloc_array((size_t)w.n_piece, sizeof *l->piece);
    l->group_end = mem_alloc_array((size_t)d.n_group, sizeof *l->group_end);
    c->layer = mem_alloc_array((size_t)c->n_layer, sizeof *c->layer);
    if (!l->piece || !l->group_end || !c->layer)
        return cag_fail_nomem(err, "loader");
    st = cuda_alloc(c, &c->dev_weights, c->weight_bytes, "the weights", err);
    if (st)
        return st;
    w = (struct walk){ c, c->dev_weights, 0, 0, l->piece, false };
    walk_all(&w, c->w, c->cfg, c->base.layer0, l->group_end);
    d.group_end = l->group_end;
    return feed_new(c, &d, &l->feed, err);
}

cag_status weights_cuda_need(struct cuda *c, int layer, cag_error *err)
{
    return !c->load ? CAG_OK : feed_need(c->load->feed, layer + 1, err);
}

void weights_cuda_settle(struct cuda *c, bool force)
{
    struct weight_load *l = c->load;

    if (!l || (!force && !feed_done(l->feed)))
        return;
    feed_free(l->feed);
    mem_free(l->piece);
    mem_free(l->group_end);
    mem_free(l);
    c->load = NULL;
}
