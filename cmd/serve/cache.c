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

void shelf_init(struct shelf *s)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    cag_kb_opts_init(&s->kb);
}

static void open_free(struct cache_open *o)
{
    if (!o)
        return;
    cag_crew_free(o->crew);
    cag_kb_close(o->kb);
    mem_free(o);
}

static void cache_free(struct cache *c)
{
    if (!c)
        return;
    open_free(c->open);
    while (c->before) {
        struct cache_open *next = c->before->next;

        open_free(c->before);
        c->before = next;
    }
    mem_free(c->id);
    mem_free(c->path);
    mem_free(c);
}

void shelf_release(struct shelf *s)
{
    for (int i = 0; i < s->n; i++)
        cache_free(s->cache[i]);
    mem_free(s->cache);
    pthread_mutex_destroy(&s->lock);
    memset(s, 0, sizeof *s);
}

/* ------------------------------------------------------------------- names */

static cag_status add(struct shelf *s, const char *id, size_t n_id,
                      const char *path, cag_error *err)
{
    struct cache *c = mem_zalloc(sizeof *c), **list;
    struct cache *same;
    cag_status st = CAG_OK;

    if (c) {
        c->id = mem_strndup(id, n_id);
        c->path = mem_strdup(path);
        c->facts.state = CACHE_FAILED;
    }
    list = mem_realloc(s->cache, (size_t)(s->n + 1) * sizeof *list);
    if (list)
        s->cache = list;
    if (!c || !c->id || !c->path || !list) {
        cache_free(c);
        return cag_fail_nomem(err, "caches");
    }
    same = shelf_find(s, c->id);
    if (same)
        st = cag_fail(err, CAG_E_USAGE, path, -1,
                      "another cache is called '%s', too (%s); name one of "
                      "them: NAME=FILE",
                      c->id, same->path);
    else if (!n_id || !utf8_valid(id, n_id, NULL))
        st = cag_fail(err, CAG_E_USAGE, path, -1,
                      "its name is not UTF-8; name it: NAME=FILE");
    if (st) {
        cache_free(c);
        return st;
    }
    s->cache[s->n++] = c;
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

static cag_status add_directory(struct shelf *s, const char *dir,
                                cag_error *err)
{
    struct dirent **entry;
    int n = scandir(dir, &entry, is_cache_name, alphasort);
    cag_status st = CAG_OK;

    if (n < 0)
        return cag_fail(err, CAG_E_MISSING, dir, -1, "%s", strerror(errno));
    for (int i = 0; i < n; i++) {
        size_t size = strlen(dir) + strlen(entry[i]->d_name) + 2;
        char *path = st ? NULL : mem_alloc(size);

        if (path) {
            snprintf(path, size, "%s/%s", dir, entry[i]->d_name);
            st = add_file(s, path, err);
        } else if (!st) {
            st = cag_fail_nomem(err, "caches");
        }
        mem_free(path);
        free(entry[i]); /* scandir's */
    }
    free(entry);
    return st;
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

struct cache *shelf_find(struct shelf *s, const char *id)
{
    struct cache *found = NULL;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n && !found; i++)
        if (!strcmp(s->cache[i]->id, id))
            found = s->cache[i];
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* ------------------------------------------------------------------ states */

const char *cache_state_name(enum cache_state st)
{
    static const char *const name[] = { "ready", "stale", "failed" };

    return name[st];
}

void cache_get_facts(struct shelf *s, const struct cache *c,
                     struct cache_facts *out)
{
    pthread_mutex_lock(&s->lock);
    *out = c->facts;
    pthread_mutex_unlock(&s->lock);
}

static void set_state(struct shelf *s, struct cache *c, enum cache_state state)
{
    pthread_mutex_lock(&s->lock);
    c->facts.state = state;
    pthread_mutex_unlock(&s->lock);
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
    c->facts = f;
    pthread_mutex_unlock(&s->lock);
}

/* What is open ends with its questions. */
static void retire(struct cache *c)
{
    if (!c->open)
        return;
    c->open->next = c->before;
    c->before = c->open;
    c->open = NULL;
    cache_sweep(c);
}

void cache_sweep(struct cache *c)
{
    struct cache_open **at = &c->before;

    while (*at) {
        struct cache_open *o = *at;

        if (o->n_running) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        open_free(o);
    }
}

cag_status cache_open(struct shelf *s, struct cache *c, cag_error *err)
{
    struct cache_open *o = mem_zalloc(sizeof *o);
    cag_status st = o ? cag_kb_open(c->path, &s->kb, &o->kb, err)
                      : cag_fail_nomem(err, "cache");

    if (!st)
        st = cag_crew_new(o->kb, s->parallel, &o->crew, err);
    retire(c);
    if (st) {
        open_free(o);
        set_state(s, c, st == CAG_E_STALE ? CACHE_STALE : CACHE_FAILED);
        return st;
    }
    c->open = o;
    set_facts(s, c, o->kb);
    return CAG_OK;
}

void cache_fail(struct shelf *s, struct cache *c, const cag_error *why)
{
    retire(c);
    set_state(s, c, why->status == CAG_E_STALE ? CACHE_STALE : CACHE_FAILED);
}
