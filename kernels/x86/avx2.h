/*
 * avx2.h - the operations of the AVX2 set (AVX2, FMA, F16C).
 *
 * The bits of scalar.  What has no width of its own to gain, the AVX-512 set
 * takes from here.
 */
#ifndef KERNELS_X86_AVX2_H
#define KERNELS_X86_AVX2_H

#include "kernels/kernels.h"
#include "kernels/ref.h"

/* out [n] = n weights of any type from p on; n a multiple of its block */
void unpack_avx2(float *out, int type, const uint8_t *p, int n);
void dequant_avx2(float *out, const struct kmat *w, int r);
int gemm_avx2_part(int n_tok, int d_in);
size_t gemm_avx2_pack_size(int n_tok, int d_in);
void gemm_avx2_pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                    int t0, int t1);
void gemm_avx2(float *y, size_t ldy, const float *xp, int n_tok,
               const struct kmat *w, int row0, int row1, float *scratch);
void gemm_avx2_gated(float *gp, const float *xp, int n_tok,
                     const struct kmat *gate, const struct kmat *up, int row0,
                     int row1, float *scratch);
size_t rows_avx2_x_size(int type, int d_in, bool exact);
void rows_avx2_x(void *xq, const float *x, int type, int d_in, bool exact);
void rows_avx2(float *y, size_t ldy, const void *xq, size_t xq_stride, int n_x,
               const struct kmat *w, int row0, int row1, bool exact);
void rmsnorm_avx2(float *y, size_t ldy, const float *x, size_t ldx,
                  const float *w, int n_row, int d, float eps);
void rope_avx2(float *x, int n_head, int d_head, const float *cos,
               const float *sin, float scale);
void swiglu_avx2(float *y, const float *g, const float *u, size_t n);
void add_avx2(float *y, const float *x, size_t n);
bool kvstore_avx2(int kv_type, void *k_tile, void *v_tile, int t,
                  const float *k, const float *v, int d_head);
bool q8h_avx2_encode(int8_t *code, uint16_t *scale, const float *x,
                     const float *f, int d_head);
void q8h_avx2_decode(float *x, const int8_t *code, uint16_t scale,
                     const float *f, int d_head);
void q8h_avx2_rotate(float *x, const float *f, int n_row, int d_head);
void attention_avx2(const struct attn_job *job);
void attention_avx2_merge(float *m, float *l, float *o, const float *m2,
                          const float *l2, const float *o2, int n_row,
                          int d_head);
void attention_avx2_finish(float *out, size_t ldo, const float *l,
                           const float *o, int n_row, int d_head);

#endif
