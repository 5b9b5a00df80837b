/*
 * META.build: what a build records of itself, and what comes back from it.
 */
#include "tests/lib/binding_fixture.h"

#include "binding/record.h"

static const char *const include[] = { "*.adoc", NULL };
static const char *const filter[] = { "tr", "a", "b", NULL };

static jv *recorded(const cag_build_opts *o)
{
    char *here = file_absolute(".");
    jv *b = record_build(o, 2048, 256, here);

    assert_non_null(b);
    mem_free(here);
    return b;
}

static void there_and_back(void **state)
{
    static const struct bind_source v[] = { { "d/a.md", "d" } };
    const cag_source_spec spec[] = {
        { .path = "d" },
        { .path = "d/a.md", .title = "A", .filter = filter },
        { .path = "d/*.md", .is_glob = true },
        { .path = "-" },
    };
    cag_build_opts o;
    cag_source_spec *back;
    const char *const *list;
    struct arena a = { NULL };
    struct buf text = BUF_INIT;
    int n, n_stream;
    cag_kvc *k;
    jv *b;

    (void)state;
    mkdir("d", 0700);
    put("d/a.md", "one");
    cag_build_opts_init(&o);
    o.source = spec;
    o.n_source = 4;
    o.include = include;
    o.label = "TEXT:";
    b = recorded(&o);
    assert_true(record_was_default(b, "system"));
    assert_false(record_was_default(b, "label"));
    assert_null(jv_get(b, "exclude"));
    jv_dump(b, &text);
    bind_write("k.kvc", v, 1, text.data, NULL);
    jv_free(b);
    buf_free(&text);
    k = bind_open("k.kvc");
    assert_int_equal(record_specs(k, &a, &back, &n, &n_stream, NULL), CAG_OK);
    assert_int_equal(n, 3);
    assert_int_equal(n_stream, 1);
    assert_true(back[0].path[0] == '/' && strstr(back[0].path, "/d"));
    assert_false(back[0].is_glob || back[0].title || back[0].filter_was);
    /* a filter is shown and never run */
    assert_null(back[1].filter);
    assert_string_equal(back[1].filter_was[0], "tr");
    assert_null(back[1].filter_was[3]);
    assert_string_equal(back[1].title, "A");
    assert_true(back[2].is_glob && strstr(back[2].path, "d/*.md"));
    assert_int_equal(record_patterns(k, "include", &a, &list, NULL), CAG_OK);
    assert_string_equal(list[0], "*.adoc");
    assert_null(list[1]);
    assert_int_equal(record_patterns(k, "exclude", &a, &list, NULL), CAG_OK);
    assert_null(list);
    arena_release(&a);
    cag_kvc_close(k);
}

/* A cache that says nothing of patterns has the bytes there always were. */
static void nothing_more_than_asked(void **state)
{
    const cag_source_spec spec = { .path = "-" };
    cag_build_opts o;
    jv *b;

    (void)state;
    cag_build_opts_init(&o);
    o.source = &spec;
    o.n_source = 1;
    b = recorded(&o);
    assert_null(jv_get(b, "include"));
    assert_null(jv_get(b, "exclude"));
    assert_int_equal(jv_count(jv_get(b, "default")), 4);
    assert_string_equal(jv_get_str(jv_at(jv_get(b, "sources"), 0), "kind", ""),
                        "stream");
    jv_free(b);
}

static void refused(void **state)
{
    static const struct bind_source v[] = { { "a.md", NULL } };
    cag_error err = CAG_ERROR_INIT;
    cag_source_spec *spec;
    struct arena a = { NULL };
    int n, n_stream;
    cag_kvc *k;

    (void)state;
    put("a.md", "one");
    bind_write("k.kvc", v, 1,
               "{\"n_ctx\":2048,\"reserve\":256,\"sources\":[{\"kind\":"
               "\"file\",\"path\":\"a.md\",\"title\":null,"
               "\"filter\":[\"tr\",7]}]}",
               NULL);
    k = bind_open("k.kvc");
    assert_int_equal(record_specs(k, &a, &spec, &n, &n_stream, &err),
                     CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "a word of a filter is"));
    arena_release(&a);
    cag_kvc_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = { T(there_and_back),
                                        T(nothing_more_than_asked),
                                        T(refused) };

    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
