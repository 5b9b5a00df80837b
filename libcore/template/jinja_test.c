/*
 * jinja_test.c - tests ("x is name") and global functions.
 */
#include <string.h>
#include <time.h>

#include "template/jinja_int.h"

#define FN(name)                                            \
    static struct jval name(struct jr *r, struct jval self, \
                            const struct jval *p, const struct jcall *c)
/* a test of one value: an expression in v */
#define TEST(name, expr)            \
    FN(name)                        \
    {                               \
        const struct jval v = self; \
        (void)r, (void)p, (void)c;  \
        return jval_bool(expr);     \
    }

static int64_t as_int(const struct jval *v)
{
    return v->type == J_BOOL ? v->u.b : v->u.i;
}

TEST(t_defined, v.type != J_UNDEF)
TEST(t_undefined, v.type == J_UNDEF)
TEST(t_none, v.type == J_NONE)
TEST(t_string, v.type == J_STR)
TEST(t_mapping, v.type == J_DICT)
TEST(t_boolean, v.type == J_BOOL)
TEST(t_true, v.type == J_BOOL && v.u.b)
TEST(t_false, v.type == J_BOOL && !v.u.b)
TEST(t_integer, v.type == J_INT)
TEST(t_float, v.type == J_FLOAT)
TEST(t_number, jval_is_num(&v))
TEST(t_iterable, v.type == J_STR || v.type == J_LIST || v.type == J_DICT ||
                     v.type == J_UNDEF || v.type == J_LOOP)
TEST(t_sequence, v.type == J_STR || v.type == J_DICT || v.type == J_UNDEF ||
                     (v.type == J_LIST && v.flag <= JL_TUPLE))
TEST(t_callable, v.type == J_FUNC || v.type == J_MACRO || v.type == J_UNDEF)
TEST(t_escaped, false && v.type)
TEST(t_eq, jval_eq(r, &v, &p[0]))
TEST(t_ne, !jval_eq(r, &v, &p[0]))
TEST(t_lt, jval_cmp(r, &v, &p[0]) < 0)
TEST(t_le, jval_cmp(r, &v, &p[0]) <= 0)
TEST(t_gt, jval_cmp(r, &v, &p[0]) > 0)
TEST(t_ge, jval_cmp(r, &v, &p[0]) >= 0)
TEST(t_in, jr_contains(r, &v, &p[0]))
TEST(t_filter, v.type == J_STR && jbuiltin_find(jfilters, v.u.s, v.n) != NULL)
TEST(t_test, v.type == J_STR && jbuiltin_find(jtests, v.u.s, v.n) != NULL)

/* identity; of equal scalars it is what a template can mean */
TEST(t_sameas, v.type == p[0].type &&
                   (v.type == J_FLOAT || jval_is_num(&v) || v.type == J_STR ||
                    v.type == J_NONE || v.u.list == p[0].u.list) &&
                   jval_eq(r, &v, &p[0]))

static struct jval parity(struct jr *r, const struct jval *v, int64_t by,
                          int64_t want)
{
    if (v->type != J_INT && v->type != J_BOOL)
        return jr_fail(r, CAG_E_UNSUPPORTED, "cannot divide %s",
                       jval_type_name(v));
    int64_t m = by == -1 ? 0 : as_int(v) % by;
    return jval_bool((m < 0 ? -m : m) == want);
}
FN(t_even)
{
    (void)p, (void)c;
    return parity(r, &self, 2, 0);
}
FN(t_odd)
{
    (void)p, (void)c;
    return parity(r, &self, 2, 1);
}
FN(t_divisibleby)
{
    (void)c;
    if ((p[0].type != J_INT && p[0].type != J_BOOL) || as_int(&p[0]) == 0)
        return jr_fail(r, CAG_E_UNSUPPORTED, "divisibleby: bad divisor");
    return parity(r, &self, as_int(&p[0]), 0);
}

