/*
 * attention_cuda.cu - softmax(q k) v on tensor cores, over tiles as stored.
 *
 * A block has four warps, one item (up to 64 query rows: tokens times the
 * heads that share a KV head) and one KV head.  Tiles of 64 keys come
 * asynchronously, two in flight.
 *
 *   many rows   a warp has 16 of the rows and all keys of a tile
 *   up to 16    all warps have the same rows, each a quarter of the keys,
 *               and their states are merged at the end: a step's few rows
 *               over a long prefix still read with four warps
 *
 * Rows of 16 bytes are exchanged within a line of shared memory (the xor in
 * k_at and v_at) so that eight of them hit eight different bank groups.
 *
 * Tiles of codec q8h are read as they are, too: int8 codes come into the room
 * of the other stage, two tiles in flight, and are spread there to the f16 tile
 * that the same products read (attention.cuh).  Query rows come rotated as the
 * keys are (cuk_rope_append); the sum stays rotated in its state, for
 * merge_kernel.  Items of codes always leave states, for a row's own tiles are
 * f16.
 *
 * Tiles that a view hides as a whole are skipped, hidden keys of others are
 * masked as those past a row's end.
 *
 * Items that cover only part of a row's keys leave (m, l, o) for merge_kernel.
 *
 * Bounds: a prefill by tensor cores and by exp2; a step by memory.
 */
#include "kernels/cuda/attention_out.cuh"

/* ---------------------------------------------------------------- the walk */

/* All tiles of an item, f16. */
template <int D, bool FEW>
__device__ static void walk(const struct attn_args &g,
                            const struct cuk_item &it,
                            const struct cuk_kv &kv, int n, struct rows<D> &r,
                            uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int head = (int)blockIdx.y, d = s.d_head;
    struct queries<D> q;
    struct scales none = {};

    q.load(r, d, lane);
    fetch<D>(smem, find_tile<false>(kv, g.a.layer, s.n_kv_head, head,
                                    it.tile0, d), d);
    copy_commit();
    for (int tile = it.tile0, stage = 0, next; tile < it.tile1;
         tile = next, stage ^= layout<D>::stage_bytes) {
        next = next_seen(kv, g.a.dev_view, tile + 1, it.tile1);
        if (next < it.tile1)
            fetch<D>(smem + (stage ^ layout<D>::stage_bytes),
                     find_tile<false>(kv, g.a.layer, s.n_kv_head, head, next,
                                      d), d);
        copy_commit();
        const struct keys of = { tile * KV_TILE,
                                 seen_keys(kv, g.a.dev_view, tile) };
        copy_wait<1>();
        __syncthreads();
        if (FEW)
            step<D, 1, false>(r, none, smem + stage, of, warp, q, lane);
        else if (16 * warp < n)
            step<D, 4, false>(r, none, smem + stage, of, 0, q, lane);
        __syncthreads();
    }
}

/* The end of a walk over codes: o in units of one.  It stays rotated. */
template <int D>
__device__ static void unit_of_one(const struct attn_args &g,
                                     const struct scales &sc,
                                     struct rows<D> &r)
{
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[j][i] *= sc.top * g.block.inverse;
    __syncthreads();           /* what follows has other use for the memory */
}

/* All tiles of an item, of codes; o stays rotated. */
template <int D, bool FEW>
__device__ static void walk_codes(const struct attn_args &g,
                                  const struct cuk_item &it,
                                  const struct cuk_kv &kv, int n,
                                  struct rows<D> &r, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int head = (int)blockIdx.y, d = s.d_head;
    uint8_t *codes = smem + layout<D>::stage_bytes;
    struct tiles from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head,
                                        it.tile0, d);
    struct queries<D> q;
    struct scales sc, next;

    fetch_codes(codes, from, d);
    copy_commit();
    load_scales(&next, from, lane);
    q.load(r, d, lane);
    sc.unit[0] = r.unit[0];
    sc.unit[1] = r.unit[1];
    sc.top = 0;
    for (int tile = it.tile0, stage = 0, after; tile < it.tile1;
         tile = after, stage ^= layout<D>::codes_bytes) {
        after = next_seen(kv, g.a.dev_view, tile + 1, it.tile1);
        sc.k = next.k;
        sc.v = next.v;
        if (after < it.tile1) {
            from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head, after, d);
            fetch_codes(codes + (stage ^ layout<D>::codes_bytes), from, d);
            load_scales(&next, from, lane);
        }
        copy_commit();
        const struct keys of = { tile * KV_TILE,
                                 seen_keys(kv, g.a.dev_view, tile) };
        copy_wait<1>();
        /* these codes are there, and nobody reads the tile before any more */
        __syncthreads();
        spread<D>(smem, codes + stage, d);
        __syncthreads();
        if (FEW)
            step<D, 1, true>(r, sc, smem, of, warp, q, lane);
        else if (16 * warp < n)
