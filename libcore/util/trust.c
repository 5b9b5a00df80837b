/*
 * trust.c - see trust.h.
 *
 * The permission bits of a group are, where a file has an ACL, the mask over
 * all its entries: copied without the ACL they would give the group what
 * only some named user had.  So an ACL is kept whole, or group and others
 * lose everything.  A new file may also have got an ACL from its directory,
 * which a wider mode would bring to life: it is removed.
 */
#include "util/trust.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "util/file.h"

#define ACL "system.posix_acl_access"

bool trust_owner(const struct stat *s)
{
    return s->st_uid == 0 || s->st_uid == geteuid();
}

bool trust_stat(const struct stat *s)
{
    return trust_check(s->st_uid, s->st_mode, NULL, NULL) == CAG_OK;
}

cag_status trust_check(uid_t owner, mode_t mode, const char *name,
                       cag_error *err)
{
    if (owner != 0 && owner != geteuid())
        return cag_fail(err, CAG_E_UNSUPPORTED, name, -1,
                        "belongs to user %lu, neither to you nor to root",
                        (unsigned long)owner);
    if (mode & (S_IWGRP | S_IWOTH))
        return cag_fail(err, CAG_E_UNSUPPORTED, name, -1,
                        "may be written by other users (mode %03o)",
                        (unsigned)mode & 0777);
    return CAG_OK;
}

cag_status trust_fd(int fd, const char *name, cag_error *err)
{
    struct stat s;

    if (fstat(fd, &s) != 0)
        return cag_fail_sys(err, CAG_E_IO, errno, name, "cannot stat");
    if (!S_ISREG(s.st_mode))
        return cag_fail(err, CAG_E_UNSUPPORTED, name, -1,
                        "is not a regular file");
    return trust_check(s.st_uid, s.st_mode, name, err);
}

cag_status trust_open(const char *path, int *fd, cag_error *err)
{
    cag_status st;

    do
        *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0)
        return cag_fail_sys(err, CAG_E_MISSING, errno, path, "cannot open");
    st = trust_fd(*fd, path, err);
    if (st) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

cag_status trust_read(const char *path, size_t max_bytes, struct buf *b,
                      cag_error *err)
{
    int fd;
    cag_status st = trust_open(path, &fd, err);

    if (!st) {
        st = file_read_fd(fd, path, max_bytes, b, err);
        close(fd);
    }
    return st;
}

bool trust_dir(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && trust_stat(&s);
}

/* The ACL of old_fd to fd: 1 kept, 0 there is none, -1 it could not be kept. */
static int keep_acl(int fd, int old_fd)
{
    char acl[4096], has[4096];
    ssize_t n_has = fgetxattr(fd, ACL, has, sizeof has);
    ssize_t n = fgetxattr(old_fd, ACL, acl, sizeof acl);

    if (n > 0 && n_has == n && !memcmp(acl, has, (size_t)n))
        return 1;
    if (n > 0)
        return fsetxattr(fd, ACL, acl, (size_t)n, 0) == 0 ? 1 : -1;
    const bool none = errno == ENODATA || errno == ENOTSUP;

    if (fremovexattr(fd, ACL) != 0 && errno != ENODATA && errno != ENOTSUP)
        return -1;
    return none ? 0 : -1;
}

int trust_inherit(int fd, int old_fd, const struct stat *old, int mode)
{
    mode_t m = mode != -1 ? (mode_t)mode : 0600;
    struct stat is;
    bool group;
    int acl;

    if (fstat(fd, &is) != 0)
        return -1;
    if (old && trust_owner(old)) {
        group =
            is.st_gid == old->st_gid || fchown(fd, (uid_t)-1, old->st_gid) == 0;
        acl = group ? keep_acl(fd, old_fd) : -1;
        if (mode == -1 && acl == 1)
            return 0; /* it carries the mode */
        if (mode == -1) {
            m = old->st_mode & 0777;
            if (!group) /* members of ours get no more than others had */
                m = (m & ~(mode_t)070) | ((m & 07) << 3 & m);
            else if (acl < 0)
                m &= 0700;
        }
    } else if (mode == -1) {
        return 0; /* as it was created: 0600 & ~umask */
    }
    /* an ACL that was set or taken away has changed it */
    if (fstat(fd, &is) == 0 && (is.st_mode & 07777) == m)
        return 0;
    return fchmod(fd, m);
}
