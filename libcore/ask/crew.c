/*
 * crew.c - see crew.h.
 */
#include "ask/crew.h"

#include <string.h>

#include "ask/answer_copy.h"
#include "ask/kb.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/note.h"

#define MAX_PARALLEL  256
#define LONG_QUESTION 512 /* tokens */

/* ------------------------------------------------------------------ making */

/* As many at once as a GPU has memory for, at the size of a long question and
 * its answer. */
static int limit_to_memory(const struct crew *c, int64_t max_tok)
{
    const cag_kb *kb = c->kb;
    int64_t n = (int64_t)kb->n_ids + LONG_QUESTION;
    int room;

    n = max_tok < kb->n_ctx - n ? n + max_tok : kb->n_ctx;
    room = cag_engine_room(kb->engine, kb->prefix, (int)n);
    if (room >= c->parallel)
        return c->parallel;
    return room > 1 ? room : 1;
}

/* Between the rows a prefill's own progress would only flicker: it is asked
 * whether to go on. */
static bool on_prefill(void *ctx, const cag_progress *p)
{
    const struct crew *c = ctx;

    (void)p;
    return c->kb->hooks.progress(c->kb->hooks.ctx, &c->now);
}

cag_status crew_init(struct crew *c, cag_kb *kb, int parallel, int most,
                     int64_t max_tok, cag_error *err)
{
    int threads = kb->engine ? cag_engine_n_thread(kb->engine) : 1;

    memset(c, 0, sizeof *c);
    c->kb = kb;
    c->now = (cag_progress){ .what = "rows", .unit = CAG_UNIT_ROWS };
    c->parallel = parallel ? parallel : 8 * threads;
    if (c->parallel > MAX_PARALLEL)
        c->parallel = MAX_PARALLEL;
    if (kb->engine)
        c->parallel = limit_to_memory(c, max_tok);
    c->most = most ? most : 4 * c->parallel + 16;
    c->member = mem_alloc_array((size_t)c->most, sizeof *c->member);
    c->moved = mem_alloc_array((size_t)c->most, sizeof *c->moved);
    c->step = mem_alloc_array((size_t)c->most, sizeof *c->step);
    c->fresh = mem_alloc_array((size_t)c->most, sizeof *c->fresh);
    if (!c->member || !c->moved || !c->step || !c->fresh) {
        crew_release(c);
        return cag_fail_nomem(err, "questions");
    }
    if (kb->engine && kb->hooks.progress)
        cag_engine_set_progress(kb->engine, on_prefill, c);
    return CAG_OK;
}

void crew_release(struct crew *c)
{
    if (c->kb && c->kb->engine)
        cag_engine_set_progress(c->kb->engine, c->kb->hooks.progress,
                                c->kb->hooks.ctx);
    for (int i = 0; i < c->n_member; i++)
        if (c->member[i]->state == CREW_RUNNING) {
            turn_release(&c->member[i]->turn);
            focus_release(&c->member[i]->focus);
        }
    mem_free(c->member);
    mem_free(c->moved);
    mem_free(c->step);
    mem_free(c->fresh);
    memset(c, 0, sizeof *c);
}

/* ----------------------------------------------------------------- joining */

bool crew_has_room(const struct crew *c)
{
    return c->n_running < c->parallel && c->n_member < c->most;
}

/* Errors of one question; all others end the work. */
static bool is_own_error(cag_status st)
{
    return st == CAG_E_FORMAT || st == CAG_E_LIMIT || st == CAG_E_USAGE;
}

static const struct crew_member *find_twin(const struct crew *c,
                                           const struct crew_member *m)
{
    if (m->params->sampling.temperature > 0 || m->fn || m->turns)
        return NULL;
    for (int i = 0; i < c->n_member; i++) {
        const struct crew_member *t = c->member[i];

        if (t->state == CREW_RUNNING && !t->fn && !t->turns &&
            t->size == m->size && !memcmp(t->question, m->question, m->size) &&
            !strcmp(t->key, m->key))
            return t;
    }
    return NULL;
}

