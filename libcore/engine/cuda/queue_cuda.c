/*
 * queue_cuda.c - the parts of a pass, as kernels queued on the run stream.
 *
 * Two ways through a layer.  Few rows of a step: weights are read as stored, by
 * GEMV kernels with f32 activations, which do the norms, too.  Many rows:
 * cuBLAS with operands of c->operand, quantized weights expanded panel by
 * panel; matrices that lie side by side are one product.  Expanding costs more
 * than reading twice, so few are more where weights are quantized
 * (cuda_few_rows).  Attention is the same kernel for both.
 */
#include "engine/cuda/pass_cuda.h"

static size_t operand_bytes(int type)
{
    return type == KT_F32 ? 4 : 2;
}

/* Operands between kernels of this pass. */
static int between(const struct pass_cuda *p)
{
    return p->few ? KT_F32 : p->c->operand;
}

static int gemm(const struct pass_cuda *p, float *y, size_t ldy, bool add,
                const void *x, size_t ldx, int r0, const struct kmat *w)
{
    struct cuda *c = p->c;
    const uint8_t *from = x;

    from += (size_t)r0 * ldx * operand_bytes(c->operand);
    return cuk_gemm(c->run, y + (size_t)r0 * ldy, ldy, add, from, ldx,
                    c->operand, p->pad_row - r0, w, c->panel, c->panel_bytes);
}

/* Matrices that lie end to end and are of one kind, as one: false if not. */
static bool joined(const struct kmat *w, int n, struct kmat *out)
{
    *out = w[0];
    for (int i = 1; i < n; i++) {
        if (w[i].type != w[0].type || w[i].d_in != w[0].d_in ||
            w[i].row_bytes != w[0].row_bytes ||
            w[i].perm_half != w[0].perm_half ||
            w[i].data != out->data + (size_t)out->n_out * out->row_bytes)
            return false;
        out->n_out += w[i].n_out;
    }
    return true;
}

/* x times n matrices side by side, y [rows, ldy]: one product if it can be. */
static int gemm_beside(const struct pass_cuda *p, float *y, size_t ldy,
                       const void *x, size_t ldx, int r0, const struct kmat *w,
                       int n)
{
    struct kmat all;

    if (joined(w, n, &all))
        return gemm(p, y, ldy, false, x, ldx, r0, &all);
    for (int i = 0; i < n; i++) {
        CUDA_TRY(gemm(p, y, ldy, false, x, ldx, r0, &w[i]));
        y += w[i].n_out;
    }
    return 0;
}

static int layer_qkv(const struct pass_cuda *p, const struct cuda_layer *w)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ld = (size_t)c->d_qkv;
    float *q = c->qkv, *k = q + c->d_q,
          *v = k + (size_t)c->shape.n_kv_head * (size_t)c->shape.d_head;

    if (p->few) {
        const struct cuk_gemv g = { .mode = CUK_STORE,
                                    .n_mat = 3,
                                    .w = { w->mat[WQ], w->mat[WK], w->mat[WV] },
                                    .dev_y = { q, k, v },
                                    .ldy = { ld, ld, ld },
                                    .dev_x = c->x,
                                    .ldx = d,
                                    .n_x = p->pad_row,
                                    .dev_norm = w->attn_norm,
                                    .eps = c->cfg->rms_eps };
        return cuk_gemv(c->run, &g);
    }
    return gemm_beside(p, q, ld, c->h, d, 0, &w->mat[WQ], 3);
}

static int layer_kv(const struct pass_cuda *p, const struct cuda_layer *w,
                    int l)
{
    struct cuda *c = p->c;
    const struct cuk_rope rope = { .shape = c->shape,
                                   .dev_bq = w->bq,
                                   .dev_bk = w->bk,
                                   .dev_bv = w->bv,
                                   .dev_q_norm = w->q_norm,
                                   .dev_k_norm = w->k_norm,
                                   .eps = c->cfg->rms_eps,
                                   .dev_cos = c->dev_cos,
                                   .dev_sin = c->dev_sin,
                                   .q_scale = c->q_scale,
                                   .layer = l,
                                   .dev_q_rotated = c->q_rotated,
                                   .dev_q_unit = c->q_unit };

    CUDA_TRY(layer_qkv(p, w));
    return cuk_rope_append(c->run, &rope, c->qkv, c->q, p->dev.row, p->dev.kv,
                           p->pad_row, p->dev.bad + l);
}

