/*
 * test_arena.c - alignment, zeroing, large blocks, no memory.
 */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <string.h>

#include "util/arena.h"
#include "util/mem.h"

static void objects_are_aligned_apart_and_zero(void **state)
{
    struct arena a = { 0 };
    int64_t before = mem_live();
    unsigned char *p[400];
    size_t size[400], seed = 1;

    (void)state;
    for (size_t i = 0; i < 400; i++) {
        size_t align = (size_t)1 << (i % 7);
        seed = seed * 1103515245 + 12345;
        size[i] = seed / 65536 % (i % 50 == 0 ? 30000 : 100);
        p[i] = arena_alloc(&a, size[i], align);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % align, 0);
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(p[i][j], 0);
        memset(p[i], (int)(i & 255), size[i]);
    }
    for (size_t i = 0; i < 400; i++)
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(p[i][j], i & 255);
    arena_release(&a);
    arena_release(&a);
    assert_int_equal(mem_live(), before);
}

static void a_large_request_keeps_the_small_block(void **state)
{
    struct arena a = { 0 };

    (void)state;
    char *one = arena_alloc(&a, 1, 1);
    char *big = arena_alloc(&a, (size_t)3 << 20, 64);
    char *two = arena_alloc(&a, 1, 1);
    assert_non_null(big);
    assert_ptr_equal(two, one + 1);
    arena_release(&a);
}

static void hostile_sizes_are_refused(void **state)
{
    struct arena a = { 0 };

    (void)state;
    assert_null(arena_alloc(&a, SIZE_MAX, 8));
    assert_null(arena_alloc(&a, SIZE_MAX / 2, 8));
    assert_null(arena_array(&a, SIZE_MAX / 4, 8));
    assert_null(arena_strndup(&a, "x", SIZE_MAX));
    assert_null(arena_alloc(&a, 1, 128));
    assert_null(arena_alloc(&a, 1, 0));
    assert_null(a.head);
}

static void strings(void **state)
{
    struct arena a = { 0 };
    char longer[6000];

    (void)state;
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_string_equal(arena_strndup(&a, "hello", 4), "hell");
    assert_string_equal(arena_strndup(&a, "", 0), "");
    assert_string_equal(arena_printf(&a, "%d-%s", 5, "x"), "5-x");
    assert_string_equal(arena_printf(&a, "%s", longer), longer);
    arena_release(&a);
}

static void out_of_memory(void **state)
{
    struct arena a = { 0 };

    (void)state;
    mem_fault(1, false);
    assert_null(arena_alloc(&a, 10, 8));
    assert_non_null(arena_alloc(&a, 10, 8));
    mem_fault(1, true);
    assert_non_null(arena_alloc(&a, 10, 8)); /* fits the block */
    assert_null(arena_alloc(&a, 100000, 8));
    assert_null(arena_printf(&a, "%5000d", 1));
    mem_fault(0, false);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_aligned_apart_and_zero),
        cmocka_unit_test(a_large_request_keeps_the_small_block),
        cmocka_unit_test(hostile_sizes_are_refused),
        cmocka_unit_test(strings),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
