/*
 * jinja_ops.c - operators, attributes, items, slices and calls.
 *
 * x.name looks for a method first and an item second, x["name"] the other
 * way round, as jinja2 does; what is missing is an undefined value, and
 * only using that (an attribute of it, a sum, a call) is an error.  Methods
 * that change a list or dictionary do not exist: transformers' sandbox
 * refuses them.
 */
#include <math.h>
#include <string.h>

#include "template/jinja_int.h"

static struct jval undef_error(struct jr *r, const struct jval *v)
{
    return jr_fail(r, CAG_E_UNSUPPORTED, "'%.*s' is undefined",
                   v->u.s && v->n ? (int)(v->n > 100 ? 100 : v->n) : 5,
                   v->u.s && v->n ? v->u.s : "value");
}

static struct jval bad_operands(struct jr *r, const char *op,
                                const struct jval *a, const struct jval *b)
{
    if (a->type == J_UNDEF)
        return undef_error(r, a);
    if (b->type == J_UNDEF)
        return undef_error(r, b);
    return jr_fail(r, CAG_E_UNSUPPORTED, "cannot compute %s %s %s",
                   jval_type_name(a), op, jval_type_name(b));
}

static int64_t as_int(const struct jval *v)
{
    return v->type == J_BOOL ? v->u.b : v->u.i;
}

static struct jval overflow(struct jr *r)
{
    return jr_fail(r, CAG_E_LIMIT, "an integer above 2^63");
}

static struct jval int_pow(struct jr *r, int64_t a, int64_t b)
{
    int64_t v = 1;
    for (; b > 0; b--) {
        if (v == 0 || v == 1 || (v == -1 && b > 2)) {
            if (a == 0 || a == 1)
                return jval_int(a);
            if (a == -1)
                return jval_int(b % 2 ? -v : v);
        }
        if (__builtin_mul_overflow(v, a, &v))
            return overflow(r);
    }
    return jval_int(v);
}

static struct jval arithmetic(struct jr *r, int op, struct jval a,
                              struct jval b)
{
    bool real = a.type == J_FLOAT || b.type == J_FLOAT;
    double x = jval_num(&a), y = jval_num(&b);
    int64_t v;

    if ((op == '/' || op == '%' || op == JOP_FLOORDIV) && y == 0)
        return jr_fail(r, CAG_E_UNSUPPORTED, "division by zero");
    if (op == '/')
        return jval_float(x / y);
    if (op == JOP_POW && !real && as_int(&b) >= 0)
        return int_pow(r, as_int(&a), as_int(&b));
    if (real || op == JOP_POW) {
        double m;
        switch (op) {
        case '+':
            return jval_float(x + y);
        case '-':
            return jval_float(x - y);
        case '*':
            return jval_float(x * y);
        case JOP_FLOORDIV:
            return jval_float(floor(x / y));
        case JOP_POW:
            return jval_float(pow(x, y));
        default:
            m = fmod(x, y);
            return jval_float(m != 0 && (m < 0) != (y < 0) ? m + y : m);
        }
    }
    int64_t i = as_int(&a), k = as_int(&b);
    bool bad = false;
    switch (op) {
    case '+':
        bad = __builtin_add_overflow(i, k, &v);
        break;
    case '-':
        bad = __builtin_sub_overflow(i, k, &v);
        break;
    case '*':
        bad = __builtin_mul_overflow(i, k, &v);
        break;
    default:
        if (k == -1) { /* INT64_MIN / -1 traps */
            bad = op != '%' && i == INT64_MIN;
            v = op == '%' || bad ? 0 : -i;
            break;
        }
        v = op == '%' ? i % k : i / k;
        if (i % k != 0 && (i < 0) != (k < 0))
            v += op == '%' ? k : -1;
        break;
    }
    return bad ? overflow(r) : jval_int(v);
}

static struct jval repeat(struct jr *r, struct jval a, int64_t n)
{
    if (a.type == J_STR) {
        struct jout o;
        jout_init(&o);
        for (int64_t i = 0; i < n && a.n && r->status == CAG_OK; i++)
            jout_add(r, &o, a);
        return jout_take(r, &o);
    }
    struct jval v = jval_list(r, a.flag);
    for (int64_t i = 0; i < n && a.u.list->n && r->status == CAG_OK; i++)
        for (size_t k = 0; k < a.u.list->n; k++)
            if (!jlist_push(r, v.u.list, a.u.list->v[k]))
                break;
    return v;
}

