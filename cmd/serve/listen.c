/*
 * listen.c - see listen.h.
 */
#include "cmd/serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/error.h"
#include "util/file_place.h"

#define BACKLOG 512

static cag_status refused(int fd, const char *where, cag_error *err)
{
    int sys = errno;
    cag_status st = cag_fail(err, CAG_E_BACKEND, NULL, -1,
                             "cannot listen on %s: %s", where, strerror(sys));

    if (err)
        err->sys = sys;
    if (fd >= 0)
        close(fd);
    return st;
}

/* A socket file that nobody accepts from is what a crash left. */
static void remove_dead(const struct sockaddr_un *a)
{
    struct stat s;
    int fd;

    if (lstat(a->sun_path, &s) || !S_ISSOCK(s.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)a, sizeof *a) &&
        errno == ECONNREFUSED)
        unlink(a->sun_path);
    close(fd);
}

static cag_status open_unix(const char *where, const char *path,
                            struct listen_made *made, cag_error *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct file_place at;
    struct stat s;
    cag_status st;
    int fd;

    if (!path[0] || strlen(path) >= sizeof a.sun_path)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "--listen %s: a socket's path has 1 to %zu bytes",
                        where, sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path) + 1);
    st = file_place_find(&at, path, err);
    file_place_release(&at);
    if (st)
        return st;
    remove_dead(&a);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) ||
        listen(fd, BACKLOG) || lstat(path, &s))
        return refused(fd, where, err);
    *made = (struct listen_made){ fd, true, s.st_dev, s.st_ino };
    return CAG_OK;
}

/* "HOST:PORT" -> its two parts, in host. */
static const char *split(const char *where, char host[64])
{
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;

    if (!colon || !colon[1] || strspn(colon + 1, "0123456789") > 5 ||
        colon[1 + strspn(colon + 1, "0123456789")] ||
        strtol(colon + 1, NULL, 10) > 65535)
        return NULL;
    if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
        where++;
        n -= 2;
    } else if (memchr(where, ':', n)) {
        return NULL; /* IPv6 without brackets */
    }
    if (!n || n >= 64)
        return NULL;
    memcpy(host, where, n);
    host[n] = '\0';
    if (!strcmp(host, "localhost"))
        memcpy(host, "127.0.0.1", sizeof "127.0.0.1");
    return colon + 1;
}

static cag_status open_tcp(const char *where, struct listen_made *made,
                           cag_error *err)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST |
                                                AI_NUMERICSERV | AI_PASSIVE,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo *a = NULL;
    char host[64];
    const char *port = split(where, host);
    const int on = 1;
    int fd;

    if (!port || getaddrinfo(host, port, &hints, &a))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "--listen %s: expected ADDRESS:PORT with an address "
                        "in numbers, such as 127.0.0.1:8080 or [::1]:8080, or "
                        "unix:PATH",
                        where);
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (a->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG)) {
        freeaddrinfo(a);
        return refused(fd, where, err);
    }
    freeaddrinfo(a);
    *made = (struct listen_made){ .fd = fd };
    return CAG_OK;
}

cag_status listen_open(const char *where, struct listen_made *made,
                       cag_error *err)
{
    return strncmp(where, "unix:", 5) ? open_tcp(where, made, err)
                                      : open_unix(where, where + 5, made, err);
}

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

static bool get_address(int fd, union address *a)
{
    socklen_t n = sizeof *a;

    memset(a, 0, sizeof *a);
    return !getsockname(fd, &a->any, &n);
}

bool listen_is_socket(int fd)
{
    int on = 0;
    socklen_t n = sizeof on;

    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) && on;
}

bool listen_is_local(int fd)
{
    union address a;

    if (!get_address(fd, &a))
        return false;
    switch (a.any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ntohl(a.in.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr);
    default:
        return false;
    }
}

const char *listen_name(int fd, char out[LISTEN_TEXT])
{
    union address a;
    char host[INET6_ADDRSTRLEN] = "?";

    snprintf(out, LISTEN_TEXT, "a socket");
    if (!get_address(fd, &a))
        return out;
    if (a.any.sa_family == AF_UNIX) {
        snprintf(out, LISTEN_TEXT, "unix:%s", a.un.sun_path);
    } else if (a.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof host);
        snprintf(out, LISTEN_TEXT, "http://%s:%d", host, ntohs(a.in.sin_port));
    } else if (a.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof host);
        snprintf(out, LISTEN_TEXT, "http://[%s]:%d", host,
                 ntohs(a.in6.sin6_port));
    }
    return out;
}

void listen_remove(const struct listen_made *made)
{
    union address a;
    struct stat s;

    /* another one may have come in its place */
    if (made->file && get_address(made->fd, &a) &&
        lstat(a.un.sun_path, &s) == 0 && s.st_dev == made->dev &&
        s.st_ino == made->ino)
        unlink(a.un.sun_path);
}
