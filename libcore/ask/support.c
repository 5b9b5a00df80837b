/*
 * support.c - see support.h.
 */
#include "ask/support.h"

#include <string.h>

#include "evidence/evidence.h"
#include "evidence/evidence_base.h"
#include "evidence/evidence_quote.h"
#include "ask/answer_copy.h"
#include "ask/kb.h"
#include "evidence/support_facts.h"
#include "ask/turn.h"
#include "util/clock.h"
#include "util/mem.h"

const char *cag_support_name(cag_support s)
{
    static const char *const name[] = { "none", "weak", "strong" };

    return name[s];
}

static cag_status fill_evidence(struct evidence_base *b,
                                const struct evidence_found *f, cag_checked *c,
                                cag_error *err)
{
    cag_status st = CAG_OK;

    c->evidence = mem_alloc_array((size_t)f->n_window + 1, sizeof *c->evidence);
    if (!c->evidence)
        return cag_fail_nomem(err, "evidence");
    for (int i = 0; i < f->n_window && !st; i++) {
        const struct evidence_window *w = &f->window[i];
        cag_evidence *e = &c->evidence[c->n_evidence++];

        e->score = w->score;
        st = evidence_base_piece(b, b->index->line[w->first].source, w->from,
                                 w->to, &e->at, err);
    }
    return st;
}

/*
 * Not strong, but held up: by quotes that are most of what the answer adds to
 * the question, or by what the model looked at, more than the cache's null, in
 * a place that has half of the answer's new words.
 */
static cag_status is_weak(const cag_kb *kb, const struct evidence_asked *asked,
                          const cag_checked *c, bool *weak, cag_error *err)
{
    const cag_kvc_attention *null = cag_kvc_get_attention(kb->kvc);
    struct line_mass_figures f;
    double quoted;
    cag_status st = evidence_quoted(c->quote, c->n_quote, asked, &quoted, err);

    *weak = !st && quoted >= CAG_SUPPORT_QUOTED;
    if (st || *weak || !asked->mass || !null->has_null)
        return st;
    st = line_mass_figures(kb->evidence->index, asked->mass, asked, &f, err);
    *weak = !st && f.peak * f.confidence > (double)null->null &&
            f.shared >= CAG_SUPPORT_SHARED;
    return st;
}

/* The label, and what it is made of.  A refusal says nothing: its lines are
 * those the question points to. */
static cag_status judge(cag_kb *kb, const cag_text *question,
                        const cag_text *before, const cag_answer *a, bool again,
                        struct evidence_found *f, cag_checked *c,
                        cag_error *err)
{
    struct evidence_base *b = kb->evidence;
    const cag_text known[2] = { *question, before ? *before : (cag_text){ 0 } };
    struct evidence_asked asked = { .question = question->text,
                                    .n_question = question->size,
                                    .before = known[1].text,
                                    .n_before = known[1].size,
                                    .answer = a->text,
                                    .n_answer = a->refused ? 0 : a->size,
                                    .mass = a->attention };
    double least = again ? CAG_SUPPORT_SCORE_AGAIN : CAG_SUPPORT_SCORE;
    bool cut = !strcmp(a->finish, "length"), weak = false;
    cag_status st = evidence_find(b->index, &asked, f, err);

    if (!st && !a->refused)
        st = support_unknown_facts(b, a->text, a->size, cut, known,
                                   &c->unsupported, &c->n_unsupported, err);
    if (!st && !a->refused)
        st = evidence_quotes(b, kb->tok, a->text, a->size, &c->quote,
                             &c->n_quote, err);
    if (!st && !a->refused && !c->n_unsupported)
        st = is_weak(kb, &asked, c, &weak, err);
    if (st)
        return st;
    c->score = f->q2n;
    c->support = weak ? CAG_SUPPORT_WEAK : CAG_SUPPORT_NONE;
    if (!a->refused && f->q2n >= least && !c->n_unsupported)
        c->support = CAG_SUPPORT_STRONG;
    c->refused_by = a->refused ? "model" : NULL;
    c->by = a->attention ? "words+heads" : "words";
    return CAG_OK;
}

static cag_status examine(cag_kb *kb, const cag_text *question,
                          const cag_text *before, const cag_answer *a,
                          cag_checked *c, cag_error *err)
{
    const cag_looked *l = a->looked;
    struct evidence_found f;
    cag_status st =
        judge(kb, question, before, a,
              l && l->look[l->given].from != CAG_FOCUS_OFF, &f, c, err);

    return st ? st : fill_evidence(kb->evidence, &f, c, err);
}

cag_status support_base(cag_kb *kb, cag_error *err)
{
    return kb->evidence ? CAG_OK
                        : evidence_base_new(kb->kvc, &kb->evidence, err);
}

cag_status support_of(cag_kb *kb, const cag_text *question,
                      const cag_text *before, const cag_answer *a, bool again,
                      cag_support *support, double *score, cag_error *err)
{
    cag_checked *c = mem_zalloc(sizeof *c);
    struct evidence_found f;
    cag_status st = c ? support_base(kb, err) : cag_fail_nomem(err, "evidence");

    if (!st)
        st = judge(kb, question, before, a, again, &f, c, err);
    if (!st) {
        *support = c->support;
        *score = c->score;
    }
    answer_checked_free(c);
    return st;
}

static cag_status withhold(const cag_kb *kb, cag_answer *a, cag_error *err)
{
    const char *refusal = kb->tail.refusal ? kb->tail.refusal : PROMPT_REFUSAL;
    char *text = mem_strdup(refusal);

    if (!text)
        return cag_fail_nomem(err, "refusal");
    a->checked->withheld = a->text;
    a->checked->n_withheld = a->size;
    a->checked->refused_by = "evidence";
    a->text = text;
    a->size = strlen(text);
    a->refused = true;
    mem_free(a->logprob);
    a->logprob = NULL;
    a->n_logprob = 0;
    return CAG_OK;
}

cag_status cag_answer_check(cag_kb *kb, const cag_text *question,
                            const cag_text *before, const cag_ask_params *given,
                            cag_answer *a, cag_error *err)
{
    double start = clock_s();
    cag_ask_params p;
    cag_checked *c;
    cag_status st = turn_params(&p, given, err);

    if (st)
        return st;
    if (a->checked)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "the answer is checked already");
    st = support_base(kb, err);
    if (st)
        return st;
    c = mem_zalloc(sizeof *c);
    if (!c)
        return cag_fail_nomem(err, "evidence");
    st = examine(kb, question, before, a, c, err);
    if (st) {
        answer_checked_free(c);
        return st;
    }
    a->checked = c;
    if (!a->refused && c->support < p.require)
        st = withhold(kb, a, err);
    a->check_s = clock_s() - start;
    return st;
}

cag_status support_check_copy(cag_kb *kb, const cag_text *question,
                              const cag_ask_params *p, const cag_answer *a,
                              cag_answer *out, cag_error *err)
{
    cag_status st = answer_copy(out, a, err);

    if (!st)
        st = cag_answer_check(kb, question, NULL, p, out, err);
    if (st)
        cag_answer_release(out);
    return st;
}
