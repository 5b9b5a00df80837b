/*
 * q8h_avx512.c - rows of codec q8h with 16-wide vectors; q8h_simd.h is the
 * code.  A row is a few hundred operations in L1: bound by them.
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/simd_avx512.h"
#include "kernels/q8h_simd.h"

Q8H_ENTRIES(avx512)
