/*
 * Products in less precision (struct kernels_fast): every family that this
 * CPU runs against the scalar one of the same numerics bit for bit, that one
 * against ref within the stated tolerance, and what a result may depend on.
 */
#include "tests/kernels/ktest.h"

#include "kernels/limits.h"
#include "kernels/quant.h"

#include <sys/wait.h>
#include <unistd.h>

static bool is_scalar(const struct kernels_fast *f)
{
    return strstr(f->name, "scalar") != NULL;
}

/* The scalar family whose bits f gives. */
static const struct kernels_fast *twin(const struct kernels_fast *f)
{
    const struct kernels_fast *s;
    bool usable;

    for (int i = 0; (s = kernels_fast_at(i, &usable)); i++)
        if (is_scalar(s) && strcmp(s->numerics, f->numerics) == 0)
            return s;
    fail_msg("%s has no scalar code", f->name);
    return NULL;
}

/* Vector families of the given scalar one that this CPU runs. */
static int vectors_of(const struct kernels_fast *s,
                      const struct kernels_fast *out[8])
{
    const struct kernels_fast *f;
    bool usable;
    int n = 0;

    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++)
        if (usable && !is_scalar(f) && twin(f) == s)
            out[n++] = f;
    return n;
}

/* y [n_tok, w->n_out], rows in ranges that end at the given border, those
 * behind it in two parts of the tokens. */
static void run(const struct kernels_fast *f, float *y, const float *x,
                size_t ldx, int n_tok, const struct kmat *w, int border)
{
    float *xp = kt_alloc(f->gemm_pack_size(n_tok, w->d_in) * sizeof *xp);
    float *scratch = kt_alloc(GEMM_SCRATCH * sizeof *scratch);
    int half = n_tok / 2 / f->gemm_mr * f->gemm_mr;

    f->gemm_pack(xp, x, ldx, n_tok, w->d_in, half, n_tok);
    f->gemm_pack(xp, x, ldx, n_tok, w->d_in, 0, half);
    f->gemm(y + (size_t)half * (size_t)w->n_out, (size_t)w->n_out,
            xp + f->gemm_pack_size(half, w->d_in), n_tok - half, w, border,
            w->n_out, scratch);
    if (half > 0)
        f->gemm(y, (size_t)w->n_out, xp, half, w, border, w->n_out, scratch);
    f->gemm(y, (size_t)w->n_out, xp, n_tok, w, 0, border, scratch);
    free(xp);
    free(scratch);
}

/* What kernels.h states for a family; row holds row r of w. */
static double tolerance(const struct kernels_fast *f, const float *x,
                        const float *row, const struct kmat *w, int r)
{
    double abs = 0, tol = 0;
    int d_in = w->d_in;

    for (int i = 0; i < d_in; i++)
        abs += fabs((double)x[i] * (double)row[i]);
    if (strstr(f->numerics, "bf16"))
        tol = abs / 256;
    for (int b = 0; strstr(f->numerics, "u4s8") && b < d_in / 32; b++) {
        double amax = 0, sum = 0;
        struct quant_block k;

        quant_block(&k, w->type, kmat_row(w, r), b);
        for (int i = 32 * b; i < 32 * b + 32; i++) {
            amax = fmax(amax, fabs((double)x[i]));
            sum += fabs((double)row[i]);
            abs += fabs((double)k.m[0] * (double)x[i]);
        }
        tol += sum * amax / 127 / 2;
    }
    return tol + 1e-6 * sqrt(d_in) * abs + 1e-30;
}

/* The largest share of the tolerance that y uses. */
static double worst(const struct kernels_fast *f, const float *y,
                    const float *x, size_t ldx, int n_tok, const struct kmat *w)
{
    float *row = kt_alloc((size_t)w->d_in * sizeof *row);
    double top = 0;

    for (int r = 0; r < w->n_out; r++) {
        kernels_ref.dequant_row(row, w, r);
        for (int t = 0; t < n_tok; t++) {
            const float *xt = x + (size_t)t * ldx;
            float got = y[(size_t)t * (size_t)w->n_out + (size_t)r];
            double want = 0, e;

            for (int i = 0; i < w->d_in; i++)
                want += (double)xt[i] * (double)row[i];
            e = fabs((double)got - want) / tolerance(f, xt, row, w, r);
            if (!(e <= 1))
                fail_msg("%s, %s: token %d row %d: %.9g, ref %.9g", f->name,
                         kt_name(w->type), t, r, (double)got, want);
            top = fmax(top, e);
        }
    }
    free(row);
    return top;
}

