/*
 * test_model_find.c - paths, hub ids, names; and what the message says when
 * nothing is found.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cag/model.h>

#include "util/mem.h"

#define C1 "0123456789abcdef0123456789abcdef01234567"
#define C2 "89abcdef0123456789abcdef0123456789abcdef"

static char root[64], hub[96], start[4096];

static void make_dir(const char *path)
{
    char p[600];
    size_t i;

    snprintf(p, sizeof p, "%s/", path);
    for (i = 1; p[i]; i++)
        if (p[i] == '/') {
            p[i] = 0;
            mkdir(p, 0700);
            p[i] = '/';
        }
}

/* Write a file below root, making its directories. */
static void put(const char *name, const char *text)
{
    char path[512], *slash;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", root, name);
    slash = strrchr(path, '/');
    *slash = 0;
    make_dir(path);
    *slash = '/';
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#define Q "hub/models--Qwen--Qwen3-0.6B/"
#define G "hub/models--Org--Gguf-Repo/"

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/cag-find-XXXXXX");
    if (!mkdtemp(root) || !getcwd(start, sizeof start))
        return -1;
    snprintf(hub, sizeof hub, "%s/hub", root);
    put(Q "refs/main", C1);
    put(Q "refs/refs/pr/3", C2 "\n");
    put(Q "refs/bad", "../../../etc");
    put(Q "refs/gone", "ffffffffffffffffffffffffffffffffffffffff");
    put(Q "snapshots/" C1 "/config.json", "{}");
    put(Q "snapshots/" C2 "/config.json", "{}");
    put("hub/models--gpt2/snapshots/" C2 "/config.json", "{}");
    put("hub/models--Org--NoMain/snapshots/" C1 "/config.json", "{}");
    put("hub/models--Org--NoMain/snapshots/" C2 "/config.json", "{}");
    put("hub/models--Org--Empty/refs/main", C1);
    put("hub/models--Org--Empty/snapshots/" C1 "/README.md", "x");
    put(G "refs/main", C1);
    put(G "snapshots/" C1 "/m-Q8_0.gguf", "GGUF");
    put("hub/models--Org--Many/refs/main", C1);
    put("hub/models--Org--Many/snapshots/" C1 "/b-Q8_0.gguf", "GGUF");
    put("hub/models--Org--Many/snapshots/" C1 "/a-Q4_0.gguf", "GGUF");
    put("one/tiny.gguf", "GGUF");
    put("two/dir-model/config.json", "{}");
    put("two/Qwen/Qwen3-0.6B/config.json", "{}");
    put("work/here.gguf", "GGUF");
    put("work/Org/Local/config.json", "{}");
    return 0;
}

static int teardown(void **state)
{
    char cmd[128];

    (void)state;
    if (chdir(start) != 0)
        return -1;
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    return system(cmd);
}

static cag_status find(const char *spec, bool with_hub, const char *dirs,
                       char **path, cag_error *err)
{
    char all[512];
    cag_model_search s = { with_hub ? hub : NULL, NULL };

    if (dirs) {
        snprintf(all, sizeof all, "%s/one:%s::%s/two", root, dirs, root);
        s.dirs = all;
    }
    return cag_model_find(spec, &s, path, err);
}

static void found(const char *spec, const char *want)
{
    cag_error err = CAG_ERROR_INIT;
    char *path = NULL, full[512];
    cag_status st = find(spec, true, "/nonexistent", &path, &err);

    if (st)
        print_message("%s: %s\n", spec, err.msg);
    assert_int_equal(st, CAG_OK);
    snprintf(full, sizeof full, "%s/%s", root, want);
    assert_string_equal(path, want[0] == '=' ? want + 1 : full);
    cag_free(path);
}

static void missing(const char *spec, const char *const *msgs)
{
    cag_error err = CAG_ERROR_INIT;
    char *path = NULL;
    cag_status st = find(spec, true, "/nonexistent", &path, &err);

    assert_int_equal(st, CAG_E_MISSING);
    assert_null(path);
    for (; *msgs; msgs++) {
        if (!strstr(err.msg, *msgs))
            print_message("%s\n  wanted %s\n", err.msg, *msgs);
        assert_non_null(strstr(err.msg, *msgs));
    }
}

static void finds_paths(void **state)
{
    char work[128];

    (void)state;
    snprintf(work, sizeof work, "%s/work", root);
    assert_int_equal(chdir(work), 0);
    found("here.gguf", "=here.gguf");
    found("./here.gguf", "=./here.gguf");
    found("Org/Local", "=Org/Local");
    assert_int_equal(chdir(start), 0);
}

