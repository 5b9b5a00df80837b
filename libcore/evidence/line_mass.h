/*
 * line_mass.h - where the copy heads looked while a question was read and its
 * answer made, by line of the knowledge.
 *
 * Shares are means over heads and tokens: how much of the attention of a token
 * a line got.  They survive rewording, where words fail, and are the same bits
 * for any number of threads and neighbours (session_set_mass).
 *
 *   peak        the most of the answer's attention on a window
 *   confidence  exp of the mean log p of the tokens of the answer's new words
 *   shared      how many of the new words, of 0 .. 1, stand in that window
 *
 * peak x confidence is what a null is taken of (kvc(5), ATTN).
 */
#ifndef EVIDENCE_LINE_MASS_H
#define EVIDENCE_LINE_MASS_H

#include "evidence/evidence_index.h"

struct line_mass {
    int n_ref;
    size_t n_line;
    double *question, *answer; /* [n_line] of the index */
    struct line_mass_token {
        size_t end;   /* of its bytes in the answer */
        double log_p; /* nats */
    } * token;        /* [n_token] or none: nobody asked for it */
    size_t n_token, cap_token;
};

/* Zero, for an index of n_line lines.  NULL: no memory. */
struct line_mass *line_mass_new(size_t n_line);
struct line_mass *line_mass_share(struct line_mass *a);
void line_mass_release(struct line_mass *a); /* NULL is fine */
/* The next token of the answer; false: no memory. */
bool line_mass_add_token(struct line_mass *a, size_t end, double log_p);
/* line [n_line] += the sums of n_head heads over n_row rows, as shares; of
 * gives the line of each of n_tok tokens, -1 for none. */
void line_mass_add(double *line, const double *sum, int n_head, int64_t n_row,
                   const int32_t *of, size_t n_tok);
/* Each line with half of its neighbours of the same source, as a share of the
 * most that a line has. */
void line_mass_shares(const struct evidence_index *ix, const double *line,
                      double *out);
double line_mass_window(const struct index_window *w, const double *line);

/* The figures above. */
struct line_mass_figures {
    double peak, confidence, shared;
};
struct evidence_asked;
cag_status line_mass_figures(const struct evidence_index *ix,
                             const struct line_mass *a,
                             const struct evidence_asked *asked,
                             struct line_mass_figures *out, cag_error *err);

#endif
