/*
 * rows_avx512vnni.c - generation phase for many tokens with AVX512-VNNI: a
 * lane is a token, up to 16 of them.
 *
 * What rows_avx512.c does for every token is done once for all: the weights
 * are unpacked to 16 bits and broadcast as pairs, the scales of a block are
 * one multiplication.  The four products of a quad are a vpmaddwd and a
 * vpdpwssd; a conversion and an fma follow, and that is all: four operations
 * for 64 products.
 *
 * The inputs are turned, so that the 16 tokens of a pair lie side by side:
 * SPAN blocks of them, for all rows of a call.  TILE rows pass over STEP
 * blocks, which stay in L1, two rows at a time; their sums are kept in
 * between.  So are those of ROWS rows where there is more than one SPAN.
 *
 * Results are turned back, 16 rows at a time: y token by token takes 1.2 times
 * as long where a row of y has a multiple of 4 KB (1,024 outputs).
 *
 * Bound by the ports that multiply: 25 of 42 products a cycle on a Zen 5,
 * where rows_avx512.c does 14 to 17; a fifth goes into unpacking, turning and
 * offsets.  Tried there: three rows at a time (spills: 0.7 of the speed),
 * pairs broadcast by vpdpwssd itself (no gain), all blocks at once (0.86 for
 * 1,536 inputs), not fetching the next rows (0.82 for Q4_1 from memory, 1.04
 * for Q8_0).
 */
#include "kernels/x86/avx512vnni.h"
#include "kernels/x86/rows_avx512.h"

/* vpdpwssd adds what rows_avx512.c needs an addition for: 1.05 to 1.1 times
 * the speed for four tokens on a Zen 5 */
INLINE __m512i quad_sums(__m512i a, __m512i x, __m512i b, __m512i y)
{
    return _mm512_dpwssd_epi32(_mm512_madd_epi16(a, x), b, y);
}

#include "kernels/x86/rows_few_simd.h"

enum {
    LEAST = 11, /* tokens: fewer leave too many lanes empty */
    TILE = 16,
    STEP = 24, /* a multiple of 8 */
    ROWS = 64
};

/* Lanes of one weight row as kernels.h has them, for 16 tokens. */
struct sums {
    float acc[16][VW], off[8][VW];
};

/* SPAN blocks of x. */
struct inputs {
    float s[SPAN][VW];
    float sum[2 * SPAN][VW];
    float q[SPAN][8][2][VW]; /* quad: its even, then its odd elements, i16 */
};

struct room {
    struct inputs x;
    struct sums sums[ROWS];
};
_Static_assert(sizeof(struct room) <= GEMM_SCRATCH * sizeof(float),
               "the scratch is too small");

/* SPAN blocks of a weight row. */
struct weights {
    float f[2 * SPAN], o[2 * SPAN];
    int32_t q[SPAN / 2][2][16]; /* two blocks: the quads' even elements of
                                   both, i16, then the odd ones */
};

/* Tokens of a call, and where the parts of their x begin, in bytes. */
struct tokens {
    const uint8_t *x[VW];
    size_t s, sum, q;
};

/* 16 values at `at` of each token: r[i] lane t is token t's i-th */
INLINE void turn(VF r[VW], const struct tokens *tok, size_t at)
{
    for (int t = 0; t < VW; t++)
        r[t] = v_load((const float *)(const void *)(tok->x[t] + at));
    v_transpose(r);
}

/* n floats of each token from `at` on, n a multiple of 8; what is read and
 * written behind them is x's next part, and never used */
static void turn_floats(float to[][VW], const struct tokens *tok, size_t at,
                        int n)
{
    VF r[VW];

    for (int i = 0; i < n; i += VW) {
        turn(r, tok, at + (size_t)i * sizeof(float));
        for (int j = 0; j < VW; j++)
            v_store(to[i + j], r[j]);
    }
}

/* Blocks [b0, b0 + n), per scales and sums each. */
static void load_inputs(struct inputs *in, const struct tokens *tok, int b0,
                        int n, int per)
{
    const int n8 = (n + 7) & ~7;
    size_t at = tok->q + (size_t)b0 * 64;
    VF r[VW];
    int b = 0;

    turn_floats(in->s, tok, tok->s + (size_t)b0 * sizeof(float), n8);
    turn_floats(in->sum, tok, tok->sum + (size_t)(b0 * per) * sizeof(float),
                n8 * per);
    for (; b + 2 <= n; b += 2)
        for (int h = 0; h < 2; h++, at += 64) {
            turn(r, tok, at);
            for (int j = 0; j < VW; j++)
                v_store(in->q[b + j / 8][j % 8][h], r[j]);
        }
    if (b < n) {
        turn(r, tok, at);
        for (int j = 0; j < VW; j++)
            v_store(in->q[b][j % 8][j / 8], r[j]);
    }
}

