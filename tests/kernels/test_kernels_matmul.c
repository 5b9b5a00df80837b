/*
 * Products with weight matrices: gemm (prompt phase) and rows (generation).
 *
 * Every set against scalar bit for bit, scalar against ref within the stated
 * tolerance, and the promise that a result depends on nothing but its own
 * row and token: not on how many tokens or rows take part, nor on how the
 * rows are split over threads.
 */
#include "tests/kernels/ktest.h"

static int round_in(int type, int d_in)
{
    int b = kt_block_weights(type);

    return (d_in + b - 1) / b * b;
}

/* y [n_tok, w->n_out], rows in ranges that end at the given border, those
 * behind it in two parts of the tokens. */
static void run_gemm(const struct kernels *k, float *y, const float *x,
                     size_t ldx, int n_tok, const struct kmat *w, int border)
{
    float *xp = kt_alloc(k->gemm_pack_size(n_tok, w->d_in) * sizeof *xp);
    float *scratch = kt_alloc(GEMM_SCRATCH * sizeof *scratch);
    int half = n_tok / 2 / k->gemm_mr * k->gemm_mr;

    k->gemm_pack(xp, x, ldx, n_tok, w->d_in, half, n_tok);
    k->gemm_pack(xp, x, ldx, n_tok, w->d_in, 0, half);
    k->gemm(y + (size_t)half * (size_t)w->n_out, (size_t)w->n_out,
            xp + k->gemm_pack_size(half, w->d_in), n_tok - half, w, border,
            w->n_out, scratch);
    if (half > 0)
        k->gemm(y, (size_t)w->n_out, xp, half, w, border, w->n_out, scratch);
    k->gemm(y, (size_t)w->n_out, xp, n_tok, w, 0, border, scratch);
    free(xp);
    free(scratch);
}

static void run_rows(const struct kernels *k, float *y, const float *x,
                     size_t ldx, int n_x, const struct kmat *w, bool exact,
                     int border)
{
    size_t size = k->rows_x_size(w->type, w->d_in, exact);
    uint8_t *xq = kt_alloc(size * (size_t)n_x);
    float *scratch = kt_alloc(GEMM_SCRATCH * sizeof *scratch);

    assert_int_equal(size % 64, 0);
    for (int t = 0; t < n_x; t++)
        k->rows_x(xq + (size_t)t * size, x + (size_t)t * ldx, w->type, w->d_in,
                  exact);
    k->rows(y, (size_t)w->n_out, xq, size, n_x, w, border, w->n_out, exact,
            scratch);
    k->rows(y, (size_t)w->n_out, xq, size, n_x, w, 0, border, exact, scratch);
    free(xq);
    free(scratch);
}

/*
 * Largest share of the tolerance that y uses against ref, in the sense of
 * kernels.h; quant adds the rounding of x to i16.
 */
static double worst(const float *y, const float *ref, const float *x,
                    size_t ldx, int n_tok, const struct kmat *w, bool quant)
{
    float *row = kt_alloc((size_t)w->d_in * sizeof *row);
    double top = 0;

    for (int r = 0; r < w->n_out; r++) {
        kernels_ref.dequant_row(row, w, r);
        for (int t = 0; t < n_tok; t++) {
            size_t at = (size_t)t * (size_t)w->n_out + (size_t)r;
            double abs = 0, tol = 0, amax = 0, e;

            for (int i = 0; i < w->d_in; i++)
                abs += fabs((double)x[(size_t)t * ldx + (size_t)i] *
                            (double)row[i]);
            for (int i = 0; quant && i < w->d_in; i++) {
                if (i % 32 == 0) {
                    amax = 0;
                    for (int j = i; j < i + 32; j++)
                        amax = fmax(
                            amax, fabs((double)x[(size_t)t * ldx + (size_t)j]));
                }
                tol += fabs((double)row[i]) * amax / 32767 / 2;
            }
            tol += 1e-6 * sqrt(w->d_in) * abs + 1e-30;
            e = fabs((double)y[at] - (double)ref[at]) / tol;
            if (!(e <= 1))
                fail_msg("%s: token %d row %d: %.9g, ref %.9g",
                         kt_name(w->type), t, r, (double)y[at],
                         (double)ref[at]);
            top = fmax(top, e);
        }
    }
    free(row);
    return top;
}

