/*
 * source_glob.c - the files that match a pattern: glob(7), and "**".
 *
 * The parts of a pattern are followed one directory level at a time, as
 * glob(3) does it; from "**" on the tree is walked once and each file's path
 * is matched against the rest, so that none is found twice.  A link to a
 * directory is followed by the other parts, not by "**".
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "source/source_select.h"
#include "source/source_walk.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

#define MAX_DEPTH 64

/* The next part of a pattern, which has n bytes; what follows it. */
static const char *next_part(const char *pattern, size_t *n)
{
    *n = strcspn(pattern, "/");
    return pattern + *n + strspn(pattern + *n, "/");
}

static bool has_magic(const char *part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr("*?[\\", part[i]))
            return true;
    return false;
}

/* Does errno say that there is nothing, rather than that it is not seen? */
static bool is_absent(int sys)
{
    return sys == ENOENT || sys == ENOTDIR;
}

/* Relative to the pattern's fixed begin: what exclude is matched against. */
static const char *below_begin(const struct source_walk *w, const char *path)
{
    const char *p = w->spec->path, *q = p;
    size_t n;

    for (;;) {
        const char *after = next_part(q, &n);

        if (has_magic(q, n) || !*after)
            break;
        q = after;
    }
    n = (size_t)(q - p);
    return strncmp(path, p, n) ? path : path + n;
}

/* The file system's view of one name; CAG_OK with *is_dir false also for
 * what cannot be seen: source_walk_take keeps that for the reader. */
static cag_status look(struct source_walk *w, const char *path, bool *is_dir,
                       bool *linked, bool *absent, cag_error *err)
{
    struct stat sb;

    *is_dir = *linked = *absent = false;
    if (lstat(path, &sb) != 0) {
        *absent = is_absent(errno);
        return *absent
                   ? CAG_OK
                   : cag_fail_sys(err, CAG_E_MISSING, errno, path,
                                  "cannot see what it is (%s)", w->spec->path);
    }
    *linked = S_ISLNK(sb.st_mode);
    *is_dir = *linked ? stat(path, &sb) == 0 && S_ISDIR(sb.st_mode)
                      : S_ISDIR(sb.st_mode);
    return CAG_OK;
}

/* dir of the pattern's begin is "" or ends with a slash. */
static char *join(const char *dir, const char *name, size_t n)
{
    struct buf b = BUF_INIT;

    buf_str(&b, dir);
    if (*dir && dir[strlen(dir) - 1] != '/')
        buf_char(&b, '/');
    buf_add(&b, name, n);
    return buf_detach(&b, NULL);
}

static cag_status list(struct source_walk *w, const char *dir, bool hidden,
                       struct source_names *entries, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st =
        source_walk_list(w, *dir ? dir : ".", hidden, entries, &why);

    if (st == CAG_E_MISSING && is_absent(why.sys))
        return CAG_OK;
    return st ? cag_error_copy(err, &why) : CAG_OK;
}

static bool is_excluded(const struct source_walk *w, const char *path,
                        bool is_dir)
{
    return w->o && w->o->exclude &&
           source_match_any(w->o->exclude, below_begin(w, path), is_dir);
}

/* All of dir's tree whose path below top matches rest, which begins with
 * "**". */
static cag_status walk_tree(struct source_walk *w, const char *dir, size_t top,
                            const char *rest, int depth, cag_error *err)
{
    struct source_names entries = { NULL, 0, 0 };
    cag_status st;

    if (depth > MAX_DEPTH)
        return cag_fail(err, CAG_E_LIMIT, dir, -1,
                        "directories nest deeper than %d", MAX_DEPTH);
    st = list(w, dir, false, &entries, err);
    for (size_t i = 0; i < entries.n && !st; i++) {
        char *path = join(dir, entries.v[i], strlen(entries.v[i]));
        bool is_dir, linked, absent;

        if (!path) {
            st = cag_fail_nomem(err, "path");
            break;
        }
        st = look(w, path, &is_dir, &linked, &absent, err);
        if (!st && !absent && is_excluded(w, path, is_dir)) {
            st = source_walk_skip(w, SKIP_EXCLUDE, path, err);
        } else if (!st && is_dir) {
            st = linked ? source_walk_skip(w, SKIP_LINK, path, err)
                        : walk_tree(w, path, top, rest, depth + 1, err);
        } else if (!st && !absent && source_match_path(rest, path + top)) {
            st = source_walk_take(w, path, err);
            path = NULL;
        }
        mem_free(path);
    }
    source_names_free(&entries);
    return st;
}

static cag_status expand(struct source_walk *w, const char *dir,
                         const char *pattern, cag_error *err);

/* A name that matches the part of pattern before rest.  Takes path over. */
static cag_status matched(struct source_walk *w, char *path, const char *rest,
                          cag_error *err)
{
    bool is_dir, linked, absent;
    cag_status st = path ? look(w, path, &is_dir, &linked, &absent, err)
                         : cag_fail_nomem(err, "path");

    if (!st && !absent && is_excluded(w, path, is_dir)) {
        st = source_walk_skip(w, SKIP_EXCLUDE, path, err);
    } else if (!st && !absent && !*rest && !is_dir) {
        return source_walk_take(w, path, err);
    } else if (!st && !absent && *rest && is_dir) {
        st = expand(w, path, rest, err);
    } else if (!st && !absent && *rest && linked) {
        struct stat sb;

        if (stat(path, &sb) != 0) /* perhaps a directory that was lost */
            st = cag_fail_sys(err, CAG_E_MISSING, errno, path,
                              "a link that leads nowhere");
    }
    mem_free(path);
    return st;
}

/* What matches pattern in dir ("" is the current one). */
static cag_status expand(struct source_walk *w, const char *dir,
                         const char *pattern, cag_error *err)
{
    struct source_names entries = { NULL, 0, 0 };
    char part[NAME_MAX + 1];
    size_t n;
    const char *rest = next_part(pattern, &n);
    cag_status st = CAG_OK;

    if (n == 2 && !memcmp(pattern, "**", 2)) {
        char *top = join(dir, "", 0);

        st = top ? walk_tree(w, dir, strlen(top), pattern, 0, err)
                 : cag_fail_nomem(err, "path");
        mem_free(top);
        return st;
    }
    if (!has_magic(pattern, n))
        return matched(w, join(dir, pattern, n), rest, err);
    if (n >= sizeof part)
        return CAG_OK; /* no name is that long */
    memcpy(part, pattern, n);
    part[n] = 0;
    st = list(w, dir, *part == '.', &entries, err);
    for (size_t i = 0; i < entries.n && !st; i++)
        if (!fnmatch(part, entries.v[i], FNM_PERIOD))
            st = matched(w, join(dir, entries.v[i], strlen(entries.v[i])), rest,
                         err);
    source_names_free(&entries);
    return st;
}

cag_status source_walk_pattern(struct source_walk *w, cag_error *err)
{
    const char *p = w->spec->path;
    size_t slashes = strspn(p, "/");
    int64_t excluded = w->set->n_skip[SKIP_EXCLUDE];
    cag_status st = expand(w, slashes ? "/" : "", p + slashes, err);

    if (!st && w->files.n == 0)
        st = cag_fail(err, CAG_E_MISSING, p, -1,
                      w->set->n_skip[SKIP_EXCLUDE] > excluded
                          ? "no file of this pattern is left by --exclude"
                          : "no file matches this pattern");
    source_names_sort(&w->files);
    return st;
}
