/*
 * Sources: order, names, what is read and what is refused.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/source_select.h"
#include "source/sources.h"

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[4][256];
    static int i;

    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

static void put(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(in_dir(name), "w");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void puts_(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/cag-sources-XXXXXX");
    assert_non_null(mkdtemp(dir));
    mkdir(in_dir("d"), 0755);
    mkdir(in_dir("d/sub"), 0755);
    mkdir(in_dir("d/.hidden"), 0755);
    puts_("d/b.md", "bee\n");
    puts_("d/a.txt", "ay\n");
    puts_("d/skip.pdf", "no");
    puts_("d/sub/c.md", "sea\n");
    puts_("d/.hidden/h.md", "no");
    puts_("d/.dot.md", "no");
    assert_int_equal(symlink("..", in_dir("d/sub/loop")), 0);
    return 0;
}

static int tear_down(void **state)
{
    char cmd[128];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return system(cmd) != 0;
}

static cag_status read_one(const char *path, bool drop, struct source_set *s,
                           cag_error *err)
{
    cag_source_spec spec = { .path = path };

    *err = (cag_error)CAG_ERROR_INIT;
    struct source_opts o = { .drop_front_matter = drop };

    return source_read(&spec, 1, &o, s, err);
}

static void directory(void **state)
{
    struct source_set s;
    cag_error err;

    (void)state;
    assert_int_equal(read_one(in_dir("d"), false, &s, &err), CAG_OK);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.v[0].name, "a.txt");
    assert_string_equal(s.v[1].name, "b.md");
    assert_string_equal(s.v[2].name, "sub/c.md");
    assert_string_equal(s.v[2].text, "sea\n");
    assert_string_equal(s.v[0].group, in_dir("d"));
    source_release(&s);
}

static void names_and_order(void **state)
{
    cag_source_spec spec[2] = { { .path = in_dir("d/sub/c.md") },
                                { .path = in_dir("d/a.txt") } };
    struct source_set s;

    (void)state;
    assert_int_equal(source_read(spec, 2, NULL, &s, NULL), CAG_OK);
    assert_string_equal(s.v[0].name, "sub/c.md");
    assert_string_equal(s.v[1].name, "a.txt");
    source_release(&s);
    spec[0].title = "The sea";
    assert_int_equal(source_read(spec, 1, NULL, &s, NULL), CAG_OK);
    assert_string_equal(s.v[0].name, "The sea");
    source_release(&s);
}

static void globs(void **state)
{
    cag_source_spec spec = { .path = in_dir("d/*.md"), .is_glob = true };
    struct source_set s;

    (void)state;
    assert_int_equal(source_read(&spec, 1, NULL, &s, NULL), CAG_OK);
    assert_int_equal(s.n, 1);
    source_release(&s);
    spec.path = in_dir("d/*.none");
    assert_int_equal(source_read(&spec, 1, NULL, &s, NULL), CAG_E_MISSING);
}

static void refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        cag_status st;
        int64_t offset;
        const char *says;
    } c[] = {
        { "caf\xe9", 4, CAG_E_FORMAT, 3, "ISO-8859-1" },
        { "a\xe7\x9f", 3, CAG_E_FORMAT, 1, "ends inside a character" },
        { "\xc3\xa9t\xc3", 4, CAG_E_FORMAT, 3, "ends inside a character" },
        { "\xc3\xa9t\xe9\n", 5, CAG_E_FORMAT, 3, "ISO-8859-1" },
        { "ab\0c", 4, CAG_E_FORMAT, 2, "binary" },
        { "\xff\xfe"
          "a\0",
          4, CAG_E_FORMAT, 0, "UTF-16" },
        { "", 0, CAG_E_FORMAT, -1, "empty" },
        { "\xef\xbb\xbf", 3, CAG_E_FORMAT, -1, "empty" },
    };
    struct source_set s;
    cag_error err;

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        put("bad", c[i].bytes, c[i].n);
        assert_int_equal(read_one(in_dir("bad"), false, &s, &err), c[i].st);
        assert_int_equal(err.offset, c[i].offset);
        assert_non_null(strstr(err.msg, c[i].says));
    }
    assert_int_equal(read_one(in_dir("nothing"), false, &s, &err),
                     CAG_E_MISSING);
    mkdir(in_dir("void"), 0755);
    assert_int_equal(read_one(in_dir("void"), false, &s, &err), CAG_E_MISSING);
}

static void cleaned(void **state)
{
    struct source_set s;
    cag_error err;

    (void)state;
    puts_("f", "\xef\xbb\xbf---\ntitle: x\n---\nbody\r\n");
    assert_int_equal(read_one(in_dir("f"), false, &s, &err), CAG_OK);
    assert_string_equal(s.v[0].text, "---\ntitle: x\n---\nbody\r\n");
    source_release(&s);
    assert_int_equal(read_one(in_dir("f"), true, &s, &err), CAG_OK);
    assert_string_equal(s.v[0].text, "body\r\n");
    source_release(&s);
    puts_("f", "--- not front matter\n---\nx");
    assert_int_equal(read_one(in_dir("f"), true, &s, &err), CAG_OK);
    assert_string_equal(s.v[0].text, "--- not front matter\n---\nx");
    source_release(&s);
}

/* The patterns of gitignore(5); git itself was asked for these. */
static void paths_match(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } c[] = {
        { "a/**/*.md", "a/x.md", true },
        { "a/**/*.md", "a/b/c/x.md", true },
        { "a/**/*.md", "b/x.md", false },
        { "a/**/*.md", "a/b/x.txt", false },
        { "**/x.md", "x.md", true },
        { "**/x.md", "a/b/x.md", true },
        { "**/b/**/x.md", "a/b/x.md", true },
        { "**/b/**/x.md", "b/b/a/x.md", true },
        { "**/b/**/x.md", "a/c/x.md", false },
        { "a/**", "a/b/c", true },
        { "a/**", "a/b", true },
        { "a/**", "a", false },
        { "**", "a/b", true },
        { "*", "a/b", false },
        { "*.md", "x.md", true },
        { "?.md", "xy.md", false },
        { "[a-c].md", "b.md", true },
        { "a/*/c", "a/b/c", true },
        { "a/*/c", "a/b/b/c", false },
        { "/a/**/c", "/a/c", true },
        { "**/*.md", ".h/x.md", false },
        { "**/*.md", "a/.x.md", false },
        { ".*/x", ".h/x", true },
        { "a//b", "a/b", true },
        { "", "a", false },
        { "a", "", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        if (source_match_path(c[i].pattern, c[i].path) != c[i].matches)
            fail_msg("'%s' and '%s'", c[i].pattern, c[i].path);
}

static void selected(void **state)
{
    static const char *const exclude[] = { "draft*", "/old/", "a/*.txt",
                                           "keep/", NULL };
    static const char *const include[] = { "*.adoc", "notes/**", NULL };
    struct source_opts o = { .exclude = exclude };

    (void)state;
    assert_true(source_selects(&o, "x.md") && source_selects(&o, "X.Markdown"));
    assert_true(source_selects(&o, "y/X.RST") && source_selects(&o, "b.TXT"));
    assert_false(source_selects(&o, "README") || source_selects(&o, "x.mdx"));
    assert_false(source_selects(&o, "b/draft1.md"));
    assert_false(source_selects(&o, "a/b.txt"));
    assert_true(source_selects(&o, "b/a/b.txt"));
    assert_true(source_selects(&o, "keep.md"));
    assert_true(source_match_any(exclude, "old", true));
    assert_false(source_match_any(exclude, "old", false));
    assert_false(source_match_any(exclude, "x/old", true));
    assert_true(source_match_any(exclude, "x/keep", true));
    o = (struct source_opts){ .include = include };
    assert_true(source_selects(&o, "a/x.adoc"));
    assert_true(source_selects(&o, "notes/a/b"));
    assert_false(source_selects(&o, "x.md"));
}

/* A text that cannot be seen is an error, in a directory and in a pattern. */
static void unseen(void **state)
{
    cag_source_spec spec = { .path = NULL };
    struct source_set s;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    mkdir(in_dir("u"), 0755);
    puts_("u/a.md", "a");
    assert_int_equal(symlink("gone.txt", in_dir("u/b.txt")), 0);
    assert_int_equal(symlink("gone", in_dir("u/c")), 0);
    spec.path = in_dir("u");
    assert_int_equal(source_read(&spec, 1, NULL, &s, &err), CAG_E_MISSING);
    assert_non_null(strstr(err.file, "u/b.txt"));
    assert_non_null(strstr(err.msg, "a link to gone.txt"));
    spec.path = in_dir("u/*.txt");
    spec.is_glob = true;
    assert_int_equal(source_read(&spec, 1, NULL, &s, &err), CAG_E_MISSING);
    spec.path = in_dir("*/c/*.md"); /* u/c may have been a directory */
    assert_int_equal(source_read(&spec, 1, NULL, &s, &err), CAG_E_MISSING);
    assert_non_null(strstr(err.msg, "leads nowhere"));
    unlink(in_dir("u/b.txt"));
    spec.path = in_dir("u");
    spec.is_glob = false;
    assert_int_equal(source_read(&spec, 1, NULL, &s, &err), CAG_OK);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.n_skip[SKIP_NAME], 1);
    source_release(&s);
}

