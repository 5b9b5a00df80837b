/*
 * evidence_index.h - the words of the knowledge, by line and by sentence.
 *
 * Made from the cached text in about 0.1 ms a KB, never stored.  All words
 * stand in one array in the order of the text, so a line and a sentence are
 * both a range of it; a line of one source never joins that of another.
 *
 * A *window* begins at a line that has words and takes the next two such
 * lines of the same source, over a gap of one line without words at most: in
 * texts of short lines a heading, the blank line and what it heads.  The
 * weight of a word is its rarity among the windows,
 *
 *   idf(w) = ln(1 + (N - df + 0.5) / (df + 0.5))
 *
 * and a word that the text does not have weighs most.  Nothing depends on
 * the number of threads: sums run in the order of the text.
 */
#ifndef EVIDENCE_EVIDENCE_INDEX_H
#define EVIDENCE_EVIDENCE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "evidence/words_table.h"

#define WINDOW_LINES 3

struct index_text {
    const char *text; /* [size] UTF-8, borrowed while the index lives */
    size_t size;
};

struct index_line {
    uint64_t off;  /* in its source's text     */
    uint64_t size; /* without the line's end   */
    int source;
    uint32_t word; /* the first one; the next line's is the end */
};

struct index_sentence {
    uint64_t from, to;   /* bytes of its source's text, trimmed */
    uint32_t line, last; /* lines of the index it touches */
    uint32_t word, end;  /* words [word, end)             */
};

struct index_window {
    uint32_t line[WINDOW_LINES];
    int n;
};

struct evidence_index {
    const struct index_text *text; /* [n_text] borrowed */
    int n_text;
    struct words_table words;
    uint32_t *word; /* [n_word] numbers in words, in the text's order */
    struct index_line *line;         /* [n_line + 1] */
    struct index_sentence *sentence; /* [n_sentence] */
    struct index_window *window;     /* [n_window] by their first line */
    uint32_t *first_line;            /* [n_text + 1] of each source */
    double *idf;                     /* [words.n] */
    double idf_unknown;
    size_t n_word, cap_word, n_line, cap_line, n_sentence, cap_sentence,
        n_window;
};

/* CAG_E_NOMEM, CAG_E_LIMIT (2^30 words or lines). */
cag_status evidence_index_new(const struct index_text *text, int n_text,
                              struct evidence_index **out, cag_error *err);
void evidence_index_free(struct evidence_index *ix);

#endif
