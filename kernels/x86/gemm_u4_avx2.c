/*
 * gemm_u4_avx2.c - the prompt phase's product of 4-bit weights with
 * activations of 8 bits: the order of operations that kernels.h calls u4s8.
 *
 * A lane is a token.  vpmaddubsw multiplies four weights, broadcast as they
 * were stored but one to a byte, with four inputs of each of 8 tokens, and a
 * block of 32 adds up in 16 bits: 8 * 2 * 15 * 127 = 30,480.  Then the scales.
 *
 *   xp     [token / 16][input / 32] of  | s[16] h[16] q[8][16][4] |
 *   panel  [row][KC] bytes, and f, o [row][KC / 32]
 *   acc    [token / 16][row][16] f32
 *
 * Loops: parts of the tokens, blocks of ROWS rows, chunks of KC inputs
 * (expand), groups of 16 tokens, MR rows: 8 accumulators in 16 bits, those in
 * f32 stay in acc, in L1.
 *
 * Bound by the vector ports: of 20 operations for 8 tokens, a row and 32
 * inputs 16 are multiplications and additions in 16 bits.
 */
#include "kernels/x86/avx2.h"
#include "kernels/gemm_fast.h"
#include "kernels/x86/simd_avx2.h"

#include "kernels/x86/rows_x86.h"

#include <math.h>

enum {
    GW = 16,                 /* tokens of a group */
    BLOCK = 2 * GW + 8 * GW, /* floats of a group's block */
    MR = 4,
    ROWS = 32,
    KC = 512, /* a multiple of any type's block */
    NB = KC / 32,
    PART = 512,            /* tokens */
    PANEL = ROWS * KC / 4, /* floats of scratch */
    SCALES = ROWS * NB
};
_Static_assert(PANEL + 2 * SCALES + ROWS * PART <= GEMM_SCRATCH,
               "the scratch is too small");

size_t gemm_u4_avx2_pack_size(int n_tok, int d_in)
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
            top, _mm256_and_si256(_mm256_castps_si256(v_load(x + 8 * i)), abs));
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
        q[i] = inv == 0.0f ? _mm256_setzero_si256()
                           : _mm256_cvtps_epi32(
                                 _mm256_mul_ps(v_load(x + 8 * i), v_set1(inv)));
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

void gemm_u4_avx2_pack(float *xp, const float *x, size_t ldx, int n_tok,
                       int d_in, int t0, int t1)
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
        v_store(f + b, vf);
        v_store(o + b, vo);
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

/* the compiler keeps n sums in registers, however it would rather not */
#define KEEP(x) __asm__("" : "+x"(x))

/* acc [nr][GW] += nr rows of the panel times nb blocks of a group */
INLINE void micro(float *acc, const struct panel *p, const float *x, int nb,
                  const int nr)
{
    const __m256i ones = _mm256_set1_epi16(1);

    for (int b = 0; b < nb; b++, x += BLOCK) {
        const uint8_t *q = (const uint8_t *)(x + 2 * GW);
        __m256i c[MR][2];

#pragma GCC unroll 4
        for (int r = 0; r < nr; r++)
            c[r][0] = c[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m256i a0 = load32(q + 64 * i), a1 = load32(q + 64 * i + 32);

#pragma GCC unroll 4
            for (int r = 0; r < nr; r++) {
                int32_t four;
                __m256i w;

                memcpy(&four, p->u + r * KC + 32 * b + 4 * i, sizeof four);
                w = _mm256_set1_epi32(four);
                c[r][0] =
                    _mm256_add_epi16(c[r][0], _mm256_maddubs_epi16(w, a0));
                c[r][1] =
                    _mm256_add_epi16(c[r][1], _mm256_maddubs_epi16(w, a1));
                KEEP(c[r][0]);
                KEEP(c[r][1]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++) {
            VF f = v_bcast(p->f + r * NB + b), o = v_bcast(p->o + r * NB + b);

#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                float *y = acc + r * GW + 8 * v;
                VF n = _mm256_cvtepi32_ps(_mm256_madd_epi16(c[r][v], ones));
                VF s = v_mul(f, v_load(x + 8 * v));

                n = v_fma(n, s, v_load(y));
                v_store(y, v_fma(o, v_load(x + GW + 8 * v), n));
            }
        }
    }
}

static void micro_any(float *acc, const struct panel *p, const float *x, int nb,
                      int nr)
{
    switch (nr) {
    case 1:
        micro(acc, p, x, nb, 1);
        break;
    case 2:
        micro(acc, p, x, nb, 2);
        break;
    case 3:
        micro(acc, p, x, nb, 3);
        break;
    default:
        micro(acc, p, x, nb, 4);
    }
}

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
    for (int k = 0; k < w->d_in; k += KC) {
        int nb = (w->d_in - k < KC ? w->d_in - k : KC) / 32;
        size_t off = (size_t)k / block * kt_block_bytes(w->type);

        for (int r = 0; r < n_row; r++)
            expand_any(u + r * KC, f + r * NB, o + r * NB,
                       kmat_row(w, row0 + r) + off, nb, w->type);
        for (int g = 0; g < n_group; g++) {
            /* put would wait for every line of y, which lie far apart */
            for (int t = g * GW; t < g * GW + GW && t < n_tok; t++)
                for (int r = 0; k + KC >= w->d_in && r < n_row; r += 16)
                    _mm_prefetch((const char *)(y + (size_t)t * ldy + row0 + r),
                                 _MM_HINT_ET0);
            for (int r = 0; r < n_row; r += MR) {
                struct panel p = { u + r * KC, f + r * NB, o + r * NB };

                micro_any(acc + (g * n_row + r) * GW, &p,
                          xp + (size_t)g * group + (size_t)(k / 32) * BLOCK, nb,
                          n_row - r < MR ? n_row - r : MR);
            }
        }
    }
    for (int g = 0; g < n_group; g++)
        put(y + (size_t)(g * GW) * ldy + row0, ldy, acc + g * n_row * GW, n_row,
            n_tok - g * GW < GW ? n_tok - g * GW : GW);
}

void gemm_u4_avx2(float *y, size_t ldy, const float *xp, int n_tok,
                  const struct kmat *w, int row0, int row1, float *scratch)
{
    size_t token = (size_t)w->d_in / 32 * BLOCK / GW;

    for (int t = 0; t < n_tok; t += PART)
        for (int r = row0; r < row1; r += ROWS)
            rows_run(y + (size_t)t * ldy, ldy, xp + (size_t)t * token,
                     n_tok - t < PART ? n_tok - t : PART, w, r,
                     row1 - r < ROWS ? row1 - r : ROWS, scratch);
}
