/*
 * forward_cuda.c - one pass of the transformer on a GPU.
 *
 * Two ways through a layer.  Few rows (at most CUK_GEMV_ROWS of a step): the
 * weights are read once, as stored, by GEMV kernels with f32 activations.
 * Many rows: cuBLAS with operands of c->operand, quantized weights expanded
 * panel by panel.  Attention is the same kernel for both, on the plan made
 * here from the rows; logits always come from the GEMV kernels.
 *
 * Everything of a pass is queued at once; the host waits once, at its end, for
 * the first row (per layer) whose K or V did not fit f16 and for what was
 * asked: a greedy row's next id, chosen on the device, or a row's logits.
 * While weights or a cache are still arriving, each layer first waits for its
 * own.  A step whose parts have all arrived is recorded as a graph, one for
 * each (rows, items), and replayed: all addresses are fixed, what changes is
 * in the input block.  With greedy rows only, a step is one launch of a graph
 * and one wait.
 *
 *   input  row [n_row]  kv [n_row]  item [n_item]  state0 [n_row + 1]
 *          bad [n_layer]  best [n_row], each 256-aligned; offsets depend on
 *          the counts only.  bad goes there and comes back, best comes back.
 */
#include "engine/cuda/cuda.h"

#include <limits.h>
#include <string.h>

#include "engine/finite.h"
#include "util/mem.h"

#define TRY(call)           \
    do {                    \
        int code_ = (call); \
        if (code_ != 0)     \
            return code_;   \
    } while (0)

struct pass {
    struct cuda *c;
    const struct forward_req *req;
    const struct forward_row *row; /* [n_row] of this pass */
    const float *x;                /* the rows', where layer0 > 0 */
    int n_row, n_kv;               /* rows, timelines */
    int pad_row;                   /* with empty rows of a graph */
    int n_item;                    /* with empty items */
    bool step, few;                /* phase; the GEMV way */
    int r0;                        /* first row whose logits count */
    bool greedy;                   /* all that count want an id only */
    int held, n_held;              /* rows in host_logits */
    struct cuda_input host, dev;
};

/* --------------------------------------------------------------- the input */

static size_t up256(size_t n)
{
    return (n + 255) & ~(size_t)255;
}

/* Offsets of the six parts, and the size of the whole. */
static void offsets(size_t off[7], int n_row, int n_kv, int n_item, int n_layer)
{
    off[0] = 0;
    off[1] = off[0] + up256((size_t)n_row * sizeof(struct cuk_row));
    off[2] = off[1] + up256((size_t)n_kv * sizeof(struct cuk_kv));
    off[3] = off[2] + up256((size_t)n_item * sizeof(struct cuk_item));
    off[4] = off[3] + up256(((size_t)n_row + 1) * sizeof(int32_t));
    off[5] = off[4] + up256((size_t)n_layer * sizeof(int32_t));
    off[6] = off[5] + up256((size_t)n_row * sizeof(int32_t));
}

static void lay_out(struct cuda_input *in, uint8_t *base, int n_row, int n_kv,
                    int n_item, int n_layer)
{
    size_t off[7];

    offsets(off, n_row, n_kv, n_item, n_layer);
    in->row = (void *)(base + off[0]);
    in->kv = (void *)(base + off[1]);
    in->item = (void *)(base + off[2]);
    in->state0 = (void *)(base + off[3]);
    in->bad = (void *)(base + off[4]);
    in->best = (void *)(base + off[5]);
    in->bytes = off[5];
    in->back = off[5] - off[4] + (size_t)n_row * sizeof *in->best;
}

void forward_cuda_bounds(struct cuda *c)
{
    int rows = c->base.max_row, items, states;
    size_t off[7];

    cuk_plan_bound(&c->shape, rows, CUDA_STEP_ROWS, c->n_block, &c->cap_item,
                   &c->cap_state);
    for (int n = 1; n <= CUDA_STEP_ROWS; n++) {
        cuk_plan_bound(&c->shape, n, n, c->n_block, &items, &states);
        c->cap_item = items > c->cap_item ? items : c->cap_item;
        c->cap_state = states > c->cap_state ? states : c->cap_state;
    }
    c->cap_item *= 2; /* a graph's items are rounded up */
    offsets(off, rows, CUDA_STEP_ROWS, c->cap_item, c->n_layer);
    c->input_bytes = off[6];
    c->back_bytes = off[6] - off[4];
}

