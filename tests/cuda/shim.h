/*
 * shim.h - between the two halves of the shim: blocks and streams.
 */
#ifndef SHIM_H
#define SHIM_H

#include <functional>

#include "tests/cuda/cuda_shim.h"
#include "tests/cuda/shim_control.h"

uint32_t shim_random(void);
void shim_run_kernel(const char *name, dim3 grid, dim3 block, size_t smem,
                     const std::function<void()> &body);

#endif
