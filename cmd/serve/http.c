/*
 * http.c - see http.h.
 *
 * Connections are counted by the process' descriptors: evhttp does not tell
 * how many it has, and one that never sends a request is one too.  At the limit
 * nothing is accepted, so that the system holds new ones back.
 */
#include "cmd/serve/http.h"

#include <dirent.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/serve/http_input.h"
#include "cmd/serve/http_refused.h"
#include "util/error.h"
#include "util/mem.h"

#define MAX_LISTENER 16
#define MAX_AHEAD    65536 /* bytes of later requests that are kept */
#define MAX_SIGNAL   8
#define DIGITS       "0123456789"

/* What a signal runs. */
struct hook {
    struct event *ev;
    void (*fn)(void *ctx, int sig);
    void *ctx;
};

struct http {
    struct event_base *base;
    struct evhttp *server;
    struct http_limits limit;
    http_handler *fn;
    void *ctx;
    struct evconnlistener *listener[MAX_LISTENER];
    int n_listener;
    struct event *full; /* at the limit: looks for room again */
    struct event *call; /* of call_fd */
    int call_fd;
    struct http_input input;
    struct http_refused refused;
    void (*on_call)(void *ctx);
    void *call_ctx;
    struct hook hook[MAX_SIGNAL];
    int n_hook;
    int fds, fds_own; /* descriptors: at most so many, not connections */
    int n_request;    /* that have not ended */
    bool quitting;
};

struct http_request {
    struct http *http;
    struct evhttp_request *req; /* NULL: the client has left */
    bool close;                 /* the connection ends with it */
    bool streaming;
    struct event *quiet; /* of http_stream_hold, or NULL */
    void (*on_close)(void *ctx);
    void *ctx;
    char path[1024];
};

/* ------------------------------------------------------------- connections */

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    if (!d)
        return 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 3; /* ".", "..", the directory itself */
}

static void listen_now(struct http *h, bool on)
{
    const struct timeval soon = { 0, 100000 };

    for (int i = 0; i < h->n_listener; i++) {
        if (on)
            evconnlistener_enable(h->listener[i]);
        else
            evconnlistener_disable(h->listener[i]);
    }
    if (!on)
        event_add(h->full, &soon);
}

int http_n_open(struct http *h)
{
    int n = count_fds() - h->fds_own;

    return n > 0 ? n : 0;
}

static void on_full(evutil_socket_t fd, short what, void *ctx)
{
    struct http *h = ctx;

    (void)fd;
    (void)what;
    h->fds = http_n_open(h);
    if (!h->quitting)
        listen_now(h, h->fds < h->limit.n_connection);
}

static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    (void)l;
    listen_now(ctx, false); /* no descriptor is free */
}

/* evhttp asks for a connection's buffer as it accepts it; without memory it
 * tries to make its own.  Those that ended are found by counting again. */
static struct bufferevent *on_connection(struct event_base *base, void *ctx)
{
    struct http *h = ctx;
    struct bufferevent *b = bufferevent_socket_new(base, -1, 0);

    if (b) {
        http_input_watch(b, &h->input);
        http_refused_watch(b, &h->refused);
    }
    if (++h->fds >= h->limit.n_connection) {
        h->fds = http_n_open(h);
        if (h->fds >= h->limit.n_connection)
            listen_now(h, false);
    }
    return b;
}

/* ---------------------------------------------------------------- requests */

/* One of each: of two, a proxy may have looked at the other. */
static const char *const single[] = { "Content-Length", "Transfer-Encoding",
                                      "Host",           "Authorization",
                                      "Origin",         "Content-Type" };
enum { LENGTH, CODING, HOST, N_SINGLE = sizeof single / sizeof *single };

/* name, or name:port with one number; brackets around an IPv6 address. */
static bool is_host(const char *s)
{
    bool six = *s == '[';
    size_t n = strcspn(s, six ? "]" : ":");

    if (!n || (six && !s[n]))
        return false;
    s += n + six;
    return !*s || (*s == ':' && s[1] && !s[1 + strspn(s + 1, DIGITS)]);
}

static bool has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' ? *s != '\t' : *s == 0x7f)
            return true;
    return false;
}

