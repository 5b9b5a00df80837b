/*
 * chat.c - where a chat template puts the knowledge and the question.
 *
 * A template is a program, so the text around a question is found by trying:
 * it is rendered with questions that begin with a letter, a digit, a space,
 * a newline, a combining mark, a CJK character, and one with blanks on both
 * sides.  Whatever the question, the text before it must be the same; if not
 * (or if a marker does not come out once, and in order) the template cannot
 * be cached and the error says so.
 */
#include "prompt/chat.h"

#include <string.h>

#include "template/jinja_int.h"
#include "util/mem.h"

#define BODY_MARK     "qcagbodyq"
#define QUESTION_MARK "qcagaskq"
#define ANSWER_MARK   "qcaganswerq"
#define WAYS_OUT \
    "; use --chat-template NAME (see --help) or --chat-template-file FILE"

/* before and after the mark; the first is the plain one */
static const struct {
    const char *before, *after;
} forms[] = {
    { "", "" },     { "7 ", "?" },       { " ", "" },
    { "\n", "\n" }, { "\xCC\x81", "." }, { "\xE6\x97\xA5", "\xE3\x80\x82" },
    { "  ", "  " },
};
#define N_FORM (int)(sizeof forms / sizeof *forms)

enum shape { SYSTEM, ACK };

struct cutter {
    struct jinja *j;
    const cag_tokenizer *t;
    const char *label;
    int64_t now_s;
    const char *ack;
};

/* One rendering: texts around the two markers. */
struct parts {
    struct buf text;
    const char *lead, *mid, *tail;
    size_t n_lead, n_mid, n_tail;
};

void chat_cut_release(struct chat_cut *c)
{
    mem_free(c->lead);
    mem_free(c->mid);
    mem_free(c->suffix[0]);
    mem_free(c->suffix[1]);
    mem_free(c->border);
    memset(c, 0, sizeof *c);
}

const char *chat_strip(const char *s, size_t *n, unsigned sides)
{
    size_t k;
    while ((sides & CHAT_TRIM_LEFT) && (k = jspace(s, *n)) > 0) {
        s += k;
        *n -= k;
    }
    while ((sides & CHAT_TRIM_RIGHT) && (k = jspace_back(s, *n)) > 0)
        *n -= k;
    return s;
}

/* Set a variable to a token's text, "" where there is no such token. */
static bool set_token(jv *vars, const char *key, const cag_tokenizer *t,
                      int32_t id)
{
    size_t n = 0;
    const char *s = id >= 0 ? cag_token_bytes(t, id, true, &n) : NULL;
    return jv_set(vars, key, jv_new_str(s ? s : "", s ? n : 0));
}

/* The variables transformers gives a template; messages is taken over.
 * Without a tokenizer the tokens' texts are empty. */
static jv *variables(const struct cutter *c, jv *messages, bool add, bool think)
{
    size_t n_eos = 0;
    const int32_t *eos = c->t ? cag_tokenizer_eos(c->t, &n_eos) : NULL;
    int32_t bos = c->t ? cag_tokenizer_bos(c->t) : -1;
    jv *v = jv_new_object();
    if (!v) {
        jv_free(messages);
        return NULL;
    }
    bool ok = jv_set(v, "messages", messages);
    ok = ok && jv_set(v, "tools", jv_new_null());
    ok = ok && jv_set(v, "documents", jv_new_null());
    ok = ok && jv_set_bool(v, "add_generation_prompt", add);
    ok = ok && set_token(v, "bos_token", c->t, bos);
    ok = ok && set_token(v, "eos_token", c->t, n_eos ? eos[0] : -1);
    /* the two names under which templates know the switch */
    ok = ok && jv_set_bool(v, "enable_thinking", think);
    ok = ok && jv_set_bool(v, "thinking", think);
    if (!ok) {
        jv_free(v);
        return NULL;
    }
    return v;
}

