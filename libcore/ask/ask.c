/*
 * ask.c - one question at a time: from the clean prefix, or in a
 * conversation.
 */
#include "ask/ask.h"

#include <string.h>

#include "ask/kb.h"
#include "ask/looks.h"
#include "ask/support.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/text.h"

struct asked {
    cag_text question, before; /* before.text NULL: there is none */
    const cag_ids *ids;        /* all that follows the knowledge  */
    const cag_ask_params *params;
    cag_text_fn fn;
    void *ctx;
};

static cag_status run(cag_kb *kb, const struct asked *q, cag_answer *out,
                      cag_error *err)
{
    const cag_text *before = q->before.text ? &q->before : NULL;
    struct looks l;
    cag_status st = looks_init(&l, kb, q->params, &q->question, before, err);

    kb_note_dropped(kb, q->ids);
    if (st)
        looks_release(&l);
    else
        st = looks_run(&l, q->ids->id, q->ids->n, q->fn, q->ctx, out, err);
    if (!st && support_is_asked(q->params))
        st = cag_answer_check(kb, &q->question, before, q->params, out, err);
    return st;
}

cag_status cag_kb_ask(cag_kb *kb, const char *question, size_t size,
                      const cag_ask_params *given, cag_text_fn fn, void *ctx,
                      cag_answer *out, cag_error *err)
{
    cag_ids ids = CAG_IDS_INIT;
    cag_ask_params p;
    cag_status st = turn_params(&p, given, err);

    memset(out, 0, sizeof *out);
    if (!st)
        st = kb_check_files(kb, err);
    if (!st)
        st = prompt_question_encode(&kb->tail, kb->tok, question, size, p.think,
                                    &ids, err);
    if (!st)
        st = run(kb,
                 &(struct asked){ .question = { question, size, 0 },
                                  .ids = &ids,
                                  .params = &p,
                                  .fn = fn,
                                  .ctx = ctx },
                 out, err);
    cag_ids_free(&ids);
    return st;
}

struct cag_chat {
    cag_kb *kb;
    jv *messages; /* turns after the knowledge: user, assistant, ...;
                     NULL before the first */
};

cag_status cag_chat_new(cag_kb *kb, cag_chat **out, cag_error *err)
{
    cag_chat *c = mem_zalloc(sizeof *c);

    if (!c)
        return cag_fail_nomem(err, "conversation");
    c->kb = kb;
    *out = c;
    return CAG_OK;
}

void cag_chat_free(cag_chat *c)
{
    if (c)
        jv_free(c->messages);
    mem_free(c);
}

void cag_chat_reset(cag_chat *c)
{
    jv_clear(c->messages);
}

char *cag_chat_json(const cag_chat *c)
{
    struct buf b = BUF_INIT;
    size_t n;

    if (!jv_count(c->messages))
        buf_str(&b, "[]");
    else
        jv_dump(c->messages, &b);
    return buf_detach(&b, &n);
}

cag_status cag_chat_load(cag_chat *c, const char *json, size_t size,
                         const char *file, cag_error *err)
{
    static const char *const roles[] = { "user", "assistant" };
    jv *turns;
    cag_status st = jv_parse(json, size, file, &turns, err);

    if (st)
        return st;
    if (jv_type(turns) != JV_ARRAY || jv_count(turns) % 2)
        st = cag_fail(err, CAG_E_FORMAT, file, -1,
                      "this is no conversation: expected an array of "
                      "questions and answers");
    for (size_t i = 0; !st && i < jv_count(turns); i++) {
        const char *role = jv_get_str(jv_at(turns, i), "role", "");

        if (strcmp(role, roles[i % 2]) ||
            !jv_get_str(jv_at(turns, i), "content", NULL))
            st = cag_fail(err, CAG_E_FORMAT, file, -1,
                          "turn %zu is not {\"role\": \"%s\", \"content\": "
                          "text}",
                          i + 1, roles[i % 2]);
    }
    if (st) {
        jv_free(turns);
        return st;
    }
    jv_free(c->messages);
    c->messages = turns;
    return CAG_OK;
}

static bool add_turn(jv *messages, const char *role, const char *text,
                     size_t size)
{
    jv *m = jv_new_object();

    if (m && jv_set_str(m, "role", role) &&
        jv_set(m, "content", jv_new_str(text, size)))
        return jv_append(messages, m);
    jv_free(m);
    return false;
}

