/*
 * path.c - path arithmetic on strings.
 *
 * Purely lexical: "a/../b" is "b" even if a is a symbolic link.  That is
 * what a recorded relative path needs: the same answer on every machine.
 */
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
