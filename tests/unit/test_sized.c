/*
 * test_sized.c - programs and libraries of different ages: a struct of
 * options that is shorter or longer than the library's, or was never filled.
 */
#include "tests/lib/unit.h"

#include <cag.h>
#include <math.h>
#include <stddef.h>

#include "tests/lib/fault.h"
#include "util/sized.h"

static char kvc[64];
static cag_kb *kb;

static int begin(void **state)
{
    (void)state;
    return fault_build(kvc) || cag_kb_open(kvc, NULL, &kb, NULL) ? -1 : 0;
}

static int end(void **state)
{
    cag_kb_close(kb);
    return fault_tear_down(state);
}

/* What a program knew one, two and three versions ago, and the future. */
struct v1 {
    size_t size;
    int a;
};
struct v2 {
    size_t size;
    int a, b;
    double c;
};
struct v3 {
    size_t size;
    int a, b;
    double c;
    const char *d;
};
static const struct v2 defaults = { .a = 1, .b = 2, .c = 3 };

static void an_older_program_keeps_what_follows_its_struct(void **state)
{
    struct {
        struct v1 o;
        char after[32];
    } p;
    struct v2 own = defaults;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    memset(&p, 0x55, sizeof p);
    sized_init(&p.o, sizeof p.o, &defaults, sizeof defaults);
    assert_int_equal(p.o.size, sizeof p.o);
    assert_int_equal(p.o.a, 1);
    for (size_t i = 0; i < sizeof p.after; i++)
        assert_int_equal(p.after[i], 0x55);
    p.o.a = 7;
    assert_int_equal(sized_take(&own, sizeof own, &p.o, "opts", &err), CAG_OK);
    assert_int_equal(own.a, 7);
    assert_int_equal(own.size, sizeof own);
    /* b lies in what is padding in v1, and has the default that _init put
     * there */
    assert_int_equal(own.b, 2);
    assert_true(own.c == 3);
}

static void a_newer_program_may_not_ask_for_what_is_not_there(void **state)
{
    struct v3 p;
    struct v2 own = defaults;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    memset(&p, 0x55, sizeof p);
    sized_init(&p, sizeof p, &defaults, sizeof defaults);
    assert_null(p.d);
    p.b = 9;
    assert_int_equal(sized_take(&own, sizeof own, &p, "opts", &err), CAG_OK);
    assert_int_equal(own.b, 9);
    p.d = "new";
    assert_int_equal(sized_take(&own, sizeof own, &p, "opts", &err),
                     CAG_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "newer"));
}

static void a_struct_that_nobody_filled_is_refused(void **state)
{
    const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, 1 << 20, SIZE_MAX };
    cag_error err = CAG_ERROR_INIT;
    cag_build_report r;
    cag_batch_report b;
    cag_build_opts build = { .size = 0 };
    cag_kb_opts open = { .size = 0 };
    cag_ask_params ask = { .size = 0 };
    cag_batch_opts batch = { .size = 0 };
    cag_answer a;
    cag_kb *k;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        build.size = open.size = ask.size = batch.size = sizes[i];
        assert_int_equal(cag_build(&build, &r, &err), CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "cag_build_opts_init"));
        assert_int_equal(cag_build_plan(&build, &r, &err), CAG_E_USAGE);
        assert_int_equal(cag_refresh(kvc, &build, &r, &err), CAG_E_USAGE);
        assert_int_equal(cag_kb_open(kvc, &open, &k, &err), CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "cag_kb_opts_init"));
        assert_int_equal(cag_kb_ask(kb, "Why?", 4, &ask, NULL, NULL, &a, &err),
                         CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "cag_ask_params_init"));
        assert_null(cag_answer_json(kb, &a, "Why?", 4, NULL, &ask));
        assert_int_equal(cag_kb_batch(kb, &batch, NULL, NULL, NULL, &b, &err),
                         CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "cag_batch_opts_init"));
    }
}

/* A program that knows nothing after max_tok: no sampling, no stop strings. */
static void an_old_program_asks(void **state)
{
    struct {
        size_t size;
        int64_t max_tok;
    } old;
    cag_ask_params now;
    cag_answer a, b;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    cag_ask_params_init_size((cag_ask_params *)(void *)&old, sizeof old);
    assert_int_equal(old.max_tok, 120);
    cag_ask_params_init(&now);
    old.max_tok = now.max_tok = 5;
    assert_int_equal(cag_kb_ask(kb, "Why?", 4,
                                (const cag_ask_params *)(const void *)&old,
                                NULL, NULL, &a, &err),
                     CAG_OK);
    assert_int_equal(cag_kb_ask(kb, "Why?", 4, &now, NULL, NULL, &b, &err),
                     CAG_OK);
    assert_string_equal(a.text, b.text);
    assert_true(a.n_generated <= 5);
    cag_answer_release(&a);
    cag_answer_release(&b);
    /* no parameters at all: the defaults */
    assert_int_equal(cag_kb_ask(kb, "Why?", 4, NULL, NULL, NULL, &a, &err),
                     CAG_OK);
    cag_answer_release(&a);
}

