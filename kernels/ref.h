/*
 * ref.h - the operations of the reference set.
 *
 * Each is the sentence of kernels.h written as a loop: reductions in double,
 * libm's functions, no attention to speed.  It is the oracle of the tests,
 * and small enough to be believed.
 */
#ifndef KERNELS_REF_H
#define KERNELS_REF_H

#include "kernels/kernels.h"

void dequant_ref(float *out, const struct kmat *w, int r);
int gemm_ref_part(int n_tok, int d_in);
size_t gemm_ref_pack_size(int n_tok, int d_in);
void gemm_ref_pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                   int t0, int t1);
void gemm_ref(float *y, size_t ldy, const float *xp, int n_tok,
              const struct kmat *w, int row0, int row1, float *scratch);
void gemm_ref_gated(float *gp, const float *xp, int n_tok,
                    const struct kmat *gate, const struct kmat *up, int row0,
                    int row1, float *scratch);
size_t rows_ref_x_size(int type, int d_in, bool exact);
void rows_ref_x(void *xq, const float *x, int type, int d_in, bool exact);
void rows_ref(float *y, size_t ldy, const void *xq, size_t xq_stride, int n_x,
              const struct kmat *w, int row0, int row1, bool exact);
void rmsnorm_ref(float *y, size_t ldy, const float *x, size_t ldx,
                 const float *w, int n_row, int d, float eps);
void rope_ref(float *x, int n_head, int d_head, const float *cos,
              const float *sin, float scale);
void swiglu_ref(float *y, const float *g, const float *u, size_t n);
void add_ref(float *y, const float *x, size_t n);
bool kvstore_ref(int kv_type, void *k_tile, void *v_tile, int t, const float *k,
                 const float *v, int d_head);
bool q8h_ref_encode(int8_t *code, uint16_t *scale, const float *x,
                    const float *f, int d_head);
void q8h_ref_decode(float *x, const int8_t *code, uint16_t scale,
                    const float *f, int d_head);
void q8h_ref_rotate(float *x, const float *f, int n_row, int d_head);
void attention_ref(const struct attn_job *job);
void attention_ref_merge(float *m, float *l, float *o, const float *m2,
                         const float *l2, const float *o2, int n_row,
                         int d_head);
void attention_ref_finish(float *out, size_t ldo, const float *l,
                          const float *o, int n_row, int d_head);

#endif
