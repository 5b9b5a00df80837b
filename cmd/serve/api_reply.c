/*
 * api_reply.c - answers and errors in the shapes that OpenAI's clients read.
 *
 * What runs out of memory here leaves out failed, which the caller looks at.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/serve/api.h"
#include "cmd/serve/api_logprobs.h"
#include "cmd/serve/api_response.h"
#include "util/error.h"
#include "util/text.h"

/* ------------------------------------------------------------------ errors */

static const char *type_of(int http)
{
    switch (http) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return http < 500 || http == 501 ? "invalid_request_error"
                                         : "server_error";
    }
}

bool api_fail(struct api_error *e, int http, const char *code,
              const char *param, const char *fmt, ...)
{
    va_list ap;

    e->http = http;
    e->type = type_of(http);
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param);
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    return false;
}

void api_error_of(struct api_error *e, const cag_error *err)
{
    switch (err->status) {
    case CAG_E_FORMAT:
    case CAG_E_USAGE:
        api_fail(e, 400, "invalid_value", "", "%.400s", err->msg);
        break;
    case CAG_E_UNSUPPORTED:
        api_fail(e, 400, "unsupported", "", "%.400s", err->msg);
        break;
    case CAG_E_LIMIT:
        api_fail(e, 400, "context_length_exceeded", "messages", "%.400s",
                 err->msg);
        break;
    case CAG_E_STALE:
        api_fail(e, 503, "cache_stale", "",
                 "the cache is stale: its sources "
                 "have changed since it was built");
        break;
    case CAG_E_CANCELLED:
        api_fail(e, 503, "cancelled", "", "the answer was stopped");
        break;
    case CAG_E_CORRUPT:
    case CAG_E_IO:
        api_fail(e, 503, "cache_damaged", "",
                 "the cache cannot be used: its file is damaged or was changed "
                 "in place");
        break;
    case CAG_E_NOMEM:
        api_fail(e, 503, "out_of_memory", "", "out of memory");
        break;
    default:
        api_fail(e, 500, cag_status_name(err->status), "",
                 "the question could not be answered (%s)",
                 cag_status_name(err->status));
    }
}

bool api_set_text(jv *o, const char *key, const char *s)
{
    struct buf b = BUF_INIT;
    bool ok;

    utf8_sanitize(s, strlen(s), &b);
    ok = !buf_failed(&b) && jv_set_str(o, key, b.size ? b.data : "");
    buf_free(&b);
    return ok;
}

static bool set_or_null(jv *o, const char *key, const char *s)
{
    return s && s[0] ? api_set_text(o, key, s) : jv_set(o, key, jv_new_null());
}

void api_error_json(const struct api_error *e, struct buf *out)
{
    jv *o = jv_new_object(), *in = jv_new_object();
    bool ok = o && in && api_set_text(in, "message", e->msg) &&
              jv_set_str(in, "type", e->type) &&
              set_or_null(in, "param", e->param) &&
              set_or_null(in, "code", e->code);

    if (ok) {
        ok = jv_set(o, "error", in);
        in = NULL;
    }
    if (ok)
        jv_dump(o, out);
    else
        out->failed = true;
    jv_free(in);
    jv_free(o);
}

/* ----------------------------------------------------------------- answers */

static bool set_usage(jv *o, const cag_answer *a)
{
    jv *u = jv_new_object(), *details = jv_new_object();

    if (u && details && jv_set_int(details, "cached_tokens", a->n_cached) &&
        jv_set_int(u, "prompt_tokens", a->n_cached + a->n_prompt) &&
        jv_set_int(u, "completion_tokens", a->n_generated) &&
        jv_set_int(u, "total_tokens",
                   a->n_cached + a->n_prompt + a->n_generated)) {
        bool ok = jv_set(u, "prompt_tokens_details", details);

        return jv_set(o, "usage", u) && ok;
    }
    jv_free(u);
    jv_free(details);
    return false;
}

/* What is the same of an answer and of each event of its stream. */
static jv *new_head(const struct api_answer *x, bool event)
{
    bool chat = x->kind == API_CHAT;
    jv *o = jv_new_object();
    char id[80];

    snprintf(id, sizeof id, "%s-%s", chat ? "chatcmpl" : "cmpl", x->id);
    if (o && jv_set_str(o, "id", id) &&
        jv_set_str(o, "object",
                   !chat   ? "text_completion"
                   : event ? "chat.completion.chunk"
                           : "chat.completion") &&
        jv_set_int(o, "created", x->created) &&
        jv_set_str(o, "model", x->model))
        return o;
    jv_free(o);
    return NULL;
}

/* The one choice; takes message over ("message", "delta"), if there is one.
 * The tokens come with the end. */
