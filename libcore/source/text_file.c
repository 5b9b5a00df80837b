/*
 * text_file.c - whole files for the programs, with the library's checks.
 */
#include <string.h>

#include <cag/tool/text_file.h>

#include "source/sources.h"
#include "util/buf.h"
#include "util/file.h"

cag_status cag_read_file(const char *path, char **data, size_t *size,
                         cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_status st = file_read(path, SOURCE_MAX_BYTES, &b, err);

    if (!st && !(*data = buf_detach(&b, size)))
        st = cag_fail_nomem(err, "file");
    buf_free(&b);
    return st;
}

cag_status cag_read_text(const char *path, const char **text, cag_error *err)
{
    size_t n;
    char *s;
    cag_status st = cag_read_file(path, &s, &n, err);

    if (st)
        return st;
    st = source_check_text(s, n, strcmp(path, "-") ? path : "standard input",
                           err);
    if (st) {
        cag_free(s);
        return st;
    }
    if (!strncmp(s, "\xef\xbb\xbf", 3))
        memmove(s, s + 3, n - 2);
    *text = s;
    return CAG_OK;
}

cag_status cag_check_text_output(const char *path, cag_error *err)
{
    return file_check_text(path, err);
}
