/*
 * forward_cpu.h - one pass of the transformer on the CPU.
 */
#ifndef ENGINE_CPU_FORWARD_CPU_H
#define ENGINE_CPU_FORWARD_CPU_H

#include "engine/cpu/cpu.h"

/* See backend.h, forward.  Allocates nothing once its size is reserved. */
cag_status forward(struct cpu *c, const struct forward_req *req,
                   cag_error *err);

#endif
