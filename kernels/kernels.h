/*
 * kernels.h - the contract of every arithmetic operation, and the table that
 * chooses an implementation.
 *
 *   ref     plain loops, reductions in double: written to be read, the oracle
 *   scalar  the order of additions written here, with fmaf and virtual lanes
 *   avx2    the same bits, fast                    (AVX2, FMA, F16C)
 *   avx512  the same bits, wider                   (AVX-512 F BW DQ VL)
 *
 * scalar, avx2 and avx512 give identical bits for every input; ref agrees
 * within the tolerance stated at each operation and has its own numerics id.
 * No result depends on how many rows, tokens or threads take part: each
 * output is one chain of operations that only its own inputs enter.
 *
 * -ffp-contract=off everywhere: an fma happens only where one is written.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ types */

/* Weight types; the numbers are GGUF's. */
enum {
    KT_F32 = 0,
    KT_F16 = 1,
    KT_Q4_0 = 2,
    KT_Q4_1 = 3,
    KT_Q5_0 = 6,
    KT_Q5_1 = 7,
    KT_Q8_0 = 8,
    KT_Q4_K = 12,
    KT_Q5_K = 13,
    KT_Q6_K = 14,
    KT_BF16 = 30
};

/* Weights in one block of a type, and its bytes; 0 for an unknown type. */
static inline int kt_block_weights(int type)
{
    switch (type) {
    case KT_F32:
    case KT_F16:
    case KT_BF16:
        return 1;
    case KT_Q4_0:
    case KT_Q4_1:
    case KT_Q5_0:
    case KT_Q5_1:
    case KT_Q8_0:
        return 32;
    case KT_Q4_K:
    case KT_Q5_K:
    case KT_Q6_K:
        return 256;
    default:
        return 0;
    }
}

static inline size_t kt_block_bytes(int type)
{
    switch (type) {
    case KT_F32:
        return 4;
    case KT_F16:
    case KT_BF16:
        return 2;
    case KT_Q4_0:
        return 18;
    case KT_Q4_1:
        return 20;
    case KT_Q5_0:
        return 22;
    case KT_Q5_1:
        return 24;
    case KT_Q8_0:
        return 34;
    case KT_Q4_K:
        return 144;
    case KT_Q5_K:
        return 176;
    case KT_Q6_K:
        return 210;
    default:
        return 0;
    }
}

static inline bool kt_quantized(int type)
{
    return kt_block_weights(type) >= 32;
}

/*
 * A weight matrix [n_out, d_in] as stored in the model file: row-major,
 * possibly unaligned; d_in is a multiple of the type's block.
 * perm_half != 0: row r of the mathematics (half-split rotary order) is
 * stored at kmat_row(w, r).
 */
struct kmat {
    int type;
    int n_out, d_in;
    size_t row_bytes;
    const uint8_t *data;
    int perm_half; /* d_head / 2, or 0 */
};

static inline const uint8_t *kmat_row(const struct kmat *w, int r)
{
    if (w->perm_half) {
        int d = 2 * w->perm_half, j = r % d;
        r += (j % w->perm_half) * 2 + j / w->perm_half - j;
    }
    return w->data + (size_t)r * w->row_bytes;
}

/*
 * The f32 value of a stored weight, the same everywhere (d, m, dmin are the
 * block's f16 scales as f32; q the stored integer; sc, mn the sub-block's
 * integers):
 *   Q4_0  d * (q - 8)        Q4_1  fmaf(d, q, m)      Q8_0  d * q
 *   Q5_0  d * (q - 16)       Q5_1  fmaf(d, q, m)
 *   Q4_K, Q5_K  fmaf(d * sc, q, -(dmin * mn))
 *   Q6_K  (d * sc) * (q - 32)
 */

/*
 * Orders of addition shared by several operations
 *
 * fold of n lanes (n a power of two): while n > 1: n = n / 2, and for j < n
 * a[j] = a[j] + a[j + n].  The sum is a[0].
 *
 * dot32(a, b, n): 32 lanes from 0; element i goes to lane i % 32 by
 * lane = fmaf(a[i], b[i], lane), ascending; the last, partial group of 32 is
 * filled up with zeros that are multiplied and added too; then fold.
 *
 * exp2(x): 0 if x < -126; else x = min(x, 128), t = x + EXP2_MAGIC,
 * f = x - (t - EXP2_MAGIC), the polynomial of exp2.h in f by fmaf (Horner),
 * times the float with the bits of t shifted left by 23.  exp2(0) = 1,
 * exp2(-inf) = 0, exp2(x >= 127.5) = inf, NaN stays NaN; error below 1 ulp.
 */

