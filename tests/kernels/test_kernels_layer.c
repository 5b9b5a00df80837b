/*
 * Norm, rotation, gate, residual and rotary tables.
 */
#include "tests/kernels/ktest.h"

static const int sizes[] = { 1, 7, 8, 9, 31, 32, 33, 65, 130, 320, 576, 1536 };
enum { N_SIZE = sizeof sizes / sizeof sizes[0], TOP = 1536, PAD = 16 };

static void close_to(const float *got, const float *want, size_t n, double rel,
                     double *top)
{
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - (double)want[i]) /
                   (fabs((double)want[i]) + 1e-30);

        if (!(e <= rel))
            fail_msg("element %zu: %.9g, ref %.9g", i, (double)got[i],
                     (double)want[i]);
        *top = fmax(*top, e);
    }
}

/* Padding behind a row holds NaN and must neither be used nor touched. */
static void padding_kept(const float *p, const char *set)
{
    for (int i = 0; i < PAD; i++)
        if (!isnan(p[i]))
            fail_msg("%s wrote behind the end", set);
}

static void test_rmsnorm(void **state)
{
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    uint64_t seed = 3;
    double top = 0;

    (void)state;
    for (int a = 0; a < N_SIZE; a++) {
        int d = sizes[a];
        size_t ld = (size_t)d + PAD;
        float *x = kt_alloc(3 * ld * 4), *w = kt_alloc((size_t)d * 4);
        float *want = kt_alloc(3 * ld * 4), *got = kt_alloc(3 * ld * 4);

        for (int r = 0; r < 3; r++)
            kt_fill(x + (size_t)r * ld, (size_t)d, &seed);
        kt_fill(w, (size_t)d, &seed);
        kernels_scalar.rmsnorm(want, ld, x, ld, w, 3, d, 1e-5f);
        kernels_ref.rmsnorm(got, ld, x, ld, w, 3, d, 1e-5f);
        for (int r = 0; r < 3; r++)
            close_to(want + (size_t)r * ld, got + (size_t)r * ld, (size_t)d,
                     5e-7, &top);
        for (int i = 0; i < n_set; i++) {
            memcpy(got, x, 3 * ld * 4); /* in place */
            set[i]->rmsnorm(got, ld, got, ld, w, 3, d, 1e-5f);
            for (int r = 0; r < 3; r++) {
                kt_same(got + (size_t)r * ld, want + (size_t)r * ld, (size_t)d,
                        "rmsnorm", set[i]->name);
                padding_kept(got + (size_t)r * ld + d, set[i]->name);
            }
        }
        free(x);
        free(w);
        free(want);
        free(got);
    }
    printf("# rmsnorm: worst relative error %.2g\n", top);
}

static void test_rope(void **state)
{
    static const int dims[] = { 8, 24, 32, 64, 80, 128, 512 };
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    uint64_t seed = 4;
    float x[3 * 512 + PAD], want[3 * 512], got[3 * 512 + PAD];
    float cos[256], sin[256], freq[256];

    (void)state;
    for (int a = 0; a < 7; a++) {
        int d = dims[a], n = 3 * d;

        for (int i = 0; i < d / 2; i++)
            freq[i] = (float)pow(10000.0, -2.0 * i / d);
        rope_table(cos, sin, 1234, freq, d / 2, 1.0f);
        kt_fill(x, (size_t)n, &seed);
        memcpy(want, x, (size_t)n * 4);
        kernels_scalar.rope(want, 3, d, cos, sin, 0.37f);
        memcpy(got, x, (size_t)n * 4);
        kernels_ref.rope(got, 3, d, cos, sin, 0.37f);
        for (int i = 0; i < n; i++)
            assert_true(fabsf(got[i] - want[i]) < 1e-6f);
        for (int i = 0; i < n_set; i++) {
            memcpy(got, x, (size_t)n * 4);
            memset(got + n, 0xff, PAD * 4);
            set[i]->rope(got, 3, d, cos, sin, 0.37f);
            kt_same(got, want, (size_t)n, "rope", set[i]->name);
            padding_kept(got + n, set[i]->name);
        }
    }
}

/*
 * The gate doubles as the test of exp2: with g = -x / log2(e) and u = 1,
 * values from where it is zero to where it is infinite.
 */
