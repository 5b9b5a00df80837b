/*
 * gemm_fast.h - the prompt phase's products and attention in less precision
 * than f32, and the scalar code whose bits they give (kernels.h, struct
 * kernels_fast).
 */
#ifndef KERNELS_GEMM_FAST_H
#define KERNELS_GEMM_FAST_H

#include "kernels/ref.h"

/* bf16-tiles, bf16-pairs; the scalar ones' pack_size is gemm_ref's */
void gemm_bf16_scalar_pack(float *xp, const float *x, size_t ldx, int n_tok,
                           int d_in, int t0, int t1);
void gemm_pairs_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                       const struct kmat *w, int row0, int row1,
                       float *scratch);
void gemm_tiles_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                       const struct kmat *w, int row0, int row1,
                       float *scratch);
void attention_tiles_scalar(const struct attn_job *job);
void attention_tiles_scalar_mass(const struct attn_job *job, float *p,
                                 size_t ldp);
void attention_pairs_scalar(const struct attn_job *job);
void attention_pairs_scalar_mass(const struct attn_job *job, float *p,
                                 size_t ldp);
KERNEL_GEMM(gemm_avx512bf16);
KERNEL_GEMM(gemm_amx);
void attention_avx512bf16(const struct attn_job *job);
void attention_avx512bf16_mass(const struct attn_job *job, float *p,
                               size_t ldp);
void attention_amx(const struct attn_job *job);
void attention_amx_mass(const struct attn_job *job, float *p, size_t ldp);

/* u4s8, u8s8 */
KERNEL_GEMM(gemm_u4_scalar);
KERNEL_GEMM(gemm_u4_avx2);
KERNEL_GEMM(gemm_u4_avxvnni);
KERNEL_GEMM(gemm_u4_avx512vnni);
void attention_u8s8_scalar(const struct attn_job *job);
void attention_u8s8_scalar_mass(const struct attn_job *job, float *p,
                                size_t ldp);
void attention_avx512vnni(const struct attn_job *job);
void attention_avx512vnni_mass(const struct attn_job *job, float *p,
                               size_t ldp);

#endif
