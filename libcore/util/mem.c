/*
 * mem.c - the only malloc of the library.
 *
 * Three counters make allocation testable: how many were asked for since
 * mem_fault, which of them must fail, and how many blocks are alive.  They
 * are relaxed atomics: exact totals, no ordering, a few nanoseconds.
 */
#include "util/mem.h"

#include <cag/base.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t n_asked, n_live, fail_at;
static atomic_bool fail_sticky;

/* Count one allocation; true if it has to fail. */
static bool must_fail(void)
{
    int64_t n =
        atomic_fetch_add_explicit(&n_asked, 1, memory_order_relaxed) + 1;
    int64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);

    if (at == 0)
        return false;
    return n == at ||
           (n > at && atomic_load_explicit(&fail_sticky, memory_order_relaxed));
}

static void *born(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

void *mem_alloc(size_t n)
{
    return must_fail() ? NULL : born(malloc(n ? n : 1));
}

void *mem_zalloc(size_t n)
{
    return must_fail() ? NULL : born(calloc(1, n ? n : 1));
}

void *mem_realloc(void *p, size_t n)
{
    if (!p)
        return mem_alloc(n);
    return must_fail() ? NULL : realloc(p, n ? n : 1);
}

void *mem_alloc_array(size_t n, size_t size)
{
    size_t total;

    if (!mem_mul(&total, n, size))
        return NULL;
    return mem_zalloc(total);
}

void *mem_alloc_aligned(size_t align, size_t n)
{
    void *p = NULL;

    if (align < sizeof(void *))
        align = sizeof(void *);
    if (must_fail() || posix_memalign(&p, align, n ? n : 1) != 0)
        return NULL;
    return born(p);
}

void mem_free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free(p);
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
    size_t size;
    char *p;

    if (!mem_add(&size, n, 1) || !(p = mem_alloc(size)))
        return NULL;
    if (n)
        memcpy(p, s, n);
    p[n] = 0;
    return p;
}

bool mem_mul(size_t *out, size_t a, size_t b)
{
    size_t r;

    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

bool mem_add(size_t *out, size_t a, size_t b)
{
    size_t r;

    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

void mem_fault(int64_t nth, bool sticky)
{
    atomic_store(&fail_at, 0);
    atomic_store(&fail_sticky, sticky);
    atomic_store(&n_asked, 0);
    atomic_store(&fail_at, nth);
}

int64_t mem_count(void)
{
    return atomic_load(&n_asked);
}

int64_t mem_live(void)
{
    return atomic_load(&n_live);
}

void cag_free(void *p)
{
    mem_free(p);
}