/* ---------------------------------------------------------- KV tile layout */

/*
 * K and V live in tiles of 64 positions on an absolute grid, one tile per KV
 * head, elements f16 or f32:
 *   K [64/16][d_head][16]       token t, channel c: (t/16*d_head + c)*16 + t%16
 *   V [d_head/32][64][32]       token t, channel c: (c/32*64 + t)*32 + c%32;
 *                               the last group is d_head % 32 wide when that
 *                               is not 0: it starts at c/32*64*32 and is
 *                               [64][d_head % 32]
 * Unused positions are zero.  d_head is a multiple of 8.
 *
 * KV_Q8H: the same places, int8 codes; a tile's 64 f16 scales lie elsewhere.
 *
 *   hadamard(x): in every block of n channels, n the largest power of two
 *     that divides d_head, for h = 1, 2, 4 .. n / 2, for every i of the block
 *     with (i & h) = 0: a = x[i], b = x[i + h], x[i] = a + b, x[i + h] = a - b
 *   r = 2^-floor(log2(n) / 2), r' = 1 / (n * r): powers of two, so that both
 *     are exact; hadamard(hadamard(x) * r) * r' = x but for rounding
 *   f [d_head], positive: the factors of K's channels; V has none
 *
 * K is kept as hadamard(k / f) * r and read with hadamard(q * f) * r', V as
 * hadamard(v) * r; what attention makes of it is o = hadamard(o) * r'.
 */
enum { KV_F16 = 1, KV_F32 = 0, KV_Q8H = 2 };
#define KV_TILE 64
#define KV_SPAN 1024 /* keys; spans lie on an absolute grid too */

/* ------------------------------------------------------------- attention */

/*
 * Attention of n_row query rows over consecutive tiles of ONE span and ONE
 * KV head, continuing the state (m, l, o).  A span starts from m = -inf,
 * l = 0, o = 0.
 *
 * For each tile i ascending, for each row, with visible keys t: those with
 * key0 + 64*i + t <= last[row] and, unless see is NULL, bit t of see[i] set
 * (a tile without visible keys leaves the row's state untouched):
 *   s[t]  = chain over c ascending of fmaf(q[c], k[t][c], s), from 0
 *   s[t]  = -inf where not visible
 *   mt    = max over t of s[t];  mn = max(m, mt) + 0   (no -0 in m)
 *   p[t]  = exp2(s[t] - mn);     a = exp2(m - mn)
 *   l     = fmaf(l, a, sum of p)   sum: lane j of 16 is ((p[j] + p[16+j])
 *                                  + p[32+j]) + p[48+j]; then fold
 *   o[c]  = o[c] * a, then chain over t ascending of fmaf(p[t], v[t][c], o)
 *   m     = mn
 * q is already multiplied by log2(e) / sqrt(d_head).
 * KV_Q8H: k and v are the codes, and s[t] = s[t] * ks[t] after its chain,
 * p[t] = p[t] * vs[t] after the sum of p; q, o and v are in the domain that
 * q8h_rotate turns to and from.
 * ref: |out - ref| <= 1e-6 * (1 + max |s|) * max |v|
 */
struct attn_job {
    int kv_type, d_head;
    int n_row;
    const float *q; /* [n_row, ldq]                        */
    size_t ldq;
    const int32_t *last; /* [n_row]                             */
    const uint64_t *see; /* [n_tile] keys that may be seen, or NULL */
    int n_tile;
    int32_t key0;                      /* position of the first tile's key 0  */
    const void *const *k, *const *v;   /* [n_tile] tiles                  */
    const void *const *ks, *const *vs; /* KV_Q8H: [n_tile] f16 scales [64] */
    float *m, *l;                      /* [n_row]                             */
    float *o;                          /* [n_row, d_head]                     */
    float *scratch;                    /* ATTN_SCRATCH floats, 64-aligned     */
};
#define ATTN_ROWS 96 /* n_row at most, per call             */
#define ATTN_SCRATCH \
    (3 * ATTN_ROWS * KV_TILE + 2 * KV_TILE * 512 + ATTN_ROWS * 512 + 1024)

