/*
 * test_kvc_write.c - what kvc_write puts on disk: determinism, refusal of bad
 * descriptions, failures that leave nothing, golden files.
 */
#include "tests/lib/kvc_test.h"

#include <errno.h>

/* The same inputs give the same bytes, whatever computes them. */
static void same_bytes_on_any_threads(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct fix f = fix_default(codecs[i]);
        struct buf one;

        fix_init(&f);
        one = written(&f, 1);
        for (int n = 2; n <= 3; n++) {
            struct buf b;

            b = written(&f, n);
            assert_int_equal(b.size, one.size);
            assert_memory_equal(b.data, one.data, one.size);
            buf_free(&b);
        }
        assert_int_equal(fix_try(one.data, one.size, true, NULL), CAG_OK);
        buf_free(&one);
        fix_free(&f);
    }
}

/* B38: no pre-allocated tail is saved; B40: the size uses KV heads. */
static void size_follows_tokens(void **state)
{
    (void)state;
    struct fix f = { .codec = "f16" };
    struct kvc_desc d;
    struct buf b;

    f.shape = (struct kvc_shape){ 30, 3, 64, KVC_CLASS_F16, 3, 0 };
    fix_init(&f);
    b = written(&f, 2);
    d = fix_desc(&f);
    /* one tile of 64 positions per layer and head: 30 * 2 * 3 * 64 * 64 * 2 */
    assert_true(b.size < 1474560 + 65536);
    assert_true(b.size <= kvc_size_bound(&d));
    buf_free(&b);
    fix_free(&f);
}

static void bound_holds(void **state)
{
    (void)state;
    static const int n_tok[] = { 1, 63, 64, 65, 1000 };

    for (int i = 0; i < N_CODEC; i++)
        for (size_t j = 0; j < sizeof n_tok / sizeof *n_tok; j++) {
            struct fix f = fix_default(codecs[i]);
            struct kvc_desc d;
            struct buf b;

            if (n_tok[j] == 1 && strcmp(codecs[i], "q8h") == 0)
                continue; /* nothing to measure */
            f.shape.n_tok = n_tok[j];
            f.shape.chunk_tok = 128;
            fix_init(&f);
            b = written(&f, 2);
            d = fix_desc(&f);
            assert_true(b.size <= kvc_size_bound(&d));
            assert_int_equal(kvc_check_space(path, &d, NULL), CAG_OK);
            assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
            buf_free(&b);
            fix_free(&f);
        }
}

static void no_space_says_both_numbers(void **state)
{
    (void)state;
    struct fix f = fix_default("f16");
    struct kvc_desc d;
    cag_error err = CAG_ERROR_INIT;

    fix_init(&f);
    d = fix_desc(&f);
    d.shape =
        (struct kvc_shape){ 1024, 1024, 1024, KVC_CLASS_F16, KVC_MAX_TOK, 64 };
    assert_int_equal(kvc_check_space(path, &d, &err), CAG_E_CREATE);
    assert_int_equal(err.sys, ENOSPC);
    assert_non_null(strstr(err.msg, "MiB free"));
    fix_free(&f);
}

/* ---------------------------------------------------- refused descriptions */

static void expect_refused(const struct kvc_desc *d, cag_status want,
                           const char *text)
{
    struct pool *pool = NULL;
    cag_error err = CAG_ERROR_INIT;

    assert_int_equal(pool_new(&pool, 1, &err), CAG_OK);
    assert_int_equal(kvc_write(path, d, -1, pool, &err), want);
    if (!strstr(err.msg, text))
        fail_msg("message is \"%s\", expected \"%s\"", err.msg, text);
    assert_false(file_exists(path));
    pool_free(pool);
}