struct shape {
    int n_tok, d_in, n_out;
    bool perm;
};

static void one_case(const struct kernels_fast *s, int type, struct shape c,
                     double *top)
{
    const struct kernels_fast *f[8];
    int b = kt_block_weights(type), n_f = vectors_of(s, f);
    int d_in = (c.d_in + b - 1) / b * b;
    size_t ldx = (size_t)d_in + 3, n = (size_t)c.n_tok * (size_t)c.n_out;
    uint64_t seed = (uint64_t)(type * 1000003 + c.n_tok * 1009 + d_in);
    float *x = kt_alloc(ldx * (size_t)c.n_tok * sizeof *x);
    float *want = kt_alloc(n * sizeof *want), *got = kt_alloc(n * sizeof *got);
    int border = c.n_out / 2 / GEMM_ROW_GRID * GEMM_ROW_GRID;
    struct kmat w;

    kt_mat(&w, type, c.n_out, d_in, &seed);
    if (c.perm)
        w.perm_half = c.n_out / 4;
    for (int t = 0; t < c.n_tok; t++) /* what lies between rows is NaN */
        kt_fill(x + (size_t)t * ldx, (size_t)d_in, &seed);
    for (int i = 0; i < 32 && d_in > 64; i++)
        x[32 + i] = i ? 0.0f : -0.0f; /* a block of zeros */
    run(s, want, x, ldx, c.n_tok, &w, 0);
    *top = fmax(*top, worst(s, want, x, ldx, c.n_tok, &w));
    for (int i = 0; i < n_f; i++) {
        memset(got, 0xff, n * sizeof *got);
        run(f[i], got, x, ldx, c.n_tok, &w, border);
        kt_same(got, want, n, kt_name(type), f[i]->name);
        memset(got, 0xff, n * sizeof *got); /* fewer tokens, same bits */
        run(f[i], got, x, ldx, c.n_tok / 2 + 1, &w, 0);
        kt_same(got, want, (size_t)(c.n_tok / 2 + 1) * (size_t)c.n_out,
                "fewer tokens", f[i]->name);
    }
    kt_mat_free(&w);
    free(x);
    free(want);
    free(got);
}

static void test_products(void **state)
{
    static const struct shape shapes[] = {
        { 1, 1, 1, false },     { 7, 7, 9, false },     { 16, 32, 64, false },
        { 33, 65, 130, false }, { 65, 320, 17, false }, { 12, 576, 40, true },
        { 5, 1536, 33, false }, { 18, 672, 15, false },
    };
    const struct kernels_fast *s;
    bool usable;

    (void)state;
    for (int i = 0; (s = kernels_fast_at(i, &usable)); i++) {
        if (!is_scalar(s)) {
            if (!usable)
                printf("# skip %s: this CPU or system lacks it\n", s->name);
            continue;
        }
        for (int t = 0; t < KT_N_TYPE; t++) {
            double top = 0;

            if (!s->takes(kt_types[t]))
                continue;
            for (size_t c = 0; c < sizeof shapes / sizeof shapes[0]; c++)
                one_case(s, kt_types[t], shapes[c], &top);
            printf("# %s, %s: worst error %.2g of the tolerance\n", s->numerics,
                   kt_name(kt_types[t]), top);
        }
    }
}

/* More rows, tokens and inputs than any block of an implementation holds. */
static void test_large(void **state)
{
    const struct kernels_fast *s;
    bool usable;
    double top = 0;

    (void)state;
    for (int i = 0; (s = kernels_fast_at(i, &usable)); i++) {
        if (!is_scalar(s))
            continue;
        one_case(s, KT_Q4_1, (struct shape){ 600, 32, 64, false }, &top);
        one_case(s, KT_Q4_0, (struct shape){ 130, 2080, 70, false }, &top);
    }
}

