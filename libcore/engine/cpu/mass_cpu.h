/*
 * mass_cpu.h - how much attention the heads of a request give each token of
 * a prefix.
 */
#ifndef ENGINE_CPU_MASS_CPU_H
#define ENGINE_CPU_MASS_CPU_H

#include "engine/cpu/attend_cpu.h"

/* First row that asks for mass, if the layer has one of the request's heads;
 * else n_row. */
int mass_first(const struct forward_req *req, int layer);
/* After the layer's attention of all rows that ask: add what they give. */
void mass_add(const struct attn_pass *a, const struct forward_req *req);

#endif
