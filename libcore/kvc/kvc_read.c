/*
 * kvc_read.c - open a cache: validate everything, then hand out views.
 *
 * In this order, so that a message speaks of the cause: what kind of file,
 * which version, is it whole, is the header sound, is the section table
 * possible, are the small sections undamaged (SHA-256), and only then what
 * they say and whether they agree with each other.  Nothing is allocated by
 * a number that was not checked against the size of the file or, for TEXT,
 * against the number of tokens.
 *
 * The KV section is not read here: each chunk is checked before its first
 * use (kvc_chunk.c), all of it by cag_kvc_verify.
 */
#include <string.h>

#include "kvc/kvc_impl.h"
#include "kvc/kvc_receipt.h"
#include "util/mem.h"
#include "util/rd.h"
#include "util/text.h"

static const char *const core_names[KVC_N_CORE] = KVC_CORE_NAMES;

/* ---------------------------------------------------------------- header */

static cag_status check_kind(const cag_kvc *k, cag_error *err)
{
    const char *kind;

    if (k->size == 0)
        return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                        "the file is empty, expected a .kvc cache");
    if (k->size >= 8 && memcmp(k->data, KVC_MAGIC, 8) == 0)
        return CAG_OK;
    if (k->size < 8 && memcmp(k->data, KVC_MAGIC, k->size) == 0)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file is truncated: %zu bytes, a header takes %d",
                        k->size, KVC_PAGE);
    kind = cag_file_kind(k->data, k->size);
    if (kind)
        return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                        "this is %s, expected a .kvc cache", kind);
    return cag_fail(err, CAG_E_FORMAT, k->name, 0,
                    "not a .kvc cache (its first bytes are not the magic)");
}

static cag_status check_version(cag_kvc *k, cag_error *err)
{
    if (k->size < KVC_OFF_N_SECTION)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file is truncated: %zu bytes, a header takes %d",
                        k->size, KVC_PAGE);
    k->info.major = rd_le16(k->data + KVC_OFF_MAJOR);
    k->info.minor = rd_le16(k->data + KVC_OFF_MINOR);
    if (k->info.major < 1 || k->info.major > CAG_KVC_MAJOR)
        return cag_fail(err, CAG_E_UNSUPPORTED, k->name, KVC_OFF_MAJOR,
                        "format version %d, this program reads up to %d%s",
                        k->info.major, CAG_KVC_MAJOR,
                        k->info.major ? ": use a newer one" : "");
    if (k->size < KVC_PAGE)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file is truncated: %zu bytes, a header takes %d",
                        k->size, KVC_PAGE);
    return CAG_OK;
}

static cag_status check_header_sha(const cag_kvc *k, cag_error *err)
{
    uint8_t    page[KVC_PAGE], d[SHA256_SIZE];
    cag_status st;

    memcpy(page, k->data, sizeof page);
    memset(page + KVC_OFF_SHA256, 0, SHA256_SIZE);
    st = sha256_buf(page, sizeof page, d, err);
    if (st)
        return st;
    if (memcmp(d, k->data + KVC_OFF_SHA256, sizeof d) != 0)
        return cag_fail(err, CAG_E_CORRUPT, k->name, 0,
                        "the header is damaged (SHA-256 differs)");
    return CAG_OK;
}

static void zeros(struct rd *r, const char *what, size_t n)
{
    const uint8_t *p = rd_bytes(r, what, n);

    for (size_t i = 0; p && i < n; i++)
        if (p[i]) {
            rd_fail(r, CAG_E_FORMAT, "%s is not zero", what);
            return;
        }
}

/* Names are printed, so they hold nothing but A-Z and 0-9. */
static void section_name(struct rd *r, char name[5])
{
    const uint8_t *p = rd_bytes(r, "section name", 4);
    int            n = 0;

    if (!p)
        return;
    while (n < 4 && ((p[n] >= 'A' && p[n] <= 'Z') ||
                     (p[n] >= '0' && p[n] <= '9')))
        n++;
    for (int i = n; i < 4; i++)
        if (p[i] || n == 0) {
            rd_fail(r, CAG_E_FORMAT, "section name is not made of A-Z 0-9");
            return;
        }
    memcpy(name, p, (size_t)n);
    name[n] = 0;
}

