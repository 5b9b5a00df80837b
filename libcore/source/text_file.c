/*
 * text_file.c - whole files for the programs, with the library's checks.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cag/tool/text_file.h>

#include "source/sources.h"
#include "util/buf.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_place.h"
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

/* A file that another user has prepared he can read; a model or a cache must
 * not be lost. */
static cag_status check_text(const struct file_place *at, cag_error *err)
{
    struct stat s;
    cag_status st = CAG_OK;
    int fd;

    if (file_place_stat(at, &s) == 0 && S_ISREG(s.st_mode) && !trust_owner(&s))
        return cag_fail(err, CAG_E_CREATE, at->path, -1,
                        "belongs to user %lu, who could read what is written; "
                        "name another file",
                        (unsigned long)s.st_uid);
    fd = file_place_open(at, O_RDONLY, 0);
    if (fd >= 0) { /* else: said when it is written */
        st = file_check_text(fd, at->path, err);
        close(fd);
    }
    return st;
}

cag_status cag_check_text_output(const char *path, cag_error *err)
{
    struct file_place at;
    struct stat s;
    cag_status st = file_place_find(&at, path, err);

    if (!st)
        st = check_text(&at, err);
    if (!st && file_place_stat(&at, &s) != 0)
        st =
            faccessat(at.dir, ".", W_OK | X_OK, AT_EACCESS) == 0
                ? CAG_OK
                : cag_fail_sys(err, CAG_E_CREATE, errno, path, "cannot create");
    else if (!st && S_ISDIR(s.st_mode))
        st = cag_fail(err, CAG_E_CREATE, path, -1, "is a directory");
    else if (!st && faccessat(at.dir, at.name, W_OK, AT_EACCESS) != 0)
        st = cag_fail_sys(err, CAG_E_CREATE, errno, path, "cannot write");
    file_place_release(&at);
    return st;
}

/* ELOOP: a link has come under the name since it was found. */
static cag_status open_once(const char *path, int flags, mode_t mode, int *fd,
                            int *sys, cag_error *err)
{
    struct file_place at;
    cag_status st = file_place_find(&at, path, err);

    if (!st)
        st = check_text(&at, err);
    if (!st)
        *fd = file_place_open_output(&at, flags | O_CREAT, mode);
    *sys = *fd < 0 ? errno : 0;
    file_place_release(&at);
    return st;
}

cag_status cag_open_output(const char *path, bool append, bool own, int *fd,
                           cag_error *err)
{
    struct stat s;
    int sys = ELOOP;
    cag_status st = CAG_OK;

    *fd = -1;
    for (int i = 0; !st && *fd < 0 && sys == ELOOP && i < 40; i++)
        st = open_once(path, append ? O_APPEND : 0, own ? 0600 : 0666, fd, &sys,
                       err);
    if (st)
        return st;
    if (*fd < 0 && sys == ENXIO)
        return cag_fail(err, CAG_E_CREATE, path, -1,
                        "is a FIFO that nobody reads");
    if (*fd >= 0 &&
        (fstat(*fd, &s) != 0 ||
         (S_ISREG(s.st_mode) &&
          (!trust_owner(&s) || (!append && ftruncate(*fd, 0) != 0))))) {
        sys = trust_owner(&s) ? errno : EPERM;
        close(*fd);
        *fd = -1;
    }
    if (*fd < 0)
        return cag_fail_sys(err, CAG_E_CREATE, sys, path, "cannot create");
    return CAG_OK;
}

cag_status cag_write_text(const char *path, const char *text, int mode,
                          cag_error *err)
{
    struct file_out o;
    cag_status st = file_out_open(&o, path, mode, err);

    if (st)
        return st;
    st = file_out_write(&o, text, strlen(text), err);
    if (!st)
        st = file_out_write(&o, "\n", 1, err);
    if (st)
        file_out_abort(&o);
    else
        st = file_out_commit(&o, err);
    return st;
}
