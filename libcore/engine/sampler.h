/*
 * engine/sampler.h - the greedy choice, for backends that make it where the
 * logits are.
 */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stdint.h>

/* The first index of the largest of logits [n]; NaN loses, 0 if all are. */
int32_t sampler_best(const float *logits, int n);

#endif
