/*
 * bm25.c - see bm25.h.
 */
#include "eval/bm25.h"

#include <string.h>

#include "passage/bm25_score.h"
#include "util/mem.h"

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
    struct bm25 q = { 0 };
    double *v = mem_alloc_array(ix->n_window + 1, sizeof *v);
    bool *taken = mem_alloc_array(ix->n_window + 1, sizeof *taken);
    cag_status st = bm25_init(&q, ix, err);

    if (!st && (!v || !taken))
        st = cag_fail_nomem(err, "passages");
    if (!st)
        st = bm25_ask(&q, question, size, err);
    if (!st) {
        bm25_score(&q, v);
        st = choose(ix, tok, v, taken, budget, err);
    }
    for (size_t i = 0; i < ix->n_window && !st; i++)
        if (taken[i]) {
            size_t n;
            const char *text = window_text(ix, &ix->window[i], &n);

            buf_add(out, text, n);
            buf_char(out, '\n');
        }
    if (!st && buf_failed(out))
        st = cag_fail_nomem(err, "passages");
    bm25_release(&q);
    mem_free(v);
    mem_free(taken);
    return st;
}
