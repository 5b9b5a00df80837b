/*
 * mem.h - the only malloc.
 *
 * Every allocation of the library goes through here, so that sizes made from
 * hostile numbers are overflow-checked, and so that a test can make the N-th
 * allocation fail (tests/fault).  Libraries that accept an allocator are
 * given these functions too.
 */
#ifndef UTIL_MEM_H
#define UTIL_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t n);            /* NULL on failure; n 0 -> 1     */
void *mem_zalloc(size_t n);           /* zeroed                        */
void *mem_realloc(void *p, size_t n); /* on NULL p is still valid      */
void *mem_alloc_array(size_t n, size_t size);    /* n * size, checked, zeroed */
void *mem_alloc_aligned(size_t align, size_t n); /* release with mem_free */
void mem_free(void *p); /* NULL is fine                  */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); /* adds a NUL                  */

/* false on overflow, then *out is unchanged */
bool mem_mul(size_t *out, size_t a, size_t b);
bool mem_add(size_t *out, size_t a, size_t b);

/*
 * Test hook: the nth allocation from now (1 = the next) fails, and all
 * later ones if sticky; 0 turns it off.  mem_count() is the number of
 * allocations since the last call of mem_fault; mem_live() the number of
 * blocks not yet freed.  Thread-safe.
 */
void mem_fault(int64_t nth, bool sticky);
int64_t mem_count(void);
int64_t mem_live(void);

#endif
