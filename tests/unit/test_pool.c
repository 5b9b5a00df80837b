/*
 * test_pool.c - every item once, whoever does it.
 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "util/mem.h"
#include "util/pool.h"

enum { N = 1000 };
struct job {
    atomic_int hits[N];
    atomic_int bad;
    int n_thread;
    int64_t n, grain;
    int slow; /* microseconds an item */
};

static void mark(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct job *j = ctx;

    if (thread < 0 || thread >= j->n_thread || begin < 0 || end > j->n ||
        begin >= end || end - begin > j->grain || begin % j->grain != 0)
        atomic_fetch_add(&j->bad, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&j->hits[i], 1);
    if (j->slow)
        usleep((useconds_t)j->slow);
}

static void run(struct pool *p, int64_t n, int64_t grain, int slow)
{
    static struct job j;

    memset(&j, 0, sizeof j);
    j.n_thread = pool_size(p);
    j.n = n;
    j.grain = grain;
    j.slow = slow;
    pool_run(p, mark, &j, n, grain);
    assert_int_equal(j.bad, 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(j.hits[i], i < n);
}

static void every_item_once(void **state)
{
    static const int64_t sizes[] = { 0, 1, 2, 7, 64, 999, N };
    static const int64_t grains[] = { 1, 3, 64, N };

    (void)state;
    for (int n_thread = 1; n_thread <= 5; n_thread++) {
        struct pool *p;
        assert_int_equal(pool_new(&p, n_thread, NULL), CAG_OK);
        assert_int_equal(pool_size(p), n_thread);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++)
                run(p, sizes[i], grains[g], 0);
        pool_free(p);
    }
}

static void add(void *ctx, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
}

static void many_short_jobs_with_pauses(void **state)
{
    struct pool *p;

    (void)state;
    assert_int_equal(pool_new(&p, 3, NULL), CAG_OK);
    for (int i = 0; i < 3000; i++) {
        _Atomic int64_t sum = 0;
        pool_run(p, add, &sum, 20, 1);
        assert_int_equal(sum, 20);
        if (i % 300 == 0)
            usleep(1000); /* the workers fall asleep */
    }
    run(p, 30, 1, 300); /* and so does the caller */
    pool_free(p);
}

static void new_and_free_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct pool *p;
        assert_int_equal(pool_new(&p, 1 + i % 6, NULL), CAG_OK);
        if (i & 1)
            run(p, 10, 1, 0);
        pool_free(p);
    }
    pool_free(NULL);
}

static void bad_sizes_and_no_memory(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct pool *p;

    (void)state;
    assert_int_equal(pool_new(&p, -1, &e), CAG_E_USAGE);
    assert_int_equal(pool_new(&p, 513, &e), CAG_E_USAGE);
    assert_string_equal(e.msg, "513 threads asked for, expected 1..512");
    mem_fault(1, false);
    assert_int_equal(pool_new(&p, 2, &e), CAG_E_NOMEM);
    mem_fault(0, false);
}

static atomic_int wrong_thread;
static pthread_t main_thread;

static void on_signal(int sig)
{
    (void)sig;
    if (!pthread_equal(pthread_self(), main_thread))
        atomic_store(&wrong_thread, 1);
}

static void signals_go_to_the_callers_thread(void **state)
{
    struct pool *p;

    (void)state;
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    assert_int_equal(pool_new(&p, 4, NULL), CAG_OK);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(kill(getpid(), SIGUSR1), 0);
        run(p, 20, 1, 0);
    }
    pool_free(p);
    assert_int_equal(wrong_thread, 0);
    signal(SIGUSR1, SIG_DFL);
}

static void default_size_obeys_the_affinity(void **state)
{
    cpu_set_t old, one;

    (void)state;
    int n = pool_default_size();
    assert_true(n >= 1 && n <= 512);
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    assert_true(n <= CPU_COUNT(&old));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &old)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pool_default_size(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
}

struct watched {
    atomic_int done;
    int asked, stop_at;
};

static void slow_item(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct watched *w = ctx;

    (void)thread;
    (void)end;
    (void)begin;
    usleep(10000);
    atomic_fetch_add(&w->done, 1);
}

static bool ask(void *ctx)
{
    struct watched *w = ctx;

    return ++w->asked < w->stop_at;
}

/* A watched job ends early, the ones behind it do not begin. */
static void cancelled_between_ranges(void **state)
{
    (void)state;
    for (int n_thread = 1; n_thread <= 3; n_thread++) {
        struct watched w = { .stop_at = 2 };
        struct pool *p;

        assert_int_equal(pool_new(&p, n_thread, NULL), CAG_OK);
        pool_run(p, slow_item, &w, 6, 1);
        assert_int_equal(w.done, 6);
        pool_watch(p, ask, &w);
        pool_run(p, slow_item, &w, 1000, 1);
        assert_int_equal(w.asked, 2);
        assert_in_range(w.done, 6 + 2, 6 + 500);
        assert_true(pool_cancelled(p));
        int done = w.done;
        pool_run(p, slow_item, &w, 6, 1);
        assert_int_equal(w.done, done);
        pool_watch(p, NULL, NULL);
        assert_false(pool_cancelled(p));
        pool_run(p, slow_item, &w, 6, 1);
        assert_int_equal(w.done, done + 6);
        pool_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(cancelled_between_ranges),
        cmocka_unit_test(many_short_jobs_with_pauses),
        cmocka_unit_test(new_and_free_at_once),
        cmocka_unit_test(bad_sizes_and_no_memory),
        cmocka_unit_test(signals_go_to_the_callers_thread),
        cmocka_unit_test(default_size_obeys_the_affinity),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
