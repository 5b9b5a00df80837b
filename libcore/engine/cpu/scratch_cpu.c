/*
 * scratch_cpu.c - the CPU's memory of a pass.
 *
 * What has the size of max_row rows is one block, carved once when the
 * engine is made.  It is not touched before it is used, so a short question
 * costs the memory of a short question.  A step's attention states depend on
 * how long the timelines are: they grow when timelines are made.
 */
#include "engine/cpu/cpu.h"

#include "engine/cpu/product_cpu.h"
#include "util/error.h"
#include "util/mem.h"

struct carve {
    uint8_t *base; /* NULL: only measure */
    size_t off;
    bool overflow;
};

/* n * m elements of size, 64-byte aligned */
static void *carve(struct carve *cv, size_t n, size_t m, size_t size)
{
    size_t bytes, at = cv->off;

    if (!mem_mul(&bytes, n, m) || !mem_mul(&bytes, bytes, size) ||
        !mem_add(&bytes, bytes, 63) ||
        !mem_add(&cv->off, cv->off, bytes & ~(size_t)63))
        cv->overflow = true;
    return cv->base ? cv->base + at : NULL;
}

/* Bytes of the inputs of any product, in the form it wants. */
static size_t packed_bytes(const struct cpu *c)
{
    const struct model_config *cfg = c->cfg;
    int width[3] = { cfg->d_model, c->d_q, cfg->d_ff };
    size_t most = 0;

    for (int i = 0; i < 3; i++) {
        size_t n =
            c->k->gemm_pack_size(c->base.max_row, width[i]) * sizeof(float);
        if (n > most)
            most = n;
        n = product_xq_bound(c, width[i]) * (size_t)c->base.max_row;
        if (n > most)
            most = n;
    }
    return most;
}

/* Floats of the inputs of any product that a family computes, if there is. */
static size_t packed_fast_floats(const struct cpu *c,
                                 const struct kernels_fast *f)
{
    const struct model_config *cfg = c->cfg;
    int width[3] = { cfg->d_model, c->d_q, cfg->d_ff };
    size_t most = 0;

    for (int i = 0; f && i < 3; i++) {
        size_t n = f->gemm_pack_size(c->base.max_row, width[i]);
        if (n > most)
            most = n;
    }
    return most;
}

/* [max_row, d_ff], or that packed for gemm */
static size_t gate_floats(const struct cpu *c)
{
    size_t rows = (size_t)c->base.max_row * (size_t)c->cfg->d_ff;
    size_t packed = c->k->gemm_pack_size(c->base.max_row, c->cfg->d_ff);

    return rows > packed ? rows : packed;
}

static void carve_all(struct cpu *c, int n_thread, struct carve *cv)
{
    const struct model_config *cfg = c->cfg;
    size_t n = (size_t)c->base.max_row, d = (size_t)cfg->d_head;

    c->x = carve(cv, n, (size_t)cfg->d_model, sizeof(float));
    c->y = carve(cv, n, (size_t)cfg->d_model, sizeof(float));
    c->h = carve(cv, n, (size_t)cfg->d_model, sizeof(float));
    c->qkv = carve(cv, n, (size_t)c->d_qkv, sizeof(float));
    c->q = carve(cv, n, (size_t)c->d_q, sizeof(float));
    c->q_rotated = carve(cv, n, (size_t)c->d_q, sizeof(float));
    c->att = carve(cv, n, (size_t)c->d_q, sizeof(float));
    c->gate = carve(cv, gate_floats(c), 1, sizeof(float));
    c->up = carve(cv, n, (size_t)cfg->d_ff, sizeof(float));
    c->cos = carve(cv, n, d / 2, sizeof(float));
    c->sin = carve(cv, n, d / 2, sizeof(float));
    c->last = carve(cv, n, (size_t)c->group, sizeof(int32_t));
    c->row_m = carve(cv, n, (size_t)cfg->n_head, sizeof(float));
    c->row_l = carve(cv, n, (size_t)cfg->n_head, sizeof(float));
    c->mass_run = carve(cv, n + 1, 1, sizeof *c->mass_run);
    c->packed = carve(cv, packed_bytes(c), 1, 1);
    c->packed_fast =
        carve(cv, packed_fast_floats(c, c->fast), 1, sizeof(float));
    c->packed_fast8 =
        carve(cv, packed_fast_floats(c, c->fast8), 1, sizeof(float));
    c->thread = carve(cv, (size_t)n_thread, sizeof *c->thread, 1);
    for (int i = 0; i < n_thread; i++) {
        struct cpu_thread t;
        t.gemm = carve(cv, GEMM_SCRATCH, 1, sizeof(float));
        t.attn = carve(cv, ATTN_SCRATCH, 1, sizeof(float));
        t.m = carve(cv, 2 * ATTN_ROWS, 1, sizeof(float));
        t.l = carve(cv, 2 * ATTN_ROWS, 1, sizeof(float));
        t.o = carve(cv, 2 * ATTN_ROWS, d, sizeof(float));
        t.slice = carve(cv, ROWS_MAX, HEAD_SLICE, sizeof(float));
        t.share = carve(cv, MASS_ROWS, KV_SPAN, sizeof(float));
        if (cv->base)
            c->thread[i] = t;
    }
}

bool cpu_carve(struct cpu *c, int n_thread, void *base, size_t *bytes)
{
    struct carve cv = { base, 0, false };

    carve_all(c, n_thread, &cv);
    *bytes = cv.off;
    return !cv.overflow;
}

cag_status cpu_reserve_step(struct cpu *c, int n_row, int n_span,
                            cag_error *err)
{
    size_t n, width = (size_t)c->cfg->d_head + 2;
    size_t items = (size_t)n_row * (size_t)n_span;

    if (items < (size_t)c->base.max_row)
        items = (size_t)c->base.max_row; /* a prompt's blocks */
    if (items > INT32_MAX || !mem_mul(&n, items, (size_t)c->cfg->n_head))
        return cag_fail_nomem(err, "attention states");
    if (items > (size_t)c->cap_item) {
        struct attn_item *it = mem_alloc_array(items, sizeof *it);
        if (!it)
            return cag_fail_nomem(err, "attention items");
        mem_free(c->item);
        c->item = it;
        c->cap_item = (int)items;
    }
    n = (size_t)n_row * (size_t)n_span * (size_t)c->cfg->n_head;
    if (n > c->cap_state) {
        size_t bytes;
        float *s = NULL;
        if (mem_mul(&bytes, n, width * sizeof *s))
            s = mem_alloc_aligned(64, bytes);
        if (!s)
            return cag_fail_nomem(err, "attention states");
        mem_free(c->state);
        c->state = s;
        c->cap_state = n;
    }
    return CAG_OK;
}
