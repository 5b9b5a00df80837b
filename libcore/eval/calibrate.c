/*
 * calibrate.c - see include/cag/tool/calibrate.h.
 *
 * All is a function of the cache, the model and the questions' bytes, on any
 * number of threads; the cache names the questions by their SHA-256 alone.
 */
#include <cag/tool/calibrate.h>

#include <stdlib.h>
#include <string.h>

#include <cag/tool/eval.h>
#include <cag/tool/text_file.h>

#include "ask/focus.h"
#include "ask/kb.h"
#include "ask/support.h"
#include "ask/turn.h"
#include "eval/score.h"
#include "evidence/evidence.h"
#include "kvc/kvc_attention.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/note.h"

#define ANSWER_TOK 48 /* of an answer are enough to see where it looks */

/* ------------------------------------------------------------- questions */

/* A question a line, as the JSON that gold questions are read from. */
static cag_status lines_to_json(const char *text, struct buf *out,
                                cag_error *err)
{
    bool ok = true;

    for (const char *s = text; *s && ok;) {
        size_t n = strcspn(s, "\n"), size = n;

        while (size && strchr(" \t\r", s[size - 1]))
            size--;
        if (size) {
            jv *o = jv_new_object();

            ok = o && jv_set(o, "question", jv_new_str(s, size));
            if (ok)
                jv_dump(o, out);
            jv_free(o);
            buf_char(out, '\n');
        }
        s += n + (s[n] != 0);
    }
    return ok && !buf_failed(out) ? CAG_OK : cag_fail_nomem(err, "questions");
}

static cag_status read_questions(cag_kb *kb, const char *text, const char *name,
                                 cag_gold_set *out, cag_error *err)
{
    bool plain = text[strspn(text, " \t\r\n")] != '{';
    struct buf b = BUF_INIT;
    cag_status st = CAG_OK;

    if (plain)
        st = lines_to_json(text, &b, err);
    if (!st)
        st = cag_gold_read(kb, plain && b.data ? b.data : text,
                           plain ? b.size : strlen(text), name, out, err);
    buf_free(&b);
    if (!st && out->n < CAG_NULL_LEAST) {
        st = cag_fail(err, CAG_E_FORMAT, name, -1,
                      "%d questions, expected at least %d: a null of fewer "
                      "says nothing",
                      out->n, CAG_NULL_LEAST);
        cag_gold_release(out);
    }
    return st;
}

/* ----------------------------------------------------------------- answers */

struct calibration {
    cag_kb *kb;
    cag_ask_params params;
    double *value; /* [n] */
    int n;
    bool looks; /* enough questions have answers to compare looks */
    int n_answerable, n_right[CAG_FOCUS_REREAD + 1]; /* by what was seen */
};

/* What is left of the cache without the lines of evidence. */
static int without(const struct evidence_base *b, const cag_checked *c,
                   struct token_range *range, size_t n_tok)
{
    int32_t from = 0;
    int n = 0;

    for (size_t t = 0; t <= n_tok; t++) {
        bool hidden = t == n_tok;

        for (int i = 0; i < c->n_evidence && t < n_tok; i++) {
            const cag_piece *p = &c->evidence[i].at;
            int32_t l = b->line_of[t];

            hidden =
                hidden ||
                (l >= 0 &&
                 cag_kvc_get_source(b->kvc, b->index->line[l].source)->name ==
                     p->source &&
                 b->index->text[b->index->line[l].source].text +
                         b->index->line[l].off <
                     p->text + p->size &&
                 b->index->text[b->index->line[l].source].text +
                         b->index->line[l].off + b->index->line[l].size >
                     p->text);
        }
        if (!hidden)
            continue;
        if ((int32_t)t > from)
            range[n++] = (struct token_range){ from, (int32_t)t };
        from = (int32_t)t + 1;
    }
    return n;
}

static cag_status answer_to(struct calibration *x, const struct turn_prompt *q,
                            cag_answer *out, cag_error *err)
{
    struct turn t;
    cag_status st = turn_start(&t, x->kb, q, &x->params, NULL, NULL, err);

    if (st)
        return st;
    st = turn_run(&t, err);
    if (!st)
        return turn_finish(&t, out, err);
    turn_release(&t);
    return st;
}

