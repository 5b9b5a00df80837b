/*
 * test_batch_known.c - rows of an earlier run are found by what they are, not
 * by where they stand; recent answers and ids are remembered.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch/batch_known.h"
#include "util/mem.h"

#define USAGE                                              \
    ",\"usage\":{\"prompt_tokens\":9,\"cached_tokens\":5," \
    "\"generated_tokens\":2}"

static const char earlier[] =
    "not json\n"
    "{\"line\":1,\"id\":1,\"question\":\"a\",\"options\":\"K1\","
    "\"answer\":\"one\",\"finish_reason\":\"length\",\"seconds\":0.25" USAGE
    "}\n"
    "{\"line\":2,\"id\":\"1\",\"question\":\"a\",\"options\":\"K1\","
    "\"answer\":\"text id\",\"reasoning\":\"why\",\"refused\":true,"
    "\"finish_reason\":\"stop\"" USAGE "}\n"
    "{\"line\":3,\"question\":\"bad\",\"options\":\"K1\",\"error\":\"x\","
    "\"answer\":\"no\"" USAGE "}\n"
    "{\"line\":4,\"question\":\"forged\",\"options\":\"K1\","
    "\"answer\":\"no usage\"}\n"
    "[1]\n\n"
    "{\"line\":5,\"question\":\"torn\",\"options\":\"K1\",\"answer\":"
    "\"t\"" USAGE "}";

static char path[] = "/tmp/cag-test-XXXXXX";
static cag_rows *rows;

/* The earlier output as a file, opened to go on with it. */
static int begin(void **state)
{
    FILE *f;

    (void)state;
    close(mkstemp(path));
    f = fopen(path, "w");
    assert_int_equal(fwrite(earlier, sizeof earlier - 1, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    return cag_rows_open(path, true, NULL, 0, &rows, NULL);
}

static int end(void **state)
{
    char part[sizeof path + 5];

    (void)state;
    cag_rows_close(rows);
    snprintf(part, sizeof part, "%s.part", path);
    return unlink(path) || unlink(part);
}

/* A parsed row; the caller releases it. */
static void row_of(struct row *r, const char *json)
{
    cag_ask_params p;

    cag_ask_params_init(&p);
    assert_int_equal(row_parse(r, json, strlen(json), 7, "question", &p, NULL),
                     CAG_OK);
    assert_int_equal(r->error.status, CAG_OK);
}

static bool found(const struct known *k, const char *json, const char *key,
                  const char *want)
{
    struct row r;
    cag_answer a;
    bool yes;

    row_of(&r, json);
    yes = known_earlier(k, &r, key, &a);
    if (yes) {
        assert_string_equal(a.text, want);
        assert_int_equal(a.n_cached, 5);
        assert_int_equal(a.n_prompt, 4);
        assert_int_equal(a.n_generated, 2);
        cag_answer_release(&a);
    }
    row_release(&r);
    return yes;
}

static void test_earlier(void **state)
{
    struct known k;

    (void)state;
    assert_int_equal(known_init(&k, rows, NULL), CAG_OK);
    assert_true(found(&k, "{\"question\":\"a\",\"id\":1}", "K1", "one"));
    assert_true(found(&k, "{\"id\":\"1\",\"question\":\"a\",\"more\":[]}", "K1",
                      "text id"));
    /* another id, question, options: not the same row */
    assert_false(found(&k, "{\"question\":\"a\",\"id\":2}", "K1", ""));
    assert_false(found(&k, "{\"question\":\"a\"}", "K1", ""));
    assert_false(found(&k, "{\"question\":\"a\",\"custom_id\":1}", "K1", ""));
    assert_false(found(&k, "{\"question\":\"a \",\"id\":1}", "K1", ""));
    assert_false(found(&k, "{\"question\":\"a\",\"id\":1}", "K2", ""));
    /* failed, forged, torn */
    assert_false(found(&k, "{\"question\":\"bad\"}", "K1", ""));
    assert_false(found(&k, "{\"question\":\"forged\"}", "K1", ""));
    assert_false(found(&k, "{\"question\":\"torn\"}", "K1", ""));
    known_release(&k);
}

static void test_answer_comes_back_whole(void **state)
{
    struct known k;
    struct row r;
    cag_answer a;

    (void)state;
    assert_int_equal(known_init(&k, rows, NULL), CAG_OK);
    row_of(&r, "{\"id\":\"1\",\"question\":\"a\"}");
    assert_true(known_earlier(&k, &r, "K1", &a));
    assert_string_equal(a.reasoning, "why");
    assert_true(a.refused);
    assert_string_equal(a.finish, "stop");
    cag_answer_release(&a);
    row_release(&r);
    row_of(&r, "{\"id\":1,\"question\":\"a\"}");
    assert_true(known_earlier(&k, &r, "K1", &a));
    assert_null(a.reasoning);
    assert_false(a.refused);
    assert_string_equal(a.finish, "length");
    assert_true(a.first_s == 0.25);
    cag_answer_release(&a);
    row_release(&r);
    known_release(&k);
}

static void test_recent(void **state)
{
    struct known k;
    struct row r, other;
    char text[] = "answer";
    cag_answer a = { .text = text, .size = 6, .finish = "stop" };

    (void)state;
    assert_int_equal(known_init(&k, NULL, NULL), CAG_OK);
    row_of(&r, "{\"question\":\"a\"}");
    row_of(&other, "{\"question\":\"b\"}");
    assert_null(known_recent(&k, &r, "K1"));
    known_add(&k, &r, "K1", &a);
    assert_string_equal(known_recent(&k, &r, "K1")->text, "answer");
    assert_ptr_not_equal(known_recent(&k, &r, "K1")->text, text);
    assert_null(known_recent(&k, &r, "K2"));
    assert_null(known_recent(&k, &other, "K1"));
    /* a sampled row is neither given nor taken */
    r.params.sampling.temperature = 1;
    assert_null(known_recent(&k, &r, "K1"));
    other.params.sampling.temperature = 1;
    known_add(&k, &other, "K1", &a);
    other.params.sampling.temperature = 0;
    assert_null(known_recent(&k, &other, "K1"));
    /* what is too large is not kept */
    a.size = (size_t)1 << 20;
    known_add(&k, &other, "K1", &a);
    assert_null(known_recent(&k, &other, "K1"));
    row_release(&r);
    row_release(&other);
    known_release(&k);
}

static void test_recent_is_bounded(void **state)
{
    struct known k;
    char text[] = "answer", json[64];
    cag_answer a = { .text = text, .size = 6, .finish = "stop" };
    int64_t live = 0;
    int n_kept = 0;

    (void)state;
    assert_int_equal(known_init(&k, NULL, NULL), CAG_OK);
    for (int i = 0; i < 20000; i++) {
        struct row r;

        snprintf(json, sizeof json, "{\"question\":\"%d\"}", i);
        row_of(&r, json);
        known_add(&k, &r, "K1", &a);
        assert_non_null(known_recent(&k, &r, "K1"));
        row_release(&r);
        if (i == 9999)
            live = mem_live();
    }
    assert_int_equal(mem_live(), live);
    for (int i = 0; i < 20000; i++) {
        struct row r;

        snprintf(json, sizeof json, "{\"question\":\"%d\"}", i);
        row_of(&r, json);
        n_kept += known_recent(&k, &r, "K1") != NULL;
        row_release(&r);
    }
    assert_int_equal(n_kept, KNOWN_RECENT);
    known_release(&k);
}

static void test_ids(void **state)
{
    struct known k;
    char json[64];

    (void)state;
    assert_int_equal(known_init(&k, NULL, NULL), CAG_OK);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 5000; i++) {
            struct row r;
            int64_t line;

            snprintf(json, sizeof json, "{\"question\":\"a\",\"%s\":%s%d%s}",
                     i & 1 ? "id" : "custom_id", i & 2 ? "\"" : "", i / 4,
                     i & 2 ? "\"" : "");
            row_of(&r, json);
            r.line = i + 1;
            assert_int_equal(known_id(&k, &r, &line, NULL), CAG_OK);
            assert_int_equal(line, turn ? i + 1 : 0);
            row_release(&r);
        }
    known_release(&k);
}

static void test_faults(void **state)
{
    bool done = false;
    int64_t live = mem_live();

    (void)state;
    FOR_EACH_FAULT(n, done)
    {
        struct known k;
        struct row r;
        cag_answer a;
        cag_error err = CAG_ERROR_INIT;
        int64_t line;
        cag_status st;

        row_of(&r, "{\"id\":\"1\",\"question\":\"a\"}");
        mem_fault(n, false);
        st = known_init(&k, rows, &err);
        /* a row that cannot be read for want of memory is asked again */
        if (!st && known_earlier(&k, &r, "K1", &a)) {
            known_add(&k, &r, "K1", &a);
            st = known_id(&k, &r, &line, &err);
            done = !st && known_recent(&k, &r, "K1") && n > 200;
            cag_answer_release(&a);
        }
        mem_fault(0, false);
        assert_true(st == CAG_OK || st == CAG_E_NOMEM);
        known_release(&k);
        row_release(&r);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_earlier),
        cmocka_unit_test(test_answer_comes_back_whole),
        cmocka_unit_test(test_recent),
        cmocka_unit_test(test_recent_is_bounded),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
