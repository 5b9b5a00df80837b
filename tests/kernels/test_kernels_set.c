/*
 * Which set is used: CAG_KERNELS, its refusals, and the list of sets.  Each
 * case runs in a child, since the choice is made once per process.
 */
#include "tests/kernels/ktest.h"

#include <sys/wait.h>
#include <unistd.h>

/* 0: the set called name; 1: another; 2: refused with a reason; 3: without */
static int choice(const char *env, const char *name)
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        const struct kernels *k;
        const char *why = NULL;

        if (env)
            setenv("CAG_KERNELS", env, 1);
        else
            unsetenv("CAG_KERNELS");
        k = kernels_get(&why);
        if (k)
            _exit(strcmp(k->name, name) == 0 && k == kernels_get(NULL) ? 0 : 1);
        _exit(why && *why ? 2 : 3);
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_choice(void **state)
{
    const struct kernels *k;
    const char *widest = NULL;
    bool usable;

    (void)state;
    for (int i = 0; (k = kernels_at(i, &usable)); i++) {
        assert_int_equal(choice(k->name, k->name), usable ? 0 : 2);
        if (usable)
            widest = k->name;
    }
    assert_int_equal(choice(NULL, widest), 0);
    assert_int_equal(choice("", widest), 0);
    assert_int_equal(choice("mmx", "-"), 2);
}

static void test_list(void **state)
{
    bool usable;

    (void)state;
    assert_null(kernels_at(-1, &usable));
    assert_null(kernels_at(99, &usable));
    assert_string_equal(kernels_at(0, &usable)->name, "ref");
    assert_true(usable);
    assert_string_equal(kernels_at(1, &usable)->name, "scalar");
    assert_true(usable);
    assert_string_not_equal(kernels_ref.numerics, kernels_scalar.numerics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_list),
    };

    return cmocka_run_group_tests_name("kernels_set", tests, NULL, NULL);
}
