/*
 * test_opt.c - what may be typed, and what is said about the rest.
 */
#include "tests/lib/unit.h"

#include "tests/lib/capture.h"
#include "cmd/cli/opt.h"

static struct {
    bool json;
    const char *model;
    int n_thread, codec;
    int64_t max_memory, big;
    double temperature;
    struct opt_list stop;
} o = { .n_thread = 2 };

static const char *const codecs[] = { "f16z", "f16", "f32", NULL };
static const opt_spec specs[] = {
    OPT_FLAG(0, "json", &o.json, "print one JSON object a line"),
    OPT_STR('m', "model", &o.model, "M", "TEST_MODEL", "path or hub id"),
    OPT_INT('t', "threads", &o.n_thread, 1, 512, "N", "TEST_THREADS",
            "CPU threads"),
    OPT_CHOICE(0, "codec", &o.codec, codecs, NULL, "how K and V are stored"),
    OPT_MORE,
    OPT_DOUBLE(0, "temperature", &o.temperature, 0, 10, "T", NULL, "sampling"),
    OPT_SIZE(0, "max-memory", &o.max_memory, 0, INT64_MAX, "B", NULL, "limit"),
    OPT_I64(0, "big", &o.big, INT64_MIN, INT64_MAX, "N", NULL, "a number"),
    OPT_LIST(0, "stop", &o.stop, "TEXT", "an end"),
    OPT_COMMON,
    OPT_END
};
static const opt_usage usage = { "cag-try",
                                 "[options] FILE...\n--check FILE",
                                 "tries things",
                                 "  cag-try a.kvc\n",
                                 specs,
                                 NULL,
                                 NULL };

static char *args[40];

static int parse(void *ctx)
{
    int argc = 0;

    while (args[argc])
        argc++;
    char **operand = opt_parse(&usage, argc, args, *(int *)ctx);
    if (opt_wants_config()) {
        opt_set_origin(&o.codec, "manifest kb.yaml");
        opt_print_config();
        return ui_close_stdout(0);
    }
    for (; *operand; operand++)
        printf("[%s]", *operand);
    printf(" %d %s %d %s %lld %lld %g q%d v%d", o.json, o.model ? o.model : "-",
           o.n_thread, codecs[o.codec], (long long)o.max_memory,
           (long long)o.big, o.temperature, ui.quiet, ui.verbose);
    for (int i = 0; i < o.stop.n; i++)
        printf(" <%s>", o.stop.item[i]);
    return ui_close_stdout(0);
}

/* Words are cut at spaces. */
static void run(struct captured *c, const char *line)
{
    static char text[1024];
    int n = 0, min = 1;

    snprintf(text, sizeof text, "cag-try %s", line);
    for (char *p = text; p && *p;) {
        args[n++] = p;
        p = strchr(p, ' ');
        if (p)
            *p++ = 0;
    }
    args[n] = NULL;
    capture(c, parse, &min);
}

static void accepts(const char *line, const char *want)
{
    struct captured c;

    run(&c, line);
    assert_string_equal(c.err, "");
    assert_string_equal(c.out, want);
    assert_int_equal(c.status, 0);
}

static void refuses(const char *line, const char *want)
{
    struct captured c;
    char all[1024];

    run(&c, line);
    snprintf(all, sizeof all, "cag-try: %s\nTry 'cag-try --help'\n", want);
    assert_string_equal(c.err, all);
    assert_string_equal(c.out, "");
    assert_int_equal(c.status, 64);
}

static void options_stand_anywhere(void **state)
{
    (void)state;
    accepts("a", "[a] 0 - 2 f16z 0 0 0 q0 v0");
    accepts("a --json b", "[a][b] 1 - 2 f16z 0 0 0 q0 v0");
    accepts("--json -m M a -t 3 b", "[a][b] 1 M 3 f16z 0 0 0 q0 v0");
    accepts("a -- --json -x", "[a][--json][-x] 0 - 2 f16z 0 0 0 q0 v0");
    accepts("-", "[-] 0 - 2 f16z 0 0 0 q0 v0");
    accepts("- -- --", "[-][--] 0 - 2 f16z 0 0 0 q0 v0");
    accepts("-qvvt4 a", "[a] 0 - 4 f16z 0 0 0 q1 v2");
    accepts("--model=x=y a", "[a] 0 x=y 2 f16z 0 0 0 q0 v0");
    accepts("--model= a", "[a] 0  2 f16z 0 0 0 q0 v0");
    accepts("--model - a", "[a] 0 - 2 f16z 0 0 0 q0 v0");
    accepts("--model -name a", "[a] 0 -name 2 f16z 0 0 0 q0 v0");
    accepts("-t 3 -t 5 a", "[a] 0 - 5 f16z 0 0 0 q0 v0");
}

