/*
 * jinja_parse.c - tokens to a tree: statements, and the public compile.
 *
 * Recursive descent, as jinja2's parser.  The first error is kept in
 * p->status; after it nodes are NULL and every loop and look at a token
 * ends at once, so that no function needs an error path of its own.  A tree
 * with an error is thrown away.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "template/jinja_int.h"
#include "util/mem.h"
#include "util/text.h"

void jp_fail(struct jparse *p, cag_status status, const char *fmt, ...)
{
    char msg[400];
    va_list ap;
    if (p->status != CAG_OK)
        return;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    p->status = status;
    if (status == CAG_E_NOMEM)
        cag_fail_nomem(p->err, "chat template");
    else
        cag_fail_at(p->err, status, p->t->label, p->tok->line, 0, "%s", msg);
}

bool jp_enter(struct jparse *p)
{
    if (p->status == CAG_OK && p->depth >= JINJA_MAX_NESTING)
        jp_fail(p, CAG_E_LIMIT, "nested deeper than %d", JINJA_MAX_NESTING);
    if (p->status != CAG_OK)
        return false;
    p->depth++;
    return true;
}

/* NULL after an error. */
struct jnode *jp_node(struct jparse *p, enum jkind kind)
{
    struct jnode *n = NULL;
    if (p->status == CAG_OK && ++p->n_node > JINJA_MAX_NODE)
        jp_fail(p, CAG_E_LIMIT, "more than %d parts", JINJA_MAX_NODE);
    if (p->status == CAG_OK) {
        n = arena_alloc(&p->t->mem, sizeof *n, _Alignof(struct jnode));
        if (!n)
            jp_fail(p, CAG_E_NOMEM, "out of memory");
    }
    if (!n)
        return NULL;
    n->kind = (uint16_t)kind;
    n->line = p->tok->line;
    return n;
}

void jp_next(struct jparse *p)
{
    if (p->tok->kind != JT_EOF)
        p->tok++;
}

void jp_take_name(struct jparse *p, struct jnode *n)
{
    if (p->status != CAG_OK || !n)
        return;
    if (p->tok->kind != JT_NAME) {
        jp_fail(p, CAG_E_FORMAT, "expected a name");
        return;
    }
    n->name = arena_strndup(&p->t->mem, p->tok->s, p->tok->n);
    n->n_name = p->tok->n;
    if (!n->name)
        jp_fail(p, CAG_E_NOMEM, "out of memory");
    jp_next(p);
}

bool jp_is_op(const struct jparse *p, int op)
{
    return p->status == CAG_OK && p->tok->kind == JT_OP && p->tok->op == op;
}

bool jp_is_name(const struct jparse *p, const char *name)
{
    return p->status == CAG_OK && p->tok->kind == JT_NAME &&
           p->tok->n == strlen(name) && memcmp(p->tok->s, name, p->tok->n) == 0;
}

bool jp_skip_op(struct jparse *p, int op)
{
    bool yes = jp_is_op(p, op);
    if (yes)
        jp_next(p);
    return yes;
}

bool jp_skip_name(struct jparse *p, const char *name)
{
    bool yes = jp_is_name(p, name);
    if (yes)
        jp_next(p);
    return yes;
}

void jp_expect_op(struct jparse *p, int op)
{
    if (!jp_skip_op(p, op))
        jp_fail(p, CAG_E_FORMAT, "expected '%s'",
                op == JOP_EQ ? "==" : (char[2]){ (char)op, 0 });
}

void *jp_grow(struct jparse *p, const void *v, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 4;
    void *q = arena_array(&p->t->mem, more, size);
    if (!q) {
        jp_fail(p, CAG_E_NOMEM, "out of memory");
        return NULL;
    }
    if (*cap)
        memcpy(q, v, *cap * size);
    *cap = more;
    return q;
}