/* The keys of tile i that row r sees, as bits. */
static inline uint64_t attn_visible(const struct attn_job *job, int r, int i)
{
    int64_t n = (int64_t)job->last[r] - job->key0 + 1 - (int64_t)KV_TILE * i;
    uint64_t see = job->see ? job->see[i] : UINT64_MAX;

    return n <= 0 ? 0 : n < KV_TILE ? see & (((uint64_t)1 << n) - 1) : see;
}

/* ------------------------------------------------------------- the table */

#define GEMM_ROW_GRID 32          /* row0 of gemm is a multiple of this  */
#define GEMM_SCRATCH  (64 * 1024) /* floats per thread, 64-byte aligned  */
#define ROWS_MAX      16          /* tokens per call of rows             */

struct kernels {
    const char *name;     /* "ref", "scalar", "avx2", "avx512" */
    const char *numerics; /* id of the order of operations; equal
                             names, equal bits                   */

    /* out [w->d_in] = row r of w as f32 (embedding look-up) */
    void (*dequant_row)(float *out, const struct kmat *w, int r);

    /*
     * Prompt phase.  y[t, r] = chain over i ascending of
     * fmaf(x[t, i], w[r, i], y), from 0, for any weight type.
     * gemm_pack lays tokens [t0, t1) of x out for gemm (t0 a multiple of
     * gemm_mr; threads pack disjoint ranges); xp holds
     * gemm_pack_size(n_tok, d_in) floats, 64-byte aligned.  gemm computes
     * rows [row0, row1) for all n_tok tokens; those from token t on, t a
     * multiple of gemm_mr, are a product of their own, whose xp begins
     * gemm_pack_size(t, d_in) floats in.  gemm_part, also such a multiple,
     * says how many tokens' inputs stay in a core's cache: who computes many
     * rows for so many tokens, then for the next, reads the inputs once.
     * ref: |diff| <= 1e-6 * sqrt(d_in) * sum |x * w|
     */
    int gemm_mr;
    int (*gemm_part)(int n_tok, int d_in);
    size_t (*gemm_pack_size)(int n_tok, int d_in);
    void (*gemm_pack)(float *xp, const float *x, size_t ldx, int n_tok,
                      int d_in, int t0, int t1);
    void (*gemm)(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch);
    /*
     * The two products of a gated layer and what is made of them, packed for
     * the next: columns [row0, row1) of what gemm_pack makes of
     * swiglu(gate x, up x); gp holds gemm_pack_size(n_tok, gate->n_out)
     * floats.  up has gate's shape.
     */
    void (*gemm_gated)(float *gp, const float *xp, int n_tok,
                       const struct kmat *gate, const struct kmat *up, int row0,
                       int row1, float *scratch);

    /*
     * Generation phase and all logits: n_x <= ROWS_MAX tokens.  x is first
     * brought into the form its weight type wants: i16 per block of 32 for
     * quantized types, f32 as it is for F32, F16, BF16 and when exact.
     * The result for a token does not depend on n_x.  xq is 64-byte aligned,
     * xq_stride is rows_x_size, a multiple of 64; its layout belongs to the
     * set that wrote it.  scratch is gemm's.
     *
     * F32, F16, BF16 and exact: dot32(w row, x, d_in).
     * Otherwise, per block b of 32: amax = max |x|;
     *   s = amax / 32767, q[i] = x[i] * (32767 / amax) to nearest even;
     *   s = 0, q = 0 where amax < 2^-100; s = NaN, q = 0 where amax is
     *   infinite or NaN;
     * with w = f * u + o (u the unsigned stored integer, o the offset: m of
     * Q4_1 and Q5_1, -8 * d of Q4_0, -16 * d of Q5_0, none for Q8_0, whose u
     * is signed, -(dmin * mn) of Q4_K and Q5_K, -32 * f of Q6_K):
     *   quad j of 8: n = sum of u[i] * q[i] over i = 4j .. 4j+3, exact;
     *   acc[8 * (b % 2) + j] = fmaf((float)n, f * s, that), 16 lanes from 0;
     *   off[b % 8] = fmaf(o, s * (float)(sum of q), that), 8 lanes from 0;
     *   the blocks are filled up to a multiple of 8 with o = 0 and sum = 0
     *   (Q6_K: f of the half that quad j lies in; halves h of 16 with their
     *   own sums: off[(2b + h) % 8]).
     * y = fold of 8 lanes (acc[j] + acc[8 + j]) + off[j]; Q8_0: no off.
     * ref: x is not quantized; |diff| <= sum |w| * s / 2 over the blocks
     * + 1e-6 * sqrt(d_in) * sum |x * w|
     */
    size_t (*rows_x_size)(int type, int d_in, bool exact); /* bytes */
    void (*rows_x)(void *xq, const float *x, int type, int d_in, bool exact);
    void (*rows)(float *y, size_t ldy, const void *xq, size_t xq_stride,
                 int n_x, const struct kmat *w, int row0, int row1, bool exact,
                 float *scratch);

