/*
 * fuzz_kvc.c - open a cache, load every chunk, verify it.
 *
 * Digests stop a mutation at the first check, so the target repairs what it
 * can and lets the parsers behind it see the bytes.  The first byte says what
 * follows:
 *   R  a file; XXH3 of chunks, SHA-256 of sections and header are repaired
 *   S  the eight sections, each as u32 size and bytes, then any number of
 *      optional ones, each as name[4], u32 size and bytes, from which a file
 *      is put together (small inputs: no padding, no header)
 *   else  the whole input is a file, as it is
 *
 * In an S, JSON is brought into its canonical form and META is given the
 * digests, binding and content id that the other sections ask for; once that
 * opens, the chunks' SHA-256 are computed from what they expand to.  So a
 * change anywhere is judged by the check that is about it.  The mutator
 * changes one section at a time, in JSON often one value.
 */
#include <stdlib.h>
#include <string.h>

#include "kvc/kvc_codec.h"
#include "kvc/kvc_meta.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_write.h"
#include "binding/record.h"
#include "util/mem.h"
#include "util/rd.h"

#define MAX_PART (KVC_N_CORE + 8)
#define MAX_TEXT ((size_t)1 << 20) /* what a mutated TEXT may expand to */
#define MAX_RAW  ((size_t)4 << 20) /* a chunk that is looked at          */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed);
/* of libFuzzer; the replay has none */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size,
                                              size_t max);

static const char *const core_names[KVC_N_CORE] = KVC_CORE_NAMES;

static void use(const uint8_t *data, size_t size)
{
    cag_kvc *k = NULL;
    const struct kvc_shape *s;
    struct arena a = { NULL };
    cag_source_spec *spec;
    int n_spec, n_stream;
    uint8_t *dst;
    const uint8_t *raw;
    cag_error err = CAG_ERROR_INIT;

    if (kvc_parse(data, size, "fuzz.kvc", &k, &err) != CAG_OK)
        return;
    s = kvc_get_shape(k);
    if (kvc_chunk_bytes(s, 0) > MAX_RAW) {
        cag_kvc_close(k);
        return;
    }
    dst = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
    for (int l = 0; dst && l < s->n_layer; l++)
        for (int c = 0; c < kvc_n_chunk(s); c++)
            if (kvc_chunk_load(k, l, c, dst, &raw, &err) == CAG_OK &&
                raw[kvc_chunk_bytes(s, c) - 1] == 1)
                dst[0] ^= 1;
    mem_free(dst);
    (void)cag_kvc_tokenizer(k);
    (void)cag_kvc_verify(k, 1, NULL, NULL, &err);
    (void)record_specs(k, &a, &spec, &n_spec, &n_stream, &err);
    arena_release(&a);
    cag_kvc_close(k);
}

/* --- R -------------------------------------------------------------------*/

/* An entry whose section lies in the file, else NULL. */
static uint8_t *entry(uint8_t *p, size_t size, const char name[4], int i)
{
    uint8_t *e = p + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;
    uint64_t off = rd_le64(e + 8), n = rd_le64(e + 16);

    if (off > size || n > size - off || (name && memcmp(e, name, 4) != 0))
        return NULL;
    return e;
}

static void sha256(const void *data, size_t n, uint8_t out[SHA256_SIZE])
{
    if (sha256_buf(data, n, out, NULL) != CAG_OK)
        abort();
}

