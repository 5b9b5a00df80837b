/*
 * attention_avx512vnni.c - a prompt's attention in 8 bits (AVX512-VNNI), the
 * order of operations that kernels.h calls u8s8.
 *
 * A lane is a row of queries, so that maxima, sums and scales of rows are
 * vectors and nothing is folded; keys and channels are broadcast.
 *
 *   q   [channel / 4][RP rows][4]         codes
 *   kb  [key / 16][channel / 4][16][4]    codes + 128
 *   vb  [key / 4][channel][4]             codes
 *   s   [key][BR rows]    scores, then weights, f32
 *   w   [key / 4][BR][4]  weights in 8 bits
 *   o   [channel][RP]     f32
 *
 * vpdpbusd wants one unsigned operand: keys are 128 too large, for which sums
 * begin with -128 times the sum of the row's codes.  48 rows x 8 keys or
 * channels are 24 sums, all in registers.
 *
 * 2.3 to 3.2 times as fast as f32 on an Ice Lake, one thread.  There blocks
 * of 96 rows are 74 % of the time (by counting operations half of it products,
 * a third exp2 and coding weights), coding their tile 14, fetching the next 5.
 */
#include "kernels/x86/avx512.h"
#include "kernels/gemm_fast.h"

#include <math.h>
#include <string.h>

#include "kernels/x86/simd_avx512.h"

#include "kernels/attention_tiles_simd.h"

enum {
    D_MAX = 512,
    RP = ATTN_ROWS,
    NV = 3,       /* vectors of rows in a block */
    BR = NV * VW, /* rows */
    NK = 8,       /* keys or channels in registers */
    QUADS = KV_TILE / 4,
    Q_FLOATS = D_MAX / 4 * RP,
    S_FLOATS = KV_TILE * BR,
    W_FLOATS = QUADS * BR,
    KV_FLOATS = KV_TILE * D_MAX / 4,
    O_FLOATS = D_MAX * RP
};
_Static_assert(Q_FLOATS + S_FLOATS + W_FLOATS + 2 * KV_FLOATS + O_FLOATS <=
                   ATTN_SCRATCH,
               "the scratch is too small");
_Static_assert(RP % VW == 0, "a vector of rows is whole");

struct room {
    float *s, *o;
    uint32_t *q, *w, *kb, *vb; /* vb: NULL, if not wanted */
    float qs[RP], m[RP], l[RP];
    int32_t first[RP], last[RP]; /* first: of a row's sums */
    float ks[KV_TILE], vs[KV_TILE];
    int n_vec;
};

/* Scales and factors of rows whose largest magnitudes these are. */
INLINE VF scales(VF amax, VF *inv)
{
    const __mmask16 one =
        _mm512_cmp_ps_mask(amax, v_set1(0x1p-100f), _CMP_GE_OQ);
    const __mmask16 finite =
        _mm512_cmp_ps_mask(amax, v_set1(INFINITY), _CMP_LT_OQ);

    *inv = _mm512_maskz_div_ps(one & finite, v_set1(127.0f), amax);
    return _mm512_mask_blend_ps(finite, v_set1(NAN),
                                _mm512_maskz_div_ps(one, amax, v_set1(127.0f)));
}

/* x * inv to nearest even, + 128, in the last byte of each lane */
INLINE __m512i code(VF x, VF inv)
{
    return _mm512_castps_si512(v_fma(x, inv, v_set1(0x1p23f + 128)));
}

/* the last bytes of four vectors, side by side */
INLINE __m512i four_bytes(const __m512i z[4])
{
    const __m512i low = _mm512_set1_epi32(0x00ffffff);
    __m512i a = _mm512_ternarylogic_epi32(z[0], _mm512_slli_epi32(z[1], 8),
                                          _mm512_slli_epi32(z[2], 16), 0xfe);

    return _mm512_ternarylogic_epi32(low, a, _mm512_slli_epi32(z[3], 24), 0xea);
}

INLINE __m512i halves(const void *p, size_t i)
{
    return _mm512_and_si512(_mm512_loadu_si512((const uint16_t *)p + i),
                            _mm512_set1_epi16(0x7fff));
}

