/*
 * api_talk.h - a list of messages as turns: the last question, and what came
 * before it.
 */
#ifndef CMD_SERVE_API_TALK_H
#define CMD_SERVE_API_TALK_H

#include "cmd/serve/api.h"

/* Fill r->question and r->earlier of the list that is the body's member name.
 * A system message is refused, or, prepended, becomes the begin of the first
 * question, with a blank line after it; system, if it is not NULL, is one that
 * stands elsewhere in the body. */
bool api_talk(struct api_request *r, const char *name, const jv *messages,
              const jv *system, enum api_system rule, struct api_error *e);

#endif
