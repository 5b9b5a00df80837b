/*
 * cache.c - see cache.h.
 */
#include "cmd/serve/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/mem.h"
#include "util/text.h"

#define SUFFIX ".kvc"

cag_status shelf_init(struct shelf *s, cag_error *err)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    cag_kb_opts_init(&s->kb);
    s->cache = mem_alloc_array(SHELF_MAX, sizeof *s->cache);
    s->dir = mem_alloc_array(SHELF_MAX, sizeof *s->dir);
    return s->cache && s->dir ? CAG_OK : cag_fail_nomem(err, "caches");
}

static void open_free(struct shelf *s, struct cache_open *o)
{
    if (!o)
        return;
    cag_crew_free(o->crew);
    if (s->kept && o->kb)
        cag_kept_forget(s->kept, o->kb);
    cag_kb_close(o->kb);
    mem_free(o);
}

static void cache_free(struct shelf *s, struct cache *c)
{
    if (!c)
        return;
    open_free(s, c->open);
    while (c->before) {
        struct cache_open *next = c->before->next;

        open_free(s, c->before);
        c->before = next;
    }
    mem_free(c->id);
    mem_free(c->path);
    mem_free(c);
}

void shelf_release(struct shelf *s)
{
    for (int i = 0; i < s->n; i++)
        cache_free(s, s->cache[i]);
    for (int i = 0; i < s->n_dir; i++)
        mem_free(s->dir[i]);
    cag_kept_free(s->kept);
    mem_free(s->cache);
    mem_free(s->dir);
    pthread_mutex_destroy(&s->lock);
    memset(s, 0, sizeof *s);
}

/* ------------------------------------------------------------------- names */

static struct cache *find(struct shelf *s, const char *id, size_t n)
{
    for (int i = 0; i < s->n; i++)
        if (strlen(s->cache[i]->id) == n && !memcmp(s->cache[i]->id, id, n))
            return s->cache[i];
    return NULL;
}

/* May a cache of that name be added?  CAG_E_LOCKED: it is there already. */
static cag_status check_name(struct shelf *s, const char *id, size_t n_id,
                             const char *path, cag_error *err)
{
    const struct cache *same = find(s, id, n_id);

    if (same && !strcmp(same->path, path))
        return CAG_E_LOCKED;
    if (same)
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "another cache is called '%s', too (%s); name one of "
                        "them: NAME=FILE",
                        same->id, same->path);
    if (!n_id || !utf8_valid(id, n_id, NULL))
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "its name is not UTF-8; name it: NAME=FILE");
    if (s->n == SHELF_MAX)
        return cag_fail(err, CAG_E_LIMIT, path, -1, "more than %d caches",
                        SHELF_MAX);
    return CAG_OK;
}

static cag_status add(struct shelf *s, const char *id, size_t n_id,
                      const char *path, cag_error *err)
{
    cag_status st = check_name(s, id, n_id, path, err);
    struct cache *c = st ? NULL : mem_zalloc(sizeof *c);

    if (st)
        return st == CAG_E_LOCKED ? CAG_OK : st;
    if (c) {
        c->id = mem_strndup(id, n_id);
        c->path = mem_strdup(path);
        c->facts.state = CACHE_FAILED;
    }
    if (!c || !c->id || !c->path) {
        cache_free(s, c);
        return cag_fail_nomem(err, "caches");
    }
    pthread_mutex_lock(&s->lock);
    s->cache[s->n++] = c;
    pthread_mutex_unlock(&s->lock);
    return CAG_OK;
}

/* The file's name without directory and suffix. */
static cag_status add_file(struct shelf *s, const char *path, cag_error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name), suffix = sizeof SUFFIX - 1;

    if (n > suffix && !strcmp(name + n - suffix, SUFFIX))
        n -= suffix;
    return add(s, name, n, path, err);
}

