/*
 * chat.h - a chat template, cut at the question.
 *
 * The template is rendered once, at build time, with markers in place of
 * the knowledge and the question; the text around the markers is the
 * template's own and alone may hold control tokens.  The cached part ends
 * behind the last special token before the question, so that no token
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
 */
#ifndef TOKENIZER_CHAT_H
#define TOKENIZER_CHAT_H

#include <cag/tokenizer.h>

#include "util/json.h"

struct chat_cut {
    char  *lead, *mid, *suffix[2];    /* heap, NUL-terminated; [1] = think */
    size_t mid_cached;
    bool   trims_body, trims_question;  /* the template strips whitespace */
    bool   body_in_user_turn;         /* no system role: knowledge goes
                                         first in the user turn            */
    bool   ack_turns;                 /* user(knowledge) / assistant(ack) /
                                         user(question) had to be used     */
    bool   knows_thinking;
};

/*
 * Cut a template.  t gives bos/eos text and tells special tokens.
 * now_s: the frozen date.  Errors: CAG_E_UNSUPPORTED naming the construct
 * and the ways out (--chat-template, --chat-template-file).
 */
cag_status chat_cut_make(const char *template_text, const cag_tokenizer *t,
                         int64_t now_s, struct chat_cut *out, cag_error *err);
void       chat_cut_release(struct chat_cut *c);

/* Built-in templates for --chat-template NAME; NULL if unknown.  Names:
 * chatml, llama3, qwen3, mistral, ... ; chat_builtin_name(i) lists them. */
const char *chat_builtin(const char *name);
const char *chat_builtin_name(int i);

/*
 * Render a whole conversation: messages is a JSON array of {role, content}.
 * Contents are tokenized as plain text, the rest as template text: the
 * pieces (heap, in order) say which is which.
 */
struct chat_pieces {
    cag_text *piece;    /* [n]; texts point into text */
    size_t    n;
    char     *text;     /* the whole prompt, NUL-terminated */
    size_t    size;
};
cag_status chat_render(const char *template_text, const cag_tokenizer *t,
                       const jv *messages, bool add_generation_prompt,
                       bool think, int64_t now_s, struct chat_pieces *out,
                       cag_error *err);
void       chat_pieces_release(struct chat_pieces *p);

#endif
