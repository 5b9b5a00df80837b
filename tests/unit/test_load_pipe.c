/*
 * test_load_pipe.c - the loader against a device made of delays.
 *
 * The device holds queued copies back and runs them late, at random times,
 * reading the slot only then: a slot given back too early shows up as wrong
 * bytes.  Readers are slowed down at random; every item and every device call
 * is made to fail once.
 */
#include "tests/lib/unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/load_pipe.h"
#include "util/mem.h"

enum { MAX_ITEM = 200, MAX_SLOT = 16, BYTES = 64 };

struct world {
    unsigned seed, late; /* of the readers, of the device */
    bool slow;
    int fail_fill, fail_fill2; /* items, -1 none             */
    int fail_call;             /* n-th device call, -1 never */
    int n_call;
    _Atomic int n_fill;
    /* queued copies, in order; run in order, late */
    struct {
        int item, slot;
        const uint8_t *data;
    } queue[MAX_ITEM];
    int n_queued, n_run;
    int last_of_slot[MAX_SLOT]; /* position in queue, -1 none */
    uint8_t dst[MAX_ITEM][BYTES];
    int group_at[MAX_ITEM]; /* n_queued when it completed */
    int n_group;
};

static unsigned next_random(unsigned *s)
{
    *s = *s * 1664525u + 1013904223u;
    return *s >> 8;
}

static uint8_t content(int item, int i)
{
    return (uint8_t)(item * 31 + i * 7 + 1);
}

static cag_status fill(void *ctx, int item, uint8_t *data, cag_error *err)
{
    struct world *w = ctx;
    unsigned s = w->seed + (unsigned)item * 977u;

    if (w->slow && next_random(&s) % 3 == 0) {
        struct timespec t = { 0, (long)(next_random(&s) % 200) * 1000 };
        nanosleep(&t, NULL);
    }
    atomic_fetch_add(&w->n_fill, 1);
    if (item == w->fail_fill || item == w->fail_fill2)
        return cag_fail(err, CAG_E_CORRUPT, "kb.kvc", item, "item %d", item);
    for (int i = 0; i < BYTES; i++)
        data[i] = content(item, i);
    return CAG_OK;
}

static cag_status device_call(struct world *w, cag_error *err)
{
    if (w->n_call++ == w->fail_call)
        return cag_fail(err, CAG_E_BACKEND, NULL, -1, "call %d", w->fail_call);
    return CAG_OK;
}

static void run_to(struct world *w, int n)
{
    for (; w->n_run < n; w->n_run++)
        memcpy(w->dst[w->queue[w->n_run].item], w->queue[w->n_run].data, BYTES);
}

static cag_status copy(void *ctx, int item, int slot, const uint8_t *data,
                       cag_error *err)
{
    struct world *w = ctx;
    cag_status st = device_call(w, err);

    if (st != CAG_OK)
        return st;
    w->queue[w->n_queued].item = item;
    w->queue[w->n_queued].slot = slot;
    w->queue[w->n_queued].data = data;
    w->last_of_slot[slot] = w->n_queued++;
    return CAG_OK;
}

static cag_status over(void *ctx, int slot, bool wait, bool *done,
                       cag_error *err)
{
    struct world *w = ctx;
    cag_status st = device_call(w, err);

    if (st != CAG_OK)
        return st;
    assert_true(w->last_of_slot[slot] >= 0);
    if (wait)
        run_to(w, w->last_of_slot[slot] + 1);
    else if (w->n_run < w->n_queued && next_random(&w->late) % 2)
        run_to(w, w->n_run + 1);
    *done = w->n_run > w->last_of_slot[slot];
    return CAG_OK;
}

static cag_status queued(void *ctx, int group, cag_error *err)
{
    struct world *w = ctx;
    cag_status st = device_call(w, err);

    if (st != CAG_OK)
        return st;
    assert_int_equal(group, w->n_group);
    w->group_at[w->n_group++] = w->n_queued;
    return CAG_OK;
}

static const struct load_ops ops = { fill, copy, over, queued };

static void world_init(struct world *w, unsigned seed, bool slow)
{
    memset(w, 0, sizeof *w);
    w->seed = w->late = seed;
    w->slow = slow;
    w->fail_fill = w->fail_fill2 = w->fail_call = -1;
    for (int i = 0; i < MAX_SLOT; i++)
        w->last_of_slot[i] = -1;
}

/* Groups of random sizes, also empty ones. */
static int make_groups(int *end, int n_group, unsigned seed)
{
    int n = 0;

    for (int g = 0; g < n_group; g++) {
        n += (int)(next_random(&seed) % 9);
        end[g] = n;
    }
    return n;
}

static void check_all(const struct world *w, int n_item)
{
    for (int i = 0; i < n_item; i++)
        for (int b = 0; b < BYTES; b++)
            assert_int_equal(w->dst[i][b], content(i, b));
}