static bool add_message(jv *list, const char *role, const char *before,
                        const char *mark, const char *after)
{
    struct buf b = BUF_INIT;
    jv *m = jv_new_object();
    buf_str(&b, before);
    buf_str(&b, mark);
    buf_str(&b, after);
    bool ok = m && !buf_failed(&b) && jv_set_str(m, "role", role) &&
              jv_set_str(m, "content", b.data);
    buf_free(&b);
    if (!ok) {
        jv_free(m);
        return false;
    }
    return jv_append(list, m);
}

static const char *find(const char *s, size_t n, const char *what)
{
    return n ? memmem(s, n, what, strlen(what)) : NULL;
}

/* Render messages (taken over, may be NULL when out of memory). */
static cag_status render(const struct cutter *c, jv *messages, bool add,
                         bool think, struct buf *out, cag_error *err)
{
    jv *vars = messages ? variables(c, messages, add, think) : NULL;
    if (!vars)
        return cag_fail_nomem(err, "chat template");
    cag_status st = jinja_render(c->j, vars, c->now_s, out, err);
    jv_free(vars);
    return st;
}

static cag_status unfit(const struct cutter *c, cag_error *err,
                        const char *what)
{
    return cag_fail(err, CAG_E_UNSUPPORTED, c->label, -1, "%s", what);
}

/* Render one form and find the parts; buf is the caller's to free. */
static cag_status try_form(const struct cutter *c, enum shape shape, int form,
                           bool think, struct parts *p, cag_error *err)
{
    const char *before = forms[form].before, *after = forms[form].after;
    jv *m = jv_new_array();
    bool ok = m && add_message(m, shape == SYSTEM ? "system" : "user", before,
                               BODY_MARK, after);
    if (shape == ACK)
        ok = ok && add_message(m, "assistant", c->ack, "", "");
    ok = ok && add_message(m, "user", before, QUESTION_MARK, after);
    if (!ok) {
        jv_free(m);
        return cag_fail_nomem(err, "chat template");
    }
    buf_clear(&p->text);
    cag_status st = render(c, m, true, think, &p->text, err);
    if (st)
        return st;
    const char *s = p->text.data ? p->text.data : "";
    const char *end = s + p->text.size;
    const char *body = find(s, p->text.size, BODY_MARK);
    if (!body)
        return unfit(c, err,
                     "the template drops the message that holds the "
                     "knowledge");
    const char *b_end = body + strlen(BODY_MARK);
    const char *ask = find(b_end, (size_t)(end - b_end), QUESTION_MARK);
    if (!ask)
        return unfit(c, err,
                     "the template does not write the question "
                     "behind the knowledge");
    const char *q_end = ask + strlen(QUESTION_MARK);
    if (find(b_end, (size_t)(end - b_end), BODY_MARK) ||
        find(q_end, (size_t)(end - q_end), QUESTION_MARK) ||
        find(s, (size_t)(body - s), QUESTION_MARK))
        return unfit(c, err, "the template writes a message twice");
    p->lead = s;
    p->n_lead = (size_t)(body - s);
    p->mid = b_end;
    p->n_mid = (size_t)(ask - b_end);
    p->tail = q_end;
    p->n_tail = (size_t)(end - q_end);
    return CAG_OK;
}

static char *dup(const char *s, size_t n)
{
    return mem_strndup(s, n);
}

struct view {
    const char *s;
    size_t n;
};

static struct view trimmed(const char *s, unsigned sides)
{
    struct view v = { s, strlen(s) };
    v.s = chat_strip(s, &v.n, sides);
    return v;
}

/* text == a + b + c */
static bool is_joined(const char *text, size_t n, struct view a, struct view b,
                      struct view c)
{
    const struct view v[] = { a, b, c };
    for (int i = 0; i < 3; i++) {
        if (n < v[i].n || (v[i].n && memcmp(text, v[i].s, v[i].n) != 0))
            return false;
        text += v[i].n;
        n -= v[i].n;
    }
    return n == 0;
}

static bool is_text(const char *text, size_t n, const char *want)
{
    return n == strlen(want) && memcmp(text, want, n) == 0;
}

