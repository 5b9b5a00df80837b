/*
 * test_gguf.c - honest files are read; every bent one is refused with a
 * message that names what is bent, and without memory for hostile counts.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/gguf_make.h"
#include "util/mem.h"

static cag_status parse(const struct gm *m, struct gguf **g, cag_error *err)
{
    return gguf_parse(m->file.data, m->file.size, "t.gguf", g, err);
}

/* The file in m is refused, and the message holds msg. */
static void refused(struct gm *m, cag_status want, const char *msg)
{
    struct gguf *g = NULL;
    cag_error err = CAG_ERROR_INIT;
    cag_status st = parse(m, &g, &err);

    if (st != want || !strstr(err.msg, msg))
        print_message("%s: %s (wanted %s)\n", cag_status_name(st), err.msg,
                      msg);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.msg, msg));
    assert_null(g);
    gm_free(m);
}

/* The same of the file that m's parts make. */
static void bent(struct gm *m, cag_status want, const char *msg)
{
    gm_finish(m);
    refused(m, want, msg);
}

static void refused_bytes(const void *p, size_t n, cag_status want,
                          const char *msg)
{
    struct gm m;

    gm_init(&m);
    buf_add(&m.file, p, n);
    refused(&m, want, msg);
}

/* A sound file with every kind of value. */
static void sound(struct gm *m)
{
    gm_init(m);
    gm_kv_str(m, "general.architecture", "llama");
    gm_kv_u32(m, "a.u32", 4000000000u);
    gm_kv_f32(m, "a.f32", 1.5f);
    gm_key(m, "a.i8", GGUF_V_I8);
    buf_char(&m->kv, (char)-5);
    gm_key(m, "a.u64", GGUF_V_U64);
    gm_u64(&m->kv, UINT64_MAX);
    gm_key(m, "a.i64", GGUF_V_I64);
    gm_u64(&m->kv, (uint64_t)-7);
    gm_key(m, "a.f64", GGUF_V_F64);
    gm_u64(&m->kv, 0x3ff8000000000000);
    gm_key(m, "a.nan", GGUF_V_F32);
    gm_u32(&m->kv, 0x7fc00000);
    gm_key(m, "a.bool", GGUF_V_BOOL);
    buf_char(&m->kv, 1);
    gm_key(m, "a.strs", GGUF_V_ARRAY);
    gm_u32(&m->kv, GGUF_V_STR);
    gm_u64(&m->kv, 3);
    gm_str(&m->kv, "x");
    gm_str(&m->kv, "");
    gm_str(&m->kv, "yz");
    gm_key(m, "a.ints", GGUF_V_ARRAY);
    gm_u32(&m->kv, GGUF_V_I16);
    gm_u64(&m->kv, 2);
    buf_add(&m->kv, "\xff\xff\x02\x00", 4);
    gm_key(m, "a.floats", GGUF_V_ARRAY);
    gm_u32(&m->kv, GGUF_V_F32);
    gm_u64(&m->kv, 1);
    gm_u32(&m->kv, 0x40000000);
    gm_key(m, "a.empty", GGUF_V_ARRAY);
    gm_u32(&m->kv, GGUF_V_STR);
    gm_u64(&m->kv, 0);
    gm_tensor(m, "w.b", GGUF_Q4_0, 64, 3);
    gm_tensor(m, "w.a", GGUF_F32, 5, 0);
    gm_finish(m);
}

