/*
 * test_ui.c - what is printed, where, and with which exit status.
 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/lib/capture.h"
#include "cmd/cli/ui.h"
#include "cmd/cli/ui_wrap.h"

static struct captured c;

static int fail_with_place(void *ctx)
{
    const char *how = ctx;
    cag_error e = {
        .status = CAG_E_FORMAT, .offset = -1, .msg = "broken", .file = "kb.yaml"
    };

    ui_start("cag-ask");
    if (strcmp(how, "line") == 0) {
        e.line = 3;
        e.column = 9;
    } else if (strcmp(how, "byte") == 0) {
        e.offset = 24;
    } else if (strcmp(how, "none") == 0) {
        e.file[0] = 0;
    } else if (strcmp(how, "evil") == 0) {
        snprintf(e.file, sizeof e.file, "a\n\x1b[31mb\xff\xC3\xA9");
    }
    return ui_close_stdout(ui_error(&e));
}

static void errors_are_one_line_with_a_place(void **state)
{
    (void)state;
    capture(&c, fail_with_place, (char[]){ "line" });
    assert_string_equal(c.err, "cag-ask: kb.yaml:3:9: broken\n");
    assert_int_equal(c.status, 65);
    capture(&c, fail_with_place, (char[]){ "byte" });
    assert_string_equal(c.err, "cag-ask: kb.yaml: byte 24: broken\n");
    capture(&c, fail_with_place, (char[]){ "file" });
    assert_string_equal(c.err, "cag-ask: kb.yaml: broken\n");
    capture(&c, fail_with_place, (char[]){ "none" });
    assert_string_equal(c.err, "cag-ask: broken\n");
    capture(&c, fail_with_place, (char[]){ "evil" });
    assert_string_equal(c.err,
                        "cag-ask: a\\n\\x1b[31mb\\xff\xC3\xA9: broken\n");
    assert_string_equal(c.out, "");
}

static void the_exit_table(void **state)
{
    static const struct {
        cag_status st;
        int code;
    } table[] = {
        { CAG_OK, 0 },          { CAG_E_USAGE, 64 },
        { CAG_E_NOMEM, 71 },    { CAG_E_IO, 74 },
        { CAG_E_FORMAT, 65 },   { CAG_E_UNSUPPORTED, 69 },
        { CAG_E_CORRUPT, 65 },  { CAG_E_MISMATCH, 65 },
        { CAG_E_LIMIT, 65 },    { CAG_E_BACKEND, 69 },
        { CAG_E_MISSING, 66 },  { CAG_E_CREATE, 73 },
        { CAG_E_LOCKED, 75 },   { CAG_E_STALE, 1 },
        { CAG_E_CHANGED, 1 },   { CAG_E_LOSS, 1 },
        { CAG_E_CONFIG, 78 },   { CAG_E_CANCELLED, 130 },
        { CAG_E_INTERNAL, 70 },
    };

    (void)state;
    assert_int_equal(sizeof table / sizeof table[0], CAG_N_STATUS);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(ui_exit_code(table[i].st), table[i].code);
}

static int talk(void *ctx)
{
    ui_start("cag-ask");
    ui.quiet = ctx != NULL;
    ui.verbose = 1;
    ui_warn("careful %d", 1);
    ui_note("note\x1b[2J");
    ui_verbose(1, "more");
    ui_verbose(2, "most");
    ui_progress(ui_tokens, "prefill", 1, 2);
    printf("product\n");
    return ui_close_stdout(0);
}

static void quiet_silences_talk_and_not_the_product(void **state)
{
    (void)state;
    capture(&c, talk, NULL);
    assert_string_equal(c.err, "cag-ask: warning: careful 1\n"
                               "cag-ask: note\\x1b[2J\ncag-ask: more\n");
    assert_string_equal(c.out, "product\n");
    capture(&c, talk, &c);
    assert_string_equal(c.err, "");
    assert_string_equal(c.out, "product\n");
}

static int coloured(void *ctx)
{
    ui_start("cag-ask");
    ui.color = *(int *)ctx;
    ui_warn("x");
    return ui_close_stdout(0);
}

static void colour_only_where_it_is_wanted(void **state)
{
    int when = UI_ALWAYS;

    (void)state;
    capture(&c, coloured, &when);
    assert_string_equal(c.err, "\033[1;33mcag-ask:\033[0m warning: x\n");
    when = UI_AUTO;
    capture(&c, coloured, &when);
    assert_string_equal(c.err, "cag-ask: warning: x\n");
}

static int progress(void *ctx)
{
    (void)ctx;
    ui_start("cag-build");
    ui.progress = UI_ALWAYS;
    ui_progress(ui_tokens, "prefill", 0, 4000);
    ui_progress(ui_tokens, "prefill", 1, 4000); /* too soon: not drawn */
    ui_progress(ui_tokens, "prefill", 4000, 4000);
    ui_progress(ui_bytes, "write", 3 << 20, 6 << 20);
    ui_progress_end();
    raise(SIGUSR1);
    ui_progress(ui_tokens, "decode", 5, 0);
    raise(SIGUSR1);
    return ui_close_stdout(0);
}

