/*
 * test_kvcache.c - tiles: distinct, zero where unused, copied where shared.
 */
#include "tests/lib/kvc_fixture.h"

#include "engine/cpu/kvcache_cpu.h"

/* Elements of a tile at (token, channel), from kernels.h once more. */
static size_t k_at(int d, int t, int c)
{
    return (size_t)((t / 16 * d + c) * 16 + t % 16);
}

static size_t v_at(int d, int t, int c)
{
    int g = c / 32, w = d - 32 * g < 32 ? d - 32 * g : 32;

    return (size_t)(g * 64 * 32 + t * w + c % 32);
}

static void clear_slots(void **state)
{
    static const int heads[] = { 8, 32, 40, 64, 72 };
    static const int slots[] = { 0, 1, 15, 16, 17, 63 };

    (void)state;
    for (int e = 2; e <= 4; e += 2)
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 6; j++) {
                int d = heads[i], slot = slots[j];
                size_t n = (size_t)(64 * d * e);
                uint8_t *k = mem_alloc(n), *v = mem_alloc(n);
                assert_non_null(k);
                assert_non_null(v);
                memset(k, 0xff, n);
                memset(v, 0xff, n);
                kv_tile_clear(k, v, e, d, slot);
                for (int t = 0; t < 64; t++)
                    for (int c = 0; c < d; c++) {
                        int want = t < slot ? 0xff : 0;
                        for (int b = 0; b < e; b++) {
                            size_t x = (size_t)b;
                            assert_int_equal(k[k_at(d, t, c) * (size_t)e + x],
                                             want);
                            assert_int_equal(v[v_at(d, t, c) * (size_t)e + x],
                                             want);
                        }
                    }
                mem_free(k);
                mem_free(v);
            }
}

static struct cpu_kv *make(struct cpu_prefix *p, int n_layer, int n_head, int d,
                           int type, int max_tok)
{
    const struct cpu_kv_shape shape = { n_layer, n_head, d, type, max_tok };
    struct cpu_kv *kv = NULL;
    cag_error err = CAG_ERROR_INIT;

    if (kvcache_new(NULL, p, &shape, &kv, &err))
        fail_msg("%s", err.msg);
    return kv;
}

/* Every tile is its own memory, 64-byte aligned, zero at first. */
static void tiles(void **state)
{
    static const int sizes[] = { 1, 64, 65, 1024, 1025, 2300 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct cpu_kv *kv = make(NULL, 3, 2, 40, KV_F16, sizes[i]);
        int n_tile = (sizes[i] + 63) / 64, mark = 0;
        assert_int_equal(kv->tile_bytes, 64 * 40 * 2);
        for (int pass = 0; pass < 2; pass++) {
            mark = 0;
            for (int l = 0; l < 3; l++)
                for (int v = 0; v < 2; v++)
                    for (int h = 0; h < 2; h++)
                        for (int t = 0; t < n_tile; t++) {
                            uint8_t *p = kvcache_tile(kv, l, v, h, t);
                            uint32_t last;
                            mark++;
                            if (pass == 0) {
                                assert_int_equal((uintptr_t)p % 64, 0);
                                for (size_t b = 0; b < kv->tile_bytes; b++)
                                    assert_int_equal(p[b], 0);
                                rd_put32(p, (uint32_t)mark);
                                rd_put32(p + kv->tile_bytes - 4,
                                         (uint32_t)mark);
                                continue;
                            }
                            last = rd_le32(p + kv->tile_bytes - 4);
                            assert_int_equal(rd_le32(p), mark);
                            assert_int_equal(last, mark);
                            assert_ptr_equal(p,
                                             kvcache_any_tile(kv, l, v, h, t));
                        }
        }
        assert_int_equal(mark, 3 * 2 * 2 * n_tile);
        kvcache_free(kv);
    }
    kvcache_free(NULL);
}

