/*
 * watch.c - see watch.h.
 */
#include "cmd/serve/watch.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "util/error.h"
#include "util/mem.h"

/* Seconds between two looks at the sources; one that is unchanged costs a stat.
 */
enum { FRESH_EVERY = 5 };

struct watch {
    struct watch_opts o;
    struct shelf *shelf;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    bool now, stop;
};

/* All zero: there is no file. */
static void look_at(const struct cache *c, struct file_id *out)
{
    memset(out, 0, sizeof *out);
    (void)file_stat(c->path, out, NULL);
}

void watch_begin(struct shelf *s)
{
    for (int i = 0; i < s->n; i++)
        look_at(s->cache[i], &s->cache[i]->seen);
}

/* Another file is there: check every byte of it, then have it opened. */
static void take_new(struct watch *w, struct cache *c)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st = cache_probe(w->shelf, c, true, &why);

    if (st && st != CAG_E_STALE) {
        w->o.say(c->id, "its file was replaced by one that cannot be used",
                 &why);
        return;
    }
    if (why.status == CAG_E_STALE)
        w->o.say(c->id, NULL, &why);
    cache_want_open(w->shelf, c, true);
    w->o.poke(w->o.ctx);
}

static void check_file(struct watch *w, struct cache *c)
{
    struct file_id now;

    look_at(c, &now);
    if (file_id_same(&now, &c->seen))
        return;
    c->seen = now;
    if (now.ino) {
        take_new(w, c);
    } else {
        cache_set_state(w->shelf, c, CACHE_GONE);
        w->o.say(c->id, "its file is gone", NULL);
    }
}

/* Have its sources changed, or are they again what they were? */
static void check_sources(struct watch *w, struct cache *c)
{
    struct cache_facts before, after;
    cag_error why = CAG_ERROR_INIT;

    cache_get_facts(w->shelf, c, &before);
    if (before.state != CACHE_READY && before.state != CACHE_STALE)
        return;
    cache_probe(w->shelf, c, false, &why);
    cache_get_facts(w->shelf, c, &after);
    if (after.state == CACHE_FAILED)
        w->o.say(c->id, "it cannot be used any more", &why);
    else if (after.is_stale && !before.is_stale)
        w->o.say(c->id, NULL, &why);
    else if (before.is_stale && !after.is_stale)
        w->o.say(c->id, "is fresh again", NULL);
}

static void look(struct watch *w, bool all)
{
    int n;

    if (all)
        shelf_look_again(w->shelf);
    n = shelf_count(w->shelf);
    for (int i = 0; i < n; i++) {
        check_file(w, w->shelf->cache[i]);
        if (all)
            check_sources(w, w->shelf->cache[i]);
    }
}

static void *run(void *ctx)
{
    struct watch *w = ctx;

    for (int n = 1;; n++) {
        struct timespec until;
        bool now, stop;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_mutex_lock(&w->lock);
        while (!w->now && !w->stop &&
               pthread_cond_timedwait(&w->work, &w->lock, &until) != ETIMEDOUT)
            ;
        now = w->now;
        stop = w->stop;
        w->now = false;
        pthread_mutex_unlock(&w->lock);
        if (stop)
            return NULL;
        look(w, now || n % FRESH_EVERY == 0);
        if (n % FRESH_EVERY == 0) /* sessions grow old */
            w->o.poke(w->o.ctx);
    }
}

cag_status watch_new(const struct watch_opts *o, struct shelf *shelf,
                     struct watch **out, cag_error *err)
{
    struct watch *w = mem_zalloc(sizeof *w);

    if (!w)
        return cag_fail_nomem(err, "watch");
    w->o = *o;
    w->shelf = shelf;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    if (pthread_create(&w->thread, NULL, run, w)) {
        pthread_mutex_destroy(&w->lock);
        pthread_cond_destroy(&w->work);
        mem_free(w);
        return cag_fail_nomem(err, "thread");
    }
    *out = w;
    return CAG_OK;
}

static void wake(struct watch *w, bool stop)
{
    pthread_mutex_lock(&w->lock);
    w->now = true;
    w->stop = w->stop || stop;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

void watch_now(struct watch *w)
{
    wake(w, false);
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    wake(w, true);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->work);
    mem_free(w);
}