/* Empty rows up to a size that graphs are made for. */
static int padded_rows(int n)
{
    return n <= CUK_GEMV_ROWS ? n : (n + 7) & ~7;
}

static int padded_items(int n)
{
    int p = 16;

    while (p < n)
        p *= 2;
    return p;
}

/*
 * Rows, timelines and the plan of attention, in host memory.  The plan is
 * made at the far end of the block, which is known only once it is made.
 */
static cag_status make_input(struct pass *p, bool graph, cag_error *err)
{
    struct cuda *c = p->c;
    int n_layer = c->n_layer, kv = -1;
    int n_kv = p->step ? p->pad_row : p->n_kv;
    struct cuk_plan plan = { NULL,       NULL,         c->cap_item / 2,
                             p->pad_row, c->cap_state, 0,
                             0 };

    lay_out(&p->host, c->host_input, p->pad_row, n_kv, c->cap_item, n_layer);
    for (int r = 0; r < p->pad_row; r++) {
        struct cuk_row *row = &p->host.row[r];
        memset(row, 0, sizeof *row);
        row->kv = -1;
        if (r >= p->n_row)
            continue;
        if (r == 0 || p->row[r].kv != p->row[r - 1].kv)
            cuda_kv_describe((const struct cuda_kv *)p->row[r].kv,
                             &p->host.kv[++kv]);
        *row = (struct cuk_row){ p->row[r].id, p->row[r].pos, kv, 0 };
    }
    plan.item = p->host.item;
    plan.state0 = p->host.state0;
    if (!cuk_plan_make(&plan, &c->shape, p->host.row, p->pad_row, p->host.kv,
                       c->n_block, 0))
        return cag_fail(err, CAG_E_BACKEND, NULL, -1,
                        "attention of %d rows needs more than %d items and "
                        "%d states",
                        p->n_row, c->cap_item / 2, c->cap_state);
    p->n_item = plan.n_item;
    if (graph) {
        p->n_item = padded_items(plan.n_item);
        memset(plan.item + plan.n_item, 0,
               (size_t)(p->n_item - plan.n_item) * sizeof *plan.item);
    }
    /* close the gap that was left for items */
    lay_out(&p->host, c->host_input, p->pad_row, n_kv, p->n_item, n_layer);
    memmove(p->host.state0, plan.state0,
            ((size_t)p->pad_row + 1) * sizeof *plan.state0);
    for (int l = 0; l < n_layer; l++)
        p->host.bad[l] = INT32_MAX;
    lay_out(&p->dev, c->dev_input, p->pad_row, n_kv, p->n_item, n_layer);
    if (p->x) {
        size_t d = (size_t)c->cfg->d_model, n = (size_t)p->n_row * d;
        memcpy(c->host_x, p->x, n * sizeof *p->x);
        memset(c->host_x + n, 0, ((size_t)p->pad_row * d - n) * sizeof *p->x);
    }
    return CAG_OK;
}

/* ----------------------------------------------------------------- a layer */

static size_t operand_bytes(int type)
{
    return type == KT_F32 ? 4 : 2;
}

/* Operands between kernels of this pass. */
static int between(const struct pass *p)
{
    return p->few ? KT_F32 : p->c->operand;
}

static int gemm(const struct pass *p, float *y, size_t ldy, bool add,
                const void *x, size_t ldx, int r0, const struct kmat *w)
{
    struct cuda *c = p->c;
    const uint8_t *from = x;

    from += (size_t)r0 * ldx * operand_bytes(c->operand);
    return cuk_gemm(c->run, y + (size_t)r0 * ldy, ldy, add, from, ldx,
                    c->operand, p->pad_row - r0, w, c->panel, c->panel_bytes);
}

static int layer_qkv(const struct pass *p, const struct cuda_layer *w)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ld = (size_t)c->d_qkv;
    float *q = c->qkv, *k = q + c->d_q,
          *v = k + (size_t)c->shape.n_kv_head * (size_t)c->shape.d_head;

    if (p->few) {
        const struct cuk_gemv g = { CUK_STORE,
                                    3,
                                    { w->mat[WQ], w->mat[WK], w->mat[WV] },
                                    { q, k, v },
                                    { ld, ld, ld },
                                    { NULL, NULL, NULL },
                                    c->h,
                                    d,
                                    p->pad_row };
        return cuk_gemv(c->run, &g);
    }
    TRY(gemm(p, q, ld, false, c->h, d, 0, &w->mat[WQ]));
    TRY(gemm(p, k, ld, false, c->h, d, 0, &w->mat[WK]));
    return gemm(p, v, ld, false, c->h, d, 0, &w->mat[WV]);
}

