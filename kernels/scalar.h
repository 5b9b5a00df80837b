/*
 * scalar.h - the operations of the scalar set.
 *
 * The order of operations of kernels.h in portable C: what the vector sets
 * must reproduce bit for bit, and what runs where there are none.  fmaf is
 * the C library's, exact with or without an instruction for it.
 */
#ifndef KERNELS_SCALAR_H
#define KERNELS_SCALAR_H

#include <math.h>
#include <string.h>

#include "kernels/exp2.h"
#include "kernels/kernels.h"
#include "kernels/ref.h"

static inline float exp2_scalar(float x)
{
    float t, f, p;
    uint32_t n;

    if (x < EXP2_LO)
        return 0.0f;
    if (x > EXP2_HI)
        x = EXP2_HI;
    t = x + EXP2_MAGIC;
    f = x - (t - EXP2_MAGIC);
    p = fmaf(EXP2_C6, f, EXP2_C5);
    p = fmaf(p, f, EXP2_C4);
    p = fmaf(p, f, EXP2_C3);
    p = fmaf(p, f, EXP2_C2);
    p = fmaf(p, f, EXP2_C1);
    p = fmaf(p, f, 1.0f);
    memcpy(&n, &t, sizeof n);
    n <<= 23;
    memcpy(&t, &n, sizeof t);
    return p * t;
}

/* fold of kernels.h; n a power of two */
static inline float fold_scalar(float *a, int n)
{
    while (n > 1) {
        n /= 2;
        for (int j = 0; j < n; j++)
            a[j] = a[j] + a[j + n];
    }
    return a[0];
}

/* dot32 of kernels.h, one group of at most 32 at a time */
static inline void dot32_scalar_step(float lane[32], const float *a,
                                     const float *b, int n)
{
    for (int j = 0; j < 32; j++)
        lane[j] = j < n ? fmaf(a[j], b[j], lane[j]) : fmaf(0.0f, 0.0f, lane[j]);
}

/*
 * Storing, adding, dividing and expanding have no order to keep: the set
 * takes those from ref.
 */
void gemm_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch);
void gemm_scalar_gated(float *gp, const float *xp, int n_tok,
                       const struct kmat *gate, const struct kmat *up, int row0,
                       int row1, float *scratch);
size_t rows_scalar_x_size(int type, int d_in, bool exact);
void rows_scalar_x(void *xq, const float *x, int type, int d_in, bool exact);
void rows_scalar(float *y, size_t ldy, const void *xq, size_t xq_stride,
                 int n_x, const struct kmat *w, int row0, int row1, bool exact);
void rmsnorm_scalar(float *y, size_t ldy, const float *x, size_t ldx,
                    const float *w, int n_row, int d, float eps);
void rope_scalar(float *x, int n_head, int d_head, const float *cos,
                 const float *sin, float scale);
void swiglu_scalar(float *y, const float *g, const float *u, size_t n);
bool q8h_scalar_encode(int8_t *code, uint16_t *scale, const float *x,
                       const float *f, int d_head);
void q8h_scalar_decode(float *x, const int8_t *code, uint16_t scale,
                       const float *f, int d_head);
void q8h_scalar_rotate(float *x, const float *f, int n_row, int d_head);
void attention_scalar(const struct attn_job *job);
void attention_scalar_merge(float *m, float *l, float *o, const float *m2,
                            const float *l2, const float *o2, int n_row,
                            int d_head);

#endif
