/*
 * tok_build.h - collect a vocabulary, write it as a blob.
 *
 * The readers (tok_json.c, tok_gguf.c) fill one of these (tok_build.c);
 * tok_build_finish writes the blob (tok_compile.c, tok_blob.h).  The bytes
 * depend on nothing but what was put in, in which order.
 */
#ifndef TOKENIZER_TOK_BUILD_H
#define TOKENIZER_TOK_BUILD_H

#include "tokenizer/tok_blob.h"
#include "util/buf.h"

struct tok_build_token {
    uint32_t off, size, flags;
};
struct tok_build_merge {
    uint32_t left, right, rank, result;
};

struct tok_build {
    const char *file; /* source, for messages             */
    struct buf bytes;
    struct tok_build_token *token; /* [n_token], cap_token allocated   */
    size_t n_token, cap_token;
    uint32_t *slot; /* [n_slot] text -> id, all tokens  */
    size_t n_slot;
    struct tok_build_merge *merge;
    size_t n_merge, cap_merge;
    struct {
        uint32_t id, flags;
    } * added;
    size_t n_added, cap_added;
    struct buf pattern;
    struct {
        uint32_t kind, off, size;
    } step[PRETOK_MAX_STEP];
    size_t n_step;
    uint32_t flags, prepend;
    int32_t bos, unk;
    int32_t prefix[TOK_MAX_IDS], eos[TOK_MAX_IDS];
    size_t n_prefix, n_eos;
    int16_t letter[512]; /* byte-level letter -> byte    */
};

/* The bytes of a token; never NULL, also where all tokens are empty. */
static inline const char *tok_build_bytes(const struct tok_build *b,
                                          const struct tok_build_token *t)
{
    return b->bytes.data ? b->bytes.data + t->off : "";
}

void tok_build_init(struct tok_build *b, const char *file);
void tok_build_release(struct tok_build *b);

/* Text of a token as its file spells it, decoded to bytes by the
 * tokenizer's kind (b->flags).  A second text for one id is refused. */
cag_status tok_build_token(struct tok_build *b, int64_t id, const char *s,
                           size_t n, uint32_t flags, cag_error *err);
/* "<0x0A>" -> 10, -1 if it is not so spelled: the text of a TOK_BYTE token. */
int tok_build_byte(const char *s, size_t n);
/* A token matched as a whole; its text is taken literally. */
cag_status tok_build_added(struct tok_build *b, int64_t id, const char *s,
                           size_t n, bool special, uint32_t flags,
                           cag_error *err);
/* After the last model token, before the first merge. */
cag_status tok_build_index(struct tok_build *b, cag_error *err);
/* Id of decoded bytes, -1 if none. */
int32_t tok_build_find(const struct tok_build *b, const char *s, size_t n);
/* The next merge in order of rank; texts as the file spells them. */
cag_status tok_build_merge(struct tok_build *b, const char *left, size_t nl,
                           const char *right, size_t nr, cag_error *err);
cag_status tok_build_add_merge(struct tok_build *b, uint32_t left,
                               uint32_t right, uint32_t rank, uint32_t result,
                               cag_error *err);
/* Merges of a SentencePiece model: any two tokens whose joined text is a
 * token, best score first.  score [n_token]. */
cag_status tok_build_merges_of_scores(struct tok_build *b, const float *score,
                                      size_t n, cag_error *err);
cag_status tok_build_step(struct tok_build *b, int kind, const char *pattern,
                          size_t n, cag_error *err);
cag_status tok_build_eos(struct tok_build *b, int64_t id, cag_error *err);
/* Merging works on tokens that the model spells and text can produce. */
bool tok_build_can_merge(const struct tok_build_token *t);
/* What a lookup of plain text may find: no control token ever, and no added
 * token of several characters. */
bool tok_build_can_find(const struct tok_build *b, uint32_t id);
/* Write the blob and make the tokenizer over it. */
cag_status tok_build_finish(struct tok_build *b, cag_tokenizer **out,
                            cag_error *err);

#endif
