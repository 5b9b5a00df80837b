/*
 * kvc_fixture.h - a small synthetic cache for the tests of kvc/.
 *
 * Every byte follows from the numbers in struct fix: the same fix gives the
 * same file for ever (tests/golden/kvc holds some).  Values look like f16
 * keys: few exponents, noisy mantissas; layer 0 repeats, so that the codec
 * meets planes that compress well, a little and not at all.
 */
#ifndef KVC_FIXTURE_H
#define KVC_FIXTURE_H

#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvc/kvc_format.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_write.h"
#include "util/buf.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/rd.h"

#define FIX_VOCAB        500
#define FIX_FAIL_RECEIPT (-2)
#define FIX_BAD_RECEIPT  (-3)

struct fix {
    struct kvc_shape shape;
    const char *codec;
    struct kvc_extra extra[1];
    int n_extra;
    bool attention; /* with copy heads */
    int fail_at;    /* chunk index that fails, -1 for none,
                       or one of the above */
    /* made by fix_init */
    jv *meta, *srcs, *prmt;
    char *text;
    size_t text_size;
    int32_t *ids;
    int64_t *off;
    uint8_t tok[1000];
};

static inline uint32_t fix_rand(uint64_t *x)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*x >> 33);
}

/* Element (layer, is_v, head, token, channel) as f16 or f32 bits, or a code. */
static inline uint32_t fix_value(const struct kvc_shape *s, int layer, int v,
                                 int head, int tok, int c)
{
    uint64_t x = (uint64_t)(((layer * 2 + v) * 64 + head) * 1024 + c) * 65536 +
                 (uint64_t)(layer ? tok : tok % 4);
    uint32_t r;

    fix_rand(&x);
    r = fix_rand(&x);
    if (s->kv_class == KVC_CLASS_Q8H) /* -127 .. 127 */
        return (r & 0xff) == 0x80 ? 0 : r & 0xff;
    if (s->kv_class == KVC_CLASS_F32)
        return (r & 0x807fffffu) | (uint32_t)(120 + (r >> 23) % 6) << 23;
    return (r & 0x83ffu) | (uint32_t)(12 + (r >> 16) % 4) << 10;
}

/* q8h: the f16 scale of a row, the f32 factor of a channel of K. */
static inline uint16_t fix_scale(int layer, int v, int head, int tok)
{
    uint64_t x =
        (uint64_t)((layer * 2 + v) * 64 + head) * 65536 + (uint64_t)tok + 5;

    fix_rand(&x);
    return (uint16_t)((fix_rand(&x) & 0xfff) + 0x1800);
}

static inline uint32_t fix_factor(int layer, int head, int c)
{
    uint64_t x = (uint64_t)(layer * 64 + head) * 1024 + (uint64_t)c;

    fix_rand(&x);
    return (fix_rand(&x) & 0x1ffffff) + 0x3e800000;
}

static inline void fix_q8h_fill(const struct kvc_shape *s, int layer, int chunk,
                                uint8_t *dst)
{
    int n_tile = kvc_chunk_tiles(s, chunk);
    uint8_t *p =
        dst + (size_t)(2 * s->n_kv_head * n_tile) * 64 * (size_t)s->d_head;

    for (int v = 0; v < 2; v++)
        for (int h = 0; h < s->n_kv_head; h++)
            for (int t = 0; t < n_tile * 64; t++, p += 2)
                if (chunk * s->chunk_tok + t < s->n_tok)
                    rd_put16(p,
                             fix_scale(layer, v, h, chunk * s->chunk_tok + t));
    for (int h = 0; h < s->n_kv_head; h++)
        for (int c = 0; c < s->d_head; c++, p += 4)
            rd_put32(p, fix_factor(layer, h, c));
    assert_ptr_equal(p, dst + kvc_chunk_bytes(s, chunk));
}

