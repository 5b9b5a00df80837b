/*
 * http.h - HTTP/1.1 as cag-serve sees it; the only view of libevent.
 *
 * One thread runs the loop, and everything here is called from it, but for
 * http_call, by which other threads hand it work.  A request is answered with
 * http_reply, or in pieces with http_stream_start, http_stream,
 * http_stream_end; one of the two ends it, once, also after its client has
 * left: nothing is sent then.
 *
 * evhttp reads and checks requests.  What it lets pass and a proxy might
 * understand in another way (two lengths, a blank in a header's name) is
 * refused here.
 */
#ifndef CMD_SERVE_HTTP_H
#define CMD_SERVE_HTTP_H

#include <cag/error.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/buf.h"

/* The type of a stream of events. */
#define HTTP_EVENTS "text/event-stream"

struct http;
struct http_request;

struct http_limits {
    size_t header_bytes; /* of a request line and its headers */
    size_t body_bytes;
    int n_connection;
    int quiet_s; /* after which http_stream_hold says that it is still there */
    int idle_s;  /* without a byte from the client, between requests too; or
                   without one taken by it */
};

/* fault: NULL, or why the request must be refused: its connection is closed
 * after the reply. */
typedef void http_handler(void *ctx, struct http_request *r, const char *fault);

cag_status http_new(const struct http_limits *l, http_handler *fn, void *ctx,
                    struct http **out, cag_error *err);
/* fn writes the body, in JSON, of a reply to what was refused before it was a
 * request, and lines of its head, each with its line end. */
typedef void http_refused_fn(void *ctx, int status, struct buf *head,
                             struct buf *body);
void http_on_refused(struct http *h, http_refused_fn *fn, void *ctx);
void http_free(struct http *h); /* NULL is allowed */
/* Take connections of a socket that listens (listen.h); it is closed in the
 * end, also after an error. */
cag_status http_accept(struct http *h, int fd, cag_error *err);
/* Returns after http_quit, when all requests have ended. */
void http_run(struct http *h);
/* Take no more connections; those there are end with their request. */
void http_quit(struct http *h);
/* Run fn in the loop, soon; any thread may ask for it.  There is one fn: calls
 * that it has not yet answered are one. */
void http_on_call(struct http *h, void (*fn)(void *ctx), void *ctx);
void http_call(struct http *h);
/* Run fn in the loop when a signal arrived. */
cag_status http_on_signal(struct http *h, int sig, void (*fn)(void *, int),
                          void *ctx, cag_error *err);
int http_n_open(struct http *h); /* connections */

/* Strings are valid until the request ends or its client leaves. */
const char *http_method(const struct http_request *r); /* "GET"   */
const char *http_path(const struct http_request *r);   /* no query */
const char *http_header(const struct http_request *r, const char *name);
const char *http_body(const struct http_request *r, size_t *n);
/* Did it come over a socket in the file system? */
bool http_is_unix(const struct http_request *r);

/* fn is called once if the client leaves before the request has ended. */
void http_on_close(struct http_request *r, void (*fn)(void *ctx), void *ctx);

/* Before the reply is started. */
void http_add_header(struct http_request *r, const char *name,
                     const char *value);
void http_reply(struct http_request *r, int status, const char *type,
                const void *data, size_t n);
/* Once, or more often: nothing then. */
void http_stream_start(struct http_request *r, const char *type);
/* Who listens to this stream of events waits: when nothing was sent for quiet_s
 * seconds, begin it, and send comments, which clients pass over and proxies
 * count. */
void http_stream_hold(struct http_request *r);
bool http_stream_started(const struct http_request *r);
void http_stream(struct http_request *r, const void *data, size_t n);
void http_stream_end(struct http_request *r);

#endif
