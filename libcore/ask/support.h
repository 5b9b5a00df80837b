/*
 * support.h - check an answer (cag_answer_check): its evidence, quotes, unknown
 * facts, label; and withhold it where less than that was asked for.
 *
 * A function of cache, question and answer alone, so that an answer of an
 * earlier run, or of an equal question, is checked again rather than stored.
 */
#ifndef ASK_SUPPORT_H
#define ASK_SUPPORT_H

#include <cag/ask.h>

/* Is anything of it asked for? */
static inline bool support_is_asked(const cag_ask_params *p)
{
    return p->evidence || p->require;
}

/* The index that evidence is found with, made at the first need.  CAG_E_NOMEM,
 * CAG_E_LIMIT. */
cag_status support_base(cag_kb *kb, cag_error *err);
/* The label of an answer alone, and the score it is decided by.  again: a look
 * after the first one made it. */
cag_status support_of(cag_kb *kb, const cag_text *question,
                      const cag_text *before, const cag_answer *a, bool again,
                      cag_support *support, double *score, cag_error *err);
/* cag_answer_check for an answer that stays as it is: the copy is checked. */
cag_status support_check_copy(cag_kb *kb, const cag_text *question,
                              const cag_ask_params *p, const cag_answer *a,
                              cag_answer *out, cag_error *err);

#endif
