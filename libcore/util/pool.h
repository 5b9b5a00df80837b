/*
 * pool.h - a fixed set of threads that run one function over [0, n).
 *
 * The caller's thread takes part.  Items are handed out in ranges of grain
 * by an atomic counter; results must not depend on who computes what.
 * Workers spin briefly between jobs, then sleep.  One job at a time per
 * pool: pool_run is not reentrant.
 */
#ifndef UTIL_POOL_H
#define UTIL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

struct pool;

/* thread in [0, pool_size) identifies scratch memory; range [begin, end) */
typedef void pool_fn(void *ctx, int thread, int64_t begin, int64_t end);

/* n_thread 0 = pool_default_size().  At most 512. */
cag_status pool_new(struct pool **out, int n_thread, cag_error *err);
void pool_free(struct pool *p);
int pool_size(const struct pool *p);
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t n, int64_t grain);
/*
 * From now on the caller's thread asks go_on between ranges, at most every
 * 50 ms.  Once it answered false, what is left of that job is not done, nor
 * is any later one: pool_cancelled is true until the next pool_watch.  NULL
 * ends it.
 */
void pool_watch(struct pool *p, bool (*go_on)(void *ctx), void *ctx);
bool pool_cancelled(const struct pool *p);
/* Usable CPUs: sched_getaffinity and the cgroup's cpu.max, at least 1. */
int pool_default_size(void);

#endif