static void reads_sound(void **state)
{
    const struct gguf_tensor *t;
    struct gguf_str s = { NULL, 0 }, *strs = NULL;
    cag_error err = CAG_ERROR_INIT;
    struct gguf *g = NULL;
    struct gm m;
    int64_t i = 0, *ints = NULL;
    float f = 0, *floats = NULL;
    bool b = false;
    size_t n;

    (void)state;
    sound(&m);
    assert_int_equal(parse(&m, &g, &err), CAG_OK);
    assert_int_equal(gguf_n_kv(g), 13);
    assert_int_equal(gguf_n_tensor(g), 2);
    assert_string_equal(gguf_path(g), "t.gguf");
    assert_null(gguf_kv_at(g, 13));
    assert_null(gguf_tensor_at(g, 2));
    assert_null(gguf_find(g, "a"));
    assert_null(gguf_find_tensor(g, "w"));

    assert_int_equal(gguf_get_int(g, "a.u32", true, 0, UINT32_MAX, &i, &err),
                     CAG_OK);
    assert_int_equal(i, 4000000000u);
    assert_int_equal(gguf_get_int(g, "a.u32", true, 0, 10, &i, &err),
                     CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "a.u32 is 4000000000"));
    assert_int_equal(gguf_get_int(g, "a.i8", true, -9, 9, &i, &err), CAG_OK);
    assert_int_equal(i, -5);
    assert_int_equal(gguf_get_int(g, "a.i64", true, -9, 9, &i, &err), CAG_OK);
    assert_int_equal(i, -7);
    assert_int_equal(
        gguf_get_int(g, "a.u64", true, INT64_MIN, INT64_MAX, &i, &err),
        CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "18446744073709551615"));
    assert_int_equal(gguf_get_int(g, "a.f32", true, 0, 9, &i, &err),
                     CAG_E_FORMAT);
    assert_int_equal(gguf_get_int(g, "none", false, 0, 9, &i, &err), CAG_OK);
    assert_int_equal(i, -7);
    assert_int_equal(gguf_get_int(g, "none", true, 0, 9, &i, &err),
                     CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "none is missing"));

    assert_int_equal(gguf_get_float(g, "a.f64", true, &f, &err), CAG_OK);
    assert_true(f == 1.5f);
    assert_int_equal(gguf_get_float(g, "a.nan", true, &f, &err), CAG_E_FORMAT);
    assert_int_equal(gguf_get_bool(g, "a.bool", true, &b, &err), CAG_OK);
    assert_true(b);
    assert_int_equal(gguf_get_bool(g, "a.u32", true, &b, &err), CAG_E_FORMAT);
    assert_int_equal(gguf_get_str(g, "general.architecture", true, &s, &err),
                     CAG_OK);
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.s, "llama", 5);
    assert_int_equal(gguf_get_str(g, "a.strs", true, &s, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "array of string"));

    assert_int_equal(gguf_get_strs(g, "a.strs", true, &strs, &n, &err), CAG_OK);
    assert_int_equal(n, 3);
    assert_int_equal(strs[1].n, 0);
    assert_memory_equal(strs[2].s, "yz", 2);
    mem_free(strs);
    assert_int_equal(gguf_get_strs(g, "a.empty", true, &strs, &n, &err),
                     CAG_OK);
    assert_int_equal(n, 0);
    mem_free(strs);
    assert_int_equal(gguf_get_strs(g, "a.ints", true, &strs, &n, &err),
                     CAG_E_FORMAT);
    assert_int_equal(gguf_get_ints(g, "a.ints", true, &ints, &n, &err), CAG_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ints[0], -1);
    assert_int_equal(ints[1], 2);
    mem_free(ints);
    assert_int_equal(gguf_get_ints(g, "a.floats", true, &ints, &n, &err),
                     CAG_E_FORMAT);
    assert_int_equal(gguf_get_floats(g, "a.floats", true, &floats, &n, &err),
                     CAG_OK);
    assert_true(n == 1 && floats[0] == 2.0f);
    mem_free(floats);

    t = gguf_find_tensor(g, "w.a");
    assert_non_null(t);
    assert_int_equal(t->size_bytes, 20);
    assert_int_equal(t->dims[0], 5);
    assert_int_equal(t->dims[1], 1);
    assert_int_equal(rd_le32(t->data + 16), 0x3e800000); /* 4/16 */
    t = gguf_tensor_at(g, 0);
    assert_string_equal(t->name, "w.b");
    assert_int_equal(t->size_bytes, 64 / 32 * 18 * 3);
    gguf_close(g);
    gm_free(&m);
}

/* B57: every prefix of a good file, down to nothing. */
static void refuses_prefixes(void **state)
{
    struct gm m;
    size_t n;

    (void)state;
    sound(&m);
    for (n = 0; n < m.file.size; n++) {
        struct gguf *g = NULL;
        cag_error err = CAG_ERROR_INIT;
        uint8_t *copy = malloc(n ? n : 1); /* so that ASan sees its end */

        memcpy(copy, m.file.data, n);
        assert_int_equal(gguf_parse(copy, n, "t", &g, &err), CAG_E_FORMAT);
        assert_int_not_equal(err.msg[0], 0);
        free(copy);
    }
    gm_free(&m);
}

