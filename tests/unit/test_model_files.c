/*
 * The model of a cache: which files it consists of, and where it is found.
 */
#include "tests/lib/binding_fixture.h"

#include <time.h>

#include "binding/model_files.h"

static const cag_places nowhere;

/* A cache made with the file m.gguf as it is now. */
static void make_cache(const char *path)
{
    static const struct bind_source v[] = { { "a.md", NULL } };
    char model[512], hex[65];
    struct file_id id;

    put("a.md", "one");
    bind_sha("m.gguf", hex);
    assert_int_equal(file_stat("m.gguf", &id, NULL), CAG_OK);
    snprintf(model, sizeof model,
             "{\"arch\":\"llama\",\"hub\":null,\"n_vocab\":500,\"name\":\"M\","
             "\"path\":\"m.gguf\",\"files\":[{\"name\":\"m.gguf\","
             "\"sha256\":\"%s\",\"size_bytes\":%d}]}",
             hex, (int)id.size_bytes);
    bind_write(path, v, 1, NULL, model);
}

static cag_status locate(const char *wanted, const cag_places *p, char **path,
                         cag_error *err)
{
    const struct fingerprint_memory mem = { .dir = NULL };
    cag_kvc *k = bind_open("k.kvc");
    cag_status st;

    *path = NULL;
    *err = (cag_error)CAG_ERROR_INIT;
    st = model_files_locate(k, wanted, p, &mem, path, err);
    cag_kvc_close(k);
    return st;
}

static void expect(const cag_places *p, const char *end)
{
    cag_error err;
    char *path;
    cag_status st = locate(NULL, p, &path, &err);

    if (st)
        fail_msg("%s", err.msg);
    assert_non_null(strstr(path, end));
    mem_free(path);
}

static void places(void **state)
{
    cag_places p = nowhere;
    cag_error err;
    char *path;

    (void)state;
    put("m.gguf", "weights");
    make_cache("k.kvc");
    expect(&p, "m.gguf");
    /* elsewhere: named, or in one of the directories, by its name */
    mkdir("x", 0700);
    mkdir("y", 0700);
    assert_int_equal(rename("m.gguf", "y/m.gguf"), 0);
    assert_int_equal(locate(NULL, &p, &path, &err), CAG_E_MISSING);
    assert_non_null(strstr(err.msg, "recorded path"));
    assert_non_null(strstr(err.msg, "(not there)"));
    p.models = "x::y";
    expect(&p, "y/m.gguf");
    p.models = NULL;
    p.model = "y/m.gguf";
    expect(&p, "y/m.gguf");
    p.model = "no/such";
    assert_int_equal(locate(NULL, &p, &path, &err), CAG_E_MISSING);
    assert_non_null(strstr(err.msg, "CAG_MODEL no/such (not there)"));
}

/* Another model in every place is no model, and the first one is told. */
static void another_model(void **state)
{
    cag_places p = nowhere;
    cag_error err;
    char *path;

    (void)state;
    put("m.gguf", "weights");
    make_cache("k.kvc");
    put("m.gguf", "weight5");
    mkdir("x", 0700);
    put("x/m.gguf", "others");
    p.models = "x";
    assert_int_equal(locate(NULL, &p, &path, &err), CAG_E_MISMATCH);
    assert_non_null(strstr(err.file, "m.gguf"));
    assert_non_null(strstr(err.msg, "tried: recorded path"));
    assert_non_null(strstr(err.msg, "CAG_MODELS:"));
    assert_int_equal(locate("x/m.gguf", &p, &path, &err), CAG_E_MISMATCH);
    assert_null(strstr(err.msg, "tried"));
    /* the right one behind two wrong ones is found */
    mkdir("z", 0700);
    put("z/m.gguf", "weights");
    p.models = "x:z";
    expect(&p, "z/m.gguf");
}