static int is_cache_name(const struct dirent *d)
{
    size_t n = strlen(d->d_name), suffix = sizeof SUFFIX - 1;

    return d->d_name[0] != '.' && n > suffix &&
           !strcmp(d->d_name + n - suffix, SUFFIX);
}

/* DIR/NAME. */
static cag_status add_entry(struct shelf *s, const char *dir, const char *name,
                            cag_error *err)
{
    char *path = file_join(dir, name);
    cag_status st;

    if (!path)
        return cag_fail_nomem(err, "caches");
    st = add_file(s, path, err);
    mem_free(path);
    return st;
}

static cag_status add_entries(struct shelf *s, const char *dir, bool go_on,
                              cag_error *err)
{
    struct dirent **entry;
    int n = scandir(dir, &entry, is_cache_name, alphasort);
    cag_status st = CAG_OK;

    if (n < 0)
        return cag_fail(err, CAG_E_MISSING, dir, -1, "%s", strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!st || go_on)
            st = add_entry(s, dir, entry[i]->d_name, err);
        free(entry[i]); /* scandir's */
    }
    free(entry);
    return go_on ? CAG_OK : st;
}

static cag_status add_directory(struct shelf *s, const char *dir,
                                cag_error *err)
{
    if (s->n_dir == SHELF_MAX)
        return cag_fail(err, CAG_E_LIMIT, dir, -1, "too many directories");
    s->dir[s->n_dir] = mem_strdup(dir);
    if (!s->dir[s->n_dir])
        return cag_fail_nomem(err, "caches");
    return add_entries(s, s->dir[s->n_dir++], false, err);
}

bool shelf_look_again(struct shelf *s)
{
    int before = s->n; /* this thread alone adds */

    for (int i = 0; i < s->n_dir; i++)
        add_entries(s, s->dir[i], true, NULL);
    return s->n > before;
}

cag_status shelf_add(struct shelf *s, const char *word, cag_error *err)
{
    const char *equals = strchr(word, '=');
    struct stat is;

    if (!stat(word, &is))
        return S_ISDIR(is.st_mode) ? add_directory(s, word, err)
                                   : add_file(s, word, err);
    if (equals && equals != word && !stat(equals + 1, &is) &&
        !S_ISDIR(is.st_mode))
        return add(s, word, (size_t)(equals - word), equals + 1, err);
    return cag_fail(err, CAG_E_MISSING, word, -1, "%s", strerror(errno));
}

int shelf_count(struct shelf *s)
{
    int n;

    pthread_mutex_lock(&s->lock);
    n = s->n;
    pthread_mutex_unlock(&s->lock);
    return n;
}

struct cache *shelf_find(struct shelf *s, const char *id)
{
    struct cache *found;