static float of_bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/* Values at the borders of what f32 and bf16 can hold. */
static float odd(uint64_t *s, int kind)
{
    uint32_t r = kt_rand(s), sign = r << 31, frac = kt_rand(s) & 0x7fffff;
    static const uint32_t at[] = { 0x7f800000, 0x7fc00000, 0x7f7fffff,
                                   0x7f7f8000, 0x00800000, 0x007fffff,
                                   0x00000001, 0x00000000, 0x3f808000,
                                   0x3f818000, 0x7f800001 };

    switch (kind) {
    case 0: /* products around 2^-126 */
        return of_bits(sign | (60 + r / 2 % 8) << 23 | frac);
    case 1: /* everything, also NaN and infinity */
        return of_bits(sign | kt_rand(s));
    case 2: /* all finite exponents */
        return of_bits(sign | (1 + r / 2 % 254) << 23 | frac);
    case 3: /* huge: chains that overflow */
        return of_bits(sign | (180 + r / 2 % 12) << 23 | frac);
    default:
        return of_bits(sign | at[r / 2 % 11]);
    }
}

/* Unusual values: the vector code must treat them as the scalar one does. */
static void test_odd_values(void **state)
{
    enum { D = 96, OUT = 32, TOK = 16 };
    const struct kernels_fast *s, *f[8];
    float x[TOK * D], want[TOK * OUT], got[TOK * OUT];
    uint64_t seed = 7;
    bool usable;

    (void)state;
    for (int i = 0; (s = kernels_fast_at(i, &usable)); i++) {
        int n_f = is_scalar(s) ? vectors_of(s, f) : 0;
        int type = s->takes(KT_F32) ? KT_F32 : KT_Q4_1;

        for (int rep = 0; rep < 200 && n_f; rep++) {
            struct kmat w;

            kt_mat(&w, type, OUT, D, &seed);
            for (int j = 0; j < TOK * D; j++)
                x[j] = odd(&seed, rep % 5);
            for (int r = 0; type == KT_F32 && r < OUT; r++)
                for (int j = 0; j < D; j++) {
                    float v =
                        j < D / (1 + rep % 3) ? odd(&seed, rep % 5) : 0.0f;
                    memcpy((uint8_t *)(uintptr_t)kmat_row(&w, r) + 4 * j, &v,
                           sizeof v);
                }
            run(s, want, x, D, TOK, &w, 0);
            for (int j = 0; j < n_f; j++) {
                run(f[j], got, x, D, TOK, &w, 0);
                kt_same(got, want, TOK * OUT, "odd values", f[j]->name);
            }
            kt_mat_free(&w);
        }
    }
}

/*
 * The border of 2^-126: a sum that f32's denormals round up to it, while
 * with 24 bits it stays below, is a zero.
 */
static void test_flush(void **state)
{
    const struct kernels_fast *s, *f[8];
    bool usable;

    (void)state;
    for (int i = 0; (s = kernels_fast_at(i, &usable)); i++) {
        float y = NAN, x[4] = { 1.0f, 0, -0x1p-64f, 0 };
        float wv[4] = { 0x1p-126f, 0, 0x1.8p-87f, 0 };
        struct kmat w = {
            .type = KT_F32, .n_out = 1, .d_in = 4, .row_bytes = sizeof wv
        };
        uint8_t data[sizeof wv];
        int n_f;

        if (!is_scalar(s) || !s->takes(KT_F32))
            continue;
        w.data = data;
        for (int rep = 0; rep < 2; rep++) {
            /* 2^-126 - 1.5 * 2^-151 is flushed, - 0.75 * 2^-151 is not */
            wv[2] = rep ? 0x1.8p-88f : 0x1.8p-87f;
            memcpy(data, wv, sizeof wv);
            run(s, &y, x, 4, 1, &w, 0);
            assert_true(y == (rep ? 0x1p-126f : 0.0f));
            n_f = vectors_of(s, f);
            for (int j = 0; j < n_f; j++) {
                float got = NAN;

                run(f[j], &got, x, 4, 1, &w, 0);
                kt_same(&got, &y, 1, "flush", f[j]->name);
            }
        }
    }
}

