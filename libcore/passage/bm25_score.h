/*
 * bm25_score.h - how well the windows of a text match a question, by BM25.
 *
 * k1 = 1.2, b = 0.75; windows and weights of words are those of
 * evidence/evidence_index.h.
 */
#ifndef ASK_BM25_SCORE_H
#define ASK_BM25_SCORE_H

#include "evidence/evidence_index.h"

struct bm25 {
    const struct evidence_index *ix;
    uint32_t *tf; /* [words.n] 1 + its count in a window; 0: not asked */
};

/* A zeroed b may be released.  CAG_E_NOMEM. */
cag_status bm25_init(struct bm25 *b, const struct evidence_index *ix,
                     cag_error *err);
/* Ask for the words of a text, too; those asked before stay. */
cag_status bm25_ask(struct bm25 *b, const char *s, size_t size, cag_error *err);
/* v [ix->n_window], from 0. */
void bm25_score(struct bm25 *b, double *v);
void bm25_release(struct bm25 *b);

#endif
