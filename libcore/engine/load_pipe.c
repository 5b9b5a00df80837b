/*
 * load_pipe.c - see load_pipe.h.
 *
 * Item i uses slot i % n_slot.  Four counters ascend, each never past the
 * one before it, but for the ring's length:
 *
 *   n_over <= n_queued <= (filled, out of order) <= n_taken <= n_over + n_slot
 *
 * n_taken moves under the lock by readers; n_over and n_queued belong to the
 * owner, who publishes n_over under the lock.
 */
#include "engine/load_pipe.h"

#include <pthread.h>

#include "util/mem.h"

enum slot_state { SLOT_EMPTY, SLOT_FULL, SLOT_FAILED };

struct slot {
    enum slot_state state;
    cag_error err;
};

struct load_pipe {
    struct load_plan plan;
    const struct load_ops *ops;
    void *ctx;
    int n_item;
    int n_queued, n_group_done; /* the owner's */
    cag_error failed;           /* the owner's */

    pthread_mutex_t lock;
    pthread_cond_t room, filled;
    int n_taken, n_over;
    bool stop;
    struct slot *slot;
    pthread_t *thread;
    int n_thread;
};

static void *reader(void *arg)
{
    struct load_pipe *p = arg;

    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->n_taken < p->n_item) {
        if (p->n_taken >= p->n_over + p->plan.n_slot) {
            pthread_cond_wait(&p->room, &p->lock);
            continue;
        }
        int item = p->n_taken++;
        struct slot *s = &p->slot[item % p->plan.n_slot];
        uint8_t *data =
            p->plan.ring + (size_t)(item % p->plan.n_slot) * p->plan.slot_bytes;
        pthread_mutex_unlock(&p->lock);
        /* nobody looks at an empty slot's error but the reader it is with */
        s->err = (cag_error)CAG_ERROR_INIT;
        cag_status st = p->ops->fill(p->ctx, item, data, &s->err);
        pthread_mutex_lock(&p->lock);
        s->state = !st ? SLOT_FULL : SLOT_FAILED;
        pthread_cond_signal(&p->filled);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

cag_status load_pipe_new(const struct load_plan *plan,
                         const struct load_ops *ops, void *ctx,
                         struct load_pipe **out, cag_error *err)
{
    struct load_pipe *p = mem_zalloc(sizeof *p);

    if (!p)
        return cag_fail_nomem(err, "loader");
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        mem_free(p);
        return cag_fail_nomem(err, "loader");
    }
    if (pthread_cond_init(&p->room, NULL) != 0) {
        pthread_mutex_destroy(&p->lock);
        mem_free(p);
        return cag_fail_nomem(err, "loader");
    }
    if (pthread_cond_init(&p->filled, NULL) != 0) {
        pthread_cond_destroy(&p->room);
        pthread_mutex_destroy(&p->lock);
        mem_free(p);
        return cag_fail_nomem(err, "loader");
    }
    p->plan = *plan;
    p->ops = ops;
    p->ctx = ctx;
    p->n_item = plan->n_group > 0 ? plan->group_end[plan->n_group - 1] : 0;
    p->slot = mem_alloc_array((size_t)plan->n_slot, sizeof *p->slot);
    p->thread = mem_alloc_array((size_t)plan->n_reader, sizeof *p->thread);
    if (!p->slot || !p->thread) {
        load_pipe_free(p);
        return cag_fail_nomem(err, "loader");
    }
    while (p->n_thread < plan->n_reader &&
           pthread_create(&p->thread[p->n_thread], NULL, reader, p) == 0)
        p->n_thread++;
    if (p->n_thread == 0) {
        load_pipe_free(p);
        return cag_fail_nomem(err, "threads of the loader");
    }
    *out = p;
    return CAG_OK;
}

void load_pipe_free(struct load_pipe *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_thread; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->filled);
    pthread_cond_destroy(&p->room);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->slot);
    mem_free(p->thread);
    mem_free(p);
}

bool load_pipe_done(const struct load_pipe *p)
{
    return p->n_queued == p->n_item && p->n_group_done == p->plan.n_group;
}

/* Give finished slots back to the readers; the oldest one even if that means
 * waiting, when wait. */
static cag_status release(struct load_pipe *p, bool wait, cag_error *err)
{
    int n = p->n_over;
    cag_status st = CAG_OK;
    bool done = true;

    while (n < p->n_queued && done) {
        st = p->ops->over(p->ctx, n % p->plan.n_slot, wait, &done, err);
        if (st)
            return st;
        n += done;
        wait = false;
    }
    if (n == p->n_over)
        return CAG_OK;
    pthread_mutex_lock(&p->lock);
    for (int i = p->n_over; i < n; i++)
        p->slot[i % p->plan.n_slot].state = SLOT_EMPTY;
    p->n_over = n;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    return CAG_OK;
}

/* Wait until the next item in order is filled, or failed. */
static cag_status await_item(struct load_pipe *p, cag_error *err)
{
    const struct slot *s = &p->slot[p->n_queued % p->plan.n_slot];
    bool full = p->n_queued == p->n_over + p->plan.n_slot;
    cag_status st = release(p, full, err);

    if (st)
        return st;
    pthread_mutex_lock(&p->lock);
    while (s->state == SLOT_EMPTY)
        pthread_cond_wait(&p->filled, &p->lock);
    if (s->state == SLOT_FAILED)
        st = cag_error_copy(err, &s->err);
    pthread_mutex_unlock(&p->lock);
    return st;
}

static cag_status queue_item(struct load_pipe *p, cag_error *err)
{
    int slot = p->n_queued % p->plan.n_slot;
    cag_status st = await_item(p, err);

    if (st)
        return st;
    st = p->ops->copy(p->ctx, p->n_queued, slot,
                      p->plan.ring + (size_t)slot * p->plan.slot_bytes, err);
    if (!st)
        p->n_queued++;
    return st;
}

cag_status load_pipe_need(struct load_pipe *p, int group, cag_error *err)
{
    cag_error *e = &p->failed;
    cag_status st = e->status;

    while (!st && p->n_group_done <= group) {
        if (p->n_queued < p->plan.group_end[p->n_group_done]) {
            st = queue_item(p, e);
        } else {
            st = p->ops->queued(p->ctx, p->n_group_done, e);
            p->n_group_done += st == CAG_OK;
        }
    }
    return st ? cag_error_copy(err, e) : CAG_OK;
}
