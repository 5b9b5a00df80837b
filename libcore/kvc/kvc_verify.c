/*
 * kvc_verify.c - check every byte of an open cache.
 *
 * Opening has checked the header, the small sections and how everything fits
 * together; that is done again here on the bytes as they are now, then what
 * opening leaves out: padding, every chunk's XXH3, expansion and SHA-256,
 * and that unused token positions are zero.  Of several faults, the one that
 * comes first in the file is named, on any number of threads.
 */
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_impl.h"
#include "util/mem.h"
#include "util/pool.h"

struct verify {
    const cag_kvc *k;
    uint8_t **raw;  /* [threads], NULL for plain codecs */
    cag_status *st; /* [batch] */
    cag_error *err; /* [batch] */
    int first;
};

static cag_status zero_range(const cag_kvc *k, const char *what, uint64_t from,
                             uint64_t to, cag_error *err)
{
    for (uint64_t i = from; i < to; i++)
        if (k->data[i])
            return cag_fail(err, CAG_E_CORRUPT, k->name, (int64_t)i,
                            "the padding of %s is not zero", what);
    return CAG_OK;
}

/* Positions after the last token are zero: in a K tile [64/16][d][16], in a
 * V tile [d/32][64][32]. */
static bool tail_is_zero(const struct kvc_shape *s, const uint8_t *tile,
                         bool is_v, int used)
{
    size_t e = (size_t)kvc_elem_bytes(s), d = (size_t)s->d_head;

    for (size_t c = 0; c < d; c++)
        for (size_t t = (size_t)used; t < KVC_TILE; t++) {
            size_t w = d - c / 32 * 32 < 32 ? d % 32 : 32;
            size_t at = is_v ? c / 32 * KVC_TILE * 32 + t * w + c % 32
                             : (t / 16 * d + c) * 16 + t % 16;

            for (size_t b = 0; b < e; b++)
                if (tile[at * e + b])
                    return false;
        }
    return true;
}

static bool scales_are_zero(const uint8_t *scale, int used)
{
    for (int i = 2 * used; i < 2 * KVC_TILE; i++)
        if (scale[i])
            return false;
    return true;
}

static cag_status check_tail(const cag_kvc *k, int layer, int chunk,
                             const uint8_t *raw, cag_error *err)
{
    const struct kvc_shape *s = &k->shape;
    int used = s->n_tok % KVC_TILE;
    int last = kvc_chunk_tiles(s, chunk) - 1;

    if (used == 0 || chunk != kvc_n_chunk(s) - 1)
        return CAG_OK;
    for (int v = 0; v < 2; v++)
        for (int h = 0; h < s->n_kv_head; h++)
            if (!tail_is_zero(s, raw + kvc_tile_off(s, chunk, v, h, last),
                              v != 0, used) ||
                (kvc_is_q8h(s) &&
                 !scales_are_zero(raw + kvc_scale_off(s, chunk, v, h, last),
                                  used)))
                return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                                "section KV: layer %d, chunk %d: a position "
                                "behind the last token is not zero",
                                layer, chunk);
    return CAG_OK;
}

static cag_status check_chunk(const cag_kvc *k, int layer, int chunk,
                              uint8_t *dst, cag_error *err)
{
    struct kvc_chunk_ref r;
    const uint8_t *raw;
    uint8_t d[SHA256_SIZE];
    uint64_t end;
    cag_status st = kvc_chunk_load(k, layer, chunk, dst, &raw, err);

    if (st)
        return st;
    kvc_chunk_ref(k, layer, chunk, &r);
    st = sha256_buf(raw, r.n_raw, d, err);
    if (st)
        return st;
    if (memcmp(d, r.sha256, sizeof d) != 0)
        return kvc_fail_damaged(k, r.off, layer, chunk, " (SHA-256 differs)",
                                err);
    end = r.off + r.n_stored;
    st = zero_range(k, "section KV", end, kvc_page_up(end), err);
    return st ? st : check_tail(k, layer, chunk, raw, err);
}