static bool cased(struct jr *r, struct jval v, const char *method)
{
    static const struct jcall none = { 0 };
    struct jval s = jval_str(r, v);
    struct jval x = jr_builtin(
        r, jbuiltin_find(jmethods_str, method, strlen(method)), s, &none);
    return x.type == J_BOOL && x.u.b;
}
FN(t_lower)
{
    (void)p, (void)c;
    return jval_bool(cased(r, self, "islower"));
}
FN(t_upper)
{
    (void)p, (void)c;
    return jval_bool(cased(r, self, "isupper"));
}

const struct jbuiltin jtests[] = {
    { "!=", t_ne, "!other" },
    { "<", t_lt, "!other" },
    { "<=", t_le, "!other" },
    { "==", t_eq, "!other" },
    { ">", t_gt, "!other" },
    { ">=", t_ge, "!other" },
    { "boolean", t_boolean, "" },
    { "callable", t_callable, "" },
    { "defined", t_defined, "" },
    { "divisibleby", t_divisibleby, "!num" },
    { "eq", t_eq, "!other" },
    { "equalto", t_eq, "!other" },
    { "escaped", t_escaped, "" },
    { "even", t_even, "" },
    { "false", t_false, "" },
    { "filter", t_filter, "" },
    { "float", t_float, "" },
    { "ge", t_ge, "!other" },
    { "greaterthan", t_gt, "!other" },
    { "gt", t_gt, "!other" },
    { "in", t_in, "!seq" },
    { "integer", t_integer, "" },
    { "iterable", t_iterable, "" },
    { "le", t_le, "!other" },
    { "lessthan", t_lt, "!other" },
    { "lower", t_lower, "" },
    { "lt", t_lt, "!other" },
    { "mapping", t_mapping, "" },
    { "ne", t_ne, "!other" },
    { "none", t_none, "" },
    { "number", t_number, "" },
    { "odd", t_odd, "" },
    { "sameas", t_sameas, "!other" },
    { "sequence", t_sequence, "" },
    { "string", t_string, "" },
    { "test", t_test, "" },
    { "true", t_true, "" },
    { "undefined", t_undefined, "" },
    { "upper", t_upper, "" },
    { NULL, NULL, NULL },
};

bool jr_test(struct jr *r, const char *name, size_t n, struct jval self,
             const struct jcall *c)
{
    const struct jbuiltin *t = jbuiltin_find(jtests, name, n);
    struct jval v = jval_bool(false);
    if (r->status != CAG_OK)
        return false;
    if (!t) {
        jr_fail(r, CAG_E_UNSUPPORTED, "test '%.*s' is not supported",
                (int)(n > 60 ? 60 : n), name);
        return false;
    }
    if (self.type == J_LOOP) /* its own binder knows only its methods */
        return t->params[0] == 0 && jval_truth(&self) &&
               (t->fn == t_defined || t->fn == t_iterable);
    if (jr_enter(r)) {
        v = jr_builtin(r, t, self, c);
        jr_leave(r);
    }
    return v.type == J_BOOL && v.u.b;
}

/* ----------------------------------------------------------------- globals */

FN(g_range)
{
    (void)self, (void)p;
    int64_t a[3] = { 0, 0, 1 };
    if (c->n_kw || c->n_pos < 1 || c->n_pos > 3)
        return jr_fail(r, CAG_E_UNSUPPORTED, "range: one to three integers");
    for (size_t i = 0; i < c->n_pos; i++) {
        if (c->pos[i].type != J_INT && c->pos[i].type != J_BOOL)
            return jr_fail(r, CAG_E_UNSUPPORTED, "range: cannot take %s",
                           jval_type_name(&c->pos[i]));
        a[c->n_pos == 1 ? 1 : i] = as_int(&c->pos[i]);
    }
    if (a[2] == 0)
        return jr_fail(r, CAG_E_UNSUPPORTED, "range: a step of zero");
    struct jval l = jval_list(r, JL_LIST);
    for (int64_t i = a[0];
         r->status == CAG_OK && (a[2] > 0 ? i < a[1] : i > a[1]);) {
        if (l.u.list->n >= JINJA_MAX_RANGE)
            return jr_fail(r, CAG_E_LIMIT, "range: more than %d numbers",
                           JINJA_MAX_RANGE);
        jlist_push(r, l.u.list, jval_int(i));
        if (__builtin_add_overflow(i, a[2], &i))
            break;
    }
    return l;
}

