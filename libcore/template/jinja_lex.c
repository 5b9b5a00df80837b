/*
 * jinja_lex.c - template source to tokens.
 *
 * The white space rules are where renderers differ, and one wrong newline
 * changes every token after it.  They are, in jinja2's order:
 *   - line ends become \n; one newline at the end of the source is dropped
 *   - "{%-", "{{-", "{#-" strip all white space before; "-%}" ... after
 *   - lstrip_blocks: blanks from the line's start to "{%" or "{#" go,
 *     unless written "{%+"; "{{" keeps them
 *   - trim_blocks: one newline after "%}" or "#}" goes, unless "+%}"
 * "line start" also holds directly after a tag that swallowed a newline.
 */
#include <stdlib.h>
#include <string.h>

#include "template/jinja_int.h"
#include "util/mem.h"
#include "util/text.h"

struct lx {
    struct jinja *t;
    struct jlex *out;
    const char *s;
    size_t n, pos;
    size_t line_pos; /* line holds the lines before this */
    int line;
    bool line_starting;
    cag_error *err;
};

static cag_status fail(struct lx *x, cag_status st, const char *what)
{
    return cag_fail_at(x->err, st, x->t->label, x->line, 0, "%s", what);
}

static void count_lines(struct lx *x)
{
    for (; x->line_pos < x->pos; x->line_pos++)
        if (x->s[x->line_pos] == '\n')
            x->line++;
}

static cag_status push(struct lx *x, struct jtok t)
{
    struct jlex *l = x->out;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256, size;
        if (!mem_mul(&size, cap, sizeof *l->tok))
            return cag_fail_nomem(x->err, "template tokens");
        struct jtok *p = mem_realloc(l->tok, size);
        if (!p)
            return cag_fail_nomem(x->err, "template tokens");
        l->tok = p;
        l->cap = cap;
    }
    t.line = x->line;
    l->tok[l->n++] = t;
    return CAG_OK;
}

static bool at(const struct lx *x, size_t pos, const char *what)
{
    size_t n = strlen(what);
    return n <= x->n - pos && memcmp(x->s + pos, what, n) == 0;
}

static size_t skip_space(const struct lx *x, size_t pos)
{
    size_t k;
    while (pos < x->n && (k = jspace(x->s + pos, x->n - pos)) > 0)
        pos += k;
    return pos;
}

/* Match an end mark ("%}", "}}", "#}") with its sign at pos; the length
 * with the white space it swallows, 0 if there is none. */
static size_t end_mark(struct lx *x, size_t pos, const char *mark, bool trim)
{
    size_t p;
    if (pos < x->n && x->s[pos] == '-' && at(x, pos + 1, mark))
        p = skip_space(x, pos + 3);
    else if (trim && pos < x->n && x->s[pos] == '+' && at(x, pos + 1, mark))
        p = pos + 3;
    else if (at(x, pos, mark)) {
        p = pos + 2;
        if (trim && p < x->n && x->s[p] == '\n')
            p++;
    } else
        return 0;
    x->line_starting = x->s[p - 1] == '\n';
    return p - pos;
}

/* A name tag such as "{%- raw -%}" at pos: its length, or 0. */
static size_t raw_tag(struct lx *x, size_t pos, const char *word, bool end)
{
    size_t p = pos + 2;
    if (!at(x, pos, "{%"))
        return 0;
    if (p < x->n && (x->s[p] == '-' || x->s[p] == '+'))
        p++;
    p = skip_space(x, p);
    if (!at(x, p, word))
        return 0;
    p = skip_space(x, p + strlen(word));
    bool keep = x->line_starting;
    size_t k = end_mark(x, p, "%}", end);
    if (!k)
        x->line_starting = keep;
    return k ? p + k - pos : 0;
}

/* Emit source text [pos, end), stripped as the tag at end asks. */
static cag_status data(struct lx *x, size_t end, bool is_var)
{
    const char *s = x->s + x->pos;
    size_t n = end - x->pos;
    char sign = end + 2 < x->n ? x->s[end + 2] : 0;

    if (end < x->n && sign == '-') {
        size_t k;
        while (n > 0 && (k = jspace_back(s, n)) > 0)
            n -= k;
    } else if (end < x->n && sign != '+' && !is_var) {
        size_t l = n, p;
        while (l > 0 && s[l - 1] != '\n')
            l--;
        if (l > 0 || x->line_starting) {
            size_t k;
            for (p = l; p < n && (k = jspace(s + p, n - p)) > 0;)
                p += k;
            if (p == n)
                n = l;
        }
    }
    if (n == 0)
        return CAG_OK;
    count_lines(x);
    return push(x, (struct jtok){ .kind = JT_DATA, .s = s, .n = n });
}