/* Attention, and what is measured of it: of n heads of p's from head on.  Of
 * the last layer only rows with an outcome want any, unless it is measured. */
static int layer_attention(const struct pass_cuda *p, int l, int head, int n)
{
    struct cuda *c = p->c;
    bool some = l == c->n_layer - 1 && n == 0;
    const struct cuk_attn a = { .shape = c->shape,
                                .layer = l,
                                .dev_q = c->q,
                                .dev_q_rotated = c->q_rotated,
                                .dev_q_unit = c->q_unit,
                                .dev_row = p->dev.row,
                                .dev_kv = p->dev.kv,
                                .dev_view = p->dev_view,
                                .n_row = p->pad_row,
                                .dev_item = p->dev.item,
                                .n_item = some ? p->n_last : p->n_item,
                                .dev_state0 = p->dev.state0,
                                .dev_state = c->state,
                                .n_state = p->n_state,
                                .dev_out = c->att,
                                .out_type = between(p),
                                .dev_norm = n > 0 ? c->norm : NULL };
    const struct cuk_mass m = { .attn = a,
                                .dev_run = p->dev_run,
                                .dev_head = p->dev_head + head,
                                .n_run = p->n_run,
                                .n_head = n,
                                .n_tile = p->n_tile,
                                .dev_out =
                                    (float *)c->mass.dev +
                                    (size_t)head * (size_t)p->n_tile * KV_TILE,
                                .run_stride = pass_cuda_run_size(p) };

    CUDA_TRY(cuk_attention(c->run, &a));
    return n > 0 ? cuk_mass(c->run, &m) : 0;
}

/* Output projection and feed-forward, into x; norms are the products'. */
static int layer_ffn_few(const struct pass_cuda *p, const struct cuda_layer *w)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ff = (size_t)c->cfg->d_ff;
    const struct cuk_gemv o = { .mode = CUK_ADD,
                                .n_mat = 1,
                                .w = { w->mat[WO] },
                                .dev_y = { c->x },
                                .ldy = { d },
                                .dev_bias = { w->bo },
                                .dev_x = c->att,
                                .ldx = (size_t)c->d_q,
                                .n_x = p->pad_row };
    const struct cuk_gemv gate_up = { .mode = CUK_SWIGLU,
                                      .n_mat = 2,
                                      .w = { w->mat[W_GATE], w->mat[W_UP] },
                                      .dev_y = { c->act },
                                      .ldy = { ff },
                                      .dev_x = c->x,
                                      .ldx = d,
                                      .n_x = p->pad_row,
                                      .dev_norm = w->ffn_norm,
                                      .eps = c->cfg->rms_eps };
    const struct cuk_gemv down = { .mode = CUK_ADD,
                                   .n_mat = 1,
                                   .w = { w->mat[W_DOWN] },
                                   .dev_y = { c->x },
                                   .ldy = { d },
                                   .dev_x = c->act,
                                   .ldx = ff,
                                   .n_x = p->pad_row };

    CUDA_TRY(cuk_gemv(c->run, &o));
    CUDA_TRY(cuk_gemv(c->run, &gate_up));
    return cuk_gemv(c->run, &down);
}

/* The same of rows from r0 on, by large products; gate and up lie side by
 * side in c->gate_up. */
static int layer_ffn(const struct pass_cuda *p, const struct cuda_layer *w,
                     int r0)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ff = (size_t)c->cfg->d_ff;
    size_t size = operand_bytes(c->operand);
    int n = p->pad_row - r0;
    uint8_t *h = (uint8_t *)c->h + (size_t)r0 * d * size;
    uint8_t *act = (uint8_t *)c->act + (size_t)r0 * ff * size;
    const float *gate = c->gate_up + (size_t)r0 * 2 * ff;

    CUDA_TRY(gemm(p, c->x, d, true, c->att, (size_t)c->d_q, r0, &w->mat[WO]));
    CUDA_TRY(cuk_add_norm(c->run, c->x + (size_t)r0 * d, NULL, w->bo, h,
                          c->operand, w->ffn_norm, c->cfg->rms_eps, n, (int)d));
    CUDA_TRY(
        gemm_beside(p, c->gate_up, 2 * ff, c->h, d, r0, &w->mat[W_GATE], 2));
    CUDA_TRY(cuk_swiglu(c->run, act, c->operand, gate, gate + ff, 2 * ff, n,
                        (int)ff));
    return gemm(p, c->x, d, true, c->act, ff, r0, &w->mat[W_DOWN]);
}

