/*
 * jinja_int.h - inside of the template engine: tokens, tree, values.
 *
 * A template becomes tokens (jinja_lex.c), a tree in one arena
 * (jinja_parse.c, jinja_expr.c), and is walked (jinja_eval.c) with values
 * (jinja_value.c, jinja_str.c) that live in one arena per rendering.
 *
 * Errors are sticky: the first one sets jr.status, later evaluation returns
 * "undefined" quickly, and callers test jr.status where it matters.  So the
 * code reads like the semantics, and memory needs no unwinding.
 *
 * Every string knows where its bytes come from: the template, or the input
 * (message contents).  A string made of both carries spans.  That is how a
 * chat prompt is tokenized so that text can never become a control token.
 *
 * Hostile templates are bounded four ways: size of source and tree, depth
 * of recursion, fuel (work units: nodes visited, bytes and items copied or
 * compared), bytes of memory and output.
 */
#ifndef TEMPLATE_JINJA_INT_H
#define TEMPLATE_JINJA_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "template/jinja.h"
#include "util/arena.h"

#define JINJA_MAX_SOURCE  ((size_t)1 << 20)
#define JINJA_MAX_NODE    400000
#define JINJA_MAX_NESTING 150 /* of blocks and brackets, parsing   */
#define JINJA_MAX_DEPTH   900 /* of evaluation                     */
#define JINJA_MAX_OUTPUT  ((size_t)64 << 20)
#define JINJA_MAX_MEMORY  ((size_t)512 << 20)
#define JINJA_MAX_FUEL    UINT64_C(1000000000)
#define JINJA_MAX_RANGE   100000 /* as jinja2's sandbox               */

/* ------------------------------------------------------------------ tokens */

enum jtok_kind {
    JT_EOF,
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STR,
    JT_INT,
    JT_FLOAT,
    JT_OP
};

/* Operators are their first character, or one of these. */
enum jop {
    JOP_EQ = 256,
    JOP_NE,
    JOP_LE,
    JOP_GE,
    JOP_POW,
    JOP_FLOORDIV,
    JOP_IN,
    JOP_NOT_IN
};

struct jtok {
    uint16_t kind, op;
    int line;
    const char *s; /* DATA, NAME, STR: text in the tree's arena      */
    size_t n;
    union {
        int64_t i;
        double f;
    } u;
};

struct jlex {
    struct jtok *tok; /* [n] heap */
    size_t n, cap;
};

/* ------------------------------------------------------------------ values */

enum jtype {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STR,
    J_LIST,
    J_DICT,
    J_NS,
    J_FUNC,
    J_MACRO,
    J_LOOP
};

enum { JS_TEMPLATE, JS_INPUT, JS_MIXED };    /* jval.flag of a string      */
enum { JL_LIST, JL_TUPLE, JL_VIEW, JL_GEN }; /* jval.flag of a list        */

struct jspans {
    size_t n;
    struct jinja_span s[];
};

struct jval {
    uint8_t type, flag;
    size_t n; /* bytes of a string or undefined's name      */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;
        struct jlist *list;
        struct jdict *dict; /* also J_NS */
        struct jfunc *func;
        struct jmacro *macro;
        struct jloop *loop;
    } u;
    const struct jspans *spans; /* of a JS_MIXED string */
};

struct jlist {
    struct jval *v;
    size_t n, cap;
};
struct jpair {
    struct jval k, v;
};
struct jdict {
    struct jpair *p;
    size_t n, cap;
};

struct jr;
struct jcall { /* evaluated arguments of a call */
    struct jval *pos;
    size_t n_pos;
    struct jpair *kw; /* key: a string */
    size_t n_kw;
};
/* p: the bound parameters, J_UNDEF with u.s NULL where not given */
typedef struct jval jfn(struct jr *r, struct jval self, const struct jval *p,
                        const struct jcall *call);
struct jbuiltin {
    const char *name;
    jfn *fn;
    const char *params; /* "a,b,c"; a leading "!" = required;
                           "*" alone: takes the call as it is */
};
struct jfunc {
    const struct jbuiltin *def;
    struct jval self;
};
struct jmacro {
    const struct jnode *node;
    struct jscope *scope;
    struct jval caller;
    bool has_caller;
};
struct jloop {
    struct jlist *items;
    size_t i;
    struct jval last_changed;
    bool has_changed;
};

struct jscope {
    struct jscope *parent;
    struct jdict vars;
};

/* -------------------------------------------------------------------- tree */

enum jkind {
    /* expressions */
    JX_CONST,
    JX_NAME,
    JX_LIST,
    JX_TUPLE,
    JX_DICT,
    JX_ATTR,
    JX_ITEM,
    JX_SLICE,
    JX_CALL,
    JX_FILTER,
    JX_TEST,
    JX_NOT,
    JX_NEG,
    JX_POS,
    JX_AND,
    JX_OR,
    JX_BINARY,
    JX_CONCAT,
    JX_COMPARE,
    JX_COND,
    /* statements */
    JN_BLOCK,
    JN_DATA,
    JN_PRINT,
    JN_IF,
    JN_FOR,
    JN_SET,
    JN_SET_BLOCK,
    JN_MACRO,
    JN_CALL_BLOCK,
    JN_FILTER_BLOCK,
    JN_WITH,
    JN_SCOPE,
    JN_BREAK,
    JN_CONTINUE
};

