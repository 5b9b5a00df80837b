/*
 * Codec q8h: rows to codes and back on every head size, equal bits on every
 * set, what cannot be coded, and that attention over codes with a turned
 * query is attention over the rows the codes stand for.
 */
#include "tests/kernels/ktest.h"

static const int dims[] = { 8,  16,  24,  32,  40,  48,  56,  64,  72, 80,
                            96, 112, 128, 160, 192, 256, 384, 504, 512 };
enum { N_DIM = sizeof dims / sizeof dims[0], D_MAX = 512 };

/* A row with an outlier, factors over four powers of two. */
static void make_row(float *x, float *f, int d, uint64_t *seed)
{
    kt_fill(x, (size_t)d, seed);
    x[kt_rand(seed) % (unsigned)d] *= 40.0f;
    for (int i = 0; i < d; i++)
        f[i] =
            ldexpf(1.0f + fabsf(kt_normal(seed)), (int)(kt_rand(seed) % 5) - 2);
}

static void test_block(void **state)
{
    (void)state;
    for (int i = 0; i < N_DIM; i++) {
        struct q8h_block b = q8h_block(dims[i]);

        assert_int_equal(dims[i] % b.n, 0);
        assert_int_equal(dims[i] / b.n % 2, 1);
        assert_int_equal(b.n & (b.n - 1), 0);
        assert_true((float)b.n * b.r * b.inverse == 1.0f);
        assert_true(b.r <= 1.0f && (float)b.n * b.r * b.r >= 1.0f &&
                    (float)b.n * b.r * b.r <= 2.0f);
    }
    assert_int_equal(q8h_block(80).n, 16);
    assert_true(q8h_block(64).r == 0.125f && q8h_block(64).inverse == 0.125f);
}

/* ref's code is within half a step of what is coded; decoding gives that
 * back, and the Hadamard matrix is the one of kernels.h. */
static void test_ref(void **state)
{
    uint64_t seed = 3;
    double worst = 0;

    (void)state;
    for (int i = 0; i < N_DIM; i++) {
        int d = dims[i];
        struct q8h_block b = q8h_block(d);
        float x[D_MAX], f[D_MAX], y[D_MAX], back[D_MAX];
        int8_t code[D_MAX];
        uint16_t scale;
        double sum = 0, err = 0;

        make_row(x, f, d, &seed);
        assert_true(kernels_ref.q8h_encode(code, &scale, x, f, d));
        for (int c = 0; c < d; c++)
            y[c] = x[c] / f[c];
        kernels_ref.q8h_rotate(y, NULL, 1, d); /* times r' */
        for (int c = 0; c < d; c++) {
            double want =
                (double)y[c] * (double)b.n * (double)b.r * (double)b.r;
            double s = (double)f16_to_f32(scale);

            worst = fmax(worst, fabs(code[c] * s - want) / s);
            assert_in_range(code[c] + 127, 0, 254);
        }
        kernels_ref.q8h_decode(back, code, scale, f, d);
        for (int c = 0; c < d; c++) {
            sum += (double)x[c] / (double)f[c] * (double)x[c] / (double)f[c];
            err += pow((double)(back[c] - x[c]) / (double)f[c], 2);
        }
        assert_true(sqrt(err / sum) < 0.02);
    }
    printf("# q8h: worst code off by %.4f of a step\n", worst);
    assert_true(worst < 0.501);
}