/* The tile layout, written out once more, from kvc(5). */
static inline void fix_chunk_fill(const struct kvc_shape *s, int layer,
                                  int chunk, uint8_t *dst)
{
    size_t e = (size_t)kvc_elem_bytes(s);
    int n_tile = kvc_chunk_tiles(s, chunk);

    memset(dst, 0, kvc_chunk_bytes(s, chunk));
    if (e == 1)
        fix_q8h_fill(s, layer, chunk, dst);
    for (int v = 0; v < 2; v++)
        for (int h = 0; h < s->n_kv_head; h++)
            for (int t = 0; t < n_tile * 64; t++)
                for (int c = 0; c < s->d_head; c++) {
                    int tok = chunk * s->chunk_tok + t, u = t % 64;
                    int w = s->d_head - c / 32 * 32;
                    size_t at;
                    uint8_t *p;
                    uint32_t x;

                    if (tok >= s->n_tok)
                        continue;
                    if (w > 32)
                        w = 32;
                    at = v ? (size_t)(c / 32 * 64 * 32 + u * w + c % 32)
                           : (size_t)((u / 16 * s->d_head + c) * 16 + u % 16);
                    p = dst +
                        (size_t)((v * s->n_kv_head + h) * n_tile + t / 64) *
                            64 * (size_t)s->d_head * e +
                        at * e;
                    x = fix_value(s, layer, v, h, tok, c);
                    if (e == 1)
                        *p = (uint8_t)x;
                    else if (e == 4)
                        rd_put32(p, x);
                    else
                        rd_put16(p, (uint16_t)x);
                }
}

/* A receipt as a measurement might give, and a look at the draft. */
static inline cag_status fix_receipt(void *ctx, const cag_kvc *draft,
                                     cag_kvc_receipt *r, cag_error *err)
{
    static const cag_kvc_loss loss[2 * 2] = { { 26.5f, 0.00725f, 17, 0 },
                                              { 18.25f, 0.0068f, 23, 0 },
                                              { 1.5f, 0.0091f, 0, 0 },
                                              { 0.75f, 0.0055f, 1, 1 } };
    const struct fix *f = ctx;

    if (f->fail_at == FIX_FAIL_RECEIPT)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1, "the loss is too high");
    assert_null(cag_kvc_get_receipt(draft));
    assert_int_equal(cag_kvc_get_info(draft)->n_tok, f->shape.n_tok);
    r->begin = f->shape.n_tok / 2;
    r->end = f->shape.n_tok;
    r->kl_mean = f->fail_at == FIX_BAD_RECEIPT ? NAN : 2.75e-5f;
    r->kl_p99 = 2.9e-4f;
    r->kl_max = 7.5e-4f;
    r->n_same = r->end - r->begin - 1;
    r->n_clear_flip = 1;
    r->ppl_change = -0.00025f;
    r->loss = loss;
    return CAG_OK;
}

/* Copy heads as a search might find them. */
static inline cag_status fix_attention(void *ctx, const cag_kvc *draft,
                                       cag_kvc_attention *a, cag_error *err)
{
    static const cag_kvc_head head[] = { { 1, 3, 0.625f }, { 0, 2, 0.25f } };

    (void)ctx;
    (void)err;
    assert_null(cag_kvc_get_attention(draft));
    a->head = head;
    a->n_head = 2;
    a->n_line = 12;
    a->n_row = 96;
    a->n_tok = cag_kvc_get_info(draft)->n_tok;
    return CAG_OK;
}

static inline cag_status fix_chunk(void *ctx, int layer, int chunk,
                                   uint8_t *dst, cag_error *err)
{
    const struct fix *f = ctx;

    if (layer * kvc_n_chunk(&f->shape) + chunk == f->fail_at)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "layer %d overflows f16", layer);
    fix_chunk_fill(&f->shape, layer, chunk, dst);
    return CAG_OK;
}

static inline jv *fix_json(const char *text)
{
    jv *v = NULL;
    cag_error err = CAG_ERROR_INIT;

    if (jv_parse(text, strlen(text), "fixture", &v, &err) != CAG_OK)
        fail_msg("fixture: %s", err.msg);
    return v;
}

static inline void fix_sources(struct fix *f)
{
    uint8_t d[SHA256_SIZE];
    char hex[65];
    struct buf b = BUF_INIT;
    size_t half = f->text_size / 2;
    int n = f->shape.n_tok;

    assert_int_equal(sha256_buf("raw", 3, d, NULL), CAG_OK);
    hash_hex(d, sizeof d, hex);
    buf_printf(&b,
               "[{\"filter\":null,\"group\":null,\"name\":\"notes.txt\","
               "\"path\":\"../docs/notes.txt\",\"sha256_raw\":\"%s\","
               "\"sha256_text\":\"%s\",\"size_bytes\":3,\"text_off\":4,"
               "\"text_bytes\":%zu,\"tok_begin\":%d,\"tok_end\":%d},",
               hex, hex, half - 4, n > 2, n > 2 ? n / 2 : n > 2);
    buf_printf(&b,
               "{\"filter\":\"pdftotext\",\"group\":\"docs\","
               "\"name\":\"b \xc3\xa4.pdf\",\"path\":null,"
               "\"sha256_raw\":\"%s\",\"sha256_text\":\"%s\","
               "\"size_bytes\":99,\"text_off\":%zu,\"text_bytes\":%zu,"
               "\"tok_begin\":%d,\"tok_end\":%d}]",
               hex, hex, half, f->text_size - half - 1, n / 2 + (n <= 2), n);
    assert_false(buf_failed(&b));
    f->srcs = fix_json(b.data);
    buf_free(&b);
}

