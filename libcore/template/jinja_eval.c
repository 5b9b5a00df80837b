/*
 * jinja_eval.c - the value of an expression.
 */
#include <string.h>

#include "template/jinja_int.h"

static struct jval lookup(struct jr *r, const struct jnode *n)
{
    for (struct jscope *s = r->scope; s; s = s->parent) {
        if (!jr_burn(r, 1 + s->vars.n / 8))
            return jval_undef("", 0);
        const struct jval *v = jdict_find(&s->vars, n->name, n->n_name);
        if (v)
            return *v;
    }
    const struct jval *v = jdict_find(&r->vars, n->name, n->n_name);
    if (v)
        return *v;
    const struct jbuiltin *g = jbuiltin_find(jglobals, n->name, n->n_name);
    if (!g)
        return jval_undef(n->name, n->n_name);
    struct jfunc *f = jr_alloc(r, 1, sizeof *f);
    if (!f)
        return jval_undef("", 0);
    f->def = g;
    return (struct jval){ .type = J_FUNC, .u.func = f };
}

/* Arguments of a call; fails softly through r->status. */
static void arguments(struct jr *r, const struct jnode *n, struct jcall *c)
{
    struct jlist pos = { 0 };
    struct jdict kw = { 0 };
    for (size_t i = 0; i < n->n_arg && r->status == CAG_OK; i++) {
        const struct jarg *a = &n->arg[i];
        struct jval v = jr_eval(r, a->value);
        if (a->kind == JA_POS) {
            jlist_push(r, &pos, v);
        } else if (a->kind == JA_KW) {
            jdict_set(r, &kw, jval_text(a->name, a->n_name, JS_TEMPLATE), v);
        } else if (a->kind == JA_STAR) {
            struct jlist *l = jval_iter(r, v);
            for (size_t k = 0; l && k < l->n; k++)
                jlist_push(r, &pos, l->v[k]);
        } else if (v.type == J_DICT) {
            for (size_t k = 0; k < v.u.dict->n; k++) {
                if (v.u.dict->p[k].k.type != J_STR) {
                    jr_fail(r, CAG_E_UNSUPPORTED, "** with a key that is %s",
                            jval_type_name(&v.u.dict->p[k].k));
                    break;
                }
                jdict_set(r, &kw, v.u.dict->p[k].k, v.u.dict->p[k].v);
            }
        } else {
            jr_fail(r, CAG_E_UNSUPPORTED, "** of %s", jval_type_name(&v));
        }
    }
    *c = (struct jcall){ pos.v, pos.n, kw.p, kw.n };
}

static struct jval eval_call(struct jr *r, const struct jnode *n)
{
    struct jcall c;
    struct jval fn = jr_eval(r, n->a);
    if (fn.type == J_UNDEF && r->status == CAG_OK) {
        r->line = n->line;
        return jr_fail(r, CAG_E_UNSUPPORTED, "function '%.*s' is not known",
                       (int)(fn.n > 100 ? 100 : fn.n), fn.u.s ? fn.u.s : "");
    }
    arguments(r, n, &c);
    r->line = n->line;
    return jr_call(r, fn, &c);
}

static struct jval eval_items(struct jr *r, const struct jnode *n)
{
    if (n->kind == JX_DICT) {
        struct jval d = jval_dict(r);
        for (size_t i = 0; i + 1 < n->n && r->status == CAG_OK; i += 2) {
            struct jval k = jr_eval(r, n->list[i]);
            struct jval v = jr_eval(r, n->list[i + 1]);
            if (r->status == CAG_OK && jval_hashable(r, &k))
                jdict_set(r, d.u.dict, k, v);
        }
        return d;
    }
    struct jval l = jval_list(r, n->kind == JX_TUPLE ? JL_TUPLE : JL_LIST);
    for (size_t i = 0; i < n->n && r->status == CAG_OK; i++)
        jlist_push(r, l.u.list, jr_eval(r, n->list[i]));
    return l;
}

static struct jval eval_concat(struct jr *r, const struct jnode *n)
{
    struct jout o;
    jout_init(&o);
    for (size_t i = 0; i < n->n && r->status == CAG_OK; i++)
        jout_add(r, &o, jval_str(r, jr_eval(r, n->list[i])));
    return jout_take(r, &o);
}

