/*
 * jinja_format.c - the two ways Python formats strings: "%s" % x, numbers
 * with width and precision, and "{}".format(x), plain fields only.
 *
 * Each part keeps its provenance (struct jout), so what a message says stays
 * told apart from what the template says.
 */
#include <stdio.h>
#include <string.h>

#include "template/jinja_int.h"

struct jval jstr_format(struct jr *r, struct jval fmt, struct jval args)
{
    bool many = args.type == J_LIST && args.flag == JL_TUPLE;
    size_t used = 0, n = many ? args.u.list->n : 1;
    struct jout o;
    jout_init(&o);
    for (size_t i = 0; i < fmt.n && r->status == CAG_OK;) {
        const char *q = memchr(fmt.u.s + i, '%', fmt.n - i);
        size_t k = q ? (size_t)(q - fmt.u.s) - i : fmt.n - i;
        jout_add(r, &o, jstr_sub(r, fmt, i, k));
        i += k;
        if (!q)
            break;
        char spec[24] = "%";
        size_t m = 1;
        for (i++; i < fmt.n && strchr("0123456789.-+ #", fmt.u.s[i]) &&
                  fmt.u.s[i] && m < 5;
             i++)
            spec[m++] = fmt.u.s[i];
        char kind = i < fmt.n ? fmt.u.s[i++] : 0;
        if (kind == '%') {
            jout_raw(r, &o, "%", 1);
            continue;
        }
        if (used >= n) {
            jr_fail(r, CAG_E_UNSUPPORTED, "not enough values for a format");
            break;
        }
        struct jval v = many ? args.u.list->v[used] : args;
        char text[1400] = "";
        used++;
        if (kind == 's' && m == 1) {
            jout_add(r, &o, jval_str(r, v));
        } else if (kind == 'r' && m == 1) {
            jout_add(r, &o, jval_repr(r, v));
        } else if (kind && strchr("dixX", kind) && jval_is_num(&v) &&
                   (v.type != J_FLOAT || (v.u.f > -9e18 && v.u.f < 9e18))) {
            long long d = v.type == J_FLOAT  ? (long long)v.u.f
                          : v.type == J_BOOL ? v.u.b
                                             : (long long)v.u.i;
            memcpy(spec + m, "ll", 2);
            spec[m + 2] = kind;
            spec[m + 3] = 0;
            if (d < 0 && (kind | 32) == 'x')
                jr_fail(r, CAG_E_UNSUPPORTED, "%%x of a negative number");
            else
                snprintf(text, sizeof text, spec, d);
        } else if (kind && strchr("feEgG", kind) && jval_is_num(&v)) {
            spec[m] = kind;
            spec[m + 1] = 0;
            snprintf(text, sizeof text, spec, jval_num(&v));
        } else {
            jr_fail(r, CAG_E_UNSUPPORTED, "format %%%c of %s not supported",
                    kind >= ' ' && kind < 127 ? kind : '?', jval_type_name(&v));
        }
        jout_raw(r, &o, text, strlen(text));
    }
    if (used < n && many)
        jr_fail(r, CAG_E_UNSUPPORTED, "too many values for a format");
    return jout_take(r, &o);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The value a "{...}" field names: "", a number or a keyword. */
static struct jval field(struct jr *r, const struct jcall *c, const char *s,
                         size_t n, size_t *next)
{
    struct jval key = jval_text(s, n, JS_TEMPLATE);
    size_t i = 0;
    if (n == 0)
        i = (*next)++;
    else if (is_digit(s[0]) && n < 4)
        for (size_t k = 0; k < n; k++) {
            if (!is_digit(s[k]))
                return jr_fail(r, CAG_E_UNSUPPORTED, "format field");
            i = i * 10 + (size_t)(s[k] - '0');
        }
    else {
        for (size_t k = 0; k < c->n_kw; k++)
            if (jval_eq(r, &c->kw[k].k, &key))
                return c->kw[k].v;
        return jr_fail(r, CAG_E_UNSUPPORTED, "format: no field '%.*s'",
                       (int)(n > 60 ? 60 : n), s);
    }
    if (i >= c->n_pos)
        return jr_fail(r, CAG_E_UNSUPPORTED, "format: not enough values");
    return c->pos[i];
}

struct jval jstr_format_fields(struct jr *r, struct jval self,
                               const struct jcall *c)
{
    struct jout o;
    size_t next = 0;
    jout_init(&o);
    for (size_t i = 0; i < self.n && r->status == CAG_OK;) {
        char ch = self.u.s[i];
        if ((ch == '{' || ch == '}') && i + 1 < self.n &&
            self.u.s[i + 1] == ch) {
            jout_add(r, &o, jstr_sub(r, self, i, 1));
            i += 2;
        } else if (ch == '{') {
            const char *e = memchr(self.u.s + i, '}', self.n - i);
            size_t n = e ? (size_t)(e - self.u.s) - i - 1 : 0;
            if (!e || memchr(self.u.s + i, ':', n + 1) ||
                memchr(self.u.s + i, '!', n + 1)) {
                jr_fail(r, CAG_E_UNSUPPORTED,
                        "format: only plain {} fields are supported");
                break;
            }
            struct jval v = field(r, c, self.u.s + i + 1, n, &next);
            if (r->status == CAG_OK)
                jout_add(r, &o, jval_str(r, v));
            i += n + 2;
        } else if (ch == '}') {
            jr_fail(r, CAG_E_UNSUPPORTED, "format: single '}'");
        } else {
            size_t k = i;
            while (k < self.n && self.u.s[k] != '{' && self.u.s[k] != '}')
                k++;
            jout_add(r, &o, jstr_sub(r, self, i, k - i));
            i = k;
        }
    }
    return jout_take(r, &o);
}
