/*
 * product_cpu.h - y = W x for the rows of a pass: an input, the matrices it is
 * multiplied with, and who computes what.
 */
#ifndef ENGINE_CPU_PRODUCT_CPU_H
#define ENGINE_CPU_PRODUCT_CPU_H

#include "engine/cpu/cpu.h"

#define PRODUCT_MATS 3

struct out_mat {
    struct kmat w;
    float *y; /* [max_row, ld] + the matrix' column */
    size_t ld;
    uint8_t *xq; /* this type's form of the input */
    size_t xq_stride;
};

/* An input and the matrices it is multiplied with, as one list of rows. */
struct product {
    struct cpu *c;
    int r0, n_tok;  /* rows [r0, r0 + n_tok) of x and y */
    const float *x; /* [max_row, ld] */
    size_t ld;
    int d_in;
    int n_mat;
    struct out_mat mat[PRODUCT_MATS];
    float *packed;             /* x as gemm wants it */
    bool swiglu;               /* mats are gate and up; gate = silu(g) * u */
    float *gated;              /* or that, packed for the next product */
    bool rows;                 /* row kernels, not gemm */
    int part, n_part;          /* tokens of a part */
    int n_piece, n_piece_last; /* of weight rows, in a part */
};

void product_init(struct product *pr, struct cpu *c, int r0, int n_tok,
                  bool rows, const float *x, size_t ld, int d_in);
/* y [max_row, ld], from the matrix' first column on */
void product_add(struct product *pr, const struct kmat *w, float *y, size_t ld);
/*
 * next = Wdown swiglu(pr).  True where one kernel does it: pr then packs its
 * result for next, which needs no product_encode and reads none of pr's y.
 */
bool product_chain(struct product *pr, struct product *next);

/* Row kernels: give every distinct weight type its own form of the input. */
void product_place(struct product *pr);
/* Bring rows [t0, t1), counted from r0, into the products' form. */
void product_encode(const struct product *pr, int t0, int t1);
/* All of it, on all threads. */
void product_run(struct product *pr);

/* Pieces of GEMM_ROW_GRID weight rows. */
int product_units(int n_out);
/* Bytes of one row of d_in values in every form a product may ask for. */
size_t product_xq_bound(const struct cpu *c, int d_in);

#endif