/* Largest magnitudes of 16 keys of K, from p on. */
INLINE VF largest_k(const void *p, int d, const int kv_type)
{
    __m512i top = _mm512_setzero_si512();
    VF most = v_zero();

    if (kv_type == KV_Q8H) {
        for (int c = 0; c < d; c++)
            most = v_max(most, v_abs(load_kv(p, (size_t)c * 16, kv_type)));
        return most;
    }
    for (int c = 0; c < d; c += 2) /* of f16: as integers, two channels */
        top = _mm512_max_epu16(top, halves(p, (size_t)c * 16));
    return _mm512_cvtph_ps(_mm256_max_epu16(_mm512_castsi512_si256(top),
                                            _mm512_extracti64x4_epi64(top, 1)));
}

/* Largest magnitudes of the keys of V. */
INLINE void largest_v(float *out, const void *v, int d, const int kv_type)
{
    uint16_t half[KV_TILE];

    for (int t = 0; t < KV_TILE; t++) {
        __m512i top = _mm512_setzero_si512();
        VF most = v_zero();
        __m256i a;
        __m128i b;

        if (kv_type == KV_Q8H) {
            for (int c = 0; c < d; c += 16)
                most = v_max(
                    most, v_abs(load_kv(
                              v, (size_t)((c / 32 * KV_TILE + t) * 32 + c % 32),
                              kv_type)));
            out[t] = v_hmax(most);
            continue;
        }
        for (int c = 0; c < d; c += 32)
            top = _mm512_max_epu16(
                top, halves(v, (size_t)((c / 32 * KV_TILE + t) * 32)));
        a = _mm256_max_epu16(_mm512_castsi512_si256(top),
                             _mm512_extracti64x4_epi64(top, 1));
        b = _mm_max_epu16(_mm256_castsi256_si128(a),
                          _mm256_extracti128_si256(a, 1));
        b = _mm_minpos_epu16(_mm_xor_si128(b, _mm_set1_epi16(-1)));
        half[t] = (uint16_t)~_mm_extract_epi16(b, 0);
    }
    for (int t = 0; t < KV_TILE && kv_type == KV_F16; t += VW)
        v_store(out + t, v_load_f16(half + t));
}

INLINE void code_k(struct room *m, const struct attn_job *job, int i,
                   const int kv_type)
{
    const int d = job->d_head;
    uint32_t *out = m->kb;

    for (int t = 0; t < KV_TILE; t += 16) {
        const size_t at = (size_t)(t * d);
        const void *k = kv_type == KV_Q8H
                            ? (const void *)((const int8_t *)job->k[i] + at)
                            : (const void *)((const uint16_t *)job->k[i] + at);
        VF inv, s = scales(largest_k(k, d, kv_type), &inv);

        if (kv_type == KV_Q8H)
            s = v_mul(s, load_kv(job->ks[i], (size_t)t, KV_F16));
        v_store(m->ks + t, s);
        for (int c = 0; c < d; c += 4, out += 16) {
            __m512i z[4];

            for (int j = 0; j < 4; j++)
                z[j] = code(load_kv(k, (size_t)(c + j) * 16, kv_type), inv);
            _mm512_store_si512(out, four_bytes(z));
        }
    }
}

INLINE void code_v(struct room *m, const struct attn_job *job, int i,
                   const int kv_type)
{
    const int d = job->d_head;
    const void *v = job->v[i];
    float inv[KV_TILE];

    largest_v(m->vs, v, d, kv_type);
    for (int t = 0; t < KV_TILE; t += VW) {
        VF f, s = scales(v_load(m->vs + t), &f);

        if (kv_type == KV_Q8H)
            s = v_mul(s, load_kv(job->vs[i], (size_t)t, KV_F16));
        v_store(m->vs + t, s);
        v_store(inv + t, f);
    }
    for (int c = 0; c < d; c += 16)
        for (int t = 0; t < KV_TILE; t += 4) {
            const size_t at = (size_t)((c / 32 * KV_TILE + t) * 32 + c % 32);
            __m512i z[4];

            for (int j = 0; j < 4; j++)
                z[j] = code(load_kv(v, at + (size_t)(32 * j), kv_type),
                            v_bcast(inv + t + j));
            _mm512_store_si512(
                m->vb + (size_t)(t / 4 * d + c),
                _mm512_xor_si512(four_bytes(z), _mm512_set1_epi8(-128)));
        }
}

static void code_tile(struct room *m, const struct attn_job *job, int i)
{
    if (job->kv_type == KV_Q8H) {
        code_k(m, job, i, KV_Q8H);
        if (m->vb)
            code_v(m, job, i, KV_Q8H);
    } else {
        code_k(m, job, i, KV_F16);
        if (m->vb)
            code_v(m, job, i, KV_F16);
    }
}