static bool is_seq(const struct jval *v)
{
    return v->type == J_STR || (v->type == J_LIST && v->flag <= JL_TUPLE);
}

struct jval jr_binary(struct jr *r, int op, struct jval a, struct jval b)
{
    char name[3] = { (char)op, 0, 0 };
    if (r->status != CAG_OK)
        return a;
    if (jval_is_num(&a) && jval_is_num(&b))
        return arithmetic(r, op, a, b);
    if (op == '+' && a.type == J_STR && b.type == J_STR)
        return jstr_concat(r, a, b);
    if (op == '+' && a.type == J_LIST && b.type == J_LIST && a.flag == b.flag &&
        a.flag <= JL_TUPLE) {
        struct jval v = jval_list(r, a.flag);
        for (size_t i = 0; i < a.u.list->n && r->status == CAG_OK; i++)
            jlist_push(r, v.u.list, a.u.list->v[i]);
        for (size_t i = 0; i < b.u.list->n && r->status == CAG_OK; i++)
            jlist_push(r, v.u.list, b.u.list->v[i]);
        return v;
    }
    if (op == '*' && is_seq(&a) && (b.type == J_INT || b.type == J_BOOL))
        return repeat(r, a, as_int(&b));
    if (op == '*' && is_seq(&b) && (a.type == J_INT || a.type == J_BOOL))
        return repeat(r, b, as_int(&a));
    if (op == '%' && a.type == J_STR)
        return jstr_format(r, a, b);
    if (op == JOP_POW || op == JOP_FLOORDIV)
        memcpy(name, op == JOP_POW ? "**" : "//", 3);
    return bad_operands(r, name, &a, &b);
}

bool jr_contains(struct jr *r, const struct jval *item,
                 const struct jval *where)
{
    switch (where->type) {
    case J_UNDEF:
        return false;
    case J_STR:
        if (item->type != J_STR) {
            bad_operands(r, "in", item, where);
            return false;
        }
        return jr_burn(r, 1 + where->n / 16) && jstr_find(where, item, 0) >= 0;
    case J_LIST:
        for (size_t i = 0; i < where->u.list->n && r->status == CAG_OK; i++)
            if (jval_eq(r, &where->u.list->v[i], item))
                return true;
        return false;
    case J_DICT:
        return jval_hashable(r, item) &&
               jdict_get(r, where->u.dict, *item) != NULL;
    default:
        bad_operands(r, "in", item, where);
        return false;
    }
}

/* ------------------------------------------------------ attributes, items */

static struct jval bound(struct jr *r, const struct jbuiltin *def,
                         struct jval self)
{
    struct jfunc *f = jr_alloc(r, 1, sizeof *f);
    if (!f)
        return jval_undef("", 0);
    f->def = def;
    f->self = self;
    return (struct jval){ .type = J_FUNC, .u.func = f };
}

static struct jval loop_attr(struct jr *r, struct jloop *l, const char *s,
                             size_t n)
{
    static const struct jbuiltin methods[] = {
        { "changed", NULL, "*" },
        { "cycle", NULL, "*" },
        { NULL, NULL, NULL },
    };
    int64_t i = (int64_t)l->i, len = (int64_t)l->items->n;
    struct jval v = { .type = J_LOOP, .u.loop = l };
    const struct {
        const char *s;
        struct jval v;
    } attrs[] = {
        { "index", jval_int(i + 1) },
        { "index0", jval_int(i) },
        { "revindex", jval_int(len - i) },
        { "revindex0", jval_int(len - i - 1) },
        { "first", jval_bool(i == 0) },
        { "last", jval_bool(i + 1 == len) },
        /* depth counts recursive calls only, which are not supported */
        { "length", jval_int(len) },
        { "depth", jval_int(1) },
        { "depth0", jval_int(0) },
        { "previtem", i > 0 ? l->items->v[i - 1]
                            : jval_undef("there is no previous item", 25) },
        { "nextitem", i + 1 < len ? l->items->v[i + 1]
                                  : jval_undef("there is no next item", 21) },
    };
    for (size_t k = 0; k < sizeof attrs / sizeof *attrs; k++)
        if (strlen(attrs[k].s) == n && memcmp(attrs[k].s, s, n) == 0)
            return attrs[k].v;
    const struct jbuiltin *m = jbuiltin_find(methods, s, n);
    return m ? bound(r, m, v) : jval_undef(s, n);
}

