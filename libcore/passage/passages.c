/*
 * passages.c - see passages.h.
 */
#include "passage/passages.h"

#include <string.h>

#include "passage/bm25_score.h"
#include "util/mem.h"
#include "util/text.h"

/* ---------------------------------------------------------------- scores */

static void divide(double *v, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    for (size_t i = 0; i < n && most > 0; i++)
        v[i] /= most;
}

static void raise_to(double *v, double x)
{
    *v = x > *v ? x : *v;
}

/* Weight of the different words asked for in words [word, end). */
static double weigh(const struct bm25 *b, uint32_t word, uint32_t end)
{
    const struct evidence_index *ix = b->ix;
    double sum = 0;

    for (uint32_t k = word; k < end; k++)
        if (b->tf[ix->word[k]] == 1) {
            sum += ix->idf[ix->word[k]];
            b->tf[ix->word[k]] = 2;
        }
    for (uint32_t k = word; k < end; k++)
        if (b->tf[ix->word[k]])
            b->tf[ix->word[k]] = 1;
    return sum;
}

/* Of windows; of lines by their windows, by their sentences, and by the words
 * of their own. */
struct scores {
    double *window, *line, *by_sentence, *own;
};

static void scores_release(struct scores *s)
{
    mem_free(s->window);
    mem_free(s->line);
    mem_free(s->by_sentence);
    mem_free(s->own);
}

/* line += v, as shares of the most. */
static void add_shares(double *line, double *v, size_t n)
{
    divide(v, n);
    for (size_t l = 0; l < n; l++)
        line[l] += v[l];
}

static cag_status scores_init(struct scores *s, struct bm25 *b, cag_error *err)
{
    const struct evidence_index *ix = b->ix;

    s->window = mem_alloc_array(ix->n_window + 1, sizeof *s->window);
    s->line = mem_alloc_array(ix->n_line + 1, sizeof *s->line);
    s->by_sentence = mem_alloc_array(ix->n_line + 1, sizeof *s->by_sentence);
    s->own = mem_alloc_array(ix->n_line + 1, sizeof *s->own);
    if (!s->window || !s->line || !s->by_sentence || !s->own)
        return cag_fail_nomem(err, "passages");
    bm25_score(b, s->window);
    for (size_t i = 0; i < ix->n_window; i++)
        for (int j = 0; j < ix->window[i].n; j++)
            raise_to(&s->line[ix->window[i].line[j]], s->window[i]);
    for (size_t i = 0; i < ix->n_sentence; i++) {
        const struct index_sentence *t = &ix->sentence[i];
        double w = weigh(b, t->word, t->end);

        for (uint32_t l = t->line; l <= t->last; l++)
            raise_to(&s->by_sentence[l], w);
    }
    for (size_t l = 0; l < ix->n_line; l++)
        s->own[l] = weigh(b, ix->line[l].word, ix->line[l + 1].word);
    divide(s->line, ix->n_line);
    for (size_t l = 0; l < ix->n_line; l++) /* its neighbours have the words */
        s->line[l] = s->by_sentence[l] > 0 ? s->line[l] : 0;
    add_shares(s->line, s->by_sentence, ix->n_line);
    return CAG_OK;
}

/* -------------------------------------------------------------- passages */

static uint64_t line_end(const struct evidence_index *ix, uint32_t line)
{
    int source = ix->line[line].source;

    return ix->line[line + 1].source == source ? ix->line[line + 1].off
                                               : ix->text[source].size;
}

/* The best sentence of a line that is too long, or as much of it as fits. */
static void cut_line(struct bm25 *b, uint32_t line, struct passage *p)
{
    const struct evidence_index *ix = b->ix;
    const struct index_sentence *best = NULL;
    double most = -1;

    for (size_t i = 0; i < ix->n_sentence; i++) {
        const struct index_sentence *s = &ix->sentence[i];
        double w;

        if (s->last < line || s->line > line)
            continue;
        w = weigh(b, s->word, s->end);
        if (w > most) {
            most = w;
            best = s;
        }
    }
    if (best && best->from > p->from)
        p->from = best->from;
    if (best && best->to < p->to)
        p->to = best->to;
    if (p->to - p->from > PASSAGE_BYTES)
        p->to = p->from + utf8_complete(ix->text[p->source].text + p->from,
                                        PASSAGE_BYTES);
}

