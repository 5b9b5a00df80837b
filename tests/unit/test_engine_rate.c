/*
 * test_engine_rate.c - the probe of this machine's speed: a number that makes
 * sense with any threads, and reasons instead of a crash.  And an engine made
 * of a backend the caller brings.
 */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/engine_rate.h"
#include "util/error.h"
#include "util/mem.h"

static void positive(void **state)
{
    (void)state;
    for (int n = 0; n <= 3; n++) {
        double per_s = 0;
        cag_error err = CAG_ERROR_INIT;

        assert_int_equal(engine_rate(n, &per_s, &err), CAG_OK);
        /* one multiply-add a microsecond, and a million a nanosecond */
        assert_true(per_s > 1e6 && per_s < 1e15);
    }
}

static void refused(void **state)
{
    static const int bad[] = { -1, 513, 1 << 30 };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double per_s = 7;
        cag_error err = CAG_ERROR_INIT;

        assert_int_equal(engine_rate(bad[i], &per_s, &err), CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "threads"));
        assert_true(per_s == 7);
    }
}

/* The set is chosen once a process: a child asks for one there is not. */
static void no_kernels(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    pid = fork();
    if (pid == 0) {
        double per_s;
        cag_error err = CAG_ERROR_INIT;
        cag_status st;

        setenv("CAG_KERNELS", "bogus", 1);
        st = engine_rate(1, &per_s, &err);
        _exit(st == CAG_E_UNSUPPORTED && strstr(err.msg, "CAG_KERNELS") ? 0
                                                                        : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void no_memory(void **state)
{
    int64_t live = mem_live();
    cag_status st = CAG_E_NOMEM;

    (void)state;
    for (int n = 1; st == CAG_E_NOMEM && n < 100; n++) {
        double per_s;
        cag_error err = CAG_ERROR_INIT;

        mem_fault(n, false);
        st = engine_rate(2, &per_s, &err);
        mem_fault(0, false);
        assert_true(st == CAG_OK || st == CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    assert_int_equal(st, CAG_OK);
}

/* ------------------------------------------------------------ own backends */

struct mock {
    struct backend base;
    int *freed;
};

static void mock_free(struct backend *b)
{
    ++*((struct mock *)b)->freed;
}

static const char *mock_name(const struct backend *b)
{
    (void)b;
    return "mock";
}

static void brought_backend(void **state)
{
    static const struct backend_ops ops = { .name = "mock",
                                            .free = mock_free,
                                            .kernels = mock_name,
                                            .numerics = mock_name };
    int freed = 0;
    struct mock m = { { .ops = &ops, .max_row = 8, .pass_rows = 4 }, &freed };
    int64_t live = mem_live();
    cag_status st = CAG_E_NOMEM;

    (void)state;
    for (int n = 1; st == CAG_E_NOMEM; n++) {
        struct pool *pool = NULL;
        cag_engine *e = NULL;
        cag_error err = CAG_ERROR_INIT;

        assert_int_equal(pool_new(&pool, 2, &err), CAG_OK);
        mem_fault(n, false);
        st = engine_with_backend(NULL, pool, &m.base, &e, &err);
        mem_fault(0, false);
        if (st == CAG_OK) {
            assert_string_equal(cag_engine_device(e), "mock");
            assert_int_equal(cag_engine_n_thread(e), 2);
            cag_engine_free(e);
        }
        assert_int_equal(freed, n);
        assert_int_equal(mem_live(), live);
    }
    assert_int_equal(st, CAG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kernels),      cmocka_unit_test(positive),
        cmocka_unit_test(refused),         cmocka_unit_test(no_memory),
        cmocka_unit_test(brought_backend),
    };

    return cmocka_run_group_tests_name("engine_rate", tests, NULL, NULL);
}
