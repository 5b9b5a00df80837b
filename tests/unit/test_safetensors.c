/*
 * test_safetensors.c - one file, shards with an index, and what is refused.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf.h"
#include "format/safetensors.h"
#include "util/buf.h"
#include "util/mem.h"
#include "util/rd.h"

/* length, header, then n_data bytes 0, 1, 2, ... */
static void make(struct buf *b, const char *header, size_t n_data)
{
    uint8_t len[8];
    size_t i;

    buf_clear(b);
    rd_put64(len, strlen(header));
    buf_add(b, len, 8);
    buf_str(b, header);
    for (i = 0; i < n_data; i++)
        buf_char(b, (char)i);
}

static void refused_bytes(const void *data, size_t n, cag_status want,
                          const char *msg)
{
    cag_error err = CAG_ERROR_INIT;
    struct st *s = NULL;
    uint8_t *copy = malloc(n ? n : 1); /* so that ASan sees its end */
    cag_status st;

    memcpy(copy, data, n);
    st = st_parse(copy, n, "m.safetensors", &s, &err);
    free(copy);
    if (st != want || !strstr(err.msg, msg))
        print_message("%s: %s (wanted %s)\n", cag_status_name(st), err.msg,
                      msg);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.msg, msg));
    assert_null(s);
}

static void refused(const char *header, size_t n_data, cag_status want,
                    const char *msg)
{
    struct buf b = BUF_INIT;

    make(&b, header, n_data);
    refused_bytes(b.data, b.size, want, msg);
    buf_free(&b);
}

static void reads_one(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"c\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[4,4]}} ";
    cag_error err = CAG_ERROR_INIT;
    const struct st_tensor *t;
    struct buf b = BUF_INIT;
    struct st *s = NULL;

    (void)state;
    make(&b, header, 16);
    assert_int_equal(st_parse(b.data, b.size, "x/m.safetensors", &s, &err),
                     CAG_OK);
    assert_int_equal(st_n_tensor(s), 3);
    assert_int_equal(st_n_file(s), 1);
    assert_string_equal(st_file(s, 0), "x/m.safetensors");
    assert_null(st_file(s, 1));
    t = st_find(s, "b");
    assert_int_equal(t->type, GGUF_BF16);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 2);
    assert_int_equal(t->dims[1], 3);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->size_bytes, 12);
    assert_int_equal(t->data[0], 4); /* at an odd address or not */
    assert_int_equal(st_find(s, "a")->n_dims, 0);
    assert_int_equal(st_find(s, "c")->size_bytes, 0);
    assert_null(st_find(s, "__metadata__"));
    assert_string_equal(st_at(s, 0)->name, "a");
    assert_null(st_at(s, 3));
    st_close(s);
    buf_free(&b);
    st_close(NULL);
}

/* B67: the length of the header */
static void refuses_lengths(void **state)
{
    static const struct {
        uint64_t len;
        const char *msg;
    } bad[] = {
        { UINT64_MAX, "100 MB" }, { (uint64_t)1 << 40, "100 MB" },
        { 100000001, "100 MB" },  { 100000000, "in a file of" },
        { 24, "in a file of" },   { 17, "in a file of" },
        { 0, "begin with" },      { 1, "begin with" },
    };
    uint8_t file[24] = "........{\"a\":1}        ";
    struct rusage before, after;
    size_t i;

    (void)state;
    getrusage(RUSAGE_SELF, &before);
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        rd_put64(file, bad[i].len);
        refused_bytes(file, sizeof file, CAG_E_FORMAT, bad[i].msg);
    }
    for (i = 0; i < 8; i++)
        refused_bytes(file, i, CAG_E_FORMAT, i ? "ends inside" : "empty");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 50 * 1024); /* KiB */
}

static void refuses_headers(void **state)
{
    (void)state;
    refused("{\"a\":", 0, CAG_E_FORMAT, "");
    refused("[1]", 0, CAG_E_FORMAT, "begin with");
    refused("{\"a\":1}x", 0, CAG_E_FORMAT, "");
    refused("{\"a\":1}", 0, CAG_E_FORMAT, "tensor a: no dtype");
    refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, CAG_E_FORMAT,
            "no dtype");
    refused("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],"
            "\"data_offsets\":[0,8]}}",
            8, CAG_E_UNSUPPORTED, "tensor a has dtype F64");
    refused("{\"a\":{\"dtype\":\"I8\",\"shape\":[1],"
            "\"data_offsets\":[0,1]}}",
            1, CAG_E_UNSUPPORTED, "I8");
    refused("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
            CAG_E_FORMAT, "no shape");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],"
            "\"data_offsets\":[0,4]}}",
            4, CAG_E_FORMAT, "dimension 0");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],"
            "\"data_offsets\":[0,4]}}",
            4, CAG_E_FORMAT, "dimension 0");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],"
            "\"data_offsets\":[0,4]}}",
            4, CAG_E_UNSUPPORTED, "5 dimensions");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
            "\"data_offsets\":[0,0]}}",
            4, CAG_E_FORMAT, "overflows");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],"
            "\"data_offsets\":[0,0]}}",
            4, CAG_E_FORMAT, "overflows");
    refused("{\"\":{\"dtype\":\"F32\",\"shape\":[1],"
            "\"data_offsets\":[0,4]}}",
            4, CAG_E_FORMAT, "empty");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
            8, CAG_E_FORMAT, "");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
            8, CAG_E_FORMAT, "tensor b overlaps");
}

