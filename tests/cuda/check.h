/*
 * check.h - what the parts of check_cuda share: the run, its steps, and the
 * engines and sessions that steps are made of.
 *
 *   check_cuda.c   options, the order of the steps
 *   check_step.c   a step: its seconds, its result, what it counts as
 *   check_agree.c  comparisons: with the CPU, of many rows with one
 *   check_speed.c  measurements
 *   check_model.c check_cache.c   random models and caches
 */
#ifndef CHECK_H
#define CHECK_H

#include <cag/session.h>

#include "engine/engine.h"
#include "tests/cuda/check_model.h"
#include "util/json.h"

struct check_run {
    const char *device, *plugin, *out;
    bool tiny, probe;
    double budget, start, bandwidth;
    double step_s;   /* of a step with --tiny */
    double deadline; /* of the step that runs */
    bool overdue;    /* a call was ended by the deadline */
    char dir[64], cache[80];
    double recompute_s; /* the cache's tokens, computed */
    jv *steps;
    int n_checked, n_cut, n_skipped, n_bad;
};
extern struct check_run check;

/* Why the step that runs has failed; "" as long as it has not. */
extern char check_why[1600];

double check_now(void);

/*
 * Begin a step of so many seconds (--tiny: of check.step_s).  False where the
 * run has no room for it, which is noted.
 */
bool check_begin(const char *name, const char *of, double seconds);

/*
 * What a step is: a comparison, which has to be made, or a measurement, which
 * may be cut off.
 */
enum check_kind { CHECK_COMPARE, CHECK_MEASURE };

/* Add the step's result, which is taken over, and rewrite check.out: it is
 * cut off if the deadline ended a call, else failed if check_why says so. */
void check_finish(enum check_kind kind, const char *name, jv *step,
                  double began);

/* The sum of the steps as the last one; the exit status. */
int check_sum(void);

/* Whether a call succeeded; else check_why is what it said. */
bool check_ok(cag_status st, const cag_error *err);

/* With the deadline as its progress; NULL after a failure. */
cag_engine *check_engine(const cag_model *m, const char *device, int layers);
/* Owned by the caller; NULL without memory. */
int32_t *check_ids(int n, int n_vocab);
/*
 * A session with n tokens after a prefix of depth (or none) and room for more;
 * the seconds of the prefill alone.  NULL after a failure.
 */
struct check_prompt {
    cag_prefix *prefix;
    int depth, n, more;
    const int32_t *ids;
};
cag_session *check_prefill(cag_engine *e, const struct check_prompt *p,
                           const float **logits, double *seconds);

/* ----------------------------------------------------------- check_agree.c */

/* The same prompt and steps on the CPU and on gpu, after a cache (or none). */
void check_against_cpu(const cag_model *m, cag_engine *gpu, const char *name,
                       const char *cache);
/* Of a small model: caches of either codec, batches, every split. */
void check_parts(const cag_model *m, cag_engine *gpu);

/* ----------------------------------------------------------- check_speed.c */

/* Prompt tokens per second, then generated ones at that depth. */
void check_speed(const cag_model *m, cag_engine *e, const char *of, int depth,
                 double seconds);
/* What the next steps read, computed and written; whether it is there. */
bool check_make_cache(const cag_model *m, cag_engine *e, int n);
/* Groups of questions on the one cache, read and answered together. */
void check_questions(const cag_model *m, cag_engine *e, const int *group,
                     int n_group);
/* From nothing to the first token of a question on the cache, weights and
 * cache in the page cache: with when each copy and each layer was over. */
void check_load(const cag_model *m);
/* Questions on as long a cache of codes: half the bytes. */
void check_codes(const cag_model *m, cag_engine *e, int depth);

#endif
