/*
 * kvc_codec.h - how a chunk's raw bytes are stored, and the prefix text.
 *
 *   f16, f32, q8h   the raw bytes themselves
 *   f16z       u32 size[4] | plane 0 | plane 1 | plane 2 | plane 3
 *
 * The planes are the low and the high bytes of K's elements, then those of
 * V; each is a quarter of the raw chunk.  A plane whose size is a quarter is
 * stored as it is; a smaller one is one zstd frame.  Each plane is a frame
 * of its own because zstd's blocks are 128 KiB: in a common frame, blocks at
 * the border mix noise (mantissas) with what compresses (exponents).
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

const char *kvc_codec_name(enum kvc_codec c);  /* "f16z" */
const char *kvc_codec_class(enum kvc_codec c); /* "f16", "f32", "q8h" */
/* -1 if unknown; name may be NULL. */
int kvc_codec_find(const char *name);
int kvc_codec_elem_bytes(enum kvc_codec c);
/* Most bytes a raw chunk can take when stored. */
size_t kvc_codec_stored_max(enum kvc_codec c, size_t raw);

/* Scratch memory of one thread, grown to the largest chunk seen. */
struct kvc_coder;
struct kvc_coder *kvc_coder_new(void); /* NULL: out of memory */
void kvc_coder_free(struct kvc_coder *c);

/* Room needed at dst of kvc_encode_f16z (more than stored_max: zstd wants
 * it). */
size_t kvc_encode_bound(size_t raw);
/* raw: n_raw bytes, a multiple of 8.  The bytes depend on raw alone. */
cag_status kvc_encode_f16z(struct kvc_coder *c, const uint8_t *raw,
                           size_t n_raw, uint8_t *dst, size_t *n_dst,
                           cag_error *err);
/*
 * dst: n_raw bytes.  CAG_E_CORRUPT says in err->msg what is wrong (without a
 * file name: the caller adds layer and chunk); dst is then undefined.
 */
cag_status kvc_decode_f16z(struct kvc_coder *c, const uint8_t *src,
                           size_t n_src, uint8_t *dst, size_t n_raw,
                           cag_error *err);

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
