/*
 * jinja_method.c - methods of strings, dictionaries and lists.
 *
 * Case mapping is one character to one (and sharp s to SS); classes such as
 * isalpha are those of ASCII, and refused for other text rather than wrong.
 */
#include <string.h>

#include "template/jinja_int.h"
#include "util/text.h"

#define FN(name)                                            \
    static struct jval name(struct jr *r, struct jval self, \
                            const struct jval *p, const struct jcall *c)

static bool need_str(struct jr *r, const struct jval *v, const char *what)
{
    if (v->type == J_STR)
        return true;
    jr_fail(r, CAG_E_UNSUPPORTED, "%s: expected a string, found %s", what,
            jval_type_name(v));
    return false;
}

/* ------------------------------------------------------------------- case */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}
static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_alpha(char c)
{
    return is_lower(c) || is_upper(c);
}

/* HEADLINE: the title filter, whose words begin after blanks and -({[< only */
enum { UPPER, LOWER, TITLE, HEADLINE, CAPITALIZE };

static bool is_space_or(uint32_t cp, const char *also)
{
    char c[4];
    size_t n = (size_t)utf8_put(cp, c);
    return jspace(c, n) > 0 || (cp && cp < 0x80 && strchr(also, (int)cp));
}

static struct jval change_case(struct jr *r, struct jval s, int how)
{
    /* a character's other case may be longer: 3 bytes for 2 */
    char *t = jr_alloc(r, 2 * s.n + 4, 1);
    size_t k = 0;
    bool start = true;
    if (!t || !jr_burn(r, 1 + s.n / 16))
        return s;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += (size_t)utf8_decode(s.u.s + i, s.n - i, &cp);
        bool up = how == UPPER || (how >= TITLE && start);
        bool letter = text_lower(cp) != text_upper(cp);
        if (up && cp == 0xDF) {
            t[k++] = 'S';
            t[k++] = how == UPPER ? 'S' : 's';
        } else {
            k += (size_t)utf8_put(up ? text_upper(cp) : text_lower(cp), t + k);
        }
        start = how == TITLE      ? !letter
                : how == HEADLINE ? is_space_or(cp, "-({[<")
                                  : false;
    }
    return jval_text(t, k, s.flag == JS_TEMPLATE ? JS_TEMPLATE : JS_INPUT);
}
FN(s_upper)
{
    (void)p, (void)c;
    return change_case(r, self, UPPER);
}
FN(s_lower)
{
    (void)p, (void)c;
    return change_case(r, self, LOWER);
}
FN(s_title)
{
    (void)p, (void)c;
    return change_case(r, self, TITLE);
}
struct jval jstr_headline(struct jr *r, struct jval s)
{
    return change_case(r, s, HEADLINE);
}
FN(s_capitalize)
{
    (void)p, (void)c;
    return change_case(r, self, CAPITALIZE);
}

/* all characters in the class, and at least one */
static struct jval all(struct jr *r, const struct jval *s, bool (*in)(char),
                       bool (*never)(char))
{
    bool some = false;
    for (size_t i = 0; i < s->n; i++) {
        char ch = s->u.s[i];
        if ((unsigned char)ch >= 0x80)
            return jr_fail(r, CAG_E_UNSUPPORTED,
                           "character classes of non-ASCII text");
        if (never ? never(ch) : !in(ch))
            return jval_bool(false);
        some |= in(ch);
    }
    return jval_bool(some);
}
static bool is_alnum(char ch)
{
    return is_alpha(ch) || is_digit(ch);
}
FN(s_isalpha)
{
    (void)p, (void)c;
    return all(r, &self, is_alpha, NULL);
}
FN(s_isdigit)
{
    (void)p, (void)c;
    return all(r, &self, is_digit, NULL);
}
FN(s_isalnum)
{
    (void)p, (void)c;
    return all(r, &self, is_alnum, NULL);
}
FN(s_islower)
{
    (void)p, (void)c;
    return all(r, &self, is_lower, is_upper);
}
FN(s_isupper)
{
    (void)p, (void)c;
    return all(r, &self, is_upper, is_lower);
}
FN(s_isspace)
{
    (void)p, (void)c;
    struct jval rest = jstr_strip(r, self, NULL, true, true);
    return jval_bool(self.n > 0 && rest.n == 0);
}

/* ------------------------------------------------------- cutting, finding */

