/*
 * attention_rows_simd.h - what every attention in the vectors of simd_<set>.h
 * has in common, whatever multiplies, where a lane is a key: scores to
 * weights.  Included by files that set MR, the rows of a block, and CUBIC
 * where the weights are the cubic's of exp2.h, from a maximum rounded up: the
 * factor of the old state is then a power of two, and a weight of one tile
 * the same share as it would be in another.
 */
#ifndef KERNELS_ATTENTION_ROWS_SIMD_H
#define KERNELS_ATTENTION_ROWS_SIMD_H

#include <math.h>

#include "kernels/attention_tiles_simd.h"

#ifdef CUBIC
#define WEIGHT_EXP2 v_exp2_cubic
#define ROUND_MAX   v_ceil
#else
#define WEIGHT_EXP2  v_exp2
#define ROUND_MAX(v) (v)
#endif

enum {
    D_MAX = 512,
    TV = KV_TILE / VW, /* vectors in 64 scores */
    GV = 16 / VW,      /* vectors in 16 keys   */
    MR_PAD = (MR + VW - 1) / VW * VW
};

/*
 * Keys that are not visible out of a row, then the row's maximum.  Keys after
 * the last visible one are the rule; holes come with a mask, in few tiles.
 */
INLINE float row_max(float *row, uint64_t keys)
{
    const bool holes = (keys & (keys + 1)) != 0;
    VF v[TV], top;

    for (int t = 0; holes && t < KV_TILE; t++)
        if (!(keys >> t & 1))
            row[t] = -INFINITY;
    for (int j = 0; j < TV; j++)
        v[j] = v_load(row + j * VW);
    if (keys != UINT64_MAX && !holes)
        for (int j = 0; j < TV; j++) {
            int keep = __builtin_popcountll(keys) - j * VW;

            v[j] = v_keep_n(v[j], v_set1(-INFINITY),
                            keep < 0    ? 0
                            : keep < VW ? keep
                                        : VW);
            v_store(row + j * VW, v[j]);
        }
    top = v_max(v[0], v[1]);
    for (int j = 2; j < TV; j++)
        top = v_max(top, v[j]);
    return v_hmax(top);
}

/* row = exp2 of row - m, times the scales unless those are NULL; returns the
 * sum without them */
INLINE float row_exp(float *row, float m, const float *scale)
{
    VF v[TV], lane[GV];

    for (int j = 0; j < TV; j++) {
        v[j] = WEIGHT_EXP2(v_sub(v_load(row + j * VW), v_set1(m)));
        v_store(row + j * VW,
                scale ? v_mul(v[j], v_load(scale + j * VW)) : v[j]);
    }
    for (int j = 0; j < GV; j++)
        lane[j] =
            v_add(v_add(v_add(v[j], v[GV + j]), v[2 * GV + j]), v[3 * GV + j]);
    return v_fold16(lane);
}

/*
 * Scores to weights, in s; a = factor of the old state, m and l updated.
 * A row that sees no key of the tile is marked to be skipped.  In passes over
 * the rows, so that the chains of several rows overlap.
 */
static void softmax(float *s, const struct attn_job *job, int r0, int nr,
                    int tile, const float *scale, float *a, bool *skip)
{
    float mn[MR_PAD], mo[MR_PAD], sum[MR_PAD], lo[MR_PAD];

    for (int r = 0; r < MR_PAD; r += VW) {
        v_store(mn + r, v_zero());
        v_store(mo + r, v_zero());
        v_store(sum + r, v_zero());
        v_store(lo + r, v_zero());
    }
    for (int r = 0; r < nr; r++) {
        uint64_t keys = attn_visible(job, r0 + r, tile);

        skip[r] = keys == 0;
        if (skip[r])
            continue;
        mn[r] = row_max(s + r * KV_TILE, keys);
        mo[r] = job->m[r0 + r];
        lo[r] = job->l[r0 + r];
    }
    for (int r = 0; r < nr; r += VW) {
        VF m = ROUND_MAX(v_max(v_load(mn + r), v_load(mo + r)));

        v_store(mn + r, v_add(m, v_zero())); /* no -0 */
    }
    for (int r = 0; r < nr; r++)
        if (!skip[r])
            sum[r] = row_exp(s + r * KV_TILE, mn[r], scale);
    for (int r = 0; r < nr; r += VW) {
        VF f = v_exp2(v_sub(v_load(mo + r), v_load(mn + r)));

        v_store(a + r, f);
        v_store(lo + r, v_fma(v_load(lo + r), f, v_load(sum + r)));
    }
    for (int r = 0; r < nr; r++)
        if (!skip[r]) {
            job->m[r0 + r] = mn[r];
            job->l[r0 + r] = lo[r];
        }
}

/* Scores of nr rows from r0 on to the share of each key of a tile. */
static void shares(float *p, size_t ldp, const float *s,
                   const struct attn_job *job, int r0, int nr, int tile)
{
    p += (size_t)r0 * ldp + (size_t)(tile * KV_TILE);
    for (int r = r0; r < r0 + nr; r++, p += ldp, s += KV_TILE) {
        uint64_t keys = attn_visible(job, r, tile);
        VF m = v_set1(job->m[r]), l = v_set1(job->l[r]);

        for (int j = 0; j < KV_TILE; j += VW)
            v_store(p + j, v_div(WEIGHT_EXP2(v_sub(v_load(s + j), m)), l));
        for (int t = 0; keys != UINT64_MAX && t < KV_TILE; t++)
            if (!(keys >> t & 1))
                p[t] = 0;
    }
}

/* A tile that none of nr rows from r0 on sees. */
static void no_shares(float *p, size_t ldp, int r0, int nr, int tile)
{
    p += (size_t)r0 * ldp + (size_t)(tile * KV_TILE);
    for (int r = 0; r < nr; r++, p += ldp)
        for (int j = 0; j < KV_TILE; j += VW)
            v_store(p + j, v_zero());
}

#endif
