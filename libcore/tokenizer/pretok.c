/*
 * pretok.c - the pre-tokenizer's patterns; the only file with pcre2.h.
 *
 * tokenizer.json patterns are written for Oniguruma.  Where PCRE2 spells
 * the same thing otherwise the pattern is rewritten, and what is not known
 * to mean the same in both is refused, never guessed at:
 *
 *   \s \S   become the 25 code points of White_Space: under UCP, PCRE2
 *           also takes U+180E for a space
 *   \d \w   become explicit properties (\w differs in marks)
 *   ^ $ \b \h (* nested classes, && ...   are refused
 *
 * A pattern is outside input.  Machine code (JIT) is made only for those
 * on the list below; all others are interpreted, with limits on matches,
 * depth and heap.  The JIT works in 32 KiB of stack and gives up on
 * PCRE2_ERROR_JIT_STACKLIMIT: that is no "no match", the interpreter, whose
 * memory is on the heap, is asked again.  So stack use never depends on the
 * text.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretok.h"

#include <ctype.h>
#include <pcre2.h>
#include <string.h>

#include "util/buf.h"
#include "util/mem.h"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char PRETOK_GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";
const char PRETOK_LLAMA3[] =
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL;
const char PRETOK_QWEN2[] = CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                                        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL;
const char PRETOK_QWEN35[] =
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TAIL;
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
const char PRETOK_GPT4O[] =
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTION "?|"
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTION "?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL;
const char PRETOK_TEKKEN[] = "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|"
                             "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*|"
                             "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL;
const char PRETOK_DIGIT[] = "\\p{N}";
const char PRETOK_DIGITS[] = "\\p{N}+";

static const char *const trusted[] = { PRETOK_GPT2,  PRETOK_LLAMA3,
                                       PRETOK_QWEN2, PRETOK_QWEN35,
                                       PRETOK_GPT4O, PRETOK_TEKKEN,
                                       PRETOK_DIGIT, PRETOK_DIGITS };

#define WHITE_SPACE                                                        \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
    "\\x{202f}\\x{205f}\\x{3000}"
#define WORD "\\p{L}\\p{M}\\p{N}\\p{Pc}"

/*
 * Limits of an interpreted pattern.  The heap bound is per match.  A match is
 * tried with few steps first, then with more and more; tries that were in vain
 * are charged to the text, which may cost TEXT_STEPS a byte and MATCH_LIMIT
 * once, so that a pattern which takes a second for each word is given up.
 */
#define MATCH_LIMIT    20000000u
#define FIRST_STEPS    4096u
#define MORE_STEPS     4u
#define TEXT_STEPS     1000u
#define DEPTH_LIMIT    2000000u
#define HEAP_LIMIT_KIB (256u * 1024u)

struct step {
    int kind;
    bool jit;
    pcre2_code *code;
};

struct pretok {
    pcre2_general_context *memory;
    size_t n;
    struct step step[PRETOK_MAX_STEP];
};

struct pretok_run {
    const struct pretok *p;
    pcre2_match_context *limits;
    uint64_t left; /* steps that tries in vain may still cost */
    pcre2_match_data *match;
    pretok_fn *fn;
    void *ctx;
};

static void *pcre_alloc(PCRE2_SIZE n, void *ctx)
{
    (void)ctx;
    return mem_alloc(n);
}

static void pcre_free(void *p, void *ctx)
{
    (void)ctx;
    mem_free(p);
}

/* ---- pattern translation ----------------------------------------------- */

struct rewrite {
    const char *p;
    size_t n, i;
    const char *file;
    struct buf *out;
    bool in_class;
    cag_error *err;
};

static cag_status refuse(const struct rewrite *w, const char *what)
{
    return cag_fail(w->err, CAG_E_UNSUPPORTED, w->file, -1,
                    "pre-tokenizer pattern: %s at byte %zu is not supported",
                    what, w->i);
}

/* A set: its members inside a class, a class of its own outside. */
static void put_set(struct rewrite *w, const char *members, bool negated)
{
    if (!w->in_class)
        buf_str(w->out, negated ? "[^" : "[");
    buf_str(w->out, members);
    if (!w->in_class)
        buf_char(w->out, ']');
    w->i += 2;
}

