/*
 * attention_scalar.c - attention in the order of kernels.h.
 *
 * A tile is expanded to f32 into the scratch, keys and values as they lie,
 * so the walk below follows the memory: 16 keys of one channel, 32 channels
 * of one key.  The orders bf16-tiles and bf16-pairs are the same walk with
 * other products.
 */
#include "kernels/bf16_scalar.h"
#include "kernels/gemm_fast.h"
#include "kernels/scalar.h"

enum { D_MAX = 512 };

static const float *expand(float *out, int kv_type, const void *tile, int n)
{
    if (kv_type == KV_F32)
        return tile;
    if (kv_type == KV_Q8H) {
        for (int i = 0; i < n; i++)
            out[i] = (float)((const int8_t *)tile)[i];
        return out;
    }
    for (int i = 0; i < n; i++)
        out[i] = f16_to_f32(((const uint16_t *)tile)[i]);
    return out;
}

static void scores(float s[KV_TILE], const float *q, const float *k, int d_head)
{
    for (int t = 0; t < KV_TILE; t += 16, k += 16 * d_head)
        for (int j = 0; j < 16; j++) {
            s[t + j] = 0.0f;
            for (int c = 0; c < d_head; c++)
                s[t + j] = fmaf(q[c], k[16 * c + j], s[t + j]);
        }
}

static void values(float *o, const float p[KV_TILE], float a, const float *v,
                   int d_head)
{
    for (int c = 0; c < d_head; c += 32, v += 32 * KV_TILE) {
        int width = d_head - c < 32 ? d_head - c : 32;

        for (int j = 0; j < width; j++) {
            float acc = o[c + j] * a;

            for (int t = 0; t < KV_TILE; t++)
                acc = fmaf(p[t], v[width * t + j], acc);
            o[c + j] = acc;
        }
    }
}

typedef float step_fn(float y, const float *x, const float *w, int n);

/* Both products of an order in bf16 are chains of its step. */
INLINE void scores_bf16(float s[KV_TILE], const float *q, const float *k,
                        int d_head, step_fn *step)
{
    for (int t = 0; t < KV_TILE; t++) {
        const float *from = k + t / 16 * 16 * d_head + t % 16;

        s[t] = 0.0f;
        for (int c = 0; c < d_head; c += BF16_STEP) {
            float x[BF16_STEP], w[BF16_STEP];

            for (int i = 0; i < BF16_STEP; i++) {
                x[i] = bf16_round(q[c + i]);
                w[i] = bf16_round(from[16 * (c + i)]);
            }
            s[t] = step(s[t], x, w, BF16_STEP);
        }
    }
}

INLINE void values_bf16(float *o, const float p[KV_TILE], float a,
                        const float *v, int d_head, step_fn *step)
{
    for (int c = 0; c < d_head; c++) {
        const float *from = v + c / 32 * 32 * KV_TILE + c % 32;
        float acc = bf16_flush(o[c] * a);

        for (int t = 0; t < KV_TILE; t += BF16_STEP) {
            float x[BF16_STEP], w[BF16_STEP];

            for (int i = 0; i < BF16_STEP; i++) {
                x[i] = bf16_round(p[t + i]);
                w[i] = bf16_round(from[32 * (t + i)]);
            }
            acc = step(acc, x, w, BF16_STEP);
        }
        o[c] = acc;
    }
}

static void scores_tiles(float s[KV_TILE], const float *q, const float *k,
                         int d_head)
{
    scores_bf16(s, q, k, d_head, bf16_tile_step);
}

static void values_tiles(float *o, const float p[KV_TILE], float a,
                         const float *v, int d_head)
{
    values_bf16(o, p, a, v, d_head, bf16_tile_step);
}

static void scores_pairs(float s[KV_TILE], const float *q, const float *k,
                         int d_head)
{
    scores_bf16(s, q, k, d_head, bf16_pair_step);
}

static void values_pairs(float *o, const float p[KV_TILE], float a,
                         const float *v, int d_head)
{
    values_bf16(o, p, a, v, d_head, bf16_pair_step);
}

struct order {
    void (*scores)(float s[KV_TILE], const float *q, const float *k,
                   int d_head);
    void (*values)(float *o, const float p[KV_TILE], float a, const float *v,
                   int d_head);
    float (*exp2)(float x); /* of weights */
    bool ceil;              /* the maximum is rounded up */
};
static const struct order in_f32 = { scores, values, exp2_scalar, false };
static const struct order in_tiles = { scores_tiles, values_tiles,
                                       exp2_cubic_scalar, true };
