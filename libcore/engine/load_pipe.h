/*
 * load_pipe.h - bytes on their way to a device: readers fill a ring of host
 * slots, one thread queues the copies, in order.
 *
 *   item 0 1 2 3 ...   a piece of at most one slot; items form ascending
 *                      groups (a model's layers)
 *
 *   readers:   take the next item, wait for its slot, fill it (read, check,
 *              expand: the work that takes all cores)
 *   owner:     load_pipe_need(g): queue the copies of all items up to the end
 *              of group g, as they are filled, and say after each group that
 *              it is complete
 *
 * The device is only ever called by the owner's thread; so copies have one
 * order, that of the items, and what the owner queues between two calls
 * stands between them.  Two pipes needed in turn interleave: weights of a
 * layer, then its K and V.  A slot is filled again only when the device says
 * its copy is over.
 *
 * Nothing here knows what a device is: tests/unit/test_load_pipe.c runs it
 * against one made of delays and failures.
 */
#ifndef ENGINE_CUDA_LOAD_PIPE_H
#define ENGINE_CUDA_LOAD_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct load_pipe;

struct load_ops {
    /* Readers, several at a time: item's bytes into slot memory. */
    cag_status (*fill)(void *ctx, int item, uint8_t *data, cag_error *err);
    /* The owner: queue the copy of an item out of a slot. */
    cag_status (*copy)(void *ctx, int item, int slot, const uint8_t *data,
                       cag_error *err);
    /* Whether the copy queued last from a slot is over; wait: until it is. */
    cag_status (*over)(void *ctx, int slot, bool wait, bool *done,
                       cag_error *err);
    /* All copies of groups up to this one are queued. */
    cag_status (*queued)(void *ctx, int group, cag_error *err);
};

struct load_plan {
    int n_group;
    const int *group_end; /* [n_group] ascending: one past the last item */
    int n_slot;
    size_t slot_bytes;
    uint8_t *ring; /* [n_slot][slot_bytes], 64-aligned; borrowed
                      until load_pipe_free and the last copy      */
    int n_reader;
};

/*
 * Readers start at once.  ops, ctx and plan->group_end are borrowed for the
 * pipe's life.  With at least one reader running, threads that cannot be
 * started are done without.
 */
cag_status load_pipe_new(const struct load_plan *plan,
                         const struct load_ops *ops, void *ctx,
                         struct load_pipe **out, cag_error *err);
/*
 * Queue everything up to the end of group; at once when that was done.  After
 * a failure every call fails alike: with the error of the first item in order
 * that could not be filled, or of the device.
 */
cag_status load_pipe_need(struct load_pipe *p, int group, cag_error *err);
/* All groups are queued (not: copied). */
bool load_pipe_done(const struct load_pipe *p);
/* Stop the readers; NULL is fine.  Copies may still be under way. */
void load_pipe_free(struct load_pipe *p);

#endif
