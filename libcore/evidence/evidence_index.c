/*
 * evidence_index.c - see evidence_index.h.
 */
#include "evidence/evidence_index.h"

#include <math.h>
#include <string.h>

#include "evidence/words.h"
#include "util/mem.h"

#define MAX_ITEMS ((size_t)1 << 30)

/* Room for one more in an array of n, cap items. */
static cag_status room(void **v, size_t n, size_t *cap, size_t size,
                       cag_error *err)
{
    size_t more = *cap ? *cap + *cap / 2 : 256, bytes;
    void *grown;

    if (n < *cap)
        return CAG_OK;
    if (more > MAX_ITEMS)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "the text has too many words for evidence");
    grown = mem_mul(&bytes, more, size) ? mem_realloc(*v, bytes) : NULL;
    if (!grown)
        return cag_fail_nomem(err, "index of words");
    *v = grown;
    *cap = more;
    return CAG_OK;
}

/* ------------------------------------------------------------------ words */

struct filling {
    struct evidence_index *ix;
    size_t off;      /* of the line in its source */
    size_t sentence; /* the one that words fall into */
};

static cag_status add_word(void *ctx, const struct word *w, cag_error *err)
{
    struct filling *f = ctx;
    struct evidence_index *ix = f->ix;
    struct index_sentence *s = &ix->sentence[f->sentence];
    void *v = ix->word;
    cag_status st = room(&v, ix->n_word, &ix->cap_word, sizeof *ix->word, err);

    ix->word = v;
    if (st)
        return st;
    for (; f->off + w->from >= s->to && f->sentence + 1 < ix->n_sentence; s++) {
        s->end = (uint32_t)ix->n_word;
        s[1].word = s->end;
        f->sentence++;
    }
    st = words_table_add(&ix->words, w->text, w->size, &ix->word[ix->n_word],
                         err);
    ix->n_word += !st;
    return st;
}

