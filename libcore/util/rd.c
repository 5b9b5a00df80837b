/*
 * rd.c - little-endian reader with a sticky error.
 *
 * Every check compares a length with what is left, never a sum with the
 * end, so that no number from the file can overflow it.
 */
#include "util/rd.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void rd_init(struct rd *r, const void *data, size_t size, const char *file,
             int64_t base, cag_error *err)
{
    r->data = data;
    r->size = size;
    r->pos = 0;
    r->file = file;
    r->base = base;
    r->status = CAG_OK;
    r->err = err;
}

size_t rd_left(const struct rd *r)
{
    return r->size - r->pos;
}

static void fail_at(struct rd *r, size_t pos, cag_status status,
                    const char *fmt, va_list ap)
{
    char msg[sizeof r->err->msg];

    if (r->status)
        return;
    r->status = status;
    vsnprintf(msg, sizeof msg, fmt, ap);
    cag_fail(r->err, status, r->file, r->base + (int64_t)pos, "%s", msg);
}

void rd_fail(struct rd *r, cag_status status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail_at(r, r->pos, status, fmt, ap);
    va_end(ap);
}

const uint8_t *rd_bytes(struct rd *r, const char *what, size_t n)
{
    const uint8_t *p;

    if (r->status)
        return NULL;
    if (n > rd_left(r)) {
        rd_fail(r, CAG_E_FORMAT,
                "file ends inside %s: %zu bytes needed, %zu left", what, n,
                rd_left(r));
        return NULL;
    }
    /* an empty buffer may have no address; zero bytes of it still do */
    p = r->data ? r->data + r->pos : (const uint8_t *)"";
    r->pos += n;
    return p;
}

/* The value at width bytes, moved over; 0 and *ok false after a failure. */
static uint64_t number(struct rd *r, const char *what, size_t width, bool *ok)
{
    const uint8_t *p = rd_bytes(r, what, width);
    uint64_t v = 0;

    *ok = p != NULL;
    if (!p)
        return 0;
    for (size_t i = 0; i < width; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* Report at the number itself, not after it. */
static void out_of_range(struct rd *r, size_t width, const char *fmt, ...)
{
    va_list ap;

    r->pos -= width;
    va_start(ap, fmt);
    fail_at(r, r->pos, CAG_E_FORMAT, fmt, ap);
    va_end(ap);
}

static uint64_t ranged(struct rd *r, const char *what, size_t width,
                       uint64_t min, uint64_t max)
{
    bool ok;
    uint64_t v = number(r, what, width, &ok);

    if (!ok || (v >= min && v <= max))
        return v;
    if (min == max)
        out_of_range(r, width, "%s is %llu, expected %llu", what,
                     (unsigned long long)v, (unsigned long long)min);
    else
        out_of_range(r, width, "%s is %llu, expected %llu..%llu", what,
                     (unsigned long long)v, (unsigned long long)min,
                     (unsigned long long)max);
    return 0;
}

uint8_t rd_u8(struct rd *r, const char *what, uint8_t min, uint8_t max)
{
    return (uint8_t)ranged(r, what, 1, min, max);
}

uint16_t rd_u16(struct rd *r, const char *what, uint16_t min, uint16_t max)
{
    return (uint16_t)ranged(r, what, 2, min, max);
}

uint32_t rd_u32(struct rd *r, const char *what, uint32_t min, uint32_t max)
{
    return (uint32_t)ranged(r, what, 4, min, max);
}

uint64_t rd_u64(struct rd *r, const char *what, uint64_t min, uint64_t max)
{
    return ranged(r, what, 8, min, max);
}

int32_t rd_i32(struct rd *r, const char *what, int32_t min, int32_t max)
{
    bool ok;
    uint32_t u = (uint32_t)number(r, what, 4, &ok);
    int32_t v = u <= INT32_MAX ? (int32_t)u : -(int32_t)(UINT32_MAX - u) - 1;

    if (!ok || (v >= min && v <= max))
        return v;
    out_of_range(r, 4, "%s is %d, expected %d..%d", what, (int)v, (int)min,
                 (int)max);
    return 0;
}

float rd_f32(struct rd *r, const char *what)
{
    bool ok;
    uint32_t u = (uint32_t)number(r, what, 4, &ok);
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

void rd_seek(struct rd *r, const char *what, size_t pos)
{
    if (r->status)
        return;
    if (pos > r->size) {
        rd_fail(r, CAG_E_FORMAT, "%s is at byte %zu, but there are only %zu",
                what, pos, r->size);
        return;
    }
    r->pos = pos;
}