static bool set_choice(jv *o, const struct api_answer *x, const char *key,
                       jv *message, const char *text, size_t n,
                       const char *finish)
{
    jv *list = jv_new_array(), *c = jv_new_object();
    bool ok = list && c && jv_set_int(c, "index", 0);

    if (ok && key) {
        ok = jv_set(c, key, message);
        message = NULL;
    } else if (ok) {
        ok = jv_set(c, "text", jv_new_str(text, n));
    }
    ok = ok &&
         jv_set(c, "logprobs", finish ? api_logprobs(x) : jv_new_null()) &&
         (finish ? jv_set_str(c, "finish_reason", finish)
                 : jv_set(c, "finish_reason", jv_new_null()));
    if (ok) {
        ok = jv_append(list, c);
        c = NULL;
    }
    if (ok) {
        ok = jv_set(o, "choices", list);
        list = NULL;
    }
    jv_free(message);
    jv_free(c);
    jv_free(list);
    return ok;
}

static bool set_cag(jv *o, const struct api_answer *x)
{
    return !x->cag || jv_set(o, "cag", jv_copy(x->cag));
}

static void put_answer(const struct api_answer *x, struct buf *out)
{
    const cag_answer *a = x->a;
    bool chat = x->kind == API_CHAT;
    jv *o = new_head(x, false), *m = chat ? jv_new_object() : NULL;
    bool ok =
        o && (!chat || (m && jv_set_str(m, "role", "assistant") &&
                        jv_set(m, "content", jv_new_str(a->text, a->size)) &&
                        jv_set(m, "refusal", jv_new_null()) &&
                        (!a->reasoning ||
                         jv_set_str(m, "reasoning_content", a->reasoning))));

    if (ok) {
        ok = set_choice(o, x, chat ? "message" : NULL, m, a->text, a->size,
                        a->finish);
        m = NULL;
    }
    ok = ok && set_usage(o, a) && set_cag(o, x);
    if (ok)
        jv_dump(o, out);
    else
        out->failed = true;
    jv_free(m);
    jv_free(o);
}

/* "data: " + o; o is released. */
static void put_event(jv *o, bool ok, struct buf *out)
{
    buf_str(out, "data: ");
    if (ok)
        jv_dump(o, out);
    else
        out->failed = true;
    buf_str(out, "\n\n");
    jv_free(o);
}

static void put_delta(const struct api_answer *x, const char *role,
                      const char *text, size_t n, struct buf *out)
{
    bool chat = x->kind == API_CHAT;
    jv *o = new_head(x, true), *d = chat ? jv_new_object() : NULL;
    bool ok = o && (!chat || (d && (!role || jv_set_str(d, "role", role)) &&
                              jv_set(d, "content", jv_new_str(text, n))));

    if (ok) {
        ok = set_choice(o, x, chat ? "delta" : NULL, d, text, n, NULL);
        d = NULL;
    }
    jv_free(d);
    put_event(o, ok, out);
}

static void put_end(const struct api_answer *x, bool usage, struct buf *out)
{
    bool chat = x->kind == API_CHAT;
    jv *o = new_head(x, true);
    bool ok =
        o && set_choice(o, x, chat ? "delta" : NULL,
                        chat ? jv_new_object() : NULL, "", 0, x->a->finish);

    put_event(o, ok && set_cag(o, x), out);
    if (usage) {
        o = new_head(x, true);
        put_event(
            o, o && jv_set(o, "choices", jv_new_array()) && set_usage(o, x->a),
            out);
    }
    buf_str(out, "data: [DONE]\n\n");
}

void api_answer_json(const struct api_answer *x, struct buf *out)
{
    if (x->kind == API_RESPONSE)
        response_json(x, out);
    else
        put_answer(x, out);
}

void api_event_start(const struct api_answer *x, struct buf *out)
{
    if (x->kind == API_RESPONSE)
        response_event_start(x, out);
    else if (x->kind == API_CHAT)
        put_delta(x, "assistant", "", 0, out);
}

void api_event_text(const struct api_answer *x, const char *text, size_t n,
                    struct buf *out)
{
    if (x->kind == API_RESPONSE)
        response_event_text(x, text, n, out);
    else
        put_delta(x, NULL, text, n, out);
}

void api_event_end(const struct api_answer *x, bool usage, struct buf *out)
{
    if (x->kind == API_RESPONSE)
        response_event_end(x, out);
    else
        put_end(x, usage, out);
}

void api_event_error(const struct api_answer *x, const struct api_error *e,
                     struct buf *out)
{
    if (x->kind == API_RESPONSE) {
        response_event_error(x, e, out);
        return;
    }
    buf_str(out, "data: ");
    api_error_json(e, out);
    buf_str(out, "\n\ndata: [DONE]\n\n");
}
