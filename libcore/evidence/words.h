/*
 * words.h - the words and sentences of a text, as evidence compares them.
 *
 * A word is a run of letters, marks, digits and '_', with . ' / - inside it,
 * in lower case and NFC, without one English ending ("ing" "ies" "ed" "es"
 * "ly" "s", where three letters stay) and without "'s".  An identifier is also
 * given in its parts: "xz-utils" is followed by "xz" and "utils", "maxTokens"
 * by "max" and "token"; between two digits nothing is split ("5.2.1").  1,024
 * is 1024. There are no stop words: the weight of a word says how much it
 * tells.
 *
 * Scripts that put no blanks between words (Han, kana, Thai ...), and Hangul,
 * whose particles cling to words, are given as pairs of neighbouring
 * characters.
 */
#ifndef EVIDENCE_WORDS_H
#define EVIDENCE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

/* A longer run of letters is several words. */
#define WORD_MAX 128

struct word {
    const char *text; /* [size] normalised; valid during the call */
    size_t size;
    size_t from, to; /* the bytes it was made of */
};
/* Not CAG_OK ends the walk. */
typedef cag_status (*word_fn)(void *ctx, const struct word *w, cag_error *err);

/* Call fn for each word of s (valid UTF-8) in order; parts follow their
 * word.  Errors: those of fn, CAG_E_NOMEM. */
cag_status words_each(const char *s, size_t n, word_fn fn, void *ctx,
                      cag_error *err);

/* May s be cut at byte i without cutting a word or a character? */
bool words_may_cut(const char *s, size_t n, size_t i);

/*
 * Bytes of the first sentence of s, white space included; n > 0.  A sentence
 * ends at . ! ? : before a blank, at a full stop of other scripts, at a blank
 * line, and before a line that is a heading, a list item or a table row.
 */
size_t words_sentence(const char *s, size_t n);

#endif