void jp_push(struct jparse *p, struct jnodes *l, struct jnode *n)
{
    if (p->status != CAG_OK)
        return;
    if (l->n == l->cap) {
        struct jnode **v = jp_grow(p, l->v, &l->cap, sizeof *v);
        if (!v)
            return;
        l->v = v;
    }
    l->v[l->n++] = n;
}

struct jnode *jp_block(struct jparse *p, struct jnodes *l)
{
    struct jnode *n = jp_node(p, JN_BLOCK);
    if (n) {
        n->list = l->v;
        n->n = l->n;
    }
    return n;
}

static void end_tag(struct jparse *p)
{
    if (p->status == CAG_OK && p->tok->kind != JT_BLOCK_END)
        jp_fail(p, CAG_E_FORMAT, "expected the end of the tag");
    jp_next(p);
}

static struct jnode *statement(struct jparse *p);

/* Statements up to a tag whose name is one of ends (NULL-terminated); the
 * name is the current token afterwards. */
static struct jnode *body(struct jparse *p, const char *const *ends,
                          const char *opened)
{
    struct jnodes l = { 0 };
    /* the end of the opening tag; what follows may begin a line later */
    int line = ends ? p->tok[-1].line : 0;
    if (!jp_enter(p))
        return NULL;
    while (p->status == CAG_OK) {
        if (p->tok->kind == JT_EOF) {
            if (ends)
                jp_fail(p, CAG_E_FORMAT, "{%% %s %%} of line %d has no end tag",
                        opened, line);
            break;
        }
        if (p->tok->kind == JT_DATA) {
            struct jnode *n = jp_node(p, JN_DATA);
            if (n)
                n->val = jval_text(p->tok->s, p->tok->n, JS_TEMPLATE);
            jp_next(p);
            jp_push(p, &l, n);
        } else if (p->tok->kind == JT_VAR_BEGIN) {
            jp_next(p);
            struct jnode *n = jp_node(p, JN_PRINT);
            struct jnode *e = jp_tuple(p, true);
            if (n)
                n->a = e;
            if (p->status == CAG_OK && p->tok->kind != JT_VAR_END)
                jp_fail(p, CAG_E_FORMAT, "expected the end of the expression");
            jp_next(p);
            jp_push(p, &l, n);
        } else {
            jp_next(p); /* JT_BLOCK_BEGIN */
            for (const char *const *e = ends; e && *e; e++)
                if (jp_is_name(p, *e))
                    goto done;
            struct jnode *n = statement(p);
            end_tag(p);
            jp_push(p, &l, n);
        }
    }
done:
    p->depth--;
    return jp_block(p, &l);
}

/* body up to one end tag, which is swallowed */
static struct jnode *simple_body(struct jparse *p, const char *opened,
                                 const char *end)
{
    const char *const ends[] = { end, NULL };
    end_tag(p);
    struct jnode *b = body(p, ends, opened);
    jp_next(p);
    return b;
}

static struct jnode *parse_if(struct jparse *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    static const char *const last[] = { "endif", NULL };
    struct jnode *n = jp_node(p, JN_IF);
    struct jnodes l = { 0 };
    do {
        jp_next(p); /* "if", "elif" */
        jp_push(p, &l, jp_tuple(p, true));
        end_tag(p);
        jp_push(p, &l, body(p, ends, "if"));
    } while (jp_is_name(p, "elif"));
    if (n && jp_skip_name(p, "else")) {
        end_tag(p);
        n->c = body(p, last, "else");
    }
    jp_next(p);
    if (n) {
        n->list = l.v;
        n->n = l.n;
    }
    return n;
}

