/*
 * sched.c - see sched.h.
 *
 * An answer depends on nothing but cache, question and parameters, so a
 * question may be asked again from its begin without its client noticing: what
 * was given out already is not given out twice.  That is used when a step
 * fails over one question (a K or V beyond what f16 holds): all that ran are
 * asked again, one at a time, and only the one whose fault it is fails.
 */
#include "cmd/serve/sched.h"

#include <string.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

/* The scheduler's part of a question. */
struct ask_run {
    struct sched *s;
    struct ask *ask;
    struct ask_run *next; /* in the list it is in: waiting, running    */
    struct ask_run *next_told;
    bool told; /* under the lock: in the list of news       */
    struct buf text;
    struct buf held; /* of the step that is under way: may be of no worth   */
    bool lost;       /* memory was short: the rest is given out at the end  */
    bool done;
    struct cache_open *open;
    cag_member *member;
    cag_question q;
    size_t n_given, n_skip; /* bytes of text: ever; of them in a run before */
    bool alone;
    double asked_s;
};

struct list {
    struct ask_run *first, **last;
};

struct sched {
    struct sched_opts o;
    struct shelf *shelf;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of all up to running */
    pthread_cond_t work;
    struct list waiting;
    struct ask_run *told, **told_last;
    struct sched_figures figures;
    bool stop, poked;
    struct list running; /* the thread's */
};

/* ------------------------------------------------------------------- lists */

