/*
 * eval.h - how right are the answers of a cache, and their evidence?
 *
 * Questions with known answers (gold) are asked in several arms: of the whole
 * cache, with each kind of second look, of no knowledge at all, and of passages
 * that BM25 finds, in the same prompt.  An answer is right when it contains one
 * of the gold answers, letter case, white space and commas of thousands aside,
 * and no digit beside a number.  Evidence is right when it touches the gold
 * lines.
 */
#ifndef CAG_TOOL_EVAL_H
#define CAG_TOOL_EVAL_H

#include <cag/ask.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cag_gold {
    char *id;       /* heap */
    char *question; /* heap */
    char **answer;  /* [n_answer] heap; any of them is right             */
    int n_answer;
    bool answerable;
    bool judged;  /* the file says whether it is */
    char *source; /* heap; the source that lines are of, or NULL: any    */
    int64_t line_from, line_to; /* 0: unknown                            */
} cag_gold;

typedef struct cag_gold_set {
    cag_gold *v; /* [n] heap */
    int n;
} cag_gold_set;

/*
 * Questions of a file's text: JSON Lines with question, answers, answerable
 * (default: are there answers?; judged: one of the two is given), id, lines
 * [first, last], source; or the JSON of SQuAD 2, whose contexts are looked for
 * in the sources of kb, for the lines.  name is for messages.  CAG_E_FORMAT
 * with its place, CAG_E_NOMEM.
 */
cag_status cag_gold_read(cag_kb *kb, const char *text, size_t size,
                         const char *name, cag_gold_set *out, cag_error *err);
void cag_gold_release(cag_gold_set *g);
/* CAG_E_FORMAT where one of them is not judged: nothing can be right then. */
cag_status cag_gold_check(const cag_gold_set *g, const char *name,
                          cag_error *err);

typedef enum cag_eval_arm {
    CAG_EVAL_CACHE,
    CAG_EVAL_NONE,
    CAG_EVAL_BM25,
    CAG_EVAL_FOCUS_MASK, /* cag_focus, in its order */
    CAG_EVAL_FOCUS_REREAD,
    CAG_EVAL_FOCUS_AUTO,
    CAG_EVAL_ARMS
} cag_eval_arm;
/* "cache", "none", "bm25", "focus-mask", ...; NULL for others */
const char *cag_eval_arm_name(int arm);

enum { CAG_EVAL_STEPS = 6 };
/* The thresholds of the table: 0.02 .. 0.5. */
double cag_eval_threshold(int step);

typedef struct cag_eval_figures {
    int n_answerable, n_unanswerable;
    int n_right;
    int n_gained, n_lost; /* questions right in this arm and not in
                             CAG_EVAL_CACHE, and the other way round */
    int n_refused_right;  /* unanswerable and refused      */
    int n_refused_wrong;  /* answerable, and refused       */
    int n_gold;           /* answerable ones with lines    */
    int n_first, n_three; /* of them: evidence on them    */
    int n_right_gold;     /* right ones with lines        */
    int n_right_first, n_right_three;
    int n_strong, n_strong_right, n_strong_unanswerable;
    double auroc; /* of the score: right answers against all others; -1 if one
                     of them is missing */
    struct cag_eval_step {
        int n_passed, n_right, n_unanswerable; /* score at or above it */
    } step[CAG_EVAL_STEPS];
    int64_t n_prompt, n_generated; /* tokens computed: read, made */
    double seconds, check_s;
    /* with focus: the looks by what they saw (cag_focus), and the passages */
    struct cag_eval_look {
        int n, n_right, n_given;
        double seconds;
    } look[CAG_LOOKS];
    int n_passages; /* of n_gold: a passage is on the lines */
} cag_eval_figures;

typedef struct cag_eval_opts {
    cag_ask_params params;
    bool arm[CAG_EVAL_ARMS];
    int64_t budget; /* tokens of passages for BM25                        */
    /* One row of JSON with its newline for each answer; may be NULL. */
    cag_status (*row)(void *ctx, const char *row, size_t size, cag_error *err);
    void *ctx;
} cag_eval_opts;

typedef struct cag_eval_report {
    int n_question;
    bool arm[CAG_EVAL_ARMS];
    cag_eval_figures figures[CAG_EVAL_ARMS];
    double read_s; /* the first question with the whole prompt read, less
                      that question from the cache: what a cache saves */
} cag_eval_report;

/* kb has its weights; its hooks are told of the questions.  Errors: those of
 * cag_kb_ask, CAG_E_CANCELLED. */
cag_status cag_eval_run(cag_kb *kb, const cag_gold_set *gold,
                        const cag_eval_opts *o, cag_eval_report *r,
                        cag_error *err);
/* Questions after which building the cache has paid, against reading all each
 * time (CAG_EVAL_CACHE) or against an arm; -1: never. */
double cag_eval_break_even(const cag_eval_report *r, int arm);

/* A count that differs from that of an earlier run. */
typedef struct cag_eval_change {
    int arm;
    const char *key; /* as in the JSON of cag-bench eval; static */
    int64_t was, now;
    bool worse;
} cag_eval_change;
typedef void (*cag_eval_change_fn)(void *ctx, const cag_eval_change *c);
/*
 * Compare with the JSON of an earlier run, arms that both have.
 * CAG_E_FORMAT, CAG_E_MISMATCH (another number of questions), CAG_E_NOMEM.
 */
cag_status cag_eval_compare(const char *text, size_t size, const char *name,
                            const cag_eval_report *r, cag_eval_change_fn fn,
                            void *ctx, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
