/*
 * jinja_repr.c - values as text: Python's str(), repr() and json.dumps().
 *
 * Numbers print as Python prints them (the shortest digits that read back
 * to the same double).  Composite text that holds any input is input.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja_int.h"
#include "util/text.h"

struct pr {
    struct jr *r;
    struct buf b;
    bool input;
    bool json, ascii, sort;
    const char *item_sep, *key_sep;
    size_t n_item_sep, n_key_sep;
    const char *indent; /* NULL: one line */
    size_t n_indent;
};

static void put(struct pr *p, const char *s, size_t n)
{
    if (!jr_burn(p->r, 1 + n / 16))
        return;
    if (n > JINJA_MAX_OUTPUT - p->b.size)
        jr_fail(p->r, CAG_E_LIMIT, "a text of more than %zu bytes",
                JINJA_MAX_OUTPUT);
    else
        buf_add(&p->b, s, n);
}

static void puts_(struct pr *p, const char *s)
{
    put(p, s, strlen(s));
}

void jval_float_text(double f, char out[40])
{
    char tmp[40];
    int prec = 1;
    if (isnan(f) || isinf(f)) {
        snprintf(out, 40, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (; prec < 17; prec++) {
        snprintf(tmp, sizeof tmp, "%.*e", prec - 1, f);
        if (strtod(tmp, NULL) == f)
            break;
    }
    snprintf(tmp, sizeof tmp, "%.*e", prec - 1, f);
    int exp10 = (int)strtol(strchr(tmp, 'e') + 1, NULL, 10);
    if (exp10 < -4 || exp10 >= 16) {
        snprintf(out, 40, "%.*e", prec - 1, f);
    } else if (prec - 1 > exp10) {
        snprintf(out, 40, "%.*f", prec - 1 - exp10, f);
    } else {
        snprintf(out, 40, "%.1f", f);
    }
}

/* Not printable for Python: control, format, surrogate, separators. */
static bool printable(uint32_t c)
{
    return c >= 0x20 && !(c >= 0x7F && c <= 0xA0) && c != 0xAD && c != 0x1680 &&
           !(c >= 0x2000 && c <= 0x200F) && !(c >= 0x2028 && c <= 0x202F) &&
           !(c >= 0x205F && c <= 0x206F) && c != 0x3000 && c != 0xFEFF &&
           !(c >= 0xE000 && c <= 0xF8FF) && !(c >= 0xFFF0 && c <= 0xFFFB) &&
           c < 0xE0000;
}

static void repr_str(struct pr *p, struct jval s)
{
    char q = memchr(s.u.s, '\'', s.n) && !memchr(s.u.s, '"', s.n) ? '"' : '\'';
    put(p, &q, 1);
    for (size_t i = 0; i < s.n && p->r->status == CAG_OK;) {
        char e[12];
        uint32_t c;
        size_t k = (size_t)utf8_decode(s.u.s + i, s.n - i, &c);
        if (c == (uint32_t)q || c == '\\') {
            e[0] = '\\';
            e[1] = (char)c;
            put(p, e, 2);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            puts_(p, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (!printable(c)) {
            snprintf(e, sizeof e,
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     c);
            puts_(p, e);
        } else {
            put(p, s.u.s + i, k);
        }
        i += k;
    }
    put(p, &q, 1);
}

static void json_str(struct pr *p, struct jval s)
{
    put(p, "\"", 1);
    for (size_t i = 0; i < s.n && p->r->status == CAG_OK;) {
        static const char plain[] = "\"\"\\\\\bb\ff\nn\rr\tt";
        char e[16];
        uint32_t c;
        size_t k = (size_t)utf8_decode(s.u.s + i, s.n - i, &c);
        const char *x = NULL;
        for (size_t j = 0; plain[j] && !x; j += 2)
            if ((uint32_t)plain[j] == c)
                x = plain + j + 1;
        if (x) {
            e[0] = '\\';
            e[1] = *x;
            put(p, e, 2);
        } else if (c < 0x20 || (p->ascii && c > 0x7E && c < 0x10000)) {
            snprintf(e, sizeof e, "\\u%04x", c);
            puts_(p, e);
        } else if (p->ascii && c >= 0x10000) {
            snprintf(e, sizeof e, "\\u%04x\\u%04x",
                     0xD800 + ((c - 0x10000) >> 10),
                     0xDC00 + ((c - 0x10000) & 0x3FF));
            puts_(p, e);
        } else {
            put(p, s.u.s + i, k);
        }
        i += k;
    }
    put(p, "\"", 1);
}

static void new_line(struct pr *p, int level)
{
    if (!p->indent)
        return;
    put(p, "\n", 1);
    for (int i = 0; i < level && p->r->status == CAG_OK; i++)
        put(p, p->indent, p->n_indent);
}

static void value(struct pr *p, struct jval v, int level);

static void list(struct pr *p, struct jval v, int level)
{
    const struct jlist *l = v.u.list;
    const char *open = p->json || v.flag == JL_LIST ? "[]"
                       : v.flag == JL_TUPLE         ? "()"
                                                    : NULL;
    if (!open || (p->json && v.flag > JL_TUPLE)) {
        jr_fail(p->r, CAG_E_UNSUPPORTED, "cannot print an iterator; use |list");
        return;
    }
    put(p, open, 1);
    for (size_t i = 0; i < l->n && p->r->status == CAG_OK; i++) {
        if (i)
            put(p, p->item_sep, p->n_item_sep);
        new_line(p, level + 1);
        value(p, l->v[i], level + 1);
    }
    if (!p->json && v.flag == JL_TUPLE && l->n == 1)
        put(p, ",", 1);
    if (l->n)
        new_line(p, level);
    put(p, open + 1, 1);
}

static void json_key(struct pr *p, const struct jval *k)
{
    char num[40];
    if (k->type == J_STR) {
        json_str(p, *k);
        return;
    }
    if (k->type == J_INT)
        snprintf(num, sizeof num, "%lld", (long long)k->u.i);
    else if (k->type == J_FLOAT)
        jval_float_text(k->u.f, num);
    else if (k->type == J_BOOL || k->type == J_NONE)
        snprintf(num, sizeof num, "%s",
                 k->type == J_NONE ? "null"
                 : k->u.b          ? "true"
                                   : "false");
    else {
        jr_fail(p->r, CAG_E_UNSUPPORTED, "tojson: %s as a key",
                jval_type_name(k));
        return;
    }
    put(p, "\"", 1);
    puts_(p, num);
    put(p, "\"", 1);
}

/* Order of keys, by insertion: small dictionaries, bounded by fuel. */
static const struct jpair **key_order(struct pr *p, const struct jdict *d)
{
    const struct jpair **o = jr_alloc(p->r, d->n + 1, sizeof *o);
    for (size_t i = 0; o && i < d->n; i++) {
        size_t j = i;
        for (; p->sort && j > 0 && jr_burn(p->r, 1) &&
               jval_cmp(p->r, &o[j - 1]->k, &d->p[i].k) > 0;
             j--)
            o[j] = o[j - 1];
        o[j] = &d->p[i];
    }
    return p->r->status == CAG_OK ? o : NULL;
}

static void dict(struct pr *p, const struct jdict *d, int level)
{
    const struct jpair **o = key_order(p, d);
    put(p, "{", 1);
    for (size_t i = 0; o && i < d->n && p->r->status == CAG_OK; i++) {
        if (i)
            put(p, p->item_sep, p->n_item_sep);
        new_line(p, level + 1);
        if (p->json) {
            p->input |= o[i]->k.type == J_STR && o[i]->k.flag != JS_TEMPLATE;
            json_key(p, &o[i]->k);
        } else {
            value(p, o[i]->k, level + 1);
        }
        put(p, p->key_sep, p->n_key_sep);
        value(p, o[i]->v, level + 1);
    }
    if (d->n)
        new_line(p, level);
    put(p, "}", 1);
}

static void value(struct pr *p, struct jval v, int level)
{
    char num[40];
    if (!jr_enter(p->r))
        return;
    switch (v.type) {
    case J_UNDEF:
        if (p->json)
            jr_fail(p->r, CAG_E_UNSUPPORTED, "tojson of an undefined value");
        else
            puts_(p, "Undefined");
        break;
    case J_NONE:
        puts_(p, p->json ? "null" : "None");
        break;
    case J_BOOL:
        puts_(p, p->json ? v.u.b ? "true" : "false" : v.u.b ? "True" : "False");
        break;
    case J_INT:
        snprintf(num, sizeof num, "%lld", (long long)v.u.i);
        puts_(p, num);
        break;
    case J_FLOAT:
        jval_float_text(v.u.f, num);
        puts_(p, !p->json || isfinite(v.u.f) ? num
                 : isnan(v.u.f)              ? "NaN"
                 : v.u.f > 0                 ? "Infinity"
                                             : "-Infinity");
        break;
    case J_STR:
        p->input |= v.flag != JS_TEMPLATE;
        if (p->json)
            json_str(p, v);
        else
            repr_str(p, v);
        break;
    case J_LIST:
        list(p, v, level);
        break;
    case J_DICT:
        dict(p, v.u.dict, level);
        break;
    case J_NS:
        if (!p->json) {
            puts_(p, "<Namespace ");
            dict(p, v.u.dict, level);
            puts_(p, ">");
            break;
        }
        /* fall through */
    default:
        jr_fail(p->r, CAG_E_UNSUPPORTED, "cannot print %s", jval_type_name(&v));
        break;
    }
    jr_leave(p->r);
}

static struct jval finish(struct pr *p)
{
    struct jval v = jval_static("");
    char *s = NULL;
    if (buf_failed(&p->b))
        jr_fail(p->r, CAG_E_NOMEM, "out of memory");
    else if (p->b.size && (s = jr_alloc(p->r, p->b.size, 1)) != NULL) {
        memcpy(s, p->b.data, p->b.size);
        v = jval_text(s, p->b.size, p->input ? JS_INPUT : JS_TEMPLATE);
    }
    buf_free(&p->b);
    return v;
}

struct jval jval_repr(struct jr *r, struct jval v)
{
    struct pr p = { .r = r,
                    .item_sep = ", ",
                    .key_sep = ": ",
                    .n_item_sep = 2,
                    .n_key_sep = 2 };
    value(&p, v, 0);
    return finish(&p);
}

struct jval jval_str(struct jr *r, struct jval v)
{
    if (v.type == J_STR)
        return v;
    if (v.type == J_UNDEF)
        return jval_static("");
    return jval_repr(r, v);
}

struct jval jval_json(struct jr *r, struct jval v, const struct jval *indent,
                      const struct jval *seps, bool ascii, bool sort)
{
    struct pr p = { .r = r,
                    .json = true,
                    .ascii = ascii,
                    .sort = sort,
                    .item_sep = ", ",
                    .key_sep = ": ",
                    .n_item_sep = 2,
                    .n_key_sep = 2 };
    if (indent && indent->type == J_STR) {
        p.indent = indent->u.s;
        p.n_indent = indent->n;
    } else if (indent && (indent->type == J_INT || indent->type == J_BOOL)) {
        int64_t n = indent->type == J_INT ? indent->u.i : indent->u.b;
        if (n > 1000)
            return jr_fail(r, CAG_E_LIMIT, "tojson: indent of %lld",
                           (long long)n);
        char *s = jr_alloc(r, n > 0 ? (size_t)n + 1 : 1, 1);
        if (!s)
            return jval_static("");
        if (n > 0)
            memset(s, ' ', (size_t)n);
        p.indent = s;
        p.n_indent = n > 0 ? (size_t)n : 0;
    }
    if (p.indent)
        p.n_item_sep = 1; /* json.dumps: "," when lines are broken */
    if (seps && seps->type == J_LIST && seps->u.list->n == 2 &&
        seps->u.list->v[0].type == J_STR && seps->u.list->v[1].type == J_STR) {
        p.item_sep = seps->u.list->v[0].u.s;
        p.n_item_sep = seps->u.list->v[0].n;
        p.key_sep = seps->u.list->v[1].u.s;
        p.n_key_sep = seps->u.list->v[1].n;
    } else if (seps && seps->type != J_NONE) {
        return jr_fail(r, CAG_E_UNSUPPORTED,
                       "tojson: separators must be two strings");
    }
    value(&p, v, 0);
    return finish(&p);
}
