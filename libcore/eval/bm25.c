/*
 * bm25.c - see bm25.h.
 */
#include "eval/bm25.h"

#include <string.h>

#include "evidence/words.h"
#include "util/mem.h"

#define K1 1.2
#define B  0.75

struct query {
    const struct evidence_index *ix;
    uint32_t *tf; /* [words.n] 1 + its count in the window; 0: not asked */
};

static cag_status ask_word(void *ctx, const struct word *w, cag_error *err)
{
    struct query *q = ctx;
    int64_t id = words_table_find(&q->ix->words, w->text, w->size);

    (void)err;
    if (id >= 0)
        q->tf[id] = 1;
    return CAG_OK;
}

static double mean_length(const struct evidence_index *ix)
{
    double sum = 0;

    for (size_t i = 0; i < ix->n_window; i++)
        for (int j = 0; j < ix->window[i].n; j++) {
            const struct index_line *l = &ix->line[ix->window[i].line[j]];

            sum += l[1].word - l->word;
        }
    return ix->n_window ? sum / (double)ix->n_window : 1;
}

static double score(struct query *q, const struct index_window *w, double mean)
{
    const struct evidence_index *ix = q->ix;
    double n = 0, sum = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < w->n; j++) {
            const struct index_line *l = &ix->line[w->line[j]];

            n += pass ? 0 : (double)(l[1].word - l->word);
            for (uint32_t k = l->word; k < l[1].word; k++) {
                uint32_t id = ix->word[k], tf = q->tf[id];

                if (tf && !pass) {
                    q->tf[id]++;
                } else if (tf > 1) {
                    sum += ix->idf[id] * (tf - 1) * (K1 + 1) /
                           (tf - 1 + K1 * (1 - B + B * n / mean));
                    q->tf[id] = 1;
                }
            }
        }
    return sum;
}

static const char *window_text(const struct evidence_index *ix,
                               const struct index_window *w, size_t *size)
{
    const struct index_line *a = &ix->line[w->line[0]];
    const struct index_line *b = &ix->line[w->line[w->n - 1]];

    *size = (size_t)(b->off + b->size - a->off);
    return ix->text[a->source].text + a->off;
}

static cag_status count_tokens(const cag_tokenizer *tok, const char *s,
                               size_t n, int64_t *n_tok, cag_error *err)
{
    const cag_text piece = { s, n, 0 };
    cag_ids ids = CAG_IDS_INIT;
    cag_status st = cag_encode(tok, &piece, 1, 0, &ids, err);

    *n_tok = (int64_t)ids.n;
    cag_ids_free(&ids);
    return st;
}

/* The best windows that fit, none with a line of another. */
static cag_status choose(const struct evidence_index *ix,
                         const cag_tokenizer *tok, double *v, bool *taken,
                         int64_t budget, cag_error *err)
{
    cag_status st = CAG_OK;

    while (!st) {
        size_t best = ix->n_window, size;
        const char *text;
        int64_t n_tok;

        for (size_t i = 0; i < ix->n_window; i++)
            if (v[i] > 0 && (best == ix->n_window || v[i] > v[best]))
                best = i;
        if (best == ix->n_window)
            break;
        text = window_text(ix, &ix->window[best], &size);
        st = count_tokens(tok, text, size, &n_tok, err);
        v[best] = 0;
        if (st || n_tok + 1 > budget)
            continue;
        budget -= n_tok + 1;
        taken[best] = true;
        for (size_t i = 0; i < ix->n_window; i++) {
            const struct index_window *a = &ix->window[best];
            const struct index_window *b = &ix->window[i];

            if (b->line[0] <= a->line[a->n - 1] &&
                b->line[b->n - 1] >= a->line[0])
                v[i] = 0;
        }
    }
    return st;
}

cag_status bm25_passages(const struct evidence_index *ix,
                         const cag_tokenizer *tok, const char *question,
                         size_t size, int64_t budget, struct buf *out,
                         cag_error *err)
{
    struct query q = { ix, mem_alloc_array(ix->words.n + 1, sizeof *q.tf) };
    double *v = mem_alloc_array(ix->n_window + 1, sizeof *v);
    bool *taken = mem_alloc_array(ix->n_window + 1, sizeof *taken);
    double mean = mean_length(ix);
    cag_status st = CAG_OK;

    if (!q.tf || !v || !taken)
        st = cag_fail_nomem(err, "passages");
    if (!st)
        st = words_each(question, size, ask_word, &q, err);
    for (size_t i = 0; i < ix->n_window && !st; i++)
        v[i] = score(&q, &ix->window[i], mean);
    if (!st)
        st = choose(ix, tok, v, taken, budget, err);
    for (size_t i = 0; i < ix->n_window && !st; i++)
        if (taken[i]) {
            size_t n;
            const char *text = window_text(ix, &ix->window[i], &n);

            buf_add(out, text, n);
            buf_char(out, '\n');
        }
    if (!st && buf_failed(out))
        st = cag_fail_nomem(err, "passages");
    mem_free(q.tf);
    mem_free(v);
    mem_free(taken);
    return st;
}