static void refuses_other_files(void **state)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\n"
                              "oid sha256:0000\nsize 7\n";
    (void)state;
    refused_bytes(lfs, sizeof lfs - 1, CAG_E_FORMAT, "git lfs pull");
    refused_bytes("\x10\0\0\0\0\0\0\0{\"a\":1}", 15, CAG_E_FORMAT,
                  "safetensors");
    refused_bytes("\x89KVC\r\n\x1a\n....", 12, CAG_E_FORMAT, ".kvc");
    refused_bytes("", 0, CAG_E_FORMAT, "empty");
    refused_bytes("hello, world", 12, CAG_E_FORMAT, "letters GGUF");
    refused_bytes("GGUF", 4, CAG_E_FORMAT, "ends inside");
    refused_bytes("GGUF\1\0\0\0................", 24, CAG_E_UNSUPPORTED,
                  "version 1");
    refused_bytes("GGUF\0\0\0\3................", 24, CAG_E_UNSUPPORTED,
                  "big-endian");
}

/* B58, B65: counts and lengths that promise more than the file holds. */
static void refuses_counts(void **state)
{
    static const uint64_t big[] = { 1000, (uint64_t)1 << 31, (uint64_t)1 << 60,
                                    (uint64_t)1 << 61, UINT64_MAX };
    struct rusage before, after;
    struct gm m;
    size_t i;

    (void)state;
    getrusage(RUSAGE_SELF, &before);
    for (i = 0; i < 5; i++) {
        gm_init(&m);
        m.n_tensor = big[i];
        bent(&m, CAG_E_FORMAT, i ? "n_tensors" : "do not fit");
        gm_init(&m);
        m.n_kv = big[i];
        bent(&m, CAG_E_FORMAT, i ? "n_kv" : "do not fit");

        gm_init(&m); /* key length */
        gm_u64(&m.kv, big[i]);
        buf_str(&m.kv, "a key that is short, and some filling bytes");
        m.n_kv = 1;
        bent(&m, CAG_E_FORMAT, "key is");

        gm_init(&m); /* string value */
        gm_key(&m, "k", GGUF_V_STR);
        gm_u64(&m.kv, big[i]);
        buf_str(&m.kv, "filling");
        bent(&m, CAG_E_FORMAT, "string value");

        gm_init(&m); /* array of bytes, of strings */
        gm_key(&m, "k", GGUF_V_ARRAY);
        gm_u32(&m.kv, GGUF_V_U8);
        gm_u64(&m.kv, big[i]);
        bent(&m, CAG_E_FORMAT, "key k");
        gm_init(&m);
        gm_key(&m, "k", GGUF_V_ARRAY);
        gm_u32(&m.kv, GGUF_V_STR);
        gm_u64(&m.kv, big[i]);
        gm_str(&m.kv, "one");
        bent(&m, CAG_E_FORMAT, "string value");

        gm_init(&m); /* tensor dimensions */
        gm_entry(&m, "w", GGUF_F32, 2, big[i], big[i], 0);
        bent(&m, CAG_E_FORMAT, i < 2 ? "w" : "dimension");
    }
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 50 * 1024); /* KiB */
}

static void refuses_keys(void **state)
{
    struct gm m;

    (void)state;
    gm_init(&m);
    gm_kv_u32(&m, "twice", 1);
    gm_kv_u32(&m, "once", 1);
    gm_kv_f32(&m, "twice", 1);
    bent(&m, CAG_E_FORMAT, "key twice occurs twice");
    gm_init(&m);
    gm_kv_u32(&m, "", 1);
    bent(&m, CAG_E_FORMAT, "without a name");
    gm_init(&m);
    gm_key(&m, "k", 13);
    gm_u64(&m.kv, 0);
    bent(&m, CAG_E_FORMAT, "value type");
    gm_init(&m);
    gm_key(&m, "k", GGUF_V_BOOL);
    buf_char(&m.kv, 2);
    bent(&m, CAG_E_FORMAT, "bool");
    gm_init(&m);
    gm_key(&m, "k", GGUF_V_ARRAY);
    gm_u32(&m.kv, GGUF_V_ARRAY);
    gm_u64(&m.kv, 1);
    gm_u64(&m.kv, 0);
    bent(&m, CAG_E_UNSUPPORTED, "array of arrays");
    gm_init(&m); /* a name is never shown raw */
    gm_key(&m, "\x1b[31m\n", 13);
    bent(&m, CAG_E_FORMAT, "");
}

