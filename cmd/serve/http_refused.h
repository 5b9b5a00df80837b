/*
 * http_refused.h - what evhttp refuses by itself, in our words.
 *
 * A request that is no HTTP, is too long, or has a method that is none never
 * reaches the handler: evhttp 2.1 answers it with a page of HTML, and has no
 * hook for that.  Its page is replaced in the connection's buffer, before a
 * byte of it is sent.
 */
#ifndef CMD_SERVE_HTTP_REFUSED_H
#define CMD_SERVE_HTTP_REFUSED_H

#include "cmd/serve/http.h"

struct bufferevent;

/* Who says it; until the connection ends. */
struct http_refused {
    http_refused_fn *fn; /* NULL: evhttp's page stays */
    void *ctx;
};
/* Of a connection that is new. */
void http_refused_watch(struct bufferevent *b, const struct http_refused *r);

#endif
