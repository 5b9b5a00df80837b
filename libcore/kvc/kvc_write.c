/*
 * kvc_write.c - stream a cache to disk.
 *
 * Where every section begins is known before the first chunk is computed:
 * the digests inside META have fixed width, and KV, whose size is not known,
 * is the last.  So chunks go straight to their place in order, the small
 * sections are written after them, the header last.
 *
 *   batch of chunks:  [fill raw, SHA-256, encode, XXH3] by all threads,
 *                     then written in order by the caller's thread
 *
 * Memory is bounded by the batch (two chunks per thread); bytes do not depend
 * on the number of threads.  Gaps between sections are never written: a new
 * file reads as zero there.
 */
#include "kvc/kvc_write.h"

#include <string.h>

#include "kvc/kvc_attention.h"
#include "kvc/kvc_codec.h"
#include "kvc/kvc_impl.h"
#include "kvc/kvc_meta.h"
#include "kvc/kvc_receipt.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/rd.h"

struct section {
    char name[5];
    bool required;
    const uint8_t *data;
    uint64_t off, size;
    uint8_t sha256[SHA256_SIZE];
};

struct slot {
    uint8_t *stored; /* what goes to disk */
    size_t n_stored;
    uint64_t xxh3;
    uint8_t sha256[SHA256_SIZE];
    cag_status st;
    cag_error err;
};

struct worker {
    struct kvc_coder *coder;
    uint8_t *raw; /* NULL for plain codecs */
};

struct writer {
    const struct kvc_desc *d;
    struct kvc_shape shape;
    enum kvc_codec codec;
    struct section sec[KVC_MAX_SECTION];
    int n_sec;
    jv *meta;
    uint8_t binding[SHA256_SIZE];
    struct buf meta_text, srcs_text, prmt_text, text;
    uint8_t *toks, *chnk;
    size_t chnk_size;
    int per_layer, n_chunk;
    struct slot *slot;
    struct worker *worker;
    int n_slot, n_worker;
    int first; /* chunk in slot 0 */
    struct kvc_made made;
    struct buf receipt, attention; /* RCPT, ATTN */
    struct file_out out;
    bool open;
};

/* ------------------------------------------------------- small sections */

static bool set_hex(jv *o, const char *key, const uint8_t d[SHA256_SIZE])
{
    char hex[2 * SHA256_SIZE + 1];

    hash_hex(d, SHA256_SIZE, hex);
    return jv_set_str(o, key, hex);
}

static jv *kv_object(const struct writer *w)
{
    jv *o = jv_new_object();

    if (o && jv_set_int(o, "chunk_tok", w->shape.chunk_tok) &&
        jv_set_str(o, "class", kvc_class_name(w->shape.kv_class)) &&
        jv_set_str(o, "codec", kvc_codec_name(w->codec)) &&
        jv_set_int(o, "d_head", w->shape.d_head) &&
        jv_set_int(o, "layout", KVC_LAYOUT_TILES) &&
        jv_set_int(o, "n_kv_head", w->shape.n_kv_head) &&
        jv_set_int(o, "n_layer", w->shape.n_layer) &&
        jv_set_int(o, "n_tok", w->shape.n_tok))
        return o;
    jv_free(o);
    return NULL;
}

static jv *text_object(const struct writer *w, const uint8_t d[SHA256_SIZE])
{
    jv *o = jv_new_object();

    if (o && set_hex(o, "sha256", d) &&
        jv_set_int(o, "size_bytes", (int64_t)w->d->text_size))
        return o;
    jv_free(o);
    return NULL;
}

/* META but for the content id, which is a placeholder of its width. */
static cag_status make_meta(struct writer *w, cag_error *err)
{
    uint8_t tknz[SHA256_SIZE], text[SHA256_SIZE];
    uint8_t none[SHA256_SIZE] = { 0 };
    jv *binding = NULL;
    cag_status st;

    w->meta = jv_copy(w->d->meta);
    if (!w->meta)
        return cag_fail_nomem(err, "META");
    st = sha256_buf(w->d->tokenizer, w->d->tokenizer_size, tknz, err);
    if (!st)
        st = sha256_buf(w->d->text, w->d->text_size, text, err);
    if (!st)
        st = kvc_binding(w->d->meta, w->d->sources,
                         kvc_class_name(w->shape.kv_class), tknz, &binding,
                         w->binding, err);
    if (st)
        return st;
    if (!jv_set(w->meta, "binding", binding) ||
        !set_hex(w->meta, "binding_sha256", w->binding) ||
        !set_hex(w->meta, "content_id", none) ||
        !jv_set(w->meta, "kv", kv_object(w)) ||
        !jv_set(w->meta, "text", text_object(w, text)))
        return cag_fail_nomem(err, "META");
    return jv_dump_canonical(w->meta, &w->meta_text, err);
}

