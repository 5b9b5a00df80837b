/*
 * source_expand.c - operands to a sorted list of files with their names.
 *
 * A directory is walked without following symbolic links to directories, so
 * a loop of links cannot trap it; hidden entries are skipped; only .md and
 * .txt are taken, and what is left out is said with -v.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/note.h"
#include "source/sources.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/text.h"

#define MAX_DEPTH   64
#define MAX_SOURCES 100000

struct names {
    char **v;
    size_t n, cap;
};

static void names_free(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        mem_free(l->v[i]);
    mem_free(l->v);
    *l = (struct names){ NULL, 0, 0 };
}

/* Takes s over, also on failure. */
static bool names_add(struct names *l, char *s)
{
    if (!s)
        return false;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        char **v = mem_realloc(l->v, cap * sizeof *v);
        if (!v) {
            mem_free(s);
            return false;
        }
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = s;
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

static bool is_text_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && (!strcmp(dot, ".md") || !strcmp(dot, ".txt"));
}

static cag_status list_dir(const char *dir, struct names *entries,
                           cag_error *err)
{
    cag_status st = CAG_OK;
    struct dirent *e;
    DIR *d = opendir(dir);

    if (!d)
        return cag_fail_sys(err, CAG_E_MISSING, errno, dir,
                            "cannot read directory");
    while (!st && (errno = 0, (e = readdir(d)) != NULL))
        if (e->d_name[0] != '.' && !names_add(entries, mem_strdup(e->d_name)))
            st = cag_fail_nomem(err, "directory listing");
    if (!st && errno)
        st = cag_fail_sys(err, CAG_E_IO, errno, dir, "cannot read directory");
    closedir(d);
    if (entries->n)
        qsort(entries->v, entries->n, sizeof *entries->v, by_bytes);
    return st;
}

static cag_status walk(const char *dir, int depth, const cag_hooks *hooks,
                       struct names *files, cag_error *err)
{
    struct names entries = { NULL, 0, 0 };
    cag_status st;

    if (depth > MAX_DEPTH)
        return cag_fail(err, CAG_E_LIMIT, dir, -1,
                        "directories nest deeper than %d", MAX_DEPTH);
    st = list_dir(dir, &entries, err);
    for (size_t i = 0; i < entries.n && !st; i++) {
        struct stat sb;
        char *path = file_join(dir, entries.v[i]);

        if (!path) {
            st = cag_fail_nomem(err, "path");
        } else if (lstat(path, &sb) == 0 && S_ISDIR(sb.st_mode)) {
            st = walk(path, depth + 1, hooks, files, err);
            mem_free(path);
        } else if (is_text_name(path) && stat(path, &sb) == 0 &&
                   S_ISREG(sb.st_mode)) {
            if (!names_add(files, path))
                st = cag_fail_nomem(err, "source list");
        } else {
            note(hooks, CAG_NOTE_INFO, "%s: skipped (not .md or .txt)", path);
            mem_free(path);
        }
    }
    names_free(&entries);
    return st;
}

static cag_status set_add(struct source_set *s, const cag_source_spec *spec,
                          const char *path, const char *group, cag_error *err)
{
    struct source *v;

    if (s->n >= MAX_SOURCES)
        return cag_fail(err, CAG_E_LIMIT, path, -1, "more than %d sources",
                        MAX_SOURCES);
    if (s->n == s->cap) {
        int cap = s->cap ? 2 * s->cap : 16;

        v = mem_realloc(s->v, (size_t)cap * sizeof *v);
        if (!v)
            return cag_fail_nomem(err, "source list");
        s->v = v;
        s->cap = cap;
    }
    v = &s->v[s->n++];
    memset(v, 0, sizeof *v);
    v->spec = spec;
    if (path && !(v->path = file_absolute(path)))
        return cag_fail_nomem(err, "source path");
    if (group && !(v->group = file_absolute(group)))
        return cag_fail_nomem(err, "source path");
    return CAG_OK;
}

static cag_status add_list(struct source_set *s, const cag_source_spec *spec,
                           const struct names *files, cag_error *err)
{
    cag_status st = CAG_OK;

    for (size_t i = 0; i < files->n && !st; i++)
        st = set_add(s, spec, files->v[i], spec->path, err);
    return st;
}

static cag_status expand_dir(struct source_set *s, const cag_source_spec *spec,
                             const cag_hooks *hooks, cag_error *err)
{
    struct names files = { NULL, 0, 0 };
    cag_status st = walk(spec->path, 0, hooks, &files, err);

    if (!st && files.n == 0)
        st = cag_fail(err, CAG_E_MISSING, spec->path, -1,
                      "no .md or .txt file below this directory");
    if (!st)
        st = add_list(s, spec, &files, err);
    names_free(&files);
    return st;
}

