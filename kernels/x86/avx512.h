/*
 * avx512.h - the operations of the AVX-512 set (F, BW, DQ, VL; and AVX2, FMA,
 * F16C).  The bits of scalar.
 */
#ifndef KERNELS_X86_AVX512_H
#define KERNELS_X86_AVX512_H

#include "kernels/x86/avx2.h"

void unpack_avx512(float *out, int type, const uint8_t *p, int n);
KERNEL_SET(avx512);

#endif
