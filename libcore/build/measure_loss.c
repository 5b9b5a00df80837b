/*
 * measure_loss.c - see measure_loss.h.
 *
 * Rows and layers are shared out to threads whole, and each is summed in one
 * order, so the numbers do not depend on how many there are.
 */
#include "build/measure_loss.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/q8h_decode.h"
#include "kernels/kernels.h"
#include "engine/session.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_receipt.h"
#include "engine/loss_stats.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/note.h"

/* Logits of the second pass held at a time: fewer make the matrix products
 * slower (32: by a quarter), more win little. */
#define ROWS 64

int measure_loss_n(int n_tok)
{
    return n_tok / 2 < SESSION_PROBE ? n_tok / 2 : SESSION_PROBE;
}

uint64_t measure_loss_bytes(const struct build_job *j)
{
    return (uint64_t)(measure_loss_n((int)j->ids.n) + ROWS) *
           (uint64_t)j->model->config.n_vocab * sizeof(float);
}

cag_status measure_loss_init(struct receipt *r, struct build_job *j,
                             cag_engine *e, const cag_session *exact,
                             cag_error *err)
{
    const struct model_config *c = &j->model->config;
    size_t n;

    *r = (struct receipt){
        .j = j, .engine = e, .exact = exact, .n = measure_loss_n((int)j->ids.n)
    };
    if (r->n < 1)
        return cag_fail(err, CAG_E_UNSUPPORTED, j->o->output, -1,
                        "a prefix of %zu tokens is too short to measure what "
                        "codec %s loses; use --codec f16z",
                        j->ids.n, j->codec);
    if (mem_mul(&n, (size_t)r->n, (size_t)c->n_vocab))
        r->logits = mem_alloc_array(n, sizeof *r->logits);
    r->loss = mem_alloc_array((size_t)c->n_layer * 2, sizeof *r->loss);
    return r->logits && r->loss ? CAG_OK : cag_fail_nomem(err, "receipt");
}

void measure_loss_release(struct receipt *r)
{
    mem_free(r->logits);
    mem_free(r->loss);
    *r = (struct receipt){ 0 };
}

/* ------------------------------------------------------------ second pass */

struct pass {
    struct receipt *r;
    cag_session *session;
    float *logits;        /* [ROWS, n_vocab] */
    struct loss_row *row; /* [n] */
    int at;               /* first row of the block */
    atomic_int bad;       /* the first row that is not finite */
};

static void compare_rows(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct pass *p = ctx;
    const struct receipt *r = p->r;
    size_t n_vocab = (size_t)r->j->model->config.n_vocab;
    const int32_t *id = r->j->ids.id + r->j->ids.n - (size_t)r->n;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int row = p->at + (int)i, old;
        bool last = row == r->n - 1;

        if (loss_of_row(r->logits + (size_t)row * n_vocab,
                        p->logits + (size_t)i * n_vocab, (int)n_vocab,
                        last ? -1 : id[row + 1], &p->row[row]))
            continue;
        old = atomic_load(&p->bad);
        while (row < old && !atomic_compare_exchange_weak(&p->bad, &old, row))
            ;
    }
}

/* Says how far it is; false: the user has had enough. */
static bool go_on(const struct receipt *r, int done)
{
    const cag_hooks *h = &r->j->o->hooks;

    return note_progress(h, "receipt", CAG_UNIT_TOKENS, (uint64_t)done,
                         (uint64_t)r->n);
}

static cag_status cancelled(const struct receipt *r, cag_error *err)
{
    return cag_fail(err, CAG_E_CANCELLED, r->j->o->output, -1, "cancelled");
}

static bool watch_rows(void *ctx)
{
    const struct pass *p = ctx;

    return go_on(p->r, p->at);
}

/* A pass knows only its own tokens. */
static bool on_progress(void *ctx, const cag_progress *now)
{
    const struct pass *p = ctx;

    return go_on(p->r, p->at + (int)now->done);
}

