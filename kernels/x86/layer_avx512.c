/*
 * layer_avx512.c - norm, rotation, gate and residual with 16-wide vectors;
 * layer_simd.h is the code.
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/simd_avx512.h"

#include "kernels/layer_simd.h"

LAYER_ENTRIES(avx512)
