/*
 * turn.c - see turn.h.
 */
#include "ask/turn.h"

#include <float.h>
#include <string.h>

#include "ask/kb.h"
#include "generate/repeat.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

void cag_ask_params_init_size(cag_ask_params *p, size_t size)
{
    static const cag_ask_params defaults = { .max_tok = 120,
                                             .sampling = CAG_SAMPLING_INIT };

    sized_init(p, size, &defaults, sizeof defaults);
}

cag_status turn_params(cag_ask_params *own, const cag_ask_params *given,
                       cag_error *err)
{
    const cag_sampling *s = &own->sampling;
    const char *what = NULL;
    cag_status st;

    cag_ask_params_init(own);
    st = sized_take(own, sizeof *own, given, "cag_ask_params", err);
    if (st)
        return st;
    if (own->max_tok < 1)
        what = "max_tok must be above 0";
    else if (own->n_stop < 0 || (own->n_stop && !own->stop))
        what = "stop needs n_stop strings";
    /* no comparison is true of a NaN */
    else if (!(s->temperature >= 0 && s->temperature <= FLT_MAX))
        what = "temperature must be finite, from 0";
    else if (s->top_k < 0)
        what = "top_k must be from 0";
    else if (!(s->top_p > 0 && s->top_p <= 1))
        what = "top_p must be above 0, to 1";
    else if (!(s->min_p >= 0 && s->min_p <= 1))
        what = "min_p must be from 0 to 1";
    else if ((unsigned)own->require > CAG_SUPPORT_STRONG)
        what = "require is none of cag_support";
    else if ((unsigned)own->focus > CAG_FOCUS_AUTO)
        what = "focus is none of cag_focus";
    else if (own->n_top < 0 || own->n_top > CAG_TOP_LOGPROBS)
        what = "n_top must be from 0 to 20";
    for (int i = 0; !what && i < own->n_stop; i++)
        if (!own->stop[i] || !own->stop[i][0])
            what = "a stop string is empty";
    return what ? cag_fail(err, CAG_E_USAGE, NULL, -1, "%s", what) : CAG_OK;
}

static void over(struct turn *t, const char *finish)
{
    t->finish = finish;
    t->end_s = clock_s();
}

/* Sampling needs the logits; else a device need not give them away. */
static bool is_greedy(const struct turn *t)
{
    return !(t->params->sampling.temperature > 0);
}

/* May a device keep the logits to itself? */
static bool wants_best(const struct turn *t)
{
    return is_greedy(t) && !t->mass.log_p && !t->params->logprobs;
}

/* What the row of logits said of the token that was taken from it, which
 * stands at byte off of the text. */
static cag_status note_logprobs(struct turn *t, const float *logits, int32_t id,
                                size_t off, cag_error *err)
{
    if (answer_in_think(&t->answer)) { /* what went before is thinking, too */
        token_logprobs_release(&t->logprobs);
        return CAG_OK;
    }
    return token_logprobs_add(&t->logprobs, logits, t->kb->n_vocab, id,
                              t->params->n_top, off, err);
}

/* Take the next token, from row i of a step: feed it, or end the turn. */
static cag_status pick(struct turn *t, const cag_step *step, int i,
                       cag_error *err)
{
    int32_t id = step->greedy
                     ? step->best[i]
                     : cag_sampler_pick(t->sampler,
                                        step->logits +
                                            (size_t)i * (size_t)t->kb->n_vocab);
    const char *bytes;
    size_t n, off = t->answer.text.size;
    cag_status st;

    if (t->n_generated == 0)
        t->first_s = clock_s() - t->start_s;
    if (kb_is_stop(t->kb, id)) {
        t->n_generated++;
        over(t, "stop");
        return CAG_OK;
    }
    t->n_generated++;
    bytes = cag_token_bytes(t->kb->tok, id, false, &n);
    st = bytes ? answer_add(&t->answer, bytes, n, err) : CAG_OK;
    if (!st && t->params->logprobs)
        st = note_logprobs(t, step->logits + (size_t)i * (size_t)t->kb->n_vocab,
                           id, off, err);
    if (!st && t->mass.log_p)
        st = turn_mass_token(&t->mass, t->kb,
                             step->logits + (size_t)i * (size_t)t->kb->n_vocab,
                             id, t->answer.text.size, err);
    if (st)
        return st;
    t->n_counted += !answer_in_think(&t->answer);
    if (t->answer.stopped)
        over(t, "stop");
    else if (t->answer.cancelled)
        over(t, "cancelled");
    else if (t->n_counted >= t->params->max_tok || t->n_generated >= t->room)
        over(t, "length");
    t->feed[0] = id;
    draft_add(&t->draft, &id, 1);
    if (!t->finish && t->params->end_loops && is_greedy(t) &&
        repeat_ends(t->draft.own + t->n_prompt,
                    t->draft.n_own - (size_t)t->n_prompt)) {
        t->looped = true;
        over(t, "length");
    }
    return CAG_OK;
}