/* B59 */
static void refuses_alignment(void **state)
{
    static const uint32_t bad[] = { 0, 1, 3, 4, 24, 1u << 31 };
    struct gm m;
    char msg[64];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        gm_init(&m);
        gm_kv_u32(&m, "general.alignment", bad[i]);
        gm_tensor(&m, "w", GGUF_F32, 4, 0);
        gm_finish(&m);
        snprintf(msg, sizeof msg, "general.alignment is %u", bad[i]);
        refused(&m, CAG_E_FORMAT, msg);
    }
    gm_init(&m);
    gm_kv_str(&m, "general.alignment", "32");
    bent(&m, CAG_E_FORMAT, "general.alignment is of type string");
    for (i = 8; i <= 4096; i *= 2) {
        struct gguf *g = NULL;
        cag_error err = CAG_ERROR_INIT;

        gm_init(&m);
        m.align = i;
        gm_kv_u32(&m, "general.alignment", (uint32_t)i);
        gm_tensor(&m, "v", GGUF_F32, 1, 0);
        gm_tensor(&m, "w", GGUF_F32, 4, 0);
        gm_finish(&m);
        assert_int_equal(parse(&m, &g, &err), CAG_OK);
        gguf_close(g);
        gm_free(&m);
    }
}

/* B61, B63 and what else a tensor table can say wrong */
static void refuses_tensors(void **state)
{
    static const uint32_t dims[] = { 0, 5, 9, 0x80000000u };
    struct gm m;
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        gm_init(&m);
        gm_entry(&m, "w", GGUF_F32, dims[i], 4, 1, 0);
        gm_finish(&m);
        buf_add(&m.file, "0123456789abcdef0123456789abcdef", 32);
        refused(&m, CAG_E_FORMAT, "n_dims");
    }
    gm_init(&m); /* end beyond the file */
    gm_tensor(&m, "v", GGUF_F32, 8, 0);
    gm_entry(&m, "blk.0.w", GGUF_F32, 1, 16, 0, 32);
    bent(&m, CAG_E_FORMAT, "tensor blk.0.w");
    gm_init(&m);
    gm_tensor(&m, "v", GGUF_F32, 8, 0);
    gm_entry(&m, "blk.0.w", GGUF_F32, 1, 1, 0, (uint64_t)1 << 63);
    bent(&m, CAG_E_FORMAT, "tensor blk.0.w");
    gm_init(&m); /* one byte short */
    gm_tensor(&m, "last.one", GGUF_F32, 8, 0);
    gm_finish(&m);
    m.file.size--;
    refused(&m, CAG_E_FORMAT, "tensor last.one");
    gm_init(&m); /* offset between the steps */
    gm_tensor(&m, "v", GGUF_F32, 64, 0);
    gm_entry(&m, "w", GGUF_F32, 1, 1, 0, 36);
    bent(&m, CAG_E_FORMAT, "multiple of the alignment");
    gm_init(&m);
    gm_tensor(&m, "v", GGUF_F32, 64, 0);
    gm_entry(&m, "w", GGUF_F32, 1, 1, 0, 32);
    bent(&m, CAG_E_FORMAT, "overlaps");
    gm_init(&m);
    gm_tensor(&m, "v", GGUF_F32, 8, 0);
    gm_tensor(&m, "v", GGUF_F32, 8, 0);
    bent(&m, CAG_E_FORMAT, "tensor v occurs twice");
    gm_init(&m);
    gm_tensor(&m, "", GGUF_F32, 8, 0);
    bent(&m, CAG_E_FORMAT, "empty");
    gm_init(&m); /* half a block */
    gm_entry(&m, "w", GGUF_Q4_K, 1, 128, 0, 0);
    bent(&m, CAG_E_FORMAT, "not a multiple of 256");
    gm_init(&m);
    gm_entry(&m, "blk.3.w", 10, 1, 256, 0, 0);
    bent(&m, CAG_E_UNSUPPORTED, "tensor blk.3.w has type 10 (Q2_K)");
    gm_init(&m);
    gm_entry(&m, "blk.3.w", 99, 1, 256, 0, 0);
    bent(&m, CAG_E_UNSUPPORTED, "type 99");
}

/* Every allocation fails in turn: an error, no leak. */
static void survives_oom(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct gguf *g = NULL;
    struct gm m;
    int64_t n, live;
    cag_status st;

    (void)state;
    sound(&m);
    live = mem_live();
    for (n = 1;; n++) {
        mem_fault(n, false);
        st = parse(&m, &g, &err);
        mem_fault(0, false);
        if (st == CAG_OK)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n > 2);
    gguf_close(g);
    assert_int_equal(mem_live(), live);
    gm_free(&m);
}