static struct jval strip(struct jr *r, struct jval self, const struct jval *p,
                         bool left, bool right)
{
    if (jgiven(p) && p->type != J_NONE && !need_str(r, p, "strip"))
        return self;
    return jstr_strip(r, self, p->type == J_STR ? p : NULL, left, right);
}
FN(s_strip)
{
    (void)c;
    return strip(r, self, p, true, true);
}
FN(s_lstrip)
{
    (void)c;
    return strip(r, self, p, true, false);
}
FN(s_rstrip)
{
    (void)c;
    return strip(r, self, p, false, true);
}

static struct jval split_space(struct jr *r, struct jval s, int64_t max)
{
    struct jval out = jval_list(r, JL_LIST);
    size_t i = 0, k;
    while (r->status == CAG_OK) {
        while (i < s.n && (k = jspace(s.u.s + i, s.n - i)) > 0)
            i += k;
        if (i >= s.n)
            break;
        size_t a = i;
        if (max-- == 0) {
            jlist_push(r, out.u.list, jstr_sub(r, s, a, s.n - a));
            break;
        }
        while (i < s.n && jspace(s.u.s + i, s.n - i) == 0)
            i++;
        jlist_push(r, out.u.list, jstr_sub(r, s, a, i - a));
    }
    return out;
}

static int64_t find_back(const struct jval *s, const struct jval *what,
                         size_t end)
{
    for (size_t i = end >= what->n ? end - what->n + 1 : 0; i-- > 0;)
        if (what->n == 0 || memcmp(s->u.s + i, what->u.s, what->n) == 0)
            return (int64_t)i;
    return -1;
}

