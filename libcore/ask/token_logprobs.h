/*
 * token_logprobs.h - how likely the model held each token of an answer, and
 * the likeliest instead.
 *
 * The natural logarithm of the softmax of the model's logits as they are:
 * before temperature, top_k, top_p and min_p, which only choose.
 */
#ifndef ASK_TOKEN_LOGPROBS_H
#define ASK_TOKEN_LOGPROBS_H

#include <cag/ask.h>

#include "util/error.h"
#include "util/json.h"

struct token_logprobs {
    cag_logprob *item; /* [n] heap */
    int64_t n, room;
};

/*
 * Token id was taken from logits [n_vocab], and stands at byte off of the
 * text; n_top likeliest are noted with it, the lower id first where two are
 * equal.  CAG_E_NOMEM.
 */
cag_status token_logprobs_add(struct token_logprobs *l, const float *logits,
                              int64_t n_vocab, int32_t id, int n_top,
                              size_t off, cag_error *err);
/* Move those that stand in a text of size bytes to a. */
void token_logprobs_end(struct token_logprobs *l, size_t size, cag_answer *a);
void token_logprobs_release(struct token_logprobs *l);

/* NULL: out of memory; nothing of an answer without any is NULL, too. */
cag_logprob *token_logprobs_copy(const cag_answer *a);
/* "logprobs" of a row: a list of {token, logprob, bytes, offset,
 * top_logprobs}.  False: out of memory. */
bool token_logprobs_json(jv *o, const cag_kb *kb, const cag_answer *a);

#endif
