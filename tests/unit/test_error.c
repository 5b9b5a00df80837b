/*
 * test_error.c - messages are one clean line, and nothing is cut in a
 * character.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "util/error.h"

static void fills_all_fields(void **state)
{
    cag_error e = { .status = CAG_E_IO, .sys = 5, .line = 7, .column = 8 };

    (void)state;
    assert_int_equal(cag_fail(&e, CAG_E_FORMAT, "a.kvc", 24, "n is %d", 7),
                     CAG_E_FORMAT);
    assert_int_equal(e.status, CAG_E_FORMAT);
    assert_int_equal(e.sys, 0);
    assert_int_equal(e.offset, 24);
    assert_int_equal(e.line, 0);
    assert_string_equal(e.file, "a.kvc");
    assert_string_equal(e.msg, "n is 7");

    cag_fail_sys(&e, CAG_E_IO, ENOSPC, "b", "cannot write");
    assert_int_equal(e.sys, ENOSPC);
    assert_int_equal(e.offset, -1);
    assert_string_equal(e.msg, "cannot write: No space left on device");

    cag_fail_at(&e, CAG_E_CONFIG, "m.yaml", 3, 9, "unknown key");
    assert_int_equal(e.line, 3);
    assert_int_equal(e.column, 9);
    assert_int_equal(e.sys, 0);
    assert_int_equal(cag_fail_nomem(&e, "tiles"), CAG_E_NOMEM);
    assert_string_equal(e.msg, "out of memory (tiles)");
    assert_string_equal(e.file, "");
}

static void null_error_keeps_the_status(void **state)
{
    (void)state;
    assert_int_equal(cag_fail(NULL, CAG_E_LIMIT, "x", 1, "y"), CAG_E_LIMIT);
    assert_int_equal(cag_fail_sys(NULL, CAG_E_IO, 1, "x", "y"), CAG_E_IO);
    assert_int_equal(cag_fail_at(NULL, CAG_E_FORMAT, "x", 1, 1, "y"),
                     CAG_E_FORMAT);
    assert_int_equal(cag_error_copy(NULL, NULL), CAG_OK);
}

static void control_bytes_never_reach_a_message(void **state)
{
    cag_error e;

    (void)state;
    cag_fail(&e, CAG_E_FORMAT, NULL, -1, "key '%s'", "a\n\x1b[31mb\x7f");
    assert_string_equal(e.msg, "key 'a??[31mb?'");
}

static void cuts_between_characters(void **state)
{
    cag_error e;
    char text[2000];

    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        cag_fail(&e, CAG_E_FORMAT, text, -1, "%s", text);
        size_t n = strlen(e.msg);
        assert_in_range(n, sizeof e.msg - 4, sizeof e.msg - 1);
        assert_int_equal((n - shift) % 3, 0);
        /* the path keeps its tail */
        n = strlen(e.file);
        assert_in_range(n, sizeof e.file - 4, sizeof e.file - 1);
        assert_memory_equal(e.file, "...\xE2\x82\xAC", 6);
        assert_int_equal((n - 3) % 3, 0);
        /* the reason survives a long message */
        cag_fail_sys(&e, CAG_E_IO, EACCES, NULL, "%s", text);
        n = strlen(e.msg);
        assert_string_equal(e.msg + n - 19, ": Permission denied");
    }
}

static void parts_may_be_of_the_error_itself(void **state)
{
    cag_error e;

    (void)state;
    cag_fail(&e, CAG_E_FORMAT, "f", 3, "inner");
    cag_error copy = e;
    cag_fail(&e, CAG_E_CONFIG, e.file, -1, "outer: %s", copy.msg);
    assert_string_equal(e.file, "f");
    assert_string_equal(e.msg, "outer: inner");
    cag_error d = CAG_ERROR_INIT;
    assert_int_equal(cag_error_copy(&d, &e), CAG_E_CONFIG);
    assert_string_equal(d.msg, "outer: inner");
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < CAG_N_STATUS; i++) {
        assert_non_null(cag_status_name((cag_status)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(cag_status_name((cag_status)i),
                                    cag_status_name((cag_status)j));
    }
    assert_string_equal(cag_status_name(CAG_E_CORRUPT), "corrupt");
    assert_string_equal(cag_status_name((cag_status)999), "unknown");
    assert_string_equal(cag_status_name((cag_status)-1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_all_fields),
        cmocka_unit_test(null_error_keeps_the_status),
        cmocka_unit_test(control_bytes_never_reach_a_message),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(parts_may_be_of_the_error_itself),
        cmocka_unit_test(every_status_has_a_name),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