/* A prefill that its checkpoints and remarks interrupt. */
static int interrupted(void *ctx)
{
    struct timespec pause = { 1, 100000000 };

    (void)ctx;
    ui_start("cag-build");
    ui.progress = UI_NEVER;
    ui_progress(ui_tokens, "prefill", 0, 4000);
    nanosleep(&pause, NULL);
    ui_progress(ui_bytes, "write", 1, 0);
    ui_note("saved");
    ui_progress(ui_tokens, "prefill", 2000, 4000);
    raise(SIGUSR1);
    ui.progress = UI_ALWAYS;
    ui_progress(ui_bytes, "write", 0, 0);
    ui_progress(ui_tokens, "prefill", 2200, 4000);
    ui_progress(ui_rows, "rows", 17, 40);
    raise(SIGUSR1);
    return ui_close_stdout(0);
}

static void progress_keeps_its_time(void **state)
{
    const char *line;
    int rate = 0, left = 0;

    (void)state;
    capture(&c, interrupted, NULL);
    assert_non_null(strstr(c.err, "cag-build: prefill 2000/4000 tokens, 1 s "
                                  "so far\n"));
    line = strstr(c.err, "2200/4000 tokens");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line, "2200/4000 tokens %d/s %d s left\n", &rate, &left), 2);
    assert_true(rate > 500 && rate <= 2000);
    assert_true(left >= 1 && left <= 4);
    assert_non_null(strstr(c.err, "cag-build: 17/40 rows\n"));
    assert_non_null(strstr(c.err, "cag-build: 17/40 rows, 0 s so far\n"));
}

static void progress_lines(void **state)
{
    (void)state;
    capture(&c, progress, NULL);
    assert_string_equal(c.err, "cag-build: prefill   0%  0/4000 tokens\n"
                               "cag-build: prefill 100%  4000/4000 tokens\n"
                               "cag-build: write  50%  3.0 MiB/6.0 MiB\n"
                               "cag-build: running\n"
                               "cag-build: decode 5 tokens\n"
                               "cag-build: decode 5 tokens, 0 s so far\n");
    assert_int_equal(c.status, 0);
}

/* --- the end of stdout, signals ------------------------------------------ */

static int print_to(void *ctx)
{
    const char *path = ctx;

    if (path) {
        int fd = open(path, O_WRONLY);
        dup2(fd, 1);
    } else {
        close(1);
    }
    ui_start("cag-ask");
    printf("answer\n");
    return ui_close_stdout(0);
}

static void a_failed_write_is_an_error(void **state)
{
    (void)state;
    capture(&c, print_to, (char[]){ "/dev/full" });
    assert_int_equal(c.status, 74);
    assert_string_equal(c.err, "cag-ask: (standard output): cannot write: No "
                               "space left on device\n");
    capture(&c, print_to, NULL);
    assert_int_equal(c.status, 74);
    capture(&c, print_to, (char[]){ "/dev/null" });
    assert_int_equal(c.status, 0);
    assert_string_equal(c.err, "");
}

