/*
 * api_parse.c - a body of JSON becomes a question with its parameters.
 *
 * Every member is looked up in one table.  One that only a client cares for is
 * passed over; one that asks for what there is not is refused, unless its value
 * asks for nothing.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/serve/api.h"
#include "cmd/serve/api_talk.h"
#include "util/error.h"
#include "util/mem.h"

struct parse {
    struct api_request *r;
    struct api_error *e;
    const struct api_defaults *d;
};

static bool wrong(struct parse *p, const char *param, const char *expected)
{
    return api_fail(p->e, 400, "invalid_value", param, "'%s' must be %s", param,
                    expected);
}

/* ------------------------------------------------------------------ values */

static bool take_int(struct parse *p, const char *key, const jv *v, int64_t lo,
                     int64_t hi, const char *expected, int64_t *to)
{
    int64_t n = jv_int(v, 0);

    if (jv_type(v) != JV_INT || n < lo || n > hi)
        return wrong(p, key, expected);
    *to = n;
    return true;
}

static bool take_real(struct parse *p, const char *key, const jv *v, double lo,
                      double hi, const char *expected, float *to)
{
    double x = jv_num(v, -1);

    if ((jv_type(v) != JV_INT && jv_type(v) != JV_REAL) || !(x >= lo) ||
        !(x <= hi))
        return wrong(p, key, expected);
    *to = (float)x;
    return true;
}

static bool take_bool(struct parse *p, const char *key, const jv *v, bool *to)
{
    if (jv_type(v) != JV_BOOL)
        return wrong(p, key, "true or false");
    *to = jv_bool(v, false);
    return true;
}

/* ----------------------------------------------------------------- members */

typedef bool take_fn(struct parse *p, const char *key, const jv *v);

static bool take_model(struct parse *p, const char *key, const jv *v)
{
    size_t n;

    p->r->model = jv_str(v, &n);
    if (!p->r->model || !n || strlen(p->r->model) != n)
        return wrong(p, key, "the id of a cache");
    return true;
}

static bool take_max(struct parse *p, const char *key, const jv *v)
{
    p->r->params.end_loops = false;
    return take_int(p, key, v, 1, INT32_MAX, "a whole number above 0",
                    &p->r->params.max_tok);
}

static bool take_temperature(struct parse *p, const char *key, const jv *v)
{
    return take_real(p, key, v, 0, 100, "a number from 0 to 100",
                     &p->r->params.sampling.temperature);
}

static bool take_top_p(struct parse *p, const char *key, const jv *v)
{
    cag_sampling *s = &p->r->params.sampling;

    return take_real(p, key, v, 0, 1, "a number above 0, to 1", &s->top_p) &&
           (s->top_p > 0 || wrong(p, key, "a number above 0, to 1"));
}

static bool take_min_p(struct parse *p, const char *key, const jv *v)
{
    return take_real(p, key, v, 0, 1, "a number from 0 to 1",
                     &p->r->params.sampling.min_p);
}

static bool take_top_k(struct parse *p, const char *key, const jv *v)
{
    int64_t n = 0;
    bool ok = take_int(p, key, v, 0, INT32_MAX, "a whole number from 0", &n);

    p->r->params.sampling.top_k = (int)n;
    return ok;
}

static bool take_seed(struct parse *p, const char *key, const jv *v)
{
    int64_t n = 0;
    bool ok = take_int(p, key, v, 0, INT64_MAX, "a whole number from 0", &n);

    p->r->params.sampling.seed = (uint64_t)n;
    return ok;
}

static bool take_stop(struct parse *p, const char *key, const jv *v)
{
    bool list = jv_type(v) == JV_ARRAY;
    size_t n = list ? jv_count(v) : 1;

    if (n > API_MAX_STOP)
        return wrong(p, key, "at most 16 strings");
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const char *s = jv_str(list ? jv_at(v, i) : v, &size);

        if (!s || !size || strlen(s) != size)
            return wrong(p, key, "a string or a list of strings, none empty");
        p->r->stop[i] = s;
    }
    p->r->params.stop = p->r->stop;
    p->r->params.n_stop = (int)n;
    return true;
}

static bool take_logprobs(struct parse *p, const char *key, const jv *v)
{
    return take_bool(p, key, v, &p->r->params.logprobs);
}

