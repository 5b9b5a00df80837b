/*
 * buf.h - a growing byte buffer with a sticky out-of-memory flag.
 *
 * Append without checking, check buf_failed() once at the end.  data is
 * always NUL-terminated (the NUL is not counted in size) unless NULL.
 */
#ifndef UTIL_BUF_H
#define UTIL_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* owned; NULL while nothing was appended */
    size_t size, cap;
    bool failed;
};
#define BUF_INIT          \
    {                     \
        NULL, 0, 0, false \
    }

void buf_add(struct buf *b, const void *data, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b); /* keeps the memory, forgets a failure */
void buf_truncate(struct buf *b, size_t size);
bool buf_failed(const struct buf *b);
/* Room for n more bytes (and the NUL) at the returned address, data + size;
 * whoever fills it adds to size and sets the NUL.  NULL when it failed. */
char *buf_reserve(struct buf *b, size_t n);
/* Hand the (never NULL unless failed) memory to the caller, who releases it
 * with mem_free; b is reset. */
char *buf_detach(struct buf *b, size_t *size);
void buf_free(struct buf *b);

#endif
