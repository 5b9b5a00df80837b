/*
 * gemm_simd.h - the prompt phase's matrix product, in the vectors of
 * simd_<set>.h; included once by gemm_<set>.c, which sets MR, PB and UNPACK,
 * and SWIGLU if it has a gated product, and ends with GEMM_ENTRIES(gemm_<set>)
 * and, having one, GEMM_SET_ENTRIES(<set>).
 *
 * A unit is an f32, or, where UNIT is 2, a pair of bf16: the weights and
 * inputs of a lane's next step.  K is counted in units here.  A pair needs
 * also LOAD_UNITS (n > 0 floats at x to a vector of units, zeros after) and
 * MULADD; UNPACK then writes pairs, and zeros after the last.
 *
 * A lane is a token and a weight is broadcast, so an output is one fma chain
 * over i whatever the vector width, and a weight row needs no transposition:
 * it is expanded to f32 as it lies.  The activations are transposed instead,
 * once per call of the engine, into groups of GW = NV * VW tokens:
 *
 *   xp   [group][d_in][GW]; the last group is VW wide if its tokens fit
 *   wp   [PB * MR][WS] f32, KC of each row expanded from the stored blocks;
 *        WS is KC and a cache line, so that the rows spread over L1's sets
 *   acc  [group][row][GW] for TOK_MAX tokens and as many rows as the scratch
 *        holds, in L2: the chains between two steps of KS
 *
 * Loops: parts of the tokens whose x stays in L2, row super-blocks, chunks
 * of KC weights, panels of PB blocks of MR rows (expand), steps of KS
 * weights, groups, blocks of the panel (micro-kernel: MR x NV accumulators in
 * registers).  A step's part of the panel and of one group stay in L1
 * together; the group is read from L2 once for PB blocks.  When a super-block
 * is done acc is transposed into y.
 *
 * Tried: all 512 tokens at once: x comes from L3 for every super-block, 0.8
 * of the speed where that is slow, and never faster.
 * Tried: one block a panel and steps of 256 (the group pushes the panel out
 * of L1: 0.8 of the speed at 512 tokens with AVX-512).
 */
#ifndef KERNELS_GEMM_SIMD_H
#define KERNELS_GEMM_SIMD_H

#include <string.h>

#ifndef UNIT
#define UNIT             1
#define LOAD_UNITS(x, n) ((n) >= VW ? v_load(x) : v_load_n(x, n))
#define MULADD           v_fma
#endif

enum {
    NV = 2,
    GW = NV * VW,
    KC = 256, /* a multiple of every type's block */
    WS = KC + 16,
    KS = 128,
    PANEL = PB * MR * WS,
    TOK_MIN = 128, /* tokens that pay for expanding a weight */
    TOK_MAX = 512,
    X_BYTES = 640 << 10, /* of x that stay in L2 beside acc */
    ACC_MAX = GEMM_SCRATCH - PANEL
};

static int group_width(int n_tok, int g)
{
    return n_tok - g * GW <= VW ? VW : GW;
}

static int units(int d_in)
{
    return (d_in + UNIT - 1) / UNIT;
}

static size_t pack_size(int n_tok, int d_in)
{
    return (size_t)(n_tok + GW - 1) / GW * GW * (size_t)units(d_in);
}

static void pack_group(float *xp, const float *x, size_t ldx, int n_tok,
                       int d_in, int width)
{
    int k = units(d_in);

    for (int i = 0; i < k; i += VW) {
        int n = k - i < VW ? k - i : VW, left = d_in - i * UNIT;

        for (int v = 0; v < width; v += VW) {
            VF r[VW];

            for (int t = 0; t < VW; t++)
                r[t] = v + t >= n_tok
                           ? v_zero()
                           : LOAD_UNITS(x + (size_t)(v + t) * ldx + i * UNIT,
                                        left);
            v_transpose(r);
            for (int j = 0; j < n; j++)
                v_store(xp + (size_t)(i + j) * (size_t)width + v, r[j]);
        }
    }
}

static void pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                 int t0, int t1)
{
    for (int t = t0; t < t1; t += GW)
        pack_group(xp + (size_t)t * (size_t)units(d_in), x + (size_t)t * ldx,
                   ldx, n_tok - t, d_in, group_width(n_tok, t / GW));
}

