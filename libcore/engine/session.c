/*
 * session.c - one timeline: how long it is, and what may be appended.
 *
 * Positions, limits and the promise that a failed call leaves the length it
 * found are kept here; the arithmetic is the backend's.  A prompt goes down
 * in passes of at most engine->pass_rows rows, a step in passes of one row a
 * session; how the rows are cut never changes a result.
 */
#include "engine/session.h"

#include <limits.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/finite.h"
#include "kvc/kvc_read.h"
#include "util/error.h"
#include "util/mem.h"

static const struct backend_ops *ops_of(const cag_session *s)
{
    return s->engine->backend->ops;
}

static cag_status check_room(const cag_engine *e, const cag_prefix *prefix,
                             int max_tok, cag_error *err)
{
    const struct model_config *c = &e->model->config;

    if (max_tok < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "a session of %d tokens, expected at least 1", max_tok);
    if (prefix && max_tok < prefix->n_tok)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "a session of %d tokens cannot hold a cache of %d",
                        max_tok, prefix->n_tok);
    if (max_tok > c->n_ctx)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "a session of %d tokens, but the model's context is "
                        "%d",
                        max_tok, c->n_ctx);
    if (c->window > 0 && max_tok > c->window)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "a session of %d tokens is longer than the model's "
                        "sliding window of %d, which is not supported",
                        max_tok, c->window);
    return CAG_OK;
}

cag_status cag_session_new(cag_engine *e, cag_prefix *prefix, int max_tok,
                           cag_session **out, cag_error *err)
{
    cag_status st = check_room(e, prefix, max_tok, err);
    cag_session *s;

    if (st)
        return st;
    if (prefix && prefix->engine != e)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "the prefix belongs to another engine");
    s = mem_zalloc(sizeof *s);
    if (!s)
        return cag_fail_nomem(err, "session");
    s->engine = e;
    s->prefix = prefix;
    s->max_tok = max_tok;
    s->n_tok = prefix ? prefix->n_tok : 0;
    /* rows after the first are not touched before drafts need them */
    s->logits = mem_alloc_array((size_t)e->model->config.n_vocab,
                                CAG_STEP_MAX * sizeof *s->logits);
    if (!s->logits)
        st = cag_fail_nomem(err, "logits");
    else
        st = ops_of(s)->kv_new(e->backend, prefix ? prefix->impl : NULL,
                               max_tok, &s->kv, err);
    if (st) {
        cag_session_free(s);
        return st;
    }
    *out = s;
    return CAG_OK;
}

void cag_session_free(cag_session *s)
{
    if (!s)
        return;
    ops_of(s)->kv_free(s->kv);
    mem_free(s->view);
    session_set_mass(s, NULL, NULL);
    mem_free(s->logits);
    mem_free(s);
}

int cag_session_n_tok(const cag_session *s)
{
    return s->n_tok;
}

int session_max_tok(const cag_session *s)
{
    return s->max_tok;
}

cag_status cag_session_truncate(cag_session *s, int n_tok, cag_error *err)
{
    int least = s->prefix ? s->prefix->n_tok : 0;

    if (n_tok < least || n_tok > s->n_tok)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "cannot truncate to %d tokens, expected %d..%d", n_tok,
                        least, s->n_tok);
    session_mass_settle(s, n_tok);
    ops_of(s)->kv_truncate(s->kv, n_tok);
    s->n_tok = n_tok;
    return CAG_OK;
}

static cag_status check_id(const cag_session *s, int32_t id, cag_error *err)
{
    int n = s->engine->model->config.n_vocab;

    if (id >= 0 && id < n)
        return CAG_OK;
    return cag_fail(err, CAG_E_USAGE, NULL, -1, "token id %d, expected 0..%d",
                    (int)id, n - 1);
}

static cag_status check_append(const cag_session *s, int n, cag_error *err)
{
    if (n <= s->max_tok - s->n_tok)
        return CAG_OK;
    return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                    "%d more tokens do not fit: %d of %d are used", n, s->n_tok,
                    s->max_tok);
}

/* After a failed pass s is as before; values that are not finite may be its
 * cache's fault, which is looked at once for neighbours that share it. */
