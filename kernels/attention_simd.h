/*
 * attention_simd.h - attention in the vectors of simd_<set>.h; included once
 * by attention_<set>.c, which sets MR, the rows of a block, and ACC_REGS, the
 * registers for accumulators, and ends with ATTENTION_ENTRIES(<set>).
 *
 * Both products have the shape of the gemm's micro-kernel: lanes are keys
 * (scores) or channels (values), q and p are broadcast as they lie.  A block
 * of MR rows goes through scores, softmax and values while its 64 scores a
 * row are in L1; the tile stays there too.
 *
 * With more than one block of rows a f16 tile is first expanded to f32 in the
 * scratch; with one, every element is used once and is converted on its way.
 * So is a tile of int8 codes, whose scales enter after the scores and before
 * the values: a multiplication for 64 keys of a row, none for an element.
 * Few rows take four vectors of the tile at a time, not two: chains enough
 * to hide the latency of fma.  They are bound by reading the tiles, which
 * lie anywhere: V is fetched during the scores, the next K during the values
 * (17 % off a generated token's attention over 3.7k tokens on a Sapphire
 * Rapids guest, beside the row kernels of the same runs).
 */
#ifndef KERNELS_ATTENTION_SIMD_H
#define KERNELS_ATTENTION_SIMD_H

#include <string.h>

#include "kernels/attention_rows_simd.h"

enum {
    QS = D_MAX + 16 /* a row of q: its stride is known, so that one
                       register addresses all rows of a block */
};

/* n elements from i on of the tile to be read next, unless that is NULL */
INLINE void fetch(const void *next, int i, int n, const int kv_type)
{
    const int size = kv_type == KV_Q8H ? 1 : 2;

    if (next && (size == 2 || i % 64 == 0))
        for (int j = 0; j < n * size; j += 64)
            v_prefetch((const char *)next + i * size + j);
}

INLINE VF load_kv_n(const void *p, size_t i, int n, const int kv_type)
{
    if (kv_type == KV_F16)
        return v_load_f16_n((const uint16_t *)p + i, n);
    if (kv_type == KV_Q8H)
        return v_load_i8_n((const int8_t *)p + i, n);
    return v_load_n((const float *)p + i, n);
}

/* A tile as a block of rows reads it. */
struct tile {
    const void *k, *v;
    const void *next;     /* K of the tile after it, or NULL */
    const float *ks, *vs; /* [64] scales, or NULL */
};

/*
 * s[r][t] for nr rows of q and nv vectors of keys from vector v0 on, times
 * the keys' scales unless those are NULL; V is fetched on the way where a
 * tile follows.
 */
