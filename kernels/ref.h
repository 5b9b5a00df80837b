/*
 * ref.h - the operations of the reference set.
 *
 * Each is the sentence of kernels.h written as a loop: reductions in double,
 * libm's functions, no attention to speed.  It is the oracle of the tests,
 * and small enough to be believed.
 */
#ifndef KERNELS_REF_H
#define KERNELS_REF_H

#include "kernels/set.h"

KERNEL_SET(ref);
bool kvstore_ref(int kv_type, void *k_tile, void *v_tile, int t, const float *k,
                 const float *v, int d_head);

#endif
