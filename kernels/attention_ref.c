/*
 * attention_ref.c - attention over K/V tiles, and the tiles themselves.
 *
 * The state (m, l, o) is the running softmax of the rows seen so far:
 * out = o / l, where l and o are sums of exp2(s - m).  Tiles are read through
 * two index functions, which are the tile layout of kernels.h spelled out.
 */
#include "kernels/ref.h"

#include <math.h>

static size_t k_index(int d_head, int t, int c)
{
    return (size_t)((t / 16 * d_head + c) * 16 + t % 16);
}

static size_t v_index(int d_head, int t, int c)
{
    int g = c / 32;
    int width = d_head - 32 * g < 32 ? d_head - 32 * g : 32;

    return (size_t)(g * 32 * KV_TILE + t * width + c % 32);
}

static double tile_get(int kv_type, const void *tile, size_t i)
{
    if (kv_type == KV_F16)
        return (double)f16_to_f32(((const uint16_t *)tile)[i]);
    if (kv_type == KV_Q8H)
        return (double)((const int8_t *)tile)[i];
    return (double)((const float *)tile)[i];
}

static bool tile_put(int kv_type, void *tile, size_t i, float v)
{
    uint16_t h;

    if (kv_type == KV_F32) {
        ((float *)tile)[i] = v;
        return isfinite(v);
    }
    h = f32_to_f16(v);
    ((uint16_t *)tile)[i] = h;
    return (h & 0x7c00) != 0x7c00;
}

bool kvstore_ref(int kv_type, void *k_tile, void *v_tile, int t, const float *k,
                 const float *v, int d_head)
{
    bool ok = true;

    for (int c = 0; c < d_head; c++) {
        ok &= tile_put(kv_type, k_tile, k_index(d_head, t, c), k[c]);
        ok &= tile_put(kv_type, v_tile, v_index(d_head, t, c), v[c]);
    }
    return ok;
}

/* What the codes of key t of tile i are multiplied with. */
static double scale_get(const struct attn_job *job, const void *const *scales,
                        int i, int t)
{
    if (job->kv_type != KV_Q8H)
        return 1.0;
    return (double)f16_to_f32(((const uint16_t *)scales[i])[t]);
}

/* q k of row r and key t of tile i */
static double score(const struct attn_job *job, int r, int i, int t)
{
    const float *q = job->q + (size_t)r * job->ldq;
    double s = 0;

    for (int c = 0; c < job->d_head; c++)
        s += (double)q[c] *
             tile_get(job->kv_type, job->k[i], k_index(job->d_head, t, c));
    return s * scale_get(job, job->ks, i, t);
}

static bool sees(uint64_t keys, int t)
{
    return keys >> t & 1;
}

/* One row over these keys of tile i. */
static void row_tile(const struct attn_job *job, int r, int i, uint64_t keys)
{
    const void *v_tile = job->v[i];
    float *o = job->o + (size_t)r * (size_t)job->d_head;
    double s[KV_TILE], mn = (double)job->m[r], a, sum = 0;

    for (int t = 0; t < KV_TILE; t++) {
        s[t] = sees(keys, t) ? score(job, r, i, t) : -INFINITY;
        if (s[t] > mn)
            mn = s[t];
    }
    mn = (double)(float)mn;
    for (int t = 0; t < KV_TILE; t++)
        sum += s[t] = sees(keys, t) ? exp2(s[t] - mn) : 0;
    a = exp2((double)job->m[r] - mn);
    job->l[r] = (float)((double)job->l[r] * a + sum);
    for (int c = 0; c < job->d_head; c++) {
        double acc = (double)o[c] * a;

        for (int t = 0; t < KV_TILE; t++)
            if (sees(keys, t))
                acc +=
                    s[t] * scale_get(job, job->vs, i, t) *
                    tile_get(job->kv_type, v_tile, v_index(job->d_head, t, c));
        o[c] = (float)acc;
    }
    job->m[r] = (float)mn;
}

void attention_ref(const struct attn_job *job)
{
    for (int i = 0; i < job->n_tile; i++)
        for (int r = 0; r < job->n_row; r++) {
            uint64_t keys = attn_visible(job, r, i);

            if (keys)
                row_tile(job, r, i, keys);
        }
}

void attention_ref_mass(const struct attn_job *job, float *p, size_t ldp)
{
    for (int i = 0; i < job->n_tile; i++)
        for (int r = 0; r < job->n_row; r++) {
            uint64_t keys = attn_visible(job, r, i);
            float *to = p + (size_t)r * ldp + (size_t)(i * KV_TILE);

            for (int t = 0; t < KV_TILE; t++)
                to[t] = sees(keys, t) ? (float)(exp2(score(job, r, i, t) -
                                                     (double)job->m[r]) /
                                                (double)job->l[r])
                                      : 0.0f;
        }
}

void attention_ref_merge(float *m, float *l, float *o, const float *m2,
                         const float *l2, const float *o2, int n_row,
                         int d_head)
{
    for (int r = 0; r < n_row; r++, o += d_head, o2 += d_head) {
        double mn = (double)(m[r] > m2[r] ? m[r] : m2[r]), a, b;

        if (m[r] == -INFINITY && m2[r] == -INFINITY)
            continue;
        a = exp2((double)m[r] - mn);
        b = exp2((double)m2[r] - mn);
        l[r] = (float)((double)l[r] * a + (double)l2[r] * b);
        for (int c = 0; c < d_head; c++)
            o[c] = (float)((double)o[c] * a + (double)o2[c] * b);
        m[r] = (float)mn;
    }
}

void attention_ref_finish(float *out, size_t ldo, const float *l,
                          const float *o, int n_row, int d_head)
{
    for (int r = 0; r < n_row; r++, o += d_head)
        for (int c = 0; c < d_head; c++)
            out[(size_t)r * ldo + (size_t)c] = o[c] / l[r];
}
