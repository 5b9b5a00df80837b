/*
 * feed_cuda.c - load_pipe's other side: pinned slots, an event for each, and
 * one that marks how far the copies have been queued.
 *
 * One mark is enough: feed_need lets the run stream wait for it at once, and
 * a wait means what was recorded when it was queued.
 */
#include "engine/cuda/cuda.h"

#include "util/mem.h"

#define RING_BYTES ((size_t)32 << 20)
#define MAX_SLOT   16
#define MIN_SLOT   3

struct feed {
    struct cuda *c;
    struct feed_desc d;
    struct load_pipe *pipe;
    void *ring;
    struct cuk_event *slot[MAX_SLOT], *mark;
    int n_slot;
    int n_group; /* that the run stream waits for */
};

static cag_status fill(void *ctx, int item, uint8_t *data, cag_error *err)
{
    struct feed *f = ctx;

    return f->d.fill(f->d.ctx, item, data, err);
}

static cag_status copy(void *ctx, int item, int slot, const uint8_t *data,
                       cag_error *err)
{
    struct feed *f = ctx;

    if (f->d.send(f->d.ctx, f->c->copy, item, data) != 0 ||
        cuk_event_record(f->slot[slot], f->c->copy) != 0)
        return cuda_fail(f->c, f->d.what, err);
    return CAG_OK;
}

static cag_status over(void *ctx, int slot, bool wait, bool *done,
                       cag_error *err)
{
    struct feed *f = ctx;

    *done = true;
    if ((wait ? cuk_event_sync(f->slot[slot])
              : cuk_event_done(f->slot[slot], done)) != 0)
        return cuda_fail(f->c, f->d.what, err);
    return CAG_OK;
}

static cag_status queued(void *ctx, int group, cag_error *err)
{
    struct feed *f = ctx;

    if (cuk_event_record(f->mark, f->c->copy) != 0 ||
        trace_cuda_mark(f->c, f->d.mark, group, f->c->copy) != 0)
        return cuda_fail(f->c, f->d.what, err);
    return CAG_OK;
}

static const struct load_ops pipe_ops = { fill, copy, over, queued };

static int slots_for(const struct feed_desc *d)
{
    size_t n = RING_BYTES / d->slot_bytes;
    size_t n_item = (size_t)d->group_end[d->n_group - 1];

    n = n < n_item ? n : n_item;
    n = n < MAX_SLOT ? n : MAX_SLOT;
    return n > MIN_SLOT ? (int)n : MIN_SLOT;
}

cag_status feed_new(struct cuda *c, const struct feed_desc *d,
                    struct feed **out, cag_error *err)
{
    struct feed *f = mem_zalloc(sizeof *f);
    struct load_plan plan;
    cag_status st = CAG_OK;

    if (!f)
        return cag_fail_nomem(err, d->what);
    f->c = c;
    f->d = *d;
    f->n_slot = slots_for(d);
    for (int i = 0; i < f->n_slot && !st; i++)
        if (cuk_event_new(c->dev, false, &f->slot[i]) != 0)
            st = cuda_fail(c, d->what, err);
    if (!st && cuk_event_new(c->dev, false, &f->mark) != 0)
        st = cuda_fail(c, d->what, err);
    if (!st && cuk_host_alloc(c->dev, &f->ring,
                              (size_t)f->n_slot * d->slot_bytes, NULL) != 0)
        st = cag_fail_nomem(err, "pinned memory of the loader");
    if (!st) {
        plan = (struct load_plan){ d->n_group, d->group_end,
                                   f->n_slot,  d->slot_bytes,
                                   f->ring,    pool_size(c->pool) };
        st = load_pipe_new(&plan, &pipe_ops, f, &f->pipe, err);
    }
    if (st) {
        feed_free(f);
        return st;
    }
    *out = f;
    return CAG_OK;
}

cag_status feed_need(struct feed *f, int group, cag_error *err)
{
    if (group < f->n_group)
        return CAG_OK;
    cag_status st = load_pipe_need(f->pipe, group, err);
    if (st)
        return st;
    if (cuk_stream_wait(f->c->run, f->mark) != 0)
        return cuda_fail(f->c, f->d.what, err);
    f->n_group = group + 1;
    return CAG_OK;
}

bool feed_done(const struct feed *f)
{
    return load_pipe_done(f->pipe);
}

void feed_free(struct feed *f)
{
    if (!f)
        return;
    load_pipe_free(f->pipe);
    /* a copy may still read the ring; an error of the device ends it too */
    cuk_stream_sync(f->c->copy);
    cuk_host_free(f->c->dev, f->ring);
    for (int i = 0; i < f->n_slot; i++)
        cuk_event_free(f->slot[i]);
    cuk_event_free(f->mark);
    mem_free(f);
}
