/*
 * focus.c - see focus.h.
 */
#include "ask/focus.h"

#include <string.h>

#include "ask/answer_copy.h"
#include "ask/kb.h"
#include "ask/support.h"
#include "util/error.h"
#include "util/mem.h"

const char *cag_focus_name(int f)
{
    static const char *const name[] = { "off", "mask", "reread", "auto" };

    return f >= 0 && f <= CAG_FOCUS_AUTO ? name[f] : NULL;
}

/* Which look alone was right more often where the cache's questions were asked
 * (build it with --questions); without such a measurement the size of the model
 * decides: a mask makes answers of small ones worse. */
static bool masks(const cag_kb *kb)
{
    const cag_kvc_attention *a = cag_kvc_get_attention(kb->kvc);

    if (a && a->has_looks && a->n_mask != a->n_reread)
        return a->n_mask > a->n_reread;
    return !kb->is_small;
}

/* The looks of AUTO, after the first. */
static cag_focus automatic(const cag_kb *kb, int i)
{
    static const cag_focus both[CAG_LOOKS] = { CAG_FOCUS_MASK,
                                               CAG_FOCUS_REREAD },
                           one[CAG_LOOKS] = { CAG_FOCUS_REREAD };

    return (masks(kb) ? both : one)[i];
}

cag_status focus_check(const cag_kb *kb, const cag_ask_params *p,
                       cag_error *err)
{
    cag_focus first = p->focus == CAG_FOCUS_AUTO ? automatic(kb, 0) : p->focus;

    if (first != CAG_FOCUS_MASK)
        return CAG_OK;
    if (kb->no_cache)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "--focus %s looks at a part of the cache, which "
                        "--no-cache does not use; use --focus reread",
                        cag_focus_name(p->focus));
    if (kb->engine && !engine_has_views(kb->engine))
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "device %s cannot look at a part of the cache, which "
                        "--focus %s does; use --focus reread or --device cpu",
                        cag_kb_device(kb), cag_focus_name(p->focus));
    return CAG_OK;
}

/* What the first look was at says more of where the question leads than its
 * words do. */
cag_status focus_passages(struct focus *f, const struct line_mass *mass,
                          cag_error *err)
{
    struct evidence_base *b = f->kb->evidence;
    struct passages_asked asked = { .question = f->question.text,
                                    .n_question = f->question.size,
                                    .before = f->before.text,
                                    .n_before = f->before.size,
                                    .most = f->kb->is_small ? PASSAGE_MAX - 1
                                                            : PASSAGE_MAX };
    double *extra = NULL;
    struct passages ps;
    cag_status st;

    if (!f->looked)
        return CAG_OK;
    f->is_read = true;
    if (mass) {
        extra = mem_alloc_array(mass->n_line + 1, sizeof *extra);
        if (!extra)
            return cag_fail_nomem(err, "passages");
        line_mass_shares(b->index, mass->question, extra);
        asked.extra = extra;
    }
    st = passages_find(b->index, &asked, &ps, err);
    mem_free(extra);
    if (st)
        return st;
    f->looked->n_passage = 0;
    f->n_range = passage_tokens(f->kb->kvc, &ps, f->range);
    for (int i = 0; i < ps.n && f->n_range && !st; i++) {
        const struct passage *p = &ps.at[i];
        const char *text = b->text[p->source].text;
        uint64_t to = p->to; /* as evidence is shown: without the last end */

        while (to > p->from && (text[to - 1] == '\n' || text[to - 1] == '\r'))
            to--;
        st = evidence_base_piece(b, p->source, p->from, to,
                                 &f->looked->passage[f->looked->n_passage++],
                                 err);
    }
    return st;
}

cag_status focus_init(struct focus *f, cag_kb *kb, const cag_ask_params *p,
                      const cag_text *question, const cag_text *before,
                      cag_error *err)
{
    cag_status st;

    memset(f, 0, sizeof *f);
    f->kb = kb;
    f->params = p;
    f->question = *question;
    if (before)
        f->before = *before;
    if (!p->focus)
        return CAG_OK;
    st = focus_check(kb, p, err);
    if (!st)
        st = support_base(kb, err);
    if (!st && !(f->looked = mem_zalloc(sizeof *f->looked)))
        st = cag_fail_nomem(err, "second look");
    return st;
}

/* For a model that is not small. */
static bool is_enough(const cag_look *l)
{
    return l->support == CAG_SUPPORT_STRONG && l->score >= FOCUS_ENOUGH;
}

bool focus_next(const struct focus *f, int i, cag_focus *look)
{
    const cag_looked *l = f->looked;

    *look = CAG_FOCUS_OFF;
    if (!i)
        return true;
    if (!f->is_read || !f->n_range || i == CAG_LOOKS)
        return false;
    if (f->params->focus != CAG_FOCUS_AUTO) {
        *look = f->params->focus;
        return i < 2;
    }
    *look = automatic(f->kb, i - 1);
    if (!*look || f->kb->is_small)
        return *look != CAG_FOCUS_OFF;
    return f->n_taken == i && !is_enough(&l->look[l->given]);
}

/* The tokens of the passages, then those of the question. */
static cag_status join(struct focus *f, const int32_t *ids, size_t n,
                       struct turn_prompt *out, cag_error *err)
{
    size_t k = n;

