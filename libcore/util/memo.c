/*
 * memo.c - see memo.h.
 */
#include "util/memo.h"

#include <sys/stat.h>

#include "util/file.h"
#include "util/file_lock.h"
#include "util/mem.h"
#include "util/trust.h"

#define LOCK_S 1.0 /* a writer needs milliseconds */

static void load(const char *path, size_t max_bytes, struct buf *b)
{
    buf_clear(b);
    if (trust_read(path, max_bytes, b, NULL))
        buf_clear(b);
}

void memo_load(const char *dir, const char *name, size_t max_bytes,
               struct buf *b)
{
    char *path = trust_dir(dir) ? file_join(dir, name) : NULL;

    buf_clear(b);
    if (path)
        load(path, max_bytes, b);
    mem_free(path);
}

void memo_update(const char *dir, const char *name, size_t max_bytes,
                 memo_fn *compose, void *ctx)
{
    struct buf old = BUF_INIT, new = BUF_INIT;
    struct file_lock lock = FILE_LOCK_NONE;
    struct file_out o = { .fd = -1 };
    struct stat s;
    char *path = trust_dir(dir) ? file_join(dir, name) : NULL;

    /* where a link is, or no file, nothing is to be replaced */
    if (!path || (lstat(path, &s) == 0 && !S_ISREG(s.st_mode)) ||
        file_lock(&lock, path, -1, LOCK_S, NULL))
        goto out;
    load(path, max_bytes, &old);
    compose(ctx, &old, &new);
    if (buf_failed(&new) || file_out_open(&o, path, -1, NULL))
        goto out;
    if (file_out_write(&o, new.data, new.size, NULL))
        file_out_abort(&o);
    else
        file_out_commit(&o, NULL); /* aborts itself on failure */
out:
    file_unlock(&lock);
    buf_free(&old);
    buf_free(&new);
    mem_free(path);
}