static cag_status read_again(struct pass *p, int begin, cag_error *err)
{
    struct receipt *r = p->r;
    struct pool *pool = engine_pool(r->engine);
    const int32_t *id = r->j->ids.id + begin;
    cag_status st = CAG_OK;

    if (r->j->o->hooks.progress)
        cag_engine_set_progress(r->engine, on_progress, p);
    for (p->at = 0; p->at < r->n && !st; p->at += ROWS) {
        int n = r->n - p->at < ROWS ? r->n - p->at : ROWS;

        st = session_prefill_rows(p->session, id + p->at, n, p->logits, err);
        if (st)
            break;
        pool_watch(pool, watch_rows, p);
        pool_run(pool, compare_rows, p, n, 1);
        if (pool_cancelled(pool))
            st = cancelled(r, err);
        pool_watch(pool, NULL, NULL);
    }
    cag_engine_set_progress(r->engine, NULL, NULL);
    if (!st && atomic_load(&p->bad) < r->n)
        st = cag_fail(err, CAG_E_UNSUPPORTED, r->j->o->output, -1,
                      "the logits after token %d are not finite: what codec "
                      "%s loses cannot be measured; use --codec f16z",
                      begin + atomic_load(&p->bad), r->j->codec);
    return st;
}

static cag_status measure_rows(struct receipt *r, const cag_kvc *draft,
                               cag_kvc_receipt *out, cag_error *err)
{
    int n_vocab = r->j->model->config.n_vocab, n_tok = (int)r->j->ids.n;
    struct pass p = { .r = r };
    cag_prefix *prefix = NULL;
    cag_status st = CAG_OK;

    atomic_init(&p.bad, r->n);
    p.logits = mem_alloc_array((size_t)n_vocab, ROWS * sizeof *p.logits);
    p.row = mem_alloc_array((size_t)r->n, sizeof *p.row);
    if (!p.logits || !p.row)
        st = cag_fail_nomem(err, "receipt");
    if (!st)
        st = prefix_new_part(r->engine, draft, n_tok - r->n, &prefix, err);
    if (!st)
        st = cag_session_new(r->engine, prefix, n_tok, &p.session, err);
    if (!st)
        st = read_again(&p, n_tok - r->n, err);
    if (!st)
        loss_of_rows(p.row, r->n, r->n - 1, out);
    cag_session_free(p.session);
    cag_prefix_free(prefix);
    mem_free(p.row);
    mem_free(p.logits);
    return st;
}

/* ------------------------------------------------------------------ values */

struct values {
    struct receipt *r;
    const cag_kvc *draft;
    struct kvc_shape exact; /* chunks of one tile */
    size_t n;               /* elements of a tile */
    uint8_t **scratch;      /* [threads] an exact chunk, two f32 tiles */
    cag_status *st;         /* [n_layer] */
    cag_error *err;         /* [n_layer] */
    atomic_bool stop;
};

static size_t exact_bytes(const struct values *v)
{
    return (kvc_chunk_bytes(&v->exact, 0) + 63) & ~(size_t)63;
}

/* All heads of one tile: the first n_key positions. */
static cag_status compare_tile(const struct values *v, int tile,
                               const struct q8h_chunk *from, uint8_t *scratch,
                               struct loss_sum sum[2], cag_error *err)
{
    const struct kvc_shape *s = kvc_get_shape(v->draft);
    int per_chunk = s->chunk_tok / KVC_TILE, left = s->n_tok - tile * KVC_TILE;
    float *stored[2];
    cag_status st = session_export_chunk(v->r->exact, &v->exact, from->layer,
                                         tile, scratch, err);

    if (st)
        return st;
    stored[0] = (float *)(void *)(scratch + exact_bytes(v));
    stored[1] = stored[0] + v->n;
    /* positions after the last token are zero on both sides */
    memset(stored[0], 0, 2 * v->n * sizeof *stored[0]);
    for (int h = 0; h < s->n_kv_head; h++) {
        struct kv_pair to = { KV_F32, stored[0], stored[1] };

        st = q8h_tile(from, h, tile % per_chunk,
                      left < KVC_TILE ? left : KVC_TILE, &to, err);
        if (st)
            return st;
        for (int is_v = 0; is_v < 2; is_v++) {
            const uint8_t *x =
                scratch + kvc_tile_off(&v->exact, tile, is_v, h, 0);

            loss_add(&sum[is_v], x, stored[is_v], v->n);
        }
    }
    return CAG_OK;
}

/* A layer of a long text takes a while, so the caller's thread, which is 0,
 * looks after every tile. */
