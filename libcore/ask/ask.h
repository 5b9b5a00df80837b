/*
 * ask.h - a conversation as a crew needs it.
 */
#ifndef ASK_ASK_H
#define ASK_ASK_H

#include <cag/ask.h>

#include "util/json.h"

/* The turns of c with a question (UTF-8) as the last one; the caller's to
 * free.  CAG_E_NOMEM. */
cag_status chat_next(const cag_chat *c, const char *question, size_t size,
                     jv **out, cag_error *err);
size_t chat_n_turn(const cag_chat *c);
/* The last question that was answered, in out; NULL if there is none. */
const cag_text *chat_question_before(const cag_chat *c, cag_text *out);

#endif
