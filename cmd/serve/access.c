/*
 * access.c - whom a request is from.
 *
 * A browser sends what any page tells it to, to any address it can reach: a
 * page whose name was made to point here (DNS rebinding) shows in Host, another
 * site's page in Origin.  Both are refused before a key is looked at.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/serve/server.h"
#include "util/buf.h"
#include "util/error.h"
#include "util/trust.h"

#define KEYS_MAX_BYTES ((size_t)16 << 20)

/* "[::1]:80" or "name:80" without the port; false: no such thing. */
static bool host_name(const char *host, char out[256])
{
    const char *end;
    size_t n;

    if (host[0] == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
    } else {
        end = strchr(host, ':');
        if (!end)
            end = host + strlen(host);
    }
    n = (size_t)(end - host);
    if (!n || n >= 256)
        return false;
    memcpy(out, host, n);
    out[n] = '\0';
    return true;
}

/* An address cannot be made to point elsewhere; a name must be known. */
static bool is_our_host(const struct server *s, const char *host)
{
    char name[256];
    struct in6_addr a;

    if (!host_name(host, name))
        return false;
    if (inet_pton(AF_INET, name, &a) == 1 ||
        inet_pton(AF_INET6, name, &a) == 1 || !strcasecmp(name, "localhost"))
        return true;
    for (int i = 0; i < s->n_host; i++)
        if (!strcasecmp(name, s->host[i]))
            return true;
    return false;
}

static bool is_allowed_origin(const struct server *s, const char *origin)
{
    for (int i = 0; i < s->n_origin; i++)
        if (!strcmp(s->origin[i], "*") || !strcasecmp(s->origin[i], origin))
            return true;
    return false;
}

static bool check_origin(struct server *s, struct http_request *r,
                         const char *host, struct api_error *e)
{
    const char *origin = http_header(r, "Origin");
    const char *authority = origin ? strstr(origin, "://") : NULL;

    if (!origin)
        return true;
    if (authority && !strcasecmp(authority + 3, host))
        return true;
    if (!is_allowed_origin(s, origin))
        return api_fail(e, 403, "origin_not_allowed", "",
                        "pages of another origin may not ask here; cag-serve "
                        "--cors allows one");
    http_add_header(r, "Access-Control-Allow-Origin", origin);
    http_add_header(r, "Vary", "Origin");
    http_add_header(r, "Access-Control-Allow-Methods", "GET, POST");
    http_add_header(r, "Access-Control-Allow-Headers",
                    "Authorization, Content-Type, X-Request-Id");
    http_add_header(r, "Access-Control-Expose-Headers", "X-Request-Id");
    http_add_header(r, "Access-Control-Max-Age", "600");
    return true;
}

bool access_check(struct server *s, struct http_request *r, struct api_error *e)
{
    const char *host = http_header(r, "Host");

    /* no browser reaches a socket in the file system by itself */
    if (!http_is_unix(r) && (!host || !is_our_host(s, host)))
        return api_fail(e, 403, "host_not_allowed", "",
                        "this server is not known by that name; cag-serve "
                        "--host names it");
    return check_origin(s, r, host ? host : "", e);
}

bool access_key(struct server *s, struct http_request *r,
                const struct key **key, struct api_error *e)
{
    const char *auth = http_header(r, "Authorization");

    *key = NULL;
    if (!s->keys_file)
        return true;
    if (!auth || strncasecmp(auth, "Bearer ", 7))
        return api_fail(e, 401, "missing_api_key", "",
                        "a key is wanted: Authorization: Bearer KEY");
    auth += 7 + strspn(auth + 7, " ");
    *key = keys_find(&s->keys, auth);
    return *key ||
           api_fail(e, 401, "invalid_api_key", "", "the key is not known here");
}

cag_status access_read_keys(struct server *s, cag_error *err)
{
    struct buf text = BUF_INIT;
    struct keys fresh;
    cag_status st;

    if (!s->keys_file)
        return CAG_OK;
    /* whoever can write it can let himself in */
    st = trust_read(s->keys_file, KEYS_MAX_BYTES, &text, err);
    if (!st)
        st = keys_parse(text.data, text.size, s->keys_file, &fresh, err);
    buf_free(&text);
    if (st)
        return st;
    keys_release(&s->keys);
    s->keys = fresh;
    return CAG_OK;
}
