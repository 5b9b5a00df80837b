/*
 * cache.h - the caches that are served, by id.
 *
 * A cache has a public side, which any thread reads under the shelf's lock, and
 * an open kb, which is the scheduler's alone.
 */
#ifndef CMD_SERVE_CACHE_H
#define CMD_SERVE_CACHE_H

#include <cag/ask.h>
#include <cag/tool/crew.h>
#include <pthread.h>
#include <stdbool.h>

enum cache_state { CACHE_READY, CACHE_STALE, CACHE_FAILED };

/* What clients are told of a cache. */
struct cache_facts {
    enum cache_state state;
    int64_t created; /* of the file, seconds since 1970 */
    int64_t n_tok, n_ctx;
    char content_id[65], model[128], codec[16];
};

/* An open cache, while questions of it run. */
struct cache_open {
    cag_kb *kb;
    cag_crew *crew;
    int n_running;
    bool alone;              /* one runs that others must not join */
    struct cache_open *next; /* replaced, but not yet done */
};

struct cache {
    char *id, *path;
    struct cache_facts facts;  /* under the lock */
    struct cache_open *open;   /* NULL: it could not be opened */
    struct cache_open *before; /* replaced ones with running questions */
};

struct shelf {
    pthread_mutex_t lock; /* of facts, and of the list */
    struct cache **cache; /* [n] in the order they were named */
    int n;
    cag_kb_opts kb;
    int parallel;
};

void shelf_init(struct shelf *s);
void shelf_release(struct shelf *s);
/*
 * Name the caches that words stand for: files, NAME=FILE, or directories with
 * *.kvc.  Errors: CAG_E_MISSING, CAG_E_USAGE (two of one name), CAG_E_NOMEM.
 */
cag_status shelf_add(struct shelf *s, const char *word, cag_error *err);
struct cache *shelf_find(struct shelf *s, const char *id);
void cache_get_facts(struct shelf *s, const struct cache *c,
                     struct cache_facts *out);
const char *cache_state_name(enum cache_state st);

/* Open c and put it in the place of what is open: the scheduler's, or before
 * there is one.  After an error nothing is open, and facts say so. */
cag_status cache_open(struct shelf *s, struct cache *c, cag_error *err);
/* It cannot be used any more. */
void cache_fail(struct shelf *s, struct cache *c, const cag_error *why);
/* Free what was replaced and has no questions left. */
void cache_sweep(struct cache *c);

#endif