static struct jval split_by(struct jr *r, struct jval s, struct jval sep,
                            int64_t max, bool back)
{
    struct jval out = jval_list(r, JL_LIST);
    size_t a = 0, b = s.n;
    if (sep.n == 0)
        return jr_fail(r, CAG_E_UNSUPPORTED, "split: empty separator");
    while (r->status == CAG_OK && max-- != 0) {
        if (!jr_burn(r, 1 + (back ? b : s.n - a) / 64))
            break;
        int64_t p = back ? find_back(&s, &sep, b) : jstr_find(&s, &sep, a);
        if (p < 0)
            break;
        if (back) {
            jlist_push(
                r, out.u.list,
                jstr_sub(r, s, (size_t)p + sep.n, b - (size_t)p - sep.n));
            b = (size_t)p;
        } else {
            jlist_push(r, out.u.list, jstr_sub(r, s, a, (size_t)p - a));
            a = (size_t)p + sep.n;
        }
    }
    if (r->status != CAG_OK)
        return out;
    jlist_push(r, out.u.list, jstr_sub(r, s, a, b - a));
    struct jlist *l = out.u.list;
    for (size_t i = 0; back && i < l->n / 2; i++) {
        struct jval t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    return out;
}

static struct jval split(struct jr *r, struct jval self, const struct jval *p,
                         bool back)
{
    int64_t max = p[1].type == J_INT ? p[1].u.i : -1;
    if (jgiven(&p[0]) && p[0].type != J_NONE)
        return need_str(r, &p[0], "split") ? split_by(r, self, p[0], max, back)
                                           : self;
    if (back && max >= 0)
        return jr_fail(r, CAG_E_UNSUPPORTED,
                       "rsplit: a limit without a separator");
    return split_space(r, self, max);
}
FN(s_split)
{
    (void)c;
    return split(r, self, p, false);
}
FN(s_rsplit)
{
    (void)c;
    return split(r, self, p, true);
}

FN(s_splitlines)
{
    (void)c;
    struct jval out = jval_list(r, JL_LIST);
    bool keep = jgiven(&p[0]) && jval_truth(&p[0]);
    for (size_t i = 0; i < self.n && r->status == CAG_OK;) {
        size_t n = 0, end;
        while (i + n < self.n && self.u.s[i + n] != '\n' &&
               self.u.s[i + n] != '\r')
            n++;
        end = i + n < self.n;
        if (end && self.u.s[i + n] == '\r' && i + n + 1 < self.n &&
            self.u.s[i + n + 1] == '\n')
            end = 2;
        jlist_push(r, out.u.list, jstr_sub(r, self, i, n + (keep ? end : 0)));
        i += n + end;
    }
    return out;
}

static struct jval partition(struct jr *r, struct jval s, struct jval sep,
                             bool back)
{
    struct jval out = jval_list(r, JL_TUPLE), no = jval_static("");
    if (!need_str(r, &sep, "partition"))
        return out;
    if (sep.n == 0)
        return jr_fail(r, CAG_E_UNSUPPORTED, "partition: empty separator");
    int64_t p = back ? find_back(&s, &sep, s.n) : jstr_find(&s, &sep, 0);
    struct jval part[3] = { back ? no : s, no, back ? s : no };
    if (p >= 0) {
        size_t e = (size_t)p + sep.n;
        part[0] = jstr_sub(r, s, 0, (size_t)p);
        part[1] = sep;
        part[2] = jstr_sub(r, s, e, s.n - e);
    }
    for (int i = 0; i < 3 && r->status == CAG_OK; i++)
        jlist_push(r, out.u.list, part[i]);
    return out;
}
FN(s_partition)
{
    (void)c;
    return partition(r, self, p[0], false);
}
FN(s_rpartition)
{
    (void)c;
    return partition(r, self, p[0], true);
}

FN(s_replace)
{
    (void)c;
    if (!need_str(r, &p[0], "replace") || !need_str(r, &p[1], "replace"))
        return self;
    return jstr_replace(r, self, p[0], p[1],
                        p[2].type == J_INT ? p[2].u.i : -1);
}

/* startswith and endswith take a string or a tuple of them */
static struct jval has_end(struct jr *r, struct jval s, struct jval what,
                           bool end)
{
    struct jlist one = { &what, 1, 1 };
    struct jlist *l = what.type == J_LIST ? what.u.list : &one;
    for (size_t i = 0; i < l->n; i++) {
        struct jval *w = &l->v[i];
        if (!need_str(r, w, end ? "endswith" : "startswith"))
            return s;
        if (w->n <= s.n && (w->n == 0 || memcmp(s.u.s + (end ? s.n - w->n : 0),
                                                w->u.s, w->n) == 0))
            return jval_bool(true);
    }
    return jval_bool(false);
}
FN(s_startswith)
{
    (void)c;
    return has_end(r, self, p[0], false);
}
FN(s_endswith)
{
    (void)c;
    return has_end(r, self, p[0], true);
}

static struct jval remove_end(struct jr *r, struct jval s, struct jval what,
                              bool end)
{
    struct jval yes = has_end(r, s, what, end);
    if (r->status != CAG_OK || what.type != J_STR || !yes.u.b)
        return s;
    return jstr_sub(r, s, end ? 0 : what.n, s.n - what.n);
}
FN(s_removeprefix)
{
    (void)c;
    return remove_end(r, self, p[0], false);
}
FN(s_removesuffix)
{
    (void)c;
    return remove_end(r, self, p[0], true);
}

static struct jval position(struct jr *r, struct jval s, struct jval what,
                            bool back)
{
    if (!need_str(r, &what, "find") || !jr_burn(r, 1 + s.n / 16))
        return s;
    int64_t at = back ? find_back(&s, &what, s.n) : jstr_find(&s, &what, 0);
    if (at < 0)
        return jval_int(-1);
    struct jval head = jval_text(s.u.s, (size_t)at, JS_TEMPLATE);
    return jval_int((int64_t)jstr_len(&head));
}
FN(s_find)
{
    (void)c;
    return position(r, self, p[0], false);
}
FN(s_rfind)
{
    (void)c;
    return position(r, self, p[0], true);
}

FN(s_count)
{
    (void)c;
    int64_t n = 0, at = 0;
    if (!need_str(r, &p[0], "count"))
        return self;
    if (p[0].n == 0)
        return jval_int((int64_t)jstr_len(&self) + 1);
    for (; jr_burn(r, 1) && (at = jstr_find(&self, &p[0], (size_t)at)) >= 0;
         at += (int64_t)p[0].n)
        n++;
    return jval_int(n);
}

FN(s_join)
{
    (void)c;
    struct jlist *l = jval_iter(r, p[0]);
    struct jout o;
    jout_init(&o);
    for (size_t i = 0; l && i < l->n && r->status == CAG_OK; i++) {
        if (i)
            jout_add(r, &o, self);
        if (need_str(r, &l->v[i], "join"))
            jout_add(r, &o, l->v[i]);
    }
    return jout_take(r, &o);
}

FN(s_format)
{
    (void)p;
    return jstr_format_fields(r, self, c);
}

/* ------------------------------------------------------ dictionaries, lists */

static struct jval view(struct jr *r, struct jval d, bool keys, bool values)
{
    struct jval l = jval_list(r, JL_VIEW);
    for (size_t i = 0; r->status == CAG_OK && i < d.u.dict->n; i++) {
        const struct jpair *e = &d.u.dict->p[i];
        struct jval v = keys ? e->k : e->v;
        if (keys && values) {
            v = jval_list(r, JL_TUPLE);
            if (r->status == CAG_OK && jlist_push(r, v.u.list, e->k))
                jlist_push(r, v.u.list, e->v);
        }
        jlist_push(r, l.u.list, v);
    }
    return l;
}
FN(d_items)
{
    (void)p, (void)c;
    return view(r, self, true, true);
}
FN(d_keys)
{
    (void)p, (void)c;
    return view(r, self, true, false);
}
FN(d_values)
{
    (void)p, (void)c;
    return view(r, self, false, true);
}
FN(d_get)
{
    (void)c;
    const struct jval *v =
        jval_hashable(r, &p[0]) ? jdict_get(r, self.u.dict, p[0]) : NULL;
    return v ? *v : jgiven(&p[1]) ? p[1] : jval_none();
}
FN(d_copy)
{
    (void)p, (void)c;
    struct jval d = jval_dict(r);
    for (size_t i = 0; r->status == CAG_OK && i < self.u.dict->n; i++)
        jdict_set(r, d.u.dict, self.u.dict->p[i].k, self.u.dict->p[i].v);
    return d;
}

FN(l_index)
{
    (void)c;
    for (size_t i = 0; i < self.u.list->n && r->status == CAG_OK; i++)
        if (jval_eq(r, &self.u.list->v[i], &p[0]))
            return jval_int((int64_t)i);
    return jr_fail(r, CAG_E_UNSUPPORTED, "index: the value is not in the list");
}
FN(l_count)
{
    (void)c;
    int64_t n = 0;
    for (size_t i = 0; i < self.u.list->n && r->status == CAG_OK; i++)
        n += jval_eq(r, &self.u.list->v[i], &p[0]);
    return jval_int(n);
}

const struct jbuiltin jmethods_str[] = {
    { "capitalize", s_capitalize, "" },
    { "count", s_count, "!sub" },
    { "endswith", s_endswith, "!suffix" },
    { "find", s_find, "!sub" },
    { "format", s_format, "*" },
    { "isalnum", s_isalnum, "" },
    { "isalpha", s_isalpha, "" },
    { "isdigit", s_isdigit, "" },
    { "islower", s_islower, "" },
    { "isspace", s_isspace, "" },
    { "isupper", s_isupper, "" },
    { "join", s_join, "!iterable" },
    { "lower", s_lower, "" },
    { "lstrip", s_lstrip, "chars" },
    { "partition", s_partition, "!sep" },
    { "removeprefix", s_removeprefix, "!prefix" },
    { "removesuffix", s_removesuffix, "!suffix" },
    { "replace", s_replace, "!old,!new,count" },
    { "rfind", s_rfind, "!sub" },
    { "rpartition", s_rpartition, "!sep" },
    { "rsplit", s_rsplit, "sep,maxsplit" },
    { "rstrip", s_rstrip, "chars" },
    { "split", s_split, "sep,maxsplit" },
    { "splitlines", s_splitlines, "keepends" },
    { "startswith", s_startswith, "!prefix" },
    { "strip", s_strip, "chars" },
    { "title", s_title, "" },
    { "upper", s_upper, "" },
    { NULL, NULL, NULL },
};

/* no function: the method would change its object */
const struct jbuiltin jmethods_dict[] = {
    { "clear", NULL, "" },
    { "copy", d_copy, "" },
    { "get", d_get, "!key,default" },
    { "items", d_items, "" },
    { "keys", d_keys, "" },
    { "pop", NULL, "" },
    { "popitem", NULL, "" },
    { "setdefault", NULL, "" },
    { "update", NULL, "" },
    { "values", d_values, "" },
    { NULL, NULL, NULL },
};

const struct jbuiltin jmethods_list[] = {
    { "append", NULL, "" },
    { "clear", NULL, "" },
    { "count", l_count, "!value" },
    { "extend", NULL, "" },
    { "index", l_index, "!value" },
    { "insert", NULL, "" },
    { "pop", NULL, "" },
    { "remove", NULL, "" },
    { "reverse", NULL, "" },
    { "sort", NULL, "" },
    { NULL, NULL, NULL },
};
