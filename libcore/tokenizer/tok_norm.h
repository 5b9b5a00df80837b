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
    size_t at; /* the last look-up; they only go forward */
};

/*
 * Append the normal form of text[begin, end) to out.  at_start: nothing was
 * before it.  map, if not NULL, gets the spans of what was appended, with
 * norm counted in out and orig in text.
 */
cag_status tok_norm(const cag_tokenizer *t, const char *text, size_t begin,
                    size_t end, struct buf *out, struct norm_map *map,
                    cag_error *err);
/* Where byte norm of the normal form began in text: a character's start. */
size_t norm_map_find(struct norm_map *m, size_t norm, const char *text);

#endif
