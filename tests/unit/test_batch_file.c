/*
 * test_batch_file.c - a file of rows is continued, whatever happened to the run
 * before: no whole row of an earlier run is lost on the way.
 */
#include "tests/lib/scratch.h"

#include <errno.h>

#include "batch/batch_file.h"

static void assert_names(const char *want)
{
    char got[200] = "";
    FILE *f = popen("ls -A | tr '\\n' ' '", "r");

    assert_non_null(f);
    assert_true(fgets(got, sizeof got, f) || *want == 0);
    pclose(f);
    assert_string_equal(got, want);
}

/* Open to resume, put rows ("+" answered now, "=" from an earlier run, "!"
 * bad) up to the NUL, and leave it so. */
static cag_status run(bool resume, const char *rows, cag_rows **out)
{
    cag_error err = CAG_ERROR_INIT;
    cag_status st = cag_rows_open("o", resume, NULL, 0, out, &err);

    while (!st && *rows) {
        size_t n = strcspn(rows, "\n");
        cag_row_kind kind = *rows == '+'   ? CAG_ROW_NEW
                            : *rows == '=' ? CAG_ROW_EARLIER
                                           : CAG_ROW_FAILED;

        st = cag_rows_put(*out, rows + 1, n, kind, &err);
        rows += n + 1;
    }
    return st;
}

static cag_rows *run_ok(bool resume, const char *rows)
{
    cag_rows *r = NULL;

    assert_int_equal(run(resume, rows, &r), CAG_OK);
    return r;
}

static cag_status count(void *ctx, const char *line, size_t size, uint64_t at,
                        cag_error *err)
{
    struct buf b = BUF_INIT, *seen = ((void **)ctx)[0];
    const cag_rows *r = ((void **)ctx)[1];

    (void)err;
    buf_add(seen, line, size);
    buf_char(seen, ' ');
    assert_true(rows_read(r, at, size, &b));
    assert_int_equal(b.size, size);
    assert_memory_equal(b.data, line, size);
    buf_free(&b);
    return CAG_OK;
}

static void assert_earlier(const cag_rows *r, const char *want)
{
    struct buf seen = BUF_INIT;
    const void *ctx[] = { &seen, r };

    buf_str(&seen, "");
    assert_int_equal(rows_each(r, count, ctx, NULL), CAG_OK);
    assert_string_equal(seen.size ? seen.data : "", want);
    buf_free(&seen);
}

static void test_new(void **state)
{
    cag_rows *r = run_ok(false, "+a\n+b\n!c\n");

    (void)state;
    assert_string_equal(cag_rows_part(r), "o.part");
    assert_names("o.part ");
    assert_content("o.part", "a\nb\nc\n");
    assert_int_equal(cag_rows_end(r, true, NULL), CAG_OK);
    cag_rows_close(r);
    assert_names("o ");
    assert_content("o", "a\nb\nc\n");
    /* without resume nothing is taken over, and nothing thrown away */
    put("o.part", "x\ny\n");
    assert_int_equal(run(false, "+z\n", &r), CAG_E_CREATE);
    assert_content("o.part", "x\ny\n");
    put("o.part", "");
    r = run_ok(false, "+z\n");
    assert_earlier(r, "");
    assert_content("o.part", "z\n");
    assert_int_equal(cag_rows_end(r, false, NULL), CAG_OK);
    cag_rows_close(r);
    assert_content("o", "a\nb\nc\n");
    assert_content("o.part", "z\n");
}

static void test_stands_and_goes_on(void **state)
{
    cag_rows *r;

    (void)state;
    put("o.part", "a\nb\nto");
    r = run_ok(true, "=a\n");
    assert_earlier(r, "a b ");
    assert_content("o.part", "a\nb\nto");
    cag_rows_close(r);
    assert_content("o.part", "a\nb\nto");
    r = run_ok(true, "=a\n=b\n+torn\n");
    assert_content("o.part", "a\nb\ntorn\n");
    assert_int_equal(cag_rows_end(r, true, NULL), CAG_OK);
    cag_rows_close(r);
    assert_names("o ");
    assert_content("o", "a\nb\ntorn\n");
    /* fewer rows than before; PATH is there too */
    put("o.part", "a\nb\nmore\nto");
    r = run_ok(true, "=a\n=b\n");
    assert_earlier(r, "a b more a b torn ");
    assert_int_equal(cag_rows_end(r, true, NULL), CAG_OK);
    cag_rows_close(r);
    assert_names("o ");
    assert_content("o", "a\nb\n");
}

