/*
 * attention_amx.c - a prompt's attention in bf16 on the tile registers of
 * AMX-BF16, the order of operations that kernels.h calls bf16-tiles.
 *
 *   qa  [row / 16][channel / 32][16 rows][32 bf16]     1 KB a tile
 *   kb  [key / 16][channel / 32][16 pairs of channels][16 keys][2 bf16]
 *   vb  [channel / 16][key / 32][16 pairs of keys][16 channels][2 bf16]
 *   s   [16 rows][64 keys] f32, pa the same in bf16 as qa
 *
 * K and V are expanded once for all rows of a call (attention_bf16.h).  Rows
 * that do not exist are zero.
 *
 * Bound by exp2 (scores to weights): the products take a sixteenth of the
 * time that they take in f32.
 * Tried: asking for the next block's scores before this one's exp2 (no gain);
 * adding a block's values after the next one's weights, so that no tile is
 * loaded right after it was stored to (no gain).
 */
#include "kernels/x86/tile_amx.h"
#include "kernels/x86/avx512.h"
#include "kernels/gemm_fast.h"

#include <string.h>

#define MR 16
#define CUBIC
#include "kernels/x86/attention_bf16.h"

enum {
    S_FLOATS = TR * KV_TILE,
    Q_FLOATS = (ATTN_ROWS + TR - 1) / TR * TR * D_MAX / 2,
    KV_FLOATS = KV_TILE * D_MAX / 2,
    P_FLOATS = TR * KV_TILE / 2,
    O_FLOATS = TR * D_MAX
};
_Static_assert(S_FLOATS + Q_FLOATS + 2 * KV_FLOATS + P_FLOATS + O_FLOATS <=
                   ATTN_SCRATCH,
               "the scratch is too small");

struct room {
    float *s, *o;
    uint16_t *qa, *pa;
    struct pairs kv;
};

static struct room rooms(float *scratch)
{
    struct room m;

    m.s = scratch;
    m.o = m.s + S_FLOATS;
    m.qa = (uint16_t *)(m.o + O_FLOATS);
    m.kv.k = m.qa + 2 * Q_FLOATS;
    m.kv.v = m.kv.k + 2 * KV_FLOATS;
    m.pa = m.kv.v + 2 * KV_FLOATS;
    return m;
}

static void pack_q(uint16_t *qa, const struct attn_job *job)
{
    int nk = job->d_head / TK;

    for (int r = 0; r < (job->n_row + TR - 1) / TR * TR; r++)
        for (int k = 0; k < nk; k++) {
            uint16_t *out =
                qa + ((size_t)(r / TR * nk + k) * TR + (size_t)(r % TR)) * TK;

            if (r < job->n_row)
                put_row(out, job->q + (size_t)r * job->ldq + k * TK);
            else
                _mm512_store_si512(out, _mm512_setzero_si512());
        }
}

/* s = q k of 16 rows and a tile's keys */
static void scores(float *s, const uint16_t *qa, const uint16_t *kb, int nk)
{
    const uint16_t *k1 = kb + nk * TILE, *k2 = k1 + nk * TILE;
    const uint16_t *k3 = k2 + nk * TILE;

    barrier();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int k = 0; k < nk * TILE; k += TILE) {
        _tile_loadd(4, qa + k, 64);
        _tile_loadd(5, kb + k, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, k1 + k, 64);
        _tile_dpbf16ps(1, 4, 6);
        _tile_loadd(7, k2 + k, 64);
        _tile_dpbf16ps(2, 4, 7);
        _tile_loadd(5, k3 + k, 64);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, s, KV_TILE * sizeof *s);
    _tile_stored(1, s + 16, KV_TILE * sizeof *s);
    _tile_stored(2, s + 32, KV_TILE * sizeof *s);
    _tile_stored(3, s + 48, KV_TILE * sizeof *s);
    barrier();
}

