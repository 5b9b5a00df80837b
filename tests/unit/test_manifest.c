/*
 * test_manifest.c - a manifest says what it says, every mistake has its
 * place, and running out of memory is only that.
 */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/manifest.h"
#include "util/file.h"
#include "util/mem.h"

#define BAD "tests/golden/bad/"
#define ALL "tests/fuzz/corpus/manifest/all.yaml"

static void takes_every_key(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf text = BUF_INIT;
    cag_manifest *m;

    (void)state;
    assert_int_equal(file_read(ALL, 65536, &text, &err), CAG_OK);
    assert_int_equal(
        manifest_parse(text.data, text.size, "some/kb.yaml", &m, &err), CAG_OK);
    assert_string_equal(m->path, "some/kb.yaml");
    assert_string_equal(m->model, "m.gguf"); /* no such file beside it */
    assert_string_equal(m->output, "some/out.kvc");
    assert_string_equal(m->codec, "f16");
    assert_string_equal(m->precision, "exact");
    assert_string_equal(m->device, "cpu");
    assert_string_equal(m->front_matter, "drop");
    assert_string_equal(m->depfile, "some/out.d");
    assert_int_equal(m->ctx_size, 4096);
    assert_int_equal(m->reserve, 10); /* no octal */
    assert_int_equal(m->threads, 2);
    assert_int_equal(m->batch_size, 32);
    assert_int_equal(m->max_memory, INT64_C(2) << 30);
    assert_string_equal(m->system, "Use {refusal}");
    assert_null(m->system_file);
    assert_string_equal(m->label, "no"); /* no boolean */
    assert_string_equal(m->refusal, "Two\nlines\n");
    assert_string_equal(m->chat_template, "chatml");
    assert_string_equal(m->template_date, "2020-02-03");
    assert_int_equal(m->n_source, 4);
    assert_string_equal(m->source[0].path, "some/docs");
    assert_false(m->source[0].is_glob);
    assert_string_equal(m->source[1].path, "some/a*.md");
    assert_true(m->source[1].is_glob);
    assert_null(m->source[1].title);
    assert_string_equal(m->source[2].title, "Again");
    assert_string_equal(m->source[2].filter[0], "sed");
    assert_string_equal(m->source[2].filter[1], "s/<[^>]*>//g");
    assert_string_equal(m->source[2].filter[2], "{}");
    assert_null(m->source[2].filter[3]);
    assert_true(m->source[2].filter_timeout_s > 6.9);
    assert_int_equal(m->source[2].filter_max_bytes, 2 << 20);
    assert_string_equal(m->source[3].filter[0], "pdftotext");
    assert_string_equal(m->source[3].filter[2], "-");
    assert_null(m->source[3].filter[3]);
    cag_manifest_free(m);
    buf_free(&text);
}

static void leaves_the_rest_unset(void **state)
{
    static const char text[] = "sources: [a, /b]\n";
    cag_error err = CAG_ERROR_INIT;
    cag_manifest *m;

    (void)state;
    assert_int_equal(manifest_parse(text, strlen(text), "kb.yaml", &m, &err),
                     CAG_OK);
    assert_null(m->model);
    assert_null(m->output);
    assert_null(m->codec);
    assert_null(m->system);
    assert_int_equal(m->ctx_size, -1);
    assert_int_equal(m->max_memory, -1);
    assert_string_equal(m->source[0].path, "a"); /* not "./a" */
    assert_string_equal(m->source[1].path, "/b");
    cag_manifest_free(m);
}