static int layer_kv(const struct pass *p, const struct cuda_layer *w, int l)
{
    struct cuda *c = p->c;
    const struct cuk_rope rope = { c->shape,        w->bq,      w->bk,
                                   w->bv,           w->q_norm,  w->k_norm,
                                   c->cfg->rms_eps, c->dev_cos, c->dev_sin,
                                   c->q_scale,      l };

    TRY(layer_qkv(p, w));
    return cuk_rope_append(c->run, &rope, c->qkv, c->q, p->dev.row, p->dev.kv,
                           p->pad_row, p->dev.bad + l);
}

static int layer_attention(const struct pass *p, int l)
{
    struct cuda *c = p->c;
    const struct cuk_attn a = { c->shape,    l,         c->q,
                                p->dev.row,  p->dev.kv, p->pad_row,
                                p->dev.item, p->n_item, p->dev.state0,
                                c->state,    c->att,    between(p) };

    return cuk_attention(c->run, &a);
}

/* Output projection and feed-forward of rows from r0 on, into x. */
static int layer_ffn(const struct pass *p, const struct cuda_layer *w, int r0)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, ff = (size_t)c->cfg->d_ff;
    int n = p->pad_row - r0, type = between(p);
    float *x = c->x + (size_t)r0 * d;

    if (p->few) {
        const struct cuk_gemv o = {
            CUK_ADD,   1,      { w->mat[WO] }, { c->x },  { d },
            { w->bo }, c->att, (size_t)c->d_q, p->pad_row
        };
        const struct cuk_gemv gu = {
            CUK_SWIGLU, 2,      { w->mat[W_GATE], w->mat[W_UP] },
            { c->act }, { ff }, { NULL },
            c->h,       d,      p->pad_row
        };
        const struct cuk_gemv down = { CUK_ADD,  1,     { w->mat[W_DOWN] },
                                       { c->x }, { d }, { NULL },
                                       c->act,   ff,    p->pad_row };
        TRY(cuk_gemv(c->run, &o));
        TRY(cuk_add_norm(c->run, c->x, NULL, NULL, c->h, type, w->ffn_norm,
                         c->cfg->rms_eps, p->pad_row, (int)d));
        TRY(cuk_gemv(c->run, &gu));
        return cuk_gemv(c->run, &down);
    }
    uint8_t *h = (uint8_t *)c->h + (size_t)r0 * d * operand_bytes(type);
    uint8_t *act = (uint8_t *)c->act + (size_t)r0 * ff * operand_bytes(type);
    TRY(gemm(p, c->x, d, true, c->att, (size_t)c->d_q, r0, &w->mat[WO]));
    TRY(cuk_add_norm(c->run, x, NULL, w->bo, h, type, w->ffn_norm,
                     c->cfg->rms_eps, n, (int)d));
    TRY(gemm(p, c->gate, ff, false, c->h, d, r0, &w->mat[W_GATE]));
    TRY(gemm(p, c->up, ff, false, c->h, d, r0, &w->mat[W_UP]));
    TRY(cuk_swiglu(c->run, act, type, c->gate + (size_t)r0 * ff,
                   c->up + (size_t)r0 * ff, ff, n, (int)ff));
    return gemm(p, c->x, d, true, c->act, ff, r0, &w->mat[W_DOWN]);
}

/* The norm between layers, or before the head: there in f32. */
static int layer_next(const struct pass *p, int l, int r0)
{
    struct cuda *c = p->c;
    bool last = l == c->n_layer - 1;
    size_t d = (size_t)c->cfg->d_model;
    int type = last ? KT_F32 : between(p);

    return cuk_add_norm(c->run, c->x + (size_t)r0 * d, NULL, NULL,
                        (uint8_t *)c->h + (size_t)r0 * d * operand_bytes(type),
                        type, last ? c->out_norm : c->layer[l + 1].attn_norm,
                        c->cfg->rms_eps, p->pad_row - r0, (int)d);
}

static int queue_layer(const struct pass *p, int l)
{
    struct cuda *c = p->c;
    const struct cuda_layer *w = &c->layer[l];
    int r0 = l == c->n_layer - 1 ? p->r0 : 0;

    TRY(layer_kv(p, w, l));
    if (r0 == p->pad_row)
        return 0;
    TRY(layer_attention(p, l));
    TRY(layer_ffn(p, w, r0));
    return layer_next(p, l, r0);
}

