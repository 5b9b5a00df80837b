/*
 * gemm_avx512.c - the prompt phase with 16-wide vectors; gemm_simd.h is the
 * code.
 *
 * Bound by the two FMA ports: 14 rows x 2 vectors are 28 independent chains
 * and leave 4 of 32 registers for two vectors of tokens and a broadcast
 * weight; 16 loads per 28 FMAs.
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/simd_avx512.h"

#define MR     14
#define PB     2
#define UNPACK unpack_avx512
#define SWIGLU swiglu_avx512
#include "kernels/gemm_simd.h"

GEMM_ENTRIES(gemm_avx512)
GEMM_SET_ENTRIES(avx512)