static cag_status undo(cag_session *s, const cag_prefix **seen, cag_status st,
                       cag_error *err)
{
    s->n_draft = 0;
    ops_of(s)->kv_truncate(s->kv, s->n_tok);
    if (!s->prefix || s->prefix == *seen)
        return st;
    *seen = s->prefix;
    return finite_blame(s->prefix->kvc, st, err);
}

/* ----------------------------------------------------------------- prefill */

struct prefill_progress {
    const cag_engine *e;
    int done, pass, total;
};

/* Tokens done, with a share of the running pass for its finished layers. */
static bool prefill_progress(void *ctx, int layer, int n_layer)
{
    const struct prefill_progress *p = ctx;
    uint64_t part = (uint64_t)p->pass * (uint64_t)layer / (uint64_t)n_layer;

    cag_progress now = { "prefill", CAG_UNIT_TOKENS, (uint64_t)p->done + part,
                         (uint64_t)p->total };

    return p->e->progress(p->e->progress_ctx, &now);
}

/* The next rows of prompts, from token *at of prompt *i on, which advance. */
static int prompt_rows(cag_engine *e, cag_step *step, int n, float *rows,
                       int *i, int *at)
{
    size_t n_vocab = (size_t)e->model->config.n_vocab;
    int row = 0;

    while (*i < n && row < e->pass_rows) {
        cag_step *p = &step[*i];
        int last = *at + 1 == p->n_ids;
        float *logits = rows                ? rows + (size_t)*at * n_vocab
                        : last && p->logits ? p->session->logits
                                            : NULL;

        e->row[row++] =
            (struct forward_row){ p->session->kv,
                                  p->session->n_tok + *at,
                                  p->ids[*at],
                                  logits,
                                  NULL,
                                  p->session->view,
                                  session_mass_prompt(p->session, *at) };
        if (p->greedy && logits)
            e->row[row - 1].best = p->best;
        *at = last ? 0 : *at + 1;
        *i += last;
    }
    return row;
}

/* Prompts whose logits are not NULL get them; rows, if not NULL, gets those
 * of every token of a single prompt. */
static cag_status prefill(cag_engine *e, cag_step *step, int n, int total,
                          float *rows, cag_error *err)
{
    struct prefill_progress progress = { e, 0, 0, total };
    struct forward_req req = { .phase = FORWARD_PROMPT,
                               .row = e->row,
                               .head = e->head,
                               .n_head = e->n_head };

    if (e->progress) {
        req.progress = prefill_progress;
        req.ctx = &progress;
    }
    for (int i = 0, at = 0; i < n; progress.done += req.n_row) {
        req.n_row = prompt_rows(e, step, n, rows, &i, &at);
        progress.pass = req.n_row;
        cag_status st = e->backend->ops->forward(e->backend, &req, err);
        if (st)
            return st;
    }
    if (e->progress) {
        cag_progress all = { "prefill", CAG_UNIT_TOKENS, (uint64_t)total,
                             (uint64_t)total };

        e->progress(e->progress_ctx, &all);
    }
    return CAG_OK;
}

