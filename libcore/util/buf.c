/*
 * buf.c - a growing byte buffer.
 *
 * The capacity grows by half, and always has room for the final NUL.  Once
 * an allocation failed the buffer keeps what it had and ignores all further
 * appends, so that its content is a prefix and never has a hole.
 */
#include "util/buf.h"

#include <stdio.h>
#include <string.h>

#include "util/mem.h"

char *buf_reserve(struct buf *b, size_t n)
{
    size_t need, cap;
    char *p;

    if (b->failed)
        return NULL;
    if (!mem_add(&need, b->size, n) || !mem_add(&need, need, 1)) {
        b->failed = true;
        return NULL;
    }
    if (need > b->cap) {
        cap = b->cap + b->cap / 2;
        if (cap < need)
            cap = need;
        if (cap < 64)
            cap = 64;
        p = mem_realloc(b->data, cap);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
        b->data[b->size] = 0;
    }
    return b->data + b->size;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    char *p = buf_reserve(b, n);

    if (!p)
        return;
    if (n)
        memcpy(p, data, n);
    b->size += n;
    b->data[b->size] = 0;
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    char *p;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if ((p = buf_reserve(b, (size_t)n))) {
        vsnprintf(p, (size_t)n + 1, fmt, again);
        b->size += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

void buf_clear(struct buf *b)
{
    buf_truncate(b, 0);
    b->failed = false;
}

void buf_truncate(struct buf *b, size_t size)
{
    if (size >= b->size)
        return;
    b->size = size;
    b->data[size] = 0;
}

bool buf_failed(const struct buf *b)
{
    return b->failed;
}

char *buf_detach(struct buf *b, size_t *size)
{
    char *p = NULL;

    if (size)
        *size = 0;
    if (buf_reserve(b, 0)) {
        p = b->data;
        if (size)
            *size = b->size;
        b->data = NULL;
    }
    buf_free(b);
    return p;
}

void buf_free(struct buf *b)
{
    mem_free(b->data);
    b->data = NULL;
    b->size = b->cap = 0;
    b->failed = false;
}
