/*
 * api_talk.c - see api_talk.h.
 */
#include "cmd/serve/api_talk.h"

#include <stdio.h>
#include <string.h>

static bool at(struct api_error *e, size_t i, const char *what,
               const char *code, const char *msg)
{
    char param[64];

    snprintf(param, sizeof param, "messages[%zu]%s", i, what);
    return api_fail(e, 400, code, param, "'%s': %s", param, msg);
}

/* The library's strings end at a NUL: one would cut what came before. */
static bool add_text(const char *s, size_t n, size_t i, struct buf *out,
                     struct api_error *e)
{
    if (memchr(s, '\0', n))
        return at(e, i, ".content", "invalid_value",
                  "the text holds a NUL byte");
    buf_add(out, s, n);
    return true;
}

/* The text of a message: a string, or a list of parts that are text. */
static bool take_content(const jv *message, size_t i, struct buf *out,
                         struct api_error *e)
{
    const jv *content = jv_get(message, "content");
    size_t n;
    const char *s = jv_str(content, &n);

    buf_str(out, "");
    if (s)
        return add_text(s, n, i, out, e);
    if (jv_type(content) != JV_ARRAY || !jv_count(content))
        return at(e, i, ".content", "invalid_value",
                  "expected a text, or a list of parts that are text");
    for (size_t k = 0; k < jv_count(content); k++) {
        const jv *part = jv_at(content, k);

        s = jv_str(jv_get(part, "text"), &n);
        if (strcmp(jv_get_str(part, "type", ""), "text") != 0 || !s)
            return at(e, i, ".content", "unsupported_content",
                      "only parts of type text are read");
        if (!add_text(s, n, i, out, e))
            return false;
    }
    return true;
}

/* Members of a message that would mean more than its text. */
static bool check_members(const jv *message, size_t i, struct api_error *e)
{
    static const char *const known[] = { "role", "content", "name", "refusal",
                                         "annotations" };

    for (void *it = jv_iter(message); it; it = jv_next(message, it)) {
        size_t n, k = 0;
        const char *key = jv_iter_key(it, &n);
        const jv *v = jv_iter_value(it);
        bool empty =
            jv_type(v) == JV_NULL || (jv_type(v) == JV_ARRAY && !jv_count(v));

        while (k < sizeof known / sizeof *known && strcmp(key, known[k]) != 0)
            k++;
        if (k == sizeof known / sizeof *known && !empty)
            return at(e, i, "", "unsupported_content",
                      "a message has a role and a content");
    }
    return true;
}

static bool add_turn(jv *turns, const char *role, const struct buf *text)
{
    jv *m = jv_new_object();

    if (m && !buf_failed(text) && jv_set_str(m, "role", role) &&
        jv_set(m, "content",
               jv_new_str(text->data ? text->data : "", text->size)))
        return jv_append(turns, m);
    jv_free(m);
    return false;
}

struct talk {
    struct api_request *r;
    struct api_error *e;
    enum api_system rule;
    struct buf system, text;
    size_t n_turn; /* questions and answers so far */
    bool asked;    /* the last was a question */
};

static bool out_of_memory(struct talk *t)
{
    return api_fail(t->e, 503, NULL, "", "out of memory");
}

static bool take_system(struct talk *t, const jv *message, size_t i)
{
    if (t->rule == API_SYSTEM_REFUSE)
        return at(t->e, i, ".role", "unsupported_system_message",
                  "the cached prompt is what it is, and a system message "
                  "cannot change it; put it into the question (or start "
                  "cag-serve with --system prepend, which does that)");
    if (t->n_turn || t->asked)
        return at(t->e, i, ".role", "invalid_value",
                  "a system message must come before all questions");
    if (t->system.size)
        buf_str(&t->system, "\n\n");
    return take_content(message, i, &t->system, t->e);
}

static bool take_question(struct talk *t, const jv *message, size_t i)
{
    if (t->asked)
        return at(t->e, i, ".role", "invalid_value",
                  "two questions in a row; an answer must be between them");
    if (t->system.size) {
        buf_add(&t->r->question, t->system.data, t->system.size);
        buf_str(&t->r->question, "\n\n");
        buf_clear(&t->system);
    }
    t->asked = true;
    return take_content(message, i, &t->r->question, t->e);
}

/* What was the last question becomes a turn, with its answer. */
static bool take_answer(struct talk *t, const jv *message, size_t i)
{
    struct api_request *r = t->r;

    if (!t->asked)
        return at(t->e, i, ".role", "invalid_value",
                  "an answer must follow a question");
    buf_clear(&t->text);
    if (!take_content(message, i, &t->text, t->e))
        return false;
    if (!r->earlier)
        r->earlier = jv_new_array();
    if (!r->earlier || !add_turn(r->earlier, "user", &r->question) ||
        !add_turn(r->earlier, "assistant", &t->text))
        return out_of_memory(t);
    buf_clear(&r->question);
    t->n_turn += 2;
    t->asked = false;
    return true;
}

static bool take_message(struct talk *t, const jv *message, size_t i)
{
    const char *role = jv_get_str(message, "role", "");

    if (!check_members(message, i, t->e))
        return false;
    if (!strcmp(role, "user"))
        return take_question(t, message, i);
    if (!strcmp(role, "assistant"))
        return take_answer(t, message, i);
    if (!strcmp(role, "system") || !strcmp(role, "developer"))
        return take_system(t, message, i);
    return at(t->e, i, ".role", "invalid_value",
              "expected user, assistant or system");
}

bool api_talk(struct api_request *r, const jv *messages, enum api_system rule,
              struct api_error *e)
{
    struct talk t = { .r = r, .e = e, .rule = rule };
    size_t n = jv_count(messages);
    bool ok = true;

    if (jv_type(messages) != JV_ARRAY || !n)
        return api_fail(e, 400, "invalid_value", "messages",
                        "'messages' must be a list of messages");
    for (size_t i = 0; i < n && ok; i++)
        ok = take_message(&t, jv_at(messages, i), i);
    if (ok && !t.asked)
        ok = at(e, n - 1, ".role", "invalid_value",
                "the last message must be the user's question");
    if (ok && (buf_failed(&t.system) || buf_failed(&t.text)))
        ok = out_of_memory(&t);
    buf_free(&t.system);
    buf_free(&t.text);
    return ok;
}
