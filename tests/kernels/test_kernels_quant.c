/*
 * Stored weights: every type against values recorded from the public gguf
 * package (tests/tools/make_quant_golden.py), every set against scalar, and
 * the conversions of f16 and bf16.
 */
#include "tests/kernels/ktest.h"

static void read_golden(const char *name, uint32_t head[3], uint8_t **raw,
                        float **val)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "tests/golden/quant/%s.bin", name);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 4, 3, f), 3);
    *raw = malloc(head[2]);
    *val = malloc(head[1] * sizeof **val);
    assert_non_null(*raw);
    assert_non_null(*val);
    assert_int_equal(fread(*raw, 1, head[2], f), head[2]);
    assert_int_equal(fread(*val, 4, head[1], f), head[1]);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static void test_golden(void **state)
{
    static const char *const files[] = { "f32",  "f16",  "bf16", "q4_0",
                                         "q4_1", "q5_0", "q5_1", "q8_0",
                                         "q4_k", "q5_k", "q6_k" };
    const struct kernels *k;
    bool usable;

    (void)state;
    for (int i = 0; i < KT_N_TYPE; i++) {
        uint32_t head[3];
        uint8_t *raw;
        float *val;

        read_golden(files[i], head, &raw, &val);
        assert_int_equal(head[0], kt_types[i]);
        for (int j = 0; (k = kernels_at(j, &usable)); j++) {
            struct kmat w = { .type = kt_types[i],
                              .n_out = 1,
                              .d_in = (int)head[1],
                              .row_bytes = head[2],
                              .data = raw };
            float *out = kt_alloc(head[1] * sizeof *out);

            if (usable) {
                k->dequant_row(out, &w, 0);
                for (uint32_t n = 0; n < head[1]; n++)
                    if (out[n] != val[n])
                        fail_msg("%s %s: weight %u is %.9g, expected %.9g",
                                 k->name, files[i], n, (double)out[n],
                                 (double)val[n]);
            }
            free(out);
        }
        free(raw);
        free(val);
    }
}

static void test_sets_agree(void **state)
{
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < KT_N_TYPE; i++) {
        int block = kt_block_weights(kt_types[i]);
        int n = block == 1 ? 71 : 5 * block;
        float *want = kt_alloc((size_t)n * 4), *got = kt_alloc((size_t)n * 4);
        struct kmat w;

        kt_mat(&w, kt_types[i], 3, n, &seed);
        for (int r = 0; r < 3; r++) {
            kernels_scalar.dequant_row(want, &w, r);
            for (int j = 0; j < n_set; j++) {
                memset(got, 0xff, (size_t)n * 4);
                set[j]->dequant_row(got, &w, r);
                kt_same(got, want, (size_t)n, kt_name(kt_types[i]),
                        set[j]->name);
            }
        }
        kt_mat_free(&w);
        free(want);
        free(got);
    }
}

/* A row of an interleaved matrix is found where GGUF put it. */
static void test_perm_half(void **state)
{
    struct kmat w = {
        .type = KT_F32, .n_out = 12, .d_in = 1, .row_bytes = 4, .perm_half = 3
    };
    static const float stored[12] = { 0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11 };
    uint8_t raw[48];

    (void)state;
    memcpy(raw, stored, sizeof raw);
    w.data = raw;
    for (int r = 0; r < 12; r++) {
        float v;

        kernels_ref.dequant_row(&v, &w, r);
        assert_true(v == (float)r);
    }
}

static void test_f16(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h);
        int e = (h >> 10 & 31), m = h & 0x3ff;
        double want = e == 31 ? (m ? NAN : INFINITY)
                      : e     ? ldexp(1024 + m, e - 25)
                              : ldexp(m, -24);

        if (h & 0x8000)
            want = -want;
        if (isnan(want)) {
            assert_true(isnan(f));
            assert_true(f32_to_f16(f) == (h | 0x200));
        } else {
            assert_true((double)f == want && !signbit(f) == !signbit(want));
            assert_int_equal(f32_to_f16(f), h);
        }
    }
}

/* Halfway cases go to even, and one bit either side of them does not. */
static void test_f16_rounding(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float lo = f16_to_f32((uint16_t)h);
        float hi = f16_to_f32((uint16_t)(h + 1));
        float mid = (float)(((double)lo + (double)hi) / 2);

        assert_int_equal(f32_to_f16(mid), h % 2 ? h + 1 : h);
        assert_int_equal(f32_to_f16(nextafterf(mid, 0.0f)), h);
        assert_int_equal(f32_to_f16(-nextafterf(mid, INFINITY)),
                         0x8000 | (h + 1));
    }
    assert_int_equal(f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
    assert_true(bf16_to_f32(0x3f80) == 1.0f);
    assert_true(bf16_to_f32(0xc049) == -3.140625f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_sets_agree),
        cmocka_unit_test(test_perm_half),    cmocka_unit_test(test_f16),
        cmocka_unit_test(test_f16_rounding),
    };

    return cmocka_run_group_tests_name("kernels_quant", tests, NULL, NULL);
}