static int queue_embed(const struct pass *p)
{
    struct cuda *c = p->c;

    if (p->x)
        return cuk_add_norm(c->run, c->x, NULL, NULL, c->h, between(p),
                            c->layer[0].attn_norm, c->cfg->rms_eps, p->pad_row,
                            c->cfg->d_model);
    return cuk_embed_norm(c->run, c->x, c->h, between(p), &c->embed,
                          c->layer[0].attn_norm, c->cfg->rms_eps, p->dev.row,
                          p->pad_row);
}

/* Logits of rows [r, r + n), n <= CUDA_LOGIT_ROWS. */
static int queue_head(const struct pass *p, int r, int n)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, n_vocab = (size_t)c->cfg->n_vocab;

    for (int i = 0; i < n; i += CUK_GEMV_ROWS) {
        const struct cuk_gemv g = {
            CUK_STORE,
            1,
            { c->head },
            { c->logits + (size_t)i * n_vocab },
            { n_vocab },
            { NULL },
            (const float *)c->h + ((size_t)r + (size_t)i) * d,
            d,
            n - i < CUK_GEMV_ROWS ? n - i : CUK_GEMV_ROWS
        };
        TRY(cuk_gemv(c->run, &g));
    }
    return 0;
}

/* The ids of the largest logits of rows [r, r + n), n <= CUDA_LOGIT_ROWS. */
static int queue_best(const struct pass *p, int r, int n)
{
    struct cuda *c = p->c;

    TRY(queue_head(p, r, n));
    return cuk_argmax(c->run, p->dev.best + r, c->logits,
                      (size_t)c->cfg->n_vocab, n, c->cfg->n_vocab, c->argmax);
}

static int queue_input(const struct pass *p)
{
    struct cuda *c = p->c;

    if (p->x)
        TRY(cuk_copy(c->run, CUK_TO_DEV, c->x, c->host_x,
                     (size_t)p->pad_row * (size_t)c->cfg->d_model *
                         sizeof *c->x));
    return cuk_copy(c->run, CUK_TO_DEV, c->dev_input, c->host_input,
                    p->host.bytes);
}

static int queue_back(const struct pass *p)
{
    return cuk_copy(p->c->run, CUK_FROM_DEV, p->c->host_back, p->dev.bad,
                    p->dev.back);
}

/* ------------------------------------------------------------------ graphs */

/* Everything that a recorded step would have to wait for is there. */
static bool settled(const struct pass *p)
{
    if (p->c->load)
        return false;
    for (int r = 0; r < p->n_row; r++)
        if (!cuda_kv_settled((const struct cuda_kv *)p->row[r].kv))
            return false;
    return true;
}

/* A step as it is recorded: greedy ones whole, empty rows included. */
static int queue_step(const struct pass *p)
{
    TRY(queue_input(p));
    TRY(queue_embed(p));
    for (int l = 0; l < p->c->n_layer; l++)
        TRY(queue_layer(p, l));
    if (!p->greedy)
        return 0;
    for (int r = 0, n; r < p->pad_row; r += n) {
        n = p->pad_row - r < CUDA_LOGIT_ROWS ? p->pad_row - r : CUDA_LOGIT_ROWS;
        TRY(queue_best(p, r, n));
    }
    return queue_back(p);
}

static int run_graph(const struct pass *p)
{
    struct cuda *c = p->c;

    for (int i = 0; i < c->n_graph; i++)
        if (c->graph[i].n_row == p->pad_row &&
            c->graph[i].n_item == p->n_item && c->graph[i].whole == p->greedy)
            return cuk_graph_launch(c->graph[i].graph, c->run);
    if (c->n_graph == CUDA_MAX_GRAPH) {
        TRY(cuk_stream_sync(c->run));
        cuda_drop_graphs(c);
    }
    struct cuda_graph *g = &c->graph[c->n_graph];
    TRY(cuk_capture_begin(c->run));
    int code = queue_step(p);
    int end = cuk_capture_end(c->run, &g->graph);
    if (code != 0 || end != 0) {
        cuk_graph_free(end == 0 ? g->graph : NULL);
        return code != 0 ? code : end;
    }
    g->n_row = p->pad_row;
    g->n_item = p->n_item;
    g->whole = p->greedy;
    c->n_graph++;
    return cuk_graph_launch(g->graph, c->run);
}

