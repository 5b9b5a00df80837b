/*
 * lookup.h - guesses at the next tokens, from what was already said.
 *
 * Answers quote: the knowledge, the question, themselves.  Where the last
 * tokens of an answer occurred before, what followed there is a guess at
 * what follows here.  Guesses are verified in the step that would have been
 * made anyway (cag_session_verify) and never change an answer.
 */
#ifndef PIPELINE_LOOKUP_H
#define PIPELINE_LOOKUP_H

#include <cag/session.h>

struct lookup {
    const int32_t *prefix; /* [n_prefix] borrowed: the knowledge       */
    size_t n_prefix;
    int32_t *own; /* [n_own] question and answer so far       */
    size_t n_own, cap;
    double balance; /* steps it may stake, see lookup.c         */
    int64_t n_drafted, n_accepted;
};

/* Room for cap tokens behind the prefix, which stays the caller's.
 * CAG_E_NOMEM. */
cag_status lookup_init(struct lookup *l, const int32_t *prefix, size_t n_prefix,
                       size_t cap, cag_error *err);
void lookup_release(struct lookup *l);
/* Append what follows: the question's tokens, then each generated one. */
void lookup_add(struct lookup *l, const int32_t *ids, size_t n);
/* At most `most` guesses into out; returns how many, often 0.  Reads all
 * tokens, 4 bytes each where attention reads thousands. */
int lookup_draft(struct lookup *l, int most, int32_t *out);
/* Of the last draft's guesses, so many were right. */
void lookup_result(struct lookup *l, int n_drafted, int n_accepted);

#endif
