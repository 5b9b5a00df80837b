/*
 * line_mass.c - see line_mass.h.
 */
#include "evidence/line_mass.h"

#include "evidence/evidence.h"
#include "evidence/words.h"
#include "util/mem.h"
#include "util/real.h"

struct line_mass *line_mass_new(size_t n_line)
{
    struct line_mass *a = mem_zalloc(sizeof *a);

    if (!a)
        return NULL;
    a->n_ref = 1;
    a->n_line = n_line;
    a->question = mem_alloc_array(n_line + 1, sizeof *a->question);
    a->answer = mem_alloc_array(n_line + 1, sizeof *a->answer);
    if (a->question && a->answer)
        return a;
    line_mass_release(a);
    return NULL;
}

struct line_mass *line_mass_share(struct line_mass *a)
{
    if (a)
        a->n_ref++;
    return a;
}

void line_mass_release(struct line_mass *a)
{
    if (!a || --a->n_ref > 0)
        return;
    mem_free(a->question);
    mem_free(a->answer);
    mem_free(a->token);
    mem_free(a);
}

bool line_mass_add_token(struct line_mass *a, size_t end, double log_p)
{
    if (a->n_token == a->cap_token) {
        size_t cap = a->cap_token ? 2 * a->cap_token : 64;
        void *grown = mem_realloc(a->token, cap * sizeof *a->token);

        if (!grown)
            return false;
        a->token = grown;
        a->cap_token = cap;
    }
    a->token[a->n_token++] = (struct line_mass_token){ end, log_p };
    return true;
}

void line_mass_add(double *line, const double *sum, int n_head, int64_t n_row,
                   const int32_t *of, size_t n_tok)
{
    double each = n_head > 0 && n_row > 0 ? 1.0 / ((double)n_row * n_head) : 0;

    for (size_t t = 0; t < n_tok; t++) {
        double all = 0;

        if (of[t] < 0)
            continue;
        for (int h = 0; h < n_head; h++)
            all += sum[(size_t)h * n_tok + t];
        line[of[t]] += all * each;
    }
}

void line_mass_shares(const struct evidence_index *ix, const double *line,
                      double *out)
{
    double most = 0;

    for (size_t i = 0; i < ix->n_line; i++) {
        out[i] = line[i];
        if (i > 0 && ix->line[i - 1].source == ix->line[i].source)
            out[i] += line[i - 1] / 2;
        if (i + 1 < ix->n_line && ix->line[i + 1].source == ix->line[i].source)
            out[i] += line[i + 1] / 2;
        most = out[i] > most ? out[i] : most;
    }
    for (size_t i = 0; i < ix->n_line && most > 0; i++)
        out[i] /= most;
}

double line_mass_window(const struct index_window *w, const double *line)
{
    double sum = 0;

    for (int i = 0; i < w->n; i++)
        sum += line[w->line[i]];
    return sum;
}

/* ---------------------------------------------------------------- figures */

struct figures {
    const struct evidence_index *ix;
    const struct line_mass *a;
    const struct index_window *best; /* or NULL */
    struct words_table known, seen;  /* of the question; of the answer */
    size_t n_new, n_shared, at, n_token;
    double log_p;
};

static cag_status know(void *ctx, const struct word *w, cag_error *err)
{
    uint32_t number;

    return words_table_add(ctx, w->text, w->size, &number, err);
}

static bool stands_in(const struct figures *f, const struct word *w)
{
    int64_t id = words_table_find(&f->ix->words, w->text, w->size);

    for (int i = 0; f->best && id >= 0 && i < f->best->n; i++) {
        const struct index_line *l = &f->ix->line[f->best->line[i]];

        for (uint32_t k = l->word; k < l[1].word; k++)
            if (f->ix->word[k] == (uint32_t)id)
                return true;
    }
    return false;
}

/* Tokens of a new word that no word before had. */
static void add_tokens(struct figures *f, const struct word *w)
{
    const struct line_mass_token *t = f->a->token;

    while (f->at < f->a->n_token && t[f->at].end <= w->from)
        f->at++;
    for (; f->at < f->a->n_token && (f->at ? t[f->at - 1].end : 0) < w->to;
         f->at++, f->n_token++)
        f->log_p += t[f->at].log_p;
}

static cag_status take_word(void *ctx, const struct word *w, cag_error *err)
{
    struct figures *f = ctx;
    size_t n = f->seen.n;
    cag_status st;

    if (words_table_find(&f->known, w->text, w->size) >= 0)
        return CAG_OK;
    add_tokens(f, w);
    st = know(&f->seen, w, err);
    if (!st && f->seen.n > n) {
        f->n_new++;
        f->n_shared += stands_in(f, w);
    }
    return st;
}

cag_status line_mass_figures(const struct evidence_index *ix,
                             const struct line_mass *a,
                             const struct evidence_asked *asked,
                             struct line_mass_figures *out, cag_error *err)
{
    struct figures f = { .ix = ix, .a = a };
    cag_status st = CAG_OK;

    *out = (struct line_mass_figures){ 0, 0, 0 };
    for (size_t i = 0; i < ix->n_window; i++) {
        double v = line_mass_window(&ix->window[i], a->answer);

        if (v > out->peak) {
            out->peak = v;
            f.best = &ix->window[i];
        }
    }
    st = words_each(asked->question, asked->n_question, know, &f.known, err);
    if (!st && asked->before)
        st = words_each(asked->before, asked->n_before, know, &f.known, err);
    if (!st)
        st = words_each(asked->answer, asked->n_answer, take_word, &f, err);
    if (f.n_new)
        out->shared = (double)f.n_shared / (double)f.n_new;
    if (f.n_token)
        out->confidence = real_exp(f.log_p / (double)f.n_token);
    words_table_release(&f.known);
    words_table_release(&f.seen);
    return st;
}
