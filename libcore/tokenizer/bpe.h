/*
 * bpe.h - merge one piece of text into tokens.
 *
 * The rule: of all neighbours that can merge, the pair of the lowest rank
 * goes first, of equal ranks the leftmost, until none is left.
 */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include "tokenizer/tok_blob.h"

/* Ids, and the byte in its piece where each begins. */
struct bpe_out {
    int32_t *id;
    uint32_t *start;
    size_t n, cap;
    size_t n_dropped; /* bytes that no token stands for */
};

struct bpe_symbol {
    int32_t id, result;   /* result of merging with the next symbol */
    uint32_t start, rank; /* rank of that merge, UINT32_MAX: none   */
    uint32_t prev, next;
};

/* Scratch of one call; all zero to begin with. */
struct bpe {
    const cag_tokenizer *t;
    struct bpe_symbol *sym;
    size_t cap;
    uint64_t *heap;
    size_t n_heap, cap_heap;
};

/* Append the tokens of a piece of n bytes, n below 2^31.  O(n log n). */
cag_status bpe_piece(struct bpe *b, const char *s, size_t n,
                     struct bpe_out *out, cag_error *err);
void bpe_release(struct bpe *b);
/* Room for n more ids. */
cag_status bpe_out_reserve(struct bpe_out *o, size_t n, cag_error *err);
void bpe_out_release(struct bpe_out *o);

#endif