/* P12: every byte of the data belongs to a tensor */
static void refuses_bytes_of_nobody(void **state)
{
    static const char two[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[%d,%d]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}}";
    static const struct {
        int a, e, b, n;
        const char *msg;
    } bad[] = {
        { 0, 0, 8, 13, "bytes 12 to 12 of the data belong to no tensor" },
        { 0, 12, 8, 16, "bytes 12 to 15 of the data belong to no tensor" },
        { 0, 8, 9, 13, "bytes 8 to 8 of the data belong to no tensor" },
        { 8, 4, 0, 16, "bytes 4 to 7 of the data belong to no tensor" },
        { 4, 0, 12, 16, "bytes 0 to 3 of the data belong to no tensor" },
    };
    static const int good[][3] = { { 0, 0, 8 }, { 4, 2, 0 }, { 0, 12, 8 } };
    struct buf b = BUF_INIT;
    struct st *s = NULL;
    char header[400];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(header, sizeof header, two, bad[i].a, bad[i].a + 8, bad[i].e,
                 bad[i].e, bad[i].b, bad[i].b + 4);
        refused(header, (size_t)bad[i].n, CAG_E_FORMAT, bad[i].msg);
    }
    refused("{}", 4, CAG_E_FORMAT, "bytes 0 to 3 of the data");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(header, sizeof header, two, good[i][0], good[i][0] + 8,
                 good[i][1], good[i][1], good[i][2], good[i][2] + 4);
        buf_clear(&b);
        make(&b, header, 12);
        assert_int_equal(st_parse(b.data, b.size, "g", &s, NULL), CAG_OK);
        st_close(s);
    }
    buf_free(&b);
}

/* B68 */
static void refuses_offsets(void **state)
{
    static const struct {
        const char *off, *msg;
    } bad[] = {
        { "[16,8]", "reversed" },
        { "[-8,8]", "two whole numbers" },
        { "[0]", "two whole numbers" },
        { "[8,8]", "its shape needs 8" },
        { "[0,18446744073709551615]", "" },
        { "[0,24]", "beyond" },
        { "[0,9223372036854775807]", "beyond" },
        { "[0,7]", "its shape needs 8" },
        { "[0,8,9]", "two whole numbers" },
        { "{}", "two whole numbers" },
        { "null", "two whole numbers" },
        { "[\"0\",8]", "two whole numbers" },
    };
    char header[160];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(header, sizeof header,
                 "{\"w.1\":{\"dtype\":\"F32\","
                 "\"shape\":[2],\"data_offsets\":%s}}",
                 bad[i].off);
        refused(header, 16, CAG_E_FORMAT, bad[i].msg);
    }
}

static void refuses_other_files(void **state)
{
    static const char lfs[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24"
        "d17e2393\nsize 12345\n";
    (void)state;
    refused_bytes(lfs, sizeof lfs - 1, CAG_E_FORMAT, "git lfs pull");
    refused_bytes("GGUF\3\0\0\0........", 16, CAG_E_FORMAT, "GGUF model");
}

/* ---------------------------------------------------------------- shards */

struct dir {
    char path[64];
};

static void put(const struct dir *d, const char *name, const void *data,
                size_t n)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", d->path, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put_shard(const struct dir *d, const char *name, const char *tensor)
{
    struct buf b = BUF_INIT;
    char header[128];

    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],"
             "\"data_offsets\":[0,4]}}",
             tensor);
    make(&b, header, 4);
    put(d, name, b.data, b.size);
    buf_free(&b);
}

static void put_index(const struct dir *d, const char *map)
{
    char text[512];

    snprintf(text, sizeof text,
             "{\"metadata\":{\"total_size\":8},"
             "\"weight_map\":%s}",
             map);
    put(d, "model.safetensors.index.json", text, strlen(text));
}

static int make_dir(void **state)
{
    static struct dir d;

    snprintf(d.path, sizeof d.path, "/tmp/cag-st-XXXXXX");
    *state = &d;
    return mkdtemp(d.path) ? 0 : -1;
}

