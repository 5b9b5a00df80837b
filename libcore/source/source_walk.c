/*
 * source_walk.c - see source_walk.h.
 *
 * A directory is walked without following symbolic links to directories, so
 * a loop of links cannot trap it; hidden entries do not count.
 */
#include "source/source_walk.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "source/source_select.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/note.h"

#define MAX_DEPTH 64
#define MAX_NAMED 3 /* files passed over that are named */

void source_names_free(struct source_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        mem_free(l->v[i]);
    mem_free(l->v);
    *l = (struct source_names){ NULL, 0, 0 };
}

bool source_names_add(struct source_names *l, char *s)
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

void source_names_sort(struct source_names *l)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_bytes);
}

cag_status source_walk_list(struct source_walk *w, const char *dir, bool hidden,
                            struct source_names *entries, cag_error *err)
{
    int64_t max = w->o ? w->o->max_entries : 0;
    cag_status st = CAG_OK;
    struct dirent *e;
    DIR *d = opendir(dir);

    if (!d)
        return cag_fail_sys(err, CAG_E_MISSING, errno, dir,
                            "cannot read directory");
    while (!st && (errno = 0, (e = readdir(d)) != NULL)) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (max && ++w->set->n_entry > max)
            st = cag_fail(err, CAG_E_LIMIT, w->spec->path, -1,
                          "more than %lld names to look through",
                          (long long)max);
        else if ((hidden || e->d_name[0] != '.') &&
                 !source_names_add(entries, mem_strdup(e->d_name)))
            st = cag_fail_nomem(err, "directory listing");
    }
    if (!st && errno)
        st = cag_fail_sys(err, CAG_E_IO, errno, dir, "cannot read directory");
    closedir(d);
    source_names_sort(entries);
    return st;
}

cag_status source_walk_skip(struct source_walk *w, enum source_skip why,
                            const char *path, cag_error *err)
{
    const cag_hooks *hooks = w->o ? w->o->hooks : NULL;
    bool included = w->o && w->o->include;
    struct source_set *s = w->set;
    const char *said[SOURCE_N_SKIP] = { [SKIP_NAME] = included
                                                          ? "not included"
                                                          : "not " SOURCE_KINDS,
                                        [SKIP_EXCLUDE] = "excluded",
                                        [SKIP_LINK] = "a link to a directory",
                                        [SKIP_KIND] = "no regular file" };

    note(hooks, CAG_NOTE_INFO, "%s: skipped (%s)", path, said[why]);
    if (s->n_skip[why]++ < MAX_NAMED && why == SKIP_NAME) {
        const char *base = strrchr(path, '/');

        buf_printf(&s->skipped, "%s%s", s->skipped.size ? ", " : "",
                   base ? base + 1 : path);
    }
    s->included = included;
    return buf_failed(&s->skipped) ? cag_fail_nomem(err, "source list")
                                   : CAG_OK;
}

cag_status source_walk_take(struct source_walk *w, char *path, cag_error *err)
{
    struct stat sb;
    cag_status st = CAG_OK;

    if (!path)
        return cag_fail_nomem(err, "source path");
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) {
        if (!S_ISDIR(sb.st_mode))
            st = source_walk_skip(w, SKIP_KIND, path, err);
        mem_free(path);
    } else if (!source_names_add(&w->files, path)) {
        st = cag_fail_nomem(err, "source list");
    }
    return st;
}

static cag_status walk(struct source_walk *w, const char *dir, int depth,
                       cag_error *err);

/* One name in a directory; rel is its path below the one that was named. */
static cag_status entry(struct source_walk *w, const char *path,
                        const char *rel, int depth, cag_error *err)
{
    const char *base = strrchr(rel, '/');
    bool takes = source_selects(w->o, rel), linked, is_dir;
    const char *const *exclude = w->o ? w->o->exclude : NULL;
    struct stat sb;

    if (lstat(path, &sb) != 0) /* what a text's name has, is read: an error */
        return source_is_text_name(base ? base + 1 : rel) && takes
                   ? source_walk_take(w, mem_strdup(path), err)
                   : cag_fail_sys(err, CAG_E_MISSING, errno, path,
                                  "cannot see what it is");
    linked = S_ISLNK(sb.st_mode);
    is_dir = S_ISDIR(sb.st_mode) ||
             (linked && stat(path, &sb) == 0 && S_ISDIR(sb.st_mode));
    if (source_match_any(exclude, rel, is_dir))
        return source_walk_skip(w, SKIP_EXCLUDE, path, err);
    if (is_dir)
        return linked ? source_walk_skip(w, SKIP_LINK, path, err)
                      : walk(w, path, depth + 1, err);
    if (!takes)
        return source_walk_skip(w, SKIP_NAME, path, err);
    return source_walk_take(w, mem_strdup(path), err);
}

static cag_status walk(struct source_walk *w, const char *dir, int depth,
                       cag_error *err)
{
    struct source_names entries = { NULL, 0, 0 };
    size_t root = strlen(w->spec->path);
    cag_status st;

    if (depth > MAX_DEPTH)
        return cag_fail(err, CAG_E_LIMIT, dir, -1,
                        "directories nest deeper than %d", MAX_DEPTH);
    st = source_walk_list(w, dir, false, &entries, err);
    for (size_t i = 0; i < entries.n && !st; i++) {
        char *path = file_join(dir, entries.v[i]);

        if (!path)
            st = cag_fail_nomem(err, "path");
        else
            st = entry(w, path, path + root + strspn(path + root, "/"), depth,
                       err);
        mem_free(path);
    }
    source_names_free(&entries);
    return st;
}

cag_status source_walk_directory(struct source_walk *w, cag_error *err)
{
    cag_status st = walk(w, w->spec->path, 0, err);

    if (!st && w->files.n == 0)
        st = cag_fail(err, CAG_E_MISSING, w->spec->path, -1,
                      w->o && (w->o->include || w->o->exclude)
                          ? "no file is left below this directory by --include "
                            "and --exclude"
                          : "no " SOURCE_KINDS " file below this directory");
    return st;
}