/* What stood behind a row that differs survives until all is done. */
static void test_a_row_that_differs(void **state)
{
    cag_rows *r, *other;

    (void)state;
    put("o.part", "a\nb\nc\nd\nto");
    assert_int_equal(chmod("o.part", 0640), 0);
    r = run_ok(true, "=a\n+new\n=b\n!bad\n");
    assert_content("o.part", "a\nb\nc\nd\nnew\n");
    cag_rows_close(r); /* as if it was killed */
    assert_names("o.part ");
    r = run_ok(true, "=a\n=new\n=b\n=c\n");
    assert_earlier(r, "a b c d new ");
    assert_content("o.part", "a\nb\nc\nd\nnew\n");
    /* all answered, but not good: in order, d is gone, still locked */
    assert_int_equal(cag_rows_end(r, false, NULL), CAG_OK);
    assert_content("o.part", "a\nnew\nb\nc\n");
    assert_int_equal(cag_rows_open("o", true, NULL, 0, &other, NULL),
                     CAG_E_LOCKED);
    cag_rows_close(r);
    put("o.part", "a\nb\n");
    r = run_ok(true, "+x\n=a\n");
    assert_int_equal(cag_rows_end(r, true, NULL), CAG_OK);
    cag_rows_close(r);
    assert_names("o ");
    assert_content("o", "x\na\n");
}

/* Nothing that fails, at any call, costs a row that was there. */
static void test_every_write_fails(void **state)
{
    static const int sys[] = { ENOSPC, EIO, 0 };

    (void)state;
    for (size_t e = 0; e < sizeof sys / sizeof *sys; e++)
        for (int64_t n = 1;; n++) {
            cag_rows *r = NULL;
            cag_status st;
            struct buf b = BUF_INIT;
            bool hit, renamed;

            put("o.part", "a\nb\nc\nd\nto");
            file_fault(n, sys[e]);
            st = run(true, "=a\n+new\n=c\n=d\n=b\n", &r);
            if (!st)
                st = cag_rows_end(r, true, NULL);
            hit = file_fault_left() == 0;
            file_fault(0, 0);
            cag_rows_close(r);
            assert_int_equal(st != CAG_OK, hit && sys[e] != 0);
            renamed = !file_exists("o.part");
            assert_int_equal(
                file_read(renamed ? "o" : "o.part", 1 << 20, &b, NULL), CAG_OK);
            for (const char *row = "a\0b\0c\0d\0"; *row; row += 2)
                assert_non_null(strstr(b.data, row));
            if (!st)
                assert_string_equal(b.data, "a\nnew\nc\nd\nb\n");
            buf_free(&b);
            assert_int_equal(scratch_clean(NULL), 0);
            if (!hit)
                break;
            assert_true(n < 100);
        }
}

static void test_long_lines(void **state)
{
    char *text = malloc(300001);
    cag_rows *r;
    struct buf seen = BUF_INIT;
    const void *ctx[] = { &seen, NULL };

    (void)state;
    assert_non_null(text);
    memset(text, 'x', 300000);
    text[300000] = 0;
    text[100] = text[65535] = text[65536] = text[200000] = '\n';
    put("o.part", text);
    free(text);
    r = run_ok(true, "");
    ctx[1] = r;
    assert_int_equal(rows_each(r, count, ctx, NULL), CAG_OK);
    /* the last one is torn; each newline is a space here */
    assert_int_equal(seen.size, 200001);
    buf_free(&seen);
    cag_rows_close(r);
}

/* PATH.part is whatever has that name: each is refused and stays as it was,
 * with and without resume. */
static void refuse_part(const char *why)
{
    for (int resume = 0; resume < 2; resume++) {
        cag_error err = CAG_ERROR_INIT;
        cag_rows *r;

        assert_int_equal(cag_rows_open("o", resume, NULL, 0, &r, &err),
                         CAG_E_CREATE);
        assert_non_null(strstr(err.msg, why));
        assert_string_equal(err.file, "o.part");
    }
    assert_int_equal(unlink("o.part"), 0);
}