static int print_nothing(void *ctx)
{
    (void)ctx;
    close(0);
    close(1);
    close(2);
    ui_start("cag-build");
    /* the next file is not one of the three */
    int fd = open("/dev/null", O_RDONLY);
    return ui_close_stdout(fd > 2 ? 0 : 1);
}

static void closed_descriptors_are_filled(void **state)
{
    (void)state;
    capture(&c, print_nothing, NULL);
    assert_int_equal(c.status, 0);
}

static int write_to_nobody(void *ctx)
{
    int fd[2];

    signal(SIGPIPE, ctx ? SIG_IGN : SIG_DFL);
    if (pipe(fd) != 0)
        return 1;
    close(fd[0]);
    dup2(fd[1], 1);
    ui_start("cag-ask");
    printf("answer\n");
    return ui_close_stdout(0);
}

static void a_closed_pipe_is_quiet(void **state)
{
    (void)state;
    capture(&c, write_to_nobody, NULL);
    assert_int_equal(c.status, -SIGPIPE);
    assert_string_equal(c.err, "");
    capture(&c, write_to_nobody, &c);
    assert_int_equal(c.status, 74);
    assert_string_equal(c.err, "");
}

static int die_by(void *ctx)
{
    int sig = *(int *)ctx;

    ui_start("cag-build");
    raise(sig);
    return 0;
}

static int caught_once(void *ctx)
{
    cag_error e = { .status = CAG_E_CANCELLED };

    ui_start("cag-build");
    ui_catch(true);
    if (ui_caught() || !ui_progress(NULL, "x", 0, 0))
        return 1;
    raise(SIGINT);
    if (ui_caught() != SIGINT || ui_progress(NULL, "x", 0, 0))
        return 2;
    if (*(int *)ctx == 1) { /* -i: the answer stops, we go on */
        ui_forget_signal();
        return ui_close_stdout(7);
    }
    if (*(int *)ctx == 2)
        raise(SIGTERM); /* the second one ends it */
    printf("partial\n");
    return ui_close_stdout(ui_error(&e));
}

static void the_parent_sees_the_signal(void **state)
{
    int arg;

    (void)state;
    arg = SIGINT;
    capture(&c, die_by, &arg);
    assert_int_equal(c.status, -SIGINT);
    arg = SIGTERM;
    capture(&c, die_by, &arg);
    assert_int_equal(c.status, -SIGTERM);
    arg = SIGXFSZ;
    capture(&c, die_by, &arg);
    assert_int_equal(c.status, 0);
    arg = 0;
    capture(&c, caught_once, &arg);
    assert_int_equal(c.status, -SIGINT);
    assert_string_equal(c.out, "partial\n");
    assert_string_equal(c.err, "");
    arg = 1;
    capture(&c, caught_once, &arg);
    assert_int_equal(c.status, 7);
    arg = 2;
    capture(&c, caught_once, &arg);
    assert_int_equal(c.status, -SIGTERM);
}

static int ignored_at_start(void *ctx)
{
    (void)ctx;
    signal(SIGINT, SIG_IGN);
    ui_start("cag-build");
    raise(SIGINT);
    return 5;
}

static int cut_map(void *ctx)
{
    char path[] = "/tmp/cag-test-XXXXXX";
    int fd = mkstemp(path);

    (void)ctx;
    unlink(path);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 1;
    volatile char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ui_start("cag-ask");
    if (ftruncate(fd, 0) != 0)
        return 1;
    return p[0];
}

static void other_signals(void **state)
{
    (void)state;
    capture(&c, ignored_at_start, NULL);
    assert_int_equal(c.status, 5);
    capture(&c, cut_map, NULL);
    assert_int_equal(c.status, 74);
    assert_string_equal(c.err, "cag-ask: bus error: a file was cut short or "
                               "cannot be read any more\n");
}

