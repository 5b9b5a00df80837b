/*
 * copy_heads.c - see copy_heads.h.
 *
 * All heads are measured at once; a row's shares are kept apart until its one
 * token is looked up, so rows go down a few at a time.
 *
 * Tried: a question for each line ("Quote the line that begins with ...").
 * The same heads, in four times as many rows.
 */
#include "build/copy_heads.h"

#include <string.h>

#include "engine/session.h"
#include "kvc/kvc_read.h"
#include "prompt/prompt.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/note.h"

#define LINES       12
#define LINE_TOK    8 /* of a line are given                   */
#define MAX_ROWS    32
#define SHARE_BYTES ((size_t)32 << 20) /* of the rows of a pass */

static const char question[] = "Quote lines of the text, word for word.";

bool copy_heads_wanted(const struct build_job *j)
{
    return j->o->calibrate == CAG_CALIBRATE_HEADS ||
           (j->o->calibrate == CAG_CALIBRATE_AUTO &&
            j->ids.n >= COPY_HEADS_MIN);
}

uint64_t copy_heads_bytes(const struct build_job *j)
{
    return copy_heads_wanted(j) ? 2 * (uint64_t)SHARE_BYTES : 0;
}

/* ---------------------------------------------------------------- the quote */

struct quote {
    int n_tok;             /* of the cache that are read                  */
    int at[LINES], n_line; /* first tokens of what is quoted              */
    int32_t *id;           /* [n] lines, each with a line's end           */
    int *next;             /* [n] the token of the cache that comes next, or
                              -1: nothing says it                         */
    int n, n_row;          /* rows whose next is known                    */
};

static bool ends_line(const struct build_job *j, int tok)
{
    size_t from = (size_t)j->ids.off[tok];
    size_t to = (size_t)tok + 1 < j->ids.n ? (size_t)j->ids.off[tok + 1]
                                           : j->prompt.size;

    return memchr(j->prompt.text + from, '\n', to - from) != NULL;
}

static bool in_source(const struct build_job *j, int tok)
{
    for (int i = 0; i < j->src.n; i++)
        if (tok >= j->range[i].tok_begin &&
            tok + LINE_TOK < j->range[i].tok_end)
            return true;
    return false;
}

/* Can a line of tokens be quoted from here? */
static bool is_line(const struct build_job *j, const struct quote *q, int tok)
{
    if (tok + LINE_TOK >= q->n_tok || !in_source(j, tok) ||
        !ends_line(j, tok - 1))
        return false;
    for (int i = 0; i <= LINE_TOK; i++)
        if (ends_line(j, tok + i))
            return false;
    return true;
}

/* The same where lines are too long or too few: any place. */
static bool is_place(const struct build_job *j, const struct quote *q, int tok)
{
    return tok % (2 * LINE_TOK) == 0 && tok + LINE_TOK < q->n_tok &&
           in_source(j, tok);
}

/* At equal distances. */
static void choose_lines(const struct build_job *j, struct quote *q)
{
    int n[2] = { 0, 0 }, seen = 0;
    bool lines;

    for (int t = 1; t < q->n_tok; t++) {
        n[0] += is_place(j, q, t);
        n[1] += is_line(j, q, t);
    }
    lines = n[1] >= LINES;
    for (int t = 1; t < q->n_tok && q->n_line < LINES; t++)
        if ((lines ? is_line(j, q, t) : is_place(j, q, t)) &&
            seen++ >= q->n_line * n[lines] / LINES)
            q->at[q->n_line++] = t;
}