/* o [16][d] += p v for 32 channels */
INLINE void values(float *o, int d, const uint16_t *pa, const uint16_t *vb)
{
    size_t ld = (size_t)d * sizeof *o;

    _tile_loadd(0, o, ld);
    _tile_loadd(1, o + 16, ld);
    for (int k = 0; k < 2 * TILE; k += TILE) {
        _tile_loadd(4, pa + k, 64);
        _tile_loadd(5, vb + k, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, vb + 2 * TILE + k, 64);
        _tile_dpbf16ps(1, 4, 6);
    }
    _tile_stored(0, o, ld);
    _tile_stored(1, o + 16, ld);
}

/* to[i] = from[i] * a for a row of d */
static void scaled_row(float *to, const float *from, float a, int d)
{
    for (int c = 0; c < d; c += VW)
        v_store(to + c, v_mul(v_load(from + c), v_set1(a)));
}

/* nr <= 16 rows from r0 on, which is a multiple of 16, over one tile */
static void block(const struct attn_job *job, const struct room *m, int r0,
                  int nr, int tile)
{
    const int d = job->d_head, nk = d / TK;
    const bool codes = job->kv_type == KV_Q8H;
    float *o = job->o + (size_t)r0 * (size_t)d, *to = o;
    float a[TR];
    bool skip[TR], all = nr == TR;

    scores(m->s, m->qa + (size_t)r0 / TR * (size_t)(nk * TILE), m->kv.k, nk);
    if (codes)
        scale_rows(m->s, m->kv.ks, nr);
    softmax(m->s, job, r0, nr, tile, codes ? m->kv.vs : NULL, a, skip);
    for (int r = 0; r < nr; r++) {
        put_row(m->pa + r * TK, m->s + r * KV_TILE);
        put_row(m->pa + TILE + r * TK, m->s + r * KV_TILE + TK);
        all = all && !skip[r];
    }
    if (!all) /* rows that must stay as they are */
        to = m->o;
    for (int r = 0; r < nr; r++)
        scaled_row(to + r * d, o + (size_t)r * (size_t)d, a[r], d);
    barrier();
    for (int c = 0; c < d; c += 32)
        values(to + c, d, m->pa, m->kv.v + c / 16 * 2 * TILE);
    barrier();
    for (int r = 0; !all && r < nr; r++)
        if (!skip[r])
            memcpy(o + (size_t)r * (size_t)d, to + r * d,
                   (size_t)d * sizeof *o);
}

void attention_amx(const struct attn_job *job)
{
    struct room m = rooms(job->scratch);
    int n_block = (job->n_row + TR - 1) / TR;

    memset(m.o, 0, O_FLOATS * sizeof *m.o);
    memset(m.pa, 0, P_FLOATS * sizeof *m.s);
    pack_q(m.qa, job);
    tiles_set_up();
    for (int i = next_tile(job, -1), next; i < job->n_tile; i = next) {
        next = next_tile(job, i);
        if (!any_sees(job, 0, job->n_row, i))
            continue;
        expand_tile(&m.kv, job, i);
        for (int b = 0; b < n_block; b++) {
            int r0 = b * TR, nr = job->n_row - r0 < TR ? job->n_row - r0 : TR;

            if (next < job->n_tile)
                fetch_tile(job, next, b, n_block);
            if (any_sees(job, r0, nr, i))
                block(job, &m, r0, nr, i);
        }
    }
    barrier();
    _tile_release();
}

void attention_amx_mass(const struct attn_job *job, float *p, size_t ldp)
{
    struct room m = rooms(job->scratch);
    int nk = job->d_head / TK;

    m.kv.v = NULL;
    pack_q(m.qa, job);
    tiles_set_up();
    for (int i = 0; i < job->n_tile; i++) {
        if (!any_sees(job, 0, job->n_row, i)) {
            no_shares(p, ldp, 0, job->n_row, i);
            continue;
        }
        expand_tile(&m.kv, job, i);
        for (int r0 = 0; r0 < job->n_row; r0 += TR) {
            int nr = job->n_row - r0 < TR ? job->n_row - r0 : TR;

            scores(m.s, m.qa + (size_t)r0 / TR * (size_t)(nk * TILE), m.kv.k,
                   nk);
            if (job->kv_type == KV_Q8H)
                scale_rows(m.s, m.kv.ks, nr);
            shares(p, ldp, m.s, job, r0, nr, i);
        }
    }
    barrier();
    _tile_release();
}
