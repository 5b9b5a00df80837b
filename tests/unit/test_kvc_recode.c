/*
 * test_kvc_recode.c - f16z <-> f16: byte-identical to a build with that
 * codec, same content id; relative paths follow the file.
 */
#include "tests/lib/kvc_fixture.h"

#include <sys/stat.h>

static char *dir, *a, *b, *c, *sub, *moved;

static int setup(void **state)
{
    (void)state;
    dir = fix_mkdir();
    a = file_join(dir, "a.kvc");
    b = file_join(dir, "b.kvc");
    c = file_join(dir, "c.kvc");
    sub = file_join(dir, "sub");
    moved = file_join(sub, "m.kvc");
    return mkdir(sub, 0700);
}

/* A file and the lock that stays beside it. */
static void remove_both(const char *path)
{
    char lock[512];

    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(path);
    unlink(lock);
}

static int teardown(void **state)
{
    (void)state;
    remove_both(a);
    remove_both(b);
    remove_both(c);
    remove_both(moved);
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(dir), 0);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(sub);
    mem_free(moved);
    mem_free(dir);
    return 0;
}

static void same_file(const char *x, const char *y)
{
    struct buf p = fix_read(x), q = fix_read(y);

    assert_int_equal(p.size, q.size);
    assert_memory_equal(p.data, q.data, p.size);
    buf_free(&p);
    buf_free(&q);
}

static void make(const char *codec, const char *path)
{
    struct fix f = fix_default(codec);

    fix_add_extra(&f, "NGRM", "{}");
    fix_init(&f);
    fix_write(&f, path, 2);
    fix_free(&f);
}

static void equals_a_build_with_that_codec(void **state)
{
    (void)state;
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL, *z = NULL;

    make("f16z", a);
    make("f16", b);
    for (int n = 1; n <= 3; n++) {
        assert_int_equal(cag_kvc_recode(a, "f16", c, -1, n, 0, &err), CAG_OK);
        same_file(b, c);
        assert_int_equal(cag_kvc_recode(b, "f16z", c, -1, n, 0, &err), CAG_OK);
        same_file(a, c);
    }
    assert_int_equal(cag_kvc_open(a, &z, &err), CAG_OK);
    assert_int_equal(cag_kvc_open(b, &k, &err), CAG_OK);
    assert_string_equal(cag_kvc_get_info(k)->content_id,
                        cag_kvc_get_info(z)->content_id);
    assert_string_equal(cag_kvc_get_info(k)->binding,
                        cag_kvc_get_info(z)->binding);
    cag_kvc_close(k);
    cag_kvc_close(z);
    assert_int_equal(cag_kvc_recode(a, "f16", a, -1, 1, 0, &err), CAG_OK);
    same_file(a, b); /* onto itself */
}

static void relative_paths_follow(void **state)
{
    (void)state;
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;

    make("f16z", a);
    assert_int_equal(cag_kvc_recode(a, "f16", moved, -1, 1, 0, &err), CAG_OK);
    assert_int_equal(cag_kvc_open(moved, &k, &err), CAG_OK);
    assert_string_equal(cag_kvc_get_source(k, 0)->path, "../../docs/notes.txt");
    assert_string_equal(cag_kvc_get_source(k, 1)->group, "../docs");
    assert_string_equal(cag_kvc_get_info(k)->model_path, "../../models/f.gguf");
    cag_kvc_close(k);
    assert_int_equal(cag_kvc_recode(moved, "f16z", c, -1, 1, 0, &err), CAG_OK);
    same_file(a, c);
}

static void only_the_exact_pair(void **state)
{
    (void)state;
    static const char *const to[] = { "f16z", "f32", "q8h", "", NULL };
    cag_error err = CAG_ERROR_INIT;

    make("f16z", a);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(cag_kvc_recode(a, to[i], c, -1, 1, 0, &err),
                         CAG_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "cannot recode f16z to"));
    }
    make("f32", b);
    assert_int_equal(cag_kvc_recode(b, "f16", c, -1, 1, 0, &err),
                     CAG_E_UNSUPPORTED);
    assert_false(file_exists(c));
}

static void damage_is_not_copied(void **state)
{
    (void)state;
    struct buf f;
    FILE *out;
    cag_error err = CAG_ERROR_INIT;
    uint8_t *e;

    make("f16", a);
    f = fix_read(a);
    e = fix_data(&f, "CHNK");
    /* a chunk changed by somebody who repaired its XXH3 */
    fix_data(&f, "KV")[7] ^= 1;
    rd_put64(e + 24, xxh3_64(fix_data(&f, "KV"), (size_t)rd_le64(e + 8)));
    fix_seal_section(&f, "CHNK");
    out = fopen(b, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f.data, 1, f.size, out), f.size);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(cag_kvc_recode(b, "f16z", c, -1, 1, 0, &err),
                     CAG_E_CORRUPT);
    assert_non_null(strstr(err.msg, "content id"));
    assert_false(file_exists(c));
    buf_free(&f);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    int64_t live;

    make("f16z", a);
    live = mem_live();
    for (int64_t n = 1;; n++) {
        cag_error err = CAG_ERROR_INIT;
        cag_status st;

        mem_fault(n, false);
        st = cag_kvc_recode(a, "f16", moved, -1, 1, 0, &err);
        mem_fault(0, false);
        assert_int_equal(mem_live(), live);
        if (st == CAG_OK)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
        assert_true(n < 5000);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(equals_a_build_with_that_codec),
        T(relative_paths_follow),
        T(only_the_exact_pair),
        T(damage_is_not_copied),
        T(every_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