static cag_status check_prompt(const cag_step *p, cag_error *err)
{
    cag_status st = CAG_OK;

    if (p->n_ids < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%d token ids, expected at least 1", p->n_ids);
    for (int i = 0; !st && i < p->n_ids; i++)
        st = check_id(p->session, p->ids[i], err);
    return !st ? check_append(p->session, p->n_ids, err) : st;
}

static cag_status run_prompts(cag_step *step, int n, float *rows,
                              cag_error *err)
{
    cag_engine *e = step[0].session->engine;
    const cag_prefix *seen = NULL;
    cag_status st = CAG_OK;
    int64_t total = 0;

    for (int i = 0; !st && i < n; i++) {
        st = check_prompt(&step[i], err);
        total += step[i].n_ids;
    }
    if (!st && total > INT32_MAX)
        st = cag_fail(err, CAG_E_LIMIT, NULL, -1, "%lld token ids at once",
                      (long long)total);
    if (st)
        return st;
    for (int i = 0; i < n; i++)
        session_mass_settle(step[i].session, INT_MAX);
    st = prefill(e, step, n, (int)total, rows, err);
    for (int i = 0; i < n; i++) {
        cag_session *s = step[i].session;

        if (st)
            st = undo(s, &seen, st, err);
        else
            s->n_tok += step[i].n_ids;
    }
    return st;
}

cag_status cag_session_prefill(cag_session *s, const int32_t *ids, int n_ids,
                               const float **logits, cag_error *err)
{
    cag_step step = { .session = s,
                      .ids = ids,
                      .n_ids = n_ids,
                      .logits = logits ? s->logits : NULL };
    cag_status st = run_prompts(&step, 1, NULL, err);

    if (!st && logits)
        *logits = s->logits;
    return st;
}

cag_status session_prefill_rows(cag_session *s, const int32_t *ids, int n_ids,
                                float *logits, cag_error *err)
{
    cag_step step = { .session = s, .ids = ids, .n_ids = n_ids };

    return run_prompts(&step, 1, logits, err);
}

/* -------------------------------------------------------------------- step */

/* Two ways to say what a step appends. */
struct steps {
    cag_session *const *session; /* with id: one token each */
    const int32_t *id;
    cag_step *step; /* or NULL */
    int n;
};

static cag_session *session_at(const struct steps *a, int i)
{
    return a->step ? a->step[i].session : a->session[i];
}

static const int32_t *ids_at(const struct steps *a, int i, int *n)
{
    *n = a->step ? a->step[i].n_ids : 1;
    return a->step ? a->step[i].ids : &a->id[i];
}

static cag_status check_one(cag_session *s, const int32_t *id, int n,
                            cag_error *err)
{
    cag_status st = CAG_OK;

    if (n < 1 || n > CAG_STEP_MAX)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "a step of %d tokens of one session, expected 1..%d", n,
                        CAG_STEP_MAX);
    for (int i = 0; !st && i < n; i++)
        st = check_id(s, id[i], err);
    return !st ? check_append(s, n, err) : st;
}

static cag_status check_sessions(const struct steps *a, cag_error *err)
{
    if (a->n < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "a step of %d sessions, expected at least 1", a->n);
    cag_engine *e = session_at(a, 0)->engine;
    uint64_t stamp = ++e->stamp;
    for (int i = 0; i < a->n; i++) {
        cag_session *s = session_at(a, i);

        if (s->engine != e)
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "the sessions of a step belong to different "
                            "engines");
        if (s->stamp == stamp)
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "a session appears twice in one step");
        s->stamp = stamp;
    }
    return CAG_OK;
}

static cag_status check_step(const struct steps *a, cag_error *err)
{
    cag_status st = check_sessions(a, err);

    for (int i = 0; !st && i < a->n; i++) {
        int n;
        const int32_t *id = ids_at(a, i, &n);

        st = check_one(session_at(a, i), id, n, err);
    }
    return st;
}

/* Do the rows of both read the same tiles? */
static bool same_keys(const cag_session *a, const cag_session *b)
{
    return a->prefix == b->prefix && kv_view_same(a->view, b->view);
}

/*
 * Rows of sessions [i0, i1), those of one prefix and view side by side.
 * Quadratic in the number of these, which is one or two.
 */
static void step_rows(cag_engine *e, const struct steps *a, int i0, int i1)
{
    size_t n_vocab = (size_t)e->model->config.n_vocab;
    int row = 0;

    for (int i = i0; i < i1; i++) {
        const cag_session *lead = session_at(a, i);
        bool first = true;

        for (int j = i0; j < i && first; j++)
            first = !same_keys(session_at(a, j), lead);
        for (int j = i; first && j < i1; j++) {
            cag_session *s = session_at(a, j);
            int n;
            const int32_t *id = ids_at(a, j, &n);
            int32_t *best =
                a->step && a->step[j].greedy ? a->step[j].best : NULL;

            for (int t = 0; t < n && same_keys(s, lead); t++)
                e->row[row++] =
                    (struct forward_row){ s->kv,
                                          s->n_tok + t,
                                          id[t],
                                          s->logits + (size_t)t * n_vocab,
                                          best ? best + t : NULL,
                                          s->view,
                                          session_mass_row(s, t) };
        }
    }
}

/* The first session after i0 whose rows do not fit a pass any more. */
static int pass_end(const cag_engine *e, const struct steps *a, int i0,
                    int *n_row)
{
    int i = i0, n;

    for (*n_row = 0; i < a->n; i++, *n_row += n) {
        ids_at(a, i, &n);
        if (*n_row + n > e->backend->max_row)
            break;
    }
    return i;
}