INLINE void load_weights(struct weights *w, const uint8_t *row, int b0, int n,
                         const int type)
{
    const int per = type == KT_Q6_K ? 2 : 1;
    const size_t size = kt_block_bytes(type);
    __m512i even, odd;
    int b = 0;

    for (int i = 0; i < n * per; i += 8) {
        int j = b0 + i / per;
        __m256 f, o;

        scales(row, j, i, n - i, type, &f, &o);
        _mm256_storeu_ps(w->f + i, f);
        _mm256_storeu_ps(w->o + i, o);
    }
    for (; b + 2 <= n; b += 2) {
        int i = b0 + b;

        if (kt_block_weights(type) == 256)
            split(bytes_k(row + (size_t)(i / 8) * size, i % 8, type), &even,
                  &odd, type);
        else
            split(bytes32x2(row + (size_t)i * size, type), &even, &odd, type);
        _mm512_storeu_si512(w->q[b / 2][0], even);
        _mm512_storeu_si512(w->q[b / 2][1], odd);
    }
    if (b < n) {
        split(bytes32(row + (size_t)(b0 + b) * size, type), &even, &odd, type);
        _mm512_storeu_si512(w->q[b / 2][0], even);
        _mm512_storeu_si512(w->q[b / 2][1], odd);
    }
}

#define LOAD_CASE(type)                     \
    case type:                              \
        load_weights(to, row, b0, n, type); \
        break

static void load_row(struct weights *to, const struct kmat *w, int r, int b0,
                     int n)
{
    const uint8_t *row = kmat_row(w, r);

    switch (w->type) {
        LOAD_CASE(KT_Q4_0);
        LOAD_CASE(KT_Q4_1);
        LOAD_CASE(KT_Q5_0);
        LOAD_CASE(KT_Q5_1);
        LOAD_CASE(KT_Q8_0);
        LOAD_CASE(KT_Q4_K);
        LOAD_CASE(KT_Q5_K);
        LOAD_CASE(KT_Q6_K);
    }
}

/* Every other block from b on, of n that are x's from i on, for nr rows: half
 * of their lanes. */
