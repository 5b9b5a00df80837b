/*
 * cag-serve - answer questions from caches over HTTP.
 */
#include <cag/tool/text_file.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/cli/engine_opts.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"
#include "cmd/serve/listen.h"
#include "cmd/serve/server.h"
#include "cmd/serve/watch.h"

static const char *const stales[] = { "error", "warn", "ignore", NULL };
static const char *const systems[] = { "refuse", "prepend", NULL };
/* in the order of cag_support */
static const char *const supports[] = { "none", "weak", "strong", NULL };

static struct {
    const char *model, *keys, *log;
    struct engine_cli engine;
    struct opt_list listen, host, cors;
    int stale, system, require, parallel, max_queue, n_connection, idle,
        n_session, session_idle;
    int64_t n_predict, max_memory, max_body, session_memory;
    bool no_evidence;
} o = { .engine.precision = CAG_PRECISION_AUTO,
        .max_queue = 256,
        .n_connection = 1024,
        .idle = 60,
        .n_session = 64,
        .session_idle = 600,
        .session_memory = 1 << 30,
        .max_body = 1 << 20 };

static const opt_spec specs[] = {
    OPT_LIST(0, "listen", &o.listen, "ADDR:PORT",
             "or unix:PATH (127.0.0.1:8080); repeatable"),
    OPT_STR(0, "keys", &o.keys, "FILE", NULL, "who may ask which cache"),
    OPT_STR('m', "model", &o.model, "M", NULL,
            "the caches' model, if it moved (or CAG_MODEL)"),
    OPT_I64('n', "predict", &o.n_predict, 1, INT32_MAX, "N", NULL,
            "tokens of an answer, if a request does not say"),
    OPT_CHOICE(0, "stale", &o.stale, stales, NULL,
               "what to do when sources have changed"),
    OPT_CHOICE(0, "system", &o.system, systems, NULL,
               "a system message: refused, or put before the question"),
    OPT_CHOICE(0, "require-evidence", &o.require, supports, NULL,
               "refuse an answer with less support"),
    OPT_STR(0, "log", &o.log, "FILE", NULL,
            "append each request, with question and answer, as JSON"),
    OPT_MORE,
    OPT_LIST(0, "host", &o.host, "NAME",
             "a name of this server, in Host; repeatable"),
    OPT_LIST(0, "cors", &o.cors, "ORIGIN",
             "pages of ORIGIN may ask; repeatable"),
    OPT_FLAG(0, "no-evidence", &o.no_evidence,
             "no lines of the sources, unless a request asks"),
    OPT_INT('j', "parallel", &o.parallel, 1, 256, "N", NULL,
            "questions of a cache decoded together"),
    OPT_INT(0, "max-queue", &o.max_queue, 1, 65536, "N", NULL,
            "questions that wait; more are refused (429)"),
    OPT_INT(0, "max-connections", &o.n_connection, 1, 65536, "N", NULL,
            "connections that are open at a time"),
    OPT_SIZE(0, "max-body", &o.max_body, 1024, 1 << 30, "B", NULL,
             "bytes of a request"),
    OPT_INT(0, "idle", &o.idle, 1, 3600, "S", NULL,
            "seconds until a silent connection is closed"),
    OPT_INT(0, "sessions", &o.n_session, 0, 65536, "N", NULL,
            "conversations kept for their next turn"),
    OPT_SIZE(0, "session-memory", &o.session_memory, 0, INT64_MAX, "B", NULL,
             "their memory, at most"),
    OPT_INT(0, "session-idle", &o.session_idle, 1, 86400, "S", NULL,
            "seconds until one is given up"),
    OPT_ENGINE(&o.engine, engine_precision_auto),
    OPT_SIZE(0, "max-memory", &o.max_memory, 1, INT64_MAX, "B", NULL,
             "refuse to take more memory"),
    OPT_COMMON,
    OPT_END
};

static const char examples[] =
    "  cag-serve handbook.kvc\n"
    "  cag-serve --listen unix:/run/cag.sock --keys keys /srv/caches\n"
    "  curl -s localhost:8080/v1/models\n";

static const opt_usage usage = { "cag-serve",
                                 "[options] [NAME=]FILE.kvc|DIR...",
                                 "answer questions from caches over HTTP",
                                 examples,
                                 specs,
                                 "*.kvc",
                                 NULL };

static void show_defaults(void)
{
    opt_show(&o.model,
             places_get()->model ? "the cache's, or CAG_MODEL" : "the cache's");
    opt_show(&o.n_predict, "1024");
    opt_show(&o.parallel, "processors");
    opt_show(&o.max_memory, "no limit");
    engine_opts_show(&o.engine);
}

/* ------------------------------------------------------------------ caches */

/* What a cache says as it is opened; of questions, nothing. */
static void on_note(void *ctx, cag_note kind, const char *line)
{
    const bool *opening = ctx;

    if (*opening && kind == CAG_NOTE_WARN)
        ui_warn("%s", line);
    else if (*opening && kind == CAG_NOTE_INFO)
        ui_verbose(1, "%s", line);
}