static cag_status make_text(struct writer *w, cag_error *err)
{
    uint8_t head[KVC_TEXT_HEAD] = { 0 };
    uint32_t method;
    cag_status st;

    rd_put64(head, w->d->text_size);
    buf_add(&w->text, head, sizeof head);
    st = kvc_text_pack(w->d->text, w->d->text_size, &w->text, &method, err);
    if (st)
        return st;
    rd_put32(head + 8, method);
    memcpy(w->text.data, head, sizeof head);
    return CAG_OK;
}

static cag_status make_toks(struct writer *w, cag_error *err)
{
    size_t n = w->d->n_ids;

    w->toks = mem_zalloc(KVC_TOKS_HEAD + 8 * n);
    if (!w->toks)
        return cag_fail_nomem(err, "token ids");
    rd_put64(w->toks, n);
    for (size_t i = 0; i < n; i++) {
        rd_put32(w->toks + KVC_TOKS_HEAD + 4 * i, (uint32_t)w->d->ids[i]);
        rd_put32(w->toks + KVC_TOKS_HEAD + 4 * (n + i),
                 (uint32_t)w->d->id_off[i]);
    }
    return CAG_OK;
}

static void add(struct writer *w, const char *name, bool required,
                const void *data, uint64_t size)
{
    struct section *s = &w->sec[w->n_sec];

    memcpy(s->name, name, strlen(name) + 1);
    s->required = required;
    s->data = data;
    s->size = size;
    s->off = w->n_sec ? kvc_page_up(s[-1].off + s[-1].size) : KVC_PAGE;
    w->n_sec++;
}

static cag_status make_sections(struct writer *w, cag_error *err)
{
    const struct kvc_desc *d = w->d;
    cag_status st = make_meta(w, err);

    if (!st)
        st = jv_dump_canonical(d->sources, &w->srcs_text, err);
    if (!st)
        st = jv_dump_canonical(d->prompt, &w->prmt_text, err);
    if (!st)
        st = make_text(w, err);
    if (!st)
        st = make_toks(w, err);
    if (st)
        return st;
    if (w->meta_text.size > KVC_MAX_JSON || w->srcs_text.size > KVC_MAX_JSON ||
        w->prmt_text.size > KVC_MAX_JSON)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "META, SRCS or PRMT is larger than 64 MiB");
    w->per_layer = kvc_n_chunk(&w->shape);
    w->n_chunk = w->per_layer * w->shape.n_layer;
    w->chnk_size = (size_t)w->n_chunk * KVC_CHNK_SIZE;
    w->chnk = mem_zalloc(w->chnk_size);
    if (!w->chnk)
        return cag_fail_nomem(err, "chunk table");
    add(w, "META", true, w->meta_text.data, w->meta_text.size);
    add(w, "SRCS", true, w->srcs_text.data, w->srcs_text.size);
    add(w, "TEXT", true, w->text.data, w->text.size);
    add(w, "TOKS", true, w->toks, KVC_TOKS_HEAD + 8 * d->n_ids);
    add(w, "PRMT", true, w->prmt_text.data, w->prmt_text.size);
    add(w, "TKNZ", true, d->tokenizer, d->tokenizer_size);
    for (int i = 0; i < d->n_extra; i++)
        add(w, d->extra[i].name, false, d->extra[i].data, d->extra[i].size);
    add(w, "CHNK", true, w->chnk, w->chnk_size);
    add(w, "KV", true, NULL, 0);
    return CAG_OK;
}

/* ---------------------------------------------------------------- chunks */

