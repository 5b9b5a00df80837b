/*
 * bench_lookup.c - what prompt lookup could gain at best.
 *
 * A step that verifies guesses has more rows than one that does not, and
 * costs more.  Both are measured here, at the depth of the answer; with the
 * guesses an answer made and those that were right, they bound its rate:
 *
 *   seconds = steps * t(1) + guesses * (t(M) - t(1)) / (M - 1)
 *
 * What is missing to the bound, the search for guesses and the sampler cost.
 */
#include <string.h>

#include "bench/bench.h"
#include "ask/kb.h"
#include "util/clock.h"
#include "util/error.h"

#define ROUNDS 8

/* One step of n rows at the session's end, taken back; *s grows by its
 * seconds. */
static cag_status timed_step(cag_session *session, int n, double *s,
                             cag_error *err)
{
    static const int32_t ids[CAG_STEP_MAX] = { 0 }; /* any token will do */
    int depth = cag_session_n_tok(session);
    cag_step step = {
        .session = session, .ids = ids, .n_ids = n, .greedy = true
    };
    double start = clock_s();
    cag_status st = cag_session_verify(&step, 1, err);

    *s += clock_s() - start;
    return st ? st : cag_session_truncate(session, depth, err);
}

static cag_status timed_steps(cag_session *s, double t[2], cag_error *err)
{
    cag_status st = CAG_OK;

    /* one round does not count; in turns, as everything that is compared */
    for (int i = -1; !st && i < ROUNDS; i++) {
        double one[2] = { 0, 0 };

        st = timed_step(s, 1, &one[0], err);
        if (!st)
            st = timed_step(s, CAG_STEP_MAX, &one[1], err);
        for (int k = 0; i >= 0 && k < 2; k++)
            t[k] += one[k] / ROUNDS;
    }
    return st;
}

cag_status bench_lookup(cag_kb *kb, const char *question, double t[2],
                        cag_error *err)
{
    cag_ids ids = CAG_IDS_INIT;
    cag_session *s = NULL;
    cag_status st = prompt_question_encode(&kb->tail, kb->tok, question,
                                           strlen(question), false, &ids, err);

    t[0] = t[1] = 0;
    if (!st)
        st = cag_session_new(kb->engine, kb->prefix,
                             (int)(kb->n_ids + ids.n) + CAG_STEP_MAX, &s, err);
    if (!st)
        st = cag_session_prefill(s, ids.id, (int)ids.n, NULL, err);
    if (!st)
        st = timed_steps(s, t, err);
    cag_session_free(s);
    cag_ids_free(&ids);
    return st;
}

double bench_lookup_bound(const cag_answer *a, const double t[2])
{
    double n = (double)(a->n_generated - 1); /* the prefill gave the first */
    double steps = n - (double)a->n_accepted;

    return n / (steps * t[0] +
                (double)a->n_drafted * (t[1] - t[0]) / (CAG_STEP_MAX - 1));
}