#pragma unroll 1               /* registers */
            for (int b = 0; b < KV_TILE / 16; b += 2)
                step<D, 2, true>(r, sc, smem, of, b, q, lane);
    }
    unit_of_one(g, sc, r);
}

/* --------------------------------------------------- heads above 128 channels
 *
 * A lane's sums alone are 128 registers, and two stages 128 KiB of shared
 * memory, which few devices have for a block.  So K and V take turns: while
 * one is multiplied, the other one is on its way, in one stage.
 */

template <int D, bool FEW>
__device__ static void walk_turns(const struct attn_args &g,
                                  const struct cuk_item &it,
                                  const struct cuk_kv &kv, int n,
                                  struct rows<D> &r, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int NB = FEW ? 1 : 4;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int head = (int)blockIdx.y, d = s.d_head, b0 = FEW ? warp : 0;
    const bool busy = FEW || 16 * warp < n;
    uint8_t *k = smem, *v = smem + layout<D>::k_bytes;
    struct tiles from = find_tile<false>(kv, g.a.layer, s.n_kv_head, head,
                                         it.tile0, d);
    struct queries<D> q;
    struct scales none = {};
    float p[NB][8];

    q.load(r, d, lane);
    fetch_half<D, false>(k, from.k, d);
    copy_commit();
    for (int tile = it.tile0, next; tile < it.tile1; tile = next) {
        const struct keys of = { tile * KV_TILE,
                                 seen_keys(kv, g.a.dev_view, tile) };
        fetch_half<D, true>(v, from.v, d);
        copy_commit();
        next = next_seen(kv, g.a.dev_view, tile + 1, it.tile1);
        copy_wait<1>();
        __syncthreads();
        if (busy)
            weigh<D, NB, false>(p, r, none, k, of, b0, q, lane);
        __syncthreads();
        if (next < it.tile1) {
            from = find_tile<false>(kv, g.a.layer, s.n_kv_head, head, next, d);
            fetch_half<D, false>(k, from.k, d);
        }
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        if (busy)
            add_values<D, NB>(r, v, p, b0, lane);
        __syncthreads();
    }
}

/* The same, of codes: they wait in the second half of the stage, and K's and
 * then V's are spread to the first.  (Channels past d keep what the other left
 * there: numbers, which meet zeros of q or go to no result.) */
template <int D, bool FEW>
__device__ static void walk_codes_turns(const struct attn_args &g,
                                        const struct cuk_item &it,
                                        const struct cuk_kv &kv, int n,
                                        struct rows<D> &r, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int NB = FEW ? 1 : 4;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int head = (int)blockIdx.y, d = s.d_head, b0 = FEW ? warp : 0;
    const bool busy = FEW || 16 * warp < n;
    uint8_t *k = smem + layout<D>::k_bytes, *v = k + layout<D>::k_bytes / 2;
    struct tiles from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head,
                                        it.tile0, d);
    struct queries<D> q;
    struct scales sc, next;
    float p[NB][8];

    fetch_codes_half(k, from.k, d);
    copy_commit();
    fetch_codes_half(v, from.v, d);
    copy_commit();
    load_scales(&next, from, lane);
    q.load(r, d, lane);
    sc.unit[0] = r.unit[0];
    sc.unit[1] = r.unit[1];
    sc.top = 0;
    for (int tile = it.tile0, after; tile < it.tile1; tile = after) {
        const struct keys of = { tile * KV_TILE,
                                 seen_keys(kv, g.a.dev_view, tile) };
        after = next_seen(kv, g.a.dev_view, tile + 1, it.tile1);
        sc.k = next.k;
        sc.v = next.v;
        copy_wait<1>();
        __syncthreads();       /* K's are there, and the tile before is done */
        spread_half<D, false>(smem, k, d);
        __syncthreads();
        if (after < it.tile1) {
            from = find_tile<true>(kv, g.a.layer, s.n_kv_head, head, after, d);
            fetch_codes_half(k, from.k, d);
            load_scales(&next, from, lane);
        }
        copy_commit();
        if (busy)
            weigh<D, NB, true>(p, r, sc, smem, of, b0, q, lane);
        copy_wait<1>();
        __syncthreads();
        spread_half<D, true>(smem, v, d);
        __syncthreads();
        if (after < it.tile1)
            fetch_codes_half(v, from.v, d);
        copy_commit();
        if (busy)
            add_values<D, NB>(r, smem, p, b0, lane);
    }
    unit_of_one(g, sc, r);
}

/* ------------------------------------------------------------------ the item */

