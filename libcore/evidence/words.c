/*
 * words.c - see words.h.
 */
#include "evidence/words.h"

#include <string.h>

#include "util/buf.h"
#include "util/text.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Written without blanks between words, or with endings that cling. */
static bool is_unspaced(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } range[] = {
        { 0x0E00, 0x0EFF },   /* Thai, Lao                  */
        { 0x1000, 0x109F },   /* Myanmar                    */
        { 0x1100, 0x11FF },   /* Hangul, conjoining letters */
        { 0x1780, 0x17FF },   /* Khmer                      */
        { 0x2E80, 0x2FDF },   /* radicals                   */
        { 0x3005, 0x3007 },   /* iteration marks, zero      */
        { 0x3041, 0x318F },   /* kana, bopomofo, Hangul     */
        { 0x31A0, 0x31FF },   /* more of these              */
        { 0x3400, 0x4DBF },   /* Han                        */
        { 0x4E00, 0x9FFF },   /* Han                        */
        { 0xA960, 0xA97F },   /* Hangul                     */
        { 0xAC00, 0xD7FF },   /* Hangul                     */
        { 0xF900, 0xFAFF },   /* Han, compatibility         */
        { 0xFF66, 0xFFDC },   /* half width kana, Hangul    */
        { 0x1B000, 0x1B16F }, /* kana                       */
        { 0x20000, 0x3FFFF }, /* Han                        */
    };

    for (size_t i = 0; i < sizeof range / sizeof range[0]; i++)
        if (cp >= range[i].first && cp <= range[i].last)
            return true;
    return false;
}

enum kind { K_OTHER, K_WORD, K_JOIN, K_PAIR };

/* The character at s[i]: what it is, and its length. */
static enum kind kind_at(const char *s, size_t n, size_t i, uint32_t *cp,
                         size_t *len)
{
    char c = s[i];

    *len = 1;
    *cp = (unsigned char)c;
    if (*cp < 0x80) {
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
            c == '_')
            return K_WORD;
        return c == '.' || c == '\'' || c == '/' || c == '-' ? K_JOIN : K_OTHER;
    }
    *len = (size_t)utf8_decode(s + i, n - i, cp);
    if (*cp == 0x2019) /* the typesetter's apostrophe */
        return K_JOIN;
    if (text_class(*cp) == TEXT_OTHER)
        return K_OTHER;
    return is_unspaced(*cp) ? K_PAIR : K_WORD;
}

/* 1,024: a comma, three digits, and no more of them. */
static bool is_thousands(const char *s, size_t n, size_t i)
{
    return s[i] == ',' && i > 0 && is_digit(s[i - 1]) && n - i > 3 &&
           is_digit(s[i + 1]) && is_digit(s[i + 2]) && is_digit(s[i + 3]) &&
           !(n - i > 4 && is_digit(s[i + 4]));
}

struct walk {
    const char *s;
    size_t n;
    word_fn fn;
    void *ctx;
    cag_error *err;
    struct buf norm; /* the word in lower case */
};

/* Take one English ending off; the rest keeps three letters. */
static size_t stem(const char *w, size_t n)
{
    static const char *const end[] = { "ing", "ies", "ed", "es", "ly", "s" };

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)w[i] >= 0x80)
            return n;
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++) {
        size_t len = strlen(end[i]);

        if (n >= len + 3 && !memcmp(w + n - len, end[i], len))
            return n - len;
    }
    return n;
}

static cag_status give(struct walk *w, size_t at, size_t size, size_t from,
                       size_t to)
{
    struct word word = { .text = w->norm.data + at, .from = from, .to = to };

    word.size = stem(word.text, size);
    return w->fn(w->ctx, &word, w->err);
}

/* s[from, to) to w->norm: NFC, lower case, no comma of thousands, "'" for
 * the typesetter's.  An upper case letter after a lower case one gets a \1
 * before it, which no text has: a border of parts. */