/* ------------------------------------------------------------ inside a tag */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_name(char c)
{
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static cag_status number(struct lx *x)
{
    const char *s = x->s;
    size_t p = x->pos, k = 0;
    bool real = false;
    char text[64];
    int base = 10;
    struct jtok t = { .kind = JT_INT, .n = 0 };

    if (s[p] == '0' && p + 1 < x->n && strchr("xXoObB", s[p + 1])) {
        base = (s[p + 1] | 32) == 'x' ? 16 : (s[p + 1] | 32) == 'o' ? 8 : 2;
        p += 2;
    }
    for (; p < x->n; p++) {
        char c = s[p];
        if (c == '_')
            continue;
        if (base == 10 && c == '.' && !real && p + 1 < x->n &&
            is_digit(s[p + 1]))
            real = true;
        else if (base == 10 && (c == 'e' || c == 'E') && p + 1 < x->n &&
                 (is_digit(s[p + 1]) ||
                  (p + 2 < x->n && (s[p + 1] == '+' || s[p + 1] == '-') &&
                   is_digit(s[p + 2])))) {
            real = true;
            if (k < sizeof text - 2)
                text[k++] = c;
            c = s[++p];
        } else if (!(base == 16 ? is_name(c) && (unsigned char)c < 0x80
                                : is_digit(c)))
            break;
        if (k >= sizeof text - 2)
            return fail(x, CAG_E_UNSUPPORTED, "number with too many digits");
        text[k++] = c;
    }
    text[k] = 0;
    char *end = text;
    if (real) {
        t.kind = JT_FLOAT;
        t.u.f = strtod(text, &end);
    } else {
        unsigned long long v = strtoull(text, &end, base);
        if (v > INT64_MAX)
            return fail(x, CAG_E_UNSUPPORTED, "integer above 2^63 - 1");
        t.u.i = (int64_t)v;
    }
    if (k == 0 || *end)
        return fail(x, CAG_E_FORMAT, "bad number");
    x->pos = p;
    return push(x, t);
}

static int hex(const char *s, size_t n, uint32_t *v)
{
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i], l = (char)(c | 32);
        if (is_digit(c))
            *v = *v * 16 + (uint32_t)(c - '0');
        else if (l >= 'a' && l <= 'f')
            *v = *v * 16 + (uint32_t)(l - 'a' + 10);
        else
            return 0;
    }
    return 1;
}

/* One escape after a backslash at s[0]; bytes used, 0 if bad. */
static size_t escape(const char *s, size_t n, char *out, size_t *n_out)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    uint32_t cp;
    *n_out = 0;
    if (s[0] == '\n')
        return 1;
    for (size_t i = 0; plain[i]; i += 2)
        if (plain[i] == s[0]) {
            out[(*n_out)++] = plain[i + 1];
            return 1;
        }
    if (s[0] >= '0' && s[0] <= '7') {
        size_t k = 0;
        for (cp = 0; k < 3 && k < n && s[k] >= '0' && s[k] <= '7'; k++)
            cp = cp * 8 + (uint32_t)(s[k] - '0');
        *n_out = (size_t)utf8_put(cp, out);
        return k;
    }
    size_t w = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : s[0] == 'U' ? 8 : 0;
    if (w) {
        if (n < 1 + w || !hex(s + 1, w, &cp) || cp > 0x10FFFF ||
            (cp >= 0xD800 && cp < 0xE000))
            return 0;
        *n_out = (size_t)utf8_put(cp, out);
        return 1 + w;
    }
    if (s[0] == 'N')
        return 0;
    out[(*n_out)++] = '\\'; /* Python keeps an unknown escape */
    return (size_t)-1;      /* and the character: the caller goes on */
}

static cag_status string(struct lx *x)
{
    char quote = x->s[x->pos];
    size_t p = x->pos + 1, k = 0;
    while (p < x->n && x->s[p] != quote)
        p += x->s[p] == '\\' ? 2 : 1;
    if (p >= x->n)
        return fail(x, CAG_E_FORMAT, "string without an end");
    size_t n = p - x->pos - 1;
    /* the longest growth is none: an escape is never shorter than its text,
     * but \ddd of two letters may give two bytes: 2n is safe */
    char *text = arena_alloc(&x->t->mem, 2 * n + 5, 1);
    if (!text)
        return cag_fail_nomem(x->err, "template string");
    const char *s = x->s + x->pos + 1;
    for (size_t i = 0; i < n;) {
        if (s[i] != '\\') {
            text[k++] = s[i++];
            continue;
        }
        size_t got, used = escape(s + i + 1, n - i - 1, text + k, &got);
        if (!used)
            return fail(x, CAG_E_FORMAT, "bad escape in a string");
        k += got;
        i += used == (size_t)-1 ? 1 : 1 + used;
    }
    x->pos = p + 1;
    return push(x, (struct jtok){ .kind = JT_STR, .s = text, .n = k });
}

