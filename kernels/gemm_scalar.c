/*
 * gemm_scalar.c - prompt phase: one fmaf chain per output, ascending over i.
 */
#include "kernels/quant.h"
#include "kernels/scalar.h"

enum { CHUNK = 256 };   /* weights expanded at a time: a block of any type */

void gemm_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch)
{
    size_t block = (size_t)kt_block_weights(w->type);

    for (int r = row0; r < row1; r++) {
        const uint8_t *row = kmat_row(w, r);

        for (int t = 0; t < n_tok; t++)
            y[(size_t)t * ldy + (size_t)r] = 0.0f;
        for (int i = 0; i < w->d_in; i += CHUNK) {
            int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

            quant_row(scratch, w->type, row, n);
            row += (size_t)n / block * kt_block_bytes(w->type);
            for (int t = 0; t < n_tok; t++) {
                const float *x = xp + (size_t)t * (size_t)w->d_in + i;
                float acc = y[(size_t)t * ldy + (size_t)r];

                for (int j = 0; j < n; j++)
                    acc = fmaf(x[j], scratch[j], acc);
                y[(size_t)t * ldy + (size_t)r] = acc;
            }
        }
    }
}
