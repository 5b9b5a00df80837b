/*
 * evidence.c - see evidence.h.
 */
#include "evidence/evidence.h"

#include <string.h>

#include "evidence/words.h"
#include "util/mem.h"
#include "util/text.h"

/* ---------------------------------------------------------- asked words */

enum { OF_QUESTION, OF_ANSWER, OF_CONTEXT }; /* the part a word came from */

/* The different words of question and answer. */
struct terms {
    const struct evidence_index *ix;
    struct words_table words;
    struct term {
        double idf;
        uint8_t part; /* the first that has it */
    } * term;         /* [words.n] */
    size_t cap;
    int32_t *of;     /* [ix->words.n] its term, or -1 */
    uint32_t *seen;  /* [words.n] the last place it was counted in */
    uint32_t n_seen; /* places so far */
    double total[2]; /* weight of Q, of N */
    uint8_t part;    /* the one being read */
};

static cag_status add_term(void *ctx, const struct word *w, cag_error *err)
{
    struct terms *t = ctx;
    size_t n = t->words.n;
    int64_t known = words_table_find(&t->ix->words, w->text, w->size);
    uint32_t number;
    cag_status st = words_table_add(&t->words, w->text, w->size, &number, err);

    if (st || t->words.n == n)
        return st;
    if (n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct term *grown = mem_realloc(t->term, cap * sizeof *grown);

        if (!grown)
            return cag_fail_nomem(err, "words of a question");
        t->term = grown;
        t->cap = cap;
    }
    t->term[n] =
        (struct term){ known >= 0 ? t->ix->idf[known] : t->ix->idf_unknown,
                       t->part };
    if (known >= 0)
        t->of[known] = (int32_t)n;
    return CAG_OK;
}

static void terms_release(struct terms *t)
{
    words_table_release(&t->words);
    mem_free(t->term);
    mem_free(t->of);
    mem_free(t->seen);
}

static cag_status read_part(struct terms *t, uint8_t part, const char *s,
                            size_t n, cag_error *err)
{
    t->part = part;
    return s ? words_each(s, n, add_term, t, err) : CAG_OK;
}

/*
 * with_before: the words of the question before are asked, too; without, they
 * are still no new words of the answer.
 */
static cag_status terms_init(struct terms *t, const struct evidence_index *ix,
                             const struct evidence_asked *a, bool with_before,
                             cag_error *err)
{
    cag_status st;

    memset(t, 0, sizeof *t);
    t->ix = ix;
    t->of = mem_alloc_array(ix->words.n + 1, sizeof *t->of);
    if (!t->of)
        return cag_fail_nomem(err, "words of a question");
    for (size_t i = 0; i < ix->words.n; i++)
        t->of[i] = -1;
    st = read_part(t, OF_QUESTION, a->question, a->n_question, err);
    if (!st)
        st = read_part(t, with_before ? OF_QUESTION : OF_CONTEXT, a->before,
                       a->n_before, err);
    if (!st)
        st = read_part(t, OF_ANSWER, a->answer, a->n_answer, err);
    if (st)
        return st;
    t->seen = mem_alloc_array(t->words.n + 1, sizeof *t->seen);
    if (!t->seen)
        return cag_fail_nomem(err, "words of a question");
    for (size_t i = 0; i < t->words.n; i++)
        if (t->term[i].part != OF_CONTEXT)
            t->total[t->term[i].part] += t->term[i].idf;
    return CAG_OK;
}

/* -------------------------------------------------------------- coverage */

/* Begin a new place; words are counted once in it. */
static void place(struct terms *t, double sum[2])
{
    t->n_seen++;
    sum[0] = sum[1] = 0;
}

static void add_range(struct terms *t, uint32_t word, uint32_t end,
                      double sum[2])
{
    for (uint32_t i = word; i < end; i++) {
        int32_t k = t->of[t->ix->word[i]];

        if (k >= 0 && t->seen[k] != t->n_seen &&
            t->term[k].part != OF_CONTEXT) {
            t->seen[k] = t->n_seen;
            sum[t->term[k].part] += t->term[k].idf;
        }
    }
}

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