static void test_order_and_reuse(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        static struct world w;
        static uint8_t ring[MAX_SLOT * BYTES];
        unsigned s = seed;
        int end[16], n_group = 1 + (int)(next_random(&s) % 16);
        int n_item = make_groups(end, n_group, seed);
        struct load_plan plan = {
            n_group, end,  1 + (int)(next_random(&s) % MAX_SLOT),
            BYTES,   ring, 1 + (int)(next_random(&s) % 4)
        };
        struct load_pipe *p;

        world_init(&w, seed, seed % 2 == 0);
        assert_int_equal(load_pipe_new(&plan, &ops, &w, &p, NULL), CAG_OK);
        for (int g = 0; g < n_group; g += 1 + (int)(next_random(&s) % 3)) {
            assert_int_equal(load_pipe_need(p, g, NULL), CAG_OK);
            assert_int_equal(w.n_group, g + 1);
            assert_int_equal(w.group_at[g], end[g]);
            /* asked again, nothing is queued again */
            assert_int_equal(load_pipe_need(p, g, NULL), CAG_OK);
            assert_int_equal(w.n_queued, end[g]);
        }
        assert_int_equal(load_pipe_need(p, n_group - 1, NULL), CAG_OK);
        assert_true(load_pipe_done(p));
        assert_int_equal(w.n_queued, n_item);
        load_pipe_free(p);
        run_to(&w, n_item);
        check_all(&w, n_item);
        for (int i = 0; i < n_item; i++)
            assert_int_equal(w.queue[i].item, i);
    }
}

/* The error is that of the first bad item, whatever fails first in time. */
static void test_fill_failures(void **state)
{
    int end[2] = { 10, 40 };
    static uint8_t ring[4 * BYTES];
    struct load_plan plan = { 2, end, 4, BYTES, ring, 3 };

    (void)state;
    for (int bad = 0; bad < 40; bad++) {
        static struct world w;
        struct load_pipe *p;
        cag_error err = CAG_ERROR_INIT;

        world_init(&w, (unsigned)bad, bad % 2 == 0);
        w.fail_fill = bad;
        w.fail_fill2 = bad + 1;
        assert_int_equal(load_pipe_new(&plan, &ops, &w, &p, NULL), CAG_OK);
        if (bad >= 10)
            assert_int_equal(load_pipe_need(p, 0, &err), CAG_OK);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(load_pipe_need(p, 1, &err), CAG_E_CORRUPT);
            assert_int_equal(err.offset, bad);
        }
        assert_int_equal(w.n_queued, bad);
        assert_false(load_pipe_done(p));
        load_pipe_free(p);
    }
}

static void test_device_failures(void **state)
{
    int end[3] = { 5, 5, 12 };
    static uint8_t ring[3 * BYTES];
    struct load_plan plan = { 3, end, 3, BYTES, ring, 2 };
    bool failed = true;

    (void)state;
    for (int call = 0; failed; call++) {
        static struct world w;
        struct load_pipe *p;
        cag_error err = CAG_ERROR_INIT;

        world_init(&w, 7, false);
        w.fail_call = call;
        assert_int_equal(load_pipe_new(&plan, &ops, &w, &p, NULL), CAG_OK);
        cag_status st = load_pipe_need(p, 2, &err);
        failed = st != CAG_OK;
        if (failed) {
            assert_int_equal(st, CAG_E_BACKEND);
            assert_int_equal(load_pipe_need(p, 0, &err), CAG_E_BACKEND);
        } else {
            assert_true(call >= 12 + 3);
        }
        load_pipe_free(p);
    }
}

/* Freed at any moment, with readers at work or waiting for room. */
static void test_early_free(void **state)
{
    int end[2] = { 30, 60 };
    static uint8_t ring[4 * BYTES];
    struct load_plan plan = { 2, end, 4, BYTES, ring, 4 };
    int64_t live = mem_live();

    (void)state;
    for (unsigned seed = 0; seed < 40; seed++) {
        static struct world w;
        struct load_pipe *p;

        world_init(&w, seed, true);
        assert_int_equal(load_pipe_new(&plan, &ops, &w, &p, NULL), CAG_OK);
        if (seed % 3 == 1)
            assert_int_equal(load_pipe_need(p, 0, NULL), CAG_OK);
        if (seed % 3 == 2)
            while (atomic_load(&w.n_fill) < 4)
                sched_yield();
        load_pipe_free(p);
        /* never more than the ring holds ahead of the copies */
        assert_true(atomic_load(&w.n_fill) <= w.n_queued + 4);
    }
    load_pipe_free(NULL);
    assert_int_equal(mem_live(), live);
}

static void test_nothing_and_nomem(void **state)
{
    static uint8_t ring[BYTES];
    static struct world w;
    int end[1] = { 0 };
    struct load_plan plan = { 1, end, 1, BYTES, ring, 1 };
    struct load_pipe *p;
    int64_t live = mem_live();
    int n = 1;

    (void)state;
    world_init(&w, 1, false);
    for (;; n++) {
        mem_fault(n, false);
        cag_status st = load_pipe_new(&plan, &ops, &w, &p, NULL);
        mem_fault(0, false);
        if (st == CAG_OK)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n > 3);
    assert_int_equal(load_pipe_need(p, 0, NULL), CAG_OK);
    assert_int_equal(w.n_group, 1);
    assert_true(load_pipe_done(p));
    load_pipe_free(p);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_reuse),
        cmocka_unit_test(test_fill_failures),
        cmocka_unit_test(test_device_failures),
        cmocka_unit_test(test_early_free),
        cmocka_unit_test(test_nothing_and_nomem),
    };
    return cmocka_run_group_tests_name("load_pipe", tests, NULL, NULL);
}