static cag_status copy_braced(struct rewrite *w, const char *what)
{
    size_t end = w->i + 3;
    if (w->i + 2 >= w->n || w->p[w->i + 2] != '{')
        return refuse(w, what);
    while (end < w->n && w->p[end] != '}' && end - w->i < 40) {
        if (!isalnum((unsigned char)w->p[end]) && w->p[end] != '_' &&
            w->p[end] != '^')
            return refuse(w, what);
        end++;
    }
    if (end >= w->n || w->p[end] != '}')
        return refuse(w, what);
    buf_add(w->out, w->p + w->i, end + 1 - w->i);
    w->i = end + 1;
    return CAG_OK;
}

static cag_status rewrite_escape(struct rewrite *w)
{
    char what[] = "\\?";
    if (w->i + 1 >= w->n)
        return refuse(w, "a backslash at the end");
    unsigned char c = (unsigned char)w->p[w->i + 1];
    what[1] = (char)(c > 32 && c < 127 ? c : '?');
    switch (c) {
    case 's':
        put_set(w, WHITE_SPACE, false);
        return CAG_OK;
    case 'w':
        put_set(w, WORD, false);
        return CAG_OK;
    case 'd':
        put_set(w, "\\p{Nd}", false);
        return CAG_OK;
    case 'v':
        put_set(w, "\\x0b", false);
        return CAG_OK;
    case 'S':
    case 'W':
    case 'D':
        if (w->in_class)
            return refuse(w, what);
        put_set(w, c == 'S' ? WHITE_SPACE : c == 'W' ? WORD : "\\p{Nd}", true);
        return CAG_OK;
    case 'p':
    case 'P':
    case 'x':
        return copy_braced(w, what);
    case 'r':
    case 'n':
    case 't':
    case 'f':
        break;
    default:
        if (!ispunct(c) || c >= 128)
            return refuse(w, what);
    }
    buf_add(w->out, w->p + w->i, 2);
    w->i += 2;
    return CAG_OK;
}

static bool at(const struct rewrite *w, const char *s)
{
    size_t n = strlen(s);
    return w->n - w->i >= n && memcmp(w->p + w->i, s, n) == 0;
}

static cag_status rewrite_group(struct rewrite *w)
{
    static const char *const known[] = { "(?:",  "(?=", "(?!",  "(?<=",
                                         "(?<!", "(?>", "(?i:", "(?i)" };
    if (at(w, "(*"))
        return refuse(w, "(*");
    if (at(w, "(?")) {
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (at(w, known[k])) {
                buf_str(w->out, known[k]);
                w->i += strlen(known[k]);
                return CAG_OK;
            }
        return refuse(w, "this (?");
    }
    buf_char(w->out, '(');
    w->i++;
    return CAG_OK;
}

static cag_status rewrite_class_char(struct rewrite *w, char c)
{
    if (c == '[')
        return refuse(w, "[ inside a class");
    if (at(w, "&&"))
        return refuse(w, "&& inside a class");
    if (c == ']')
        w->in_class = false;
    buf_char(w->out, c);
    w->i++;
    return CAG_OK;
}

static cag_status rewrite(struct rewrite *w)
{
    cag_status st = CAG_OK;
    while (!st && w->i < w->n) {
        char c = w->p[w->i];
        if (c == '\\') {
            st = rewrite_escape(w);
        } else if (w->in_class) {
            st = rewrite_class_char(w, c);
        } else if (c == '(') {
            st = rewrite_group(w);
        } else if (c == '^' || c == '$') {
            st = refuse(w, c == '^' ? "^" : "$");
        } else if (at(w, "{,")) {
            st = refuse(w, "{,");
        } else if (c == '[') {
            w->in_class = true;
            buf_char(w->out, c);
            w->i++;
            if (w->i < w->n && w->p[w->i] == '^') {
                buf_char(w->out, '^');
                w->i++;
            }
            if (w->i < w->n && w->p[w->i] == ']')
                st = refuse(w, "] as the first of a class");
        } else {
            buf_char(w->out, c);
            w->i++;
        }
    }
    if (!st && w->in_class)
        st = refuse(w, "a class without end");
    if (!st && buf_failed(w->out))
        st = cag_fail_nomem(w->err, "pre-tokenizer pattern");
    return st;
}

/* ---- compiling ---------------------------------------------------------- */

