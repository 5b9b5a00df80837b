/*
 * forward_cuda.c - one pass of the transformer on a GPU.
 *
 * Everything of a pass is queued at once; the host waits once, at its end, for
 * the first row (per layer) whose K or V did not fit f16 and for what was
 * asked: a greedy row's next id, chosen on the device, or a row's logits.
 * While weights or a cache are still arriving, each layer first waits for its
 * own.  A step whose parts have all arrived is recorded as a graph, one for
 * each (rows, items), and replayed: all addresses are fixed, what changes is
 * in the input block.  With greedy rows only, a step is one launch of a graph
 * and one wait.
 */
#include "engine/cuda/pass_cuda.h"

#include <limits.h>
#include <string.h>

#include "engine/finite.h"

/* ------------------------------------------------------------------ graphs */

/* Empty rows up to a size that graphs are made for. */
static int padded_rows(int n)
{
    return n <= CUK_GEMV_ROWS ? n : (n + 7) & ~7;
}

/* Everything that a recorded step would have to wait for is there. */
static bool settled(const struct pass_cuda *p)
{
    if (p->c->load)
        return false;
    for (int r = 0; r < p->n_row; r++)
        if (!cuda_kv_settled((const struct cuda_kv *)p->row[r].kv))
            return false;
    return true;
}

/* A step as it is recorded: greedy ones whole, empty rows included. */
static int queue_step(const struct pass_cuda *p)
{
    CUDA_TRY(pass_cuda_queue_input(p));
    CUDA_TRY(pass_cuda_queue_embed(p));
    for (int l = 0; l < p->c->n_layer; l++)
        CUDA_TRY(pass_cuda_queue_layer(p, l));
    if (!p->greedy)
        return 0;
    for (int k = 0, n; k < p->n_want; k += n) {
        n = p->n_want - k < CUDA_HEAD_ROWS ? p->n_want - k : CUDA_HEAD_ROWS;
        CUDA_TRY(pass_cuda_queue_best(p, k, n));
    }
    return pass_cuda_queue_back(p);
}

/*
 * Replay the step's graph; the first time, record it.  A driver that does not
 * take a call in a capture (one before 12.3 loads no kernel there) has run it
 * by the next time: this time the step runs unrecorded.
 */
static int run_graph(const struct pass_cuda *p)
{
    struct cuda *c = p->c;
    struct cuda_step_shape shape;

    memset(&shape, 0, sizeof shape); /* compared as bytes */
    shape.n_row = p->pad_row;
    shape.n_item = p->n_item;
    shape.n_word = p->n_word;
    shape.n_run = p->n_run;
    shape.n_head = p->n_head;
    shape.n_tile = p->n_tile;
    shape.operand = p->c->operand;
    shape.whole = p->greedy;
    for (int i = 0; i < c->n_graph; i++)
        if (memcmp(&c->graph[i].shape, &shape, sizeof shape) == 0)
            return cuk_graph_launch(c->graph[i].graph, c->run);
    if (c->n_graph == CUDA_MAX_GRAPH) {
        CUDA_TRY(cuk_stream_sync(c->run));
        cuda_drop_graphs(c);
    }
    struct cuda_graph *g = &c->graph[c->n_graph];
    CUDA_TRY(cuk_capture_begin(c->run));
    int code = queue_step(p);
    int end = cuk_capture_end(c->run, &g->graph);
    if (code != 0 || end != 0) {
        cuk_graph_free(end == 0 ? g->graph : NULL);
        code = code != 0 ? code : end;
        if (!cuk_capture_refused(code))
            return code;
        cuk_clear(c->dev);
        return queue_step(p);
    }
    memcpy(&g->shape, &shape, sizeof shape);
    c->n_graph++;
    return cuk_graph_launch(g->graph, c->run);
}

/* ---------------------------------------------------------------- the pass */

