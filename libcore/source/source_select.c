/*
 * source_select.c - see source_select.h.
 *
 * A path is matched part by part in a table, so that no pattern takes longer
 * than the product of both lengths, also one that a cache recorded.
 */
#include "source/source_select.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/file.h"
#include "util/mem.h"

#define MAX_PART                                                \
    256 /* of a path or a pattern; a longer one matches nothing \
         */

bool source_is_text_name(const char *name)
{
    static const char *const ends[] = { ".md", ".markdown", ".rst", ".txt" };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (!strcasecmp(dot, ends[i]))
            return true;
    return false;
}

static bool is_stars(const char *part, size_t n)
{
    return n == 2 && part[0] == '*' && part[1] == '*';
}

/* One part against another; neither has a slash.  flags as for fnmatch. */
static bool match_part(const char *pattern, size_t n, const char *s, size_t m,
                       int flags)
{
    char p[NAME_MAX + 1], t[NAME_MAX + 1];

    if (n >= sizeof p || m >= sizeof t)
        return false;
    memcpy(p, pattern, n);
    p[n] = 0;
    memcpy(t, s, m);
    t[m] = 0;
    return fnmatch(p, t, flags) == 0;
}

struct part {
    const char *s;
    size_t n;
};

/* Parts of a path, at most MAX_PART; -1 where there are more. */
static int split(const char *path, struct part part[MAX_PART])
{
    int n = 0;

    for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
        if (n == MAX_PART)
            return -1;
        part[n].s = path;
        part[n].n = strcspn(path, "/");
        path += part[n++].n;
    }
    return n;
}

/* at[j]: do the parts of the pattern so far match the first j of the path? */
static bool match(const char *pattern, const char *path, int flags)
{
    struct part p[MAX_PART], s[MAX_PART];
    bool at[MAX_PART + 1] = { true }, next[MAX_PART + 1];
    int np = split(pattern, p), ns = split(path, s);

    if (np <= 0 || ns <= 0)
        return false;
    for (int i = 0; i < np; i++) {
        bool stars = is_stars(p[i].s, p[i].n), last = i == np - 1;

        next[0] = stars && !last && at[0];
        for (int j = 1; j <= ns; j++) {
            const struct part *t = &s[j - 1];

            if (!stars) {
                next[j] =
                    at[j - 1] && match_part(p[i].s, p[i].n, t->s, t->n, flags);
            } else { /* at the end at least one part, else any number */
                bool takes = !(flags & FNM_PERIOD) || *t->s != '.';

                next[j] = (!last && at[j]) ||
                          (takes && (next[j - 1] || (last && at[j - 1])));
            }
        }
        memcpy(at, next, (size_t)(ns + 1) * sizeof *at);
    }
    return at[ns];
}

bool source_match_path(const char *pattern, const char *path)
{
    return match(pattern, path, FNM_PERIOD);
}

static bool match_one(const char *pattern, const char *rel, bool is_dir)
{
    size_t n = strlen(pattern);
    const char *base = strrchr(rel, '/');
    char p[PATH_MAX];

    if (n >= sizeof p)
        return false;
    memcpy(p, pattern, n + 1);
    while (n > 1 && p[n - 1] == '/') {
        p[--n] = 0;
        if (!is_dir)
            return false;
    }
    if (strchr(p, '/'))
        return match(p, rel, 0);
    return match(p, base ? base + 1 : rel, 0);
}

bool source_match_any(const char *const *list, const char *rel, bool is_dir)
{
    for (; list && *list; list++)
        if (match_one(*list, rel, is_dir))
            return true;
    return false;
}

bool source_selects(const struct source_opts *o, const char *rel)
{
    const char *base = strrchr(rel, '/');

    if (o && source_match_any(o->exclude, rel, false))
        return false;
    if (o && o->include)
        return source_match_any(o->include, rel, false);
    return source_is_text_name(base ? base + 1 : rel);
}

/* Is there a hidden name in rel, or a directory that is left out? */
static bool is_passed_over(const struct source_opts *o, const char *rel)
{
    char dir[PATH_MAX];

    for (const char *s = rel; s; s = strchr(s, '/'), s = s ? s + 1 : NULL) {
        const char *end = strchr(s, '/');
        size_t n = end ? (size_t)(end - rel) : 0;

        if (*s == '.' || n >= sizeof dir)
            return true;
        memcpy(dir, rel, n);
        dir[n] = 0;
        if (end && o && source_match_any(o->exclude, dir, true))
            return true;
    }
    return false;
}

/* Is the file, or a directory on its way, left out?  rel counts from what the
 * pattern says without a sign. */
static bool is_excluded(const struct source_opts *o, const char *pattern,
                        const char *path)
{
    size_t at = strcspn(pattern, "*?[\\");
    char dir[PATH_MAX];

    while (at > 0 && pattern[at - 1] != '/')
        at--;
    if (!o || !o->exclude || strncmp(path, pattern, at) != 0)
        return false;
    for (const char *s = path + at; (s = strchr(s, '/')) != NULL; s++) {
        size_t n = (size_t)(s - path) - at;

        if (n >= sizeof dir)
            return false;
        memcpy(dir, path + at, n);
        dir[n] = 0;
        if (source_match_any(o->exclude, dir, true))
            return true;
    }
    return source_match_any(o->exclude, path + at, false);
}

/* The real place of a file that need not be there; heap, NULL without. */
static char *real_place(const char *path)
{
    char *dir = file_real_dir(path), *real;
    const char *base = strrchr(path, '/');

    real = dir ? file_join(dir, base ? base + 1 : path) : NULL;
    mem_free(dir);
    return real;
}

bool source_would_read(const cag_source_spec *spec, int n_spec,
                       const struct source_opts *o, const char *path,
                       const char **which)
{
    char *real = real_place(path), *abs = file_absolute(path);
    bool takes = false;

    for (int i = 0; real && abs && i < n_spec && !takes; i++) {
        char place[PATH_MAX];
        char *root = spec[i].is_glob ? file_absolute(spec[i].path)
                     : realpath(spec[i].path, place) ? mem_strdup(place)
                                                     : NULL;
        size_t n = root ? strlen(root) : 0;

        *which = spec[i].path;
        if (root && spec[i].is_glob)
            takes =
                (source_match_path(root, abs) && !is_excluded(o, root, abs)) ||
                (source_match_path(root, real) && !is_excluded(o, root, real));
        else if (root && !strncmp(real, root, n) && real[n] == '/')
            takes = file_is_dir(root) && !is_passed_over(o, real + n + 1) &&
                    source_selects(o, real + n + 1);
        mem_free(root);
    }
    mem_free(real);
    mem_free(abs);
    return takes;
}
