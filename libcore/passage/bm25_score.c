/*
 * bm25_score.c - see bm25_score.h.
 */
#include "passage/bm25_score.h"

#include <string.h>

#include "evidence/words.h"
#include "util/mem.h"

#define K1 1.2
#define B  0.75

cag_status bm25_init(struct bm25 *b, const struct evidence_index *ix,
                     cag_error *err)
{
    b->ix = ix;
    b->tf = mem_alloc_array(ix->words.n + 1, sizeof *b->tf);
    return b->tf ? CAG_OK : cag_fail_nomem(err, "words of a question");
}

void bm25_release(struct bm25 *b)
{
    mem_free(b->tf);
    b->tf = NULL;
}

static cag_status ask_word(void *ctx, const struct word *w, cag_error *err)
{
    struct bm25 *b = ctx;
    int64_t id = words_table_find(&b->ix->words, w->text, w->size);

    (void)err;
    if (id >= 0)
        b->tf[id] = 1;
    return CAG_OK;
}

cag_status bm25_ask(struct bm25 *b, const char *s, size_t size, cag_error *err)
{
    return words_each(s, size, ask_word, b, err);
}

static double n_words(const struct evidence_index *ix,
                      const struct index_window *w)
{
    uint64_t n = 0;

    for (int j = 0; j < w->n; j++) {
        const struct index_line *l = &ix->line[w->line[j]];

        n += l[1].word - l->word;
    }
    return (double)n;
}

/* mean: words of a window. */
static double score(struct bm25 *b, const struct index_window *w, double mean)
{
    const struct evidence_index *ix = b->ix;
    double n = n_words(ix, w), sum = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < w->n; j++) {
            const struct index_line *l = &ix->line[w->line[j]];

            for (uint32_t k = l->word; k < l[1].word; k++) {
                uint32_t id = ix->word[k], tf = b->tf[id];

                if (tf && !pass) {
                    b->tf[id]++;
                } else if (tf > 1) {
                    sum += ix->idf[id] * (tf - 1) * (K1 + 1) /
                           (tf - 1 + K1 * (1 - B + B * n / mean));
                    b->tf[id] = 1;
                }
            }
        }
    return sum;
}

void bm25_score(struct bm25 *b, double *v)
{
    const struct evidence_index *ix = b->ix;
    double mean = 0;

    for (size_t i = 0; i < ix->n_window; i++)
        mean += n_words(ix, &ix->window[i]);
    mean = ix->n_window ? mean / (double)ix->n_window : 1;
    for (size_t i = 0; i < ix->n_window; i++)
        v[i] = score(b, &ix->window[i], mean);
}
