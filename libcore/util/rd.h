/*
 * rd.h - little-endian reader over a bounded buffer, with a sticky error.
 *
 * After the first failure every read returns 0 and moves nothing, so a
 * parser reads a whole struct and checks r.status once.  Ranges are part of
 * the read: a number from a file is hostile until it has passed one.
 */
#ifndef UTIL_RD_H
#define UTIL_RD_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct rd {
    const uint8_t *data;
    size_t size, pos;
    const char *file; /* borrowed, for messages */
    int64_t base;     /* file offset of data[0] */
    cag_status status;
    cag_error *err;
};

void rd_init(struct rd *r, const void *data, size_t size, const char *file,
             int64_t base, cag_error *err);
uint8_t rd_u8(struct rd *r, const char *what, uint8_t min, uint8_t max);
uint16_t rd_u16(struct rd *r, const char *what, uint16_t min, uint16_t max);
uint32_t rd_u32(struct rd *r, const char *what, uint32_t min, uint32_t max);
uint64_t rd_u64(struct rd *r, const char *what, uint64_t min, uint64_t max);
int32_t rd_i32(struct rd *r, const char *what, int32_t min, int32_t max);
float rd_f32(struct rd *r, const char *what); /* any bits, NaN too */
/* n bytes in place, or NULL; valid as long as the buffer */
const uint8_t *rd_bytes(struct rd *r, const char *what, size_t n);
void rd_seek(struct rd *r, const char *what, size_t pos);
size_t rd_left(const struct rd *r);
/* Fail at the current position (only the first failure is kept). */
void rd_fail(struct rd *r, cag_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Unaligned little-endian access without a cast, for hot paths. */
static inline uint16_t rd_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t rd_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}
static inline uint64_t rd_le64(const uint8_t *p)
{
    return (uint64_t)rd_le32(p) | (uint64_t)rd_le32(p + 4) << 32;
}
static inline void rd_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void rd_put32(uint8_t *p, uint32_t v)
{
    rd_put16(p, (uint16_t)v);
    rd_put16(p + 2, (uint16_t)(v >> 16));
}
static inline void rd_put64(uint8_t *p, uint64_t v)
{
    rd_put32(p, (uint32_t)v);
    rd_put32(p + 4, (uint32_t)(v >> 32));
}

#endif
