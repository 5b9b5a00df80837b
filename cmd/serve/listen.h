/*
 * listen.h - sockets to listen on, from what a user writes.
 */
#ifndef CMD_SERVE_LISTEN_H
#define CMD_SERVE_LISTEN_H

#include <cag/error.h>
#include <stdbool.h>
#include <stdint.h>

enum { LISTEN_TEXT = 160 };

/*
 * "127.0.0.1:8080", "[::1]:8080", "localhost:8080" or "unix:PATH".  A socket
 * that nobody listens on any more is replaced; who may connect to a new one is
 * the umask's.  CAG_E_USAGE for another text, CAG_E_BACKEND when the system
 * refuses, CAG_E_CREATE when the way to the file leads through another user's
 * link.
 */
struct listen_made {
    int fd;
    bool file; /* these are of its file: */
    uint64_t dev, ino;
};
cag_status listen_open(const char *where, struct listen_made *made,
                       cag_error *err);
bool listen_is_socket(int fd); /* one that listens */
/* Is it of this machine alone: loopback or unix? */
bool listen_is_local(int fd);
/* "http://127.0.0.1:40123" or "unix:PATH", as it is. */
const char *listen_name(int fd, char out[LISTEN_TEXT]);
/* Remove what listen_open made in the file system, if it is still that which
 * lies there. */
void listen_remove(const struct listen_made *made);

#endif