template <int D, bool FEW, bool CODES>
__device__ static void attend(const struct attn_args &g,
                              const struct cuk_item &it,
                              const struct cuk_kv &kv, int n, uint8_t *smem)
{
    const struct cuk_shape &s = g.a.shape;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int group = s.n_head / s.n_kv_head, d = s.d_head;
    const int head = (int)blockIdx.y;
    struct rows<D> r;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = (FEW ? 0 : 16 * warp) + lane / 4 + 8 * h;
        int t = token_of(it, i, group);
        r.q[h] = NULL;
        r.unit[h] = 0;
        r.last[h] = -1;
        r.m[h] = -INFINITY;
        r.l[h] = 0;
        if (i < n) {
            const size_t row = (size_t)t * (size_t)s.n_head +
                               (size_t)(head * group + i % group);
            r.last[h] = g.a.dev_row[t].pos;
            r.q[h] = (CODES ? g.a.dev_q_rotated : g.a.dev_q) + row * (size_t)d;
            if (CODES)
                r.unit[h] = g.a.dev_q_unit[row];
        }
    }
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[j][i] = 0;
    if (d < D) {      /* channels that no copy fills */
        for (int j = (int)threadIdx.x;
             j < layout<D>::bytes / 4; j += THREADS)
            ((uint32_t *)smem)[j] = 0;
        __syncthreads();
    }

    if constexpr (CODES && layout<D>::turns)
        walk_codes_turns<D, FEW>(g, it, kv, n, r, smem);
    else if constexpr (CODES)
        walk_codes<D, FEW>(g, it, kv, n, r, smem);
    else if constexpr (layout<D>::turns)
        walk_turns<D, FEW>(g, it, kv, n, r, smem);
    else
        walk<D, FEW>(g, it, kv, n, r, smem);

#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.l[h] += __shfl_xor_sync(WARP_ALL, r.l[h], 1);
        r.l[h] += __shfl_xor_sync(WARP_ALL, r.l[h], 2);
    }
    if constexpr (FEW)
        join<D>(g, it, n, r, CODES, smem);
    else
        put_rows<D>(g, it, n, r, CODES);
}

template <int D>
__global__ static void __launch_bounds__(THREADS)
attention_kernel(struct attn_args g)
{
    CUK_SMEM(smem);
    const struct cuk_item it = g.a.dev_item[blockIdx.x];
    const int n = it.n_row * (g.a.shape.n_head / g.a.shape.n_kv_head);

    if (n == 0)
        return;
    const struct cuk_kv kv = g.a.dev_kv[it.kv];
    const bool codes = kv.codes && it.tile0 < kv.n_shared;
    if (codes && n <= 16)
        attend<D, true, true>(g, it, kv, n, smem);
    else if (codes)
        attend<D, false, true>(g, it, kv, n, smem);
    else if (n <= 16)
        attend<D, true, false>(g, it, kv, n, smem);
    else
        attend<D, false, false>(g, it, kv, n, smem);
}

/* ---------------------------------------------------------------- launching */

/* More shared memory than a kernel has unasked. */
template <int D>
static int ask_shared_memory(struct cuk_dev *d)
{
    const int bytes = layout<D>::bytes;

    if (bytes > d->info.smem_block)
        CUK_REFUSE(d, "cuk_attention: shared memory of this device");
    CUK_CALL(d, cudaFuncSetAttribute,
             ((const void *)attention_kernel<D>,
              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return 0;
}

template <int D>
static int launch(struct cuk_stream *s, const struct attn_args &g)
{
    dim3 grid((unsigned)g.a.n_item, (unsigned)g.a.shape.n_kv_head);
    int st = ask_shared_memory<D>(s->d);

    if (st == 0)
        CUK_RUN(s, "attention_kernel", attention_kernel<D>, grid,
                dim3(THREADS), (size_t)layout<D>::bytes, g);
    return st;
}

template <int D>
static int fitting_blocks(struct cuk_dev *d, int *n)
{
    int st = ask_shared_memory<D>(d);

    if (st == 0)
        CUK_CALL(d, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                 (n, (const void *)attention_kernel<D>, THREADS,
                  layout<D>::bytes));
    return st;
}

int cuk_attention_blocks(struct cuk_dev *d, const struct cuk_shape *shape,
                         int *n)
{
    int st = shape->d_head <= 64    ? fitting_blocks<64>(d, n)
             : shape->d_head <= 128 ? fitting_blocks<128>(d, n)
                                    : fitting_blocks<256>(d, n);

    *n = (st == 0 && *n > 0 ? *n : 1) * d->info.n_sm;
    return st;
}

int cuk_attention(struct cuk_stream *s, const struct cuk_attn *a)
{
    const struct cuk_shape *sh = &a->shape;
    struct attn_args g;
    int st;

    if (!cuk_shape_ok(sh) || a->n_item < 1 || a->n_row < 1 ||
        !cuk_operand(a->out_type))
        CUK_REFUSE(s->d, "cuk_attention");
    g.a = *a;
    g.state = (float *)a->dev_state;
    g.block = q8h_block(sh->d_head);
    st = sh->d_head <= 64    ? launch<64>(s, g)
         : sh->d_head <= 128 ? launch<128>(s, g)
                             : launch<256>(s, g);
    if (st == 0 && a->n_state != 0)
        st = cuk_merge(s, g);
    return st;
}
