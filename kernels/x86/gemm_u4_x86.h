/*
 * gemm_u4_x86.h - the prompt phase's product of 4-bit weights with
 * activations of 8 bits: the order of operations that kernels.h calls u4s8.
 * Included by gemm_u4_<instructions>.c after simd_<set>.h; that file sets MR,
 * the rows of a block, and NG, the groups of tokens of one, gives `micro` and
 * ends with GEMM_U4.
 *
 * A lane is a token.  An instruction multiplies four weights, broadcast as
 * they were stored but one to a byte, with four inputs of each token; a block
 * of 32 adds up exactly.  Then the scales.
 *
 *   xp     [token / 16][input / 32] of  | s[16] h[16] q[8][16][4] |
 *   panel  [row][KC] bytes, and f, o [row][KC / 32]
 *   acc    [token / 16][row][16] f32
 *
 * Loops: parts of the tokens, blocks of ROWS rows, chunks of KC inputs
 * (expand), NG groups of 16 tokens, MR rows.
 */
#ifndef KERNELS_X86_GEMM_U4_X86_H
#define KERNELS_X86_GEMM_U4_X86_H

#include "kernels/gemm_fast.h"
#include "kernels/x86/rows_x86.h"

#include <math.h>

enum {
    GW = 16,                 /* tokens of a group */
    BLOCK = 2 * GW + 8 * GW, /* floats of a group's block */
    ROWS = 36,
    KC = 512, /* a multiple of any type's block */
    NB = KC / 32,
    PART = 512,            /* tokens */
    PANEL = ROWS * KC / 4, /* floats of scratch */
    SCALES = ROWS * NB
};
_Static_assert(PANEL + 2 * SCALES + ROWS * PART <= GEMM_SCRATCH,
               "the scratch is too small");
_Static_assert(ROWS % MR == 0 && PART % (NG * GW) == 0, "uneven blocks");

static size_t u4_pack_size(int n_tok, int d_in)
{
    return ((size_t)n_tok + GW - 1) / GW * (((size_t)d_in + 31) / 32) * BLOCK;
}

/* One block of one token into its place t of the group's block. */
static void pack_block(float *out, const float *x, int t)
{
    const __m256i abs = _mm256_set1_epi32(0x7fffffff);
    __m256i top = _mm256_setzero_si256(), q[4], sum;
    uint8_t *to = (uint8_t *)(out + 2 * GW) + 4 * t;
    uint32_t lane[8], amax = 0;
    float s = 0.0f, inv = 0.0f;

    for (int i = 0; i < 4; i++)
        top = _mm256_max_epi32(
            top, _mm256_and_si256(
                     _mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), abs));
    _mm256_storeu_si256((__m256i *)(void *)lane, top);
    for (int i = 0; i < 8; i++)
        amax = lane[i] > amax ? lane[i] : amax;
    if (amax >= 0x7f800000) {
        s = NAN;
    } else if (amax >= 0x0d800000) { /* 2^-100 */
        memcpy(&s, &amax, sizeof s);
        inv = 127.0f / s;
        s = s / 127.0f;
    }
    for (int i = 0; i < 4; i++)
        q[i] = inv == 0.0f
                   ? _mm256_setzero_si256()
                   : _mm256_cvtps_epi32(_mm256_mul_ps(
                         _mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inv)));
    sum = _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]),
                           _mm256_add_epi32(q[2], q[3]));
    sum = _mm256_hadd_epi32(sum, sum);
    sum = _mm256_hadd_epi32(sum, sum);
    out[t] = s;
    out[GW + t] = s * (float)(_mm256_extract_epi32(sum, 0) +
                              _mm256_extract_epi32(sum, 4));
    q[0] = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
                              _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256((__m256i *)(void *)lane, q[0]);
    for (int i = 0; i < 8; i++) /* lanes of 128 bits: even, odd quads */
        memcpy(to + 4 * GW * i, &lane[i / 2 + i % 2 * 4], 4);
}

static void u4_pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                    int t0, int t1)
{
    size_t nb = (size_t)d_in / 32;

    for (int g = t0; g < t1; g += GW) {
        float *out = xp + (size_t)(g / GW) * nb * BLOCK;

        for (size_t b = 0; b < nb; b++, out += BLOCK) {
            if (n_tok - g < GW)
                memset(out, 0, BLOCK * sizeof *out);
            for (int t = 0; t < GW && g + t < n_tok; t++)
                pack_block(out, x + (size_t)(g + t) * ldx + b * 32, t);
        }
    }
}

/* 32 weights of block b to bytes */
INLINE __m256i nibbles(const uint8_t *row, int b, const int type)
{
    const size_t size = kt_block_bytes(type);
    const __m256i mask = _mm256_set1_epi8(15);
    __m128i v;

    if (type == KT_Q4_K) {
        __m256i w = load32(row + (size_t)(b / 8) * size + 16 + b % 8 / 2 * 32);

        if (b % 2)
            w = _mm256_srli_epi16(w, 4);
        return _mm256_and_si256(w, mask);
    }
    v = _mm_loadu_si128(
        (const __m128i *)(const void *)(row + (size_t)b * size + size - 16));
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), mask);
}

/* nb blocks of one row: bytes to u, scales and offsets to f and o */
INLINE void expand(uint8_t *u, float *f, float *o, const uint8_t *row, int nb,
                   const int type)
{
    for (int b = 0; b < nb; b += 8) {
        int n = nb - b < 8 ? nb - b : 8;
        __m256 vf, vo;

        if (type == KT_Q4_K)
            scales_k(row + (size_t)(b / 8) * kt_block_bytes(type), &vf, &vo);
        else
            scales32(row + (size_t)b * kt_block_bytes(type), n, type, &vf, &vo);
        _mm256_storeu_ps(f + b, vf);
        _mm256_storeu_ps(o + b, vo);
        for (int i = b; i < b + n; i++)
            _mm256_storeu_si256((__m256i *)(void *)(u + 32 * i),
                                nibbles(row, i, type));
    }
}

