/*
 * depfile.c - see depfile.h.
 *
 * The escapes are those that GNU make 4.3 was measured to read back: space
 * and ':' and '|' and '*' take a backslash, '#' too, '$' doubles, a leading
 * '~' becomes "./~".  A backslash before an escaped character doubles.
 */
#include "build/depfile.h"

#include <string.h>

#include "util/note.h"
#include "util/buf.h"
#include "util/file.h"

static bool can_spell(const char *name)
{
    return !strpbrk(name, ";\n\r\t");
}

static void add_name(struct buf *b, const char *name)
{
    if (name[0] == '~')
        buf_str(b, "./");
    for (const char *p = name; *p; p++) {
        if (*p == '$')
            buf_char(b, '$');
        else if (strchr(" #:|*?[]%", *p)) {
            /* backslashes directly before an escaped character are read as
             * escapes themselves */
            for (const char *q = p; q > name && q[-1] == '\\'; q--)
                buf_char(b, '\\');
            buf_char(b, '\\');
        }
        buf_char(b, *p);
    }
}

cag_status depfile_write(const char *path, const char *target,
                         const char *const *dep, int n_dep,
                         const cag_hooks *hooks, cag_error *err)
{
    struct buf b = BUF_INIT, old = BUF_INIT;
    struct file_out o;
    cag_status st;

    add_name(&b, target);
    buf_char(&b, ':');
    for (int i = 0; i < n_dep; i++) {
        if (!can_spell(dep[i])) {
            note(hooks, CAG_NOTE_WARN,
                 "%s: make cannot spell this name; "
                 "left out of %s",
                 dep[i], path);
            continue;
        }
        buf_str(&b, " \\\n ");
        add_name(&b, dep[i]);
    }
    buf_char(&b, '\n');
    for (int i = 0; i < n_dep; i++) {
        /* an empty rule, so that a deleted source is no error; '=' and '&'
         * would turn the line into something else */
        if (!can_spell(dep[i]) || strpbrk(dep[i], "=&"))
            continue;
        buf_char(&b, '\n');
        add_name(&b, dep[i]);
        buf_str(&b, ":\n");
    }
    if (buf_failed(&b)) {
        st = cag_fail_nomem(err, "depfile");
        goto out;
    }
    /* an equal one keeps its time: a second make changes no file */
    if (file_read(path, b.size + 1, &old, NULL) == CAG_OK &&
        old.size == b.size && !memcmp(old.data, b.data, b.size)) {
        st = CAG_OK;
        goto out;
    }
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
