/*
 * test_mem.c - checked sizes, counters and the fault hook.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "util/mem.h"

static void sizes_are_checked(void **state)
{
    size_t r = 7;

    (void)state;
    assert_false(mem_mul(&r, SIZE_MAX, 2));
    assert_false(mem_add(&r, SIZE_MAX, 1));
    assert_int_equal(r, 7);
    assert_true(mem_mul(&r, 6, 7));
    assert_int_equal(r, 42);
    assert_true(mem_add(&r, SIZE_MAX - 1, 1));
    assert_true(r == SIZE_MAX);
    assert_null(mem_alloc_array(SIZE_MAX / 2, 3));
    assert_null(mem_strndup("x", SIZE_MAX));
}

static void blocks_are_counted(void **state)
{
    int64_t before = mem_live();

    (void)state;
    void *a = mem_alloc(0), *b = mem_zalloc(10), *c = mem_alloc_aligned(64, 10);
    char *s = mem_strdup("abc"), *t = mem_strndup("abc", 2);
    assert_non_null(a);
    assert_int_equal((uintptr_t)c % 64, 0);
    assert_memory_equal(b, "\0\0\0\0\0\0\0\0\0\0", 10);
    assert_string_equal(s, "abc");
    assert_string_equal(t, "ab");
    a = mem_realloc(a, 100);
    a = mem_realloc(a, 0);
    assert_non_null(a);
    void *d = mem_realloc(NULL, 5);
    assert_int_equal(mem_live() - before, 6);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(d);
    mem_free(s);
    mem_free(t);
    mem_free(NULL);
    assert_int_equal(mem_live(), before);
}

static void the_nth_fails(void **state)
{
    void *a, *b, *c;

    (void)state;
    mem_fault(2, false);
    a = mem_alloc(1);
    b = mem_alloc(1);
    c = mem_alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_int_equal(mem_count(), 3);
    mem_free(c);

    mem_fault(1, true);
    assert_null(mem_alloc(1));
    assert_null(mem_zalloc(1));
    assert_null(mem_strdup("x"));
    assert_null(mem_alloc_aligned(64, 1));
    assert_null(mem_realloc(a, 1000)); /* a is still valid */
    memset(a, 1, 1);
    mem_fault(0, false);
    a = mem_realloc(a, 1000);
    assert_non_null(a);
    mem_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(blocks_are_counted),
        cmocka_unit_test(the_nth_fails),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
