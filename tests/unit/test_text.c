/*
 * test_text.c - UTF-8 and NFC.
 */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "util/mem.h"
#include "util/text.h"

static const struct {
    const char *s;
    size_t n, bad;
} invalid[] = {
    { "\x80", 1, 0 },
    { "ab\xFF", 3, 2 },
    { "\xC0\x80", 2, 0 },
    { "\xC1\xBF", 2, 0 },
    { "\xE0\x9F\xBF", 3, 0 },
    { "x\xED\xA0\x80", 4, 1 },
    { "\xF0\x8F\xBF\xBF", 4, 0 },
    { "\xF4\x90\x80\x80", 4, 0 },
    { "\xF5\x80\x80\x80", 4, 0 },
    { "\xE2\x82", 2, 0 },
    { "\xC3", 1, 0 },
    { "\xC3\xC3\xA9", 3, 0 },
    { "12345678\x80", 9, 8 },
    { "\xC3\xA9\xE2\x28\xA1", 5, 2 },
};

static void invalid_utf8_has_a_place(void **state)
{
    size_t bad;

    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
        bad = 99;
        assert_false(utf8_valid(invalid[i].s, invalid[i].n, &bad));
        assert_int_equal(bad, invalid[i].bad);
        assert_false(utf8_valid(invalid[i].s, invalid[i].n, NULL));
    }
    assert_true(utf8_valid("", 0, &bad));
    assert_true(utf8_valid("a\0b\xEF\xBF\xBF\xF4\x8F\xBF\xBF", 10, &bad));
}

static void every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char s[4];
        uint32_t back;
        if (cp >= 0xD800 && cp <= 0xDFFF)
            continue;
        int n = utf8_put(cp, s);
        if (!utf8_valid(s, (size_t)n, NULL) ||
            utf8_decode(s, (size_t)n, &back) != n || back != cp)
            fail_msg("U+%04X", (unsigned)cp);
        for (int k = 1; k < n; k++)
            if (utf8_complete(s, (size_t)k) != 0)
                fail_msg("U+%04X cut at %d", (unsigned)cp, k);
        if (utf8_complete(s, (size_t)n) != (size_t)n)
            fail_msg("U+%04X whole", (unsigned)cp);
    }
    char s[4];
    assert_int_equal(utf8_put(0xD800, s), 3);
    assert_memory_equal(s, "\xEF\xBF\xBD", 3);
}

static void streaming_holds_back_half_characters(void **state)
{
    (void)state;
    assert_int_equal(utf8_complete("ab\xE2\x82", 4), 2);
    assert_int_equal(utf8_complete("ab\xF0\x9F\x98", 5), 2);
    assert_int_equal(utf8_complete("ab\x80\x80", 4), 4); /* never whole */
    assert_int_equal(utf8_complete("\x80\x80\x80\x80", 4), 4);
    assert_int_equal(utf8_complete("ab\xFF", 3), 3);
    assert_int_equal(utf8_complete("\xE0\x80", 2), 2);
    assert_int_equal(utf8_complete("", 0), 0);
}

static void assert_sanitized(const char *in, size_t n, const char *want)
{
    struct buf b = BUF_INIT;

    utf8_sanitize(in, n, &b);
    assert_string_equal(b.data ? b.data : "", want);
    buf_free(&b);
}

#define BAD "\xEF\xBF\xBD"

static void sanitize_replaces_maximal_parts(void **state)
{
    (void)state;
    assert_sanitized("ok \xC3\xA9", 5, "ok \xC3\xA9");
    assert_sanitized("a\xFFz", 3, "a" BAD "z");
    assert_sanitized("\xE2\x82", 2, BAD); /* one cut character */
    assert_sanitized("\xE2\x82z", 3, BAD "z");
    assert_sanitized("\xC0\x80", 2, BAD BAD);
    /* Unicode 15, table 3-8 */
    assert_sanitized("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", 12,
                     BAD BAD BAD "b" BAD "c" BAD BAD "d");
}

static void assert_nfc(const char *in, const char *want)
{
    struct buf b = BUF_INIT;

    assert_int_equal(text_nfc(in, strlen(in), &b, NULL), CAG_OK);
    assert_string_equal(b.data ? b.data : "", want);
    /* and it is a fixed point */
    struct buf again = BUF_INIT;
    assert_int_equal(text_nfc(want, strlen(want), &again, NULL), CAG_OK);
    assert_string_equal(again.data ? again.data : "", want);
    buf_free(&again);
    buf_free(&b);
}

static void nfc(void **state)
{
    (void)state;
    assert_nfc("", "");
    assert_nfc("plain text\r\n", "plain text\r\n");
    assert_nfc("e\xCC\x81", "\xC3\xA9");
    assert_nfc("caf\xC3\xA9 e\xCC\x81 x", "caf\xC3\xA9 \xC3\xA9 x");
    assert_nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C");
    assert_nfc("\xE2\x84\xAB", "\xC3\x85");                 /* Angstrom */
    assert_nfc("q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87");   /* reordered */
    assert_nfc("\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"); /* excluded */
    assert_nfc("\xF0\x9D\x85\x9E", "\xF0\x9D\x85\x97\xF0\x9D\x85\xA5");
    assert_nfc("\xEF\xAC\x81", "\xEF\xAC\x81"); /* fi stays */
    assert_nfc("<\xCC\xB8=\xCC\xB8", "\xE2\x89\xAE\xE2\x89\xA0");
    assert_nfc("\xCC\x81x", "\xCC\x81x");
}

static void long_runs_of_marks_are_fast(void **state)
{
    struct buf in = BUF_INIT, out = BUF_INIT;
    clock_t start = clock();

    (void)state;
    buf_char(&in, 'q');
    for (int i = 0; i < 200000; i++)
        buf_str(&in, i & 1 ? "\xCC\xA3" : "\xCC\x87");
    assert_int_equal(text_nfc(in.data, in.size, &out, NULL), CAG_OK);
    assert_int_equal(out.size, in.size);
    assert_memory_equal(out.data, "q\xCC\xA3\xCC\xA3", 5);
    assert_memory_equal(out.data + out.size - 4, "\xCC\x87\xCC\x87", 4);
    /* quadratic would be minutes */
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5);
    buf_free(&in);
    buf_free(&out);
}

static void nfc_without_memory(void **state)
{
    bool done = false;

    (void)state;
    FOR_EACH_FAULT(n, done)
    {
        struct buf b = BUF_INIT;
        int64_t live = mem_live();
        mem_fault(n, false);
        cag_status st = text_nfc("ab e\xCC\x81 c", 8, &b, NULL);
        mem_fault(0, false);
        done = st == CAG_OK;
        if (done)
            assert_string_equal(b.data, "ab \xC3\xA9 c");
        else
            assert_int_equal(st, CAG_E_NOMEM);
        buf_free(&b);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_utf8_has_a_place),
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(streaming_holds_back_half_characters),
        cmocka_unit_test(sanitize_replaces_maximal_parts),
        cmocka_unit_test(nfc),
        cmocka_unit_test(long_runs_of_marks_are_fast),
        cmocka_unit_test(nfc_without_memory),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
