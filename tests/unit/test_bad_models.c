/*
 * test_bad_models.c - every bad model file of tests/golden/bad is refused
 * with the message recorded beside it.
 */
#include <dirent.h>
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config.h"
#include "model/weights.h"
#include "util/file.h"

#define BAD "tests/golden/bad/"

static cag_status open_gguf(const char *path, cag_error *err)
{
    struct model_config c;
    struct model_weights w;
    struct arena a = { 0 };
    struct gguf *g = NULL;
    cag_status st = gguf_open(path, &g, err);

    if (!st)
        st = config_from_gguf(g, &c, err);
    if (!st)
        st = weights_from_gguf(g, &c, &a, &w, err);
    arena_release(&a);
    gguf_close(g);
    return st;
}

static cag_status open_st(const char *path, cag_error *err)
{
    struct st *s = NULL;
    cag_status st = st_open(path, &s, err);

    st_close(s);
    return st;
}

static cag_status open_config(const char *path, cag_error *err)
{
    struct model_config c;
    jv *v = NULL;
    cag_status st = jv_parse_file(path, 1 << 20, &v, err);

    if (!st)
        st = config_from_json(v, NULL, path, &c, err);
    jv_free(v);
    return st;
}

static void check(const char *name, size_t stem,
                  cag_status (*open_it)(const char *, cag_error *))
{
    cag_error err = CAG_ERROR_INIT;
    struct buf want = BUF_INIT;
    char path[256];
    cag_status st;

    snprintf(path, sizeof path, BAD "%.*s.msg", (int)stem, name);
    assert_int_equal(file_read(path, 4096, &want, NULL), CAG_OK);
    want.data[strcspn(want.data, "\n")] = 0;
    snprintf(path, sizeof path, BAD "%s", name);
    st = open_it(path, &err);
    if (!strstr(err.msg, want.data))
        print_message("%s: %s\n  wanted %s\n", name, err.msg, want.data);
    assert_true(st == CAG_E_FORMAT || st == CAG_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, want.data));
    assert_non_null(strstr(err.file, name));
    assert_int_not_equal(err.msg[0], 0);
    buf_free(&want);
}

static void refuses_them_all(void **state)
{
    static const struct {
        const char *prefix, *suffix;
        cag_status (*open_it)(const char *, cag_error *);
    } kinds[] = {
        { "gguf-", ".gguf", open_gguf },
        { "st-", ".safetensors", open_st },
        { "config-", ".json", open_config },
    };
    DIR *d = opendir(BAD);
    struct dirent *e;
    int n = 0;
    size_t i;

    (void)state;
    assert_non_null(d);
    while ((e = readdir(d)))
        for (i = 0; i < 3; i++) {
            size_t len = strlen(e->d_name), m = strlen(kinds[i].suffix);

            if (len > m && strcmp(e->d_name + len - m, kinds[i].suffix) == 0 &&
                strncmp(e->d_name, kinds[i].prefix, strlen(kinds[i].prefix)) ==
                    0) {
                check(e->d_name, len - m, kinds[i].open_it);
                n++;
            }
        }
    closedir(d);
    assert_true(n >= 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(refuses_them_all) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
