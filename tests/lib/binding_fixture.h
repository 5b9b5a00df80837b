/*
 * binding_fixture.h - a cache (kvc_fixture.h) that records sources, a model
 * and the build as the test says, in the scratch directory (scratch.h).
 */
#ifndef TESTS_BINDING_FIXTURE_H
#define TESTS_BINDING_FIXTURE_H

#include "tests/lib/kvc_fixture.h"
#include "tests/lib/scratch.h"

struct bind_source {
    const char *path, *group; /* relative to the cache, or NULL */
};

static inline void bind_sha(const char *path, char hex[65])
{
    struct buf b = BUF_INIT;
    uint8_t d[SHA256_SIZE];

    assert_int_equal(file_read(path, SIZE_MAX, &b, NULL), CAG_OK);
    assert_int_equal(sha256_buf(b.data ? b.data : "", b.size, d, NULL), CAG_OK);
    hash_hex(d, sizeof d, hex);
    buf_free(&b);
}

/* The files of v are there, seen from dir. */
static inline jv *bind_srcs(const struct fix *f, const char *dir,
                            const struct bind_source *v, int n)
{
    struct buf b = BUF_INIT;
    jv *list;

    buf_char(&b, '[');
    for (int i = 0; i < n; i++) {
        char hex[65], group[200] = "null";
        char *place = file_join(dir, v[i].path);
        struct file_id id;

        bind_sha(place, hex);
        assert_int_equal(file_stat(place, &id, NULL), CAG_OK);
        if (v[i].group)
            snprintf(group, sizeof group, "\"%s\"", v[i].group);
        buf_printf(&b,
                   "%s{\"filter\":null,\"group\":%s,\"name\":\"%s\","
                   "\"path\":\"%s\",\"sha256_raw\":\"%s\","
                   "\"sha256_text\":\"%s\",\"size_bytes\":%d,\"text_off\":%d,"
                   "\"text_bytes\":1,\"tok_begin\":%d,\"tok_end\":%d}",
                   i ? "," : "", group, v[i].path, v[i].path, hex, hex,
                   (int)id.size_bytes, 4 + i, i, i);
        mem_free(place);
    }
    buf_char(&b, ']');
    assert_false(buf_failed(&b));
    assert_true((size_t)n + 8 < f->text_size);
    list = fix_json(b.data);
    buf_free(&b);
    return list;
}

/* Write the cache at path; build and model are JSON objects, or NULL for those
 * of the fixture. */
static inline void bind_write(const char *path, const struct bind_source *v,
                              int n, const char *build, const char *model)
{
    struct fix f = fix_default("f16");
    char *dir = file_dirname(path);

    fix_init(&f);
    jv_free(f.srcs);
    f.srcs = bind_srcs(&f, dir, v, n);
    if (build)
        assert_true(jv_set(f.meta, "build", fix_json(build)));
    if (model)
        assert_true(jv_set(f.meta, "model", fix_json(model)));
    fix_write(&f, path, 1);
    fix_free(&f);
    mem_free(dir);
}

static inline cag_kvc *bind_open(const char *path)
{
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;

    if (cag_kvc_open(path, &k, &err) != CAG_OK)
        fail_msg("%s", err.msg);
    return k;
}

#endif
