/*
 * turn_mass.h - what the copy heads look at while a turn runs, by line of the
 * knowledge (evidence/line_mass.h).
 *
 * Measured where it was asked for and can be: the cache has heads worth using,
 * the engine measures, and the turn's session has the cache for its prefix.
 * Else there is nothing, and words alone decide.
 */
#ifndef ASK_TURN_MASS_H
#define ASK_TURN_MASS_H

#include <cag/ask.h>

#include "evidence/line_mass.h"

struct turn_mass {
    struct line_mass *lines; /* NULL: nothing is measured */
    double *sum;             /* [heads, tokens of the cache] */
    int n_question;          /* rows before the answer's */
    bool log_p;              /* the tokens' confidence, too: for a null */
};

/* Before the first row of s; n_question rows come before the answer's. */
cag_status turn_mass_begin(struct turn_mass *m, cag_kb *kb,
                           const cag_ask_params *p, cag_session *s,
                           int64_t n_question, cag_error *err);
/* The question is read. */
cag_status turn_mass_read(struct turn_mass *m, cag_kb *kb, cag_session *s,
                          cag_error *err);
/* A token of the answer whose bytes end at `end'; logits: where it was picked
 * from. */
cag_status turn_mass_token(struct turn_mass *m, const cag_kb *kb,
                           const float *logits, int32_t id, size_t end,
                           cag_error *err);
/* The answer is there: its lines, the caller's; NULL if nothing was measured.
 */
cag_status turn_mass_end(struct turn_mass *m, cag_kb *kb, cag_session *s,
                         struct line_mass **out, cag_error *err);
void turn_mass_release(struct turn_mass *m);

#endif
