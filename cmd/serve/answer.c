/*
 * answer.c - a question from its body to its answer, whole or as a stream.
 */
#include <string.h>

#include "cmd/serve/server.h"
#include "util/error.h"
#include "util/mem.h"

static void on_gone(void *ctx)
{
    struct call *c = ctx;

    sched_forget(c->s->sched, c->ask);
}

static bool check_cache(struct call *c, const struct cache *cache,
                        struct api_error *e)
{
    struct cache_facts f;

    if (!cache || (c->key && !key_may(c->key, cache->id)))
        return api_fail(e, 404, "model_not_found", "model",
                        "there is no cache of that name; /v1/models lists "
                        "those there are");
    if (c->s->draining)
        return api_fail(e, 503, "shutting_down", "", "the server is ending");
    cache_get_facts(c->s->shelf, cache, &f);
    if (f.state == CACHE_STALE)
        return api_fail(e, 503, "cache_stale", "",
                        "the cache is stale: its sources have changed since "
                        "it was built");
    if (f.state == CACHE_FAILED)
        return api_fail(e, 503, "cache_failed", "",
                        "the cache cannot be used; the server's messages say "
                        "why");
    return true;
}

/* Hand it to the scheduler; e says why not. */
static bool submit(struct call *c, struct api_error *e)
{
    struct ask *a = c->ask;

    a->key = mem_strdup(c->key ? c->key->id : "");
    a->ctx = c;
    if (!a->key)
        return api_fail(e, 503, "out_of_memory", "", "out of memory");
    http_on_close(c->http, on_gone, c);
    if (sched_submit(c->s->sched, a))
        return true;
    http_on_close(c->http, NULL, NULL);
    return api_fail(e, 429, "queue_full", "",
                    "too many questions are waiting; try again");
}

void answer_request(struct call *c, enum api_kind kind)
{
    struct ask *a = mem_zalloc(sizeof *a);
    struct api_error e;
    size_t n;
    const char *body = http_body(c->http, &n);

    if (!a) {
        api_fail(&e, 503, "out_of_memory", "", "out of memory");
        call_fail(c, &e);
        return;
    }
    if (!api_parse(&a->req, kind, body, n, &c->s->defaults, &e)) {
        mem_free(a);
        call_fail(c, &e);
        return;
    }
    a->cache = shelf_find(c->s->shelf, a->req.model);
    if (!check_cache(c, a->cache, &e)) {
        ask_free(a);
        call_fail(c, &e);
        return;
    }
    c->ask = a;
    if (!submit(c, &e))
        call_fail(c, &e);
    else if (a->req.stream)
        http_stream_hold(c->http);
}

/* What of the row is not in the answer's own members; and is it of sources that
 * have changed? */
static void cag_object(struct call *c)
{
    static const char *const placed[] = { "schema",  "question",
                                          "answer",  "reasoning",
                                          "usage",   "finish_reason",
                                          "logprobs" };

    struct cache_facts f;

    if (!c->ask->row)
        return;
    c->logprobs = jv_copy(jv_get(c->ask->row, "logprobs"));
    if (!c->logprobs && jv_get(c->ask->row, "logprobs"))
        cag_fail_nomem(&c->ask->error, "answer");
    for (size_t i = 0; i < sizeof placed / sizeof *placed; i++)
        jv_remove(c->ask->row, placed[i]);
    cache_get_facts(c->s->shelf, c->ask->cache, &f);
    jv_set_bool(c->ask->row, "stale", f.is_stale);
}

/* What is under way is the scheduler's: the row is ours when it is done. */
static struct api_answer describe(struct call *c)
{
    return (struct api_answer){ .kind = c->ask->req.kind,
                                .id = c->id,
                                .model = c->ask->cache->id,
                                .created = c->created,
                                .a = &c->ask->answer,
                                .cag = c->ask->done ? c->ask->row : NULL,
                                .logprobs = c->logprobs,
                                .n_event = &c->n_event };
}

/* Send what there is; false: b was out of memory, and the answer is given up.
 */
static bool send_events(struct call *c, struct buf *b)
{
    bool ok = !buf_failed(b);

    http_stream_start(c->http, HTTP_EVENTS);
    c->status = 200;
    if (ok && b->size)
        http_stream(c->http, b->data, b->size);
    buf_free(b);
    return ok;
}

static void put_text(struct call *c, const char *text, size_t n, struct buf *b)
{
    const struct api_answer x = describe(c);

    if (!c->started)
        api_event_start(&x, b);
    c->started = true;
    if (n)
        api_event_text(&x, text, n, b);
    c->n_sent += n;
}

static void end_stream(struct call *c)
{
    const struct ask *a = c->ask;
    const struct api_answer x = describe(c);
    struct buf b = BUF_INIT;
    struct api_error e;

    if (a->error.status) {
        api_error_of(&e, &a->error);
        api_event_error(&x, &e, &b);
    } else {
        /* what was not given out piece by piece: a checked answer */
        if (c->n_sent < a->answer.size || !c->started)
            put_text(c, a->answer.text + c->n_sent, a->answer.size - c->n_sent,
                     &b);
        api_event_end(&x, a->req.include_usage, &b);
    }
    send_events(c, &b);
    http_stream_end(c->http);
    call_end(c);
}

static void end_whole(struct call *c)
{
    const struct ask *a = c->ask;
    const struct api_answer x = describe(c);
    struct buf b = BUF_INIT;
    struct api_error e;

    if (a->error.status) {
        api_error_of(&e, &a->error);
        call_fail(c, &e);
        return;
    }
    api_answer_json(&x, &b);
    call_reply_json(c, &b);
}

static void on_news(struct call *c)
{
    struct ask *a = c->ask;

    if (a->text.size && !a->done) {
        struct buf b = BUF_INIT;

        put_text(c, a->text.data, a->text.size, &b);
        if (!send_events(c, &b))
            sched_forget(c->s->sched, a);
        return;
    }
    if (!a->done)
        return;
    cag_object(c);
    /* an error before the first word is a status, not an event */
    if (a->req.stream && (http_stream_started(c->http) || !a->error.status))
        end_stream(c);
    else
        end_whole(c);
}

void answer_news(void *ctx)
{
    struct server *s = ctx;
    struct ask *a;

    while ((a = sched_news(s->sched)) != NULL)
        on_news(a->ctx);
}