/* Some templates open the think block themselves: the model goes on in it. */
static bool opens_think(const char *suffix)
{
    const char *s = suffix, *last = NULL;

    while ((s = strstr(s, "<think>")) != NULL)
        last = s++;
    return last && !strstr(last, "</think>");
}

/* A session for the prompt and n more tokens. */
static cag_status open_session(struct turn *t, const struct turn_prompt *q,
                               cag_error *err)
{
    int64_t n = t->n_prompt + t->room;
    cag_status st;

    if (q->alone)
        return cag_session_new(t->kb->engine, NULL, (int)n, &t->session, err);
    st = kb_session(t->kb, n, &t->session, err);
    if (!st && q->range)
        st = session_set_view(t->session, q->range, q->n_range, err);
    return st;
}

cag_status turn_prepare(struct turn *t, cag_kb *kb, const struct turn_prompt *q,
                        const cag_ask_params *p, cag_text_fn fn, void *ctx,
                        cag_error *err)
{
    int64_t used = (int64_t)q->n_ids;
    cag_status st;

    memset(t, 0, sizeof *t);
    t->kb = kb;
    t->params = p;
    t->start_s = clock_s();
    t->n_prompt = (int64_t)q->n_ids;
    t->n_cached = q->alone ? 0 : kb->n_ids;
    used += (int64_t)t->n_cached;
    answer_init(&t->answer, p->stop, p->n_stop,
                opens_think(kb->tail.suffix[p->think]), fn, ctx);
    t->answer.withheld = p->require || p->focus;
    if (used >= kb->n_ctx) {
        st = cag_fail(err, CAG_E_LIMIT, NULL, -1,
                      "the question does not fit: %zu tokens of knowledge + "
                      "%zu of question and earlier turns, the context has "
                      "%lld",
                      t->n_cached, q->n_ids, (long long)kb->n_ctx);
        goto out;
    }
    t->room = kb->n_ctx - used;
    /* thinking is not counted against max_tok but needs room all the same */
    if (!p->think && t->answer.state != ANSWER_THINK && p->max_tok < t->room)
        t->room = p->max_tok;
    st = cag_sampler_new(&p->sampling, kb->n_vocab, &t->sampler, err);
    if (!st)
        st = draft_init(&t->draft, kb->ids, kb->n_ids,
                        q->n_ids + (size_t)t->room, err);
    if (!st)
        draft_add(&t->draft, q->ids, q->n_ids);
    if (!st)
        st = open_session(t, q, err);
    if (!st && !q->alone)
        st = turn_mass_begin(&t->mass, kb, p, t->session, t->n_prompt, err);
out:
    if (st)
        turn_release(t);
    return st;
}

cag_status turn_begin(struct turn *const *t, cag_step *step, int n,
                      cag_error *err)
{
    cag_status st;

    for (int i = 0; i < n; i++) /* draft has the question's tokens */
        step[i] = (cag_step){ .session = t[i]->session,
                              .ids = t[i]->draft.own + t[i]->n_reused,
                              .n_ids = (int)(t[i]->n_prompt - t[i]->n_reused),
                              .greedy = wants_best(t[i]) };
    st = cag_session_prefill_many(step, n, err);
    for (int i = 0; i < n && !st; i++) {
        t[i]->prefill_s = clock_s() - t[i]->start_s;
        st = turn_mass_read(&t[i]->mass, t[i]->kb, t[i]->session, err);
        if (!st)
            st = pick(t[i], &step[i], 0, err);
    }
    return st;
}

cag_status turn_start(struct turn *t, cag_kb *kb, const struct turn_prompt *q,
                      const cag_ask_params *p, cag_text_fn fn, void *ctx,
                      cag_error *err)
{
    cag_step step;
    cag_status st = turn_prepare(t, kb, q, p, fn, ctx, err);

    if (!st) {
        st = turn_begin(&t, &step, 1, err);
        if (st)
            turn_release(t);
    }
    return st;
}

