/*
 * evidence_quote.c - see evidence_quote.h.
 */
#include "evidence/evidence_quote.h"

#include <string.h>

#include "evidence/evidence.h"
#include "evidence/words.h"
#include "util/mem.h"

/* Places of a run that are tried; a longer one may begin at each of them. */
#define MAX_PLACES 256

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void fold(const char *s, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        if (!is_blank(s[i]))
            buf_char(out, s[i]);
        else if (!out->size || out->data[out->size - 1] != ' ')
            buf_char(out, ' ');
}

/* The byte of s that became byte at of fold(s). */
static size_t unfold(const char *s, size_t n, size_t at)
{
    size_t i = 0, folded = 0;

    for (; i < n && folded < at; i++)
        if (!is_blank(s[i]) || i + 1 == n || !is_blank(s[i + 1]))
            folded++;
    return i;
}

static cag_status fold_all(struct evidence_base *b, cag_error *err)
{
    struct buf *folded;
    bool ok = true;

    if (b->folded)
        return CAG_OK;
    folded = mem_alloc_array((size_t)b->n + 1, sizeof *folded);
    if (!folded)
        return cag_fail_nomem(err, "quotes");
    for (int i = 0; i < b->n; i++) {
        fold(b->text[i].text, b->text[i].size, &folded[i]);
        ok = ok && !buf_failed(&folded[i]);
    }
    b->folded = ok ? folded : NULL;
    if (ok)
        return CAG_OK;
    for (int i = 0; i < b->n; i++)
        buf_free(&folded[i]);
    mem_free(folded);
    return cag_fail_nomem(err, "quotes");
}

struct run {
    int source;
    size_t at, size; /* in the folded source */
    size_t n_tok;
};

struct search {
    const char *s; /* the folded answer */
    size_t n;
    const int64_t *off; /* [n_tok] of its tokens */
    size_t n_tok;
};

static size_t tok_end(const struct search *a, size_t i)
{
    return i + 1 < a->n_tok ? (size_t)a->off[i + 1] : a->n;
}

/* The tokens from i on that stand at text[at], cut at words. */
static size_t extend(const struct search *a, size_t i, size_t begin,
                     const struct buf *text, size_t at)
{
    size_t same = 0, n = 0;

    while (begin + same < a->n && at + same < text->size &&
           a->s[begin + same] == text->data[at + same])
        same++;
    for (size_t k = i; k < a->n_tok && tok_end(a, k) <= begin + same; k++) {
        size_t end = tok_end(a, k);

        if (words_may_cut(a->s, a->n, end) &&
            words_may_cut(text->data, text->size, at + end - begin))
            n = k - i + 1;
    }
    return n;
}

/* The longest run that begins with token i. */
static struct run longest(const struct evidence_base *b, const struct search *a,
                          size_t i)
{
    struct run best = { 0 };
    size_t begin = (size_t)a->off[i], end = tok_end(a, i + QUOTE_TOKENS - 1);

    begin += begin < end && a->s[begin] == ' ';
    if (begin >= end || !words_may_cut(a->s, a->n, begin) ||
        strchr(".,;:!?)]}", a->s[begin]))
        return best;
    for (int source = 0; source < b->n; source++) {
        const struct buf *text = &b->folded[source];
        size_t at = 0;

        for (int k = 0; k < MAX_PLACES && text->data; k++) {
            const char *hit = memmem(text->data + at, text->size - at,
                                     a->s + begin, end - begin);
            size_t n;

            if (!hit)
                break;
            at = (size_t)(hit - text->data);
            n = words_may_cut(text->data, text->size, at)
                    ? extend(a, i, begin, text, at)
                    : 0;
            if (n >= QUOTE_TOKENS && n > best.n_tok)
                best = (struct run){ source, at, tok_end(a, i + n - 1) - begin,
                                     n };
            at++;
        }
    }
    return best;
}

static cag_status add(struct evidence_base *b, const struct run *r,
                      cag_quote **out, int *n, cag_error *err)
{
    const struct index_text *t = &b->text[r->source];
    size_t end = r->at + r->size, from, to;
    cag_quote *grown = mem_realloc(*out, (size_t)(*n + 1) * sizeof *grown);

    if (!grown)
        return cag_fail_nomem(err, "quotes");
    *out = grown;
    if (b->folded[r->source].data[end - 1] == ' ')
        end--;
    from = unfold(t->text, t->size, r->at);
    to = unfold(t->text, t->size, end - 1) + 1;
    grown[*n].n_tok = (int)r->n_tok;
    return evidence_base_piece(b, r->source, from, to, &grown[(*n)++].at, err);
}

cag_status evidence_quotes(struct evidence_base *b, const cag_tokenizer *tok,
                           const char *answer, size_t size, cag_quote **out,
                           int *n, cag_error *err)
{
    struct buf s = BUF_INIT;
    cag_ids ids = CAG_IDS_INIT;
    struct search a;
    cag_status st = fold_all(b, err);

    *out = NULL;
    *n = 0;
    fold(answer, size, &s);
    if (!st && buf_failed(&s))
        st = cag_fail_nomem(err, "quotes");
    if (!st && s.size) {
        cag_text piece = { s.data, s.size, 0 };

        st = cag_encode(tok, &piece, 1, CAG_ENCODE_OFFSETS, &ids, err);
    }
    a = (struct search){ s.data, s.size, ids.off, ids.n };
    for (size_t i = 0; !st && i + QUOTE_TOKENS <= a.n_tok;) {
        struct run r = longest(b, &a, i);

        if (r.n_tok)
            st = add(b, &r, out, n, err);
        i += r.n_tok ? r.n_tok : 1;
    }
    if (st) {
        mem_free(*out);
        *out = NULL;
        *n = 0;
    }
    cag_ids_free(&ids);
    buf_free(&s);
    return st;
}

/* -------------------------------------------------------- new words of it */

struct quoted {
    struct words_table known, quoted, seen;
    int n_new, n_quoted;
};

static cag_status keep(void *ctx, const struct word *w, cag_error *err)
{
    uint32_t number;

    return words_table_add(ctx, w->text, w->size, &number, err);
}

static cag_status count(void *ctx, const struct word *w, cag_error *err)
{
    struct quoted *x = ctx;
    size_t n = x->seen.n;
    cag_status st = CAG_OK;

    if (words_table_find(&x->known, w->text, w->size) >= 0)
        return CAG_OK;
    st = keep(&x->seen, w, err);
    if (!st && x->seen.n > n) {
        x->n_new++;
        x->n_quoted += words_table_find(&x->quoted, w->text, w->size) >= 0;
    }
    return st;
}

cag_status evidence_quoted(const cag_quote *q, int n,
                           const struct evidence_asked *asked, double *share,
                           cag_error *err)
{
    struct quoted x = { .n_new = 0 };
    cag_status st =
        words_each(asked->question, asked->n_question, keep, &x.known, err);

    if (!st && asked->before)
        st = words_each(asked->before, asked->n_before, keep, &x.known, err);
    for (int i = 0; i < n && !st; i++)
        st = words_each(q[i].at.text, q[i].at.size, keep, &x.quoted, err);
    if (!st)
        st = words_each(asked->answer, asked->n_answer, count, &x, err);
    *share = !st && x.n_new ? (double)x.n_quoted / x.n_new : 0;
    words_table_release(&x.known);
    words_table_release(&x.quoted);
    words_table_release(&x.seen);
    return st;
}
