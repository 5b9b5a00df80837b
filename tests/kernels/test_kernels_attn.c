/*
 * Attention over tiles: borders of tiles and spans, masks, merges, how many
 * rows take part, storing, and values that must not leak.
 */
#include "tests/kernels/ktest.h"

struct kv {
    int type, d_head, n_tile;
    void *k[KV_SPAN / KV_TILE], *v[KV_SPAN / KV_TILE];
    uint16_t ks[KV_SPAN / KV_TILE][KV_TILE], vs[KV_SPAN / KV_TILE][KV_TILE];
    const uint64_t *see; /* [n_tile], or NULL */
};

static size_t tile_bytes(int type, int d_head)
{
    return (size_t)d_head * KV_TILE *
           (type == KV_Q8H   ? 1
            : type == KV_F16 ? 2
                             : 4);
}

/* One token's codes and scales to their places. */
static void put_codes(struct kv *kv, int t, const float *k, const float *v)
{
    int tile = t / KV_TILE, at = t % KV_TILE, d = kv->d_head;
    int8_t *kt = kv->k[tile], *vt = kv->v[tile], code[2][512];

    assert_true(kernels_ref.q8h_encode(code[0], &kv->ks[tile][at], k, NULL, d));
    assert_true(kernels_ref.q8h_encode(code[1], &kv->vs[tile][at], v, NULL, d));
    for (int c = 0; c < d; c++) {
        int g = c / 32, width = d - 32 * g < 32 ? d - 32 * g : 32;

        kt[(at / 16 * d + c) * 16 + at % 16] = code[0][c];
        vt[g * 32 * KV_TILE + at * width + c % 32] = code[1][c];
    }
}

/* n_key stored keys; what follows in the last tile is zero */
static void kv_init(struct kv *kv, int type, int d_head, int n_key,
                    const float *k, const float *v)
{
    kv->type = type;
    kv->d_head = d_head;
    kv->see = NULL;
    kv->n_tile = (n_key + KV_TILE - 1) / KV_TILE;
    for (int i = 0; i < kv->n_tile; i++) {
        kv->k[i] = kt_alloc(tile_bytes(type, d_head));
        kv->v[i] = kt_alloc(tile_bytes(type, d_head));
        memset(kv->k[i], 0, tile_bytes(type, d_head));
        memset(kv->v[i], 0, tile_bytes(type, d_head));
    }
    memset(kv->ks, 0, sizeof kv->ks);
    memset(kv->vs, 0, sizeof kv->vs);
    for (int t = 0; t < n_key && type == KV_Q8H; t++)
        put_codes(kv, t, k + (size_t)t * (size_t)d_head,
                  v + (size_t)t * (size_t)d_head);
    for (int t = 0; t < n_key && type != KV_Q8H; t++)
        assert_true(
            kernels_ref.kv_store(type, kv->k[t / KV_TILE], kv->v[t / KV_TILE],
                                 t % KV_TILE, k + (size_t)t * (size_t)d_head,
                                 v + (size_t)t * (size_t)d_head, d_head));
}

static void kv_release(struct kv *kv)
{
    for (int i = 0; i < kv->n_tile; i++) {
        free(kv->k[i]);
        free(kv->v[i]);
    }
}

struct state {
    float m[ATTN_ROWS], l[ATTN_ROWS], o[ATTN_ROWS * 512];
};

static void state_init(struct state *s)
{
    memset(s->o, 0xff, sizeof s->o);
    for (int r = 0; r < ATTN_ROWS; r++) {
        s->m[r] = -INFINITY;
        s->l[r] = 0;
    }
}

typedef void attn_fn(const struct attn_job *job);
typedef void mass_fn(const struct attn_job *job, float *p, size_t ldp);

/* Rows [r0, r1) over tiles [t0, t1), continuing s; or, of a finished s, the
 * shares of the tiles' keys to p [.., ldp]. */
