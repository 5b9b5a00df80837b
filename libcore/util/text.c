/*
 * text.c - UTF-8 and NFC; the only file with utf8proc.h.
 *
 * NFC works on spans that begin at an ASCII character and reach up to the
 * next one: nothing composes or reorders across the front of an ASCII
 * character, so plain text is copied and only the rest is decomposed.
 * utf8proc orders combining marks by bubbling, which is quadratic in a run
 * of marks; a hostile text could use that, so the ordering is done here.
 */
#include "util/text.h"

#include <string.h>
#include <utf8proc.h>

#include "util/mem.h"

/*
 * Length of the character at s, 1..4; 0 if invalid; -k if n bytes are the
 * beginning of a valid character whose length is k.  Unicode table 3-7.
 */
static int char_len(const unsigned char *s, size_t n)
{
    unsigned char lo = 0x80, hi = 0xBF;
    int len;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        len = 2;
    } else if ((s[0] & 0xF0) == 0xE0) {
        len = 3;
        if (s[0] == 0xE0)
            lo = 0xA0;
        if (s[0] == 0xED)
            hi = 0x9F;
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        len = 4;
        if (s[0] == 0xF0)
            lo = 0x90;
        if (s[0] == 0xF4)
            hi = 0x8F;
    } else {
        return 0;
    }
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n)
            return -len;
        if (s[i] < lo || s[i] > hi)
            return 0;
        lo = 0x80;
        hi = 0xBF;
    }
    return len;
}

/* Length of the run of ASCII at the front of s. */
static size_t ascii_run(const char *s, size_t n)
{
    size_t i = 0;
    uint64_t w;

    for (; n - i >= 8; i += 8) {
        memcpy(&w, s + i, 8);
        if (w & 0x8080808080808080u)
            break;
    }
    while (i < n && (unsigned char)s[i] < 0x80)
        i++;
    return i;
}

bool utf8_valid(const char *s, size_t n, size_t *bad)
{
    size_t i = 0;

    while ((i += ascii_run(s + i, n - i)) < n) {
        int len = char_len((const unsigned char *)s + i, n - i);
        if (len <= 0) {
            if (bad)
                *bad = i;
            return false;
        }
        i += (size_t)len;
    }
    return true;
}

size_t utf8_complete(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        if (char_len((const unsigned char *)s + n - back, back) < 0)
            return n - back;
        break;
    }
    return n;
}

int utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;
    int len = char_len(u, n);

    switch (len) {
    case 1:
        *cp = u[0];
        return 1;
    case 2:
        *cp = (uint32_t)(u[0] & 0x1F) << 6 | (u[1] & 0x3F);
        return 2;
    case 3:
        *cp = (uint32_t)(u[0] & 0x0F) << 12 | (uint32_t)(u[1] & 0x3F) << 6 |
              (u[2] & 0x3F);
        return 3;
    case 4:
        *cp = (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3F) << 12 |
              (uint32_t)(u[2] & 0x3F) << 6 | (u[3] & 0x3F);
        return 4;
    default:
        *cp = 0xFFFD; /* the caller promised valid text: still move on */
        return 1;
    }
}

int utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        cp = 0xFFFD;
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

/* Bytes one U+FFFD stands for: the longest beginning of a valid character
 * (Unicode 3.9, "substitution of maximal subparts"), at least one. */
static size_t bad_len(const unsigned char *s, size_t n)
{
    size_t k = 1;

    while (k < 3 && k < n && char_len(s, k + 1) < 0)
        k++;
    return k;
}

void utf8_sanitize(const char *s, size_t n, struct buf *out)
{
    size_t bad;

    while (!utf8_valid(s, n, &bad)) {
        buf_add(out, s, bad);
        buf_str(out, "\xEF\xBF\xBD");
        bad += bad_len((const unsigned char *)s + bad, n - bad);
        s += bad;
        n -= bad;
    }
    buf_add(out, s, n);
}

/* --- NFC ----------------------------------------------------------------- */