static void test_swiglu(void **state)
{
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    enum { N = 4099 };
    float *g = kt_alloc((N + PAD) * 4), *u = kt_alloc(N * 4);
    float *want = kt_alloc(N * 4), *got = kt_alloc((N + PAD) * 4);
    uint64_t seed = 9;
    double top = 0;

    (void)state;
    for (int i = 0; i < N; i++)
        g[i] = (float)(i - N / 2) * 0.047f + kt_normal(&seed);
    kt_fill(u, N, &seed);
    g[0] = INFINITY;
    g[1] = NAN;
    g[2] = 0.0f;
    g[3] = -1e30f;
    g[4] = 1e-30f;
    kernels_scalar.swiglu(want, g, u, N);
    kernels_ref.swiglu(got, g, u, N);
    assert_true(isinf(want[0]) && isnan(want[1]) && want[2] == 0.0f &&
                want[3] == 0.0f);
    for (int i = 4; i < N; i++)
        if (g[i] > -80)
            close_to(want + i, got + i, 1, 2e-5, &top);
    for (int i = 0; i < n_set; i++) {
        memset(got, 0xff, (N + PAD) * 4);
        set[i]->swiglu(got, g, u, N);
        kt_same(got, want, N, "swiglu", set[i]->name);
        padding_kept(got + N, set[i]->name);
        for (int a = 0; a < N_SIZE; a++) { /* in place, other lengths */
            memcpy(got, g, N * 4);
            set[i]->swiglu(got, got, u, (size_t)sizes[a]);
            kt_same(got, want, (size_t)sizes[a], "swiglu", set[i]->name);
            kt_same(got + sizes[a], g + sizes[a], PAD, "behind swiglu",
                    set[i]->name);
        }
    }
    printf("# swiglu: worst relative error %.2g\n", top);
    free(g);
    free(u);
    free(want);
    free(got);
}

static void test_add(void **state)
{
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    uint64_t seed = 6;
    float x[TOP], y[TOP], want[TOP], got[TOP + PAD];

    (void)state;
    kt_fill(x, TOP, &seed);
    kt_fill(y, TOP, &seed);
    for (int a = 0; a < N_SIZE; a++) {
        size_t n = (size_t)sizes[a];

        memcpy(want, y, sizeof y);
        kernels_scalar.add(want, x, n);
        for (int i = 0; i < sizes[a]; i++)
            assert_true(want[i] == x[i] + y[i]);
        for (int i = 0; i < n_set; i++) {
            memset(got, 0xff, sizeof got);
            memcpy(got, y, n * 4);
            set[i]->add(got, x, n);
            kt_same(got, want, n, "add", set[i]->name);
            padding_kept(got + n, set[i]->name);
        }
    }
}

/* distance in units of the last place of want */
static double ulps(float got, double want)
{
    int e;

    if (fabs(want) < 0x1p-126)
        return fabs((double)got - want) / 0x1p-149;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, e - 24);
}

static void test_rope_table(void **state)
{
    float freq[64], c[64], s[64];
    double top = 0;

    (void)state;
    for (int i = 0; i < 64; i++)
        freq[i] = (float)pow(1e6, -i / 64.0);
    for (int32_t pos = 0; pos <= 131072; pos += pos < 4096 ? 1 : 61) {
        rope_table(c, s, pos, freq, 64, 1.0f);
        for (int i = 0; i < 64; i++) {
            float angle = (float)pos * freq[i];

            top = fmax(top, ulps(c[i], cos((double)angle)));
            top = fmax(top, ulps(s[i], sin((double)angle)));
        }
        if (top > 1)
            fail_msg("position %d: %.3f ulp", (int)pos, top);
    }
    rope_table(c, s, 131072, freq, 64, 1.0f);
    assert_true(ulps(c[0], cos(131072.0)) <= 1);
    rope_table(c, s, 0, freq, 64, 1.25f);
    assert_true(c[5] == 1.25f && s[5] == 0.0f);
    printf("# rope_table: worst error %.3f ulp\n", top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm),    cmocka_unit_test(test_rope),
        cmocka_unit_test(test_swiglu),     cmocka_unit_test(test_add),
        cmocka_unit_test(test_rope_table),
    };

    return cmocka_run_group_tests_name("kernels_layer", tests, NULL, NULL);
}