static cag_status add_line(struct evidence_index *ix, int source, size_t off,
                           size_t size, cag_error *err)
{
    void *v = ix->line;
    /* one more for the end of the last */
    cag_status st =
        room(&v, ix->n_line + 1, &ix->cap_line, sizeof *ix->line, err);

    ix->line = v;
    if (!st)
        ix->line[ix->n_line++] =
            (struct index_line){ off, size, source, (uint32_t)ix->n_word };
    return st;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The sentences of a source, still without lines and words. */
static cag_status add_sentences(struct evidence_index *ix,
                                const struct index_text *t, cag_error *err)
{
    cag_status st = CAG_OK;

    for (size_t i = 0, size; i < t->size && !st; i += size) {
        size_t from = i, to;
        void *v = ix->sentence;

        size = words_sentence(t->text + i, t->size - i);
        to = i + size;
        while (from < to && is_blank(t->text[from]))
            from++;
        while (to > from && is_blank(t->text[to - 1]))
            to--;
        if (from == to)
            continue;
        st = room(&v, ix->n_sentence, &ix->cap_sentence, sizeof *ix->sentence,
                  err);
        ix->sentence = v;
        if (!st)
            ix->sentence[ix->n_sentence++] =
                (struct index_sentence){ .from = from, .to = to };
    }
    return st;
}

/* Both are in the order of the text: one walk. */
static void find_lines(struct evidence_index *ix, size_t sentence, size_t line)
{
    for (; sentence < ix->n_sentence; sentence++) {
        struct index_sentence *s = &ix->sentence[sentence];

        while (line + 1 < ix->n_line && ix->line[line + 1].off <= s->from)
            line++;
        s->line = (uint32_t)line;
        while (line + 1 < ix->n_line && ix->line[line + 1].off < s->to)
            line++;
        s->last = (uint32_t)line;
    }
}

static cag_status add_text(struct evidence_index *ix, int source,
                           cag_error *err)
{
    const struct index_text *t = &ix->text[source];
    size_t first_line = ix->n_line, first = ix->n_sentence;
    struct filling f = { .ix = ix, .sentence = first };
    cag_status st = add_sentences(ix, t, err);

    if (!st && ix->n_sentence > first)
        ix->sentence[first].word = (uint32_t)ix->n_word;
    for (size_t i = 0; i < t->size && !st;) {
        const char *nl = memchr(t->text + i, '\n', t->size - i);
        size_t size = nl ? (size_t)(nl - t->text) - i : t->size - i;
        size_t text = size && t->text[i + size - 1] == '\r' ? size - 1 : size;

        f.off = i;
        st = add_line(ix, source, i, text, err);
        if (!st && ix->n_sentence > first)
            st = words_each(t->text + i, text, add_word, &f, err);
        i += size + 1;
    }
    if (st)
        return st;
    for (size_t i = f.sentence; i < ix->n_sentence; i++) {
        ix->sentence[i].end = (uint32_t)ix->n_word;
        if (i > f.sentence)
            ix->sentence[i].word = (uint32_t)ix->n_word;
    }
    find_lines(ix, first, first_line);
    return CAG_OK;
}

/* ---------------------------------------------------------------- windows */

static bool has_words(const struct evidence_index *ix, size_t line)
{
    return ix->line[line].word < ix->line[line + 1].word;
}

/* The next line with words, one that has none in between at most. */
static bool next_line(const struct evidence_index *ix, uint32_t *line)
{
    for (uint32_t i = *line + 1; i < ix->n_line && i <= *line + 2; i++) {
        if (ix->line[i].source != ix->line[*line].source)
            return false;
        if (has_words(ix, i)) {
            *line = i;
            return true;
        }
    }
    return false;
}

static cag_status make_windows(struct evidence_index *ix, cag_error *err)
{
    ix->window = mem_alloc_array(ix->n_line + 1, sizeof *ix->window);
    if (!ix->window)
        return cag_fail_nomem(err, "index of words");
    for (size_t i = 0; i < ix->n_line; i++) {
        struct index_window *w = &ix->window[ix->n_window];
        uint32_t line = (uint32_t)i;

        if (!has_words(ix, i))
            continue;
        w->line[w->n++] = line;
        while (w->n < WINDOW_LINES && next_line(ix, &line))
            w->line[w->n++] = line;
        ix->n_window++;
    }
    return CAG_OK;
}

/* df of each word: the windows it is in. */
static cag_status weigh(struct evidence_index *ix, cag_error *err)
{
    size_t n = ix->words.n;
    uint32_t *df = mem_alloc_array(n + 1, sizeof *df);
    uint32_t *in = mem_alloc_array(n + 1, sizeof *in); /* last window + 1 */

    ix->idf = mem_alloc_array(n + 1, sizeof *ix->idf);
    if (!df || !in || !ix->idf) {
        mem_free(df);
        mem_free(in);
        return cag_fail_nomem(err, "index of words");
    }
    for (size_t i = 0; i < ix->n_window; i++)
        for (int j = 0; j < ix->window[i].n; j++) {
            const struct index_line *l = &ix->line[ix->window[i].line[j]];

            for (uint32_t k = l->word; k < l[1].word; k++) {
                uint32_t w = ix->word[k];

                df[w] += in[w] != i + 1;
                in[w] = (uint32_t)i + 1;
            }
        }
    for (size_t i = 0; i < n; i++)
        ix->idf[i] =
            log(1 + ((double)ix->n_window - df[i] + 0.5) / (df[i] + 0.5));
    ix->idf_unknown = log(1 + ((double)ix->n_window + 0.5) / 0.5);
    mem_free(df);
    mem_free(in);
    return CAG_OK;
}

cag_status evidence_index_new(const struct index_text *text, int n_text,
                              struct evidence_index **out, cag_error *err)
{
    struct evidence_index *ix = mem_zalloc(sizeof *ix);
    cag_status st = CAG_OK;

    if (!ix)
        return cag_fail_nomem(err, "index of words");
    ix->text = text;
    ix->n_text = n_text;
    ix->first_line =
        mem_alloc_array((size_t)n_text + 1, sizeof *ix->first_line);
    if (!ix->first_line)
        st = cag_fail_nomem(err, "index of words");
    for (int i = 0; i < n_text && !st; i++) {
        ix->first_line[i] = (uint32_t)ix->n_line;
        st = add_text(ix, i, err);
    }
    if (!st) {
        ix->first_line[n_text] = (uint32_t)ix->n_line;
        st = add_line(ix, n_text, 0, 0, err); /* the end of the last */
        ix->n_line -= !st;
    }
    if (!st)
        st = make_windows(ix, err);
    if (!st)
        st = weigh(ix, err);
    if (st)
        evidence_index_free(ix);
    else
        *out = ix;
    return st;
}

void evidence_index_free(struct evidence_index *ix)
{
    if (!ix)
        return;
    words_table_release(&ix->words);
    mem_free(ix->word);
    mem_free(ix->line);
    mem_free(ix->sentence);
    mem_free(ix->window);
    mem_free(ix->first_line);
    mem_free(ix->idf);
    mem_free(ix);
}
