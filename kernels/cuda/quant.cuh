/*
 * quant.cuh - eight stored weights at a time, on the device.
 *
 * A row is cut into units of eight weights that come from neighbouring
 * bytes: unit u of a row gives weights p0 .. p0 + 3 and p1 .. p1 + 3.  Plain
 * types and Q8_0 have p1 = p0 + 4; a nibble type has the low nibbles of four
 * bytes at p0 and the high ones at p1.  Neighbouring lanes take neighbouring
 * units, so a warp reads a stretch of the row.  The layouts are those of
 * quant.h, the values those of kernels.h, to the bit.
 *
 * Blocks of 18, 22, 34 and 210 bytes are only 2-aligned: they are read in
 * pieces of two bytes.
 */
#ifndef KERNELS_QUANT_CUH
#define KERNELS_QUANT_CUH

#include "kernels/cuda/cuda.cuh"

__device__ inline uint32_t load_u16(const uint8_t *p)
{
    return *(const uint16_t *)p;
}

/* four bytes, 2-aligned */
__device__ inline uint32_t load_2x16(const uint8_t *p)
{
    return load_u16(p) | load_u16(p + 2) << 16;
}

__device__ inline uint32_t load_u32(const uint8_t *p)
{
    return *(const uint32_t *)p;
}

__device__ inline float load_f16(const uint8_t *p)
{
    return f16_to_float((uint16_t)load_u16(p));
}

__device__ inline int byte_of(uint32_t v, int i)
{
    return (int)(v >> 8 * i & 255);
}

__device__ inline int nibble_of(uint32_t v, int i, int high)
{
    return (int)(v >> (8 * i + 4 * high) & 15);
}

/* Q4_0, Q4_1, Q5_0, Q5_1 */
template <int T>
__device__ inline void unit_32(const uint8_t *row, int u, float w[8],
                               int *p0, int *p1)
{
    const int bytes = T == KT_Q4_0 ? 18 : T == KT_Q4_1 ? 20
                    : T == KT_Q5_0 ? 22 : 24;
    const bool with_m = T == KT_Q4_1 || T == KT_Q5_1;
    const bool five = T == KT_Q5_0 || T == KT_Q5_1;
    const uint8_t *b = row + (size_t)(u / 4) * bytes;
    const int s = u % 4;
    const uint8_t *at = b + (with_m ? 4 : 2) + (five ? 4 : 0) + 4 * s;
    float d = load_f16(b), m = with_m ? load_f16(b + 2) : 0.0f;
    uint32_t qs = with_m ? load_u32(at) : load_2x16(at), qh = 0;

    if (five)
        qh = with_m ? load_u32(b + 4) : load_2x16(b + 2);
    *p0 = 32 * (u / 4) + 4 * s;
    *p1 = *p0 + 16;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int q = nibble_of(qs, i % 4, i / 4);
        if (five)
            q |= (int)(qh >> (4 * s + i % 4 + 16 * (i / 4)) & 1) << 4;
        w[i] = with_m ? fmaf(d, (float)q, m)
                      : d * (float)(q - (five ? 16 : 8));
    }
}

/* Q4_K, Q5_K */
template <int T>
__device__ inline void unit_k45(const uint8_t *row, int u, float w[8],
                                int *p0, int *p1)
{
    const uint8_t *b = row + (size_t)(u / 32) * (T == KT_Q4_K ? 144 : 176);
    const int j = u % 32 / 8, s = u % 8;
    const uint8_t *sm = b + 4;
    uint32_t qs = load_u32(b + (T == KT_Q4_K ? 16 : 48) + 32 * j + 4 * s);
    uint32_t qh = T == KT_Q5_K ? load_u32(b + 16 + 4 * s) : 0;
    float d = load_f16(b), dmin = load_f16(b + 2);

    *p0 = 256 * (u / 32) + 64 * j + 4 * s;
    *p1 = *p0 + 32;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int k = 2 * j + h, sc, mn;
        if (k < 4) {
            sc = sm[k] & 63;
            mn = sm[k + 4] & 63;
        } else {
            sc = (sm[k + 4] & 15) | (sm[k - 4] >> 6) << 4;
            mn = sm[k + 4] >> 4 | (sm[k] >> 6) << 4;
        }
        float f = d * (float)sc, m = -(dmin * (float)mn);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int q = nibble_of(qs, i, h);
            if (T == KT_Q5_K)
                q |= (byte_of(qh, i) >> k & 1) << 4;
            w[4 * h + i] = fmaf(f, (float)q, m);
        }
    }
}

__device__ inline void unit_k6(const uint8_t *row, int u, float w[8],
                               int *p0, int *p1)
{
    const uint8_t *b = row + (size_t)(u / 32) * 210;
    const int half = u % 32 / 16, v = u % 16, s = v % 8;
    uint32_t ql = load_2x16(b + 64 * half + 4 * v);
    uint32_t qh = load_2x16(b + 128 + 32 * half + 4 * s);
    float d = load_f16(b + 208);

    *p0 = 256 * (u / 32) + 128 * half + 32 * (v / 8) + 4 * s;
    *p1 = *p0 + 64;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int k = v / 8 + 2 * h;
        float f = d * (float)(int8_t)b[192 + 8 * half + 2 * k + s / 4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int q = nibble_of(ql, i, h) | (byte_of(qh, i) >> 2 * k & 3) << 4;
            w[4 * h + i] = f * (float)(q - 32);
        }
    }
}