static cag_status normalise(struct walk *w, size_t from, size_t to)
{
    struct buf nfc = BUF_INIT;
    const char *s = w->s + from;
    size_t n = to - from;
    bool lower = false, marks = false;
    cag_status st = CAG_OK;

    for (size_t i = 0; i < n && !marks;) {
        uint32_t cp;

        i += (size_t)utf8_decode(s + i, n - i, &cp);
        marks = cp >= 0x80 && text_class(cp) == TEXT_MARK;
    }
    if (marks) {
        st = text_nfc(s, n, &nfc, w->err);
        s = nfc.data;
        n = nfc.size;
    }
    buf_clear(&w->norm);
    for (size_t i = 0; i < n && !st;) {
        uint32_t cp, low;
        char out[4];

        i += (size_t)utf8_decode(s + i, n - i, &cp);
        if (cp == ',')
            continue;
        low = cp == 0x2019 ? '\'' : text_lower(cp);
        if (low != cp && lower && cp != 0x2019)
            buf_char(&w->norm, 1);
        lower = low == cp && text_class(cp) == TEXT_LETTER;
        buf_add(&w->norm, out, (size_t)utf8_put(low, out));
    }
    buf_free(&nfc);
    if (!st && buf_failed(&w->norm))
        st = cag_fail_nomem(w->err, "words");
    return st;
}

/* May a part end before s[i]?  *skip: bytes of the border itself. */
static bool is_border(const char *s, size_t n, size_t i, size_t *skip)
{
    *skip = 1;
    if (s[i] == 1)
        return true;
    return strchr("_.'/-", s[i]) && s[i] &&
           !(i > 0 && i + 1 < n && is_digit(s[i - 1]) && is_digit(s[i + 1]));
}

/* The word s[from, to), and its parts if it has several. */
static cag_status give_word(struct walk *w, size_t from, size_t to)
{
    cag_status st = normalise(w, from, to);
    size_t n = w->norm.size, part = 0, whole, skip, n_border = 0;
    char *s = w->norm.data;

    if (st)
        return st;
    if (n > 2 && !memcmp(s + n - 2, "'s", 2))
        n -= 2;
    for (size_t i = 0; i < n; i++)
        n_border += is_border(s, n, i, &skip);
    if (!n_border)
        return give(w, 0, n, from, to);
    /* the whole, without the borders of case, after the parts' bytes */
    whole = w->norm.size;
    if (!buf_reserve(&w->norm, n))
        return cag_fail_nomem(w->err, "words");
    s = w->norm.data;
    for (size_t i = 0; i < n; i++)
        if (s[i] != 1)
            buf_char(&w->norm, s[i]);
    st = give(w, whole, w->norm.size - whole, from, to);
    for (size_t i = 0; i <= n && !st; i++)
        if (i == n || is_border(s, n, i, &skip)) {
            if (i - part > 1)
                st = give(w, part, i - part, from, to);
            part = i + 1;
        }
    return st;
}

/* Pairs of neighbours in a run without blanks; returns its end. */
static cag_status give_pairs(struct walk *w, size_t from, size_t *end)
{
    size_t before = SIZE_MAX, i = from, len;
    uint32_t cp;
    cag_status st = CAG_OK;

    for (; i < w->n && kind_at(w->s, w->n, i, &cp, &len) == K_PAIR && !st;
         i += len) {
        if (before != SIZE_MAX) {
            st = normalise(w, before, i + len);
            if (!st)
                st = give(w, 0, w->norm.size, before, i + len);
        }
        before = i;
    }
    if (!st && before == from) { /* one alone */
        st = normalise(w, from, i);
        if (!st)
            st = give(w, 0, w->norm.size, from, i);
    }
    *end = i;
    return st;
}

/* The end of the word at from; what joins words does not end one. */
static size_t word_end(const char *s, size_t n, size_t from)
{
    size_t end = from, len;
    uint32_t cp;

    for (size_t i = from; i < n && i - from < WORD_MAX - 4; i += len) {
        enum kind k = kind_at(s, n, i, &cp, &len);

        if (k == K_WORD)
            end = i + len;
        else if (k != K_JOIN && !is_thousands(s, n, i))
            break;
    }
    return end;
}

