/*
 * jinja_value.c - values with Python's meaning: truth, equality, order,
 * iteration, and lists and dictionaries that live in the rendering's arena.
 *
 * Dictionaries are ordered arrays searched in order: a chat template's have
 * a handful of keys, and fuel bounds what a hostile one can cost.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "template/jinja_int.h"
#include "util/text.h"

struct jval jr_fail(struct jr *r, cag_status status, const char *fmt, ...)
{
    char msg[700];
    va_list ap;
    if (r->status == CAG_OK) {
        va_start(ap, fmt);
        vsnprintf(msg, sizeof msg, fmt, ap);
        va_end(ap);
        r->status = status;
        if (status == CAG_E_NOMEM)
            cag_fail_nomem(r->err, "rendering the chat template");
        else
            cag_fail_at(r->err, status, r->t->label, r->line, 0, "%s", msg);
    }
    return jval_undef("", 0);
}

bool jr_burn(struct jr *r, uint64_t n)
{
    if (r->fuel < n) {
        r->fuel = 0;
        jr_fail(r, CAG_E_LIMIT, "the template does too much work");
        return false;
    }
    r->fuel -= n;
    return r->status == CAG_OK;
}

void *jr_alloc(struct jr *r, size_t n, size_t size)
{
    void *p = NULL;
    if (r->status != CAG_OK)
        return NULL;
    if (size && n > (JINJA_MAX_MEMORY - r->used) / size) {
        jr_fail(r, CAG_E_LIMIT, "the template needs more than %zu bytes",
                JINJA_MAX_MEMORY);
        return NULL;
    }
    r->used += n * size;
    p = arena_array(&r->mem, n ? n : 1, size);
    if (!p)
        jr_fail(r, CAG_E_NOMEM, "out of memory");
    return p;
}

bool jr_enter(struct jr *r)
{
    if (r->depth >= JINJA_MAX_DEPTH) {
        jr_fail(r, CAG_E_LIMIT, "the template recurses deeper than %d",
                JINJA_MAX_DEPTH);
        return false;
    }
    if (!jr_burn(r, 1))
        return false;
    r->depth++;
    return true;
}

/* ------------------------------------------------------------ constructors */

struct jval jval_undef(const char *name, size_t n)
{
    return (struct jval){ .type = J_UNDEF, .n = n, .u.s = name };
}

struct jval jval_none(void)
{
    return (struct jval){ .type = J_NONE };
}

struct jval jval_bool(bool b)
{
    return (struct jval){ .type = J_BOOL, .u.b = b };
}

struct jval jval_int(int64_t i)
{
    return (struct jval){ .type = J_INT, .u.i = i };
}

struct jval jval_float(double f)
{
    return (struct jval){ .type = J_FLOAT, .u.f = f };
}

struct jval jval_text(const char *s, size_t n, int provenance)
{
    return (struct jval){
        .type = J_STR, .flag = (uint8_t)provenance, .n = n, .u.s = s
    };
}

struct jval jval_static(const char *s)
{
    return jval_text(s, strlen(s), JS_TEMPLATE);
}

struct jval jval_list(struct jr *r, int flag)
{
    struct jlist *l = jr_alloc(r, 1, sizeof *l);
    if (!l)
        return jval_undef("", 0);
    return (struct jval){ .type = J_LIST, .flag = (uint8_t)flag, .u.list = l };
}

struct jval jval_dict(struct jr *r)
{
    struct jdict *d = jr_alloc(r, 1, sizeof *d);
    if (!d)
        return jval_undef("", 0);
    return (struct jval){ .type = J_DICT, .u.dict = d };
}

/* v, which is full at *cap items, with room for more; NULL on failure. */
static void *grow(struct jr *r, const void *v, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 8;
    void *p = jr_alloc(r, more, size);
    if (!p)
        return NULL;
    if (*cap)
        memcpy(p, v, *cap * size);
    *cap = more;
    return p;
}

bool jlist_push(struct jr *r, struct jlist *l, struct jval v)
{
    if (!jr_burn(r, 1))
        return false;
    if (l->n == l->cap) {
        struct jval *p = grow(r, l->v, &l->cap, sizeof *p);
        if (!p)
            return false;
        l->v = p;
    }
    l->v[l->n++] = v;
    return true;
}

const struct jval *jdict_find(const struct jdict *d, const char *k, size_t n)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct jval *key = &d->p[i].k;
        if (key->type == J_STR && key->n == n &&
            (n == 0 || memcmp(key->u.s, k, n) == 0))
            return &d->p[i].v;
    }
    return NULL;
}