/* A model in two files, written below dir. */
static void put_parts(const char *dir, char path[2][128])
{
    for (int i = 0; i < 2; i++) {
        struct gm m;
        FILE *f;

        gm_init(&m);
        if (i == 0)
            gm_kv_str(&m, "general.architecture", "llama");
        gm_kv_u32(&m, "split.no", (uint32_t)i);
        gm_kv_u32(&m, "split.count", 2);
        gm_kv_u32(&m, "split.tensors.count", 3);
        gm_tensor(&m, i ? "a" : "b", GGUF_F32, 8, 0);
        if (i)
            gm_tensor(&m, "c", GGUF_F32, 8, 2);
        gm_finish(&m);
        snprintf(path[i], sizeof path[i], "%s/m-%05d-of-00002.gguf", dir,
                 i + 1);
        f = fopen(path[i], "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(m.file.data, 1, m.file.size, f), m.file.size);
        fclose(f);
        gm_free(&m);
    }
}

/* Both files are read whichever is named, and every allocation may fail. */
static void parts(void **state)
{
    char dir[] = "/tmp/cag-gguf-XXXXXX", path[2][128];
    cag_error err = CAG_ERROR_INIT;
    struct gguf *g = NULL;
    int64_t live = mem_live();
    int no, count;

    (void)state;
    assert_non_null(mkdtemp(dir));
    put_parts(dir, path);
    for (int i = 0; i < 2; i++) {
        cag_status st = CAG_E_NOMEM;
        int64_t n = 1;

        for (; st == CAG_E_NOMEM; n++) {
            mem_fault(n, false);
            st = gguf_open(path[i], &g, &err);
            mem_fault(0, false);
            assert_true(st == CAG_E_NOMEM ? mem_live() == live : !st);
        }
        assert_true(n > 5);
        assert_int_equal(gguf_n_file(g), 2);
        assert_string_equal(gguf_file(g, 1), path[1]);
        assert_string_equal(gguf_path(g), path[0]);
        assert_int_equal(gguf_n_tensor(g), 3);
        assert_string_equal(gguf_find_tensor(g, "c")->file, path[1]);
        assert_string_equal(gguf_find_tensor(g, "b")->file, path[0]);
        assert_non_null(gguf_find(g, "general.architecture"));
        gguf_close(g);
    }
    assert_false(gguf_part_name("-00001-of-00002.gguf", &no, &count));
    assert_false(gguf_part_name("d/-00001-of-00002.gguf", &no, &count));
    assert_false(gguf_part_name("m-00003-of-00002.gguf", &no, &count));
    assert_false(gguf_part_name("m-00001-of-00001.gguf", &no, &count));
    assert_false(gguf_part_name("m-0000x-of-00002.gguf", &no, &count));
    assert_true(gguf_part_name("m-00002-of-00012.gguf", &no, &count));
    assert_int_equal(no + count, 14);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(dir);
}

static void names_types(void **state)
{
    int e, b;

    (void)state;
    assert_string_equal(gguf_type_name(GGUF_Q4_1), "Q4_1");
    assert_string_equal(gguf_type_name(-1), "unknown");
    assert_string_equal(gguf_type_name(31), "unknown");
    assert_string_equal(gguf_type_name(1000), "unknown");
    assert_true(gguf_type_block(GGUF_Q6_K, &e, &b));
    assert_int_equal(e, 256);
    assert_int_equal(b, 210);
    assert_false(gguf_type_block(10, &e, &b));
    assert_false(gguf_type_block(-1, &e, &b));
}

static void opens_files(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    struct gguf *g = NULL;

    (void)state;
    assert_int_equal(gguf_open("tests/golden/models/llama.Q4_1.gguf", &g, &err),
                     CAG_OK);
    assert_int_equal(gguf_find_tensor(g, "blk.1.attn_q.weight")->type,
                     GGUF_Q4_1);
    assert_true(gguf_file_id(g, 0)->size_bytes > 100000);
    gguf_close(g);
    g = NULL;
    assert_int_equal(gguf_open("tests/golden/models", &g, &err), CAG_E_MISSING);
    assert_int_equal(gguf_open("tests/none.gguf", &g, &err), CAG_E_MISSING);
    assert_null(g);
    gguf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_counts),
        cmocka_unit_test(reads_sound),
        cmocka_unit_test(refuses_prefixes),
        cmocka_unit_test(refuses_other_files),
        cmocka_unit_test(refuses_keys),
        cmocka_unit_test(refuses_alignment),
        cmocka_unit_test(refuses_tensors),
        cmocka_unit_test(survives_oom),
        cmocka_unit_test(names_types),
        cmocka_unit_test(opens_files),
        cmocka_unit_test(parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