/* --- numbers and JSON ----------------------------------------------------- */

static void numbers_for_people(void **state)
{
    char s[UI_TEXT];

    (void)state;
    assert_string_equal(ui_size(s, 0), "0 B");
    assert_string_equal(ui_size(s, 1023), "1023 B");
    assert_string_equal(ui_size(s, 1024), "1.0 KiB");
    assert_string_equal(ui_size(s, 1048575), "1.0 MiB");
    assert_string_equal(ui_size(s, 98362432), "93.8 MiB");
    assert_string_equal(ui_size(s, UINT64_MAX), "16.0 EiB");
    assert_string_equal(ui_duration(s, 0.0421), "42 ms");
    assert_string_equal(ui_duration(s, 0.9999), "1.0 s");
    assert_string_equal(ui_duration(s, 59.94), "59.9 s");
    assert_string_equal(ui_duration(s, 59.96), "1m00s");
    assert_string_equal(ui_duration(s, 184), "3m04s");
    assert_string_equal(ui_duration(s, 7500), "2h05m");
    assert_string_equal(ui_duration(s, 180000), "2d02h");
    assert_string_equal(ui_duration(s, -1), "?");
    assert_string_equal(ui_duration(s, NAN), "?");
    double t = ui_now();
    assert_true(ui_now() >= t);
}

static int json(void *ctx)
{
    struct ui_json j;

    (void)ctx;
    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_str(&j, "s", "q\"\\\n\t\x01\xC3\xA9\xFFz");
    ui_json_strn(&j, "nul", "a\0b", 3);
    ui_json_str(&j, "none", NULL);
    ui_json_array(&j, "list");
    ui_json_double(&j, NULL, 0.1);
    ui_json_double(&j, NULL, 3);
    ui_json_double(&j, NULL, 1e300);
    ui_json_double(&j, NULL, INFINITY);
    ui_json_bool(&j, NULL, true);
    ui_json_bool(&j, NULL, false);
    ui_json_int(&j, NULL, INT64_MIN);
    ui_json_uint(&j, NULL, UINT64_MAX);
    ui_json_array(&j, NULL);
    ui_json_end(&j);
    ui_json_end(&j);
    ui_json_raw(&j, "raw", "{\"a\":1}", 7);
    ui_json_object(&j, "empty");
    ui_json_end(&j);
    ui_json_end(&j);
    ui_json_object(&j, NULL);
    ui_json_null(&j, "x");
    ui_json_end(&j);
    return ui_close_stdout(0);
}

static void json_as_it_comes(void **state)
{
    (void)state;
    capture(&c, json, NULL);
    assert_string_equal(
        c.out,
        "{\"schema\":1,\"s\":\"q\\\"\\\\\\n\\t\\u0001\xC3\xA9\xEF\xBF\xBDz\","
        "\"nul\":\"a\\u0000b\",\"none\":null,\"list\":[0.1,3.0,1e+300,null,"
        "true,"
        "false,-9223372036854775808,18446744073709551615,[]],\"raw\":{\"a\":1},"
        "\"empty\":{}}\n{\"x\":null}\n");
}

static int wrapped(void *ctx)
{
    static const char text[] =
        "Some words, a longishword and averyverylongword.\n"
        "    indented text\n\n```\ncode that is not broken\n```\n"
        "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE\xE6\x96\x87"
        "\xE7\xAB\xA0 na\xC3\xAFve t\xC3\xA9\x9Bst";
    bool whole = *(bool *)ctx;
    size_t n = sizeof text - 1, len;
    struct ui_wrap w;

    setlocale(LC_CTYPE, "C.UTF-8");
    ui_wrap_start(&w, stdout);
    w.columns = 12;
    for (size_t at = 0; at < n; at += len) {
        for (len = 1; (text[at + len] & 0xC0) == 0x80 && text[at] & 0x40;)
            len++;
        len = whole ? n : len;
        ui_wrap_put(&w, text + at, len);
    }
    ui_wrap_end(&w);
    return ui_close_stdout(0);
}

