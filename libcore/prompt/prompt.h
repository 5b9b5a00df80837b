/*
 * prompt.h - the knowledge-base prompt: what stands in the cache, and what
 * is added to it for a question.
 *
 * Building: system text, label and sources become the template's system
 * message; its text up to the border (chat.h) is the prefix that is cached.
 * Asking needs no template: the tail (PRMT section) holds the text between
 * border and question and the suffixes.  Prefix ids + question ids are the
 * ids of the whole prompt tokenized at once.
 *
 *   <system text>            {refusal} replaced
 *
 *   <label>
 *
 *   ## <name of source 1>
 *   <its text>
 *
 *   ## <name of source 2>
 *   ...
 */
#ifndef PROMPT_PROMPT_H
#define PROMPT_PROMPT_H

#include <cag/tokenizer.h>

#include "prompt/chat.h"

#define PROMPT_LABEL   "KNOWLEDGE BASE:"
#define PROMPT_REFUSAL "The answer is not available in the knowledge base."

/* NULL = default.  system may use {refusal}. */
struct prompt_parts {
    const char *system, *label, *refusal;
    const char *ack; /* of templates without a system role, chat.h */
};

struct prompt_source {
    const char *name; /* as the model sees it: one line */
    const char *text; /* UTF-8, need not be NUL-terminated */
    size_t size;
};

struct prompt_range {
    uint64_t off, bytes;
}; /* in prompt.text */

struct prompt {
    char *text; /* the prefix: lead + body + cached part of mid */
    size_t size;
    cag_text piece[3];           /* lead, body, mid: views into text */
    struct prompt_range *source; /* [n_source] */
    int n_source;
    char *system, *label, *refusal; /* as used, {refusal} replaced */
    char *ack;                      /* NULL where the template has a system
                                       role and nothing is acknowledged */
    struct chat_cut cut;
    bool warn_no_refusal; /* --system says nothing of the refusal */
};

/* Errors: FORMAT (a name that is no line of text, invalid UTF-8), LIMIT,
 * those of chat_cut_make.  now_s: the template's frozen date.  After an error
 * *out is empty, and may be released like any other. */
cag_status prompt_build(const struct prompt_parts *parts,
                        const struct prompt_source *src, int n,
                        const char *template_text, const cag_tokenizer *t,
                        int64_t now_s, struct prompt *out, cag_error *err);
/* Ids of the cached prefix, with offsets into prompt.text. */
cag_status prompt_encode(const struct prompt *p, const cag_tokenizer *t,
                         cag_ids *out, cag_error *err);
void prompt_release(struct prompt *p);

/* ------------------------------------------------------------------ asking */

/*
 * What a .kvc keeps for asking (kvc(5), PRMT):
 *   ack, acknowledgement (with ack only), border, date (YYYY-MM-DD),
 * knows_thinking, mid, now_s, question_trim (bits: 1 left, 2 right), refusal,
 * stop_ids, suffix, suffix_think, template, template_sha256, trims_question
 * (any bit set)
 */
struct prompt_tail {
    char *mid;       /* from the border to the question */
    char *border;    /* the special token before mid */
    char *suffix[2]; /* [1] = think */
    char *refusal, *template_text, *date;
    char *ack; /* CHAT_ACK where the file does not say */
    char template_sha256[65];
    int64_t now_s;
    int32_t *stop_id; /* [n_stop] ascending */
    size_t n_stop;
    unsigned question_trim; /* CHAT_TRIM_* */
    bool knows_thinking, ack_turns;
    int64_t room; /* tokens there are for what follows; 0 = any number */
};

/*
 * CAG_E_LIMIT for text [n] of megabytes that is more than room tokens by its
 * size alone, so that it need not be tokenized; what is the subject of the
 * message.
 */
cag_status prompt_check_size(const char *what, const cag_text *text, size_t n,
                             const cag_tokenizer *t, int64_t room,
                             cag_error *err);

/* The PRMT object; *out is the caller's (jv_free). */
cag_status prompt_to_json(const struct prompt *p, const char *template_text,
                          const cag_tokenizer *t, int64_t now_s, jv **out,
                          cag_error *err);
/* file is for messages.  Everything is checked. */
cag_status prompt_tail_from_json(const jv *prmt, const char *file,
                                 struct prompt_tail *out, cag_error *err);
void prompt_tail_release(struct prompt_tail *p);

/*
 * Ids that follow the prefix's: rest of mid, question, suffix.  An empty or
 * blank question is CAG_E_FORMAT, so is invalid UTF-8; CAG_E_LIMIT as
 * prompt_check_size.  think is ignored by
 * templates that do not know it.  Offsets (if wanted) count from the border.
 */
cag_status prompt_question_encode(const struct prompt_tail *p,
                                  const cag_tokenizer *t, const char *question,
                                  size_t size, bool think, cag_ids *out,
                                  cag_error *err);

/*
 * Ids that follow the prefix's for a whole conversation: turns is a JSON
 * array of {role, content}, user first and last, as chat_render takes it;
 * the knowledge is put in front by us.
 */
cag_status prompt_chat_encode(const struct prompt_tail *p,
                              const cag_tokenizer *t, const jv *turns,
                              bool think, cag_ids *out, cag_error *err);

#endif
