/*
 * test_json.c - what is read, refused, and written.
 */
#include "tests/lib/unit.h"

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/json.h"
#include "util/mem.h"

static jv *parse(const char *text)
{
    cag_error e = CAG_ERROR_INIT;
    jv *v = NULL;

    if (jv_parse(text, strlen(text), "t.json", &v, &e) != CAG_OK)
        print_error("%s: %s\n", text, e.msg);
    return v;
}

static void getters(void **state)
{
    jv *v = parse("{\"s\":\"x\\u0000y\",\"i\":-9223372036854775808,"
                  "\"r\":0.5,\"b\":true,\"n\":null,\"a\":[1,2,3]}");
    size_t n;

    (void)state;
    assert_non_null(v);
    assert_int_equal(jv_type(v), JV_OBJECT);
    assert_int_equal(jv_count(v), 6);
    assert_memory_equal(jv_str(jv_get(v, "s"), &n), "x\0y", 4);
    assert_int_equal(n, 3);
    assert_true(jv_get_int(v, "i", 0) == INT64_MIN);
    assert_true(jv_get_num(v, "r", 0) == 0.5);
    assert_true(jv_get_num(v, "i", 0) == -9223372036854775808.0);
    assert_true(jv_get_bool(v, "b", false));
    assert_int_equal(jv_type(jv_get(v, "n")), JV_NULL);
    assert_non_null(jv_get(v, "n"));
    assert_null(jv_get(v, "missing"));
    assert_int_equal(jv_count(jv_get(v, "a")), 3);
    assert_int_equal(jv_int(jv_at(jv_get(v, "a"), 2), 0), 3);
    assert_null(jv_at(jv_get(v, "a"), 3));
    /* another type gives the default */
    assert_int_equal(jv_get_int(v, "r", 7), 7);
    assert_int_equal(jv_get_int(v, "s", 7), 7);
    assert_string_equal(jv_get_str(v, "i", "d"), "d");
    assert_false(jv_get_bool(v, "i", false));
    assert_true(jv_get_num(v, "s", 2.5) == 2.5);
    assert_int_equal(jv_count(jv_get(v, "s")), 0);
    assert_null(jv_get(jv_get(v, "a"), "k"));
    assert_null(jv_get(NULL, "k"));
    /* in the order of the text */
    char keys[16] = "";
    for (void *it = jv_iter(v); it; it = jv_next(v, it)) {
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s",
                 jv_iter_key(it, &n));
        assert_ptr_equal(jv_iter_value(it), jv_get(v, jv_iter_key(it, NULL)));
        assert_int_equal(n, 1);
    }
    assert_string_equal(keys, "sirbna");
    assert_null(jv_iter(jv_get(v, "a")));
    jv_free(v);
    jv_free(NULL);
}

static void what_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "{\"a\":1,}",
        "[1,]",
        "{'a':1}",
        "{a:1}",
        "[1] x",
        "{\"a\":1,\"a\":2}",
        "// c\n1",
        "NaN",
        "1e400",
        "\"\xFF\"",
        "\"\xC3\"",
        "\"\\ud800\"",
        "\"\xED\xA0\x80\"",
        "\"a",
        "01",
        "+1",
        "\"\n\"",
        "tru",
        "[1 2]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cag_error e = CAG_ERROR_INIT;
        jv *v = NULL;
        int64_t live = mem_live();
        assert_int_equal(jv_parse(bad[i], strlen(bad[i]), "t.json", &v, &e),
                         CAG_E_FORMAT);
        assert_null(v);
        assert_true(e.line >= 1 && e.column >= 1);
        assert_memory_equal(e.msg, "invalid JSON: ", 14);
        assert_int_equal(mem_live(), live);
    }
    /* no end to the nesting: an error, not a stack overflow */
    static char deep[200001];
    memset(deep, '[', sizeof deep - 1);
    jv *v;
    assert_int_equal(jv_parse(deep, sizeof deep - 1, "t", &v, NULL),
                     CAG_E_FORMAT);
}

static void an_error_has_a_place(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    jv *v;

    (void)state;
    jv_parse("{\"a\":1,\n  \"b\": x}", 17, "m.json", &v, &e);
    assert_string_equal(e.file, "m.json");
    assert_int_equal(e.line, 2);
    assert_int_equal(e.column, 8);
}

