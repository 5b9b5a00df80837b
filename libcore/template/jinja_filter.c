/*
 * jinja_filter.c - filters.
 *
 * Their argument names are jinja2's.  Filters of sequences that jinja2
 * returns as generators stay marked as such: a generator is true even when
 * empty and has no length, and templates that forget |list must behave here
 * as they do there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja_int.h"

#define FN(name)                                            \
    static struct jval name(struct jr *r, struct jval self, \
                            const struct jval *p, const struct jcall *c)

static bool flag(const struct jval *p, bool def)
{
    return jgiven(p) ? jval_truth(p) : def;
}

static struct jval type_error(struct jr *r, const char *what,
                              const struct jval *v)
{
    if (v->type == J_UNDEF)
        return jr_fail(r, CAG_E_UNSUPPORTED, "%s: '%.*s' is undefined", what,
                       (int)(v->n > 100 ? 100 : v->n), v->u.s ? v->u.s : "");
    return jr_fail(r, CAG_E_UNSUPPORTED, "%s: cannot take %s", what,
                   jval_type_name(v));
}

FN(f_abs)
{
    (void)p, (void)c;
    if (self.type == J_FLOAT)
        return jval_float(fabs(self.u.f));
    if (!jval_is_num(&self) || (self.type == J_INT && self.u.i == INT64_MIN))
        return type_error(r, "abs", &self);
    return jval_int(self.type == J_BOOL ? self.u.b : llabs(self.u.i));
}

FN(f_attr)
{
    (void)c;
    struct jval name = jval_str(r, p[0]);
    /* attributes only, no items: of JSON values that is their methods */
    if (self.type == J_DICT) {
        const struct jbuiltin *m =
            jbuiltin_find(jmethods_dict, name.u.s, name.n);
        return m && m->fn ? jr_getattr(r, self, name.u.s, name.n)
                          : jval_undef(name.u.s, name.n);
    }
    return jr_getattr(r, self, name.u.s, name.n);
}

FN(f_default)
{
    (void)c;
    struct jval def = jgiven(&p[0]) ? p[0] : jval_static("");
    (void)r;
    if (self.type == J_UNDEF || (flag(&p[1], false) && !jval_truth(&self)))
        return def;
    return self;
}

static struct jval pair(struct jr *r, struct jval k, struct jval v)
{
    struct jval t = jval_list(r, JL_TUPLE);
    if (r->status == CAG_OK && jlist_push(r, t.u.list, k))
        jlist_push(r, t.u.list, v);
    return t;
}

FN(f_items)
{
    (void)p, (void)c;
    struct jval l = jval_list(r, JL_GEN);
    if (self.type == J_UNDEF || r->status != CAG_OK)
        return l;
    if (self.type != J_DICT)
        return type_error(r, "items", &self);
    for (size_t i = 0; i < self.u.dict->n && r->status == CAG_OK; i++)
        jlist_push(r, l.u.list,
                   pair(r, self.u.dict->p[i].k, self.u.dict->p[i].v));
    return l;
}

FN(f_length)
{
    (void)p, (void)c;
    switch (self.type) {
    case J_UNDEF:
        return jval_int(0);
    case J_STR:
        return jval_int((int64_t)jstr_len(&self));
    case J_DICT:
        return jval_int((int64_t)self.u.dict->n);
    case J_LIST:
        if (self.flag != JL_GEN)
            return jval_int((int64_t)self.u.list->n);
        return jr_fail(r, CAG_E_UNSUPPORTED,
                       "length of an iterator; use |list before");
    case J_LOOP:
        return jval_int((int64_t)self.u.loop->items->n);
    default:
        return type_error(r, "length", &self);
    }
}

static struct jval copy_list(struct jr *r, struct jval v, int kind)
{
    struct jlist *src = jval_iter(r, v);
    struct jval l = jval_list(r, kind);
    for (size_t i = 0; src && r->status == CAG_OK && i < src->n; i++)
        jlist_push(r, l.u.list, src->v[i]);
    return l;
}

