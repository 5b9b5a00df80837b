/*
 * ask_many.c - an array of questions to an array of answers.
 */
#include <string.h>

#include "batch/batch_row.h"
#include "ask/crew.h"
#include "ask/kb.h"
#include "ask/support.h"
#include "util/error.h"
#include "util/mem.h"

struct many {
    const cag_question *q; /* [n] */
    int n;
    cag_answer *answer;
    cag_error *error; /* or NULL */
    struct one {
        struct crew_member m;
        cag_ask_params params;
    } * one; /* [n] */
    struct crew crew;
    int next, n_done;
};

/* Give out what question i has come to, checked if that was asked for. */
static cag_status hand_over(struct many *a, int i, cag_error *err)
{
    struct crew_member *m = &a->one[i].m;
    cag_text q = { a->q[i].text, a->q[i].size, 0 };

    if (!m->error.status && support_is_asked(m->params)) {
        cag_status st =
            cag_answer_check(a->crew.kb, &q, NULL, m->params, &m->answer, err);

        if (st)
            return st;
    }
    a->answer[i] = m->answer;
    if (a->error)
        a->error[i] = m->error;
    memset(&m->answer, 0, sizeof m->answer);
    m->question = NULL; /* handed over */
    a->n_done++;
    return CAG_OK;
}

static cag_status start(struct many *a, int i, cag_error *err)
{
    struct crew_member *m = &a->one[i].m;
    cag_status st = turn_params(&a->one[i].params, a->q[i].params, &m->error);

    m->question = a->q[i].text;
    m->size = a->q[i].size;
    m->params = &a->one[i].params;
    if (st) {
        m->state = CREW_DONE;
        return CAG_OK;
    }
    st = row_options_key(a->crew.kb, m->params, m->key, err);
    return st ? st : crew_add(&a->crew, m, err);
}

static cag_status run(struct many *a, cag_error *err)
{
    cag_status st = CAG_OK;

    while (!st && a->n_done < a->n) {
        while (!st && a->next < a->n && crew_has_room(&a->crew))
            st = start(a, a->next++, err);
        if (!st)
            st = crew_step(&a->crew, err);
        for (int i = 0; i < a->next && !st; i++)
            if (a->one[i].m.question && a->one[i].m.state == CREW_DONE)
                st = hand_over(a, i, err);
        if (!st)
            st = crew_progress(&a->crew, a->n_done, a->n, err);
    }
    return st;
}

cag_status cag_kb_ask_many(cag_kb *kb, const cag_question *q, int n,
                           int parallel, cag_answer *answer, cag_error *error,
                           cag_error *err)
{
    struct many a = { .q = q, .n = n, .answer = answer, .error = error };
    int64_t longest = 1;
    cag_status st;

    if (n < 0 || parallel < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%d questions, %d at a time: expected at least 0", n,
                        parallel);
    for (int i = 0; i < n; i++) {
        memset(&answer[i], 0, sizeof *answer);
        if (error)
            error[i] = (cag_error)CAG_ERROR_INIT;
    }
    if (!n)
        return CAG_OK;
    a.one = mem_alloc_array((size_t)n, sizeof *a.one);
    if (!a.one)
        return cag_fail_nomem(err, "questions");
    for (int i = 0; i < n; i++)
        if (!turn_params(&a.one[i].params, q[i].params, NULL) &&
            a.one[i].params.max_tok > longest)
            longest = a.one[i].params.max_tok;
    st = crew_init(&a.crew, kb, parallel, 0, longest, err);
    if (!st) {
        st = run(&a, err);
        crew_release(&a.crew);
    }
    for (int i = 0; i < n; i++)
        cag_answer_release(&a.one[i].m.answer);
    mem_free(a.one);
    return st;
}