/* Row r of the queries to its place. */
static void code_query(struct room *m, const float *x, int d, int r)
{
    int32_t sum = 0;
    VF most = v_zero(), inv;
    __mmask16 odd = 0;

    for (int c = 0; c < d; c += VW) {
        VF a = v_abs(v_load(x + c));

        most = v_max(most, a);
        odd |= _mm512_cmp_ps_mask(a, v_set1(INFINITY), _CMP_NLT_UQ);
    }
    most = scales(v_set1(odd ? INFINITY : v_hmax(most)), &inv);
    m->qs[r] = _mm512_cvtss_f32(most);
    for (int c = 0; c < d; c += VW) {
        uint32_t four[4];
        __m512i z = _mm512_and_si512(code(odd ? v_zero() : v_load(x + c), inv),
                                     _mm512_set1_epi32(255));

        sum += _mm512_reduce_add_epi32(z) - 128 * VW;
        _mm_storeu_si128(
            (__m128i *)(void *)four,
            _mm_xor_si128(_mm512_cvtepi32_epi8(z), _mm_set1_epi8(-128)));
        for (int j = 0; j < 4; j++)
            m->q[(c / 4 + j) * RP + r] = four[j];
    }
    m->first[r] = -128 * sum;
}

static void rooms(struct room *m, const struct attn_job *job)
{
    const int d = job->d_head, n = job->n_row;

    m->s = job->scratch;
    m->w = (uint32_t *)(m->s + S_FLOATS);
    m->q = m->w + W_FLOATS;
    m->kb = m->q + Q_FLOATS;
    m->vb = m->kb + KV_FLOATS;
    m->o = (float *)(m->vb + KV_FLOATS);
    m->n_vec = (n + VW - 1) / VW;
    for (int r = 0; r < n; r++) {
        code_query(m, job->q + (size_t)r * job->ldq, d, r);
        m->last[r] = job->last[r];
        m->m[r] = job->m[r];
        m->l[r] = job->l[r];
    }
    for (int r = n; r < m->n_vec * VW; r++) { /* computed, and left out */
        m->qs[r] = m->m[r] = m->l[r] = 0.0f;
        m->first[r] = 0;
        m->last[r] = INT32_MAX;
        for (int c = 0; c < d; c += 4)
            m->q[c / 4 * RP + r] = 0;
    }
}

/* o [row][d] to [channel][RP], or back */
static void turn_o(struct room *m, const struct attn_job *job, bool back)
{
    const int d = job->d_head;

    for (int r = 0; r < job->n_row; r += VW)
        for (int c = 0; c < d; c += VW) {
            int n = job->n_row - r < VW ? job->n_row - r : VW;
            float *row = job->o + (size_t)r * (size_t)d + c;
            float *channel = m->o + c * RP + r;
            VF x[VW];

            for (int i = 0; i < VW; i++)
                x[i] = back    ? v_load(channel + i * RP)
                       : i < n ? v_load(row + i * d)
                               : v_zero();
            v_transpose(x);
            for (int i = 0; i < (back ? n : VW); i++)
                v_store(back ? row + i * d : channel + i * RP, x[i]);
        }
}

/* as asm: of an intrinsic gcc 12 copies the sum at every step */
INLINE __m512i dot(__m512i sum, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s));
    return sum;
}

INLINE __m512i bcast(const uint32_t *p)
{
    return _mm512_set1_epi32((int32_t)*p);
}

/* What rows see of a tile. */
struct sight {
    uint64_t see;
    int32_t key0;
};

INLINE __mmask16 sees(const struct sight *by, const struct room *m, int r,
                      int t)
{
    __mmask16 in = _mm512_cmpge_epi32_mask(_mm512_loadu_si512(m->last + r),
                                           _mm512_set1_epi32(by->key0 + t));

    return by->see >> t & 1 ? in : 0;
}

