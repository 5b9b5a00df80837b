/*
 * pass_cuda.h - one pass: its rows, its inputs, and what is queued for it;
 * shared by forward_cuda.c, input_cuda.c, view_cuda.c and queue_cuda.c.
 */
#ifndef ENGINE_CUDA_PASS_CUDA_H
#define ENGINE_CUDA_PASS_CUDA_H

#include "engine/cuda/cuda.h"

/* Return the code of a launcher that failed. */
#define CUDA_TRY(call)      \
    do {                    \
        int code_ = (call); \
        if (code_ != 0)     \
            return code_;   \
    } while (0)

struct pass_cuda {
    struct cuda *c;
    const struct forward_req *req;
    const struct forward_row *row; /* [n_row] of this pass */
    const float *x;                /* the rows', where layer0 > 0 */
    int n_row, n_kv;               /* rows, timelines */
    int pad_row;                   /* with empty rows of a graph */
    int n_item;                    /* with empty items */
    int n_last;                    /* the first ones, with all of the rows
                                      whose outcome counts */
    int n_state;                   /* of the plan; a graph serves any: -1 */
    bool step, few;                /* phase; the GEMV way */
    int r0;                        /* first row whose outcome counts */
    int n_want;                    /* rows in want: of a step all, of a
                                      prompt those with an outcome */
    bool greedy;                   /* all that count want an id only */
    int held, n_held;              /* outcomes in host_logits */
    struct cuda_input host, dev;
    /* view_cuda.c: what lies in c->seen, and what is measured */
    int n_word;       /* of views */
    int n_run;        /* sums; 0: nothing is measured */
    int head0;        /* the request's first head of the device's layers */
    int n_head;       /* of these */
    int n_tile;       /* of the longest prefix that is measured */
    size_t seen_size; /* bytes */
    struct cuk_run *run;
    const uint64_t *dev_view;
    const struct cuk_run *dev_run;
    const int32_t *dev_head;
};

/* ------------------------------------------------------------ input_cuda.c */

/*
 * Rows, timelines and the plan of attention, in host memory.  graph: items
 * are rounded up, so that few graphs serve many steps.
 */
cag_status pass_cuda_input(struct pass_cuda *p, bool graph, cag_error *err);

/* ------------------------------------------------------------- view_cuda.c */

/* Rows a and a - 1 of a pass add to different sums. */
bool pass_cuda_new_run(const struct forward_row *row, int a);
/*
 * Views and runs of the pass, after its rows: in c->seen, and the timelines'
 * view.  graph: sizes are rounded up.
 */
cag_status pass_cuda_seen(struct pass_cuda *p, bool graph, cag_error *err);
/* Floats that come back of a run. */
size_t pass_cuda_run_size(const struct pass_cuda *p);
/* The first head measured in the device's layer l, of p's; *n of them. */
int pass_cuda_heads(const struct pass_cuda *p, int l, int *n);
/* What came back, to the rows' sums. */
void pass_cuda_add_mass(const struct pass_cuda *p);

/* ------------------------------------------------------------ queue_cuda.c */

/* The codes of kernels_cuda.h. */
int pass_cuda_queue_input(const struct pass_cuda *p);
int pass_cuda_queue_embed(const struct pass_cuda *p);
int pass_cuda_queue_layer(const struct pass_cuda *p, int l);
/* Logits of outcomes [k, k + n), n <= CUDA_HEAD_ROWS, in c->logits. */
int pass_cuda_queue_head(const struct pass_cuda *p, int k, int n);
/* The same, and the ids of the largest. */
int pass_cuda_queue_best(const struct pass_cuda *p, int k, int n);
/* What comes back of every pass: overflows, ids. */
int pass_cuda_queue_back(const struct pass_cuda *p);

#endif
