/*
 * jinja_str.c - strings: Python's characters, and where each byte is from.
 *
 * Positions in templates count characters, ours count bytes of valid UTF-8.
 * A string is a view; parts of a string are views into it.  New text is
 * collected in a jout, which merges spans of equal provenance, so that cut
 * and joined strings keep it exactly.
 */
#include <string.h>

#include "template/jinja_int.h"
#include "util/mem.h"
#include "util/text.h"

void jout_init(struct jout *o)
{
    memset(o, 0, sizeof *o);
}

void jout_free(struct jout *o)
{
    buf_free(&o->b);
    mem_free(o->span);
    jout_init(o);
}

static void append(struct jr *r, struct jout *o, const char *s, size_t n,
                   bool input)
{
    if (n == 0 || !jr_burn(r, 1 + n / 16))
        return;
    if (n > JINJA_MAX_OUTPUT - o->b.size) {
        jr_fail(r, CAG_E_LIMIT, "the template makes more than %zu bytes",
                JINJA_MAX_OUTPUT);
        return;
    }
    buf_add(&o->b, s, n);
    if (o->n_span && o->span[o->n_span - 1].input == input) {
        o->span[o->n_span - 1].end = o->b.size;
    } else {
        if (o->n_span == o->cap_span) {
            size_t cap = o->cap_span ? 2 * o->cap_span : 8;
            struct jinja_span *p = mem_realloc(o->span, cap * sizeof *p);
            if (!p) {
                jr_fail(r, CAG_E_NOMEM, "out of memory");
                return;
            }
            o->span = p;
            o->cap_span = cap;
        }
        o->span[o->n_span++] = (struct jinja_span){ o->b.size, input };
    }
    if (buf_failed(&o->b))
        jr_fail(r, CAG_E_NOMEM, "out of memory");
}

void jout_add(struct jr *r, struct jout *o, struct jval s)
{
    size_t at = 0;
    if (s.flag != JS_MIXED) {
        append(r, o, s.u.s, s.n, s.flag == JS_INPUT);
        return;
    }
    for (size_t i = 0; i < s.spans->n; i++) {
        append(r, o, s.u.s + at, s.spans->s[i].end - at, s.spans->s[i].input);
        at = s.spans->s[i].end;
    }
}

void jout_raw(struct jr *r, struct jout *o, const char *s, size_t n)
{
    append(r, o, s, n, false);
}

struct jval jout_take(struct jr *r, struct jout *o)
{
    struct jval v = jval_static("");
    char *s = o->b.size ? jr_alloc(r, o->b.size, 1) : NULL;
    if (s) {
        memcpy(s, o->b.data, o->b.size);
        v = jval_text(s, o->b.size, o->span[0].input ? JS_INPUT : JS_TEMPLATE);
        if (o->n_span > 1) {
            size_t n = o->n_span;
            struct jspans *p = jr_alloc(r, 1, sizeof *p + n * sizeof p->s[0]);
            if (p) {
                p->n = n;
                memcpy(p->s, o->span, n * sizeof p->s[0]);
                v.flag = JS_MIXED;
                v.spans = p;
            } else {
                v = jval_static("");
            }
        }
    }
    jout_free(o);
    return v;
}

struct jval jstr_sub(struct jr *r, struct jval s, size_t off, size_t n)
{
    struct jval v = jval_text(s.u.s + off, n, s.flag);
    if (n == 0)
        return jval_static("");
    if (s.flag != JS_MIXED)
        return v;
    size_t first = 0, last;
    while (s.spans->s[first].end <= off)
        first++;
    for (last = first; s.spans->s[last].end < off + n;)
        last++;
    if (!jr_burn(r, last))
        return jval_static("");
    if (first == last) {
        v.flag = s.spans->s[first].input ? JS_INPUT : JS_TEMPLATE;
        return v;
    }
    struct jspans *p =
        jr_alloc(r, 1, sizeof *p + (last - first + 1) * sizeof p->s[0]);
    if (!p)
        return jval_static("");
    p->n = last - first + 1;
    for (size_t i = 0; i < p->n; i++) {
        p->s[i] = s.spans->s[first + i];
        p->s[i].end -= off;
    }
    p->s[p->n - 1].end = n;
    v.spans = p;
    return v;
}

struct jval jstr_concat(struct jr *r, struct jval a, struct jval b)
{
    struct jout o;
    if (a.n == 0)
        return b;
    if (b.n == 0)
        return a;
    jout_init(&o);
    jout_add(r, &o, a);
    jout_add(r, &o, b);
    return jout_take(r, &o);
}

/* ------------------------------------------------------------- characters */