/* Sessions that see all of the cache are kept, those of later looks are not;
 * nor is one that is measured: what it has read before would not be. */
static bool keeps(const struct crew *c, const struct crew_member *m)
{
    return c->kept && m->owner && m->look == CAG_FOCUS_OFF &&
           !m->turn.mass.lines;
}

/* What a session of the same owner has read is not read again. */
static void reuse(struct crew *c, struct crew_member *m)
{
    struct turn *t = &m->turn;
    size_t n_same = 0;
    cag_session *s;

    if (!keeps(c, m))
        return;
    s = kept_take(c->kept, c->kb, m->owner, t->draft.own, (size_t)t->n_prompt,
                  (int64_t)c->kb->n_ids + t->n_prompt + t->room, &n_same);
    if (!s)
        return;
    cag_session_free(t->session);
    t->session = s;
    t->n_reused = (int64_t)n_same;
}

/* Before the turn ends. */
static void keep(struct crew *c, struct crew_member *m)
{
    struct turn *t = &m->turn;

    if (!keeps(c, m))
        return;
    kept_put(c->kept, c->kb, m->owner, t->draft.own, (size_t)t->n_prompt,
             t->session);
    t->session = NULL;
}

/* Everything of m's next look but reading it. */
static cag_status prepare(struct crew *c, struct crew_member *m, cag_error *err)
{
    cag_kb *kb = c->kb;
    cag_ids ids = CAG_IDS_INIT;
    struct turn_prompt q;
    cag_status st =
        m->turns ? prompt_chat_encode(&kb->tail, kb->tok, m->turns,
                                      m->params->think, &ids, err)
                 : prompt_question_encode(&kb->tail, kb->tok, m->question,
                                          m->size, m->params->think, &ids, err);

    if (!st)
        st = focus_prompt(&m->focus, m->look, ids.id, ids.n, &q, err);
    if (!st) {
        c->n_prompt += (int64_t)q.n_ids;
        if (!m->focus.n_taken)
            kb_note_dropped(kb, &ids);
        st = turn_prepare(&m->turn, kb, &q, m->params, m->fn, m->ctx, err);
        if (st == CAG_E_NOMEM && c->kept && kept_clear(c->kept))
            st = turn_prepare(&m->turn, kb, &q, m->params, m->fn, m->ctx, err);
        if (!st)
            reuse(c, m);
    }
    cag_ids_free(&ids);
    return st;
}

/* m's first look. */
static cag_status begin_member(struct crew *c, struct crew_member *m,
                               cag_error *err)
{
    const cag_text question = { m->question, m->size, 0 };
    cag_status st = kb_check_files(c->kb, err);

    if (!st)
        st = focus_init(&m->focus, c->kb, m->params, &question,
                        m->before.text ? &m->before : NULL, err);
    if (!st && focus_next(&m->focus, &m->look))
        st = prepare(c, m, err);
    if (st)
        focus_release(&m->focus);
    return st;
}

cag_status crew_add(struct crew *c, struct crew_member *m, cag_error *err)
{
    cag_status st;

    memset(&m->answer, 0, sizeof m->answer);
    m->error = (cag_error)CAG_ERROR_INIT;
    m->twin = find_twin(c, m);
    if (m->twin) {
        m->state = CREW_WAITING;
    } else if (focus_check(c->kb, m->params, &m->error)) {
        m->state = CREW_DONE; /* others may ask for what there is */
        return CAG_OK;
    } else {
        st = begin_member(c, m, &m->error);
        if (st) {
            m->state = CREW_DONE;
            return is_own_error(st) ? CAG_OK : cag_error_copy(err, &m->error);
        }
        m->state = CREW_RUNNING;
        c->n_running++;
    }
    c->member[c->n_member++] = m;
    return CAG_OK;
}

void crew_leave(struct crew *c, struct crew_member *m)
{
    int n = 0;

    if (m->state == CREW_RUNNING) {
        turn_release(&m->turn);
        focus_release(&m->focus);
        c->n_running--;
    }
    m->state = CREW_DONE;
    cag_fail(&m->error, CAG_E_CANCELLED, NULL, -1, "cancelled");
    for (int i = 0; i < c->n_member; i++)
        if (c->member[i] != m)
            c->member[n++] = c->member[i];
    c->n_member = n;
}

