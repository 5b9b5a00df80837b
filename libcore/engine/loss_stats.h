/*
 * loss_stats.h - how far two runs of a model are apart: the numbers of a
 * receipt.
 *
 * All in double, sums in one order, no C library's exp or log: the same
 * logits give the same bits on every machine.
 */
#ifndef BUILD_LOSS_STATS_H
#define BUILD_LOSS_STATS_H

#include <cag/kvc.h>

#define LOSS_CLEAR 0.1f /* a lead of the best token that counts */

/* One position: the exact and the other run's logits of the next token. */
struct loss_row {
    double kl;                   /* of the other from the exact one, nats */
    double nll_exact, nll_other; /* -ln p of the token that follows, or 0 */
    bool same;                   /* the best token; of equals the lowest id   */
    bool clear; /* the exact best leads by more than LOSS_CLEAR */
};

/* next: the token that follows, or -1.  False when a logit is not finite. */
bool loss_of_row(const float *exact, const float *other, int n_vocab,
                 int32_t next, struct loss_row *out);
/*
 * Fill kl_*, n_same, n_clear_flip and ppl_change from n >= 1 rows, the first
 * n_next of which had a token that follows.  Reorders row.
 */
void loss_of_rows(struct loss_row *row, int n, int n_next,
                  cag_kvc_receipt *out);

/* Values of K or V: exact ones, little-endian f16, and what is stored. */
struct loss_sum {
    double max_abs, square, difference; /* the last two: sums of squares */
    int64_t n_subnormal, n_overflow;
};
void loss_add(struct loss_sum *s, const uint8_t *exact, const float *stored,
              size_t n);
void loss_of_sum(const struct loss_sum *s, cag_kvc_loss *out);

#endif
