/*
 * set.h - what the implementations of one instruction set have in common:
 * the names of their functions, declared by one macro per set.
 *
 * A function is <operation>_<set>[_<part>] and has the type and the contract
 * of its member in struct kernels (kernels.h).  table_<set>.c assembles them.
 * Two macros, because not every operation has an order of its own: storing,
 * adding, dividing and expanding give the same bits however they are written,
 * and the scalar set takes those from ref.
 *
 *   KERNEL_SET_ORDERED(scalar)   what a set computes in an order of its own
 *   KERNEL_SET(avx2)             that, and everything else but kv_store, which
 *                                avx2 and avx512 share
 *   KERNEL_GEMM(gemm_amx)        one prompt product by itself: a family of
 *                                less precise products (struct kernels_fast)
 */
#ifndef KERNELS_SET_H
#define KERNELS_SET_H

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

#define KERNEL_GEMM(name)                                              \
    size_t name##_pack_size(int n_tok, int d_in);                      \
    void name##_pack(float *xp, const float *x, size_t ldx, int n_tok, \
                     int d_in, int t0, int t1);                        \
    void name(float *y, size_t ldy, const float *xp, int n_tok,        \
              const struct kmat *w, int row0, int row1, float *scratch)

#define KERNEL_SET_ORDERED(set)                                                \
    void gemm_##set(float *y, size_t ldy, const float *xp, int n_tok,          \
                    const struct kmat *w, int row0, int row1, float *scratch); \
    void gemm_##set##_gated(float *gp, const float *xp, int n_tok,             \
                            const struct kmat *gate, const struct kmat *up,    \
                            int row0, int row1, float *scratch);               \
    size_t rows_##set##_x_size(int type, int d_in, bool exact);                \
    void rows_##set##_x(void *xq, const float *x, int type, int d_in,          \
                        bool exact);                                           \
    void rows_##set(float *y, size_t ldy, const void *xq, size_t xq_stride,    \
                    int n_x, const struct kmat *w, int row0, int row1,         \
                    bool exact, float *scratch);                               \
    void rmsnorm_##set(float *y, size_t ldy, const float *x, size_t ldx,       \
                       const float *w, int n_row, int d, float eps);           \
    void rope_##set(float *x, int n_head, int d_head, const float *cos,        \
                    const float *sin, float scale);                            \
    void swiglu_##set(float *y, const float *g, const float *u, size_t n);     \
    bool q8h_##set##_encode(int8_t *code, uint16_t *scale, const float *x,     \
                            const float *f, int d_head);                       \
    void q8h_##set##_decode(float *x, const int8_t *code, uint16_t scale,      \
                            const float *f, int d_head);                       \
    void q8h_##set##_rotate(float *x, const float *f, int n_row, int d_head);  \
    void attention_##set(const struct attn_job *job);                          \
    void attention_##set##_mass(const struct attn_job *job, float *p,          \
                                size_t ldp);                                   \
    void attention_##set##_merge(float *m, float *l, float *o,                 \
                                 const float *m2, const float *l2,             \
                                 const float *o2, int n_row, int d_head)

#define KERNEL_SET(set)                                                      \
    KERNEL_SET_ORDERED(set);                                                 \
    void dequant_##set(float *out, const struct kmat *w, int r);             \
    int gemm_##set##_part(int n_tok, int d_in);                              \
    size_t gemm_##set##_pack_size(int n_tok, int d_in);                      \
    void gemm_##set##_pack(float *xp, const float *x, size_t ldx, int n_tok, \
                           int d_in, int t0, int t1);                        \
    void add_##set(float *y, const float *x, size_t n);                      \
    void attention_##set##_finish(float *out, size_t ldo, const float *l,    \
                                  const float *o, int n_row, int d_head)

#endif