FN(f_list)
{
    (void)p, (void)c;
    return copy_list(r, self, JL_LIST);
}

FN(f_first)
{
    (void)p, (void)c;
    struct jlist *l = jval_iter(r, self);
    return l && l->n ? l->v[0] : jval_undef("first item of nothing", 21);
}

FN(f_last)
{
    (void)p, (void)c;
    struct jlist *l = jval_iter(r, self);
    return l && l->n ? l->v[l->n - 1] : jval_undef("last item of nothing", 20);
}

FN(f_reverse)
{
    (void)p, (void)c;
    if (self.type == J_STR) {
        int64_t n = (int64_t)jstr_len(&self);
        return jstr_slice(r, self, n - 1, -1, n);
    }
    struct jlist *src = jval_iter(r, self);
    struct jval l = jval_list(r, JL_GEN);
    for (size_t i = src && r->status == CAG_OK ? src->n : 0; i-- > 0;)
        jlist_push(r, l.u.list, src->v[i]);
    return l;
}

/* "a.b.0" of v, as jinja2's attribute arguments */
static struct jval by_path(struct jr *r, struct jval v, struct jval path)
{
    if (path.type == J_INT)
        return jr_getitem(r, v, path);
    if (path.type != J_STR)
        return type_error(r, "attribute", &path);
    for (size_t i = 0; i <= path.n && r->status == CAG_OK;) {
        const char *dot =
            i < path.n ? memchr(path.u.s + i, '.', path.n - i) : NULL;
        size_t n = (dot ? (size_t)(dot - path.u.s) : path.n) - i;
        int64_t num = 0;
        size_t k = 0;
        while (k < n && k < 9 && path.u.s[i + k] >= '0' &&
               path.u.s[i + k] <= '9')
            num = num * 10 + path.u.s[i + k++] - '0';
        v = jr_getitem(r, v,
                       n && k == n ? jval_int(num)
                                   : jval_text(path.u.s + i, n, JS_TEMPLATE));
        i += n + 1;
    }
    return v;
}

FN(f_join)
{
    (void)c;
    struct jlist *l = jval_iter(r, self);
    struct jval sep = jgiven(&p[0]) ? jval_str(r, p[0]) : jval_static("");
    struct jout o;
    jout_init(&o);
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++) {
        struct jval v = l->v[i];
        if (jgiven(&p[1]))
            v = by_path(r, v, p[1]);
        if (i)
            jout_add(r, &o, sep);
        if (r->status == CAG_OK)
            jout_add(r, &o, jval_str(r, v));
    }
    return jout_take(r, &o);
}

FN(f_string)
{
    (void)p, (void)c;
    return jval_str(r, self);
}

FN(f_trim)
{
    (void)c;
    struct jval s = jval_str(r, self);
    if (jgiven(&p[0]) && p[0].type != J_NONE && p[0].type != J_STR)
        return type_error(r, "trim", &p[0]);
    return jstr_strip(r, s, p[0].type == J_STR ? &p[0] : NULL, true, true);
}

FN(f_replace)
{
    (void)c;
    int64_t n = p[2].type == J_INT ? p[2].u.i : -1;
    return jstr_replace(r, jval_str(r, self), jval_str(r, p[0]),
                        jval_str(r, p[1]), n);
}