static void refuses_bad_descriptions(void **state)
{
    (void)state;
    struct fix f = fix_default("f16");
    struct kvc_desc d;
    int32_t id;
    int64_t off;
    jv *meta;

    fix_init(&f);
    d = fix_desc(&f);
    d.codec = "q4h";
    expect_refused(&d, CAG_E_USAGE, "unknown KV codec \"q4h\"");
    d.codec = "f32";
    expect_refused(&d, CAG_E_USAGE, "takes elements of class f32, not f16");
    d = fix_desc(&f);
    d.receipt = fix_receipt;
    expect_refused(&d, CAG_E_USAGE, "codec f16 loses nothing");
    d.receipt = NULL;
    d.codec = "q8h";
    d.shape.kv_class = KVC_CLASS_Q8H;
    expect_refused(&d, CAG_E_USAGE, "codec q8h needs a receipt");
    d = fix_desc(&f);
    d.shape.d_head = 12;
    expect_refused(&d, CAG_E_USAGE, "d_head is 12");
    d = fix_desc(&f);
    d.shape.n_tok = 0;
    expect_refused(&d, CAG_E_USAGE, "n_tok is 0, expected 1..");
    d = fix_desc(&f);
    d.n_ids--;
    expect_refused(&d, CAG_E_USAGE, "149 ids for 150 tokens");
    d = fix_desc(&f);
    d.shape.chunk_tok = 96;
    expect_refused(&d, CAG_E_USAGE, "chunk_tok is 96");
    id = f.ids[3];
    f.ids[3] = FIX_VOCAB;
    d = fix_desc(&f);
    expect_refused(&d, CAG_E_USAGE, "id 3 is 500, the vocabulary has 500");
    f.ids[3] = id;
    off = f.off[5];
    f.off[5] = f.off[4] - 1;
    expect_refused(&d, CAG_E_USAGE, "byte offset of id 5");
    f.off[5] = off;
    f.text[6] = (char)0xff;
    expect_refused(&d, CAG_E_USAGE, "not UTF-8");
    fix_free(&f);

    f = fix_default("f16");
    fix_init(&f);
    d = fix_desc(&f);
    meta = f.meta;
    f.meta = fix_json("{\"binding\":{}}");
    d.meta = f.meta;
    expect_refused(&d, CAG_E_USAGE, "META: build is missing");
    jv_free(f.meta);
    f.meta = meta;
    d = fix_desc(&f);
    jv_remove(f.prmt, "suffix");
    expect_refused(&d, CAG_E_USAGE, "PRMT: suffix is missing");
    assert_true(jv_set_int(f.prmt, "suffix", 3));
    expect_refused(&d, CAG_E_USAGE, "PRMT: suffix is");
    fix_free(&f);
}

static void refuses_bad_optional_sections(void **state)
{
    (void)state;
    struct fix f = fix_default("f16");
    struct kvc_desc d;
    struct kvc_extra two[2] = { { "NGRM", "x", 1 }, { "NGRM", "y", 1 } };

    fix_init(&f);
    d = fix_desc(&f);
    d.extra = two;
    d.n_extra = 2;
    expect_refused(&d, CAG_E_USAGE, "optional section 1");
    memcpy(two[1].name, "META", 5);
    expect_refused(&d, CAG_E_USAGE, "optional section 1");
    memcpy(two[1].name, "abc", 4);
    expect_refused(&d, CAG_E_USAGE, "optional section 1");
    memcpy(two[1].name, "RCPT", 5);
    expect_refused(&d, CAG_E_USAGE, "optional section 1");
    d.n_extra = 33;
    expect_refused(&d, CAG_E_LIMIT, "33 optional sections");
    fix_free(&f);
}

/* ------------------------------------------------------------- failures */

static bool stop(void *ctx, const cag_progress *p)
{
    (void)ctx;
    return p->done >= p->total;
}

/* B34: a write that fails, whichever, leaves the old file. */
static void every_failed_write_is_noticed(const struct kvc_desc *d,
                                          struct pool *pool,
                                          const struct buf *old)
{
    cag_status st = CAG_E_IO;
    int64_t n;

    for (n = 1; st != CAG_OK; n++) {
        struct buf now;

        file_fault(n, ENOSPC);
        st = kvc_write(path, d, -1, pool, NULL);
        file_fault(0, 0);
        assert_true(n < 200);
        now = fix_read(path);
        assert_int_equal(now.size, old->size);
        assert_memory_equal(now.data, old->data, old->size);
        buf_free(&now);
    }
    assert_true(n > 2); /* some did fail */
}

