/*
 * tok_least.c - how few ids a text can give.
 *
 * Tokenizing takes some forty bytes of memory a byte of text.  Where only so
 * many tokens fit, most of what is far too long is known from its size: an id
 * stands for at most as many bytes as the longest token has.  That is a lower
 * bound only while every byte of the text ends up in some id, so what makes
 * bytes vanish is looked at first: pieces that a pre-tokenizer removes, bytes
 * and characters without a token, unknown characters that are fused, and white
 * space at the ends, which templates and their tokens strip.
 */
#include "tokenizer/tok_blob.h"
#include "util/text.h"

/* NFC and U+2581 make text shorter, never to less than a quarter: the worst
 * are U+1FBE U+0308 U+0301 (7 bytes), which are U+0390 (2). */
#define MOST_SHRINK 4

/* Which bytes of a normal text always become a part of some id; false if
 * there is no telling. */
static bool kept_bytes(const cag_tokenizer *t, bool kept[256])
{
    const uint8_t *step = t->sec[TOK_S_STEP];
    bool all = true, byte_level = t->flags & TOK_F_BYTE_LEVEL;

    for (size_t i = 0; i + 16 <= t->sec_size[TOK_S_STEP]; i += 16) {
        uint32_t kind = rd_le32(step + i);

        if (kind == PRETOK_MATCHES || kind == PRETOK_GAPS)
            return false;
    }
    for (int c = 0; c < 256; c++) {
        kept[c] = !byte_level || t->byte_id[c] >= 0;
        if (c < 0xC0 || (c >= 0xC2 && c <= 0xF4)) /* others are no UTF-8 */
            all = all && t->byte_id[c] >= 0;
    }
    return byte_level || (t->flags & TOK_F_BYTE_FALLBACK && all) ||
           (t->unk >= 0 && !(t->flags & TOK_F_FUSE_UNK));
}

/* Bytes of the longest token, or of the longest character. */
static size_t longest(const cag_tokenizer *t)
{
    size_t most = 4;

    for (uint32_t id = 0; id < t->n_vocab; id++) {
        size_t n;

        tok_text(t, id, &n);
        if (n > most)
            most = n;
    }
    return most;
}

static bool is_blank(const char *s, size_t n)
{
    uint32_t cp;

    utf8_decode(s, n, &cp);
    return text_is_space(cp) || (cp >= 0x1C && cp <= 0x1F);
}

/* Without the white space that templates and added tokens may strip. */
static void trim(const char **s, size_t *n)
{
    uint32_t cp;

    while (*n && is_blank(*s, *n)) {
        size_t k = (size_t)utf8_decode(*s, *n, &cp);

        *s += k;
        *n -= k;
    }
    while (*n) {
        size_t k = 1;

        while (k < *n && ((unsigned char)(*s)[*n - k] & 0xC0) == 0x80)
            k++;
        if (!is_blank(*s + *n - k, k))
            return;
        *n -= k;
    }
}

/* Bytes of s [n] that are kept.  Where text is normalized an ASCII character
 * stays, but for one that composes with what follows it. */
static size_t least_kept(const char *s, size_t n, const bool kept[256],
                         bool normal)
{
    size_t sum = 0, n_other = 0;
    bool others = true;

    for (int c = 0x80; c < 0xF0; c++) /* of four bytes three are enough */
        others = others && (kept[c] || c == 0xC0 || c == 0xC1);
    for (size_t i = 0; i < n; i++) {
        bool ascii = (unsigned char)s[i] < 128 &&
                     (i + 1 == n || (unsigned char)s[i + 1] < 128);

        if (!normal || ascii)
            sum += kept[(unsigned char)s[i]];
        else
            n_other++;
    }
    return sum + (others ? n_other / MOST_SHRINK : 0);
}

size_t tok_least_ids(const cag_tokenizer *t, const cag_text *piece, size_t n)
{
    bool normal = t->flags & (TOK_F_NFC | TOK_F_SPACE_MARK), kept[256];
    size_t bytes = 0;

    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].flags & TOK_A_PLAIN &&
            t->added[i].flags & (TOK_A_LSTRIP | TOK_A_RSTRIP))
            return 0;
    if (!kept_bytes(t, kept))
        return 0;
    for (size_t i = 0; i < n; i++) {
        const char *s = piece[i].text;
        size_t size = piece[i].size;

        if (piece[i].flags & CAG_TEXT_TEMPLATE)
            continue;
        trim(&s, &size);
        size = least_kept(s, size, kept, normal);
        bytes += size < SIZE_MAX - bytes ? size : SIZE_MAX - bytes;
    }
    return bytes / longest(t);
}