static struct jval loop_method(struct jr *r, struct jloop *l, const char *name,
                               const struct jcall *c)
{
    if (strcmp(name, "cycle") == 0) {
        if (c->n_pos == 0)
            return jr_fail(r, CAG_E_UNSUPPORTED, "loop.cycle without items");
        return c->pos[l->i % c->n_pos];
    }
    struct jval v = jval_list(r, JL_TUPLE);
    for (size_t i = 0; i < c->n_pos && r->status == CAG_OK; i++)
        jlist_push(r, v.u.list, c->pos[i]);
    bool same = r->status == CAG_OK && l->has_changed &&
                jval_eq(r, &l->last_changed, &v);
    l->has_changed = true;
    l->last_changed = v;
    return jval_bool(!same);
}

static const struct jbuiltin *method_of(const struct jval *v, const char *s,
                                        size_t n)
{
    return v->type == J_STR    ? jbuiltin_find(jmethods_str, s, n)
           : v->type == J_DICT ? jbuiltin_find(jmethods_dict, s, n)
           : v->type == J_LIST ? jbuiltin_find(jmethods_list, s, n)
                               : NULL;
}

struct jval jr_getattr(struct jr *r, struct jval v, const char *s, size_t n)
{
    const struct jbuiltin *m = method_of(&v, s, n);
    const struct jval *x = NULL;
    if (r->status != CAG_OK)
        return v;
    if (v.type == J_UNDEF)
        return undef_error(r, &v);
    if (m && m->fn)
        return bound(r, m, v);
    if (m) /* it would change its object */
        return jval_undef(s, n);
    if (v.type == J_LOOP)
        return loop_attr(r, v.u.loop, s, n);
    if (v.type == J_DICT || v.type == J_NS)
        x = jdict_get(r, v.u.dict, jval_text(s, n, JS_TEMPLATE));
    if (v.type == J_MACRO && n == 4 && memcmp(s, "name", 4) == 0)
        return jval_text(v.u.macro->node->name, v.u.macro->node->n_name,
                         JS_TEMPLATE);
    return x ? *x : jval_undef(s, n);
}

struct jval jr_getitem(struct jr *r, struct jval v, struct jval key)
{
    if (r->status != CAG_OK)
        return v;
    if (v.type == J_UNDEF)
        return undef_error(r, &v);
    if (v.type == J_DICT) {
        if (key.type != J_UNDEF && !jval_hashable(r, &key)) {
            return key;
        }
        const struct jval *x = jdict_get(r, v.u.dict, key);
        if (x)
            return *x;
    }
    if (is_seq(&v) && (key.type == J_INT || key.type == J_BOOL)) {
        int64_t i = as_int(&key);
        int64_t n =
            v.type == J_STR ? (int64_t)jstr_len(&v) : (int64_t)v.u.list->n;
        if (i < 0)
            i += n;
        if (i < 0 || i >= n)
            return jval_undef("item", 4);
        return v.type == J_STR ? jstr_slice(r, v, i, 1, 1) : v.u.list->v[i];
    }
    if (key.type == J_STR) {
        const struct jbuiltin *m = method_of(&v, key.u.s, key.n);
        if (m && m->fn)
            return bound(r, m, v);
        if (v.type == J_NS || v.type == J_LOOP)
            return jr_getattr(r, v, key.u.s, key.n);
        return jval_undef(key.u.s, key.n);
    }
    return jval_undef("item", 4);
}

/* Python's slice.indices(): false if a part is no integer. */
static bool slice_part(struct jr *r, const struct jval *p, int64_t n,
                       int64_t low, int64_t high, int64_t def, int64_t *out)
{
    *out = def;
    if (p->type == J_NONE)
        return true;
    if (p->type != J_INT && p->type != J_BOOL) {
        jr_fail(r, CAG_E_UNSUPPORTED, "slice with %s", jval_type_name(p));
        return false;
    }
    int64_t i = as_int(p);
    if (i < 0)
        i = i < -n ? low : i + n < low ? low : i + n;
    else if (i > high)
        i = high;
    *out = i;
    return true;
}

