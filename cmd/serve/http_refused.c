/*
 * http_refused.c - see http_refused.h.
 *
 * evhttp's page is known by its whole form, and by the lack of the header
 * Server, which every reply of ours has.  What is left of a reply of ours that
 * is being sent cannot look like it: JSON holds no line end that is not
 * escaped.
 */
#include "cmd/serve/http_refused.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 1024

/* The status of evhttp's page, or 0. */
static int page_status(struct evbuffer *out)
{
    static const char http[] = "HTTP/1.", end[] = "</BODY></HTML>\n",
                      begin[] = "\r\n\r\n<HTML><HEAD>\n<TITLE>";
    char page[PAGE_MAX + 1];
    size_t n = evbuffer_get_length(out);
    const char *body, *code;

    if (n > PAGE_MAX || n < sizeof http + sizeof begin + sizeof end ||
        evbuffer_copyout(out, page, n) != (ev_ssize_t)n)
        return 0;
    page[n] = '\0';
    body = strstr(page, begin);
    code = strchr(page, ' ');
    if (strncmp(page, http, sizeof http - 1) != 0 || !body || !code ||
        strcmp(page + n - (sizeof end - 1), end) != 0 ||
        memmem(page, (size_t)(body - page), "\r\nServer:", 9))
        return 0;
    return (int)strtol(code, NULL, 10);
}

static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info,
                      void *ctx)
{
    const struct http_refused *r = ctx;
    struct buf head = BUF_INIT, body = BUF_INIT;
    int status = r->fn && info->n_added ? page_status(out) : 0;

    if (!status)
        return;
    r->fn(r->ctx, status, &head, &body);
    if (!buf_failed(&head) && !buf_failed(&body)) {
        size_t n;
        char *line = evbuffer_readln(out, &n, EVBUFFER_EOL_CRLF);

        evbuffer_drain(out, evbuffer_get_length(out));
        evbuffer_add_printf(out,
                            "%s\r\nContent-Type: application/json\r\n"
                            "Server: cag-serve\r\nConnection: close\r\n"
                            "Content-Length: %zu\r\n%s\r\n",
                            line ? line : "HTTP/1.1 400 Bad Request", body.size,
                            head.data);
        evbuffer_add(out, body.data, body.size);
        free(line); /* libevent's */
    }
    buf_free(&head);
    buf_free(&body);
}

void http_refused_watch(struct bufferevent *b, const struct http_refused *r)
{
    evbuffer_add_cb(bufferevent_get_output(b), on_output, (void *)(uintptr_t)r);
}