size_t jstr_len(const struct jval *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += ((unsigned char)s->u.s[i] & 0xC0) != 0x80;
    return n;
}

/* Byte offset of character i (0 <= i <= length). */
static size_t offset(const struct jval *s, size_t i)
{
    size_t p = 0;
    for (; p < s->n; p++)
        if (((unsigned char)s->u.s[p] & 0xC0) != 0x80 && i-- == 0)
            break;
    return p;
}

/* count characters from start, step apart (Python's slice, resolved) */
struct jval jstr_slice(struct jr *r, struct jval s, int64_t start, int64_t step,
                       int64_t count)
{
    if (count <= 0 || !jr_burn(r, 1 + s.n / 16))
        return jval_static("");
    if (step == 1) {
        size_t a = offset(&s, (size_t)start);
        size_t b = offset(&s, (size_t)(start + count));
        return jstr_sub(r, s, a, b - a);
    }
    /* character offsets once, then pick */
    size_t n = jstr_len(&s), k = 0;
    size_t *at = jr_alloc(r, n + 1, sizeof *at);
    if (!at)
        return jval_static("");
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.u.s[i] & 0xC0) != 0x80)
            at[k++] = i;
    at[k] = s.n;
    struct jout o;
    jout_init(&o);
    for (int64_t i = 0; i < count && r->status == CAG_OK; i++) {
        size_t c = (size_t)(start + i * step);
        jout_add(r, &o, jstr_sub(r, s, at[c], at[c + 1] - at[c]));
    }
    return jout_take(r, &o);
}

/* Python's str.isspace() */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
           c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

size_t jspace(const char *s, size_t n)
{
    uint32_t c;
    if (n == 0)
        return 0;
    int k = utf8_decode(s, n, &c);
    return is_space(c) ? (size_t)k : 0;
}

static size_t last_char(const char *s, size_t n)
{
    size_t k = 1;
    while (k < n && ((unsigned char)s[n - k] & 0xC0) == 0x80)
        k++;
    return k;
}

size_t jspace_back(const char *s, size_t n)
{
    if (n == 0)
        return 0;
    size_t k = last_char(s, n);
    return jspace(s + n - k, k);
}

int64_t jstr_find(const struct jval *s, const struct jval *what, size_t from)
{
    if (from > s->n)
        return -1;
    if (what->n == 0)
        return (int64_t)from;
    const char *p = memmem(s->u.s + from, s->n - from, what->u.s, what->n);
    return p ? (int64_t)(p - s->u.s) : -1;
}

static bool in_set(const char *s, size_t n, const struct jval *chars)
{
    if (!chars)
        return jspace(s, n) > 0;
    struct jval one = jval_text(s, n, JS_TEMPLATE);
    return jstr_find(chars, &one, 0) >= 0;
}

struct jval jstr_strip(struct jr *r, struct jval s, const struct jval *chars,
                       bool left, bool right)
{
    size_t a = 0, b = s.n;
    if (!jr_burn(r, 1))
        return s;
    while (left && a < b) {
        uint32_t c;
        size_t k = (size_t)utf8_decode(s.u.s + a, b - a, &c);
        if (!in_set(s.u.s + a, k, chars) || !jr_burn(r, 1))
            break;
        a += k;
    }
    while (right && a < b) {
        size_t k = last_char(s.u.s + a, b - a);
        if (!in_set(s.u.s + b - k, k, chars) || !jr_burn(r, 1))
            break;
        b -= k;
    }
    return jstr_sub(r, s, a, b - a);
}

struct jval jstr_replace(struct jr *r, struct jval s, struct jval from,
                         struct jval to, int64_t count)
{
    struct jout o;
    size_t at = 0;
    jout_init(&o);
    if (!jr_burn(r, 1 + s.n / 16))
        return s;
    if (count < 0)
        count = INT64_MAX;
    while (count > 0 && r->status == CAG_OK) {
        int64_t p = jstr_find(&s, &from, at);
        if (p < 0)
            break;
        if (from.n == 0) { /* between all characters */
            jout_add(r, &o, to);
            if (at >= s.n)
                break;
            uint32_t c;
            size_t k = (size_t)utf8_decode(s.u.s + at, s.n - at, &c);
            jout_add(r, &o, jstr_sub(r, s, at, k));
            at += k;
        } else {
            jout_add(r, &o, jstr_sub(r, s, at, (size_t)p - at));
            jout_add(r, &o, to);
            at = (size_t)p + from.n;
        }
        jr_burn(r, 1);
        count--;
    }
    if (at < s.n)
        jout_add(r, &o, jstr_sub(r, s, at, s.n - at));
    return jout_take(r, &o);
}