static bool is_trusted(const char *pattern, size_t n)
{
    for (size_t i = 0; i < sizeof trusted / sizeof trusted[0]; i++)
        if (strlen(trusted[i]) == n && memcmp(trusted[i], pattern, n) == 0)
            return true;
    return false;
}

static cag_status compile_step(struct pretok *p, const struct pretok_step *in,
                               const char *file, cag_error *err)
{
    struct buf text = BUF_INIT;
    struct step *s = &p->step[p->n];
    struct rewrite w = { in->pattern, in->n, 0, file, &text, false, err };
    pcre2_compile_context *cc = NULL;
    cag_status st;

    if (in->n == 0 || in->n > PRETOK_MAX_PATTERN)
        return cag_fail(err, CAG_E_UNSUPPORTED, file, -1,
                        "pre-tokenizer pattern of %zu bytes, expected 1..%d",
                        in->n, PRETOK_MAX_PATTERN);
    st = rewrite(&w);
    if (st)
        goto out;
    cc = pcre2_compile_context_create(p->memory);
    if (!cc) {
        st = cag_fail_nomem(err, "pre-tokenizer pattern");
        goto out;
    }
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(cc, 64);
    int code = 0;
    PCRE2_SIZE where = 0;
    s->code = pcre2_compile((PCRE2_SPTR)text.data, text.size,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                            &code, &where, cc);
    if (!s->code) {
        char why[128] = "";
        if (code == PCRE2_ERROR_NOMEMORY || code == 121) {
            st = cag_fail_nomem(err, "pre-tokenizer pattern");
            goto out;
        }
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        st = cag_fail(err, CAG_E_UNSUPPORTED, file, -1,
                      "pre-tokenizer pattern does not compile: %s", why);
        goto out;
    }
    s->kind = in->kind;
    p->n++;
    /* no JIT on this machine is no error: the interpreter is as exact */
    s->jit = is_trusted(in->pattern, in->n) &&
             pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE) == 0;
out:
    pcre2_compile_context_free(cc);
    buf_free(&text);
    return st;
}

cag_status pretok_new(const struct pretok_step *step, size_t n,
                      const char *file, struct pretok **out, cag_error *err)
{
    cag_status st = CAG_OK;
    struct pretok *p;

    if (n > PRETOK_MAX_STEP)
        return cag_fail(err, CAG_E_UNSUPPORTED, file, -1,
                        "pre-tokenizer of %zu steps, at most %d are supported",
                        n, PRETOK_MAX_STEP);
    p = mem_zalloc(sizeof *p);
    if (!p)
        return cag_fail_nomem(err, "pre-tokenizer");
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (!p->memory)
        st = cag_fail_nomem(err, "pre-tokenizer");
    for (size_t i = 0; !st && i < n; i++)
        st = compile_step(p, &step[i], file, err);
    if (st)
        pretok_free(p);
    else
        *out = p;
    return st;
}

void pretok_free(struct pretok *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++)
        pcre2_code_free(p->step[i].code);
    pcre2_general_context_free(p->memory);
    mem_free(p);
}

/* ---- matching ----------------------------------------------------------- */

cag_status pretok_begin(const struct pretok *p, struct pretok_run **out,
                        cag_error *err)
{
    struct pretok_run *r = mem_zalloc(sizeof *r);
    if (!r)
        return cag_fail_nomem(err, "pre-tokenizer");
    r->p = p;
    r->match = pcre2_match_data_create(1, p->memory);
    r->limits = pcre2_match_context_create(p->memory);
    if (!r->match || !r->limits) {
        pretok_end(r);
        return cag_fail_nomem(err, "pre-tokenizer");
    }
    r->left = MATCH_LIMIT;
    pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
    *out = r;
    return CAG_OK;
}

void pretok_end(struct pretok_run *r)
{
    if (!r)
        return;
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->limits);
    mem_free(r);
}

/* The interpreter's answer; as many steps as the text has left. */
static int interpret(struct pretok_run *r, const struct step *s,
                     PCRE2_SPTR text, size_t n, size_t from)
{
    uint32_t steps = s->jit ? MATCH_LIMIT : FIRST_STEPS;

    for (;;) {
        pcre2_set_match_limit(r->limits, steps);
        int rc =
            pcre2_match(s->code, text, n, from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->match, r->limits);
        if (rc != PCRE2_ERROR_MATCHLIMIT || steps == MATCH_LIMIT ||
            r->left < steps) /* MATCHLIMIT, too */
            return rc;
        r->left -= steps;
        steps =
            steps < MATCH_LIMIT / MORE_STEPS ? steps * MORE_STEPS : MATCH_LIMIT;
    }
}

