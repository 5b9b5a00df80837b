/*
 * avx2.h - the operations of the AVX2 set (AVX2, FMA, F16C).
 *
 * The bits of scalar.  What has no width of its own to gain, the AVX-512 set
 * takes from here.
 */
#ifndef KERNELS_X86_AVX2_H
#define KERNELS_X86_AVX2_H

#include "kernels/ref.h"

/* out [n] = n weights of any type from p on; n a multiple of its block */
void unpack_avx2(float *out, int type, const uint8_t *p, int n);
bool kvstore_avx2(int kv_type, void *k_tile, void *v_tile, int t,
                  const float *k, const float *v, int d_head);
KERNEL_SET(avx2);

#endif