/* The answer with evidence hidden. */
static cag_status ask_masked(struct calibration *x, const char *question,
                             const cag_checked *c, cag_answer *out,
                             cag_error *err)
{
    cag_kb *kb = x->kb;
    cag_ids ids = CAG_IDS_INIT;
    struct token_range *range = mem_alloc_array(kb->n_ids + 1, sizeof *range);
    struct turn_prompt q = { .range = range };
    cag_status st;

    if (!range)
        return cag_fail_nomem(err, "questions");
    q.n_range = without(kb->evidence, c, range, kb->n_ids);
    st = prompt_question_encode(&kb->tail, kb->tok, question, strlen(question),
                                false, &ids, err);
    q.ids = ids.id;
    q.n_ids = ids.n;
    if (!st)
        st = answer_to(x, &q, out, err);
    cag_ids_free(&ids);
    mem_free(range);
    return st;
}

static cag_status count(struct calibration *x, cag_focus look,
                        const cag_gold *g, const cag_answer *a, cag_error *err)
{
    bool right;
    cag_status st = score_is_right(g, a->text, a->size, &right, err);

    x->n_right[look] += !st && right && !a->refused;
    return st;
}

/* A question without passages has one look, whose answer is that of all. */
static cag_status take_look(struct calibration *x, struct focus *f,
                            cag_focus look, const cag_gold *g,
                            const cag_ids *ids, const cag_answer *first,
                            cag_error *err)
{
    struct turn_prompt q;
    cag_answer a;
    cag_status st;

    if (!f->n_range)
        return count(x, look, g, first, err);
    st = focus_prompt(f, look, ids->id, ids->n, &q, err);
    if (!st)
        st = answer_to(x, &q, &a, err);
    if (st)
        return st;
    st = count(x, look, g, &a, err);
    cag_answer_release(&a);
    return st;
}

/* Is it right with each kind of second look, by itself? */
static cag_status compare_looks(struct calibration *x, const cag_gold *g,
                                const cag_answer *first, cag_error *err)
{
    const cag_text q = { g->question, strlen(g->question), 0 };
    cag_ask_params p = x->params;
    cag_ids ids = CAG_IDS_INIT;
    struct focus f;
    cag_status st;

    p.focus = CAG_FOCUS_MASK;
    st = focus_init(&f, x->kb, &p, &q, NULL, err);
    if (!st)
        st = focus_passages(&f, first->attention, err);
    if (!st)
        st = prompt_question_encode(&x->kb->tail, x->kb->tok, q.text, q.size,
                                    false, &ids, err);
    if (!st)
        st = count(x, CAG_FOCUS_OFF, g, first, err);
    for (cag_focus l = CAG_FOCUS_MASK; l <= CAG_FOCUS_REREAD && !st; l++)
        st = take_look(x, &f, l, g, &ids, first, err);
    x->n_answerable++;
    cag_ids_free(&ids);
    focus_release(&f);
    return st;
}

static cag_status value_of(struct calibration *x, const char *question,
                           const cag_answer *a, cag_error *err)
{
    struct evidence_asked asked = { .question = question,
                                    .n_question = strlen(question),
                                    .answer = a->text,
                                    .n_answer = a->refused ? 0 : a->size };
    struct line_mass_figures f;
    cag_status st = line_mass_figures(x->kb->evidence->index, a->attention,
                                      &asked, &f, err);

    if (!st)
        x->value[x->n++] = f.peak * f.confidence;
    return st;
}