/* A failing chunk, a cancelled run, another content id: nothing is left. */
static void failure_keeps_the_old_file(void **state)
{
    (void)state;
    struct fix f = fix_default("f16z");
    struct kvc_desc d;
    struct pool *pool = NULL;
    struct buf old;
    cag_error err = CAG_ERROR_INIT;

    fix_init(&f);
    old = written(&f, 1);
    assert_int_equal(pool_new(&pool, 1, &err), CAG_OK);
    d = fix_desc(&f);
    f.fail_at = 4;
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_E_UNSUPPORTED);
    assert_string_equal(err.msg, "layer 1 overflows f16");
    f.fail_at = -1;
    d.progress = stop;
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_E_CANCELLED);
    d.progress = NULL;
    d.expect_content_id = "00";
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_E_CORRUPT);
    d.expect_content_id = NULL;
    every_failed_write_is_noticed(&d, pool, &old);
    pool_free(pool);
    buf_free(&old);
    fix_free(&f);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct fix f = fix_default(codecs[i]);
        struct kvc_desc d;
        struct pool *pool = NULL;
        cag_error err = CAG_ERROR_INIT;
        int64_t live;

        f.shape.n_tok = 70;
        f.shape.n_kv_head = 1;
        fix_init(&f);
        d = fix_desc(&f);
        assert_int_equal(pool_new(&pool, 1, &err), CAG_OK);
        live = mem_live();
        for (int64_t n = 1;; n++) {
            cag_status st;

            mem_fault(n, false);
            st = kvc_write(path, &d, -1, pool, &err);
            mem_fault(0, false);
            assert_int_equal(mem_live(), live);
            if (st == CAG_OK)
                break;
            if (st != CAG_E_NOMEM)
                fail_msg("allocation %lld: status %d: %s", (long long)n, st,
                         err.msg);
            if (file_exists(path)) {
                /* out of memory behind the rename: whole, or not there */
                struct buf b = fix_read(path);

                assert_int_equal(fix_try(b.data, b.size, true, &err), CAG_OK);
                buf_free(&b);
                fix_unlink(dir, "a.kvc");
            }
            assert_true(n < 5000);
        }
        fix_unlink(dir, "a.kvc");
        pool_free(pool);
        fix_free(&f);
    }
}

/* --------------------------------------------------------------- receipt */

/* A measurement that fails, or gives what no reader takes, leaves the old
 * file; so does every write that fails behind it. */
static void a_bad_receipt_leaves_the_old_file(void **state)
{
    (void)state;
    struct fix f = fix_default("q8h");
    struct kvc_desc d;
    struct pool *pool = NULL;
    struct buf old;
    cag_error err = CAG_ERROR_INIT;

    fix_init(&f);
    old = written(&f, 1);
    d = fix_desc(&f);
    assert_int_equal(pool_new(&pool, 2, &err), CAG_OK);
    f.fail_at = FIX_FAIL_RECEIPT;
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_E_LIMIT);
    assert_string_equal(err.msg, "the loss is too high");
    f.fail_at = FIX_BAD_RECEIPT;
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_E_USAGE);
    assert_non_null(strstr(err.msg, "RCPT: kl.mean is missing or wrong"));
    f.fail_at = -1;
    every_failed_write_is_noticed(&d, pool, &old);
    pool_free(pool);
    buf_free(&old);
    fix_free(&f);
}

/* ---------------------------------------------------------------- golden */

static struct fix golden(const char *codec)
{
    struct fix f = { .codec = codec };

    f.shape = (struct kvc_shape){ 2, 1, 40, KVC_CLASS_F16, 70, 64 };
    if (strcmp(codec, "f32") == 0) {
        f.shape.kv_class = KVC_CLASS_F32;
        f.shape.d_head = 8;
    }
    if (strcmp(codec, "q8h") == 0)
        f.shape.kv_class = KVC_CLASS_Q8H;
    fix_add_extra(&f, "NGRM", "{}");
    return f;
}

/*
 * Files of every released version stay readable, and plain codecs still give
 * the same bytes.  zstd's may differ between its versions: f16z is compared
 * by content.  Recorded by CAG_GOLDEN_WRITE=1 build/release/tests/unit/...
 */