static void test_sets(void **state)
{
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set), differ = 0, n = 0;
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < 40 * N_DIM; i++) {
        int d = dims[i % N_DIM];
        float *x = kt_alloc((size_t)d * 4), *f = kt_alloc((size_t)d * 4);
        float y[3][D_MAX + 16];
        int8_t a[D_MAX + 16], b[D_MAX + 16];
        uint16_t sa, sb;
        const float *fac = i % 3 ? f : NULL;

        make_row(x, f, d, &seed);
        memset(a, 77, sizeof a);
        memset(b, 77, sizeof b);
        assert_true(kernels_scalar.q8h_encode(a, &sa, x, fac, d));
        assert_true(kernels_ref.q8h_encode(b, &sb, x, fac, d));
        for (int c = 0; c < d; c++, n++)
            differ += a[c] != b[c];
        assert_true(abs(sa - sb) <= 1);
        kernels_scalar.q8h_decode(y[0], a, sa, fac, d);
        memcpy(y[1], x, (size_t)d * 4);
        kernels_scalar.q8h_rotate(y[1], fac, 1, d);
        for (int s = 0; s < n_set; s++) {
            memset(b, 77, sizeof b);
            assert_true(set[s]->q8h_encode(b, &sb, x, fac, d));
            assert_int_equal(sa, sb);
            assert_memory_equal(a, b, sizeof a);
            memset(y[2], 0xff, sizeof y[2]);
            set[s]->q8h_decode(y[2], a, sa, fac, d);
            kt_same(y[2], y[0], (size_t)d, "decode", set[s]->name);
            assert_true(isnan(y[2][d]));
            memcpy(y[2], x, (size_t)d * 4);
            set[s]->q8h_rotate(y[2], fac, 1, d);
            kt_same(y[2], y[1], (size_t)d, "rotate", set[s]->name);
        }
        memcpy(y[2], x, (size_t)d * 4);
        kernels_ref.q8h_rotate(y[2], fac, 1, d);
        for (int c = 0; c < d; c++)
            assert_true(fabsf(y[2][c] - y[1][c]) < 2e-4f);
        free(x);
        free(f);
    }
    printf("# q8h: %d of %d codes differ from double\n", differ, n);
    assert_true(differ * 500 < n);
}

/* Several rows at once are the rows one by one. */
static void test_rows(void **state)
{
    const struct kernels *k;
    bool usable;
    uint64_t seed = 9;

    (void)state;
    for (int i = 0; (k = kernels_at(i, &usable)); i++)
        for (int j = 0; usable && j < N_DIM; j += 3) {
            size_t d = (size_t)dims[j];
            float x[5 * D_MAX], y[5 * D_MAX];

            kt_fill(x, 5 * d, &seed);
            memcpy(y, x, 5 * d * sizeof *x);
            k->q8h_rotate(x, NULL, 5, (int)d);
            for (size_t r = 0; r < 5; r++)
                k->q8h_rotate(y + r * d, NULL, 1, (int)d);
            kt_same(x, y, 5 * d, "rows", k->name);
        }
}

static void test_edges(void **state)
{
    static const float bad[] = { INFINITY, -INFINITY, NAN, 3e38f, 1e9f };
    const struct kernels *k;
    bool usable;

    (void)state;
    for (int i = 0; (k = kernels_at(i, &usable)); i++) {
        float x[24], f[24];
        int8_t code[24];
        uint16_t scale;

        if (!usable)
            continue;
        for (int c = 0; c < 24; c++)
            x[c] = 0, f[c] = 1;
        assert_true(k->q8h_encode(code, &scale, x, f, 24));
        assert_int_equal(scale, 0);
        for (int c = 0; c < 24; c++)
            assert_int_equal(code[c], 0);
        for (int b = 0; b < 5; b++)
            for (int c = 0; c < 24; c += 5) {
                x[c] = bad[b];
                assert_false(k->q8h_encode(code, &scale, x, NULL, 24));
                assert_false(k->q8h_encode(code, &scale, x, f, 24));
                x[c] = 0;
            }
        x[3] = 65504.0f; /* the largest f16 always fits */
        assert_true(k->q8h_encode(code, &scale, x, NULL, 24));
        x[3] = 1e-7f; /* the smallest scale there is */
        assert_true(k->q8h_encode(code, &scale, x, NULL, 24));
        assert_int_equal(scale, 1);
        assert_int_equal(f32_to_f16_up(0.0f), 0);
        assert_int_equal(f32_to_f16_up(1.0f), 0x3c00);
        assert_int_equal(f32_to_f16_up(1.00001f), 0x3c01);
        assert_int_equal(f32_to_f16_up(65504.1f), 0x7c00);
    }
}

enum { D = 64, N = 150, ROWS = 5 };