static void fill(struct cpu_kv *kv, int n_tok)
{
    for (int l = 0; l < kv->n_layer; l++)
        for (int h = 0; h < kv->n_kv_head; h++)
            for (int t = 0; t * 64 < n_tok; t++) {
                uint8_t *k = kvcache_tile(kv, l, 0, h, t);
                uint8_t *v = kvcache_tile(kv, l, 1, h, t);
                memset(k, 0x11, kv->tile_bytes);
                memset(v, 0x11, kv->tile_bytes);
                if (n_tok - t * 64 < 64)
                    kv_tile_clear(k, v, 2, kv->d_head, n_tok % 64);
            }
    kv->n_dirty = n_tok;
}

/* The number of positions with something in them, if they are the first. */
static int filled(const struct cpu_kv *kv, int n_tok, int layer, int head)
{
    int n = 0;

    for (int p = 0; p < n_tok; p++) {
        const uint8_t *k = kvcache_tile(kv, layer, 0, head, p / 64);
        const uint8_t *v = kvcache_tile(kv, layer, 1, head, p / 64);
        size_t ka = 2 * k_at(kv->d_head, p % 64, 3);
        size_t va = 2 * v_at(kv->d_head, p % 64, 3);
        assert_int_equal(k[ka], v[va]);
        if (k[ka] != 0) {
            assert_int_equal(n, p);
            n++;
        }
    }
    return n;
}

static void truncation(void **state)
{
    static const int to[] = {
        1500, 1499, 1472, 1471, 1024, 1023, 64, 63, 1, 0
    };
    struct cpu_kv *kv = make(NULL, 2, 2, 40, KV_F16, 1500);

    (void)state;
    fill(kv, 1500);
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        kvcache_truncate(kv, to[i]);
        for (int l = 0; l < 2; l++)
            for (int h = 0; h < 2; h++)
                assert_int_equal(filled(kv, 1500, l, h), to[i]);
        assert_int_equal(kv->n_dirty, to[i]);
    }
    /* nothing behind the end was written: nothing to do */
    kvcache_truncate(kv, 700);
    assert_int_equal(kv->n_dirty, 0);
    kvcache_free(kv);
}

/* A cache on disk and the prefix made of it. */
struct world {
    struct fix f;
    char *dir, *path;
    struct pool *pool;
    cag_kvc *k;
    struct backend_prefix *p;
};

static void world_open(struct world *w, const char *codec)
{
    cag_error err = CAG_ERROR_INIT;

    memset(w, 0, sizeof *w);
    w->f = fix_default(codec);
    fix_init(&w->f);
    w->dir = fix_mkdir();
    w->path = file_join(w->dir, "t.kvc");
    assert_non_null(w->path);
    fix_write(&w->f, w->path, 2);
    assert_int_equal(pool_new(&w->pool, 3, &err), CAG_OK);
    if (cag_kvc_open(w->path, &w->k, &err) ||
        prefix_new(NULL, w->k, kvc_get_shape(w->k)->n_tok,
                   strcmp(codec, "f32") == 0, w->pool, &w->p, &err))
        fail_msg("%s", err.msg);
}

static void world_close(struct world *w)
{
    prefix_free(w->p);
    cag_kvc_close(w->k);
    pool_free(w->pool);
    unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0);
    mem_free(w->path);
    mem_free(w->dir);
    fix_free(&w->f);
}

/* Tile (layer, is_v, head, tile) of the fixture. */
static void expect_tile(const struct world *w, int layer, int is_v, int head,
                        int tile, const uint8_t *got)
{
    const struct kvc_shape *s = &w->f.shape;

    for (int t = 0; t < 64; t++)
        for (int c = 0; c < s->d_head; c++) {
            size_t at = is_v ? v_at(s->d_head, t, c) : k_at(s->d_head, t, c);
            int tok = tile * 64 + t;
            uint32_t want =
                tok < s->n_tok ? fix_value(s, layer, is_v, head, tok, c) : 0;
            uint32_t have = s->kv_class == KVC_CLASS_F32
                                ? rd_le32(got + 4 * at)
                                : rd_le16(got + 2 * at);
            assert_int_equal(have, want);
        }
}

