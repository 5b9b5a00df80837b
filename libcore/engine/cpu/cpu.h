/*
 * cpu.h - the CPU's state: weights as kernels read them, scratch memory,
 * threads.  Shared by the files of this folder.
 */
#ifndef ENGINE_CPU_CPU_H
#define ENGINE_CPU_CPU_H

#include "engine/backend.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "util/pool.h"

/* Tokens of one attention work item: as many as fill ATTN_ROWS rows. */
struct attn_item {
    int r0, r1; /* rows of the pass; one prefix, if any      */
    int span;   /* steps only                                */
};

struct cpu_thread {
    float *gemm;  /* GEMM_SCRATCH                              */
    float *attn;  /* ATTN_SCRATCH                              */
    float *m, *l; /* [2, ATTN_ROWS]                            */
    float *o;     /* [2, ATTN_ROWS, d_head]                    */
    float *slice; /* [ROWS_MAX, HEAD_SLICE] logits             */
    float *share; /* [MASS_ROWS, KV_SPAN], see mass_cpu.c      */
};
#define HEAD_SLICE 512
#define MASS_ROWS  16

struct cpu {
    struct backend base;
    const struct kernels *k;
    /* A prompt's attention and products, or NULL; and the products that are
     * computed with 8 bits instead, or NULL. */
    const struct kernels_fast *fast, *fast8;
    char numerics[64], prompt_gemm[64]; /* made of the above */
    const struct model_config *cfg;
    const struct model_weights *w;
    struct pool *pool; /* borrowed */
    bool exact;
    int kv_type;
    int group;            /* query heads per KV head */
    int d_q, d_kv, d_qkv; /* row widths */
    float q_scale;        /* log2(e) / sqrt(d_head) */
    int n_kvcache;        /* alive */
    uint64_t max_bytes;   /* 0: no limit */
    uint64_t used_bytes;  /* see charge */

    void *scratch;    /* one block, carved into what follows */
    float *x;         /* [max_row, d_model] the residual stream */
    float *y;         /* [max_row, d_model] what is added to it next */
    float *h;         /* [max_row, d_model] after a norm */
    float *qkv;       /* [max_row, d_qkv] */
    float *q;         /* [n_kv_head][max_row, group, d_head] */
    float *q_rotated; /* q as codes of q8h take it: times the factors of
                         K, then rotated (q8h_rotate)                  */
    float *att;       /* [max_row, d_q] */
    float *gate, *up; /* [max_row, d_ff]; gate also packed for gemm */
    float *cos, *sin; /* [max_row, d_head / 2] */
    int32_t *last;    /* [max_row, group] position of each query row */
    float *row_m;     /* [n_head, max_row] the state of each row after the */
    float *row_l;     /*     layer's attention                             */
    int *mass_run;    /* [max_row + 1] see mass_cpu.c */
    /* Inputs in the form the products want: packed for gemm, or per row for
     * the row kernels.  The two are never alive at once.  packed_fast and
     * packed_fast8, for the other gemms, may be alive beside either. */
    float *packed, *packed_fast, *packed_fast8;
    struct cpu_thread *thread; /* [threads] */

    /* A step's attention: its items, and one state per (KV head, span, row).
     * Grown when timelines are made, never in a pass of known size. */
    struct attn_item *item;
    int n_item, cap_item;
    float *state;              /* m, l, then o */
    size_t cap_state;          /* states of d_head + 2 floats */
    int state_row, state_span; /* of the current pass */
};

/* Lay the scratch of passes of max_row rows out from base on; base NULL: only
 * measure.  False when the size overflows. */
bool cpu_carve(struct cpu *c, int n_thread, void *base, size_t *bytes);
/* Room for steps of n_row rows whose timelines have n_span spans. */
cag_status cpu_reserve_step(struct cpu *c, int n_row, int n_span,
                            cag_error *err);

#endif