static void store(int type, int t, const float *k, const float *v, uint8_t *kt,
                  uint8_t *vt, uint16_t *ks, uint16_t *vs, const float *f)
{
    int tile = t / KV_TILE, at = t % KV_TILE;
    int8_t code[2][D];
    float back[2][D];

    assert_true(kernels_scalar.q8h_encode(code[0], ks + t, k, f, D));
    assert_true(kernels_scalar.q8h_encode(code[1], vs + t, v, NULL, D));
    if (type == KV_F32) {
        kernels_ref.q8h_decode(back[0], code[0], ks[t], f, D);
        kernels_ref.q8h_decode(back[1], code[1], vs[t], NULL, D);
        assert_true(kernels_ref.kv_store(KV_F32, kt + tile * KV_TILE * D * 4,
                                         vt + tile * KV_TILE * D * 4, at,
                                         back[0], back[1], D));
        return;
    }
    for (int c = 0; c < D; c++) {
        kt[tile * KV_TILE * D + (at / 16 * D + c) * 16 + at % 16] =
            (uint8_t)code[0][c];
        vt[tile * KV_TILE * D + c / 32 * 32 * KV_TILE + at * 32 + c % 32] =
            (uint8_t)code[1][c];
    }
}

/* Outputs of ROWS queries over N keys: over codes, or over their meaning. */
static void answer(const struct kernels *k, int type, const float *q,
                   const float *key, const float *val, const float *f,
                   float *out)
{
    enum { TILES = (N + KV_TILE - 1) / KV_TILE };
    static uint8_t kt[TILES * KV_TILE * D * 4], vt[TILES * KV_TILE * D * 4];
    static uint16_t ks[TILES * KV_TILE], vs[TILES * KV_TILE];
    float m[ROWS], l[ROWS], o[ROWS * D], turned[ROWS * D];
    float *scratch = kt_alloc(ATTN_SCRATCH * sizeof *scratch);
    const void *p[4][TILES];
    int32_t last[ROWS];
    struct attn_job job = { .kv_type = type,
                            .d_head = D,
                            .n_row = ROWS,
                            .q = turned,
                            .ldq = D,
                            .last = last,
                            .n_tile = TILES,
                            .k = p[0],
                            .v = p[1],
                            .ks = p[2],
                            .vs = p[3],
                            .m = m,
                            .l = l,
                            .o = o,
                            .scratch = scratch };
    size_t size = KV_TILE * D * (type == KV_Q8H ? 1 : 4);

    memset(kt, 0, sizeof kt);
    memset(vt, 0, sizeof vt);
    memset(ks, 0, sizeof ks);
    memset(vs, 0, sizeof vs);
    for (int t = 0; t < N; t++)
        store(type, t, key + t * D, val + t * D, kt, vt, ks, vs, f);
    for (size_t i = 0; i < TILES; i++) {
        p[0][i] = kt + i * size;
        p[1][i] = vt + i * size;
        p[2][i] = ks + i * KV_TILE;
        p[3][i] = vs + i * KV_TILE;
    }
    for (int r = 0; r < ROWS; r++) {
        last[r] = N - 1 - 13 * r;
        m[r] = -INFINITY;
        l[r] = 0;
    }
    memset(o, 0, sizeof o);
    memcpy(turned, q, sizeof turned);
    if (type == KV_Q8H)
        k->q8h_rotate(turned, f, ROWS, D);
    k->attn(&job);
    if (type == KV_Q8H)
        k->q8h_rotate(o, NULL, ROWS, D);
    k->attn_finish(out, D, l, o, ROWS, D);
    free(scratch);
}

static void test_domain(void **state)
{
    const struct kernels *k;
    uint64_t seed = 21;
    bool usable;
    float q[ROWS * D], key[N * D], val[N * D], f[D];
    float want[ROWS * D], got[ROWS * D];

    (void)state;
    kt_fill(q, ROWS * D, &seed);
    kt_fill(key, N * D, &seed);
    kt_fill(val, N * D, &seed);
    make_row(got, f, D, &seed);
    for (int i = 0; i < ROWS * D; i++)
        q[i] *= 0.4f;
    answer(&kernels_ref, KV_F32, q, key, val, f, want);
    for (int i = 0; (k = kernels_at(i, &usable)); i++) {
        double top = 0;

        if (!usable)
            continue;
        answer(k, KV_Q8H, q, key, val, f, got);
        for (int j = 0; j < ROWS * D; j++)
            top = fmax(top, fabs((double)(got[j] - want[j])));
        assert_true(top < 2e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block), cmocka_unit_test(test_ref),
        cmocka_unit_test(test_sets),  cmocka_unit_test(test_rows),
        cmocka_unit_test(test_edges), cmocka_unit_test(test_domain),
    };

    return cmocka_run_group_tests_name("kernels_q8h", tests, NULL, NULL);
}
