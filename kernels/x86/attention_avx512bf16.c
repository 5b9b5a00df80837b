/*
 * attention_avx512bf16.c - a prompt's attention in pairs of bf16
 * (AVX512-BF16), the order of operations that kernels.h calls bf16-pairs.
 *
 *   q   [row][QS] pairs of channels
 *   kb, vb  a tile's pairs (attention_bf16.h), for all rows of a call
 *   s   [MR][64] scores, then weights, f32
 *   p   [MR][64] weights in bf16: 32 pairs of keys
 *
 * A lane is a key (scores) or a channel (values); the pairs of a row of q or
 * p are broadcast as they lie.  12 rows x 32 lanes are 24 chains; the call's
 * 96 rows are eight such blocks.
 *
 * Bound by the ports of vdpbf16ps, then by exp2 and by packing the weights: a
 * third of the time on a Zen 5.  Tried there: 14 rows (no gain, and 96 rows
 * are no multiple); exp2 to the last bit for a weight that is rounded to 8
 * bits afterwards (0.95 of the speed).
 */
#include "kernels/x86/avx512.h"
#include "kernels/gemm_fast.h"

#include <string.h>

#define MR 12
#define CUBIC
#include "kernels/x86/attention_bf16.h"

enum {
    QS = D_MAX / 2 + 16, /* known at compile time: one register addresses
                            all rows of a block */
    PS = KV_TILE / 2,
    S_FLOATS = MR * KV_TILE,
    P_FLOATS = MR * PS,
    Q_FLOATS = ATTN_ROWS * QS,
    KV_FLOATS = KV_TILE * D_MAX / 2
};
_Static_assert(S_FLOATS + P_FLOATS + Q_FLOATS + 2 * KV_FLOATS <= ATTN_SCRATCH,
               "the scratch is too small");

struct room {
    float *s, *p, *q; /* p and q hold pairs */
    struct pairs kv;
};

static struct room rooms(const struct attn_job *job)
{
    struct room m;

    m.s = job->scratch;
    m.p = m.s + S_FLOATS;
    m.q = m.p + P_FLOATS;
    m.kv.k = (uint16_t *)(m.q + Q_FLOATS);
    m.kv.v = m.kv.k + 2 * KV_FLOATS;
    for (int r = 0; r < job->n_row; r++)
        for (int c = 0; c < job->d_head; c += 2 * VW)
            put_row((uint16_t *)(m.q + r * QS + c / 2),
                    job->q + (size_t)r * job->ldq + c);
    return m;
}

INLINE VF muladd(VF a, VF b, VF c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
}

INLINE VF load_pairs(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_load_si512(p));
}

/* c[r] += n pairs of a [nr][lda] times those of 2 x 16 lanes at b, b1 */
INLINE void products(VF c[MR][2], const float *a, int lda, const uint16_t *b0,
                     const uint16_t *b1, int n, const int nr)
{
    for (int i = 0; i < n; i++) {
        VF x0 = load_pairs(b0 + 32 * i), x1 = load_pairs(b1 + 32 * i);

#pragma GCC unroll 12
        for (int r = 0; r < nr; r++) {
            VF w = v_bcast(a + r * lda + i);

            c[r][0] = muladd(w, x0, c[r][0]);
            c[r][1] = muladd(w, x1, c[r][1]);
        }
    }
}

/* s [nr][64] = q k */
INLINE void scores(float *s, const float *q, const uint16_t *k, int d,
                   const int nr)
{
    for (int t = 0; t < KV_TILE; t += 2 * VW) {
        const uint16_t *b = k + (size_t)(t * d);
        VF c[MR][2];

#pragma GCC unroll 12
        for (int r = 0; r < nr; r++)
            c[r][0] = c[r][1] = v_zero();
        products(c, q, QS, b, b + 16 * d, d / 2, nr);
#pragma GCC unroll 12
        for (int r = 0; r < nr; r++) {
            v_store(s + r * KV_TILE + t, c[r][0]);
            v_store(s + r * KV_TILE + t + VW, c[r][1]);
        }
    }
}