static void list_init(struct list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

static void list_add(struct list *l, struct ask_run *r)
{
    r->next = NULL;
    *l->last = r;
    l->last = &r->next;
}

/* Take out *at, which is in l. */
static struct ask_run *list_take(struct list *l, struct ask_run **at)
{
    struct ask_run *r = *at;

    *at = r->next;
    if (!r->next)
        l->last = at;
    r->next = NULL;
    return r;
}

/* -------------------------------------------------------------------- news */

/* Under the lock. */
static void tell(struct ask_run *r)
{
    struct sched *s = r->s;

    if (r->told)
        return;
    r->told = true;
    r->next_told = NULL;
    *s->told_last = r;
    s->told_last = &r->next_told;
}

struct ask *sched_news(struct sched *s)
{
    struct ask *a = NULL;
    struct ask_run *r;

    pthread_mutex_lock(&s->lock);
    r = s->told;
    if (r) {
        a = r->ask;
        s->told = r->next_told;
        if (!s->told)
            s->told_last = &s->told;
        r->told = false;
        buf_free(&a->text);
        a->text = r->text;
        r->text = (struct buf)BUF_INIT;
        a->done = r->done;
    }
    pthread_mutex_unlock(&s->lock);
    return a;
}

static bool on_text(void *ctx, const char *text, size_t n)
{
    struct ask_run *r = ctx;
    size_t skip = n < r->n_skip ? n : r->n_skip;

    r->n_skip -= skip;
    if (n > skip && r->ask->req.stream)
        buf_add(&r->held, text + skip, n - skip);
    return true;
}

/* What came of a step of o that went well is given out. */
static void give_out(struct sched *s, const struct cache_open *o)
{
    pthread_mutex_lock(&s->lock);
    for (struct ask_run *r = s->running.first; r; r = r->next) {
        if (r->open != o || (!r->held.size && !buf_failed(&r->held)))
            continue;
        r->lost = r->lost || buf_failed(&r->held);
        if (!r->lost) {
            buf_add(&r->text, r->held.data, r->held.size);
            r->lost = buf_failed(&r->text);
        }
        if (!r->lost) {
            r->n_given += r->held.size;
            tell(r);
        }
        buf_clear(&r->held);
    }
    pthread_mutex_unlock(&s->lock);
}

/* The ask is the loop's again; r is in no list. */
static void finish(struct sched *s, struct ask_run *r)
{
    const struct ask *a = r->ask;
    cag_status st = a->error.status;

    pthread_mutex_lock(&s->lock);
    if (st == CAG_E_CANCELLED) {
        s->figures.n_cancelled++;
    } else if (st) {
        s->figures.n_failed++;
    } else {
        s->figures.n_answered++;
        s->figures.n_cached += a->answer.n_cached;
        s->figures.n_prompt += a->answer.n_prompt;
        s->figures.n_generated += a->answer.n_generated;
        s->figures.first_s += clock_s() - r->asked_s - a->answer.decode_s;
    }
    r->done = true;
    tell(r);
    pthread_mutex_unlock(&s->lock);
}

/* -------------------------------------------------------------------- runs */

static void set_running(struct sched *s, struct cache_open *o, int more)
{
    o->n_running += more;
    pthread_mutex_lock(&s->lock);
    s->figures.n_running += more;
    pthread_mutex_unlock(&s->lock);
}

/* The answer as cag-ask --json prints it. */
static cag_status take_row(struct ask_run *r, cag_error *err)
{
    struct ask *a = r->ask;
    char *row = cag_answer_json(r->open->kb, &a->answer, r->q.text, r->q.size,
                                NULL, &a->req.params);
    cag_status st = row ? jv_parse(row, strlen(row), NULL, &a->row, err)
                        : cag_fail_nomem(err, "answer");

    cag_free(row);
    return st;
}

/* It ends, done or not; it is in no list. */
static void leave(struct sched *s, struct ask_run *r, bool again)
{
    struct ask *a = r->ask;
    cag_error why = CAG_ERROR_INIT;
    cag_status st = cag_crew_leave(r->open->crew, r->member, &a->answer, &why);

    r->member = NULL;
    buf_free(&r->held);
    if (!st)
        st = take_row(r, &why);
    if (cut_found(&r->open->cut)) {
        cag_answer_release(&a->answer);
        jv_free(a->row);
        a->row = NULL;
        st = cut_fail(a->cache->path, &why);
    }
    if (r->alone)
        r->open->alone = false;
    set_running(s, r->open, -1);
    r->open = NULL;
    cache_sweep(s->shelf, a->cache);
    if (again) {
        cag_answer_release(&a->answer);
        return;
    }
    if (!a->error.status && st)
        a->error = why;
    finish(s, r);
}

/* What the crew returned ends all that run in it. */
static void fail_open(struct sched *s, struct cache *c, struct cache_open *o,
                      const cag_error *why)
{
    bool again = why->status == CAG_E_UNSUPPORTED && o->n_running > 1;
    struct list rest;

    list_init(&rest);
    while (s->running.first) {
        struct ask_run *r = list_take(&s->running, &s->running.first);

        if (r->open != o) {
            list_add(&rest, r);
            continue;
        }
        bool done = cag_member_done(r->member);
        if (!done && !again)
            r->ask->error = *why;
        leave(s, r, again && !done);
        if (again && !done) {
            r->alone = true;
            r->n_skip = r->n_given;
            r->n_given = 0;
            pthread_mutex_lock(&s->lock);
            list_add(&s->waiting, r);
            s->figures.n_waiting++;
            pthread_mutex_unlock(&s->lock);
        }
    }
    s->running = rest;
    if (!rest.first)
        s->running.last = &s->running.first;
    bool usable =
        why->status == CAG_E_UNSUPPORTED || why->status == CAG_E_NOMEM;
    if (!usable)
        s->o.say(c->id, "it cannot be used any more", why);
    if (c->open != o)
        return;
    /* a question's fault leaves the cache as it is, but a crew has ended */
    cag_crew_free(o->crew);
    o->crew = NULL;
    cag_error err = CAG_ERROR_INIT;
    if (!usable) {
        cache_fail(s->shelf, c);
    } else if (cag_crew_new(o->kb, s->shelf->parallel, &o->crew, &err)) {
        s->o.say(c->id, "it cannot be used any more", &err);
        cache_fail(s->shelf, c);
    } else if (s->shelf->kept) {
        cag_crew_keep(o->crew, s->shelf->kept);
    }
}

/* Nothing is to be believed of a cache of which a page is gone. */
static bool check_cut(struct sched *s, struct cache *c, struct cache_open *o)
{
    cag_error why = CAG_ERROR_INIT;

    if (!cut_found(&o->cut))
        return true;
    cut_fail(c->path, &why);
    fail_open(s, c, o, &why);
    return false;
}

/* Begin to answer; r is in no list. */
static void start(struct sched *s, struct ask_run *r)
{
    struct ask *a = r->ask;
    struct cache_open *o = a->cache->open;
    struct buf turns = BUF_INIT;
    cag_chat *chat = NULL;
    cag_error why = CAG_ERROR_INIT;
    cag_status st = CAG_OK;

    r->q = (cag_question){ .text = a->req.question.data,
                           .size = a->req.question.size,
                           .params = &a->req.params };
    if (a->req.earlier) {
        jv_dump(a->req.earlier, &turns);
        st = buf_failed(&turns) ? cag_fail_nomem(&why, "conversation")
                                : cag_chat_new(o->kb, &chat, &why);
        if (!st)
            st = cag_chat_load(chat, turns.data, turns.size, NULL, &why);
    }
    if (st) {
        a->error = why;
        finish(s, r);
    } else {
        st = cag_crew_join(o->crew, chat, &r->q, a->key, on_text, r, &r->member,
                           &why);
        if (st) {
            a->error = why;
            finish(s, r);
            fail_open(s, a->cache, o, &why);
        } else {
            r->open = o;
            o->alone = r->alone;
            set_running(s, o, 1);
            list_add(&s->running, r);
            check_cut(s, a->cache, o);
        }
    }
    cag_chat_free(chat);
    buf_free(&turns);
}

/* --------------------------------------------------------------- the queue */

static int n_running_of(const struct sched *s, const char *key)
{
    int n = 0;

    for (const struct ask_run *r = s->running.first; r; r = r->next)
        n += !strcmp(r->ask->key, key);
    return n;
}

static bool can_start(const struct ask_run *r)
{
    const struct cache_open *o = r->ask->cache->open;

    if (!o || atomic_load(&r->ask->gone))
        return true; /* to be told so */
    return !o->alone && (!r->alone || !o->n_running) &&
           cag_crew_has_room(o->crew);
}

/* The next that can start, taken out; under the lock.  NULL: none. */
static struct ask_run *next_waiting(struct sched *s)
{
    struct ask_run **best = NULL;
    int least = 0;

    for (struct ask_run **at = &s->waiting.first; *at; at = &(*at)->next) {
        int n;

        if (!can_start(*at))
            continue;
        n = n_running_of(s, (*at)->ask->key);
        if (!best || n < least) {
            best = at;
            least = n;
        }
        if (!n)
            break; /* nobody has fewer */
    }
    if (!best)
        return NULL;
    s->figures.n_waiting--;
    return list_take(&s->waiting, best);
}

static void admit(struct sched *s)
{
    for (;;) {
        struct ask_run *r;
        struct ask *a;

        pthread_mutex_lock(&s->lock);
        r = next_waiting(s);
        pthread_mutex_unlock(&s->lock);
        if (!r)
            return;
        a = r->ask;
        if (atomic_load(&a->gone))
            cag_fail(&a->error, CAG_E_CANCELLED, NULL, -1, "cancelled");
        else if (!a->cache->open)
            cag_fail(&a->error, CAG_E_CORRUPT, NULL, -1,
                     "the cache cannot be used");
        if (a->error.status)
            finish(s, r);
        else
            start(s, r);
    }
}

static void step_open(struct sched *s, struct cache *c, struct cache_open *o)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (!o || !o->n_running)
        return;
    st = cag_crew_step(o->crew, &why);
    if (!check_cut(s, c, o))
        return;
    if (st)
        fail_open(s, c, o, &why);
    else
        give_out(s, o);
}

