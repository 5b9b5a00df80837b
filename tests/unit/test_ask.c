/*
 * test_ask.c - the parts of cag-ask that no tiny model can be made to show:
 * a fenced block in an answer, lines that come in pieces.
 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ask/ask_common.h"
#include "cmd/ask/ask_lines.h"

static void test_fenced(void **state)
{
    static const struct {
        const char *text, *block;
    } cases[] = {
        { "```\nx\n```", "x" },
        { "Here:\n```sh\nls -l\ncd\n```\nand\n```\ny\n```", "ls -l\ncd" },
        { "```c\n```", "" },
        { "```c\nopen to the end\n", "open to the end\n" },
        { "```c\na ``` b\n```", "a ``` b" },
        { "use ``` inline\n```\nz\n```", "z" },
    };
    static const char *const none[] = { "", "plain", "a ```b``` c", "```",
                                        "x\n```" };
    const char *block;
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(ask_fenced(cases[i].text, &block, &n));
        assert_int_equal(n, strlen(cases[i].block));
        assert_memory_equal(block, cases[i].block, n);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(ask_fenced(none[i], &block, &n));
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void expect_line(struct ask_lines *l, const char *want)
{
    cag_error err = CAG_ERROR_INIT;
    size_t n;
    const char *line;

    assert_true(ask_lines_ready(l));
    line = ask_lines_next(l, &n, &err);
    if (!want) {
        assert_null(line);
        return;
    }
    assert_non_null(line);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(line, want, n);
}

static void test_lines_in_pieces(void **state)
{
    int p[2];
    struct ask_lines l = { .name = "pipe" };

    (void)state;
    assert_int_equal(pipe(p), 0);
    l.fd = p[0];
    assert_false(ask_lines_ready(&l));
    put(p[1], "on");
    assert_false(ask_lines_ready(&l));
    put(p[1], "e\ntwo\n\nthr");
    expect_line(&l, "one");
    expect_line(&l, "two");
    expect_line(&l, "");
    assert_false(ask_lines_ready(&l));
    put(p[1], "ee\n");
    expect_line(&l, "three");
    put(p[1], "last");
    assert_false(ask_lines_ready(&l));
    close(p[1]);
    expect_line(&l, "last");
    expect_line(&l, NULL);
    expect_line(&l, NULL);
    ask_lines_close(&l);
}

static void test_long_lines(void **state)
{
    static char big[3 << 20];
    char dir[] = "/tmp/cag-ask-XXXXXX", path[64];
    struct ask_lines l;
    cag_error err = CAG_ERROR_INIT;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/lines", dir);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    memset(big, 'x', sizeof big - 1);
    put(fd, "a\n");
    put(fd, big);
    put(fd, "\nb");
    close(fd);
    assert_int_equal(ask_lines_open(&l, path, &err), CAG_OK);
    unlink(path);
    rmdir(dir);
    expect_line(&l, "a");
    expect_line(&l, big);
    expect_line(&l, "b");
    expect_line(&l, NULL);
    ask_lines_close(&l);
    assert_int_equal(ask_lines_open(&l, path, &err), CAG_E_MISSING);
    assert_string_equal(err.file, path);
    assert_int_equal(ask_lines_open(&l, "/", &err), CAG_E_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fenced),
        cmocka_unit_test(test_lines_in_pieces),
        cmocka_unit_test(test_long_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
