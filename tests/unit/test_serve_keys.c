/*
 * test_serve_keys.c - the file of keys: what it says, and what it may not.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "cmd/serve/keys.h"
#include "util/buf.h"
#include "util/mem.h"

/* of "secret" */
#define SECRET \
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
/* of "" */
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static cag_status parse(const char *text, struct keys *k, cag_error *err)
{
    return keys_parse(text, strlen(text), "keys", k, err);
}

static void a_key_asks_its_caches(void **state)
{
    struct keys k;
    const struct key *one;

    (void)state;
    assert_int_equal(
        parse("# who\n\nalice:" SECRET ":a,b\r\nnone:" EMPTY ":*", &k, NULL),
        CAG_OK);
    assert_int_equal(k.n, 2);
    one = keys_find(&k, "secret");
    assert_non_null(one);
    assert_string_equal(one->id, "alice");
    assert_true(key_may(one, "a"));
    assert_true(key_may(one, "b"));
    assert_false(key_may(one, "c"));
    assert_false(key_may(one, "*"));
    assert_false(key_may(one, ""));
    one = keys_find(&k, "");
    assert_non_null(one);
    assert_true(key_may(one, "anything"));
    assert_null(keys_find(&k, "secre"));
    assert_null(keys_find(&k, "secret "));
    assert_null(keys_find(&k, SECRET));
    keys_release(&k);
    assert_int_equal(parse("", &k, NULL), CAG_OK);
    assert_null(keys_find(&k, ""));
    keys_release(&k);
}

static void faults_name_their_line(void **state)
{
    static const char *const bad[] = {
        "alice",
        "alice:",
        ":" SECRET ":a",
        "alice:" SECRET,
        "alice:" SECRET ":",
        "alice:" SECRET ":a,,b",
        "alice:" SECRET ":,",
        "alice:" SECRET ":a b",
        "alice:" SECRET "0:a",
        "alice:zbb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
        ":a",
        "al ice:" SECRET ":a",
        "first:" SECRET ":a",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cag_error err = CAG_ERROR_INIT;
        struct buf b = BUF_INIT;
        struct keys k;

        buf_printf(&b, "first:" SECRET ":a\n%s\n", bad[i]);
        assert_int_equal(parse(b.data, &k, &err), CAG_E_CONFIG);
        assert_int_equal(err.line, 2);
        assert_string_equal(err.file, "keys");
        assert_int_equal(k.n, 0);
        buf_free(&b);
    }
    struct keys k;
    cag_error err = CAG_ERROR_INIT;
    assert_int_equal(keys_parse("a\0b:" SECRET ":a", 8, "keys", &k, &err),
                     CAG_E_CONFIG);
    assert_non_null(strstr(err.msg, "NUL"));
}

/* Every allocation fails once: no crash, nothing left. */
static void memory_runs_out(void **state)
{
    static const char text[] = "alice:" SECRET ":a,b\nbob:" SECRET ":*\n";
    int64_t before = mem_live();

    (void)state;
    for (int64_t n = 1;; n++) {
        struct keys k;
        cag_status st;

        mem_fault(n, false);
        st = parse(text, &k, NULL);
        mem_fault(0, false);
        keys_release(&k);
        assert_int_equal(mem_live(), before);
        if (!st)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_asks_its_caches),
        cmocka_unit_test(faults_name_their_line),
        cmocka_unit_test(memory_runs_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
