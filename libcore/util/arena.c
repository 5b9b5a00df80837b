/*
 * arena.c - bump allocation in a chain of blocks.
 *
 * Blocks double from 4 KiB to 1 MiB, so a small object costs one block and a
 * large one few.  A request that would waste most of a block gets a block
 * of its own, put *after* the current one, which stays in use.
 */
#include "util/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util/mem.h"

#define BLOCK_MIN ((size_t)4096)
#define BLOCK_MAX ((size_t)1 << 20)
#define ALIGN_MAX ((size_t)64)

struct arena_block {
    struct arena_block *next;
    size_t used, cap; /* of the ALIGN_MAX-aligned body */
};
#define BODY ALIGN_MAX /* the body starts here in a block */
_Static_assert(sizeof(struct arena_block) <= BODY, "header fits");

static char *body(struct arena_block *b)
{
    return (char *)b + BODY;
}

static struct arena_block *block_new(size_t cap)
{
    struct arena_block *b;
    size_t size;

    if (!mem_add(&size, cap, BODY) || size > SIZE_MAX / 2)
        return NULL;
    b = mem_alloc_aligned(ALIGN_MAX, size);
    if (!b)
        return NULL;
    b->next = NULL;
    b->used = 0;
    b->cap = cap;
    return b;
}

void *arena_alloc(struct arena *a, size_t size, size_t align)
{
    struct arena_block *b = a->head;

    if (size > SIZE_MAX / 4 || align == 0 || align > ALIGN_MAX)
        return NULL;
    if (size == 0)
        size = 1;
    if (b) {
        size_t at = (b->used + align - 1) & ~(align - 1);
        if (at <= b->cap && size <= b->cap - at) {
            b->used = at + size;
            return memset(body(b) + at, 0, size);
        }
    }
    size_t cap = b ? b->cap * 2 : BLOCK_MIN;
    if (cap > BLOCK_MAX)
        cap = BLOCK_MAX;
    if (cap < BLOCK_MIN)
        cap = BLOCK_MIN;
    bool own = size > cap / 2;
    struct arena_block *n = block_new(own ? size : cap);
    if (!n)
        return NULL;
    n->used = size;
    if (own && b) {
        n->next = b->next;
        b->next = n;
    } else {
        n->next = b;
        a->head = n;
    }
    return memset(body(n), 0, size);
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
    size_t total;

    if (!mem_mul(&total, n, size))
        return NULL;
    return arena_alloc(a, total, _Alignof(max_align_t));
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t size;
    char *p;

    if (!mem_add(&size, n, 1) || !(p = arena_alloc(a, size, 1)))
        return NULL;
    if (n)
        memcpy(p, s, n);
    return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    char *p = NULL;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && (p = arena_alloc(a, (size_t)n + 1, 1)))
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p;
}

void arena_release(struct arena *a)
{
    struct arena_block *b = a->head, *next;

    for (; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    a->head = NULL;
}