enum { JA_POS, JA_KW, JA_STAR, JA_STARSTAR };
struct jarg {
    int kind;
    const char *name; /* JA_KW, macro parameter; NUL-terminated */
    size_t n_name;
    struct jnode *value; /* macro parameter: default or NULL */
};

/*
 * What the fields hold, by kind:
 *   NAME, ATTR, FILTER, TEST, MACRO: name.  ATTR a.name; ITEM a[b];
 *   SLICE a[list[0]:list[1]:list[2]] (NULL where absent); CALL a(arg...);
 *   FILTER a|name(arg...), a NULL in a filter block; TEST a is name(arg...);
 *   BINARY a op b; AND, OR a, b; CONCAT list; COMPARE a then op in list[i]->op;
 *   COND b if a else c; DICT list = k, v, k, v...
 *   BLOCK list; PRINT a; IF list = cond, body, cond, body... [, else in c];
 *   FOR target a in b [if c]: list[0] else list[1]; SET a = b;
 *   SET_BLOCK a, filters b, body c; MACRO arg = parameters, body c;
 *   CALL_BLOCK call a, arg = parameters, body c; FILTER_BLOCK filters a, body
 * c; WITH list = target, value..., body c; SCOPE body c.
 */
struct jnode {
    uint16_t kind, op;
    int line;
    struct jval val;  /* CONST, DATA */
    const char *name; /* NUL-terminated */
    size_t n_name;
    struct jnode *a, *b, *c;
    struct jnode **list;
    size_t n;
    struct jarg *arg;
    size_t n_arg;
};

struct jinja {
    struct arena mem;
    char *label; /* for messages */
    struct jnode *root;
    struct jdict mentions; /* names used as variables; values unused */
};

struct jparse {
    struct jinja *t;
    const struct jtok *tok; /* the current token */
    size_t n_node;
    int depth, loops;
    cag_status status;
    cag_error *err;
};

cag_status jlex_run(struct jinja *t, const char *text, size_t n,
                    struct jlex *out, cag_error *err);
void jlex_free(struct jlex *l);

