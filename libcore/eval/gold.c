/*
 * gold.c - questions with known answers: our JSON Lines, or SQuAD 2.
 */
#include <cag/tool/eval.h>

#include <stdio.h>
#include <string.h>

#include "evidence/evidence_base.h"
#include "ask/kb.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/text.h"

void cag_gold_release(cag_gold_set *g)
{
    for (int i = 0; i < g->n; i++) {
        for (int k = 0; k < g->v[i].n_answer; k++)
            mem_free(g->v[i].answer[k]);
        mem_free(g->v[i].answer);
        mem_free(g->v[i].id);
        mem_free(g->v[i].question);
        mem_free(g->v[i].source);
    }
    mem_free(g->v);
    memset(g, 0, sizeof *g);
}

/* One more, zeroed; NULL when out of memory. */
static cag_gold *add(cag_gold_set *g)
{
    cag_gold *v = mem_realloc(g->v, (size_t)(g->n + 1) * sizeof *v);

    if (!v)
        return NULL;
    g->v = v;
    memset(&v[g->n], 0, sizeof *v);
    return &v[g->n++];
}

static bool set_text(char **out, const char *s)
{
    *out = mem_strdup(s);
    return *out != NULL;
}

/* list: strings, or objects with "text" (SQuAD). */
static cag_status take_answers(cag_gold *g, const jv *list, cag_error *err)
{
    size_t n = jv_count(list);

    g->answer = mem_alloc_array(n + 1, sizeof *g->answer);
    if (!g->answer)
        return cag_fail_nomem(err, "gold answers");
    for (size_t i = 0; i < n; i++) {
        const jv *v = jv_at(list, i);
        const char *s = jv_str(v, NULL);

        s = s ? s : jv_get_str(v, "text", NULL);
        if (!s || !*s)
            continue;
        if (!set_text(&g->answer[g->n_answer], s))
            return cag_fail_nomem(err, "gold answers");
        g->n_answer++;
    }
    return CAG_OK;
}

static cag_status bad(const char *name, int64_t line, const char *what,
                      cag_error *err)
{
    return cag_fail(err, CAG_E_FORMAT, name, -1, "line %lld: %s",
                    (long long)line, what);
}

static cag_status take_row(cag_gold_set *set, const jv *row, const char *name,
                           int64_t line, cag_error *err)
{
    const char *question = jv_get_str(row, "question", NULL);
    const char *id = jv_get_str(row, "id", NULL);
    const char *source = jv_get_str(row, "source", NULL);
    const jv *lines = jv_get(row, "lines"), *answers = jv_get(row, "answers");
    const jv *answerable = jv_get(row, "answerable");
    char number[24];
    cag_gold *g;
    cag_status st;

    if (!question || !*question)
        return bad(name, line, "no \"question\"", err);
    if (answers && jv_type(answers) != JV_ARRAY)
        return bad(name, line, "\"answers\" must be a list of strings", err);
    if (answerable && jv_type(answerable) != JV_BOOL)
        return bad(name, line, "\"answerable\" must be true or false", err);
    if (lines && (jv_count(lines) != 2 || jv_int(jv_at(lines, 0), 0) < 1 ||
                  jv_int(jv_at(lines, 1), 0) < jv_int(jv_at(lines, 0), 0)))
        return bad(name, line, "\"lines\" must be [first, last], from 1", err);
    snprintf(number, sizeof number, "%lld",
             (long long)jv_get_int(row, "id", line));
    g = add(set);
    if (!g || !set_text(&g->question, question) ||
        !set_text(&g->id, id ? id : number) ||
        (source && !set_text(&g->source, source)))
        return cag_fail_nomem(err, "gold questions");
    st = take_answers(g, answers, err);
    g->answerable = jv_bool(answerable, g->n_answer > 0);
    g->judged = answers || answerable;
    if (!st && g->answerable && !g->n_answer)
        return bad(name, line, "answerable, and no answers", err);
    if (lines) {
        g->line_from = jv_int(jv_at(lines, 0), 0);
        g->line_to = jv_int(jv_at(lines, 1), 0);
    }
    return st;
}

/* Byte of the n-th character of s. */
static size_t char_at(const char *s, size_t size, int64_t n)
{
    size_t i = 0;
    uint32_t cp;

    while (n-- > 0 && i < size)
        i += (size_t)utf8_decode(s + i, size - i, &cp);
    return i;
}

