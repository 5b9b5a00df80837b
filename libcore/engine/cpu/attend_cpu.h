/*
 * attend_cpu.h - attention of one pass over tiles of K and V.
 */
#ifndef ENGINE_CPU_ATTEND_CPU_H
#define ENGINE_CPU_ATTEND_CPU_H

#include "engine/cpu/cpu.h"
#include "engine/cpu/kvcache_cpu.h"

/* What attention needs of a pass; queries in c->q, positions in c->last. */
struct attn_pass {
    struct cpu *c;
    const struct forward_row *row;
    int r0, n_row; /* rows [r0, n_row) attend */
    int layer;
    bool prompt;
};

/* The tiles of a job. */
struct attn_tiles {
    const void *k[KV_SPAN_TILES], *v[KV_SPAN_TILES];
    const void *ks[KV_SPAN_TILES], *vs[KV_SPAN_TILES];
    uint64_t see[KV_SPAN_TILES];
};

/* Tiles [t0, t1) of one span of a row's timeline, all of its prefix or all
 * private, as the row sees them, to x and a job that reads x; the rows of the
 * job are the caller's. */
void attend_tiles(struct attn_tiles *x, struct attn_job *j,
                  const struct attn_pass *a, const struct forward_row *row,
                  int head, int t0, int t1);

/* Is the job's attention that of --precision fast? */
bool attend_fast(const struct attn_pass *a, const struct attn_job *j);

/* Rows of a prompt: c->att[row] for all rows. */
void attend_prompt(const struct attn_pass *a);

/* Lay out a step's work once for all its layers.  CAG_E_NOMEM. */
cag_status attend_step_plan(struct cpu *c, const struct forward_row *row,
                            int n_row, cag_error *err);
/* Rows of a step: the states of all spans.  attend_step_finish then merges
 * one row's into c->att[row]; rows are independent. */
void attend_step(const struct attn_pass *a);
void attend_step_finish(const struct attn_pass *a, int row);

#endif
