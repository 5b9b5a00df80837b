/*
 * api_response.c - see api_response.h.
 *
 * The answer is one message of one part of text.  Nothing is kept of it, so
 * that there is no previous response to go on from.
 */
#include "cmd/serve/api_response.h"

#include <stdio.h>
#include <string.h>

/* Both take v over; false: out of memory. */
static bool put(jv *o, const char *key, jv *v)
{
    return v && jv_set(o, key, v);
}

static bool put_null(jv *o, const char *key)
{
    return put(o, key, jv_new_null());
}

static bool put_id(jv *o, const char *key, const char *kind, const char *id)
{
    char text[80];

    snprintf(text, sizeof text, "%s_%s", kind, id);
    return jv_set_str(o, key, text);
}

/* o in a list of one; o is taken over. */
static jv *one(jv *o)
{
    jv *list = o ? jv_new_array() : NULL;

    if (list && jv_append(list, o))
        return list;
    if (!list)
        jv_free(o);
    jv_free(list);
    return NULL;
}

static jv *made(jv *o, bool ok)
{
    if (ok)
        return o;
    jv_free(o);
    return NULL;
}

/* A part of text. */
static jv *new_part(const char *type, const char *text, size_t n)
{
    jv *o = jv_new_object();

    return made(o, o && jv_set_str(o, "type", type) &&
                       put(o, "text", jv_new_str(text, n)) &&
                       put(o, "annotations", jv_new_array()) &&
                       put(o, "logprobs", jv_new_array()));
}

static bool is_cut(const struct api_answer *x)
{
    return strcmp(x->a->finish, "stop") != 0;
}

static const char *status_of(const struct api_answer *x, bool done)
{
    return !done ? "in_progress" : is_cut(x) ? "incomplete" : "completed";
}

/* The message; done: with its text. */
static jv *new_message(const struct api_answer *x, bool done)
{
    jv *o = jv_new_object();

    return made(
        o, o && jv_set_str(o, "type", "message") &&
               put_id(o, "id", "msg", x->id) &&
               jv_set_str(o, "status", status_of(x, done)) &&
               jv_set_str(o, "role", "assistant") &&
               put(o, "content",
                   done ? one(new_part("output_text", x->a->text, x->a->size))
                        : jv_new_array()));
}

/* What the model thought. */
static jv *new_reasoning(const struct api_answer *x)
{
    const char *text = x->a->reasoning;
    jv *part = jv_new_object(), *o = jv_new_object();

    part = made(part, part && jv_set_str(part, "type", "reasoning_text") &&
                          put(part, "text", jv_new_str(text, strlen(text))));
    if (!o) {
        jv_free(part);
        return NULL;
    }
    return made(o, put(o, "content", one(part)) &&
                       jv_set_str(o, "type", "reasoning") &&
                       put_id(o, "id", "rs", x->id) &&
                       put(o, "summary", jv_new_array()));
}

/* The message is the first, as in the events. */
static bool add_reasoning(const struct api_answer *x, jv *output)
{
    jv *o = x->a->reasoning ? new_reasoning(x) : NULL;

    return !x->a->reasoning || (o && jv_append(output, o));
}

static jv *new_output(const struct api_answer *x, bool done)
{
    jv *list = done ? one(new_message(x, true)) : jv_new_array();

    return made(list, list && (!done || add_reasoning(x, list)));
}

static jv *new_count(const char *key, int64_t n)
{
    jv *o = jv_new_object();

    return made(o, o && jv_set_int(o, key, n));
}

static jv *new_usage(const cag_answer *a)
{
    int64_t in = a->n_cached + a->n_prompt;
    jv *o = jv_new_object();

    return made(o, o && jv_set_int(o, "input_tokens", in) &&
                       put(o, "input_tokens_details",
                           new_count("cached_tokens", a->n_cached)) &&
                       jv_set_int(o, "output_tokens", a->n_generated) &&
                       put(o, "output_tokens_details",
                           new_count("reasoning_tokens", 0)) &&
                       jv_set_int(o, "total_tokens", in + a->n_generated));
}

static jv *new_cut(void)
{
    jv *o = jv_new_object();

    return made(o, o && jv_set_str(o, "reason", "max_output_tokens"));
}

/* {"format": {"type": "text"}} */
static jv *new_format(void)
{
    jv *o = jv_new_object(), *type = jv_new_object();

    type = made(type, type && jv_set_str(type, "type", "text"));
    if (!o) {
        jv_free(type);
        return NULL;
    }
    return made(o, put(o, "format", type));
}