static cag_status make_quote(const struct build_job *j, struct quote *q,
                             cag_error *err)
{
    const cag_text nl = { "\n", 1, 0 };
    cag_ids end = CAG_IDS_INIT;
    cag_status st = cag_encode(j->tok, &nl, 1, 0, &end, err);
    size_t most;

    q->n_tok = j->ids.n < COPY_HEADS_TOK ? (int)j->ids.n : COPY_HEADS_TOK;
    choose_lines(j, q);
    most = (size_t)q->n_line * (LINE_TOK + end.n) + 1;
    q->id = mem_alloc_array(most, sizeof *q->id);
    q->next = mem_alloc_array(most, sizeof *q->next);
    if (!st && (!q->id || !q->next))
        st = cag_fail_nomem(err, "copy heads");
    for (int i = 0; i < q->n_line && !st; i++) {
        for (int k = 0; k < LINE_TOK; k++, q->n++, q->n_row++) {
            q->id[q->n] = j->ids.id[q->at[i] + k];
            q->next[q->n] = q->at[i] + k + 1;
        }
        for (size_t k = 0; k < end.n; k++, q->n++) {
            q->id[q->n] = end.id[k];
            q->next[q->n] = -1;
        }
    }
    cag_ids_free(&end);
    return st;
}

/* --------------------------------------------------------------- measuring */

struct search {
    struct copy_heads *x;
    struct quote q;
    cag_prefix *prefix;
    cag_session *session;
    int n_head;       /* all of the model's                               */
    double *sum;      /* [n_head] share of attention on what comes next   */
    double *share;    /* [rows, n_head, q.n_tok]                          */
    int rows, n_done; /* at a time; and so far */
};

static bool go_on(void *ctx, const cag_progress *now)
{
    const struct search *s = ctx;

    (void)now;
    return note_progress(&s->x->j->o->hooks, "copy heads", CAG_UNIT_TOKENS,
                         (uint64_t)s->n_done, (uint64_t)s->q.n);
}

/* The next rows of the quote. */
static cag_status measure_rows(struct search *s, cag_error *err)
{
    const struct quote *q = &s->q;
    size_t row = (size_t)s->n_head * (size_t)q->n_tok;
    int n = q->n - s->n_done < s->rows ? q->n - s->n_done : s->rows;
    cag_status st;

    memset(s->share, 0, (size_t)n * row * sizeof *s->share);
    st = cag_session_prefill(s->session, q->id + s->n_done, n, NULL, err);
    for (int i = 0; i < n && !st; i++) {
        int next = q->next[s->n_done + i];

        for (int h = 0; h < s->n_head && next >= 0; h++)
            s->sum[h] += s->share[(size_t)i * row +
                                  (size_t)h * (size_t)q->n_tok + (size_t)next];
    }
    s->n_done += n;
    return st;
}

static cag_status measure(struct search *s, cag_error *err)
{
    struct prompt_tail tail;
    cag_ids ids = CAG_IDS_INIT;
    cag_status st = prompt_tail_from_json(s->x->j->prmt, NULL, &tail, err);

    if (st)
        return st;
    st = prompt_question_encode(&tail, s->x->j->tok, question,
                                sizeof question - 1, false, &ids, err);
    if (!st)
        st =
            cag_session_new(s->x->engine, s->prefix,
                            s->q.n_tok + (int)ids.n + s->q.n, &s->session, err);
    if (!st)
        st = cag_session_prefill(s->session, ids.id, (int)ids.n, NULL, err);
    if (!st)
        st = session_set_mass_rows(s->session, s->share, err);
    while (!st && s->n_done < s->q.n)
        st = measure_rows(s, err);
    cag_ids_free(&ids);
    prompt_tail_release(&tail);
    return st;
}

static cag_status set_all_heads(struct search *s, cag_error *err)
{
    const struct model_config *c = &s->x->j->model->config;
    struct copy_head *all;
    cag_status st;

    s->n_head = c->n_layer * c->n_head;
    all = mem_alloc_array((size_t)s->n_head, sizeof *all);
    if (!all)
        return cag_fail_nomem(err, "copy heads");
    for (int i = 0; i < s->n_head; i++)
        all[i] = (struct copy_head){ i / c->n_head, i % c->n_head };
    st = engine_set_heads(s->x->engine, all, s->n_head, err);
    mem_free(all);
    return st;
}

