/*
 * depfile.c - see depfile.h.
 *
 * Names as GNU make 4.3 and ninja 1.11 were measured to read them back: space,
 * '#' and ':' take a backslash (and a backslash before one doubles), '$'
 * doubles, a leading '~' becomes "./~".  What make cannot spell in a rule of
 * its own ('%' is a pattern, '=' an assignment, '|' and ';' separate) becomes
 * '?', which make's wildcards read as any character: with the file there it is
 * found, without it the word stands for itself and its empty rule.  Ninja knows
 * no wildcards and none of " ' & * < > ^ ` either; it takes such a name for a
 * file that is not there, and so looks at every run.
 */
#include "binding/depfile.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/error.h"
#include "util/file.h"
#include "util/note.h"

#define MAX_BYTES ((size_t)64 << 20)

/* Must this character of a prerequisite be a wildcard? */
static bool is_wild(const char *p)
{
    return strchr("%=|;\n\r\t", *p) || (!p[1] && strchr(" &:\\", *p));
}

static bool is_pattern(const char *name)
{
    const char *open = strchr(name, '[');

    for (const char *p = name; *p; p++)
        if (is_wild(p) || *p == '*' || *p == '?')
            return true;
    return open && strchr(open, ']');
}

/* A backslash before *p, and one more for each that stands before it: those
 * are read as escapes themselves. */
static void add_escape(struct buf *b, const char *name, const char *p)
{
    for (const char *q = p; q > name && q[-1] == '\\'; q--)
        buf_char(b, '\\');
    buf_char(b, '\\');
}

static void add_source(struct buf *b, const char *name)
{
    bool pattern = is_pattern(name);
    const char *close = strrchr(name, ']');

    if (name[0] == '~')
        buf_str(b, "./");
    for (const char *p = name; *p; p++) {
        if (is_wild(p) || (pattern && *p == '\\')) {
            buf_char(b, '?');
            continue;
        }
        if (*p == '$')
            buf_char(b, '$');
        else if (strchr("*?", *p) || (*p == '[' && close > p))
            buf_char(b, '\\');
        else if (strchr(" #:", *p) && pattern) /* no backslash before it */
            buf_char(b, '\\');
        else if (strchr(" #:", *p))
            add_escape(b, name, p);
        buf_char(b, *p);
    }
}

/* The target is what the caller's rule calls it: it need not be there, so
 * that no wildcard can stand for it. */
static void add_target(struct buf *b, const char *name)
{
    if (name[0] == '~')
        buf_str(b, "./");
    for (const char *p = name; *p; p++) {
        if (*p == '$')
            buf_char(b, '$');
        else if (strchr(" #:|*?[]%", *p))
            add_escape(b, name, p);
        buf_char(b, *p);
    }
}

/* What stands before the first blank that no backslash takes away. */
static const char *word_end(const char *p)
{
    for (; *p && *p != ' ' && *p != '\n'; p++)
        if (*p == '\\' && p[1] && p[1] != '\n')
            p++;
    return p;
}

/* "word:" as a rule begins; the rest of the line, or NULL. */
static const char *rule_begin(const char *p)
{
    const char *end = word_end(p);

    return end > p + 1 && end[-1] == ':' ? end : NULL;
}

/* Is it what depfile_write writes, for this target or any other that make can
 * spell? */
static bool is_depfile(const char *p, const struct buf *target)
{
    if (!strncmp(p, target->data, target->size) && p[target->size] == ':')
        p += target->size + 1;
    else
        p = rule_begin(p);
    while (p && !strncmp(p, " \\\n ", 4))
        p = word_end(p + 4);
    while (p && !strncmp(p, "\n\n", 2) && p[2])
        p = rule_begin(p + 2);
    return p && (!strcmp(p, "\n") || !*p);
}

cag_status depfile_check_replace(const char *path, const char *target,
                                 cag_error *err)
{
    struct file_place at;
    struct buf b = BUF_INIT, own = BUF_INIT;
    struct stat s;
    cag_status st = file_place_find_path(&at, path, err);
    int fd = st ? -1 : file_place_open(&at, O_RDONLY, 0);

    if (fd >= 0) { /* else: said when it is written */
        if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode))
            st = file_read_fd(fd, path, MAX_BYTES, &b, err);
        add_target(&own, target);
        if (!st && buf_failed(&own))
            st = cag_fail_nomem(err, "depfile");
        if (!st && b.size &&
            (memchr(b.data, 0, b.size) || !is_depfile(b.data, &own)))
            st = cag_fail(err, CAG_E_CREATE, path, -1,
                          "is a file but no list of dependencies, so it is "
                          "not replaced; name another one");
        close(fd);
    }
    buf_free(&own);
    buf_free(&b);
    file_place_release(&at);
    return st;
}

/* An empty file with the mode that any new file has; file_out keeps it. */
static void touch(const char *path)
{
    struct file_place at;
    int fd = file_place_find_path(&at, path, NULL)
                 ? -1
                 : file_place_open(&at, O_WRONLY | O_CREAT | O_EXCL, 0666);

    if (fd >= 0)
        close(fd);
    file_place_release(&at);
}

cag_status depfile_write(const char *path, const char *target,
                         const char *const *dep, int n_dep,
                         const cag_hooks *hooks, cag_error *err)
{
    struct buf b = BUF_INIT, old = BUF_INIT;
    struct file_out o;
    cag_status st;

    if (strpbrk(target, ";=\n\r\t"))
        note(hooks, CAG_NOTE_WARN,
             "%s: make cannot spell the target's name: %s", path, target);
    add_target(&b, target);
    buf_char(&b, ':');
    for (int i = 0; i < n_dep; i++) {
        buf_str(&b, " \\\n ");
        add_source(&b, dep[i]);
    }
    buf_char(&b, '\n');
    /* an empty rule for each, so that a deleted source is no error */
    for (int i = 0; i < n_dep; i++) {
        buf_char(&b, '\n');
        add_source(&b, dep[i]);
        buf_str(&b, ":\n");
    }
    if (buf_failed(&b)) {
        st = cag_fail_nomem(err, "depfile");
        goto out;
    }
    /* an equal one keeps its time: a second make changes no file */
    if (file_read_regular(path, b.size + 1, &old, NULL) == CAG_OK &&
        old.size == b.size && !memcmp(old.data, b.data, b.size)) {
        st = CAG_OK;
        goto out;
    }
    touch(path); /* where it cannot be made, the next call says why */
    st = file_out_open(&o, path, -1, err);
    if (st)
        goto out;
    st = file_out_write(&o, b.data, b.size, err);
    if (st)
        file_out_abort(&o);
    else
        st = file_out_commit(&o, err);
out:
    buf_free(&old);
    buf_free(&b);
    return st;
}
