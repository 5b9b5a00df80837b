/*
 * q8h_simd.h - rows of codec q8h in the vectors of simd_<set>.h; included
 * once by q8h_<set>.c, which ends with Q8H_ENTRIES(<set>).
 *
 * A block is at least 8 channels.  Steps of a butterfly inside a vector are a
 * swap of lanes and a sum with the upper lanes negated (a - b is a + -b, to
 * the bit); larger steps pair vectors.  Where a vector holds two blocks of 8
 * its last step is left out.
 */
#ifndef KERNELS_Q8H_SIMD_H
#define KERNELS_Q8H_SIMD_H

enum { D_MAX = 512 };

/* x, d_head rounded up to whole vectors, whose additional lanes are zero */
INLINE void hadamard(float *x, int d_head, int n)
{
    for (int i = 0; i < d_head; i += VW) {
        VF v = v_load(x + i);

#pragma GCC unroll 4
        for (int h = 1; h < VW && h < n; h *= 2)
            v = v_add(v_swap(v, h), v_negate_upper(v, h));
        v_store(x + i, v);
    }
    for (int h = VW; h < n; h *= 2)
        for (int i = 0; i < d_head; i += 2 * h)
            for (int j = i; j < i + h; j += VW) {
                VF a = v_load(x + j), b = v_load(x + j + h);

                v_store(x + j, v_add(a, b));
                v_store(x + j + h, v_sub(a, b));
            }
}

INLINE int lanes(int d_head, int i)
{
    return d_head - i < VW ? d_head - i : VW;
}

static bool encode(int8_t *code, uint16_t *scale, const float *x,
                   const float *f, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    VF top = v_zero(), inv;
    float y[D_MAX];
    bool finite = true;

    for (int i = 0; i < d_head; i += VW) {
        int n = lanes(d_head, i);
        VF v = v_load_n(x + i, n);

        if (f)
            v = v_div(v, v_keep_n(v_load_n(f + i, n), v_set1(1.0f), n));
        v_store(y + i, v);
    }
    hadamard(y, d_head, b.n);
    for (int i = 0; i < d_head; i += VW) {
        VF v = v_mul(v_load(y + i), v_set1(b.r));

        finite &= v_all_finite(v);
        top = v_max(top, v_abs(v));
        v_store(y + i, v);
    }
    if (!finite)
        return false;
    *scale = f32_to_f16_up(v_hmax(top) / 127.0f);
    if (*scale >= 0x7c00)
        return false;
    inv = v_set1(*scale ? 1.0f / f16_to_f32(*scale) : 0.0f);
    for (int i = 0; i < d_head; i += VW)
        v_store_i8_n(code + i, v_mul(v_load(y + i), inv), lanes(d_head, i));
    return true;
}

static void decode(float *x, const int8_t *code, uint16_t scale, const float *f,
                   int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    VF s = v_set1(f16_to_f32(scale)), inverse = v_set1(b.inverse);
    float y[D_MAX];

    for (int i = 0; i < d_head; i += VW)
        v_store(y + i, v_mul(v_load_i8_n(code + i, lanes(d_head, i)), s));
    hadamard(y, d_head, b.n);
    for (int i = 0; i < d_head; i += VW) {
        int n = lanes(d_head, i);
        VF v = v_mul(v_load(y + i), inverse);

        if (f)
            v = v_mul(v, v_load_n(f + i, n));
        v_store_n(x + i, v, n);
    }
}

static void rotate(float *x, const float *f, int n_row, int d_head)
{
    struct q8h_block b = q8h_block(d_head);
    VF inverse = v_set1(b.inverse);
    float y[D_MAX];

    for (int r = 0; r < n_row; r++, x += d_head) {
        for (int i = 0; i < d_head; i += VW) {
            int n = lanes(d_head, i);
            VF v = v_load_n(x + i, n);

            v_store(y + i, f ? v_mul(v, v_load_n(f + i, n)) : v);
        }
        hadamard(y, d_head, b.n);
        for (int i = 0; i < d_head; i += VW)
            v_store_n(x + i, v_mul(v_load(y + i), inverse), lanes(d_head, i));
    }
}

/* The functions of a set, by these. */
#define Q8H_ENTRIES(set)                                                     \
    bool q8h_##set##_encode(int8_t *code, uint16_t *scale, const float *x,   \
                            const float *f, int d_head)                      \
    {                                                                        \
        return encode(code, scale, x, f, d_head);                            \
    }                                                                        \
    void q8h_##set##_decode(float *x, const int8_t *code, uint16_t scale,    \
                            const float *f, int d_head)                      \
    {                                                                        \
        decode(x, code, scale, f, d_head);                                   \
    }                                                                        \
    void q8h_##set##_rotate(float *x, const float *f, int n_row, int d_head) \
    {                                                                        \
        rotate(x, f, n_row, d_head);                                         \
    }

#endif