static cag_status layer_ready(const struct pass_cuda *p, int l, cag_error *err)
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
static cag_status run_layers(const struct pass_cuda *p, cag_error *err)
{
    struct cuda *c = p->c;
    const struct forward_req *req = p->req;
    cag_status st;

    trace_cuda_start(c);
    st = weights_cuda_need(c, -1, err);
    if (!st)
        st = weights_cuda_need(c, 0, err);
    if (!st && pass_cuda_queue_embed(p) != 0)
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
        /* the norm after a layer's end belongs to the next one */
        if (!st)
            st = weights_cuda_need(c, l + 1, err);
        if (!st && (pass_cuda_queue_layer(p, l) != 0 ||
                    trace_cuda_mark(c, CUDA_LAYER, l, c->run) != 0 ||
                    (req->progress && cuk_event_record(end, c->run) != 0)))
            st = cuda_fail(c, "a forward pass", err);
    }
    return st;
}

/* The row of an outcome; of a step's empty rows NULL. */
static const struct forward_row *wanted(const struct pass_cuda *p, int k)
{
    int r = p->host.want[k];

    return r < p->n_row && r >= p->r0 && p->row[r].logits ? &p->row[r] : NULL;
}

/* Outcomes from k on of one kind, at most CUDA_HEAD_ROWS. */
static int run_of(const struct pass_cuda *p, int k)
{
    const struct forward_row *first = wanted(p, k), *row;
    int n = 0;

    while (first && k + n < p->n_want && n < CUDA_HEAD_ROWS &&
           (row = wanted(p, k + n)) != NULL && !row->best == !first->best)
        n++;
    return n;
}

/* Logits that were copied to the host, to their rows. */
static void hand_out(struct pass_cuda *p)
{
    size_t n_vocab = (size_t)p->c->cfg->n_vocab;

    for (int i = 0; i < p->n_held; i++)
        memcpy(wanted(p, p->held + i)->logits,
               p->c->host_logits + (size_t)i * n_vocab,
               n_vocab * sizeof(float));
    p->n_held = 0;
}

/* Logits of outcomes [k, k + n) to the host, a few rows at a time; the last of
 * them stay held until the pass is over. */
static int fetch_logits(struct pass_cuda *p, int k, int n)
{
    struct cuda *c = p->c;
    size_t n_vocab = (size_t)c->cfg->n_vocab;

    CUDA_TRY(pass_cuda_queue_head(p, k, n));
    for (int i = 0, m; i < n; i += m) {
        m = n - i < CUDA_LOGIT_ROWS ? n - i : CUDA_LOGIT_ROWS;
        if (p->n_held > 0)
            CUDA_TRY(cuk_stream_sync(c->run));
        hand_out(p);
        CUDA_TRY(cuk_copy(c->run, CUK_FROM_DEV, c->host_logits,
                          c->logits + (size_t)i * n_vocab,
                          (size_t)m * n_vocab * sizeof(float)));
        p->held = k + i;
        p->n_held = m;
    }
    return 0;
}

/* Outcomes of all rows. */
static cag_status queue_outcomes(struct pass_cuda *p, cag_error *err)
{
    struct cuda *c = p->c;
    int code = 0;

    for (int k = 0, n; code == 0 && k<p->n_want; k += n> 0 ? n : 1) {
        n = run_of(p, k);
        if (n > 0)
            code = wanted(p, k)->best ? pass_cuda_queue_best(p, k, n)
                                      : fetch_logits(p, k, n);
    }
    if (code == 0)
        code = pass_cuda_queue_back(p);
    if (code == 0)
        code = trace_cuda_mark(c, CUDA_OUTCOME, 0, c->run);
    return code == 0 ? CAG_OK : cuda_fail(c, "the logits", err);
}

/* Wait for the pass; name the first layer and token that overflowed. */
static cag_status finish(struct pass_cuda *p, cag_error *err)
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
    for (int k = 0; k < p->n_want; k++) {
        const struct forward_row *row = wanted(p, k);
        bool ok = !row        ? true
                  : row->best ? best[k] >= 0
                              : finite_all(row->logits, n_vocab);

        if (!ok)
            return finite_fail(c->cfg, row->pos, NULL, err);
        if (row && row->best)
            *row->best = best[k];
    }
    pass_cuda_add_mass(p);
    return CAG_OK;
}

