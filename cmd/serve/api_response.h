/*
 * api_response.h - answers in the shape of /v1/responses: what api_reply.c
 * gives for API_RESPONSE.
 */
#ifndef CMD_SERVE_API_RESPONSE_H
#define CMD_SERVE_API_RESPONSE_H

#include "cmd/serve/api.h"

void response_json(const struct api_answer *x, struct buf *out);
/* Events with their names, each with its number. */
void response_event_start(const struct api_answer *x, struct buf *out);
void response_event_text(const struct api_answer *x, const char *text, size_t n,
                         struct buf *out);
void response_event_end(const struct api_answer *x, struct buf *out);
void response_event_error(const struct api_answer *x, const struct api_error *e,
                          struct buf *out);

#endif
