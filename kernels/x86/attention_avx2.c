/*
 * attention_avx2.c - attention with 8-wide vectors; attention_simd.h is the
 * code.
 *
 * Many rows: bound by the FMA ports, with exp2 (13 operations for 8 scores)
 * and the two folds of a row beside it.  One to three rows: bound by the
 * conversion from f16 and by reading the tile.
 */
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

#define MR       6
#define ACC_REGS 12
#include "kernels/attention_simd.h"

ATTENTION_ENTRIES(avx2)