static int n_of(const char *pattern)
{
    cag_source_spec spec = { .path = in_dir(pattern), .is_glob = true };
    struct source_set s = { .v = NULL };
    cag_status st = source_expand(&spec, 1, NULL, &s, NULL);
    int n = st ? -1 : s.n;

    source_release(&s);
    return n;
}

static void patterns(void **state)
{
    (void)state;
    assert_int_equal(n_of("d/**/*.md"), 2);
    assert_int_equal(n_of("d/**"), 4); /* any name, nothing hidden */
    assert_int_equal(n_of("d/**/sub/**"), 1);
    assert_int_equal(n_of("**/c.md"), 1);
    assert_int_equal(n_of("d/*/c.md"), 1);
    assert_int_equal(n_of("d/sub/loop/b.md"), 1);
    assert_int_equal(n_of("d/*/*/b.md"), 1); /* a link is followed by '*' */
    assert_int_equal(n_of("d/[ab].*"), 2);
    assert_int_equal(n_of("d/.*.md"), 1);
    assert_int_equal(n_of("d/**/none"), -1);
}

static void bounded(void **state)
{
    cag_source_spec spec = { .path = in_dir("d/*/*"), .is_glob = true };
    struct source_opts o = { .max_entries = 2 };
    struct source_set s = { .v = NULL };
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(source_expand(&spec, 1, &o, &s, &err), CAG_E_LIMIT);
    spec.path = in_dir("d/**/none");
    assert_int_equal(source_expand(&spec, 1, &o, &s, &err), CAG_E_LIMIT);
    /* and it is the bound that refuses */
    o.max_entries = 2000;
    assert_int_not_equal(source_expand(&spec, 1, &o, &s, &err), CAG_E_LIMIT);
    source_release(&s);
}

/* Reading ends where no model could take the rest. */
static void much_too_much(void **state)
{
    cag_source_spec spec = { .path = in_dir("d") };
    struct source_opts o = { .max_total = 4 };
    struct source_set s = { .v = NULL };
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(source_read(&spec, 1, &o, &s, &err), CAG_E_LIMIT);
    assert_non_null(strstr(err.msg, "more than 4 bytes of text"));
    assert_null(s.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directory),     cmocka_unit_test(names_and_order),
        cmocka_unit_test(globs),         cmocka_unit_test(refused),
        cmocka_unit_test(cleaned),       cmocka_unit_test(paths_match),
        cmocka_unit_test(selected),      cmocka_unit_test(unseen),
        cmocka_unit_test(patterns),      cmocka_unit_test(bounded),
        cmocka_unit_test(much_too_much),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
