/*
 * crew_tool.c - a crew whose members come one by one, for programs:
 * cag/tool/crew.h.
 */
#include <cag/tool/crew.h>
#include <string.h>

#include "ask/ask.h"
#include "ask/crew.h"
#include "ask/kb.h"
#include "ask/support.h"
#include "util/error.h"
#include "util/mem.h"

#define LONG_ANSWER 1024 /* tokens, for what a device has memory for */

struct cag_crew {
    struct crew crew;
};

struct cag_member {
    struct crew_member m;
    cag_ask_params params;
    jv *turns;    /* what m.turns points to, or NULL */
    char *before; /* what m.before points to, or NULL */
    cag_text_fn fn;
    void *ctx;
};

cag_status cag_crew_new(cag_kb *kb, int parallel, cag_crew **out,
                        cag_error *err)
{
    cag_crew *c = mem_zalloc(sizeof *c);
    cag_status st;

    if (!c)
        return cag_fail_nomem(err, "questions");
    st = crew_init(&c->crew, kb, parallel, 0, LONG_ANSWER, err);
    if (st) {
        mem_free(c);
        return st;
    }
    *out = c;
    return CAG_OK;
}

void cag_crew_free(cag_crew *c)
{
    if (c)
        crew_release(&c->crew);
    mem_free(c);
}

void cag_crew_keep(cag_crew *c, cag_kept *k)
{
    cag_kb *kb = c->crew.kb;

    /* elsewhere a reading in parts has other bits */
    if (kb->no_cache || strcmp(cag_engine_device(kb->engine), "cpu") != 0)
        return;
    c->crew.kept = k;
    kb->spare_tok = LONG_ANSWER;
}

int cag_crew_parallel(const cag_crew *c)
{
    return c->crew.parallel;
}

bool cag_crew_has_room(const cag_crew *c)
{
    return crew_has_room(&c->crew);
}

/* A member always has this function, so that none has a twin: who is waited
 * for could not leave. */
static bool give_text(void *ctx, const char *text, size_t size)
{
    const cag_member *m = ctx;

    return !m->fn || m->fn(m->ctx, text, size);
}

static void member_free(cag_member *m)
{
    cag_answer_release(&m->m.answer);
    jv_free(m->turns);
    mem_free(m->before);
    mem_free(m);
}

static cag_status take_turns(cag_member *m, const cag_chat *earlier,
                             const cag_question *q, cag_error *err)
{
    cag_text before;
    cag_status st;

    if (!earlier || !chat_n_turn(earlier))
        return CAG_OK;
    st = chat_next(earlier, q->text, q->size, &m->turns, err);
    m->m.turns = m->turns;
    if (!st && chat_question_before(earlier, &before)) {
        m->before = mem_strndup(before.text, before.size);
        m->m.before = (cag_text){ m->before, before.size, 0 };
        if (!m->before)
            st = cag_fail_nomem(err, "conversation");
    }
    return st;
}

cag_status cag_crew_join(cag_crew *c, const cag_chat *earlier,
                         const cag_question *q, const char *owner,
                         cag_text_fn fn, void *ctx, cag_member **out,
                         cag_error *err)
{
    cag_member *m = mem_zalloc(sizeof *m);
    cag_status st;

    if (!m)
        return cag_fail_nomem(err, "question");
    m->m = (struct crew_member){ .question = q->text,
                                 .size = q->size,
                                 .params = &m->params,
                                 .owner = owner,
                                 .fn = give_text,
                                 .ctx = m,
                                 .error = CAG_ERROR_INIT };
    m->fn = fn;
    m->ctx = ctx;
    st = take_turns(m, earlier, q, err);
    if (!st && turn_params(&m->params, q->params, &m->m.error))
        m->m.state = CREW_DONE;
    else if (!st)
        st = crew_add(&c->crew, &m->m, err);
    if (st) {
        member_free(m);
        return st;
    }
    *out = m;
    return CAG_OK;
}

cag_status cag_crew_step(cag_crew *c, cag_error *err)
{
    cag_status st = crew_step(&c->crew, err);

    /* what it gave out was made of the files: were they the same all along? */
    return st ? st : kb_check_files(c->crew.kb, err);
}

bool cag_member_done(const cag_member *m)
{
    return m->m.state == CREW_DONE;
}

cag_status cag_crew_leave(cag_crew *c, cag_member *m, cag_answer *out,
                          cag_error *err)
{
    const cag_text q = { m->m.question, m->m.size, 0 };
    cag_status st;

    memset(out, 0, sizeof *out);
    if (m->m.state != CREW_DONE)
        crew_leave(&c->crew, &m->m);
    st = m->m.error.status ? cag_error_copy(err, &m->m.error) : CAG_OK;
    if (!st && support_is_asked(&m->params))
        st = cag_answer_check(c->crew.kb, &q, m->before ? &m->m.before : NULL,
                              &m->params, &m->m.answer, err);
    if (!st) {
        *out = m->m.answer;
        memset(&m->m.answer, 0, sizeof m->m.answer);
    }
    member_free(m);
    return st;
}
