/*
 * reply.c - every reply goes through here: it is counted, logged, and its
 * request ends.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cmd/serve/server.h"
#include "util/clock.h"
#include "util/mem.h"

static bool set_text(jv *o, const char *key, const char *text, size_t n)
{
    jv *v = jv_new_str(text, n);

    return v && jv_set(o, key, v);
}

/* One write, so that lines of two processes never mix. */
static void append(struct server *s, const struct buf *line)
{
    ssize_t n = write(s->log, line->data, line->size);

    if (n == (ssize_t)line->size || s->log_failed)
        return;
    s->log_failed = true;
    s->log_lost(n < 0 ? strerror(errno) : "a line was cut");
}

/* Questions and answers are in it: it is written only where it was asked for.
 */
static void write_log(const struct call *c)
{
    const struct ask *a = c->ask;
    struct buf b = BUF_INIT;
    jv *o = jv_new_object();
    char when[32];
    struct tm t;
    time_t now = (time_t)c->created;
    bool ok;

    gmtime_r(&now, &t);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &t);
    ok = o && jv_set_str(o, "time", when) && jv_set_str(o, "request", c->id) &&
         jv_set_int(o, "status", c->status) &&
         (!c->key_id[0] || jv_set_str(o, "key", c->key_id)) &&
         (!a || jv_set_str(o, "cache", a->cache->id)) &&
         jv_set_real(o, "seconds",
                     (double)(int64_t)(1000 * (clock_s() - c->start_s)) / 1000);
    if (ok && a && a->req.question.data)
        ok =
            set_text(o, "question", a->req.question.data, a->req.question.size);
    if (ok && a && a->done && !a->error.status)
        ok = set_text(o, "answer", a->answer.text, a->answer.size) &&
             jv_set_int(o, "prompt_tokens", a->answer.n_prompt) &&
             jv_set_int(o, "cached_tokens", a->answer.n_cached) &&
             jv_set_int(o, "generated_tokens", a->answer.n_generated);
    if (ok)
        jv_dump(o, &b);
    buf_char(&b, '\n');
    if (ok && !buf_failed(&b))
        append(c->s, &b);
    buf_free(&b);
    jv_free(o);
}

void call_end(struct call *c)
{
    struct server *s = c->s;

    if (c->status >= 0 && c->status < SERVER_N_CODE)
        s->n_reply[c->status]++;
    if (s->log >= 0)
        write_log(c);
    ask_free(c->ask);
    jv_free(c->logprobs);
    mem_free(c);
}

void call_reply(struct call *c, int status, const char *type, const void *data,
                size_t n)
{
    c->status = status;
    http_reply(c->http, status, type, data, n);
    call_end(c);
}

void call_fail(struct call *c, const struct api_error *e)
{
    struct buf b = BUF_INIT;

    api_error_json(e, &b);
    buf_char(&b, '\n');
    if (e->http == 401)
        http_add_header(c->http, "WWW-Authenticate", "Bearer");
    if (e->http == 429)
        http_add_header(c->http, "Retry-After", "1");
    call_reply(c, e->http, "application/json", buf_failed(&b) ? "" : b.data,
               buf_failed(&b) ? 0 : b.size);
    buf_free(&b);
}

void call_reply_buf(struct call *c, const char *type, struct buf *b)
{
    struct api_error e;

    if (buf_failed(b)) {
        api_fail(&e, 503, "out_of_memory", "", "out of memory");
        call_fail(c, &e);
    } else {
        call_reply(c, 200, type, b->data, b->size);
    }
    buf_free(b);
}

void call_reply_json(struct call *c, struct buf *b)
{
    buf_char(b, '\n');
    call_reply_buf(c, "application/json", b);
}
