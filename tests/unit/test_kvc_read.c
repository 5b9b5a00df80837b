/*
 * test_kvc_read.c - a cache read back, and every way in which it can be
 * wrong: cut, flipped, of another version, forged with valid digests.
 */
#include "tests/unit/kvc_test.h"

#include "format/gguf.h"
#include "tokenizer/tokenizer.h"

#include <pthread.h>
#include <sys/resource.h>

/* ------------------------------------------------------------ read back */

static void everything_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct fix          f = fix_default(codecs[i]);
        cag_kvc            *k = NULL;
        const cag_kvc_info *info;
        size_t              n;
        cag_kvc_section     sec;
        cag_error           err = CAG_ERROR_INIT;

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
                                      f.shape.elem_bytes);
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
        cag_kvc   *k = NULL;
        size_t     max;
        uint8_t   *want, *dst, d[SHA256_SIZE];
        cag_error  err = CAG_ERROR_INIT;

        fix_init(&f);
        fix_write(&f, path, 1);
        assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
        assert_int_equal(kvc_chunk_in_place(k), i > 0);
        max = kvc_chunk_bytes(&f.shape, 0);
        want = mem_alloc_aligned(64, max);
        dst = mem_alloc_aligned(64, max);
        for (int l = 0; l < 2; l++)
            for (int c = 0; c < 3; c++) {
                size_t         n = kvc_chunk_bytes(&f.shape, c);
                const uint8_t *raw = NULL;

                fix_chunk_fill(&f.shape, l, c, want);
                assert_int_equal(kvc_chunk_load(k, l, c, dst, &raw, &err),
                                 CAG_OK);
                assert_memory_equal(raw, want, n);
                assert_true(raw == dst || i > 0);
                assert_int_equal(sha256_buf(want, n, d, NULL), CAG_OK);
                assert_memory_equal(kvc_chunk_sha256(k, l, c), d, sizeof d);
            }
        assert_int_equal(kvc_chunk_load(k, 2, 0, dst, NULL, &err),
                         CAG_E_USAGE);
        assert_int_equal(kvc_chunk_load(k, 0, 3, dst, NULL, &err),
                         CAG_E_USAGE);
        mem_free(want);
        mem_free(dst);
        cag_kvc_close(k);
        fix_free(&f);
    }
}

static void *load_all(void *arg)
{
    const cag_kvc          *k = arg;
    const struct kvc_shape *s = kvc_get_shape(k);
    uint8_t                *dst = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
    const uint8_t          *raw;
    void                   *bad = NULL;

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
    cag_kvc   *k = NULL;
    pthread_t  t[4];

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

static bool count(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;

    assert_string_equal(what, "verify");
    assert_true(done > *last && done <= total);
    *last = done;
    return true;
}

static bool refuse(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)what;
    (void)done;
    (void)total;
    return false;
}

