/*
 * evidence.h - which lines of the knowledge hold an answer up: by words and, if
 * there is any, by the attention of the model's copy heads (line_mass.h).
 *
 * Q are the words of the question, N the new words of the answer: those that
 * are not in the question (small models repeat it, and that says nothing).
 * cov(A, S) is the share of A's weight (idf) whose words stand in S.
 *
 *   score of a window  (cov(Q + N, window) + best cov(Q + N, S) / 2) / 1.5
 *                      over the sentences S that touch one of its lines
 *   q2n                best cov(Q, S)^2 cov(N, S) over all sentences S
 *
 * With attention half of a window's score is its share of the answer's, in
 * proportion to the best window's, which is worth as much as the best score by
 * words.  That ranks as score / best score + attention / best attention.
 *
 * The evidence is the best three windows that do not overlap, at equal score
 * the earlier one, as far as they have half of the first one's score
 * (EVIDENCE_FLOOR), without the lines at their ends that add no asked word and
 * had less than a tenth of the window's attention.
 * Measured (tests/bench/results/evidence.md): the first holds the right answer
 * in over 90 of 100 right answers, one of the three in over 97.
 */
#ifndef EVIDENCE_EVIDENCE_H
#define EVIDENCE_EVIDENCE_H

#include "evidence/line_mass.h"
#include "evidence/evidence_index.h"

#define EVIDENCE_MAX   3
#define EVIDENCE_FLOOR 0.5
/* A wider window is cut down: to the lines of its best sentence, to that
 * sentence, to its first bytes. */
#define EVIDENCE_BYTES 800

/* A question and its answer; before: the question before, in a conversation,
 * or NULL: a follow-up ("And who designed it?") is scored alone and together
 * with it, and the better supported of the two counts (by q2n, then by the
 * first window). */
struct evidence_asked {
    const char *question, *before, *answer;
    size_t n_question, n_before, n_answer;
    const struct line_mass *mass; /* of the answer; NULL: words alone */
};

struct evidence_found {
    struct evidence_window {
        uint32_t first, last; /* lines of the index, one source's */
        uint64_t from, to;    /* bytes of its text, no line's end at the end */
        double score;         /* 0 .. 1 */
    } window[EVIDENCE_MAX];
    int n_window;
    double q2n; /* 0 .. 1 */
};

/* CAG_E_NOMEM.  Texts are valid UTF-8. */
cag_status evidence_find(const struct evidence_index *ix,
                         const struct evidence_asked *asked,
                         struct evidence_found *out, cag_error *err);

#endif
