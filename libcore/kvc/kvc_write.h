/*
 * kvc_write.h - stream a .kvc to disk: KV chunks in order, hashed on the
 * way, then the small sections, the header last; aside and renamed
 * (util/file.h).
 *
 * The same inputs give the same bytes on any number of threads.
 *
 * META, SRCS and PRMT are JSON objects the caller makes; kvc(5) lists their
 * members.  kvc_write checks them with the rules the reader uses (kvc_meta.h),
 * so that what it wrote can be opened.  Other members may be added freely and
 * are kept.  It adds to META what it alone knows, and replaces a member of
 * that name: binding_sha256, content_id, kv, text, and of binding kv_class,
 * prompt, sources and tokenizer_sha256.
 */
#ifndef KVC_KVC_WRITE_H
#define KVC_KVC_WRITE_H

#include <cag/kvc.h>

#include "kvc/kvc_codec.h"
#include "kvc/kvc_layout.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/pool.h"

/* An optional section (NGRM, ...), stored as it is.  A reader that does not
 * know the name skips it. */
struct kvc_extra {
    char name[5]; /* up to 4 of A-Z 0-9, none of ours */
    const void *data;
    size_t size;
};

/* What was written. */
struct kvc_made {
    uint64_t size_bytes, kv_raw_bytes, kv_stored_bytes;
    char content_id[2 * SHA256_SIZE + 1];
};

struct kvc_desc {
    struct kvc_shape shape; /* chunk_tok 0: filled by kvc_chunk_tok   */
    const char *codec;      /* a name of kvc_codec.h                  */
    const jv *meta, *sources, *prompt; /* as kvc(5) says               */
    const char *text;
    size_t text_size;
    /* ids in [0, n_vocab); id_off never decreasing, at most text_size;
     * n_ids = shape.n_tok */
    const int32_t *ids;
    const int64_t *id_off;
    size_t n_ids;
    const void *tokenizer;
    size_t tokenizer_size; /* TKNZ blob       */
    const struct kvc_extra *extra;
    int n_extra; /* may be NULL, 0  */
    /* Fill dst (64-byte aligned) with raw chunk (layer, chunk); may be
     * called from several threads for different chunks. */
    cag_status (*chunk)(void *ctx, int layer, int chunk, uint8_t *dst,
                        cag_error *err);
    void *ctx;
    /*
     * For a lossy codec, and only then: measure the loss of the finished
     * file but for its receipt (draft, valid during the call) and fill r,
     * whose loss array must live until kvc_write returns.  A failure leaves
     * no file.
     */
    cag_status (*receipt)(void *ctx, const cag_kvc *draft, cag_kvc_receipt *r,
                          cag_error *err);
    void *receipt_ctx;
    /*
     * Or NULL: the copy heads, found in or taken from the finished file but
     * for them (draft, valid during the call).  What out
     * points to must live until kvc_write returns; out->n_head 0: none, and no
     * section.  A failure leaves no file.
     */
    cag_status (*attention)(void *ctx, const cag_kvc *draft,
                            cag_kvc_attention *out, cag_error *err);
    void *attention_ctx;
    /* NULL, or 64 hex digits: another content id is CAG_E_CORRUPT and no
     * file is made */
    const char *expect_content_id;
    /* called from the caller's thread with bytes of raw KV done */
    cag_progress_fn progress;
    void *progress_ctx;    /* may be NULL     */
    struct kvc_made *made; /* filled on success; may be NULL         */
};

/*
 * Write the file.  mode -1: the existing file's, else 0600 & ~umask.
 * Memory: four raw chunks per thread of the pool.  After an error no file
 * was created and an old one is untouched.  Errors: CAG_E_USAGE (the desc is
 * not what the list above says; the message names the member), CAG_E_LIMIT,
 * IO, CREATE, NOMEM, CANCELLED, and whatever chunk returns.
 */
cag_status kvc_write(const char *path, const struct kvc_desc *d, int mode,
                     struct pool *pool, cag_error *err);

/* What kvc_write refuses before it begins; shape gets its chunk_tok. */
cag_status kvc_desc_check(const struct kvc_desc *d, struct kvc_shape *shape,
                          enum kvc_codec *codec, cag_error *err);

/* Upper bound of the file's size, for a free-space check before a prefill.
 * Members that are not known yet may be NULL: they count as 1 MiB together. */
uint64_t kvc_size_bound(const struct kvc_desc *d);
/* CAG_E_CREATE when path is a file that is neither empty nor a cache: a slip
 * of the hand must not cost somebody's text.  Damaged caches may go. */
cag_status kvc_check_replace(const char *path, cag_error *err);
/* CAG_E_CREATE with ENOSPC, and both numbers, when the file system of path
 * has less than kvc_size_bound. */
cag_status kvc_check_space(const char *path, const struct kvc_desc *d,
                           cag_error *err);

/*
 * The complete binding object of a cache that would be written from these
 * (new reference, canonical order not implied) and its digest: what a
 * freshness check compares, member by member, with META.binding.
 */
cag_status kvc_binding(const jv *meta, const jv *sources, const char *kv_class,
                       const uint8_t tokenizer_sha256[SHA256_SIZE],
                       jv **binding, uint8_t digest[SHA256_SIZE],
                       cag_error *err);

#endif
