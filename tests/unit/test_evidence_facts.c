/*
 * test_evidence_facts.c - numbers, dates and names that stand nowhere.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "evidence/support_facts.h"
#include "evidence/support_scan.h"
#include "util/buf.h"

static cag_status join(void *ctx, const struct support_fact *f, cag_error *err)
{
    struct buf *b = ctx;

    (void)err;
    if (b->size)
        buf_char(b, '|');
    buf_str(b, f->key);
    return CAG_OK;
}

static void expect_keys(const char *text, bool all, const char *want)
{
    struct buf b = BUF_INIT;

    assert_int_equal(support_scan(text, strlen(text), all, join, &b, NULL),
                     CAG_OK);
    assert_string_equal(b.data ? b.data : "", want);
    buf_free(&b);
}

static void numbers_are_the_same_however_written(void **state)
{
    (void)state;
    expect_keys("1,024 and 1024", false, "1024|1024");
    expect_keys("$1.1 million, 5 % or 5%; 5 percent", false,
                "1.1 million|5 %|5 %|5 %");
    expect_keys("64KiB 3rd 24-36 1,2", false, "64|3|24|36|1|2");
    expect_keys("LZ77 xz-5.2.1 x1_2", false, "");
    expect_keys("LZ77 xz-5.2.1", true, "77|5.2.1");
    expect_keys("$1.1 million", true, "1.1 million|1.1");
    expect_keys("Seven cats, one dog. Tens", true, "7|1");
    expect_keys("1. first\n 2) second 3.", false, "3");
    expect_keys("5 millions", false, "5");
    expect_keys("", true, "");
    expect_keys("12345678901234567890123456789012345678901234", false,
                "123456789012345678901234567890123456789|01234");
}

static void dates_are_the_same_however_written(void **state)
{
    (void)state;
    expect_keys("2021-03-12, 12.03.2021, 2021/3/12", false,
                "=2021-3-12|=2021-3-12|=2021-3-12");
    expect_keys("12 March 2021; 12th of March, 2021; March 12, 2021; "
                "Mar. 12th 2021",
                false, "=2021-3-12|=2021-3-12|=2021-3-12|=2021-3-12");
    expect_keys("March 2021, March 12, Sept 3", false,
                "=2021-3-0|=0-3-12|=0-9-3");
    expect_keys("Marching 12, May be, Maya 3", false, "12|3");
    expect_keys("12 March 2021", true,
                "=2021-3-12|=2021-3-0|=0-3-12|12|=2021-3-0|2021");
    /* no dates */
    expect_keys("2021-13-12 99.99.2021", false, "2021|13|12|99.99.2021");
}

static const char text[] =
    "Igor Pavlov designed LZMA for 7-Zip on 12 March 2001.\n"
    "It cost 1,024 euros, or seven a day. XZ Utils need 64 MiB.\n";

/* Facts of answer that text and question do not have, one a '|'. */
static void expect_unknown(const char *question, const char *answer, bool cut,
                           const char *want)
{
    struct index_text t = { text, sizeof text - 1 };
    struct evidence_base b = { .text = &t, .n = 1 };
    const cag_text known[2] = { { question, strlen(question), 0 },
                                { NULL, 0, 0 } };
    struct buf got = BUF_INIT;
    char **v;
    int n;

    assert_int_equal(evidence_index_new(&t, 1, &b.index, NULL), CAG_OK);
    assert_int_equal(support_unknown_facts(&b, answer, strlen(answer), cut,
                                           known, &v, &n, NULL),
                     CAG_OK);
    for (int i = 0; i < n; i++) {
        if (i)
            buf_char(&got, '|');
        buf_str(&got, v[i]);
    }
    assert_string_equal(got.data ? got.data : "", want);
    buf_free(&got);
    support_facts_free(v, n);
    words_table_release(&b.facts);
    evidence_index_free(b.index);
}

static void what_stands_in_the_text_is_supported(void **state)
{
    const char *q = "Who designed LZMA?";

    (void)state;
    expect_unknown(q, "Igor Pavlov, on March 12, 2001, for 1024 euros.", false,
                   "");
    expect_unknown(q, "It needs 64MiB and 7 a day, in March 2001", false, "");
    expect_unknown(q, "He did. Unfortunately so", false, "");
    expect_unknown("Is Bob 33?", "It is Bob, of 33", false, "");
    expect_unknown(q, "", false, "");
}

static void what_stands_nowhere_is_told_once(void **state)
{
    const char *q = "Who designed LZMA?";

    (void)state;
    expect_unknown(q, "It was $1.1 million, yes $1.1 million.", false,
                   "$1.1 million");
    expect_unknown(q, "On 13 March 2001 or in 1987", false,
                   "13 March 2001|1987");
    expect_unknown(q, "By Igor Smith of the University of Berkeley in May 1987",
                   false, "Igor Smith|University|Berkeley|May 1987");
    expect_unknown(q, "LZMA3 and OpenVMS", false, "LZMA3|OpenVMS");
    expect_unknown(q, "OpenVMS", false, "OpenVMS");
    expect_unknown(q, "Größe von Österreich", false, "Österreich");
    /* the last word of an answer that was cut is perhaps not whole */
    expect_unknown(q, "It was Pavl", true, "");
    expect_unknown(q, "It was Pavl", false, "Pavl");
    expect_unknown(q, "It was 98 and 99", true, "98");
}

static void no_memory_is_told(void **state)
{
    struct index_text t = { text, sizeof text - 1 };
    const char *a = "Igor Smith, 1987";
    const cag_text known[2] = { { "33 cats?", 8, 0 }, { "Bob", 3, 0 } };
    bool done = false;

    (void)state;
    FOR_EACH_FAULT(n, done)
    {
        struct evidence_base b = { .text = &t, .n = 1 };
        int64_t live = mem_live();
        char **v;
        int k;
        cag_status st;

        assert_int_equal(evidence_index_new(&t, 1, &b.index, NULL), CAG_OK);
        mem_fault(n, true);
        st =
            support_unknown_facts(&b, a, strlen(a), false, known, &v, &k, NULL);
        done = fault_missed(n);
        assert_int_equal(st, done ? CAG_OK : CAG_E_NOMEM);
        assert_int_equal(k, done ? 2 : 0);
        support_facts_free(v, k);
        words_table_release(&b.facts);
        evidence_index_free(b.index);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_same_however_written),
        cmocka_unit_test(dates_are_the_same_however_written),
        cmocka_unit_test(what_stands_in_the_text_is_supported),
        cmocka_unit_test(what_stands_nowhere_is_told_once),
        cmocka_unit_test(no_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
