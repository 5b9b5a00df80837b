/*
 * loss_stats.c - see loss_stats.h.
 *
 * The divergence of q from p, with logits a and b and their maxima taken off:
 *
 *   KL = sum p (ln p - ln q) = sum e^a (a - b) / A - ln A + ln B
 *   A = sum e^a, B = sum e^b
 *
 * so that one pass makes it, and equal logits give 0 and not a rounding
 * error.  The terms cancel to a part in 10^5 or less; double leaves 10
 * digits of what remains.
 */
#include "engine/loss_stats.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "util/rd.h"
#include "util/real.h"

/* The highest logit, the first of equals; false if one is not finite.
 * *second: the next lower or equal one, or the best itself if it is alone. */
static bool best_of(const float *x, int n, int *at, float *second)
{
    float top = x[0], next = -INFINITY;

    *at = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return false;
        if (x[i] > top) {
            next = top;
            top = x[i];
            *at = i;
        } else if (i > 0 && x[i] > next) {
            next = x[i];
        }
    }
    *second = n > 1 ? next : top;
    return true;
}

bool loss_of_row(const float *exact, const float *other, int n_vocab,
                 int32_t next, struct loss_row *out)
{
    double sum_a = 0, sum_b = 0, cross = 0, log_a, log_b, top_a, top_b;
    float second;
    int a, b;

    if (!best_of(other, n_vocab, &b, &second) ||
        !best_of(exact, n_vocab, &a, &second))
        return false;
    top_a = (double)exact[a];
    top_b = (double)other[b];
    for (int i = 0; i < n_vocab; i++) {
        double x = (double)exact[i] - top_a, y = (double)other[i] - top_b;
        double e = real_exp(x);

        sum_a += e;
        sum_b += real_exp(y);
        cross += e * (x - y);
    }
    log_a = real_log(sum_a);
    log_b = real_log(sum_b);
    out->kl = cross / sum_a - log_a + log_b;
    if (!(out->kl > 0))
        out->kl = 0; /* by rounding: it is never negative */
    out->nll_exact = out->nll_other = 0;
    if (next >= 0) {
        out->nll_exact = log_a - ((double)exact[next] - top_a);
        out->nll_other = log_b - ((double)other[next] - top_b);
    }
    out->same = a == b;
    out->clear = exact[a] - second > LOSS_CLEAR;
    return true;
}

static int by_kl(const void *a, const void *b)
{
    const struct loss_row *x = a, *y = b;

    return x->kl < y->kl ? -1 : x->kl > y->kl;
}

/* e^x - 1 for any x that a perplexity can change by */
static double change_of(double x)
{
    if (x < -700 || x > 80)
        x = x < 0 ? -700 : 80; /* an f32 ends near e^88 */
    return x <= 0 ? real_exp(x) - 1 : 1 / real_exp(-x) - 1;
}

void loss_of_rows(struct loss_row *row, int n, int n_next, cag_kvc_receipt *out)
{
    double sum = 0, nll = 0;

    out->n_same = out->n_clear_flip = 0;
    for (int i = 0; i < n; i++) {
        sum += row[i].kl;
        nll += i < n_next ? row[i].nll_other - row[i].nll_exact : 0;
        out->n_same += row[i].same;
        out->n_clear_flip += !row[i].same && row[i].clear;
    }
    qsort(row, (size_t)n, sizeof *row, by_kl);
    out->kl_max = (float)row[n - 1].kl;
    out->kl_p99 = (float)row[(99 * (size_t)n + 99) / 100 - 1].kl;
    out->kl_mean = (float)(sum / n);
    if (out->kl_mean > out->kl_max)
        out->kl_mean = out->kl_max; /* a mean of equal numbers, rounded */
    out->ppl_change = n_next > 0 ? (float)change_of(nll / n_next) : 0;
}

/* ------------------------------------------------------------ keys, values */

void loss_add(struct loss_sum *s, const uint8_t *exact, const float *stored,
              size_t n)
{
    float max = 0;
    double square = 0, difference = 0;
    int64_t subnormal = 0, overflow = 0;

    for (size_t i = 0; i < n; i++) {
        uint16_t bits = rd_le16(exact + 2 * i);
        float x = f16_to_f32(bits);
        double d = (double)x - (double)stored[i];

        max = fabsf(x) > max ? fabsf(x) : max;
        square += (double)x * (double)x;
        difference += d * d;
        subnormal += (bits & 0x7c00) == 0 && (bits & 0x03ff) != 0;
        overflow += fabsf(stored[i]) > 65504.0f;
    }
    if ((double)max > s->max_abs)
        s->max_abs = (double)max;
    s->square += square;
    s->difference += difference;
    s->n_subnormal += subnormal;
    s->n_overflow += overflow;
}

void loss_of_sum(const struct loss_sum *s, cag_kvc_loss *out)
{
    out->max_abs = (float)s->max_abs;
    /* nothing but zeros that are no longer zero: all of it is error */
    out->rel_rms = s->square > 0       ? (float)sqrt(s->difference / s->square)
                   : s->difference > 0 ? 1.0f
                                       : 0.0f;
    out->n_subnormal = s->n_subnormal;
    out->n_overflow = s->n_overflow;
}
