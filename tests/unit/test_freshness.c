/*
 * Does a cache still fit its sources?  Changed, deleted, new, out of sight.
 */
#include "tests/lib/binding_fixture.h"

#include "binding/freshness.h"

#define BUILD(sources)                                                   \
    "{\"n_ctx\":2048,\"reserve\":256,\"default\":[\"system\",\"label\"," \
    "\"refusal\",\"acknowledgement\"],\"template\":{\"kind\":\"model\"," \
    "\"name\":null},\"drop_front_matter\":false,\"sources\":[" sources "]}"
#define ONE(kind, path)                                            \
    "{\"kind\":\"" kind "\",\"path\":\"" path "\",\"title\":null," \
    "\"filter\":null}"

static cag_check_report r;

static cag_status check(const char *path)
{
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = bind_open(path);
    cag_status st;

    cag_check_report_release(&r);
    st = freshness_of_sources(k, NULL, NULL, false, &r, &err);
    cag_kvc_close(k);
    return st;
}

static void expect(const char *path, cag_status want, const char *line)
{
    cag_status st = check(path);

    assert_int_equal(st, want);
    if (line && st == CAG_E_STALE)
        assert_string_equal(r.reason[0], line);
    if (line && st == CAG_E_MISSING)
        assert_string_equal(r.unseen[0], line);
}

static void two_files(void)
{
    static const struct bind_source v[] = { { "a.md", NULL },
                                            { "b.md", NULL } };

    put("a.md", "one");
    put("b.md", "two");
    bind_write("k.kvc", v, 2,
               BUILD(ONE("file", "a.md") "," ONE("file", "b.md")), NULL);
}

static void named_files(void **state)
{
    (void)state;
    two_files();
    expect("k.kvc", CAG_OK, NULL);
    put("b.md", "twa");
    expect("k.kvc", CAG_E_STALE, "b.md: changed");
    assert_string_equal(r.rebuild, "cag-build --refresh k.kvc");
    put("b.md", "two");
    expect("k.kvc", CAG_OK, NULL);
    unlink("b.md");
    expect("k.kvc", CAG_E_STALE, "b.md: deleted or renamed");
    assert_non_null(strstr(r.rebuild, "or run cag-build -m "));
    assert_non_null(strstr(r.rebuild, "-o k.kvc a.md"));
    mkdir("b.md", 0700);
    expect("k.kvc", CAG_E_STALE, "b.md: changed");
}

/* The cache's own directory is there wherever it was carried to. */
static void nothing_is_seen(void **state)
{
    (void)state;
    two_files();
    unlink("a.md");
    unlink("b.md");
    expect("k.kvc", CAG_E_MISSING, "a.md: not found");
    put("k.kvc.lock", "");
    expect("k.kvc", CAG_E_STALE, "a.md: deleted or renamed");
}

static void directories(void **state)
{
    static const struct bind_source v[] = { { "d/a.md", "d" } };

    (void)state;
    mkdir("d", 0700);
    put("d/a.md", "one");
    bind_write("k.kvc", v, 1, BUILD(ONE("directory", "d")), NULL);
    expect("k.kvc", CAG_OK, NULL);
    put("d/n.html", "no text");
    expect("k.kvc", CAG_OK, NULL);
    put("d/n.rst", "new");
    expect("k.kvc", CAG_E_STALE, "d/n.rst: new file");
    unlink("d/n.rst");
    unlink("d/a.md");
    expect("k.kvc", CAG_E_STALE, "d/a.md: deleted or renamed");
    unlink("d/n.html");
    rmdir("d");
    expect("k.kvc", CAG_E_MISSING, "d/a.md: not found");
}

static void recorded_patterns(void **state)
{
    static const struct bind_source v[] = { { "d/a.md", "d" } };

    (void)state;
    mkdir("d", 0700);
    put("d/a.md", "one");
    bind_write("k.kvc", v, 1,
               "{\"n_ctx\":2048,\"reserve\":256,\"exclude\":[\"draft*\"],"
               "\"sources\":[" ONE("directory", "d") "]}",
               NULL);
    put("d/draft.md", "x");
    expect("k.kvc", CAG_OK, NULL);
    put("d/b.md", "x");
    expect("k.kvc", CAG_E_STALE, "d/b.md: new file");
    bind_write("o.kvc", v, 1,
               "{\"n_ctx\":2048,\"reserve\":256,\"exclude\":[1],"
               "\"sources\":[" ONE("directory", "d") "]}",
               NULL);
    assert_int_equal(check("o.kvc"), CAG_E_FORMAT);
}

/* What is outside the cache's directory, --refresh is told of. */
static void outside(void **state)
{
    static const struct bind_source v[] = { { "../a.md", NULL } };

    (void)state;
    mkdir("in", 0700);
    put("a.md", "one");
    bind_write("in/k.kvc", v, 1, BUILD(ONE("file", "../a.md")), NULL);
    expect("in/k.kvc", CAG_OK, NULL);
    put("a.md", "two");
    expect("in/k.kvc", CAG_E_STALE, "../a.md: changed");
    assert_string_equal(r.rebuild,
                        "cag-build --refresh --allow-outside in/k.kvc");
}

int main(void)
{
    const struct CMUnitTest tests[] = { T(named_files), T(nothing_is_seen),
                                        T(directories), T(recorded_patterns),
                                        T(outside) };
    int rc = cmocka_run_group_tests(tests, scratch_enter, scratch_leave);

    cag_check_report_release(&r);
    return rc;
}
