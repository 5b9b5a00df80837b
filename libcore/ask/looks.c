/*
 * looks.c - see looks.h.
 */
#include "ask/looks.h"

#include <string.h>

#include "ask/answer_copy.h"

cag_status looks_init(struct looks *l, cag_kb *kb, const cag_ask_params *params,
                      const cag_text *question, const cag_text *before,
                      cag_error *err)
{
    memset(l, 0, sizeof *l);
    return focus_init(&l->focus, kb, params, question, before, err);
}

bool looks_next(const struct looks *l)
{
    cag_focus from;

    return !(l->in_turns && l->n_begun > l->focus.n_taken) &&
           focus_next(&l->focus, l->n_begun, &from);
}

cag_status looks_prepare(struct looks *l, const int32_t *ids, size_t n,
                         cag_text_fn fn, void *ctx, cag_error *err)
{
    struct focus *f = &l->focus;
    struct turn_prompt q;
    cag_focus from;
    cag_status st;

    focus_next(f, l->n_begun, &from);
    st = focus_prompt(f, from, ids, n, &q, err);
    if (!st)
        st = turn_prepare(&l->turn[l->n_begun], f->kb, &q, f->params, fn, ctx,
                          err);
    if (!st)
        l->from[l->n_begun++] = from;
    return st;
}

bool looks_runs(const struct looks *l, int i)
{
    return i >= l->focus.n_taken && i < l->n_begun && !l->turn[i].finish &&
           l->turn[i].n_generated > 0;
}

/* Who stops one look stops all. */
static void stop(struct looks *l)
{
    for (int i = 0; i < l->n_begun; i++)
        if (looks_runs(l, i))
            turn_cancel(&l->turn[i]);
}

cag_status looks_read(struct looks *l, int i, cag_error *err)
{
    if (l->turn[i].answer.cancelled)
        stop(l);
    return i ? CAG_OK : focus_passages(&l->focus, l->turn[0].mass.lines, err);
}

cag_status looks_advance(struct looks *l, int i, const cag_step *step,
                         cag_error *err)
{
    cag_status st = turn_advance(&l->turn[i], step, err);

    if (l->turn[i].answer.cancelled)
        stop(l);
    return st;
}

bool looks_ended(const struct looks *l)
{
    return l->focus.n_taken < l->n_begun && l->turn[l->focus.n_taken].finish;
}

cag_status looks_take(struct looks *l, cag_answer *out, cag_error *err)
{
    int i = l->focus.n_taken;
    struct turn *t = &l->turn[i];
    double start_s = t->start_s;
    cag_status st = turn_finish(t, out, err);

    return st ? st : focus_take(&l->focus, l->from[i], out, start_s, err);
}

bool looks_over(const struct looks *l)
{
    return l->n_begun > 0 && l->focus.n_taken == l->n_begun && !looks_next(l);
}

void looks_end(struct looks *l, cag_answer *out)
{
    focus_end(&l->focus, out);
}

void looks_release(struct looks *l)
{
    for (int i = 0; i < l->n_begun; i++)
        turn_release(&l->turn[i]);
    focus_release(&l->focus);
    l->n_begun = 0;
}

/* ------------------------------------------------------- a question alone */

struct asked {
    const int32_t *ids;
    size_t n;
    cag_text_fn fn;
    void *ctx;
};

/* Read the question for each look that is to be begun. */
static cag_status begin(struct looks *l, const struct asked *a, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st = CAG_OK;

    while (!st && looks_next(l)) {
        struct turn *t = &l->turn[l->n_begun];
        cag_step step;

        st = looks_prepare(l, a->ids, a->n, a->fn, a->ctx, &why);
        if (st == CAG_E_NOMEM && l->n_begun > l->focus.n_taken) {
            l->in_turns = true;
            return CAG_OK;
        }
        if (st)
            return cag_error_copy(err, &why);
        st = turn_begin(&t, &step, 1, err);
        if (!st)
            st = looks_read(l, l->n_begun - 1, err);
    }
    return st;
}

/* The next tokens of all that run, in one pass. */
static cag_status step_all(struct looks *l, const struct asked *a,
                           cag_error *err)
{
    cag_step step[CAG_LOOKS];
    int at[CAG_LOOKS], n = 0;
    cag_status st;

    for (int i = 0; i < l->n_begun; i++)
        if (looks_runs(l, i))
            at[n++] = i;
    if (!n)
        return CAG_OK;
    for (int i = 0; i < n; i++)
        turn_step(&l->turn[at[i]], CAG_STEP_MAX / n - 1, &step[i]);
    st = turn_verify(step, n, err);
    for (int i = 0; i < n && !st; i++)
        if (looks_runs(l, at[i]))
            st = looks_advance(l, at[i], &step[i], err);
    /* thinking, or text that is held back, must be stoppable too */
    if (!st && !looks_ended(l) && a->fn && !a->fn(a->ctx, "", 0))
        stop(l);
    return st;
}

cag_status looks_run(struct looks *l, const int32_t *ids, size_t n,
                     cag_text_fn fn, void *ctx, cag_answer *out, cag_error *err)
{
    const struct asked a = { ids, n, fn, ctx };
    cag_status st = CAG_OK;

    while (!st && !looks_over(l)) {
        st = begin(l, &a, err);
        if (!st)
            st = step_all(l, &a, err);
        while (!st && looks_ended(l))
            st = looks_take(l, out, err);
    }
    if (st)
        looks_release(l);
    else
        looks_end(l, out);
    return st;
}