static void parameters_out_of_range_are_refused(void **state)
{
    static const char *const empty[] = { "end", "" };
    const struct {
        cag_ask_params p;
        const char *name;
    } bad[] = {
        { { .max_tok = 0 }, "max_tok" },
        { { .max_tok = -1 }, "max_tok" },
        { { .max_tok = INT64_MIN }, "max_tok" },
        { { .max_tok = 1, .n_stop = -1 }, "stop" },
        { { .max_tok = 1, .n_stop = 1 }, "stop" },
        { { .max_tok = 1,
            .sampling = { .top_p = 1 },
            .n_stop = 2,
            .stop = empty },
          "stop" },
        { { .max_tok = 1, .sampling = { .temperature = -1 } }, "temperature" },
        { { .max_tok = 1, .sampling = { .temperature = NAN } }, "temperature" },
        { { .max_tok = 1, .sampling = { .temperature = INFINITY } },
          "temperature" },
        { { .max_tok = 1, .sampling = { .top_k = -1 } }, "top_k" },
        { { .max_tok = 1, .sampling = { .top_p = 0 } }, "top_p" },
        { { .max_tok = 1, .sampling = { .top_p = 1.5f } }, "top_p" },
        { { .max_tok = 1, .sampling = { .top_p = 1, .min_p = 2 } }, "min_p" },
    };
    cag_error err = CAG_ERROR_INIT;
    cag_batch_report r;
    cag_batch_opts o;
    cag_answer a;
    cag_chat *c;

    (void)state;
    assert_int_equal(cag_chat_new(kb, &c, &err), CAG_OK);
    cag_batch_opts_init(&o);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cag_ask_params p = bad[i].p;

        p.size = sizeof p;
        o.params = &p;
        assert_int_equal(cag_kb_ask(kb, "Why?", 4, &p, NULL, NULL, &a, &err),
                         CAG_E_USAGE);
        assert_non_null(strstr(err.msg, bad[i].name));
        assert_int_equal(cag_chat_ask(c, "Why?", 4, &p, NULL, NULL, &a, &err),
                         CAG_E_USAGE);
        assert_int_equal(cag_kb_batch(kb, &o, NULL, NULL, NULL, &r, &err),
                         CAG_E_USAGE);
    }
    cag_chat_free(c);
}

/* Structs that others hold, or arrays are made of, keep their size for ever:
 * a change here is a new major version. */
static void sizes_that_never_change(void **state)
{
    (void)state;
    assert_string_equal(cag_version(), CAG_VERSION);
    if (sizeof(void *) != 8)
        skip();
    assert_int_equal(sizeof(cag_error), 1560);
    assert_int_equal(sizeof(cag_places), 64);
    assert_int_equal(sizeof(cag_hooks), 24);
    assert_int_equal(sizeof(cag_sampling), 32);
    assert_int_equal(sizeof(cag_engine_opts), 120);
    assert_int_equal(sizeof(cag_source_spec), 88);
    assert_int_equal(sizeof(cag_answer), 168);
    assert_int_equal(sizeof(cag_question), 40);
    assert_int_equal(sizeof(cag_prompt_view), 80);
    assert_int_equal(sizeof(cag_batch_report), 88);
    assert_int_equal(sizeof(cag_check_report), 80);
    assert_int_equal(sizeof(cag_build_source), 40);
    assert_int_equal(sizeof(cag_build_line), 40);
    assert_int_equal(sizeof(cag_diff), 48);
    /* and the first member of options is their size */
    assert_int_equal(offsetof(cag_build_opts, size), 0);
    assert_int_equal(offsetof(cag_kb_opts, size), 0);
    assert_int_equal(offsetof(cag_ask_params, size), 0);
    assert_int_equal(offsetof(cag_batch_opts, size), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_program_keeps_what_follows_its_struct),
        cmocka_unit_test(a_newer_program_may_not_ask_for_what_is_not_there),
        cmocka_unit_test(a_struct_that_nobody_filled_is_refused),
        cmocka_unit_test(an_old_program_asks),
        cmocka_unit_test(parameters_out_of_range_are_refused),
        cmocka_unit_test(sizes_that_never_change),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
