/*
 * evidence_quote.h - runs of an answer that stand in the knowledge word for
 * word.
 *
 * A quote is six or more tokens, cut at words and not begun by a stop, that
 * stand in one source; white space of any kind and length is one blank on both
 * sides, so that a wrapped line of the source is found in an answer that is not
 * wrapped.  From left to right the longest run is taken; at equal length its
 * first place.
 */
#ifndef EVIDENCE_EVIDENCE_QUOTE_H
#define EVIDENCE_EVIDENCE_QUOTE_H

#include <cag/tokenizer.h>

#include "evidence/evidence_base.h"

#define QUOTE_TOKENS 6

struct evidence_asked;
/* How many of the answer's new words (those that the question does not have),
 * of 0 .. 1, its quotes have.  CAG_E_NOMEM. */
cag_status evidence_quoted(const cag_quote *q, int n,
                           const struct evidence_asked *asked, double *share,
                           cag_error *err);

/* *out: [*n] heap, NULL if there is none.  CAG_E_NOMEM. */
cag_status evidence_quotes(struct evidence_base *b, const cag_tokenizer *tok,
                           const char *answer, size_t size, cag_quote **out,
                           int *n, cag_error *err);

#endif
