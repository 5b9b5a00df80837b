/*
 * What depfile_write writes, GNU make reads back: real make is asked for the
 * prerequisites of a rule made of difficult names.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build/depfile.h"

static const char *const names[] = {
    "plain.md",    "two words.md", "hash#1", "dollar$x",
    "colon:y",     "bar|z",        "star*",  "tilde~",
    "back\\slash", "back\\ space", "eq=1",   "a&b",
};
enum { N = sizeof names / sizeof *names };

static void make_reads_it(void **state)
{
    char dir[] = "/tmp/cag-depfile-XXXXXX", cmd[256], got[N][64];
    cag_error err = CAG_ERROR_INIT;
    FILE *f;
    int n = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    for (int i = 0; i < N; i++) {
        f = fopen(names[i], "w");
        assert_non_null(f);
        fclose(f);
    }
    assert_int_equal(depfile_write("kb.d", "kb out.kvc", names, N, NULL, &err),
                     CAG_OK);
    f = fopen("Makefile", "w");
    assert_non_null(f);
    fputs("all: kb\\ out.kvc\n"
          "kb\\ out.kvc:\n\t@touch '$@'\ninclude kb.d\n",
          f);
    fclose(f);
    assert_int_equal(system("make -s all"), 0);
    /* touching any one of them makes the target out of date */
    for (int i = 0; i < N; i++) {
        assert_int_equal(
            system("touch -d '2 hours ago' -- * && "
                   "touch -d '1 hour ago' 'kb out.kvc' && make -q all"),
            0);
        snprintf(cmd, sizeof cmd, "touch -- '%s'", names[i]);
        assert_int_equal(system(cmd), 0);
        if (system("make -q all") == 0)
            snprintf(got[n++], sizeof got[0], "%s", names[i]);
    }
    for (int i = 0; i < n; i++)
        print_message("not a prerequisite: %s\n", got[i]);
    assert_int_equal(n, 0);
    /* a deleted source is no error */
    assert_int_equal(unlink(names[1]), 0);
    assert_int_equal(system("make -s all"), 0);
    assert_int_equal(chdir("/"), 0);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    assert_int_equal(system(cmd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(make_reads_it) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