/* nr rows x nv vectors of tokens over kc weights; acc rows are nv * VW wide */
INLINE void micro(float *acc, const float *wp, const float *x, int kc,
                  bool first, const int nr, const int nv)
{
    VF c[MR][NV];

#pragma GCC unroll 16
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            c[r][v] = first ? v_zero() : v_load(acc + (r * nv + v) * VW);
    for (int k = 0; k < kc; k++, x += nv * VW) {
        VF b[NV];

#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            b[v] = v_load(x + v * VW);
#pragma GCC unroll 16
        for (int r = 0; r < nr; r++) {
            VF a = v_bcast(wp + r * WS + k);

#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                c[r][v] = MULADD(a, b[v], c[r][v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            v_store(acc + (r * nv + v) * VW, c[r][v]);
}

#define MICRO_CASE(n)                            \
    case n:                                      \
        if (width == GW)                         \
            micro(acc, wp, x, kc, first, n, NV); \
        else                                     \
            micro(acc, wp, x, kc, first, n, 1);  \
        break

static void micro_any(float *acc, const float *wp, const float *x, int kc,
                      bool first, int nr, int width)
{
    switch (nr) {
        MICRO_CASE(1);
        MICRO_CASE(2);
        MICRO_CASE(3);
        MICRO_CASE(4);
        MICRO_CASE(5);
        MICRO_CASE(6);
#if MR > 6
        MICRO_CASE(7);
        MICRO_CASE(8);
        MICRO_CASE(9);
        MICRO_CASE(10);
        MICRO_CASE(11);
        MICRO_CASE(12);
        MICRO_CASE(13);
        MICRO_CASE(14);
#endif
    }
}

/* acc [n_row][width] of one group to y, n_tok tokens */
static void put(float *y, size_t ldy, const float *acc, int n_row, int n_tok,
                int width)
{
    for (int r = 0; r < n_row; r += VW) {
        int n = n_row - r < VW ? n_row - r : VW;

        for (int v = 0; v < n_tok; v += VW) {
            int m = n_tok - v < VW ? n_tok - v : VW;
            VF c[VW];

            for (int t = 0; t < m && r + VW < n_row; t++)
                v_prefetch_write(y + (size_t)(v + t) * ldy + r + VW);
            for (int i = 0; i < VW; i++)
                c[i] = i < n ? v_load(acc + (r + i) * width + v) : v_zero();
            v_transpose(c);
            for (int t = 0; t < m; t++)
                v_store_n(y + (size_t)(v + t) * ldy + r, c[t], n);
        }
    }
}

/* The product that a super-block is: n_row rows of groups [g0, g1). */
struct super_block {
    const float *xp; /* of all tokens */
    int n_tok;
    int n_unit;         /* of a row and a token */
    int n_row, n_block; /* blocks of at most MR rows, about equal */
    int g0, g1;
    float *wp, *acc;
};

/* first row of block b */
INLINE int block_row(const struct super_block *o, int b)
{
    return o->n_row * b / o->n_block;
}

/* Blocks [b0, b1), which wp holds, over kc weights from k on. */
static void panel(const struct super_block *o, int k, int kc, int b0, int b1)
{
    int first = block_row(o, b0);

    for (int s = 0; s < kc; s += KS)
        for (int g = o->g0; g < o->g1; g++) {
            int width = group_width(o->n_tok, g);
            const float *x = o->xp + (size_t)g * GW * (size_t)o->n_unit +
                             (size_t)(k + s) * (size_t)width;
            float *acc = o->acc + (size_t)(g - o->g0) * (size_t)(o->n_row * GW);

            for (int b = b0; b < b1; b++) {
                int r0 = block_row(o, b), r1 = block_row(o, b + 1);

                micro_any(acc + (size_t)(r0 * width),
                          o->wp + (size_t)((r0 - first) * WS + s), x,
                          kc - s < KS ? kc - s : KS, k + s == 0, r1 - r0,
                          width);
            }
        }
}

/*
 * Weights of rows [r0, r1) to the cache while a panel is computed: expanding
 * them is short, and would wait for each line.
 */
static void fetch_rows(const struct kmat *w, int r0, int r1, size_t off,
                       size_t bytes)
{
    for (int r = r0; r < r1; r++)
        for (size_t i = 0; i < bytes + 63; i += 64)
            v_prefetch_l2(kmat_row(w, r) + off + i);
}

/* The n_row rows of w from row0 on. */
static void super_run(const struct super_block *o, const struct kmat *w,
                      int row0)
{
    size_t block = (size_t)kt_block_weights(w->type);

    for (int k = 0; k < o->n_unit; k += KC) {
        int kc = o->n_unit - k < KC ? o->n_unit - k : KC;
        int left = w->d_in - k * UNIT, n = left < KC * UNIT ? left : KC * UNIT;
        size_t off = (size_t)(k * UNIT) / block * kt_block_bytes(w->type);

        for (int b = 0; b < o->n_block; b += PB) {
            int end = o->n_block - b < PB ? o->n_block : b + PB;
            int after = o->n_block - end < PB ? o->n_block : end + PB;
            int r0 = block_row(o, b), r1 = block_row(o, end);

            for (int r = r0; r < r1; r++)
                UNPACK(o->wp + (r - r0) * WS, w->type,
                       kmat_row(w, row0 + r) + off, n);
            if (end < o->n_block)
                fetch_rows(w, row0 + r1, row0 + block_row(o, after), off,
                           (size_t)n / block * kt_block_bytes(w->type));
            panel(o, k, kc, b, end);
        }
    }
}

/* Tokens that are computed together: whole groups, about equal parts. */
static int part_of(int n_tok, int d_in)
{
    int fit = X_BYTES / (GW * (int)sizeof(float)) / units(d_in);
    int max = fit < TOK_MIN / GW   ? TOK_MIN / GW
              : fit > TOK_MAX / GW ? TOK_MAX / GW
                                   : fit;
    int n_group = (n_tok + GW - 1) / GW, n_part = (n_group + max - 1) / max;

    return (n_group + n_part - 1) / n_part * GW;
}

/* Rows whose chains over the given groups fit acc. */
static int rows_that_fit(int n_group)
{
    return ACC_MAX / (n_group * GW) / MR * MR;
}

INLINE void super_rows(struct super_block *o, int n_row)
{
    o->n_row = n_row;
    o->n_block = (n_row + MR - 1) / MR;
}

static void gemm(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch)
{
    int n_group = (n_tok + GW - 1) / GW, part = part_of(n_tok, w->d_in) / GW;
    struct super_block o = { .xp = xp,
                             .n_tok = n_tok,
                             .n_unit = units(w->d_in),
                             .wp = scratch,
                             .acc = scratch + PANEL };

    for (o.g0 = 0; o.g0 < n_group; o.g0 += part) {
        int rows;

        o.g1 = n_group - o.g0 < part ? n_group : o.g0 + part;
        rows = rows_that_fit(o.g1 - o.g0);
        for (int r = row0; r < row1; r += rows) {
            int n = row1 - r < rows ? row1 - r : rows;

            super_rows(&o, n);
            super_run(&o, w, r);
            for (int g = o.g0; g < o.g1; g++)
                put(y + (size_t)g * GW * ldy + r, ldy,
                    o.acc + (size_t)(g - o.g0) * (size_t)(n * GW), n,
                    n_tok - g * GW < GW ? n_tok - g * GW : GW,
                    group_width(n_tok, g));
        }
    }
}

#ifdef SWIGLU
/*
 * acc, [group][row][GW], is what the next product's xp is, row by row: the
 * chains of gate and of up lie one after the other, and nothing is
 * transposed.
 */
static void gated(float *gp, const float *xp, int n_tok,
                  const struct kmat *gate, const struct kmat *up, int row0,
                  int row1, float *scratch)
{
    float *acc = scratch + PANEL;
    int n_group = (n_tok + GW - 1) / GW;
    int part = part_of(n_tok, gate->d_in) / GW;
    struct super_block o = {
        .xp = xp, .n_tok = n_tok, .n_unit = units(gate->d_in), .wp = scratch
    };

    for (o.g0 = 0; o.g0 < n_group; o.g0 += part) {
        int rows;

        o.g1 = n_group - o.g0 < part ? n_group : o.g0 + part;
        rows = rows_that_fit(2 * (o.g1 - o.g0));
        for (int r = row0; r < row1; r += rows) {
            int n = row1 - r < rows ? row1 - r : rows;
            float *acc_up = acc + (size_t)(o.g1 - o.g0) * (size_t)(n * GW);

            super_rows(&o, n);
            o.acc = acc;
            super_run(&o, gate, r);
            o.acc = acc_up;
            super_run(&o, up, r);
            for (int g = o.g0; g < o.g1; g++) {
                size_t at = (size_t)(g - o.g0) * (size_t)(n * GW);
                int width = group_width(n_tok, g);

                SWIGLU(gp + (size_t)g * GW * (size_t)gate->n_out +
                           (size_t)(r * width),
                       acc + at, acc_up + at, (size_t)(n * width));
            }
        }
    }
}
#endif

/* The functions of a product, and those that a set has beside, by these. */
#define GEMM_ENTRIES(name)                                              \
    size_t name##_pack_size(int n_tok, int d_in)                        \
    {                                                                   \
        return pack_size(n_tok, d_in);                                  \
    }                                                                   \
    void name##_pack(float *xp, const float *x, size_t ldx, int n_tok,  \
                     int d_in, int t0, int t1)                          \
    {                                                                   \
        pack(xp, x, ldx, n_tok, d_in, t0, t1);                          \
    }                                                                   \
    void name(float *y, size_t ldy, const float *xp, int n_tok,         \
              const struct kmat *w, int row0, int row1, float *scratch) \
    {                                                                   \
        gemm(y, ldy, xp, n_tok, w, row0, row1, scratch);                \
    }
#define GEMM_SET_ENTRIES(set)                                               \
    int gemm_##set##_part(int n_tok, int d_in)                              \
    {                                                                       \
        return part_of(n_tok, d_in);                                        \
    }                                                                       \
    void gemm_##set##_gated(float *gp, const float *xp, int n_tok,          \
                            const struct kmat *gate, const struct kmat *up, \
                            int row0, int row1, float *scratch)             \
    {                                                                       \
        gated(gp, xp, n_tok, gate, up, row0, row1, scratch);                \
    }

#endif
