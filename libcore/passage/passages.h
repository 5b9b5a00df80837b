/*
 * passages.h - where in the knowledge a question leads, before any answer.
 *
 *   score of a line   weight of the question's words in a sentence it is in
 *                     + BM25 of a window it is in, if that weight is not 0
 *                     + what the caller knows of it
 *
 * each the best one, as a share of the best line's.  `Most' times the best line
 * that is in no passage yet is taken, with two lines on each side, fewer where
 * they are long; at equal score the one with more of the question's words, then
 * the earlier one.  A
 * function of the text and of what is asked alone.
 */
#ifndef ASK_PASSAGES_H
#define ASK_PASSAGES_H

#include "evidence/evidence_index.h"

enum { PASSAGE_MAX = 3, PASSAGE_AROUND = 2 };
/* A passage has no more lines than fit, but for its best line; of that the best
 * sentence counts, of which at most so much is taken. */
#define PASSAGE_BYTES 1000

struct passages {
    struct passage {
        int source;
        uint64_t from, to; /* bytes of its text, the last line's end included */
    } at[PASSAGE_MAX];     /* [n] in the order of the text, apart */
    int n;
};

struct passages_asked {
    const char *question, *before; /* the question before it, or NULL */
    size_t n_question, n_before;
    const double *extra; /* [ix->n_line] from 0; NULL: words alone */
    int most;            /* passages, at most PASSAGE_MAX          */
};

/* n = 0: no word of the question stands in the text.  CAG_E_NOMEM. */
cag_status passages_find(const struct evidence_index *ix,
                         const struct passages_asked *asked,
                         struct passages *out, cag_error *err);

#endif
