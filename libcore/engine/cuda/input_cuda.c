/*
 * input_cuda.c - what a pass tells the device, in one block at equal offsets in
 * host and in device memory.
 *
 *   row [n_row]  kv [n_row]  item [n_item]  state0 [n_row + 1]  want [n_row]
 *   bad [n_layer]  best [n_row], each 256-aligned; offsets depend on the
 *   counts only.  bad goes there and comes back, best comes back.
 */
#include "engine/cuda/pass_cuda.h"

#include <string.h>

static size_t up256(size_t n)
{
    return (n + 255) & ~(size_t)255;
}

/* Offsets of the seven parts, and the size of the whole. */
static void offsets(size_t off[8], int n_row, int n_kv, int n_item, int n_layer)
{
    off[0] = 0;
    off[1] = off[0] + up256((size_t)n_row * sizeof(struct cuk_row));
    off[2] = off[1] + up256((size_t)n_kv * sizeof(struct cuk_kv));
    off[3] = off[2] + up256((size_t)n_item * sizeof(struct cuk_item));
    off[4] = off[3] + up256(((size_t)n_row + 1) * sizeof(int32_t));
    off[5] = off[4] + up256((size_t)n_row * sizeof(int32_t));
    off[6] = off[5] + up256((size_t)n_layer * sizeof(int32_t));
    off[7] = off[6] + up256((size_t)n_row * sizeof(int32_t));
}

static void lay_out(struct cuda_input *in, uint8_t *base, int n_row, int n_kv,
                    int n_item, int n_layer)
{
    size_t off[8];

    offsets(off, n_row, n_kv, n_item, n_layer);
    in->row = (void *)(base + off[0]);
    in->kv = (void *)(base + off[1]);
    in->item = (void *)(base + off[2]);
    in->state0 = (void *)(base + off[3]);
    in->want = (void *)(base + off[4]);
    in->bad = (void *)(base + off[5]);
    in->best = (void *)(base + off[6]);
    in->bytes = off[6];
    in->back = off[6] - off[5] + (size_t)n_row * sizeof *in->best;
}

void forward_cuda_bounds(struct cuda *c)
{
    int rows = c->base.max_row, items, states;
    size_t off[8];

    cuk_plan_bound(&c->shape, rows, CUDA_STEP_ROWS, c->n_block, &c->cap_item,
                   &c->cap_state);
    for (int n = 1; n <= CUDA_STEP_ROWS; n++) {
        cuk_plan_bound(&c->shape, n, n, c->n_block, &items, &states);
        c->cap_item = items > c->cap_item ? items : c->cap_item;
        c->cap_state = states > c->cap_state ? states : c->cap_state;
    }
    c->cap_item *= 2; /* a graph's items are rounded up */
    offsets(off, rows, CUDA_STEP_ROWS, c->cap_item, c->n_layer);
    c->input_bytes = off[7];
    c->back_bytes = off[7] - off[5];
}

static int padded_items(int n)
{
    int p = 16;

    while (p < n)
        p *= 2;
    return p;
}

/* Rows and timelines; rows that are not there belong to no timeline. */
static void fill_rows(struct pass_cuda *p)
{
    int kv = -1;

    for (int r = 0; r < p->pad_row; r++) {
        struct cuk_row *row = &p->host.row[r];
        memset(row, 0, sizeof *row);
        row->kv = -1;
        if (r >= p->n_row)
            continue;
        if (r == 0 || p->row[r].kv != p->row[r - 1].kv)
            cuda_kv_describe((const struct cuda_kv *)p->row[r].kv,
                             &p->host.kv[++kv]);
        *row = (struct cuk_row){ p->row[r].id, p->row[r].pos, kv, 0 };
    }
}

/* Rows with an outcome, those of one kind together: first ids, then logits.  A
 * step has all its rows, for a graph serves whatever is asked of it. */
static void fill_wanted(struct pass_cuda *p)
{
    p->n_want = 0;
    for (int logits = 0; logits < 2; logits++)
        for (int r = 0; r < p->pad_row; r++) {
            const struct forward_row *row = r < p->n_row ? &p->row[r] : NULL;
            bool asked = row && row->logits;

            if ((asked || p->step) && (asked && !row->best) == logits)
                p->host.want[p->n_want++] = r;
        }
}

static void fill_x(struct pass_cuda *p)
{
    struct cuda *c = p->c;
    size_t d = (size_t)c->cfg->d_model, n = (size_t)p->n_row * d;

    if (!p->x)
        return;
    memcpy(c->host_x, p->x, n * sizeof *p->x);
    memset(c->host_x + n, 0, ((size_t)p->pad_row * d - n) * sizeof *p->x);
}

/* Items come with the last rows first, so those of rows from r0 on are few at
 * the beginning: their number, and at least one of n. */
static int last_items(const struct cuk_plan *plan, int n, int r0)
{
    int last = plan->n_item;

    while (last > 1 &&
           plan->item[last - 1].row0 + plan->item[last - 1].n_row <= r0)
        last--;
    return r0 == 0 ? n : last;
}

/* The plan is made at the far end of the block, which is known only once it is
 * made. */
cag_status pass_cuda_input(struct pass_cuda *p, bool graph, cag_error *err)
{
    struct cuda *c = p->c;
    int n_layer = c->n_layer, n_kv = p->step ? p->pad_row : p->n_kv;
    struct cuk_plan plan = { .cap_item = c->cap_item / 2,
                             .cap_row = p->pad_row,
                             .cap_state = c->cap_state };

    lay_out(&p->host, c->host_input, p->pad_row, n_kv, c->cap_item, n_layer);
    fill_rows(p);
    cag_status st = pass_cuda_seen(p, graph, err);
    if (st)
        return st;
    plan.view = c->seen.host;
    plan.item = p->host.item;
    plan.state0 = p->host.state0;
    if (!cuk_plan_make(&plan, &c->shape, p->host.row, p->pad_row, p->host.kv,
                       c->n_block, 0))
        return cag_fail(err, CAG_E_BACKEND, NULL, -1,
                        "attention of %d rows needs more than %d items and "
                        "%d states",
                        p->n_row, c->cap_item / 2, c->cap_state);
    p->n_item = graph ? padded_items(plan.n_item) : plan.n_item;
    p->n_state = graph ? -1 : plan.n_state;
    p->n_last = last_items(&plan, p->n_item, p->r0);
    memset(plan.item + plan.n_item, 0,
           (size_t)(p->n_item - plan.n_item) * sizeof *plan.item);
    /* close the gap that was left for items */
    lay_out(&p->host, c->host_input, p->pad_row, n_kv, p->n_item, n_layer);
    memmove(p->host.state0, plan.state0,
            ((size_t)p->pad_row + 1) * sizeof *plan.state0);
    fill_wanted(p);
    for (int l = 0; l < n_layer; l++)
        p->host.bad[l] = INT32_MAX;
    lay_out(&p->dev, c->dev_input, p->pad_row, n_kv, p->n_item, n_layer);
    fill_x(p);
    return CAG_OK;
}
