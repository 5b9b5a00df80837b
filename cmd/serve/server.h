/*
 * server.h - what a request meets: who may ask, where it goes, how it is
 * answered.
 *
 * All of it runs in the loop's thread.
 */
#ifndef CMD_SERVE_SERVER_H
#define CMD_SERVE_SERVER_H

#include "cmd/serve/api.h"
#include "cmd/serve/cache.h"
#include "cmd/serve/http.h"
#include "cmd/serve/keys.h"
#include "cmd/serve/sched.h"

enum { SERVER_ID = 41, SERVER_N_CODE = 600 };

struct server {
    struct http *http;
    struct sched *sched;
    struct shelf *shelf;
    struct watch *watch;
    struct api_defaults defaults;
    const char *keys_file; /* NULL: everybody may ask everything */
    struct keys keys;
    const char *const *host; /* [n_host] names in Host that are ours */
    int n_host;
    const char *const *origin; /* [n_origin] other pages that may ask */
    int n_origin;
    int log;         /* descriptor: a line of JSON a request; -1: none */
    bool log_failed; /* it was said that lines are lost */
    void (*log_lost)(const char *why); /* says so */
    bool draining;
    int64_t n_reply[SERVER_N_CODE]; /* by status */
    uint64_t n_request;
};

/* One request on its way. */
struct call {
    struct server *s;
    struct http_request *http;
    const struct key *key; /* until the handler returns; NULL without keys */
    char id[SERVER_ID];
    double start_s;
    int64_t created;
    struct ask *ask;
    bool started;  /* the first event of the answer is sent */
    size_t n_sent; /* bytes of the answer */
    int n_event;
    jv *logprobs; /* taken out of the answer's row, or NULL */
    int status;
    char cache[128], key_id[64]; /* for the log */
};

/* The handler of http_new; ctx is the server. */
void server_request(void *ctx, struct http_request *r, const char *fault);
/* That of http_on_refused. */
void server_refused(void *ctx, int status, struct buf *head, struct buf *body);

/* access.c: is this request for us, from a page of ours?  Adds what a browser
 * wants to read; e says why not. */
bool access_check(struct server *s, struct http_request *r,
                  struct api_error *e);
/* Whose key it carries, in *key; false: e says so. */
bool access_key(struct server *s, struct http_request *r,
                const struct key **key, struct api_error *e);
/* Read the file of keys (again); after an error the old ones stay. */
cag_status access_read_keys(struct server *s, cag_error *err);

/* reply.c */
void call_reply(struct call *c, int status, const char *type, const void *data,
                size_t n);
/* 200, or 503 if b failed; b is freed. */
void call_reply_buf(struct call *c, const char *type, struct buf *b);
void call_reply_json(struct call *c, struct buf *b); /* with a line feed */
void call_fail(struct call *c, const struct api_error *e);
void call_end(struct call *c); /* it was replied to: log it, free it */

/* answer.c: questions. */
void answer_request(struct call *c, enum api_kind kind);
/* There is news from the scheduler; ctx is the server. */
void answer_news(void *ctx);

/* show.c: what is not a question. */
void show_models(struct call *c);
void show_model(struct call *c, const char *id);
void show_health(struct call *c);
void show_metrics(struct call *c);
void show_page(struct call *c);

#endif
