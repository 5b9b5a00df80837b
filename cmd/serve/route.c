/*
 * route.c - from a path to what answers it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cmd/serve/server.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

static void new_id(const struct server *s, char id[SERVER_ID])
{
    uint8_t bits[12] = { 0 };

    if (getrandom(bits, sizeof bits, 0) != sizeof bits)
        memcpy(bits, &s->n_request, sizeof s->n_request);
    hash_hex(bits, sizeof bits, id);
}

/* A client's own id is kept if it can stand in a header and a log. */
static void take_id(struct call *c)
{
    const char *given = http_header(c->http, "X-Request-Id");
    size_t n = given ? strlen(given) : 0;

    if (n && n < sizeof c->id &&
        strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789-_.") == n) {
        memcpy(c->id, given, n + 1);
        return;
    }
    new_id(c->s, c->id);
}

static bool is_get(const struct call *c)
{
    return !strcmp(http_method(c->http), "GET");
}

static bool is_question(const char *path, enum api_kind *kind)
{
    static const char *const paths[] = { "/v1/chat/completions",
                                         "/v1/completions", "/v1/responses" };

    for (int i = 0; i <= API_RESPONSE; i++)
        if (!strcmp(path, paths[i])) {
            *kind = (enum api_kind)i;
            return true;
        }
    return false;
}

static void refuse(struct call *c, int status, const char *code,
                   const char *msg)
{
    struct api_error e;

    api_fail(&e, status, code, "", "%s", msg);
    call_fail(c, &e);
}

/* What a key is needed for, if there are keys. */
static void dispatch(struct call *c)
{
    static const char models[] = "/v1/models";
    const char *path = http_path(c->http);
    enum api_kind kind;

    if (is_question(path, &kind)) {
        if (is_get(c))
            refuse(c, 405, "method_not_allowed", "a question is a POST");
        else
            answer_request(c, kind);
    } else if (!is_get(c)) {
        refuse(c, 404, "not_found", "there is nothing at this path");
    } else if (!strcmp(path, models)) {
        show_models(c);
    } else if (!strncmp(path, models, sizeof models - 1) &&
               path[sizeof models - 1] == '/') {
        show_model(c, path + sizeof models);
    } else if (!strcmp(path, "/metrics")) {
        show_metrics(c);
    } else {
        refuse(c, 404, "not_found", "there is nothing at this path");
    }
}

void server_refused(void *ctx, int status, struct buf *head, struct buf *body)
{
    struct server *s = ctx;
    struct api_error e;
    char id[SERVER_ID];

    s->n_request++;
    if (status >= 0 && status < SERVER_N_CODE)
        s->n_reply[status]++;
    new_id(s, id);
    buf_printf(head, "X-Request-Id: %s\r\nX-Content-Type-Options: nosniff\r\n",
               id);
    if (status == 413)
        api_fail(&e, status, "request_too_large", "",
                 "the request is longer than this server allows");
    else if (status == 501)
        api_fail(&e, status, "method_not_allowed", "",
                 "the method is not GET, POST or OPTIONS");
    else
        api_fail(&e, status, "bad_request", "",
                 "this is not a request of HTTP/1.1 that can be read");
    api_error_json(&e, body);
    buf_char(body, '\n');
}

void server_request(void *ctx, struct http_request *r, const char *fault)
{
    struct server *s = ctx;
    struct call *c = mem_zalloc(sizeof *c);
    struct api_error e;

    if (!c) {
        http_reply(r, 503, "text/plain", "", 0);
        return;
    }
    c->s = s;
    c->http = r;
    c->start_s = clock_s();
    c->created = time(NULL);
    s->n_request++;
    take_id(c);
    http_add_header(r, "X-Request-Id", c->id);
    http_add_header(r, "X-Content-Type-Options", "nosniff");
    if (fault) {
        refuse(c, 400, "bad_request", fault);
        return;
    }
    if (!access_check(s, r, &e)) {
        call_fail(c, &e);
        return;
    }
    if (!strcmp(http_method(r), "OPTIONS")) {
        call_reply(c, 204, "text/plain", "", 0);
        return;
    }
    if (is_get(c) && !strcmp(http_path(r), "/health")) {
        show_health(c);
        return;
    }
    if (is_get(c) && !strcmp(http_path(r), "/")) {
        show_page(c);
        return;
    }
    if (!access_key(s, r, &c->key, &e)) {
        call_fail(c, &e);
        return;
    }
    if (c->key)
        snprintf(c->key_id, sizeof c->key_id, "%s", c->key->id);
    dispatch(c);
}
