/*
 * jinja_stmt.c - run statements; the public render.
 *
 * Scopes: a loop's iteration, a with block, a macro and a captured block
 * have their own; "if" has none.  So {% set %} inside a loop is gone at the
 * iteration's end, which is why templates use namespace().
 */
#include <string.h>

#include "template/jinja_int.h"
#include "util/mem.h"

static struct jscope *push_scope(struct jr *r, struct jscope *parent)
{
    struct jscope *s = jr_alloc(r, 1, sizeof *s);
    if (s) {
        s->parent = parent;
        r->scope = s;
    }
    return s;
}

/* Assign to a name, a tuple of targets or an attribute of a namespace. */
static void assign(struct jr *r, const struct jnode *t, struct jval v)
{
    if (!jr_enter(r))
        return;
    if (t->kind == JX_NAME) {
        jdict_set(r, &r->scope->vars,
                  jval_text(t->name, t->n_name, JS_TEMPLATE), v);
    } else if (t->kind == JX_ATTR) {
        struct jval ns = jr_eval(r, t->a);
        if (r->status == CAG_OK && ns.type != J_NS)
            jr_fail(r, CAG_E_UNSUPPORTED, "cannot assign to an attribute of %s",
                    jval_type_name(&ns));
        else if (r->status == CAG_OK && t->name[0] == '_')
            jr_fail(r, CAG_E_UNSUPPORTED, "attribute '%s' begins with _",
                    t->name);
        else if (r->status == CAG_OK)
            jdict_set(r, ns.u.dict, jval_text(t->name, t->n_name, JS_TEMPLATE),
                      v);
    } else {
        struct jlist *l = jval_iter(r, v);
        if (l && l->n != t->n)
            jr_fail(r, CAG_E_UNSUPPORTED,
                    "cannot unpack %zu values into %zu names", l->n, t->n);
        for (size_t i = 0; l && i < t->n && r->status == CAG_OK; i++)
            assign(r, t->list[i], l->v[i]);
    }
    jr_leave(r);
}

/* Run a body with its output caught. */
static struct jval capture(struct jr *r, const struct jnode *body)
{
    struct jout o, *old = r->out;
    jout_init(&o);
    r->out = &o;
    jr_exec(r, body);
    r->out = old;
    return jout_take(r, &o);
}

static int exec_if(struct jr *r, const struct jnode *n)
{
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        struct jval c = jr_eval(r, n->list[i]);
        if (r->status != CAG_OK)
            return JE_NEXT;
        if (jval_truth(&c))
            return jr_exec(r, n->list[i + 1]);
    }
    return n->c ? jr_exec(r, n->c) : JE_NEXT;
}

/* The items a loop will visit: those that pass its "if". */
static struct jlist *loop_items(struct jr *r, const struct jnode *n)
{
    struct jlist *all = jval_iter(r, jr_eval(r, n->b));
    struct jscope *outer = r->scope;
    if (!all || !n->c || r->status != CAG_OK)
        return r->status == CAG_OK ? all : NULL;
    struct jval kept = jval_list(r, JL_LIST);
    for (size_t i = 0; i < all->n && r->status == CAG_OK; i++) {
        if (!push_scope(r, outer))
            break;
        assign(r, n->a, all->v[i]);
        struct jval c = jr_eval(r, n->c);
        if (jval_truth(&c))
            jlist_push(r, kept.u.list, all->v[i]);
        r->scope = outer;
    }
    r->scope = outer;
    return r->status == CAG_OK ? kept.u.list : NULL;
}

static int exec_for(struct jr *r, const struct jnode *n)
{
    struct jlist *items = loop_items(r, n);
    struct jscope *outer = r->scope;
    if (!items)
        return JE_NEXT;
    if (items->n == 0)
        return n->n > 1 ? jr_exec(r, n->list[1]) : JE_NEXT;
    struct jloop *l = jr_alloc(r, 1, sizeof *l);
    if (!l)
        return JE_NEXT;
    l->items = items;
    for (size_t i = 0; i < items->n && r->status == CAG_OK; i++) {
        struct jval v = { .type = J_LOOP, .u.loop = l };
        l->i = i;
        if (!push_scope(r, outer) ||
            !jdict_set(r, &r->scope->vars, jval_static("loop"), v))
            break;
        assign(r, n->a, items->v[i]);
        if (jr_exec(r, n->list[0]) == JE_BREAK)
            break;
    }
    r->scope = outer;
    return JE_NEXT;
}