    for (int i = 0; i < f->n_range; i++)
        k += (size_t)(f->range[i].to - f->range[i].from);
    mem_free(f->ids);
    f->ids = mem_alloc_array(k, sizeof *f->ids);
    if (!f->ids)
        return cag_fail_nomem(err, "passages");
    k = 0;
    for (int i = 0; i < f->n_range; i++) {
        size_t size = (size_t)(f->range[i].to - f->range[i].from);

        memcpy(f->ids + k, f->kb->ids + f->range[i].from, size * sizeof *ids);
        k += size;
    }
    memcpy(f->ids + k, ids, n * sizeof *ids);
    *out = (struct turn_prompt){ .ids = f->ids, .n_ids = k + n, .alone = true };
    return CAG_OK;
}

cag_status focus_prompt(struct focus *f, cag_focus look, const int32_t *ids,
                        size_t n, struct turn_prompt *out, cag_error *err)
{
    if (look == CAG_FOCUS_REREAD)
        return join(f, ids, n, out, err);
    *out = (struct turn_prompt){ .ids = ids, .n_ids = n };
    if (look == CAG_FOCUS_MASK) {
        out->range = f->range;
        out->n_range = f->n_range;
    }
    return CAG_OK;
}

/* Tokens and seconds of all looks; what is read of the cache is read for the
 * first. */
static void add_cost(const struct focus *f, cag_answer *a)
{
    const cag_answer *sum = &f->best;

    a->n_cached = sum->n_cached;
    a->n_prompt += sum->n_prompt;
    a->n_generated += sum->n_generated;
    a->n_drafted += sum->n_drafted;
    a->n_accepted += sum->n_accepted;
    a->prefill_s += sum->prefill_s;
    a->first_s = sum->first_s;
    a->decode_s = f->end_s - f->start_s - a->first_s;
}

static void copy_cost(const cag_answer *from, cag_answer *to)
{
    to->n_cached = from->n_cached;
    to->n_prompt = from->n_prompt;
    to->n_generated = from->n_generated;
    to->n_drafted = from->n_drafted;
    to->n_accepted = from->n_accepted;
    to->prefill_s = from->prefill_s;
    to->first_s = from->first_s;
    to->decode_s = from->decode_s;
}

static cag_status judge(struct focus *f, cag_focus from, const cag_answer *a,
                        cag_look *out, cag_error *err)
{
    *out = (cag_look){ .from = from, .size = a->size, .finish = a->finish };
    out->text = mem_strndup(a->text, a->size);
    if (!out->text)
        return cag_fail_nomem(err, "second look");
    return support_of(f->kb, &f->question, f->before.text ? &f->before : NULL,
                      a, from != CAG_FOCUS_OFF, &out->support, &out->score,
                      err);
}

/* Seconds of look i, which began at start_s and ended at end_s, beyond those of
 * the looks before it. */
static double add_time(struct focus *f, int i, double start_s, double end_s)
{
    double from = i > 0 && f->end_s > start_s ? f->end_s : start_s;

    if (i == 0)
        f->start_s = start_s;
    if (i == 0 || end_s > f->end_s)
        f->end_s = end_s;
    return end_s > from ? end_s - from : 0;
}

cag_status focus_take(struct focus *f, cag_focus look, cag_answer *a,
                      double start_s, cag_error *err)
{
    cag_looked *l = f->looked;
    int i = f->n_taken++;
    cag_status st;

    if (!l) {
        f->best = *a;
        memset(a, 0, sizeof *a);
        return CAG_OK;
    }
    st = judge(f, look, a, &l->look[l->n_look++], err);
    if (st) {
        cag_answer_release(a);
        return st;
    }
    l->look[i].seconds =
        add_time(f, i, start_s, start_s + a->first_s + a->decode_s);
    if (i > 0)
        add_cost(f, a);
    if (i == 0 || l->look[i].score > l->look[l->given].score) {
        cag_answer_release(&f->best);
        f->best = *a;
        l->given = i;
    } else {
        copy_cost(a, &f->best);
        cag_answer_release(a);
    }
    memset(a, 0, sizeof *a);
    return CAG_OK;
}

void focus_end(struct focus *f, cag_answer *out)
{
    *out = f->best;
    out->looked = f->looked;
    memset(&f->best, 0, sizeof f->best);
    f->looked = NULL;
    focus_release(f);
}

void focus_release(struct focus *f)
{
    cag_answer_release(&f->best);
    answer_looked_free(f->looked);
    mem_free(f->ids);
    f->looked = NULL;
    f->ids = NULL;
}

cag_status focus_judge(cag_kb *kb, const cag_text *question,
                       const cag_ask_params *p, cag_answer *a, cag_error *err)
{
    const char *refusal = kb->tail.refusal;
    cag_looked *old = a->looked;
    struct focus f;
    cag_status st = focus_init(&f, kb, p, question, NULL, err);

    if (!st)
        st = focus_passages(&f, NULL, err);
    for (int i = 0; i < old->n_look && !st; i++) {
        const cag_look *k = &old->look[i];
        const cag_answer look = { .text = k->text,
                                  .size = k->size,
                                  .finish = k->finish,
                                  .refused =
                                      refusal && !strcmp(k->text, refusal) };

        st = judge(&f, k->from, &look, &f.looked->look[i], err);
        f.looked->n_look++;
    }
    if (!st) {
        f.looked->given = old->given;
        a->looked = f.looked;
        f.looked = NULL;
        answer_looked_free(old);
    }
    focus_release(&f);
    return st;
}