/* Is form f's rendering the plain one with its extra text, stripped on
 * these sides? */
static bool same_text(const struct chat_cut *c, const struct parts *p, int f,
                      unsigned body, unsigned question)
{
    struct view none = { "", 0 };
    const char *before = forms[f].before, *after = forms[f].after;
    /* before loses its left side only, after its right side only */
    struct view b1 = trimmed(before, body & CHAT_TRIM_LEFT);
    struct view e1 = trimmed(after, body & CHAT_TRIM_RIGHT);
    struct view b2 = trimmed(before, question & CHAT_TRIM_LEFT);
    struct view e2 = trimmed(after, question & CHAT_TRIM_RIGHT);
    return is_joined(p->lead, p->n_lead, trimmed(c->lead, 0), b1, none) &&
           is_joined(p->mid, p->n_mid, e1, trimmed(c->mid, 0), b2) &&
           is_joined(p->tail, p->n_tail, e2, trimmed(c->suffix[0], 0), none);
}

/* All forms against the plain one in cut. */
static cag_status check_forms(const struct cutter *c, enum shape shape,
                              struct chat_cut *cut, cag_error *err)
{
    struct parts p = { BUF_INIT, NULL, NULL, NULL, 0, 0, 0 };
    cag_status st = CAG_OK;
    bool known = false;

    /* the last form has blanks on all sides and decides what is trimmed */
    for (int f = N_FORM - 1; f >= 0 && !st; f--) {
        st = try_form(c, shape, f, false, &p, err);
        for (unsigned i = 0; !st && !known && i < 16; i++)
            if (same_text(cut, &p, f, i & 3, i >> 2)) {
                cut->body_trim = i & 3;
                cut->question_trim = i >> 2;
                known = true;
            }
        if (!st && !same_text(cut, &p, f, cut->body_trim, cut->question_trim))
            st = unfit(c, err,
                       "the text the template writes around a "
                       "question depends on the question");
    }
    buf_free(&p.text);
    return st;
}

/* The end of the last special token in mid, and its text. */
static cag_status find_border(const struct cutter *c, struct chat_cut *cut,
                              cag_error *err)
{
    cag_text piece = { cut->mid, strlen(cut->mid), CAG_TEXT_TEMPLATE };
    cag_ids ids = CAG_IDS_INIT;
    cag_status st = CAG_OK;
    if (piece.size)
        st = cag_encode(c->t, &piece, 1, CAG_ENCODE_OFFSETS, &ids, err);
    if (st)
        return st;
    st = unfit(c, err,
               "the template writes no special token between the "
               "knowledge and the question");
    for (size_t i = ids.n; i-- > 0 && st == CAG_E_UNSUPPORTED;) {
        size_t n, off = (size_t)ids.off[i];
        const char *s = cag_token_bytes(c->t, ids.id[i], true, &n);
        if (!cag_token_is_special(c->t, ids.id[i]) || !s || !n)
            continue;
        /* a token that swallows white space begins after its offset */
        const char *at = memmem(cut->mid + off, piece.size - off, s, n);
        if (!at)
            continue;
        cut->mid_cached = (size_t)(at - cut->mid) + n;
        cut->border = dup(s, n);
        st = cut->border ? CAG_OK : cag_fail_nomem(err, "chat template");
    }
    cag_ids_free(&ids);
    return st;
}

/* suffix[1]: as thinking is on, if only the suffix differs. */
static cag_status think_suffix(const struct cutter *c, enum shape shape,
                               struct chat_cut *cut, cag_error *err)
{
    struct parts p = { BUF_INIT, NULL, NULL, NULL, 0, 0, 0 };
    cag_status st = CAG_OK;
    const char *think = cut->suffix[0];
    size_t n = strlen(think);