static void run_any(attn_fn *attn, mass_fn *mass, float *p, size_t ldp,
                    struct state *s, const struct kv *kv, const float *q,
                    size_t ldq, const int32_t *last, int r0, int r1, int t0,
                    int t1, int32_t key0)
{
    float *scratch = kt_alloc(ATTN_SCRATCH * sizeof *scratch);
    const void *kt[KV_SPAN / KV_TILE], *vt[KV_SPAN / KV_TILE];
    const void *ks[KV_SPAN / KV_TILE], *vs[KV_SPAN / KV_TILE];
    struct attn_job job = { .kv_type = kv->type,
                            .d_head = kv->d_head,
                            .n_row = r1 - r0,
                            .q = q + (size_t)r0 * ldq,
                            .ldq = ldq,
                            .last = last + r0,
                            .see = kv->see ? kv->see + t0 : NULL,
                            .n_tile = t1 - t0,
                            .key0 = key0 + KV_TILE * t0,
                            .k = kt,
                            .v = vt,
                            .ks = ks,
                            .vs = vs,
                            .m = s->m + r0,
                            .l = s->l + r0,
                            .o = s->o + (size_t)r0 * (size_t)kv->d_head,
                            .scratch = scratch };

    for (int i = t0; i < t1; i++) {
        kt[i - t0] = kv->k[i];
        vt[i - t0] = kv->v[i];
        ks[i - t0] = kv->ks[i];
        vs[i - t0] = kv->vs[i];
    }
    if (attn)
        attn(&job);
    else
        mass(&job, p, ldp);
    free(scratch);
}

static void run(attn_fn *attn, struct state *s, const struct kv *kv,
                const float *q, size_t ldq, const int32_t *last, int r0, int r1,
                int t0, int t1, int32_t key0)
{
    run_any(attn, NULL, NULL, 0, s, kv, q, ldq, last, r0, r1, t0, t1, key0);
}

static void start(struct state *s, const struct kv *kv, int n_row)
{
    state_init(s);
    for (int i = 0; i < n_row * kv->d_head; i++)
        s->o[i] = 0;
}

static void same_state(const struct state *got, const struct state *want,
                       int r0, int r1, int d, const char *what, const char *set)
{
    kt_same(got->m + r0, want->m + r0, (size_t)(r1 - r0), what, set);
    kt_same(got->l + r0, want->l + r0, (size_t)(r1 - r0), what, set);
    kt_same(got->o + r0 * d, want->o + r0 * d, (size_t)((r1 - r0) * d), what,
            set);
}

/* Against double: the outputs o / l. */
static double against_ref(const struct state *got, const struct state *ref,
                          int n_row, int d)
{
    double top = 0;

    for (int r = 0; r < n_row; r++)
        for (int c = 0; c < d && ref->l[r] > 0; c++) {
            double a = (double)got->o[r * d + c] / (double)got->l[r];
            double b = (double)ref->o[r * d + c] / (double)ref->l[r];

            top = fmax(top, fabs(a - b));
        }
    return top;
}

/* Key t as attention reads it, channel c. */
static double key_at(const struct kv *kv, int t, int c)
{
    int tile = t / KV_TILE, at = t % KV_TILE;
    size_t i = (size_t)((at / 16 * kv->d_head + c) * 16 + at % 16);

    if (kv->type == KV_Q8H)
        return (double)((const int8_t *)kv->k[tile])[i] *
               (double)f16_to_f32(kv->ks[tile][at]);
    return kv->type == KV_F16
               ? (double)f16_to_f32(((const uint16_t *)kv->k[tile])[i])
               : (double)((const float *)kv->k[tile])[i];
}

/* max |v| as attention reads it */
static double largest_value(const struct kv *kv)
{
    double top = 0;

    for (int i = 0; i < kv->n_tile; i++)
        for (int j = 0; j < kv->d_head * KV_TILE; j++) {
            int t = j / 32 % KV_TILE; /* whole groups of 32 channels */
            double x =
                kv->type == KV_Q8H
                    ? (double)((const int8_t *)kv->v[i])[j] *
                          (double)f16_to_f32(kv->vs[i][t])
                    : (double)f16_to_f32(((const uint16_t *)kv->v[i])[j]);

            top = fmax(top, fabs(x));
        }
    return top;
}

/* What kernels.h states for attention in bf16; in 8 bits (u8s8) rows without
 * outliers stay as near, much nearer than what is stated for any row. */
