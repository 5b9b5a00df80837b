/*
 * attention_avx512.c - attention with 16-wide vectors; attention_simd.h is the
 * code.
 *
 * Many rows: bound by the FMA ports, with exp2 (13 operations for 16 scores)
 * and the two folds of a row beside it.  One to seven rows: bound by the
 * conversion from f16 and by reading the tile.
 */
#include "kernels/x86/avx512.h"
#include "kernels/x86/simd_avx512.h"

#define MR       14
#define ACC_REGS 28
#include "kernels/attention_simd.h"

ATTENTION_ENTRIES(avx512)
