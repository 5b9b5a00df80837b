/*
 * show.c - what there is: models, health, figures.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/serve/page.h"
#include "cmd/serve/server.h"
#include "util/mem.h"

/* A cache as clients of the protocol see it: a model. */
static jv *model_json(const struct cache *c, const struct cache_facts *f)
{
    jv *o = jv_new_object(), *cag = jv_new_object();
    bool ok = o && cag && jv_set_str(cag, "state", cache_state_name(f->state));

    if (ok && f->content_id[0])
        ok = jv_set_str(cag, "content_id", f->content_id) &&
             jv_set_int(cag, "tokens", f->n_tok) &&
             jv_set_int(cag, "context", f->n_ctx) &&
             jv_set_str(cag, "model", f->model) &&
             jv_set_str(cag, "codec", f->codec) &&
             jv_set_bool(cag, "stale", f->is_stale);
    ok = ok && jv_set_str(o, "id", c->id) && jv_set_str(o, "object", "model") &&
         jv_set_int(o, "created", f->created) &&
         jv_set_str(o, "owned_by", "cag");
    if (ok) {
        ok = jv_set(o, "cag", cag);
        cag = NULL;
    }
    if (ok)
        return o;
    jv_free(cag);
    jv_free(o);
    return NULL;
}

static bool may_see(const struct call *c, const struct cache *cache)
{
    return !c->key || key_may(c->key, cache->id);
}

void show_models(struct call *c)
{
    struct shelf *shelf = c->s->shelf;
    jv *o = jv_new_object(), *list = jv_new_array();
    struct buf b = BUF_INIT;
    bool ok = o && list && jv_set_str(o, "object", "list");

    int n = shelf_count(shelf);

    for (int i = 0; i < n && ok; i++) {
        struct cache_facts f;

        cache_get_facts(shelf, shelf->cache[i], &f);
        if (f.state == CACHE_GONE || !may_see(c, shelf->cache[i]))
            continue;
        ok = jv_append(list, model_json(shelf->cache[i], &f));
    }
    if (ok) {
        ok = jv_set(o, "data", list);
        list = NULL;
    }
    if (ok)
        jv_dump(o, &b);
    else
        b.failed = true;
    jv_free(list);
    jv_free(o);
    call_reply_json(c, &b);
}

void show_model(struct call *c, const char *id)
{
    struct cache *cache = shelf_find(c->s->shelf, id);
    struct buf b = BUF_INIT;
    struct cache_facts f;
    struct api_error e;
    jv *o;

    if (!cache || !may_see(c, cache)) {
        api_fail(&e, 404, "model_not_found", "model",
                 "there is no cache of that name");
        call_fail(c, &e);
        return;
    }
    cache_get_facts(c->s->shelf, cache, &f);
    o = model_json(cache, &f);
    if (o)
        jv_dump(o, &b);
    else
        b.failed = true;
    jv_free(o);
    call_reply_json(c, &b);
}

void show_health(struct call *c)
{
    static const char ok[] = "{\"status\":\"ok\"}\n";
    static const char draining[] = "{\"status\":\"draining\"}\n";

    if (c->s->draining)
        call_reply(c, 503, "application/json", draining, sizeof draining - 1);
    else
        call_reply(c, 200, "application/json", ok, sizeof ok - 1);
}

/* It asks this server and nobody else, whatever an answer may hold. */
void show_page(struct call *c)
{
    http_add_header(c->http, "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; "
                    "script-src 'unsafe-inline'; connect-src 'self'; "
                    "img-src data:; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'");
    http_add_header(c->http, "Referrer-Policy", "no-referrer");
    http_add_header(c->http, "Cache-Control", "no-cache");
    call_reply(c, 200, "text/html; charset=utf-8", serve_page, serve_page_size);
}

/* ----------------------------------------------------------------- metrics */

static void put(struct buf *b, const char *name, const char *type,
                const char *help)
{
    buf_printf(b, "# HELP cag_%s %s\n# TYPE cag_%s %s\n", name, help, name,
               type);
}

static void put_count(struct buf *b, const char *name, const char *help,
                      int64_t n)
{
    put(b, name, "counter", help);
    buf_printf(b, "cag_%s %lld\n", name, (long long)n);
}

static void put_now(struct buf *b, const char *name, const char *help, int n)
{
    put(b, name, "gauge", help);
    buf_printf(b, "cag_%s %d\n", name, n);
}

static void put_states(struct buf *b, struct shelf *shelf)
{
    int n[CACHE_N_STATE] = { 0 }, n_cache = shelf_count(shelf);

    for (int i = 0; i < n_cache; i++) {
        struct cache_facts f;

        cache_get_facts(shelf, shelf->cache[i], &f);
        n[f.state]++;
    }
    put(b, "caches", "gauge", "Caches by state.");
    for (int i = 0; i < CACHE_N_STATE; i++)
        buf_printf(b, "cag_caches{state=\"%s\"} %d\n",
                   cache_state_name((enum cache_state)i), n[i]);
}

static void put_all(struct server *s, struct buf *b)
{
    struct sched_figures f;

    sched_get_figures(s->sched, &f);
    put(b, "http_replies_total", "counter", "Replies by status.");
    for (int i = 0; i < SERVER_N_CODE; i++)
        if (s->n_reply[i])
            buf_printf(b, "cag_http_replies_total{code=\"%d\"} %lld\n", i,
                       (long long)s->n_reply[i]);
    put_count(b, "answers_total", "Questions answered.", f.n_answered);
    put_count(b, "answers_failed_total", "Questions that had an error.",
              f.n_failed);
    put_count(b, "answers_cancelled_total", "Questions whose client left.",
              f.n_cancelled);
    put_count(b, "cached_tokens_total", "Prompt tokens taken from caches.",
              f.n_cached);
    put_count(b, "prompt_tokens_total", "Prompt tokens computed.", f.n_prompt);
    put_count(b, "generated_tokens_total", "Tokens of answers.", f.n_generated);
    put(b, "first_token_seconds", "summary",
        "From a question's arrival to its first token.");
    buf_printf(b,
               "cag_first_token_seconds_sum %.6f\n"
               "cag_first_token_seconds_count %lld\n",
               f.first_s, (long long)f.n_answered);
    put_now(b, "questions_waiting", "Questions in the queue.", f.n_waiting);
    put_now(b, "questions_running", "Questions being answered.", f.n_running);
    put_now(b, "sessions_kept", "Sessions kept for the next turn.",
            f.n_session);
    put(b, "sessions_kept_bytes", "gauge", "Their keys and values.");
    buf_printf(b, "cag_sessions_kept_bytes %llu\n",
               (unsigned long long)f.session_bytes);
    put_count(b, "reused_tokens_total",
              "Prompt tokens that a kept session had.", f.n_reused);
    put_now(b, "connections", "Open connections.", http_n_open(s->http));
    put_states(b, s->shelf);
}

void show_metrics(struct call *c)
{
    struct buf b = BUF_INIT;
    struct api_error e;

    /* figures of all caches are for who may ask all */
    if (c->key && !c->key->all) {
        api_fail(&e, 404, "not_found", "", "there is nothing at this path");
        call_fail(c, &e);
        return;
    }
    put_all(c->s, &b);
    call_reply_buf(c, "text/plain; version=0.0.4; charset=utf-8", &b);
}