static double bf16_tolerance(const struct kv *kv, const float *q, size_t ldq,
                             int n_row)
{
    double top = 0;

    for (int r = 0; r < n_row; r++)
        for (int t = 0; t < kv->n_tile * KV_TILE; t++) {
            double sum = 0;

            for (int c = 0; c < kv->d_head; c++)
                sum += fabs((double)q[(size_t)r * ldq + (size_t)c] *
                            key_at(kv, t, c));
            top = fmax(top, sum);
        }
    return (3.0 / 256 * top + 1.0 / 128) * largest_value(kv);
}

/* Implementations of one order of operations; the first is the oracle. */
struct impls {
    bool bf16;
    int n;
    const char *name[8];
    attn_fn *attn[8];
    mass_fn *mass[8];
};

/* Shares of finished rows: each set's bits, the reference's within what is
 * stated, and 1 in all; nothing beside the tiles is written. */
static void mass_case(const struct impls *im, struct state *s,
                      const struct kv *kv, const float *q, size_t ldq,
                      const int32_t *last, int n_row, int32_t key0)
{
    size_t ldp = (size_t)(kv->n_tile * KV_TILE) + 5, n = ldp * (size_t)n_row;
    float *want = kt_alloc(n * 4), *got = kt_alloc(n * 4);
    int nt = kv->n_tile, cut = n_row / 2;

    memset(want, 0xff, n * 4);
    run_any(NULL, im->mass[0], want, ldp, s, kv, q, ldq, last, 0, n_row, 0, nt,
            key0);
    for (int r = 0; r < n_row; r++) {
        const float *p = want + (size_t)r * ldp;
        double sum = 0;

        for (int t = 0; t < nt * KV_TILE; t++) {
            bool hidden =
                key0 + t > last[r] ||
                (kv->see && !(kv->see[t / KV_TILE] >> (t % KV_TILE) & 1));

            assert_true(hidden ? p[t] == 0 : p[t] >= 0);
            sum += (double)p[t];
        }
        assert_true(s->l[r] > 0 ? fabs(sum - 1) < 1e-5 : sum == 0);
    }
    memset(got, 0xff, n * 4);
    if (!im->bf16) {
        run_any(NULL, kernels_ref.attn_mass, got, ldp, s, kv, q, ldq, last, 0,
                n_row, 0, nt, key0);
        for (size_t i = 0; i < n; i++)
            assert_true(isnan(want[i]) == isnan(got[i]) &&
                        !(fabsf(want[i] - got[i]) > 2e-5f * want[i]));
    }
    for (int i = 1; i < im->n; i++) {
        memset(got, 0xff, n * 4);
        run_any(NULL, im->mass[i], got, ldp, s, kv, q, ldq, last, 0, cut, 0, nt,
                key0);
        run_any(NULL, im->mass[i], got + (size_t)cut * ldp, ldp, s, kv, q, ldq,
                last, cut, n_row, 0, nt, key0);
        kt_same(got, want, n, "mass", im->name[i]);
    }
    free(want);
    free(got);
}

/* What may be seen of a tile: nothing, all, a range, holes. */
static void hide(uint64_t *see, int n_tile, uint64_t *seed)
{
    for (int i = 0; i < n_tile; i++) {
        uint64_t x = (uint64_t)kt_rand(seed) << 32 ^ kt_rand(seed) << 3;
        int a = (int)(x % 64), b = (int)(x / 64 % 64);

        see[i] = kt_rand(seed) % 4 == 0   ? 0
                 : kt_rand(seed) % 3 == 0 ? UINT64_MAX
                 : x % 2                  ? x
                                          : UINT64_MAX << a >> b;
    }
}

