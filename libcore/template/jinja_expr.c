/*
 * jinja_expr.c - expressions of a template, as jinja2's parser reads them.
 *
 *   cond    or ["if" or ["else" cond]]
 *   or      and ("or" and)*          and   not ("and" not)*
 *   not     "not" not | compare
 *   compare sum (("==" "!=" "<" "<=" ">" ">=" "in" "not in") sum)*
 *   sum     concat (("+" "-") concat)*
 *   concat  product ("~" product)*
 *   product power (("*" "/" "//" "%") power)*
 *   power   unary ("**" unary)*
 *   unary   ("-" "+") unary | primary postfix* (filter | test | call)*
 *
 * A unary sign binds tighter than a filter: -1|abs is 1, as in jinja2.
 */
#include <string.h>

#include "template/jinja_int.h"

static struct jnode *binary(struct jparse *p, int kind, int op, struct jnode *a,
                            struct jnode *b)
{
    struct jnode *n = jp_node(p, (enum jkind)kind);
    if (n) {
        n->op = (uint16_t)op;
        n->a = a;
        n->b = b;
    }
    return n;
}

static struct jnode *with_list(struct jnode *n, const struct jnodes *l)
{
    if (n) {
        n->list = l->v;
        n->n = l->n;
    }
    return n;
}

static struct jnode *constant(struct jparse *p, struct jval v)
{
    struct jnode *n = jp_node(p, JX_CONST);
    if (n)
        n->val = v;
    return n;
}

/* Adjacent literals are one string. */
static struct jnode *string(struct jparse *p)
{
    const struct jtok *t = p->tok;
    size_t n = 0, k = 0;
    for (; t->kind == JT_STR; t++)
        n += t->n;
    char *s = arena_alloc(&p->t->mem, n + 1, 1);
    if (!s) {
        jp_fail(p, CAG_E_NOMEM, "out of memory");
        return NULL;
    }
    for (; p->tok->kind == JT_STR; jp_next(p)) {
        if (p->tok->n)
            memcpy(s + k, p->tok->s, p->tok->n);
        k += p->tok->n;
    }
    return constant(p, jval_text(s, n, JS_TEMPLATE));
}

/* Remember that the template reads this variable. */
static void mention(struct jparse *p, const struct jnode *n)
{
    struct jdict *d = &p->t->mentions;
    if (p->status != CAG_OK || jdict_find(d, n->name, n->n_name))
        return;
    if (d->n == d->cap) {
        struct jpair *v = jp_grow(p, d->p, &d->cap, sizeof *v);
        if (!v)
            return;
        d->p = v;
    }
    d->p[d->n++] = (struct jpair){ jval_text(n->name, n->n_name, JS_TEMPLATE),
                                   jval_none() };
}

static struct jnode *name(struct jparse *p)
{
    static const struct {
        const char *s;
        int v;
    } words[] = {
        { "true", 1 },  { "True", 1 },  { "false", 0 },
        { "False", 0 }, { "none", -1 }, { "None", -1 },
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jp_skip_name(p, words[i].s))
            return constant(p, words[i].v < 0 ? jval_none()
                                              : jval_bool(words[i].v));
    struct jnode *n = jp_node(p, JX_NAME);
    jp_take_name(p, n);
    if (n)
        mention(p, n);
    return n;
}

static struct jnode *list(struct jparse *p)
{
    struct jnode *n = jp_node(p, JX_LIST);
    struct jnodes l = { 0 };
    jp_next(p);
    while (p->status == CAG_OK && !jp_is_op(p, ']')) {
        if (l.n)
            jp_expect_op(p, ',');
        if (jp_is_op(p, ']'))
            break;
        jp_push(p, &l, jp_expr(p, true));
    }
    jp_expect_op(p, ']');
    return with_list(n, &l);
}

static struct jnode *dict(struct jparse *p)
{
    struct jnode *n = jp_node(p, JX_DICT);
    struct jnodes l = { 0 };
    jp_next(p);
    while (p->status == CAG_OK && !jp_is_op(p, '}')) {
        if (l.n)
            jp_expect_op(p, ',');
        if (jp_is_op(p, '}'))
            break;
        jp_push(p, &l, jp_expr(p, true));
        jp_expect_op(p, ':');
        jp_push(p, &l, jp_expr(p, true));
    }
    jp_expect_op(p, '}');
    return with_list(n, &l);
}

