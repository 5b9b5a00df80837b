/*
 * api_logprobs.h - the tokens of an answer with their probabilities, in
 * OpenAI's two shapes.
 */
#ifndef CMD_SERVE_API_LOGPROBS_H
#define CMD_SERVE_API_LOGPROBS_H

#include "cmd/serve/api.h"

/* "logprobs" of the choice: x->logprobs, the row's list, as the kind of
 * request has it; null where there is none.  NULL: out of memory. */
jv *api_logprobs(const struct api_answer *x);

#endif
