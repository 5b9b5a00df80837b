/*
 * test_kvc_read.c - a cache read back: everything is there, and a file that
 * was cut, flipped or is no cache at all is named.  Files whose digests are
 * right and whose contents are not: test_kvc_forged.c.
 */
#include "tests/lib/kvc_test.h"

#include "format/gguf.h"
#include "tokenizer/tokenizer.h"

#include <pthread.h>

/* ------------------------------------------------------------ read back */

static void everything_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct fix f = fix_default(codecs[i]);
        cag_kvc *k = NULL;
        const cag_kvc_info *info;
        size_t n;
        cag_kvc_section sec;
        cag_error err = CAG_ERROR_INIT;

        fix_init(&f);
        fix_write(&f, path, 2);
        assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
        info = cag_kvc_get_info(k);
        assert_string_equal(info->path, path);
        assert_int_equal(info->major, 1);
        assert_string_equal(info->codec, codecs[i]);
        assert_int_equal(info->n_layer, 2);
        assert_int_equal(info->n_kv_head, 2);
        assert_int_equal(info->d_head, 40);
        assert_int_equal(info->n_tok, 150);
        assert_int_equal(info->chunk_tok, 64);
        assert_int_equal(info->n_source, 2);
        assert_int_equal(info->n_ctx, 2048);
        assert_int_equal(info->reserve, 256);
        assert_string_equal(info->model_name, "Fixture");
        assert_null(info->model_hub);
        assert_string_equal(info->template_date, "2026-01-12");
        assert_true(info->knows_thinking);
        assert_string_equal(info->label, "KNOWLEDGE BASE:");
        assert_int_equal(info->kv_raw_bytes,
                         i == 3 ? 2 * 3 * (2 * 2 * 64 * 42 + 2 * 40 * 4)
                                : 2 * 3 * 2 * 2 * 64 * 40 *
                                      kvc_elem_bytes(&f.shape));
        assert_string_equal(cag_kvc_get_source(k, 0)->path,
                            "../docs/notes.txt");
        assert_string_equal(cag_kvc_get_source(k, 1)->filter, "pdftotext");
        assert_null(cag_kvc_get_source(k, 1)->path);
        assert_null(cag_kvc_get_source(k, 2));
        assert_string_equal(cag_kvc_text(k, &n), f.text);
        assert_int_equal(n, f.text_size);
        assert_memory_equal(cag_kvc_ids(k, &n), f.ids, 4 * f.shape.n_tok);
        assert_int_equal(n, 150);
        assert_memory_equal(cag_kvc_id_offsets(k), f.off, 8 * 150);
        assert_int_equal(cag_kvc_n_section(k), 8 + (i == 3));
        cag_kvc_get_section(k, 7, &sec);
        assert_string_equal(sec.name, "KV");
        assert_true(sec.required);
        assert_int_equal(strlen(sec.sha256), 64);
        assert_string_equal(jv_get_str(kvc_prmt(k), "suffix", ""),
                            "<|im_end|>\n");
        assert_memory_equal(kvc_section_data(k, "TKNZ", &n), f.tok,
                            sizeof f.tok);
        assert_int_equal((uintptr_t)kvc_section_data(k, "TKNZ", &n) % 4096, 0);
        assert_int_equal(kvc_section_data(k, "RCPT", &n) != NULL, i == 3);
        cag_kvc_close(k);
        fix_free(&f);
    }
}

static void chunks_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct fix f = fix_default(codecs[i]);
        cag_kvc *k = NULL;
        size_t max;
        uint8_t *want, *dst, d[SHA256_SIZE];
        cag_error err = CAG_ERROR_INIT;

        fix_init(&f);
        fix_write(&f, path, 1);
        assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
        assert_int_equal(kvc_chunk_in_place(k), i > 0);
        max = kvc_chunk_bytes(&f.shape, 0);
        want = mem_alloc_aligned(64, max);
        dst = mem_alloc_aligned(64, max);
        for (int l = 0; l < 2; l++)
            for (int c = 0; c < 3; c++) {
                size_t n = kvc_chunk_bytes(&f.shape, c);
                const uint8_t *raw = NULL;

                fix_chunk_fill(&f.shape, l, c, want);
                assert_int_equal(kvc_chunk_load(k, l, c, dst, &raw, &err),
                                 CAG_OK);
                assert_memory_equal(raw, want, n);
                assert_true(raw == dst || i > 0);
                assert_int_equal(sha256_buf(want, n, d, NULL), CAG_OK);
                assert_memory_equal(kvc_chunk_sha256(k, l, c), d, sizeof d);
            }
        assert_int_equal(kvc_chunk_load(k, 2, 0, dst, NULL, &err), CAG_E_USAGE);
        assert_int_equal(kvc_chunk_load(k, 0, 3, dst, NULL, &err), CAG_E_USAGE);
        mem_free(want);
        mem_free(dst);
        cag_kvc_close(k);
        fix_free(&f);
    }
}