/* A step of all that run. */
static void step(struct sched *s)
{
    int n = shelf_count(s->shelf);

    for (int i = 0; i < n; i++) {
        struct cache *c = s->shelf->cache[i];

        step_open(s, c, c->open);
        for (struct cache_open *o = c->before, *next; o; o = next) {
            next = o->next;
            step_open(s, c, o);
        }
    }
}

/* Those that are done, or whose client left. */
static void collect(struct sched *s)
{
    struct ask_run **at = &s->running.first;

    while (*at) {
        if (cag_member_done((*at)->member) || atomic_load(&(*at)->ask->gone)) {
            struct ask_run *r = list_take(&s->running, at);

            leave(s, r, false);
        } else {
            at = &(*at)->next;
        }
    }
}

/* Files that were replaced: what runs on the old ones ends there. */
static void open_new(struct sched *s)
{
    int n = shelf_count(s->shelf);

    for (int i = 0; i < n; i++) {
        struct cache *c = s->shelf->cache[i];
        cag_error why = CAG_ERROR_INIT;

        if (!cache_want_open(s->shelf, c, false))
            continue;
        if (cache_open(s->shelf, c, &why))
            s->o.say(c->id, "cannot be opened", &why);
        else
            s->o.say(c->id, "its new file is open", NULL);
    }
}

