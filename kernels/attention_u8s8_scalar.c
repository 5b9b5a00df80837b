/*
 * attention_u8s8_scalar.c - attention in 8 bits, the order of operations that
 * kernels.h calls u8s8, in portable C.
 *
 * A tile is coded into the scratch for all rows, keys and values as [64][d]
 * integers with a scale each.
 */
#include "kernels/gemm_fast.h"
#include "kernels/scalar.h"

enum { D_MAX = 512 };

/* A row of queries, keys or values: code * scale */
struct codes {
    int8_t *code; /* [d] */
    float scale;
};

static float coded(int8_t *code, const float *x, int d)
{
    float amax = 0.0f, inv;
    bool finite = true;

    for (int c = 0; c < d; c++) {
        finite = finite && isfinite(x[c]);
        amax = fabsf(x[c]) > amax ? fabsf(x[c]) : amax;
    }
    inv = finite && amax >= 0x1p-100f ? 127.0f / amax : 0.0f;
    for (int c = 0; c < d; c++)
        code[c] = (int8_t)(inv > 0.0f ? fmaf(x[c], inv, 0x1.8p23f) - 0x1.8p23f
                                      : 0.0f);
    return !finite ? NAN : inv > 0.0f ? amax / 127.0f : 0.0f;
}

/* Element c of key t of a tile, and its place. */
static float element(const void *tile, int kv_type, size_t at)
{
    return kv_type == KV_Q8H ? (float)((const int8_t *)tile)[at]
                             : f16_to_f32(((const uint16_t *)tile)[at]);
}

static size_t place_k(int t, int c, int d)
{
    return (size_t)((t / 16 * d + c) * 16 + t % 16);
}

static size_t place_v(int t, int c)
{
    return (size_t)((c / 32 * KV_TILE + t) * 32 + c % 32);
}

struct coded_tile {
    int8_t *k, *v; /* [64][d]; v: NULL, if only scores are wanted */
    float ks[KV_TILE], vs[KV_TILE];
};

static void code_tile(struct coded_tile *to, const struct attn_job *job, int i)
{
    const int d = job->d_head, type = job->kv_type;
    float x[D_MAX];

    for (int t = 0; t < KV_TILE; t++) {
        for (int c = 0; c < d; c++)
            x[c] = element(job->k[i], type, place_k(t, c, d));
        to->ks[t] = coded(to->k + t * d, x, d);
        if (type == KV_Q8H)
            to->ks[t] *= f16_to_f32(((const uint16_t *)job->ks[i])[t]);
        if (!to->v)
            continue;
        for (int c = 0; c < d; c++)
            x[c] = element(job->v[i], type, place_v(t, c));
        to->vs[t] = coded(to->v + t * d, x, d);
        if (type == KV_Q8H)
            to->vs[t] *= f16_to_f32(((const uint16_t *)job->vs[i])[t]);
    }
}

static float score(const struct codes *q, const struct coded_tile *tile, int t,
                   int d)
{
    int n = 0;

    for (int c = 0; c < d; c++)
        n += q->code[c] * tile->k[t * d + c];
    return (float)n * tile->ks[t] * q->scale;
}

/* to nearest even: the last bits of a number of 24; of a NaN, anything */
static int weight_code(float w, float inv)
{
    float sum = fmaf(w, inv, 0x1p23f);
    uint32_t bits;

    memcpy(&bits, &sum, sizeof bits);
    return (int)(bits & 255);
}

/* One row over one tile, of which it sees these keys. */
static void row_tile(float *m, float *l, float *o, const struct codes *q,
                     const struct coded_tile *tile, uint64_t keys, int d)
{
    float s[KV_TILE], lane[4] = { 0 }, top = -INFINITY, most = 0.0f, inv = 0.0f;
    float mn, a, b;

    for (int t = 0; t < KV_TILE; t++) {
        s[t] = score(q, tile, t, d);
        if (keys >> t & 1 && s[t] > top)
            top = s[t];
    }
    top = ceilf(top) + 0.0f;
    for (int t = 0; t < KV_TILE; t++) {
        s[t] = keys >> t & 1 ? exp2_cubic_scalar(s[t] - top) : 0.0f;
        lane[t % 4] = lane[t % 4] + s[t];
        s[t] = s[t] * tile->vs[t];
        if (s[t] > most)
            most = s[t];
    }
    if (most >= 0x1p-100f)
        inv = 255.0f / most;
    mn = (top > *m ? top : *m) + 0.0f;
    a = exp2_scalar(*m - mn);
    b = exp2_scalar(top - mn);
    *l = fmaf(*l, a, fold_scalar(lane, 4) * b);
    *m = mn;
    b = most >= 0x1p-100f ? most / 255.0f * b : 0.0f;
    for (int c = 0; c < d; c++) {
        int n = 0;

        for (int t = 0; t < KV_TILE; t++)
            n += weight_code(s[t], inv) * tile->v[t * d + c];
        o[c] = fmaf((float)n, b, o[c] * a);
    }
}

void attention_u8s8_scalar(const struct attn_job *job)
{
    const int d = job->d_head;
    int8_t code[D_MAX], *room = (int8_t *)job->scratch;
    struct coded_tile tile = { .k = room, .v = room + D_MAX * KV_TILE };

    for (int i = 0; i < job->n_tile; i++) {
        code_tile(&tile, job, i);
        for (int r = 0; r < job->n_row; r++) {
            uint64_t keys = attn_visible(job, r, i);
            struct codes q = { code, 0 };

            if (!keys)
                continue;
            q.scale = coded(code, job->q + (size_t)r * job->ldq, d);
            row_tile(job->m + r, job->l + r, job->o + (size_t)r * (size_t)d, &q,
                     &tile, keys, d);
        }
    }
}

void attention_u8s8_scalar_mass(const struct attn_job *job, float *p,
                                size_t ldp)
{
    int8_t code[D_MAX];
    struct coded_tile tile = { .k = (int8_t *)job->scratch, .v = NULL };

    for (int i = 0; i < job->n_tile; i++) {
        code_tile(&tile, job, i);
        for (int r = 0; r < job->n_row; r++) {
            uint64_t keys = attn_visible(job, r, i);
            float *to = p + (size_t)r * ldp + (size_t)(i * KV_TILE);
            struct codes q = { code, 0 };

            q.scale = coded(code, job->q + (size_t)r * job->ldq, job->d_head);
            for (int t = 0; t < KV_TILE; t++)
                to[t] =
                    keys >> t & 1
                        ? exp2_cubic_scalar(score(&q, &tile, t, job->d_head) -
                                            job->m[r]) /
                              job->l[r]
                        : 0.0f;
        }
    }
}
