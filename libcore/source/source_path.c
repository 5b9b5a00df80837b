/*
 * source_path.c - see source_path.h.
 */
#include "source/source_path.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/mem.h"
#include "util/text.h"

char *source_dir_of(const char *kvc_path)
{
    return file_real_dir(kvc_path);
}

char *source_path(const char *path, const char *dir)
{
    char real[PATH_MAX];
    char *abs, *rel;

    /* the directory is resolved, the last component is kept as named: a
     * source that is a link stays the link */
    abs = file_absolute(path);
    if (abs) {
        char *d = file_dirname(abs);
        const char *base = strrchr(abs, '/') + 1;

        if (d && realpath(d, real)) {
            char *j = file_join(real, base);

            mem_free(abs);
            abs = j;
        }
        mem_free(d);
    }
    rel = abs ? file_relative(abs, dir) : NULL;
    mem_free(abs);
    return rel;
}

cag_status source_path_check(const char *path, const char *dir, cag_error *err)
{
    char *rel = path ? source_path(path, dir) : NULL;
    cag_status st = CAG_OK;
    size_t bad;

    if (path && !rel)
        st = cag_fail_nomem(err, "path");
    else if (rel && !utf8_valid(rel, strlen(rel), &bad))
        st = cag_fail(err, CAG_E_FORMAT, path, -1,
                      "the name is not UTF-8, so a cache cannot record it; "
                      "rename the file");
    mem_free(rel);
    return st;
}

const char *const *source_filter_of(const cag_source_spec *s)
{
    return s->filter ? s->filter : s->filter_was;
}

cag_status source_check_below(const char *below, const char *real,
                              const cag_source_spec *spec, const char *shown,
                              cag_error *err)
{
    const char *const *filter = source_filter_of(spec);
    size_t n = strlen(below);

    while (n && below[n - 1] == '/')
        n--;
    if (!strncmp(real, below, n) && (real[n] == '/' || !real[n]))
        return CAG_OK;
    if (filter && filter[0])
        return cag_fail(err, CAG_E_USAGE, shown, -1,
                        "lies outside the cache's directory and goes through "
                        "the filter %s: if it changed, run cag-build "
                        "--manifest with its manifest, which alone runs "
                        "filters; if not, --allow-outside reads it "
                        "nevertheless",
                        filter[0]);
    return cag_fail(err, CAG_E_USAGE, shown, -1,
                    "lies outside the cache's directory; --allow-outside "
                    "reads it nevertheless");
}
