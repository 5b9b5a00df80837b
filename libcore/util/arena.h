/*
 * arena.h - bump allocation for objects that die together.
 *
 * A long-lived object owns one arena; its parts are carved from it and are
 * released in one call.  Memory is zeroed.
 */
#ifndef UTIL_ARENA_H
#define UTIL_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *head;
}; /* {0} is a valid empty arena */

/* NULL when out of memory.  align is a power of two, at most 64. */
void *arena_alloc(struct arena *a, size_t size, size_t align);
/* n * size with overflow check, aligned for any type */
void *arena_array(struct arena *a, size_t n, size_t size);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void arena_release(struct arena *a);

#endif
