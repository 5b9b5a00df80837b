/*
 * model_find.c - from what a user types to a path.
 *
 * An existing path wins.  Then the Hugging Face cache, whose layout is
 *
 *   <hub>/models--ORG--NAME/refs/main          the commit, 40 hex digits
 *   <hub>/models--ORG--NAME/snapshots/COMMIT/  the files
 *
 * then the directories of search->dirs, with and without ".gguf".  A
 * snapshot without config.json is a repository of GGUF files: the only model
 * in it is meant, and with several the message lists them.
 *
 * Every place that was looked at goes into the message, with what was wrong
 * there: "not found" alone has cost users hours.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cag/model.h>

#include "model/model_find.h"
#include "format/gguf.h"
#include "util/arena.h"
#include "util/buf.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

#define MAX_TRIED_BYTES 560 /* of the message's 1024 */

struct finder {
    const char *spec;
    struct arena arena;
    struct buf tried;
    int n_tried, n_hidden;
    bool hub_id;       /* spec is a hub id rather than a file */
    const char *found; /* arena */
    cag_error *err;
};

static void tried(struct finder *f, const char *path, const char *why)
{
    size_t n = strlen(path) + strlen(why) + 5;

    if (f->n_hidden || f->tried.size + n > MAX_TRIED_BYTES) {
        f->n_hidden++;
        return;
    }
    buf_printf(&f->tried, "%s%s (%s)", f->n_tried ? ", " : "", path, why);
    f->n_tried++;
}

/* ------------------------------------------------------------- hub ids */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

static bool name_ok(const char *s, size_t n)
{
    size_t i;

    if (n == 0 || n > 96 || s[0] == '.')
        return false;
    for (i = 0; i < n; i++)
        if (!name_char(s[i]) || (s[i] == '.' && i && s[i - 1] == '.'))
            return false;
    return true;
}

/* A commit as the hub writes it. */
static bool is_commit(const char *s, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
            return false;
    return n == 40;
}

/* A branch or tag: names joined by slashes (refs/pr/3). */
static bool revision_ok(const char *s)
{
    const char *slash;

    while ((slash = strchr(s, '/'))) {
        if (!name_ok(s, (size_t)(slash - s)))
            return false;
        s = slash + 1;
    }
    return name_ok(s, strlen(s));
}

/* Is it ORG/NAME[@REVISION] or NAME[@REVISION]?  Then cut it up; *n_org is
 * 0 without ORG, *revision NULL without "@". */
static bool parse_id(const char *spec, size_t *n_org, const char **name,
                     size_t *n_name, const char **revision)
{
    const char *at = strchr(spec, '@'), *slash;
    size_t n = at ? (size_t)(at - spec) : strlen(spec);

    slash = memchr(spec, '/', n);
    *n_org = slash ? (size_t)(slash - spec) : 0;
    *name = slash ? slash + 1 : spec;
    *n_name = n - (size_t)(*name - spec);
    *revision = at ? at + 1 : NULL;
    return (!slash || name_ok(spec, *n_org)) && name_ok(*name, *n_name) &&
           (!at || revision_ok(at + 1));
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);

    return n > m && strcmp(s + n - m, tail) == 0;
}