static void repair(uint8_t *p, size_t size)
{
    uint8_t *chnk = NULL, *kv = NULL;

    for (int i = 0; i < KVC_MAX_SECTION; i++) {
        chnk = chnk ? chnk : entry(p, size, "CHNK", i);
        kv = kv ? kv : entry(p, size, "KV\0", i);
    }
    if (chnk && kv) {
        uint8_t *c = p + rd_le64(chnk + 8), *v = p + rd_le64(kv + 8);
        uint64_t n = rd_le64(chnk + 16) / KVC_CHNK_SIZE;
        uint64_t n_kv = rd_le64(kv + 16);
        struct sha256 h = { NULL };

        if (sha256_init(&h, NULL) != CAG_OK)
            abort();
        for (; n > 0; n--, c += KVC_CHNK_SIZE) {
            uint64_t off = rd_le64(c), len = rd_le64(c + 8);

            if (off <= n_kv && len <= n_kv - off)
                rd_put64(c + 24, xxh3_64(v + off, (size_t)len));
            sha256_update(&h, c + 32, SHA256_SIZE);
        }
        sha256_final(&h, kv + 24);
    }
    for (int i = 0; i < KVC_MAX_SECTION; i++) {
        uint8_t *e = entry(p, size, NULL, i);

        if (e && e != kv && rd_le64(e + 16) > 0)
            sha256(p + rd_le64(e + 8), (size_t)rd_le64(e + 16), e + 24);
    }
    memset(p + KVC_OFF_SHA256, 0, SHA256_SIZE);
    sha256(p, KVC_PAGE, p + KVC_OFF_SHA256);
}

/* --- S -------------------------------------------------------------------*/

struct parts {
    struct buf b[MAX_PART];
    char name[MAX_PART][5]; /* of the optional ones */
    int n;
};

static void split(struct parts *p, const uint8_t *data, size_t size)
{
    memset(p, 0, sizeof *p);
    while (p->n < MAX_PART) {
        size_t head = p->n < KVC_N_CORE ? 4 : 8, n;

        if (size < head) {
            if (p->n >= KVC_N_CORE)
                return;
            n = head = 0;
        } else {
            n = rd_le32(data + head - 4);
            if (head == 8)
                memcpy(p->name[p->n], data, 4);
        }
        data += head;
        size -= head;
        n = n < size ? n : size;
        if (n)
            buf_add(&p->b[p->n], data, n);
        p->n++;
        data += n;
        size -= n;
    }
}

static void parts_free(struct parts *p)
{
    for (int i = 0; i < p->n; i++)
        buf_free(&p->b[i]);
}

/* Replaces the text by the value in canonical form, if it has one. */
static bool put_json(struct buf *b, const jv *v)
{
    struct buf out = BUF_INIT;
    bool ok = v && jv_dump_canonical(v, &out, NULL) == CAG_OK;

    if (ok) {
        buf_free(b);
        *b = out;
    } else {
        buf_free(&out);
    }
    return ok;
}

static jv *get_json(const struct buf *b)
{
    jv *v = NULL;

    if (!b->size || jv_parse(b->data, b->size, NULL, &v, NULL) != CAG_OK)
        return NULL;
    return v;
}

static bool set_hex(jv *o, const char *key, const uint8_t d[SHA256_SIZE])
{
    char hex[2 * SHA256_SIZE + 1];

    hash_hex(d, SHA256_SIZE, hex);
    return jv_set_str(o, key, hex);
}

/* META.text.sha256 from TEXT, where that expands to the size META gives. */
static void fix_text(jv *meta, const struct buf *text)
{
    jv *o = jv_copy(jv_get(meta, "text"));
    int64_t n = jv_get_int(o, "size_bytes", -1);
    uint8_t d[SHA256_SIZE];
    char *out = NULL;

    if (n < 0 || n > (int64_t)MAX_TEXT || text->size < KVC_TEXT_HEAD)
        goto out;
    out = mem_alloc((size_t)n + 1);
    if (!out)
        goto out;
    if (text->data[8] == KVC_TEXT_RAW) {
        if (text->size - KVC_TEXT_HEAD < (size_t)n)
            goto out;
        memcpy(out, text->data + KVC_TEXT_HEAD, (size_t)n);
    } else if (kvc_text_expand((const uint8_t *)text->data + KVC_TEXT_HEAD,
                               text->size - KVC_TEXT_HEAD, out, (size_t)n,
                               NULL) != CAG_OK) {
        goto out;
    }
    sha256(out, (size_t)n, d);
    if (set_hex(o, "sha256", d) && jv_set(meta, "text", o))
        o = NULL;
out:
    mem_free(out);
    jv_free(o);
}

