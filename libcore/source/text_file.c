/*
 * text_file.c - whole files for the programs, with the library's checks.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <cag/tool/text_file.h>

#include "source/sources.h"
#include "util/buf.h"
#include "util/error.h"
#include "util/file.h"
#include "util/trust.h"

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
    cag_status st = trust_links(path, err);

    return st ? st : file_check_text(path, err);
}

cag_status cag_open_output(const char *path, bool append, bool own, int *fd,
                           cag_error *err)
{
    const int kind = append ? O_APPEND : O_TRUNC;
    cag_status st = cag_check_text_output(path, err);

    *fd = -1;
    if (st)
        return st;
    do
        *fd = open(
            path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | kind,
            own ? 0600 : 0666);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0 && errno == ENXIO)
        return cag_fail(err, CAG_E_CREATE, path, -1,
                        "is a FIFO that nobody reads");
    if (*fd < 0)
        return cag_fail_sys(err, CAG_E_CREATE, errno, path, "cannot create");
    fcntl(*fd, F_SETFL, append ? O_APPEND : 0); /* from now on it may wait */
    return CAG_OK;
}
