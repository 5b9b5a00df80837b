/*
 * test_batch_row.c - whatever is wrong with a row is said in its own row.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "batch/batch_raw.h"
#include "batch/batch_row.h"
#include "util/mem.h"
#include "util/text.h"

static void bad_rows_become_rows(void **state)
{
    /* some messages quote the row and cut a character in two */
    static const char *const bad[] = {
        "{\"quel\":\"\\u5\335\2530}",
        "{\"a\":\377",
        "\303",
        "{}",
        "[]",
        "",
        "{\"question\":1}",
        "{\"question\":\"x\",\"max_tokens\":\"\303\244\"}",
        "{\"question\":\"x\",\"stop\":{\"a\":1}}",
        "{\"question\":\"x\" \303\244\303\244\303\244\303\244\303\244\303\244}",
    };
    cag_ask_params p;

    (void)state;
    cag_ask_params_init(&p);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = BUF_INIT;
        struct row r;
        jv *v = NULL;

        assert_int_equal(
            row_parse(&r, bad[i], strlen(bad[i]), 3, "question", &p, NULL),
            CAG_OK);
        assert_int_not_equal(r.error.status, CAG_OK);
        assert_int_equal(row_write(NULL, &r, NULL, "", &out, NULL), CAG_OK);
        assert_true(utf8_valid(out.data, out.size, NULL));
        assert_int_equal(jv_parse(out.data, out.size, NULL, &v, NULL), CAG_OK);
        assert_int_equal(jv_get_int(v, "line", 0), 3);
        assert_non_null(strstr(jv_get_str(v, "error", ""), "line 3: "));
        jv_free(v);
        buf_free(&out);
        row_release(&r);
    }
}

/* Members as they stand in the text, whatever is in strings and brackets. */
static void members_keep_their_text(void **state)
{
    static const char text[] =
        " { \"a\" : 1.50 ,\"b\":[{\"x\":\"],}\"},2],\"c\\\"\":\"q\\\\\","
        "\"d\":{},\"e\": -0 } ";
    static const char *const want[] = { "1.50", "[{\"x\":\"],}\"},2]",
                                        "\"q\\\\\"", "{}", "-0" };
    static const bool changes[] = { true, false, false, false, true };
    struct raw r;
    size_t n = 0;

    (void)state;
    raw_init(&r, text, sizeof text - 1);
    for (; raw_next(&r); n++) {
        assert_int_equal(r.size, strlen(want[n]));
        assert_memory_equal(r.value, want[n], r.size);
        assert_int_equal(raw_changes(r.value, r.size), changes[n]);
    }
    assert_int_equal(n, 5);
    assert_true(raw_changes("[1,9223372036854775808]", 23));
    assert_false(raw_changes("[-123456789012345678]", 21) &&
                 raw_changes("\"1.5\"", 5));
    raw_init(&r, "{}", 2);
    assert_false(raw_next(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_rows_become_rows),
        cmocka_unit_test(members_keep_their_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