static void prefix_tiles(void **state)
{
    static const char *const codecs[] = { "f16", "f16z", "f32" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct world w;
        cag_error err = CAG_ERROR_INIT;
        world_open(&w, codecs[i]);
        struct cpu_kv *kv = make((struct cpu_prefix *)w.p, 2, 2, 40,
                                 i == 2 ? KV_F32 : KV_F16, 300);
        assert_int_equal(kv->n_prefix, 150);
        assert_int_equal(kv->n_shared, 2);
        assert_int_equal(prefix_private_bytes(w.p), 0);
        for (int l = 0; l < 2; l++) {
            assert_int_equal(kvcache_ready(kv, l, &err), CAG_OK);
            for (int v = 0; v < 2; v++)
                for (int h = 0; h < 2; h++)
                    for (int t = 0; t < 3; t++)
                        expect_tile(&w, l, v, h, t,
                                    kvcache_any_tile(kv, l, v, h, t));
        }
        assert_true((prefix_private_bytes(w.p) > 0) == (i == 1));
        /* the third tile is a copy */
        memset(kvcache_tile(kv, 0, 0, 0, 2), 0x77, kv->tile_bytes);
        expect_tile(&w, 0, 0, 0, 2,
                    prefix_tile((struct cpu_prefix *)w.p, 0, 0, 0, 2));
        kvcache_free(kv);
        world_close(&w);
    }
}

static cag_status full_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                             cag_error *err)
{
    const struct fix *f = ctx;

    (void)layer;
    (void)err;
    memset(dst, 0x7c, kvc_chunk_bytes(&f->shape, chunk));
    return CAG_OK;
}

/* A file whose unused slots are not zero cannot put them into a session. */
static void dirty_tail(void **state)
{
    struct world w;
    cag_error err = CAG_ERROR_INIT;
    struct backend_prefix *p = NULL;
    cag_kvc *k = NULL;

    (void)state;
    world_open(&w, "f16");
    struct kvc_desc d = fix_desc(&w.f);
    char *path = file_join(w.dir, "full.kvc");
    d.chunk = full_chunk;
    assert_non_null(path);
    assert_int_equal(kvc_write(path, &d, -1, w.pool, &err), CAG_OK);
    assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
    assert_int_equal(
        prefix_new(NULL, k, kvc_get_shape(k)->n_tok, false, w.pool, &p, &err),
        CAG_OK);
    struct cpu_kv *shared = make((struct cpu_prefix *)p, 2, 2, 40, KV_F16, 300);
    struct cpu_kv *own = make(NULL, 2, 2, 40, KV_F16, 300);
    assert_int_equal(kvcache_import(own, k, 150, w.pool, &err), CAG_OK);
    for (int l = 0; l < 2; l++) {
        assert_int_equal(kvcache_ready(shared, l, &err), CAG_OK);
        for (int h = 0; h < 2; h++)
            for (int t = 0; t < 64; t++)
                for (int v = 0; v < 2; v++) {
                    size_t at = 2 * (v ? v_at(40, t, 39) : k_at(40, t, 39));
                    int want = t < 150 % 64 ? 0x7c : 0;
                    assert_int_equal(kvcache_tile(shared, l, v, h, 2)[at],
                                     want);
                    assert_int_equal(kvcache_tile(own, l, v, h, 2)[at], want);
                }
    }
    kvcache_free(shared);
    kvcache_free(own);
    prefix_free(p);
    cag_kvc_close(k);
    unlink(path);
    mem_free(path);
    world_close(&w);
}

