/*
 * build_guard.h - what a build writes is nothing of value to anybody.
 */
#ifndef BUILD_BUILD_GUARD_H
#define BUILD_BUILD_GUARD_H

#include "build/build_job.h"

/*
 * After build_job_begin.  CAG_E_USAGE: an output is what the build reads, or
 * would read next time.  CAG_E_CREATE: it would replace a file that is no
 * cache, depfile or checkpoint.
 */
cag_status build_guard(const struct build_job *j, cag_error *err);

#endif