static struct jval apply_filters(struct jr *r, const struct jnode *f,
                                 struct jval v)
{
    struct jnode hold = { .kind = JX_CONST, .val = v, .line = f->line };
    struct jnode one = *f;
    if (!jr_enter(r))
        return v;
    if (f->a)
        hold.val = apply_filters(r, f->a, v);
    one.a = &hold;
    if (r->status == CAG_OK)
        v = jr_eval(r, &one);
    jr_leave(r);
    return v;
}

static struct jval make_macro(struct jr *r, const struct jnode *n)
{
    struct jmacro *m = jr_alloc(r, 1, sizeof *m);
    if (!m)
        return jval_undef("", 0);
    m->node = n;
    m->scope = r->scope;
    return (struct jval){ .type = J_MACRO, .u.macro = m };
}

/* Does the body read this name anywhere?  Then extra arguments are legal. */
static void bind_macro(struct jr *r, const struct jmacro *m,
                       const struct jcall *c)
{
    const struct jnode *n = m->node;
    size_t used = 0;
    struct jdict *vars = &r->scope->vars;
    for (size_t i = 0; i < n->n_arg && r->status == CAG_OK; i++) {
        const struct jarg *a = &n->arg[i];
        struct jval key = jval_text(a->name, a->n_name, JS_TEMPLATE);
        struct jval v = jval_undef(a->name, a->n_name);
        bool given = false;
        if (i < c->n_pos) {
            v = c->pos[i];
            given = true;
        }
        for (size_t k = 0; k < c->n_kw; k++)
            if (jval_eq(r, &c->kw[k].k, &key)) {
                if (given)
                    jr_fail(r, CAG_E_UNSUPPORTED, "argument '%s' given twice",
                            a->name);
                v = c->kw[k].v;
                given = true;
                used++;
            }
        if (!given && a->value)
            v = jr_eval(r, a->value);
        jdict_set(r, vars, key, v);
    }
    bool caller = false;
    for (size_t k = 0; k < c->n_kw; k++)
        if (jval_is(&c->kw[k].k, "caller")) {
            jdict_set(r, vars, c->kw[k].k, c->kw[k].v);
            caller = true;
        }
    bool extra_pos = c->n_pos > n->n_arg;
    bool extra_kw = c->n_kw > used + caller;
    struct jval rest = jval_list(r, JL_TUPLE), named = jval_dict(r);
    for (size_t i = n->n_arg; i < c->n_pos && r->status == CAG_OK; i++)
        jlist_push(r, rest.u.list, c->pos[i]);
    for (size_t k = 0; extra_kw && k < c->n_kw && r->status == CAG_OK; k++)
        if (!jdict_find(vars, c->kw[k].k.u.s, c->kw[k].k.n))
            jdict_set(r, named.u.dict, c->kw[k].k, c->kw[k].v);
    if ((extra_pos && !jinja_mentions(r->t, "varargs")) ||
        (extra_kw && !jinja_mentions(r->t, "kwargs")))
        jr_fail(r, CAG_E_UNSUPPORTED, "macro '%s': too many arguments",
                n->name ? n->name : "caller");
    jdict_set(r, vars, jval_static("varargs"), rest);
    jdict_set(r, vars, jval_static("kwargs"), named);
}

struct jval jr_macro(struct jr *r, const struct jmacro *m,
                     const struct jcall *c)
{
    struct jscope *outer = r->scope;
    struct jval v = jval_static("");
    if (!jr_enter(r))
        return v;
    if (push_scope(r, m->scope)) {
        bind_macro(r, m, c);
        if (r->status == CAG_OK)
            v = capture(r, m->node->c);
    }
    r->scope = outer;
    jr_leave(r);
    return v;
}

/* The call gets one more argument, "caller": the body as a macro. */
static void exec_call_block(struct jr *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    struct jnode call = *n->a, name = { .kind = JX_CONST, .line = n->line };
    struct jarg *arg = jr_alloc(r, call.n_arg + 1, sizeof *arg);
    if (!arg)
        return;
    name.val = make_macro(r, n);
    if (call.n_arg)
        memcpy(arg, call.arg, call.n_arg * sizeof *arg);
    arg[call.n_arg] = (struct jarg){ JA_KW, "caller", 6, &name };
    call.arg = arg;
    call.n_arg++;
    jout_add(r, r->out, jval_str(r, jr_eval(r, &call)));
    r->scope = outer;
}

