/*
 * draft.h - drafts of the next tokens, from what was already said (prompt
 * lookup).
 *
 * Answers quote: the knowledge, the question, themselves.  Where the last
 * tokens of an answer occurred before, what followed there is a draft of
 * what follows here.  Drafts are verified in the step that would have been
 * made anyway (cag_session_verify) and never change an answer.
 */
#ifndef ASK_DRAFT_H
#define ASK_DRAFT_H

#include <cag/session.h>

struct draft {
    const int32_t *prefix; /* [n_prefix] borrowed: the knowledge       */
    size_t n_prefix;
    int32_t *own; /* [n_own] question and answer so far       */
    size_t n_own, cap;
    double balance; /* steps it may stake, see draft.c         */
    int64_t n_drafted, n_accepted;
};

/* Room for cap tokens after the prefix, which stays the caller's.
 * CAG_E_NOMEM. */
cag_status draft_init(struct draft *d, const int32_t *prefix, size_t n_prefix,
                      size_t cap, cag_error *err);
void draft_release(struct draft *d);
/* Append what follows: the question's tokens, then each generated one. */
void draft_add(struct draft *d, const int32_t *ids, size_t n);
/* At most `most` tokens into out; returns how many, often 0.  Reads all
 * tokens, 4 bytes each where attention reads thousands. */
int draft_propose(struct draft *d, int most, int32_t *out);
/* Of the last draft, so many tokens were right. */
void draft_result(struct draft *d, int n_drafted, int n_accepted);

#endif
