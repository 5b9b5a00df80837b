/*
 * eval.c - ask all questions in all arms, and count.
 *
 * An arm without the cache is the same prompt, read whole: what stands
 * before the first source and after the last stays, the sources' text gives
 * way to passages, or to nothing.  So the arms differ by the text alone.
 */
#include <cag/tool/eval.h>

#include <string.h>

#include "ask/focus_json.h"
#include "ask/kb.h"
#include "eval/bm25.h"
#include "eval/score.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/note.h"

const char *cag_eval_arm_name(int arm)
{
    static const char *const name[] = { "cache",        "none",
                                        "bm25",         "focus-mask",
                                        "focus-reread", "focus-auto" };

    return arm >= 0 && arm < CAG_EVAL_ARMS ? name[arm] : NULL;
}

double cag_eval_threshold(int step)
{
    static const double at[CAG_EVAL_STEPS] = { 0.02, 0.05, 0.1, 0.2, 0.3, 0.5 };

    return at[step];
}

/* What the answers to one arm's questions were judged to be. */
struct judged {
    double *score; /* [n] */
    bool *right;
    int n;
};

struct run {
    cag_kb *kb;
    const cag_gold_set *gold;
    const cag_eval_opts *o;
    cag_ask_params params; /* with evidence, nothing withheld */
    cag_eval_report *r;
    bool *cached; /* [n] right from the cache; NULL: not asked of it */
    int n_done, n_all;
};

/* The ids of the prompt with other text in the place of the sources. */
static cag_status other_prompt(const cag_kb *kb, const struct buf *passages,
                               cag_ids *out, cag_error *err)
{
    const cag_kvc_source *first = cag_kvc_get_source(kb->kvc, 0);
    const cag_kvc_source *last =
        cag_kvc_get_source(kb->kvc, cag_kvc_get_info(kb->kvc)->n_source - 1);
    size_t size, end = (size_t)(last->text_off + last->text_bytes);
    const char *text = cag_kvc_text(kb->kvc, &size);
    const cag_text piece[3] = {
        { text, (size_t)first->text_off, CAG_TEXT_TEMPLATE },
        { passages->data ? passages->data : "", passages->size, 0 },
        { text + end, size - end, CAG_TEXT_TEMPLATE }
    };

    return cag_encode(kb->tok, piece, 3, CAG_ENCODE_BOS, out, err);
}

/* Ask without the cache, of the given prefix. */
static cag_status ask_prompt(const struct run *x, const cag_ids *prefix,
                             const cag_gold *g, cag_answer *a, cag_error *err)
{
    struct cag_kb other = *x->kb;

    other.prefix = NULL;
    other.no_cache = true;
    other.ids = prefix->id;
    other.n_ids = prefix->n;
    return cag_kb_ask(&other, g->question, strlen(g->question), &x->params,
                      NULL, NULL, a, err);
}

static cag_status ask(const struct run *x, int arm, const cag_gold *g,
                      cag_answer *a, cag_error *err)
{
    struct buf passages = BUF_INIT;
    cag_ids ids = CAG_IDS_INIT;
    size_t n = strlen(g->question);
    cag_status st = CAG_OK;

    memset(a, 0, sizeof *a);
    if (arm == CAG_EVAL_CACHE || arm >= CAG_EVAL_FOCUS_MASK) {
        cag_ask_params p = x->params;

        p.focus = arm == CAG_EVAL_CACHE
                      ? CAG_FOCUS_OFF
                      : (cag_focus)(arm - CAG_EVAL_FOCUS_MASK + CAG_FOCUS_MASK);
        return cag_kb_ask(x->kb, g->question, n, &p, NULL, NULL, a, err);
    }
    if (arm == CAG_EVAL_BM25)
        st = bm25_passages(x->kb->evidence->index, x->kb->tok, g->question, n,
                           x->o->budget, &passages, err);
    if (!st)
        st = other_prompt(x->kb, &passages, &ids, err);
    if (!st)
        st = ask_prompt(x, &ids, g, a, err);
    cag_ids_free(&ids);
    buf_free(&passages);
    return st;
}

