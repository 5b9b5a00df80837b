/*
 * listen.h - sockets to listen on, from what a user writes.
 */
#ifndef CMD_SERVE_LISTEN_H
#define CMD_SERVE_LISTEN_H

#include <cag/error.h>
#include <stdbool.h>

enum { LISTEN_TEXT = 160 };

/*
 * "127.0.0.1:8080", "[::1]:8080", "localhost:8080" or "unix:PATH".  A socket
 * that nobody listens on any more is replaced; who may connect to a new one is
 * the umask's.  CAG_E_USAGE for another text, CAG_E_BACKEND when the system
 * refuses.
 */
cag_status listen_open(const char *where, int *fd, cag_error *err);
bool listen_is_socket(int fd); /* one that listens */
/* Is it of this machine alone: loopback or unix? */
bool listen_is_local(int fd);
/* "http://127.0.0.1:40123" or "unix:PATH", as it is. */
const char *listen_name(int fd, char out[LISTEN_TEXT]);
/* Remove what listen_open made in the file system, if it is still there. */
void listen_remove(int fd);

#endif
