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
    size_t most_turns;

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
    most_turns = CAG_LOOKS * (size_t)c->most;
    c->moved = mem_alloc_array(most_turns, sizeof *c->moved);
    c->step = mem_alloc_array(most_turns, sizeof *c->step);
    c->fresh = mem_alloc_array(most_turns, sizeof *c->fresh);
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
        if (c->member[i]->state == CREW_RUNNING)
            looks_release(&c->member[i]->looks);
    mem_free(c->member);
    mem_free(c->moved);
    mem_free(c->step);
    mem_free(c->fresh);
    memset(c, 0, sizeof *c);
}

/* ----------------------------------------------------------------- joining */

/* Turns of all members that are not over. */
static int n_turn(const struct crew *c)
{
    int n = 0;

    for (int i = 0; i < c->n_member; i++)
        if (c->member[i]->state == CREW_RUNNING)
            n +=
                c->member[i]->looks.n_begun - c->member[i]->looks.focus.n_taken;
    return n;
}

bool crew_has_room(const struct crew *c)
{
    return n_turn(c) < c->parallel && c->n_member < c->most;
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

/* The session of a first look, which sees all of the cache, is kept, those of
 * later ones are not; nor is one that is measured: what it has read before
 * would not be. */
static bool keeps(const struct crew *c, const struct crew_member *m)
{
    return c->kept && m->owner && !m->looks.turn[0].mass.lines;
}

/* What a session of the same owner has read is not read again. */
static void reuse(struct crew *c, struct crew_member *m)
{
    struct turn *t = &m->looks.turn[0];
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
    struct turn *t = &m->looks.turn[0];

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
    struct looks *l = &m->looks;
    cag_ids ids = CAG_IDS_INIT;
    cag_status st =
        m->turns ? prompt_chat_encode(&kb->tail, kb->tok, m->turns,
                                      m->params->think, &ids, err)
                 : prompt_question_encode(&kb->tail, kb->tok, m->question,
                                          m->size, m->params->think, &ids, err);

    if (!st && !l->n_begun)
        kb_note_dropped(kb, &ids);
    if (!st)
        st = looks_prepare(l, ids.id, ids.n, m->fn, m->ctx, err);
    if (st == CAG_E_NOMEM && c->kept && kept_clear(c->kept))
        st = looks_prepare(l, ids.id, ids.n, m->fn, m->ctx, err);
    if (!st) {
        c->n_prompt += l->turn[l->n_begun - 1].n_prompt;
        if (l->n_begun == 1)
            reuse(c, m);
    }
    cag_ids_free(&ids);
    return st;
}

/* m's next looks, as far as they are certain and there is room for their turns;
 * there always is for one. */
static cag_status prepare_more(struct crew *c, struct crew_member *m,
                               cag_error *err)
{
    struct looks *l = &m->looks;
    cag_status st = CAG_OK;

    while (!st && looks_next(l)) {
        bool waits = l->n_begun > l->focus.n_taken;

        if (waits && n_turn(c) >= c->parallel)
            break;
        st = prepare(c, m, err);
        if (st == CAG_E_NOMEM && waits) {
            l->in_turns = true;
            st = CAG_OK;
        }
    }
    return st;
}

/* m's first look. */
static cag_status begin_member(struct crew *c, struct crew_member *m,
                               cag_error *err)
{
    const cag_text question = { m->question, m->size, 0 };
    cag_status st = kb_check_files(c->kb, err);

    memset(&m->looks, 0, sizeof m->looks);
    if (!st)
        st = looks_init(&m->looks, c->kb, m->params, &question,
                        m->before.text ? &m->before : NULL, err);
    if (!st)
        st = prepare(c, m, err);
    if (st)
        looks_release(&m->looks);
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

/* m runs no longer. */
static void end_member(struct crew *c, struct crew_member *m)
{
    c->n_running--;
    looks_release(&m->looks);
}

void crew_leave(struct crew *c, struct crew_member *m)
{
    int n = 0;

    if (m->state == CREW_RUNNING)
        end_member(c, m);
    m->state = CREW_DONE;
    cag_fail(&m->error, CAG_E_CANCELLED, NULL, -1, "cancelled");
    for (int i = 0; i < c->n_member; i++)
        if (c->member[i] != m)
            c->member[n++] = c->member[i];
    c->n_member = n;
}

/* ---------------------------------------------------------------- stepping */

/* Take what m's looks came to that are over, and begin those which that makes
 * certain. */
static cag_status take_looks(struct crew *c, struct crew_member *m)
{
    struct looks *l = &m->looks;
    cag_status st = CAG_OK;

    while (!st && looks_ended(l)) {
        if (!l->focus.n_taken)
            keep(c, m);
        c->n_generated += l->turn[l->focus.n_taken].n_generated;
        st = looks_take(l, &m->answer, &m->error);
        if (!st)
            st = prepare_more(c, m, &m->error);
    }
    return st;
}

/* A turn of m is over; who waits for m's answer has the same. */
static cag_status finish(struct crew *c, struct crew_member *m, cag_error *err)
{
    cag_status st = take_looks(c, m);

    if (!st && !looks_over(&m->looks))
        return CAG_OK;
    if (!st)
        looks_end(&m->looks, &m->answer);
    end_member(c, m);
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

/* Turns of members that were read, or were not; to c->moved. */
static int gather(struct crew *c, bool read)
{
    int n = 0;

    for (int i = 0; i < c->n_member; i++) {
        struct crew_member *m = c->member[i];
        const struct looks *l = &m->looks;

        if (m->state != CREW_RUNNING)
            continue;
        for (int k = l->focus.n_taken; k < l->n_begun; k++)
            if (read ? looks_runs(l, k) : !l->turn[k].n_generated)
                c->moved[n++] = (struct crew_turn){ m, k };
    }
    return n;
}

/* Read the questions that were not read yet, together. */
static cag_status begin(struct crew *c, cag_error *err)
{
    int n = gather(c, false);
    cag_status st = CAG_OK;

    for (int i = 0; i < n; i++)
        c->fresh[i] = &c->moved[i].m->looks.turn[c->moved[i].i];
    if (n)
        st = turn_begin(c->fresh, c->step, n, err);
    for (int i = 0; i < n && !st; i++) {
        struct crew_member *m = c->moved[i].m;

        if (m->state != CREW_RUNNING)
            continue; /* another of its looks was stopped */
        st = looks_read(&m->looks, c->moved[i].i, err);
        if (!st && c->fresh[i]->finish)
            st = finish(c, m, err);
        else if (!st)
            st = prepare_more(c, m, err);
    }
    return st;
}

/*
 * Rows of a step are cheap up to the number the row kernels take at once:
 * while few turns are left, drafts fill that up.
 */
static cag_status advance(struct crew *c, cag_error *err)
{
    int n = gather(c, true), drafts = n ? CAG_STEP_MAX / n - 1 : 0;
    cag_status st = CAG_OK;

    for (int i = 0; i < n; i++)
        turn_step(&c->moved[i].m->looks.turn[c->moved[i].i], drafts,
                  &c->step[i]);
    if (n)
        st = turn_verify(c->step, n, err);
    for (int i = 0; i < n && !st; i++) {
        struct crew_member *m = c->moved[i].m;
        int k = c->moved[i].i;

        if (m->state != CREW_RUNNING || !looks_runs(&m->looks, k))
            continue; /* it was stopped, with another look */
        st = looks_advance(&m->looks, k, &c->step[i], err);
        if (!st && m->looks.turn[k].finish)
            st = finish(c, m, err);
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