static void verify_reports_progress(void **state)
{
    (void)state;
    struct buf b = make("f16z");
    cag_kvc   *k = NULL;
    uint64_t   last = 0;
    cag_error  err = CAG_ERROR_INIT;

    assert_int_equal(cag_kvc_open(path, &k, NULL), CAG_OK);
    for (int n = 1; n <= 3; n++) {
        last = 0;
        assert_int_equal(cag_kvc_verify(k, n, count, &last, &err), CAG_OK);
        assert_int_equal(last, cag_kvc_get_info(k)->kv_raw_bytes);
    }
    assert_int_equal(cag_kvc_verify(k, 1, refuse, NULL, &err),
                     CAG_E_CANCELLED);
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
            cag_error  err = CAG_ERROR_INIT;
            uint8_t   *copy = mem_alloc(n);   /* a red zone behind it */
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
        uint64_t   x = 33 + (uint64_t)i;
        size_t     small = rd_le64(fix_entry(&b, "KV") + 8);
        size_t     end = strcmp(codecs[i], "q8h") ? b.size
                             : rd_le64(fix_entry(&b, "RCPT") + 8);

        for (int n = 0; n < 450; n++) {
            size_t    from = n % 3 == 1 ? 4096 : n % 3 == 2 ? small : 0;
            size_t    to = n % 3 == 0 ? 4096 : n % 3 == 1 ? small : end;
            size_t    at = from + fix_rand(&x) % (to - from);
            int       bit = (int)(fix_rand(&x) % 8);
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
    uint8_t   *e = fix_data(&b, "CHNK") + 4 * KVC_CHNK_SIZE;

    fix_data(&b, "KV")[rd_le64(e) + 5] ^= 1;
    expect(&b, CAG_E_CORRUPT, "layer 1, chunk 1");
    buf_free(&b);
}

/* ------------------------------------------------------------- versions */

static void other_versions(void **state)
{
    (void)state;
    struct buf b = make("f16");

    rd_put16((uint8_t *)b.data + KVC_OFF_MAJOR, 2);
    expect(&b, CAG_E_UNSUPPORTED,
           "format version 2, this program reads up to 1");
    expect_sealed(&b, NULL, CAG_E_UNSUPPORTED,
                  "format version 2, this program reads up to 1");
    rd_put16((uint8_t *)b.data + KVC_OFF_MAJOR, 0);
    expect(&b, CAG_E_UNSUPPORTED,
           "format version 0, this program reads up to 1");
    rd_put16((uint8_t *)b.data + KVC_OFF_MAJOR, 1);
    rd_put16((uint8_t *)b.data + KVC_OFF_MINOR, 1);
    fix_seal(&b);     /* a newer minor version only adds what can be skipped */
    assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
    rd_put32((uint8_t *)b.data + KVC_OFF_LAYOUT, 2);
    expect_sealed(&b, NULL, CAG_E_UNSUPPORTED, "tile layout 2");
    buf_free(&b);
}

static void unknown_sections(void **state)
{
    (void)state;
    struct fix f = fix_default("f16");
    struct buf b;
    uint8_t   *e;

    memcpy(f.extra[0].name, "NEW1", 5);
    f.extra[0].data = "later";
    f.extra[0].size = 5;
    f.n_extra = 1;
    fix_init(&f);
    b = written(&f, 1);
    assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
    e = fix_entry(&b, "NEW1");
    rd_put32(e + 4, KVC_REQUIRED);
    expect_sealed(&b, NULL, CAG_E_UNSUPPORTED,
                  "section NEW1 is required and not known");
    rd_put32(e + 4, 2);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section flags");
    rd_put32(e + 4, 0);
    memcpy(e, "NE\033[", 4);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section name");
    memcpy(e, "META", 4);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section META appears twice");
    buf_free(&b);
    fix_free(&f);
}

/* --------------------------------------------- forged, with good digests */

static void forged_headers(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t   *p = (uint8_t *)b.data, *e = fix_entry(&b, "TEXT");
    uint64_t   off = rd_le64(e + 8), size = rd_le64(e + 16);

    rd_put64(e + 8, off - 4096);                 /* overlaps SRCS */
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section offset");
    rd_put64(e + 8, off + 4096);                 /* leaves a hole */
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section offset");
    rd_put64(e + 8, off);
    rd_put64(e + 16, b.size);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section TEXT ends behind the file");
    rd_put64(e + 16, UINT64_MAX);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section size");
    rd_put64(e + 16, 0);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section size");
    rd_put64(e + 16, size);
    e[56] = 1;
    expect_sealed(&b, NULL, CAG_E_FORMAT, "reserved byte is not zero");
    e[56] = 0;
    p[70] = 1;
    expect_sealed(&b, NULL, CAG_E_FORMAT, "reserved byte is not zero");
    p[70] = 0;
    p[4095] = 1;
    expect_sealed(&b, NULL, CAG_E_FORMAT, "unused header byte is not zero");
    p[4095] = 0;
    rd_put32(p + KVC_OFF_N_SECTION, 41);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "number of sections is 41");
    rd_put32(p + KVC_OFF_N_SECTION, 0);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "number of sections is 0");
    rd_put32(p + KVC_OFF_N_SECTION, 7);
    memset(p + KVC_OFF_SECTIONS + 7 * KVC_SECTION_SIZE, 0, KVC_SECTION_SIZE);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "its sections take");
    buf_free(&b);
}