struct jval jr_slice(struct jr *r, struct jval v, const struct jval part[3])
{
    int64_t step = 1, a, b, n, count = 0;
    if (r->status != CAG_OK)
        return v;
    if (v.type == J_UNDEF)
        return undef_error(r, &v);
    if (!is_seq(&v))
        return jr_fail(r, CAG_E_UNSUPPORTED, "cannot slice %s",
                       jval_type_name(&v));
    if (part[2].type == J_INT || part[2].type == J_BOOL)
        step = as_int(&part[2]);
    else if (part[2].type != J_NONE)
        return jr_fail(r, CAG_E_UNSUPPORTED, "slice with %s",
                       jval_type_name(&part[2]));
    if (step == 0)
        return jr_fail(r, CAG_E_UNSUPPORTED, "slice step of zero");
    n = v.type == J_STR ? (int64_t)jstr_len(&v) : (int64_t)v.u.list->n;
    if (step > n + 1) /* the same slice, without overflow */
        step = n + 1;
    else if (step < -n - 1)
        step = -n - 1;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    if (!slice_part(r, &part[0], n, low, high, step > 0 ? low : high, &a) ||
        !slice_part(r, &part[1], n, low, high, step > 0 ? high : low, &b))
        return jval_undef("", 0);
    if (step > 0 && b > a)
        count = (b - a - 1) / step + 1;
    else if (step < 0 && a > b)
        count = (a - b - 1) / -step + 1;
    if (v.type == J_STR)
        return jstr_slice(r, v, a, step, count);
    struct jval out = jval_list(r, v.flag);
    for (int64_t i = 0; i < count && r->status == CAG_OK; i++)
        jlist_push(r, out.u.list, v.u.list->v[a + i * step]);
    return out;
}

/* ------------------------------------------------------------------- calls */

const struct jbuiltin *jbuiltin_find(const struct jbuiltin *table,
                                     const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && memcmp(table->name, name, n) == 0)
            return table;
    return NULL;
}

#define MAX_PARAM 6

/* Spread the call over the parameters named in def->params. */
static bool bind(struct jr *r, const struct jbuiltin *def,
                 const struct jcall *c, struct jval *p)
{
    const char *s = def->params;
    size_t used = 0, i = 0;
    while (*s) {
        size_t n = strcspn(s, ",");
        bool need = *s == '!';
        p[i] = (struct jval){ 0 };
        if (i < c->n_pos) {
            p[i] = c->pos[i];
        } else {
            const char *key = need ? s + 1 : s;
            for (size_t k = 0; k < c->n_kw; k++)
                if (c->kw[k].k.n == n - need &&
                    memcmp(c->kw[k].k.u.s, key, n - need) == 0) {
                    p[i] = c->kw[k].v;
                    used++;
                    if (p[i].type == J_UNDEF && !p[i].u.s)
                        p[i].u.s = "";
                }
            if (need && !jgiven(&p[i])) {
                jr_fail(r, CAG_E_UNSUPPORTED, "%s: missing argument '%.*s'",
                        def->name, (int)(n - need), key);
                return false;
            }
        }
        i++;
        s += n + (s[n] == ',');
    }
    if (c->n_pos > i || used < c->n_kw)
        jr_fail(r, CAG_E_UNSUPPORTED, "%s: unexpected argument", def->name);
    return r->status == CAG_OK;
}

struct jval jr_builtin(struct jr *r, const struct jbuiltin *def,
                       struct jval self, const struct jcall *c)
{
    struct jval p[MAX_PARAM] = { { 0 } };
    if (r->status != CAG_OK)
        return self;
    if (self.type == J_LOOP)
        return loop_method(r, self.u.loop, def->name, c);
    if (strcmp(def->params, "*") != 0 && !bind(r, def, c, p))
        return jval_undef("", 0);
    return def->fn(r, self, p, c);
}

struct jval jr_call(struct jr *r, struct jval fn, const struct jcall *c)
{
    if (r->status != CAG_OK)
        return fn;
    if (fn.type == J_FUNC)
        return jr_builtin(r, fn.u.func->def, fn.u.func->self, c);
    if (fn.type == J_MACRO)
        return jr_macro(r, fn.u.macro, c);
    if (fn.type == J_UNDEF)
        return undef_error(r, &fn);
    return jr_fail(r, CAG_E_UNSUPPORTED, "cannot call %s", jval_type_name(&fn));
}
