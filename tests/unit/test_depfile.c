/*
 * What depfile_write writes, GNU make and ninja read back: the real ones are
 * asked, for difficult names and for every printable character at the begin,
 * inside and at the end of a name.
 */
#include "tests/lib/unit.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "binding/depfile.h"

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

static char dir[] = "/tmp/cag-depchar-XXXXXX";

static int enter(void **state)
{
    (void)state;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    char cmd[64];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return chdir("/") == 0 ? system(cmd) : -1;
}

static int rc_of(const char *cmd)
{
    int rc = system(cmd);

    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void set_time(const char *name, long t)
{
    struct timespec ts[2] = { { t, 0 }, { t, 0 } };

    assert_int_equal(utimensat(AT_FDCWD, name, ts, 0), 0);
}

static void create(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A name with character c at place where (begin, inside, end), which no
 * other name with a wildcard in that place can stand for. */
static void make_name(char *out, size_t size, int c, int where)
{
    if (where == 0)
        snprintf(out, size, "%cb%02x", c, c);
    else if (where == 1)
        snprintf(out, size, "%02x%cb", c, c);
    else
        snprintf(out, size, "e%02x%c", c, c);
}

/* The three promises for one name; what says which was broken. */
static const char *broken(const char *name, const char *ask, const char *ninja)
{
    const char *dep[2] = { "plain.md", name };
    cag_error err = CAG_ERROR_INIT;
    int stale = ninja ? 0 : 1;
    const char *what = NULL;

    create(name, "");
    set_time(name, 1000);
    set_time("plain.md", 1000);
    unlink("kb.d");
    assert_int_equal(depfile_write("kb.d", "out", dep, 2, NULL, &err), CAG_OK);
    set_time("out", 2000);
    if (!ninja && rc_of(ask) != 0)
        what = "fresh, and made again";
    set_time(name, 3000);
    if (rc_of(ask) != stale ||
        (ninja && rc_of("ninja -n | grep -q 'no work'") == 0))
        what = "touched, and not made again";
    set_time("out", 4000);
    unlink(name);
    if (rc_of(ask) > 1)
        what = "deleted, and an error";
    return what;
}

/* Ninja cannot spell some names: it then looks at every run, which is not
 * wrong; the others it finds fresh. */
static bool ninja_spells(int c, int where)
{
    return !strchr("\"'&*<>?^`%=|;\t\n", c) &&
           !(where == 2 && strchr(" :\\", c));
}

static void every_character(void **state)
{
    bool ninja = rc_of("ninja --version >ninja.version 2>&1") == 0;
    char name[16];
    int n_bad = 0;

    (void)state;
    create("plain.md", "");
    create("out", "");
    create("Makefile", "all: out\nout:\n\t@false\n-include kb.d\n");
    create("build.ninja", "rule r\n  command = true\n  depfile = kb.d\n"
                          "build out: r\n");
    for (int c = '\t'; c < 127; c++) {
        if ((c > '\n' && c < ' ') || c == '/' || isalnum(c))
            continue;
        for (int where = 0; where < 3; where++) {
            const char *what;

            make_name(name, sizeof name, c, where);
            what = broken(name, "make -q all >make.out 2>&1", NULL);
            if (!what && ninja && ninja_spells(c, where) && c > ' ')
                what = broken(name, "ninja -n >ninja.out 2>&1", "yes");
            if (what)
                print_message("'%s': %s\n", name, what);
            n_bad += what != NULL;
        }
    }
    assert_int_equal(n_bad, 0);
}

static void mode_is_the_umask(void **state)
{
    const char *dep[1] = { "plain.md" };
    mode_t old = umask(027);
    cag_error err = CAG_ERROR_INIT;
    struct stat sb;

    (void)state;
    assert_int_equal(depfile_write("m.d", "out", dep, 1, NULL, &err), CAG_OK);
    umask(old);
    assert_int_equal(stat("m.d", &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0640);
}

/* What it wrote for any names it may replace; no other text. */
static void only_its_own_is_replaced(void **state)
{
    static const char *const targets[] = { "kb.kvc",  "a b:c#$~*[x]%|.kvc",
                                           "~x",      "new\nline.kvc",
                                           "\\end\\", "tab\t;=" };
    static const char *const texts[] = {
        "Shopping list:\n\neggs\n",
        "kb.kvc: \\\n a.md\nand more\n",
        "x",
        "# kb.kvc:\n",
        "kb.kvc:\n\nnote: this\n",
        "kb.kvc:\n\tcag-build\n",
        ":\n",
        "\n",
        "CFLAGS := -O2\n",
        "kb.kvc: a.md\n",
    };
    char at[] = "/tmp/cag-depfile-XXXXXX";
    cag_error err = CAG_ERROR_INIT;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(at));
    assert_int_equal(chdir(at), 0);
    assert_int_equal(depfile_check_replace("kb.d", "kb.kvc", &err), CAG_OK);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        for (int n = 0; n <= N; n++) {
            assert_int_equal(
                depfile_write("kb.d", targets[i], names, n, NULL, &err),
                CAG_OK);
            assert_int_equal(depfile_check_replace("kb.d", targets[i], &err),
                             CAG_OK);
            if (!strpbrk(targets[i], "\n\t;="))
                assert_int_equal(depfile_check_replace("kb.d", "y", &err),
                                 CAG_OK);
        }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        f = fopen("kb.d", "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        assert_int_equal(depfile_check_replace("kb.d", "kb.kvc", &err),
                         CAG_E_CREATE);
        assert_non_null(strstr(err.msg, "no list of dependencies"));
    }
    assert_int_equal(truncate("kb.d", 0), 0);
    assert_int_equal(depfile_check_replace("kb.d", "kb.kvc", &err), CAG_OK);
    assert_int_equal(unlink("kb.d"), 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(at), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(make_reads_it),
        cmocka_unit_test(only_its_own_is_replaced),
        cmocka_unit_test_setup_teardown(every_character, enter, NULL),
        cmocka_unit_test_setup_teardown(mode_is_the_umask, NULL, leave)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