static bool tuple_ends(const struct jparse *p)
{
    return p->status != CAG_OK || p->tok->kind == JT_VAR_END ||
           p->tok->kind == JT_BLOCK_END || p->tok->kind == JT_EOF ||
           jp_is_op(p, ')') || jp_is_name(p, "recursive") ||
           jp_is_name(p, "in");
}

struct jnode *jp_tuple(struct jparse *p, bool with_cond)
{
    struct jnode *first = NULL;
    struct jnodes l = { 0 };
    bool comma = false;
    while (!tuple_ends(p)) {
        struct jnode *e = jp_expr(p, with_cond);
        if (!first)
            first = e;
        jp_push(p, &l, e);
        if (!jp_skip_op(p, ','))
            break;
        comma = true;
    }
    if (!comma && first)
        return first;
    if (l.n == 0)
        jp_fail(p, CAG_E_FORMAT, "expected an expression");
    return with_list(jp_node(p, JX_TUPLE), &l);
}

static struct jnode *parentheses(struct jparse *p)
{
    struct jnode *n;
    jp_next(p);
    if (jp_is_op(p, ')'))
        n = jp_node(p, JX_TUPLE);
    else
        n = jp_tuple(p, true);
    jp_expect_op(p, ')');
    return n;
}

static struct jnode *primary(struct jparse *p)
{
    struct jnode *n = NULL;
    if (p->status != CAG_OK)
        return NULL;
    switch (p->tok->kind) {
    case JT_NAME:
        return name(p);
    case JT_STR:
        return string(p);
    case JT_INT:
        n = constant(p, jval_int(p->tok->u.i));
        jp_next(p);
        return n;
    case JT_FLOAT:
        n = constant(p, jval_float(p->tok->u.f));
        jp_next(p);
        return n;
    case JT_OP:
        if (p->tok->op == '(')
            return parentheses(p);
        if (p->tok->op == '[')
            return list(p);
        if (p->tok->op == '{')
            return dict(p);
        break;
    default:
        break;
    }
    jp_fail(p, CAG_E_FORMAT, "expected an expression");
    return NULL;
}

/* "[...]" after a: an item or a slice */
static struct jnode *subscript(struct jparse *p, struct jnode *a)
{
    struct jnodes part = { 0 };
    struct jnode *cur = NULL;
    bool slice = false;
    jp_next(p);
    while (p->status == CAG_OK && !jp_is_op(p, ']')) {
        if (jp_skip_op(p, ':')) {
            jp_push(p, &part, cur);
            cur = NULL;
            slice = true;
        } else if (!cur) {
            cur = jp_expr(p, true);
        } else {
            jp_fail(p, CAG_E_FORMAT, "expected ']'");
        }
    }
    jp_expect_op(p, ']');
    if (!slice) {
        if (!cur)
            jp_fail(p, CAG_E_FORMAT, "expected an expression");
        return binary(p, JX_ITEM, 0, a, cur);
    }
    jp_push(p, &part, cur);
    if (part.n > 3)
        jp_fail(p, CAG_E_FORMAT, "slice of more than three parts");
    while (p->status == CAG_OK && part.n < 3)
        jp_push(p, &part, NULL);
    struct jnode *n = jp_node(p, JX_SLICE);
    if (n)
        n->a = a;
    return with_list(n, &part);
}

void jp_push_arg(struct jparse *p, struct jnode *n, size_t *cap, struct jarg a)
{
    if (p->status != CAG_OK)
        return;
    if (n->n_arg == *cap) {
        struct jarg *v = jp_grow(p, n->arg, cap, sizeof *v);
        if (!v)
            return;
        n->arg = v;
    }
    n->arg[n->n_arg++] = a;
}