static void gemm_case(int type, int n_tok, int d_in, int n_out, bool perm,
                      double *top)
{
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    size_t ldx, n;
    uint64_t seed = (uint64_t)(type * 1000003 + n_tok * 1009 + d_in);
    float *x, *want, *got;
    struct kmat w;
    int border = n_out / 2 / GEMM_ROW_GRID * GEMM_ROW_GRID;

    d_in = round_in(type, d_in);
    ldx = (size_t)d_in + 3;
    n = (size_t)n_tok * (size_t)n_out;
    x = kt_alloc(ldx * (size_t)n_tok * sizeof *x);
    want = kt_alloc(n * sizeof *want);
    got = kt_alloc(n * sizeof *got);
    kt_mat(&w, type, n_out, d_in, &seed);
    if (perm)
        w.perm_half = n_out / 4;
    for (int t = 0; t < n_tok; t++) /* what lies between rows is NaN */
        kt_fill(x + (size_t)t * ldx, (size_t)d_in, &seed);
    run_gemm(&kernels_scalar, want, x, ldx, n_tok, &w, 0);
    run_gemm(&kernels_ref, got, x, ldx, n_tok, &w, 0);
    *top = fmax(*top, worst(want, got, x, ldx, n_tok, &w, false));
    for (int i = 0; i < n_set; i++) {
        memset(got, 0xff, n * sizeof *got);
        run_gemm(set[i], got, x, ldx, n_tok, &w, border);
        kt_same(got, want, n, kt_name(type), set[i]->name);
        if (n_tok > 1) { /* fewer tokens, same bits */
            memset(got, 0xff, n * sizeof *got);
            run_gemm(set[i], got, x, ldx, n_tok / 2 + 1, &w, 0);
            kt_same(got, want, (size_t)(n_tok / 2 + 1) * (size_t)n_out,
                    "fewer tokens", set[i]->name);
        }
    }
    kt_mat_free(&w);
    free(x);
    free(want);
    free(got);
}

static void test_gemm(void **state)
{
    static const int toks[] = { 1, 7, 16, 33, 65 };
    static const int dims[] = { 1, 7, 32, 65, 320, 544 };
    static const int outs[] = { 1, 9, 64, 130 };

    (void)state;
    for (int i = 0; i < KT_N_TYPE; i++) {
        double top = 0;

        for (int a = 0; a < 5; a++)
            gemm_case(kt_types[i], toks[a], dims[(i + a) % 6],
                      outs[(i + a) % 4], false, &top);
        gemm_case(kt_types[i], 12, 576, 40, true, &top);
        gemm_case(kt_types[i], 5, 1536, 33, false, &top);
        printf("# gemm %s: worst error %.2g of the tolerance\n",
               kt_name(kt_types[i]), top);
    }
}

/* More rows and tokens than any block of an implementation holds. */
static void test_gemm_large(void **state)
{
    double top = 0;

    (void)state;
    gemm_case(KT_F32, 200, 300, 300, false, &top);
    gemm_case(KT_Q4_1, 600, 32, 64, false, &top);
    printf("# gemm large: worst error %.2g of the tolerance\n", top);
}

/* gp of rows [row0, row1), in two parts of the tokens if there is a border */
static void run_gated(const struct kernels *k, float *gp, const float *xp,
                      int n_tok, const struct kmat *gate, const struct kmat *up,
                      int row0, int row1)
{
    float *scratch = kt_alloc(GEMM_SCRATCH * sizeof *scratch);
    int half = n_tok / 2 / k->gemm_mr * k->gemm_mr;

    k->gemm_gated(gp + k->gemm_pack_size(half, gate->n_out),
                  xp + k->gemm_pack_size(half, gate->d_in), n_tok - half, gate,
                  up, row0, row1, scratch);
    if (half > 0)
        k->gemm_gated(gp, xp, half, gate, up, row0, row1, scratch);
    free(scratch);
}