void turn_step(struct turn *t, int n_draft, cag_step *step)
{
    const cag_ask_params *p = t->params;
    int64_t counted = p->max_tok - t->n_counted;
    int64_t left = t->room - t->n_generated;

    /* Feeding n tokens picks n: limit the drafts so that max_tok is not passed.
     */
    if (!answer_in_think(&t->answer) && counted < left)
        left = counted;
    if (n_draft > left - 1)
        n_draft = (int)(left - 1);
    *step = (cag_step){ .session = t->session,
                        .ids = t->feed,
                        .n_ids = 1,
                        .greedy = wants_best(t) };
    if (!p->no_draft && is_greedy(t) && n_draft > 0)
        step->n_ids += draft_propose(&t->draft, n_draft, t->feed + 1);
}

cag_status turn_verify(cag_step *step, int n, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st = cag_session_verify(step, n, &why);
    bool drafted = false;

    for (int i = 0; i < n && st == CAG_E_UNSUPPORTED; i++) {
        drafted = drafted || step[i].n_ids > 1;
        step[i].n_ids = 1;
    }
    if (drafted)
        return cag_session_verify(step, n, err);
    return st ? cag_error_copy(err, &why) : CAG_OK;
}

cag_status turn_advance(struct turn *t, const cag_step *step, cag_error *err)
{
    int used = 1; /* rows up to the first wrong draft */
    cag_status st = pick(t, step, 0, err);

    while (!st && !t->finish && used < step->n_ids &&
           t->feed[0] == step->ids[used])
        st = pick(t, step, used++, err);
    draft_result(&t->draft, step->n_ids - 1, used - 1);
    if (!st && used < step->n_ids)
        st = cag_session_truncate(
            t->session, cag_session_n_tok(t->session) - (step->n_ids - used),
            err);
    return st;
}

void turn_cancel(struct turn *t)
{
    t->answer.cancelled = true;
    over(t, "cancelled");
}

cag_status turn_run(struct turn *t, cag_error *err)
{
    cag_status st = CAG_OK;

    while (!st && !t->finish) {
        cag_step step;

        turn_step(t, CAG_STEP_MAX - 1, &step);
        st = turn_verify(&step, 1, err);
        if (!st)
            st = turn_advance(t, &step, err);
        /* thinking, or text that is held back, must be stoppable too */
        if (!st && !t->finish && t->answer.fn &&
            !t->answer.fn(t->answer.ctx, "", 0))
            turn_cancel(t);
    }
    return st;
}

cag_status turn_finish(struct turn *t, cag_answer *out, cag_error *err)
{
    const char *refusal = t->kb->tail.refusal;
    /* it was made of what is in the files, while it was made */
    cag_status st = kb_check_files(t->kb, err);
    struct line_mass *lines = NULL;
    bool cancelled;

    if (!st)
        st = turn_mass_end(&t->mass, t->kb, t->session, &lines, err);
    if (!st)
        st = answer_end(&t->answer, err);
    cancelled = t->answer.cancelled;
    if (!st) {
        memset(out, 0, sizeof *out);
        out->text = buf_detach(&t->answer.text, &out->size);
        if (t->answer.reasoning.size)
            out->reasoning = buf_detach(&t->answer.reasoning, NULL);
        out->refused = out->text && refusal && !strcmp(out->text, refusal);
        out->finish = t->finish ? t->finish : "cancelled";
        out->looped = t->looped;
        out->n_cached =
            t->kb->no_cache ? 0 : (int64_t)t->n_cached + t->n_reused;
        out->n_prompt = t->n_prompt - t->n_reused +
                        (t->kb->no_cache ? (int64_t)t->n_cached : 0);
        out->attention = out->text ? lines : NULL;
        lines = out->text ? NULL : lines;
        if (out->text)
            token_logprobs_end(&t->logprobs, out->size, out);
        out->n_generated = t->n_generated;
        out->n_drafted = t->draft.n_drafted;
        out->n_accepted = t->draft.n_accepted;
        out->prefill_s = t->prefill_s;
        out->first_s = t->first_s;
        out->decode_s =
            (t->end_s ? t->end_s : clock_s()) - t->start_s - t->first_s;
        if (!out->text)
            st = cag_fail_nomem(err, "answer");
        else if (cancelled)
            st = cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    }
    line_mass_release(lines);
    turn_release(t);
    return st;
}

void turn_release(struct turn *t)
{
    answer_release(&t->answer);
    draft_release(&t->draft);
    cag_sampler_free(t->sampler);
    cag_session_free(t->session);
    turn_mass_release(&t->mass);
    token_logprobs_release(&t->logprobs);
    t->sampler = NULL;
    t->session = NULL;
}
