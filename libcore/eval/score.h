/*
 * score.h - is an answer right, is a place, and how good is a score?
 */
#ifndef EVAL_SCORE_H
#define EVAL_SCORE_H

#include <cag/tool/eval.h>

/* Does text contain one of the gold answers?  CAG_E_NOMEM. */
cag_status score_is_right(const cag_gold *g, const char *text, size_t size,
                          bool *right, cag_error *err);
/* Does the piece touch the gold lines? */
bool score_is_hit(const cag_gold *g, const cag_piece *p);
/*
 * The share of pairs (one with good, one without) that v tells apart, equal
 * ones counted half; -1 when there are no such pairs.
 */
double score_auroc(const double *v, const bool *good, int n);

#endif