static void *run(void *ctx)
{
    struct sched *s = ctx;

    for (;;) {
        bool news, poked;

        pthread_mutex_lock(&s->lock);
        while (!s->running.first && !s->waiting.first && !s->stop && !s->poked)
            pthread_cond_wait(&s->work, &s->lock);
        if (!s->running.first && !s->waiting.first && s->stop) {
            pthread_mutex_unlock(&s->lock);
            return NULL;
        }
        poked = s->poked;
        s->poked = false;
        pthread_mutex_unlock(&s->lock);
        if (poked)
            open_new(s);
        if (poked && s->shelf->kept)
            cag_kept_expire(s->shelf->kept);
        admit(s);
        step(s);
        collect(s);
        pthread_mutex_lock(&s->lock);
        if (s->shelf->kept)
            cag_kept_figures(s->shelf->kept, &s->figures.n_session,
                             &s->figures.session_bytes, &s->figures.n_reused);
        news = s->told != NULL;
        pthread_mutex_unlock(&s->lock);
        if (news)
            s->o.wake(s->o.ctx);
    }
}

/* ---------------------------------------------------------- for the others */

cag_status sched_new(const struct sched_opts *o, struct shelf *shelf,
                     struct sched **out, cag_error *err)
{
    struct sched *s = mem_zalloc(sizeof *s);

    if (!s)
        return cag_fail_nomem(err, "scheduler");
    s->o = *o;
    s->shelf = shelf;
    list_init(&s->waiting);
    list_init(&s->running);
    s->told_last = &s->told;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    if (pthread_create(&s->thread, NULL, run, s)) {
        sched_free(s);
        return cag_fail_nomem(err, "thread");
    }
    s->started = true;
    *out = s;
    return CAG_OK;
}

bool sched_submit(struct sched *s, struct ask *a)
{
    struct ask_run *r = mem_zalloc(sizeof *r);
    bool ok;

    if (!r)
        return false;
    r->s = s;
    r->ask = a;
    r->asked_s = clock_s();
    pthread_mutex_lock(&s->lock);
    ok = !s->stop && s->figures.n_waiting < s->o.max_queue;
    if (ok) {
        a->run = r;
        list_add(&s->waiting, r);
        s->figures.n_waiting++;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    if (!ok)
        mem_free(r);
    return ok;
}

void sched_forget(struct sched *s, struct ask *a)
{
    struct ask_run **at;

    atomic_store(&a->gone, true);
    pthread_mutex_lock(&s->lock);
    for (at = &s->waiting.first; *at && *at != a->run;)
        at = &(*at)->next;
    if (*at) { /* its place in the queue is free at once */
        struct ask_run *r = list_take(&s->waiting, at);

        s->figures.n_waiting--;
        s->figures.n_cancelled++;
        cag_fail(&a->error, CAG_E_CANCELLED, NULL, -1, "cancelled");
        r->done = true;
        tell(r);
        s->o.wake(s->o.ctx);
    }
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void sched_poke(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->poked = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void sched_get_figures(struct sched *s, struct sched_figures *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->figures;
    pthread_mutex_unlock(&s->lock);
}

void sched_stop(struct sched *s)
{
    if (!s || !s->started)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->started = false;
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    sched_stop(s);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    mem_free(s);
}

void ask_free(struct ask *a)
{
    if (!a)
        return;
    if (a->run) {
        buf_free(&a->run->text);
        mem_free(a->run);
    }
    api_release(&a->req);
    buf_free(&a->text);
    cag_answer_release(&a->answer);
    jv_free(a->row);
    mem_free(a->key);
    mem_free(a);
}