/* ---------------------------------------------------------------- stepping */

/* m's turn is over: take what it came to, and begin the next look if there is
 * one. */
static cag_status take_look(struct crew *c, struct crew_member *m, bool *more)
{
    cag_status st;

    keep(c, m);
    st = turn_finish(&m->turn, &m->answer, &m->error);
    *more = false;
    c->n_generated += m->answer.n_generated;
    if (!st)
        st = focus_take(&m->focus, m->look, &m->answer, &m->error);
    if (!st && focus_next(&m->focus, &m->look)) {
        *more = true;
        st = prepare(c, m, &m->error);
    }
    if (st)
        focus_release(&m->focus);
    else if (!*more)
        focus_end(&m->focus, &m->answer);
    return st;
}

/* m's turn is over; who waits for its answer has the same. */
static cag_status finish(struct crew *c, struct crew_member *m, cag_error *err)
{
    bool more;
    cag_status st = take_look(c, m, &more);

    if (!st && more)
        return CAG_OK;
    c->n_running--;
    m->state = CREW_DONE;
    if (st && st != CAG_E_CANCELLED)
        return cag_error_copy(err, &m->error);
    st = CAG_OK;
    for (int i = 0; i < c->n_member && !st; i++) {
        struct crew_member *t = c->member[i];

        if (t->state != CREW_WAITING || t->twin != m)
            continue;
        st = answer_copy(&t->answer, &m->answer, err);
        t->state = CREW_DONE;
    }
    return st;
}

static bool is_read(const struct crew_member *m)
{
    return m->state == CREW_RUNNING && m->turn.n_generated > 0;
}

/* Read the questions that were not read yet, together. */
static cag_status begin(struct crew *c, cag_error *err)
{
    cag_status st = CAG_OK;
    int n = 0;

    for (int i = 0; i < c->n_member; i++) {
        struct crew_member *m = c->member[i];

        if (m->state == CREW_RUNNING && !is_read(m)) {
            c->fresh[n] = &m->turn;
            c->moved[n++] = m;
        }
    }
    if (n)
        st = turn_begin(c->fresh, c->step, n, err);
    for (int i = 0; i < n && !st; i++)
        if (c->moved[i]->turn.finish)
            st = finish(c, c->moved[i], err);
    return st;
}

/*
 * Rows of a step are cheap up to the number the row kernels take at once:
 * while few questions are left, drafts fill that up.
 */
static cag_status advance(struct crew *c, cag_error *err)
{
    int drafts = c->n_running ? CAG_STEP_MAX / c->n_running - 1 : 0, n = 0;
    cag_status st;

    for (int i = 0; i < c->n_member; i++)
        if (is_read(c->member[i])) {
            turn_step(&c->member[i]->turn, drafts, &c->step[n]);
            c->moved[n++] = c->member[i];
        }
    if (!n)
        return CAG_OK;
    st = turn_verify(c->step, n, err);
    for (int i = 0; i < n && !st; i++) {
        st = turn_advance(&c->moved[i]->turn, &c->step[i], err);
        if (!st && c->moved[i]->turn.finish)
            st = finish(c, c->moved[i], err);
    }
    return st;
}

cag_status crew_step(struct crew *c, cag_error *err)
{
    cag_status st = begin(c, err);
    int n = 0;

    if (!st)
        st = advance(c, err);
    for (int i = 0; i < c->n_member; i++)
        if (c->member[i]->state != CREW_DONE)
            c->member[n++] = c->member[i];
    c->n_member = n;
    return st;
}

cag_status crew_progress(struct crew *c, int64_t done, int64_t total,
                         cag_error *err)
{
    c->now.done = (uint64_t)done;
    c->now.total = (uint64_t)total;
    return note_progress(&c->kb->hooks, c->now.what, c->now.unit, c->now.done,
                         c->now.total)
               ? CAG_OK
               : cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
}