static struct jnode *parse_for(struct jparse *p)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    struct jnode *n = jp_node(p, JN_FOR);
    struct jnodes l = { 0 };
    struct jnode *cond = NULL, *target, *iter;

    jp_next(p);
    target = jp_target(p, false);
    if (!jp_skip_name(p, "in"))
        jp_fail(p, CAG_E_FORMAT, "expected 'in'");
    iter = jp_tuple(p, false);
    if (jp_skip_name(p, "if"))
        cond = jp_expr(p, true);
    if (jp_is_name(p, "recursive"))
        jp_fail(p, CAG_E_UNSUPPORTED, "recursive loops are not supported");
    end_tag(p);
    p->loops++;
    jp_push(p, &l, body(p, ends, "for"));
    p->loops--;
    if (jp_skip_name(p, "else"))
        jp_push(p, &l, simple_body(p, "else", "endfor"));
    else
        jp_next(p);
    if (n) {
        n->a = target;
        n->b = iter;
        n->c = cond;
        n->list = l.v;
        n->n = l.n;
    }
    return n;
}

static struct jnode *parse_set(struct jparse *p)
{
    jp_next(p);
    struct jnode *target = jp_target(p, true);
    if (jp_skip_op(p, '=')) {
        struct jnode *n = jp_node(p, JN_SET), *e = jp_tuple(p, true);
        if (n) {
            n->a = target;
            n->b = e;
        }
        return n;
    }
    struct jnode *n = jp_node(p, JN_SET_BLOCK);
    struct jnode *f = jp_filters(p, NULL, false);
    struct jnode *b = simple_body(p, "set", "endset");
    if (n) {
        n->a = target;
        n->b = f;
        n->c = b;
    }
    return n;
}

/* "(a, b=1)" of a macro or a call block */
static void parameters(struct jparse *p, struct jnode *n)
{
    size_t cap = 0;
    jp_expect_op(p, '(');
    while (n && p->status == CAG_OK && !jp_is_op(p, ')')) {
        if (n->n_arg > 0)
            jp_expect_op(p, ',');
        if (jp_is_op(p, ')'))
            break;
        struct jnode *name = jp_node(p, JX_NAME);
        jp_take_name(p, name);
        struct jnode *def = jp_skip_op(p, '=') ? jp_expr(p, true) : NULL;
        if (p->status != CAG_OK)
            return;
        jp_push_arg(p, n, &cap,
                    (struct jarg){ JA_KW, name->name, name->n_name, def });
    }
    jp_expect_op(p, ')');
}

static struct jnode *parse_macro(struct jparse *p)
{
    struct jnode *n = jp_node(p, JN_MACRO);
    int loops = p->loops;
    p->loops = 0;
    jp_next(p);
    jp_take_name(p, n);
    parameters(p, n);
    struct jnode *b = simple_body(p, "macro", "endmacro");
    if (n)
        n->c = b;
    p->loops = loops;
    return n;
}

static struct jnode *parse_call(struct jparse *p)
{
    struct jnode *n = jp_node(p, JN_CALL_BLOCK);
    int loops = p->loops;
    p->loops = 0;
    jp_next(p);
    if (jp_is_op(p, '('))
        parameters(p, n);
    struct jnode *e = jp_expr(p, true);
    if (e && e->kind != JX_CALL)
        jp_fail(p, CAG_E_FORMAT, "expected a call");
    struct jnode *b = simple_body(p, "call", "endcall");
    if (n) {
        n->a = e;
        n->c = b;
    }
    p->loops = loops;
    return n;
}

static struct jnode *parse_with(struct jparse *p)
{
    struct jnode *n = jp_node(p, JN_WITH);
    struct jnodes l = { 0 };
    jp_next(p);
    while (p->status == CAG_OK && p->tok->kind != JT_BLOCK_END) {
        if (l.n)
            jp_expect_op(p, ',');
        jp_push(p, &l, jp_target(p, false));
        jp_expect_op(p, '=');
        jp_push(p, &l, jp_expr(p, true));
    }
    struct jnode *b = simple_body(p, "with", "endwith");
    if (n) {
        n->list = l.v;
        n->n = l.n;
        n->c = b;
    }
    return n;
}

