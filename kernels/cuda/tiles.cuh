/*
 * tiles.cuh - tiles of K and V: where they are on the device, which of their
 * keys are seen, and their way into shared memory.
 *
 * K is [16 tokens of a row of channels], V [tokens][32 channels], f16, or codes
 * of q8h in the same order.
 */
#ifndef KERNELS_CUDA_TILES_CUH
#define KERNELS_CUDA_TILES_CUH

#include "kernels/cuda/cuda.cuh"

/* Of a block of attention. */
#define WARPS 4
#define THREADS (32 * WARPS)

template <int D> struct layout {
    /* K and V of one stage take turns (attention_cuda.cu) */
    static const bool turns = D > 128;
    static const int k_bytes = KV_TILE * D * 2;
    static const int stage_bytes = 2 * k_bytes;
    /* two stages; at the end o [4][16][D] f32, just one stage, m and l;
       of codes one stage, and two of codes, just as large.  In turns one:
       of codes half a stage, and K's and V's codes; o in two halves */
    static const int codes_bytes = k_bytes;
    static const int bytes = turns ? stage_bytes : 2 * stage_bytes;
    /* pieces of a thread at once: where o takes the registers, not all */
    static const int unroll = turns ? 4 : 8 * D / THREADS;
};

/* Where 8 tokens (half h of 16) of channel c of token group b lie. */
template <int D> __device__ inline uint8_t *k_at(uint8_t *k, int b, int c,
                                                 int h)
{
    return k + (b * D + c) * 32 + ((h ^ (c >> 2 & 1)) << 4);
}

/* Where channels 8 * q .. of token t lie. */
__device__ inline uint8_t *v_at(uint8_t *v, int t, int q)
{
    return v + (q / 4 * KV_TILE + t) * 64 + ((q % 4 ^ (t >> 1 & 3)) << 4);
}

/* --------------------------------------------------------- where tiles are */

/* A K and a V tile of one head on the device; of codes, their scales. */
struct tiles {
    const uint8_t *k, *v, *ks, *vs;
};

template <bool CODES>
__device__ inline struct tiles find_tile(const struct cuk_kv &kv, int layer,
                                         int n_kv_head, int head, int tile,
                                         int d)
{
    const bool own = !CODES && tile >= kv.n_shared;
    const size_t bytes = (size_t)KV_TILE * (size_t)d * (CODES ? 1 : 2);
    int i = own ? tile - kv.n_shared : tile, n;
    const uint8_t *base = find_chunk(own ? kv.own : kv.shared, layer, &i, &n);
    const size_t k = (size_t)head * (size_t)n + (size_t)i;
    const size_t v = k + (size_t)n_kv_head * (size_t)n;
    const uint8_t *scale = base + 2 * (size_t)n_kv_head * (size_t)n * bytes;
    struct tiles t = { base + k * bytes, base + v * bytes, NULL, NULL };

    if (CODES) {
        t.ks = scale + k * KV_TILE * 2;
        t.vs = scale + v * KV_TILE * 2;
    }
    return t;
}

/* The keys of a tile that rows of kv see (kv_view.h). */
__device__ inline uint64_t seen_keys(const struct cuk_kv &kv,
                                     const uint64_t *view, int tile)
{
    return tile < kv.n_view ? view[kv.view + tile] : ~(uint64_t)0;
}

/* The first tile in [t, end) that they see something of, or end. */
__device__ inline int next_seen(const struct cuk_kv &kv, const uint64_t *view,
                                int t, int end)
{
    while (t < end && seen_keys(kv, view, t) == 0)
        t++;
    return t;
}

/* ----------------------------------------------------------- to where they go */

/* Where piece j (8 elements) of a K tile lies, and of a V tile. */
template <int D, bool V>
__device__ inline uint8_t *place(uint8_t *to, int j, int d)
{
    const int full = d / 32 * 256, part = d % 32 / 8;
    const int r = j / 2;

    if (!V)
        return k_at<D>(to, r / d, r % d, j % 2);
    if (j < full)
        return v_at(to, j % 256 / 4, j / 256 * 4 + j % 4);
    return v_at(to, (j - full) / part, d / 32 * 4 + (j - full) % part);
}

/*
 * Start copying a tile of K or of V: 8 * d pieces of 16 bytes.  Where d is all
 * of D, a thread's next piece lies NEXT bytes after the one before, in memory
 * and where it goes alike, and no address is computed twice: with one division
 * a piece, addresses were half of all instructions.
 */
static const int NEXT = 16 * THREADS;

template <int D, bool V>
__device__ inline void fetch_half(uint8_t *to, const uint8_t *from, int d)
{
    const int tid = (int)threadIdx.x;

    if (d == D) {
        uint8_t *p = place<D, V>(to, tid, D);
#pragma unroll (layout<D>::unroll)
        for (int i = 0; i < 8 * D / THREADS; i++)
            copy_async16(p + NEXT * i, from + 16 * tid + NEXT * i);
        return;
    }
    for (int j = tid; j < 8 * d; j += THREADS)
        copy_async16(place<D, V>(to, j, d), from + 16 * j);
}

template <int D>
__device__ inline void fetch(uint8_t *stage, const struct tiles &from, int d)
{
    fetch_half<D, false>(stage, from.k, d);
    fetch_half<D, true>(stage + layout<D>::k_bytes, from.v, d);
}

/* The same of codes, to where they wait, as they are: 4 * d pieces. */
__device__ inline void fetch_codes_half(uint8_t *to, const uint8_t *from,
                                        int d)
{
    for (int j = (int)threadIdx.x; j < 4 * d; j += THREADS)
        copy_async16(to + 16 * j, from + 16 * j);
}

/* K, then V. */
__device__ inline void fetch_codes(uint8_t *to, const struct tiles &from,
                                   int d)
{
    fetch_codes_half(to, from.k, d);
    fetch_codes_half(to + KV_TILE * d, from.v, d);
}

struct alignas(8) codes8 { uint32_t w[2]; };
struct alignas(16) half8 { uint32_t w[4]; };

/* Piece j of codes that have arrived, as f16. */
__device__ inline void spread_piece(uint8_t *to, const uint8_t *codes, int j)
{
    const struct codes8 a = ((const struct codes8 *)codes)[j];
    struct half8 h;

    codes_f16(h.w, a.w[0]);
    codes_f16(h.w + 2, a.w[1]);
    *(struct half8 *)to = h;
}

/* All of them, to the f16 tile. */
template <int D, bool V>
__device__ inline void spread_half(uint8_t *to, const uint8_t *codes, int d)
{
    const int tid = (int)threadIdx.x;

    if (d == D) {
        uint8_t *p = place<D, V>(to, tid, D);
#pragma unroll (layout<D>::unroll)
        for (int i = 0; i < 8 * D / THREADS; i++)
            spread_piece(p + NEXT * i, codes, tid + THREADS * i);
        return;
    }
    for (int j = tid; j < 8 * d; j += THREADS)
        spread_piece(place<D, V>(to, j, d), codes, j);
}

template <int D>
__device__ inline void spread(uint8_t *stage, const uint8_t *codes, int d)
{
    spread_half<D, false>(stage, codes, d);
    spread_half<D, true>(stage + layout<D>::k_bytes, codes + KV_TILE * d, d);
}

#endif