struct cps {
    utf8proc_int32_t *cp, *aux; /* [cap] each */
    size_t n, cap;
};

static bool cps_room(struct cps *c, size_t cap)
{
    utf8proc_int32_t *p;
    size_t bytes;

    if (cap <= c->cap)
        return true;
    if (cap < 2 * c->cap)
        cap = 2 * c->cap;
    if (!mem_mul(&bytes, cap, sizeof *p))
        return false;
    if (!(p = mem_realloc(c->cp, bytes)))
        return false;
    c->cp = p;
    if (!(p = mem_realloc(c->aux, bytes)))
        return false;
    c->aux = p;
    c->cap = cap;
    return true;
}

static int combining_class(utf8proc_int32_t cp)
{
    return (int)utf8proc_get_property(cp)->combining_class;
}

/* Stable order of a run of marks by combining class (never 0 here). */
static void order_run(utf8proc_int32_t *cp, utf8proc_int32_t *aux, size_t n)
{
    size_t at[257] = { 0 };

    if (n < 2)
        return;
    for (size_t i = 0; i < n; i++)
        at[combining_class(cp[i]) + 1]++;
    for (size_t c = 1; c < 257; c++)
        at[c] += at[c - 1];
    for (size_t i = 0; i < n; i++)
        aux[at[combining_class(cp[i])]++] = cp[i];
    memcpy(cp, aux, n * sizeof *cp);
}

static bool decompose(const char *s, size_t n, struct cps *c)
{
    c->n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int last_class = 0;
        i += (size_t)utf8_decode(s + i, n - i, &cp);
        /* no character decomposes into more than 18 */
        if (!cps_room(c, c->n + 32))
            return false;
        utf8proc_ssize_t k = utf8proc_decompose_char(
            (utf8proc_int32_t)cp, c->cp + c->n, 32,
            UTF8PROC_COMPOSE | UTF8PROC_STABLE, &last_class);
        if (k < 0 || k > 32) {
            c->cp[c->n] = (utf8proc_int32_t)cp;
            k = 1;
        }
        c->n += (size_t)k;
    }
    return true;
}

static bool nfc_span(const char *s, size_t n, struct cps *c, struct buf *out)
{
    if (!decompose(s, n, c))
        return false;
    for (size_t i = 0; i < c->n;) {
        size_t end = i;
        while (end < c->n && combining_class(c->cp[end]) != 0)
            end++;
        order_run(c->cp + i, c->aux, end - i);
        i = end + (end == i);
    }
    utf8proc_ssize_t k = utf8proc_normalize_utf32(
        c->cp, (utf8proc_ssize_t)c->n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        char ch[4];
        int len = utf8_put((uint32_t)c->cp[i], ch);
        buf_add(out, ch, (size_t)len);
    }
    return true;
}

cag_status text_nfc(const char *s, size_t n, struct buf *out, cag_error *err)
{
    struct cps c = { 0 };
    bool ok = true;

    while (ok && n > 0) {
        size_t run = ascii_run(s, n), span;
        if (run == n) {
            buf_add(out, s, n);
            break;
        }
        if (run > 0)
            run--; /* the last one may take an accent */
        buf_add(out, s, run);
        span = run + 1;
        while (span < n && (unsigned char)s[span] >= 0x80)
            span++;
        ok = nfc_span(s + run, span - run, &c, out);
        s += span;
        n -= span;
    }
    mem_free(c.cp);
    mem_free(c.aux);
    if (!ok || buf_failed(out))
        return cag_fail_nomem(err, "normalized text");
    return CAG_OK;
}

bool text_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == 32 || cp == 0x85 || cp == 0xA0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

uint32_t text_lower(uint32_t cp)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

uint32_t text_upper(uint32_t cp)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}

enum text_class text_class(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return TEXT_LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return TEXT_MARK;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return TEXT_DIGIT;
    default:
        return TEXT_OTHER;
    }
}

bool text_is_upper(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT;
}