static void no_memory(void **state)
{
    cag_places p = nowhere;
    cag_error err;
    char *path;

    (void)state;
    put("m.gguf", "weights");
    make_cache("k.kvc");
    p.models = "x:y";
    for (int64_t i = 1; i < 400; i++) {
        const struct fingerprint_memory mem = { .dir = NULL };
        cag_kvc *k = bind_open("k.kvc");
        cag_status st;

        err = (cag_error)CAG_ERROR_INIT;
        path = NULL;
        mem_fault(i, false);
        st = model_files_locate(k, NULL, &p, &mem, &path, &err);
        mem_fault(0, false);
        cag_kvc_close(k);
        assert_true(st == CAG_OK || st == CAG_E_NOMEM || st == CAG_E_MISSING ||
                    st == CAG_E_MISMATCH);
        assert_true((path != NULL) == (st == CAG_OK));
        mem_free(path);
        if (!st)
            return;
    }
    fail_msg("never enough memory");
}

static void files(void **state)
{
    struct model_files f = { NULL, 0 }, g = { NULL, 0 };
    jv *list;

    (void)state;
    mkdir("m", 0700);
    put("m/tokenizer.json", "t");
    put("m/b.safetensors", "b");
    put("m/a.safetensors", "a");
    put("m/config.json", "c");
    put("m/README.md", "no part of it");
    assert_int_equal(model_files_list("m", NULL, &f, NULL), CAG_OK);
    assert_int_equal(f.n, 4);
    assert_string_equal(f.v[0].name, "a.safetensors");
    assert_string_equal(f.v[3].name, "tokenizer.json");
    list = model_files_json(&f);
    assert_true(model_files_same(&f, list));
    put("m/README.md", "still none");
    assert_int_equal(model_files_list("m", NULL, &g, NULL), CAG_OK);
    assert_true(model_files_same(&g, list));
    model_files_release(&g);
    put("m/config.json", "d");
    assert_int_equal(model_files_list("m", NULL, &g, NULL), CAG_OK);
    assert_false(model_files_same(&g, list));
    model_files_release(&g);
    assert_true(model_files_has("m/new.safetensors", "m"));
    assert_false(model_files_has("m/x.kvc", "m"));
    assert_false(model_files_has("config.json", "m"));
    mkdir("empty", 0700);
    assert_int_equal(model_files_list("empty", NULL, &g, NULL), CAG_E_MISSING);
    jv_free(list);
    model_files_release(&f);
}

/* Whoever keeps a model open asks whether it is still the one. */
static void unchanged(void **state)
{
    const struct timespec while_young = { 2, 100000000 };
    struct model_files f = { NULL, 0 }, g = { NULL, 0 };

    (void)state;
    mkdir("u", 0700);
    put("u/config.json", "c");
    put("u/a.safetensors", "a");
    put("u.gguf", "one");
    assert_int_equal(model_files_list("u", NULL, &f, NULL), CAG_OK);
    assert_int_equal(model_files_list("u.gguf", NULL, &g, NULL), CAG_OK);
    /* written this moment: a second write might not show */
    assert_false(model_files_unchanged(&f, "u"));
    assert_false(model_files_unchanged(&g, "u.gguf"));
    nanosleep(&while_young, NULL);
    assert_true(model_files_unchanged(&f, "u"));
    assert_true(model_files_unchanged(&f, "./u/"));
    assert_true(model_files_unchanged(&g, "u.gguf"));
    assert_false(model_files_unchanged(&g, "u"));
    put("u/b.safetensors", "b"); /* one more */
    assert_false(model_files_unchanged(&f, "u"));
    assert_int_equal(unlink("u/b.safetensors"), 0);
    assert_true(model_files_unchanged(&f, "u"));
    assert_int_equal(rename("u/a.safetensors", "u/b.safetensors"), 0);
    assert_false(model_files_unchanged(&f, "u"));
    put("u.gguf", "one");
    assert_false(model_files_unchanged(&g, "u.gguf"));
    assert_int_equal(unlink("u.gguf"), 0);
    assert_false(model_files_unchanged(&g, "u.gguf"));
    model_files_release(&f);
    model_files_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { T(places), T(another_model),
                                        T(no_memory), T(files), T(unchanged) };

    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