void jp_args(struct jparse *p, struct jnode *n)
{
    size_t cap = n ? n->n_arg : 0;
    bool first = true, named = false;
    jp_expect_op(p, '(');
    while (n && p->status == CAG_OK && !jp_is_op(p, ')')) {
        if (!first)
            jp_expect_op(p, ',');
        if (jp_is_op(p, ')'))
            break;
        first = false;
        struct jarg a = { 0 };
        if (jp_skip_op(p, JOP_POW)) {
            a.kind = JA_STARSTAR;
        } else if (jp_skip_op(p, '*')) {
            a.kind = JA_STAR;
        } else if (p->tok->kind == JT_NAME && p->tok[1].kind == JT_OP &&
                   p->tok[1].op == '=') {
            struct jnode *k = jp_node(p, JX_NAME);
            jp_take_name(p, k);
            jp_next(p);
            if (p->status != CAG_OK)
                return;
            a.kind = JA_KW;
            a.name = k->name;
            a.n_name = k->n_name;
        }
        named |= a.kind == JA_KW || a.kind == JA_STARSTAR;
        if (named && (a.kind == JA_POS || a.kind == JA_STAR))
            jp_fail(p, CAG_E_FORMAT, "positional argument behind a named one");
        a.value = jp_expr(p, true);
        jp_push_arg(p, n, &cap, a);
    }
    jp_expect_op(p, ')');
}

static struct jnode *call(struct jparse *p, struct jnode *a)
{
    struct jnode *n = jp_node(p, JX_CALL);
    if (n)
        n->a = a;
    jp_args(p, n);
    return n;
}

static struct jnode *postfix(struct jparse *p, struct jnode *a)
{
    while (p->status == CAG_OK) {
        if (jp_is_op(p, '[')) {
            a = subscript(p, a);
        } else if (jp_is_op(p, '(')) {
            a = call(p, a);
        } else if (jp_skip_op(p, '.')) {
            if (p->tok->kind == JT_INT) {
                a = binary(p, JX_ITEM, 0, a, primary(p));
            } else {
                struct jnode *n = jp_node(p, JX_ATTR);
                jp_take_name(p, n);
                if (n)
                    n->a = a;
                a = n;
            }
        } else {
            break;
        }
    }
    return a;
}

struct jnode *jp_filters(struct jparse *p, struct jnode *subject, bool first)
{
    struct jnode *a = subject;
    while (first || jp_skip_op(p, '|')) {
        struct jnode *n = jp_node(p, JX_FILTER);
        first = false;
        jp_take_name(p, n);
        if (jp_is_op(p, '('))
            jp_args(p, n);
        if (!n)
            return NULL;
        n->a = a;
        a = n;
    }
    return a;
}

static struct jnode *test(struct jparse *p, struct jnode *a)
{
    struct jnode *n, *neg = NULL;
    jp_next(p); /* "is" */
    if (jp_skip_name(p, "not"))
        neg = jp_node(p, JX_NOT);
    n = jp_node(p, JX_TEST);
    jp_take_name(p, n);
    if (!n)
        return NULL;
    n->a = a;
    if (jp_is_op(p, '(')) {
        jp_args(p, n);
    } else if (p->tok->kind == JT_STR || p->tok->kind == JT_INT ||
               p->tok->kind == JT_FLOAT || jp_is_op(p, '[') ||
               jp_is_op(p, '{') ||
               (p->tok->kind == JT_NAME && !jp_is_name(p, "else") &&
                !jp_is_name(p, "or") && !jp_is_name(p, "and"))) {
        if (jp_is_name(p, "is"))
            jp_fail(p, CAG_E_FORMAT, "tests cannot be chained with 'is'");
        size_t cap = 0;
        jp_push_arg(p, n, &cap,
                    (struct jarg){ JA_POS, NULL, 0, postfix(p, primary(p)) });
    }
    if (!neg)
        return n;
    neg->a = n;
    return neg;
}

