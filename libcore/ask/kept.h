/*
 * kept.h - sessions of questions that were answered, for the next turn.
 *
 * A client that sends the whole conversation each time is known by its tokens:
 * what a kept session has read, and the new prompt begins with, is not read
 * again.  Only prompt tokens are kept: an answer's own keys and values come of
 * other arithmetic than those of the same tokens read in a prompt, so it is
 * read with the next question, and the answer stays, bit for bit, that of a
 * conversation read from its begin.
 *
 * Sessions belong to an owner; nobody else's are ever looked at, so that the
 * time to an answer tells nothing of others' questions.
 */
#ifndef ASK_KEPT_H
#define ASK_KEPT_H

#include <cag/tool/crew.h>

/* The owner's session of kb that has most of ids [n] and room for need_tok
 * tokens, cut to what is equal: *n_same of them, fewer than n.  It is taken
 * out, and the caller's; NULL: there is none that is worth it. */
cag_session *kept_take(cag_kept *k, const cag_kb *kb, const char *owner,
                       const int32_t *ids, size_t n, int64_t need_tok,
                       size_t *n_same);
/* Keep s, whose tokens after the prefix begin with ids [n], for its owner; or
 * free it, if there is no room. */
void kept_put(cag_kept *k, const cag_kb *kb, const char *owner,
              const int32_t *ids, size_t n, cag_session *s);
/* Give all up, for want of memory; false: there was nothing. */
bool kept_clear(cag_kept *k);

#endif