static void required_members(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    jv *v = parse("{\"s\":\"x\",\"i\":5}");
    const char *s = NULL;
    int64_t i = 0;

    (void)state;
    assert_int_equal(jv_need_str(v, "s", "f", &s, &e), CAG_OK);
    assert_string_equal(s, "x");
    assert_int_equal(jv_need_int(v, "i", "f", 5, 5, &i, &e), CAG_OK);
    assert_int_equal(i, 5);
    assert_int_equal(jv_need_str(v, "i", "f", &s, &e), CAG_E_FORMAT);
    assert_string_equal(e.msg, "\"i\" is an integer, expected a string");
    assert_int_equal(jv_need_int(v, "s", "f", 0, 9, &i, &e), CAG_E_FORMAT);
    assert_string_equal(e.msg, "\"s\" is a string, expected an integer");
    assert_int_equal(jv_need_int(v, "i", "f", 6, 9, &i, &e), CAG_E_FORMAT);
    assert_string_equal(e.msg, "\"i\" is 5, expected 6..9");
    assert_int_equal(jv_need_int(v, "z", "f", 6, 9, &i, &e), CAG_E_FORMAT);
    assert_string_equal(e.msg, "\"z\" is missing");
    assert_string_equal(e.file, "f");
    assert_int_equal(jv_need_str(jv_get(v, "s"), "z", "f", &s, &e),
                     CAG_E_FORMAT);
    jv_free(v);
}

static void assert_dump(const char *text, const char *want)
{
    struct buf b = BUF_INIT;
    jv *v = parse(text);

    assert_non_null(v);
    jv_dump(v, &b);
    assert_string_equal(b.data, want);
    buf_free(&b);
    jv_free(v);
}

static void dump_keeps_order_and_shortest_numbers(void **state)
{
    (void)state;
    assert_dump(" { \"b\" : [ ] , \"a\" : { } } ", "{\"b\":[],\"a\":{}}");
    assert_dump("[0.1,1.0,1e300,-0.0,3.14,1e16,123456789012345.6,5e-324]",
                "[0.1,1.0,1e+300,-0.0,3.14,1e+16,123456789012345.6,"
                "5e-324]");
    /* beyond 64 bits an integer is a real */
    assert_dump(
        "[9223372036854775807,9223372036854775808,"
        "-9223372036854775808,-9223372036854775809,\"99999999999999999999\"]",
        "[9223372036854775807,9.223372036854776e+18,"
        "-9223372036854775808,-9.223372036854776e+18,"
        "\"99999999999999999999\"]");
    assert_dump("\"\\u00e9\\n\\t\\\"\\\\\\/\\u0001\\u007f\\b\\f\\r\"",
                "\"\xC3\xA9\\n\\t\\\"\\\\/\\u0001\x7F\\b\\f\\r\"");
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
        assert_dump("[0.5]", "[0.5]");
        setlocale(LC_NUMERIC, "C");
    }
}

static void canonical_is_sorted_by_bytes(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct buf b = BUF_INIT;
    /* equal to json.dumps(v, sort_keys=True, separators=(",", ":"),
     * ensure_ascii=False) */
    jv *v = parse("{\"b\":1,\"a\":[true,{\"z\":null,\"Z\":\"\\u20ac\"}],"
                  "\"ab\":-5,\"\":0,\"\\u00e9\":2,\"\\ud83d\\ude00\":3,"
                  "\"\\uffee\":4}");

    (void)state;
    assert_int_equal(jv_dump_canonical(v, &b, &e), CAG_OK);
    assert_string_equal(
        b.data, "{\"\":0,\"a\":[true,{\"Z\":\"\xE2\x82\xAC\",\"z\":null}],"
                "\"ab\":-5,\"b\":1,\"\xC3\xA9\":2,\"\xEF\xBF\xAE\":4,"
                "\"\xF0\x9F\x98\x80\":3}");
    jv_free(v);
    buf_clear(&b);
    v = parse("{\"a\":[1.5]}");
    buf_str(&b, "kept");
    assert_int_equal(jv_dump_canonical(v, &b, &e), CAG_E_USAGE);
    assert_string_equal(b.data, "kept");
    jv_free(v);
    buf_free(&b);
}

