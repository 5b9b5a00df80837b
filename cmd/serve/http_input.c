/*
 * http_input.c - see http_input.h.
 *
 * No request of ours holds a NUL byte: each becomes another control character,
 * which no head and no JSON may hold either, so that it is refused where it
 * stands.  A line without end becomes one that is no chunk's length.
 */
#include "cmd/serve/http_input.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdint.h>
#include <string.h>

enum { N_PIECE = 16 };
#define NUL_BECOMES 1

/* Of the last n bytes. */
static void replace_nul(struct evbuffer *in, size_t n)
{
    struct evbuffer_iovec v[N_PIECE];
    struct evbuffer_ptr at;
    size_t from = evbuffer_get_length(in) - n;
    int n_v;

    while (n && evbuffer_ptr_set(in, &at, from, EVBUFFER_PTR_SET) == 0) {
        size_t seen = 0;

        n_v = evbuffer_peek(in, (ev_ssize_t)n, &at, v, N_PIECE);
        for (int i = 0; i < n_v && i < N_PIECE; i++) {
            char *p = v[i].iov_base, *end = p + v[i].iov_len;

            while ((p = memchr(p, '\0', (size_t)(end - p))))
                *p = NUL_BECOMES;
            seen += v[i].iov_len;
        }
        if (!seen)
            return;
        seen = seen < n ? seen : n;
        from += seen;
        n -= seen;
    }
}

static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info,
                     void *ctx)
{
    const struct http_input *h = ctx;

    if (!info->n_added)
        return;
    if (info->orig_size > h->max_bytes) {
        evbuffer_drain(in, evbuffer_get_length(in));
        evbuffer_add(in, "x\r\n", 3);
        return;
    }
    replace_nul(in, info->n_added);
}

void http_input_watch(struct bufferevent *b, const struct http_input *in)
{
    evbuffer_add_cb(bufferevent_get_input(b), on_input, (void *)(uintptr_t)in);
}
