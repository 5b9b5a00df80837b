/*
 * kvc_codec.h - how a chunk's raw bytes are stored, and the prefix text.
 *
 * A codec is one row of the table in kvc_codec.c: its name, the class of its
 * elements, what it loses, how a chunk is packed.  Nobody else compares codecs
 * or their names; who must know what the bytes mean asks the shape's class.
 *
 * Each of f16z's four planes (kvc_format.h) is a zstd frame of its own because
 * zstd's blocks are 128 KiB: in a common frame, blocks at the border mix noise
 * (mantissas) with what compresses (exponents).
 *
 * Nothing is believed: sizes are checked before use, a frame's own content
 * size must be the plane's, and memory is bounded by the raw size, which
 * follows from the checked shape.
 */
#ifndef KVC_KVC_CODEC_H
#define KVC_KVC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "kvc/kvc_format.h"
#include "util/buf.h"
#include "util/error.h"

const char *kvc_codec_name(enum kvc_codec c); /* "f16z" */
enum kvc_class kvc_codec_class(enum kvc_codec c);
/* The codec of the values that a lossy codec is made from; else itself. */
enum kvc_codec kvc_codec_exact(enum kvc_codec c);
/* Are values changed, so that files carry a receipt? */
bool kvc_codec_lossy(enum kvc_codec c);
/* The mean KL in nats that a lossy codec may have unless the user says
 * otherwise: about ten times what it has on an ordinary model. */
float kvc_codec_max_loss(enum kvc_codec c);
/* Are chunks read where they are mapped? */
bool kvc_codec_in_place(enum kvc_codec c);
/* Is the same class stored in another way, so that no model is needed? */
bool kvc_codec_recodes(enum kvc_codec from, enum kvc_codec to);
/* "f16z, f16, q8h or f32" with word "or", into buf; returns buf. */
const char *kvc_codec_list(char *buf, size_t size, const char *word);
/* -1 if unknown; name may be NULL. */
int kvc_codec_find(const char *name);
/* Most bytes a raw chunk can take when stored. */
size_t kvc_codec_stored_max(enum kvc_codec c, size_t raw);

/* Scratch memory of one thread, grown to the largest chunk seen. */
struct kvc_coder;
struct kvc_coder *kvc_coder_new(void); /* NULL: out of memory */
void kvc_coder_free(struct kvc_coder *c);

/* Room needed at dst of kvc_encode (more than stored_max: zstd wants it). */
size_t kvc_encode_bound(size_t raw);
/* A codec that is not in place.  raw: n_raw bytes, a multiple of 8.  The bytes
 * depend on raw alone. */
cag_status kvc_encode(enum kvc_codec codec, struct kvc_coder *c,
                      const uint8_t *raw, size_t n_raw, uint8_t *dst,
                      size_t *n_dst, cag_error *err);
/*
 * dst: n_raw bytes.  CAG_E_CORRUPT says in err->msg what is wrong (without a
 * file name: the caller adds layer and chunk); dst is then undefined.
 */
cag_status kvc_decode(enum kvc_codec codec, struct kvc_coder *c,
                      const uint8_t *src, size_t n_src, uint8_t *dst,
                      size_t n_raw, cag_error *err);

/* TEXT's body: append the smaller of zstd and raw; *method says which. */
cag_status kvc_text_pack(const char *text, size_t n, struct buf *out,
                         uint32_t *method, cag_error *err);
/* Expand exactly n bytes into dst.  CAG_E_CORRUPT when src is not one frame
 * of n bytes; the caller adds file and section. */
cag_status kvc_text_expand(const uint8_t *src, size_t n_src, char *dst,
                           size_t n, cag_error *err);

/* The version of zstd that is linked; static. */
const char *kvc_codec_library(void);

#endif
