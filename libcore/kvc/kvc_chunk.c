/*
 * kvc_chunk.c - KV chunks: checked, and expanded where the codec packs.
 *
 * The check before use is XXH3-64 of the stored bytes (20 GB/s), which finds
 * damage; who fears forgery uses cag_kvc_verify (SHA-256 of the raw bytes).
 */
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_impl.h"
#include "util/rd.h"
#include "util/shell.h"

void kvc_chunk_ref(const cag_kvc *k, int layer, int chunk,
                   struct kvc_chunk_ref *out)
{
    size_t i = (size_t)layer * (size_t)kvc_n_chunk(&k->shape) + (size_t)chunk;
    const uint8_t *e = k->data + k->core[KVC_CHNK]->off + i * KVC_CHNK_SIZE;

    out->off = k->core[KVC_KV]->off + rd_le64(e + KVC_CHNK_OFF);
    out->stored = k->data + out->off;
    out->n_stored = (size_t)rd_le64(e + KVC_CHNK_STORED);
    out->n_raw = (size_t)rd_le64(e + KVC_CHNK_RAW);
    out->xxh3 = rd_le64(e + KVC_CHNK_XXH3);
    out->sha256 = e + KVC_CHNK_SHA256;
}

const uint8_t *kvc_chunk_sha256(const cag_kvc *k, int layer, int chunk)
{
    struct kvc_chunk_ref r;

    kvc_chunk_ref(k, layer, chunk, &r);
    return r.sha256;
}

cag_status kvc_fail_damaged(const cag_kvc *k, uint64_t off, int layer,
                            int chunk, const char *what, cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_status st;

    shell_word(&b, k->name ? k->name : "");
    st = cag_fail(err, CAG_E_CORRUPT, k->name, (int64_t)off,
                  "section KV is damaged: layer %d, chunk %d%s; repair it: "
                  "cag-build --refresh --verify full %s",
                  layer, chunk, what,
                  !buf_failed(&b) && b.size ? b.data : "FILE");
    buf_free(&b);
    return st;
}

/* Remember that a chunk was intact. */
static void mark(const cag_kvc *k, int layer, int chunk)
{
    size_t i = (size_t)layer * (size_t)kvc_n_chunk(&k->shape) + (size_t)chunk;

    atomic_store_explicit(&k->lazy->checked[i], 1, memory_order_relaxed);
}

bool kvc_chunk_in_place(const cag_kvc *k)
{
    return kvc_codec_in_place(k->codec);
}

/*
 * One scale or factor that is NaN would make every logit NaN: forged, or made
 * by a faulty program.  Codes need no look, every byte is one.
 */
static cag_status check_q8h(const cag_kvc *k, int layer, int chunk,
                            const struct kvc_chunk_ref *r, cag_error *err)
{
    const struct kvc_shape *s = &k->shape;
    size_t at = kvc_scale_off(s, chunk, 0, 0, 0);
    size_t end = kvc_factor_off(s, chunk, 0);
    const char *what = NULL;
    struct kvc_chunk_ref first;

    for (size_t i = at; i < end; i += 2)
        if (rd_le16(r->stored + i) >= 0x7c00) /* or its sign is set */
            what = "a scale is negative or not a number";
    for (size_t i = end; i < r->n_raw; i += 4) {
        uint32_t f = rd_le32(r->stored + i);

        if (f < 0x00800000 || f >= 0x7f800000)
            what = "a factor is not a positive number";
    }
    kvc_chunk_ref(k, layer, 0, &first);
    if (memcmp(r->stored + end, first.stored + kvc_factor_off(s, 0, 0),
               r->n_raw - end) != 0)
        what = "its factors are not those of the layer's first chunk";
    if (what)
        return cag_fail(err, CAG_E_FORMAT, k->name, (int64_t)r->off,
                        "section KV: layer %d, chunk %d: %s", layer, chunk,
                        what);
    return CAG_OK;
}

cag_status kvc_chunk_load(const cag_kvc *k, int layer, int chunk, uint8_t *dst,
                          const uint8_t **raw, cag_error *err)
{
    struct kvc_chunk_ref r;
    struct kvc_coder *coder;
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (layer < 0 || layer >= k->shape.n_layer || chunk < 0 ||
        chunk >= kvc_n_chunk(&k->shape))
        return cag_fail(err, CAG_E_USAGE, k->name, -1,
                        "there is no layer %d chunk %d", layer, chunk);
    kvc_chunk_ref(k, layer, chunk, &r);
    if (xxh3_64(r.stored, r.n_stored) != r.xxh3)
        return kvc_fail_damaged(k, r.off, layer, chunk, " (XXH3 differs)", err);
    if (kvc_chunk_in_place(k)) {
        st = kvc_is_q8h(&k->shape) ? check_q8h(k, layer, chunk, &r, err)
                                   : CAG_OK;
        if (st)
            return st;
        *raw = r.stored;
        mark(k, layer, chunk);
        return CAG_OK;
    }
    coder = kvc_lazy_take(k->lazy);
    if (!coder)
        return cag_fail_nomem(err, "KV decoder");
    st = kvc_decode(k->codec, coder, r.stored, r.n_stored, dst, r.n_raw, &why);
    kvc_lazy_give(k->lazy, coder);
    if (st == CAG_E_CORRUPT) {
        char what[256];

        snprintf(what, sizeof what, ": %.240s", why.msg);
        return kvc_fail_damaged(k, r.off, layer, chunk, what, err);
    }
    if (st)
        return cag_error_copy(err, &why);
    *raw = dst;
    mark(k, layer, chunk);
    return CAG_OK;
}