static inline void fix_init(struct fix *f)
{
    static const char meta[] =
        "{\"binding\":{\"config_sha256\":"
        "\"00000000000000000000000000000000000000000000000000000000000000c0\","
        "\"rope\":\"neox 461c4000\",\"template_sha256\":"
        "\"00000000000000000000000000000000000000000000000000000000000000e0\","
        "\"weights_sha256\":"
        "\"00000000000000000000000000000000000000000000000000000000000000f0\"},"
        "\"build\":{\"n_ctx\":2048,\"reserve\":256,\"globs\":[\"*.txt\"]},"
        "\"model\":{\"arch\":\"llama\",\"hub\":null,\"n_vocab\":500,"
        "\"name\":\"Fixture\",\"path\":\"../models/f.gguf\"},"
        "\"prompt\":{\"label\":\"KNOWLEDGE BASE:\",\"refusal\":\"No.\","
        "\"system\":\"Answer.\"},"
        "\"provenance\":{\"device\":\"cpu\",\"numerics\":\"f1\","
        "\"precision\":\"default\",\"tool\":\"cag 0.1.0\"}}";
    static const char prmt[] =
        "{\"date\":\"2026-01-12\",\"knows_thinking\":true,\"mid\":\"\","
        "\"stop_ids\":[2,7],\"suffix\":\"<|im_end|>\\n\","
        "\"suffix_think\":\"<|im_end|>\\n<think>\",\"trims_question\":false}";
    size_t n = (size_t)f->shape.n_tok;
    struct buf b = BUF_INIT;

    if (f->shape.chunk_tok == 0)
        f->shape.chunk_tok = kvc_chunk_tok(f->shape.n_kv_head, f->shape.d_head,
                                           f->shape.kv_class);
    f->fail_at = -1;
    f->meta = fix_json(meta);
    f->prmt = fix_json(prmt);
    f->ids = mem_alloc_array(n, sizeof *f->ids);
    f->off = mem_alloc_array(n, sizeof *f->off);
    assert_non_null(f->ids);
    assert_non_null(f->off);
    buf_str(&b, "The ");
    for (size_t i = 0; i < n; i++) {
        f->ids[i] = (int32_t)(i * 37 % FIX_VOCAB);
        f->off[i] = (int64_t)(i ? b.size : 0);
        buf_printf(&b, "w\xc3\xb6rd%zu ", i % 50);
    }
    assert_false(buf_failed(&b));
    f->text = buf_detach(&b, &f->text_size);
    fix_sources(f);
    for (size_t i = 0; i < sizeof f->tok; i++)
        f->tok[i] = (uint8_t)(i * 7 + i / 256);
}

/* An optional section; before fix_write. */
static inline void fix_add_extra(struct fix *f, const char *name,
                                 const char *text)
{
    f->n_extra = 1;
    memcpy(f->extra[0].name, name, strlen(name) + 1);
    f->extra[0].data = text;
    f->extra[0].size = strlen(text);
}

static inline void fix_free(struct fix *f)
{
    jv_free(f->meta);
    jv_free(f->srcs);
    jv_free(f->prmt);
    mem_free(f->text);
    mem_free(f->ids);
    mem_free(f->off);
}

static inline struct kvc_desc fix_desc(struct fix *f)
{
    struct kvc_desc d = {
        .shape = f->shape,
        .codec = f->codec,
        .meta = f->meta,
        .sources = f->srcs,
        .prompt = f->prmt,
        .text = f->text,
        .text_size = f->text_size,
        .ids = f->ids,
        .id_off = f->off,
        .n_ids = (size_t)f->shape.n_tok,
        .tokenizer = f->tok,
        .tokenizer_size = sizeof f->tok,
        .extra = f->extra,
        .n_extra = f->n_extra,
        .chunk = fix_chunk,
        .ctx = f,
    };

    if (f->codec && strcmp(f->codec, "q8h") == 0) {
        d.receipt = fix_receipt;
        d.receipt_ctx = f;
    }
    if (f->attention)
        d.attention = fix_attention;
    return d;
}

