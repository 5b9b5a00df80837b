/*
 * layer_ref.c - the small operations between the matrix products, in double:
 * norm, rotation, gate, residual.
 */
#include "kernels/ref.h"

#include <math.h>

void rmsnorm_ref(float *y, size_t ldy, const float *x, size_t ldx,
                 const float *w, int n_row, int d, float eps)
{
    for (int r = 0; r < n_row; r++, y += ldy, x += ldx) {
        double sum = 0, inv;

        for (int i = 0; i < d; i++)
            sum += (double)x[i] * (double)x[i];
        inv = 1.0 / sqrt(sum / d + (double)eps);
        for (int i = 0; i < d; i++)
            y[i] = (float)((double)x[i] * inv * (double)w[i]);
    }
}

void rope_ref(float *x, int n_head, int d_head, const float *cos,
              const float *sin, float scale)
{
    int half = d_head / 2;

    for (int h = 0; h < n_head; h++, x += d_head)
        for (int i = 0; i < half; i++) {
            double a = (double)x[i], b = (double)x[i + half];
            double c = (double)cos[i], s = (double)sin[i];

            x[i] = (float)((a * c - b * s) * (double)scale);
            x[i + half] = (float)((b * c + a * s) * (double)scale);
        }
}

void swiglu_ref(float *y, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] =
            (float)((double)g[i] / (1.0 + exp(-(double)g[i])) * (double)u[i]);
}

void add_ref(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}
