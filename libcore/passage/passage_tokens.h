/*
 * passage_tokens.h - passages as tokens of the cached prefix.
 */
#ifndef ASK_PASSAGE_TOKENS_H
#define ASK_PASSAGE_TOKENS_H

#include <cag/kvc.h>

#include "passage/passages.h"
#include "engine/session.h"

/* Head, a heading and text for each passage, tail. */
enum { PASSAGE_RANGES = 2 + 2 * PASSAGE_MAX };

/*
 * The tokens of the passages with what belongs to them: the head of the prompt
 * (all before the first source's heading), the headings of their sources, the
 * tail after the last source.  A token that is partly in a passage is in it.
 * Returns the number of ranges, ascending and apart; 0: no passages, or
 * they are the whole text.
 */
int passage_tokens(const cag_kvc *k, const struct passages *ps,
                   struct token_range range[PASSAGE_RANGES]);

#endif