static bool compare_one(struct jr *r, int op, const struct jval *a,
                        const struct jval *b)
{
    switch (op) {
    case JOP_EQ:
        return jval_eq(r, a, b);
    case JOP_NE:
        return !jval_eq(r, a, b);
    case JOP_IN:
        return jr_contains(r, a, b);
    case JOP_NOT_IN:
        return !jr_contains(r, a, b);
    default:
        break;
    }
    int c = jval_cmp(r, a, b);
    return op == '<'      ? c < 0
           : op == '>'    ? c > 0
           : op == JOP_LE ? c <= 0
                          : c >= 0;
}

static struct jval eval_compare(struct jr *r, const struct jnode *n)
{
    struct jval a = jr_eval(r, n->a);
    for (size_t i = 0; i < n->n && r->status == CAG_OK; i++) {
        struct jval b = jr_eval(r, n->list[i]->a);
        if (r->status != CAG_OK)
            break;
        r->line = n->line;
        if (!compare_one(r, n->list[i]->op, &a, &b))
            return jval_bool(false);
        a = b;
    }
    return jval_bool(true);
}

static struct jval eval_slice(struct jr *r, const struct jnode *n)
{
    struct jval part[3], v = jr_eval(r, n->a);
    for (int i = 0; i < 3; i++)
        part[i] = n->list[i] ? jr_eval(r, n->list[i]) : jval_none();
    r->line = n->line;
    return jr_slice(r, v, part);
}

static struct jval eval_sign(struct jr *r, const struct jnode *n)
{
    struct jval v = jr_eval(r, n->a);
    if (r->status != CAG_OK)
        return v;
    if (!jval_is_num(&v))
        return jr_fail(r, CAG_E_UNSUPPORTED, "sign of %s", jval_type_name(&v));
    return jr_binary(r, n->kind == JX_NEG ? '-' : '+', jval_int(0), v);
}

static struct jval eval_filter(struct jr *r, const struct jnode *n)
{
    struct jcall c;
    struct jval v = jr_eval(r, n->a);
    arguments(r, n, &c);
    r->line = n->line;
    return jr_filter(r, n->name, n->n_name, v, &c);
}

static struct jval eval_node(struct jr *r, const struct jnode *n)
{
    struct jval v;
    struct jcall c;
    switch (n->kind) {
    case JX_CONST:
        return n->val;
    case JX_NAME:
        return lookup(r, n);
    case JX_LIST:
    case JX_TUPLE:
    case JX_DICT:
        return eval_items(r, n);
    case JX_ATTR:
        v = jr_eval(r, n->a);
        return jr_getattr(r, v, n->name, n->n_name);
    case JX_ITEM:
        v = jr_eval(r, n->a);
        return jr_getitem(r, v, jr_eval(r, n->b));
    case JX_SLICE:
        return eval_slice(r, n);
    case JX_CALL:
        return eval_call(r, n);
    case JX_FILTER:
        return eval_filter(r, n);
    case JX_TEST:
        v = jr_eval(r, n->a);
        arguments(r, n, &c);
        r->line = n->line;
        return jval_bool(jr_test(r, n->name, n->n_name, v, &c));
    case JX_NOT:
        v = jr_eval(r, n->a);
        return jval_bool(!jval_truth(&v));
    case JX_NEG:
    case JX_POS:
        return eval_sign(r, n);
    case JX_AND:
        v = jr_eval(r, n->a);
        return jval_truth(&v) ? jr_eval(r, n->b) : v;
    case JX_OR:
        v = jr_eval(r, n->a);
        return jval_truth(&v) ? v : jr_eval(r, n->b);
    case JX_BINARY:
        v = jr_eval(r, n->a);
        return jr_binary(r, n->op, v, jr_eval(r, n->b));
    case JX_CONCAT:
        return eval_concat(r, n);
    case JX_COMPARE:
        return eval_compare(r, n);
    default: /* JX_COND */
        v = jr_eval(r, n->a);
        if (jval_truth(&v))
            return jr_eval(r, n->b);
        return n->c ? jr_eval(r, n->c) : jval_undef("inline if", 9);
    }
}

struct jval jr_eval(struct jr *r, const struct jnode *n)
{
    struct jval v;
    if (!jr_enter(r))
        return jval_undef("", 0);
    r->line = n->line;
    v = eval_node(r, n);
    jr_leave(r);
    return v;
}
