/*
 * json_write.c - JSON as text, and in its canonical form.
 *
 * By a walk over the getters, not by jansson: reals get the shortest form
 * that reads back equal (0.1, not 0.10000000000000001), and the canonical
 * form (members in order of their bytes, no space, no reals), which digests
 * are made of, must not depend on a library's version.
 */
#include "util/json.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/mem.h"

static void dump_str(const char *s, size_t n, struct buf *out)
{
    static const char names[] = "btn?fr"; /* 8..13; 11 has no name */
    size_t plain = 0;

    buf_char(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(out, s + plain, i - plain);
        plain = i + 1;
        if (c >= 0x20) {
            buf_char(out, '\\');
            buf_char(out, (char)c);
        } else if (c >= 8 && c <= 13 && c != 11) {
            buf_char(out, '\\');
            buf_char(out, names[c - 8]);
        } else {
            buf_printf(out, "\\u%04x", c);
        }
    }
    buf_add(out, s + plain, n - plain);
    buf_char(out, '"');
}

static void dump_real(double v, struct buf *out)
{
    char text[40];

    /* %g drops zeros, so 15 digits are the shortest form of most; numbers
     * near zero have fewer good digits */
    int digits = v > -DBL_MIN && v < DBL_MIN ? 1 : 15;
    for (; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    /* the host program may have set a locale with a decimal comma */
    bool real = false;
    for (char *p = text; *p; p++) {
        if (!strchr("0123456789+-eE", *p))
            *p = '.';
        real |= *p == '.' || *p == 'e';
    }
    buf_str(out, text);
    if (!real)
        buf_str(out, ".0");
}

struct member {
    const char *key;
    size_t n;
    const jv *value;
};

static int by_key(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int c = memcmp(x->key, y->key, x->n < y->n ? x->n : y->n);

    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static void dump(const jv *v, bool canonical, bool *has_real, struct buf *out);

static void dump_object(const jv *v, bool canonical, bool *has_real,
                        struct buf *out)
{
    size_t n = jv_count(v), i = 0;
    struct member *m = mem_alloc_array(n, sizeof *m);

    if (!m) {
        out->failed = true;
        return;
    }
    for (void *it = jv_iter(v); it && i < n; it = jv_next(v, it), i++) {
        m[i].key = jv_iter_key(it, &m[i].n);
        m[i].value = jv_iter_value(it);
    }
    if (canonical)
        qsort(m, n, sizeof *m, by_key);
    buf_char(out, '{');
    for (i = 0; i < n; i++) {
        if (i)
            buf_char(out, ',');
        dump_str(m[i].key, m[i].n, out);
        buf_char(out, ':');
        dump(m[i].value, canonical, has_real, out);
    }
    buf_char(out, '}');
    mem_free(m);
}

static void dump(const jv *v, bool canonical, bool *has_real, struct buf *out)
{
    const char *s;
    size_t n;

    switch (jv_type(v)) {
    case JV_NULL:
        buf_str(out, "null");
        break;
    case JV_BOOL:
        buf_str(out, jv_bool(v, false) ? "true" : "false");
        break;
    case JV_INT:
        buf_printf(out, "%lld", (long long)jv_int(v, 0));
        break;
    case JV_REAL:
        *has_real = true;
        dump_real(jv_num(v, 0), out);
        break;
    case JV_STR:
        s = jv_str(v, &n);
        dump_str(s, n, out);
        break;
    case JV_ARRAY:
        buf_char(out, '[');
        for (size_t i = 0; i < jv_count(v); i++) {
            if (i)
                buf_char(out, ',');
            dump(jv_at(v, i), canonical, has_real, out);
        }
        buf_char(out, ']');
        break;
    case JV_OBJECT:
        dump_object(v, canonical, has_real, out);
        break;
    }
}

void jv_dump(const jv *v, struct buf *out)
{
    bool has_real = false;

    dump(v, false, &has_real, out);
}

cag_status jv_dump_canonical(const jv *v, struct buf *out, cag_error *err)
{
    bool has_real = false;
    size_t start = out->size;

    dump(v, true, &has_real, out);
    if (buf_failed(out))
        return cag_fail_nomem(err, "canonical JSON");
    if (has_real) {
        buf_truncate(out, start);
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "canonical JSON holds no reals");
    }
    return CAG_OK;
}
