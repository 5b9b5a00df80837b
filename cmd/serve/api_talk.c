/*
 * api_talk.c - see api_talk.h.
 */
#include "cmd/serve/api_talk.h"

#include <stdio.h>
#include <string.h>

struct talk {
    struct api_request *r;
    struct api_error *e;
    const char *name; /* of the list */
    enum api_system rule;
    struct buf system, text;
    size_t n_turn; /* questions and answers so far */
    bool asked;    /* the last was a question */
};

static bool at(const struct talk *t, size_t i, const char *what,
               const char *code, const char *msg)
{
    char param[64];

    snprintf(param, sizeof param, "%s[%zu]%s", t->name, i, what);
    return api_fail(t->e, 400, code, param, "'%s': %s", param, msg);
}

/* The library's strings end at a NUL: one would cut what came before. */
static bool add_text(const struct talk *t, const char *s, size_t n, size_t i,
                     struct buf *out)
{
    if (memchr(s, '\0', n))
        return at(t, i, ".content", "invalid_value",
                  "the text holds a NUL byte");
    buf_add(out, s, n);
    return true;
}

static bool is_text(const char *type)
{
    return !strcmp(type, "text") || !strcmp(type, "input_text") ||
           !strcmp(type, "output_text");
}

/* The text of a message: a string, or a list of parts that are text. */
static bool take_content(const struct talk *t, const jv *message, size_t i,
                         struct buf *out)
{
    const jv *content = jv_get(message, "content");
    size_t n;
    const char *s = jv_str(content, &n);

    buf_str(out, "");
    if (s)
        return add_text(t, s, n, i, out);
    if (jv_type(content) != JV_ARRAY || !jv_count(content))
        return at(t, i, ".content", "invalid_value",
                  "expected a text, or a list of parts that are text");
    for (size_t k = 0; k < jv_count(content); k++) {
        const jv *part = jv_at(content, k);

        s = jv_str(jv_get(part, "text"), &n);
        if (!is_text(jv_get_str(part, "type", "")) || !s)
            return at(t, i, ".content", "unsupported_content",
                      "only parts of type text are read");
        if (!add_text(t, s, n, i, out))
            return false;
    }
    return true;
}

/* Members of a message that would mean more than its text. */
static bool check_members(const struct talk *t, const jv *message, size_t i)
{
    static const char *const known[] = { "role",    "content",     "name",
                                         "refusal", "annotations", "id",
                                         "status" };

    for (void *it = jv_iter(message); it; it = jv_next(message, it)) {
        size_t n, k = 0;
        const char *key = jv_iter_key(it, &n);
        const jv *v = jv_iter_value(it);
        bool empty =
            jv_type(v) == JV_NULL || (jv_type(v) == JV_ARRAY && !jv_count(v));

        if (!strcmp(key, "type") &&
            !strcmp(jv_get_str(message, key, ""), "message"))
            continue;
        while (k < sizeof known / sizeof *known && strcmp(key, known[k]) != 0)
            k++;
        if (k == sizeof known / sizeof *known && !empty)
            return at(t, i, "", "unsupported_content",
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

static bool out_of_memory(struct talk *t)
{
    return api_fail(t->e, 503, NULL, "", "out of memory");
}

static bool refuse_system(const struct talk *t, const char *param)
{
    return api_fail(t->e, 400, "unsupported_system_message", param,
                    "'%s': the cached prompt is what it is, and a system "
                    "message cannot change it; put it into the question (or "
                    "start cag-serve with --system prepend, which does that)",
                    param);
}

static bool take_system(struct talk *t, const jv *message, size_t i)
{
    char param[64];

    snprintf(param, sizeof param, "%s[%zu].role", t->name, i);
    if (t->rule == API_SYSTEM_REFUSE)
        return refuse_system(t, param);
    if (t->n_turn || t->asked)
        return at(t, i, ".role", "invalid_value",
                  "a system message must come before all questions");
    if (t->system.size)
        buf_str(&t->system, "\n\n");
    return take_content(t, message, i, &t->system);
}

/* What is given outside the list. */
static bool take_instructions(struct talk *t, const jv *v)
{
    size_t n;
    const char *s = jv_str(v, &n);

    if (!s || memchr(s, '\0', n))
        return api_fail(t->e, 400, "invalid_value", "instructions",
                        "'instructions' must be a text");
    if (n && t->rule == API_SYSTEM_REFUSE)
        return refuse_system(t, "instructions");
    buf_add(&t->system, s, n);
    return true;
}

static bool take_question(struct talk *t, const jv *message, size_t i)
{
    if (t->asked)
        return at(t, i, ".role", "invalid_value",
                  "two questions in a row; an answer must be between them");
    if (t->system.size) {
        buf_add(&t->r->question, t->system.data, t->system.size);
        buf_str(&t->r->question, "\n\n");
        buf_clear(&t->system);
    }
    t->asked = true;
    return take_content(t, message, i, &t->r->question);
}

/* What was the last question becomes a turn, with its answer. */
static bool take_answer(struct talk *t, const jv *message, size_t i)
{
    struct api_request *r = t->r;

    if (!t->asked)
        return at(t, i, ".role", "invalid_value",
                  "an answer must follow a question");
    buf_clear(&t->text);
    if (!take_content(t, message, i, &t->text))
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

    if (!check_members(t, message, i))
        return false;
    if (!strcmp(role, "user"))
        return take_question(t, message, i);
    if (!strcmp(role, "assistant"))
        return take_answer(t, message, i);
    if (!strcmp(role, "system") || !strcmp(role, "developer"))
        return take_system(t, message, i);
    return at(t, i, ".role", "invalid_value",
              "expected user, assistant or system");
}

bool api_talk(struct api_request *r, const char *name, const jv *messages,
              const jv *system, enum api_system rule, struct api_error *e)
{
    struct talk t = { .r = r, .e = e, .name = name, .rule = rule };
    size_t n = jv_count(messages);
    bool ok = true;

    if (jv_type(messages) != JV_ARRAY || !n)
        return api_fail(e, 400, "invalid_value", name,
                        "'%s' must be a list of messages", name);
    if (system && jv_type(system) != JV_NULL)
        ok = take_instructions(&t, system);
    for (size_t i = 0; i < n && ok; i++)
        ok = take_message(&t, jv_at(messages, i), i);
    if (ok && !t.asked)
        ok = at(&t, n - 1, ".role", "invalid_value",
                "the last message must be the user's question");
    if (ok && (buf_failed(&t.system) || buf_failed(&t.text)))
        ok = out_of_memory(&t);
    buf_free(&t.system);
    buf_free(&t.text);
    return ok;
}