const cag_text *chat_question_before(const cag_chat *c, cag_text *out)
{
    const jv *messages = c->messages;
    size_t n = jv_count(messages);

    *out = (cag_text){ 0 };
    if (n < 2)
        return NULL;
    out->text = jv_str(jv_get(jv_at(messages, n - 2), "content"), &out->size);
    return out->text ? out : NULL;
}

cag_status chat_next(const cag_chat *c, const char *question, size_t size,
                     jv **out, cag_error *err)
{
    jv *turns = c->messages ? jv_copy(c->messages) : jv_new_array();

    if (!turns || !add_turn(turns, "user", question, size)) {
        jv_free(turns);
        return cag_fail_nomem(err, "conversation");
    }
    *out = turns;
    return CAG_OK;
}

size_t chat_n_turn(const cag_chat *c)
{
    return jv_count(c->messages);
}

cag_status cag_chat_ask(cag_chat *c, const char *question, size_t size,
                        const cag_ask_params *given, cag_text_fn fn, void *ctx,
                        cag_answer *out, cag_error *err)
{
    cag_ids ids = CAG_IDS_INIT;
    cag_ask_params p;
    cag_text before;
    jv *turns = NULL;
    size_t bad;
    bool keep;
    cag_status st = turn_params(&p, given, err);

    memset(out, 0, sizeof *out);
    if (!st)
        st = kb_check_files(c->kb, err);
    if (st)
        return st;
    if (!utf8_valid(question, size, &bad))
        return cag_fail(err, CAG_E_FORMAT, NULL, (int64_t)bad,
                        "the question is not valid UTF-8 (byte %zu)", bad);
    /* what the conversation will be once this turn has succeeded */
    st = chat_next(c, question, size, &turns, err);
    if (st)
        return st;
    if (jv_count(c->messages) == 0) {
        st = prompt_question_encode(&c->kb->tail, c->kb->tok, question, size,
                                    p.think, &ids, err);
    } else {
        st = prompt_chat_encode(&c->kb->tail, c->kb->tok, turns, p.think, &ids,
                                err);
    }
    chat_question_before(c, &before);
    if (!st)
        st = run(c->kb,
                 &(struct asked){ .question = { question, size, 0 },
                                  .before = before,
                                  .ids = &ids,
                                  .params = &p,
                                  .fn = fn,
                                  .ctx = ctx },
                 out, err);
    /* a full conversation names the way out */
    if (st == CAG_E_LIMIT && jv_count(c->messages) && err)
        st = cag_fail(err, CAG_E_LIMIT, NULL, -1,
                      "the conversation is full (%zu tokens after %zu of "
                      "knowledge, the context has %lld); /reset starts anew",
                      ids.n, c->kb->n_ids, (long long)c->kb->n_ctx);
    /* Keep a cancelled turn only if text of it was given out. */
    keep = !st ||
           (st == CAG_E_CANCELLED && out->size > 0 && !p.require && !p.focus);
    if (keep && !add_turn(turns, "assistant", out->text, out->size)) {
        keep = false;
        st = st ? st : cag_fail_nomem(err, "conversation");
    }
    if (keep) {
        jv_free(c->messages);
        c->messages = turns;
        turns = NULL;
    }
    jv_free(turns);
    cag_ids_free(&ids);
    return st;
}

cag_status cag_kb_prompt(cag_kb *kb, const char *question, size_t size,
                         bool think, cag_prompt_view *out, cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_ids ids = CAG_IDS_INIT;
    size_t n_text;
    const char *text = cag_kvc_text(kb->kvc, &n_text);
    cag_status st = prompt_question_encode(&kb->tail, kb->tok, question, size,
                                           think, &ids, err);

    memset(out, 0, sizeof *out);
    if (st)
        return st;
    buf_add(&b, text, n_text);
    buf_str(&b, kb->tail.mid);
    question = chat_strip(question, &size, kb->tail.question_trim);
    buf_add(&b, question, size);
    buf_str(&b, kb->tail.suffix[think]);
    out->cached_bytes = n_text;
    out->n_cached = (int64_t)kb->n_ids;
    out->n_prompt = (int64_t)ids.n;
    out->room = kb->n_ctx - out->n_cached - out->n_prompt;
    out->text = buf_detach(&b, &out->size);
    cag_ids_free(&ids);
    return out->text ? CAG_OK : cag_fail_nomem(err, "prompt");
}