static void forged_chunk_tables(void **state)
{
    (void)state;
    static const struct {
        size_t      at;
        uint64_t    add;
        const char *text;
    } cases[] = {
        { 0, 1, "CHNK: chunk offset" },
        { 0, 4096, "CHNK: chunk offset" },
        { 0, UINT64_C(1) << 63, "CHNK: chunk offset" },
        { 8, 1, "CHNK: stored size" },
        { 8, UINT64_MAX, "CHNK: stored size" },
        { 16, 64, "CHNK: raw size" },
        { 16, UINT64_MAX / 2, "CHNK: raw size" },
    };
    struct buf b = make("f16");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *e = fix_data(&b, "CHNK") + KVC_CHNK_SIZE + cases[i].at;
        uint64_t old = rd_le64(e);

        rd_put64(e, old + cases[i].add);
        expect_sealed(&b, "CHNK", CAG_E_FORMAT, cases[i].text);
        rd_put64(e, old);
    }
    fix_data(&b, "CHNK")[40] ^= 1;               /* a digest */
    expect_sealed(&b, "CHNK", CAG_E_CORRUPT,
                  "section CHNK and the digest of KV disagree");
    buf_free(&b);
}

static void forged_tokens_and_text(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t   *t = fix_data(&b, "TOKS");

    rd_put32(t + 16, FIX_VOCAB);
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: token id");
    rd_put32(t + 16, 1);
    expect_sealed(&b, "TOKS", CAG_E_CORRUPT, "content id");
    rd_put32(t + 16, 0);
    rd_put32(t + 16 + 4 * 150, 9999999);
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: byte offset");
    rd_put32(t + 16 + 4 * 150, 30);              /* above the next one */
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: byte offset");
    rd_put32(t + 16 + 4 * 150, 0);
    rd_put64(t, 149);
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: number of ids");
    rd_put64(t, 150);
    t[8] = 1;
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: reserved word");
    t[8] = 0;
    fix_seal_section(&b, "TOKS");
    t = fix_data(&b, "TEXT");
    t[12] = 1;
    expect_sealed(&b, "TEXT", CAG_E_FORMAT, "TEXT: reserved word");
    t[12] = 0;
    rd_put64(t, UINT64_MAX);
    expect_sealed(&b, "TEXT", CAG_E_FORMAT, "TEXT: expanded size");
    buf_free(&b);
}

/* Replace the bytes of META; the rest of the file moves with it. */
static void forge_json(const char *codec, const char *name, const char *from,
                       const char *to, cag_status want, const char *text)
{
    struct buf b = make(codec);
    uint8_t   *e = fix_entry(&b, name), *p = fix_data(&b, name), *hit;
    size_t     n = (size_t)rd_le64(e + 16), nf = strlen(from);
    size_t     nt = strlen(to);

    hit = memmem(p, n, from, nf);
    assert_non_null(hit);
    assert_true(kvc_page_up(n) == kvc_page_up(n - nf + nt));
    memmove(hit + nt, hit + nf, n - (size_t)(hit - p) - nf);
    memcpy(hit, to, nt);
    if (nt < nf)
        memset(p + n - nf + nt, 0, nf - nt);
    rd_put64(e + 16, n - nf + nt);
    expect_sealed(&b, name, want, text);
    buf_free(&b);
}

