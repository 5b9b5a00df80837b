/*
 * gemm_ref.c - products with a weight matrix, in double: the prompt phase's
 * gemm and the generation phase's rows, which only differ in their interface.
 */
#include "kernels/quant.h"
#include "kernels/ref.h"

#include <string.h>

enum { CHUNK = 256 }; /* weights expanded at a time: a block of any type */

void dequant_ref(float *out, const struct kmat *w, int r)
{
    quant_row(out, w->type, kmat_row(w, r), w->d_in);
}

int gemm_ref_part(int n_tok, int d_in)
{
    (void)d_in;
    return n_tok;
}

size_t gemm_ref_pack_size(int n_tok, int d_in)
{
    return (size_t)n_tok * (size_t)d_in;
}

void gemm_ref_pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                   int t0, int t1)
{
    (void)n_tok;
    for (int t = t0; t < t1; t++)
        memcpy(xp + (size_t)t * (size_t)d_in, x + (size_t)t * ldx,
               (size_t)d_in * sizeof *xp);
}

static double dot(const float *x, const struct kmat *w, int r)
{
    const uint8_t *row = kmat_row(w, r);
    float buf[CHUNK];
    double sum = 0;

    for (int i = 0; i < w->d_in; i += CHUNK) {
        int n = w->d_in - i < CHUNK ? w->d_in - i : CHUNK;

        quant_row(buf, w->type, row, n);
        row +=
            (size_t)(n / kt_block_weights(w->type)) * kt_block_bytes(w->type);
        for (int j = 0; j < n; j++)
            sum += (double)x[i + j] * (double)buf[j];
    }
    return sum;
}

void gemm_ref(float *y, size_t ldy, const float *xp, int n_tok,
              const struct kmat *w, int row0, int row1, float *scratch)
{
    (void)scratch;
    for (int t = 0; t < n_tok; t++)
        for (int r = row0; r < row1; r++)
            y[(size_t)t * ldy + (size_t)r] =
                (float)dot(xp + (size_t)t * (size_t)w->d_in, w, r);
}

void gemm_ref_gated(float *gp, const float *xp, int n_tok,
                    const struct kmat *gate, const struct kmat *up, int row0,
                    int row1, float *scratch)
{
    (void)scratch;
    for (int t = 0; t < n_tok; t++)
        for (int r = row0; r < row1; r++) {
            const float *x = xp + (size_t)t * (size_t)gate->d_in;
            float g = (float)dot(x, gate, r), u = (float)dot(x, up, r);

            swiglu_ref(gp + (size_t)t * (size_t)gate->n_out + r, &g, &u, 1);
        }
}

size_t rows_ref_x_size(int type, int d_in, bool exact)
{
    (void)type;
    (void)exact;
    return ((size_t)d_in * sizeof(float) + 63) & ~(size_t)63;
}

void rows_ref_x(void *xq, const float *x, int type, int d_in, bool exact)
{
    (void)type;
    (void)exact;
    memcpy(xq, x, (size_t)d_in * sizeof *x);
}

void rows_ref(float *y, size_t ldy, const void *xq, size_t xq_stride, int n_x,
              const struct kmat *w, int row0, int row1, bool exact,
              float *scratch)
{
    (void)exact;
    (void)scratch;
    for (int t = 0; t < n_x; t++)
        for (int r = row0; r < row1; r++) {
            const void *x = (const uint8_t *)xq + (size_t)t * xq_stride;

            y[(size_t)t * ldy + (size_t)r] = (float)dot(x, w, r);
        }
}