static void add_section(cag_kvc *k, struct rd *r, uint64_t *end)
{
    struct kvc_section *s = &k->section[k->n_section];
    const uint8_t      *sha;
    int                 core = -1;

    section_name(r, s->name);
    s->required = rd_u32(r, "section flags", 0, KVC_REQUIRED) != 0;
    s->off = rd_u64(r, "section offset", *end, *end);
    s->size = rd_u64(r, "section size", 1, k->size);
    sha = rd_bytes(r, "section digest", SHA256_SIZE);
    zeros(r, "reserved byte", 8);
    if (r->status)
        return;
    memcpy(s->sha256, sha, SHA256_SIZE);
    if (s->size > k->size - s->off) {
        rd_fail(r, CAG_E_FORMAT, "section %s ends behind the file", s->name);
        return;
    }
    *end = kvc_page_up(s->off + s->size);
    for (int i = 0; i < k->n_section; i++)
        if (strcmp(k->section[i].name, s->name) == 0) {
            rd_fail(r, CAG_E_FORMAT, "section %s appears twice", s->name);
            return;
        }
    for (int i = 0; i < KVC_N_CORE; i++)
        if (strcmp(core_names[i], s->name) == 0)
            core = i;
    if (core < 0 && s->required)
        rd_fail(r, CAG_E_UNSUPPORTED,
                "section %s is required and not known to this program: use a "
                "newer one", s->name);
    else if (core >= 0 && !s->required)
        rd_fail(r, CAG_E_FORMAT, "section %s is not marked required",
                s->name);
    else if (core >= 0)
        k->core[core] = s;
    k->n_section++;
}

static cag_status read_header(cag_kvc *k, cag_error *err)
{
    struct rd  r;
    uint64_t   end = KVC_PAGE, file_size;
    uint32_t   n;
    cag_status st = check_kind(k, err);

    if (!st)
        st = check_version(k, err);
    if (st)
        return st;
    file_size = rd_le64(k->data + KVC_OFF_SIZE);
    st = check_header_sha(k, err);
    if (st)
        return st;
    if (file_size != k->size)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file has %zu bytes, its header says %llu: %s",
                        k->size, (unsigned long long)file_size,
                        k->size < file_size ? "it is truncated"
                                            : "something was appended");
    rd_init(&r, k->data, KVC_PAGE, k->name, 0, err);
    rd_seek(&r, "header", KVC_OFF_N_SECTION);
    n = rd_u32(&r, "number of sections", 1, KVC_MAX_SECTION);
    rd_seek(&r, "header", KVC_OFF_LAYOUT);
    if (rd_le32(k->data + KVC_OFF_LAYOUT) != KVC_LAYOUT_TILES)
        rd_fail(&r, CAG_E_UNSUPPORTED,
                "tile layout %u, this program reads layout %u",
                rd_le32(k->data + KVC_OFF_LAYOUT), KVC_LAYOUT_TILES);
    rd_seek(&r, "header", KVC_OFF_LAYOUT + 4);
    zeros(&r, "reserved byte", 4);
    rd_seek(&r, "header", KVC_OFF_SHA256 + SHA256_SIZE);
    zeros(&r, "reserved byte", KVC_OFF_SECTIONS - 64);
    for (uint32_t i = 0; i < n && !r.status; i++)
        add_section(k, &r, &end);
    zeros(&r, "unused header byte", rd_left(&r));
    if (!r.status && end != k->size)
        rd_fail(&r, CAG_E_FORMAT,
                "its sections take %llu bytes of the file's %zu",
                (unsigned long long)end, k->size);
    for (int i = 0; i < KVC_N_CORE && !r.status; i++)
        if (!k->core[i])
            rd_fail(&r, CAG_E_FORMAT, "section %s is missing", core_names[i]);
    return r.status;
}

/* -------------------------------------------------------- small sections */

static cag_status section_bad(const cag_kvc *k, const struct kvc_section *s,
                              cag_status st, cag_error *err, const char *what)
{
    return cag_fail(err, st, k->name, (int64_t)s->off, "section %s %s",
                    s->name, what);
}