/* Best coverage of a sentence for each line, and q2n. */
static double cover_sentences(struct terms *t, double *line)
{
    const struct evidence_index *ix = t->ix;
    double q2n = 0;

    for (size_t i = 0; i < ix->n_sentence; i++) {
        const struct index_sentence *s = &ix->sentence[i];
        double sum[2], cov, q, v;

        place(t, sum);
        add_range(t, s->word, s->end, sum);
        cov = share(sum[0] + sum[1], t->total[0] + t->total[1]);
        q = share(sum[0], t->total[0]);
        v = q * q * share(sum[1], t->total[1]);
        q2n = v > q2n ? v : q2n;
        for (uint32_t l = s->line; l <= s->last; l++)
            line[l] = cov > line[l] ? cov : line[l];
    }
    return q2n;
}

static void score_windows(struct terms *t, const double *line, double *score)
{
    const struct evidence_index *ix = t->ix;

    for (size_t i = 0; i < ix->n_window; i++) {
        const struct index_window *w = &ix->window[i];
        double sum[2], best = 0;

        place(t, sum);
        for (int j = 0; j < w->n; j++) {
            const struct index_line *l = &ix->line[w->line[j]];

            add_range(t, l->word, l[1].word, sum);
            best = line[w->line[j]] > best ? line[w->line[j]] : best;
        }
        score[i] =
            (share(sum[0] + sum[1], t->total[0] + t->total[1]) + best / 2) /
            1.5;
    }
}

/* The other half: what the model looked at. */
static void add_attention(const struct evidence_index *ix, const double *line,
                          double *score)
{
    double words = 0, looked = 0;

    for (size_t i = 0; i < ix->n_window; i++) {
        double a = line_mass_window(&ix->window[i], line);

        words = score[i] > words ? score[i] : words;
        looked = a > looked ? a : looked;
    }
    for (size_t i = 0; i < ix->n_window && looked > 0; i++)
        score[i] = (score[i] +
                    words * line_mass_window(&ix->window[i], line) / looked) /
                   2;
}

static bool overlaps(const struct evidence_found *f, uint32_t first,
                     uint32_t last)
{
    for (int i = 0; i < f->n_window; i++)
        if (first <= f->window[i].last && last >= f->window[i].first)
            return true;
    return false;
}

static void choose(const struct evidence_index *ix, const double *score,
                   struct evidence_found *out)
{
    while (out->n_window < EVIDENCE_MAX) {
        struct evidence_window best = { 0, 0, 0, 0, 0 };

        for (size_t i = 0; i < ix->n_window; i++) {
            const struct index_window *w = &ix->window[i];
            uint32_t last = w->line[w->n - 1];

            if (score[i] > best.score && !overlaps(out, w->line[0], last))
                best = (struct evidence_window){ .first = w->line[0],
                                                 .last = last,
                                                 .score = score[i] };
        }
        if (best.score <= 0 ||
            (out->n_window &&
             best.score < EVIDENCE_FLOOR * out->window[0].score))
            break;
        out->window[out->n_window++] = best;
    }
}

static uint64_t line_end(const struct evidence_index *ix, uint32_t line)
{
    return ix->line[line].off + ix->line[line].size;
}

/* The sentence of a window that covers most; the first at equal cover. */
static const struct index_sentence *
best_sentence(struct terms *t, const struct evidence_window *w)
{
    const struct evidence_index *ix = t->ix;
    const struct index_sentence *best = NULL;
    double most = -1;

    for (size_t i = 0; i < ix->n_sentence; i++) {
        const struct index_sentence *s = &ix->sentence[i];
        double sum[2];

        if (s->last < w->first || s->line > w->last)
            continue;
        place(t, sum);
        add_range(t, s->word, s->end, sum);
        if (sum[0] + sum[1] > most) {
            most = sum[0] + sum[1];
            best = s;
        }
    }
    return best;
}