/* binding, its digest and the content id: what the other sections ask for */
static void fix_meta(struct parts *p)
{
    jv *meta = get_json(&p->b[KVC_META]), *binding = NULL;
    jv *srcs = get_json(&p->b[KVC_SRCS]);
    struct buf toks = p->b[KVC_TOKS], chnk = p->b[KVC_CHNK];
    size_t n = toks.size > KVC_TOKS_HEAD ? (toks.size - KVC_TOKS_HEAD) / 8 : 0;
    int32_t *ids = mem_alloc_array(n + 1, sizeof *ids);
    uint8_t d[SHA256_SIZE], id[SHA256_SIZE];

    if (jv_type(meta) != JV_OBJECT || !ids)
        goto out;
    fix_text(meta, &p->b[KVC_TEXT]);
    sha256(p->b[KVC_TKNZ].data, p->b[KVC_TKNZ].size, d);
    if (jv_type(jv_get(meta, "binding")) != JV_OBJECT ||
        kvc_binding(meta, srcs, jv_get_str(jv_get(meta, "kv"), "class", ""), d,
                    &binding, d, NULL) != CAG_OK)
        goto put;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)rd_le32((const uint8_t *)toks.data + KVC_TOKS_HEAD +
                                  4 * i);
    if (chnk.size >= KVC_CHNK_SIZE &&
        kvc_content_id(d, ids, n, (const uint8_t *)chnk.data + 32,
                       KVC_CHNK_SIZE, chnk.size / KVC_CHNK_SIZE, id,
                       NULL) == CAG_OK)
        set_hex(meta, "content_id", id);
    set_hex(meta, "binding_sha256", d);
    jv_set(meta, "binding", binding);
put:
    put_json(&p->b[KVC_META], meta);
out:
    mem_free(ids);
    jv_free(meta);
    jv_free(srcs);
}

/* The file of the parts, heap. */
static uint8_t *assemble(const struct parts *p, size_t *size)
{
    size_t at = KVC_PAGE, room = KVC_PAGE;
    uint8_t *f;

    for (int i = 0; i < p->n; i++)
        room += (size_t)kvc_page_up(p->b[i].size);
    f = mem_zalloc(room);
    if (!f)
        return NULL;
    memcpy(f, KVC_MAGIC, 8);
    rd_put16(f + KVC_OFF_MAJOR, CAG_KVC_MAJOR);
    rd_put32(f + KVC_OFF_N_SECTION, (uint32_t)p->n);
    rd_put32(f + KVC_OFF_LAYOUT, KVC_LAYOUT_TILES);
    for (int i = 0; i < p->n; i++) {
        uint8_t *e = f + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;
        const struct buf *b = &p->b[i];
        const char *name = i < KVC_N_CORE ? core_names[i] : p->name[i];

        memcpy(e, name, strlen(name));
        rd_put32(e + 4, i < KVC_N_CORE ? KVC_REQUIRED : 0);
        rd_put64(e + 8, at);
        rd_put64(e + 16, b->size);
        if (b->size)
            memcpy(f + at, b->data, b->size);
        at += (size_t)kvc_page_up(b->size);
    }
    rd_put64(f + KVC_OFF_SIZE, at);
    repair(f, at);
    *size = at;
    return f;
}

/* If the file opens: SHA-256 of what its chunks expand to, into CHNK. */
static bool fix_chunks(struct parts *p, const uint8_t *f, size_t size)
{
    cag_kvc *k = NULL;
    const struct kvc_shape *s;
    uint8_t *dst = NULL;
    uint8_t *c = (uint8_t *)p->b[KVC_CHNK].data;
    const uint8_t *raw;
    bool changed = false;

    if (kvc_parse(f, size, "fuzz.kvc", &k, NULL) != CAG_OK)
        return false;
    s = kvc_get_shape(k);
    if (kvc_chunk_bytes(s, 0) <= MAX_RAW)
        dst = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
    for (int l = 0; dst && l < s->n_layer; l++)
        for (int i = 0; i < kvc_n_chunk(s); i++, c += KVC_CHNK_SIZE) {
            uint8_t d[SHA256_SIZE];

            if (kvc_chunk_load(k, l, i, dst, &raw, NULL) != CAG_OK)
                continue;
            sha256(raw, kvc_chunk_bytes(s, i), d);
            changed |= memcmp(c + 32, d, sizeof d) != 0;
            memcpy(c + 32, d, sizeof d);
        }
    mem_free(dst);
    cag_kvc_close(k);
    return changed;
}