/* First match at or after from; *found says whether there is one. */
static cag_status next_match(struct pretok_run *r, const struct step *s,
                             const char *text, size_t n, size_t from,
                             size_t *begin, size_t *end, bool *found,
                             cag_error *err)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;

    if (s->jit) {
        pcre2_set_match_limit(r->limits, MATCH_LIMIT);
        rc = pcre2_jit_match(s->code, subject, n, from, PCRE2_NO_UTF_CHECK,
                             r->match, r->limits);
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = interpret(r, s, subject, n, from);
    *found = rc >= 0;
    if (rc >= 0) {
        const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->match);
        *begin = ov[0];
        *end = ov[1];
        /* a look-behind with \K is refused, so this is a PCRE2 bug */
        if (*begin < from || *end < *begin || *end > n)
            return cag_fail(err, CAG_E_INTERNAL, NULL, -1,
                            "pre-tokenizer match out of range");
        return CAG_OK;
    }
    if (rc == PCRE2_ERROR_NOMATCH)
        return CAG_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return cag_fail_nomem(err, "pre-tokenizer match");
    return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                    "pre-tokenizer pattern gave up (PCRE2 error %d)", rc);
}

static cag_status run_step(struct pretok_run *r, size_t i, const char *text,
                           size_t n, cag_error *err);

static cag_status emit(struct pretok_run *r, size_t i, const char *s, size_t n,
                       cag_error *err)
{
    if (n == 0)
        return CAG_OK;
    if (i + 1 < r->p->n)
        return run_step(r, i + 1, s, n, err);
    return r->fn(r->ctx, s, n, err);
}

/* Recursion is over the steps of the programme, at most PRETOK_MAX_STEP. */
static cag_status run_step(struct pretok_run *r, size_t i, const char *text,
                           size_t n, cag_error *err)
{
    const struct step *s = &r->p->step[i];
    size_t done = 0; /* everything before was emitted               */
    size_t from = 0; /* the search goes on here                     */
    cag_status st = CAG_OK;

    while (from <= n) {
        size_t b = 0, e = 0;
        bool found;
        st = next_match(r, s, text, n, from, &b, &e, &found, err);
        if (st || !found)
            break;
        switch (s->kind) {
        case PRETOK_ISOLATED:
            st = emit(r, i, text + done, b - done, err);
            if (!st)
                st = emit(r, i, text + b, e - b, err);
            done = e;
            break;
        case PRETOK_MATCHES:
            st = emit(r, i, text + b, e - b, err);
            done = e;
            break;
        case PRETOK_GAPS:
            st = emit(r, i, text + done, b - done, err);
            done = e;
            break;
        case PRETOK_MERGE_PREV:
            st = emit(r, i, text + done, e - done, err);
            done = e;
            break;
        default:
            st = emit(r, i, text + done, b - done, err);
            done = b;
        }
        if (st)
            return st;
        from = e;
        if (b == e) { /* an empty match cuts; step over a character */
            from++;
            while (from < n && ((unsigned char)text[from] & 0xC0) == 0x80)
                from++;
        }
    }
    if (!st && s->kind != PRETOK_MATCHES)
        st = emit(r, i, text + done, n - done, err);
    return st;
}

cag_status pretok_split(struct pretok_run *r, const char *text, size_t n,
                        pretok_fn *fn, void *ctx, cag_error *err)
{
    if (n == 0)
        return CAG_OK;
    if (r->p->n == 0)
        return fn(ctx, text, n, err);
    r->fn = fn;
    r->ctx = ctx;
    r->left += (uint64_t)n * TEXT_STEPS;
    return run_step(r, 0, text, n, err);
}

void pretok_library(char out[64])
{
    char text[256] = "";

    /* a version never came near 64 characters; the size is not asked for */
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int)sizeof text)
        pcre2_config(PCRE2_CONFIG_VERSION, text);
    memcpy(out, text, 63);
    out[63] = '\0';
}