static int exec_scoped(struct jr *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    int how = JE_NEXT;
    struct jlist vals = { 0 };
    /* values are computed outside, before any is assigned */
    for (size_t i = 1; i < n->n && r->status == CAG_OK; i += 2)
        jlist_push(r, &vals, jr_eval(r, n->list[i]));
    if (r->status == CAG_OK && push_scope(r, outer)) {
        for (size_t i = 0; i < vals.n; i++)
            assign(r, n->list[2 * i], vals.v[i]);
        how = jr_exec(r, n->c);
    }
    r->scope = outer;
    return how;
}

static int exec_node(struct jr *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    struct jval v;
    int how = JE_NEXT;
    switch (n->kind) {
    case JN_BLOCK:
        for (size_t i = 0; i < n->n && how == JE_NEXT && r->status == CAG_OK;
             i++)
            how = jr_exec(r, n->list[i]);
        return how;
    case JN_DATA:
        jout_add(r, r->out, n->val);
        return how;
    case JN_PRINT:
        v = jr_eval(r, n->a);
        if (r->status == CAG_OK)
            jout_add(r, r->out, jval_str(r, v));
        return how;
    case JN_IF:
        return exec_if(r, n);
    case JN_FOR:
        return exec_for(r, n);
    case JN_SET:
        v = jr_eval(r, n->b);
        if (r->status == CAG_OK)
            assign(r, n->a, v);
        return how;
    case JN_SET_BLOCK:
    case JN_FILTER_BLOCK:
        if (!push_scope(r, outer))
            return how;
        v = capture(r, n->c);
        r->scope = outer;
        if (n->kind == JN_SET_BLOCK ? n->b != NULL : true)
            v = apply_filters(r, n->kind == JN_SET_BLOCK ? n->b : n->a, v);
        if (r->status != CAG_OK)
            return how;
        if (n->kind == JN_SET_BLOCK)
            assign(r, n->a, v);
        else
            jout_add(r, r->out, jval_str(r, v));
        return how;
    case JN_MACRO:
        jdict_set(r, &r->scope->vars,
                  jval_text(n->name, n->n_name, JS_TEMPLATE), make_macro(r, n));
        return how;
    case JN_CALL_BLOCK:
        exec_call_block(r, n);
        return how;
    case JN_WITH:
    case JN_SCOPE:
        return exec_scoped(r, n);
    case JN_BREAK:
        return JE_BREAK;
    default:
        return JE_CONTINUE;
    }
}

int jr_exec(struct jr *r, const struct jnode *n)
{
    int how;
    if (!jr_enter(r))
        return JE_NEXT;
    r->line = n->line;
    how = exec_node(r, n);
    jr_leave(r);
    return how;
}

/* ------------------------------------------------------------------ public */

cag_status jinja_render_spans(const struct jinja *t, const jv *vars,
                              int64_t now_s, struct buf *out,
                              struct jinja_spans *spans, cag_error *err)
{
    struct jout o;
    struct jr r = {
        .t = t, .fuel = JINJA_MAX_FUEL, .now_s = now_s, .out = &o, .err = err
    };
    struct jscope top = { 0 };

    jout_init(&o);
    r.scope = &top;
    for (void *it = jv_iter(vars); it && r.status == CAG_OK;
         it = jv_next(vars, it)) {
        size_t n;
        const char *k = jv_iter_key(it, &n);
        jdict_set(&r, &r.vars, jval_text(k, n, JS_TEMPLATE),
                  jval_from_json(&r, jv_iter_value(it), false));
    }
    if (r.status == CAG_OK)
        jr_exec(&r, t->root);
    if (r.status == CAG_OK) {
        buf_add(out, o.b.data, o.b.size);
        if (buf_failed(out))
            r.status = cag_fail_nomem(err, "chat template");
    }
    if (r.status == CAG_OK && spans) {
        spans->s = o.span;
        spans->n = o.n_span;
        o.span = NULL;
    }
    jout_free(&o);
    arena_release(&r.mem);
    return r.status;
}

cag_status jinja_render(const struct jinja *t, const jv *vars, int64_t now_s,
                        struct buf *out, cag_error *err)
{
    return jinja_render_spans(t, vars, now_s, out, NULL, err);
}

void jinja_spans_free(struct jinja_spans *s)
{
    mem_free(s->s);
    s->s = NULL;
    s->n = 0;
}
