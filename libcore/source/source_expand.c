/*
 * source_expand.c - operands to a list of files with their names.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "source/source_path.h"
#include "source/source_select.h"
#include "source/source_walk.h"
#include "source/sources.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/note.h"
#include "util/text.h"

#define MAX_SOURCES 100000

/* given: a file's path as spelled, NULL for what can be read once only. */
static cag_status set_add(struct source_set *s, const cag_source_spec *spec,
                          const char *given, const char *group, cag_error *err)
{
    struct source *v;

    if (s->n >= MAX_SOURCES)
        return cag_fail(err, CAG_E_LIMIT, spec->path, -1,
                        "more than %d sources", MAX_SOURCES);
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
    if (given &&
        (!(v->given = mem_strdup(given)) || !(v->path = file_absolute(given))))
        return cag_fail_nomem(err, "source path");
    if (group && !(v->group = file_absolute(group)))
        return cag_fail_nomem(err, "source path");
    return CAG_OK;
}

/* A directory or a pattern; of them a title names none. */
static cag_status expand_many(struct source_set *s, const cag_source_spec *spec,
                              const struct source_opts *o, cag_error *err)
{
    struct source_walk w = { spec, o, s, { NULL, 0, 0 } };
    cag_status st = spec->is_glob ? source_walk_pattern(&w, err)
                                  : source_walk_directory(&w, err);

    if (!st && spec->title)
        note(o ? o->hooks : NULL, CAG_NOTE_WARN,
             "%s: the title '%s' is not used: it names a single file, not %s",
             spec->path, spec->title,
             spec->is_glob ? "a pattern" : "a directory");
    for (size_t i = 0; i < w.files.n && !st; i++)
        st = set_add(s, spec, w.files.v[i], spec->path, err);
    source_names_free(&w.files);
    return st;
}

/* Does the place of an operand, of a pattern its fixed begin, lie where it may?
 * Not looked into before.  Single files are checked when they are open. */
static cag_status check_place(const cag_source_spec *spec, const char *below,
                              cag_error *err)
{
    char *begin = mem_strdup(spec->path), real[PATH_MAX];
    cag_status st = CAG_OK;
    size_t n;

    if (!begin)
        return cag_fail_nomem(err, "source path");
    if (spec->is_glob) { /* up to the last slash before a wildcard */
        for (n = strcspn(begin, "*?[\\"); n && begin[n - 1] != '/'; n--)
            ;
        begin[n ? n : 0] = 0;
    }
    if (realpath(*begin ? begin : ".", real) &&
        (spec->is_glob || file_is_dir(real)))
        st = source_check_below(below, real, spec, spec->path, err);
    mem_free(begin);
    return st;
}

static cag_status expand_one(struct source_set *s, const cag_source_spec *spec,
                             const struct source_opts *o, cag_error *err)
{
    struct stat sb;

    if (o && o->below && strcmp(spec->path, "-")) {
        cag_status st = check_place(spec, o->below, err);

        if (st)
            return st;
    }

    if (!strcmp(spec->path, "-"))
        return set_add(s, spec, NULL, NULL, err);
    if (spec->is_glob)
        return expand_many(s, spec, o, err);
    if (stat(spec->path, &sb) != 0) /* reading it is the error */
        return set_add(s, spec, spec->path, NULL, err);
    if (S_ISDIR(sb.st_mode))
        return expand_many(s, spec, o, err);
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
                         const struct source_opts *o, struct source_set *out,
                         cag_error *err)
{
    const cag_hooks *hooks = o ? o->hooks : NULL;
    struct source_set s = { .v = NULL };
    cag_status st = CAG_OK;

    for (int i = 0; i < n_spec && !st; i++)
        st = expand_one(&s, &spec[i], o, err);
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
        mem_free(s->v[i].given);
        mem_free(s->v[i].path);
        mem_free(s->v[i].group);
        mem_free(s->v[i].text);
    }
    mem_free(s->v);
    buf_free(&s->skipped);
    *s = (struct source_set){ .v = NULL };
}

/* "; " between, then "N one" or "N many". */
static void add_count(struct buf *b, int64_t n, const char *one,
                      const char *many)
{
    if (n)
        buf_printf(b, "%s%lld %s", b->size ? "; " : "", (long long)n,
                   n == 1 ? one : many);
}

cag_status source_skipped(const struct source_set *s, char **line,
                          cag_error *err)
{
    const int64_t *n = s->n_skip;
    struct buf b = BUF_INIT;

    *line = NULL;
    add_count(&b, n[SKIP_NAME], "file skipped: ", "files skipped: ");
    if (n[SKIP_NAME])
        buf_printf(&b, "%s (%s%s)",
                   s->included ? "not included" : "not " SOURCE_KINDS,
                   s->skipped.data, n[SKIP_NAME] > 3 ? ", ..." : "");
    add_count(&b, n[SKIP_EXCLUDE], "excluded", "excluded");
    add_count(&b, n[SKIP_LINK], "link to a directory not followed",
              "links to directories not followed");
    add_count(&b, n[SKIP_KIND], "is no regular file", "are no regular files");
    if (!b.size)
        return CAG_OK;
    *line = buf_detach(&b, NULL);
    return *line ? CAG_OK : cag_fail_nomem(err, "source list");
}