int pass_cuda_queue_layer(const struct pass_cuda *p, int l)
{
    struct cuda *c = p->c;
    const struct cuda_layer *w = &c->layer[l];
    bool last = l == c->n_layer - 1;
    int r0 = last ? p->r0 : 0, n_head;
    int head = pass_cuda_heads(p, l, &n_head);

    CUDA_TRY(layer_kv(p, w, l));
    if (r0 == p->pad_row && n_head == 0)
        return 0;
    CUDA_TRY(layer_attention(p, l, head, n_head));
    if (r0 == p->pad_row)
        return 0;
    if (p->few)
        return layer_ffn_few(p, w);
    CUDA_TRY(layer_ffn(p, w, r0));
    if (last) /* pass_cuda_queue_head norms what it takes */
        return 0;
    return cuk_add_norm(c->run, c->x, NULL, NULL, c->h, c->operand,
                        c->layer[l + 1].attn_norm, c->cfg->rms_eps, p->pad_row,
                        c->cfg->d_model);
}

int pass_cuda_queue_embed(const struct pass_cuda *p)
{
    struct cuda *c = p->c;

    if (p->x && p->few)
        return 0;
    if (p->x)
        return cuk_add_norm(c->run, c->x, NULL, NULL, c->h, c->operand,
                            c->layer[0].attn_norm, c->cfg->rms_eps, p->pad_row,
                            c->cfg->d_model);
    return cuk_embed_norm(c->run, c->x, p->few ? NULL : c->h, between(p),
                          &c->embed, c->layer[0].attn_norm, c->cfg->rms_eps,
                          p->dev.row, p->pad_row);
}

/*
 * Rows that have an outcome need not adjoin: they are gathered, with their
 * norm.  Many go through a large product, so that the output matrix is read
 * once for all of them; how many the pass has decides, so that a row's logits
 * do not depend on what kind of outcome its neighbours want.
 */
int pass_cuda_queue_head(const struct pass_cuda *p, int k, int n)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, n_vocab = (size_t)c->cfg->n_vocab;
    bool few = p->n_want <= cuda_few_rows(&c->head);
    const struct cuk_gemv g = { .mode = CUK_STORE,
                                .n_mat = 1,
                                .w = { c->head },
                                .dev_y = { c->logits },
                                .ldy = { n_vocab },
                                .dev_x = c->h,
                                .ldx = d,
                                .n_x = n };

    CUDA_TRY(cuk_pick_norm(c->run, c->h, few ? KT_F32 : c->operand, c->x,
                           p->dev.want + k, c->out_norm, c->cfg->rms_eps, n,
                           (int)d));
    if (few)
        return cuk_gemv(c->run, &g);
    return cuk_gemm(c->run, c->logits, n_vocab, false, c->h, d, c->operand, n,
                    &c->head, c->panel, c->panel_bytes);
}

int pass_cuda_queue_best(const struct pass_cuda *p, int k, int n)
{
    struct cuda *c = p->c;

    CUDA_TRY(pass_cuda_queue_head(p, k, n));
    return cuk_argmax(c->run, p->dev.best + k, c->logits,
                      (size_t)c->cfg->n_vocab, n, c->cfg->n_vocab, c->argmax);
}

int pass_cuda_queue_input(const struct pass_cuda *p)
{
    struct cuda *c = p->c;

    if (p->x)
        CUDA_TRY(cuk_copy(c->run, CUK_TO_DEV, c->x, c->host_x,
                          (size_t)p->pad_row * (size_t)c->cfg->d_model *
                              sizeof *c->x));
    if (p->seen_size > 0)
        CUDA_TRY(cuk_copy(c->run, CUK_TO_DEV, c->seen.dev, c->seen.host,
                          p->seen_size));
    return cuk_copy(c->run, CUK_TO_DEV, c->dev_input, c->host_input,
                    p->host.bytes);
}

int pass_cuda_queue_back(const struct pass_cuda *p)
{
    struct cuda *c = p->c;

    if (p->n_run > 0)
        CUDA_TRY(
            cuk_copy(c->run, CUK_FROM_DEV, c->mass.host, c->mass.dev,
                     (size_t)p->n_run * pass_cuda_run_size(p) * sizeof(float)));
    return cuk_copy(c->run, CUK_FROM_DEV, c->host_back, p->dev.bad,
                    p->dev.back);
}