/* In every set: the bits of gemm twice, swiglu and gemm_pack. */
static void gated_case(const struct kernels *k, int type_gate, int type_up,
                       int n_tok, int d_in, int n_out)
{
    uint64_t seed = (uint64_t)(type_gate * 1009 + n_tok * 31 + n_out);
    size_t n = (size_t)n_tok * (size_t)n_out;
    size_t size = k->gemm_pack_size(n_tok, n_out);
    float *x = kt_alloc((size_t)n_tok * (size_t)d_in * sizeof *x);
    float *xp = kt_alloc(k->gemm_pack_size(n_tok, d_in) * sizeof *xp);
    float *g = kt_alloc(n * sizeof *g), *u = kt_alloc(n * sizeof *u);
    float *want = kt_alloc(size * sizeof *want);
    float *got = kt_alloc(size * sizeof *got);
    int border = n_out / 2 / GEMM_ROW_GRID * GEMM_ROW_GRID;
    struct kmat gate, up;

    kt_mat(&gate, type_gate, n_out, d_in, &seed);
    kt_mat(&up, type_up, n_out, d_in, &seed);
    kt_fill(x, (size_t)n_tok * (size_t)d_in, &seed);
    run_gemm(k, g, x, (size_t)d_in, n_tok, &gate, 0);
    run_gemm(k, u, x, (size_t)d_in, n_tok, &up, 0);
    k->swiglu(g, g, u, n);
    k->gemm_pack(want, g, (size_t)n_out, n_tok, n_out, 0, n_tok);
    k->gemm_pack(xp, x, (size_t)d_in, n_tok, d_in, 0, n_tok);
    run_gated(k, got, xp, n_tok, &gate, &up, border, n_out);
    run_gated(k, got, xp, n_tok, &gate, &up, 0, border);
    kt_same(got, want, size, "gated", k->name);
    kt_mat_free(&gate);
    kt_mat_free(&up);
    free(x);
    free(xp);
    free(g);
    free(u);
    free(want);
    free(got);
}

static void test_gated(void **state)
{
    const struct kernels *k;
    bool usable;

    (void)state;
    for (int i = 0; (k = kernels_at(i, &usable)); i++) {
        if (!usable)
            continue;
        for (int t = 0; t < KT_N_TYPE; t++)
            gated_case(k, kt_types[t], KT_F32, 33, 256, 41);
        gated_case(k, KT_Q4_1, KT_Q8_0, 1, 32, 1);
        gated_case(k, KT_F16, KT_BF16, 65, 19, 200);
        if (k != &kernels_ref) /* more than any block holds */
            gated_case(k, KT_Q4_0, KT_Q4_1, 600, 64, 100);
    }
}

/* Also the row kernels that a CPU with VNNI has no use for. */
static int row_sets(const struct kernels *set[4])
{
    int n = kt_fast_sets(set);

#if defined(__x86_64__)
    if (n > 0 && set[n - 1] == &kernels_avx512vnni)
        set[n++] = &kernels_avx512;
#endif
    return n;
}

