/*
 * gemm_bf16_scalar.c - the orders of operations bf16-tiles and bf16-pairs in
 * portable C.
 */
#include "kernels/bf16_scalar.h"
#include "kernels/gemm_fast.h"
#include "kernels/quant.h"

enum { CHUNK = 256 }; /* weights expanded at a time: a block of any type */

void gemm_bf16_scalar_pack(float *xp, const float *x, size_t ldx, int n_tok,
                           int d_in, int t0, int t1)
{
    (void)n_tok;
    for (int t = t0; t < t1; t++)
        for (int i = 0; i < d_in; i++)
            xp[(size_t)t * (size_t)d_in + (size_t)i] =
                bf16_round(x[(size_t)t * ldx + (size_t)i]);
}

typedef float step_fn(float y, const float *x, const float *w, int n);

static void multiply(float *y, size_t ldy, const float *xp, int n_tok,
                     const struct kmat *w, int row0, int row1, float *scratch,
                     step_fn *step)
{
    size_t block = (size_t)kt_block_weights(w->type);

    for (int r = row0; r < row1; r++) {
        const uint8_t *row = kmat_row(w, r);

        for (int t = 0; t < n_tok; t++)
            y[(size_t)t * ldy + (size_t)r] = 0.0f;
        for (int i = 0; i < w->d_in; i += CHUNK) {
            int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

            quant_row(scratch, w->type, row, n);
            for (int j = 0; j < n; j++)
                scratch[j] = bf16_round(scratch[j]);
            row += (size_t)n / block * kt_block_bytes(w->type);
            for (int t = 0; t < n_tok; t++) {
                const float *x = xp + (size_t)t * (size_t)w->d_in + i;
                float *out = &y[(size_t)t * ldy + (size_t)r];

                for (int j = 0; j < n; j += BF16_STEP)
                    *out = step(*out, x + j, scratch + j,
                                n - j < BF16_STEP ? n - j : BF16_STEP);
            }
        }
    }
}

void gemm_tiles_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                       const struct kmat *w, int row0, int row1, float *scratch)
{
    multiply(y, ldy, xp, n_tok, w, row0, row1, scratch, bf16_tile_step);
}

void gemm_pairs_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                       const struct kmat *w, int row0, int row1, float *scratch)
{
    multiply(y, ldy, xp, n_tok, w, row0, row1, scratch, bf16_pair_step);
}