/* Lines of s with their ends; jinja2 indents with str.splitlines */
FN(f_indent)
{
    (void)c;
    struct jval s = jval_str(r, self), pad = p[0];
    struct jout o;
    bool first = flag(&p[1], false), blank = flag(&p[2], false);
    if (!jgiven(&pad))
        pad = jval_int(4);
    if (pad.type == J_INT) {
        if (pad.u.i > 10000)
            return jr_fail(r, CAG_E_LIMIT, "indent of %lld",
                           (long long)pad.u.i);
        struct jval one = jval_static(" ");
        pad = jr_binary(r, '*', one, pad);
    }
    if (pad.type != J_STR)
        return type_error(r, "indent", &pad);
    jout_init(&o);
    for (size_t i = 0; i < s.n && r->status == CAG_OK;) {
        const char *nl = memchr(s.u.s + i, '\n', s.n - i);
        size_t n = nl ? (size_t)(nl - s.u.s) - i : s.n - i;
        if ((i > 0 || first) && (n > 0 || blank))
            jout_add(r, &o, pad);
        jout_add(r, &o, jstr_sub(r, s, i, n + (nl != NULL)));
        i += n + (nl != NULL);
    }
    return jout_take(r, &o);
}

FN(f_int)
{
    (void)c;
    struct jval def = jgiven(&p[0]) ? p[0] : jval_int(0);
    int64_t base = p[1].type == J_INT ? p[1].u.i : 10;
    if (self.type == J_INT || self.type == J_BOOL)
        return jval_int(self.type == J_INT ? self.u.i : self.u.b);
    if (self.type == J_FLOAT)
        return fabs(self.u.f) < 9e18 ? jval_int((int64_t)self.u.f) : def;
    if (self.type != J_STR || base < 2 || base > 36)
        return def;
    char t[70], *end;
    struct jval s = jstr_strip(r, self, NULL, true, true);
    if (s.n == 0 || s.n >= sizeof t)
        return def;
    memcpy(t, s.u.s, s.n);
    t[s.n] = 0;
    long long v = strtoll(t, &end, (int)base);
    if (*end == 0 && v > INT64_MIN && v < INT64_MAX)
        return jval_int(v);
    double f = strtod(t, &end);
    return *end == 0 && base == 10 && fabs(f) < 9e18 ? jval_int((int64_t)f)
                                                     : def;
}

FN(f_float)
{
    (void)c;
    char t[70], *end;
    struct jval def = jgiven(&p[0]) ? p[0] : jval_float(0);
    if (jval_is_num(&self))
        return jval_float(jval_num(&self));
    if (self.type != J_STR)
        return def;
    struct jval s = jstr_strip(r, self, NULL, true, true);
    if (s.n == 0 || s.n >= sizeof t)
        return def;
    memcpy(t, s.u.s, s.n);
    t[s.n] = 0;
    double f = strtod(t, &end);
    return *end == 0 ? jval_float(f) : def;
}

FN(f_round)
{
    (void)c;
    int64_t digits = p[0].type == J_INT ? p[0].u.i : 0;
    if (!jval_is_num(&self))
        return type_error(r, "round", &self);
    if (digits < -15 || digits > 15)
        return jr_fail(r, CAG_E_UNSUPPORTED, "round to %lld digits",
                       (long long)digits);
    double x = jval_num(&self), m = 1;
    for (int64_t i = 0; i < llabs(digits); i++)
        m *= 10;
    x = digits < 0 ? x / m : x * m;
    if (!jgiven(&p[1]) || jval_is(&p[1], "common"))
        x = nearbyint(x); /* half to even, as Python's round() */
    else if (jval_is(&p[1], "ceil"))
        x = ceil(x);
    else if (jval_is(&p[1], "floor"))
        x = floor(x);
    else
        return type_error(r, "round", &p[1]);
    return jval_float(digits < 0 ? x * m : x / m);
}

FN(f_tojson)
{
    (void)c;
    return jval_json(r, self, jgiven(&p[1]) ? &p[1] : NULL,
                     jgiven(&p[2]) ? &p[2] : NULL, flag(&p[0], false),
                     flag(&p[3], false));
}

FN(f_escape)
{
    (void)p, (void)c;
    static const char *const map[][2] = {
        { "&", "&amp;" }, { ">", "&gt;" },   { "<", "&lt;" },
        { "'", "&#39;" }, { "\"", "&#34;" },
    };
    struct jval s = jval_str(r, self);
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        s = jstr_replace(r, s, jval_static(map[i][0]), jval_static(map[i][1]),
                         -1);
    return s;
}

