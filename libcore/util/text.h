/*
 * text.h - UTF-8 and NFC.
 */
#ifndef UTIL_TEXT_H
#define UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"
#include "util/error.h"

/* true if all n bytes are valid UTF-8 (no surrogates, no overlongs, at most
 * U+10FFFF); else *bad is the offset of the first bad byte (bad may be NULL) */
bool utf8_valid(const char *s, size_t n, size_t *bad);
/* Length of the longest prefix of s that does not end inside a character;
 * for streaming: bytes after it wait for more.  Invalid bytes count as whole.
 */
size_t utf8_complete(const char *s, size_t n);
/* Decode one character of valid UTF-8 at s (n > 0); returns its length. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Returns the length.  (jansson has a utf8_encode, in a static archive, too.)
 */
int utf8_put(uint32_t cp, char out[4]);
/* Replace invalid sequences by U+FFFD while appending to out. */
void utf8_sanitize(const char *s, size_t n, struct buf *out);

/* Append NFC(s) to out; s is valid UTF-8.  Quick when already normal ASCII. */
cag_status text_nfc(const char *s, size_t n, struct buf *out, cag_error *err);

/* Simple case mapping of one character (utf8proc's), itself if it has none. */
uint32_t text_lower(uint32_t cp);
uint32_t text_upper(uint32_t cp);

/* Unicode's property White_Space. */
bool text_is_space(uint32_t cp);
/* What a character is to a reader of words, by its general category. */
enum text_class { TEXT_OTHER, TEXT_LETTER, TEXT_MARK, TEXT_DIGIT };
enum text_class text_class(uint32_t cp);
/* Is it a capital letter?  (Scripts without case have none.) */
bool text_is_upper(uint32_t cp);

#endif
