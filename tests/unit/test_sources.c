/*
 * Sources: order, names, what is read and what is refused, filters.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/source_filter.h"
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
    return source_read(&spec, 1, drop, NULL, NULL, s, err);
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
    assert_int_equal(source_read(spec, 2, false, NULL, NULL, &s, NULL), CAG_OK);
    assert_string_equal(s.v[0].name, "sub/c.md");
    assert_string_equal(s.v[1].name, "a.txt");
    source_release(&s);
    spec[0].title = "The sea";
    assert_int_equal(source_read(spec, 1, false, NULL, NULL, &s, NULL), CAG_OK);
    assert_string_equal(s.v[0].name, "The sea");
    source_release(&s);
}

static void globs(void **state)
{
    cag_source_spec spec = { .path = in_dir("d/*.md"), .is_glob = true };
    struct source_set s;

    (void)state;
    assert_int_equal(source_read(&spec, 1, false, NULL, NULL, &s, NULL),
                     CAG_OK);
    assert_int_equal(s.n, 1);
    source_release(&s);
    spec.path = in_dir("d/*.none");
    assert_int_equal(source_read(&spec, 1, false, NULL, NULL, &s, NULL),
                     CAG_E_MISSING);
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

static const cag_hooks *filter_hooks;

/* A user who wants to stop at the third question whether to go on. */
static bool stop_soon(void *ctx, const cag_progress *p)
{
    assert_string_equal(p->what, "filter");
    assert_int_equal(p->unit, CAG_UNIT_BYTES);
    return ++*(int *)ctx < 3;
}

static cag_status filter(const char *const *argv, double timeout, uint64_t cap,
                         const char *in, struct buf *out, cag_error *err)
{
    cag_source_spec spec = { .path = "in.pdf",
                             .filter = argv,
                             .filter_timeout_s = timeout,
                             .filter_max_bytes = cap };

    *err = (cag_error)CAG_ERROR_INIT;
    return filter_run(&spec, "/x/in.pdf", in, strlen(in), out, filter_hooks,
                      err);
}

static void filters(void **state)
{
    static const char *const upper[] = { "tr", "a-z", "A-Z", NULL };
    static const char *const name[] = { "echo", "<{}>", NULL };
    static const char *const none[] = { "cag-no-such-command", NULL };
    static const char *const bad[] = { "sh", "-c", "echo why >&2; exit 3",
                                       NULL };
    static const char *const slow[] = { "sleep", "30", NULL };
    static const char *const big[] = { "yes", NULL };
    /* gone from its output, but still there */
    static const char *const stays[] = { "sh", "-c", "exec >&- 2>&-; sleep 30",
                                         NULL };
    struct buf b = BUF_INIT;
    int asked = 0;
    const cag_hooks hooks = { .progress = stop_soon, .ctx = &asked };
    cag_error err;
    char *many = malloc(1 << 20);

    (void)state;
    assert_int_equal(filter(upper, 0, 0, "shout", &b, &err), CAG_OK);
    assert_string_equal(b.data, "SHOUT");
    buf_clear(&b);
    assert_int_equal(filter(name, 0, 0, "", &b, &err), CAG_OK);
    assert_string_equal(b.data, "</x/in.pdf>\n");
    buf_clear(&b);
    assert_int_equal(filter(none, 0, 0, "", &b, &err), CAG_E_MISSING);
    assert_int_equal(filter(bad, 0, 0, "", &b, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "status 3: why"));
    assert_int_equal(filter(slow, 0.2, 0, "", &b, &err), CAG_E_LIMIT);
    assert_int_equal(filter(stays, 0.2, 0, "", &b, &err), CAG_E_LIMIT);
    filter_hooks = &hooks;
    assert_int_equal(filter(slow, 0, 0, "", &b, &err), CAG_E_CANCELLED);
    asked = 0;
    assert_int_equal(filter(stays, 0, 0, "", &b, &err), CAG_E_CANCELLED);
    filter_hooks = NULL;
    buf_clear(&b);
    assert_int_equal(filter(big, 0, 100000, "", &b, &err), CAG_E_LIMIT);
    buf_clear(&b);
    /* more than a pipe holds, both ways at once */
    memset(many, 'x', (1 << 20) - 1);
    many[(1 << 20) - 1] = 0;
    assert_int_equal(filter(upper, 0, 0, many, &b, &err), CAG_OK);
    assert_int_equal(b.size, (1 << 20) - 1);
    buf_clear(&b);
    /* a command that ignores its input does not end us by SIGPIPE */
    assert_int_equal(filter(name, 0, 0, many, &b, &err), CAG_OK);
    free(many);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directory), cmocka_unit_test(names_and_order),
        cmocka_unit_test(globs),     cmocka_unit_test(refused),
        cmocka_unit_test(cleaned),   cmocka_unit_test(filters),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