    /*
     * y = x / sqrt(mean(x^2) + eps) * w, per row of d; y may be x:
     *   r = 1 / sqrt(dot32(x, x, d) / d + eps),  y[i] = (x[i] * r) * w[i]
     */
    void (*rmsnorm)(float *y, size_t ldy, const float *x, size_t ldx,
                    const float *w, int n_row, int d, float eps);
    /*
     * Half-split rotation in place of n_head heads of d_head in one token's
     * row, then times scale:  a = x[i], b = x[i + half]:
     *   x[i] = (a*cos[i] - b*sin[i]) * scale
     *   x[i + half] = (b*cos[i] + a*sin[i]) * scale
     */
    void (*rope)(float *x, int n_head, int d_head, const float *cos,
                 const float *sin, float scale);
    /*
     * y[i] = g[i] / (1 + exp2(-g[i] * log2(e))) * u[i]; y may be g or u.
     * exp2's argument is g[i] * (float)-log2(e).
     */
    void (*swiglu)(float *y, const float *g, const float *u, size_t n);
    /* y[i] += x[i] */
    void (*add)(float *y, const float *x, size_t n);

    /*
     * Store one token's K and V of one head into slot t of a tile pair.
     * Returns false when a value does not fit (for f16: magnitude from 65520
     * up; infinite, NaN); the slot's content is then unspecified.
     * Rounding is to nearest even.
     */
    bool (*kv_store)(int kv_type, void *k_tile, void *v_tile, int t,
                     const float *k, const float *v, int d_head);
    /*
     * One row of K (f: its factors) or V (f: NULL) to codes in the order of
     * its channels, and back.
     *   y = hadamard(x / f) * r;  scale = the smallest f16 that is not below
     *   max |y| / 127;  code = y * (1 / scale) to nearest even, 0 where scale
     *   is 0;  x = (hadamard(code * scale) * r') * f
     * Returns false when y is not finite or the scale does not fit f16; the
     * code is then unspecified.
     * ref: |code * scale - y| <= scale * (1/2 + 2^-10) + 1e-6 * r * sum |x/f|
     */
    bool (*q8h_encode)(int8_t *code, uint16_t *scale, const float *x,
                       const float *f, int d_head);
    void (*q8h_decode)(float *x, const int8_t *code, uint16_t scale,
                       const float *f, int d_head);
    /*
     * Per row of d_head, in place: queries (f: the factors of their K head)
     * into the domain of the codes, x = hadamard(x * f) * r'; and what comes
     * of V (f: NULL) out of it, x = hadamard(x) * r'.
     */
    void (*q8h_rotate)(float *x, const float *f, int n_row, int d_head);
    void (*attn)(const struct attn_job *job);
    /*
     * The share of each key in finished rows: with s as for attn, and m and l
     * of the row after its last span,
     *   p[r * ldp + 64*i + t] = exp2(s[t] - m[r]) / l[r], 0 where not visible
     * v, vs and o of the job are not used.
     * ref: |diff| <= 1e-6 * (1 + max |s|) * p
     */
    void (*attn_mass)(const struct attn_job *job, float *p, size_t ldp);
    /*
     * Merge span state (m2, l2, o2) into (m, l, o), per row:
     *   mn = max(m, m2), a = exp2(m - mn), b = exp2(m2 - mn)
     *   l = fmaf(l, a, l2 * b), o[c] = fmaf(o[c], a, o2[c] * b)
     * (-inf and -inf leave the state as it was)
     */
    void (*attn_merge)(float *m, float *l, float *o, const float *m2,
                       const float *l2, const float *o2, int n_row, int d_head);
    /* out[row] = o[row] / l[row], written with row stride ldo */
    void (*attn_finish)(float *out, size_t ldo, const float *l, const float *o,
                        int n_row, int d_head);
};