/* ---------------------------------------------------------------- the pass */

static cag_status layer_ready(const struct pass *p, int l, cag_error *err)
{
    cag_status st = weights_cuda_need(p->c, l, err);

    for (int r = 0; !st && r < p->n_row; r++)
        if (r == 0 || p->row[r].kv != p->row[r - 1].kv)
            st = cuda_kv_ready((struct cuda_kv *)p->row[r].kv, l, err);
    return st;
}

/*
 * Layer by layer: waits for what arrives, progress, cancelling.  The host
 * stays at most two layers ahead, so that progress means something.
 */
static cag_status run_layers(const struct pass *p, cag_error *err)
{
    struct cuda *c = p->c;
    const struct forward_req *req = p->req;
    cag_status st;

    trace_cuda_start(c);
    st = weights_cuda_need(c, -1, err);
    if (!st)
        st = weights_cuda_need(c, 0, err);
    if (!st && queue_embed(p) != 0)
        st = cuda_fail(c, "the embedding", err);
    for (int l = 0; !st && l < c->n_layer; l++) {
        struct cuk_event *end = c->layer_end[l % 2];
        if (req->progress) {
            if (l >= 2 && cuk_event_sync(end) != 0)
                return cuda_fail(c, "a forward pass", err);
            if (!req->progress(req->ctx, c->base.layer0 + l, c->cfg->n_layer))
                return cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
        }
        st = layer_ready(p, l, err);
        /* the norm behind a layer's end belongs to the next one */
        if (!st)
            st = weights_cuda_need(c, l + 1, err);
        if (!st && (queue_layer(p, l) != 0 ||
                    trace_cuda_mark(c, CUDA_LAYER, l, c->run) != 0 ||
                    (req->progress && cuk_event_record(end, c->run) != 0)))
            st = cuda_fail(c, "a forward pass", err);
    }
    return st;
}

/* Rows from r on that want the same, at most CUDA_LOGIT_ROWS. */
static int wanted(const struct pass *p, int r)
{
    bool greedy = p->row[r].best != NULL;
    int n = 0;

    while (r + n < p->n_row && n < CUDA_LOGIT_ROWS && p->row[r + n].logits &&
           (p->row[r + n].best != NULL) == greedy)
        n++;
    return n;
}

/* Logits that were copied to the host, to their rows. */
static void hand_out(struct pass *p)
{
    size_t n_vocab = (size_t)p->c->cfg->n_vocab;

    for (int i = 0; i < p->n_held; i++)
        memcpy(p->row[p->held + i].logits,
               p->c->host_logits + (size_t)i * n_vocab,
               n_vocab * sizeof(float));
    p->n_held = 0;
}

/* Outcomes of all rows.  Logits come back a few rows at a time; the last of
 * them stay held until the pass is over. */
static cag_status queue_outcomes(struct pass *p, cag_error *err)
{
    struct cuda *c = p->c;
    int code = 0;

    for (int r = p->r0, n; code == 0 && r<p->n_row; r += n> 0 ? n : 1) {
        n = wanted(p, r);
        if (n == 0)
            continue;
        if (p->row[r].best) {
            code = queue_best(p, r, n);
            continue;
        }
        if (p->n_held > 0)
            code = cuk_stream_sync(c->run);
        if (code == 0)
            hand_out(p);
        if (code == 0)
            code = queue_head(p, r, n);
        if (code == 0)
            code =
                cuk_copy(c->run, CUK_FROM_DEV, c->host_logits, c->logits,
                         (size_t)n * (size_t)c->cfg->n_vocab * sizeof(float));
        p->held = r;
        p->n_held = n;
    }
    if (code == 0)
        code = queue_back(p);
    if (code == 0)
        code = trace_cuda_mark(c, CUDA_OUTCOME, 0, c->run);
    return code == 0 ? CAG_OK : cuda_fail(c, "the logits", err);
}

