/*
 * gemm_amx.c - the prompt phase's product in bf16, on the tile registers of
 * AMX-BF16: the order of operations that kernels.h calls bf16-tiles.
 *
 * tdpbf16ps takes a tile of 16 tokens x 32 inputs and one of 32 inputs x 16
 * weight rows, and adds a 16 x 16 tile of f32.  Two of each give four results
 * for four loads.
 *
 *   xp     [token / 16][input / 32][16 tokens][32 bf16]       1 KB a tile
 *   panel  [input / 32][2][16 pairs of inputs][16 rows][2 bf16]
 *   acc    [token / 32][4 tiles][16][16], between chunks of inputs
 *
 * Loops: parts of the tokens whose xp stays in L2, blocks of 32 rows, chunks
 * of inputs whose panel stays in L1 (expand to f32, round, transpose pairs),
 * blocks of 32 tokens.  What is unused of a tile is zero.
 *
 * Bound by the transport from L2 of the tokens' tiles, 2 KB for four products.
 */
#include "kernels/x86/tile_amx.h"
#include "kernels/x86/avx512.h"
#include "kernels/gemm_fast.h"

#include <string.h>

enum {
    BLOCK = 2 * TR, /* tokens, and weight rows, of a block */
    KC = 512,       /* inputs of a chunk: a multiple of any type's
                       block; all, if these are not many more */
    KC_ALL = 640,
    KU = 256, /* inputs expanded at a time */
    PART_BYTES = 1600 << 10,
    PART_MAX = 512,             /* tokens of a part, as many as acc holds */
    PANEL = KC_ALL * BLOCK / 2, /* floats of scratch */
    STAGE = TR * KU,
    ACC = PART_MAX * BLOCK,
    EDGE = BLOCK * BLOCK
};
_Static_assert(PANEL + STAGE + ACC + EDGE <= GEMM_SCRATCH,
               "the scratch is too small");

static size_t tiles_of(int d_in)
{
    return ((size_t)d_in + TK - 1) / TK;
}

static size_t tokens_of(int n_tok)
{
    return ((size_t)n_tok + TR - 1) / TR * TR;
}

size_t gemm_amx_pack_size(int n_tok, int d_in)
{
    return tokens_of(n_tok) * tiles_of(d_in) * TK / 2;
}

