/*
 * layer_simd.h - norm, rotation, gate and residual in the vectors of
 * simd_<set>.h; included once by layer_<set>.c, which ends with
 * LAYER_ENTRIES(<set>).  They touch each value once or twice and are bound
 * by it.
 */
#ifndef KERNELS_LAYER_SIMD_H
#define KERNELS_LAYER_SIMD_H

#include <math.h>

enum { N32 = 32 / VW };

static float dot32_self(const float *x, int d)
{
    VF lane[N32];
    int i = 0;

    for (int j = 0; j < N32; j++)
        lane[j] = v_zero();
    for (; i + 32 <= d; i += 32)
        for (int j = 0; j < N32; j++) {
            VF a = v_load(x + i + j * VW);

            lane[j] = v_fma(a, a, lane[j]);
        }
    for (int j = 0; i < d && j < N32; j++) {
        int n = d - i - j * VW;
        VF a = v_load_n(x + i + (n > 0 ? j * VW : 0), n < 0    ? 0
                                                      : n < VW ? n
                                                               : VW);

        lane[j] = v_fma(a, a, lane[j]);
    }
    return v_fold32(lane);
}

static void rmsnorm(float *y, size_t ldy, const float *x, size_t ldx,
                    const float *w, int n_row, int d, float eps)
{
    for (int k = 0; k < n_row; k++, y += ldy, x += ldx) {
        VF r = v_set1(1.0f / sqrtf(dot32_self(x, d) / (float)d + eps));
        int i = 0;

        for (; i + VW <= d; i += VW)
            v_store(y + i, v_mul(v_mul(v_load(x + i), r), v_load(w + i)));
        if (i < d)
            v_store_n(
                y + i,
                v_mul(v_mul(v_load_n(x + i, d - i), r), v_load_n(w + i, d - i)),
                d - i);
    }
}

static void rope(float *x, int n_head, int d_head, const float *cos,
                 const float *sin, float scale)
{
    int half = d_head / 2;

    for (int h = 0; h < n_head; h++, x += d_head)
        for (int i = 0; i < half; i += VW) {
            int n = half - i < VW ? half - i : VW;
            VF a = v_load_n(x + i, n), b = v_load_n(x + half + i, n);
            VF c = v_load_n(cos + i, n), s = v_load_n(sin + i, n);
            VF k = v_set1(scale);

            v_store_n(x + i, v_mul(v_sub(v_mul(a, c), v_mul(b, s)), k), n);
            v_store_n(x + half + i, v_mul(v_add(v_mul(b, c), v_mul(a, s)), k),
                      n);
        }
}

INLINE VF swiglu_vec(VF g, VF u)
{
    VF e = v_exp2(v_mul(g, v_set1(NEG_LOG2E)));

    return v_mul(v_div(g, v_add(v_set1(1.0f), e)), u);
}

static void swiglu(float *y, const float *g, const float *u, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        v_store(y + i, swiglu_vec(v_load(g + i), v_load(u + i)));
    if (i < n) {
        int m = (int)(n - i);

        v_store_n(y + i, swiglu_vec(v_load_n(g + i, m), v_load_n(u + i, m)), m);
    }
}

static void add(float *y, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        v_store(y + i, v_add(v_load(y + i), v_load(x + i)));
    if (i < n) {
        int m = (int)(n - i);

        v_store_n(y + i, v_add(v_load_n(y + i, m), v_load_n(x + i, m)), m);
    }
}

/* The functions of a set, by these. */
#define LAYER_ENTRIES(set)                                                \
    void rmsnorm_##set(float *y, size_t ldy, const float *x, size_t ldx,  \
                       const float *w, int n_row, int d, float eps)       \
    {                                                                     \
        rmsnorm(y, ldy, x, ldx, w, n_row, d, eps);                        \
    }                                                                     \
    void rope_##set(float *x, int n_head, int d_head, const float *cos,   \
                    const float *sin, float scale)                        \
    {                                                                     \
        rope(x, n_head, d_head, cos, sin, scale);                         \
    }                                                                     \
    void swiglu_##set(float *y, const float *g, const float *u, size_t n) \
    {                                                                     \
        swiglu(y, g, u, n);                                               \
    }                                                                     \
    void add_##set(float *y, const float *x, size_t n)                    \
    {                                                                     \
        add(y, x, n);                                                     \
    }

#endif