const struct jval *jdict_get(struct jr *r, const struct jdict *d, struct jval k)
{
    if (!jr_burn(r, 1 + d->n))
        return NULL;
    if (k.type == J_STR)
        return jdict_find(d, k.u.s, k.n);
    for (size_t i = 0; i < d->n; i++)
        if (jval_eq(r, &d->p[i].k, &k))
            return &d->p[i].v;
    return NULL;
}

bool jdict_set(struct jr *r, struct jdict *d, struct jval k, struct jval v)
{
    const struct jval *old = jdict_get(r, d, k);
    if (r->status != CAG_OK)
        return false;
    if (old) {
        d->p[(size_t)((const char *)old - (const char *)d->p) / sizeof *d->p]
            .v = v;
        return true;
    }
    if (d->n == d->cap) {
        struct jpair *p = grow(r, d->p, &d->cap, sizeof *p);
        if (!p)
            return false;
        d->p = p;
    }
    d->p[d->n++] = (struct jpair){ k, v };
    return true;
}

/* ----------------------------------------------------------------- meaning */

bool jval_truth(const struct jval *v)
{
    switch (v->type) {
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v->u.b;
    case J_INT:
        return v->u.i != 0;
    case J_FLOAT:
        return v->u.f != 0;
    case J_STR:
        return v->n > 0;
    case J_LIST: /* a generator is true, whatever it will yield */
        return v->flag == JL_GEN || v->u.list->n > 0;
    case J_DICT:
        return v->u.dict->n > 0;
    default:
        return true;
    }
}

bool jval_is_num(const struct jval *v)
{
    return v->type == J_INT || v->type == J_FLOAT || v->type == J_BOOL;
}

double jval_num(const struct jval *v)
{
    return v->type == J_FLOAT  ? v->u.f
           : v->type == J_BOOL ? (double)v->u.b
                               : (double)v->u.i;
}

static int64_t as_int(const struct jval *v)
{
    return v->type == J_BOOL ? v->u.b : v->u.i;
}

bool jval_is(const struct jval *v, const char *text)
{
    size_t n = strlen(text);
    return v->type == J_STR && v->n == n &&
           (n == 0 || memcmp(v->u.s, text, n) == 0);
}

bool jval_hashable(struct jr *r, const struct jval *v)
{
    if (v->type == J_DICT || (v->type == J_LIST && v->flag != JL_TUPLE)) {
        jr_fail(r, CAG_E_UNSUPPORTED, "a %s cannot be a key",
                jval_type_name(v));
        return false;
    }
    return r->status == CAG_OK;
}

static bool list_eq(struct jr *r, const struct jlist *a, const struct jlist *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!jval_eq(r, &a->v[i], &b->v[i]))
            return false;
    return r->status == CAG_OK;
}

static bool dict_eq(struct jr *r, const struct jdict *a, const struct jdict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct jval *v = jdict_get(r, b, a->p[i].k);
        if (!v || !jval_eq(r, &a->p[i].v, v))
            return false;
    }
    return r->status == CAG_OK;
}

bool jval_eq(struct jr *r, const struct jval *a, const struct jval *b)
{
    bool eq = false;
    if (jval_is_num(a) && jval_is_num(b)) {
        if (a->type == J_FLOAT || b->type == J_FLOAT)
            return jval_num(a) == jval_num(b);
        return as_int(a) == as_int(b);
    }
    if (a->type != b->type || !jr_enter(r))
        return false;
    switch (a->type) {
    case J_UNDEF:
    case J_NONE:
        eq = true;
        break;
    case J_STR:
        eq = a->n == b->n && jr_burn(r, a->n / 64) &&
             (a->n == 0 || memcmp(a->u.s, b->u.s, a->n) == 0);
        break;
    case J_LIST:
        eq = a->u.list == b->u.list ||
             (a->flag == b->flag && a->flag != JL_GEN &&
              list_eq(r, a->u.list, b->u.list));
        break;
    case J_DICT:
        eq = dict_eq(r, a->u.dict, b->u.dict);
        break;
    case J_NS:
        eq = a->u.dict == b->u.dict;
        break;
    case J_FUNC:
        eq = a->u.func == b->u.func;
        break;
    case J_MACRO:
        eq = a->u.macro == b->u.macro;
        break;
    default:
        eq = a->u.loop == b->u.loop;
        break;
    }
    jr_leave(r);
    return eq;
}