/* One that is stale is opened all the same: it may become fresh again. */
static bool open_cache(struct shelf *shelf, struct cache *c, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st = cache_open(shelf, c, &why);

    if (!st)
        st = cache_probe(shelf, c, false, &why);
    if (st) {
        *err = why;
        ui_error(&why); /* the others are served all the same */
    } else if (why.status == CAG_E_STALE) {
        ui_warn("%s: %s", why.file, why.msg);
    }
    return !st;
}

static int open_caches(struct shelf *shelf, char **word, bool *opening)
{
    cag_error err = CAG_ERROR_INIT;
    int n_open = 0;

    for (; *word; word++)
        if (shelf_add(shelf, *word, &err))
            return ui_error(&err);
    if (!shelf->n)
        return ui_fail(CAG_E_MISSING, NULL, "there is no cache there");
    shelf->kb.model = o.model;
    shelf->stale = o.stale == 0   ? CAG_STALE_ERROR
                   : o.stale == 1 ? CAG_STALE_WARN
                                  : CAG_STALE_IGNORE;
    engine_opts_fill(&o.engine, &shelf->kb.engine);
    shelf->kb.engine.max_memory = (uint64_t)o.max_memory;
    shelf->kb.engine.max_host = (uint64_t)o.max_memory;
    shelf->kb.places = *places_get();
    shelf->kb.hooks = (cag_hooks){ .note = on_note, .ctx = opening };
    shelf->parallel = o.parallel;
    if (o.n_session && cag_kept_new(o.n_session, (uint64_t)o.session_memory,
                                    o.session_idle, &shelf->kept, &err))
        return ui_error(&err);
    watch_begin(shelf);
    for (int i = 0; i < shelf->n; i++)
        n_open += open_cache(shelf, shelf->cache[i], &err);
    *opening = false;
    return n_open ? UI_OK
                  : ui_fail(err.status, NULL, "no cache could be opened");
}

/* ----------------------------------------------------------------- sockets */

struct sockets {
    int fd[OPT_LIST_MAX + 16];
    int n;
    struct listen_made made[OPT_LIST_MAX]; /* the first n_made */
    int n_made;
};

static int open_sockets(struct sockets *s)
{
    static const char *const usual[] = { "127.0.0.1:8080" };
    cag_error err = CAG_ERROR_INIT;
    int first, given = places_listen_fds(&first);
    const char *const *where = o.listen.n ? o.listen.item : usual;
    int n = o.listen.n ? o.listen.n : given ? 0 : 1;

    if (given > 16)
        return ui_fail(CAG_E_LIMIT, NULL, "LISTEN_FDS is %d, at most 16",
                       given);
    for (int i = 0; i < n; i++) {
        if (listen_open(where[i], &s->made[i], &err))
            return ui_error(&err);
        s->fd[s->n++] = s->made[i].fd;
        s->n_made++;
    }
    for (int i = 0; i < given; i++) {
        if (!listen_is_socket(first + i))
            return ui_fail(CAG_E_USAGE, NULL,
                           "LISTEN_FDS is %d, but descriptor %d is no socket "
                           "that listens",
                           given, first + i);
        s->fd[s->n++] = first + i;
    }
    for (int i = 0; i < s->n && !o.keys; i++) {
        char name[LISTEN_TEXT];

        if (!listen_is_local(s->fd[i]))
            return ui_fail(CAG_E_USAGE, NULL,
                           "%s can be reached from other machines: --keys "
                           "must say who may ask (or listen on 127.0.0.1 or "
                           "unix:PATH)",
                           listen_name(s->fd[i], name));
    }
    return UI_OK;
}

static int accept_all(struct server *s, struct sockets *sockets)
{
    cag_error err = CAG_ERROR_INIT;

    for (int i = 0; i < sockets->n; i++) {
        char name[LISTEN_TEXT];

        listen_name(sockets->fd[i], name);
        if (http_accept(s->http, sockets->fd[i], &err))
            return ui_error(&err);
        ui_note("listening on %s", name);
    }
    return UI_OK;
}

/* Connections need descriptors. */
static void allow_descriptors(void)
{
    struct rlimit r;
    rlim_t want = (rlim_t)o.n_connection + 128;

    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= want)
        return;
    r.rlim_cur = want < r.rlim_max ? want : r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < want) {
        ui_warn("the system allows %llu descriptors: at most %llu connections",
                (unsigned long long)r.rlim_cur,
                (unsigned long long)r.rlim_cur - 128);
        o.n_connection = (int)r.rlim_cur - 128;
    }
}

/* -------------------------------------------------------------------- life */

static void on_end(void *ctx, int sig)
{
    struct server *s = ctx;

    if (s->draining) /* the second one does not wait */
        _exit(128 + sig);
    s->draining = true;
    ui_note("ending: answers that have begun are finished");
    http_quit(s->http);
}

static void wake(void *ctx)
{
    const struct server *s = ctx;

    http_call(s->http);
}

static void poke(void *ctx)
{
    const struct server *s = ctx;

    sched_poke(s->sched);
}

static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER;

/* What becomes of a cache, for who runs this: three threads say it.  An error
 * may say it all: what is NULL. */