static void test_a_part_that_is_no_part(void **state)
{
    const cag_rows_keep keep[] = { { NULL, "none" },
                                   { "gone", "nothing" },
                                   { "q.part", "what is read" } };
    cag_error err = CAG_ERROR_INIT;
    cag_rows *r;

    (void)state;
    put("victim", "mine\n");
    assert_int_equal(symlink("victim", "o.part"), 0);
    refuse_part("symbolic link");
    assert_int_equal(symlink("nowhere", "o.part"), 0);
    refuse_part("symbolic link");
    assert_int_equal(link("victim", "o.part"), 0);
    refuse_part("hard link");
    assert_content("victim", "mine\n");
    assert_int_not_equal(access("nowhere", F_OK), 0);
    put("o.part", "no newline, and no row");
    assert_int_equal(cag_rows_open("o", true, NULL, 0, &r, &err), CAG_E_CREATE);
    assert_non_null(strstr(err.msg, "no rows"));
    assert_content("o.part", "no newline, and no row");
    put("o.part", "{\"schema\":1,\"li");
    r = run_ok(true, "+a\n");
    cag_rows_close(r);
    assert_content("o.part", "a\n");
    if (geteuid() == 0) { /* root can make another user's */
        assert_int_equal(chown("o.part", 12345, (gid_t)-1), 0);
        refuse_part("another user");
    } else {
        assert_int_equal(unlink("o.part"), 0);
    }
    put("q.part", "Who?\n");
    for (int resume = 0; resume < 2; resume++) {
        assert_int_equal(cag_rows_open("q", resume, keep, 3, &r, &err),
                         CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "it is what is read"));
        assert_int_equal(cag_rows_open("q.part", resume, keep, 3, &r, &err),
                         CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "the output is what is read"));
    }
    assert_content("q.part", "Who?\n");
    assert_names("q.part victim ");
    assert_int_equal(unlink("q.part") | unlink("victim"), 0);
}

/* An output that was private stays so, and one that was shared. */
static void test_mode_of_the_old_file(void **state)
{
    static const mode_t modes[] = { 0600, 0640, 0664, 0444 };
    struct stat s;

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cag_rows *r;

        put("o", "old\n");
        assert_int_equal(chmod("o", modes[i]), 0);
        r = run_ok(false, "+a\n");
        assert_int_equal(stat("o.part", &s), 0);
        assert_int_equal(s.st_mode & 07777, modes[i]);
        assert_int_equal(cag_rows_end(r, true, NULL), CAG_OK);
        cag_rows_close(r);
        assert_int_equal(stat("o", &s), 0);
        assert_int_equal(s.st_mode & 07777, modes[i]);
        assert_content("o", "a\n");
        assert_int_equal(unlink("o"), 0);
    }
}

static void test_what_is_no_file(void **state)
{
    cag_rows *r;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(mkdir("o", 0700), 0);
    assert_int_equal(cag_rows_open("o", true, NULL, 0, &r, &err), CAG_E_CREATE);
    assert_string_equal(err.msg, "is a directory");
    assert_int_equal(rmdir("o"), 0);
    assert_int_equal(mkfifo("o.part", 0600), 0);
    assert_int_equal(cag_rows_open("o", true, NULL, 0, &r, &err), CAG_E_CREATE);
    assert_string_equal(err.msg, "is not a regular file");
    assert_int_equal(cag_rows_open("none/o", true, NULL, 0, &r, &err),
                     CAG_E_CREATE);
    assert_int_equal(symlink("/dev/null", "null"), 0);
    assert_int_equal(cag_rows_open("null", true, NULL, 0, &r, &err), CAG_OK);
    assert_null(cag_rows_part(r));
    assert_int_equal(cag_rows_put(r, "a\n", 2, CAG_ROW_NEW, &err), CAG_OK);
    assert_int_equal(cag_rows_end(r, true, &err), CAG_OK);
    cag_rows_close(r);
    cag_rows_close(NULL);
}

static void test_symlink(void **state)
{
    cag_rows *r;

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(symlink("d/real", "o"), 0);
    r = run_ok(false, "+a\n");
    assert_string_equal(cag_rows_part(r), "./d/real.part");
    assert_int_equal(cag_rows_end(r, true, NULL), CAG_OK);
    cag_rows_close(r);
    assert_content("d/real", "a\n");
    assert_names("d o ");
}

static void test_faults(void **state)
{
    bool done = false;
    int64_t live = mem_live();

    (void)state;
    FOR_EACH_FAULT(n, done)
    {
        cag_rows *r = NULL;
        cag_status st;

        put("o.part", "a\nb\nc\n");
        mem_fault(n, false);
        st = run(true, "=a\n+x\n=b\n", &r);
        if (!st)
            st = cag_rows_end(r, true, NULL);
        done = !st && n > 50;
        mem_fault(0, false);
        cag_rows_close(r);
        assert_true(!st || st == CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
        assert_int_equal(scratch_clean(NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_new),
        T(test_stands_and_goes_on),
        T(test_a_row_that_differs),
        T(test_every_write_fails),
        T(test_long_lines),
        T(test_what_is_no_file),
        T(test_a_part_that_is_no_part),
        T(test_mode_of_the_old_file),
        T(test_symlink),
        T(test_faults),
    };

    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