static void import_export(void **state)
{
    static const char *const codecs[] = { "f16", "f16z" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;
        cag_error err = CAG_ERROR_INIT;
        uint8_t *got, *want;
        world_open(&w, codecs[i]);
        struct cpu_kv *kv = make(NULL, 2, 2, 40, KV_F16, 200);
        got = mem_alloc_aligned(64, kvc_chunk_bytes(&w.f.shape, 0));
        want = mem_alloc_aligned(64, kvc_chunk_bytes(&w.f.shape, 0));
        assert_non_null(got);
        assert_non_null(want);
        for (int n = 149; n > 0; n -= 37) {
            struct kvc_shape shape = w.f.shape;
            shape.n_tok = n;
            if (kvcache_import(kv, w.k, n, w.pool, &err))
                fail_msg("%s", err.msg);
            for (int l = 0; l < 2; l++)
                for (int c = 0; c < kvc_n_chunk(&shape); c++) {
                    assert_int_equal(
                        kvcache_export(kv, &shape, l, c, got, &err), CAG_OK);
                    fix_chunk_fill(&shape, l, c, want);
                    assert_memory_equal(got, want, kvc_chunk_bytes(&shape, c));
                }
            kvcache_truncate(kv, 0);
        }
        mem_free(got);
        mem_free(want);
        kvcache_free(kv);
        world_close(&w);
    }
}

static void mismatch(void **state)
{
    struct world w;
    cag_error err = CAG_ERROR_INIT;
    struct backend_prefix *p = NULL;

    (void)state;
    world_open(&w, "f16");
    struct cpu_kv *kv = make(NULL, 2, 2, 48, KV_F16, 200);
    assert_int_equal(kvcache_import(kv, w.k, 10, w.pool, &err), CAG_E_MISMATCH);
    assert_non_null(strstr(err.msg, "40"));
    assert_int_equal(prefix_new(NULL, w.k, kvc_get_shape(w.k)->n_tok, true,
                                w.pool, &p, &err),
                     CAG_E_MISMATCH);
    assert_non_null(strstr(err.msg, "f16"));
    kvcache_free(kv);
    kv = make(NULL, 2, 2, 40, KV_F16, 200);
    assert_int_equal(kvcache_import(kv, w.k, 151, w.pool, &err), CAG_E_USAGE);
    kvcache_free(kv);
    world_close(&w);
}

/* A flipped bit in a stored chunk is noticed when its layer is needed. */
static void damaged(void **state)
{
    static const char *const codecs[] = { "f16", "f16z" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;
        cag_error err = CAG_ERROR_INIT;
        cag_kvc *k = NULL;
        struct backend_prefix *p = NULL;
        world_open(&w, codecs[i]);
        struct buf b = fix_read(w.path);
        uint8_t *kv = fix_data(&b, "KV"), *e = fix_entry(&b, "KV");
        /* the last stored bytes belong to layer 1 */
        uint8_t *at = kv + rd_le64(e + 16) - 1;
        while (*at == 0)
            at--;
        *at ^= 1;
        assert_int_equal(kvc_parse(b.data, b.size, "bad.kvc", &k, &err),
                         CAG_OK);
        assert_int_equal(prefix_new(NULL, k, kvc_get_shape(k)->n_tok, false,
                                    w.pool, &p, &err),
                         CAG_OK);
        struct cpu_kv *c = make((struct cpu_prefix *)p, 2, 2, 40, KV_F16, 300);
        assert_int_equal(kvcache_ready(c, 0, &err), CAG_OK);
        for (int again = 0; again < 2; again++) {
            memset(&err, 0, sizeof err);
            assert_int_equal(kvcache_ready(c, 1, &err), CAG_E_CORRUPT);
            assert_non_null(strstr(err.msg, "layer 1"));
        }
        assert_int_equal(prefix_load((struct cpu_prefix *)p,
                                     kvc_get_shape(k)->n_layer, &err),
                         CAG_E_CORRUPT);
        kvcache_free(c);
        c = make(NULL, 2, 2, 40, KV_F16, 300);
        assert_int_equal(kvcache_import(c, k, 150, w.pool, &err),
                         CAG_E_CORRUPT);
        kvcache_free(c);
        prefix_free(p);
        cag_kvc_close(k);
        buf_free(&b);
        world_close(&w);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(clear_slots),   cmocka_unit_test(tiles),
        cmocka_unit_test(truncation),    cmocka_unit_test(prefix_tiles),
        cmocka_unit_test(import_export), cmocka_unit_test(mismatch),
        cmocka_unit_test(damaged),       cmocka_unit_test(dirty_tail),
    };

    return cmocka_run_group_tests_name("kvcache", tests, NULL, NULL);
}
