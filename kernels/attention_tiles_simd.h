/*
 * attention_tiles_simd.h - what every attention in the vectors of
 * simd_<set>.h asks of tiles: elements as floats, which rows see a tile,
 * fetching the next.
 */
#ifndef KERNELS_ATTENTION_TILES_SIMD_H
#define KERNELS_ATTENTION_TILES_SIMD_H

INLINE VF load_kv(const void *p, size_t i, const int kv_type)
{
    if (kv_type == KV_F16)
        return v_load_f16((const uint16_t *)p + i);
    if (kv_type == KV_Q8H)
        return v_load_i8((const int8_t *)p + i);
    return v_load((const float *)p + i);
}

/* May any of n rows from r0 on see a key of tile i? */
static bool any_sees(const struct attn_job *job, int r0, int n, int i)
{
    int64_t key0 = job->key0 + (int64_t)KV_TILE * i;

    if (job->see && !job->see[i])
        return false;
    for (int r = r0; r < r0 + n; r++)
        if (job->last[r] >= key0)
            return true;
    return false;
}

/* The first tile after i that is not hidden, or n_tile. */
static int next_tile(const struct attn_job *job, int i)
{
    do
        i++;
    while (i < job->n_tile && job->see && !job->see[i]);
    return i;
}

/*
 * The share of block b of n_block of tile i, which comes next: tiles lie
 * anywhere, and expanding one waits for each of its lines otherwise.
 */
static void fetch_tile(const struct attn_job *job, int i, int b, int n_block)
{
    size_t bytes = (size_t)job->d_head * KV_TILE *
                   (job->kv_type == KV_Q8H   ? 1
                    : job->kv_type == KV_F16 ? 2
                                             : 4);
    size_t end = bytes * ((size_t)b + 1) / (size_t)n_block;

    for (size_t at = bytes * (size_t)b / (size_t)n_block & ~(size_t)63;
         at < end; at += 64) {
        v_prefetch_l2((const char *)job->k[i] + at);
        v_prefetch_l2((const char *)job->v[i] + at);
    }
}

#endif