static jv *new_response(const struct api_answer *x, bool done)
{
    jv *o = jv_new_object();
    bool ok =
        o && put_id(o, "id", "resp", x->id) &&
        jv_set_str(o, "object", "response") &&
        jv_set_int(o, "created_at", x->created) &&
        jv_set_str(o, "status", status_of(x, done)) && put_null(o, "error") &&
        put(o, "incomplete_details",
            done && is_cut(x) ? new_cut() : jv_new_null()) &&
        put_null(o, "instructions") && put_null(o, "metadata") &&
        jv_set_str(o, "model", x->model) &&
        put(o, "output", new_output(x, done)) &&
        jv_set_bool(o, "parallel_tool_calls", false) &&
        put_null(o, "previous_response_id") && jv_set_bool(o, "store", false) &&
        put(o, "text", new_format()) && jv_set_str(o, "tool_choice", "none") &&
        put(o, "tools", jv_new_array()) &&
        jv_set_str(o, "truncation", "disabled") &&
        put(o, "usage", done ? new_usage(x->a) : jv_new_null()) &&
        (!done || !x->cag || put(o, "cag", jv_copy(x->cag)));

    return made(o, ok);
}

void response_json(const struct api_answer *x, struct buf *out)
{
    jv *o = new_response(x, true);

    if (o)
        jv_dump(o, out);
    else
        out->failed = true;
    jv_free(o);
}

/* ------------------------------------------------------------------ events */

/* Send o, which is taken over, as an event of that type. */
static void send_event(const struct api_answer *x, const char *type, jv *o,
                       struct buf *out)
{
    bool ok = o && jv_set_str(o, "type", type) &&
              jv_set_int(o, "sequence_number", (*x->n_event)++);

    buf_printf(out, "event: %s\ndata: ", type);
    if (ok)
        jv_dump(o, out);
    else
        out->failed = true;
    buf_str(out, "\n\n");
    jv_free(o);
}

/* One with the whole response. */
static void send_response(const struct api_answer *x, const char *type,
                          bool done, struct buf *out)
{
    jv *o = jv_new_object();

    send_event(x, type, made(o, o && put(o, "response", new_response(x, done))),
               out);
}

/* One of the message. */
static void send_item(const struct api_answer *x, const char *type, bool done,
                      struct buf *out)
{
    jv *o = jv_new_object();

    send_event(x, type,
               made(o, o && jv_set_int(o, "output_index", 0) &&
                           put(o, "item", new_message(x, done))),
               out);
}

/* One of the message's part, with v under key. */
static void send_part(const struct api_answer *x, const char *type,
                      const char *key, jv *v, struct buf *out)
{
    jv *o = jv_new_object();
    bool ok = o && put_id(o, "item_id", "msg", x->id) &&
              jv_set_int(o, "output_index", 0) &&
              jv_set_int(o, "content_index", 0) &&
              (!strcmp(key, "part") || put(o, "logprobs", jv_new_array()));

    if (!ok)
        jv_free(v);
    send_event(x, type, made(o, ok && put(o, key, v)), out);
}

void response_event_start(const struct api_answer *x, struct buf *out)
{
    send_response(x, "response.created", false, out);
    send_response(x, "response.in_progress", false, out);
    send_item(x, "response.output_item.added", false, out);
    send_part(x, "response.content_part.added", "part",
              new_part("output_text", "", 0), out);
}

void response_event_text(const struct api_answer *x, const char *text, size_t n,
                         struct buf *out)
{
    send_part(x, "response.output_text.delta", "delta", jv_new_str(text, n),
              out);
}

void response_event_end(const struct api_answer *x, struct buf *out)
{
    const cag_answer *a = x->a;

    send_part(x, "response.output_text.done", "text",
              jv_new_str(a->text, a->size), out);
    send_part(x, "response.content_part.done", "part",
              new_part("output_text", a->text, a->size), out);
    send_item(x, "response.output_item.done", true, out);
    send_response(x, is_cut(x) ? "response.incomplete" : "response.completed",
                  true, out);
}

void response_event_error(const struct api_answer *x, const struct api_error *e,
                          struct buf *out)
{
    jv *o = jv_new_object();

    send_event(x, "error",
               made(o, o && jv_set_str(o, "code", e->code ? e->code : "") &&
                           api_set_text(o, "message", e->msg) &&
                           put_null(o, "param")),
               out);
}