/* str methods that are filters too: the method does it */
static struct jval by_method(struct jr *r, struct jval self, const char *name,
                             const struct jcall *c)
{
    struct jval s = jval_str(r, self);
    return jr_builtin(r, jbuiltin_find(jmethods_str, name, strlen(name)), s, c);
}
FN(f_upper)
{
    (void)p;
    return by_method(r, self, "upper", c);
}
FN(f_lower)
{
    (void)p;
    return by_method(r, self, "lower", c);
}
FN(f_title)
{
    (void)p, (void)c;
    return jstr_headline(r, jval_str(r, self));
}
FN(f_capitalize)
{
    (void)p;
    return by_method(r, self, "capitalize", c);
}

FN(f_format)
{
    (void)p;
    struct jval args = jval_list(r, JL_TUPLE);
    if (c->n_kw)
        return jr_fail(r, CAG_E_UNSUPPORTED, "format: named arguments");
    for (size_t i = 0; i < c->n_pos && r->status == CAG_OK; i++)
        jlist_push(r, args.u.list, c->pos[i]);
    return jstr_format(r, jval_str(r, self), args);
}

/* -------------------------------------------------- order, selection, sums */

/* jinja2 compares strings in lower case unless told otherwise. */
static struct jval sort_key(struct jr *r, struct jval v, bool cased)
{
    static const struct jcall none = { 0 };
    return v.type == J_STR && !cased ? by_method(r, v, "lower", &none) : v;
}

/* Stable merge sort of items by their keys. */
static void sort_pairs(struct jr *r, struct jpair *v, struct jpair *tmp,
                       size_t n, bool reverse)
{
    size_t m = n / 2, i = 0, j = m, k = 0;
    if (n < 2 || r->status != CAG_OK)
        return;
    sort_pairs(r, v, tmp, m, reverse);
    sort_pairs(r, v + m, tmp, n - m, reverse);
    if (!jr_burn(r, n))
        return;
    while (i < m && j < n && r->status == CAG_OK) {
        int o = jval_cmp(r, &v[i].k, &v[j].k);
        tmp[k++] = (reverse ? o >= 0 : o <= 0) ? v[i++] : v[j++];
    }
    while (i < m)
        tmp[k++] = v[i++];
    while (j < n)
        tmp[k++] = v[j++];
    memcpy(v, tmp, n * sizeof *v);
}

static struct jval sorted(struct jr *r, struct jval v,
                          const struct jval *attribute, bool cased,
                          bool reverse, const struct jval *index)
{
    struct jlist *l = jval_iter(r, v);
    struct jval out = jval_list(r, JL_LIST);
    size_t n = l ? l->n : 0;
    struct jpair *a = jr_alloc(r, n + 1, sizeof *a);
    struct jpair *tmp = jr_alloc(r, n + 1, sizeof *tmp);
    for (size_t i = 0; i < n && r->status == CAG_OK; i++) {
        struct jval k = l->v[i];
        if (attribute)
            k = by_path(r, k, *attribute);
        if (index)
            k = jr_getitem(r, k, *index);
        a[i] = (struct jpair){ sort_key(r, k, cased), l->v[i] };
    }
    if (r->status == CAG_OK)
        sort_pairs(r, a, tmp, n, reverse);
    for (size_t i = 0; i < n && r->status == CAG_OK; i++)
        jlist_push(r, out.u.list, a[i].v);
    return out;
}

FN(f_sort)
{
    (void)c;
    return sorted(r, self, jgiven(&p[2]) && p[2].type != J_NONE ? &p[2] : NULL,
                  flag(&p[1], false), flag(&p[0], false), NULL);
}

