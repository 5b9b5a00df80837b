/*
 * test_serve_api.c - bodies of requests: read in full or refused by name; what
 * is told is JSON whatever came in.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "cmd/serve/api.h"
#include "util/mem.h"

static const struct api_defaults defaults = { .max_tok = 1024,
                                              .evidence = true };

static bool parse(struct api_request *r, const char *text, struct api_error *e)
{
    return api_parse(r, API_CHAT, text, strlen(text), &defaults, e);
}

static void a_question_and_its_parameters(void **state)
{
    struct api_request r;
    struct api_error e;

    (void)state;
    assert_true(parse(
        &r,
        "{\"model\":\"kb\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\","
        "\"content\":\"c\"}],\"max_tokens\":7,\"temperature\":0.5,\"seed\":3,"
        "\"top_p\":0.25,\"stop\":[\"x\",\"y\"],\"stream\":true,"
        "\"cag\":{\"require_evidence\":\"strong\",\"evidence\":false}}",
        &e));
    assert_string_equal(r.model, "kb");
    assert_int_equal(r.question.size, 1);
    assert_string_equal(r.question.data, "c");
    assert_int_equal(jv_count(r.earlier), 2);
    assert_string_equal(jv_get_str(jv_at(r.earlier, 1), "content", ""), "b");
    assert_int_equal(r.params.max_tok, 7);
    assert_int_equal(r.params.sampling.seed, 3);
    assert_true(r.params.sampling.temperature > 0.4f);
    assert_int_equal(r.params.n_stop, 2);
    assert_string_equal(r.params.stop[1], "y");
    assert_true(r.stream);
    assert_false(r.include_usage);
    assert_int_equal(r.params.require, CAG_SUPPORT_STRONG);
    assert_false(r.params.evidence);
    api_release(&r);
}

static void defaults_are_those_of_cag_ask(void **state)
{
    cag_ask_params want;
    struct api_request r;
    struct api_error e;

    (void)state;
    cag_ask_params_init(&want);
    assert_true(api_parse(&r, API_COMPLETION,
                          "{\"model\":\"kb\",\"prompt\":\"q\"}", 27, &defaults,
                          &e));
    assert_int_equal(r.params.max_tok, API_N_PREDICT);
    assert_true(r.params.sampling.temperature <= 0);
    assert_memory_equal(&r.params.sampling, &want.sampling,
                        sizeof want.sampling);
    assert_int_equal(r.params.n_stop, 0);
    assert_false(r.params.think);
    api_release(&r);
}

/* A message that quotes half a character is UTF-8 all the same. */
static void errors_are_json(void **state)
{
    struct api_error e;
    struct buf b = BUF_INIT;
    jv *v = NULL;

    (void)state;
    assert_false(api_fail(&e, 400, "x", "\303", "a \303 \"b\" \\ \n"));
    api_error_json(&e, &b);
    assert_int_equal(jv_parse(b.data, b.size, NULL, &v, NULL), CAG_OK);
    assert_string_equal(jv_get_str(jv_get(v, "error"), "type", ""),
                        "invalid_request_error");
    jv_free(v);
    buf_free(&b);
}

/* What the library says of a file stays on this side. */
static void errors_of_the_library_have_no_path(void **state)
{
    static const cag_status all[] = { CAG_E_NOMEM,   CAG_E_IO,
                                      CAG_E_CORRUPT, CAG_E_STALE,
                                      CAG_E_MISSING, CAG_E_BACKEND,
                                      CAG_E_MISMATCH };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cag_error err = { .status = all[i],
                          .file = "/srv/kb.kvc",
                          .msg = "/srv/model is not there" };
        struct api_error e;

        memset(&e, 0, sizeof e);
        api_error_of(&e, &err);
        assert_true(e.http >= 500);
        assert_null(strstr(e.msg, "/srv"));
    }
}

static void use(enum api_kind kind, const cag_answer *a, struct buf *b)
{
    int n_event = 0;
    const struct api_answer x = { kind, "1", "kb", 5, a, NULL, NULL, &n_event };
    struct api_request r;
    struct api_error e;

    if (parse(&r,
              "{\"model\":\"kb\",\"messages\":[{\"role\":\"user\","
              "\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
              "\"c\"}]}],\"stop\":\"x\"}",
              &e))
        api_release(&r);
    else
        api_error_json(&e, b);
    api_answer_json(&x, b);
    api_event_start(&x, b);
    api_event_text(&x, "t", 1, b);
    api_event_end(&x, true, b);
    api_error_of(&e, &(cag_error){ .status = CAG_E_LIMIT });
    api_event_error(&x, &e, b);
}

static void memory_runs_out(void **state)
{
    char text[] = "answer", reasoning[] = "why";
    const cag_answer a = {
        .text = text, .size = 6, .reasoning = reasoning, .finish = "stop"
    };
    int64_t before = mem_live();

    (void)state;
    for (int64_t n = 1, kind = API_CHAT;; n++) {
        struct buf b = BUF_INIT;
        bool failed;

        mem_fault(n, false);
        use((enum api_kind)kind, &a, &b);
        failed = mem_count() >= n;
        mem_fault(0, false);
        buf_free(&b);
        assert_int_equal(mem_live(), before);
        if (!failed && kind++ == API_RESPONSE)
            break;
        n = failed ? n : 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_and_its_parameters),
        cmocka_unit_test(defaults_are_those_of_cag_ask),
        cmocka_unit_test(errors_are_json),
        cmocka_unit_test(errors_of_the_library_have_no_path),
        cmocka_unit_test(memory_runs_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
