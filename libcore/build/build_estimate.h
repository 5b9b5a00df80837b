/*
 * build_estimate.h - what a build will cost, said before it begins.
 */
#ifndef BUILD_BUILD_ESTIMATE_H
#define BUILD_BUILD_ESTIMATE_H

#include "build/build_job.h"

/*
 * Multiply-adds of the prefill of positions [from, to), matrix products and
 * attention; the latter counted for more, by what it was measured to take.
 * engine_rate says how many a second this machine does.
 */
double estimate_work(const struct model_config *c, int64_t from, int64_t to);

/* Fill r->line: the places of the sources that cost many tokens and say
 * little to a model. */
cag_status costly_lines(const struct build_job *j, cag_error *err);

#endif