static cag_status compare_layer(struct values *v, int layer, int thread,
                                cag_error *err)
{
    const struct kvc_shape *s = kvc_get_shape(v->draft);
    int per_chunk = s->chunk_tok / KVC_TILE;
    struct loss_sum sum[2];
    struct q8h_chunk from = { s, NULL, layer, 0, v->r->j->o->output };
    cag_status st = CAG_OK;

    memset(sum, 0, sizeof sum);
    for (int t = 0; t < kvc_n_tile(s) && !st; t++) {
        from.chunk = t / per_chunk;
        if (t % per_chunk == 0)
            st = kvc_chunk_load(v->draft, layer, from.chunk, NULL, &from.raw,
                                err);
        if (!st)
            st = compare_tile(v, t, &from, v->scratch[thread], sum, err);
        if (thread == 0 && !go_on(v->r, v->r->n))
            atomic_store(&v->stop, true);
        if (!st && atomic_load(&v->stop))
            st = cancelled(v->r, err);
    }
    for (int is_v = 0; is_v < 2; is_v++)
        loss_of_sum(&sum[is_v], &v->r->loss[2 * layer + is_v]);
    return st;
}

static void compare_layers(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct values *v = ctx;

    for (int64_t l = begin; l < end; l++) {
        v->err[l] = (cag_error)CAG_ERROR_INIT;
        v->st[l] = compare_layer(v, (int)l, thread, &v->err[l]);
    }
}

static cag_status measure_values(struct receipt *r, const cag_kvc *draft,
                                 cag_error *err)
{
    struct pool *pool = engine_pool(r->engine);
    struct values v = { .r = r, .draft = draft, .exact = r->j->exact };
    int n_thread = pool_size(pool), n_layer = v.exact.n_layer;
    cag_status st = CAG_OK;

    atomic_init(&v.stop, false);
    v.exact.chunk_tok = KVC_TILE;
    v.n = kvc_tile_bytes(&v.exact) / (size_t)kvc_elem_bytes(&v.exact);
    v.scratch = mem_alloc_array((size_t)n_thread, sizeof *v.scratch);
    v.st = mem_alloc_array((size_t)n_layer, sizeof *v.st);
    v.err = mem_alloc_array((size_t)n_layer, sizeof *v.err);
    for (int i = 0; v.scratch && i < n_thread; i++) {
        v.scratch[i] =
            mem_alloc_aligned(64, exact_bytes(&v) + 2 * v.n * sizeof(float));
        if (!v.scratch[i])
            st = CAG_E_NOMEM;
    }
    if (st || !v.scratch || !v.st || !v.err)
        st = cag_fail_nomem(err, "receipt");
    else
        pool_run(pool, compare_layers, &v, n_layer, 1);
    for (int l = 0; l < n_layer && !st; l++)
        if (v.st[l])
            st = cag_error_copy(err, &v.err[l]);
    for (int i = 0; v.scratch && i < n_thread; i++)
        mem_free(v.scratch[i]);
    mem_free(v.scratch);
    mem_free(v.st);
    mem_free(v.err);
    return st;
}

/* ------------------------------------------------------------------- limit */

/* A round number above x, for a message. */
static double allow(double x)
{
    double unit = 1e-12;

    while (unit * 10 <= x)
        unit *= 10;
    for (int i = 2; i < 10; i++)
        if (unit * i >= x * 1.05)
            return unit * i;
    return unit * 10 >= x * 1.05 ? unit * 10 : unit * 20;
}

cag_status measure_loss(void *ctx, const cag_kvc *draft, cag_kvc_receipt *out,
                        cag_error *err)
{
    struct receipt *r = ctx;
    struct build_job *j = r->j;
    double start = clock_s();
    cag_status st;

    out->begin = (int64_t)j->ids.n - r->n;
    out->end = (int64_t)j->ids.n;
    st = measure_rows(r, draft, out, err);
    if (st)
        return st;
    j->r->has_receipt = true;
    j->r->receipt = *out;
    if (!(out->kl_mean <= j->max_loss))
        return cag_fail(err, CAG_E_LOSS, j->o->output, -1,
                        "codec %s loses too much here: a mean KL of %.3g nats "
                        "over the last %d tokens, --max-loss is %.3g; nothing "
                        "is written.  Use --codec f16z, which loses nothing, "
                        "or allow it with --max-loss %.1g",
                        j->codec, (double)out->kl_mean, r->n,
                        (double)j->max_loss, allow((double)out->kl_mean));
    st = measure_values(r, draft, err);
    out->loss = r->loss;
    j->r->receipt_s = clock_s() - start;
    return st;
}