static cag_status check_digests(const cag_kvc *k, cag_error *err)
{
    uint8_t d[SHA256_SIZE];

    for (int i = 0; i < k->n_section; i++) {
        const struct kvc_section *s = &k->section[i];
        cag_status                st;

        if (s == k->core[KVC_KV])
            continue;
        st = sha256_buf(k->data + s->off, (size_t)s->size, d, err);
        if (st)
            return st;
        if (memcmp(d, s->sha256, sizeof d) != 0)
            return section_bad(k, s, CAG_E_CORRUPT, err,
                               "is damaged (SHA-256 differs)");
    }
    return CAG_OK;
}

static const char *chars(const uint8_t *p)
{
    return (const char *)p;
}

/* A JSON section, which must be in canonical form: its digest and the
 * binding are those of the value, not of one way to write it. */
static cag_status read_json(const cag_kvc *k, const struct kvc_section *s,
                            jv **out, cag_error *err)
{
    struct buf                b = BUF_INIT;
    cag_error                 why = CAG_ERROR_INIT;
    cag_status                st;

    if (s->size > KVC_MAX_JSON)
        return section_bad(k, s, CAG_E_LIMIT, err, "is larger than 64 MiB");
    st = jv_parse(chars(k->data + s->off), (size_t)s->size, NULL, out, &why);
    if (st == CAG_E_NOMEM)
        return cag_fail_nomem(err, s->name);
    if (st)
        return cag_fail(err, CAG_E_FORMAT, k->name, (int64_t)s->off,
                        "section %s is not JSON: %s", s->name, why.msg);
    st = jv_dump_canonical(*out, &b, &why);
    if (st == CAG_E_NOMEM)
        st = cag_fail_nomem(err, s->name);
    else if (st)
        st = cag_fail(err, CAG_E_FORMAT, k->name, (int64_t)s->off,
                      "section %s is not canonical JSON: %s", s->name,
                      why.msg);
    else if (b.size != s->size ||
             memcmp(b.data, k->data + s->off, b.size) != 0)
        st = section_bad(k, s, CAG_E_FORMAT, err,
                         "is not canonical JSON (sorted, without spaces)");
    buf_free(&b);
    return st;
}

static cag_status read_text(cag_kvc *k, uint64_t n, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_TEXT];
    struct rd                 r;
    uint32_t                  method;
    const uint8_t            *body;
    cag_error                 why = CAG_ERROR_INIT;
    char                      hex[2 * SHA256_SIZE + 1];
    uint8_t                   d[SHA256_SIZE];
    cag_status                st = CAG_OK;

    if (n > KVC_MAX_TOK_TEXT * (uint64_t)k->shape.n_tok)
        return section_bad(k, s, CAG_E_FORMAT, err,
                           "is too long for its number of tokens");
    rd_init(&r, k->data + s->off, (size_t)s->size, k->name, (int64_t)s->off,
            err);
    rd_u64(&r, "TEXT: expanded size", n, n);
    method = rd_u32(&r, "TEXT: method", KVC_TEXT_RAW, KVC_TEXT_ZSTD);
    rd_u32(&r, "TEXT: reserved word", 0, 0);
    if (!r.status && method == KVC_TEXT_RAW && rd_left(&r) != n)
        rd_fail(&r, CAG_E_FORMAT, "TEXT: %zu bytes, expected %llu",
                rd_left(&r), (unsigned long long)n);
    body = rd_bytes(&r, "TEXT: body", rd_left(&r));
    if (r.status)
        return r.status;
    k->text_size = (size_t)n;
    k->text = mem_alloc(k->text_size + 1);
    if (!k->text)
        return cag_fail_nomem(err, "prefix text");
    k->text[n] = 0;
    if (method == KVC_TEXT_RAW && n)
        memcpy(k->text, body, k->text_size);
    else if (method == KVC_TEXT_ZSTD)
        st = kvc_text_expand(body, (size_t)s->size - KVC_TEXT_HEAD, k->text,
                             k->text_size, &why);
    if (st == CAG_E_NOMEM)
        return cag_error_copy(err, &why);
    if (st)
        return cag_fail(err, st, k->name, (int64_t)s->off, "section TEXT: %s",
                        why.msg);
    if (!utf8_valid(k->text, k->text_size, NULL))
        return section_bad(k, s, CAG_E_FORMAT, err, "is not UTF-8");
    st = sha256_buf(k->text, k->text_size, d, err);
    if (st)
        return st;
    hash_hex(d, sizeof d, hex);
    if (strcmp(hex, k->info.text_sha256) != 0)
        return section_bad(k, s, CAG_E_CORRUPT, err,
                           "is damaged (SHA-256 is not META's)");
    return CAG_OK;
}