/* What each look of an answer would have been, had it been given. */
static cag_status count_looks(cag_eval_figures *f, const cag_gold *g,
                              const cag_looked *l, cag_error *err)
{
    bool right, held = false;
    cag_status st = CAG_OK;

    for (int i = 0; i < l->n_look && !st; i++) {
        const cag_look *k = &l->look[i];
        struct cag_eval_look *to = &f->look[k->from];

        right = false;
        if (g->answerable)
            st = score_is_right(g, k->text, k->size, &right, err);
        to->n++;
        to->n_right += right;
        to->n_given += i == l->given;
        to->seconds += k->seconds;
    }
    for (int i = 0; i < l->n_passage; i++)
        held = held || score_is_hit(g, &l->passage[i]);
    f->n_passages += held && g->answerable && g->line_from;
    return st;
}

static bool row_json(jv *o, int arm, const cag_gold *g, const cag_answer *a,
                     bool right, bool first, bool three)
{
    const cag_checked *c = a->checked;

    return jv_set_int(o, "schema", 1) &&
           jv_set_str(o, "arm", cag_eval_arm_name(arm)) &&
           jv_set_str(o, "id", g->id) &&
           jv_set_str(o, "question", g->question) &&
           jv_set_bool(o, "answerable", g->answerable) &&
           jv_set(o, "answer", jv_new_str(a->text, a->size)) &&
           jv_set_bool(o, "right", right) &&
           jv_set_bool(o, "refused", a->refused) &&
           jv_set_str(o, "support", cag_support_name(c->support)) &&
           jv_set_real(o, "support_score", c->score) &&
           (!a->looked || focus_json_add(o, a->looked)) &&
           jv_set_bool(o, "evidence_first", first) &&
           jv_set_bool(o, "evidence_three", three) &&
           jv_set_int(o, "prompt_tokens", a->n_prompt) &&
           jv_set_int(o, "generated_tokens", a->n_generated) &&
           jv_set_real(o, "seconds", a->first_s + a->decode_s);
}

static cag_status put_row(const struct run *x, int arm, const cag_gold *g,
                          const cag_answer *a, bool right, bool first,
                          bool three, cag_error *err)
{
    struct buf b = BUF_INIT;
    jv *o = jv_new_object();
    bool ok = o && row_json(o, arm, g, a, right, first, three);
    cag_status st = CAG_OK;

    if (ok) {
        jv_dump(o, &b);
        buf_char(&b, '\n');
    }
    if (!ok || buf_failed(&b))
        st = cag_fail_nomem(err, "row");
    if (!st)
        st = x->o->row(x->o->ctx, b.data, b.size, err);
    buf_free(&b);
    jv_free(o);
    return st;
}

static void count_answerable(cag_eval_figures *f, const cag_gold *g,
                             const cag_answer *a, bool right, bool first,
                             bool three)
{
    f->n_answerable++;
    f->n_right += right;
    f->n_refused_wrong += a->refused;
    if (!g->line_from)
        return;
    f->n_gold++;
    f->n_first += first;
    f->n_three += three;
    if (right) {
        f->n_right_gold++;
        f->n_right_first += first;
        f->n_right_three += three;
    }
}

static void count_support(cag_eval_figures *f, const cag_gold *g,
                          const cag_checked *c, bool right)
{
    if (c->support == CAG_SUPPORT_STRONG) {
        f->n_strong++;
        f->n_strong_right += right;
        f->n_strong_unanswerable += !g->answerable;
    }
    for (int i = 0; i < CAG_EVAL_STEPS; i++)
        if (c->score >= cag_eval_threshold(i)) {
            f->step[i].n_passed++;
            f->step[i].n_right += right;
            f->step[i].n_unanswerable += !g->answerable;
        }
}

static cag_status judge(const struct run *x, int arm, const cag_gold *g,
                        const cag_answer *a, struct judged *j, cag_error *err)
{
    cag_eval_figures *f = &x->r->figures[arm];
    const cag_checked *c = a->checked;
    bool right = false, first = false, three = false;
    cag_status st = CAG_OK;

    if (g->answerable && !a->refused)
        st = score_is_right(g, a->text, a->size, &right, err);
    if (st)
        return st;
    for (int i = 0; i < c->n_evidence; i++) {
        bool hit = score_is_hit(g, &c->evidence[i].at);

        first = first || (hit && i == 0);
        three = three || hit;
    }
    if (g->answerable) {
        count_answerable(f, g, a, right, first, three);
    } else {
        f->n_unanswerable++;
        f->n_refused_right += a->refused;
    }
    count_support(f, g, c, right);
    if (a->looked)
        st = count_looks(f, g, a->looked, err);
    if (st)
        return st;
    f->n_prompt += a->n_prompt;
    f->n_generated += a->n_generated;
    f->seconds += a->first_s + a->decode_s;
    f->check_s += a->check_s;
    j->score[j->n] = c->score;
    j->right[j->n++] = right;
    return x->o->row ? put_row(x, arm, g, a, right, first, three, err) : CAG_OK;
}

