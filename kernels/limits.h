/*
 * limits.h - what this machine can do at best: multiply-adds in registers,
 * and reading memory.  Figures of speed are told as a share of these.
 */
#ifndef KERNELS_LIMITS_H
#define KERNELS_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* n rounds of fused multiply-adds on the widest vectors of this CPU that cag
 * uses; kernels_fma_flop() operations a round.  The value only keeps the
 * compiler from leaving the work out. */
float kernels_fma_run(int n);
double kernels_fma_flop(void);
/* "fma 512", "fma 256" or "portable"; static */
const char *kernels_fma_name(void);

/*
 * The same for what a family of --precision fast (struct kernels_fast)
 * multiplies with, for a CPU that runs the family; NULL for any other name.
 */
struct kernels_limit {
    const char *instructions; /* the last word of the family's name */
    float (*run)(int n);
    double flop; /* of a round */
};
const struct kernels_limit *kernels_limit(const char *family);

/* Read n words (a multiple of 8) once, in order. */
uint64_t kernels_read_run(const uint64_t *p, size_t n);

#endif