static bool take_top(struct parse *p, const char *key, const jv *v)
{
    int64_t n = 0;
    bool ok = take_int(p, key, v, 0, CAG_TOP_LOGPROBS,
                       "a whole number from 0 to 20", &n);

    p->r->params.n_top = (int)n;
    return ok;
}

/* A completion has one member for both. */
static bool take_n_logprobs(struct parse *p, const char *key, const jv *v)
{
    int64_t n = 0;

    p->r->params.logprobs =
        take_int(p, key, v, 0, 5, "a whole number from 0 to 5", &n);
    p->r->params.n_top = (int)n;
    return p->r->params.logprobs;
}

static bool take_one(struct parse *p, const char *key, const jv *v)
{
    int64_t n;

    return take_int(p, key, v, 1, 1, "1: a question has one answer", &n);
}

static bool take_stream(struct parse *p, const char *key, const jv *v)
{
    return take_bool(p, key, v, &p->r->stream);
}

static bool take_stream_options(struct parse *p, const char *key, const jv *v)
{
    if (jv_type(v) != JV_OBJECT)
        return wrong(p, key, "an object");
    for (void *it = jv_iter(v); it; it = jv_next(v, it)) {
        size_t n;
        const char *k = jv_iter_key(it, &n);

        if (!strcmp(k, "include_usage")) {
            if (!take_bool(p, "stream_options.include_usage", jv_iter_value(it),
                           &p->r->include_usage))
                return false;
        } else if (strcmp(k, "include_obfuscation") != 0) {
            return api_fail(p->e, 400, "unsupported_parameter", key,
                            "'stream_options' has include_usage only");
        }
    }
    return true;
}

static const char *support_name(int i)
{
    return cag_support_name((cag_support)i);
}

/* One of n names. */
static bool take_name(struct parse *p, const char *key, const jv *v,
                      const char *(*name)(int i), int n, const char *expected,
                      int *to)
{
    size_t size;
    const char *s = jv_str(v, &size);

    for (int i = 0; s && i < n; i++)
        if (!strcmp(s, name(i))) {
            *to = i;
            return true;
        }
    return wrong(p, key, expected);
}

/* A member of ours: {"evidence": true, "require_evidence": "strong", ...}. */
static bool take_own(struct parse *p, const char *key, const jv *v)
{
    cag_ask_params *a = &p->r->params;
    int i = 0;

    if (!strcmp(key, "evidence"))
        return take_bool(p, "cag.evidence", v, &a->evidence);
    if (!strcmp(key, "think"))
        return take_bool(p, "cag.think", v, &a->think);
    if (!strcmp(key, "require_evidence")) {
        bool ok = take_name(p, "cag.require_evidence", v, support_name,
                            CAG_SUPPORT_STRONG + 1,
                            "\"none\", \"weak\" or \"strong\"", &i);

        a->require = (cag_support)i;
        return ok;
    }
    if (!strcmp(key, "focus")) {
        bool ok =
            take_name(p, "cag.focus", v, cag_focus_name, CAG_FOCUS_AUTO + 1,
                      "\"off\", \"mask\", \"reread\" or \"auto\"", &i);

        a->focus = (cag_focus)i;
        return ok;
    }
    return api_fail(p->e, 400, "unknown_parameter", "cag",
                    "'cag' has evidence, require_evidence, focus and think");
}

static bool take_cag(struct parse *p, const char *key, const jv *v)
{
    if (jv_type(v) != JV_OBJECT)
        return wrong(p, key, "an object");
    for (void *it = jv_iter(v); it; it = jv_next(v, it)) {
        size_t n;
        const char *k = jv_iter_key(it, &n);

        if (!take_own(p, k, jv_iter_value(it)))
            return false;
    }
    return true;
}

static bool take_prompt(struct parse *p, const char *key, const jv *v)
{
    size_t n;
    const char *s;

    if (jv_type(v) == JV_ARRAY && jv_count(v) == 1)
        v = jv_at(v, 0);
    s = jv_str(v, &n);
    if (!s)
        return wrong(p, key, "a string: the question");
    buf_add(&p->r->question, s, n);
    return true;
}

static bool take_messages(struct parse *p, const char *key, const jv *v)
{
    return api_talk(p->r, key, v, NULL, p->d->system, p->e);
}

