/*
 * bm25.h - what a retriever without a model would put into the prompt: the
 * passages of three lines that BM25 ranks best, as many as a budget of tokens
 * takes, in the order of the text.
 *
 * Scores are those of ask/bm25_score.h.
 */
#ifndef EVAL_BM25_H
#define EVAL_BM25_H

#include <cag/tokenizer.h>

#include "evidence/evidence_index.h"
#include "util/buf.h"

/* Append the passages to out.  CAG_E_NOMEM. */
cag_status bm25_passages(const struct evidence_index *ix,
                         const cag_tokenizer *tok, const char *question,
                         size_t size, int64_t budget, struct buf *out,
                         cag_error *err);

#endif