FN(f_dictsort)
{
    struct jval which = jval_int(0);
    if (jgiven(&p[1]) && jval_is(&p[1], "value"))
        which = jval_int(1);
    if (self.type != J_DICT)
        return type_error(r, "dictsort", &self);
    return sorted(r, f_items(r, self, p, c), NULL, flag(&p[0], false),
                  flag(&p[2], false), &which);
}

static struct jval extreme(struct jr *r, struct jval self, const struct jval *p,
                           int sign)
{
    struct jlist *l = jval_iter(r, self);
    struct jval best = jval_undef("item of an empty sequence", 25), key = best;
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++) {
        struct jval k = l->v[i];
        if (jgiven(&p[1]) && p[1].type != J_NONE)
            k = by_path(r, k, p[1]);
        k = sort_key(r, k, flag(&p[0], false));
        if (i == 0 || sign * jval_cmp(r, &k, &key) > 0) {
            best = l->v[i];
            key = k;
        }
    }
    return best;
}

FN(f_min)
{
    (void)c;
    return extreme(r, self, p, -1);
}
FN(f_max)
{
    (void)c;
    return extreme(r, self, p, 1);
}

FN(f_sum)
{
    (void)c;
    struct jlist *l = jval_iter(r, self);
    struct jval v = jgiven(&p[1]) ? p[1] : jval_int(0);
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++)
        v = jr_binary(r, '+', v,
                      jgiven(&p[0]) && p[0].type != J_NONE
                          ? by_path(r, l->v[i], p[0])
                          : l->v[i]);
    return v;
}

FN(f_unique)
{
    (void)c;
    struct jlist *l = jval_iter(r, self);
    struct jval out = jval_list(r, JL_GEN), seen = jval_dict(r);
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++) {
        struct jval k = l->v[i];
        if (jgiven(&p[1]) && p[1].type != J_NONE)
            k = by_path(r, k, p[1]);
        k = sort_key(r, k, flag(&p[0], false));
        if (!jval_hashable(r, &k) || jdict_get(r, seen.u.dict, k))
            continue;
        jdict_set(r, seen.u.dict, k, jval_none());
        jlist_push(r, out.u.list, l->v[i]);
    }
    return out;
}

/* map, select and relatives take anything false as empty, none too */
static struct jlist *some(struct jr *r, struct jval v)
{
    return jval_truth(&v) ? jval_iter(r, v) : NULL;
}

/* map(filter, ...) or map(attribute=..., default=...) */
FN(f_map)
{
    (void)p;
    struct jlist *l = some(r, self);
    struct jval out = jval_list(r, JL_GEN);
    const struct jval *attr = NULL, *def = NULL;
    struct jcall rest = *c;
    for (size_t k = 0; k < c->n_kw && c->n_pos == 0; k++) {
        if (jval_is(&c->kw[k].k, "attribute"))
            attr = &c->kw[k].v;
        else if (jval_is(&c->kw[k].k, "default"))
            def = &c->kw[k].v;
    }
    if (!attr && (c->n_pos == 0 || c->pos[0].type != J_STR))
        return jr_fail(r, CAG_E_UNSUPPORTED,
                       "map: needs a filter's name or attribute=");
    if (!attr) {
        rest.pos++;
        rest.n_pos--;
    }
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++) {
        struct jval v = l->v[i];
        if (attr) {
            v = by_path(r, v, *attr);
            if (v.type == J_UNDEF && def)
                v = *def;
        } else {
            v = jr_filter(r, c->pos[0].u.s, c->pos[0].n, v, &rest);
        }
        jlist_push(r, out.u.list, v);
    }
    return out;
}

