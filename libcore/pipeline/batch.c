/*
 * batch.c - many questions on one cache, decoded together.
 *
 * A window of rows slides over the input.  Up to `parallel` of them are
 * running turns that step together over the one prefix; as soon as one ends,
 * the next row takes its place.  Rows leave in input order (or as they end,
 * unordered), so memory is bounded by the window whatever the input's length.
 * An answer does not depend on its neighbours (session.h), so none of this
 * changes a byte of it.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/kb.h"
#include "pipeline/notes.h"
#include "pipeline/row.h"
#include "pipeline/turn.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

#define MAX_PARALLEL 256

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_WAITING, SLOT_DONE };

struct slot {
    enum slot_state state;
    struct row      row;
    struct turn     turn;
    struct buf      out;         /* the finished row                        */
    int             twin;        /* slot whose answer this one waits for    */
    char            key[17];
};

/* Rows of an earlier, interrupted run, by line number. */
struct done_rows {
    struct done_row { int64_t line; const char *text; size_t size; } *v;
    size_t n;
};

struct batch {
    cag_kb               *kb;
    const cag_batch_opts *o;
    cag_line_fn           in;
    cag_row_fn            out;
    void                 *ctx;
    cag_batch_report     *r;
    struct slot          *slot;     /* [n_slot], a ring                     */
    int                   n_slot, head, n_used, n_running, parallel;
    int64_t               line;
    bool                  jsonl_in, jsonl_out, know_format, end, stop;
    struct done_rows      done;
    cag_session         **step_s;   /* [parallel] scratch of a step         */
    int32_t              *step_id;
    const float         **step_logits;
    int                  *step_slot;
};

/* ---------------------------------------------------------------- resume */

static int64_t line_of(const jv *row)
{
    return jv_type(row) == JV_OBJECT ? jv_get_int(row, "line", 0) : 0;
}

static int by_line(const void *a, const void *b)
{
    const struct done_row *x = a, *y = b;

    return (x->line > y->line) - (x->line < y->line);
}

static cag_status load_done(struct batch *b, cag_error *err)
{
    const char *p = b->o->done, *end = p ? p + b->o->done_size : NULL;
    size_t cap = 0;

    while (p && p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        jv *row = NULL;

        if (!nl)
            break;                  /* a torn last line is not a row */
        if (jv_parse(p, (size_t)(nl - p), NULL, &row, NULL) == CAG_OK &&
            line_of(row) > 0 && !jv_get(row, "error")) {
            if (b->done.n == cap) {
                size_t more = cap ? 2 * cap : 256;
                void *v = mem_realloc(b->done.v, more * sizeof *b->done.v);

                if (!v) {
                    jv_free(row);
                    return cag_fail_nomem(err, "rows to resume");
                }
                b->done.v = v;
                cap = more;
            }
            b->done.v[b->done.n++] = (struct done_row){
                line_of(row), p, (size_t)(nl + 1 - p)
            };
        }
        jv_free(row);
        p = nl + 1;
    }
    if (b->done.n)
        qsort(b->done.v, b->done.n, sizeof *b->done.v, by_line);
    return CAG_OK;
}

static bool same_json(const jv *a, const jv *b)
{
    struct buf x = BUF_INIT, y = BUF_INIT;
    bool same;

    if (!a || !b)
        return a == b;
    jv_dump(a, &x);
    jv_dump(b, &y);
    same = !buf_failed(&x) && !buf_failed(&y) && x.size == y.size &&
           !memcmp(x.data, y.data, x.size);
    buf_free(&x);
    buf_free(&y);
    return same;
}

/* The row as an earlier run answered it, or NULL: id, question, cache and
 * options must all be equal. */