/* A path that is there wins over a hub id and over a pattern. */
static void existing_files_win(void **state)
{
    static const char text[] = "model: org/m\nsources: ['a[1].md']\n";
    char dir[] = "/tmp/cag-manifest-XXXXXX", path[128], want[128];
    cag_error err = CAG_ERROR_INIT;
    cag_manifest *m;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/kb.yaml", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(cag_manifest_load(path, &m, &err), CAG_OK);
    assert_string_equal(m->model, "org/m");
    assert_true(m->source[0].is_glob);
    cag_manifest_free(m);

    snprintf(want, sizeof want, "%s/a[1].md", dir);
    fclose(fopen(want, "w"));
    snprintf(path, sizeof path, "%s/org", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/org/m", dir);
    fclose(fopen(path, "w"));
    snprintf(path, sizeof path, "%s/kb.yaml", dir);
    assert_int_equal(cag_manifest_load(path, &m, &err), CAG_OK);
    assert_false(m->source[0].is_glob);
    assert_string_equal(m->source[0].path, want);
    snprintf(path, sizeof path, "%s/org/m", dir);
    assert_string_equal(m->model, path);
    cag_manifest_free(m);

    unlink(path);
    unlink(want);
    snprintf(path, sizeof path, "%s/org", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/kb.yaml", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(cag_manifest_load(path, &m, &err), CAG_E_MISSING);
}

static void check_bad(const char *name)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf want = BUF_INIT;
    char path[256], got[1200];
    cag_manifest *m;

    snprintf(path, sizeof path, BAD "%.*s.msg", (int)strlen(name) - 5, name);
    assert_int_equal(file_read(path, 4096, &want, NULL), CAG_OK);
    want.data[strcspn(want.data, "\n")] = 0;
    snprintf(path, sizeof path, BAD "%s", name);
    assert_int_equal(cag_manifest_load(path, &m, &err), CAG_E_CONFIG);
    snprintf(got, sizeof got, "%d:%d: %s", err.line, err.column, err.msg);
    if (!strstr(got, want.data))
        print_message("%s: %s\n  wanted %s\n", name, got, want.data);
    assert_non_null(strstr(got, want.data));
    assert_non_null(strstr(err.file, name));
    buf_free(&want);
}

static void refuses_the_bad_ones(void **state)
{
    DIR *d = opendir(BAD);
    struct dirent *e;
    int n = 0;

    (void)state;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        size_t len = strlen(e->d_name);

        if (strncmp(e->d_name, "manifest-", 9) || len < 15 ||
            strcmp(e->d_name + len - 5, ".yaml"))
            continue;
        check_bad(e->d_name);
        n++;
    }
    closedir(d);
    assert_true(n >= 30);
}

/* As many sources, words and levels as anybody may write. */
static void states_its_limits(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf b = BUF_INIT;
    cag_manifest *m;

    (void)state;
    buf_str(&b, "sources:\n");
    for (int i = 0; i < 10000; i++)
        buf_printf(&b, "- s%d\n", i);
    assert_int_equal(manifest_parse(b.data, b.size, "m", &m, &err), CAG_OK);
    assert_int_equal(m->n_source, 10000);
    assert_string_equal(m->source[9999].path, "s9999");
    cag_manifest_free(m);
    buf_str(&b, "- one more\n");
    assert_int_equal(manifest_parse(b.data, b.size, "m", &m, &err),
                     CAG_E_CONFIG);
    assert_int_equal(err.line, 10002);
    buf_clear(&b);
    buf_str(&b, "sources: [{path: a, filter: [w");
    for (int i = 0; i < 64; i++)
        buf_str(&b, ", w");
    buf_str(&b, "]}]\n");
    assert_int_equal(manifest_parse(b.data, b.size, "m", &m, &err),
                     CAG_E_CONFIG);
    assert_non_null(strstr(err.msg, "more than 64 words"));
    buf_clear(&b);
    buf_str(&b, "sources: ");
    for (int i = 0; i < 200000; i++)
        buf_char(&b, '[');
    assert_int_equal(manifest_parse(b.data, b.size, "m", &m, &err),
                     CAG_E_CONFIG);
    buf_free(&b);
}

static void survives_want_of_memory(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf text = BUF_INIT;
    cag_manifest *m;
    bool done = false;
    int64_t live, before;

    (void)state;
    assert_int_equal(file_read(ALL, 65536, &text, &err), CAG_OK);
    before = mem_live();
    FOR_EACH_FAULT(n, done)
    {
        cag_status st;

        mem_fault(n, false);
        st = manifest_parse(text.data, text.size, "kb.yaml", &m, &err);
        mem_fault(0, false);
        if (st == CAG_OK) {
            cag_manifest_free(m);
            done = true;
        } else {
            assert_int_equal(st, CAG_E_NOMEM);
        }
        live = mem_live();
        assert_int_equal(live, before);
        assert_true(n < 1000);
    }
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_every_key),
        cmocka_unit_test(leaves_the_rest_unset),
        cmocka_unit_test(existing_files_win),
        cmocka_unit_test(refuses_the_bad_ones),
        cmocka_unit_test(states_its_limits),
        cmocka_unit_test(survives_want_of_memory),
    };

    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