static cag_status ask_one(struct calibration *x, const cag_gold *g, bool mask,
                          cag_error *err)
{
    cag_answer a, masked;
    cag_status st = cag_kb_ask(x->kb, g->question, strlen(g->question),
                               &x->params, NULL, NULL, &a, err);

    memset(&masked, 0, sizeof masked);
    if (!st && mask && a.checked->n_evidence) {
        st = ask_masked(x, g->question, a.checked, &masked, err);
        if (!st)
            st = value_of(x, g->question, &masked, err);
        cag_answer_release(&masked);
    } else if (!st) {
        st = value_of(x, g->question, &a, err);
    }
    if (!st && x->looks && g->n_answer)
        st = compare_looks(x, g, &a, err);
    cag_answer_release(&a);
    return st;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The smallest value that so many of 100 do not exceed. */
static double quantile(double *v, int n, int percent)
{
    int at = (n * percent + 99) / 100 - 1;

    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[at > 0 ? at : 0];
}

static bool has_enough(const cag_gold_set *gold)
{
    int n = 0;

    for (int i = 0; i < gold->n; i++)
        n += gold->v[i].n_answer > 0;
    return n >= CAG_LOOKS_LEAST;
}

static cag_status measure(cag_kb *kb, const cag_gold_set *gold,
                          cag_kvc_attention *out, cag_error *err)
{
    struct calibration x = { .kb = kb, .looks = has_enough(gold) };
    cag_status st = CAG_OK;

    cag_ask_params_init(&x.params);
    x.params.max_tok = ANSWER_TOK;
    x.params.evidence = true;
    x.value = mem_alloc_array((size_t)gold->n, sizeof *x.value);
    if (!x.value)
        return cag_fail_nomem(err, "questions");
    kb->calibrates = true;
    for (int i = 0; i < gold->n && !st; i++) {
        st = ask_one(&x, &gold->v[i],
                     !gold->v[i].judged || gold->v[i].answerable, err);
        if (!st && !note_progress(&kb->hooks, "questions", CAG_UNIT_ROWS,
                                  (uint64_t)i + 1, (uint64_t)gold->n))
            st = cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    }
    kb->calibrates = false;
    if (!st) {
        out->has_null = true;
        out->null = (float)quantile(x.value, x.n, CAG_NULL_QUANTILE);
        out->quantile = CAG_NULL_QUANTILE;
        out->n_question = gold->n;
        out->has_looks = x.looks;
        out->n_answerable = x.n_answerable;
        out->n_whole = x.n_right[CAG_FOCUS_OFF];
        out->n_mask = x.n_right[CAG_FOCUS_MASK];
        out->n_reread = x.n_right[CAG_FOCUS_REREAD];
    }
    mem_free(x.value);
    return st;
}

/* ------------------------------------------------------------------- all */

static cag_status check_heads(const char *path, const cag_kvc_attention *a,
                              cag_error *err)
{
    if (!a)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "has no copy heads, of which a null is taken; build "
                        "it with --calibrate heads");
    if (a->head[0].mass < CAG_QUOTE_MASS)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "the model's copy heads have a quote mass of %.2f, "
                        "below %.2f: they are not used",
                        (double)a->head[0].mass, (double)CAG_QUOTE_MASS);
    return CAG_OK;
}

static void report(const cag_kvc_attention *a, cag_calibrate_report *r)
{
    r->null = a->null;
    r->n_question = (int)a->n_question;
    r->n_answerable = (int)a->n_answerable;
    r->n_whole = (int)a->n_whole;
    r->n_mask = (int)a->n_mask;
    r->n_reread = (int)a->n_reread;
}

static cag_status calibrate(const char *path, cag_kb *kb, const char *text,
                            const char *name, double lock_timeout_s,
                            cag_calibrate_report *r, cag_error *err)
{
    const cag_kvc_attention *a = cag_kvc_get_attention(kb->kvc);
    cag_kvc_attention with = *a;
    uint8_t digest[SHA256_SIZE];
    cag_gold_set gold = { NULL, 0 };
    cag_status st = sha256_buf(text, strlen(text), digest, err);

    if (st)
        return st;
    hash_hex(digest, sizeof digest, with.questions_sha256);
    r->fresh = a->has_null && a->quantile == CAG_NULL_QUANTILE &&
               !strcmp(a->questions_sha256, with.questions_sha256);
    if (r->fresh) {
        report(a, r);
        return CAG_OK;
    }
    if (!kb->n_head)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "device %s does not measure attention; use "
                        "--device cpu",
                        cag_kb_device(kb));
    st = read_questions(kb, text, name, &gold, err);
    if (st)
        return st;
    st = measure(kb, &gold, &with, err);
    cag_gold_release(&gold);
    if (st)
        return st;
    report(&with, r);
    return kvc_set_attention(path, &with, lock_timeout_s, err);
}

cag_status cag_calibrate_null(const char *path, const cag_kb_opts *opts,
                              const char *questions, double lock_timeout_s,
                              cag_calibrate_report *r, cag_error *err)
{
    double start = clock_s();
    const char *text;
    cag_kvc *k = NULL;
    cag_kb *kb = NULL;
    cag_status st = cag_kvc_open(path, &k, err);

    memset(r, 0, sizeof *r);
    if (!st)
        st = check_heads(path, cag_kvc_get_attention(k), err);
    cag_kvc_close(k);
    if (!st)
        st = cag_read_text(questions, &text, err);
    if (st)
        return st;
    st = cag_kb_open(path, opts, &kb, err);
    if (!st)
        st = support_base(kb, err);
    if (!st)
        st = evidence_base_lines(kb->evidence, err);
    if (!st)
        st = calibrate(path, kb, text, questions, lock_timeout_s, r, err);
    cag_kb_close(kb);
    cag_free((void *)(uintptr_t)text);
    r->seconds = clock_s() - start;
    return st;
}