static void say(const char *cache, const char *what, const cag_error *err)
{
    pthread_mutex_lock(&say_lock);
    if (err)
        ui_warn("%s: %s%s%s%s%s", cache, what ? what : "", what ? ": " : "",
                err->file, err->file[0] ? ": " : "", err->msg);
    else
        ui_note("%s: %s", cache, what);
    pthread_mutex_unlock(&say_lock);
}

static void log_lost(const char *why)
{
    pthread_mutex_lock(&say_lock);
    ui_warn("%s: cannot write the log: %s; requests are missing there", o.log,
            why);
    pthread_mutex_unlock(&say_lock);
}

static void open_log_again(struct server *s)
{
    cag_error err = CAG_ERROR_INIT;
    int fd;

    if (!cag_open_output(o.log, true, true, &fd, &err)) {
        close(s->log);
        s->log = fd;
        s->log_failed = false;
        return;
    }
    pthread_mutex_lock(&say_lock);
    ui_warn("%s: %s; the old one stays open", o.log, err.msg);
    pthread_mutex_unlock(&say_lock);
}

static void on_hangup(void *ctx, int sig)
{
    struct server *s = ctx;
    cag_error err = CAG_ERROR_INIT;

    (void)sig;
    if (access_read_keys(s, &err))
        say("keys", "the old ones stay", &err);
    else if (s->keys_file)
        say("keys", "read again", NULL);
    if (s->log >= 0)
        open_log_again(s);
    watch_now(s->watch);
}

static int set_up(struct server *s, struct sockets *sockets)
{
    const struct http_limits limits = { .header_bytes = 16384,
                                        .body_bytes = (size_t)o.max_body,
                                        .n_connection = o.n_connection,
                                        .quiet_s = o.idle < 8 ? 1 : o.idle / 4,
                                        .idle_s = o.idle };
    const struct sched_opts sched = {
        .max_queue = o.max_queue, .wake = wake, .say = say, .ctx = s
    };
    const struct watch_opts watch = { .say = say, .poke = poke, .ctx = s };
    cag_error err = CAG_ERROR_INIT;
    cag_status st = http_new(&limits, server_request, s, &s->http, &err);

    if (!st)
        st = http_on_signal(s->http, SIGTERM, on_end, s, &err);
    if (!st)
        st = http_on_signal(s->http, SIGINT, on_end, s, &err);
    if (!st)
        st = http_on_signal(s->http, SIGHUP, on_hangup, s, &err);
    if (!st)
        st = sched_new(&sched, s->shelf, &s->sched, &err);
    if (!st)
        st = watch_new(&watch, s->shelf, &s->watch, &err);
    if (st)
        return ui_error(&err);
    http_on_call(s->http, answer_news, s);
    http_on_refused(s->http, server_refused, s);
    return accept_all(s, sockets);
}

static int serve(struct server *s, char **word)
{
    struct sockets sockets = { .n = 0 };
    cag_error err = CAG_ERROR_INIT;
    bool opening = true;
    int status = UI_OK;

    if (access_read_keys(s, &err))
        status = ui_error(&err);
    if (o.log && !status) {
        /* its owner's alone: questions are in it */
        if (cag_open_output(o.log, true, true, &s->log, &err))
            status = ui_error(&err);
    }
    if (!status)
        status = open_sockets(&sockets);
    if (!status)
        status = open_caches(s->shelf, word, &opening);
    if (!status)
        status = set_up(s, &sockets);
    if (!status)
        http_run(s->http);
    watch_free(s->watch);
    sched_stop(s->sched);
    for (int i = 0; i < sockets.n_made; i++)
        listen_remove(&sockets.made[i]);
    http_free(s->http);
    sched_free(s->sched);
    keys_release(&s->keys);
    if (s->log >= 0 && close(s->log) && !status)
        status = ui_fail(CAG_E_IO, o.log, "%s", strerror(errno));
    return status;
}

int main(int argc, char **argv)
{
    char **word = opt_parse(&usage, argc, argv, 1);
    struct shelf shelf;
    struct server s = { .shelf = &shelf, .log = -1 };
    cag_error err = CAG_ERROR_INIT;
    int status;

    if (opt_wants_config()) {
        show_defaults();
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    signal(SIGPIPE, SIG_IGN); /* a client that left */
    cut_start();
    allow_descriptors();
    /* an ended session's memory goes back to the system: without this, malloc
     * raises its bound at the first such block and keeps those that follow */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    s.defaults = (struct api_defaults){ .system = (enum api_system)o.system,
                                        .max_tok = o.n_predict ? o.n_predict
                                                               : API_N_PREDICT,
                                        .end_loops = !o.n_predict,
                                        .evidence = !o.no_evidence,
                                        .require = (cag_support)o.require };
    s.log_lost = log_lost;
    s.keys_file = o.keys;
    s.host = o.host.item;
    s.n_host = o.host.n;
    s.origin = o.cors.item;
    s.n_origin = o.cors.n;
    if (shelf_init(&shelf, &err))
        status = ui_error(&err);
    else
        status = serve(&s, word);
    shelf_release(&shelf);
    return ui_close_stdout(status);
}