static const struct done_row *find_done(const struct batch *b,
                                        const struct slot *s)
{
    struct done_row want = { s->row.line, NULL, 0 }, *d;
    jv *row = NULL;
    size_t n = 0;
    const char *q;
    bool same;

    d = b->done.n ? bsearch(&want, b->done.v, b->done.n, sizeof want,
                            by_line) : NULL;
    if (!d || jv_parse(d->text, d->size - 1, NULL, &row, NULL))
        return NULL;
    q = jv_str(jv_get(row, "question"), &n);
    same = q && n == s->row.size && !memcmp(q, s->row.question, n) &&
           !strcmp(jv_get_str(row, "options", ""), s->key) &&
           same_json(jv_get(row, "id"), jv_get(s->row.input, "id")) &&
           same_json(jv_get(row, "custom_id"),
                     jv_get(s->row.input, "custom_id"));
    jv_free(row);
    return same ? d : NULL;
}

/* ------------------------------------------------------------------ rows */

static struct slot *slot_at(struct batch *b, int i)
{
    return &b->slot[(b->head + i) % b->n_slot];
}

/* Write the finished row of s. */
static cag_status complete(struct batch *b, struct slot *s,
                           const cag_answer *a, cag_error *err)
{
    cag_status st = CAG_OK;

    if (b->jsonl_out)
        st = row_write(b->kb, &s->row, a, s->key, &s->out, err);
    else
        row_write_text(s->row.error.status ? NULL : a, &s->out);
    if (!st && buf_failed(&s->out))
        st = cag_fail_nomem(err, "row");
    s->state = SLOT_DONE;
    return st;
}

static cag_status fail_row(struct batch *b, struct slot *s,
                           const cag_error *why, cag_error *err)
{
    char msg[sizeof why->msg];

    memcpy(msg, why->msg, sizeof msg);
    cag_fail(&s->row.error, why->status, NULL, -1, "line %lld: %s",
             (long long)s->row.line, msg);
    return complete(b, s, NULL, err);
}

/* Errors of one row; all others end the batch. */
static bool is_row_error(cag_status st)
{
    return st == CAG_E_FORMAT || st == CAG_E_LIMIT || st == CAG_E_USAGE;
}

static cag_status finish_turn(struct batch *b, struct slot *s, cag_error *err)
{
    cag_answer a;
    cag_status st = turn_finish(&s->turn, &a, err);

    if (st)
        return st;
    b->n_running--;
    b->r->n_generated += a.n_generated;
    st = complete(b, s, &a, err);
    /* equal greedy questions are answered once */
    for (int i = 0; i < b->n_used && !st; i++) {
        struct slot *t = slot_at(b, i);

        if (t->state == SLOT_WAITING && &b->slot[t->twin] == s)
            st = complete(b, t, &a, err);
    }
    cag_answer_release(&a);
    return st;
}

static bool same_params(const cag_ask_params *p, const cag_ask_params *q)
{
    if (p->max_tok != q->max_tok || p->n_stop != q->n_stop)
        return false;
    for (int i = 0; i < p->n_stop; i++)
        if (strcmp(p->stop[i], q->stop[i]))
            return false;
    return true;
}

/* A running row with the same question, or -1. */
static int find_twin(const struct batch *b, const struct slot *s)
{
    if (s->row.params.sampling.temperature > 0)
        return -1;
    for (int i = 0; i < b->n_slot; i++) {
        const struct slot *t = &b->slot[i];

        if (t != s && t->state == SLOT_RUNNING && t->row.size == s->row.size &&
            !memcmp(t->row.question, s->row.question, s->row.size) &&
            same_params(&t->row.params, &s->row.params))
            return i;
    }
    return -1;
}

