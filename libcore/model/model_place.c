/*
 * model_place.c - see model_place.h.
 *
 * A line is 64 hex digits, a space, an absolute path.  As with the digests,
 * only a file that nobody else can have written is read, and it is replaced
 * whole, under a lock.
 */
#include "model/model_place.h"

#include <string.h>

#include "util/buf.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/memo.h"

#define FILE_NAME "model-places"
#define MAX_BYTES ((size_t)256 << 10)
#define HEX       (2 * SHA256_SIZE)

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

struct noted {
    const char *hex, *path;
};

/* The other lines, as many of the newest as fit, and a new last one. */
static void compose(void *ctx, const struct buf *old, struct buf *out)
{
    const struct noted *new = ctx;
    size_t at = 0, n, n_path = strlen(new->path), fresh = HEX + n_path + 2;
    const char *s;

    while (next_line(old, &at, &s, &n))
        if (is_line(s, n) && old->size - at + n + fresh < MAX_BYTES &&
            !(n - HEX - 1 == n_path &&
              memcmp(s + HEX + 1, new->path, n_path) == 0)) {
            buf_add(out, s, n);
            buf_char(out, '\n');
        }
    buf_printf(out, "%s %s\n", new->hex, new->path);
}

void model_place_note(const char *dir, const uint8_t digest[SHA256_SIZE],
                      const char *path)
{
    char hex[HEX + 1], *abs = dir ? file_absolute(path) : NULL;
    struct noted new = { hex, abs };

    hash_hex(digest, SHA256_SIZE, hex);
    if (abs && !strchr(abs, '\n') && strlen(abs) <= MAX_BYTES / 16)
        memo_update(dir, FILE_NAME, 2 * MAX_BYTES, compose, &new);
    mem_free(abs);
}

char *model_place_find(const char *dir, const char *digest)
{
    char *found = NULL;
    struct buf b = BUF_INIT;
    size_t at = 0, n;
    const char *s;

    if (dir && strlen(digest) == HEX)
        memo_load(dir, FILE_NAME, 2 * MAX_BYTES, &b);
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
    return found;
}