extern const struct kernels kernels_ref, kernels_scalar, kernels_avx2,
    kernels_avx512, kernels_avx512vnni; /* one set: with VNNI the second */

/*
 * The set for this CPU, chosen once: the one that CAG_KERNELS (SET[+FAMILY])
 * names, if set (one that is unknown or that this CPU cannot run gives NULL
 * and *why), else the widest.
 */
const struct kernels *kernels_get(const char **why);
/* What CAG_KERNELS names after its +, or NULL. */
const char *kernels_family(void);
/* Set i of all sets, NULL past the end; usable: this CPU runs it. */
const struct kernels *kernels_at(int i, bool *usable);

/* ------------------------------------------------- products, less precise */

/*
 * What --precision fast puts in place of gemm, for the weight types it
 * takes; everything else stays the set's.  The interface is gemm's.  Like a
 * set's, a result depends on nothing but its own token and weight row, and
 * families of equal numerics give equal bits; which of them there is depends
 * on the CPU, so their numerics id, which includes the set's, says which was
 * used.
 *
 * bf16(x): to nearest even; a denormal becomes a zero of its sign.
 * fmaz, addz: fma and addition to nearest even, where a denormal operand is
 * a zero of its sign, and so is a result below 2^-126, judged after rounding
 * to 24 bits.  (AVX512-BF16 and AMX-BF16 compute so, whatever MXCSR says.)
 *
 * bf16-tiles, any type: w and x to bf16, filled up with zeros to a multiple
 * of 32; for each 32 of them, ascending:
 *   e = chain of fmaz(x[i], w[i], e) over even i from 0, o the same over odd,
 *   y = addz(y, addz(e, o)), from 0
 * ref: |diff| <= 2^-8 * sum |x * w| + 1e-6 * sqrt(d_in) * sum |x * w|
 * Its attention is attn of the set but for the two products, which are such
 * chains from 0 over q and k (s), and over p and v from o * a (o); p is
 * rounded to bf16 after its sum and, of KV_Q8H, after the scales; and
 *   mn = ceil(max(m, mt)) + 0,  p[t] = cubic(s[t] - mn)
 *   cubic(x): x = max(x, -127), t = x + EXP2_MAGIC, f = x - (t - EXP2_MAGIC),
 *   the cubic of exp2.h in f by fmaf (Horner), times the float with the bits
 *   of t shifted left by 23; a NaN stays
 * ref: |out - ref| <= (3 * 2^-8 * max sum |q * k| + 2^-7) * max |v| of
 * out = o / l, the maximum over its keys
 *
 * bf16-pairs, any type: w and x to bf16, filled up with a zero to a multiple
 * of 2; for each pair, ascending, from 0:
 *   y = fmaz(x[2i + 1], w[2i + 1], y),  y = fmaz(x[2i], w[2i], y)
 * Its attention is as that of bf16-tiles, with such chains.
 * ref: as bf16-tiles
 *
 * u4s8, for Q4_0, Q4_1, Q4_K: per block of 32 of x, amax = max |x|;
 *   s = amax / 127, q[i] = x[i] * (127 / amax) to nearest even;
 *   s = 0, q = 0 where amax < 2^-100; s = NaN, q = 0 where amax is infinite
 *   or NaN;  h = s * (float)(sum of q);
 * with w = f * u + o as for rows, for each block ascending, from 0:
 *   y = fmaf((float)(sum of u[i] * q[i], exact), f * s, y)
 *   y = fmaf(o, h, y)
 * ref: |diff| <= sum |w| * s / 2 over the blocks
 *              + 1e-6 * sqrt(d_in) * sum (|x * w| + |o * x|)
 *
 * u8s8, attention with integers.  A row of q, k or v is coded as amax =
 * max |x|, scale = amax / 127, code[c] = fma(x[c], 127 / amax, 0) to nearest
 * even; scale = 0, codes 0 where amax < 2^-100, scale = NaN where an element
 * is infinite or NaN.  Of KV_Q8H x are its codes, and its scale multiplies
 * this one.  It is attn of the set but for
 *   s[t]  = ((float)(sum of q's codes * k's, exact) * k's scale) * q's scale
 *   mt    = ceil(max over visible t of s[t]) + 0,  p[t] = cubic(s[t] - mt)
 *   e     = fold of 4 lanes, lane t % 4 = that + p[t]
 *   w[t]  = p[t] * v's scale; of top = max w[t], inv = 255 / top, 0 where
 *           top < 2^-100: u[t] = fma(w[t], inv, 0) to nearest even
 *   mn    = max(m, mt) + 0, a = exp2(m - mn), b = exp2(mt - mn)
 *   l     = fmaf(l, a, e * b)
 *   o[c]  = fmaf((float)(sum of u[t] * v's codes, exact), top / 255 * b,
 *                o[c] * a), the factor of the sum 0 where top < 2^-100
 *   m     = mn
 * with p[t] = 0 where not visible.  Where l is NaN, o is anything.
 * ref: |out - ref| <= (2 E + 1/4 + 1/64) * max |v|, where E is the largest
 * error of an s[t]: half a step of each code times what it is multiplied with
 */
