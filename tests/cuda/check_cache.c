/*
 * check_cache.c - a timeline's K and V in a file, in the clothes of the test
 * fixture: what is measured is how they travel.
 */
#include "tests/cuda/check_model.h"

#include "tests/unit/kvc_fixture.h"

#include "engine/session.h"

struct source {
    struct kvc_shape   shape;
    const cag_session *s;
};

static cag_status export_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                               cag_error *err)
{
    const struct source *x = ctx;

    return session_export_chunk(x->s, &x->shape, layer, chunk, dst, err);
}

cag_status check_cache_write(const cag_session *s, const cag_model *m, int n,
                             const char *path, cag_error *err)
{
    const cag_model_info *i = cag_model_get_info(m);
    struct fix f = { .codec = "f16" };
    struct source x = { .s = s };
    struct pool *pool = NULL;
    cag_status st;

    f.shape = (struct kvc_shape){ i->n_layer, i->n_kv_head, i->d_head, 2, n,
                                  0 };
    fix_init(&f);
    x.shape = f.shape;
    struct kvc_desc d = fix_desc(&f);
    d.chunk = export_chunk;
    d.ctx = &x;
    st = pool_new(&pool, 0, err);
    if (st == CAG_OK)
        st = kvc_write(path, &d, -1, pool, err);
    pool_free(pool);
    fix_free(&f);
    return st;
}