static cag_status operator(struct lx *x, int *balance)
{
    static const struct {
        char s[3];
        int op;
    } two[] = {
        { "==", JOP_EQ }, { "!=", JOP_NE },  { "<=", JOP_LE },
        { ">=", JOP_GE }, { "**", JOP_POW }, { "//", JOP_FLOORDIV },
    };
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (at(x, x->pos, two[i].s)) {
            x->pos += 2;
            return push(
                x, (struct jtok){ .kind = JT_OP, .op = (uint16_t)two[i].op });
        }
    char c = x->s[x->pos];
    if (!c || !strchr("+-/*%~[](){}<>=.:|,;", c)) {
        char msg[64] = "unexpected character ' ' in a tag";
        msg[22] = c >= ' ' && c < 127 ? c : '?';
        return fail(x, CAG_E_FORMAT, msg);
    }
    *balance +=
        (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (*balance < 0)
        return fail(x, CAG_E_FORMAT, "closing bracket without an opening one");
    x->pos++;
    return push(x, (struct jtok){ .kind = JT_OP, .op = (uint16_t)c });
}

static cag_status tag(struct lx *x, bool is_var)
{
    const char *mark = is_var ? "}}" : "%}";
    int balance = 0;
    cag_status st = CAG_OK;

    count_lines(x);
    st = push(x,
              (struct jtok){ .kind = is_var ? JT_VAR_BEGIN : JT_BLOCK_BEGIN });
    x->pos += 2;
    if (x->pos < x->n && (x->s[x->pos] == '-' || x->s[x->pos] == '+'))
        x->pos++;
    while (!st) {
        x->pos = skip_space(x, x->pos);
        count_lines(x);
        if (x->pos >= x->n)
            return fail(x, CAG_E_FORMAT, "tag without an end");
        size_t k = balance ? 0 : end_mark(x, x->pos, mark, !is_var);
        char c = x->s[x->pos];
        if (k) {
            st = push(
                x, (struct jtok){ .kind = is_var ? JT_VAR_END : JT_BLOCK_END });
            x->pos += k;
            return st;
        }
        if (is_digit(c)) {
            st = number(x);
        } else if (is_name(c)) {
            size_t p = x->pos;
            while (p < x->n && is_name(x->s[p]))
                p++;
            struct jtok t = { .kind = JT_NAME,
                              .s = x->s + x->pos,
                              .n = p - x->pos };
            st = push(x, t);
            x->pos = p;
        } else if (c == '\'' || c == '"') {
            st = string(x);
        } else {
            st = operator(x, &balance);
        }
    }
    return st;
}

static cag_status comment(struct lx *x)
{
    count_lines(x);
    size_t p = x->pos + 2;
    if (p < x->n && (x->s[p] == '-' || x->s[p] == '+'))
        p++;
    for (; p < x->n; p++) {
        size_t k;
        if ((x->s[p] == '#' || x->s[p] == '-' || x->s[p] == '+') &&
            (k = end_mark(x, p, "#}", true)) > 0) {
            x->pos = p + k;
            return CAG_OK;
        }
    }
    return fail(x, CAG_E_FORMAT, "comment without an end");
}

static cag_status raw(struct lx *x, size_t tag_size)
{
    count_lines(x);
    bool starting = x->line_starting;
    x->pos += tag_size;
    for (size_t p = x->pos; p < x->n; p++) {
        size_t k;
        if (x->s[p] != '{' || (k = raw_tag(x, p, "endraw", true)) == 0)
            continue;
        bool after = x->line_starting;
        x->line_starting = starting;
        cag_status st = data(x, p, false);
        x->line_starting = after;
        x->pos = p + k;
        return st;
    }
    return fail(x, CAG_E_FORMAT, "raw block without {% endraw %}");
}

static char *normalise(struct jinja *t, const char *text, size_t n, size_t *out)
{
    char *s = arena_alloc(&t->mem, n + 1, 1);
    size_t k = 0;
    if (!s)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r') {
            s[k++] = '\n';
            if (i + 1 < n && text[i + 1] == '\n')
                i++;
        } else {
            s[k++] = text[i];
        }
    }
    if (k > 0 && s[k - 1] == '\n')
        k--;
    *out = k;
    return s;
}

cag_status jlex_run(struct jinja *t, const char *text, size_t n,
                    struct jlex *out, cag_error *err)
{
    struct lx x = {
        .t = t, .out = out, .line = 1, .line_starting = true, .err = err
    };
    cag_status st = CAG_OK;

    x.s = normalise(t, text, n, &x.n);
    if (!x.s)
        return cag_fail_nomem(err, "chat template");
    while (!st && x.pos < x.n) {
        size_t k = x.pos, tag_size = 0;
        while (k < x.n && !(x.s[k] == '{' && k + 1 < x.n &&
                            strchr("%{#", x.s[k + 1]) && x.s[k + 1]))
            k++;
        bool is_var = k < x.n && x.s[k + 1] == '{';
        st = data(&x, k, is_var);
        if (st || k >= x.n) {
            x.pos = x.n;
            break;
        }
        x.pos = k;
        x.line_starting = false;
        if (x.s[k + 1] == '#')
            st = comment(&x);
        else if (!is_var && (tag_size = raw_tag(&x, k, "raw", false)) > 0)
            st = raw(&x, tag_size);
        else
            st = tag(&x, is_var);
    }
    if (!st) {
        count_lines(&x);
        st = push(&x, (struct jtok){ .kind = JT_EOF });
    }
    return st;
}

void jlex_free(struct jlex *l)
{
    mem_free(l->tok);
    l->tok = NULL;
    l->n = l->cap = 0;
}
