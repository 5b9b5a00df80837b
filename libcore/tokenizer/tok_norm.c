/*
 * tok_norm.c - what happens to text before it is cut: NFC, a space in
 * front, U+2581 as a space.
 *
 * NFC may be taken apart before every ASCII character, because none ever
 * composes with what stands before it.  So offsets are found stretch by
 * stretch: one that is already normal maps byte by byte; of another the
 * common beginning and end do, and what is between belongs to its start.
 */
#include "tokenizer/tok_norm.h"

#include <string.h>

#include "util/mem.h"
#include "util/text.h"

#define SPACE_MARK "\xe2\x96\x81"

static bool is_tail(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static cag_status span(struct norm_map *m, size_t norm, size_t orig,
                       bool linear, cag_error *err)
{
    if (!m)
        return CAG_OK;
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64, bytes;
        void *p = mem_mul(&bytes, cap, sizeof *m->span)
                      ? mem_realloc(m->span, bytes)
                      : NULL;
        if (!p)
            return cag_fail_nomem(err, "offsets");
        m->span = p;
        m->cap = cap;
    }
    m->span[m->n++] = (struct norm_span){ norm, orig, linear };
    return CAG_OK;
}

/* The last span that begins at norm or before it. */
static const struct norm_span *seek(struct norm_map *m, size_t norm)
{
    size_t lo = m->span[m->at].norm <= norm ? m->at : 0, hi = m->n;

    if (lo + 1 < hi && m->span[lo + 1].norm > norm)
        hi = lo + 1;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (m->span[mid].norm <= norm)
            lo = mid;
        else
            hi = mid;
    }
    m->at = lo;
    return &m->span[lo];
}

size_t norm_map_find(struct norm_map *m, size_t norm, const char *text)
{
    const struct norm_span *s = seek(m, norm);
    size_t off = s->linear ? s->orig + (norm - s->norm) : s->orig;

    while (off > 0 && is_tail(text[off]))
        off--;
    return off;
}

/* ---- NFC ---------------------------------------------------------------- */

/* The spans of one stretch: in at orig, out[norm..) its normal form. */
static cag_status map_stretch(struct norm_map *map, const char *in, size_t n,
                              size_t orig, const char *out, size_t m,
                              size_t norm, cag_error *err)
{
    size_t head = 0, tail = 0, least = n < m ? n : m;
    cag_status st;

    while (head < least && in[head] == out[head])
        head++;
    if (head == n && head == m)
        return span(map, norm, orig, true, err);
    while (head > 0 && ((head < n && is_tail(in[head])) ||
                        (head < m && is_tail(out[head]))))
        head--;
    while (tail < least - head && in[n - 1 - tail] == out[m - 1 - tail])
        tail++;
    while (tail > 0 && is_tail(in[n - tail]))
        tail--;
    st = span(map, norm, orig, true, err);
    if (!st)
        st = span(map, norm + head, orig + head, false, err);
    if (!st && tail)
        st = span(map, norm + m - tail, orig + n - tail, true, err);
    return st;
}

/* End of the stretch that begins at i: an ASCII run but for its last
 * character, or one character and the non-ASCII text after it. */
static size_t stretch_end(const char *s, size_t n, size_t i)
{
    size_t j = i;
    while (j < n && (unsigned char)s[j] < 128)
        j++;
    if (j == n)
        return n;
    if (j > i + 1)
        return j - 1;
    while (j < n && (unsigned char)s[j] >= 128)
        j++;
    return j;
}

static cag_status nfc(const char *text, size_t begin, size_t end,
                      struct buf *out, struct norm_map *map, cag_error *err)
{
    const char *s = text + begin;
    size_t n = end - begin, start = out->size;
    cag_status st = text_nfc(s, n, out, err);

    if (st || !map)
        return st;
    if (out->size - start == n && memcmp(out->data + start, s, n) == 0)
        return span(map, start, begin, true, err);
    buf_truncate(out, start);
    for (size_t i = 0; !st && i < n;) {
        size_t j = stretch_end(s, n, i), at = out->size;
        st = text_nfc(s + i, j - i, out, err);
        if (!st)
            st = map_stretch(map, s + i, j - i, begin + i, out->data + at,
                             out->size - at, at, err);
        i = j;
    }
    return st;
}