/* o [nr][d] = o a + p v, but for rows that see nothing */
INLINE void values(float *o, const float *p, const float *a, const bool *skip,
                   const uint16_t *v, int d, const int nr)
{
    for (int j = 0; j < d; j += 2 * VW) {
        const uint16_t *b = v + (size_t)(j * KV_TILE);
        VF c[MR][2];

#pragma GCC unroll 12
        for (int r = 0; r < nr; r++)
            for (int h = 0; h < 2; h++)
                c[r][h] = v_mul(v_load(o + r * d + j + h * VW), v_bcast(a + r));
        products(c, p, PS, b, b + VW * KV_TILE, PS, nr);
#pragma GCC unroll 12
        for (int r = 0; r < nr; r++) {
            if (skip[r])
                continue;
            v_store(o + r * d + j, c[r][0]);
            v_store(o + r * d + j + VW, c[r][1]);
        }
    }
}

/* nr rows from r0 on over tile i */
INLINE void block(const struct attn_job *job, const struct room *m, int r0,
                  int i, const int nr)
{
    const int d = job->d_head;
    const bool codes = job->kv_type == KV_Q8H;
    float a[MR_PAD];
    bool skip[MR_PAD];

    scores(m->s, m->q + r0 * QS, m->kv.k, d, nr);
    if (codes)
        scale_rows(m->s, m->kv.ks, nr);
    softmax(m->s, job, r0, nr, i, codes ? m->kv.vs : NULL, a, skip);
    for (int r = 0; r < nr; r++)
        for (int t = 0; t < KV_TILE; t += 2 * VW)
            put_row((uint16_t *)(m->p + r * PS + t / 2),
                    m->s + r * KV_TILE + t);
    values(job->o + (size_t)r0 * (size_t)d, m->p, a, skip, m->kv.v, d, nr);
}

#define BLOCK_CASE(n)            \
    case n:                      \
        block(job, m, r0, i, n); \
        break

static void block_any(const struct attn_job *job, const struct room *m, int r0,
                      int i, int nr)
{
    switch (nr) {
        BLOCK_CASE(1);
        BLOCK_CASE(2);
        BLOCK_CASE(3);
        BLOCK_CASE(4);
        BLOCK_CASE(5);
        BLOCK_CASE(6);
        BLOCK_CASE(7);
        BLOCK_CASE(8);
        BLOCK_CASE(9);
        BLOCK_CASE(10);
        BLOCK_CASE(11);
        BLOCK_CASE(12);
    }
}

void attention_avx512bf16(const struct attn_job *job)
{
    struct room m = rooms(job);
    int n_block = (job->n_row + MR - 1) / MR;

    for (int i = next_tile(job, -1), next; i < job->n_tile; i = next) {
        next = next_tile(job, i);
        if (!any_sees(job, 0, job->n_row, i))
            continue;
        expand_tile(&m.kv, job, i);
        for (int b = 0; b < n_block; b++) {
            int r0 = job->n_row * b / n_block;
            int nr = job->n_row * (b + 1) / n_block - r0;

            if (next < job->n_tile)
                fetch_tile(job, next, b, n_block);
            if (any_sees(job, r0, nr, i))
                block_any(job, &m, r0, i, nr);
        }
    }
}

enum { MASS_ROWS = 4 };

static void mass_scores(float *s, const float *q, const uint16_t *k, int d,
                        int nr)
{
    switch (nr) {
    case 1:
        scores(s, q, k, d, 1);
        break;
    case 2:
        scores(s, q, k, d, 2);
        break;
    case 3:
        scores(s, q, k, d, 3);
        break;
    default:
        scores(s, q, k, d, MASS_ROWS);
    }
}

void attention_avx512bf16_mass(const struct attn_job *job, float *p, size_t ldp)
{
    struct room m = rooms(job);

    m.kv.v = NULL;
    for (int i = 0; i < job->n_tile; i++) {
        if (!any_sees(job, 0, job->n_row, i)) {
            no_shares(p, ldp, 0, job->n_row, i);
            continue;
        }
        expand_tile(&m.kv, job, i);
        for (int r = 0; r < job->n_row; r += MASS_ROWS) {
            int nr = job->n_row - r < MASS_ROWS ? job->n_row - r : MASS_ROWS;

            mass_scores(m.s, m.q + r * QS, m.kv.k, job->d_head, nr);
            if (job->kv_type == KV_Q8H)
                scale_rows(m.s, m.kv.ks, nr);
            shares(p, ldp, m.s, job, r, nr, i);
        }
    }
}