INLINE void scores(float *s, const float *q, const struct tile *tile,
                   int d_head, int v0, const int kv_type, const int nr,
                   const int nv)
{
    const void *k = tile->k, *next = tile->next ? tile->v : NULL;
    const float *scale = tile->ks;
    VF c[MR][4];
    size_t at[4];

#pragma GCC unroll 4
    for (int v = 0; v < nv; v++)
        at[v] = (size_t)((v0 + v) / GV * d_head * 16 + (v0 + v) % GV * VW);
#pragma GCC unroll 16
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            c[r][v] = v_zero();
    for (int i = 0; i < d_head; i++) {
        VF b[4];

        fetch(next, (v0 * d_head + i * nv) * VW, nv * VW, kv_type);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            b[v] = load_kv(k, at[v] + (size_t)i * 16, kv_type);
#pragma GCC unroll 16
        for (int r = 0; r < nr; r++) {
            VF a = v_bcast(q + r * QS + i);

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                c[r][v] = v_fma(a, b[v], c[r][v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            if (scale)
                c[r][v] = v_mul(c[r][v], v_load(scale + (v0 + v) * VW));
            v_store(s + r * KV_TILE + (v0 + v) * VW, c[r][v]);
        }
}

/* What the rows of a block bring to values. */
struct weighted {
    float *o;         /* [nr][d_head], already computed tiles */
    int d_head;       /* stride of o */
    const float *p;   /* [nr][64], weights of this tile's keys */
    const float *a;   /* [nr], factor of the old o */
    const bool *skip; /* [nr], the row sees no key of the tile */
};

/* Channels of V that values reads: element `at` is key 0's first. */
struct channels {
    const void *v;
    const void *next; /* as many bytes of the next tile's K, or NULL */
    size_t at;
    int width; /* of the group: the stride from key to key */
    int n;     /* channels left, where nv is 1 */
};

/*
 * o[r][0 .. nv * VW) for nr rows.  nv > 1: whole groups of 32 channels.
 * nv = 1: n channels of the last, narrower group.
 */
INLINE void values(const struct weighted *w, int c0, const struct channels *ch,
                   const int kv_type, const int nr, const int nv)
{
    const int ldo = w->d_head, n = ch->n;
    float *o = w->o + c0;
    size_t at = ch->at;
    VF c[MR][4];

#pragma GCC unroll 16
    for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            c[r][j] = v_mul(nv > 1 ? v_load(o + r * ldo + j * VW)
                                   : v_load_n(o + r * ldo, n),
                            v_bcast(w->a + r));
    for (int t = 0; t < KV_TILE; t++, at += (size_t)ch->width) {
        VF b[4];

        if (nv > 1)
            fetch(ch->next, t * nv * VW, nv * VW, kv_type);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            b[j] = nv > 1 ? load_kv(ch->v,
                                    at + (size_t)(j * VW % 32 +
                                                  j * VW / 32 * 32 * KV_TILE),
                                    kv_type)
                          : load_kv_n(ch->v, at, n, kv_type);
#pragma GCC unroll 16
        for (int r = 0; r < nr; r++) {
            VF f = v_bcast(w->p + r * KV_TILE + t);

#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                c[r][j] = v_fma(f, b[j], c[r][j]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < nr; r++) {
        if (w->skip[r])
            continue;
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            if (nv > 1)
                v_store(o + r * ldo + j * VW, c[r][j]);
            else
                v_store_n(o + r * ldo, c[r][j], n);
        }
    }
}

/* nr rows from r0 over one tile */
INLINE void block(const struct attn_job *job, int r0, int i,
                  const struct tile *tile, const float *q, float *s,
                  const int kv_type, const int nr)
{
    const size_t size = kv_type == KV_Q8H ? 1 : 2; /* where next is set */
    const int d = job->d_head, full = d / 32 * 32;
    const int wide = nr * 4 <= ACC_REGS ? 4 : 2;
    float a[MR_PAD];
    bool skip[MR_PAD];
    const struct weighted w = { job->o + (size_t)r0 * (size_t)d, d, s, a,
                                skip };
    struct channels ch = { .v = tile->v, .width = 32 };
    int c = 0;

    for (int j = 0; j < TV; j += wide)
        scores(s, q + r0 * QS, tile, d, j, kv_type, nr, wide);
    softmax(s, job, r0, nr, i, tile->vs, a, skip);
    for (; wide == 4 && c + 4 * VW <= full; c += 4 * VW) {
        ch.at = (size_t)(c * KV_TILE);
        if (tile->next)
            ch.next = (const char *)tile->next + size * ch.at;
        values(&w, c, &ch, kv_type, nr, 4);
    }
    ch.next = NULL;
    for (; c < full; c += 2 * VW) {
        ch.at = (size_t)(c / 32 * 32 * KV_TILE + c % 32);
        values(&w, c, &ch, kv_type, nr, 2);
    }
    ch.width = d - full;
    for (; c < d; c += VW) {
        ch.at = (size_t)(full * KV_TILE + c - full);
        ch.n = d - c < VW ? d - c : VW;
        values(&w, c, &ch, kv_type, nr, 1);
    }
}

#define BLOCK_CASE(n)                                 \
    case n:                                           \
        if (kv_type == KV_F16)                        \
            block(job, r0, i, tile, q, s, KV_F16, n); \
        else if (kv_type == KV_Q8H)                   \
            block(job, r0, i, tile, q, s, KV_Q8H, n); \
        else                                          \
            block(job, r0, i, tile, q, s, KV_F32, n); \
        break

static void block_any(const struct attn_job *job, int r0, int i,
                      const struct tile *tile, const float *q, float *s,
                      int kv_type, int nr)
{
    switch (nr) {
        BLOCK_CASE(1);
        BLOCK_CASE(2);
        BLOCK_CASE(3);
        BLOCK_CASE(4);
        BLOCK_CASE(5);
        BLOCK_CASE(6);
#if MR > 6
        BLOCK_CASE(7);
        BLOCK_CASE(8);
        BLOCK_CASE(9);
        BLOCK_CASE(10);
        BLOCK_CASE(11);
        BLOCK_CASE(12);
        BLOCK_CASE(13);
        BLOCK_CASE(14);
#endif
    }
}

_Static_assert(MR_PAD *KV_TILE + 2 * D_MAX * KV_TILE + ATTN_ROWS * QS <=
                   ATTN_SCRATCH,
               "the scratch is too small");

static const float *expand(float *out, const void *tile, int n, int kv_type)
{
    if (kv_type == KV_Q8H)
        for (int i = 0; i < n; i += VW)
            v_store(out + i, v_load_i8((const int8_t *)tile + i));
    else
        for (int i = 0; i < n; i += VW)
            v_store(out + i, v_load_f16((const uint16_t *)tile + i));
    return out;
}

static void attention(const struct attn_job *job)
{
    int n = job->d_head * KV_TILE, n_block = (job->n_row + MR - 1) / MR;
    float *s = job->scratch, *kf = s + MR_PAD * KV_TILE;
    float *vf = kf + D_MAX * KV_TILE, *q = vf + D_MAX * KV_TILE;
    float scale[2 * KV_TILE];

    for (int r = 0; r < job->n_row; r++)
        memcpy(q + r * QS, job->q + (size_t)r * job->ldq,
               (size_t)job->d_head * sizeof *q);
    for (int i = next_tile(job, -1), next; i < job->n_tile; i = next) {
        struct tile t = { job->k[i], job->v[i], NULL, NULL, NULL };
        int kv_type = job->kv_type;

        next = next_tile(job, i);
        if (!any_sees(job, 0, job->n_row, i))
            continue;
        if (kv_type == KV_Q8H) {
            t.ks = expand(scale, job->ks[i], KV_TILE, KV_F16);
            t.vs = expand(scale + KV_TILE, job->vs[i], KV_TILE, KV_F16);
        }
        if (n_block > 1 && kv_type != KV_F32) {
            t.k = expand(kf, t.k, n, kv_type);
            t.v = expand(vf, t.v, n, kv_type);
            kv_type = KV_F32;
        }
        if (n_block == 1 && kv_type != KV_F32 && next < job->n_tile) {
            t.next = job->k[next];
            if (kv_type == KV_Q8H) {
                fetch(job->ks[next], 0, KV_TILE, KV_F16);
                fetch(job->vs[next], 0, KV_TILE, KV_F16);
            }
        }
        for (int b = 0; b < n_block; b++) {
            int r0 = job->n_row * b / n_block;
            int r1 = job->n_row * (b + 1) / n_block;

            if (n_block > 1 && next < job->n_tile)
                fetch_tile(job, next, b, n_block);
            if (any_sees(job, r0, r1 - r0, i))
                block_any(job, r0, i, &t, q, s, kv_type, r1 - r0);
        }
    }
}

/* ------------------------------------------------------------------ shares */

enum { MASS_ROWS = 4 };

INLINE void mass_scores(float *s, const float *q, const struct tile *tile,
                        int d, const int kv_type, const int nr)
{
    const int wide = nr * 4 <= ACC_REGS ? 4 : 2;

    for (int j = 0; j < TV; j += wide)
        scores(s, q, tile, d, j, kv_type, nr, wide);
}

#define MASS_CASE(n)                               \
    case n:                                        \
        if (kv_type == KV_F16)                     \
            mass_scores(s, q, tile, d, KV_F16, n); \
        else if (kv_type == KV_Q8H)                \
            mass_scores(s, q, tile, d, KV_Q8H, n); \
        else                                       \
            mass_scores(s, q, tile, d, KV_F32, n); \
        break

static void mass_scores_any(float *s, const float *q, const struct tile *tile,
                            int d, int kv_type, int nr)
{
    switch (nr) {
        MASS_CASE(1);
        MASS_CASE(2);
        MASS_CASE(3);
        MASS_CASE(4);
    }
}

static void mass(const struct attn_job *job, float *p, size_t ldp)
{
    int n = job->d_head * KV_TILE;
    float *s = job->scratch, *kf = s + MR_PAD * KV_TILE;
    float *q = kf + 2 * D_MAX * KV_TILE;
    float scale[KV_TILE] = { 0 };

    for (int r = 0; r < job->n_row; r++)
        memcpy(q + r * QS, job->q + (size_t)r * job->ldq,
               (size_t)job->d_head * sizeof *q);
    for (int i = 0; i < job->n_tile; i++) {
        struct tile t = { job->k[i], NULL, NULL, NULL, NULL };
        int kv_type = job->kv_type;

        if (!any_sees(job, 0, job->n_row, i)) {
            no_shares(p, ldp, 0, job->n_row, i);
            continue;
        }
        if (kv_type == KV_Q8H)
            t.ks = expand(scale, job->ks[i], KV_TILE, KV_F16);
        if (job->n_row > MASS_ROWS && kv_type != KV_F32) {
            t.k = expand(kf, t.k, n, kv_type);
            kv_type = KV_F32;
        }
        for (int r = 0; r < job->n_row; r += MASS_ROWS) {
            int nr = job->n_row - r < MASS_ROWS ? job->n_row - r : MASS_ROWS;

            mass_scores_any(s, q + r * QS, &t, job->d_head, kv_type, nr);
            shares(p, ldp, s, job, r, nr, i);
        }
    }
}

static void merge(float *m, float *l, float *o, const float *m2,
                  const float *l2, const float *o2, int n_row, int d_head)
{
    for (int r = 0; r < n_row; r++, o += d_head, o2 += d_head) {
        float mn = m2[r] > m[r] ? m2[r] : m[r];
        float e[VW] = { m[r] - mn, m2[r] - mn };
        VF a, b;

        if (m[r] == -INFINITY && m2[r] == -INFINITY)
            continue;
        v_store(e, v_exp2(v_load(e)));
        a = v_set1(e[0]);
        b = v_set1(e[1]);
        for (int c = 0; c < d_head; c += VW) {
            int n = d_head - c < VW ? d_head - c : VW;

            v_store_n(
                o + c,
                v_fma(v_load_n(o + c, n), a, v_mul(v_load_n(o2 + c, n), b)), n);
        }
        v_store(e, v_fma(v_set1(l[r]), a, v_mul(v_set1(l2[r]), b)));
        l[r] = e[0];
        m[r] = mn;
    }
}

static void finish(float *out, size_t ldo, const float *l, const float *o,
                   int n_row, int d_head)
{
    for (int r = 0; r < n_row; r++, o += d_head, out += ldo)
        for (int c = 0; c < d_head; c += VW) {
            int n = d_head - c < VW ? d_head - c : VW;

            v_store_n(out + c, v_div(v_load_n(o + c, n), v_set1(l[r])), n);
        }
}

/* The functions of a set, by these. */
#define ATTENTION_ENTRIES(set)                                            \
    void attention_##set(const struct attn_job *job)                      \
    {                                                                     \
        attention(job);                                                   \
    }                                                                     \
    void attention_##set##_mass(const struct attn_job *job, float *p,     \
                                size_t ldp)                               \
    {                                                                     \
        mass(job, p, ldp);                                                \
    }                                                                     \
    void attention_##set##_merge(float *m, float *l, float *o,            \
                                 const float *m2, const float *l2,        \
                                 const float *o2, int n_row, int d_head)  \
    {                                                                     \
        merge(m, l, o, m2, l2, o2, n_row, d_head);                        \
    }                                                                     \
    void attention_##set##_finish(float *out, size_t ldo, const float *l, \
                                  const float *o, int n_row, int d_head)  \
    {                                                                     \
        finish(out, ldo, l, o, n_row, d_head);                            \
    }

#endif