struct jnode *jp_unary(struct jparse *p, bool with_filter)
{
    struct jnode *n;
    if (!jp_enter(p))
        return NULL;
    if (jp_is_op(p, '-') || jp_is_op(p, '+')) {
        n = jp_node(p, jp_is_op(p, '-') ? JX_NEG : JX_POS);
        jp_next(p);
        struct jnode *a = jp_unary(p, false);
        if (n)
            n->a = a;
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    while (with_filter && p->status == CAG_OK) {
        if (jp_is_op(p, '|'))
            n = jp_filters(p, n, false);
        else if (jp_is_name(p, "is"))
            n = test(p, n);
        else if (jp_is_op(p, '('))
            n = call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}

static struct jnode *power(struct jparse *p)
{
    struct jnode *a = jp_unary(p, true);
    while (jp_skip_op(p, JOP_POW))
        a = binary(p, JX_BINARY, JOP_POW, a, jp_unary(p, true));
    return a;
}

static struct jnode *product(struct jparse *p)
{
    struct jnode *a = power(p);
    while (jp_is_op(p, '*') || jp_is_op(p, '/') || jp_is_op(p, '%') ||
           jp_is_op(p, JOP_FLOORDIV)) {
        int op = p->tok->op;
        jp_next(p);
        a = binary(p, JX_BINARY, op, a, power(p));
    }
    return a;
}

static struct jnode *concat(struct jparse *p)
{
    struct jnode *a = product(p);
    if (!jp_is_op(p, '~'))
        return a;
    struct jnodes l = { 0 };
    jp_push(p, &l, a);
    while (jp_skip_op(p, '~'))
        jp_push(p, &l, product(p));
    return with_list(jp_node(p, JX_CONCAT), &l);
}

static struct jnode *sum(struct jparse *p)
{
    struct jnode *a = concat(p);
    while (jp_is_op(p, '+') || jp_is_op(p, '-')) {
        int op = p->tok->op;
        jp_next(p);
        a = binary(p, JX_BINARY, op, a, concat(p));
    }
    return a;
}

/* The comparison at hand, swallowed; 0 if none. */
static int comparison(struct jparse *p)
{
    static const int ops[] = { JOP_EQ, JOP_NE, JOP_LE, JOP_GE, '<', '>' };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (jp_skip_op(p, ops[i]))
            return ops[i];
    if (jp_skip_name(p, "in"))
        return JOP_IN;
    if (jp_is_name(p, "not") && p->tok[1].kind == JT_NAME && p->tok[1].n == 2 &&
        memcmp(p->tok[1].s, "in", 2) == 0) {
        jp_next(p);
        jp_next(p);
        return JOP_NOT_IN;
    }
    return 0;
}

static struct jnode *compare(struct jparse *p)
{
    struct jnode *a = sum(p);
    struct jnodes l = { 0 };
    int op;
    while ((op = comparison(p)) != 0)
        jp_push(p, &l, binary(p, JX_COMPARE, op, sum(p), NULL));
    if (l.n == 0)
        return a;
    return with_list(binary(p, JX_COMPARE, 0, a, NULL), &l);
}

static struct jnode *negation(struct jparse *p)
{
    if (!jp_is_name(p, "not"))
        return compare(p);
    if (!jp_enter(p))
        return NULL;
    jp_next(p);
    struct jnode *n = binary(p, JX_NOT, 0, negation(p), NULL);
    p->depth--;
    return n;
}

static struct jnode *conjunction(struct jparse *p)
{
    struct jnode *a = negation(p);
    while (jp_skip_name(p, "and"))
        a = binary(p, JX_AND, 0, a, negation(p));
    return a;
}

static struct jnode *disjunction(struct jparse *p)
{
    struct jnode *a = conjunction(p);
    while (jp_skip_name(p, "or"))
        a = binary(p, JX_OR, 0, a, conjunction(p));
    return a;
}

struct jnode *jp_expr(struct jparse *p, bool with_cond)
{
    if (!jp_enter(p))
        return NULL;
    struct jnode *a = disjunction(p);
    while (with_cond && jp_skip_name(p, "if")) {
        struct jnode *n = binary(p, JX_COND, 0, disjunction(p), a);
        if (n && jp_skip_name(p, "else"))
            n->c = jp_expr(p, true);
        a = n;
    }
    p->depth--;
    return a;
}

/* "a", "a, b", "(a, b)", and with dotted "a.b" */
struct jnode *jp_target(struct jparse *p, bool dotted)
{
    struct jnodes l = { 0 };
    struct jnode *n = NULL;
    bool comma = false;
    if (!jp_enter(p))
        return NULL;
    do {
        if (l.n && (tuple_ends(p) || jp_is_op(p, '=')))
            break;
        if (jp_skip_op(p, '(')) {
            n = jp_target(p, false);
            jp_expect_op(p, ')');
        } else {
            n = jp_node(p, JX_NAME);
            jp_take_name(p, n);
            if (dotted && l.n == 0 && jp_skip_op(p, '.')) {
                struct jnode *attr = jp_node(p, JX_ATTR);
                jp_take_name(p, attr);
                if (attr)
                    attr->a = n;
                p->depth--;
                return attr;
            }
        }
        jp_push(p, &l, n);
    } while (jp_skip_op(p, ',') && (comma = true));
    p->depth--;
    if (!comma)
        return n;
    return with_list(jp_node(p, JX_TUPLE), &l);
}
