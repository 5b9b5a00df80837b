/*
 * focus.h - the looks at one question: at all of the knowledge, and at the
 * passages it leads to.
 *
 * The passages are tokens of the cached prefix, those of its head (what stands
 * before the first source), of the headings of their sources and of its tail
 * with them.  A masked look sees these tokens of the cache and no others, at
 * their positions; to read again is to compute the same tokens as a prompt of
 * their own.  So both say the same, in the cache's own words.
 *
 *   focus_init            for one question
 *   focus_next            a look that is still to be taken, as far as is known
 *       focus_prompt      what it reads and sees: a turn is made of it
 *       focus_passages    once the first look has read the question
 *       focus_take        what it came to
 *   focus_end             the better supported answer
 *
 * All is a function of cache, question, answers and parameters.  looks.h has
 * the turns, some of which may run at the same time.
 */
#ifndef ASK_FOCUS_H
#define ASK_FOCUS_H

#include <cag/ask.h>

#include "evidence/line_mass.h"
#include "passage/passage_tokens.h"
#include "ask/turn.h"

/*
 * AUTO takes looks until an answer is strong with this score: at .1 a model of
 * 0.5B is right for 84 of 100 answers to a manual, at .26 for 90.  No answer of
 * a small model is enough: one of 135M is right for 1 of 6 at .25, and for 5 of
 * these 6 at the second look (tests/bench/results/evidence.md).
 */
#define FOCUS_ENOUGH 0.25

struct focus {
    cag_kb *kb;
    const cag_ask_params *params;
    cag_text question, before; /* borrowed; before.text may be NULL        */
    cag_looked *looked;        /* NULL without focus, and after the end    */
    struct token_range range[PASSAGE_RANGES];
    int n_range;     /* 0: there is one look                              */
    bool is_read;    /* the passages are known                            */
    int n_taken;     /* looks                                             */
    cag_answer best; /* of those taken; tokens and seconds of all         */
    double start_s, end_s; /* of all that were taken                      */
    int32_t *ids; /* heap: the prompt of passages and question         */
};

/* May kb look as params say?  CAG_E_UNSUPPORTED. */
cag_status focus_check(const cag_kb *kb, const cag_ask_params *params,
                       cag_error *err);
/* before: the question before, in a conversation, or NULL.  focus_release may
 * be called after an error, and of a zeroed f. */
cag_status focus_init(struct focus *f, cag_kb *kb, const cag_ask_params *params,
                      const cag_text *question, const cag_text *before,
                      cag_error *err);
/* Is look i to be begun, when those before it were?  Not before it is certain:
 * some depend on what the ones before come to. */
bool focus_next(const struct focus *f, int i, cag_focus *look);
/* mass: what the first look was at while it read the question, or NULL.
 * Nothing without focus. */
cag_status focus_passages(struct focus *f, const struct line_mass *mass,
                          cag_error *err);
/* ids [n]: all that follows the cached prefix, borrowed by *out; as is f. */
cag_status focus_prompt(struct focus *f, cag_focus look, const int32_t *ids,
                        size_t n, struct turn_prompt *out, cag_error *err);
/* In the order of the looks; start_s: when it was begun.  Takes *a over. */
cag_status focus_take(struct focus *f, cag_focus look, cag_answer *a,
                      double start_s, cag_error *err);
/* Move the answer out; f is released. */
void focus_end(struct focus *f, cag_answer *out);
void focus_release(struct focus *f);
/* Judge anew the looks of an answer of an earlier run, of which only the texts
 * and the one given are known. */
cag_status focus_judge(cag_kb *kb, const cag_text *question,
                       const cag_ask_params *p, cag_answer *a, cag_error *err);

#endif
