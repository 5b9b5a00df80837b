/*
 * scratch.h - a directory to work in: the tests of files enter one, may empty
 * it after each test, and leave nothing behind.
 *
 *   const struct CMUnitTest tests[] = { T(name), ... };
 *   return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
 */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "tests/lib/unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/file.h"
#include "util/mem.h"

static char scratch_dir[] = "/tmp/cag-test-XXXXXX";
static char scratch_start[PATH_MAX]; /* where the test was started */

static inline int scratch_enter(void **state)
{
    (void)state;
    umask(022);
    return getcwd(scratch_start, sizeof scratch_start) &&
                   mkdtemp(scratch_dir) && chdir(scratch_dir) == 0
               ? 0
               : -1;
}

static inline int scratch_leave(void **state)
{
    char cmd[100];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", scratch_dir);
    return chdir(scratch_start) == 0 ? system(cmd) : -1;
}

static inline int scratch_clean(void **state)
{
    char here[PATH_MAX];

    (void)state;
    file_fault(0, 0);
    mem_fault(0, false);
    /* only there: a test file without scratch_enter runs where it was started
     */
    return getcwd(here, sizeof here) && !strcmp(here, scratch_dir)
               ? system("rm -rf ./* ./.[!.]*")
               : -1;
}

#define T(name) cmocka_unit_test_teardown(name, scratch_clean)

static inline void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static inline void assert_content(const char *path, const char *want)
{
    struct buf b = BUF_INIT;

    assert_int_equal(file_read(path, SIZE_MAX, &b, NULL), CAG_OK);
    assert_int_equal(b.size, strlen(want));
    assert_string_equal(b.data ? b.data : "", want);
    buf_free(&b);
}

#endif
