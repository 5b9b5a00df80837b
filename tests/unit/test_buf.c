/*
 * test_buf.c - growth, the sticky failure, handing over.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "util/buf.h"
#include "util/mem.h"

static void grows_and_stays_terminated(void **state)
{
    struct buf b = BUF_INIT;
    char want[4000];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 500; i++) {
        buf_printf(&b, "%d,", i);
        n += (size_t)snprintf(want + n, sizeof want - n, "%d,", i);
        assert_int_equal(b.size, n);
        assert_int_equal(b.data[n], 0);
    }
    assert_string_equal(b.data, want);
    buf_truncate(&b, 4);
    assert_string_equal(b.data, "0,1,");
    buf_truncate(&b, 100); /* longer: nothing */
    assert_int_equal(b.size, 4);
    buf_add(&b, "a\0b", 3);
    buf_char(&b, 'c');
    buf_str(&b, "d");
    assert_memory_equal(b.data, "0,1,a\0bcd", 10);
    buf_clear(&b);
    assert_int_equal(b.size, 0);
    assert_string_equal(b.data, "");
    buf_free(&b);
    assert_null(b.data);
}

static void an_empty_one_is_handed_over_as_a_string(void **state)
{
    struct buf b = BUF_INIT;
    size_t n = 9;

    (void)state;
    char *s = buf_detach(&b, &n);
    assert_string_equal(s, "");
    assert_int_equal(n, 0);
    mem_free(s);
    buf_str(&b, "xyz");
    s = buf_detach(&b, &n);
    assert_string_equal(s, "xyz");
    assert_int_equal(n, 3);
    assert_null(b.data);
    assert_int_equal(b.size, 0);
    mem_free(s);
}

static void a_failure_sticks_and_leaves_a_prefix(void **state)
{
    struct buf b = BUF_INIT;
    char big[1000];

    (void)state;
    memset(big, 'x', sizeof big);
    buf_str(&b, "begin");
    mem_fault(1, false);
    buf_add(&b, big, sizeof big);
    mem_fault(0, false);
    assert_true(buf_failed(&b));
    buf_str(&b, "later");
    buf_printf(&b, "%d", 1);
    assert_string_equal(b.data, "begin");
    assert_null(buf_reserve(&b, 1));
    assert_null(buf_detach(&b, NULL));
    assert_false(buf_failed(&b)); /* detach resets */
    buf_str(&b, "again");
    assert_string_equal(b.data, "again");
    buf_free(&b);
}

static void hostile_sizes_fail(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    buf_str(&b, "x");
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_true(buf_failed(&b));
    buf_free(&b);
}

static void reserve_gives_room(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    buf_str(&b, "ab");
    char *p = buf_reserve(&b, 10000);
    memset(p, 'z', 10000);
    b.size += 10000;
    b.data[b.size] = 0;
    buf_char(&b, '!');
    assert_int_equal(b.size, 10003);
    assert_string_equal(b.data + 10000, "zz!");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_stays_terminated),
        cmocka_unit_test(an_empty_one_is_handed_over_as_a_string),
        cmocka_unit_test(a_failure_sticks_and_leaves_a_prefix),
        cmocka_unit_test(hostile_sizes_fail),
        cmocka_unit_test(reserve_gives_room),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