int jval_cmp(struct jr *r, const struct jval *a, const struct jval *b)
{
    if (jval_is_num(a) && jval_is_num(b)) {
        if (a->type == J_FLOAT || b->type == J_FLOAT) {
            double x = jval_num(a), y = jval_num(b);
            return (x > y) - (x < y);
        }
        return (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
    }
    if (a->type == J_STR && b->type == J_STR) {
        size_t n = a->n < b->n ? a->n : b->n;
        int c = n ? memcmp(a->u.s, b->u.s, n) : 0;
        jr_burn(r, n / 64);
        return c ? (c > 0) - (c < 0) : (a->n > b->n) - (a->n < b->n);
    }
    if (a->type == J_LIST && b->type == J_LIST && a->flag == b->flag &&
        a->flag <= JL_TUPLE) {
        const struct jlist *x = a->u.list, *y = b->u.list;
        int c = 0;
        if (!jr_enter(r))
            return 0;
        for (size_t i = 0; i < x->n && i < y->n && c == 0; i++)
            if (!jval_eq(r, &x->v[i], &y->v[i]))
                c = jval_cmp(r, &x->v[i], &y->v[i]);
        jr_leave(r);
        return c ? c : (x->n > y->n) - (x->n < y->n);
    }
    jr_fail(r, CAG_E_UNSUPPORTED, "cannot order %s and %s", jval_type_name(a),
            jval_type_name(b));
    return 0;
}

const char *jval_type_name(const struct jval *v)
{
    static const char *const names[] = {
        "an undefined value", "none",       "a boolean", "an integer",
        "a number",           "a string",   "a list",    "a mapping",
        "a namespace",        "a function", "a macro",   "a loop",
    };
    return names[v->type];
}

struct jlist *jval_iter(struct jr *r, struct jval v)
{
    struct jval out;
    if (v.type == J_LIST)
        return v.u.list;
    out = jval_list(r, JL_LIST);
    if (r->status != CAG_OK)
        return NULL;
    if (v.type == J_UNDEF)
        return out.u.list;
    if (v.type == J_DICT) {
        for (size_t i = 0; i < v.u.dict->n; i++)
            jlist_push(r, out.u.list, v.u.dict->p[i].k);
    } else if (v.type == J_STR) {
        for (size_t i = 0; i < v.n && r->status == CAG_OK;) {
            uint32_t cp;
            size_t k = (size_t)utf8_decode(v.u.s + i, v.n - i, &cp);
            jlist_push(r, out.u.list, jstr_sub(r, v, i, k));
            i += k;
        }
    } else {
        jr_fail(r, CAG_E_UNSUPPORTED, "cannot iterate over %s",
                jval_type_name(&v));
    }
    return r->status == CAG_OK ? out.u.list : NULL;
}

/* -------------------------------------------------------------- from JSON */

/* Strings stay where they are: the JSON outlives the rendering. */
struct jval jval_from_json(struct jr *r, const jv *j, bool input)
{
    struct jval v = jval_none();
    size_t n;
    if (!jr_enter(r))
        return v;
    switch (jv_type(j)) {
    case JV_NULL:
        break;
    case JV_BOOL:
        v = jval_bool(jv_bool(j, false));
        break;
    case JV_INT:
        v = jval_int(jv_int(j, 0));
        break;
    case JV_REAL:
        v = jval_float(jv_num(j, 0));
        break;
    case JV_STR: {
        const char *s = jv_str(j, &n);
        v = jval_text(s, n, input ? JS_INPUT : JS_TEMPLATE);
        break;
    }
    case JV_ARRAY:
        v = jval_list(r, JL_LIST);
        for (size_t i = 0; i < jv_count(j) && r->status == CAG_OK; i++)
            jlist_push(r, v.u.list, jval_from_json(r, jv_at(j, i), true));
        break;
    case JV_OBJECT:
        v = jval_dict(r);
        for (void *it = jv_iter(j); it && r->status == CAG_OK;
             it = jv_next(j, it)) {
            const char *k = jv_iter_key(it, &n);
            struct jval key = jval_text(k, n, JS_INPUT);
            bool own = jval_is(&key, "role");
            const jv *e = jv_iter_value(it);
            struct jval x = jval_from_json(r, e, !own || jv_type(e) != JV_STR);
            jdict_set(r, v.u.dict, key, x);
        }
        break;
    }
    jr_leave(r);
    return v;
}
