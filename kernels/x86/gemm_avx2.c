/*
 * gemm_avx2.c - the prompt phase with 8-wide vectors; gemm_simd.h is the code.
 *
 * Bound by the two FMA ports: 6 rows x 2 vectors are 12 independent chains
 * (8 hide a latency of 4 on two ports) and leave 3 of 16 registers for two
 * vectors of tokens and a broadcast weight; 8 loads per 12 FMAs.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#define MR     6
#define PB     4
#define UNPACK unpack_avx2
#define SWIGLU swiglu_avx2
#include "kernels/gemm_simd.h"

GEMM_ENTRIES(gemm_avx2)
GEMM_SET_ENTRIES(avx2)