static cag_status step(const struct steps *a, cag_error *err)
{
    cag_status st = check_step(a, err);

    if (st)
        return st;
    cag_engine *e = session_at(a, 0)->engine;
    const cag_prefix *seen = NULL;
    struct forward_req req = { .phase = FORWARD_STEP,
                               .row = e->row,
                               .head = e->head,
                               .n_head = e->n_head };

    for (int i = 0; i < a->n; i++)
        session_mass_settle(session_at(a, i), INT_MAX);
    for (int i = 0, next; !st && i < a->n; i = next) {
        next = pass_end(e, a, i, &req.n_row);
        step_rows(e, a, i, next);
        st = e->backend->ops->forward(e->backend, &req, err);
    }
    for (int i = 0, n; i < a->n; i++) {
        cag_session *s = session_at(a, i);

        ids_at(a, i, &n);
        if (st)
            st = undo(s, &seen, st, err);
        else
            s->n_tok += n;
    }
    return st;
}

cag_status cag_session_step(cag_session *const *s, const int32_t *id, int n,
                            const float **logits, cag_error *err)
{
    struct steps a = { s, id, NULL, n };
    cag_status st = step(&a, err);

    for (int i = 0; !st && i < n; i++)
        logits[i] = s[i]->logits;
    return st;
}

cag_status cag_session_verify(cag_step *steps, int n, cag_error *err)
{
    struct steps a = { NULL, NULL, steps, n };
    cag_status st = step(&a, err);

    for (int i = 0; !st && i < n; i++)
        steps[i].logits = steps[i].greedy ? NULL : steps[i].session->logits;
    return st;
}

cag_status cag_session_prefill_many(cag_step *step, int n, cag_error *err)
{
    struct steps a = { NULL, NULL, step, n };
    cag_status st = check_sessions(&a, err);

    for (int i = 0; !st && i < n; i++)
        step[i].logits = step[i].session->logits;
    if (!st)
        st = run_prompts(step, n, NULL, err);
    for (int i = 0; i < n; i++)
        if (step[i].greedy)
            step[i].logits = NULL;
    return st;
}

/* --------------------------------------------------------- export, import */

static cag_status no_q8h(const cag_session *s, cag_error *err)
{
    return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                    "codec q8h is not built on device %s; use --device cpu",
                    ops_of(s)->name);
}

cag_status session_gather(cag_session *s, int from, cag_error *err)
{
    if (s->n_tok > from)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "position %d was computed already", from);
    if (ops_of(s)->kv_gather == NULL)
        return no_q8h(s, err);
    return ops_of(s)->kv_gather(s->kv, from, err);
}

cag_status session_balance(cag_session *s, cag_error *err)
{
    if (ops_of(s)->kv_balance == NULL)
        return no_q8h(s, err);
    return ops_of(s)->kv_balance(s->kv, s->n_tok, err);
}

cag_status session_export_chunk(const cag_session *s,
                                const struct kvc_shape *shape, int layer,
                                int chunk, uint8_t *dst, cag_error *err)
{
    if (shape->n_layer != s->engine->model->config.n_layer ||
        shape->n_tok > s->n_tok || layer < 0 || layer >= shape->n_layer ||
        chunk < 0 || chunk >= kvc_n_chunk(shape))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "chunk %d of layer %d of %d tokens asked of a "
                        "session of %d",
                        chunk, layer, shape->n_tok, s->n_tok);
    return ops_of(s)->kv_export(s->kv, shape, layer, chunk, dst, err);
}

cag_status session_import(cag_session *s, const cag_kvc *k, int n_tok,
                          cag_error *err)
{
    if (s->n_tok != 0 || s->prefix || n_tok < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "import of %d tokens into a session of %d", n_tok,
                        s->n_tok);
    int n_layer = s->engine->model->config.n_layer;
    cag_status st = check_append(s, n_tok, err);
    if (!st && kvc_get_shape(k)->n_layer != n_layer)
        st = cag_fail(err, CAG_E_MISMATCH, cag_kvc_get_info(k)->path, -1,
                      "the cache is of %d layers, the model of %d",
                      kvc_get_shape(k)->n_layer, n_layer);
    if (!st)
        st = ops_of(s)->kv_import(s->kv, k, n_tok, err);
    if (st) {
        ops_of(s)->kv_truncate(s->kv, 0);
        return st;
    }
    s->n_tok = n_tok;
    return CAG_OK;
}
