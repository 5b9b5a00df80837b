/*
 * layer_avx2.c - norm, rotation, gate and residual with 8-wide vectors;
 * layer_simd.h is the code.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#include "kernels/layer_simd.h"

LAYER_ENTRIES(avx2)