/* Worst error against double: absolute, for bf16 its share of the bound */
static void attn_seen(const struct impls *im, int type, int d, int n_row,
                      int n_key, bool masked, double *top)
{
    uint64_t see[KV_SPAN / KV_TILE];
    int nt = (n_key + KV_TILE - 1) / KV_TILE;
    uint64_t seed = (uint64_t)(d * 131 + n_row * 17 + n_key);
    size_t ldq = (size_t)d + 3, n = (size_t)n_key * (size_t)d;
    float *q = kt_alloc(ldq * (size_t)n_row * 4);
    float *k = kt_alloc(n * 4), *v = kt_alloc(n * 4);
    struct state *want = kt_alloc(sizeof *want);
    struct state *got = kt_alloc(sizeof *got);
    const int32_t key0 = 2 * KV_SPAN;
    int32_t last[ATTN_ROWS];
    struct kv kv;

    for (int r = 0; r < n_row; r++) {
        kt_fill(q + (size_t)r * ldq, (size_t)d, &seed);
        for (int c = 0; c < d; c++)
            q[(size_t)r * ldq + (size_t)c] *= 3.0f / sqrtf((float)d);
        /* from "sees nothing" to "sees all", not in order */
        last[r] = key0 +
                  (r % 5 == 4
                       ? n_key + 70
                       : (int32_t)(kt_rand(&seed) % (unsigned)(n_key + 1)) - 1);
    }
    kt_fill(k, n, &seed);
    kt_fill(v, n, &seed);
    kv_init(&kv, type, d, n_key, k, v);
    if (masked) {
        memset(see, 0xff, sizeof see);
        start(want, &kv, n_row);
        run(im->attn[0], want, &kv, q, ldq, last, 0, n_row, 0, nt, key0);
        kv.see = see;
        start(got, &kv, n_row);
        run(im->attn[im->n - 1], got, &kv, q, ldq, last, 0, n_row, 0, nt, key0);
        same_state(got, want, 0, n_row, d, "nothing hidden",
                   im->name[im->n - 1]);
        hide(see, nt, &seed);
    }
    start(want, &kv, n_row);
    run(im->attn[0], want, &kv, q, ldq, last, 0, n_row, 0, nt, key0);
    start(got, &kv, n_row);
    run(kernels_ref.attn, got, &kv, q, ldq, last, 0, n_row, 0, nt, key0);
    *top = fmax(*top, against_ref(want, got, n_row, d) /
                          (im->bf16 ? bf16_tolerance(&kv, q, ldq, n_row) : 1));
    for (int i = 1; i < im->n; i++) {
        int cut = n_row / 3;

        start(got, &kv, n_row);
        run(im->attn[i], got, &kv, q, ldq, last, 0, n_row, 0, nt, key0);
        same_state(got, want, 0, n_row, d, "attn", im->name[i]);
        for (int j = n_row * d; j < n_row * d + 16 && j < ATTN_ROWS * 512; j++)
            assert_true(isnan(got->o[j]));
        /* rows split in two calls, tiles in two calls */
        start(got, &kv, n_row);
        run(im->attn[i], got, &kv, q, ldq, last, cut, n_row, 0, nt / 2, key0);
        run(im->attn[i], got, &kv, q, ldq, last, cut, n_row, nt / 2, nt, key0);
        if (cut)
            run(im->attn[i], got, &kv, q, ldq, last, 0, cut, 0, nt, key0);
        same_state(got, want, 0, n_row, d, "attn split", im->name[i]);
    }
    mass_case(im, want, &kv, q, ldq, last, n_row, key0);
    kv_release(&kv);
    free(q);
    free(k);
    free(v);
    free(want);
    free(got);
}

static void attn_case(const struct impls *im, int type, int d, int n_row,
                      int n_key, double *top)
{
    attn_seen(im, type, d, n_row, n_key, false, top);
    attn_seen(im, type, d, n_row, n_key, true, top);
}