/* Wait for the pass; name the first layer and token that overflowed. */
static cag_status finish(struct pass *p, cag_error *err)
{
    struct cuda *c = p->c;
    const int32_t *best = c->host_back + (p->dev.best - p->dev.bad);
    size_t n_vocab = (size_t)c->cfg->n_vocab;

    if (cuk_stream_sync(c->run) != 0)
        return cuda_fail(c, "a forward pass", err);
    for (int l = 0; l < c->n_layer; l++) {
        int bad = c->host_back[l];
        if (bad >= p->n_row)
            continue;
        for (int r = 0; r < p->n_row; r++)
            ((struct cuda_kv *)p->row[r].kv)->overflowed = true;
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "layer %d, token %d: a key or value does not fit f16 "
                        "(above 65504 or not a number)",
                        c->base.layer0 + l, p->row[bad].pos);
    }
    hand_out(p);
    for (int r = p->r0; r < p->n_row; r++) {
        const struct forward_row *row = &p->row[r];
        bool ok = !row->logits ? true
                  : row->best  ? best[r] >= 0
                               : finite_all(row->logits, n_vocab);

        if (!ok)
            return finite_fail(c->cfg, row->pos, NULL, err);
        if (row->logits && row->best)
            *row->best = best[r];
    }
    return CAG_OK;
}

static cag_status start(struct pass *p, cag_error *err)
{
    cag_status st = CAG_OK;

    while (p->r0 < p->n_row && p->row[p->r0].logits == NULL)
        p->r0++;
    if (p->r0 == p->n_row)
        p->r0 = p->pad_row;
    p->greedy = p->r0 < p->n_row;
    for (int r = p->r0; r < p->n_row; r++)
        p->greedy = p->greedy && (!p->row[r].logits || p->row[r].best);
    for (int r = 0; !st && r < p->n_row; r++) {
        struct cuda_kv *kv = (struct cuda_kv *)p->row[r].kv;
        st = cuda_kv_clean(kv, err);
        if (kv->n_dirty <= p->row[r].pos)
            kv->n_dirty = p->row[r].pos + 1;
    }
    return st;
}

static cag_status run_pass(struct pass *p, cag_error *err)
{
    struct cuda *c = p->c;
    bool graph = p->step && settled(p);
    cag_status st;

    p->pad_row = graph ? padded_rows(p->n_row) : p->n_row;
    p->few = p->step && p->pad_row <= CUK_GEMV_ROWS;
    st = start(p, err);
    /* a step records all rows: its graph serves whatever is asked of it */
    if (graph && p->r0 != 0 && p->r0 < p->pad_row)
        p->r0 = 0;
    graph = graph && p->r0 == 0;
    if (!st)
        st = make_input(p, graph, err);
    if (st)
        return st;
    if (graph && run_graph(p) != 0)
        st = cuda_fail(c, "a step", err);
    else if (!graph && queue_input(p) != 0)
        st = cuda_fail(c, "a forward pass", err);
    else if (!graph)
        st = run_layers(p, err);
    if (!st && !(graph && p->greedy))
        st = queue_outcomes(p, err);
    if (!st)
        st = finish(p, err);
    else
        cuk_stream_sync(c->run); /* the input block is free again */
    return st;
}

static void settle(const struct pass *p)
{
    weights_cuda_settle(p->c, false);
    for (int r = 0; r < p->n_row; r++) {
        struct cuda_prefix *x = ((struct cuda_kv *)p->row[r].kv)->prefix;
        if (!x || !x->feed || !feed_done(x->feed))
            continue;
        feed_free(x->feed);
        x->feed = NULL;
    }
}

/* As many rows as one pass takes: of at most CUDA_STEP_ROWS timelines. */
static void take_rows(struct pass *p, int n)
{
    int most = p->step ? CUDA_STEP_ROWS : p->c->base.max_row;

    for (; p->n_row < n && p->n_row < most; p->n_row++) {
        bool other =
            p->n_row == 0 || p->row[p->n_row].kv != p->row[p->n_row - 1].kv;
        if (other && p->n_kv == CUDA_STEP_ROWS)
            break;
        p->n_kv += other;
    }
}

cag_status forward_cuda(struct backend *b, const struct forward_req *req,
                        cag_error *err)
{
    struct cuda *c = cuda_of(b);
    cag_status st = cuda_enter(c, err);

    for (int i = 0; !st && i < req->n_row;) {
        struct pass p = { .c = c,
                          .req = req,
                          .row = req->row + i,
                          .step = req->phase == FORWARD_STEP };
        if (req->x)
            p.x = req->x + (size_t)i * (size_t)c->cfg->d_model;
        take_rows(&p, req->n_row - i);
        st = run_pass(&p, err);
        if (!st)
            settle(&p);
        i += p.n_row;
    }
    return st;
}