/* Scores of a block of rows, and the largest of those that are seen. */
INLINE void scores(struct room *m, const struct sight *by, int r0, int d,
                   VF top[NV], const int nv, const bool all)
{
    for (int v = 0; v < nv; v++)
        top[v] = v_set1(-INFINITY);
    for (int t = 0; t < KV_TILE; t += NK) {
        const uint32_t *k = m->kb + t / 16 * 4 * d + t % 16;
        const uint32_t *q = m->q + r0;
        __m512i n[NK][NV];

#pragma GCC unroll 8
        for (int j = 0; j < NK; j++)
#pragma GCC unroll 3
            for (int v = 0; v < nv; v++)
                n[j][v] = _mm512_loadu_si512(m->first + r0 + v * VW);
        for (int c = 0; c < d; c += 4, k += 16, q += RP) {
            __m512i x[NV];

#pragma GCC unroll 3
            for (int v = 0; v < nv; v++)
                x[v] = _mm512_load_si512(q + v * VW);
#pragma GCC unroll 8
            for (int j = 0; j < NK; j++) {
                __m512i u = bcast(k + j);

#pragma GCC unroll 3
                for (int v = 0; v < nv; v++)
                    n[j][v] = dot(n[j][v], u, x[v]);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < NK; j++)
#pragma GCC unroll 3
            for (int v = 0; v < nv; v++) {
                VF s = v_mul(
                    v_mul(_mm512_cvtepi32_ps(n[j][v]), v_bcast(m->ks + t + j)),
                    v_load(m->qs + r0 + v * VW));

                top[v] = all ? v_max(s, top[v])
                             : _mm512_mask_max_ps(
                                   top[v], sees(by, m, r0 + v * VW, t + j), s,
                                   top[v]);
                v_store(m->s + (t + j) * BR + v * VW, s);
            }
    }
}

/* Scores of 16 rows to weights in 8 bits; what they count, and their sum. */
INLINE VF weights(struct room *m, const struct sight *by, int r, int v, VF top,
                  VF *sum, const bool all)
{
    float *s = m->s + v * VW;
    uint32_t *w = m->w + v * VW;
    VF lane[4], most = v_zero(), inv;
    __mmask16 some;

    for (int j = 0; j < 4; j++)
        lane[j] = v_zero();
    for (int t = 0; t < KV_TILE; t += 4)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            float *at = s + (t + j) * BR;
            VF p = v_exp2_cubic(v_sub(v_load(at), top));

            if (!all)
                p = _mm512_maskz_mov_ps(sees(by, m, r, t + j), p);
            lane[j] = v_add(lane[j], p);
            p = v_mul(p, v_bcast(m->vs + t + j));
            most = v_max(p, most);
            v_store(at, p);
        }
    some = _mm512_cmp_ps_mask(most, v_set1(0x1p-100f), _CMP_GE_OQ);
    inv = _mm512_maskz_div_ps(some, v_set1(255.0f), most);
    for (int t = 0; t < KV_TILE; t += 4) {
        __m512i z[4];

#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            z[j] = _mm512_castps_si512(
                v_fma(v_load(s + (t + j) * BR), inv, v_set1(0x1p23f)));
        _mm512_store_si512(w + t / 4 * BR, four_bytes(z));
    }
    *sum = v_add(v_add(lane[0], lane[2]), v_add(lane[1], lane[3]));
    return _mm512_maskz_div_ps(some, most, v_set1(255.0f));
}