static void test_attn(void **state)
{
    static const int dims[] = { 8, 16, 24, 32, 40, 64, 80, 96, 128, 256, 512 };
    static const int rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 31, 96 };
    static const int keys[] = { 1, 15, 16, 63, 64, 65, 129, 200 };
    const struct kernels *set[4];
    struct impls im = { .n = 1,
                        .name = { "scalar" },
                        .attn = { kernels_scalar.attn },
                        .mass = { kernels_scalar.attn_mass } };
    int n_set = kt_fast_sets(set);
    double top = 0;

    (void)state;
    for (int i = 0; i < n_set; i++) {
        im.name[im.n] = set[i]->name;
        im.mass[im.n] = set[i]->attn_mass;
        im.attn[im.n++] = set[i]->attn;
    }
    for (int a = 0; a < 13; a++)
        for (int b = 0; b < 3; b++)
            attn_case(&im,
                      b == 2 ? KV_Q8H
                      : b    ? KV_F32
                             : KV_F16,
                      dims[(a + 4 * b) % 11], rows[a], keys[(a + b) % 8], &top);
    for (int a = 0; a < 22; a++)
        attn_case(&im, a < 11 ? KV_F16 : KV_Q8H, dims[a % 11], 3,
                  keys[a % 8] + 64, &top);
    attn_case(&im, KV_F16, 64, 3, KV_SPAN, &top);
    attn_case(&im, KV_Q8H, 64, 3, KV_SPAN, &top);
    printf("# attention: worst error of an output against double %.2g\n", top);
    assert_true(top < 1e-5);
}

/* The vector families that attend with the bits of this scalar one, after it.
 */
static void bf16_impls(struct impls *im, const struct kernels_fast *scalar)
{
    const struct kernels_fast *f;
    bool usable;

    *im = (struct impls){ .bf16 = true,
                          .n = 1,
                          .name = { scalar->name },
                          .attn = { scalar->attn },
                          .mass = { scalar->attn_mass } };
    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
        if (f == scalar || strcmp(f->numerics, scalar->numerics) != 0)
            continue;
        assert_true(f->attn && f->attn_mass);
        if (!usable) {
            printf("# skip %s: this CPU or system lacks it\n", f->name);
            continue;
        }
        im->name[im->n] = f->name;
        im->mass[im->n] = f->attn_mass;
        im->attn[im->n++] = f->attn;
    }
}

/* The same in bf16 or 8 bits, where a family of less precise products has it.
 */
static void test_bf16(void **state)
{
    static const int dims[] = { 32, 64, 96, 128, 256, 512 };
    static const int rows[] = { 1, 2, 3, 4, 5, 12, 13, 15, 16, 17, 42, 96 };
    static const int keys[] = { 1, 16, 63, 64, 65, 200 };
    const struct kernels_fast *f;
    bool usable;
    int n_order = 0;

    (void)state;
    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
        struct impls im;
        double top = 0;

        assert_false(kernels_fast_attends(f, KV_F32, 64));
        assert_false(kernels_fast_attends(f, KV_F16, 80));
        if (!kernels_fast_attends(f, KV_F16, 64) || !strstr(f->name, "scalar"))
            continue;
        n_order++;
        bf16_impls(&im, f);
        for (int a = 0; a < 12; a++)
            for (int b = 0; b < 2; b++)
                attn_case(&im, b ? KV_Q8H : KV_F16, dims[(a + b) % 6], rows[a],
                          keys[(a + 2 * b) % 6], &top);
        printf("# attention, %s: worst error %.2g of the tolerance\n",
               f->numerics, top);
        assert_true(top < 0.1);
    }
    assert_true(n_order >= 3);
}

/*
 * Scores and values at the borders of f32 and bf16: the vector code treats
 * them as the scalar one does.
 */
static void test_bf16_odd_values(void **state)
{
    enum { D = 64, N = 130, ROWS = 13 };
    const struct kernels_fast *f;
    struct state *want = kt_alloc(sizeof *want), *got = kt_alloc(sizeof *got);
    float *q = kt_alloc(ROWS * D * 4), *k = kt_alloc(N * D * 4);
    float *v = kt_alloc(N * D * 4);
    uint64_t seed = 5;
    int32_t last[ROWS];
    bool usable;

    (void)state;
    for (int r = 0; r < ROWS; r++)
        last[r] = 20 + 9 * r;
    for (int rep = 0; rep < 40; rep++) {
        struct kv kv;

        kt_fill(k, N * D, &seed);
        kt_fill(v, N * D, &seed);
        kt_fill(q, ROWS * D, &seed);
        /* denormal products; weights below 2^-126; huge scores */
        for (int i = 0; i < ROWS * D; i++)
            q[i] *= rep % 4 == 0   ? 0x1p-120f
                    : rep % 4 == 1 ? 40.0f
                    : rep % 4 == 2 ? 0x1p60f
                                   : 0x1p-130f;
        for (int i = 0; i < N * D; i++)
            v[i] *= rep % 3 ? 1.0f : 0x1p-20f;
        kv_init(&kv, rep % 8 < 4 ? KV_F16 : KV_Q8H, D, N, k, v);
        for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
            struct impls im;

            if (!kernels_fast_attends(f, KV_F16, D) ||
                !strstr(f->name, "scalar"))
                continue;
            bf16_impls(&im, f);
            start(want, &kv, ROWS);
            run(im.attn[0], want, &kv, q, D, last, 0, ROWS, 0, 3, 0);
            for (int j = 1; j < im.n; j++) {
                start(got, &kv, ROWS);
                run(im.attn[j], got, &kv, q, D, last, 0, ROWS, 0, 3, 0);
                same_state(got, want, 0, ROWS, D, "odd values", im.name[j]);
            }
        }
        kv_release(&kv);
    }
    free(q);
    free(k);
    free(v);
    free(want);
    free(got);
}