    if (jinja_mentions(c->j, "enable_thinking") ||
        jinja_mentions(c->j, "thinking")) {
        st = try_form(c, shape, 0, true, &p, err);
        if (!st && is_text(p.lead, p.n_lead, cut->lead) &&
            is_text(p.mid, p.n_mid, cut->mid) &&
            !is_text(p.tail, p.n_tail, think)) {
            cut->knows_thinking = true;
            think = p.tail;
            n = p.n_tail;
        }
    }
    if (!st) {
        cut->suffix[1] = dup(think, n);
        if (!cut->suffix[1])
            st = cag_fail_nomem(err, "chat template");
    }
    buf_free(&p.text);
    return st;
}

/* The special token written right after an assistant's message. */
static cag_status find_end_of_turn(const struct cutter *c, struct chat_cut *cut,
                                   cag_error *err)
{
    struct buf text = BUF_INIT;
    cag_ids ids = CAG_IDS_INIT;
    jv *m = jv_new_array();
    cag_error inner = CAG_ERROR_INIT;
    cag_status st;

    cut->end_of_turn = -1;
    if (!m || !add_message(m, "user", QUESTION_MARK, "", "") ||
        !add_message(m, "assistant", ANSWER_MARK, "", "")) {
        jv_free(m);
        return cag_fail_nomem(err, "chat template");
    }
    st = render(c, m, false, false, &text, &inner);
    if (st == CAG_E_MISMATCH || st == CAG_E_UNSUPPORTED) {
        st = CAG_OK; /* it insists on a question at the end */
        goto out;
    }
    const char *at = !st ? find(text.data, text.size, ANSWER_MARK) : NULL;
    if (!at)
        goto out;
    at += strlen(ANSWER_MARK);
    size_t n = (size_t)(text.data + text.size - at);
    at = chat_strip(at, &n, CHAT_TRIM_LEFT);
    if (!n)
        goto out;
    cag_text piece = { at, n, CAG_TEXT_TEMPLATE };
    st = cag_encode(c->t, &piece, 1, CAG_ENCODE_OFFSETS, &ids, &inner);
    for (size_t i = 0; !st && i < ids.n && ids.off[i] == 0; i++)
        if (cag_token_is_special(c->t, ids.id[i]) &&
            ids.id[i] != cag_tokenizer_bos(c->t)) {
            cut->end_of_turn = ids.id[i];
            break;
        }
out:
    if (st)
        cag_error_copy(err, &inner);
    cag_ids_free(&ids);
    buf_free(&text);
    return st;
}

static cag_status cut_shape(const struct cutter *c, enum shape shape,
                            struct chat_cut *cut, cag_error *err)
{
    struct parts p = { BUF_INIT, NULL, NULL, NULL, 0, 0, 0 };
    cag_status st = try_form(c, shape, 0, false, &p, err);
    if (!st) {
        cut->lead = dup(p.lead, p.n_lead);
        cut->mid = dup(p.mid, p.n_mid);
        cut->suffix[0] = dup(p.tail, p.n_tail);
        cut->ack_turns = shape == ACK;
        if (!cut->lead || !cut->mid || !cut->suffix[0])
            st = cag_fail_nomem(err, "chat template");
    }
    buf_free(&p.text);
    if (!st)
        st = check_forms(c, shape, cut, err);
    if (!st)
        st = find_border(c, cut, err);
    if (!st)
        st = think_suffix(c, shape, cut, err);
    if (!st)
        st = find_end_of_turn(c, cut, err);
    if (st)
        chat_cut_release(cut);
    return st;
}

/* The same place, with the ways out after the message. */
static cag_status with_ways_out(cag_error *err, const cag_error *from)
{
    return cag_fail_at(err, CAG_E_UNSUPPORTED, from->file, from->line, 0,
                       "%.*s%s", 700, from->msg, WAYS_OUT);
}