static void *load_all(void *arg)
{
    const cag_kvc *k = arg;
    const struct kvc_shape *s = kvc_get_shape(k);
    uint8_t *dst = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
    const uint8_t *raw;
    void *bad = NULL;

    for (int round = 0; round < 20; round++)
        for (int l = 0; l < s->n_layer; l++)
            for (int c = 0; c < kvc_n_chunk(s); c++)
                if (kvc_chunk_load(k, l, c, dst, &raw, NULL) != CAG_OK)
                    bad = arg;
    mem_free(dst);
    return bad;
}

static void many_threads_share_a_cache(void **state)
{
    (void)state;
    struct buf b = make("f16z");
    cag_kvc *k = NULL;
    pthread_t t[4];

    assert_int_equal(cag_kvc_open(path, &k, NULL), CAG_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, load_all, k), 0);
    for (int i = 0; i < 4; i++) {
        void *bad = k;

        assert_int_equal(pthread_join(t[i], &bad), 0);
        assert_null(bad);
    }
    cag_kvc_close(k);
    buf_free(&b);
}

static bool count(void *ctx, const cag_progress *p)
{
    uint64_t *last = ctx;

    assert_string_equal(p->what, "verify");
    assert_int_equal(p->unit, CAG_UNIT_BYTES);
    assert_true(p->done > *last && p->done <= p->total);
    *last = p->done;
    return true;
}

static bool refuse(void *ctx, const cag_progress *p)
{
    (void)ctx;
    (void)p;
    return false;
}

static void verify_reports_progress(void **state)
{
    (void)state;
    struct buf b = make("f16z");
    cag_kvc *k = NULL;
    uint64_t last = 0;
    cag_error err = CAG_ERROR_INIT;

    assert_int_equal(cag_kvc_open(path, &k, NULL), CAG_OK);
    for (int n = 1; n <= 3; n++) {
        last = 0;
        assert_int_equal(cag_kvc_verify(k, n, count, &last, &err), CAG_OK);
        assert_int_equal(last, cag_kvc_get_info(k)->kv_raw_bytes);
    }
    assert_int_equal(cag_kvc_verify(k, 1, refuse, NULL, &err), CAG_E_CANCELLED);
    cag_kvc_close(k);
    buf_free(&b);
}

/* ------------------------------------------------------ cut and flipped */

/* B32: cut anywhere: refused with the sizes. */
static void truncated_at_any_byte(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct buf b = make(codecs[i]);

        for (size_t n = 0; n < b.size;
             n += n < KVC_PAGE ? 1 : (b.size - KVC_PAGE) / 64 + 1) {
            cag_error err = CAG_ERROR_INIT;
            uint8_t *copy = mem_alloc(n); /* a red zone behind it */
            cag_status st;

            memcpy(copy, b.data, n);
            st = fix_try(copy, n, false, &err);
            assert_true(st == CAG_E_CORRUPT || (n == 0 && st == CAG_E_FORMAT));
            assert_non_null(strstr(err.msg, n ? "truncated" : "empty"));
            mem_free(copy);
        }
        buf_add(&b, "x", 1);
        expect(&b, CAG_E_CORRUPT, "something was appended");
        buf_free(&b);
    }
}

/* B33: one flipped bit anywhere is found; the message names the place. */
static void any_flipped_bit_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct buf b = make(codecs[i]);
        uint64_t x = 33 + (uint64_t)i;
        size_t small = rd_le64(fix_entry(&b, "KV") + 8);
        size_t end = strcmp(codecs[i], "q8h")
                         ? b.size
                         : rd_le64(fix_entry(&b, "RCPT") + 8);

        for (int n = 0; n < 450; n++) {
            size_t from = n % 3 == 1 ? 4096 : n % 3 == 2 ? small : 0;
            size_t to = n % 3 == 0 ? 4096 : n % 3 == 1 ? small : end;
            size_t at = from + fix_rand(&x) % (to - from);
            int bit = (int)(fix_rand(&x) % 8);
            cag_error err = CAG_ERROR_INIT;

            b.data[at] ^= (char)(1 << bit);
            if (fix_try(b.data, b.size, true, &err) == CAG_OK)
                fail_msg("%s: bit %d of byte %zu not noticed", codecs[i], bit,
                         at);
            if (n % 3 == 1 && !strstr(err.msg, "section"))
                fail_msg("byte %zu: no section in \"%s\"", at, err.msg);
            if (n % 3 == 2 && !strstr(err.msg, "section KV"))
                fail_msg("byte %zu: no section KV in \"%s\"", at, err.msg);
            b.data[at] ^= (char)(1 << bit);
        }
        assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
        buf_free(&b);
    }
}

