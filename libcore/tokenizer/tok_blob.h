/*
 * tok_blob.h - the compiled tokenizer: bytes of the blob, and access to it.
 *
 * One little-endian, position-independent block, used where it is mapped.
 * A header, then sections at 8-byte alignment:
 *
 *   off  size  field
 *     0     8  magic "cagtok\r\n"
 *     8     4  version, 1
 *    12     4  flags (TOK_F_*)
 *    16     8  size of the blob
 *    24     4  n_vocab      28  4  n_added     32  4  n_step
 *    36     4  vocab slots  40  4  vocab probe 44  4  merge slots
 *    48     4  merge probe  52  4  n_prefix    56  4  n_eos
 *    60     4  bos          64  4  unk         68  4  prepend (TOK_PREPEND_*)
 *    72     8  zero
 *    80   16*TOK_N_SECTION  section table: offset, size
 *
 *   OFF    u32 [n_vocab + 1]  where each token's bytes begin in BYTES
 *   FLAG   u8  [n_vocab]      TOK_* of each token
 *   BYTES  u8  []             token texts, as decoded: byte-level letters are
 *                             bytes again, U+2581 is a space
 *   VOCAB  u32 [slots]        open hash: text -> id, TOK_EMPTY if free
 *   MERGE  u32 [slots][4]     open hash: (left, right) -> rank, result
 *   BYTE   i32 [256]          id of each single byte, -1 if none
 *   ADDED  u32 [n_added][2]   id, TOK_A_* flags
 *   STEP   u32 [n_step][4]    kind, offset in TEXT, size, zero
 *   TEXT   u8  []             patterns of the steps
 *   IDS    i32 [n_prefix + n_eos]
 *
 * Both hashes probe linearly from hash * slots >> 32 and wrap; "probe" is
 * the longest way any entry lies from its home, so a search is bounded
 * whatever the bytes say.  Opening checks the header, the sections and what
 * is small; tables per token are checked where they are read, so opening
 * takes the same time for any vocabulary.
 */
#ifndef TOKENIZER_TOK_BLOB_H
#define TOKENIZER_TOK_BLOB_H

#include "tokenizer/pretok.h"
#include "tokenizer/tokenizer.h"
#include "util/hash.h"
#include "util/rd.h"

#define TOK_MAGIC     "cagtok\r\n"
#define TOK_VERSION   1u
#define TOK_HEAD_SIZE 240u
#define TOK_EMPTY     UINT32_MAX
#define TOK_MAX_VOCAB (1u << 22)
#define TOK_MAX_ADDED 65536u
#define TOK_MAX_IDS   16u
#define TOK_MAX_PROBE 65536u

enum tok_section {
    TOK_S_OFF,
    TOK_S_FLAG,
    TOK_S_BYTES,
    TOK_S_VOCAB,
    TOK_S_MERGE,
    TOK_S_BYTE,
    TOK_S_ADDED,
    TOK_S_STEP,
    TOK_S_TEXT,
    TOK_S_IDS,
    TOK_N_SECTION
};

/* flags of the tokenizer */
#define TOK_F_BYTE_LEVEL    1u /* BPE over bytes; else over characters     */
#define TOK_F_IGNORE_MERGES 2u /* a piece that is a token is not merged    */
#define TOK_F_NFC           4u
#define TOK_F_SPACE_MARK    8u  /* U+2581 in text is a space                */
#define TOK_F_BYTE_FALLBACK 16u /* unknown characters become byte tokens    */
#define TOK_F_FUSE_UNK      32u
#define TOK_F_STRIP_SPACE   64u /* decoding drops one leading space         */
#define TOK_F_WORD_CUT                              \
    128u /* no token has a space after a non-space: \
            cutting there cannot change a merge      */
#define TOK_F_NORM_MARK                              \
    256u /* a normalizer makes U+2581 of spaces, and \
            an added token is looked for after it   */
#define TOK_F_ALL 511u

enum tok_prepend {
    TOK_PREPEND_NONE,
    TOK_PREPEND_ALWAYS, /* before every text between special tokens       */
    TOK_PREPEND_UNLESS, /* the same, unless it begins with a space        */
    TOK_PREPEND_FIRST,  /* as UNLESS, only at the start of the input      */
    TOK_N_PREPEND
};