static void values(void **state)
{
    (void)state;
    accepts("a --codec f32 --temperature 0.5 --big -9223372036854775808",
            "[a] 0 - 2 f32 0 -9223372036854775808 0.5 q0 v0");
    accepts("a --max-memory 800M --stop x --stop=--json",
            "[a] 0 - 2 f16z 838860800 0 0 q0 v0 <x> <--json>");
    refuses("a -t 0", "option '-t': 0 is out of range, expected 1..512");
    refuses("a --threads 513",
            "option '--threads': 513 is out of range, expected 1..512");
    refuses("a -t 99999999999999999999", "option '-t': 99999999999999999999 is "
                                         "out of range, expected 1..512");
    refuses("a -t 4x", "option '-t': '4x' is not a whole number");
    refuses("a -t 0x4", "option '-t': '0x4' is not a whole number");
    refuses("a --threads=", "option '--threads': '' is not a whole number");
    refuses("a --temperature nan", "option '--temperature': 'nan' is not a "
                                   "number");
    refuses("a --temperature 0x1", "option '--temperature': '0x1' is not a "
                                   "number");
    refuses("a --temperature 11",
            "option '--temperature': 11 is out of range, expected 0..10");
    refuses("a --temperature 1e999",
            "option '--temperature': 1e999 is out of range, expected 0..10");
    refuses("a --max-memory 8X",
            "option '--max-memory': '8X' is not a size (examples: 800M, 1.5G)");
    refuses("a --codec f16x", "option '--codec': unknown value 'f16x'; did you "
                              "mean 'f16z'? (one of: f16z, f16, f32)");
    refuses("a --codec zip", "option '--codec': unknown value 'zip', expected "
                             "one of: f16z, f16, f32");
}

static void wrong_words(void **state)
{
    (void)state;
    refuses("", "no file or argument given, as in: cag-try a.kvc");
    refuses("a --jsno", "unknown option '--jsno'; did you mean '--json'?");
    refuses("a --maxmemory=5",
            "unknown option '--maxmemory'; did you mean '--max-memory'?");
    refuses("a --entirely-different", "unknown option '--entirely-different'");
    refuses("a -z", "unknown option '-z'");
    refuses("a -qz", "unknown option '-z'");
    refuses("a --js", "option '--js' is abbreviated; write '--json'");
    refuses("a --mod=x", "option '--mod' is abbreviated; write '--model'");
    refuses("a --verb", "option '--verb' is abbreviated; write '--verbose'");
    refuses("a --ver", "unknown option '--ver'"); /* verbose, version */
    refuses("a --json=1", "option '--json' takes no value");
    refuses("a --model", "option '--model' needs a value");
    refuses("a -m", "option '-m' needs a value");
    refuses("a -m --json", "option '-m' needs a value, found '--json'");
    refuses("a --model -t", "option '--model' needs a value, found '-t'");
    refuses("a --bad\nline", "unknown option '--bad\\nline'");
}

static void environment(void **state)
{
    (void)state;
    setenv("TEST_MODEL", "envmodel", 1);
    setenv("TEST_THREADS", "7", 1);
    accepts("a", "[a] 0 envmodel 7 f16z 0 0 0 q0 v0");
    accepts("a -t 3", "[a] 0 envmodel 3 f16z 0 0 0 q0 v0");
    setenv("TEST_THREADS", "none", 1);
    accepts("a -t 3", "[a] 0 envmodel 3 f16z 0 0 0 q0 v0");
    refuses("a", "environment TEST_THREADS: 'none' is not a whole number");
    setenv("TEST_THREADS", "", 1);
    accepts("a", "[a] 0 envmodel 2 f16z 0 0 0 q0 v0");
    unsetenv("TEST_MODEL");
    unsetenv("TEST_THREADS");
    setenv("POSIXLY_CORRECT", "1", 1);
    accepts("a --json", "[a] 1 - 2 f16z 0 0 0 q0 v0");
    unsetenv("POSIXLY_CORRECT");
}

