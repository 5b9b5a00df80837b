/*
 * support_facts.c - see support_facts.h.
 */
#include "evidence/support_facts.h"

#include <string.h>

#include "evidence/support_scan.h"
#include "evidence/words.h"
#include "util/mem.h"
#include "util/text.h"

/* -------------------------------------------------- what is known of facts */

static cag_status know(void *ctx, const struct support_fact *f, cag_error *err)
{
    uint32_t number;

    return words_table_add(ctx, f->key, strlen(f->key), &number, err);
}

static cag_status know_word(void *ctx, const struct word *w, cag_error *err)
{
    uint32_t number;

    return words_table_add(ctx, w->text, w->size, &number, err);
}

static cag_status read_facts(struct evidence_base *b, cag_error *err)
{
    cag_status st = CAG_OK;

    for (int i = 0; i < b->n && !b->has_facts && !st; i++)
        st = support_scan(b->text[i].text, b->text[i].size, true, know,
                          &b->facts, err);
    b->has_facts = !st;
    return st;
}

struct item {
    size_t from, to;
};

struct finding {
    struct evidence_base *b;
    const char *s;
    size_t n;
    struct words_table facts, words; /* of the question */
    struct item *item;               /* [n_item] not supported */
    int n_item, cap;
    /* the word being looked at, with its parts */
    size_t from, to;
    bool known, parts_known;
    int n_part;
    /* the run of names being looked at */
    struct item run;
    bool in_run, run_known;
};

static cag_status add_item(struct finding *f, size_t from, size_t to,
                           cag_error *err)
{
    int i = f->n_item;

    for (int k = 0; k < f->n_item; k++) {
        const struct item *o = &f->item[k];

        if (from < o->to && to > o->from)
            return CAG_OK; /* a month is no name */
        if (to - from == o->to - o->from &&
            !memcmp(f->s + from, f->s + o->from, to - from))
            return CAG_OK;
    }
    if (f->n_item == f->cap) {
        int cap = f->cap ? 2 * f->cap : 16;
        struct item *grown = mem_realloc(f->item, (size_t)cap * sizeof *grown);

        if (!grown)
            return cag_fail_nomem(err, "facts of an answer");
        f->item = grown;
        f->cap = cap;
    }
    for (; i > 0 && f->item[i - 1].from > from; i--)
        f->item[i] = f->item[i - 1];
    f->item[i] = (struct item){ from, to };
    f->n_item++;
    return CAG_OK;
}

static cag_status check_fact(void *ctx, const struct support_fact *fact,
                             cag_error *err)
{
    struct finding *f = ctx;
    size_t len = strlen(fact->key);

    if (words_table_find(&f->b->facts, fact->key, len) >= 0 ||
        words_table_find(&f->facts, fact->key, len) >= 0)
        return CAG_OK;
    return add_item(f, fact->from, fact->to, err);
}

/* ----------------------------------------------------------------- names */

/* Is the word at i the first of a sentence, a line or a quotation? */
static bool begins_sentence(const char *s, size_t i)
{
    while (i && strchr(" \t\"'([*_`-", s[i - 1]))
        i--;
    return i == 0 || strchr(".!?:;\r\n", s[i - 1]) ||
           (unsigned char)s[i - 1] >= 0x80;
}

/* Letters that only a name has inside: XZ, OpenSSL, LZ77. */
static bool has_inner_mark(const char *s, size_t from, size_t to)
{
    uint32_t cp;
    size_t i = from;

    for (i += (size_t)utf8_decode(s + i, to - i, &cp); i < to;) {
        i += (size_t)utf8_decode(s + i, to - i, &cp);
        if (text_is_upper(cp) || text_class(cp) == TEXT_DIGIT)
            return true;
    }
    return false;
}

static bool looks_like_name(const char *s, size_t from, size_t to)
{
    uint32_t cp;
    size_t len = (size_t)utf8_decode(s + from, to - from, &cp);

    if (to - from == len || text_class(cp) == TEXT_DIGIT)
        return false;
    if (has_inner_mark(s, from, to))
        return true;
    return text_is_upper(cp) && !begins_sentence(s, from);
}

static cag_status end_run(struct finding *f, cag_error *err)
{
    bool report = f->in_run && !f->run_known;

    f->in_run = false;
    return report ? add_item(f, f->run.from, f->run.to, err) : CAG_OK;
}

/* The word is whole: does it go on with a run of names? */
static cag_status end_word(struct finding *f, cag_error *err)
{
    bool known = f->known || (f->n_part && f->parts_known), joins;
    cag_status st = CAG_OK;

    if (f->to == f->from || !looks_like_name(f->s, f->from, f->to))
        return end_run(f, err);
    joins = f->in_run && f->from == f->run.to + 1 && f->s[f->run.to] == ' ';
    if (!joins)
        st = end_run(f, err);
    if (!joins)
        f->run.from = f->from;
    f->run.to = f->to;
    f->run_known = known && (f->run_known || !joins);
    f->in_run = true;
    return st;
}

static cag_status check_word(void *ctx, const struct word *w, cag_error *err)
{
    struct finding *f = ctx;
    bool known = words_table_find(&f->b->index->words, w->text, w->size) >= 0 ||
                 words_table_find(&f->words, w->text, w->size) >= 0;
    cag_status st;

    if (w->from == f->from && w->to == f->to) {
        f->parts_known = known && (f->parts_known || !f->n_part);
        f->n_part++;
        return CAG_OK;
    }
    st = end_word(f, err);
    f->from = w->from;
    f->to = w->to;
    f->known = known;
    f->n_part = 0;
    f->parts_known = false;
    return st;
}

static cag_status find(struct finding *f, const cag_text known[2],
                       cag_error *err)
{
    cag_status st = read_facts(f->b, err);

    for (int i = 0; i < 2 && !st; i++) {
        if (!known[i].text)
            continue;
        st = support_scan(known[i].text, known[i].size, true, know, &f->facts,
                          err);
        if (!st)
            st = words_each(known[i].text, known[i].size, know_word, &f->words,
                            err);
    }
    if (!st)
        st = support_scan(f->s, f->n, false, check_fact, f, err);
    if (!st)
        st = words_each(f->s, f->n, check_word, f, err);
    if (!st)
        st = end_word(f, err);
    return st ? st : end_run(f, err);
}

cag_status support_unknown_facts(struct evidence_base *b, const char *answer,
                                 size_t size, bool cut, const cag_text known[2],
                                 char ***out, int *n, cag_error *err)
{
    struct finding f = { .b = b, .s = answer, .n = size };
    char **v = NULL;
    cag_status st = find(&f, known, err);

    *out = NULL;
    *n = 0;
    if (!st && cut && f.n_item && f.item[f.n_item - 1].to == size)
        f.n_item--;
    if (!st && f.n_item) {
        v = mem_alloc_array((size_t)f.n_item, sizeof *v);
        if (!v)
            st = cag_fail_nomem(err, "facts of an answer");
    }
    for (int i = 0; i < f.n_item && !st; i++) {
        v[i] =
            mem_strndup(answer + f.item[i].from, f.item[i].to - f.item[i].from);
        if (!v[i])
            st = cag_fail_nomem(err, "facts of an answer");
    }
    if (st) {
        support_facts_free(v, v ? f.n_item : 0);
    } else {
        *out = v;
        *n = f.n_item;
    }
    mem_free(f.item);
    words_table_release(&f.facts);
    words_table_release(&f.words);
    return st;
}

void support_facts_free(char **v, int n)
{
    for (int i = 0; i < n; i++)
        mem_free(v[i]);
    mem_free(v);
}