static void damaged_chunk_names_layer_and_chunk(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t *e = fix_data(&b, "CHNK") + 4 * KVC_CHNK_SIZE;

    fix_data(&b, "KV")[rd_le64(e) + 5] ^= 1;
    expect(&b, CAG_E_CORRUPT, "layer 1, chunk 1");
    buf_free(&b);
}

/* ------------------------------------------- what else a cache carries */

static void the_receipt_comes_back(void **state)
{
    (void)state;
    struct buf b = make("q8h");
    cag_kvc *k = NULL;
    const cag_kvc_receipt *r;
    cag_error err = CAG_ERROR_INIT;
    size_t n;

    assert_int_equal(kvc_parse(b.data, b.size, "x.kvc", &k, &err), CAG_OK);
    r = cag_kvc_get_receipt(k);
    assert_non_null(r);
    assert_int_equal(r->version, 1);
    assert_int_equal(r->begin, 75);
    assert_int_equal(r->end, 150);
    assert_true(r->kl_mean == 2.75e-5f && r->kl_p99 == 2.9e-4f &&
                r->kl_max == 7.5e-4f && r->ppl_change == -0.00025f);
    assert_int_equal(r->n_same, 74);
    assert_int_equal(r->n_clear_flip, 1);
    assert_true(r->loss[0].max_abs == 26.5f && r->loss[1].rel_rms == 0.0068f);
    assert_int_equal(r->loss[1].n_subnormal, 23);
    assert_int_equal(r->loss[3].n_overflow, 1);
    assert_int_equal(cag_kvc_n_section(k), 9);
    assert_non_null(kvc_section_data(k, "RCPT", &n));
    cag_kvc_close(k);
    buf_free(&b);
    b = make("f16");
    assert_int_equal(kvc_parse(b.data, b.size, "x.kvc", &k, &err), CAG_OK);
    assert_null(cag_kvc_get_receipt(k));
    cag_kvc_close(k);
    buf_free(&b);
}

/* A real tokenizer comes back out of the map, without its model. */
static void carries_the_tokenizer(void **state)
{
    (void)state;
    static const char text[] = "Sparrow-7 flies 47 minutes";
    const cag_text piece = { text, sizeof text - 1, 0 };
    struct fix f = fix_default("f16z");
    struct kvc_desc d;
    struct gguf *g = NULL;
    struct pool *pool = NULL;
    cag_tokenizer *t = NULL;
    const cag_tokenizer *u = NULL;
    cag_kvc *k = NULL;
    cag_ids a = CAG_IDS_INIT, b = CAG_IDS_INIT;
    cag_error err = CAG_ERROR_INIT;

    fix_init(&f);
    d = fix_desc(&f);
    assert_int_equal(gguf_open("tests/golden/models/llama.F16.gguf", &g, &err),
                     CAG_OK);
    assert_int_equal(tok_from_gguf(g, &t, &err), CAG_OK);
    d.tokenizer = tok_blob(t, &d.tokenizer_size);
    assert_int_equal(pool_new(&pool, 1, &err), CAG_OK);
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_OK);
    assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
    if (kvc_tokenizer(k, &u, &err) != CAG_OK)
        fail_msg("%s", err.msg);
    assert_ptr_equal(cag_kvc_tokenizer(k), u);
    assert_int_equal(cag_encode(t, &piece, 1, 0, &a, &err), CAG_OK);
    assert_int_equal(cag_encode(u, &piece, 1, 0, &b, &err), CAG_OK);
    assert_true(a.n > 0);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.id, b.id, a.n * sizeof *a.id);
    cag_ids_free(&a);
    cag_ids_free(&b);
    cag_kvc_close(k);
    pool_free(pool);
    tok_free(t);
    gguf_close(g);
    fix_free(&f);
}

