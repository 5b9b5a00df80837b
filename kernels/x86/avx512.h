/*
 * avx512.h - the operations of the AVX-512 set (F, BW, DQ, VL; and AVX2, FMA,
 * F16C).  The bits of scalar.
 */
#ifndef KERNELS_X86_AVX512_H
#define KERNELS_X86_AVX512_H

#include "kernels/x86/avx2.h"

void unpack_avx512(float *out, int type, const uint8_t *p, int n);
void dequant_avx512(float *out, const struct kmat *w, int r);
int gemm_avx512_part(int n_tok, int d_in);
size_t gemm_avx512_pack_size(int n_tok, int d_in);
void gemm_avx512_pack(float *xp, const float *x, size_t ldx, int n_tok,
                      int d_in, int t0, int t1);
void gemm_avx512(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch);
void gemm_avx512_gated(float *gp, const float *xp, int n_tok,
                       const struct kmat *gate, const struct kmat *up, int row0,
                       int row1, float *scratch);
size_t rows_avx512_x_size(int type, int d_in, bool exact);
void rows_avx512_x(void *xq, const float *x, int type, int d_in, bool exact);
void rows_avx512(float *y, size_t ldy, const void *xq, size_t xq_stride,
                 int n_x, const struct kmat *w, int row0, int row1, bool exact);
void rmsnorm_avx512(float *y, size_t ldy, const float *x, size_t ldx,
                    const float *w, int n_row, int d, float eps);
void rope_avx512(float *x, int n_head, int d_head, const float *cos,
                 const float *sin, float scale);
void swiglu_avx512(float *y, const float *g, const float *u, size_t n);
void add_avx512(float *y, const float *x, size_t n);
bool q8h_avx512_encode(int8_t *code, uint16_t *scale, const float *x,
                       const float *f, int d_head);
void q8h_avx512_decode(float *x, const int8_t *code, uint16_t scale,
                       const float *f, int d_head);
void q8h_avx512_rotate(float *x, const float *f, int n_row, int d_head);
void attention_avx512(const struct attn_job *job);
void attention_avx512_merge(float *m, float *l, float *o, const float *m2,
                            const float *l2, const float *o2, int n_row,
                            int d_head);
void attention_avx512_finish(float *out, size_t ldo, const float *l,
                             const float *o, int n_row, int d_head);

#endif