static struct jval named(struct jr *r, const struct jcall *c, bool ns)
{
    struct jval d = jval_dict(r);
    if (c->n_pos > 1 || (c->n_pos == 1 && c->pos[0].type != J_DICT))
        return jr_fail(r, CAG_E_UNSUPPORTED, "%s: expected name=value",
                       ns ? "namespace" : "dict");
    for (size_t i = 0;
         c->n_pos && i < c->pos[0].u.dict->n && r->status == CAG_OK; i++)
        jdict_set(r, d.u.dict, c->pos[0].u.dict->p[i].k,
                  c->pos[0].u.dict->p[i].v);
    for (size_t i = 0; i < c->n_kw && r->status == CAG_OK; i++)
        jdict_set(r, d.u.dict, c->kw[i].k, c->kw[i].v);
    for (size_t i = 0; ns && r->status == CAG_OK && i < d.u.dict->n; i++)
        if (d.u.dict->p[i].k.type == J_STR && d.u.dict->p[i].k.n &&
            d.u.dict->p[i].k.u.s[0] == '_')
            return jr_fail(r, CAG_E_UNSUPPORTED,
                           "namespace: an attribute begins with _");
    if (ns && r->status == CAG_OK)
        d.type = J_NS;
    return d;
}
FN(g_namespace)
{
    (void)self, (void)p;
    return named(r, c, true);
}
FN(g_dict)
{
    (void)self, (void)p;
    return named(r, c, false);
}

FN(g_raise)
{
    (void)self, (void)c;
    struct jval s = jval_str(r, p[0]);
    char msg[400];
    size_t n = s.n < sizeof msg - 1 ? s.n : sizeof msg - 1;
    if (r->status != CAG_OK)
        return s;
    for (size_t i = 0; i < n; i++) /* a message is one line */
        msg[i] = s.u.s[i];
    msg[n] = 0;
    for (char *q = msg; *q; q++)
        if ((unsigned char)*q < ' ')
            *q = ' ';
    return jr_fail(r, CAG_E_MISMATCH, "the template says: %s", msg);
}

/* The frozen date, in UTC; %Z and %z are empty as for a naive datetime. */
FN(g_strftime)
{
    (void)self, (void)c;
    struct jval f = p[0];
    struct tm tm;
    time_t t = (time_t)r->now_s;
    struct buf b = BUF_INIT;
    struct jval v = jval_static("");
    if (f.type != J_STR || f.n > 500 || !gmtime_r(&t, &tm))
        return jr_fail(r, CAG_E_UNSUPPORTED, "strftime_now: bad format");
    for (size_t i = 0; i < f.n && r->status == CAG_OK; i++) {
        char spec[4] = { '%', 0, 0, 0 }, text[128];
        if (f.u.s[i] != '%' || i + 1 >= f.n) {
            buf_char(&b, f.u.s[i]);
            continue;
        }
        spec[1] = f.u.s[++i];
        if (spec[1] == '-' && i + 1 < f.n)
            spec[2] = f.u.s[++i];
        char last = spec[2] ? spec[2] : spec[1];
        if (!strchr("aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyYzZ%", last))
            jr_fail(r, CAG_E_UNSUPPORTED, "strftime_now: '%s' not supported",
                    spec);
        else if (last != 'z' && last != 'Z')
            buf_add(&b, text, strftime(text, sizeof text, spec, &tm));
    }
    char *s = b.size && r->status == CAG_OK ? jr_alloc(r, b.size, 1) : NULL;
    if (buf_failed(&b))
        jr_fail(r, CAG_E_NOMEM, "out of memory");
    else if (s) {
        memcpy(s, b.data, b.size);
        v = jval_text(s, b.size,
                      f.flag == JS_TEMPLATE ? JS_TEMPLATE : JS_INPUT);
    }
    buf_free(&b);
    return v;
}

const struct jbuiltin jglobals[] = {
    { "dict", g_dict, "*" },
    { "namespace", g_namespace, "*" },
    { "raise_exception", g_raise, "!message" },
    { "range", g_range, "*" },
    { "strftime_now", g_strftime, "!format" },
    { NULL, NULL, NULL },
};