static void use_sections(const uint8_t *data, size_t size)
{
    static const int json[] = { KVC_META, KVC_SRCS, KVC_PRMT };
    struct parts p;
    uint8_t *f;

    split(&p, data, size);
    for (size_t i = 0; i < sizeof json / sizeof json[0]; i++) {
        jv *v = get_json(&p.b[json[i]]);

        put_json(&p.b[json[i]], v);
        jv_free(v);
    }
    fix_meta(&p);
    f = assemble(&p, &size);
    if (f && fix_chunks(&p, f, size)) {
        fix_meta(&p);
        mem_free(f);
        f = assemble(&p, &size);
    }
    if (f)
        use(f, size);
    mem_free(f);
    parts_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'S') {
        use_sections(data + 1, size - 1);
    } else if (size > KVC_PAGE && data[0] == 'R') {
        uint8_t *copy = mem_alloc(size - 1);

        if (!copy)
            return 0;
        memcpy(copy, data + 1, size - 1);
        repair(copy, size - 1);
        use(copy, size - 1);
        mem_free(copy);
    } else {
        use(data, size);
    }
    return 0;
}

/* --- mutation ------------------------------------------------------------*/

static bool one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Put another value where JSON has one: behind a ':', ',' or '['. */
static void mutate_value(struct buf *b, unsigned seed)
{
    static const char *const values[] = { "0",          "1",
                                          "-1",         "2",
                                          "3",          "63",
                                          "64",         "65",
                                          "128",        "1024",
                                          "65536",      "2147483647",
                                          "4294967296", "9007199254740992",
                                          "null",       "true",
                                          "false",      "\"\"",
                                          "\"..\"",     "[]",
                                          "{}",         "[{}]",
                                          "\"f16\"",    "\"f16z\"",
                                          "\"f32\"",    "\"q8h\"",
                                          "\"\\u0000\"" };
    const char *value = values[seed % (sizeof values / sizeof values[0])];
    struct buf out = BUF_INIT;
    size_t at = b->size ? (seed * 2654435761u >> 4) % b->size : 0, end;

    while (at < b->size && !one_of(b->data[at], ":,["))
        at++;
    if (at >= b->size)
        return;
    end = ++at;
    if (end < b->size && b->data[end] == '"')
        for (end++; end < b->size && b->data[end] != '"'; end++)
            ;
    while (end < b->size && !one_of(b->data[end], ",]}"))
        end++;
    buf_add(&out, b->data, at);
    buf_str(&out, value);
    buf_add(&out, b->data + end, b->size - end);
    buf_free(b);
    *b = out;
}

static void mutate_bytes(struct buf *b, size_t room)
{
    size_t n = b->size;

    if (!buf_reserve(b, room))
        return;
    n = LLVMFuzzerMutate((uint8_t *)b->data, n, n + room);
    if (n <= b->size) {
        buf_truncate(b, n);
    } else {
        b->size = n;
        b->data[n] = 0;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed)
{
    struct parts p;
    struct buf out = BUF_INIT;
    int i;

    if (size < 1 || data[0] != 'S' || max <= size + 8 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max);
    split(&p, data + 1, size - 1);
    i = (int)(seed / 16 % (unsigned)p.n);
    if ((i == KVC_META || i == KVC_SRCS || i == KVC_PRMT) && seed & 0x10000)
        mutate_value(&p.b[i], seed / 256);
    else
        mutate_bytes(&p.b[i], max - size - 8 < 64 ? max - size - 8 : 64);
    buf_char(&out, 'S');
    for (i = 0; i < p.n; i++) {
        uint8_t n[4];

        rd_put32(n, (uint32_t)p.b[i].size);
        if (i >= KVC_N_CORE)
            buf_add(&out, p.name[i], 4);
        buf_add(&out, n, sizeof n);
        if (p.b[i].size)
            buf_add(&out, p.b[i].data, p.b[i].size);
    }
    if (!buf_failed(&out) && out.size <= max) {
        size = out.size;
        memcpy(data, out.data, size);
    }
    buf_free(&out);
    parts_free(&p);
    return size;
}
