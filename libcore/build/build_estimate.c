/*
 * build_estimate.c - see build_estimate.h.
 *
 * The time of a prefill is the work of its matrix products and of its
 * attention, divided by how fast the matrix product of this machine runs
 * just now.  It is an estimate: other programs, the page cache and the type
 * of the weights move it by some ten per cent, so it is called "about".
 */
#include "build/build_estimate.h"

#include "model/config.h"

/* A multiply-add of attention takes this many times that of a product:
 * exponentials, and tiles that are half empty (measured, avx2 and avx512). */
#define ATTENTION_WEIGHT 2.0

double estimate_work(const struct model_config *c, int64_t from, int64_t to)
{
    double q = (double)c->n_head * c->d_head;
    double kv = (double)c->n_kv_head * c->d_head;
    double per_tok =
        (double)c->d_model * (2 * q + 2 * kv) + 3.0 * c->d_model * c->d_ff;
    double pairs = ((double)to * (double)to - (double)from * (double)from) / 2;

    return c->n_layer *
           (per_tok * (double)(to - from) + ATTENTION_WEIGHT * 2 * q * pairs);
}