static void verify_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    struct verify *v = ctx;
    int per_layer = kvc_n_chunk(&v->k->shape);

    for (int64_t i = begin; i < end; i++) {
        int at = v->first + (int)i;

        v->err[i] = (cag_error)CAG_ERROR_INIT;
        v->st[i] = check_chunk(v->k, at / per_layer, at % per_layer,
                               v->raw ? v->raw[thread] : NULL, &v->err[i]);
    }
}

/* The file as it is now, opened once more, and the gaps between sections. */
static cag_status verify_small(const cag_kvc *k, cag_error *err)
{
    cag_kvc *again;
    cag_status st = kvc_parse(k->data, k->size, k->name, &again, err);

    if (st)
        return st;
    cag_kvc_close(again);
    for (int i = 0; i < k->n_section && !st; i++) {
        const struct kvc_section *s = &k->section[i];
        uint64_t end = s->off + s->size;
        char what[16];

        snprintf(what, sizeof what, "section %s", s->name);
        if (s != k->core[KVC_KV])
            st = zero_range(k, what, end, kvc_page_up(end), err);
    }
    return st;
}

static cag_status verify_chunks(struct verify *v, struct pool *pool, int batch,
                                cag_progress_fn progress, void *ctx,
                                cag_error *err)
{
    const struct kvc_shape *s = &v->k->shape;
    int per_layer = kvc_n_chunk(s), n_chunk = per_layer * s->n_layer;
    uint64_t done = 0;

    for (v->first = 0; v->first < n_chunk; v->first += batch) {
        int n = n_chunk - v->first < batch ? n_chunk - v->first : batch;

        pool_run(pool, verify_range, v, n, 1);
        for (int i = 0; i < n; i++) {
            if (v->st[i])
                return cag_error_copy(err, &v->err[i]);
            done += kvc_chunk_bytes(s, (v->first + i) % per_layer);
        }
        cag_progress p = { "verify", CAG_UNIT_BYTES, done,
                           v->k->info.kv_raw_bytes };

        if (progress && !progress(ctx, &p))
            return cag_fail(err, CAG_E_CANCELLED, v->k->name, -1, "cancelled");
    }
    return CAG_OK;
}

cag_status cag_kvc_verify(const cag_kvc *k, int n_thread,
                          cag_progress_fn progress, void *ctx, cag_error *err)
{
    struct verify v = { .k = k };
    struct pool *pool = NULL;
    int n = 0, batch;
    cag_status st = verify_small(k, err);

    if (!st)
        st = pool_new(&pool, n_thread, err);
    if (st)
        return st;
    n = pool_size(pool);
    batch = 4 * n;
    v.st = mem_alloc_array((size_t)batch, sizeof *v.st);
    v.err = mem_alloc_array((size_t)batch, sizeof *v.err);
    if (!kvc_chunk_in_place(k))
        v.raw = mem_alloc_array((size_t)n, sizeof *v.raw);
    if (!v.st || !v.err || (!v.raw && !kvc_chunk_in_place(k))) {
        st = cag_fail_nomem(err, "verification");
        goto out;
    }
    for (int i = 0; v.raw && i < n; i++) {
        v.raw[i] = mem_alloc_aligned(64, kvc_chunk_bytes(&k->shape, 0));
        if (!v.raw[i]) {
            st = cag_fail_nomem(err, "KV chunk");
            goto out;
        }
    }
    st = verify_chunks(&v, pool, batch, progress, ctx, err);
    if (!st)
        atomic_store(&k->lazy->verified, true);
out:
    for (int i = 0; v.raw && i < n; i++)
        mem_free(v.raw[i]);
    mem_free(v.raw);
    mem_free(v.err);
    mem_free(v.st);
    pool_free(pool);
    return st;
}