/* ---- the whole ---------------------------------------------------------- */

static bool begins_with_space(const cag_tokenizer *t, const char *s, size_t n)
{
    return s[0] == ' ' || (t->flags & TOK_F_SPACE_MARK && n >= 3 &&
                           memcmp(s, SPACE_MARK, 3) == 0);
}

/* Does the pre-tokenizer put a space before s [n], which came from orig? */
static bool wants_space(const cag_tokenizer *t, const char *s, size_t n,
                        size_t orig)
{
    if (t->prepend == TOK_PREPEND_UNLESS ||
        (t->prepend == TOK_PREPEND_FIRST && orig == 0))
        return !begins_with_space(t, s, n);
    return false;
}

static cag_status marks_to_spaces(const char *text, size_t begin, size_t end,
                                  struct buf *out, struct norm_map *map,
                                  cag_error *err)
{
    size_t done = begin;
    cag_status st = span(map, out->size, begin, true, err);

    for (size_t i = begin; !st && end - i >= 3;) {
        const char *p = memchr(text + i, SPACE_MARK[0], end - i - 2);
        if (!p)
            break;
        i = (size_t)(p - text);
        if (memcmp(p, SPACE_MARK, 3) != 0) {
            i++;
            continue;
        }
        buf_add(out, text + done, i - done);
        st = span(map, out->size, i, false, err);
        buf_char(out, ' ');
        i += 3;
        done = i;
        if (!st)
            st = span(map, out->size, i, true, err);
    }
    buf_add(out, text + done, end - done);
    return st;
}

cag_status tok_norm_text(const cag_tokenizer *t, const char *text, size_t begin,
                         size_t end, struct buf *out, struct norm_map *map,
                         cag_error *err)
{
    cag_status st = CAG_OK;

    if (begin == end)
        return CAG_OK;
    if (t->prepend == TOK_PREPEND_ALWAYS) {
        st = span(map, out->size, begin, false, err);
        buf_char(out, ' ');
    }
    if (st)
        return st;
    if (t->flags & TOK_F_SPACE_MARK)
        st = marks_to_spaces(text, begin, end, out, map, err);
    else if (t->flags & TOK_F_NFC)
        st = nfc(text, begin, end, out, map, err);
    else {
        st = span(map, out->size, begin, true, err);
        buf_add(out, text + begin, end - begin);
    }
    if (!st && buf_failed(out))
        st = cag_fail_nomem(err, "text");
    return st;
}

cag_status tok_norm(const cag_tokenizer *t, const char *text, size_t begin,
                    size_t end, struct buf *out, struct norm_map *map,
                    cag_error *err)
{
    cag_status st = CAG_OK;

    if (begin != end && wants_space(t, text + begin, end - begin, begin)) {
        st = span(map, out->size, begin, false, err);
        buf_char(out, ' ');
    }
    return st ? st : tok_norm_text(t, text, begin, end, out, map, err);
}

cag_status tok_norm_piece(const cag_tokenizer *t, const char *text,
                          size_t begin, size_t end, struct norm_map *from,
                          struct buf *out, struct norm_map *map, cag_error *err)
{
    const struct norm_span *s = seek(from, begin), *last = from->span + from->n;
    size_t orig = s->linear ? s->orig + (begin - s->norm) : s->orig;
    cag_status st = CAG_OK;

    if (wants_space(t, text + begin, end - begin, orig)) {
        st = span(map, out->size, orig, false, err);
        buf_char(out, ' ');
    }
    if (!st)
        st = span(map, out->size, orig, s->linear, err);
    while (!st && ++s < last && s->norm < end)
        st = span(map, out->size + (s->norm - begin), s->orig, s->linear, err);
    buf_add(out, text + begin, end - begin);
    if (!st && buf_failed(out))
        st = cag_fail_nomem(err, "text");
    return st;
}
