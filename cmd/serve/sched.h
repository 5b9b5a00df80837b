/*
 * sched.h - the thread that answers: it steps the questions of all caches.
 *
 * Questions wait in one bounded queue.  When a cache has room, the next one is
 * of the key that has the fewest running, the oldest of it; it joins those that
 * are being decoded.  Only this thread touches a cag_kb.
 */
#ifndef CMD_SERVE_SCHED_H
#define CMD_SERVE_SCHED_H

#include <cag/ask.h>
#include <cag/tool/crew.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cmd/serve/api.h"
#include "cmd/serve/cache.h"

struct sched;

/* A question on its way: the loop makes it, hands it over with sched_submit,
 * gets it back from sched_news as often as there is news, and frees it when it
 * is done. */
struct ask {
    struct api_request req;
    struct cache *cache;
    char *key;        /* id of who asks, "" without keys           */
    void *ctx;        /* the loop's                                */
    atomic_bool gone; /* nobody waits for the answer any more      */

    /* the loop's, after sched_news: */
    struct buf text; /* of the answer, since the last news        */
    bool done;
    cag_answer answer; /* if done and no error                      */
    cag_error error;
    jv *row; /* the answer as cag-ask --json has it       */

    struct ask_run *run; /* the scheduler's */
};
/* NULL is allowed; not between sched_submit and done. */
void ask_free(struct ask *a);

struct sched_opts {
    int max_queue; /* waiting, of all caches                           */
    void (*wake)(void *ctx); /* there is news; called in the thread    */
    /* what became of a cache, for the operator; err may be NULL */
    void (*say)(const char *cache, const char *what, const cag_error *err);
    void *ctx;
};

/* Counters since the start, and what is now. */
struct sched_figures {
    int64_t n_answered, n_cached, n_prompt, n_generated; /* questions; tokens */
    int64_t n_failed, n_cancelled;
    double first_s; /* sum over answers: from being asked to the first token */
    int n_waiting, n_running;
    int n_session; /* kept for the next turn; tokens not read again */
    uint64_t session_bytes;
    int64_t n_reused;
};

cag_status sched_new(const struct sched_opts *o, struct shelf *shelf,
                     struct sched **out, cag_error *err);
/* sched_stop, then free all. */
void sched_free(struct sched *s);
/* false: the queue is full. */
bool sched_submit(struct sched *s, struct ask *a);
/* The next with news, or NULL. */
struct ask *sched_news(struct sched *s);
/* The client of a is gone. */
void sched_forget(struct sched *s, struct ask *a);
/* A cache is to be opened (cache_want_open). */
void sched_poke(struct sched *s);
void sched_get_figures(struct sched *s, struct sched_figures *out);
/* Answer what is there, then end the thread; waits for that. */
void sched_stop(struct sched *s);

#endif