static cag_status start_row(struct batch *b, struct slot *s, cag_error *err)
{
    cag_ids ids = CAG_IDS_INIT;
    cag_error why = CAG_ERROR_INIT;
    const struct done_row *d;
    cag_status st;

    if (s->row.error.status)
        return complete(b, s, NULL, err);
    st = row_options_key(b->kb, &s->row.params, s->key, err);
    if (st)
        return st;
    if (b->o->check_only) {
        cag_prompt_view v;

        st = cag_kb_prompt(b->kb, s->row.question, s->row.size,
                           s->row.params.think, &v, &why);
        if (!st && v.room < 1)
            st = cag_fail(&why, CAG_E_LIMIT, NULL, -1,
                          "the question does not fit: %lld tokens of "
                          "knowledge + %lld of question, the context has "
                          "%lld", (long long)v.n_cached,
                          (long long)v.n_prompt, (long long)b->kb->n_ctx);
        cag_free(v.text);
        if (st && !is_row_error(st))
            return cag_error_copy(err, &why);
        if (st)
            return fail_row(b, s, &why, err);
        s->state = SLOT_DONE;
        return CAG_OK;
    }
    d = find_done(b, s);
    if (d) {
        buf_add(&s->out, d->text, d->size);
        s->state = SLOT_DONE;
        b->r->n_resumed++;
        return buf_failed(&s->out) ? cag_fail_nomem(err, "row") : CAG_OK;
    }
    s->twin = find_twin(b, s);
    if (s->twin >= 0) {
        s->state = SLOT_WAITING;
        return CAG_OK;
    }
    st = prompt_question_encode(&b->kb->tail, b->kb->tok, s->row.question,
                                s->row.size, s->row.params.think, &ids, &why);
    if (!st) {
        b->r->n_prompt += (int64_t)ids.n;
        st = turn_start(&s->turn, b->kb, ids.id, ids.n, &s->row.params, NULL,
                        NULL, &why);
    }
    cag_ids_free(&ids);
    if (st)
        return is_row_error(st) ? fail_row(b, s, &why, err)
                                : cag_error_copy(err, &why);
    s->state = SLOT_RUNNING;
    b->n_running++;
    return s->turn.finish ? finish_turn(b, s, err) : CAG_OK;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

/* Read rows until enough are running or the window is full. */
static cag_status fill(struct batch *b, cag_error *err)
{
    cag_status st = CAG_OK;

    while (!st && !b->end && !b->stop && b->n_running < b->parallel &&
           b->n_used < b->n_slot) {
        struct slot *s = slot_at(b, b->n_used);
        cag_error why = CAG_ERROR_INIT;
        size_t size;
        const char *text = b->in(b->ctx, &size, &why);

        if (!text) {
            b->end = true;
            st = why.status ? cag_error_copy(err, &why) : CAG_OK;
            break;
        }
        b->line++;
        if (size && text[size - 1] == '\r')
            size--;
        if (is_blank(text, size))
            continue;
        if (!b->know_format) {
            b->know_format = true;
            b->jsonl_in = text[0] == '{';
            b->jsonl_out = b->o->format ? b->o->format == 2 : b->jsonl_in;
        }
        st = row_parse(&s->row, text, size, b->line, b->jsonl_in,
                       &b->o->params, err);
        if (st)
            break;
        b->n_used++;
        b->r->n_row++;
        s->state = SLOT_WAITING;
        s->twin = -1;
        st = start_row(b, s, err);
        /* rows that are done at once should not wait for a full window */
        if (!st && s->state == SLOT_DONE)
            break;
    }
    return st;
}

static cag_status step(struct batch *b, cag_error *err)
{
    cag_status st;
    int n = 0;

    for (int i = 0; i < b->n_slot; i++)
        if (b->slot[i].state == SLOT_RUNNING) {
            b->step_s[n] = b->slot[i].turn.session;
            b->step_id[n] = b->slot[i].turn.next;
            b->step_slot[n++] = i;
        }
    if (!n)
        return CAG_OK;
    st = cag_session_step(b->step_s, b->step_id, n, b->step_logits, err);
    for (int i = 0; i < n && !st; i++) {
        struct slot *s = &b->slot[b->step_slot[i]];

        st = turn_advance(&s->turn, b->step_logits[i], err);
        if (!st && s->turn.finish)
            st = finish_turn(b, s, err);
    }
    return st;
}

static cag_status emit(struct batch *b, struct slot *s, cag_error *err)
{
    bool failed = s->row.error.status != CAG_OK;
    cag_status st = CAG_OK;

    b->r->n_failed += failed;
    b->r->n_ok += !failed;
    if (failed)
        note(&b->kb->hooks, CAG_NOTE_WARN, "%s", s->row.error.msg);
    if (s->out.size)
        st = b->out(b->ctx, s->out.data, s->out.size, failed, err);
    if (failed && b->o->fail_fast)
        b->stop = true;
    row_release(&s->row);
    buf_free(&s->out);
    memset(s, 0, sizeof *s);
    return st;
}

/* Rows leave at the head; unordered ones as soon as they are done. */
static cag_status drain(struct batch *b, cag_error *err)
{
    cag_status st = CAG_OK;

    for (int i = 0; b->o->unordered && i < b->n_used && !st && !b->stop; i++)
        if (slot_at(b, i)->state == SLOT_DONE)
            st = emit(b, slot_at(b, i), err);
    while (!st && !b->stop && b->n_used) {
        struct slot *s = slot_at(b, 0);

        if (s->state == SLOT_DONE)
            st = emit(b, s, err);
        else if (s->state != SLOT_FREE)
            break;
        b->head = (b->head + 1) % b->n_slot;
        b->n_used--;
    }
    return st;
}

static cag_status set_up(struct batch *b, cag_error *err)
{
    int threads = b->kb->engine ? cag_engine_n_thread(b->kb->engine) : 1;

    b->parallel = b->o->parallel ? b->o->parallel : 8 * threads;
    if (b->parallel > MAX_PARALLEL)
        b->parallel = MAX_PARALLEL;
    b->n_slot = 4 * b->parallel + 16;
    b->slot = mem_alloc_array((size_t)b->n_slot, sizeof *b->slot);
    b->step_s = mem_alloc_array((size_t)b->n_slot, sizeof *b->step_s);
    b->step_id = mem_alloc_array((size_t)b->n_slot, sizeof *b->step_id);
    b->step_logits = mem_alloc_array((size_t)b->n_slot,
                                     sizeof *b->step_logits);
    b->step_slot = mem_alloc_array((size_t)b->n_slot, sizeof *b->step_slot);
    if (!b->slot || !b->step_s || !b->step_id || !b->step_logits ||
        !b->step_slot)
        return cag_fail_nomem(err, "batch");
    return load_done(b, err);
}

cag_status cag_kb_batch(cag_kb *kb, const cag_batch_opts *o, cag_line_fn in,
                        cag_row_fn out, void *ctx, cag_batch_report *r,
                        cag_error *err)
{
    struct batch b = { .kb = kb, .o = o, .in = in, .out = out, .ctx = ctx,
                       .r = r };
    double start = now_s();
    cag_status st;

    memset(r, 0, sizeof *r);
    st = set_up(&b, err);
    while (!st && !b.stop && (!b.end || b.n_used)) {
        st = fill(&b, err);
        if (!st)
            st = step(&b, err);
        if (!st)
            st = drain(&b, err);
        if (!st && kb->hooks.progress &&
            !kb->hooks.progress(kb->hooks.ctx, "rows",
                                (uint64_t)(r->n_ok + r->n_failed), 0))
            st = cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    }
    for (int i = 0; b.slot && i < b.n_slot; i++) {
        if (b.slot[i].state == SLOT_RUNNING)
            turn_release(&b.slot[i].turn);
        row_release(&b.slot[i].row);
        buf_free(&b.slot[i].out);
    }
    mem_free(b.slot);
    mem_free(b.step_s);
    mem_free(b.step_id);
    mem_free(b.step_logits);
    mem_free(b.step_slot);
    mem_free(b.done.v);
    r->seconds = now_s() - start;
    return st;
}