INLINE void products(struct sums *to, const struct inputs *in,
                     const struct weights *w, int i, int b, int n, bool fresh,
                     const int per, const int nr)
{
    const int lane0 = b * 8, at = b * 8;
    VF acc[2][8];

#pragma GCC unroll 2
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            acc[r][j] = fresh ? v_zero() : v_load(to[r].acc[lane0 + j]);
    for (; b < n; b += 2) {
        VF s = v_load(in->s[i + b]), f[2][2];
        const int32_t *q[2];

#pragma GCC unroll 2
        for (int r = 0; r < nr; r++) {
            q[r] = w[r].q[b / 2][0] + at;
            __asm__("" : "+r"(q[r])); /* or gcc keeps 32 offsets */
#pragma GCC unroll 2
            for (int h = 0; h < per; h++)
                f[r][h] = v_mul(v_bcast(w[r].f + b * per + h), s);
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            __m512i even = load64(in->q[i + b][j][0]);
            __m512i odd = load64(in->q[i + b][j][1]);

#pragma GCC unroll 2
            for (int r = 0; r < nr; r++) {
                __m512i d = _mm512_madd_epi16(even, _mm512_set1_epi32(q[r][j]));

                d = _mm512_dpwssd_epi32(d, odd,
                                        _mm512_set1_epi32(q[r][16 + j]));
                acc[r][j] = v_fma(_mm512_cvtepi32_ps(d),
                                  f[r][j / 4 * (per - 1)], acc[r][j]);
            }
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            v_store(to[r].acc[lane0 + j], acc[r][j]);
}

INLINE void offsets(struct sums *to, const float sums[][VW],
                    const struct weights *w, int n, bool fresh, const int nr)
{
    VF off[2][8];

#pragma GCC unroll 2
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            off[r][j] = fresh ? v_zero() : v_load(to[r].off[j]);
    for (int i = 0; i < n; i += 8)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            VF sum = v_load(sums[i + j]);

#pragma GCC unroll 2
            for (int r = 0; r < nr; r++)
                off[r][j] = v_fma(v_bcast(w[r].o + i + j), sum, off[r][j]);
        }
#pragma GCC unroll 2
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            v_store(to[r].off[j], off[r][j]);
}

INLINE void rows(struct sums *to, const struct inputs *in,
                 const struct weights *w, int i, int n, bool fresh, int type,
                 const int nr)
{
    for (int b = 0; b < 2; b++)
        if (type == KT_Q6_K)
            products(to, in, w, i, b, n, fresh, 2, nr);
        else
            products(to, in, w, i, b, n, fresh, 1, nr);
    if (type != KT_Q8_0)
        offsets(to, in->sum + (type == KT_Q6_K ? 2 * i : i), w,
                type == KT_Q6_K ? 2 * n : n, fresh, nr);
}

/* y of 16 tokens: the sum over a row's lanes */
INLINE VF fold(const struct sums *s, int type)
{
    VF a[8];

    for (int j = 0; j < 8; j++) {
        a[j] = v_add(v_load(s->acc[j]), v_load(s->acc[8 + j]));
        if (type != KT_Q8_0)
            a[j] = v_add(a[j], v_load(s->off[j]));
    }
    for (int n = 4; n > 0; n /= 2)
        for (int j = 0; j < n; j++)
            a[j] = v_add(a[j], a[j + n]);
    return a[0];
}

/* n_row rows to n_x tokens' y, which begins at the first row's. */
static void put(float *y, size_t ldy, const struct sums *s, int n_row, int n_x,
                int type)
{
    for (int r = 0; r < n_row; r += VW) {
        int n = n_row - r < VW ? n_row - r : VW;
        VF c[VW];

        for (int i = 0; i < VW; i++)
            c[i] = i < n ? fold(s + r + i, type) : v_zero();
        v_transpose(c);
        for (int t = 0; t < n_x; t++)
            v_store_n(y + (size_t)t * ldy + r, c[t], n);
    }
}

/* Blocks [b0, b0 + n) of two rows, which come next. */
static void fetch_rows(const struct kmat *w, int r, int b0, int n)
{
    const size_t size = kt_block_bytes(w->type);
    const size_t per = (size_t)kt_block_weights(w->type) / 32;

    for (int end = r + 2; r < end && r < w->n_out; r++) {
        const uint8_t *p = kmat_row(w, r) + (size_t)b0 * size / per;

        for (size_t at = 0; at < (size_t)n * size / per + 63; at += 64)
            v_prefetch(p + at);
    }
}

/* n_row rows from r0 on, n blocks from b0 on, which are in->x's i-th on */
static void rows_chunk(struct sums *to, const struct inputs *in,
                       const struct kmat *w, int r0, int n_row, int b0, int i,
                       int n)
{
    struct weights of[2];

    for (int r = 0; r < n_row; r += 2) {
        fetch_rows(w, r0 + r + 2, b0 + i, n);
        load_row(&of[0], w, r0 + r, b0 + i, n);
        if (r + 1 < n_row) {
            load_row(&of[1], w, r0 + r + 1, b0 + i, n);
            rows(to + r, in, of, i, n, b0 + i == 0, w->type, 2);
        } else {
            rows(to + r, in, of, i, n, b0 + i == 0, w->type, 1);
        }
    }
}

static void many(float *y, size_t ldy, const struct tokens *tok, int n_x,
                 const struct kmat *w, int row0, int row1, struct room *m)
{
    int nb = w->d_in / 32, per = w->type == KT_Q6_K ? 2 : 1;

    for (int r0 = row0; r0 < row1; r0 += ROWS) {
        int n_row = row1 - r0 < ROWS ? row1 - r0 : ROWS;

        for (int b0 = 0; b0 < nb; b0 += SPAN) {
            int n = nb - b0 < SPAN ? nb - b0 : SPAN;

            if (r0 == row0 || nb > SPAN)
                load_inputs(&m->x, tok, b0, n, per);
            for (int r = 0; r < n_row; r += TILE)
                for (int b = 0; b < n; b += STEP)
                    rows_chunk(m->sums + r, &m->x, w, r0 + r,
                               n_row - r < TILE ? n_row - r : TILE, b0, b,
                               n - b < STEP ? n - b : STEP);
        }
        put(y + r0, ldy, m->sums, n_row, n_x, w->type);
    }
}

void rows_avx512vnni(float *y, size_t ldy, const void *xq, size_t xq_stride,
                     int n_x, const struct kmat *w, int row0, int row1,
                     bool exact, float *scratch)
{
    const uint8_t *x = xq;
    struct tokens tok;
    void *room = scratch;

    if (is_float(w->type, exact)) {
        rows_avx512(y, ldy, xq, xq_stride, n_x, w, row0, row1, exact, scratch);
        return;
    }
    if (n_x < LEAST) {
        for (int t = 0; t < n_x; t += FEW)
            few_quantized(y + (size_t)t * ldy, ldy, x + (size_t)t * xq_stride,
                          xq_stride, n_x - t < FEW ? n_x - t : FEW, w, row0,
                          row1);
        return;
    }
    tok.s = 0;
    tok.sum = n8(w->d_in) * sizeof(float);
    tok.q = q_offset(w->type, w->d_in);
    for (int t = 0; t < VW; t++) /* lanes without a token repeat the last */
        tok.x[t] = x + (size_t)(t < n_x ? t : n_x - 1) * xq_stride;
    many(y, ldy, &tok, n_x, w, row0, row1, room);
}
