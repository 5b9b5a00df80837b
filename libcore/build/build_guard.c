/*
 * build_guard.c - see build_guard.h.
 */
#include "build/build_guard.h"

#include <string.h>

#include "binding/depfile.h"
#include "build/checkpoint.h"
#include "kvc/kvc_write.h"
#include "source/source_select.h"
#include "util/error.h"
#include "util/file.h"

/* Is path the same file as one that the build reads?  *what says which. */
static bool is_input(const struct build_job *j, const char *path,
                     const char **what)
{
    struct file_id id, in;

    *what = j->model_path;
    if (model_files_has(path, j->model_path))
        return true;
    if (file_stat(path, &id, NULL))
        return false;
    for (int i = 0; i <= j->src.n; i++) {
        *what = i < j->src.n ? j->src.v[i].path : j->model_path;
        if (*what && file_stat(*what, &in, NULL) == CAG_OK &&
            in.dev == id.dev && in.ino == id.ino)
            return true;
    }
    return false;
}

/* A file that is written where a directory is read would be a source of the
 * next build. */
static cag_status check_place(const struct build_job *j, const char *path,
                              cag_error *err)
{
    struct source_opts so = build_job_source_opts(j);
    const char *which;

    if (path &&
        source_would_read(j->o->source, j->o->n_source, &so, path, &which))
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "the next build would read this file as a source "
                        "(%s); write it elsewhere, or under another name",
                        which);
    return CAG_OK;
}

/* What is written must not be what is read, nor anything else of value. */
static cag_status protect(const struct build_job *j, cag_error *err)
{
    const char *out = j->o->output, *dep = j->o->depfile, *what;
    cag_status st;

    if (out && is_input(j, out, &what))
        return cag_fail(err, CAG_E_USAGE, out, -1,
                        "the output is what the build reads (%s)", what);
    if (dep && (is_input(j, dep, &what) || (out && !strcmp(out, dep))))
        return cag_fail(err, CAG_E_USAGE, dep, -1,
                        "the depfile is another file of this build");
    st = check_place(j, out, err);
    if (!st)
        st = check_place(j, dep, err);
    if (!st && dep)
        st = depfile_check_replace(dep, out ? out : "", err);
    if (!st && out && !j->o->force)
        st = kvc_check_replace(out, err);
    return st;
}

cag_status build_guard(const struct build_job *j, cag_error *err)
{
    cag_status st = protect(j, err);

    if (!st && j->o->output && j->o->checkpoint)
        st = checkpoint_check_replace(j->o->output, err);
    return st;
}
