/*
 * record_output.c - a file that is written beside a cache must not become a
 * source of it: a recorded directory or pattern that takes the file would make
 * the cache stale, and the next build would read what was written.
 */
#include <cag/tool/text_file.h>

#include "binding/record.h"
#include "source/source_select.h"
#include "util/error.h"
#include "util/file.h"

/* A source that was named itself, under whatever name it is written to. */
static const char *named_source(const cag_source_spec *spec, int n,
                                const char *path)
{
    struct file_id is, s;

    if (file_stat(path, &is, NULL))
        return NULL;
    for (int i = 0; i < n; i++)
        if (!spec[i].is_glob && spec[i].path && !file_is_dir(spec[i].path) &&
            !file_stat(spec[i].path, &s, NULL) && s.dev == is.dev &&
            s.ino == is.ino)
            return spec[i].path;
    return NULL;
}

cag_status cag_check_beside(const cag_kvc *k, const char *path, cag_error *err)
{
    struct arena a = { NULL };
    struct source_opts so = { .max_entries = 0 };
    cag_source_spec *spec;
    const char *which;
    int n_spec, n_stream;
    cag_status st = record_specs(k, &a, &spec, &n_spec, &n_stream, err);

    if (!st)
        st = record_patterns(k, "include", &a, &so.include, err);
    if (!st)
        st = record_patterns(k, "exclude", &a, &so.exclude, err);
    if (!st && source_would_read(spec, n_spec, &so, path, &which))
        st = cag_fail(err, CAG_E_USAGE, path, -1,
                      "the cache's next build would read this file as a source "
                      "(%s); write it elsewhere, or under another name",
                      which);
    if (!st && (which = named_source(spec, n_spec, path)) != NULL)
        st = cag_fail(err, CAG_E_USAGE, path, -1,
                      "this is a source of the cache (%s); write it elsewhere",
                      which);
    arena_release(&a);
    return st;
}