/* flags of a token */
#define TOK_SPECIAL 1u  /* control token: hidden when decoding            */
#define TOK_BYTE    2u  /* stands for one byte (<0x0A>)                   */
#define TOK_ADDED   4u  /* matched as a whole, not by merging             */
#define TOK_RAW     8u  /* no text can be tokenized to it                 */
#define TOK_SET     16u /* the id exists                                  */

/* flags of an added token */
#define TOK_A_LSTRIP 1u
#define TOK_A_RSTRIP 2u
#define TOK_A_WORD   4u
#define TOK_A_NORMALIZED                                            \
    8u                  /* looked for after the others, in the text \
                           that normalizers made                      */
#define TOK_A_PLAIN 16u /* white space only: found in any text        */
#define TOK_A_ALL   31u

struct tok_added {
    int32_t id;
    uint32_t flags, size;
    const char *text;
};

struct cag_tokenizer {
    const uint8_t *blob;
    size_t size;
    char *name; /* owned, for messages                   */
    void *own;  /* the blob, when the tokenizer made it  */
    const uint8_t *sec[TOK_N_SECTION];
    size_t sec_size[TOK_N_SECTION];
    uint32_t flags, prepend, n_vocab;
    uint32_t vocab_slots, vocab_probe, merge_slots, merge_probe;
    int32_t bos, unk;
    int32_t byte_id[256];
    int32_t prefix[TOK_MAX_IDS], eos[TOK_MAX_IDS];
    size_t n_prefix, n_eos;
    struct tok_added *added; /* by first byte, then longest first     */
    size_t n_added;
    uint32_t added_begin[257];
    bool has_plain;
    /* Those that normalizers change the text for, and their own: in the same
     * order; NULL if there are none */
    struct tok_added *normal;
    char *normal_text; /* owned */
    uint32_t normal_begin[257];
    struct pretok *pretok;
    struct pretok *word; /* one word character; NULL if unneeded  */
};

/* Take over a blob in heap memory (freed in every case). */
cag_status tok_from_heap(void *blob, size_t size, const char *name,
                         cag_tokenizer **out, cag_error *err);

/* FNV-like mixing of two ids; the multipliers are part of the format. */
static inline uint32_t tok_pair_hash(uint32_t left, uint32_t right)
{
    uint64_t x = (uint64_t)left << 32 | right;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(x >> 32);
}

static inline uint32_t tok_slot(uint32_t hash, uint32_t slots)
{
    return (uint32_t)((uint64_t)hash * slots >> 32);
}

/* The rank and result of merging two ids; false if they do not merge. */
static inline bool tok_merge(const cag_tokenizer *t, int32_t left,
                             int32_t right, uint32_t *rank, int32_t *result)
{
    uint32_t n = t->merge_slots;
    uint32_t s;
    if (n == 0)
        return false;
    s = tok_slot(tok_pair_hash((uint32_t)left, (uint32_t)right), n);
    for (uint32_t k = 0; k <= t->merge_probe; k++) {
        const uint8_t *e = t->sec[TOK_S_MERGE] + (size_t)s * 16;
        uint32_t l = rd_le32(e);
        if (l == TOK_EMPTY)
            return false;
        if (l == (uint32_t)left && rd_le32(e + 4) == (uint32_t)right) {
            uint32_t id = rd_le32(e + 12);
            *rank = rd_le32(e + 8);
            *result = (int32_t)id;
            return id < t->n_vocab && *rank != UINT32_MAX;
        }
        if (++s == n)
            s = 0;
    }
    return false;
}

/* Text of an id in [0, n_vocab); size 0 where the blob contradicts itself. */
static inline const char *tok_text(const cag_tokenizer *t, uint32_t id,
                                   size_t *size)
{
    const uint8_t *p = t->sec[TOK_S_OFF] + (size_t)id * 4;
    uint32_t b = rd_le32(p), e = rd_le32(p + 4);
    if (e < b || e > t->sec_size[TOK_S_BYTES])
        b = e = 0;
    *size = e - b;
    return (const char *)t->sec[TOK_S_BYTES] + b;
}

/* Id that merging or lookup may give for a text; -1 if none. */
int32_t tok_find(const cag_tokenizer *t, const char *s, size_t n);

#endif