static cag_status read_toks(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_TOKS];
    size_t                    n = (size_t)k->shape.n_tok;
    int64_t                   last = 0;
    struct rd                 r;

    rd_init(&r, k->data + s->off, (size_t)s->size, k->name, (int64_t)s->off,
            err);
    rd_u64(&r, "TOKS: number of ids", n, n);
    rd_u64(&r, "TOKS: reserved word", 0, 0);
    if (!r.status && rd_left(&r) != 8 * n)
        rd_fail(&r, CAG_E_FORMAT, "TOKS: %zu bytes, expected %zu", rd_left(&r),
                8 * n);
    if (r.status)
        return r.status;
    k->ids = mem_alloc_array(n, sizeof *k->ids);
    k->id_off = mem_alloc_array(n, sizeof *k->id_off);
    if (!k->ids || !k->id_off)
        return cag_fail_nomem(err, "token ids");
    for (size_t i = 0; i < n; i++)
        k->ids[i] = rd_i32(&r, "TOKS: token id", 0, k->info.n_vocab - 1);
    for (size_t i = 0; i < n; i++) {
        last = rd_u32(&r, "TOKS: byte offset", (uint32_t)last,
                      (uint32_t)k->text_size);
        k->id_off[i] = last;
    }
    return r.status;
}

/* ---------------------------------------------------------------- chunks */

/* The table must be the only one the shape allows: packed, in order. */
static cag_status check_chunks(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_CHNK];
    const struct kvc_section *kv = k->core[KVC_KV];
    int                       per_layer = kvc_n_chunk(&k->shape);
    uint64_t                  n = (uint64_t)k->shape.n_layer *
                                  (uint64_t)per_layer, off = 0, end = 0;
    struct rd                 r;

    if (s->size != n * KVC_CHNK_SIZE)
        return cag_fail(err, CAG_E_FORMAT, k->name, (int64_t)s->off,
                        "section CHNK has %llu bytes, expected %llu for %llu "
                        "chunks", (unsigned long long)s->size,
                        (unsigned long long)(n * KVC_CHNK_SIZE),
                        (unsigned long long)n);
    if (!kvc_lazy_chunks(k->lazy, (size_t)n))
        return cag_fail_nomem(err, "chunk table");
    rd_init(&r, k->data + s->off, (size_t)s->size, k->name, (int64_t)s->off,
            err);
    for (uint64_t i = 0; i < n && !r.status; i++) {
        size_t   raw = kvc_chunk_bytes(&k->shape,
                                       (int)(i % (uint64_t)per_layer));
        uint64_t max = kvc_codec_stored_max(k->codec, raw), stored;

        rd_u64(&r, "CHNK: chunk offset", off, off);
        stored = rd_u64(&r, "CHNK: stored size",
                        k->codec == KVC_F16Z ? 1 : raw, max);
        rd_u64(&r, "CHNK: raw size", raw, raw);
        rd_u64(&r, "CHNK: XXH3", 0, UINT64_MAX);
        rd_bytes(&r, "CHNK: SHA-256", SHA256_SIZE);
        k->info.kv_raw_bytes += raw;
        k->info.kv_stored_bytes += stored;
        end = off + stored;
        off = kvc_page_up(end);
    }
    if (!r.status && end != kv->size)
        rd_fail(&r, CAG_E_FORMAT, "its chunks take %llu bytes, section KV "
                "has %llu", (unsigned long long)end,
                (unsigned long long)kv->size);
    return r.status;
}

