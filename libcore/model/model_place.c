/*
 * model_place.c - see model_place.h.
 *
 * A line is 64 hex digits, a space, an absolute path.  As with the digests,
 * only a file that nobody else can have written is read, and it is replaced
 * whole, under a lock.
 */
#include "model/model_place.h"

#include <string.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/file.h"
#include "util/file_lock.h"
#include "util/mem.h"
#include "util/trust.h"

#define FILE_NAME "model-places"
#define MAX_BYTES ((size_t)256 << 10)
#define LOCK_S    1.0
#define HEX       (2 * SHA256_SIZE)

static void load(const char *dir, const char *file, struct buf *b)
{
    int fd = -1;

    buf_clear(b);
    if (trust_dir(dir) && !trust_open(file, &fd, NULL) &&
        file_read_fd(fd, file, 2 * MAX_BYTES, b, NULL))
        buf_clear(b);
    if (fd >= 0)
        close(fd);
}

/* The line at *at, which moves to the next one; false at the end. */
static bool next_line(const struct buf *b, size_t *at, const char **s,
                      size_t *n)
{
    const char *end;

    if (*at >= b->size)
        return false;
    *s = b->data + *at;
    end = memchr(*s, '\n', b->size - *at);
    *n = end ? (size_t)(end - *s) : b->size - *at;
    *at += *n + 1;
    return true;
}

static bool is_line(const char *s, size_t n)
{
    return n > HEX + 2 && s[HEX] == ' ' && s[HEX + 1] == '/';
}

/* The other lines, as many of the newest as fit, and a new last one. */
static void compose(const struct buf *old, const char *hex, const char *path,
                    struct buf *out)
{
    size_t at = 0, n, fresh = HEX + strlen(path) + 2;
    const char *s;

    while (next_line(old, &at, &s, &n))
        if (is_line(s, n) && old->size - at + n + fresh < MAX_BYTES &&
            !(n - HEX - 1 == strlen(path) &&
              memcmp(s + HEX + 1, path, n - HEX - 1) == 0)) {
            buf_add(out, s, n);
            buf_char(out, '\n');
        }
    buf_printf(out, "%s %s\n", hex, path);
}

void model_place_note(const char *dir, const uint8_t digest[SHA256_SIZE],
                      const char *path)
{
    struct buf old = BUF_INIT, new = BUF_INIT;
    struct file_lock lock = { -1, NULL };
    struct file_out o = { .fd = -1 };
    char hex[HEX + 1];
    char *file = NULL, *abs = NULL;

    if (!dir || !trust_dir(dir))
        return;
    file = file_join(dir, FILE_NAME);
    abs = file_absolute(path);
    if (!file || !abs || strchr(abs, '\n') || strlen(abs) > MAX_BYTES / 16 ||
        file_lock(&lock, file, -1, LOCK_S, NULL))
        goto out;
    hash_hex(digest, SHA256_SIZE, hex);
    load(dir, file, &old);
    compose(&old, hex, abs, &new);
    if (buf_failed(&new) || file_out_open(&o, file, -1, NULL))
        goto out;
    if (file_out_write(&o, new.data, new.size, NULL))
        file_out_abort(&o);
    else
        file_out_commit(&o, NULL); /* aborts itself on failure */
out:
    file_unlock(&lock);
    buf_free(&old);
    buf_free(&new);
    mem_free(file);
    mem_free(abs);
}

char *model_place_find(const char *dir, const char *digest)
{
    char *file = dir ? file_join(dir, FILE_NAME) : NULL, *found = NULL;
    struct buf b = BUF_INIT;
    size_t at = 0, n;
    const char *s;

    if (file && strlen(digest) == HEX)
        load(dir, file, &b);
    while (next_line(&b, &at, &s, &n)) {
        char *path;

        if (!is_line(s, n) || memcmp(s, digest, HEX) != 0)
            continue;
        path = mem_strndup(s + HEX + 1, n - HEX - 1);
        if (path && file_exists(path)) {
            mem_free(found);
            found = path;
        } else {
            mem_free(path);
        }
    }
    buf_free(&b);
    mem_free(file);
    return found;
}