/* A text is a list of one message. */
static bool take_input(struct parse *p, const char *key, const jv *v)
{
    const jv *system = jv_get(p->r->body, "instructions");
    jv *list = NULL, *m;
    bool ok;

    if (jv_type(v) == JV_ARRAY)
        return api_talk(p->r, key, v, system, p->d->system, p->e);
    if (jv_type(v) != JV_STR)
        return wrong(p, key, "a text or a list of messages");
    list = jv_new_array();
    m = jv_new_object();
    ok = list && m && jv_set_str(m, "role", "user") &&
         jv_set(m, "content", jv_copy(v));
    if (ok) {
        ok = jv_append(list, m);
        m = NULL;
    }
    ok = ok ? api_talk(p->r, key, list, system, p->d->system, p->e)
            : api_fail(p->e, 503, NULL, "", "out of memory");
    jv_free(m);
    jv_free(list);
    return ok;
}

/* What only a client cares for. */
static bool pass_over(struct parse *p, const char *key, const jv *v)
{
    (void)p;
    (void)key;
    (void)v;
    return true;
}

/* Does a value ask for nothing: false, 0, "", "none", "auto", [], {},
 * {"type": "text"}? */
static bool asks_nothing(const jv *v)
{
    size_t n;
    const char *s = jv_str(v, &n);

    switch (jv_type(v)) {
    case JV_BOOL:
        return !jv_bool(v, true);
    case JV_INT:
    case JV_REAL:
        return !(jv_num(v, 1) < 0) && !(jv_num(v, 1) > 0);
    case JV_STR:
        return !n || !strcmp(s, "none") || !strcmp(s, "auto") ||
               !strcmp(s, "default");
    case JV_OBJECT:
        return !jv_count(v) ||
               (jv_count(v) == 1 && !strcmp(jv_get_str(v, "type", ""), "text"));
    default:
        return !jv_count(v);
    }
}

static bool refuse(struct parse *p, const char *key, const jv *v)
{
    return asks_nothing(v) ||
           api_fail(p->e, 400, "unsupported_parameter", key,
                    "'%s' is not supported here; cag-serve(1) lists what is",
                    key);
}

static bool take_parallel_tools(struct parse *p, const char *key, const jv *v)
{
    bool any;

    return take_bool(p, key, v, &any); /* of the tools there are not */
}

/* {"format": {"type": "text"}} asks for what is given anyway. */
static bool take_text(struct parse *p, const char *key, const jv *v)
{
    const jv *format = jv_get(v, "format");

    return (jv_type(v) == JV_OBJECT && jv_count(v) == (format != NULL) &&
            (!format || asks_nothing(format))) ||
           refuse(p, key, v);
}

static bool take_truncation(struct parse *p, const char *key, const jv *v)
{
    size_t n;
    const char *s = jv_str(v, &n);

    return (s && !strcmp(s, "disabled")) ||
           api_fail(p->e, 400, "unsupported_parameter", key,
                    "'%s': nothing is left out of a conversation here; only "
                    "\"disabled\" is supported",
                    key);
}

#define CHAT 1u
#define COMP 2u
#define RESP 4u
#define ALL  (CHAT | COMP | RESP)

static const struct member {
    const char *key;
    unsigned kinds;
    take_fn *take;
} member[] = {
    { "model", ALL, take_model },
    { "messages", CHAT, take_messages },
    { "prompt", COMP, take_prompt },
    { "input", RESP, take_input },
    { "instructions", RESP, pass_over }, /* taken with the input */
    { "max_output_tokens", RESP, take_max },
    { "text", RESP, take_text },
    { "truncation", RESP, take_truncation },
    { "max_tokens", CHAT | COMP, take_max },
    { "max_completion_tokens", CHAT, take_max },
    { "temperature", ALL, take_temperature },
    { "top_p", ALL, take_top_p },
    { "top_k", ALL, take_top_k },
    { "min_p", ALL, take_min_p },
    { "seed", ALL, take_seed },
    { "stop", CHAT | COMP, take_stop },
    { "n", CHAT | COMP, take_one },
    { "best_of", COMP, take_one },
    { "stream", ALL, take_stream },
    { "stream_options", ALL, take_stream_options },
    { "cag", ALL, take_cag },
    { "user", ALL, pass_over },
    { "metadata", ALL, pass_over },
    { "safety_identifier", CHAT | RESP, pass_over },
    { "prompt_cache_key", CHAT | RESP, pass_over },
    { "parallel_tool_calls", CHAT | RESP, take_parallel_tools },
    { "frequency_penalty", CHAT | COMP, refuse },
    { "presence_penalty", CHAT | COMP, refuse },
    { "logit_bias", CHAT | COMP, refuse },
    { "logprobs", CHAT, take_logprobs },
    { "top_logprobs", CHAT, take_top },
    { "logprobs", COMP, take_n_logprobs },
    { "top_logprobs", RESP, refuse },
    { "response_format", CHAT, refuse },
    { "tools", CHAT | RESP, refuse },
    { "tool_choice", CHAT | RESP, refuse },
    { "functions", CHAT, refuse },
    { "function_call", CHAT, refuse },
    { "store", CHAT | RESP, refuse },
    { "service_tier", CHAT | RESP, refuse },
    { "reasoning_effort", CHAT, refuse },
    { "verbosity", CHAT, refuse },
    { "modalities", CHAT, refuse },
    { "audio", CHAT, refuse },
    { "prediction", CHAT, refuse },
    { "web_search_options", CHAT, refuse },
    { "previous_response_id", RESP, refuse },
    { "conversation", RESP, refuse },
    { "prompt", RESP, refuse },
    { "reasoning", RESP, refuse },
    { "include", RESP, refuse },
    { "background", RESP, refuse },
    { "max_tool_calls", RESP, refuse },
    { "context_management", RESP, refuse },
    { "echo", COMP, refuse },
    { "suffix", COMP, refuse },
};