cag_status words_each(const char *s, size_t n, word_fn fn, void *ctx,
                      cag_error *err)
{
    struct walk w = { s, n, fn, ctx, err, BUF_INIT };
    cag_status st = CAG_OK;
    uint32_t cp;
    size_t len;

    for (size_t i = 0, end; i < n && !st; i = end) {
        enum kind k = kind_at(s, n, i, &cp, &len);

        end = i + len;
        if (k == K_PAIR) {
            st = give_pairs(&w, i, &end);
        } else if (k == K_WORD) {
            end = word_end(s, n, i);
            st = give_word(&w, i, end);
        }
    }
    buf_free(&w.norm);
    return st;
}

bool words_may_cut(const char *s, size_t n, size_t i)
{
    size_t before = i, len;
    uint32_t cp;

    if (i == 0 || i >= n)
        return true;
    if ((s[i] & 0xC0) == 0x80)
        return false;
    do
        before--;
    while (before && (s[before] & 0xC0) == 0x80);
    return kind_at(s, n, before, &cp, &len) != K_WORD ||
           kind_at(s, n, i, &cp, &len) != K_WORD;
}

/* -------------------------------------------------------------- sentences */

static bool is_line_blank(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r'))
        i++;
    return i == n || s[i] == '\n';
}

/* Digits at s that number a list item: their count with the mark, or 0. */
static size_t item_number(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && i < 4 && is_digit(s[i]))
        i++;
    if (i && i + 1 < n && (s[i] == '.' || s[i] == ')') && is_blank(s[i + 1]))
        return i + 1;
    return 0;
}

/* Does the line at s begin something of its own? */
static bool begins_item(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && (s[i] == ' ' || s[i] == '\t'))
        i++;
    if (i == n)
        return false;
    if (s[i] == '#' || s[i] == '|')
        return true;
    if (strchr("-*+", s[i]) && s[i])
        return i + 1 < n && is_blank(s[i + 1]);
    return item_number(s + i, n - i) > 0;
}

/* A full stop that needs no blank after it. */
static bool is_wide_stop(uint32_t cp)
{
    static const uint32_t stop[] = { 0x0964, 0x0965, 0x061F, 0x06D4, 0x3002,
                                     0xFF01, 0xFF0E, 0xFF1A, 0xFF1F, 0xFF61 };

    for (size_t i = 0; i < sizeof stop / sizeof stop[0]; i++)
        if (cp == stop[i])
            return true;
    return false;
}

/* After the stop at s[i]: closing quotes and brackets, then a blank? */
static bool ends_after(const char *s, size_t n, size_t *i)
{
    size_t j = *i + 1;

    while (j < n && strchr("\"')]*_`", s[j]) && s[j])
        j++;
    if (j < n && !is_blank(s[j]))
        return false;
    *i = j;
    return true;
}

size_t words_sentence(const char *s, size_t n)
{
    size_t line = 0, i = 0;

    while (i < n && is_blank(s[i]))
        i++;
    if (begins_item(s + i, n - i))
        i += item_number(s + i, n - i); /* its point is no full stop */
    for (; i < n; i++) {
        uint32_t cp;

        if (s[i] == '\n') {
            line = i + 1;
            if (is_line_blank(s + line, n - line) ||
                begins_item(s + line, n - line))
                return line;
        } else if (strchr(".!?:", s[i]) && s[i]) {
            size_t end = i;

            if (ends_after(s, n, &end))
                return end;
        } else if ((unsigned char)s[i] >= 0x80) {
            size_t len = (size_t)utf8_decode(s + i, n - i, &cp);

            i += len - 1;
            if (is_wide_stop(cp))
                return i + 1;
        }
    }
    return n;
}
