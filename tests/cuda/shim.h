/*
 * shim.h - between the parts of the shim: blocks, warps, streams.
 */
#ifndef SHIM_H
#define SHIM_H

#include <functional>
#include <vector>

#include "tests/cuda/cuda_shim.h"
#include "tests/cuda/shim_control.h"

uint32_t shim_random(void);
void shim_run_kernel(const char *name, dim3 grid, dim3 block, size_t smem,
                     const std::function<void()> &body);
/* The program ends with what each thread of the block waits for. */
[[noreturn]] void shim_stop(const char *what);

/* cp.async of the thread that runs: what did not happen yet. */
struct shim_late_copy {
    void *dst;
    const void *src;
    int group;
};
struct shim_copies {
    std::vector<shim_late_copy> late;
    int group = 0;
};
shim_copies *shim_copies_here(void);

#endif
