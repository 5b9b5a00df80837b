/*
 * forward.h - one pass of the transformer on the CPU.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include "engine/cpu/cpu.h"

/* See backend.h, forward.  Allocates nothing once its size is reserved. */
cag_status forward(struct cpu *c, const struct forward_req *req,
                   cag_error *err);

#endif
