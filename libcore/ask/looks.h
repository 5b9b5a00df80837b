/*
 * looks.h - the turns of one question's looks.
 *
 * A look is begun as soon as it is certain to be taken (focus_next): with a
 * second look that is asked for, once the question is read for the first,
 * since that says which passages it leads to.  From there on both answers are
 * made in the same passes, which read the weights once for both.  No bit
 * depends on that (session.h); where there is no memory for another session
 * the looks follow each other.
 *
 * looks_run does it all for a question alone.  A crew, which has turns of many
 * questions in a pass, takes the steps itself:
 *
 *   looks_init
 *   while (!looks_over)
 *       looks_next, looks_prepare    the next look's turn, to be read
 *       looks_read                   after turn_begin of it
 *       looks_advance                for each that runs, after a pass
 *       looks_ended, looks_take      in the order they were begun
 *   looks_end
 */
#ifndef ASK_LOOKS_H
#define ASK_LOOKS_H

#include "ask/focus.h"
#include "ask/turn.h"

struct looks {
    struct focus focus;
    struct turn turn[CAG_LOOKS]; /* those taken are released                */
    cag_focus from[CAG_LOOKS];
    int n_begun;
    bool in_turns; /* one after the other                                */
};

/* Strings are borrowed, as are params, until the end. */
cag_status looks_init(struct looks *l, cag_kb *kb, const cag_ask_params *params,
                      const cag_text *question, const cag_text *before,
                      cag_error *err);
/* Is a look to be begun now? */
bool looks_next(const struct looks *l);
/* ids [n]: all that follows the cached prefix; fn as for turn_prepare.  The
 * turn is turn[n_begun - 1].  CAG_E_NOMEM while another look runs is no end:
 * it may be tried again after that. */
cag_status looks_prepare(struct looks *l, const int32_t *ids, size_t n,
                         cag_text_fn fn, void *ctx, cag_error *err);
/* Has it been begun, read, and not ended? */
bool looks_runs(const struct looks *l, int i);
cag_status looks_read(struct looks *l, int i, cag_error *err);
cag_status looks_advance(struct looks *l, int i, const cag_step *step,
                         cag_error *err);
/* Has the next one to be taken ended? */
bool looks_ended(const struct looks *l);
/* Take it.  After CAG_E_CANCELLED *out, the caller's to release, is what it
 * had come to; else nothing. */
cag_status looks_take(struct looks *l, cag_answer *out, cag_error *err);
/* All are taken. */
bool looks_over(const struct looks *l);
/* Move the answer out; l is released. */
void looks_end(struct looks *l, cag_answer *out);
/* At any time, also of a zeroed l. */
void looks_release(struct looks *l);

/* From looks_next to looks_end; l is released.  *out as looks_take has it. */
cag_status looks_run(struct looks *l, const int32_t *ids, size_t n,
                     cag_text_fn fn, void *ctx, cag_answer *out,
                     cag_error *err);

#endif