static cag_status make_slots(struct writer *w, int n_thread, cag_error *err)
{
    size_t raw = kvc_chunk_bytes(&w->shape, 0);
    bool pack = !kvc_codec_in_place(w->codec);

    w->n_worker = n_thread;
    w->n_slot = 2 * n_thread < w->n_chunk ? 2 * n_thread : w->n_chunk;
    w->worker = mem_alloc_array((size_t)w->n_worker, sizeof *w->worker);
    w->slot = mem_alloc_array((size_t)w->n_slot, sizeof *w->slot);
    if (!w->worker || !w->slot)
        return cag_fail_nomem(err, "KV chunks");
    for (int i = 0; i < w->n_slot; i++) {
        w->slot[i].stored =
            mem_alloc_aligned(64, pack ? kvc_encode_bound(raw) : raw);
        if (!w->slot[i].stored)
            return cag_fail_nomem(err, "KV chunk");
    }
    for (int i = 0; pack && i < w->n_worker; i++) {
        w->worker[i].coder = kvc_coder_new();
        w->worker[i].raw = mem_alloc_aligned(64, raw);
        if (!w->worker[i].coder || !w->worker[i].raw)
            return cag_fail_nomem(err, "KV chunk");
    }
    return CAG_OK;
}

static cag_status encode_one(struct writer *w, struct worker *wk,
                             struct slot *s, int i, cag_error *err)
{
    int layer = i / w->per_layer, chunk = i % w->per_layer;
    size_t n = kvc_chunk_bytes(&w->shape, chunk);
    uint8_t *raw = wk->raw ? wk->raw : s->stored;
    cag_status st = w->d->chunk(w->d->ctx, layer, chunk, raw, err);

    if (!st)
        st = sha256_buf(raw, n, s->sha256, err);
    s->n_stored = n;
    if (!st && wk->raw)
        st = kvc_encode(w->codec, wk->coder, raw, n, s->stored, &s->n_stored,
                        err);
    if (!st)
        s->xxh3 = xxh3_64(s->stored, s->n_stored);
    return st;
}

static void encode_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct writer *w = ctx;

    for (int64_t i = begin; i < end; i++) {
        struct slot *s = &w->slot[i];

        s->err = (cag_error)CAG_ERROR_INIT;
        s->st =
            encode_one(w, &w->worker[thread], s, w->first + (int)i, &s->err);
    }
}

static cag_status write_chunks(struct writer *w, struct pool *pool,
                               cag_error *err)
{
    struct section *kv = &w->sec[w->n_sec - 1];
    uint64_t at = 0, end = 0, done = 0, total = 0;

    for (int i = 0; i < w->per_layer; i++)
        total += (uint64_t)w->shape.n_layer * kvc_chunk_bytes(&w->shape, i);
    for (w->first = 0; w->first < w->n_chunk; w->first += w->n_slot) {
        int n = w->n_chunk - w->first;

        if (n > w->n_slot)
            n = w->n_slot;
        pool_run(pool, encode_range, w, n, 1);
        for (int i = 0; i < n; i++) {
            struct slot *s = &w->slot[i];
            size_t raw =
                kvc_chunk_bytes(&w->shape, (w->first + i) % w->per_layer);
            uint8_t *e = w->chnk + (size_t)(w->first + i) * KVC_CHNK_SIZE;
            cag_status st;

            if (s->st)
                return cag_error_copy(err, &s->err);
            st = file_out_pwrite(&w->out, s->stored, s->n_stored, kv->off + at,
                                 err);
            if (st)
                return st;
            rd_put64(e + KVC_CHNK_OFF, at);
            rd_put64(e + KVC_CHNK_STORED, s->n_stored);
            rd_put64(e + KVC_CHNK_RAW, raw);
            rd_put64(e + KVC_CHNK_XXH3, s->xxh3);
            memcpy(e + KVC_CHNK_SHA256, s->sha256, SHA256_SIZE);
            end = at + s->n_stored;
            at = kvc_page_up(end);
            done += raw;
            w->made.kv_stored_bytes += s->n_stored;
        }
        cag_progress p = { "write", CAG_UNIT_BYTES, done, total };

        if (w->d->progress && !w->d->progress(w->d->progress_ctx, &p))
            return cag_fail(err, CAG_E_CANCELLED, w->out.at.path, -1,
                            "cancelled");
    }
    kv->size = end;
    w->made.kv_raw_bytes = done;
    return CAG_OK;
}

/* ------------------------------------------------------------------- end */

