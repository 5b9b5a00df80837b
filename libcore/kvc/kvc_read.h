/*
 * kvc_read.h - what the engine and the pipelines need of an open cache
 * beyond include/cag/kvc.h.
 */
#ifndef KVC_KVC_READ_H
#define KVC_KVC_READ_H

#include <cag/kvc.h>

#include "kvc/kvc_layout.h"
#include "util/file.h"
#include "util/json.h"

/* The checks of cag_kvc_open over memory, for fuzzing; data is borrowed. */
cag_status kvc_parse(const void *data, size_t size, const char *name,
                     cag_kvc **out, cag_error *err);
/* Who is told where a file is mapped, as cag_kb_opts says; fn may be NULL. */
struct kvc_told {
    void (*fn)(void *ctx, const void *data, size_t size);
    void *ctx;
};
/* cag_kvc_open, for who wants to be told. */
cag_status kvc_open_told(const char *path, const struct kvc_told *told,
                         cag_kvc **out, cag_error *err);
/* What stat said of the file when it was mapped; zero if it was not. */
const struct file_id *kvc_file_id(const cag_kvc *k);
const struct kvc_shape *kvc_get_shape(const cag_kvc *k);
const jv *kvc_meta(const cag_kvc *k);
const jv *kvc_sources(const cag_kvc *k); /* the SRCS section's JSON */
const jv *kvc_prmt(const cag_kvc *k);    /* the PRMT section's JSON */

/* cag_kvc_tokenizer with the reason of a failure (damaged blob, memory). */
cag_status kvc_tokenizer(const cag_kvc *k, const cag_tokenizer **out,
                         cag_error *err);
/* An unknown or optional section's bytes by name; NULL if absent. */
const uint8_t *kvc_section_data(const cag_kvc *k, const char *name,
                                size_t *size);

/*
 * A chunk's raw bytes: in place for plain codecs, else expanded into dst
 * (kvc_chunk_bytes, 64-byte aligned), checked either way (XXH3-64 of the
 * stored bytes).  *raw points to the result.  Thread-safe.
 * CAG_E_CORRUPT names the layer and chunk.
 */
bool kvc_chunk_in_place(const cag_kvc *k);
cag_status kvc_chunk_load(const cag_kvc *k, int layer, int chunk, uint8_t *dst,
                          const uint8_t **raw, cag_error *err);
/* SHA-256 of a chunk's raw bytes, as recorded. */
const uint8_t *kvc_chunk_sha256(const cag_kvc *k, int layer, int chunk);

/* CAG_E_UNSUPPORTED when another user can have written the file (util/trust.h):
 * its keys and values then begin no other cache. */
cag_status kvc_check_trust(const cag_kvc *k, cag_error *err);
/* CAG_E_UNSUPPORTED when a cache is the checkpoint of an unfinished build:
 * it is not asked, checked or refreshed. */
cag_status kvc_refuse_checkpoint(const cag_kvc *k, cag_error *err);

#endif