/* o = o a + b (w v), for rows that see the tile */
INLINE void values(struct room *m, int r0, int d, const VF a[NV],
                   const VF b[NV], const __mmask16 live[NV], const int nv)
{
    for (int c = 0; c < d; c += NK) {
        const uint32_t *x = m->vb + c, *w = m->w;
        float *o = m->o + c * RP + r0;
        __m512i n[NK][NV];

#pragma GCC unroll 8
        for (int j = 0; j < NK; j++)
#pragma GCC unroll 3
            for (int v = 0; v < nv; v++)
                n[j][v] = _mm512_setzero_si512();
        for (int t = 0; t < QUADS; t++, x += d, w += BR) {
            __m512i u[NV];

#pragma GCC unroll 3
            for (int v = 0; v < nv; v++)
                u[v] = _mm512_load_si512(w + v * VW);
#pragma GCC unroll 8
            for (int j = 0; j < NK; j++) {
                __m512i s = bcast(x + j);

#pragma GCC unroll 3
                for (int v = 0; v < nv; v++)
                    n[j][v] = dot(n[j][v], u[v], s);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < NK; j++)
#pragma GCC unroll 3
            for (int v = 0; v < nv; v++) {
                float *at = o + j * RP + v * VW;

                _mm512_mask_store_ps(at, live[v],
                                     v_fma(_mm512_cvtepi32_ps(n[j][v]), b[v],
                                           v_mul(v_load(at), a[v])));
            }
    }
}

/* nv vectors of rows from r0 on over the tile that lies coded */
INLINE void block(struct room *m, const struct sight *by, int n_row, int r0,
                  int d, const int nv, const bool all)
{
    VF top[NV], a[NV], b[NV];
    __mmask16 live[NV];

    scores(m, by, r0, d, top, nv, all);
    for (int v = 0; v < nv; v++) {
        const int r = r0 + v * VW;
        VF old = v_load(m->m + r), sum, scale, mn;

        live[v] = v_mask(n_row - r < VW ? n_row - r : VW);
        if (!all)
            live[v] &= sees(by, m, r, __builtin_ctzll(by->see));
        top[v] = v_add(v_ceil(top[v]), v_zero()); /* no -0 */
        scale = weights(m, by, r, v, top[v], &sum, all);
        mn = v_add(v_max(top[v], old), v_zero());
        a[v] = v_exp2(v_sub(old, mn));
        b[v] = v_exp2(v_sub(top[v], mn));
        _mm512_mask_storeu_ps(m->l + r, live[v],
                              v_fma(v_load(m->l + r), a[v], v_mul(sum, b[v])));
        _mm512_mask_storeu_ps(m->m + r, live[v], mn);
        b[v] = v_mul(scale, b[v]);
    }
    values(m, r0, d, a, b, live, nv);
}

#define BLOCK_CASE(n)                             \
    case n:                                       \
        if (all)                                  \
            block(m, by, n_row, r0, d, n, true);  \
        else                                      \
            block(m, by, n_row, r0, d, n, false); \
        break

static void block_any(struct room *m, const struct sight *by, int n_row, int r0,
                      int d, int nv)
{
    bool all = by->see == UINT64_MAX;

    for (int r = r0; r < r0 + nv * VW; r++)
        all = all && m->last[r] >= by->key0 + KV_TILE - 1;
    switch (nv) {
        BLOCK_CASE(1);
        BLOCK_CASE(2);
        BLOCK_CASE(3);
    }
}

void attention_avx512vnni(const struct attn_job *job)
{
    struct room m;
    const int d = job->d_head;
    int n_block;

    rooms(&m, job);
    turn_o(&m, job, false);
    n_block = (m.n_vec + NV - 1) / NV;
    for (int i = next_tile(job, -1), next; i < job->n_tile; i = next) {
        struct sight by = { job->see ? job->see[i] : UINT64_MAX,
                            job->key0 + KV_TILE * i };

        next = next_tile(job, i);
        if (!any_sees(job, 0, job->n_row, i))
            continue;
        code_tile(&m, job, i);
        for (int b = 0; b < n_block; b++) {
            int v0 = m.n_vec * b / n_block;
            int nv = m.n_vec * (b + 1) / n_block - v0;
            int n = job->n_row - v0 * VW;

            if (next < job->n_tile)
                fetch_tile(job, next, b, n_block);
            if (any_sees(job, v0 * VW, n < nv * VW ? n : nv * VW, i))
                block_any(&m, &by, job->n_row, v0 * VW, d, nv);
        }
    }
    turn_o(&m, job, true);
    memcpy(job->m, m.m, (size_t)job->n_row * sizeof *m.m);
    memcpy(job->l, m.l, (size_t)job->n_row * sizeof *m.l);
}

/* The shares of 64 keys of 16 rows from r on, of which n are wanted. */
static void shares(float *p, size_t ldp, const struct room *m,
                   const struct attn_job *job, int r, int n, int tile)
{
    for (int t = 0; t < KV_TILE; t += VW) {
        VF x[VW];

        for (int j = 0; j < VW; j++)
            x[j] = v_div(v_exp2_cubic(v_sub(v_load(m->s + (t + j) * BR),
                                            v_load(m->m + r))),
                         v_load(m->l + r));
        v_transpose(x);
        for (int j = 0; j < n; j++) {
            uint64_t keys = attn_visible(job, r + j, tile);

            v_store(p + (size_t)(r + j) * ldp + tile * KV_TILE + t,
                    _mm512_maskz_mov_ps((__mmask16)(keys >> t), x[j]));
        }
    }
}

void attention_avx512vnni_mass(const struct attn_job *job, float *p, size_t ldp)
{
    struct room m;

    rooms(&m, job);
    m.vb = NULL;
    for (int i = 0; i < job->n_tile; i++) {
        const struct sight by = { UINT64_MAX, job->key0 + KV_TILE * i };

        code_tile(&m, job, i);
        for (int r = 0; r < job->n_row; r += VW) {
            VF top[NV];

            scores(&m, &by, r, job->d_head, top, 1, true);
            shares(p, ldp, &m, job, r,
                   job->n_row - r < VW ? job->n_row - r : VW, i);
        }
    }
}
