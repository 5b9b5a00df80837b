/*
 * gemm_scalar.c - prompt phase: one fmaf chain per output, ascending over i.
 */
#include "kernels/quant.h"
#include "kernels/scalar.h"

enum {
    CHUNK = 256,                   /* weights expanded at a time: a block of
                                      any type */
    TOK_MAX = GEMM_SCRATCH - CHUNK /* tokens whose up product fits after */
};

/* y[t * ldy] for row r */
static void row(float *y, size_t ldy, const float *xp, int n_tok,
                const struct kmat *w, int r, float *scratch)
{
    size_t block = (size_t)kt_block_weights(w->type);
    const uint8_t *from = kmat_row(w, r);

    for (int t = 0; t < n_tok; t++)
        y[(size_t)t * ldy] = 0.0f;
    for (int i = 0; i < w->d_in; i += CHUNK) {
        int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

        quant_row(scratch, w->type, from, n);
        from += (size_t)n / block * kt_block_bytes(w->type);
        for (int t = 0; t < n_tok; t++) {
            const float *x = xp + (size_t)t * (size_t)w->d_in + i;
            float acc = y[(size_t)t * ldy];

            for (int j = 0; j < n; j++)
                acc = fmaf(x[j], scratch[j], acc);
            y[(size_t)t * ldy] = acc;
        }
    }
}

void gemm_scalar(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch)
{
    for (int r = row0; r < row1; r++)
        row(y + r, ldy, xp, n_tok, w, r, scratch);
}

void gemm_scalar_gated(float *gp, const float *xp, int n_tok,
                       const struct kmat *gate, const struct kmat *up, int row0,
                       int row1, float *scratch)
{
    float *u = scratch + CHUNK;
    size_t ld = (size_t)gate->n_out;

    for (int t0 = 0; t0 < n_tok; t0 += TOK_MAX) {
        int n = n_tok - t0 < TOK_MAX ? n_tok - t0 : TOK_MAX;
        const float *x = xp + (size_t)t0 * (size_t)gate->d_in;

        for (int r = row0; r < row1; r++) {
            float *g = gp + (size_t)t0 * ld + r;

            row(g, ld, x, n, gate, r, scratch);
            row(u, 1, x, n, up, r, scratch);
            for (int t = 0; t < n; t++, g += ld)
                swiglu_scalar(g, g, u + t, 1);
        }
    }
}