struct kernels_fast {
    const char *name; /* "amx"; "..., scalar" for the tests  */
    const char *numerics;
    bool (*takes)(int type);
    int gemm_mr;
    size_t (*gemm_pack_size)(int n_tok, int d_in);
    void (*gemm_pack)(float *xp, const float *x, size_t ldx, int n_tok,
                      int d_in, int t0, int t1);
    void (*gemm)(float *y, size_t ldy, const float *xp, int n_tok,
                 const struct kmat *w, int row0, int row1, float *scratch);
    /* In place of a prompt's attn and attn_mass where kernels_fast_attends; or
     * NULL, both */
    void (*attn)(const struct attn_job *job);
    void (*attn_mass)(const struct attn_job *job, float *p, size_t ldp);
};

static inline bool kernels_fast_attends(const struct kernels_fast *f,
                                        int kv_type, int d_head)
{
    return f && f->attn && kv_type != KV_F32 && d_head % 32 == 0;
}

/*
 * The fastest family for this CPU beside the given set (one that CAG_KERNELS
 * narrowed narrows this, too), of those that take one of the n types; NULL:
 * none is faster than the set's own gemm.  Or the one whose instructions (the
 * last word of its name) CAG_KERNELS names, however fast it is; where there is
 * none, *why says so, which is else NULL.  The first call may ask the system
 * for the use of registers that it does not give unasked.
 */
const struct kernels_fast *kernels_fast_get(const struct kernels *set,
                                            const int *type, int n,
                                            const char **why);
/*
 * For --precision fast8: the family of u4s8 whose products take less time than
 * those of fast, which is kernels_fast_get's; it computes the types that it
 * takes, fast the others and attention.  NULL: fast is the quickest here.
 */
const struct kernels_fast *kernels_fast8_get(const struct kernels *set,
                                             const struct kernels_fast *fast,
                                             const int *type, int n);
/* Family i of all, NULL past the end; usable: this CPU and system run it. */
const struct kernels_fast *kernels_fast_at(int i, bool *usable);

/*
 * cos and sin of pos * inv_freq[i] (the product rounded to f32, as
 * transformers computes it), times mscale, for i < half.  Own code, no libm:
 * the same bits on every machine, within 1 ulp of f32 for angles up to 2^20.
 */
void rope_table(float *cos, float *sin, int32_t pos, const float *inv_freq,
                int half, float mscale);

/*
 * f16 <-> f32, exact / round to nearest even; used outside hot loops.
 * The same bits as the CPU's conversion; NaNs come out quiet.
 */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
/* The smallest f16 that is not below f; f >= 0. */
uint16_t f32_to_f16_up(float f);

/* n, r and r' of codec q8h. */
struct q8h_block {
    int n;
    float r, inverse;
};
struct q8h_block q8h_block(int d_head);

#endif