/* META with its content id; the KV section's digest. */
static cag_status finish_meta(struct writer *w, cag_error *err)
{
    struct section *kv = &w->sec[w->n_sec - 1];
    const uint8_t *digests = w->chnk + 32;
    size_t size = w->meta_text.size;
    uint8_t id[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    struct sha256 h = { NULL };
    cag_status st = sha256_init(&h, err);

    if (st)
        return st;
    for (int i = 0; i < w->n_chunk; i++)
        sha256_update(&h, digests + (size_t)i * KVC_CHNK_SIZE, SHA256_SIZE);
    sha256_final(&h, kv->sha256);
    st = kvc_content_id(w->binding, w->d->ids, w->d->n_ids, digests,
                        KVC_CHNK_SIZE, (size_t)w->n_chunk, id, err);
    if (st)
        return st;
    hash_hex(id, sizeof id, hex);
    if (w->d->expect_content_id && strcmp(w->d->expect_content_id, hex) != 0)
        return cag_fail(err, CAG_E_CORRUPT, w->out.at.path, -1,
                        "content id is %s, expected %s", hex,
                        w->d->expect_content_id);
    memcpy(w->made.content_id, hex, sizeof hex);
    if (!set_hex(w->meta, "content_id", id))
        return cag_fail_nomem(err, "META");
    buf_clear(&w->meta_text);
    st = jv_dump_canonical(w->meta, &w->meta_text, err);
    if (!st && w->meta_text.size != size)
        st = cag_fail(err, CAG_E_INTERNAL, w->out.at.path, -1,
                      "META changed its size");
    w->sec[0].data = (const uint8_t *)w->meta_text.data;
    return st;
}

static cag_status write_header(struct writer *w, uint64_t size, cag_error *err)
{
    uint8_t page[KVC_PAGE] = { 0 }, d[SHA256_SIZE];
    cag_status st;

    memcpy(page, KVC_MAGIC, 8);
    rd_put16(page + KVC_OFF_MAJOR, CAG_KVC_MAJOR);
    rd_put16(page + KVC_OFF_MINOR, CAG_KVC_MINOR);
    rd_put32(page + KVC_OFF_N_SECTION, (uint32_t)w->n_sec);
    rd_put64(page + KVC_OFF_SIZE, size);
    rd_put32(page + KVC_OFF_LAYOUT, KVC_LAYOUT_TILES);
    for (int i = 0; i < w->n_sec; i++) {
        uint8_t *e = page + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;

        memcpy(e, w->sec[i].name, strlen(w->sec[i].name));
        rd_put32(e + 4, w->sec[i].required ? KVC_REQUIRED : 0);
        rd_put64(e + 8, w->sec[i].off);
        rd_put64(e + 16, w->sec[i].size);
        memcpy(e + 24, w->sec[i].sha256, SHA256_SIZE);
    }
    st = sha256_buf(page, sizeof page, d, err);
    if (st)
        return st;
    memcpy(page + KVC_OFF_SHA256, d, sizeof d);
    return file_out_pwrite(&w->out, page, sizeof page, 0, err);
}

static cag_status write_section(struct writer *w, struct section *s,
                                cag_error *err)
{
    cag_status st = sha256_buf(s->data, (size_t)s->size, s->sha256, err);

    return st ? st
              : file_out_pwrite(&w->out, s->data, (size_t)s->size, s->off, err);
}

/* Fill the page of the last section, then say in the header what there is. */
static cag_status close_off(struct writer *w, cag_error *err)
{
    static const uint8_t zero[KVC_PAGE];
    const struct section *last = &w->sec[w->n_sec - 1];
    uint64_t end = last->off + last->size, size = kvc_page_up(end);
    cag_status st = CAG_OK;

    if (size > end)
        st = file_out_pwrite(&w->out, zero, (size_t)(size - end), end, err);
    w->made.size_bytes = size;
    return st ? st : write_header(w, size, err);
}

static cag_status write_rest(struct writer *w, cag_error *err)
{
    cag_status st = finish_meta(w, err);

    for (int i = 0; !st && i < w->n_sec - 1; i++)
        st = write_section(w, &w->sec[i], err);
    return st ? st : close_off(w, err);
}

/* --------------------------------------------------------------- receipt */

/* The caller's numbers as a section, checked as a reader will. */
static cag_status make_receipt(struct writer *w, const cag_kvc_receipt *r,
                               cag_error *err)
{
    struct arena a = { NULL };
    cag_kvc_receipt *read;
    cag_error why = CAG_ERROR_INIT;
    jv *v = NULL;
    cag_status st =
        kvc_receipt_to_json(r, w->d->codec, w->shape.n_layer, &v, err);

    if (!st)
        st = jv_dump_canonical(v, &w->receipt, err);
    if (!st && kvc_receipt_from_json(v, NULL, w->d->codec, &w->shape, &a, &read,
                                     &why) != CAG_OK) {
        if (why.status == CAG_E_FORMAT)
            why.status = CAG_E_USAGE;
        st = cag_error_copy(err, &why);
    }
    arena_release(&a);
    jv_free(v);
    return st;
}

/*
 * The file but for what is measured of it is complete: it is opened as a
 * reader would, for the caller to measure.  RCPT and ATTN stand after KV,
 * because their size is not known before.
 */
static cag_status measure(struct writer *w, cag_kvc_receipt *r,
                          cag_kvc_attention *a, cag_error *err)
{
    struct file_map map;
    cag_kvc *draft = NULL;
    cag_status st = file_out_map(&w->out, &map, err);

    if (st)
        return st;
    st = kvc_parse_draft(map.data, map.size, w->out.at.path, &draft, err);
    if (!st && w->d->receipt)
        st = w->d->receipt(w->d->receipt_ctx, draft, r, err);
    if (!st && w->d->attention)
        st = w->d->attention(w->d->attention_ctx, draft, a, err);
    cag_kvc_close(draft);
    file_unmap(&map);
    return st;
}

static cag_status add_measured(struct writer *w, cag_error *err)
{
    cag_kvc_receipt r = { .version = KVC_RECEIPT_VERSION };
    cag_kvc_attention a = { .version = KVC_ATTENTION_VERSION };
    int first = w->n_sec;
    cag_status st = measure(w, &r, &a, err);

    if (!st && w->d->receipt) {
        st = make_receipt(w, &r, err);
        if (!st)
            add(w, "RCPT", false, w->receipt.data, w->receipt.size);
    }
    if (!st && a.n_head) {
        st = kvc_attention_section(&a, &w->shape, &w->attention, err);
        if (!st)
            add(w, "ATTN", false, w->attention.data, w->attention.size);
    }
    for (int i = first; i < w->n_sec && !st; i++)
        st = write_section(w, &w->sec[i], err);
    return st || w->n_sec == first ? st : close_off(w, err);
}

static void release(struct writer *w)
{
    if (w->open)
        file_out_abort(&w->out);
    for (int i = 0; w->slot && i < w->n_slot; i++)
        mem_free(w->slot[i].stored);
    for (int i = 0; w->worker && i < w->n_worker; i++) {
        kvc_coder_free(w->worker[i].coder);
        mem_free(w->worker[i].raw);
    }
    mem_free(w->slot);
    mem_free(w->worker);
    mem_free(w->toks);
    mem_free(w->chnk);
    buf_free(&w->meta_text);
    buf_free(&w->srcs_text);
    buf_free(&w->prmt_text);
    buf_free(&w->text);
    buf_free(&w->receipt);
    buf_free(&w->attention);
    jv_free(w->meta);
    mem_free(w);
}

cag_status kvc_write(const char *path, const struct kvc_desc *d, int mode,
                     struct pool *pool, cag_error *err)
{
    struct writer *w = mem_zalloc(sizeof *w);
    cag_status st;

    if (!w)
        return cag_fail_nomem(err, "cache writer");
    w->d = d;
    st = kvc_desc_check(d, &w->shape, &w->codec, err);
    if (!st)
        st = make_sections(w, err);
    if (!st)
        st = make_slots(w, pool_size(pool), err);
    if (!st)
        st = file_out_open(&w->out, path, mode, err);
    if (st)
        goto out;
    w->open = true;
    st = write_chunks(w, pool, err);
    if (!st)
        st = write_rest(w, err);
    if (!st && (d->receipt || d->attention))
        st = add_measured(w, err);
    if (!st) {
        w->open = false; /* commit aborts itself */
        st = file_out_commit(&w->out, err);
        if (!st && d->made)
            *d->made = w->made;
    }
out:
    release(w);
    return st;
}