/* What evhttp lets pass and others may read in another way. */
static const char *find_fault(struct http_request *r)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(r->req);
    const char *uri = evhttp_request_get_uri(r->req);
    const struct evkeyval *h;
    const char *value[N_SINGLE] = { NULL };

    if (uri && has_control(uri))
        return "the URL has a control character";
    for (h = headers->tqh_first; h; h = h->next.tqe_next) {
        if (has_control(h->key) || has_control(h->value))
            return "a header has a control character";
        if (!h->key[0] || strpbrk(h->key, " \t"))
            return "a header's name has a blank";
        for (int i = 0; i < N_SINGLE; i++) {
            if (strcasecmp(h->key, single[i]))
                continue;
            if (value[i])
                return "a header that must be there once is there twice";
            value[i] = h->value;
        }
    }
    if (value[LENGTH] && value[CODING])
        return "Content-Length and Transfer-Encoding exclude each other";
    if (value[LENGTH] &&
        (!value[LENGTH][0] || value[LENGTH][strspn(value[LENGTH], DIGITS)]))
        return "Content-Length is not a number";
    if (value[CODING] && strcasecmp(value[CODING], "chunked"))
        return "Transfer-Encoding is not chunked";
    if (value[HOST] && !is_host(value[HOST]))
        return "Host is not a name with at most one port";
    return NULL;
}

static bool take_path(struct http_request *r)
{
    const char *uri = evhttp_request_get_uri(r->req);
    size_t n = uri ? strcspn(uri, "?#") : 0;

    if (!n || n >= sizeof r->path || uri[0] != '/')
        return false;
    memcpy(r->path, uri, n);
    r->path[n] = '\0';
    return true;
}

static void on_gone(struct evhttp_connection *c, void *ctx)
{
    struct http_request *r = ctx;

    (void)c;
    /* evhttp gives a request up that is being answered: it is ours then */
    if (!evhttp_request_get_connection(r->req))
        evhttp_request_free(r->req);
    r->req = NULL;
    if (r->on_close)
        r->on_close(r->ctx);
    r->on_close = NULL;
}

/* evhttp stops to read once it has a request, and notices only by writing that
 * the client has left.  What comes is kept for evhttp, which must not see it
 * before it has answered. */
static void read_on(struct bufferevent *b)
{
    bufferevent_data_cb written;
    bufferevent_event_cb event;
    void *ctx;

    bufferevent_getcb(b, NULL, &written, &event, &ctx);
    bufferevent_setcb(b, NULL, written, event, ctx);
    bufferevent_setwatermark(b, EV_READ, 0, MAX_AHEAD);
    bufferevent_enable(b, EV_READ);
}

static void on_request(struct evhttp_request *req, void *ctx)
{
    struct http *h = ctx;
    struct http_request *r = mem_zalloc(sizeof *r);
    struct evhttp_connection *c = evhttp_request_get_connection(req);
    const struct timeval idle = { h->limit.idle_s, 0 };
    const char *fault;

    if (!r) {
        evhttp_send_error(req, 503, NULL);
        return;
    }
    r->http = h;
    r->req = req;
    h->n_request++;
    evhttp_connection_set_closecb(c, on_gone, r);
    /* a client that waits for its answer is not idle */
    bufferevent_set_timeouts(evhttp_connection_get_bufferevent(c), NULL, &idle);
    read_on(evhttp_connection_get_bufferevent(c));
    fault = find_fault(r);
    if (!fault && !take_path(r))
        fault = "the URL is not a path of at most 1023 bytes";
    /* what evhttp takes for a chunk's length others may not: nothing that comes
     * after such a body is read */
    r->close = fault || h->quitting || http_header(r, "Transfer-Encoding");
    h->fn(h->ctx, r, fault);
}

/* Has the last one ended? */
static void check_end(struct http *h)
{
    if (h->quitting && !h->n_request) {
        const struct timeval soon = { 0, 200000 }; /* to write what is left */

        event_base_loopexit(h->base, &soon);
    }
}

static void end(struct http_request *r)
{
    struct http *h = r->http;

    if (r->quiet)
        event_free(r->quiet);
    mem_free(r);
    h->n_request--;
    check_end(h);
}

/* Before evhttp takes the request over. */
static void let_go(struct http_request *r)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r->req);
    struct bufferevent *b = evhttp_connection_get_bufferevent(c);
    const struct timeval idle = { r->http->limit.idle_s, 0 };

    evhttp_connection_set_closecb(c, NULL, NULL);
    bufferevent_set_timeouts(b, &idle, &idle);
    bufferevent_setwatermark(b, EV_READ, 0, 0);
}