/* Spans computed apart and merged, against one softmax in double. */
static void test_merge(void **state)
{
    enum { D = 64, N = 600, ROWS = 4 };
    const struct kernels *set[4];
    int n_set = kt_fast_sets(set);
    uint64_t seed = 77;
    float *q = kt_alloc(ROWS * D * 4), *k = kt_alloc(N * D * 4);
    float *v = kt_alloc(N * D * 4), out[ROWS * D], want[ROWS * D];
    struct state *a = kt_alloc(sizeof *a), *b = kt_alloc(sizeof *b);
    struct state *c = kt_alloc(sizeof *c);
    /* row 0 sees one span only, row 1 nothing */
    int32_t last[ROWS] = { 100, -1, 400, N };
    struct kv kv;

    (void)state;
    kt_fill(q, ROWS * D, &seed);
    kt_fill(k, N * D, &seed);
    kt_fill(v, N * D, &seed);
    kv_init(&kv, KV_F16, D, N, k, v);
    start(a, &kv, ROWS);
    run(kernels_scalar.attn, a, &kv, q, D, last, 0, ROWS, 0, 5, 0);
    start(b, &kv, ROWS);
    run(kernels_scalar.attn, b, &kv, q, D, last, 0, ROWS, 5, kv.n_tile, 0);
    *c = *a;
    kernels_scalar.attn_merge(c->m, c->l, c->o, b->m, b->l, b->o, ROWS, D);
    same_state(c, a, 0, 2, D, "merge with an empty span", "scalar");
    for (int i = 0; i < n_set; i++) {
        struct state *s = kt_alloc(sizeof *s);

        *s = *a;
        set[i]->attn_merge(s->m, s->l, s->o, b->m, b->l, b->o, ROWS, D);
        same_state(s, c, 0, ROWS, D, "merge", set[i]->name);
        free(s);
    }
    start(b, &kv, ROWS);
    run(kernels_ref.attn, b, &kv, q, D, last, 0, ROWS, 0, kv.n_tile, 0);
    assert_true(against_ref(c, b, ROWS, D) < 1e-5);
    kernels_scalar.attn_finish(want, D, c->l, c->o, ROWS, D);
    assert_true(want[0] == c->o[0] / c->l[0]);
    for (int i = 0; i < n_set; i++) {
        memset(out, 0xff, sizeof out);
        set[i]->attn_finish(out, D, c->l, c->o, ROWS, D);
        kt_same(out, want, ROWS * D, "finish", set[i]->name);
    }
    kv_release(&kv);
    free(q);
    free(k);
    free(v);
    free(a);
    free(b);
    free(c);
}