static cag_status expand_glob(struct source_set *s, const cag_source_spec *spec,
                              cag_error *err)
{
    struct names files = { NULL, 0, 0 };
    glob_t g;
    cag_status st = CAG_OK;
    int rc = glob(spec->path, GLOB_NOSORT, NULL, &g);

    if (rc == GLOB_NOMATCH)
        return cag_fail(err, CAG_E_MISSING, spec->path, -1,
                        "no file matches this pattern");
    if (rc == GLOB_NOSPACE)
        return cag_fail_nomem(err, "glob");
    if (rc)
        return cag_fail_sys(err, CAG_E_MISSING, errno, spec->path,
                            "cannot read a directory of this pattern");
    for (size_t i = 0; i < g.gl_pathc && !st; i++)
        if (!file_is_dir(g.gl_pathv[i]) &&
            !names_add(&files, mem_strdup(g.gl_pathv[i])))
            st = cag_fail_nomem(err, "source list");
    globfree(&g);
    if (!st && files.n == 0)
        st = cag_fail(err, CAG_E_MISSING, spec->path, -1,
                      "this pattern matches only directories");
    if (!st) {
        qsort(files.v, files.n, sizeof *files.v, by_bytes);
        st = add_list(s, spec, &files, err);
    }
    names_free(&files);
    return st;
}

static cag_status expand_one(struct source_set *s, const cag_source_spec *spec,
                             const cag_hooks *hooks, cag_error *err)
{
    struct stat sb;

    if (!strcmp(spec->path, "-"))
        return set_add(s, spec, NULL, NULL, err);
    if (spec->is_glob)
        return expand_glob(s, spec, err);
    if (stat(spec->path, &sb) != 0)
        return cag_fail_sys(err, CAG_E_MISSING, errno, spec->path,
                            "cannot read source");
    if (S_ISDIR(sb.st_mode))
        return expand_dir(s, spec, hooks, err);
    if (S_ISREG(sb.st_mode))
        return set_add(s, spec, spec->path, NULL, err);
    /* a pipe, /dev/fd/63, a character device: can be read once only */
    return set_add(s, spec, NULL, NULL, err);
}

/* Length of the common directory of all paths, with its final slash. */
static size_t common_dir(const struct source_set *s)
{
    const char *first = NULL;
    size_t n = 0;

    for (int i = 0; i < s->n; i++) {
        const char *p = s->v[i].path;

        if (!p)
            continue;
        if (!first) {
            first = p;
            n = (size_t)(strrchr(p, '/') - p) + 1;
            continue;
        }
        for (size_t j = 0; j < n; j++)
            if (p[j] != first[j])
                n = j;
        while (n > 0 && first[n - 1] != '/')
            n--;
    }
    return n;
}

/* A path as one line of text. */
static char *name_from_path(const char *path)
{
    struct buf b = BUF_INIT;
    char *s;

    utf8_sanitize(path, strlen(path), &b);
    s = buf_detach(&b, NULL);
    for (char *p = s; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    return s;
}

static cag_status set_names(struct source_set *s, cag_error *err)
{
    size_t cut = common_dir(s);

    for (int i = 0; i < s->n; i++) {
        struct source *v = &s->v[i];
        const char *name = v->group ? NULL : v->spec->title;

        if (!name && v->path)
            v->name = name_from_path(v->path + cut);
        else if (!name) /* the number in /dev/fd/63 means nothing */
            v->name = mem_strdup(strcmp(v->spec->path, "-") ? "text"
                                                            : "standard input");
        else
            v->name = mem_strdup(name);
        if (!v->name)
            return cag_fail_nomem(err, "source name");
    }
    return CAG_OK;
}

static int by_path(const void *a, const void *b)
{
    const struct source *const *x = a, *const *y = b;

    return strcmp((*x)->path, (*y)->path);
}

/* A file that is read twice costs twice: hardly ever meant. */
static cag_status warn_twice(const struct source_set *s, const cag_hooks *hooks,
                             cag_error *err)
{
    const struct source **v = mem_alloc_array((size_t)s->n + 1, sizeof *v);
    size_t n = 0;

    if (!v)
        return cag_fail_nomem(err, "source list");
    for (int i = 0; i < s->n; i++)
        if (s->v[i].path)
            v[n++] = &s->v[i];
    qsort(v, n, sizeof *v, by_path);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(v[i]->path, v[i - 1]->path) &&
            (i < 2 || strcmp(v[i]->path, v[i - 2]->path)))
            note(hooks, CAG_NOTE_WARN,
                 "%s: named more than once, and read "
                 "as often",
                 v[i]->path);
    mem_free(v);
    return CAG_OK;
}

cag_status source_expand(const cag_source_spec *spec, int n_spec,
                         const cag_hooks *hooks, struct source_set *out,
                         cag_error *err)
{
    struct source_set s = { NULL, 0, 0 };
    cag_status st = CAG_OK;

    for (int i = 0; i < n_spec && !st; i++)
        st = expand_one(&s, &spec[i], hooks, err);
    if (!st)
        st = set_names(&s, err);
    if (!st && hooks)
        st = warn_twice(&s, hooks, err);
    if (st) {
        source_release(&s);
        return st;
    }
    *out = s;
    return CAG_OK;
}

void source_release(struct source_set *s)
{
    for (int i = 0; i < s->n; i++) {
        mem_free(s->v[i].name);
        mem_free(s->v[i].path);
        mem_free(s->v[i].group);
        mem_free(s->v[i].text);
    }
    mem_free(s->v);
    *s = (struct source_set){ NULL, 0, 0 };
}