const char *http_method(const struct http_request *r)
{
    switch (r->req ? evhttp_request_get_command(r->req) : EVHTTP_REQ_GET) {
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_OPTIONS:
        return "OPTIONS";
    default:
        return "GET";
    }
}

const char *http_path(const struct http_request *r)
{
    return r->path;
}

const char *http_header(const struct http_request *r, const char *name)
{
    return r->req ? evhttp_find_header(evhttp_request_get_input_headers(r->req),
                                       name)
                  : NULL;
}

const char *http_body(const struct http_request *r, size_t *n)
{
    struct evbuffer *in =
        r->req ? evhttp_request_get_input_buffer(r->req) : NULL;
    const char *data;

    *n = in ? evbuffer_get_length(in) : 0;
    data = *n ? (const char *)evbuffer_pullup(in, -1) : NULL;
    if (!data)
        *n = 0;
    return data ? data : "";
}

bool http_is_unix(const struct http_request *r)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    struct evhttp_connection *c =
        r->req ? evhttp_request_get_connection(r->req) : NULL;
    int fd = c ? bufferevent_getfd(evhttp_connection_get_bufferevent(c)) : -1;

    return fd >= 0 && !getsockname(fd, (struct sockaddr *)&a, &n) &&
           a.ss_family == AF_UNIX;
}

void http_on_close(struct http_request *r, void (*fn)(void *ctx), void *ctx)
{
    r->on_close = fn;
    r->ctx = ctx;
}

void http_add_header(struct http_request *r, const char *name,
                     const char *value)
{
    if (r->req)
        evhttp_add_header(evhttp_request_get_output_headers(r->req), name,
                          value);
}

static void start(struct http_request *r, const char *type)
{
    http_add_header(r, "Content-Type", type);
    http_add_header(r, "Server", "cag-serve");
    if (r->close)
        http_add_header(r, "Connection", "close");
}

void http_reply(struct http_request *r, int status, const char *type,
                const void *data, size_t n)
{
    struct evbuffer *out = r->req ? evbuffer_new() : NULL;

    if (r->req) {
        start(r, type);
        if (!out || evbuffer_add(out, data, n)) /* out of memory */
            status = 503;
        let_go(r);
        evhttp_send_reply(r->req, status, NULL, out);
        if (out)
            evbuffer_free(out);
    }
    end(r);
}

void http_stream_start(struct http_request *r, const char *type)
{
    if (!r->req || r->streaming)
        return;
    http_add_header(r, "Cache-Control", "no-store");
    http_add_header(r, "X-Accel-Buffering", "no");
    start(r, type);
    r->streaming = true;
    evhttp_send_reply_start(r->req, 200, NULL);
}

bool http_stream_started(const struct http_request *r)
{
    return r->streaming;
}

static void wait_quiet(struct http_request *r)
{
    const struct timeval quiet = { r->http->limit.quiet_s, 0 };

    if (r->quiet)
        event_add(r->quiet, &quiet);
}

static void on_quiet(evutil_socket_t fd, short what, void *ctx)
{
    static const char comment[] = ": waiting\n\n";
    struct http_request *r = ctx;

    (void)fd;
    (void)what;
    http_stream_start(r, HTTP_EVENTS);
    http_stream(r, comment, sizeof comment - 1);
}

void http_stream_hold(struct http_request *r)
{
    /* without memory for it: the answer comes without comments before it */
    r->quiet = event_new(r->http->base, -1, 0, on_quiet, r);
    wait_quiet(r);
}

void http_stream(struct http_request *r, const void *data, size_t n)
{
    struct evbuffer *out = r->req && n ? evbuffer_new() : NULL;

    if (out && !evbuffer_add(out, data, n))
        evhttp_send_reply_chunk(r->req, out);
    wait_quiet(r);
    if (out)
        evbuffer_free(out);
}

void http_stream_end(struct http_request *r)
{
    if (r->req) {
        let_go(r);
        evhttp_send_reply_end(r->req);
    }
    end(r);
}

/* -------------------------------------------------------------------- loop */

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
    struct http *h = ctx;
    uint64_t n;

    (void)what;
    (void)!read(fd, &n, sizeof n);
    if (h->on_call)
        h->on_call(h->call_ctx);
}