static jv *build(void)
{
    jv *o = jv_new_object(), *a = jv_new_array(), *copy;

    if (!o || !a || !jv_append(a, jv_new_str("x\0y", 3)) ||
        !jv_append(a, jv_new_null()) || !jv_append(a, jv_new_int(1)) ||
        !jv_append(a, jv_new_real(2.5)) || !jv_append(a, jv_new_bool(true))) {
        jv_free(a);
        jv_free(o);
        return NULL;
    }
    if (!jv_set(o, "a", a) || !jv_set_str(o, "s", "t") ||
        !jv_set_int(o, "i", 3) || !jv_set_bool(o, "b", false) ||
        !jv_set_real(o, "r", 0.1) || !jv_set_int(o, "gone", 0)) {
        jv_free(o);
        return NULL;
    }
    jv_remove(o, "gone");
    copy = jv_copy(o);
    jv_free(o);
    return copy;
}

static void built_values(void **state)
{
    struct buf b = BUF_INIT;
    jv *v = build();

    (void)state;
    jv_dump(v, &b);
    assert_string_equal(b.data, "{\"a\":[\"x\\u0000y\",null,1,2.5,true],"
                                "\"s\":\"t\",\"i\":3,\"b\":false,\"r\":0.1}");
    buf_free(&b);
    jv_free(v);
    assert_null(jv_new_str("\xFF", 1));
    v = jv_new_object();
    assert_false(jv_set_str(v, "bad", "\xFF"));
    assert_int_equal(jv_count(v), 0);
    jv_free(v);
}

static void every_failing_allocation(void **state)
{
    static const char text[] =
        "{\"a long key, so that the token buffer must grow again and again\":"
        "[1,2.5,\"x\",{\"b\":null,\"c\":[],\"d\":\"0123456789012345678901234567"
        "890123456789012345678901234567890123456789012345678901234567890\"}],"
        "\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,"
        "\"9\":1,\"10\":1,\"11\":12345678901234}";
    struct buf want = BUF_INIT;
    jv *v = parse(text);

    (void)state;
    jv_dump(v, &want);
    jv_free(v);
    for (int sticky = 0; sticky < 2; sticky++) {
        bool done = false;
        FOR_EACH_FAULT(n, done)
        {
            cag_error e = CAG_ERROR_INIT;
            int64_t live = mem_live();
            mem_fault(n, sticky);
            cag_status st = jv_parse(text, sizeof text - 1, "t", &v, &e);
            mem_fault(0, false);
            done = st == CAG_OK;
            if (done) {
                struct buf b = BUF_INIT;
                jv_dump(v, &b);
                assert_string_equal(b.data, want.data);
                buf_free(&b);
                jv_free(v);
            } else {
                assert_int_equal(st, CAG_E_NOMEM);
            }
            assert_int_equal(mem_live(), live);
        }
        done = false;
        FOR_EACH_FAULT(n, done)
        {
            int64_t live = mem_live();
            mem_fault(n, sticky);
            jv *w = build();
            mem_fault(0, false);
            done = w != NULL;
            if (w)
                assert_int_equal(jv_count(w), 5);
            jv_free(w);
            assert_int_equal(mem_live(), live);
        }
        done = false;
        v = parse("{\"b\":[1,{\"c\":\"text\"}],\"a\":2}");
        FOR_EACH_FAULT(n, done)
        {
            struct buf b = BUF_INIT;
            mem_fault(n, sticky);
            cag_status st = jv_dump_canonical(v, &b, NULL);
            mem_fault(0, false);
            done = st == CAG_OK;
            if (done)
                assert_string_equal(b.data,
                                    "{\"a\":2,\"b\":[1,{\"c\":\"text\"}]}");
            else
                assert_int_equal(st, CAG_E_NOMEM);
            buf_free(&b);
        }
        jv_free(v);
    }
    buf_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(getters),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(an_error_has_a_place),
        cmocka_unit_test(required_members),
        cmocka_unit_test(dump_keeps_order_and_shortest_numbers),
        cmocka_unit_test(canonical_is_sorted_by_bytes),
        cmocka_unit_test(built_values),
        cmocka_unit_test(every_failing_allocation),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
