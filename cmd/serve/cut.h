/*
 * cut.h - caches whose files are cut short while they are read.
 *
 * A page of a mapped file that is not there any more raises SIGBUS in whichever
 * thread reads it.  Inside a cache that is known here, the handler puts zeros
 * in its place and takes note; the thread goes on, and who asked for the work
 * must look (cut_found) before anything that came of it is believed: no answer
 * is given out that a zero may have gone into.  Anywhere else, a model's
 * weights among it, the program ends as it would have.
 */
#ifndef CMD_SERVE_CUT_H
#define CMD_SERVE_CUT_H

#include <cag/ask.h>
#include <stdbool.h>

/* Caches that may be served. */
enum { SHELF_MAX = 4096 };

/* A cache's mapping; all zero before it is mapped. */
struct cut {
    int place; /* in the table, from 1 */
};

/* Handle SIGBUS; what was done about it before is done elsewhere. */
void cut_start(void);
/* Have k tell c where its file is mapped; c lives as long as the cache. */
void cut_watch(struct cut *c, cag_kb_opts *k);
/* Was a page of it missing, since it was mapped? */
bool cut_found(const struct cut *c);
/* The error that it then is; file is the cache's. */
cag_status cut_fail(const char *file, cag_error *err);

#endif