void http_on_call(struct http *h, void (*fn)(void *ctx), void *ctx)
{
    h->on_call = fn;
    h->call_ctx = ctx;
}

void http_on_refused(struct http *h, http_refused_fn *fn, void *ctx)
{
    h->refused = (struct http_refused){ fn, ctx };
}

void http_call(struct http *h)
{
    const uint64_t one = 1;

    (void)!write(h->call_fd, &one, sizeof one);
}

static void on_signal(evutil_socket_t sig, short what, void *ctx)
{
    const struct hook *k = ctx;

    (void)what;
    k->fn(k->ctx, (int)sig);
}

cag_status http_on_signal(struct http *h, int sig, void (*fn)(void *, int),
                          void *ctx, cag_error *err)
{
    struct hook *to = &h->hook[h->n_hook];

    if (h->n_hook == MAX_SIGNAL)
        return cag_fail(err, CAG_E_INTERNAL, NULL, -1, "too many signals");
    *to = (struct hook){ .fn = fn, .ctx = ctx };
    to->ev = evsignal_new(h->base, sig, on_signal, to);
    if (!to->ev || evsignal_add(to->ev, NULL)) {
        if (to->ev)
            event_free(to->ev);
        return cag_fail_nomem(err, "events");
    }
    h->n_hook++;
    return CAG_OK;
}

cag_status http_new(const struct http_limits *l, http_handler *fn, void *ctx,
                    struct http **out, cag_error *err)
{
    struct http *h = mem_zalloc(sizeof *h);

    if (!h)
        return cag_fail_nomem(err, "server");
    h->limit = *l;
    /* a body of known length is left until it is whole */
    h->input.max_bytes =
        (size_t)l->body_bytes + (size_t)l->header_bytes + MAX_AHEAD;
    h->fn = fn;
    h->ctx = ctx;
    h->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->base = event_base_new();
    h->server = h->base ? evhttp_new(h->base) : NULL;
    h->full = h->base ? event_new(h->base, -1, 0, on_full, h) : NULL;
    h->call = h->base ? event_new(h->base, h->call_fd, EV_READ | EV_PERSIST,
                                  on_wake, h)
                      : NULL;
    if (h->call_fd < 0 || !h->server || !h->full || !h->call ||
        event_add(h->call, NULL)) {
        http_free(h);
        return cag_fail_nomem(err, "server");
    }
    evhttp_set_gencb(h->server, on_request, h);
    evhttp_set_bevcb(h->server, on_connection, h);
    evhttp_set_allowed_methods(h->server, EVHTTP_REQ_GET | EVHTTP_REQ_POST |
                                              EVHTTP_REQ_OPTIONS);
    evhttp_set_max_headers_size(h->server, (ev_ssize_t)l->header_bytes);
    evhttp_set_max_body_size(h->server, (ev_ssize_t)l->body_bytes);
    evhttp_set_timeout(h->server, l->idle_s);
    *out = h;
    return CAG_OK;
}

void http_free(struct http *h)
{
    if (!h)
        return;
    for (int i = 0; i < h->n_hook; i++)
        event_free(h->hook[i].ev);
    if (h->call)
        event_free(h->call);
    if (h->full)
        event_free(h->full);
    if (h->server)
        evhttp_free(h->server); /* and its listeners */
    if (h->base)
        event_base_free(h->base);
    if (h->call_fd >= 0)
        close(h->call_fd);
    mem_free(h);
}

cag_status http_accept(struct http *h, int fd, cag_error *err)
{
    struct evconnlistener *l = NULL;

    if (h->n_listener < MAX_LISTENER) {
        evutil_make_socket_nonblocking(fd);
        l = evconnlistener_new(h->base, NULL, NULL,
                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0,
                               fd);
    }
    if (!l) {
        close(fd);
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "more than %d sockets to listen on", MAX_LISTENER);
    }
    if (!evhttp_bind_listener(h->server, l)) {
        evconnlistener_free(l);
        return cag_fail_nomem(err, "socket");
    }
    evconnlistener_set_error_cb(l, on_accept_error);
    h->listener[h->n_listener++] = l;
    return CAG_OK;
}

void http_run(struct http *h)
{
    h->fds_own = count_fds();
    event_base_dispatch(h->base);
}

void http_quit(struct http *h)
{
    if (h->quitting)
        return;
    h->quitting = true;
    listen_now(h, false);
    event_del(h->full);
    check_end(h);
}