/* KV's digest, binding and content id follow from the rest. */
static cag_status check_ids(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_CHNK];
    const uint8_t            *digests = k->data + s->off + 32;
    size_t                    n = (size_t)s->size / KVC_CHNK_SIZE;
    struct sha256             h = { NULL };
    struct buf                want = BUF_INIT, have = BUF_INIT;
    jv                       *binding = NULL;
    uint8_t                   d[SHA256_SIZE], id[SHA256_SIZE];
    char                      hex[2 * SHA256_SIZE + 1];
    cag_status                st = sha256_init(&h, err);

    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        sha256_update(&h, digests + i * KVC_CHNK_SIZE, SHA256_SIZE);
    sha256_final(&h, d);
    if (memcmp(d, k->core[KVC_KV]->sha256, sizeof d) != 0)
        return section_bad(k, s, CAG_E_CORRUPT, err,
                           "and the digest of KV disagree");
    st = kvc_binding(k->meta, k->srcs, kvc_codec_class(k->codec),
                     k->core[KVC_TKNZ]->sha256, &binding, d, err);
    if (st)
        return st;
    st = jv_dump_canonical(binding, &want, err);
    if (!st)
        st = jv_dump_canonical(jv_get(k->meta, "binding"), &have, err);
    if (st)
        goto out;
    hash_hex(d, sizeof d, hex);
    if (want.size != have.size ||
        memcmp(want.data, have.data, want.size) != 0 ||
        strcmp(hex, k->info.binding) != 0) {
        st = section_bad(k, k->core[KVC_META], CAG_E_CORRUPT, err,
                         "has a binding that the other sections contradict");
        goto out;
    }
    st = kvc_content_id(d, k->ids, (size_t)k->shape.n_tok, digests,
                        KVC_CHNK_SIZE, n, id, err);
    if (st)
        goto out;
    hash_hex(id, sizeof id, hex);
    if (strcmp(hex, k->info.content_id) != 0)
        st = section_bad(k, k->core[KVC_META], CAG_E_CORRUPT, err,
                         "has a content id that the other sections "
                         "contradict");
out:
    buf_free(&want);
    buf_free(&have);
    jv_free(binding);
    return st;
}

/* --------------------------------------------------------------- receipt */

static const struct kvc_section *find_section(const cag_kvc *k,
                                              const char *name)
{
    for (int i = 0; i < k->n_section; i++)
        if (strcmp(k->section[i].name, name) == 0)
            return &k->section[i];
    return NULL;
}

/* A lossy file says what it lost; any other has nothing to say. */
static cag_status read_receipt(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = find_section(k, "RCPT");
    jv         *v = NULL;
    cag_status  st;

    if (!kvc_codec_lossy(k->codec))
        return s ? section_bad(k, s, CAG_E_FORMAT, err,
                               "has no place here: the codec loses nothing")
                 : CAG_OK;
    if (!s && k->is_draft)
        return CAG_OK;
    if (!s)
        return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                        "section RCPT is missing: codec %s changes values, "
                        "and a cache without a receipt of how much is not "
                        "used", k->info.codec);
    st = read_json(k, s, &v, err);
    if (!st)
        st = kvc_receipt_from_json(v, k->name, k->info.codec, &k->shape,
                                   &k->arena, &k->receipt, err);
    jv_free(v);
    return st;
}

/* ------------------------------------------------------------------ open */

static cag_status read_sections(cag_kvc *k, cag_error *err)
{
    struct kvc_check c = { k->name, CAG_E_FORMAT, err, CAG_OK };
    uint64_t         text_size = 0;
    cag_status       st = check_digests(k, err);

    if (!st)
        st = read_json(k, k->core[KVC_META], &k->meta, err);
    if (!st)
        st = read_json(k, k->core[KVC_SRCS], &k->srcs, err);
    if (!st)
        st = read_json(k, k->core[KVC_PRMT], &k->prmt, err);
    if (st)
        return st;
    kvc_check_meta(&c, k->meta, &k->info);
    if (!c.st)
        kvc_check_meta_kv(&c, k->meta, &k->info, &k->shape, &k->codec,
                          &text_size);
    kvc_check_srcs(&c, k->srcs, text_size, k->shape.n_tok, &k->arena,
                   &k->source, &k->info.n_source);
    kvc_check_prmt(&c, k->prmt, k->info.n_vocab, &k->info);
    if (c.st)
        return c.st;
    st = check_chunks(k, err);
    if (!st)
        st = read_text(k, text_size, err);
    if (!st)
        st = read_toks(k, err);
    if (!st)
        st = check_ids(k, err);
    return st ? st : read_receipt(k, err);
}

