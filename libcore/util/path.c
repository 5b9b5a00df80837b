/*
 * path.c - path arithmetic on strings, and where a name leads.
 *
 * The arithmetic is purely lexical: "a/../b" is "b" even if a is a symbolic
 * link.  That is what a recorded relative path needs: the same answer on
 * every machine.
 */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/file.h"
#include "util/mem.h"

char *file_dirname(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        return mem_strdup(".");
    while (n > 1 && path[n - 1] == '/')
        n--;
    return mem_strndup(path, n);
}

char *file_join(const char *dir, const char *name)
{
    struct buf b = BUF_INIT;

    if (name[0] == '/' || dir[0] == 0)
        return mem_strdup(name);
    buf_str(&b, dir);
    if (dir[strlen(dir) - 1] != '/')
        buf_char(&b, '/');
    buf_str(&b, name);
    return buf_detach(&b, NULL);
}

/* Append the parts of path to b, which holds an absolute path without a
 * slash at its end ("" for the root). */
static void add_parts(struct buf *b, const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");

        if (n == 2 && path[0] == '.' && path[1] == '.') {
            size_t i = b->size;
            while (i > 0 && b->data[i - 1] != '/')
                i--;
            buf_truncate(b, i ? i - 1 : 0);
        } else if (n > 0 && !(n == 1 && path[0] == '.')) {
            buf_char(b, '/');
            buf_add(b, path, n);
        }
        path += n;
        path += *path == '/';
    }
}

char *file_absolute(const char *path)
{
    struct buf b = BUF_INIT, cwd = BUF_INIT;

    if (path[0] != '/') {
        size_t room = 256;
        char *p;

        while ((p = buf_reserve(&cwd, room)) && !getcwd(p, room)) {
            room *= 2;
            if (room > (size_t)1 << 20) { /* no current directory */
                buf_free(&cwd);
                return NULL;
            }
        }
        if (!p)
            goto out;
        add_parts(&b, p);
    }
    add_parts(&b, path);
    if (b.size == 0)
        buf_char(&b, '/');
out:
    b.failed |= cwd.failed;
    buf_free(&cwd);
    return buf_detach(&b, NULL);
}

char *file_relative(const char *path, const char *dir)
{
    char *p = file_absolute(path), *d = file_absolute(dir);
    struct buf b = BUF_INIT;
    size_t i = 0, common = 0;

    if (!p || !d)
        goto out;
    /* the longest common run of whole parts */
    for (; p[i] && p[i] == d[i]; i++)
        if (p[i] == '/')
            common = i + 1;
    if ((!p[i] || p[i] == '/') && (!d[i] || d[i] == '/') && i > 1)
        common = i + (p[i] == '/' || d[i] == '/');
    const char *pr = common <= strlen(p) ? p + common : "";
    const char *dr = common <= strlen(d) ? d + common : "";
    while (*dr) {
        dr += strcspn(dr, "/");
        dr += *dr == '/';
        buf_str(&b, *pr || *dr ? "../" : "..");
    }
    buf_str(&b, pr);
    if (b.size == 0)
        buf_char(&b, '.');
out:
    mem_free(p);
    mem_free(d);
    if (!p || !d) {
        buf_free(&b);
        return NULL;
    }
    return buf_detach(&b, NULL);
}

/* ------------------------------------------------- following links */

/* The number of an open file, when path is the name of one. */
static int fd_of(const char *path)
{
    static const char *const dirs[] = { "/proc/self/fd/", "/dev/fd/" };

    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        size_t n = strlen(dirs[i]);
        char *end;

        if (strncmp(path, dirs[i], n) != 0 || !isdigit((unsigned char)path[n]))
            continue;
        long fd = strtol(path + n, &end, 10);
        if (*end == 0 && fd <= INT_MAX)
            return (int)fd;
    }
    return -1;
}

/* Follow the links of the last part; stop where *fd, unless NULL, is open. */
static char *follow(const char *path, int *fd)
{
    char *at = mem_strdup(path);

    for (int hops = 0; at && hops < 40; hops++) {
        char link[4096];
        ssize_t n = readlink(at, link, sizeof link - 1);

        if (fd && (*fd = fd_of(at)) >= 0)
            return at;
        if (n < 0 || (size_t)n == sizeof link - 1)
            return at;
        link[n] = 0;
        char *dir = file_dirname(at);
        char *next = dir ? file_join(dir, link) : NULL;
        mem_free(dir);
        mem_free(at);
        at = next;
    }
    return at;
}

char *file_follow(const char *path)
{
    return follow(path, NULL);
}

int file_named_fd(const char *path)
{
    int fd = -1;

    mem_free(follow(path, &fd));
    return fd;
}

char *file_real_dir(const char *path)
{
    char real[PATH_MAX];
    char *at = file_follow(path), *dir = at ? file_dirname(at) : NULL;

    mem_free(at);
    if (dir && realpath(dir, real)) {
        mem_free(dir);
        return mem_strdup(real);
    }
    at = dir ? file_absolute(dir) : NULL;
    mem_free(dir);
    return at;
}