static void rows_case(int type, int d_in, int n_out, bool exact, bool perm,
                      double *top)
{
    const struct kernels *set[4];
    int n_set = row_sets(set);
    uint64_t seed = (uint64_t)(type * 1000003 + n_out * 1009 + d_in);
    size_t ldx, n = ROWS_MAX * (size_t)n_out;
    float *x, *want, *got;
    struct kmat w;
    bool quant = !exact && kt_quantized(type);

    d_in = round_in(type, d_in);
    ldx = (size_t)d_in + 5;
    x = kt_alloc(ldx * ROWS_MAX * sizeof *x);
    want = kt_alloc(n * sizeof *want);
    got = kt_alloc(n * sizeof *got);
    kt_mat(&w, type, n_out, d_in, &seed);
    if (perm)
        w.perm_half = n_out / 4;
    for (int t = 0; t < ROWS_MAX; t++)
        kt_fill(x + (size_t)t * ldx, (size_t)d_in, &seed);
    for (int i = 0; i < d_in; i += 64) /* outliers, and a zero block */
        x[i] *= 40;
    for (int i = 0; i < 32 && d_in > 64; i++)
        x[ldx + (size_t)i] = 0;
    run_rows(&kernels_scalar, want, x, ldx, ROWS_MAX, &w, exact, 0);
    run_rows(&kernels_ref, got, x, ldx, ROWS_MAX, &w, exact, 0);
    *top = fmax(*top, worst(want, got, x, ldx, ROWS_MAX, &w, quant));
    for (int i = 0; i < n_set; i++)
        for (int n_x = 1; n_x <= ROWS_MAX; n_x++) {
            memset(got, 0xff, n * sizeof *got);
            run_rows(set[i], got, x, ldx, n_x, &w, exact, n_out / 3);
            kt_same(got, want, (size_t)n_x * (size_t)n_out, kt_name(type),
                    set[i]->name);
        }
    kt_mat_free(&w);
    free(x);
    free(want);
    free(got);
}

static void test_rows(void **state)
{
    static const int dims[] = {
        1, 7, 8, 9, 32, 64, 65, 130, 320, 544, 576, 1536
    };

    (void)state;
    for (int i = 0; i < KT_N_TYPE; i++) {
        double top = 0, top_exact = 0;

        for (int a = 0; a < 12; a++)
            rows_case(kt_types[i], dims[a], a % 2 ? 7 : 12, false, false, &top);
        rows_case(kt_types[i], 576, 32, false, true, &top);
        /* more inputs and rows than any kernel takes at once */
        rows_case(kt_types[i], 2080, 131, false, false, &top);
        rows_case(kt_types[i], 544, 9, true, false, &top_exact);
        rows_case(kt_types[i], 65, 3, true, false, &top_exact);
        printf("# rows %s: worst error %.2g, exact %.2g of the tolerance\n",
               kt_name(kt_types[i]), top, top_exact);
    }
}

/* Unusual activations: all sets must treat them alike, and the tokens beside
 * them as if they were not there. */
static void test_rows_extremes(void **state)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN,    1e38f, -3e38f,
                                 1e-45f,   1e-32f,    7e-31f, -0.0f };
    const struct kernels *set[4];
    int n_set = row_sets(set);
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < KT_N_TYPE; i++) {
        enum { N = 4 * ROWS_MAX };
        float x[256 * ROWS_MAX], want[N], got[N];
        struct kmat w;

        kt_mat(&w, kt_types[i], 4, 256, &seed);
        for (int a = 0; a < 9; a++) {
            kt_fill(x, 256 * ROWS_MAX, &seed);
            for (int j = 64; j < 96; j++)
                x[j] = a < 5 ? x[j] : 0.0f;
            x[70] = odd[a];
            run_rows(&kernels_scalar, want, x, 256, ROWS_MAX, &w, false, 0);
            if (a < 3)
                assert_false(isfinite(want[0]));
            for (int j = 4; j < N; j++)
                assert_true(isfinite(want[j]));
            for (int j = 0; j < n_set; j++)
                for (int n = 1; n <= ROWS_MAX; n += ROWS_MAX - 1) {
                    run_rows(set[j], got, x, 256, n, &w, false, 0);
                    kt_same(got, want, (size_t)(4 * n), kt_name(kt_types[i]),
                            set[j]->name);
                }
        }
        kt_mat_free(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),          cmocka_unit_test(test_gemm_large),
        cmocka_unit_test(test_gated),         cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_extremes),
    };

    return cmocka_run_group_tests_name("kernels_matmul", tests, NULL, NULL);
}