static cag_status alloc(struct search *s, cag_error *err)
{
    size_t row = (size_t)s->n_head * (size_t)s->q.n_tok * sizeof *s->share;

    s->rows =
        SHARE_BYTES / row < MAX_ROWS ? (int)(SHARE_BYTES / row) : MAX_ROWS;
    s->rows = s->rows > 0 ? s->rows : 1;
    s->sum = mem_alloc_array((size_t)s->n_head, sizeof *s->sum);
    s->share = mem_alloc_array((size_t)s->rows, row);
    return s->sum && s->share ? CAG_OK : cag_fail_nomem(err, "copy heads");
}

/* The best first; at equal shares the earlier one. */
static void rank(struct search *s, cag_kvc_attention *out)
{
    int n_head = s->x->j->model->config.n_head;
    cag_kvc_head *head = s->x->head;

    out->head = head;
    out->n_line = s->q.n_line;
    out->n_row = s->q.n_row;
    out->n_tok = s->q.n_tok;
    while (out->n_head < COPY_HEADS && out->n_head < s->n_head) {
        int best = 0;

        for (int h = 1; h < s->n_head; h++)
            best = s->sum[h] > s->sum[best] ? h : best;
        head[out->n_head++] =
            (cag_kvc_head){ best / n_head, best % n_head,
                            (float)(s->sum[best] / s->q.n_row) };
        s->sum[best] = -1;
    }
}

static cag_status search(struct search *s, const cag_kvc *draft,
                         cag_kvc_attention *out, cag_error *err)
{
    const cag_hooks *hooks = &s->x->j->o->hooks;
    cag_status st = make_quote(s->x->j, &s->q, err);

    if (st || !s->q.n_row) /* a text of a few words has nothing to quote */
        return st;
    if (hooks->progress)
        cag_engine_set_progress(s->x->engine, go_on, s);
    st = alloc(s, err);
    if (!st)
        st = prefix_new_part(s->x->engine, draft, s->q.n_tok, &s->prefix, err);
    if (!st)
        st = measure(s, err);
    if (!st)
        rank(s, out);
    cag_engine_set_progress(s->x->engine, NULL, NULL);
    return st;
}

/* The same tokens, K and V, in the same way: what was found then. */
static bool found_before(struct copy_heads *x, cag_kvc_attention *out)
{
    const cag_kvc_attention *a =
        x->j->old ? cag_kvc_get_attention(x->j->old) : NULL;

    if (!a || x->j->r->n_tok_kept < a->n_tok || a->n_head > COPY_HEADS ||
        x->j->r->n_tok_resumed || x->j->lossy || a->version != out->version)
        return false;
    memcpy(x->head, a->head, (size_t)a->n_head * sizeof *x->head);
    *out = *a;
    out->head = x->head;
    out->has_null = false;
    return true;
}

cag_status copy_heads_find(void *ctx, const cag_kvc *draft,
                           cag_kvc_attention *out, cag_error *err)
{
    struct search s = { .x = ctx };
    double start = clock_s();
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (found_before(s.x, out))
        return CAG_OK;
    st = set_all_heads(&s, &why);
    if (st == CAG_E_UNSUPPORTED && s.x->j->o->calibrate == CAG_CALIBRATE_AUTO)
        return CAG_OK;
    if (st)
        return cag_error_copy(err, &why);
    st = search(&s, draft, out, &why);
    cag_session_free(s.session);
    cag_prefix_free(s.prefix);
    mem_free(s.q.id);
    mem_free(s.q.next);
    mem_free(s.sum);
    mem_free(s.share);
    s.x->j->r->calibrate_s = clock_s() - start;
    /* a GPU that held the build must not fail over this */
    if (st == CAG_E_NOMEM && s.x->j->o->calibrate == CAG_CALIBRATE_AUTO &&
        strcmp(cag_engine_device(s.x->engine), "cpu") != 0) {
        note(&s.x->j->o->hooks, CAG_NOTE_WARN,
             "%s: no copy heads are looked for: %s", s.x->j->o->output,
             why.msg);
        out->n_head = 0;
        st = CAG_OK;
    }
    return st ? cag_error_copy(err, &why)
              : engine_set_heads(s.x->engine, NULL, 0, err);
}
