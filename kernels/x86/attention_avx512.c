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

void attention_avx512(const struct attn_job *job)
{
    attention(job);
}

void attention_avx512_merge(float *m, float *l, float *o, const float *m2,
                            const float *l2, const float *o2, int n_row,
                            int d_head)
{
    merge(m, l, o, m2, l2, o2, n_row, d_head);
}

void attention_avx512_finish(float *out, size_t ldo, const float *l,
                             const float *o, int n_row, int d_head)
{
    finish(out, ldo, l, o, n_row, d_head);
}
