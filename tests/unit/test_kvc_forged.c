/*
 * test_kvc_forged.c - caches with every digest right and something wrong: of
 * another version, with sections not known here, bent by somebody who
 * repaired the digests, or from a writer that is not ours.
 */
#include "tests/lib/kvc_test.h"

#include <sys/resource.h>

/* The same of bytes that were changed in section, NULL for the header, by
 * somebody who then repaired the digests. */
static void expect_sealed(struct buf *b, const char *section, cag_status want,
                          const char *text)
{
    if (section)
        fix_seal_section(b, section);
    else
        fix_seal(b);
    expect(b, want, text);
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
    fix_seal(&b); /* a newer minor version only adds what can be skipped */
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
    uint8_t *e;

    fix_add_extra(&f, "NEW1", "later");
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

/* ----------------------------------------------- header, tables and JSON */

static void forged_headers(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t *p = (uint8_t *)b.data, *e = fix_entry(&b, "TEXT");
    uint64_t off = rd_le64(e + 8), size = rd_le64(e + 16);

    rd_put64(e + 8, off - 4096); /* overlaps SRCS */
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section offset");
    rd_put64(e + 8, off + 4096); /* leaves a hole */
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

/* A page of zeros between two sections, everything else in order. */
static void a_hole_between_sections(void **state)
{
    (void)state;
    static const uint8_t zero[KVC_PAGE];
    struct buf b = make("f16"), h = BUF_INIT;
    uint8_t *p;
    size_t at = (size_t)rd_le64(fix_entry(&b, "TEXT") + 8);

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

static void forged_chunk_tables(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t add;
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
    fix_data(&b, "CHNK")[40] ^= 1; /* a digest */
    expect_sealed(&b, "CHNK", CAG_E_CORRUPT,
                  "section CHNK and the digest of KV disagree");
    buf_free(&b);
}

static void forged_tokens_and_text(void **state)
{
    (void)state;
    struct buf b = make("f16");
    uint8_t *t = fix_data(&b, "TOKS");

    rd_put32(t + 16, FIX_VOCAB);
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: token id");
    rd_put32(t + 16, 1);
    expect_sealed(&b, "TOKS", CAG_E_CORRUPT, "content id");
    rd_put32(t + 16, 0);
    rd_put32(t + 16 + 4 * 150, 9999999);
    expect_sealed(&b, "TOKS", CAG_E_FORMAT, "TOKS: byte offset");
    rd_put32(t + 16 + 4 * 150, 30); /* above the next one */
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
    uint8_t *e = fix_entry(&b, name), *p = fix_data(&b, name), *hit;
    size_t n = (size_t)rd_le64(e + 16), nf = strlen(from);
    size_t nt = strlen(to);

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
        cag_status want;
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

static void forged_receipts(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
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
    uint8_t *e = fix_entry(&b, "RCPT");

    memcpy(e, "RCPU", 4);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section RCPT is missing: codec q8h");
    memcpy(e, "RCPT", 4);
    ((uint8_t *)b.data)[b.size - KVC_PAGE] ^= 1;
    expect_sealed(&b, NULL, CAG_E_CORRUPT,
                  "section RCPT is damaged (SHA-256 differs)");
    buf_free(&b);

    struct fix f = fix_default("f16");
    fix_add_extra(&f, "RCPU", "{}");
    fix_init(&f);
    b = written(&f, 1);
    fix_free(&f);
    memcpy(fix_entry(&b, "RCPU"), "RCPT", 4);
    expect_sealed(&b, NULL, CAG_E_FORMAT, "section RCPT has no place here");
    buf_free(&b);
}

/* ------------------------------------------------- text, chunks, padding */

/* What a writer refuses, with every digest right: not UTF-8; too long. */
static void forged_text(void **state)
{
    (void)state;
    struct fix f = { .codec = "f16" };
    struct buf b;
    uint8_t d[SHA256_SIZE], *t, *meta;
    char hex[65];
    size_t n;

    f.shape = (struct kvc_shape){ 1, 1, 8, KVC_CLASS_F16, 3, 64 };
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

    b = fix_read(path); /* 3 tokens, 20,000 bytes */
    meta = memmem(b.data, b.size, "\"size_bytes\":25}", 16);
    assert_non_null(meta);
    memmove(meta + 19, meta + 16, (size_t)(fix_data(&b, "SRCS") - (meta + 19)));
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
    uint8_t *e = fix_data(&b, "CHNK") + 3 * KVC_CHNK_SIZE;
    uint8_t *p = fix_data(&b, "KV") + rd_le64(e);

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
    struct buf b = make("f16z");
    uint8_t *e = fix_data(&b, "CHNK"), *kv = fix_data(&b, "KV");
    size_t n = (size_t)rd_le64(e + 8), at = 16;

    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 4; i++) { /* the first plane that is a frame */
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
    uint8_t *e = fix_entry(&b, "SRCS");

    b.data[rd_le64(e + 8) + rd_le64(e + 16)] = 1;
    expect(&b, CAG_E_CORRUPT, "the padding of section SRCS is not zero");
    buf_free(&b);
    b = make("f16z"); /* an f16 chunk here is whole pages */
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
    struct pool *pool = NULL;

    d.chunk = chunk;
    assert_int_equal(pool_new(&pool, 1, NULL), CAG_OK);
    assert_int_equal(kvc_write(path, &d, -1, pool, NULL), CAG_OK);
    pool_free(pool);
    return fix_read(path);
}

static int dirty_v, dirty_at; /* is_v, byte in the last tile of head 1 */

static cag_status dirty_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                              cag_error *err)
{
    const struct fix *f = ctx;
    cag_status st = fix_chunk(ctx, layer, chunk, dst, err);

    if (layer == 1 && chunk == 2)
        dst[kvc_tile_off(&f->shape, 2, dirty_v, 1, 0) + (size_t)dirty_at] |= 1;
    return st;
}

/* 150 tokens: the last tile holds 22.  Bytes worked out by hand. */
static void unused_positions_are_zero(void **state)
{
    (void)state;
    static const struct {
        int v, at;
        bool ok;
    } cases[] = {
        { 0, 2 * ((0 * 40 + 3) * 16 + 15), true },   /* K token 15 */
        { 0, 2 * ((1 * 40 + 39) * 16 + 5), true },   /* K token 21 */
        { 0, 2 * ((1 * 40 + 39) * 16 + 6), false },  /* K token 22 */
        { 0, 2 * ((3 * 40 + 39) * 16 + 15), false }, /* K token 63 */
        { 1, 2 * (21 * 32 + 31), true },             /* V token 21 */
        { 1, 2 * (22 * 32), false },                 /* V token 22 */
        { 1, 2 * (64 * 32 + 21 * 8 + 7), true },     /* narrow V group */
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
    int layer, chunk;
    size_t at;
    int n; /* bytes */
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
    static const struct {
        struct forgery f;
        const char *msg;
    } cases[] = {
        { { 0, 0, 0, 1, 0x80 }, NULL }, /* a code of -128 */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(other_versions),
        T(unknown_sections),
        T(forged_headers),
        T(a_hole_between_sections),
        T(forged_chunk_tables),
        T(forged_tokens_and_text),
        T(forged_json),
        T(forged_receipts),
        T(the_receipt_where_it_belongs),
        T(forged_text),
        T(verify_compares_sha256),
        T(zstd_bombs),
        T(padding_is_zero),
        T(unused_positions_are_zero),
        T(forged_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