/* The lines of an answer of SQuAD in the source that holds its context. */
static cag_status find_lines(struct evidence_base *b, const char *context,
                             const jv *answer, cag_gold *g, cag_error *err)
{
    size_t n = strlen(context), len;
    const char *text = jv_str(jv_get(answer, "text"), &len);
    size_t at = char_at(context, n, jv_get_int(answer, "answer_start", -1));

    for (int i = 0; i < b->n && text && len && at + len <= n; i++) {
        const struct index_text *t = &b->text[i];
        const char *hit = memmem(t->text, t->size, context, n);
        cag_piece p;
        cag_status st;

        if (!hit)
            continue;
        at += (size_t)(hit - t->text);
        st = evidence_base_piece(b, i, at, at + len, &p, err);
        if (st)
            return st;
        g->line_from = p.line_from;
        g->line_to = p.line_to;
        return set_text(&g->source, p.source)
                   ? CAG_OK
                   : cag_fail_nomem(err, "gold questions");
    }
    return CAG_OK;
}

static cag_status take_squad(struct evidence_base *b, cag_gold_set *set,
                             const jv *qa, const char *context,
                             const char *name, cag_error *err)
{
    const char *question = jv_get_str(qa, "question", NULL);
    const jv *answers = jv_get(qa, "answers");
    cag_gold *g = add(set);
    cag_status st;

    if (!question || !*question)
        return cag_fail(err, CAG_E_FORMAT, name, -1, "a qa has no question");
    if (!g || !set_text(&g->question, question) ||
        !set_text(&g->id, jv_get_str(qa, "id", "")))
        return cag_fail_nomem(err, "gold questions");
    st = take_answers(g, answers, err);
    g->answerable = !jv_get_bool(qa, "is_impossible", g->n_answer == 0);
    g->judged = true;
    if (!st && g->answerable)
        st = find_lines(b, context, jv_at(answers, 0), g, err);
    return st;
}

static cag_status read_squad(struct evidence_base *b, const jv *root,
                             const char *name, cag_gold_set *set,
                             cag_error *err)
{
    const jv *data = jv_get(root, "data");
    cag_status st = CAG_OK;

    for (size_t i = 0; i < jv_count(data) && !st; i++) {
        const jv *paragraphs = jv_get(jv_at(data, i), "paragraphs");

        for (size_t k = 0; k < jv_count(paragraphs) && !st; k++) {
            const jv *p = jv_at(paragraphs, k), *qas = jv_get(p, "qas");
            const char *context = jv_get_str(p, "context", "");

            for (size_t m = 0; m < jv_count(qas) && !st; m++)
                st = take_squad(b, set, jv_at(qas, m), context, name, err);
        }
    }
    return st;
}

static cag_status read_lines(const char *text, size_t size, const char *name,
                             cag_gold_set *set, cag_error *err)
{
    cag_status st = CAG_OK;
    int64_t line = 0;

    for (size_t i = 0; i < size && !st;) {
        const char *nl = memchr(text + i, '\n', size - i);
        size_t n = nl ? (size_t)(nl - text) - i : size - i;
        size_t blank = 0;
        jv *row;

        line++;
        while (blank < n && strchr(" \t\r", text[i + blank]))
            blank++;
        if (blank < n) {
            st = jv_parse(text + i, n, NULL, &row, err);
            if (st)
                return bad(name, line,
                           "no JSON; expected a row such as "
                           "{\"question\": \"...\", \"answers\": [\"...\"]}",
                           err);
            st = take_row(set, row, name, line, err);
            jv_free(row);
        }
        i += n + 1;
    }
    return st;
}

cag_status cag_gold_read(cag_kb *kb, const char *text, size_t size,
                         const char *name, cag_gold_set *out, cag_error *err)
{
    jv *root = NULL;
    cag_status st = CAG_OK;

    memset(out, 0, sizeof *out);
    if (!kb->evidence)
        st = evidence_base_new(kb->kvc, &kb->evidence, err);
    if (st)
        return st;
    /* SQuAD is one object; rows are one a line */
    if (!jv_parse(text, size, name, &root, NULL) && jv_get(root, "data"))
        st = read_squad(kb->evidence, root, name, out, err);
    else
        st = read_lines(text, size, name, out, err);
    jv_free(root);
    if (!st && !out->n)
        st = cag_fail(err, CAG_E_FORMAT, name, -1, "no questions in it");
    if (st)
        cag_gold_release(out);
    return st;
}

cag_status cag_gold_check(const cag_gold_set *g, const char *name,
                          cag_error *err)
{
    for (int i = 0; i < g->n; i++)
        if (!g->v[i].judged)
            return cag_fail(err, CAG_E_FORMAT, name, -1,
                            "question %.40s has no \"answers\": list those "
                            "that are right, or write [] where the text has "
                            "none",
                            g->v[i].id);
    return CAG_OK;
}
