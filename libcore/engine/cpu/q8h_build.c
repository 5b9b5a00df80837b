/*
 * q8h_build.c - statistics, factors and codes of a build; see q8h_build.h.
 *
 * The factor of a channel of K is sqrt(rms of k / rms of q): k / f and q * f
 * then have the same spread in it, so neither the large channels of K nor
 * those where q is large get more than their share of the rounding.  k is taken
 * over the whole prefix, q over its last tokens, whose queries are most like
 * those of a question.  A common factor of all channels changes nothing, so the
 * scale that q carries does not matter.
 *
 * The bytes of a build must not depend on how it was computed: sums run in
 * double over ascending positions, for a position over ascending heads of the
 * group, in this file's plain C whatever set of kernels is used.
 */
#include "engine/cpu/q8h_build.h"

#include <math.h>
#include <string.h>

#include "engine/q8h_decode.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/rd.h"

struct kv_q8h {
    int from;      /* first position whose queries count */
    int *n;        /* [n_layer] positions seen, all of them in order */
    bool broken;   /* one was taken back */
    double *sum;   /* [n_layer, n_kv_head, d_head] of squares */
    float *factor; /* the same, once made */
    bool made;
};

static size_t at(const struct cpu_kv *kv, int layer, int head)
{
    return ((size_t)layer * (size_t)kv->n_kv_head + (size_t)head) *
           (size_t)kv->d_head;
}

cag_status q8h_gather(struct cpu_kv *kv, int from, cag_error *err)
{
    size_t n = at(kv, kv->n_layer, 0);
    struct kv_q8h *q = mem_zalloc(sizeof *q);

    if (kv->d_head > Q8H_D_MAX) {
        mem_free(q);
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "head size %d, codec q8h takes at most %d", kv->d_head,
                        Q8H_D_MAX);
    }
    q8h_free(kv);
    kv->q8h = q;
    if (q) {
        q->from = from;
        q->n = mem_alloc_array((size_t)kv->n_layer, sizeof *q->n);
        q->sum = mem_alloc_array(n, sizeof *q->sum);
        q->factor = mem_alloc_array(n, sizeof *q->factor);
    }
    if (!q || !q->n || !q->sum || !q->factor)
        return cag_fail_nomem(err, "statistics of queries");
    memset(q->n, 0, (size_t)kv->n_layer * sizeof *q->n);
    memset(q->sum, 0, n * sizeof *q->sum);
    return CAG_OK;
}

void q8h_free(struct cpu_kv *kv)
{
    if (!kv->q8h)
        return;
    mem_free(kv->q8h->n);
    mem_free(kv->q8h->sum);
    mem_free(kv->q8h->factor);
    mem_free(kv->q8h);
    kv->q8h = NULL;
}

void q8h_truncate(struct cpu_kv *kv, int n_tok)
{
    if (kv->q8h && kv->q8h->n[0] > 0 && n_tok < kv->q8h->from + kv->q8h->n[0])
        kv->q8h->broken = true;
}

void q8h_add_queries(struct cpu_kv *kv, int layer, int pos, const float *q,
                     size_t ldq, int group)
{
    struct kv_q8h *w = kv->q8h;

    if (!w || pos < w->from)
        return;
    for (int h = 0; h < kv->n_kv_head; h++, q += ldq) {
        double *sum = w->sum + at(kv, layer, h);

        for (int g = 0; g < group; g++)
            for (int c = 0; c < kv->d_head; c++) {
                double v = (double)q[g * kv->d_head + c];

                sum[c] += v * v;
            }
    }
    w->n[layer]++;
}

/* ----------------------------------------------------------------- factors */

struct balance {
    struct cpu_kv *kv;
    int n_tok;
};

/* sum[c] += k^2 of the keys of a tile, ascending; f16 */
static void add_tile(double *sum, const uint8_t *tile, int d_head, int n_key)
{
    for (int t = 0; t < n_key; t += 16)
        for (int c = 0; c < d_head; c++) {
            const uint8_t *p =
                tile + 2 * ((size_t)t * (size_t)d_head + 16 * (size_t)c);

            for (int j = 0; j < 16 && t + j < n_key; j++) {
                double v = (double)f16_to_f32(rd_le16(p + 2 * j));

                sum[c] += v * v;
            }
        }
}

/* Means of squares to a factor: the fourth root of their quotient. */
static float factor_of(double k, double q)
{
    double f = k > 0 && q > 0 ? sqrt(sqrt(k / q)) : 1.0;

    return (float)(f < 0x1p-12 ? 0x1p-12 : f > 0x1p12 ? 0x1p12 : f);
}