static double weight_of(struct terms *t, uint32_t first, uint32_t last)
{
    double sum[2];

    place(t, sum);
    add_range(t, t->ix->line[first].word, t->ix->line[last + 1].word, sum);
    return sum[0] + sum[1];
}

static double looked_at(const double *line, uint32_t first, uint32_t last)
{
    double sum = 0;

    for (uint32_t i = first; line && i <= last; i++)
        sum += line[i];
    return sum;
}

/* Lines at the ends without which the window has the same words, and nine
 * tenths of its attention. */
static void trim(struct terms *t, const double *line, struct evidence_window *w)
{
    /* sums of another order differ in the last bits */
    double all = weight_of(t, w->first, w->last) - 1e-9;
    double least = looked_at(line, w->first, w->last) / 10;

    while (w->first < w->last && looked_at(line, w->first, w->first) <= least &&
           weight_of(t, w->first + 1, w->last) >= all)
        w->first++;
    while (w->first < w->last && looked_at(line, w->last, w->last) <= least &&
           weight_of(t, w->first, w->last - 1) >= all)
        w->last--;
}

static void narrow(struct terms *t, const double *line,
                   struct evidence_window *w)
{
    const struct evidence_index *ix = t->ix;
    const struct index_sentence *s;
    const char *text = ix->text[ix->line[w->first].source].text;

    trim(t, line, w);
    w->from = ix->line[w->first].off;
    w->to = line_end(ix, w->last);
    if (w->to - w->from <= EVIDENCE_BYTES || !(s = best_sentence(t, w)))
        return;
    w->first = s->line > w->first ? s->line : w->first;
    w->last = s->last < w->last ? s->last : w->last;
    w->from = ix->line[w->first].off;
    w->to = line_end(ix, w->last);
    if (w->to - w->from <= EVIDENCE_BYTES)
        return;
    w->from = s->from > w->from ? s->from : w->from;
    w->to = s->to < w->to ? s->to : w->to;
    if (w->to - w->from > EVIDENCE_BYTES)
        w->to = w->from + utf8_complete(text + w->from, EVIDENCE_BYTES);
    while (ix->line[w->first + 1].source == ix->line[w->first].source &&
           ix->line[w->first + 1].off <= w->from)
        w->first++;
    while (w->last > w->first && ix->line[w->last].off >= w->to)
        w->last--;
    if (w->to > line_end(ix, w->last)) /* it ends within a line's end */
        w->to = line_end(ix, w->last);
}

static cag_status find(const struct evidence_index *ix,
                       const struct evidence_asked *a, bool with_before,
                       struct evidence_found *out, cag_error *err)
{
    const double *looked = a->mass ? a->mass->answer : NULL;
    struct terms t;
    double *line = mem_alloc_array(ix->n_line + 1, sizeof *line);
    double *score = mem_alloc_array(ix->n_window + 1, sizeof *score);
    cag_status st = terms_init(&t, ix, a, with_before, err);

    if (!st && (!line || !score))
        st = cag_fail_nomem(err, "evidence");
    memset(out, 0, sizeof *out);
    if (!st) {
        out->q2n = cover_sentences(&t, line);
        score_windows(&t, line, score);
        if (looked)
            add_attention(ix, looked, score);
        choose(ix, score, out);
        for (int i = 0; i < out->n_window; i++)
            narrow(&t, looked, &out->window[i]);
    }
    mem_free(line);
    mem_free(score);
    terms_release(&t);
    return st;
}

static double first_score(const struct evidence_found *f)
{
    return f->n_window ? f->window[0].score : 0;
}

cag_status evidence_find(const struct evidence_index *ix,
                         const struct evidence_asked *asked,
                         struct evidence_found *out, cag_error *err)
{
    struct evidence_found both;
    cag_status st = find(ix, asked, false, out, err);

    if (st || !asked->before)
        return st;
    st = find(ix, asked, true, &both, err);
    if (!st && (both.q2n > out->q2n || (both.q2n == out->q2n &&
                                        first_score(&both) > first_score(out))))
        *out = both;
    return st;
}