static void forged_json(void **state)
{
    (void)state;
    static const struct {
        const char *section, *from, *to;
        cag_status  want;
        const char *text;
    } cases[] = {
        { "META", "\"n_ctx\":2048,", "", CAG_E_FORMAT,
          "META: build.n_ctx is missing" },
        { "META", "\"n_ctx\":2048", "\"n_ctx\":\"1\"", CAG_E_FORMAT,
          "META: build.n_ctx is" },
        { "META", "\"n_ctx\":2048", "\"n_ctx\":-1", CAG_E_FORMAT,
          "META: build.n_ctx is -1" },
        { "META", "\"name\":\"Fixture\"", "\"name\":\"a\\u0000b\"",
          CAG_E_FORMAT, "META: model.name" },
        { "META", "\"codec\":\"f16\"", "\"codec\":\"q4h\"", CAG_E_UNSUPPORTED,
          "kv.codec is \"q4h\"" },
        { "META", "\"class\":\"f16\"", "\"class\":\"f32\"", CAG_E_FORMAT,
          "kv.class is \"f32\"" },
        { "META", "\"n_layer\":2", "\"n_layer\":3", CAG_E_FORMAT,
          "section CHNK has" },
        { "META", "\"n_layer\":2", "\"n_layer\":4096", CAG_E_FORMAT,
          "META: kv.n_layer is 4096" },
        { "META", "\"d_head\":40", "\"d_head\":44", CAG_E_FORMAT,
          "d_head is 44" },
        { "META", "\"chunk_tok\":64", "\"chunk_tok\":65", CAG_E_FORMAT,
          "chunk_tok is 65" },
        { "META", "\"n_tok\":150", "\"n_tok\":151", CAG_E_FORMAT,
          "TOKS: number of ids" },
        { "META", "\"label\":\"K", "\"label\":\"J", CAG_E_CORRUPT, "binding" },
        { "META", "0000c0", "0000c1", CAG_E_CORRUPT, "binding" },
        { "META", "{\"b", "{ \"b", CAG_E_FORMAT, "is not canonical JSON" },
        { "META", "{\"b", "[\"b", CAG_E_FORMAT, "is not JSON" },
        { "META", "\"n_ctx\":2048", "\"n_ctx\":20.5", CAG_E_FORMAT,
          "section META is not canonical JSON" },
        { "SRCS", "\"tok_end\":150", "\"tok_end\":151", CAG_E_FORMAT,
          "SRCS: source 1: tok_end is 151" },
        { "SRCS", "\"text_off\":4,", "\"text_off\":5,", CAG_E_FORMAT,
          "SRCS: source 1 begins before the end of source 0" },
        { "SRCS", "\"tok_end\":75", "\"tok_end\":0", CAG_E_FORMAT,
          "SRCS: source 0: tok_end is 0" },
        { "SRCS", "\"tok_end\":75", "\"tok_end\":76", CAG_E_FORMAT,
          "SRCS: source 1 begins before the end of source 0" },
        { "SRCS", "\"path\":null,", "", CAG_E_FORMAT,
          "SRCS: source 1: path is missing" },
        { "PRMT", "[2,7]", "[2,999]", CAG_E_FORMAT, "stop_ids[1]" },
        { "PRMT", "2026-01-12", "2026-1-012", CAG_E_FORMAT, "PRMT: date" },
        { "PRMT", "\"mid\":\"\"", "\"mid\":[]", CAG_E_FORMAT, "PRMT: mid" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        forge_json("f16", cases[i].section, cases[i].from, cases[i].to,
                   cases[i].want, cases[i].text);
}

/* --------------------------------------------------------------- receipt */

static void the_receipt_comes_back(void **state)
{
    (void)state;
    struct buf             b = make("q8h");
    cag_kvc               *k = NULL;
    const cag_kvc_receipt *r;
    cag_error              err = CAG_ERROR_INIT;
    size_t                 n;

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

static void forged_receipts(void **state)
{
    (void)state;
    static const struct { const char *from, *to, *text; } cases[] = {
        { "{\"codec\":\"q8h\",", "{", "RCPT: codec is missing or wrong" },
        { "{\"codec\":\"q8h\"", "{\"codec\":\"q4h\"", "expected q8h" },
        { "\"max\":\"3a449ba6\"", "\"max\":\"7f800000\"", "RCPT: kl.max" },
        { "\"max\":\"3a449ba6\"", "\"max\":\"7fc00000\"", "RCPT: kl.max" },
        { "\"max\":\"3a449ba6\"", "\"max\":\"ba449ba6\"", "RCPT: kl.max" },
        { "\"max\":\"3a449ba6\"", "\"max\":\"3A449BA6\"", "RCPT: kl.max" },
        { "\"max\":\"3a449ba6\"", "\"max\":\"3a449ba\"", "RCPT: kl.max" },
        { "\"max\":\"3a449ba6\"", "\"max\":1", "RCPT: kl.max" },
        { "\"max\":\"3a449ba6\"", "\"max\":\"38449ba6\"",
          "RCPT: kl.p99 is missing or wrong, expected 8 hex digits of an f32 "
          "in 0..4.6" },
        { "\"mean\":\"37", "\"mean\":\"40", "RCPT: kl.mean" },
        { "\"mean\":\"37", "\"mean\":\"b7", "RCPT: kl.mean" },
        { "\"kl\":{", "\"kl\":[],\"km\":{", "RCPT: kl is missing or wrong" },
        { "\"layers\":[", "\"layers\":[1,", "expected an array of 2 layers" },
        { "\"overflow\":0", "\"overflow\":-1", "layers[0].k.overflow" },
        { "\"overflow\":0", "\"overflow\":12001", "an integer in 0..12000" },
        { "\"subnormal\":23", "\"subnormal\":2.0", "canonical JSON" },
        { "\"rel_rms\":\"3b", "\"rel_rms\":\"bb", "layers[0].k.rel_rms" },
        { "\"ppl_change\":\"b9", "\"ppl_change\":\"c9", "RCPT: ppl_change" },
        { "\"begin\":75", "\"begin\":0", "RCPT: probe.begin" },
        { "\"begin\":75", "\"begin\":150", "RCPT: probe.begin" },
        { "\"end\":150", "\"end\":151", "RCPT: probe.end" },
        { "\"end\":150", "\"end\":75", "RCPT: probe.end" },
        { "\"same\":74", "\"same\":76", "RCPT: top1.same" },
        { "\"clear_flips\":1", "\"clear_flips\":2", "RCPT: top1.clear_flips" },
        { "\"version\":1", "\"version\":0", "RCPT: version" },
        { "\"version\":1", "\"version\":\"1\"", "RCPT: version" },
        { "{\"codec", "[\"codec", "section RCPT is not JSON" },
        { "{\"codec", "{ \"codec", "is not canonical JSON" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        forge_json("q8h", "RCPT", cases[i].from, cases[i].to, CAG_E_FORMAT,
                   cases[i].text);
}

/* A lossy file without a receipt, and a lossless one with it. */
static void the_receipt_where_it_belongs(void **state)
{
    (void)state;
    struct buf b = make("q8h");
    uint8_t   *e = fix_entry(&b, "RCPT");

    memcpy(e, "RCPU", 4);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section RCPT is missing: codec q8h");
    memcpy(e, "RCPT", 4);
    ((uint8_t *)b.data)[b.size - KVC_PAGE] ^= 1;
    expect_sealed(&b, NULL, CAG_E_CORRUPT,
                  "section RCPT is damaged (SHA-256 differs)");
    buf_free(&b);

    struct fix f = fix_default("f16");
    memcpy(f.extra[0].name, "RCPU", 5);
    f.extra[0].data = "{}";
    f.extra[0].size = 2;
    f.n_extra = 1;
    fix_init(&f);
    b = written(&f, 1);
    fix_free(&f);
    memcpy(fix_entry(&b, "RCPU"), "RCPT", 4);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section RCPT has no place here");
    buf_free(&b);
}

/* A page of zeros between two sections, everything else in order. */
static void a_hole_between_sections(void **state)
{
    (void)state;
    static const uint8_t zero[KVC_PAGE];
    struct buf b = make("f16"), h = BUF_INIT;
    uint8_t   *p;
    size_t     at = (size_t)rd_le64(fix_entry(&b, "TEXT") + 8);

    buf_add(&h, b.data, at);
    buf_add(&h, zero, sizeof zero);
    buf_add(&h, b.data + at, b.size - at);
    p = (uint8_t *)h.data;
    rd_put64(p + KVC_OFF_SIZE, h.size);
    for (int i = 0; i < KVC_N_CORE; i++) {
        uint8_t *e = p + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;

        if (rd_le64(e + 8) >= at)
            rd_put64(e + 8, rd_le64(e + 8) + KVC_PAGE);
    }
    expect_sealed(&h, NULL, CAG_E_FORMAT, "section offset");
    buf_free(&b);
    buf_free(&h);
}

/* What a writer refuses, with every digest right: not UTF-8; too long. */
static void forged_text(void **state)
{
    (void)state;
    struct fix f = { .codec = "f16" };
    struct buf b;
    uint8_t    d[SHA256_SIZE], *t, *meta;
    char       hex[65];
    size_t     n;

    f.shape = (struct kvc_shape){ 1, 1, 8, 2, 3, 64 };
    fix_init(&f);
    b = written(&f, 1);
    fix_free(&f);
    t = fix_data(&b, "TEXT");
    n = (size_t)rd_le64(t);
    assert_int_equal(rd_le32(t + 8), KVC_TEXT_RAW);
    t[16] = 0xff;
    assert_int_equal(sha256_buf(t + 16, n, d, NULL), CAG_OK);
    hash_hex(d, sizeof d, hex);
    meta = memmem(b.data, b.size, "\"text\":{\"sha256\":\"", 18);
    assert_non_null(meta);
    memcpy(meta + 18, hex, 64);
    fix_seal_section(&b, "TEXT");
    expect_sealed(&b, "META", CAG_E_FORMAT, "section TEXT is not UTF-8");
    buf_free(&b);

    b = fix_read(path);                      /* 3 tokens, 20,000 bytes */
    meta = memmem(b.data, b.size, "\"size_bytes\":25}", 16);
    assert_non_null(meta);
    memmove(meta + 19, meta + 16,
            (size_t)(fix_data(&b, "SRCS") - (meta + 19)));
    memcpy(meta, "\"size_bytes\":20000}", 19);
    rd_put64(fix_entry(&b, "META") + 16,
             rd_le64(fix_entry(&b, "META") + 16) + 3);
    rd_put64(fix_data(&b, "TEXT"), 20000);
    fix_seal_section(&b, "TEXT");
    expect_sealed(&b, "META", CAG_E_FORMAT, "section TEXT is too long");
    buf_free(&b);
}

/* A chunk changed by somebody who repaired its XXH3: -t finds it. */
static void verify_compares_sha256(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t   *e = fix_data(&b, "CHNK") + 3 * KVC_CHNK_SIZE;
    uint8_t   *p = fix_data(&b, "KV") + rd_le64(e);

    p[9] ^= 1;
    rd_put64(e + 24, xxh3_64(p, (size_t)rd_le64(e + 8)));
    fix_seal_section(&b, "CHNK");
    assert_int_equal(fix_try(b.data, b.size, false, NULL), CAG_OK);
    expect(&b, CAG_E_CORRUPT, "layer 1, chunk 0 (SHA-256 differs)");
    buf_free(&b);
}

/* B72: a frame that promises the world costs nothing. */
static void zstd_bombs(void **state)
{
    (void)state;
    static const uint8_t bomb[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0x6c, 0x06,
                                    0x06, 0x06, 0x63, 0x63, 0x63, 0x63 };
    struct rusage before, after;
    struct buf    b = make("f16z");
    uint8_t      *e = fix_data(&b, "CHNK"), *kv = fix_data(&b, "KV");
    size_t        n = (size_t)rd_le64(e + 8), at = 16;

    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 4; i++) {       /* the first plane that is a frame */
        if (memcmp(kv + at, bomb, 4) == 0)
            break;
        at += rd_le32(kv + 4 * i);
        assert_true(i < 3);
    }
    memcpy(kv + at, bomb, sizeof bomb);
    rd_put64(e + 24, xxh3_64(kv, n));
    expect_sealed(&b, "CHNK", CAG_E_CORRUPT, "layer 0, chunk 0: ");
    buf_free(&b);

    b = make("f16");
    e = fix_entry(&b, "TEXT");
    kv = fix_data(&b, "TEXT");
    memcpy(kv + KVC_TEXT_HEAD, bomb, sizeof bomb);
    expect_sealed(&b, "TEXT", CAG_E_CORRUPT,
                  "section TEXT: not a zstd frame of");
    buf_free(&b);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 100 * 1024);
}

static void padding_is_zero(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t   *e = fix_entry(&b, "SRCS");

    b.data[rd_le64(e + 8) + rd_le64(e + 16)] = 1;
    expect(&b, CAG_E_CORRUPT, "the padding of section SRCS is not zero");
    buf_free(&b);
    b = make("f16z");                   /* an f16 chunk here is whole pages */
    e = fix_data(&b, "CHNK");
    b.data[rd_le64(fix_entry(&b, "KV") + 8) + rd_le64(e + 8)] = 1;
    expect(&b, CAG_E_CORRUPT, "the padding of section KV is not zero");
    buf_free(&b);
}

/* The bytes of f's cache when its chunks come from another hand. */
static struct buf written_by(struct fix *f,
                             cag_status (*chunk)(void *, int, int, uint8_t *,
                                                 cag_error *))
{
    struct kvc_desc d = fix_desc(f);
    struct pool    *pool = NULL;

    d.chunk = chunk;
    assert_int_equal(pool_new(&pool, 1, NULL), CAG_OK);
    assert_int_equal(kvc_write(path, &d, -1, pool, NULL), CAG_OK);
    pool_free(pool);
    return fix_read(path);
}

static int dirty_v, dirty_at;    /* is_v, byte in the last tile of head 1 */

static cag_status dirty_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                              cag_error *err)
{
    const struct fix *f = ctx;
    cag_status        st = fix_chunk(ctx, layer, chunk, dst, err);

    if (layer == 1 && chunk == 2)
        dst[kvc_tile_off(&f->shape, 2, dirty_v, 1, 0) + (size_t)dirty_at] |= 1;
    return st;
}

/* 150 tokens: the last tile holds 22.  Bytes worked out by hand. */
static void unused_positions_are_zero(void **state)
{
    (void)state;
    static const struct { int v, at; bool ok; } cases[] = {
        { 0, 2 * ((0 * 40 + 3) * 16 + 15), true },     /* K token 15 */
        { 0, 2 * ((1 * 40 + 39) * 16 + 5), true },     /* K token 21 */
        { 0, 2 * ((1 * 40 + 39) * 16 + 6), false },    /* K token 22 */
        { 0, 2 * ((3 * 40 + 39) * 16 + 15), false },   /* K token 63 */
        { 1, 2 * (21 * 32 + 31), true },               /* V token 21 */
        { 1, 2 * (22 * 32), false },                   /* V token 22 */
        { 1, 2 * (64 * 32 + 21 * 8 + 7), true },       /* narrow V group */
        { 1, 2 * (64 * 32 + 22 * 8), false },
        { 1, 2 * (64 * 32 + 63 * 8 + 7), false },
    };
    struct fix f = fix_default("f16z");

    fix_init(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b;

        dirty_v = cases[i].v;
        dirty_at = cases[i].at;
        b = written_by(&f, dirty_chunk);
        if (cases[i].ok)
            assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
        else
            expect(&b, CAG_E_FORMAT,
                   "layer 1, chunk 2: a position behind the last token");
        buf_free(&b);
    }
    fix_free(&f);
}

static struct forgery {
    int      layer, chunk;
    size_t   at;
    int      n;               /* bytes */
    uint32_t value;
} forged;

static cag_status forged_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                               cag_error *err)
{
    cag_status st = fix_chunk(ctx, layer, chunk, dst, err);

    if (layer == forged.layer && chunk == forged.chunk)
        for (int i = 0; i < forged.n; i++)
            dst[forged.at + (size_t)i] = (uint8_t)(forged.value >> 8 * i);
    return st;
}

/* q8h: what would make every answer no number is refused before use.  Chunks
 * 0 and 1 of a layer have 1 tile a head: 2 x 5,120 codes, 256 scales. */
static void forged_codes(void **state)
{
    (void)state;
    enum { SCALES = 2 * 2 * 64 * 40, FACTORS = SCALES + 2 * 2 * 64 * 2 };
    static const struct { struct forgery f; const char *msg; } cases[] = {
        { { 0, 0, 0, 1, 0x80 }, NULL },                   /* a code of -128 */
        { { 0, 0, SCALES, 2, 0x0000 }, NULL },
        { { 0, 0, SCALES, 2, 0x7bff }, NULL },
        { { 0, 0, SCALES, 2, 0x7c00 }, "layer 0, chunk 0: a scale" },
        { { 1, 1, SCALES + 2 * 70, 2, 0x7e01 }, "layer 1, chunk 1: a scale" },
        { { 1, 1, FACTORS - 2, 2, 0x8001 }, "layer 1, chunk 1: a scale" },
        { { 1, 2, FACTORS - 2, 2, 0x0001 },
          "layer 1, chunk 2: a position behind the last token" },
        { { 0, 0, FACTORS, 4, 0 }, "layer 0, chunk 0: a factor" },
        { { 0, 0, FACTORS + 4, 4, 0xbf800000 }, "layer 0, chunk 0: a factor" },
        { { 0, 0, FACTORS + 8, 4, 0x7f800000 }, "layer 0, chunk 0: a factor" },
        { { 0, 1, FACTORS + 8, 4, 0x7fc00001 }, "layer 0, chunk 1: " },
        { { 0, 1, FACTORS + 8, 4, 0x007fffff }, "layer 0, chunk 1: " },
        { { 1, 2, FACTORS + 316, 4, 0x3f800000 },
          "layer 1, chunk 2: its factors are not those of the layer's first "
          "chunk" },
    };
    struct fix f = fix_default("q8h");

    fix_init(&f);
    assert_int_equal(kvc_scale_off(&f.shape, 1, 0, 0, 0), SCALES);
    assert_int_equal(kvc_factor_off(&f.shape, 1, 0), FACTORS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b;

        forged = cases[i].f;
        b = written_by(&f, forged_chunk);
        if (cases[i].msg)
            expect(&b, CAG_E_FORMAT, cases[i].msg);
        else
            assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
        buf_free(&b);
    }
    fix_free(&f);
}

/* A real tokenizer comes back out of the map, without its model. */
static void carries_the_tokenizer(void **state)
{
    (void)state;
    static const char    text[] = "Sparrow-7 flies 47 minutes";
    const cag_text       piece = { text, sizeof text - 1, 0 };
    struct fix           f = fix_default("f16z");
    struct kvc_desc      d;
    struct gguf         *g = NULL;
    struct pool         *pool = NULL;
    cag_tokenizer       *t = NULL;
    const cag_tokenizer *u = NULL;
    cag_kvc             *k = NULL;
    cag_ids              a = CAG_IDS_INIT, b = CAG_IDS_INIT;
    cag_error            err = CAG_ERROR_INIT;

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
    struct buf           b = make("f16");
    cag_kvc             *k = NULL;
    const cag_tokenizer *t = NULL;
    cag_error            err = CAG_ERROR_INIT;

    for (int shift = 0; shift < 2; shift++) {    /* and from unaligned memory */
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
        int64_t    live = mem_live();

        for (int64_t n = 1;; n++) {
            cag_error  err = CAG_ERROR_INIT;
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
        size_t      n;
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
        { "hello", 5, "not a .kvc cache" },
        { "", 0, "the file is empty" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cag_kvc  *k = NULL;
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
        "empty", "truncated", "truncated-header", "version-2", "text-mode",
        "gguf", "git-lfs", "llama-session", "flipped-header",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char       file[80];
        struct buf want;
        cag_kvc   *k = NULL;
        cag_error  err = CAG_ERROR_INIT;

        snprintf(file, sizeof file, "tests/golden/bad/kvc-%s.msg", names[i]);
        want = fix_read(file);
        snprintf(file, sizeof file, "tests/golden/bad/kvc-%s.kvc", names[i]);
        assert_int_not_equal(cag_kvc_open(file, &k, &err), CAG_OK);
        buf_truncate(&want, want.size - 1);      /* the newline */
        assert_string_equal(err.msg, want.data);
        assert_string_equal(err.file, file);
        buf_free(&want);
    }
}

static void missing_file(void **state)
{
    (void)state;
    cag_kvc  *k = NULL;
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
        T(other_versions),
        T(unknown_sections),
        T(forged_headers),
        T(forged_chunk_tables),
        T(forged_tokens_and_text),
        T(forged_json),
        T(the_receipt_comes_back),
        T(forged_receipts),
        T(the_receipt_where_it_belongs),
        T(a_hole_between_sections),
        T(forged_text),
        T(verify_compares_sha256),
        T(zstd_bombs),
        T(padding_is_zero),
        T(unused_positions_are_zero),
        T(forged_codes),
        T(carries_the_tokenizer),
        T(bad_tokenizer_is_an_error),
        T(every_allocation_failure),
        T(foreign_files_are_named),
        T(bad_files_say_why),
        T(missing_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