static struct jnode *parse_filter_block(struct jparse *p)
{
    struct jnode *n = jp_node(p, JN_FILTER_BLOCK);
    jp_next(p);
    struct jnode *f = jp_filters(p, NULL, true);
    struct jnode *b = simple_body(p, "filter", "endfilter");
    if (n) {
        n->a = f;
        n->c = b;
    }
    return n;
}

/* transformers marks what an assistant wrote; rendering is the body's */
static struct jnode *parse_generation(struct jparse *p)
{
    struct jnode *n = jp_node(p, JN_SCOPE);
    jp_next(p);
    struct jnode *b = simple_body(p, "generation", "endgeneration");
    if (n)
        n->c = b;
    return n;
}

static struct jnode *parse_jump(struct jparse *p)
{
    struct jnode *n =
        jp_node(p, jp_is_name(p, "break") ? JN_BREAK : JN_CONTINUE);
    if (p->status == CAG_OK && p->loops == 0)
        jp_fail(p, CAG_E_FORMAT, "'%.*s' outside of a loop", (int)p->tok->n,
                p->tok->s);
    jp_next(p);
    return n;
}

/* The current token is the tag's name; ends in front of the end mark. */
static struct jnode *statement(struct jparse *p)
{
    static const struct {
        const char *name;
        struct jnode *(*parse)(struct jparse *);
    } tags[] = {
        { "if", parse_if },
        { "for", parse_for },
        { "set", parse_set },
        { "macro", parse_macro },
        { "call", parse_call },
        { "with", parse_with },
        { "filter", parse_filter_block },
        { "generation", parse_generation },
        { "break", parse_jump },
        { "continue", parse_jump },
    };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (jp_is_name(p, tags[i].name))
            return tags[i].parse(p);
    if (p->status == CAG_OK && p->tok->kind != JT_NAME)
        jp_fail(p, CAG_E_FORMAT, "expected the name of a tag");
    else if (p->status == CAG_OK && p->tok->n > 3 &&
             memcmp(p->tok->s, "end", 3) == 0)
        jp_fail(p, CAG_E_FORMAT, "unexpected '%.*s'",
                (int)(p->tok->n > 60 ? 60 : p->tok->n), p->tok->s);
    else
        jp_fail(p, CAG_E_UNSUPPORTED, "tag '%.*s' is not supported",
                p->status == CAG_OK ? (int)(p->tok->n > 60 ? 60 : p->tok->n)
                                    : 0,
                p->tok->s ? p->tok->s : "");
    return NULL;
}

cag_status jinja_compile(const char *text, size_t n, const char *name,
                         struct jinja **out, cag_error *err)
{
    struct jlex lex = { 0 };
    struct jinja *t = NULL;
    cag_status st = CAG_OK;
    size_t bad;

    if (n > JINJA_MAX_SOURCE)
        return cag_fail(err, CAG_E_LIMIT, name, -1,
                        "template of %zu bytes; at most %zu", n,
                        JINJA_MAX_SOURCE);
    if (!utf8_valid(text, n, &bad))
        return cag_fail(err, CAG_E_FORMAT, name, (int64_t)bad,
                        "template is not valid UTF-8");
    t = mem_zalloc(sizeof *t);
    if (!t || !(t->label = mem_strdup(name))) {
        st = cag_fail_nomem(err, "chat template");
        goto out;
    }
    st = jlex_run(t, text, n, &lex, err);
    if (st)
        goto out;
    struct jparse p = { .t = t, .tok = lex.tok, .err = err };
    t->root = body(&p, NULL, "");
    st = p.status;
out:
    jlex_free(&lex);
    if (!st)
        *out = t;
    else
        jinja_free(t);
    return st;
}

bool jinja_mentions(const struct jinja *t, const char *name)
{
    return jdict_find(&t->mentions, name, strlen(name)) != NULL;
}

void jinja_free(struct jinja *t)
{
    if (!t)
        return;
    arena_release(&t->mem);
    mem_free(t->label);
    mem_free(t);
}
