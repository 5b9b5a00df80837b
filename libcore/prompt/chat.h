/*
 * chat.h - a chat template, cut at the question.
 *
 * The template is rendered once, at build time, with markers in place of
 * the knowledge and the question; the text around the markers is the
 * template's own and alone may hold control tokens.  The cached part ends
 * after the last special token before the question, so that no token
 * crosses the border (CONVENTIONS.md 1.1).
 *
 *   lead    template text before the system/knowledge text
 *   body    the system/knowledge text itself (the caller's)
 *   mid     template text from the end of body to the question; its first
 *           mid_cached bytes are cached, the rest is tokenized together
 *           with each question
 *   suffix  template text after the question, up to where the model answers,
 *           for thinking off and thinking on (equal if the template does not
 *           know the switch)
 *
 * Where a template has no system role, or no special token between it and
 * the question (Gemma, Mistral, Llama 2), the knowledge is a first user
 * turn that the assistant acknowledged: user(body) assistant(CHAT_ACK)
 * user(question).  lead, body, mid and suffix mean the same.
 */
#ifndef PROMPT_CHAT_H
#define PROMPT_CHAT_H

#include <cag/tokenizer.h>

#include "util/json.h"

#define CHAT_ACK "Understood."

#define CHAT_TRIM_LEFT  1u
#define CHAT_TRIM_RIGHT 2u

struct chat_cut {
    char *lead, *mid, *suffix[2]; /* heap, NUL-terminated; [1] = think */
    char *border;                 /* the special token that mid_cached
                                     ends with                         */
    size_t mid_cached;
    unsigned body_trim, question_trim; /* CHAT_TRIM_*: where the template
                                        strips white space                */
    bool ack_turns;                    /* the knowledge is a user turn of its
                                          own, acknowledged                 */
    bool knows_thinking;               /* suffix[1] differs                 */
    int32_t end_of_turn;               /* the special token written after an
                                          assistant's message, -1 if none   */
};

/*
 * Cut a template.  t gives bos/eos text and tells special tokens.  ack: what
 * the assistant says to a first turn that holds the knowledge; NULL =
 * CHAT_ACK.  now_s: the frozen date.  Errors: CAG_E_UNSUPPORTED naming the
 * construct and the ways out (--chat-template, --chat-template-file).
 *
 * A thinking switch that changes the text before the question (SmolLM3)
 * cannot be decided when asking: it is then off, and knows_thinking false.
 */
cag_status chat_cut_make(const char *template_text, const cag_tokenizer *t,
                         const char *ack, int64_t now_s, struct chat_cut *out,
                         cag_error *err);
void chat_cut_release(struct chat_cut *c);

/* Built-in templates for --chat-template NAME, of which cag_template_name
 * lists the names; NULL if unknown. */
const char *chat_builtin(const char *name);

/*
 * Render a whole conversation: messages is a JSON array of {role, content},
 * content a string or an array of parts.  Contents are tokenized as plain
 * text, the rest as template text: the pieces (heap, in order) say which is
 * which.  The engine follows where every byte came from (jinja.h), so this
 * is exact even where a template cuts contents apart ("</think>").  A role
 * is template text and must be [a-z_]+ (else CAG_E_FORMAT).
 */
struct chat_pieces {
    cag_text *piece; /* [n]; texts point into text */
    size_t n;
    char *text; /* the whole prompt, NUL-terminated */
    size_t size;
};
/* t may be NULL: bos_token and eos_token are then empty. */
cag_status chat_render(const char *template_text, const cag_tokenizer *t,
                       const jv *messages, bool add_generation_prompt,
                       bool think, int64_t now_s, struct chat_pieces *out,
                       cag_error *err);
void chat_pieces_release(struct chat_pieces *p);

/* Text without the white space that Python's str.strip() removes on the
 * sides asked for: returns its first byte, *n becomes its length. */
const char *chat_strip(const char *s, size_t *n, unsigned sides);

#endif
