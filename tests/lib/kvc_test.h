/*
 * kvc_test.h - what the tests of a whole .kvc share: a directory of their own
 * with room for one cache, and what a reader must say of its bytes.
 */
#ifndef KVC_TEST_H
#define KVC_TEST_H

#include "tests/lib/kvc_fixture.h"

static const char *const codecs[] = { "f16z", "f16", "f32", "q8h" };
enum { N_CODEC = sizeof codecs / sizeof codecs[0] };
static char *dir, *path; /* path is dir/a.kvc */

static inline int setup(void **state)
{
    (void)state;
    dir = fix_mkdir();
    path = file_join(dir, "a.kvc");
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    fix_unlink(dir, "a.kvc");
    assert_int_equal(rmdir(dir), 0);
    mem_free(path);
    mem_free(dir);
    return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* The bytes of f's cache. */
static inline struct buf written(struct fix *f, int n_thread)
{
    fix_write(f, path, n_thread);
    return fix_read(path);
}

/* The bytes of a default cache. */
static inline struct buf make(const char *codec)
{
    struct fix f = fix_default(codec);
    struct buf b;

    fix_init(&f);
    b = written(&f, 1);
    fix_free(&f);
    return b;
}

static inline void expect(const struct buf *b, cag_status want,
                          const char *text)
{
    cag_error err = CAG_ERROR_INIT;
    cag_status st = fix_try(b->data, b->size, true, &err);

    if (st != want || !strstr(err.msg, text))
        fail_msg("status %s \"%s\", expected %s \"%s\"", cag_status_name(st),
                 err.msg, cag_status_name(want), text);
    assert_string_equal(err.file, "x.kvc");
}

#endif