static void expand_any(uint8_t *u, float *f, float *o, const uint8_t *row,
                       int nb, int type)
{
    if (type == KT_Q4_0)
        expand(u, f, o, row, nb, KT_Q4_0);
    else if (type == KT_Q4_1)
        expand(u, f, o, row, nb, KT_Q4_1);
    else
        expand(u, f, o, row, nb, KT_Q4_K);
}

struct panel {
    const uint8_t *u;
    const float *f, *o;
};

/* four weights of row r, block b, to every lane */
INLINE int32_t four_weights(const struct panel *p, int r, int b, int i)
{
    int32_t four;

    memcpy(&four, p->u + r * KC + 32 * b + 4 * i, sizeof four);
    return four;
}

/*
 * acc [nr][GW] += nr rows of the panel times nb blocks of a group, and the
 * same for ng groups, which lie ldx floats apart and in acc lda.
 */
static void micro(float *acc, size_t lda, const struct panel *p, const float *x,
                  size_t ldx, int nb, int nr, int ng);

/* acc [n_row][GW] of one group to y, n_tok tokens */
static void put(float *y, size_t ldy, const float *acc, int n_row, int n_tok)
{
    for (int r = 0; r < n_row; r += VW) {
        int n = n_row - r < VW ? n_row - r : VW;

        for (int v = 0; v < n_tok; v += VW) {
            VF c[VW];

            for (int i = 0; i < VW; i++)
                c[i] = i < n ? v_load(acc + (r + i) * GW + v) : v_zero();
            v_transpose(c);
            for (int t = 0; t < VW && v + t < n_tok; t++)
                v_store_n(y + (size_t)(v + t) * ldy + r, c[t], n);
        }
    }
}

/* Inputs of a chunk: whole blocks, at most KC, about equal. */
static int chunk(const struct kmat *w)
{
    int block = kt_block_weights(w->type), n = w->d_in / block;
    int n_chunk = (w->d_in + KC - 1) / KC;

    return (n + n_chunk - 1) / n_chunk * block;
}

/* Rows [row0, row0 + n_row), at most ROWS, of the n_tok tokens at xp. */
static void rows_run(float *y, size_t ldy, const float *xp, int n_tok,
                     const struct kmat *w, int row0, int n_row, float *scratch)
{
    uint8_t *u = (uint8_t *)scratch;
    float *f = scratch + PANEL, *o = f + SCALES, *acc = o + SCALES;
    size_t block = (size_t)kt_block_weights(w->type);
    size_t group = (size_t)w->d_in / 32 * BLOCK;
    int n_group = (n_tok + GW - 1) / GW;

    memset(acc, 0, (size_t)(n_group * n_row * GW) * sizeof *acc);
    for (int k = 0, kc = chunk(w); k < w->d_in; k += kc) {
        int nb = (w->d_in - k < kc ? w->d_in - k : kc) / 32;
        size_t off = (size_t)k / block * kt_block_bytes(w->type);

        for (int r = 0; r < n_row; r++)
            expand_any(u + r * KC, f + r * NB, o + r * NB,
                       kmat_row(w, row0 + r) + off, nb, w->type);
        for (int g = 0; g < n_group; g += NG) {
            int ng = n_group - g < NG ? n_group - g : NG;

            /* put would wait for every line of y, which lie far apart */
            for (int t = g * GW; t < (g + ng) * GW && t < n_tok; t++)
                for (int r = 0; k + kc >= w->d_in && r < n_row; r += 16)
                    v_prefetch_write(y + (size_t)t * ldy + row0 + r);
            for (int r = 0; r < n_row; r += MR) {
                struct panel p = { u + r * KC, f + r * NB, o + r * NB };

                micro(acc + (g * n_row + r) * GW, (size_t)(n_row * GW), &p,
                      xp + (size_t)g * group + (size_t)(k / 32) * BLOCK, group,
                      nb, n_row - r < MR ? n_row - r : MR, ng);
            }
        }
    }
    for (int g = 0; g < n_group; g++)
        put(y + (size_t)(g * GW) * ldy + row0, ldy, acc + g * n_row * GW, n_row,
            n_tok - g * GW < GW ? n_tok - g * GW : GW);
}

static void u4_gemm(float *y, size_t ldy, const float *xp, int n_tok,
                    const struct kmat *w, int row0, int row1, float *scratch)
{
    size_t token = (size_t)w->d_in / 32 * BLOCK / GW;

    for (int t = 0; t < n_tok; t += PART)
        for (int r = row0; r < row1; r += ROWS)
            rows_run(y + (size_t)t * ldy, ldy, xp + (size_t)t * token,
                     n_tok - t < PART ? n_tok - t : PART, w, r,
                     row1 - r < ROWS ? row1 - r : ROWS, scratch);
}

#define GEMM_U4(name)                                                   \
    size_t name##_pack_size(int n_tok, int d_in)                        \
    {                                                                   \
        return u4_pack_size(n_tok, d_in);                               \
    }                                                                   \
    void name##_pack(float *xp, const float *x, size_t ldx, int n_tok,  \
                     int d_in, int t0, int t1)                          \
    {                                                                   \
        u4_pack(xp, x, ldx, n_tok, d_in, t0, t1);                       \
    }                                                                   \
    void name(float *y, size_t ldy, const float *xp, int n_tok,         \
              const struct kmat *w, int row0, int row1, float *scratch) \
    {                                                                   \
        u4_gemm(y, ldy, xp, n_tok, w, row0, row1, scratch);             \
    }

#endif