static bool take_member(struct parse *p, const char *key, const jv *v)
{
    static const unsigned kinds[] = { CHAT, COMP, RESP };
    unsigned kind = kinds[p->r->kind];

    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        if (!strcmp(member[i].key, key) && (member[i].kinds & kind))
            return jv_type(v) == JV_NULL || member[i].take(p, key, v);
    return api_fail(p->e, 400, "unknown_parameter", key,
                    "'%.64s' is not a parameter that is known here", key);
}

static const char *const question_member[] = { "messages", "prompt", "input" };

bool api_take(struct api_request *r, enum api_kind kind, jv *body,
              const struct api_defaults *d, struct api_error *e)
{
    struct parse p = { r, e, d };
    bool ok = true;

    memset(r, 0, sizeof *r);
    memset(e, 0, sizeof *e);
    r->kind = kind;
    r->body = body;
    cag_ask_params_init(&r->params);
    r->params.max_tok = d->max_tok;
    r->params.end_loops = d->end_loops;
    r->params.evidence = d->evidence;
    r->params.require = d->require;
    if (jv_type(body) != JV_OBJECT)
        ok = api_fail(e, 400, NULL, "", "the body must be a JSON object");
    for (void *it = ok ? jv_iter(body) : NULL; it && ok;
         it = jv_next(body, it)) {
        size_t n;
        const char *key = jv_iter_key(it, &n);

        ok = take_member(&p, key, jv_iter_value(it));
    }
    if (ok && r->params.n_top && !r->params.logprobs)
        ok = api_fail(e, 400, "invalid_value", "top_logprobs",
                      "'top_logprobs' needs 'logprobs' to be true");
    if (ok && !r->model)
        ok = api_fail(e, 400, "missing_required_parameter", "model",
                      "'model' is missing: the id of a cache, as /v1/models "
                      "lists them");
    if (ok && !r->question.data)
        ok = api_fail(e, 400, "missing_required_parameter",
                      question_member[kind], "'%s' is missing",
                      question_member[kind]);
    if (ok && buf_failed(&r->question))
        ok = api_fail(e, 503, NULL, "", "out of memory");
    if (!ok)
        api_release(r);
    return ok;
}

bool api_parse(struct api_request *r, enum api_kind kind, const char *text,
               size_t size, const struct api_defaults *d, struct api_error *e)
{
    cag_error err = CAG_ERROR_INIT;
    jv *body = NULL;

    memset(r, 0, sizeof *r);
    memset(e, 0, sizeof *e);
    if (!jv_parse(text, size, NULL, &body, &err))
        return api_take(r, kind, body, d, e);
    if (err.status == CAG_E_NOMEM)
        return api_fail(e, 503, NULL, "", "out of memory");
    return api_fail(e, 400, "invalid_json", "",
                    "the body is not JSON: line %d, column %d: %.300s",
                    err.line, err.column, err.msg);
}

void api_release(struct api_request *r)
{
    jv_free(r->body);
    jv_free(r->earlier);
    buf_free(&r->question);
    memset(r, 0, sizeof *r);
}