/* Set the sticky error; only the first one is kept. */
void jp_fail(struct jparse *p, cag_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
struct jnode *jp_node(struct jparse *p, enum jkind kind);
/* Copy the current name into the node and step on. */
void jp_take_name(struct jparse *p, struct jnode *n);
bool jp_is_op(const struct jparse *p, int op);
bool jp_is_name(const struct jparse *p, const char *name);
bool jp_skip_op(struct jparse *p, int op);
bool jp_skip_name(struct jparse *p, const char *name);
void jp_expect_op(struct jparse *p, int op);
void jp_next(struct jparse *p);
/* A growing list of nodes in the arena. */
struct jnodes {
    struct jnode **v;
    size_t n, cap;
};
void jp_push(struct jparse *p, struct jnodes *l, struct jnode *n);
/* v, which is full at *cap items, with room for more; NULL on failure. */
void *jp_grow(struct jparse *p, const void *v, size_t *cap, size_t size);
struct jnode *jp_block(struct jparse *p, struct jnodes *l); /* JN_BLOCK */
bool jp_enter(struct jparse *p);

struct jnode *jp_expr(struct jparse *p, bool with_cond);
/* "a" or "a, b": a tuple where there is a comma */
struct jnode *jp_tuple(struct jparse *p, bool with_cond);
struct jnode *jp_target(struct jparse *p, bool dotted);
struct jnode *jp_filters(struct jparse *p, struct jnode *subject, bool first);
struct jnode *jp_unary(struct jparse *p, bool with_filter);
void jp_args(struct jparse *p, struct jnode *call);
/* n->arg has room for *cap. */
void jp_push_arg(struct jparse *p, struct jnode *n, size_t *cap, struct jarg a);

/* ----------------------------------------------------------------- running */

/* Growing text with the provenance of its bytes; heap. */
struct jout {
    struct buf b;
    struct jinja_span *span;
    size_t n_span, cap_span;
};

struct jr {
    const struct jinja *t;
    struct arena mem;
    size_t used;
    uint64_t fuel;
    int depth, line;
    int64_t now_s;
    struct jout *out;
    struct jscope *scope;
    struct jdict vars;
    cag_status status;
    cag_error *err;
};

struct jval jr_fail(struct jr *r, cag_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
bool jr_burn(struct jr *r, uint64_t n); /* false when out of fuel */
void *jr_alloc(struct jr *r, size_t n, size_t size); /* NULL on failure */
bool jr_enter(struct jr *r);
#define jr_leave(r) ((void)(r)->depth--)

/* jinja_value.c */
struct jval jval_undef(const char *name, size_t n);
struct jval jval_none(void);
struct jval jval_bool(bool b);
struct jval jval_int(int64_t i);
struct jval jval_float(double f);
struct jval jval_static(const char *s); /* a literal of ours */
struct jval jval_text(const char *s, size_t n, int provenance);
struct jval jval_list(struct jr *r, int flag);
struct jval jval_dict(struct jr *r);
bool jlist_push(struct jr *r, struct jlist *l, struct jval v);
bool jdict_set(struct jr *r, struct jdict *d, struct jval k, struct jval v);
const struct jval *jdict_get(struct jr *r, const struct jdict *d,
                             struct jval k);
const struct jval *jdict_find(const struct jdict *d, const char *k, size_t n);
bool jval_truth(const struct jval *v);
bool jval_is_num(const struct jval *v); /* int, float, bool */
double jval_num(const struct jval *v);
bool jval_eq(struct jr *r, const struct jval *a, const struct jval *b);
/* -1, 0, 1; fails for kinds without an order */
int jval_cmp(struct jr *r, const struct jval *a, const struct jval *b);
bool jval_is(const struct jval *v, const char *text); /* a string equal */
const char *jval_type_name(const struct jval *v);
struct jval jval_str(struct jr *r, struct jval v); /* Python str() */
struct jval jval_repr(struct jr *r, struct jval v);
void jval_float_text(double f, char out[40]);
/* Items of anything that can be iterated; NULL after an error. */
struct jlist *jval_iter(struct jr *r, struct jval v);
bool jval_hashable(struct jr *r, const struct jval *v);
struct jval jval_from_json(struct jr *r, const jv *j, bool input);
struct jval jval_json(struct jr *r, struct jval v, const struct jval *indent,
                      const struct jval *seps, bool ascii, bool sort);

/* jinja_str.c: text by characters, spans kept */
void jout_init(struct jout *o);
void jout_free(struct jout *o);
void jout_add(struct jr *r, struct jout *o, struct jval s);
void jout_raw(struct jr *r, struct jout *o, const char *s, size_t n);
struct jval jout_take(struct jr *r, struct jout *o); /* copies, frees */
struct jval jstr_sub(struct jr *r, struct jval s, size_t off, size_t n);
size_t jstr_len(const struct jval *s); /* characters */
struct jval jstr_slice(struct jr *r, struct jval s, int64_t start, int64_t step,
                       int64_t count);
struct jval jstr_concat(struct jr *r, struct jval a, struct jval b);
size_t jspace(const char *s, size_t n); /* bytes of a leading space, 0 */
size_t jspace_back(const char *s, size_t n);
int64_t jstr_find(const struct jval *s, const struct jval *what, size_t from);
struct jval jstr_strip(struct jr *r, struct jval s, const struct jval *chars,
                       bool left, bool right);
struct jval jstr_replace(struct jr *r, struct jval s, struct jval from,
                         struct jval to, int64_t count);
struct jval jstr_headline(struct jr *r, struct jval s);
extern const struct jbuiltin jmethods_str[], jmethods_dict[], jmethods_list[];

/* jinja_format.c */
/* "%s" and relatives; args: a tuple, or one value */
struct jval jstr_format(struct jr *r, struct jval fmt, struct jval args);
/* "{}", "{0}", "{name}" */
struct jval jstr_format_fields(struct jr *r, struct jval self,
                               const struct jcall *c);

/* jinja_eval.c, jinja_ops.c */
struct jval jr_eval(struct jr *r, const struct jnode *n);
struct jval jr_binary(struct jr *r, int op, struct jval a, struct jval b);
bool jr_contains(struct jr *r, const struct jval *item,
                 const struct jval *where);
struct jval jr_getattr(struct jr *r, struct jval v, const char *s, size_t n);
struct jval jr_getitem(struct jr *r, struct jval v, struct jval key);
struct jval jr_slice(struct jr *r, struct jval v, const struct jval part[3]);
struct jval jr_call(struct jr *r, struct jval fn, const struct jcall *c);
struct jval jr_builtin(struct jr *r, const struct jbuiltin *def,
                       struct jval self, const struct jcall *c);
const struct jbuiltin *jbuiltin_find(const struct jbuiltin *table,
                                     const char *name, size_t n);
/* jinja_stmt.c */
enum { JE_NEXT, JE_BREAK, JE_CONTINUE };
int jr_exec(struct jr *r, const struct jnode *n);
struct jval jr_macro(struct jr *r, const struct jmacro *m,
                     const struct jcall *c);

/* tables */
extern const struct jbuiltin jfilters[], jtests[], jglobals[];
struct jval jr_filter(struct jr *r, const char *name, size_t n,
                      struct jval self, const struct jcall *c);
bool jr_test(struct jr *r, const char *name, size_t n, struct jval self,
             const struct jcall *c);
static inline bool jgiven(const struct jval *p)
{
    return p->type != J_UNDEF || p->u.s;
}

#endif