/* 2 layers, 2 heads of 40 channels (a narrow last V group), 3 chunks. */
static inline struct fix fix_default(const char *codec)
{
    struct fix f = { .codec = codec };

    f.shape = (struct kvc_shape){ 2, 2, 40, KVC_CLASS_F16, 150, 64 };
    if (strcmp(codec, "f32") == 0)
        f.shape.kv_class = KVC_CLASS_F32;
    if (strcmp(codec, "q8h") == 0)
        f.shape.kv_class = KVC_CLASS_Q8H;
    return f;
}

static inline void fix_write(struct fix *f, const char *path, int n_thread)
{
    struct kvc_desc d = fix_desc(f);
    struct pool *pool = NULL;
    cag_error err = CAG_ERROR_INIT;

    assert_int_equal(pool_new(&pool, n_thread, &err), CAG_OK);
    if (kvc_write(path, &d, -1, pool, &err) != CAG_OK)
        fail_msg("kvc_write: %s", err.msg);
    pool_free(pool);
}

/* Temporary directory of a test; removed by fix_rmdir. */
static inline char *fix_mkdir(void)
{
    const char *base = getenv("TMPDIR");
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s/cag-kvc-XXXXXX", base && *base ? base : "/tmp");
    assert_false(buf_failed(&b));
    assert_non_null(mkdtemp(b.data));
    return b.data;
}

/* Path of a file in a directory of its own; both go with fix_displace. */
static inline char *fix_place(void)
{
    char *dir = fix_mkdir(), *path = file_join(dir, "a.kvc");

    assert_non_null(path);
    mem_free(dir);
    return path;
}

static inline void fix_displace(char *path)
{
    char *dir = file_dirname(path);

    assert_non_null(dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    mem_free(dir);
    mem_free(path);
}

static inline void fix_unlink(const char *dir, const char *name)
{
    char *p = file_join(dir, name);

    assert_non_null(p);
    unlink(p);
    mem_free(p);
}

static inline struct buf fix_read(const char *path)
{
    struct buf b = BUF_INIT;
    cag_error err = CAG_ERROR_INIT;

    if (file_read(path, (size_t)1 << 30, &b, &err) != CAG_OK)
        fail_msg("%s: %s", path, err.msg);
    return b;
}

/* Recompute the header's own digest, and that of small section i. */
static inline void fix_seal(struct buf *b)
{
    uint8_t *p = (uint8_t *)b->data, d[SHA256_SIZE];

    memset(p + KVC_OFF_SHA256, 0, SHA256_SIZE);
    assert_int_equal(sha256_buf(p, KVC_PAGE, d, NULL), CAG_OK);
    memcpy(p + KVC_OFF_SHA256, d, sizeof d);
}

static inline uint8_t *fix_entry(struct buf *b, const char *name)
{
    uint8_t *p = (uint8_t *)b->data;
    char want[4] = { 0 };

    memcpy(want, name, strlen(name));
    for (uint32_t i = 0; i < rd_le32(p + KVC_OFF_N_SECTION); i++)
        if (memcmp(p + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE, want, 4) == 0)
            return p + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;
    fail_msg("no section %s", name);
    return NULL;
}

static inline uint8_t *fix_data(struct buf *b, const char *name)
{
    return (uint8_t *)b->data + rd_le64(fix_entry(b, name) + 8);
}

static inline void fix_seal_section(struct buf *b, const char *name)
{
    uint8_t *e = fix_entry(b, name);

    assert_int_equal(
        sha256_buf(fix_data(b, name), (size_t)rd_le64(e + 16), e + 24, NULL),
        CAG_OK);
    fix_seal(b);
}

/* Everything a user can do to find damage: open, load all, verify. */
static inline cag_status fix_try(const void *data, size_t size, bool verify,
                                 cag_error *err)
{
    cag_kvc *k = NULL;
    cag_status st = kvc_parse(data, size, "x.kvc", &k, err);
    uint8_t *dst;

    if (st)
        return st;
    dst = mem_alloc_aligned(64, kvc_chunk_bytes(kvc_get_shape(k), 0));
    if (!dst) {
        cag_kvc_close(k);
        return cag_fail_nomem(err, "test");
    }
    for (int l = 0; l < kvc_get_shape(k)->n_layer && !st; l++)
        for (int c = 0; c < kvc_n_chunk(kvc_get_shape(k)) && !st; c++) {
            const uint8_t *raw;

            st = kvc_chunk_load(k, l, c, dst, &raw, err);
        }
    if (!st && verify)
        st = cag_kvc_verify(k, 1, NULL, NULL, err);
    mem_free(dst);
    cag_kvc_close(k);
    return st;
}

#endif