static const struct order in_pairs = { scores_pairs, values_pairs,
                                       exp2_cubic_scalar, true };

/* Scores to weights; returns the factor of the old state. */
static float softmax(const struct order *by, float s[KV_TILE], uint64_t keys,
                     float *m, float *l)
{
    float lane[16], mn = *m, a;

    for (int t = 0; t < KV_TILE; t++) {
        if (!(keys >> t & 1))
            s[t] = -INFINITY;
        if (s[t] > mn)
            mn = s[t];
    }
    mn = (by->ceil ? ceilf(mn) : mn) + 0.0f;
    for (int t = 0; t < KV_TILE; t++)
        s[t] = by->exp2(s[t] - mn);
    for (int j = 0; j < 16; j++)
        lane[j] = s[j] + s[16 + j] + s[32 + j] + s[48 + j];
    a = exp2_scalar(*m - mn);
    *l = fmaf(*l, a, fold_scalar(lane, 16));
    *m = mn;
    return a;
}

/* s[t] = s[t] * scale[t] */
static void scale_by(float s[KV_TILE], const void *scale)
{
    for (int t = 0; t < KV_TILE; t++)
        s[t] = s[t] * f16_to_f32(((const uint16_t *)scale)[t]);
}

static void attention(const struct attn_job *job, const struct order *by)
{
    int d = job->d_head;
    bool q8h = job->kv_type == KV_Q8H;

    for (int i = 0; i < job->n_tile; i++) {
        const float *k =
            expand(job->scratch, job->kv_type, job->k[i], d * KV_TILE);
        const float *v = expand(job->scratch + D_MAX * KV_TILE, job->kv_type,
                                job->v[i], d * KV_TILE);

        for (int r = 0; r < job->n_row; r++) {
            uint64_t keys = attn_visible(job, r, i);
            float s[KV_TILE], a;

            if (!keys)
                continue;
            by->scores(s, job->q + (size_t)r * job->ldq, k, d);
            if (q8h)
                scale_by(s, job->ks[i]);
            a = softmax(by, s, keys, job->m + r, job->l + r);
            if (q8h)
                scale_by(s, job->vs[i]);
            by->values(job->o + (size_t)r * (size_t)d, s, a, v, d);
        }
    }
}

static void mass(const struct attn_job *job, const struct order *by, float *p,
                 size_t ldp)
{
    int d = job->d_head;

    for (int i = 0; i < job->n_tile; i++) {
        const float *k =
            expand(job->scratch, job->kv_type, job->k[i], d * KV_TILE);

        for (int r = 0; r < job->n_row; r++) {
            uint64_t keys = attn_visible(job, r, i);
            float *to = p + (size_t)r * ldp + (size_t)(i * KV_TILE);
            float s[KV_TILE];

            by->scores(s, job->q + (size_t)r * job->ldq, k, d);
            if (job->kv_type == KV_Q8H)
                scale_by(s, job->ks[i]);
            for (int t = 0; t < KV_TILE; t++)
                to[t] = keys >> t & 1 ? by->exp2(s[t] - job->m[r]) / job->l[r]
                                      : 0.0f;
        }
    }
}

void attention_scalar(const struct attn_job *job)
{
    attention(job, &in_f32);
}

void attention_scalar_mass(const struct attn_job *job, float *p, size_t ldp)
{
    mass(job, &in_f32, p, ldp);
}

void attention_tiles_scalar(const struct attn_job *job)
{
    attention(job, &in_tiles);
}

void attention_tiles_scalar_mass(const struct attn_job *job, float *p,
                                 size_t ldp)
{
    mass(job, &in_tiles, p, ldp);
}

void attention_pairs_scalar(const struct attn_job *job)
{
    attention(job, &in_pairs);
}

void attention_pairs_scalar_mass(const struct attn_job *job, float *p,
                                 size_t ldp)
{
    mass(job, &in_pairs, p, ldp);
}

void attention_scalar_merge(float *m, float *l, float *o, const float *m2,
                            const float *l2, const float *o2, int n_row,
                            int d_head)
{
    for (int r = 0; r < n_row; r++, o += d_head, o2 += d_head) {
        float mn = m2[r] > m[r] ? m2[r] : m[r], a, b;

        if (m[r] == -INFINITY && m2[r] == -INFINITY)
            continue;
        a = exp2_scalar(m[r] - mn);
        b = exp2_scalar(m2[r] - mn);
        l[r] = fmaf(l[r], a, l2[r] * b);
        for (int c = 0; c < d_head; c++)
            o[c] = fmaf(o[c], a, o2[c] * b);
        m[r] = mn;
    }
}