static void balance_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct balance *b = ctx;
    const struct cpu_kv *kv = b->kv;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int layer = (int)(i / kv->n_kv_head), h = (int)(i % kv->n_kv_head);
        const double *q = kv->q8h->sum + at(kv, layer, h);
        float *f = kv->q8h->factor + at(kv, layer, h);
        double sum[Q8H_D_MAX] = { 0 };

        for (int t = 0; t * KV_TILE < b->n_tok; t++) {
            int left = b->n_tok - t * KV_TILE;

            add_tile(sum, kvcache_any_tile(kv, layer, 0, h, t), kv->d_head,
                     left < KV_TILE ? left : KV_TILE);
        }
        for (int c = 0; c < kv->d_head; c++)
            f[c] =
                factor_of(sum[c] / b->n_tok, q[c] / (b->n_tok - kv->q8h->from));
    }
}

cag_status q8h_balance(struct cpu_kv *kv, int n_tok, struct pool *pool,
                       cag_error *err)
{
    struct balance b = { kv, n_tok };
    struct kv_q8h *q = kv->q8h;
    bool seen = q && !q->broken && n_tok > q->from;

    for (int l = 0; seen && l < kv->n_layer; l++)
        seen = q->n[l] == n_tok - q->from;
    if (!seen || kv->prefix || kv->kv_type != KV_F16)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "the queries of the last tokens of %d were not "
                        "watched: K cannot be balanced",
                        n_tok);
    pool_run(pool, balance_range, &b, (int64_t)kv->n_layer * kv->n_kv_head, 1);
    q->made = true;
    return CAG_OK;
}

/* ------------------------------------------------------------------ export */

/* n_key rows of a f16 tile to codes and scales; the first row that cannot be
 * coded, or -1 */
static int code_tile(const struct kernels *k, const uint8_t *from, bool is_v,
                     int d, int n_key, const float *f, uint8_t *codes,
                     uint8_t *scales)
{
    float row[Q8H_D_MAX];
    int8_t code[Q8H_D_MAX];

    for (int t = 0; t < n_key; t++) {
        uint16_t scale;

        for (int c = 0; c < d; c++)
            row[c] = f16_to_f32(rd_le16(from + 2 * kv_tile_at(is_v, d, t, c)));
        if (!k->q8h_encode(code, &scale, row, f, d))
            return t;
        for (int c = 0; c < d; c++)
            codes[kv_tile_at(is_v, d, t, c)] = (uint8_t)code[c];
        rd_put16(scales + 2 * t, scale);
    }
    return -1;
}

static void put_factors(const struct cpu_kv *kv, const struct kvc_shape *shape,
                        int layer, int chunk, uint8_t *dst)
{
    const float *f = kv->q8h->factor + at(kv, layer, 0);

    dst += kvc_factor_off(shape, chunk, 0);
    for (int i = 0; i < kv->n_kv_head * kv->d_head; i++) {
        uint32_t u;

        memcpy(&u, f + i, sizeof u);
        rd_put32(dst + 4 * i, u);
    }
}

cag_status q8h_export(const struct cpu_kv *kv, const struct kvc_shape *shape,
                      int layer, int chunk, uint8_t *dst, cag_error *err)
{
    const char *why = NULL;
    const struct kernels *k = kernels_get(&why);
    int tile0 = chunk * (shape->chunk_tok / KVC_TILE);
    cag_status st = kvcache_check_export(kv, shape, err);

    if (st)
        return st;
    if (!k)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1, "%s", why);
    if (!kv->q8h || !kv->q8h->made)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "K of the session was not balanced");
    memset(dst, 0, kvc_chunk_bytes(shape, chunk));
    put_factors(kv, shape, layer, chunk, dst);
    for (int i = 0; i < kvc_chunk_tiles(shape, chunk); i++)
        for (int h = 0; h < kv->n_kv_head; h++)
            for (int v = 0; v < 2; v++) {
                int left = shape->n_tok - (tile0 + i) * KV_TILE;
                int bad = code_tile(
                    k, kvcache_any_tile(kv, layer, v, h, tile0 + i), v != 0,
                    kv->d_head, left < KV_TILE ? left : KV_TILE,
                    v ? NULL : kv->q8h->factor + at(kv, layer, h),
                    dst + kvc_tile_off(shape, chunk, v, h, i),
                    dst + kvc_scale_off(shape, chunk, v, h, i));

                if (bad >= 0)
                    return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                                    "layer %d, token %d: a %s does not fit "
                                    "codec q8h (too large)",
                                    layer, (tile0 + i) * KV_TILE + bad,
                                    v ? "value" : "key");
            }
    return CAG_OK;
}