/* 32 floats to bf16 in order; n of them, then zeros */
INLINE __m512i round32(const float *x, int n)
{
    VF lo = n >= TK ? v_load(x) : v_load_n(x, n < VW ? n : VW);
    VF hi = n >= TK  ? v_load(x + VW)
            : n > VW ? v_load_n(x + VW, n - VW)
                     : v_zero();

    return (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
}

void gemm_amx_pack(float *xp, const float *x, size_t ldx, int n_tok, int d_in,
                   int t0, int t1)
{
    size_t nk = tiles_of(d_in);

    for (int t = t0; t < t1; t += TR) {
        uint16_t *group = (uint16_t *)xp + (size_t)t * nk * TK;

        for (int i = 0; i < TR; i++) {
            const float *row = x + (size_t)(t + i) * ldx;
            uint16_t *out = group + (size_t)i * TK;

            for (size_t k = 0; k < nk; k++, out += TILE)
                _mm512_store_si512(
                    out, t + i < n_tok
                             ? round32(row + k * TK, d_in - (int)k * TK)
                             : _mm512_setzero_si512());
        }
    }
}

/* Bytes of weights from input k on, kc of them, to the cache. */
static void fetch_rows(const struct kmat *w, int r0, int r1, int k, int kc)
{
    size_t block = (size_t)kt_block_weights(w->type);
    size_t off = (size_t)k / block * kt_block_bytes(w->type);
    size_t bytes = (size_t)kc / block * kt_block_bytes(w->type);

    for (int r = r0; r < r1; r++)
        for (size_t i = 0; i < bytes + 63; i += 64)
            _mm_prefetch((const char *)kmat_row(w, r) + off + i, _MM_HINT_T1);
}

/* nr <= 16 rows of kc inputs from input k on, to every second tile of out */
static void expand(uint16_t *out, float *stage, const struct kmat *w, int row0,
                   int nr, int k, int kc)
{
    size_t block = (size_t)kt_block_weights(w->type);

    for (int u = 0; u < kc; u += KU) {
        int n = kc - u < KU ? kc - u : KU;
        size_t off = (size_t)(k + u) / block * kt_block_bytes(w->type);

        for (int r = 0; r < nr; r++)
            unpack_avx512(stage + r * KU, w->type, kmat_row(w, row0 + r) + off,
                          n);
        for (int i = 0; i < n; i += TK, out += 2 * TILE) {
            VF v[VW];

            for (int r = 0; r < TR; r++)
                v[r] = r < nr ? _mm512_castsi512_ps(
                                    round32(stage + r * KU + i, n - i))
                              : v_zero();
            v_transpose(v);
            for (int r = 0; r < TR; r++)
                v_store((float *)(void *)(out + r * TK), v[r]);
        }
    }
}

/*
 * acc [na][nb] tiles += nk tiles of tokens at a (the second 16 tokens lie
 * a_step further) times nk pairs of tiles of weights at b; kept in the tile
 * registers 0..3 meanwhile.
 */
INLINE void multiply(const uint16_t *a, size_t a_step, const uint16_t *b,
                     int nk, const int na, const int nb)
{
    for (int k = 0; k < nk; k++, a += TILE, b += 2 * TILE) {
        _tile_loadd(6, b, 64);
        _tile_loadd(4, a, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (nb > 1) {
            _tile_loadd(7, b + TILE, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (na > 1) {
            _tile_loadd(5, a + a_step, 64);
            _tile_dpbf16ps(2, 5, 6);
            if (nb > 1)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
}

INLINE void start(const float *acc, bool first, const int na, const int nb)
{
    if (first) {
        _tile_zero(0);
        if (nb > 1)
            _tile_zero(1);
        if (na > 1)
            _tile_zero(2);
        if (na > 1 && nb > 1)
            _tile_zero(3);
        return;
    }
    _tile_loadd(0, acc, 64);
    if (nb > 1)
        _tile_loadd(1, acc + 256, 64);
    if (na > 1)
        _tile_loadd(2, acc + 512, 64);
    if (na > 1 && nb > 1)
        _tile_loadd(3, acc + 768, 64);
}

/* the tile of tokens 16 a, rows 16 b to out + a * step_a + b * step_b */
INLINE void finish(float *out, size_t ld, size_t step_a, size_t step_b,
                   const int na, const int nb)
{
    size_t bytes = ld * sizeof *out;

    _tile_stored(0, out, bytes);
    if (nb > 1)
        _tile_stored(1, out + step_b, bytes);
    if (na > 1)
        _tile_stored(2, out + step_a, bytes);
    if (na > 1 && nb > 1)
        _tile_stored(3, out + step_a + step_b, bytes);
}

/* One block: its tokens and rows, and where the result goes. */
struct block {
    float *acc, *edge, *y;
    size_t ldy;
    int n_tok, n_row;
    bool first, last;
};

INLINE void block_run(const struct block *o, const uint16_t *a, size_t a_step,
                      const uint16_t *b, int nk, const int na, const int nb)
{
    for (int t = 0; o->last && t < o->n_tok; t++) {
        _mm_prefetch((const char *)(o->y + (size_t)t * o->ldy), _MM_HINT_ET0);
        if (nb > 1)
            _mm_prefetch((const char *)(o->y + (size_t)t * o->ldy + TR),
                         _MM_HINT_ET0);
    }
    start(o->acc, o->first, na, nb);
    multiply(a, a_step, b, nk, na, nb);
    if (!o->last) {
        finish(o->acc, TR, 512, 256, na, nb);
    } else if (o->n_tok == na * TR && o->n_row == nb * TR) {
        finish(o->y, o->ldy, TR * o->ldy, TR, na, nb);
    } else {
        finish(o->edge, BLOCK, TR * BLOCK, TR, na, nb);
        for (int t = 0; t < o->n_tok; t++)
            memcpy(o->y + (size_t)t * o->ldy, o->edge + t * BLOCK,
                   (size_t)o->n_row * sizeof *o->y);
    }
}

static void block_any(const struct block *o, const uint16_t *a, size_t a_step,
                      const uint16_t *b, int nk)
{
    if (o->n_tok > TR && o->n_row > TR)
        block_run(o, a, a_step, b, nk, 2, 2);
    else if (o->n_tok > TR)
        block_run(o, a, a_step, b, nk, 2, 1);
    else if (o->n_row > TR)
        block_run(o, a, a_step, b, nk, 1, 2);
    else
        block_run(o, a, a_step, b, nk, 1, 1);
}

/*
 * Rows [row0, row0 + n_row), at most BLOCK, of the n_tok tokens at xp; the
 * rows up to row1 come next.
 */
static void rows_run(float *y, size_t ldy, const uint16_t *xp, int n_tok,
                     const struct kmat *w, int row0, int n_row, int row1,
                     float *scratch)
{
    uint16_t *panel = (uint16_t *)scratch;
    float *stage = scratch + PANEL, *acc = stage + STAGE;
    size_t group = tiles_of(w->d_in) * TILE;
    int step = w->d_in <= KC_ALL ? w->d_in : KC;
    struct block o = { .edge = acc + ACC, .ldy = ldy, .n_row = n_row };

    for (int k = 0; k < w->d_in; k += step) {
        int kc = w->d_in - k < step ? w->d_in - k : step;

        for (int r = 0; r < n_row; r += TR)
            expand(panel + (size_t)(r / TR) * TILE, stage, w, row0 + r,
                   n_row - r < TR ? n_row - r : TR, k, kc);
        barrier();
        o.first = k == 0;
        o.last = k + kc == w->d_in;
        if (!o.last)
            fetch_rows(w, row0, row0 + n_row, k + kc,
                       w->d_in - k - kc < step ? w->d_in - k - kc : step);
        else
            fetch_rows(w, row0 + n_row,
                       row0 + n_row + BLOCK < row1 ? row0 + n_row + BLOCK
                                                   : row1,
                       0, step);
        for (int t = 0; t < n_tok; t += BLOCK) {
            o.acc = acc + (size_t)t * BLOCK;
            o.y = y + (size_t)t * ldy + (size_t)row0;
            o.n_tok = n_tok - t < BLOCK ? n_tok - t : BLOCK;
            block_any(&o, xp + (size_t)(t / TR) * group + (size_t)k / TK * TILE,
                      group, panel, (int)tiles_of(kc));
        }
    }
}

void gemm_amx(float *y, size_t ldy, const float *xp, int n_tok,
              const struct kmat *w, int row0, int row1, float *scratch)
{
    const uint16_t *x = (const uint16_t *)xp;
    size_t row = tiles_of(w->d_in) * TK;
    int fit = (int)(PART_BYTES / (row * sizeof *x)) / BLOCK * BLOCK;
    int max = fit < BLOCK * 4 ? BLOCK * 4 : fit > PART_MAX ? PART_MAX : fit;
    int n_part = (n_tok + max - 1) / max;
    int part = ((n_tok + n_part - 1) / n_part + BLOCK - 1) / BLOCK * BLOCK;

    tiles_set_up();
    for (int t = 0; t < n_tok; t += part)
        for (int r = row0; r < row1; r += BLOCK)
            rows_run(y + (size_t)t * ldy, ldy, x + (size_t)t * row,
                     n_tok - t < part ? n_tok - t : part, w, r,
                     row1 - r < BLOCK ? row1 - r : BLOCK, row1, scratch);
    barrier();
    _tile_release();
}