static void finds_in_the_hub(void **state)
{
    (void)state;
    found("Qwen/Qwen3-0.6B", Q "snapshots/" C1);
    found("Qwen/Qwen3-0.6B@main", Q "snapshots/" C1);
    found("Qwen/Qwen3-0.6B@refs/pr/3", Q "snapshots/" C2);
    found("Qwen/Qwen3-0.6B@" C2, Q "snapshots/" C2);
    found("gpt2", "hub/models--gpt2/snapshots/" C2); /* no refs, one only */
    found("Org/Gguf-Repo", G "snapshots/" C1 "/m-Q8_0.gguf");
}

static void finds_in_dirs(void **state)
{
    (void)state;
    found("tiny.gguf", "one/tiny.gguf");
    found("tiny", "one/tiny.gguf");
    found("dir-model", "two/dir-model");
}

#define MSGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void says_where_it_looked(void **state)
{
    char *path = NULL;
    cag_error err = CAG_ERROR_INIT;

    (void)state;
    missing("nope.gguf",
            MSGS("model \"nope.gguf\" not found", "nope.gguf (no such file)",
                 "/one/nope.gguf", "/two/nope.gguf", "models--nope.gguf",
                 "config.json"));
    missing("Org/None", MSGS("models--Org--None (no such directory)",
                             "hf download Org/None"));
    missing("Qwen/Qwen3-0.6B@v9", MSGS("refs/v9 (no such revision"));
    missing("Qwen/Qwen3-0.6B@bad", MSGS("refs/bad (does not hold a commit)"));
    missing("Qwen/Qwen3-0.6B@gone", MSGS("no such snapshot"));
    missing("Org/NoMain", MSGS("refs/main (no such revision"));
    missing("Org/Empty", MSGS("neither config.json nor a GGUF file"));
    missing("Org/Many", MSGS("several GGUF files", "a-Q4_0.gguf, b-Q8_0.gguf"));
    /* none of these has the form of a hub id, or is looked up as one */
    missing("/abs/none", MSGS("/abs/none (no such file); give"));
    missing("../none", MSGS("../none (no such file); give"));
    missing("a/b/c", MSGS("a/b/c (no such file), "));
    missing("Org/..", MSGS("\"Org/..\""));
    missing("Qwen/Qwen3-0.6B@../../x", MSGS("(no such file)"));
    assert_int_equal(cag_model_find("", NULL, &path, &err), CAG_E_USAGE);
    assert_int_equal(cag_model_find("none-at-all", NULL, &path, &err),
                     CAG_E_MISSING);
}

/* However long the places are, what to do is still said. */
static void keeps_the_advice(void **state)
{
    char dirs[4096] = "", *path = NULL;
    cag_error err = CAG_ERROR_INIT;
    cag_model_search s = { hub, dirs };
    int i;

    (void)state;
    for (i = 0; i < 30; i++)
        snprintf(dirs + strlen(dirs), sizeof dirs - strlen(dirs),
                 "%s/a/directory/that/does/not/exist/%d", i ? ":" : "", i);
    assert_int_equal(cag_model_find("Org/None", &s, &path, &err),
                     CAG_E_MISSING);
    assert_non_null(strstr(err.msg, "more; give the path"));
    assert_non_null(strstr(err.msg, "hf download Org/None)"));
}

static void survives_oom(void **state)
{
    static const char *const specs[] = {
        "Qwen/Qwen3-0.6B", "gpt2",     "tiny",
        "Org/Many",        "Org/None", "Org/Gguf-Repo"
    };
    cag_error err = CAG_ERROR_INIT;
    int64_t n, live;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof specs / sizeof *specs; i++) {
        int n_nomem = 0;

        live = mem_live();
        for (n = 1; n < 20; n++) {
            char *path = NULL;
            cag_status st;

            mem_fault(n, false);
            st = find(specs[i], true, "/nonexistent", &path, &err);
            mem_fault(0, false);
            n_nomem += st == CAG_E_NOMEM;
            assert_true(st == CAG_E_NOMEM || st == CAG_OK ||
                        st == CAG_E_MISSING);
            cag_free(path);
            assert_int_equal(mem_live(), live);
        }
        assert_in_range(n_nomem, 1, 18);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_paths),
        cmocka_unit_test(finds_in_the_hub),
        cmocka_unit_test(finds_in_dirs),
        cmocka_unit_test(says_where_it_looked),
        cmocka_unit_test(keeps_the_advice),
        cmocka_unit_test(survives_oom),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