    pthread_mutex_lock(&s->lock);
    found = find(s, id, strlen(id));
    if (found && found->facts.state == CACHE_GONE)
        found = NULL;
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* ------------------------------------------------------------------ states */

const char *cache_state_name(enum cache_state st)
{
    static const char *const name[] = { "ready", "stale", "failed", "gone" };

    return name[st];
}

void cache_get_facts(struct shelf *s, const struct cache *c,
                     struct cache_facts *out)
{
    pthread_mutex_lock(&s->lock);
    *out = c->facts;
    pthread_mutex_unlock(&s->lock);
}

void cache_set_state(struct shelf *s, struct cache *c, enum cache_state state)
{
    pthread_mutex_lock(&s->lock);
    c->facts.state = state;
    pthread_mutex_unlock(&s->lock);
}

bool cache_want_open(struct shelf *s, struct cache *c, bool on)
{
    bool was;

    pthread_mutex_lock(&s->lock);
    was = c->want_open;
    c->want_open = on;
    pthread_mutex_unlock(&s->lock);
    return was;
}

static void set_facts(struct shelf *s, struct cache *c, const cag_kb *kb)
{
    const cag_kvc_info *i = cag_kvc_get_info(cag_kb_get_kvc(kb));
    struct cache_facts f = { .state = CACHE_READY,
                             .n_tok = i->n_tok,
                             .n_ctx = cag_kb_n_ctx(kb) };
    struct stat is;

    if (!stat(c->path, &is))
        f.created = is.st_mtime;
    snprintf(f.content_id, sizeof f.content_id, "%s", i->content_id);
    snprintf(f.model, sizeof f.model, "%s", i->model_name ? i->model_name : "");
    f.model[utf8_complete(f.model, strlen(f.model))] = '\0';
    snprintf(f.codec, sizeof f.codec, "%s", i->codec);
    pthread_mutex_lock(&s->lock);
    f.is_stale = c->facts.is_stale;
    if (f.is_stale && s->stale == CAG_STALE_ERROR)
        f.state = CACHE_STALE;
    c->facts = f;
    pthread_mutex_unlock(&s->lock);
}

/* What is open ends with its questions. */
static void retire(struct shelf *s, struct cache *c)
{
    if (!c->open)
        return;
    c->open->next = c->before;
    c->before = c->open;
    c->open = NULL;
    cache_sweep(s, c);
}

void cache_sweep(struct shelf *s, struct cache *c)
{
    struct cache_open **at = &c->before;

    while (*at) {
        struct cache_open *o = *at;

        if (o->n_running) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        open_free(s, o);
    }
}

/* One whose model and engine others can share. */
static const cag_kb *find_open(struct shelf *s)
{
    int n = shelf_count(s);

    for (int i = 0; i < n; i++)
        if (s->cache[i]->open)
            return s->cache[i]->open->kb;
    return NULL;
}

cag_status cache_open(struct shelf *s, struct cache *c, cag_error *err)
{
    struct cache_open *o = mem_zalloc(sizeof *o);
    cag_kb_opts k = s->kb;
    cag_status st;

    k.stale = CAG_STALE_IGNORE; /* that is cache_probe's */
    k.with = c->open ? c->open->kb : find_open(s);
    if (o)
        cut_watch(&o->cut, &k);
    st = o ? cag_kb_open(c->path, &k, &o->kb, err)
           : cag_fail_nomem(err, "cache");
    if (!st && cut_found(&o->cut))
        st = cut_fail(c->path, err);
    if (!st)
        st = cag_crew_new(o->kb, s->parallel, &o->crew, err);
    if (!st && s->kept)
        cag_crew_keep(o->crew, s->kept);
    retire(s, c);
    if (st) {
        open_free(s, o);
        cache_set_state(s, c, CACHE_FAILED);
        return st;
    }
    c->open = o;
    set_facts(s, c, o->kb);
    return CAG_OK;
}

void cache_fail(struct shelf *s, struct cache *c)
{
    retire(s, c);
    cache_set_state(s, c, CACHE_FAILED);
}

/* -------------------------------------------------------------------- file */

cag_status cache_probe(struct shelf *s, struct cache *c, bool full,
                       cag_error *err)
{
    cag_kb_opts k = s->kb;
    cag_kb *kb = NULL;
    struct cut cut;
    cag_status st;

    k.no_weights = true;
    k.verify_full = full;
    k.stale = s->stale == CAG_STALE_IGNORE ? s->stale : CAG_STALE_ERROR;
    k.engine.n_thread = 1; /* beside those that answer */
    cut_watch(&cut, &k);
    st = cag_kb_open(c->path, &k, &kb, err);
    if (cut_found(&cut))
        st = cut_fail(c->path, err);
    cag_kb_close(kb);
    if (st && st != CAG_E_STALE) {
        cache_set_state(s, c, CACHE_FAILED);
        return st;
    }
    pthread_mutex_lock(&s->lock);
    c->facts.is_stale = st == CAG_E_STALE;
    if (s->stale != CAG_STALE_ERROR)
        st = CAG_OK;
    if (c->facts.state == CACHE_READY || c->facts.state == CACHE_STALE)
        c->facts.state = st ? CACHE_STALE : CACHE_READY;
    pthread_mutex_unlock(&s->lock);
    return st;
}
