/*
 * bench_check.c - what it costs to check an answer, and to look again.
 *
 * Costs are of the answer's own time, in percent, and taken in turns with it.
 * Measuring where the model looks changes no token, so that both answers are
 * the same length.
 */
#include <string.h>

#include "ask/kb.h"
#include "ask/support.h"
#include "bench/bench.h"
#include "engine/engine.h"
#include "util/clock.h"

enum { EVIDENCE, HEADS, MASK, REREAD, N_CHECK };

/* Ask without measuring attention, or as the cache says. */
static cag_status ask(cag_kb *kb, const cag_text *q, const cag_ask_params *p,
                      bool measured, cag_answer *a, cag_error *err)
{
    int n_head = kb->n_head;
    cag_status st;

    kb->n_head = measured ? n_head : 0;
    st = cag_kb_ask(kb, q->text, q->size, p, NULL, NULL, a, err);
    kb->n_head = n_head;
    return st;
}

static cag_status check(cag_kb *kb, const cag_text *q, cag_ask_params *p,
                        struct bench_series s[N_CHECK], cag_error *err)
{
    double plain = 0, start;
    cag_answer a, checked;
    cag_status st;

    p->evidence = true;
    st = ask(kb, q, p, false, &a, err);
    if (st)
        return st;
    plain = a.first_s + a.decode_s;
    cag_answer_release(&a);
    st = ask(kb, q, p, true, &a, err);
    if (st)
        return st;
    if (kb->n_head)
        bench_series_add(&s[HEADS],
                         100 * ((a.first_s + a.decode_s) / plain - 1));
    start = clock_s();
    st = support_check_copy(kb, q, p, &a, &checked, err);
    if (!st) {
        bench_series_add(&s[EVIDENCE], clock_s() - start);
        cag_answer_release(&checked);
    }
    cag_answer_release(&a);
    p->evidence = false;
    return st;
}

/* Words from the middle of the knowledge: a question that leads somewhere. */
static cag_text words_of(const struct bench_job *j)
{
    const char *s = j->text, *end = s + j->text_size;
    size_t n = 0;

    s += j->text_size / 2;
    while (s < end && (unsigned char)*s > ' ')
        s++;
    while (s < end && (unsigned char)*s <= ' ')
        s++;
    while (s + n < end && (n < 60 || (unsigned char)s[n] > ' '))
        n++;
    return (cag_text){ .text = s, .size = n };
}

/* What a second look adds to an answer that takes `plain' seconds; nothing
 * where no passage is found. */
static cag_status look_again(cag_kb *kb, const cag_text *q, cag_ask_params *p,
                             cag_focus focus, double plain,
                             struct bench_series *s, cag_error *err)
{
    cag_answer a;
    cag_status st;

    p->focus = focus;
    st = ask(kb, q, p, true, &a, err);
    p->focus = CAG_FOCUS_OFF;
    if (st)
        return st;
    if (a.looked && a.looked->n_look > 1)
        bench_series_add(s, 100 * ((a.first_s + a.decode_s) / plain - 1));
    cag_answer_release(&a);
    return CAG_OK;
}

static cag_status look_twice(cag_kb *kb, const cag_text *q, cag_ask_params *p,
                             struct bench_series s[N_CHECK], cag_error *err)
{
    double plain;
    cag_answer a;
    cag_status st = ask(kb, q, p, true, &a, err);

    if (st)
        return st;
    plain = a.first_s + a.decode_s;
    cag_answer_release(&a);
    if (engine_has_views(kb->engine))
        st = look_again(kb, q, p, CAG_FOCUS_MASK, plain, &s[MASK], err);
    if (!st)
        st = look_again(kb, q, p, CAG_FOCUS_REREAD, plain, &s[REREAD], err);
    return st;
}

static cag_status once(struct bench_job *j, cag_kb *kb, int i,
                       struct bench_series s[N_CHECK], cag_error *err)
{
    const char *text = j->o->question[i % j->o->n_question];
    const cag_text q = { .text = text, .size = strlen(text) };
    const cag_text own = words_of(j);
    cag_ask_params p;
    cag_status st;

    cag_ask_params_init(&p);
    p.max_tok = j->o->n_gen;
    st = check(kb, &q, &p, s, err);
    if (!st)
        st = look_twice(kb, &own, &p, s, err);
    return st;
}

cag_status bench_check(struct bench_job *j, const struct bench_case *c,
                       cag_error *err)
{
    static const char *const name[N_CHECK] = { "evidence", "copy_heads",
                                               "focus_mask", "focus_reread" };
    struct bench_series s[N_CHECK] = { { NULL, 0, 0 } };
    cag_kb_opts o;
    cag_kb *kb = NULL;
    cag_status st;

    bench_kb_opts(j, false, &o);
    st = cag_kb_open(c->path, &o, &kb, err);
    for (int k = 0; !st && k < N_CHECK; k++)
        st = bench_series_init(&s[k], j->o->repeat, err);
    for (int i = -j->o->warmup; !st && i < j->o->repeat; i++) {
        st = bench_cancelled(j, "checked answers", err);
        if (!st)
            st = once(j, kb, i + j->o->warmup, s, err);
        for (int k = 0; i < 0 && k < N_CHECK; k++)
            s[k].n = 0; /* that was the warming up */
    }
    for (int k = 0; !st && k < N_CHECK; k++) {
        cag_bench_figure f = bench_figure(name[k], k == EVIDENCE ? "s" : "%",
                                          c->n_tok, CAG_BENCH_LOWER);

        if (s[k].n)
            st = bench_add(j->r, &f, &s[k], err);
    }
    for (int k = 0; k < N_CHECK; k++)
        bench_series_release(&s[k]);
    cag_kb_close(kb);
    return st;
}