static int remove_dir(void **state)
{
    static const char *const names[] = { "model.safetensors", "b-1", "a-2",
                                         "model.safetensors.index.json" };
    const struct dir *d = *state;
    char path[128];
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", d->path, names[i]);
        unlink(path);
    }
    return rmdir(d->path);
}

static void dir_refused(const struct dir *d, cag_status want, const char *msg)
{
    cag_error err = CAG_ERROR_INIT;
    struct st *s = NULL;
    cag_status st = st_open(d->path, &s, &err);

    if (st != want || !strstr(err.msg, msg))
        print_message("%s: %s (wanted %s)\n", cag_status_name(st), err.msg,
                      msg);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.msg, msg));
    assert_null(s);
}

static void reads_shards(void **state)
{
    const struct dir *d = *state;
    cag_error err = CAG_ERROR_INIT;
    struct st *s = NULL;

    dir_refused(d, CAG_E_MISSING, "model.safetensors.index.json");
    put_shard(d, "b-1", "x");
    put_shard(d, "a-2", "y");
    put_index(d, "{\"x\":\"b-1\",\"y\":\"a-2\"}");
    assert_int_equal(st_open(d->path, &s, &err), CAG_OK);
    assert_int_equal(st_n_file(s), 2);
    assert_non_null(strstr(st_file(s, 0), "/a-2"));
    assert_non_null(strstr(st_file(s, 1), "/b-1"));
    assert_non_null(strstr(st_find(s, "x")->file, "/b-1"));
    assert_true(st_file_id(s, 1)->size_bytes > 8);
    assert_null(st_file_id(s, 2));
    st_close(s);
}

/* B73 and its kin */
static void refuses_shards(void **state)
{
    const struct dir *d = *state;

    put_shard(d, "b-1", "x");
    put_index(d, "{\"x\":\"b-1\",\"y\":\"a-2\"}");
    dir_refused(d, CAG_E_MISSING, "shard a-2 is missing");
    put_shard(d, "a-2", "z");
    dir_refused(d, CAG_E_FORMAT, "tensor y is not in the shard a-2");
    put_index(d, "{\"x\":\"b-1\",\"z\":\"b-1\"}");
    dir_refused(d, CAG_E_FORMAT, "tensor z is not in the shard b-1");
    put_index(d, "{\"x\":\"a-2\",\"z\":\"a-2\"}");
    dir_refused(d, CAG_E_FORMAT, "tensor x is not in the shard a-2");
    put_shard(d, "a-2", "x");
    put_index(d, "{\"x\":\"b-1\",\"y\":\"a-2\"}");
    dir_refused(d, CAG_E_FORMAT, "tensor x occurs in two shards");
    put_index(d, "{\"x\":\"../b-1\"}");
    dir_refused(d, CAG_E_FORMAT, "expected a file name");
    put_index(d, "{\"x\":1}");
    dir_refused(d, CAG_E_FORMAT, "expected a file name");
    put_index(d, "{}");
    dir_refused(d, CAG_E_FORMAT, "no weight_map");
    put_index(d, "[");
    dir_refused(d, CAG_E_FORMAT, "");
    put(d, "b-1", "version https://git-lfs.github.com/spec/v1\n", 43);
    put_index(d, "{\"x\":\"b-1\"}");
    dir_refused(d, CAG_E_FORMAT, "git lfs pull");
    put_shard(d, "b-1", "x");
    put_shard(d, "model.safetensors", "single"); /* wins over the index */
    {
        cag_error err = CAG_ERROR_INIT;
        struct st *s = NULL;

        assert_int_equal(st_open(d->path, &s, &err), CAG_OK);
        assert_non_null(st_find(s, "single"));
        st_close(s);
    }
}

static void survives_oom(void **state)
{
    const struct dir *d = *state;
    cag_error err = CAG_ERROR_INIT;
    struct st *s = NULL;
    int64_t n, live;
    cag_status st;

    put_shard(d, "b-1", "x");
    put_shard(d, "a-2", "y");
    put_index(d, "{\"x\":\"b-1\",\"y\":\"a-2\"}");
    live = mem_live();
    for (n = 1;; n++) {
        mem_fault(n, false);
        st = st_open(d->path, &s, &err);
        mem_fault(0, false);
        if (st == CAG_OK)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n > 10);
    st_close(s);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_lengths),
        cmocka_unit_test(reads_one),
        cmocka_unit_test(refuses_headers),
        cmocka_unit_test(refuses_offsets),
        cmocka_unit_test(refuses_bytes_of_nobody),
        cmocka_unit_test(refuses_other_files),
        cmocka_unit_test_setup_teardown(reads_shards, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(refuses_shards, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(survives_oom, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