/* Weights p0 .. p0 + 3 (w[0..3]) and p1 .. p1 + 3 (w[4..7]) of a row. */
template <int T>
__device__ inline void unit8(const uint8_t *row, int u, float w[8], int *p0,
                             int *p1)
{
    if (T == KT_Q4_0 || T == KT_Q4_1 || T == KT_Q5_0 || T == KT_Q5_1) {
        unit_32<T>(row, u, w, p0, p1);
        return;
    }
    if (T == KT_Q4_K || T == KT_Q5_K) {
        unit_k45<T>(row, u, w, p0, p1);
        return;
    }
    if (T == KT_Q6_K) {
        unit_k6(row, u, w, p0, p1);
        return;
    }
    *p0 = 8 * u;
    *p1 = 8 * u + 4;
    if (T == KT_F32) {
        const float4 *p = (const float4 *)row + 2 * (size_t)u;
        float4 a = p[0], b = p[1];
        w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
        w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
    } else if (T == KT_Q8_0) {
        const uint8_t *b = row + (size_t)(u / 4) * 34;
        float d = load_f16(b);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t q = load_u16(b + 2 + 8 * (u % 4) + 2 * i);
            w[2 * i] = d * (float)(int8_t)(q & 255);
            w[2 * i + 1] = d * (float)(int8_t)(q >> 8);
        }
    } else {
        uint4 v = ((const uint4 *)row)[u];
        uint32_t q[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint16_t h = (uint16_t)(q[i / 2] >> 16 * (i % 2));
            w[i] = T == KT_F16 ? f16_to_float(h) : bf16_to_float(h);
        }
    }
}

/* The row of a matrix that the mathematics calls r; see kmat_row. */
__device__ inline const uint8_t *device_row(const struct kmat &w, int r)
{
    if (w.perm_half) {
        int d = 2 * w.perm_half, j = r % d;
        r += (j % w.perm_half) * 2 + j / w.perm_half - j;
    }
    return w.data + (size_t)r * w.row_bytes;
}

/* Evaluate the statement with T a constant equal to type. */
#define CUK_TYPE_CASE(t, ...)      \
    case t: {                      \
        const int T = t;           \
        __VA_ARGS__;               \
    } break;
#define CUK_TYPE_SWITCH(type, ...)          \
    switch (type) {                         \
    CUK_TYPE_CASE(KT_F32, __VA_ARGS__)      \
    CUK_TYPE_CASE(KT_F16, __VA_ARGS__)      \
    CUK_TYPE_CASE(KT_BF16, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q4_0, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q4_1, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q5_0, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q5_1, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q8_0, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q4_K, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q5_K, __VA_ARGS__)     \
    CUK_TYPE_CASE(KT_Q6_K, __VA_ARGS__)     \
    default:                                \
        break;                              \
    }

/* Four neighbouring elements in one store; i is a multiple of 4. */
__device__ inline void put_operand4(void *p, int type, size_t i,
                                    const float v[4])
{
    if (type == KT_F32) {
        float4 f = { v[0], v[1], v[2], v[3] };
        *(float4 *)((float *)p + i) = f;
        return;
    }
    uint2 h;
    if (type == KT_BF16) {
        h.x = pack_bf16(v[0], v[1]);
        h.y = pack_bf16(v[2], v[3]);
    } else {
        h.x = pack_f16(v[0], v[1]);
        h.y = pack_f16(v[2], v[3]);
    }
    *(uint2 *)((uint16_t *)p + i) = h;
}

/* One row into p[i0 + i], i0 a multiple of 8, by the threads from, from + step, ... */
__device__ inline void put_row(void *p, int p_type, size_t i0,
                               const struct kmat &w, int r, int from,
                               int step)
{
    const uint8_t *row = device_row(w, r);

    CUK_TYPE_SWITCH(w.type,
        for (int u = from; u < w.d_in / 8; u += step) {
            float v[8];
            int p0;
            int p1;
            unit8<T>(row, u, v, &p0, &p1);
            put_operand4(p, p_type, i0 + (size_t)p0, v);
            put_operand4(p, p_type, i0 + (size_t)p1, v + 4);
        })
}

/* What every launcher asks of a matrix. */
static inline bool cuk_mat_ok(const struct kmat *w)
{
    int n = kt_block_weights(w->type);

    return n != 0 && w->d_in > 0 && w->d_in % 8 == 0 && w->d_in % n == 0 &&
           w->n_out > 0 &&
           (w->perm_half == 0 || w->n_out % (2 * w->perm_half) == 0) &&
           (n > 1 || (w->row_bytes % 16 == 0 && (uintptr_t)w->data % 16 == 0));
}

#endif
