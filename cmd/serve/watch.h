/*
 * watch.h - the thread that looks after the files of the caches.
 *
 * Once a second it looks whether a file was replaced or has gone, and every few
 * seconds whether sources have changed.  Another file is checked in full, by
 * this thread, while the old one answers; then the scheduler opens it.
 */
#ifndef CMD_SERVE_WATCH_H
#define CMD_SERVE_WATCH_H

#include "cmd/serve/cache.h"

struct watch;

/* say: a line for the operator, with what became of a cache, why, or both;
 * poke: a cache is to be opened.  Both are called in the watch's thread. */
struct watch_opts {
    void (*say)(const char *cache, const char *what, const cag_error *err);
    void (*poke)(void *ctx);
    void *ctx;
};

/* Take note of the files as they are, before they are opened. */
void watch_begin(struct shelf *s);
cag_status watch_new(const struct watch_opts *o, struct shelf *shelf,
                     struct watch **out, cag_error *err);
/* Look at all now, in the directories too. */
void watch_now(struct watch *w);
void watch_free(struct watch *w); /* NULL is allowed */

#endif