static struct passage around(struct bm25 *b, uint32_t line)
{
    const struct evidence_index *ix = b->ix;
    int source = ix->line[line].source;
    struct passage p = { source, ix->line[line].off, line_end(ix, line) };
    uint32_t first = line, last = line;

    if (p.to - p.from > PASSAGE_BYTES) {
        cut_line(b, line, &p);
        return p;
    }
    for (int i = 0; i < PASSAGE_AROUND; i++) {
        if (first > ix->first_line[source] &&
            p.to - ix->line[first - 1].off <= PASSAGE_BYTES)
            p.from = ix->line[--first].off;
        if (last + 1 < ix->first_line[source + 1] &&
            line_end(ix, last + 1) - p.from <= PASSAGE_BYTES)
            p.to = line_end(ix, ++last);
    }
    return p;
}

static bool is_taken(const struct evidence_index *ix, const struct passages *ps,
                     uint32_t line)
{
    for (int i = 0; i < ps->n; i++)
        if (ps->at[i].source == ix->line[line].source &&
            ix->line[line].off < ps->at[i].to &&
            line_end(ix, line) > ps->at[i].from)
            return true;
    return false;
}

static bool is_before(const struct passage *a, const struct passage *b)
{
    return a->source < b->source ||
           (a->source == b->source && a->from < b->from);
}

/* Insert p in the order of the text, without what others have of it. */
static void insert(struct passages *ps, struct passage p)
{
    int i = ps->n;

    while (i > 0 && is_before(&p, &ps->at[i - 1]))
        i--;
    if (i > 0 && ps->at[i - 1].source == p.source && ps->at[i - 1].to > p.from)
        p.from = ps->at[i - 1].to;
    if (i < ps->n && ps->at[i].source == p.source && ps->at[i].from < p.to)
        p.to = ps->at[i].from;
    memmove(&ps->at[i + 1], &ps->at[i], (size_t)(ps->n - i) * sizeof p);
    ps->at[i] = p;
    ps->n++;
}

static void choose(struct bm25 *b, const struct scores *s, int most,
                   struct passages *out)
{
    const struct evidence_index *ix = b->ix;

    while (out->n < most) {
        uint32_t best = (uint32_t)ix->n_line;

        for (uint32_t l = 0; l < ix->n_line; l++)
            if (s->line[l] > 0 && !is_taken(ix, out, l) &&
                (best == ix->n_line || s->line[l] > s->line[best] ||
                 (s->line[l] == s->line[best] && s->own[l] > s->own[best])))
                best = l;
        if (best == ix->n_line)
            break;
        insert(out, around(b, best));
    }
}

cag_status passages_find(const struct evidence_index *ix,
                         const struct passages_asked *asked,
                         struct passages *out, cag_error *err)
{
    struct scores s = { NULL, NULL, NULL, NULL };
    struct bm25 b = { 0 };
    cag_status st = bm25_init(&b, ix, err);

    memset(out, 0, sizeof *out);
    if (!st)
        st = bm25_ask(&b, asked->question, asked->n_question, err);
    if (!st && asked->before)
        st = bm25_ask(&b, asked->before, asked->n_before, err);
    if (!st)
        st = scores_init(&s, &b, err);
    if (!st && asked->extra) {
        memcpy(s.by_sentence, asked->extra, ix->n_line * sizeof *s.line);
        add_shares(s.line, s.by_sentence, ix->n_line);
    }
    if (!st)
        choose(&b, &s, asked->most, out);
    scores_release(&s);
    bm25_release(&b);
    return st;
}
