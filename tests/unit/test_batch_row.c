/*
 * test_batch_row.c - whatever is wrong with a row is said in its own row.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "ask/batch_row.h"
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
            row_parse(&r, bad[i], strlen(bad[i]), 3, true, &p, NULL), CAG_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_rows_become_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
