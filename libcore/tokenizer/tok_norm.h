/*
 * tok_norm.h - normalize a text, and remember where its bytes came from.
 */
#ifndef TOKENIZER_TOK_NORM_H
#define TOKENIZER_TOK_NORM_H

#include "tokenizer/tok_blob.h"
#include "util/buf.h"

/* From byte norm on, a byte comes from orig + (its distance to norm) if
 * linear, else from orig. */
struct norm_span {
    size_t norm, orig;
    bool linear;
};

struct norm_map {
    struct norm_span *span;
    size_t n, cap;
    size_t at; /* of the last look-up: the next is near it */
};

/*
 * Append the normal form of text[begin, end) to out, with the space that the
 * pre-tokenizer puts in front.  map, if not NULL, gets the spans of what was
 * appended, with norm counted in out and orig in text.
 */
cag_status tok_norm(const cag_tokenizer *t, const char *text, size_t begin,
                    size_t end, struct buf *out, struct norm_map *map,
                    cag_error *err);
/* The same in two steps: the normalizers' part, then a piece [begin, end) of
 * what they made in text, whose spans are from. */
cag_status tok_norm_text(const cag_tokenizer *t, const char *text, size_t begin,
                         size_t end, struct buf *out, struct norm_map *map,
                         cag_error *err);
cag_status tok_norm_piece(const cag_tokenizer *t, const char *text,
                          size_t begin, size_t end, struct norm_map *from,
                          struct buf *out, struct norm_map *map,
                          cag_error *err);
/* Where byte norm of the normal form began in text: a character's start. */
size_t norm_map_find(struct norm_map *m, size_t norm, const char *text);

#endif