/* select, reject, selectattr, rejectattr */
static struct jval select_(struct jr *r, struct jval self,
                           const struct jcall *c, bool want, bool attr)
{
    struct jlist *l = some(r, self);
    struct jval out = jval_list(r, JL_GEN);
    size_t a = attr ? 1 : 0;
    struct jcall rest = *c;
    if (c->n_pos < a)
        return jr_fail(r, CAG_E_UNSUPPORTED, "selectattr: needs an attribute");
    if (c->n_pos > a && c->pos[a].type != J_STR)
        return type_error(r, "name of a test", &c->pos[a]);
    if (c->n_pos > a) {
        rest.pos = c->pos + a + 1;
        rest.n_pos = c->n_pos - a - 1;
    }
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++) {
        struct jval v = l->v[i];
        if (attr)
            v = by_path(r, v, c->pos[0]);
        bool yes = c->n_pos > a
                       ? jr_test(r, c->pos[a].u.s, c->pos[a].n, v, &rest)
                       : jval_truth(&v);
        if (yes == want)
            jlist_push(r, out.u.list, l->v[i]);
    }
    return out;
}

FN(f_select)
{
    (void)p;
    return select_(r, self, c, true, false);
}
FN(f_reject)
{
    (void)p;
    return select_(r, self, c, false, false);
}
FN(f_selectattr)
{
    (void)p;
    return select_(r, self, c, true, true);
}
FN(f_rejectattr)
{
    (void)p;
    return select_(r, self, c, false, true);
}

const struct jbuiltin jfilters[] = {
    { "abs", f_abs, "" },
    { "attr", f_attr, "!name" },
    { "capitalize", f_capitalize, "*" },
    { "count", f_length, "" },
    { "d", f_default, "default_value,boolean" },
    { "default", f_default, "default_value,boolean" },
    { "dictsort", f_dictsort, "case_sensitive,by,reverse" },
    { "e", f_escape, "" },
    { "escape", f_escape, "" },
    { "first", f_first, "" },
    { "float", f_float, "default" },
    { "format", f_format, "*" },
    { "indent", f_indent, "width,first,blank" },
    { "int", f_int, "default,base" },
    { "items", f_items, "" },
    { "join", f_join, "d,attribute" },
    { "last", f_last, "" },
    { "length", f_length, "" },
    { "list", f_list, "" },
    { "lower", f_lower, "*" },
    { "map", f_map, "*" },
    { "max", f_max, "case_sensitive,attribute" },
    { "min", f_min, "case_sensitive,attribute" },
    { "reject", f_reject, "*" },
    { "rejectattr", f_rejectattr, "*" },
    { "replace", f_replace, "!old,!new,count" },
    { "reverse", f_reverse, "" },
    { "round", f_round, "precision,method" },
    { "safe", f_string, "" },
    { "select", f_select, "*" },
    { "selectattr", f_selectattr, "*" },
    { "sort", f_sort, "reverse,case_sensitive,attribute" },
    { "string", f_string, "" },
    { "sum", f_sum, "attribute,start" },
    { "title", f_title, "" },
    { "tojson", f_tojson, "ensure_ascii,indent,separators,sort_keys" },
    { "trim", f_trim, "chars" },
    { "unique", f_unique, "case_sensitive,attribute" },
    { "upper", f_upper, "*" },
    { NULL, NULL, NULL },
};

struct jval jr_filter(struct jr *r, const char *name, size_t n,
                      struct jval self, const struct jcall *c)
{
    const struct jbuiltin *f = jbuiltin_find(jfilters, name, n);
    struct jval v = self;
    if (r->status != CAG_OK)
        return v;
    if (!f)
        return jr_fail(r, CAG_E_UNSUPPORTED, "filter '%.*s' is not supported",
                       (int)(n > 60 ? 60 : n), name);
    if (jr_enter(r)) {
        /* a loop object is no self for the binder's loop methods */
        v = self.type == J_LOOP && f->fn != f_length
                ? type_error(r, f->name, &self)
            : self.type == J_LOOP ? f_length(r, self, NULL, c)
                                  : jr_builtin(r, f, self, c);
        jr_leave(r);
    }
    return v;
}
