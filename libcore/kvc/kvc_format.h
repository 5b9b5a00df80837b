/*
 * kvc_format.h - the bytes of a .kvc file.  Summary; kvc(5) decides.
 *
 * All that is needed to reject a file is in its first page, and sections
 * are page-aligned: a reader maps the file and touches only what it uses.
 * The small sections stand in front, KV is the last: what a question reads
 * at once lies together.
 *
 *   | header | META SRCS TEXT TOKS PRMT TKNZ [optional] CHNK | KV ... |
 *   off  size  field of the header
 *     0     8  magic 89 4B 56 43 0D 0A 1A 0A   (shows text-mode damage)
 *     8     2  major, 2 minor
 *    12     4  number of sections, 1..40
 *    16     8  size of the file, a multiple of 4096
 *    24     4  layout of tiles: 1
 *    28     4  zero
 *    32    32  SHA-256 of these 4096 bytes with this field zero
 *    64    64  zero
 *   128 64*40  section table, unused entries zero
 *  2688  1408  zero
 *
 *   off  size  field of a section entry
 *     0     4  name, A-Z 0-9, padded with NUL
 *     4     4  flags: bit 0 = required, others zero
 *     8     8  offset in the file, 16: size in bytes (without padding)
 *    24    32  SHA-256 of the bytes; KV: of the raw chunk digests in order
 *    56     8  zero
 *
 *   off  size  field of a CHNK entry
 *     0     8  offset from the start of KV, a multiple of 4096
 *     8     8  stored size
 *    16     8  raw size
 *    24     8  XXH3-64 of the stored bytes
 *    32    32  SHA-256 of the raw bytes
 *
 *   a raw chunk    | K tiles | V tiles |, in class q8h
 *                  | K codes | V codes | K scales | V scales | factors |
 *     scales       f16 [kv_head][tile][64], one of a token's row
 *     factors      f32 [kv_head][d_head] of K's channels; those of the layer,
 *                  the same in each of its chunks: a chunk explains itself
 *   stored f16z    u32 size[4] | plane 0 | plane 1 | plane 2 | plane 3
 *     planes       low bytes and high bytes of K's elements, then of V's; each
 *                  is a quarter of the raw chunk.  One whose size is a quarter
 *                  is stored as it is, a smaller one is one zstd frame.
 *   stored f16, f32, q8h    the raw bytes
 */
#ifndef KVC_KVC_FORMAT_H
#define KVC_KVC_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "kvc/kvc_layout.h"

#define KVC_PAGE         4096
#define KVC_MAGIC        "\x89KVC\r\n\x1a\n"
#define KVC_MAX_SECTION  40
#define KVC_LAYOUT_TILES 1u

#define KVC_OFF_MAJOR     8
#define KVC_OFF_MINOR     10
#define KVC_OFF_N_SECTION 12
#define KVC_OFF_SIZE      16
#define KVC_OFF_LAYOUT    24
#define KVC_OFF_SHA256    32
#define KVC_OFF_SECTIONS  128
#define KVC_SECTION_SIZE  64
#define KVC_CHNK_SIZE     64
#define KVC_CHNK_OFF      0 /* of an entry's fields */
#define KVC_CHNK_STORED   8
#define KVC_CHNK_RAW      16
#define KVC_CHNK_XXH3     24
#define KVC_CHNK_SHA256   32
#define KVC_REQUIRED      1u

#define KVC_TEXT_HEAD 16 /* u64 expanded size, u32 method, u32 zero   */
#define KVC_TEXT_RAW  0u
#define KVC_TEXT_ZSTD 1u
#define KVC_TOKS_HEAD 16 /* u64 number of ids, u64 zero               */

/* Capacities.  Those of the shape keep every product below 2^63. */
#define KVC_MAX_LAYER    1024
#define KVC_MAX_HEAD     1024
#define KVC_MAX_DIM      1024
#define KVC_MAX_TOK      (1 << 24)
#define KVC_MAX_CHUNK    (1u << 20) /* raw bytes, unless one tile   */
#define KVC_MAX_TEXT     (UINT64_C(1) << 30)
#define KVC_MAX_JSON     (UINT64_C(64) << 20)
/* Bytes of text per token, on average: bounds what TEXT may expand to. */
#define KVC_MAX_TOK_TEXT UINT64_C(4096)
#define KVC_MAX_SOURCE   1000000

enum kvc_core {
    KVC_META,
    KVC_SRCS,
    KVC_TEXT,
    KVC_TOKS,
    KVC_PRMT,
    KVC_TKNZ,
    KVC_CHNK,
    KVC_KV,
    KVC_N_CORE
};
#define KVC_CORE_NAMES                                               \
    {                                                                \
        "META", "SRCS", "TEXT", "TOKS", "PRMT", "TKNZ", "CHNK", "KV" \
    }

/* In the order in which people are told of them. */
enum kvc_codec { KVC_F16Z, KVC_F16, KVC_Q8H, KVC_F32, KVC_N_CODEC };

static inline uint64_t kvc_page_up(uint64_t n)
{
    return (n + KVC_PAGE - 1) & ~(uint64_t)(KVC_PAGE - 1);
}

#endif