static int cmp_str(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

#define MAX_LISTED 64

/* Names in dir that end in tail ("" = all but dot files), sorted; at most
 * MAX_LISTED.  -1 when out of memory. */
static int list_dir(struct finder *f, const char *dir, const char *tail,
                    char *name[MAX_LISTED])
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    while (d && n >= 0 && n < MAX_LISTED && (e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.' || (*tail && !ends_with(e->d_name, tail)))
            continue;
        name[n] = arena_strndup(&f->arena, e->d_name, strlen(e->d_name));
        n = name[n] ? n + 1 : -1;
    }
    if (d)
        closedir(d);
    if (n > 1)
        qsort(name, (size_t)n, sizeof *name, cmp_str);
    return n;
}

static cag_status nomem(struct finder *f)
{
    return cag_fail_nomem(f->err, "model search");
}

bool model_is_part(const char *path)
{
    int no, count;

    return gguf_part_name(path, &no, &count) && !file_is_dir(path);
}

/* Are the n names the parts of one model? */
static bool one_set(char *const *name, int n)
{
    int no, count;

    for (int i = 0; i < n; i++)
        if (!gguf_part_name(name[i], &no, &count) || no != i + 1 ||
            strlen(name[i]) != strlen(name[0]) ||
            strncmp(name[i], name[0], strlen(name[0]) - 19) != 0)
            return false;
    return n > 0 && (count == n || n == MAX_LISTED);
}

/* A snapshot's directory, or the one GGUF in it, in one file or in several. */
static cag_status use_snapshot(struct finder *f, const char *dir)
{
    const char *config = arena_printf(&f->arena, "%s/config.json", dir);
    char *name[MAX_LISTED];
    struct buf list = BUF_INIT;
    cag_status st = CAG_OK;
    int i, n;

    if (!config)
        return nomem(f);
    if (file_exists(config)) {
        f->found = dir;
        return CAG_OK;
    }
    n = list_dir(f, dir, ".gguf", name);
    if (n < 0)
        return nomem(f);
    if (n == 0) {
        tried(f, dir, "neither config.json nor a GGUF file in it");
        return CAG_OK;
    }
    if (n == 1 || one_set(name, n)) {
        f->found = arena_printf(&f->arena, "%s/%s", dir, name[0]);
        return f->found ? CAG_OK : nomem(f);
    }
    for (i = 0; i < n && list.size < MAX_TRIED_BYTES; i++)
        buf_printf(&list, "%s%s", i ? ", " : "", name[i]);
    if (buf_failed(&list))
        st = nomem(f);
    else
        st = cag_fail(f->err, CAG_E_MISSING, dir, -1,
                      "several GGUF files, give the path of one: %s%s",
                      list.data, i < n ? ", ..." : "");
    buf_free(&list);
    return st;
}

/* The commit a ref file holds; *commit stays NULL, with *why set, if none. */
static cag_status read_ref(struct finder *f, const char *path,
                           const char **commit, const char **why)
{
    struct buf b = BUF_INIT;
    cag_status st = file_read_regular(path, 4096, &b, NULL);

    *why = "no such revision in the cache";
    if (!st) {
        while (b.size &&
               (b.data[b.size - 1] == '\n' || b.data[b.size - 1] == '\r'))
            b.size--;
        *why = "does not hold a commit";
        if (b.size && is_commit(b.data, b.size)) {
            *commit = arena_strndup(&f->arena, b.data, b.size);
            st = *commit ? CAG_OK : CAG_E_NOMEM;
        }
    }
    buf_free(&b);
    return st == CAG_E_NOMEM ? nomem(f) : CAG_OK;
}

/* A cache copied without its refs, with one snapshot: that one. */
static cag_status only_snapshot(struct finder *f, const char *repo,
                                const char **commit)
{
    const char *dir = arena_printf(&f->arena, "%s/snapshots", repo);
    char *name[MAX_LISTED];
    int n = dir ? list_dir(f, dir, "", name) : -1;

    if (n < 0)
        return nomem(f);
    if (n == 1)
        *commit = name[0];
    return CAG_OK;
}

static cag_status look_in_repo(struct finder *f, const char *repo,
                               const char *revision)
{
    const char *commit = NULL, *path, *why;
    cag_status st = CAG_OK;

    if (revision && is_commit(revision, strlen(revision))) {
        commit = revision;
    } else {
        path = arena_printf(&f->arena, "%s/refs/%s", repo,
                            revision ? revision : "main");
        if (!path)
            return nomem(f);
        st = read_ref(f, path, &commit, &why);
        if (!st && !commit && !revision)
            st = only_snapshot(f, repo, &commit);
        if (st)
            return st;
        if (!commit) {
            tried(f, path, why);
            return CAG_OK;
        }
    }
    path = arena_printf(&f->arena, "%s/snapshots/%s", repo, commit);
    if (!path)
        return nomem(f);
    if (file_is_dir(path))
        return use_snapshot(f, path);
    tried(f, path, "no such snapshot");
    return CAG_OK;
}

static cag_status look_in_hub(struct finder *f, const char *hub)
{
    const char *revision, *name, *repo;
    size_t n_org, n_name;

    if (!parse_id(f->spec, &n_org, &name, &n_name, &revision))
        return CAG_OK;
    f->hub_id = n_org || !ends_with(f->spec, ".gguf");
    if (!hub)
        return CAG_OK;
    repo = arena_printf(&f->arena, "%s/models--%.*s%s%.*s", hub, (int)n_org,
                        f->spec, n_org ? "--" : "", (int)n_name, name);
    if (!repo)
        return nomem(f);
    if (file_is_dir(repo))
        return look_in_repo(f, repo, revision);
    tried(f, repo, "no such directory");
    return CAG_OK;
}

/* ---------------------------------------------------------- directories */

static cag_status look_in_dirs(struct finder *f, const char *dirs)
{
    const char *end;

    for (; dirs && *dirs && !f->found; dirs = *end ? end + 1 : end) {
        const char *path;

        end = strchr(dirs, ':');
        if (!end)
            end = dirs + strlen(dirs);
        if (end == dirs)
            continue;
        path = arena_printf(&f->arena, "%.*s/%s", (int)(end - dirs), dirs,
                            f->spec);
        if (!path)
            return nomem(f);
        if (file_exists(path)) {
            f->found = path;
            break;
        }
        tried(f, path, "no such file");
        path = arena_printf(&f->arena, "%s.gguf", path);
        if (!path)
            return nomem(f);
        if (file_exists(path))
            f->found = path;
    }
    return CAG_OK;
}

static cag_status not_found(struct finder *f)
{
    char hidden[32] = "";

    if (buf_failed(&f->tried))
        return nomem(f);
    if (f->n_hidden)
        snprintf(hidden, sizeof hidden, " and %d more", f->n_hidden);
    return cag_fail(f->err, CAG_E_MISSING, NULL, -1,
                    "model \"%.128s\" not found; tried %s%s; give the path "
                    "of a GGUF file or of a directory with config.json%s%s%s",
                    f->spec, f->tried.data, hidden,
                    f->hub_id ? ", or fetch it first (hf download " : "",
                    f->hub_id ? f->spec : "", f->hub_id ? ")" : "");
}

/* The caller's copy of what was found; ends the search. */
static cag_status finish(struct finder *f, cag_status st, char **path)
{
    char *copy;

    if (!st && !f->found)
        st = not_found(f);
    if (!st) {
        copy = mem_strdup(f->found);
        if (copy)
            *path = copy;
        else
            st = nomem(f);
    }
    buf_free(&f->tried);
    arena_release(&f->arena);
    return st;
}

cag_status model_find_hub(const char *id, const char *hub, char **path,
                          cag_error *err)
{
    struct finder f = { .spec = id, .tried = BUF_INIT, .err = err };

    if (!hub)
        tried(&f, id, "no cache of the hub is known");
    return finish(&f, look_in_hub(&f, hub), path);
}

cag_status cag_model_find(const char *spec, const cag_model_search *search,
                          char **path, cag_error *err)
{
    struct finder f = { .spec = spec, .tried = BUF_INIT, .err = err };
    cag_status st = CAG_OK;

    if (!spec || !*spec)
        return cag_fail(err, CAG_E_USAGE, NULL, -1, "no model given");
    if (file_exists(spec))
        f.found = spec;
    else
        tried(&f, spec, "no such file");
    /* a path that starts at the root or here is nothing else */
    if (!f.found && spec[0] != '/' && spec[0] != '.' && spec[0] != '~') {
        st = look_in_hub(&f, search ? search->hf_hub : NULL);
        if (!st && !f.found)
            st = look_in_dirs(&f, search ? search->dirs : NULL);
    }
    return finish(&f, st, path);
}