static void print_config_shows_origins(void **state)
{
    struct captured c;

    (void)state;
    setenv("TEST_MODEL", "envmodel", 1);
    run(&c, "--print-config -t 4 --stop x --stop y");
    unsetenv("TEST_MODEL");
    assert_int_equal(c.status, 0);
    assert_string_equal(c.out, "json = no  (default)\n"
                               "model = envmodel  (environment TEST_MODEL)\n"
                               "threads = 4  (option -t)\n"
                               "codec = f16z  (manifest kb.yaml)\n"
                               "temperature = 0  (default)\n"
                               "max-memory = 0  (default)\n"
                               "big = 0  (default)\n"
                               "stop = x, y  (option --stop)\n"
                               "quiet = no  (default)\n"
                               "verbose = 0  (default)\n"
                               "progress = auto  (default)\n"
                               "color = auto  (default)\n");
}

static void help_and_version_go_to_stdout(void **state)
{
    static const char *const words[] = { "-h", "--help", "a --json -h" };
    struct captured c;

    (void)state;
    for (int i = 0; i < 3; i++) {
        run(&c, words[i]);
        assert_int_equal(c.status, 0);
        assert_string_equal(c.err, "");
        assert_memory_equal(c.out,
                            "usage: cag-try [options] FILE...\n"
                            "       cag-try --check FILE\n",
                            55);
        assert_true(strstr(c.out, "Examples:") < strstr(c.out, "Options:"));
        assert_non_null(strstr(c.out,
                               "  -m, --model M           path or hub id "
                               "[TEST_MODEL]\n"));
        assert_non_null(strstr(c.out, "--codec f16z|f16|f32"));
        assert_non_null(strstr(c.out, "All options: cag-try --help all, or "
                                      "cag-try(1)\n"));
        assert_null(strstr(c.out, "--temperature"));
        size_t column = 0;
        for (char *p = c.out; *p; p++) {
            column = *p == '\n' ? 0 : column + 1;
            assert_true(column <= 79);
        }
    }
    for (int i = 0; i < 2; i++) {
        run(&c, i ? "-h all" : "--help all");
        assert_non_null(strstr(c.out, "    --temperature T     sampling\n"));
        assert_non_null(strstr(c.out, "  -V, --version "));
    }
    run(&c, "-V");
    assert_int_equal(c.status, 0);
    assert_memory_equal(c.out, "cag-try ", 8);
    assert_non_null(strstr(c.out, "\ngit "));
    assert_non_null(strstr(c.out, "\nkernels scalar"));
    assert_non_null(strstr(c.out, " (used here)\n"));
    assert_non_null(strstr(c.out, "\nbackend cpu\n"));
}

static void sizes(void **state)
{
    static const struct {
        const char *s;
        int64_t want;
    } good[] = {
        { "0", 0 },
        { "1023", 1023 },
        { "1K", 1024 },
        { "1k", 1024 },
        { "3MiB", 3 << 20 },
        { "1.5G", 3LL << 29 },
        { "2T", 2LL << 40 },
        { "0.5KiB", 512 },
        { "9223372036854775807", INT64_MAX },
    };
    static const char *const bad[] = {
        "",
        "-1",
        "+1",
        " 1",
        "1 K",
        "1KB",
        "1Ki",
        "K",
        "1.5",
        "0x10",
        "1e3",
        "9223372036854775808",
        "9007199254740992K",
        "99999999999.9T",
        "1..5K",
        "1KiBx",
        "nan",
    };
    int64_t v;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        v = -1;
        assert_true(opt_parse_size(good[i].s, &v));
        assert_true(v == good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (opt_parse_size(bad[i], &v))
            fail_msg("'%s' was taken as %lld", bad[i], (long long)v);
}

static int parse_many(void *ctx)
{
    static char *many[OPT_LIST_MAX + 8], name[] = "cag-try",
                                         stop[] = "--stop=x";
    int n = 0;

    many[n++] = name;
    for (int i = 0; i < *(int *)ctx; i++)
        many[n++] = stop;
    many[n] = NULL;
    opt_parse(&usage, n, many, 0);
    printf("%d", o.stop.n);
    return ui_close_stdout(0);
}

static void a_list_has_an_end(void **state)
{
    struct captured c;
    int n = OPT_LIST_MAX;

    (void)state;
    capture(&c, parse_many, &n);
    assert_string_equal(c.out, "64");
    n++;
    capture(&c, parse_many, &n);
    assert_int_equal(c.status, 64);
    assert_non_null(strstr(c.err, "given more than 64 times"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_anywhere),
        cmocka_unit_test(values),
        cmocka_unit_test(wrong_words),
        cmocka_unit_test(environment),
        cmocka_unit_test(print_config_shows_origins),
        cmocka_unit_test(help_and_version_go_to_stdout),
        cmocka_unit_test(sizes),
        cmocka_unit_test(a_list_has_an_end),
    };
    return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