static cag_status start(struct pass_cuda *p, cag_error *err)
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

static cag_status run_pass(struct pass_cuda *p, cag_error *err)
{
    struct cuda *c = p->c;
    bool graph = p->step && settled(p);
    cag_status st;

    p->pad_row = graph ? padded_rows(p->n_row) : p->n_row;
    p->few = p->step && p->pad_row <= cuda_few_rows(&c->layer[0].mat[WQ]);
    st = start(p, err);
    /* a step records all rows: its graph serves whatever is asked of it */
    if (graph && p->r0 != 0 && p->r0 < p->pad_row)
        p->r0 = 0;
    graph = graph && p->r0 == 0;
    if (!st)
        st = pass_cuda_input(p, graph, err);
    if (st)
        return st;
    if (graph && run_graph(p) != 0)
        st = cuda_fail(c, "a step", err);
    else if (!graph && pass_cuda_queue_input(p) != 0)
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

static void settle(const struct pass_cuda *p)
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

/* As many rows as one pass takes: of at most CUDA_STEP_ROWS timelines, and of
 * more than one sum only while all come back in CUDA_MASS_FLOATS. */
static void take_rows(struct pass_cuda *p, int n)
{
    int most = p->step ? CUDA_STEP_ROWS : p->c->base.max_row;
    int64_t floats = 0;

    for (; p->n_row < n && p->n_row < most; p->n_row++) {
        const struct forward_row *row = &p->row[p->n_row];
        bool other = p->n_row == 0 || row->kv != row[-1].kv;
        int64_t more = 0;

        if (row->mass && pass_cuda_new_run(p->row, p->n_row))
            more = (int64_t)p->req->n_head *
                   ((const struct cuda_kv *)row->kv)->n_prefix;
        if ((other && p->n_kv == CUDA_STEP_ROWS) ||
            (floats > 0 && floats + more > CUDA_MASS_FLOATS))
            break;
        p->n_kv += other;
        floats += more;
    }
}

/* The pass of the request's rows from i on; *n of them. */
static cag_status pass_from(struct cuda *c, const struct forward_req *req,
                            int i, int *n, cag_error *err)
{
    struct pass_cuda p = { .c = c,
                           .req = req,
                           .row = req->row + i,
                           .step = req->phase == FORWARD_STEP };
    cag_status st;

    if (req->x)
        p.x = req->x + (size_t)i * (size_t)c->cfg->d_model;
    take_rows(&p, req->n_row - i);
    st = run_pass(&p, err);
    if (!st)
        settle(&p);
    *n = p.n_row;
    return st;
}

/*
 * Activations beyond f16 are infinite as operands, so what they lead to, K, V
 * or logits, is not finite: such a pass runs again with the range of bf16.
 * Each for itself, so that the numbers do not depend on what came before.
 */
static cag_status pass_again(struct cuda *c, const struct forward_req *req,
                             int i, int *n, cag_error *err)
{
    cag_status st;

    for (int r = i + *n - 1; r >= i; r--)
        cuda_kv_truncate(req->row[r].kv, req->row[r].pos);
    c->operand = KT_BF16;
    st = pass_from(c, req, i, n, err);
    c->operand = KT_F16;
    return st;
}

cag_status forward_cuda(struct backend *b, const struct forward_req *req,
                        cag_error *err)
{
    struct cuda *c = cuda_of(b);
    cag_status st = cuda_enter(c, err);

    for (int i = 0, n; !st && i < req->n_row; i += n) {
        st = pass_from(c, req, i, &n, err);
        if (st == CAG_E_UNSUPPORTED && c->operand == KT_F16)
            st = pass_again(c, req, i, &n, err);
    }
    return st;
}