cag_status chat_cut_make(const char *template_text, const cag_tokenizer *t,
                         const char *ack, int64_t now_s, struct chat_cut *out,
                         cag_error *err)
{
    struct cutter c = { NULL, t, "chat template", now_s, ack ? ack : CHAT_ACK };
    struct chat_cut cut = { .end_of_turn = -1 };
    cag_error first = CAG_ERROR_INIT, second = CAG_ERROR_INIT;
    cag_status st;

    st = jinja_compile(template_text, strlen(template_text), c.label, &c.j,
                       &first);
    if (st)
        goto out;
    st = cut_shape(&c, SYSTEM, &cut, &first);
    if (st == CAG_E_MISMATCH || st == CAG_E_UNSUPPORTED) {
        st = cut_shape(&c, ACK, &cut, &second);
        /* the first reason is the one to tell, unless it was only that
         * the template knows no system role */
        if (st && first.status == CAG_E_MISMATCH)
            first = second;
        else if (st == CAG_E_NOMEM || st == CAG_E_LIMIT)
            first = second;
    }
out:
    jinja_free(c.j);
    if (!st)
        *out = cut;
    else if (st == CAG_E_NOMEM)
        cag_error_copy(err, &first);
    else
        st = with_ways_out(err, &first);
    return st;
}

/* ----------------------------------------------------- whole conversations */

static cag_status check_roles(const jv *messages, cag_error *err)
{
    if (jv_type(messages) != JV_ARRAY || jv_count(messages) == 0)
        return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                        "messages: expected an array of {role, content}");
    for (size_t i = 0; i < jv_count(messages); i++) {
        const jv *m = jv_at(messages, i), *content = jv_get(m, "content");
        size_t n = 0;
        const char *role = jv_str(jv_get(m, "role"), &n);
        if (!role || n == 0 || n > 32 ||
            strspn(role, "abcdefghijklmnopqrstuvwxyz_") != n)
            return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                            "message %zu: role must be a word such as "
                            "\"user\"",
                            i + 1);
        if (jv_type(content) != JV_STR && jv_type(content) != JV_ARRAY)
            return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                            "message %zu: content must be a string", i + 1);
    }
    return CAG_OK;
}

static cag_status to_pieces(struct buf *text, const struct jinja_spans *spans,
                            struct chat_pieces *out, cag_error *err)
{
    size_t at = 0;
    out->piece = mem_alloc_array(spans->n + 1, sizeof *out->piece);
    if (!out->piece)
        return cag_fail_nomem(err, "prompt");
    buf_add(text, "", 0);
    out->text = buf_detach(text, &out->size);
    if (!out->text)
        return cag_fail_nomem(err, "prompt");
    for (size_t i = 0; i < spans->n; i++) {
        out->piece[out->n++] =
            (cag_text){ out->text + at, spans->s[i].end - at,
                        spans->s[i].input ? 0 : CAG_TEXT_TEMPLATE };
        at = spans->s[i].end;
    }
    return CAG_OK;
}

cag_status chat_render(const char *template_text, const cag_tokenizer *t,
                       const jv *messages, bool add_generation_prompt,
                       bool think, int64_t now_s, struct chat_pieces *out,
                       cag_error *err)
{
    struct cutter c = { NULL, t, "chat template", now_s, CHAT_ACK };
    struct chat_pieces p = { NULL, 0, NULL, 0 };
    struct jinja_spans spans = { NULL, 0 };
    struct buf text = BUF_INIT;
    jv *vars = NULL, *copy = NULL;
    cag_status st = check_roles(messages, err);

    if (st)
        return st;
    st =
        jinja_compile(template_text, strlen(template_text), c.label, &c.j, err);
    if (st)
        return st;
    copy = jv_copy(messages);
    vars = copy ? variables(&c, copy, add_generation_prompt, think) : NULL;
    st = vars ? jinja_render_spans(c.j, vars, now_s, &text, &spans, err)
              : cag_fail_nomem(err, "chat template");
    if (!st)
        st = to_pieces(&text, &spans, &p, err);
    if (!st)
        *out = p;
    else
        chat_pieces_release(&p);
    jv_free(vars);
    jinja_spans_free(&spans);
    buf_free(&text);
    jinja_free(c.j);
    return st;
}

void chat_pieces_release(struct chat_pieces *p)
{
    mem_free(p->piece);
    mem_free(p->text);
    memset(p, 0, sizeof *p);
}