static void words_stay_whole(void **state)
{
    bool whole[] = { true, false };

    (void)state;
    for (int i = 0; i < 2; i++) {
        capture(&c, wrapped, &whole[i]);
        assert_string_equal(
            c.out,
            "Some words,\na\nlongishword\nand\naveryverylon\ngword.\n"
            "    indented\ntext\n\n```\ncode that is not broken\n```\n"
            "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE\xE6\x96\x87"
            "\xE7\xAB\xA0\nna\xC3\xAFve t\xC3\xA9\x9Bst");
    }
}

/* what people are told at 20 columns: a hanging indent, no break inside a long
 * word or a command to be copied */
static int lines(void *ctx)
{
    struct ui_wrap w;

    (void)ctx;
    ui_wrap_lines(&w, stdout, 4);
    w.columns = 20;
    ui_wrap_printf(&w, "%8d tokens  %s\n", 12, "docs/a.md");
    ui_wrap_printf(&w, "path %s is\n",
                   "a/file/name/that/is/longer/than/a/line.gguf");
    ui_wrap_message(&w, "stale: it changed; rebuild: cag-build --refresh a b");
    ui_wrap_printf(&w, "\n");
    ui_wrap_message(&w, "use: cag-build x");
    ui_wrap_printf(&w, "\n");
    ui_wrap_end(&w);
    return ui_close_stdout(0);
}

static int lines_in_a_pipe(void *ctx)
{
    (void)ctx;
    ui_printf(stdout, 4, "%-30s %s\n", "a line that is longer than",
              "the terminal would be, had there been one: cag-build -n");
    return ui_close_stdout(0);
}

static void lines_for_people(void **state)
{
    (void)state;
    capture(&c, lines, NULL);
    assert_string_equal(c.out, "      12 tokens\n    docs/a.md\n"
                               "path a/file/name/that/is/longer/than/a/line."
                               "gguf\n    is\n"
                               "stale: it changed;\n    rebuild:\n"
                               "    cag-build --refresh a b\n"
                               "use: cag-build x\n");
    capture(&c, lines_in_a_pipe, NULL);
    assert_string_equal(c.out, "a line that is longer than     the terminal "
                               "would be, had there been one: cag-build -n\n");
}

static void clean_text(void **state)
{
    (void)state;
    assert_string_equal(ui_clean("a\tb\r\xC2\x9B\xE2\x82\xAC\xE2\x82"),
                        "a\\tb\\x0d\\xc2\\x9b\xE2\x82\xAC\\xe2\\x82");
    /* a surrogate, and a slash spelled too long, are no characters */
    assert_string_equal(ui_clean("\xED\xA0\x80 \xE0\x80\xAF"),
                        "\\xed\\xa0\\x80 \\xe0\\x80\\xaf");
    /* four results live at a time */
    const char *a = ui_clean("a"), *b = ui_clean("b"), *d = ui_clean("d");
    assert_string_equal(a, "a");
    assert_string_equal(b, "b");
    assert_string_equal(d, "d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_one_line_with_a_place),
        cmocka_unit_test(the_exit_table),
        cmocka_unit_test(quiet_silences_talk_and_not_the_product),
        cmocka_unit_test(colour_only_where_it_is_wanted),
        cmocka_unit_test(progress_lines),
        cmocka_unit_test(progress_keeps_its_time),
        cmocka_unit_test(a_failed_write_is_an_error),
        cmocka_unit_test(closed_descriptors_are_filled),
        cmocka_unit_test(a_closed_pipe_is_quiet),
        cmocka_unit_test(the_parent_sees_the_signal),
        cmocka_unit_test(other_signals),
        cmocka_unit_test(numbers_for_people),
        cmocka_unit_test(json_as_it_comes),
        cmocka_unit_test(clean_text),
        cmocka_unit_test(words_stay_whole),
        cmocka_unit_test(lines_for_people),
    };
    return cmocka_run_group_tests_name("ui", tests, NULL, NULL);
}