/* 0: a family of this name is used, 1: another, 2: none, 3: an error */
static int choice(const char *set, int type, const char *name)
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        const struct kernels_fast *f;
        const char *why;

        setenv("CAG_KERNELS", set, 1);
        f = kernels_fast_get(kernels_get(NULL), &type, 1, &why);
        _exit(why ? 3 : !f ? 2 : strcmp(f->name, name) == 0 ? 0 : 1);
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_choice(void **state)
{
    const struct kernels_fast *f;
    bool usable, in_256_bits = false;

    (void)state;
    assert_null(kernels_fast_at(-1, &usable));
    assert_null(kernels_fast_at(99, &usable));
    assert_int_equal(choice("scalar", KT_Q4_1, "-"), 2);
    assert_int_equal(choice("ref", KT_Q4_1, "-"), 2);
    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
        assert_string_not_equal(f->numerics, kernels_scalar.numerics);
        if (usable && strcmp(f->name, "amx") == 0) {
            assert_int_equal(choice("avx512", KT_Q4_1, "amx"), 0);
            assert_int_equal(choice("avx512", KT_F16, "amx"), 0);
        }
        if (usable && strncmp(f->name, "u4s8 avx", 8) == 0) {
            /* the first of the two that is usable */
            if (strcmp(f->name, "u4s8 avx512vnni") != 0 && !in_256_bits) {
                in_256_bits = true;
                assert_int_equal(choice("avx2", KT_Q4_K, f->name), 0);
            }
            assert_int_equal(choice("avx2", KT_Q8_0, "-"), 2);
        }
    }
}

/* --precision fast8: another family's products only where they take less time
 * than those of fast, which it is chosen beside. */
static void test_eight_bits(void **state)
{
    const int four = KT_Q4_1, mixed[2] = { KT_Q6_K, KT_Q4_K }, other = KT_F16;
    const struct kernels *set = kernels_get(NULL);
    const struct kernels_fast *f, *eight;
    bool usable;

    (void)state;
    assert_null(kernels_fast8_get(set, NULL, &four, 1));
    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
        eight = kernels_fast8_get(set, f, &four, 1);
        assert_ptr_equal(kernels_fast8_get(set, f, mixed, 2), eight);
        assert_null(kernels_fast8_get(set, f, &other, 1));
        if (strcmp(f->name, "avx512bf16") != 0) {
            assert_null(eight);
        } else if (eight) {
            assert_string_equal(eight->name, "u4s8 avx512vnni");
            assert_false(eight->takes(KT_Q6_K));
        } else {
            print_message("# skip: no AVX512-VNNI here\n");
        }
    }
}

/* CAG_KERNELS=SET+FAMILY: that one, also where another is faster. */
static void test_named(void **state)
{
    static const struct {
        const char *set, *family, *name;
    } named[] = {
        { "avx512", "amx", "amx" },
        { "avx512", "avx512bf16", "avx512bf16" },
        { "avx512", "avx512vnni", "u4s8 avx512vnni" },
        { "avx512", "avx2", "u4s8 avx2" },
        { "avx2", "avxvnni", "u4s8 avxvnni" },
        { "avx2", "avx2", "u4s8 avx2" },
    };
    const struct kernels_fast *f;
    bool usable, set_usable;

    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        char value[64];

        for (int j = 0; (f = kernels_fast_at(j, &usable)); j++)
            if (strcmp(f->name, named[i].name) == 0)
                break;
        if (!f) /* not in this build: another architecture */
            continue;
        for (int j = 0; kernels_at(j, &set_usable); j++)
            if (strcmp(kernels_at(j, &set_usable)->name, named[i].set) == 0)
                break;
        if (!set_usable)
            continue;
        snprintf(value, sizeof value, "%s+%s", named[i].set, named[i].family);
        assert_int_equal(choice(value, KT_Q4_1, f->name), usable ? 0 : 3);
        if (usable && !f->takes(KT_Q8_0)) /* nothing for this model */
            assert_int_equal(choice(value, KT_Q8_0, "-"), 2);
    }
    assert_int_equal(choice("scalar+amx", KT_Q4_1, "-"), 3);
    assert_int_equal(choice("scalar+scalar", KT_Q4_1, "-"), 3);
    assert_int_equal(choice("scalar+", KT_Q4_1, "-"), 3);
    assert_int_equal(choice("scalar+bogus", KT_Q4_1, "-"), 3);
}

/* What a family multiplies with can be run where the family can. */
static void test_limits(void **state)
{
    const struct kernels_fast *f;
    bool usable;

    (void)state;
    assert_null(kernels_limit("f32"));
    assert_null(kernels_limit(""));
    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
        const struct kernels_limit *l = kernels_limit(f->name);

        assert_true(is_scalar(f) == !l);
        if (!l || !usable)
            continue;
        assert_true(l->flop > 0);
        assert_true(l->run(3) == 0); /* sums of zeros */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_limits),
        /* last: it chooses the set of this process */
        cmocka_unit_test(test_eight_bits),
    };

    return cmocka_run_group_tests_name("kernels_fast", tests, NULL, NULL);
}