static void golden_files(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct fix f = golden(codecs[i]);
        char file[64];
        struct buf want, have;
        cag_kvc *a = NULL, *b = NULL;
        cag_error err = CAG_ERROR_INIT;

        snprintf(file, sizeof file, "tests/golden/kvc/v1.0-%s.kvc", codecs[i]);
        fix_init(&f);
        if (getenv("CAG_GOLDEN_WRITE"))
            fix_write(&f, file, 1);
        fix_write(&f, path, 1);
        want = fix_read(file);
        have = fix_read(path);
        assert_int_equal(fix_try(want.data, want.size, true, &err), CAG_OK);
        if (i > 0) {
            /* TEXT is zstd: compare when this zstd packs it as that one */
            size_t n = (size_t)rd_le64(fix_entry(&want, "TEXT") + 16);

            if (n == rd_le64(fix_entry(&have, "TEXT") + 16) &&
                memcmp(fix_data(&want, "TEXT"), fix_data(&have, "TEXT"), n) ==
                    0) {
                assert_int_equal(have.size, want.size);
                assert_memory_equal(have.data, want.data, want.size);
            }
        }
        assert_int_equal(kvc_parse(want.data, want.size, file, &a, &err),
                         CAG_OK);
        assert_int_equal(kvc_parse(have.data, have.size, path, &b, &err),
                         CAG_OK);
        assert_string_equal(cag_kvc_get_info(a)->content_id,
                            cag_kvc_get_info(b)->content_id);
        assert_int_equal(rd_le64(fix_entry(&want, "META") + 16),
                         rd_le64(fix_entry(&have, "META") + 16));
        assert_memory_equal(fix_data(&want, "META"), fix_data(&have, "META"),
                            rd_le64(fix_entry(&want, "META") + 16));
        cag_kvc_close(a);
        cag_kvc_close(b);
        buf_free(&want);
        buf_free(&have);
        fix_free(&f);
    }
}

/* Its size as 4 bytes, its bytes. */
static void seed_section(struct buf *b, const char *name, struct buf *out)
{
    uint8_t *e = fix_entry(b, name);

    buf_add(out, e + 16, 4);
    buf_add(out, fix_data(b, name), (size_t)rd_le64(e + 16));
}

/*
 * Seeds of fuzz_kvc: one token, one layer; "R" and a file, "S" and sections.
 * Recorded like the golden files; here: they are what the target expects.
 */
static void seed(const char *codec, char kind, struct buf *out)
{
    static const char *const names[] = KVC_CORE_NAMES;
    struct fix f = { .codec = codec };
    struct buf b;

    f.shape = (struct kvc_shape){ 1, 1, 8, KVC_CLASS_F16, 3, 64 };
    f.shape.kv_class = fix_default(codec).shape.kv_class;
    fix_init(&f);
    b = written(&f, 1);
    fix_free(&f);
    buf_char(out, kind);
    if (kind == 'R')
        buf_add(out, b.data, b.size);
    for (int i = 0; kind == 'S' && i < KVC_N_CORE; i++)
        seed_section(&b, names[i], out);
    if (kind == 'S' && strcmp(codec, "q8h") == 0)
        seed_section(&b, "RCPT", out);
    assert_false(buf_failed(out));
    buf_free(&b);
}

static void fuzz_seeds(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++)
        for (int s = 0; s < 2; s++) {
            struct buf b = BUF_INIT, have;
            char file[64];

            snprintf(file, sizeof file, "tests/fuzz/corpus/kvc/%s-%s",
                     s ? "sections" : "file", codecs[i]);
            seed(codecs[i], s ? 'S' : 'R', &b);
            if (getenv("CAG_GOLDEN_WRITE")) {
                FILE *o = fopen(file, "wb");

                assert_non_null(o);
                assert_int_equal(fwrite(b.data, 1, b.size, o), b.size);
                assert_int_equal(fclose(o), 0);
            }
            have = fix_read(file);
            if (i > 0) { /* zstd's bytes may differ */
                assert_int_equal(have.size, b.size);
                assert_memory_equal(have.data, b.data, b.size);
            }
            if (!s)
                assert_int_equal(
                    fix_try(have.data + 1, have.size - 1, true, NULL), CAG_OK);
            buf_free(&b);
            buf_free(&have);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(same_bytes_on_any_threads),
        T(size_follows_tokens),
        T(bound_holds),
        T(no_space_says_both_numbers),
        T(refuses_bad_descriptions),
        T(refuses_bad_optional_sections),
        T(failure_keeps_the_old_file),
        T(every_allocation_failure),
        T(a_bad_receipt_leaves_the_old_file),
        T(golden_files),
        T(fuzz_seeds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