/* The fixture's blob is no tokenizer: a reason, not a crash. */
static void bad_tokenizer_is_an_error(void **state)
{
    (void)state;
    struct buf b = make("f16");
    cag_kvc *k = NULL;
    const cag_tokenizer *t = NULL;
    cag_error err = CAG_ERROR_INIT;

    for (int shift = 0; shift < 2; shift++) { /* and from unaligned memory */
        uint8_t *copy = mem_alloc(b.size + 1);

        memcpy(copy + shift, b.data, b.size);
        assert_int_equal(kvc_parse(copy + shift, b.size, "x", &k, &err),
                         CAG_OK);
        assert_int_not_equal(kvc_tokenizer(k, &t, &err), CAG_OK);
        assert_true(err.msg[0] != 0);
        assert_null(t);
        assert_null(cag_kvc_tokenizer(k));
        cag_kvc_close(k);
        mem_free(copy);
    }
    buf_free(&b);
}

/* --------------------------------------------------------------- memory */

static void every_allocation_failure(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct buf b = make(codecs[i]);
        int64_t live = mem_live();

        for (int64_t n = 1;; n++) {
            cag_error err = CAG_ERROR_INIT;
            cag_status st;

            mem_fault(n, false);
            st = fix_try(b.data, b.size, true, &err);
            mem_fault(0, false);
            assert_int_equal(mem_live(), live);
            if (st == CAG_OK)
                break;
            if (st != CAG_E_NOMEM)
                fail_msg("allocation %lld: %s: %s", (long long)n,
                         cag_status_name(st), err.msg);
            assert_true(n < 5000);
        }
        buf_free(&b);
    }
}

/* ---------------------------------------------------------- other files */

static void foreign_files_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        size_t n;
        const char *kind;
    } cases[] = {
        { "GGUF\x03\0\0\0", 8, "this is a GGUF model" },
        { "nsgg\x0a\0\0\0", 8, "this is a llama.cpp session file" },
        { "qsgg\x03\0\0\0", 8, "this is a llama.cpp sequence state file" },
        { "\x40\0\0\0\0\0\0\0{\"__metadata__\"", 22,
          "this is a safetensors file" },
        { "version https://git-lfs.github.com/spec/v1\noid", 46,
          "this is a Git-LFS pointer" },
        { "\x89KVC\n\x1a\n", 7, "damaged by a text-mode transfer" },
        { "KVCache\0", 8, "not a .kvc cache" },
        { "hello", 5, "this is a text, expected a .kvc cache" },
        { "", 0, "the file is empty" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cag_kvc *k = NULL;
        cag_error err = CAG_ERROR_INIT;

        assert_int_equal(kvc_parse(cases[i].head, cases[i].n, "x", &k, &err),
                         CAG_E_FORMAT);
        if (!strstr(err.msg, cases[i].kind))
            fail_msg("\"%s\", expected \"%s\"", err.msg, cases[i].kind);
        assert_null(k);
    }
    assert_string_equal(cag_file_kind(KVC_MAGIC, 8), "a .kvc cache");
    assert_null(cag_file_kind("", 0));
}

/* tests/golden/bad/kvc-*: a file and, beside it, what must be said of it. */
static void bad_files_say_why(void **state)
{
    (void)state;
    static const char *const names[] = {
        "empty", "truncated", "truncated-header", "version-2",      "text-mode",
        "gguf",  "git-lfs",   "llama-session",    "flipped-header",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[80];
        struct buf want;
        cag_kvc *k = NULL;
        cag_error err = CAG_ERROR_INIT;

        snprintf(file, sizeof file, "tests/golden/bad/kvc-%s.msg", names[i]);
        want = fix_read(file);
        snprintf(file, sizeof file, "tests/golden/bad/kvc-%s.kvc", names[i]);
        assert_int_not_equal(cag_kvc_open(file, &k, &err), CAG_OK);
        buf_truncate(&want, want.size - 1); /* the newline */
        assert_string_equal(err.msg, want.data);
        assert_string_equal(err.file, file);
        buf_free(&want);
    }
}

static void missing_file(void **state)
{
    (void)state;
    cag_kvc *k = NULL;
    cag_error err = CAG_ERROR_INIT;

    assert_int_equal(cag_kvc_open(path, &k, &err), CAG_E_MISSING);
    assert_int_equal(cag_kvc_open(dir, &k, &err), CAG_E_MISSING);
    assert_null(k);
    cag_kvc_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(everything_comes_back),
        T(chunks_come_back),
        T(many_threads_share_a_cache),
        T(verify_reports_progress),
        T(truncated_at_any_byte),
        T(any_flipped_bit_is_found),
        T(damaged_chunk_names_layer_and_chunk),
        T(the_receipt_comes_back),
        T(carries_the_tokenizer),
        T(bad_tokenizer_is_an_error),
        T(every_allocation_failure),
        T(foreign_files_are_named),
        T(bad_files_say_why),
        T(missing_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
