/*
 * answer_text.h - from generated tokens to the text a user sees.
 *
 * Bytes go in, token by token; text comes out as soon as it is final: whole
 * UTF-8 characters, not part of a stop string that may still complete, no
 * whitespace before the first or after the last word, and nothing of the
 * model's thinking, which is kept apart.
 */
#ifndef ASK_ANSWER_TEXT_H
#define ASK_ANSWER_TEXT_H

#include <cag/ask.h>

#include "util/buf.h"

enum answer_state { ANSWER_BEGIN, ANSWER_THINK, ANSWER_TEXT };

struct answer {
    enum answer_state state;
    struct buf raw;  /* bytes of the current state           */
    struct buf text; /* final answer text                    */
    struct buf reasoning;
    const char *const *stop;
    int n_stop;
    cag_text_fn fn;
    void *ctx;
    size_t emitted; /* bytes of text given to fn            */
    bool stopped;   /* a stop string was found              */
    bool cancelled; /* fn returned false                    */
    bool withheld;  /* fn is asked whether to go on, and gets no text: it is
                       judged as a whole */
};

/* thinking: the prompt itself has opened a think block. */
void answer_init(struct answer *a, const char *const *stop, int n_stop,
                 bool thinking, cag_text_fn fn, void *ctx);
/* Add one token's bytes.  CAG_E_NOMEM; a->stopped and a->cancelled say
 * whether to go on. */
cag_status answer_add(struct answer *a, const char *bytes, size_t n,
                      cag_error *err);
/* The end: what was held back is released, text is trimmed. */
cag_status answer_end(struct answer *a, cag_error *err);
/* Is the text being generated now thinking? (not counted against -n) */
bool answer_in_think(const struct answer *a);
void answer_release(struct answer *a);

#endif
