/*
 * check_cache.c - a timeline's K and V in a file, in the clothes of the test
 * fixture: what is measured is how they travel.
 */
#include "tests/cuda/check_model.h"

#include "tests/lib/kvc_fixture.h"

#include "engine/session.h"

struct source {
    struct kvc_shape shape;
    const cag_session *s; /* NULL: codes out of nothing */
};

static cag_status export_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                               cag_error *err)
{
    const struct source *x = ctx;

    return session_export_chunk(x->s, &x->shape, layer, chunk, dst, err);
}

/* Called by many threads: what is random depends on the place alone. */
static cag_status make_codes(void *ctx, int layer, int chunk, uint8_t *dst,
                             cag_error *err)
{
    const struct kvc_shape *s = &((const struct source *)ctx)->shape;
    const uint16_t scale = 0x2400; /* 2^-6: values up to 2 */
    const float one = 1;
    size_t n = kvc_scale_off(s, chunk, 0, 0, 0);
    size_t scales = kvc_factor_off(s, chunk, 0),
           end = kvc_chunk_bytes(s, chunk);
    uint64_t r = (uint64_t)layer * 7919 + (uint64_t)chunk + 1;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        dst[i] = (uint8_t)((int)(r >> 33) % 255 - 127);
    }
    for (size_t i = n; i < scales; i += sizeof scale)
        memcpy(dst + i, &scale, sizeof scale);
    for (size_t i = scales; i < end; i += sizeof one)
        memcpy(dst + i, &one, sizeof one);
    return CAG_OK;
}

/* A lossy codec has one; the fixture's is of two layers. */
static cag_status receipt(void *ctx, const cag_kvc *draft, cag_kvc_receipt *r,
                          cag_error *err)
{
    static const cag_kvc_loss none[2 * CHECK_MAX_LAYER];
    cag_status st = fix_receipt(ctx, draft, r, err);

    r->loss = none;
    return st;
}

static cag_status write_cache(const cag_model *m, int n, struct source *x,
                              const char *path, cag_error *err)
{
    const cag_model_info *i = cag_model_get_info(m);
    struct fix f = { .codec = x->s != NULL ? "f16" : "q8h" };
    struct pool *pool = NULL;
    cag_status st;

    f.shape = (struct kvc_shape){
        i->n_layer, i->n_kv_head,
        i->d_head,  x->s != NULL ? KVC_CLASS_F16 : KVC_CLASS_Q8H,
        n,          0
    };
    fix_init(&f);
    x->shape = f.shape;
    struct kvc_desc d = fix_desc(&f);
    d.chunk = x->s != NULL ? export_chunk : make_codes;
    d.ctx = x;
    if (d.receipt != NULL)
        d.receipt = receipt;
    st = pool_new(&pool, 0, err);
    if (st == CAG_OK)
        st = kvc_write(path, &d, -1, pool, err);
    pool_free(pool);
    fix_free(&f);
    return st;
}

cag_status check_cache_write(const cag_session *s, const cag_model *m, int n,
                             const char *path, cag_error *err)
{
    struct source x = { .s = s };

    return write_cache(m, n, &x, path, err);
}

cag_status check_cache_codes(const cag_model *m, int n, const char *path,
                             cag_error *err)
{
    struct source x = { .s = NULL };

    return write_cache(m, n, &x, path, err);
}
