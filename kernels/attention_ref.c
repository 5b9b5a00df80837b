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

/* One row over the first n_key keys of tile i. */
static void row_tile(const struct attn_job *job, int r, int i, int n_key)
{
    const void *k_tile = job->k[i], *v_tile = job->v[i];
    const float *q = job->q + (size_t)r * job->ldq;
    float *o = job->o + (size_t)r * (size_t)job->d_head;
    double s[KV_TILE], mn = (double)job->m[r], a, sum = 0;

    for (int t = 0; t < n_key; t++) {
        s[t] = 0;
        for (int c = 0; c < job->d_head; c++)
            s[t] += (double)q[c] *
                    tile_get(job->kv_type, k_tile, k_index(job->d_head, t, c));
        s[t] *= scale_get(job, job->ks, i, t);
        if (s[t] > mn)
            mn = s[t];
    }
    mn = (double)(float)mn;
    for (int t = 0; t < n_key; t++)
        sum += s[t] = exp2(s[t] - mn);
    a = exp2((double)job->m[r] - mn);
    job->l[r] = (float)((double)job->l[r] * a + sum);
    for (int c = 0; c < job->d_head; c++) {
        double acc = (double)o[c] * a;

        for (int t = 0; t < n_key; t++)
            acc += s[t] * scale_get(job, job->vs, i, t) *
                   tile_get(job->kv_type, v_tile, v_index(job->d_head, t, c));
        o[c] = (float)acc;
    }
    job->m[r] = (float)mn;
}

void attention_ref(const struct attn_job *job)
{
    for (int i = 0; i < job->n_tile; i++)
        for (int r = 0; r < job->n_row; r++) {
            int64_t n =
                (int64_t)job->last[r] - job->key0 + 1 - (int64_t)KV_TILE * i;

            if (n > 0)
                row_tile(job, r, i, n < KV_TILE ? (int)n : KV_TILE);
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
