/*
 * turn.h - one question being answered: a session, a sampler, an answer.
 *
 * A turn is advanced from outside, step by step, so that one loop serves a
 * single question and a batch whose turns step together.
 */
#ifndef ASK_TURN_H
#define ASK_TURN_H

#include <cag/ask.h>

#include "generate/answer_text.h"
#include "generate/draft.h"
#include "ask/token_logprobs.h"
#include "ask/turn_mass.h"
#include "engine/session.h"

/* What a turn reads and what it sees. */
struct turn_prompt {
    const int32_t *ids; /* [n_ids] all that follows what is cached */
    size_t n_ids;
    /* [n_range] what is seen of the cache, session.h; NULL: all of it */
    const struct token_range *range;
    int n_range;
    bool alone; /* nothing of the cache: ids are the whole prompt */
};

struct turn {
    cag_kb *kb;
    const cag_ask_params *params;
    size_t n_cached; /* tokens before its own */
    cag_session *session;
    cag_sampler *sampler;
    struct answer answer;
    struct draft draft;
    int32_t feed[CAG_STEP_MAX]; /* the token to feed, while not done,
                                   and drafts of what follows       */
    struct turn_mass mass;      /* where it looks                      */
    struct token_logprobs logprobs;
    int64_t room; /* generated tokens at most            */
    int64_t n_prompt, n_generated, n_counted;
    int64_t n_reused; /* of n_prompt: the session has them already */
    double start_s, prefill_s, first_s, end_s;
    const char *finish; /* NULL while running                  */
    bool looped;        /* because it only repeated itself     */
};

/* A program's parameters, however old it is, checked.  CAG_E_USAGE names the
 * member and its range. */
cag_status turn_params(cag_ask_params *own, const cag_ask_params *given,
                       cag_error *err);
/*
 * Prefill a prompt and pick the first token.  CAG_E_LIMIT with the numbers
 * when it does not fit.  On error the turn is released.
 */
cag_status turn_start(struct turn *t, cag_kb *kb, const struct turn_prompt *q,
                      const cag_ask_params *p, cag_text_fn fn, void *ctx,
                      cag_error *err);
/* The same in two parts, so that several questions can be read together:
 * all but the reading, and that of n prepared turns of one kb.  After an
 * error of turn_begin the turns are the caller's to release. */
cag_status turn_prepare(struct turn *t, cag_kb *kb, const struct turn_prompt *q,
                        const cag_ask_params *p, cag_text_fn fn, void *ctx,
                        cag_error *err);
cag_status turn_begin(struct turn *const *t, cag_step *step, int n,
                      cag_error *err);
/* What to feed next, with at most n_draft drafted tokens (greedy turns
 * only). */
void turn_step(struct turn *t, int n_draft, cag_step *step);
/* Feed it; the next logits, or greedy choices, are in step.  Drafts are given
 * up when the pass fails over one of them. */
cag_status turn_verify(cag_step *step, int n, cag_error *err);
/* Take the outcome of a step that was fed; sets finish when the turn is over.
 */
cag_status turn_advance(struct turn *t, const cag_step *step, cag_error *err);
/* End it before its end. */
void turn_cancel(struct turn *t);
/* Run to the end. */
cag_status turn_run(struct turn *t, cag_error *err);
/* Move the result out; releases the turn.  Also after a cancelled run. */
cag_status turn_finish(struct turn *t, cag_answer *out, cag_error *err);
void turn_release(struct turn *t);

#endif
