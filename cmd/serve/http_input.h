/*
 * http_input.h - what a connection receives, before evhttp reads it.
 *
 * evhttp 2.1 has no limit on the line of a chunk's length, and ends what it
 * takes for a line at a NUL byte, behind which another reader may go on.
 */
#ifndef CMD_SERVE_HTTP_INPUT_H
#define CMD_SERVE_HTTP_INPUT_H

#include <stddef.h>

struct bufferevent;

/* What evhttp may leave unread at most: more is a line without end.  Until the
 * connection ends. */
struct http_input {
    size_t max_bytes;
};
/* Of a connection that is new. */
void http_input_watch(struct bufferevent *b, const struct http_input *in);

#endif
