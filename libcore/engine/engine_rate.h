/*
 * engine_rate.h - how fast this machine multiplies just now.
 */
#ifndef ENGINE_ENGINE_RATE_H
#define ENGINE_ENGINE_RATE_H

#include <cag/error.h>

/*
 * Multiply-adds per second of the matrix product of prompts with n_thread
 * threads (0: usable CPUs); takes about 30 ms.  *per_s is positive on CAG_OK.
 * CAG_E_UNSUPPORTED: no set of kernels; CAG_E_USAGE: the number of threads.
 */
cag_status engine_rate(int n_thread, double *per_s, cag_error *err);

#endif
