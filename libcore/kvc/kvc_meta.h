/*
 * kvc_meta.h - the JSON sections: what they must hold, and the digests that
 * follow from them.  One set of rules for the writer (a wrong member is the
 * caller's fault) and for the reader (it is the file's).
 */
#ifndef KVC_KVC_META_H
#define KVC_KVC_META_H

#include <cag/kvc.h>

#include "kvc/kvc_format.h"
#include "util/arena.h"
#include "util/hash.h"
#include "util/json.h"

struct kvc_check {
    const char *file; /* for messages, may be NULL */
    cag_status bad;   /* CAG_E_USAGE or CAG_E_FORMAT */
    cag_error *err;
    cag_status st; /* the first failure, or CAG_OK */
};

/* Ranges of the shape alone; shape->chunk_tok is set. */
void kvc_check_shape(struct kvc_check *c, const struct kvc_shape *s);
/*
 * The caller's part of META: sets the members of info that come from it.
 * Strings are borrowed from meta.
 */
void kvc_check_meta(struct kvc_check *c, const jv *meta, cag_kvc_info *info);
/* The writer's part: kv, text, binding_sha256, content_id. */
void kvc_check_meta_kv(struct kvc_check *c, const jv *meta, cag_kvc_info *info,
                       struct kvc_shape *shape, enum kvc_codec *codec,
                       uint64_t *text_size);
/* SRCS into an array in the arena; strings are borrowed from srcs. */
void kvc_check_srcs(struct kvc_check *c, const jv *srcs, uint64_t text_size,
                    int64_t n_tok, struct arena *a, cag_kvc_source **out,
                    int *n);
void kvc_check_prmt(struct kvc_check *c, const jv *prmt, int n_vocab,
                    cag_kvc_info *info);

/* SHA-256(binding || ids as LE u32 || raw chunk digests); n_chunk digests
 * of 32 bytes, stride bytes apart. */
cag_status kvc_content_id(const uint8_t binding[SHA256_SIZE],
                          const int32_t *ids, size_t n_ids,
                          const uint8_t *digest, size_t stride, size_t n_chunk,
                          uint8_t out[SHA256_SIZE], cag_error *err);

#endif
