/*
 * pretok.h - cut text into the pieces that BPE merges within.
 *
 * A programme is a short list of steps.  Each step cuts every piece of the
 * step before at the matches of a pattern; a pattern sees its piece as the
 * whole text, as the tokenizers library does.
 */
#ifndef TOKENIZER_PRETOK_H
#define TOKENIZER_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

#define PRETOK_MAX_STEP    8
#define PRETOK_MAX_PATTERN 8192 /* bytes */

enum pretok_kind {
    PRETOK_ISOLATED,   /* matches and the gaps between them are pieces    */
    PRETOK_MATCHES,    /* only matches are pieces ("Removed", inverted)   */
    PRETOK_GAPS,       /* only the gaps are ("Removed")                   */
    PRETOK_MERGE_PREV, /* a match ends the piece it stands in             */
    PRETOK_MERGE_NEXT, /* a match begins a piece                          */
    PRETOK_N_KIND
};

struct pretok_step {
    int kind;
    const char *pattern; /* [n] UTF-8, in the syntax of tokenizer.json */
    size_t n;
};

/* Patterns that are known to be safe to compile to machine code. */
extern const char PRETOK_GPT2[], PRETOK_LLAMA3[], PRETOK_QWEN2[],
    PRETOK_QWEN35[], PRETOK_GPT4O[], PRETOK_TEKKEN[], PRETOK_DIGIT[],
    PRETOK_DIGITS[];

struct pretok;     /* immutable, shareable between threads */
struct pretok_run; /* scratch of one call                  */

/* file names the source in messages.  CAG_E_UNSUPPORTED quotes what a
 * pattern holds that is not known to mean the same in PCRE2. */
cag_status pretok_new(const struct pretok_step *step, size_t n,
                      const char *file, struct pretok **out, cag_error *err);
void pretok_free(struct pretok *p);

/* A piece: n > 0 bytes at s, inside the text handed to pretok_split. */
typedef cag_status pretok_fn(void *ctx, const char *s, size_t n,
                             cag_error *err);

cag_status pretok_begin(const struct pretok *p, struct pretok_run **out,
                        cag_error *err);
/* Text is valid UTF-8.  CAG_E_LIMIT when a pattern exceeds its limits. */
cag_status pretok_split(struct pretok_run *r, const char *text, size_t n,
                        pretok_fn *fn, void *ctx, cag_error *err);
void pretok_end(struct pretok_run *r);

/* The version of PCRE2 that is linked; out has room for 64 bytes. */
void pretok_library(char out[64]);

#endif
