/*
 * kvc_sections.c - what the sections of a cache say, and whether they agree.
 *
 * The small ones are undamaged (SHA-256) before anything in them is believed,
 * and nothing is allocated by a number that was not checked against the size
 * of the file or, for TEXT, against the number of tokens.  Of KV only the
 * table is read: see kvc_read.c.
 */
#include <string.h>

#include "kvc/kvc_attention.h"
#include "kvc/kvc_impl.h"
#include "kvc/kvc_receipt.h"
#include "util/mem.h"
#include "util/rd.h"
#include "util/text.h"

static cag_status section_bad(const cag_kvc *k, const struct kvc_section *s,
                              cag_status st, cag_error *err, const char *what)
{
    return cag_fail(err, st, k->name, (int64_t)s->off, "section %s %s", s->name,
                    what);
}

static cag_status check_digests(const cag_kvc *k, cag_error *err)
{
    uint8_t d[SHA256_SIZE];

    for (int i = 0; i < k->n_section; i++) {
        const struct kvc_section *s = &k->section[i];
        cag_status st;

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

/* A JSON section, which must be in canonical form: its digest and the
 * binding are those of the value, not of one way to write it. */
static cag_status read_json(const cag_kvc *k, const struct kvc_section *s,
                            jv **out, cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (s->size > KVC_MAX_JSON)
        return section_bad(k, s, CAG_E_LIMIT, err, "is larger than 64 MiB");
    st = jv_parse((const char *)(k->data + s->off), (size_t)s->size, NULL, out,
                  &why);
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
                      "section %s is not canonical JSON: %s", s->name, why.msg);
    else if (b.size != s->size || memcmp(b.data, k->data + s->off, b.size) != 0)
        st = section_bad(k, s, CAG_E_FORMAT, err,
                         "is not canonical JSON (sorted, without spaces)");
    buf_free(&b);
    return st;
}

static cag_status read_text(cag_kvc *k, uint64_t n, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_TEXT];
    struct rd r;
    uint32_t method;
    const uint8_t *body;
    cag_error why = CAG_ERROR_INIT;
    char hex[2 * SHA256_SIZE + 1];
    uint8_t d[SHA256_SIZE];
    cag_status st = CAG_OK;

    if (n > KVC_MAX_TOK_TEXT * (uint64_t)k->shape.n_tok)
        return section_bad(k, s, CAG_E_FORMAT, err,
                           "is too long for its number of tokens");
    rd_init(&r, k->data + s->off, (size_t)s->size, k->name, (int64_t)s->off,
            err);
    rd_u64(&r, "TEXT: expanded size", n, n);
    method = rd_u32(&r, "TEXT: method", KVC_TEXT_RAW, KVC_TEXT_ZSTD);
    rd_u32(&r, "TEXT: reserved word", 0, 0);
    if (!r.status && method == KVC_TEXT_RAW && rd_left(&r) != n)
        rd_fail(&r, CAG_E_FORMAT, "TEXT: %zu bytes, expected %llu", rd_left(&r),
                (unsigned long long)n);
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
    size_t n = (size_t)k->shape.n_tok;
    int64_t last = 0;
    struct rd r;

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
    int per_layer = kvc_n_chunk(&k->shape);
    uint64_t n = (uint64_t)k->shape.n_layer * (uint64_t)per_layer, off = 0,
             end = 0;
    struct rd r;

    if (s->size != n * KVC_CHNK_SIZE)
        return cag_fail(err, CAG_E_FORMAT, k->name, (int64_t)s->off,
                        "section CHNK has %llu bytes, expected %llu for %llu "
                        "chunks",
                        (unsigned long long)s->size,
                        (unsigned long long)(n * KVC_CHNK_SIZE),
                        (unsigned long long)n);
    if (!kvc_lazy_chunks(k->lazy, (size_t)n))
        return cag_fail_nomem(err, "chunk table");
    rd_init(&r, k->data + s->off, (size_t)s->size, k->name, (int64_t)s->off,
            err);
    for (uint64_t i = 0; i < n && !r.status; i++) {
        size_t raw = kvc_chunk_bytes(&k->shape, (int)(i % (uint64_t)per_layer));
        uint64_t max = kvc_codec_stored_max(k->codec, raw), stored;

        rd_u64(&r, "CHNK: chunk offset", off, off);
        stored = rd_u64(&r, "CHNK: stored size",
                        kvc_codec_in_place(k->codec) ? raw : 1, max);
        rd_u64(&r, "CHNK: raw size", raw, raw);
        rd_u64(&r, "CHNK: XXH3", 0, UINT64_MAX);
        rd_bytes(&r, "CHNK: SHA-256", SHA256_SIZE);
        k->info.kv_raw_bytes += raw;
        k->info.kv_stored_bytes += stored;
        end = off + stored;
        off = kvc_page_up(end);
    }
    if (!r.status && end != kv->size)
        rd_fail(&r, CAG_E_FORMAT,
                "its chunks take %llu bytes, section KV "
                "has %llu",
                (unsigned long long)end, (unsigned long long)kv->size);
    return r.status;
}

/* KV's digest, binding and content id follow from the rest. */
static cag_status check_ids(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_CHNK];
    const uint8_t *digests = k->data + s->off + KVC_CHNK_SHA256;
    size_t n = (size_t)s->size / KVC_CHNK_SIZE;
    struct sha256 h = { NULL };
    struct buf want = BUF_INIT, have = BUF_INIT;
    jv *binding = NULL;
    uint8_t d[SHA256_SIZE], id[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    cag_status st = sha256_init(&h, err);

    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        sha256_update(&h, digests + i * KVC_CHNK_SIZE, SHA256_SIZE);
    sha256_final(&h, d);
    if (memcmp(d, k->core[KVC_KV]->sha256, sizeof d) != 0)
        return section_bad(k, s, CAG_E_CORRUPT, err,
                           "and the digest of KV disagree");
    st = kvc_binding(k->meta, k->srcs, kvc_class_name(k->shape.kv_class),
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

const struct kvc_section *kvc_find_section(const cag_kvc *k, const char *name)
{
    for (int i = 0; i < k->n_section; i++)
        if (strcmp(k->section[i].name, name) == 0)
            return &k->section[i];
    return NULL;
}

/* A lossy file says what it lost; any other has nothing to say. */
static cag_status read_receipt(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = kvc_find_section(k, "RCPT");
    jv *v = NULL;
    cag_status st;

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
                        "used",
                        k->info.codec);
    st = read_json(k, s, &v, err);
    if (!st)
        st = kvc_receipt_from_json(v, k->name, k->info.codec, &k->shape,
                                   &k->arena, &k->receipt, err);
    jv_free(v);
    return st;
}

static cag_status read_attention(cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = kvc_find_section(k, "ATTN");
    jv *v = NULL;
    cag_status st;

    if (!s)
        return CAG_OK;
    st = read_json(k, s, &v, err);
    if (!st)
        st = kvc_attention_from_json(v, k->name, &k->shape, &k->arena,
                                     &k->attention, err);
    jv_free(v);
    return st;
}

/* ------------------------------------------------------------------- all */

cag_status kvc_read_sections(cag_kvc *k, cag_error *err)
{
    struct kvc_check c = { k->name, CAG_E_FORMAT, err, CAG_OK };
    uint64_t text_size = 0;
    cag_status st = check_digests(k, err);

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
    if (!st)
        st = read_receipt(k, err);
    return st ? st : read_attention(k, err);
}
