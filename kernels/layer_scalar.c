/*
 * layer_scalar.c - norm, rotation and gate in the order of kernels.h.
 */
#include "kernels/scalar.h"

void rmsnorm_scalar(float *y, size_t ldy, const float *x, size_t ldx,
                    const float *w, int n_row, int d, float eps)
{
    for (int k = 0; k < n_row; k++, y += ldy, x += ldx) {
        float lane[32] = { 0 }, r;

        for (int i = 0; i < d; i += 32)
            dot32_scalar_step(lane, x + i, x + i, d - i);
        r = 1.0f / sqrtf(fold_scalar(lane, 32) / (float)d + eps);
        for (int i = 0; i < d; i++)
            y[i] = x[i] * r * w[i];
    }
}

void rope_scalar(float *x, int n_head, int d_head, const float *cos,
                 const float *sin, float scale)
{
    int half = d_head / 2;

    for (int h = 0; h < n_head; h++, x += d_head)
        for (int i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];

            x[i] = (a * cos[i] - b * sin[i]) * scale;
            x[i + half] = (b * cos[i] + a * sin[i]) * scale;
        }
}

void swiglu_scalar(float *y, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = g[i] / (1.0f + exp2_scalar(g[i] * NEG_LOG2E)) * u[i];
}