/* Equal totals can hide that other questions are right now. */
static void pair(const struct run *x, cag_eval_figures *f,
                 const struct judged *j)
{
    for (int i = 0; x->cached && i < j->n; i++) {
        f->n_gained += j->right[i] && !x->cached[i];
        f->n_lost += !j->right[i] && x->cached[i];
    }
}

static cag_status run_arm(struct run *x, int arm, cag_error *err)
{
    size_t n = (size_t)x->gold->n;
    struct judged j = { mem_alloc_array(n + 1, sizeof *j.score),
                        mem_alloc_array(n + 1, sizeof *j.right), 0 };
    cag_status st = CAG_OK;

    if (!j.score || !j.right)
        st = cag_fail_nomem(err, "evaluation");
    for (int i = 0; i < x->gold->n && !st; i++) {
        const cag_gold *g = &x->gold->v[i];
        cag_answer a;

        st = ask(x, arm, g, &a, err);
        if (!st)
            st = judge(x, arm, g, &a, &j, err);
        cag_answer_release(&a);
        if (!st && !note_progress(&x->kb->hooks, "questions", CAG_UNIT_ROWS,
                                  (uint64_t)++x->n_done, (uint64_t)x->n_all))
            st = cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    }
    if (!st)
        pair(x, &x->r->figures[arm], &j);
    if (!st)
        x->r->figures[arm].auroc = score_auroc(j.score, j.right, j.n);
    mem_free(j.score);
    if (!st && arm == CAG_EVAL_CACHE)
        x->cached = j.right;
    else
        mem_free(j.right);
    return st;
}

/* What reading the knowledge costs: one question with the whole prompt. */
static cag_status time_reading(struct run *x, cag_error *err)
{
    const cag_gold *g = &x->gold->v[0];
    const cag_ids whole = { .id = mem_alloc_array(x->kb->n_ids + 1,
                                                  sizeof *whole.id),
                            .n = x->kb->n_ids };
    cag_answer read, cached;
    cag_status st = CAG_OK;

    memset(&read, 0, sizeof read);
    memset(&cached, 0, sizeof cached);
    if (!whole.id)
        return cag_fail_nomem(err, "evaluation");
    memcpy(whole.id, x->kb->ids, x->kb->n_ids * sizeof *whole.id);
    st = ask_prompt(x, &whole, g, &read, err);
    if (!st)
        st = ask(x, CAG_EVAL_CACHE, g, &cached, err);
    if (!st)
        x->r->read_s = read.first_s - cached.first_s;
    cag_answer_release(&read);
    cag_answer_release(&cached);
    mem_free(whole.id);
    return st;
}

cag_status cag_eval_run(cag_kb *kb, const cag_gold_set *gold,
                        const cag_eval_opts *o, cag_eval_report *r,
                        cag_error *err)
{
    struct run x = { kb, gold, o, o->params, r, NULL, 0, 0 };
    cag_status st = CAG_OK;

    memset(r, 0, sizeof *r);
    r->n_question = gold->n;
    x.params.evidence = true;
    x.params.require = CAG_SUPPORT_NONE;
    for (int i = 0; i < CAG_EVAL_ARMS; i++)
        x.n_all += o->arm[i] ? gold->n : 0;
    for (int i = 0; i < CAG_EVAL_ARMS && !st; i++) {
        r->arm[i] = o->arm[i];
        if (o->arm[i])
            st = run_arm(&x, i, err);
    }
    mem_free(x.cached);
    return st || !gold->n ? st : time_reading(&x, err);
}

double cag_eval_break_even(const cag_eval_report *r, int arm)
{
    double cache, other;

    if (!r->arm[CAG_EVAL_CACHE] || !r->arm[arm] || !r->n_question ||
        r->read_s <= 0)
        return -1;
    if (arm == CAG_EVAL_CACHE) /* against reading everything each time */
        return 1;
    cache = r->figures[CAG_EVAL_CACHE].seconds / r->n_question;
    other = r->figures[arm].seconds / r->n_question;
    return other > cache ? r->read_s / (other - cache) : -1;
}