static cag_status parse(cag_kvc *k, const void *data, size_t size,
                        const char *name, cag_error *err)
{
    cag_status st;

    k->data = data;
    k->size = size;
    k->name = arena_strndup(&k->arena, name, strlen(name));
    k->lazy = kvc_lazy_new();
    if (!k->name || !k->lazy)
        return cag_fail_nomem(err, "cache");
    k->info.path = k->name;
    k->info.size_bytes = size;
    st = read_header(k, err);
    return st ? st : read_sections(k, err);
}

static cag_status parse_memory(const void *data, size_t size,
                               const char *name, bool is_draft, cag_kvc **out,
                               cag_error *err)
{
    cag_kvc   *k = mem_zalloc(sizeof *k);
    cag_status st;

    if (!k)
        return cag_fail_nomem(err, "cache");
    k->is_draft = is_draft;
    st = parse(k, data, size, name, err);
    if (st) {
        cag_kvc_close(k);
        return st;
    }
    *out = k;
    return CAG_OK;
}

cag_status kvc_parse(const void *data, size_t size, const char *name,
                     cag_kvc **out, cag_error *err)
{
    return parse_memory(data, size, name, false, out, err);
}

cag_status kvc_parse_draft(const void *data, size_t size, const char *name,
                           cag_kvc **out, cag_error *err)
{
    return parse_memory(data, size, name, true, out, err);
}

cag_status cag_kvc_open(const char *path, cag_kvc **out, cag_error *err)
{
    cag_kvc   *k = mem_zalloc(sizeof *k);
    cag_status st;

    if (!k)
        return cag_fail_nomem(err, "cache");
    st = file_map(&k->map, path, err);
    if (!st)
        st = parse(k, k->map.data, k->map.size, path, err);
    if (st) {
        cag_kvc_close(k);
        return st;
    }
    *out = k;
    return CAG_OK;
}

void cag_kvc_close(cag_kvc *k)
{
    if (!k)
        return;
    kvc_lazy_free(k->lazy);
    mem_free(k->ids);
    mem_free(k->id_off);
    mem_free(k->text);
    jv_free(k->meta);
    jv_free(k->srcs);
    jv_free(k->prmt);
    arena_release(&k->arena);
    file_unmap(&k->map);
    mem_free(k);
}

/* --------------------------------------------------------------- getters */

const cag_kvc_info *cag_kvc_get_info(const cag_kvc *k)
{
    return &k->info;
}

const cag_kvc_receipt *cag_kvc_get_receipt(const cag_kvc *k)
{
    return k->receipt;
}

const cag_kvc_source *cag_kvc_get_source(const cag_kvc *k, int i)
{
    return i >= 0 && i < k->info.n_source ? &k->source[i] : NULL;
}

const char *cag_kvc_text(const cag_kvc *k, size_t *size)
{
    if (size)
        *size = k->text_size;
    return k->text;
}

const int32_t *cag_kvc_ids(const cag_kvc *k, size_t *n)
{
    if (n)
        *n = (size_t)k->shape.n_tok;
    return k->ids;
}

const int64_t *cag_kvc_id_offsets(const cag_kvc *k)
{
    return k->id_off;
}

const char *cag_kvc_meta_json(const cag_kvc *k, size_t *size)
{
    if (size)
        *size = (size_t)k->core[KVC_META]->size;
    return chars(k->data + k->core[KVC_META]->off);
}

int cag_kvc_n_section(const cag_kvc *k)
{
    return k->n_section;
}

void cag_kvc_get_section(const cag_kvc *k, int i, cag_kvc_section *out)
{
    const struct kvc_section *s = &k->section[i];

    memcpy(out->name, s->name, sizeof out->name);
    out->off = s->off;
    out->size_bytes = s->size;
    out->required = s->required;
    hash_hex(s->sha256, sizeof s->sha256, out->sha256);
}

const uint8_t *kvc_section_data(const cag_kvc *k, const char *name,
                                size_t *size)
{
    const struct kvc_section *s = find_section(k, name);

    if (!s)
        return NULL;
    *size = (size_t)s->size;
    return k->data + s->off;
}

const struct kvc_shape *kvc_get_shape(const cag_kvc *k)
{
    return &k->shape;
}

const jv *kvc_sources(const cag_kvc *k)
{
    return k->srcs;
}

const jv *kvc_meta(const cag_kvc *k)
{
    return k->meta;
}

const jv *kvc_prmt(const cag_kvc *k)
{
    return k->prmt;
}
