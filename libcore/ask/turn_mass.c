/*
 * turn_mass.c - see turn_mass.h.
 *
 * One array of sums serves the question and then the answer: when the question
 * is read, its shares go to lines and the array begins anew.
 */
#include "ask/turn_mass.h"

#include <string.h>

#include "ask/kb.h"
#include "ask/support.h"
#include "engine/session.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/real.h"

/* A token this much less likely than the best adds nothing to a sum that is
 * read to three digits. */
#define LOGIT_FAR 20

cag_status turn_mass_begin(struct turn_mass *m, cag_kb *kb,
                           const cag_ask_params *p, cag_session *s,
                           int64_t n_question, cag_error *err)
{
    const cag_kvc_attention *a = cag_kvc_get_attention(kb->kvc);
    cag_status st = CAG_OK;

    if (!kb->n_head || !kb->prefix || !(support_is_asked(p) || p->focus))
        return CAG_OK;
    if (!kb->evidence)
        st = evidence_base_new(kb->kvc, &kb->evidence, err);
    if (!st)
        st = evidence_base_lines(kb->evidence, err);
    if (st)
        return st;
    m->lines = line_mass_new(kb->evidence->index->n_line);
    m->sum = mem_alloc_array((size_t)kb->n_head * kb->n_ids, sizeof *m->sum);
    if (!m->lines || !m->sum)
        return cag_fail_nomem(err, "attention of an answer");
    m->n_question = (int)n_question;
    m->log_p = a->has_null || kb->calibrates;
    return session_set_mass(s, m->sum, err);
}

/* The sums of n_row rows, which are complete, go to lines. */
static cag_status take_sums(struct turn_mass *m, cag_kb *kb, cag_session *s,
                            double *line, int64_t n_row, bool more,
                            cag_error *err)
{
    cag_status st = session_set_mass(s, NULL, err);

    if (st)
        return st;
    line_mass_add(line, m->sum, kb->n_head, n_row, kb->evidence->line_of,
                  kb->n_ids);
    if (!more)
        return CAG_OK;
    memset(m->sum, 0, (size_t)kb->n_head * kb->n_ids * sizeof *m->sum);
    return session_set_mass(s, m->sum, err);
}

cag_status turn_mass_read(struct turn_mass *m, cag_kb *kb, cag_session *s,
                          cag_error *err)
{
    return m->lines ? take_sums(m, kb, s, m->lines->question, m->n_question,
                                true, err)
                    : CAG_OK;
}

/* ln of the probability of id. */
static double log_p(const float *logits, int n, int32_t id)
{
    float max = logits[0];
    double sum = 0;

    for (int i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n; i++)
        if (logits[i] > max - LOGIT_FAR)
            sum += real_exp((double)logits[i] - (double)max);
    return (double)logits[id] - (double)max - real_log(sum);
}

cag_status turn_mass_token(struct turn_mass *m, const cag_kb *kb,
                           const float *logits, int32_t id, size_t end,
                           cag_error *err)
{
    if (!m->lines || !m->log_p ||
        line_mass_add_token(m->lines, end, log_p(logits, kb->n_vocab, id)))
        return CAG_OK;
    return cag_fail_nomem(err, "attention of an answer");
}

cag_status turn_mass_end(struct turn_mass *m, cag_kb *kb, cag_session *s,
                         struct line_mass **out, cag_error *err)
{
    int64_t n_row;
    cag_status st;

    *out = NULL;
    if (!m->lines)
        return CAG_OK;
    n_row = cag_session_n_tok(s) - (int64_t)kb->n_ids - m->n_question;
    st = take_sums(m, kb, s, m->lines->answer, n_row, false, err);
    if (!st) {
        *out = m->lines;
        m->lines = NULL;
    }
    return st;
}

void turn_mass_release(struct turn_mass *m)
{
    line_mass_release(m->lines);
    mem_free(m->sum);
    m->lines = NULL;
    m->sum = NULL;
}