/* What a row may not see does not enter, however large it is. */
static void test_mask(void **state)
{
    enum { D = 32, N = 100 };
    const struct kernels *k;
    bool usable;
    uint64_t seed = 8;
    float *q = kt_alloc(8 * D * 4), *key = kt_alloc(N * D * 4);
    float *val = kt_alloc(N * D * 4);
    struct state *a = kt_alloc(sizeof *a), *b = kt_alloc(sizeof *b);
    int32_t last[8];

    (void)state;
    kt_fill(q, 8 * D, &seed);
    kt_fill(key, N * D, &seed);
    kt_fill(val, N * D, &seed);
    for (int r = 0; r < 8; r++)
        last[r] = 69;
    for (int i = 0; (k = kernels_at(i, &usable)); i++) {
        struct kv kv;

        if (!usable)
            continue;
        for (int n_row = 1; n_row <= 8; n_row += 7) {
            kv_init(&kv, KV_F16, D, N, key, val);
            start(a, &kv, n_row);
            run(k->attn, a, &kv, q, D, last, 0, n_row, 0, 2, 0);
            for (int t = 70; t < N; t++) {
                float big[D];

                for (int c = 0; c < D; c++)
                    big[c] = c % 2 ? 60000.0f : -60000.0f;
                k->kv_store(KV_F16, kv.k[1], kv.v[1], t - 64, big, big, D);
            }
            start(b, &kv, n_row);
            run(k->attn, b, &kv, q, D, last, 0, n_row, 0, 2, 0);
            same_state(b, a, 0, n_row, D, "masked keys", k->name);
            kv_release(&kv);
        }
    }
    free(q);
    free(key);
    free(val);
    free(a);
    free(b);
}

static void test_kv_store(void **state)
{
    static const int dims[] = { 8, 16, 24, 32, 40, 64, 80, 128, 512 };
    const struct kernels *set;
    bool usable;
    uint64_t seed = 11;

    (void)state;
    for (int s = 1; (set = kernels_at(s, &usable)); s++)
        for (int a = 0; usable && a < 18; a++) {
            int d = dims[a / 2], type = a % 2;
            size_t n = tile_bytes(type, d);
            uint8_t *k1 = kt_alloc(n), *v1 = kt_alloc(n);
            uint8_t *k2 = kt_alloc(n), *v2 = kt_alloc(n);
            float k[512], v[512];

            for (int t = 0; t < KV_TILE; t += 7) {
                kt_fill(k, (size_t)d, &seed);
                kt_fill(v, (size_t)d, &seed);
                k[d - 1] = 65519.0f;
                v[0] = 1e-7f;
                assert_true(kernels_ref.kv_store(type, k1, v1, t, k, v, d));
                assert_true(set->kv_store(type, k2, v2, t, k, v, d));
            }
            assert_memory_equal(k1, k2, n);
            assert_memory_equal(v1, v2, n);
            for (int c = 0; c < d; c += 5) { /* anywhere, K or V */
                float keep = k[c], keep_v = v[c];

                k[c] = type == KV_F16 ? -65520.0f : INFINITY;
                assert_false(set->kv_store(type, k2, v2, 3, k, v, d));
                k[c] = NAN;
                assert_false(set->kv_store(type, k2, v2, 3, k, v, d));
                k[c] = keep;
                v[c] = -INFINITY;
                assert_false(set->kv_store(type, k2, v2, 3, k, v, d));
                v[c] = keep_v;
                assert_true(set->kv_store(type, k2, v2, 3, k, v, d));
            }
            free(k1);
            free(v1);
            free(k2);
            free(v2);
        }
}

/* exp2 seen through one key: p = exp2(0) is 1, an old state of -inf is 0. */
static void test_exp2_exact(void **state)
{
    enum { D = 8 };
    const struct kernels *set;
    bool usable;
    float q[D] = { 3 }, k[D] = { 1.5f }, v[D] = { 0.5f, -7 };
    struct state *s = kt_alloc(sizeof *s);
    int32_t last[1] = { 0 };

    (void)state;
    for (int i = 0; (set = kernels_at(i, &usable)); i++) {
        struct kv kv;

        if (!usable)
            continue;
        kv_init(&kv, KV_F16, D, 1, k, v);
        start(s, &kv, 1);
        run(set->attn, s, &kv, q, D, last, 0, 1, 0, 1, 0);
        assert_true(s->m[0] == 4.5f && s->l[0] == 1.0f);
        assert_true(s->o[0] == 0.5f && s->o[1] == -7.0f);
        kv_release(&kv);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attn),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_bf16_odd_values),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_kv_store),
        cmocka_unit_test(test_exp2_exact),
    };

    return cmocka_run_group_tests_name("kernels_attn", tests, NULL, NULL);
}
