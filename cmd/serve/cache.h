/*
 * cache.h - the caches that are served, by id.
 *
 * A cache has a public side, which any thread reads under the shelf's lock, and
 * an open kb, which is the scheduler's alone.  Caches are never taken off the
 * shelf; one whose file is gone is hidden.
 */
#ifndef CMD_SERVE_CACHE_H
#define CMD_SERVE_CACHE_H

#include <cag/ask.h>
#include <cag/tool/crew.h>
#include <pthread.h>
#include <stdbool.h>

#include "cmd/serve/cut.h"
#include "util/file.h"

enum cache_state { CACHE_READY, CACHE_STALE, CACHE_FAILED, CACHE_GONE };
enum { CACHE_N_STATE = CACHE_GONE + 1 };

/* What clients are told of a cache. */
struct cache_facts {
    enum cache_state state;
    bool is_stale;   /* its sources differ; with --stale warn it is served */
    int64_t created; /* of the file, seconds since 1970 */
    int64_t n_tok, n_ctx;
    char content_id[65], model[128], codec[16];
};

/* An open cache, while questions of it run. */
struct cache_open {
    cag_kb *kb;
    cag_crew *crew;
    struct cut cut;
    int n_running;
    bool alone;              /* one runs that others must not join */
    struct cache_open *next; /* replaced, but not yet done */
};

struct cache {
    char *id, *path;
    struct cache_facts facts;  /* under the lock */
    bool want_open;            /* under the lock: there is another file */
    struct file_id seen;       /* the watch's: the file that was looked at */
    struct cache_open *open;   /* NULL: it could not be opened */
    struct cache_open *before; /* replaced ones with running questions */
};

struct shelf {
    pthread_mutex_t lock; /* of facts, and of n */
    struct cache **cache; /* [n], room for SHELF_MAX, in order of names */
    int n;
    char **dir; /* [n_dir] directories that were named */
    int n_dir;
    cag_kb_opts kb;
    cag_kept *kept;  /* the scheduler's: sessions for the next turn */
    cag_stale stale; /* what is done with a stale one */
    int parallel;
};

cag_status shelf_init(struct shelf *s, cag_error *err);
void shelf_release(struct shelf *s);
/*
 * Name the caches that words stand for: files, NAME=FILE, or directories with
 * *.kvc.  Errors: CAG_E_MISSING, CAG_E_USAGE (two of one name), CAG_E_NOMEM.
 */
cag_status shelf_add(struct shelf *s, const char *word, cag_error *err);
/* Caches that have come into the directories; those that cannot be added are
 * passed over.  False: none. */
bool shelf_look_again(struct shelf *s);
int shelf_count(struct shelf *s);
/* NULL also for one that is gone. */
struct cache *shelf_find(struct shelf *s, const char *id);
void cache_get_facts(struct shelf *s, const struct cache *c,
                     struct cache_facts *out);
const char *cache_state_name(enum cache_state st);

/* Open c and put it in the place of what is open: the scheduler's, or before
 * there is one.  After an error nothing is open, and facts say so. */
cag_status cache_open(struct shelf *s, struct cache *c, cag_error *err);
/* It cannot be used any more: the scheduler's. */
void cache_fail(struct shelf *s, struct cache *c);
/* Look at the file without its model, in full or only whether it is stale, and
 * set its state: CAG_OK if it may be opened. */
cag_status cache_probe(struct shelf *s, struct cache *c, bool full,
                       cag_error *err);
void cache_set_state(struct shelf *s, struct cache *c, enum cache_state st);
/* The scheduler is to open it, or (false) has taken that on: was it wanted? */
bool cache_want_open(struct shelf *s, struct cache *c, bool on);
/* Free what was replaced and has no questions left. */
void cache_sweep(struct shelf *s, struct cache *c);

#endif
