/*
 * bench_kernels - how near the kernels come to what the machine can do.
 *
 *   make build/release/tests/bench/bench_kernels
 *   CAG_KERNELS=avx2 build/release/tests/bench/bench_kernels [what]
 *
 * One thread, one line of CSV per operation; the first lines are the probes
 * of the same run: fma peak of the CPU's vectors and reading 256 MB.  Each
 * figure is the best of several runs, so a busy machine disturbs it least;
 * time is the thread's CPU time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"
#include "kernels/limits.h"

/* CPU time of this thread: what others do on the core does not count */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* best seconds of one call: at least four calls and 0.15 s of them */
#define BEST(best, ...)                        \
    do {                                       \
        double end_ = now() + 0.15;            \
        int count_ = 0;                        \
        (best) = 1e9;                          \
        while (count_++ < 4 || now() < end_) { \
            double t_ = now();                 \
            __VA_ARGS__;                       \
            t_ = now() - t_;                   \
            if (t_ < (best))                   \
                (best) = t_;                   \
        }                                      \
    } while (0)

static uint64_t seed = 1;

static float rnd(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

static void *alloc(size_t n)
{
    void *p = aligned_alloc(4096, (n + 4095) & ~(size_t)4095);

    if (!p)
        exit(71);
    memset(p, 0, n);
    return p;
}

static float *floats(size_t n)
{
    float *x = alloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = rnd();
    return x;
}

static void probe_peak(void)
{
    enum { N = 1000000 };
    volatile float sink;
    double s;

    BEST(s, sink = kernels_fma_run(N));
    (void)sink;
    printf("probe,%s,%.1f GFLOP/s\n", kernels_fma_name(),
           kernels_fma_flop() * N / s * 1e-9);
}

static void probe_read(void)
{
    size_t n = (size_t)256 << 20;
    uint64_t *p = alloc(n);
    volatile uint64_t sink;
    double s;

    memset(p, 1, n);
    BEST(s, sink = kernels_read_run(p, n / 8));
    (void)sink;
    printf("probe,read,%.1f GB/s\n", (double)n / s * 1e-9);
    free(p);
}

static const struct {
    int type;
    const char *name;
} types[] = {
    { KT_F32, "F32" },   { KT_F16, "F16" },   { KT_BF16, "BF16" },
    { KT_Q4_0, "Q4_0" }, { KT_Q4_1, "Q4_1" }, { KT_Q5_0, "Q5_0" },
    { KT_Q5_1, "Q5_1" }, { KT_Q8_0, "Q8_0" }, { KT_Q4_K, "Q4_K" },
    { KT_Q5_K, "Q5_K" }, { KT_Q6_K, "Q6_K" },
};
enum { N_TYPE = sizeof types / sizeof types[0] };

static struct kmat matrix(int type, int n_out, int d_in)
{
    struct kmat w = { .type = type, .n_out = n_out, .d_in = d_in };
    size_t n =
        (size_t)d_in / (size_t)kt_block_weights(type) * kt_block_bytes(type);
    uint8_t *p = alloc(n * (size_t)n_out + 64);

    p += 2; /* as unaligned as in a file */
    for (size_t i = 0; i < n * (size_t)n_out; i++)
        p[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3b);
    if (!kt_quantized(type)) /* a denormal number would be slow */
        memset(p, 0x3a, n * (size_t)n_out);
    w.row_bytes = n;
    w.data = p;
    return w;
}

static void bench_gemm(const struct kernels *k, int type, const char *name,
                       int n_tok, int d_in, int n_out)
{
    struct kmat w = matrix(type, n_out, d_in);
    float *x = floats((size_t)n_tok * (size_t)d_in);
    float *y = floats((size_t)n_tok * (size_t)n_out);
    float *xp = floats(k->gemm_pack_size(n_tok, d_in));
    float *scratch = floats(GEMM_SCRATCH);
    double s, flop = 2.0 * n_tok * d_in * n_out;

    BEST(s, (k->gemm_pack(xp, x, (size_t)d_in, n_tok, d_in, 0, n_tok),
             k->gemm(y, (size_t)n_out, xp, n_tok, &w, 0, n_out, scratch)));
    printf("gemm,%s,M %d,K %d,N %d,%.1f GFLOP/s,%.2f ms\n", name, n_tok, d_in,
           n_out, flop / s * 1e-9, s * 1e3);
    free((void *)(uintptr_t)(w.data - 2));
    free(x);
    free(y);
    free(xp);
    free(scratch);
}

/* mb of weights; small ones stay in a cache and show the compute limit */
static void bench_rows(const struct kernels *k, int type, const char *name,
                       int n_x, int d_in, double mb)
{
    double row =
        (double)(d_in / kt_block_weights(type)) * (double)kt_block_bytes(type);
    int n_out = (int)(mb * 1e6 / row);
    struct kmat w = matrix(type, n_out, d_in);
    size_t size = k->rows_x_size(type, d_in, false);
    uint8_t *xq = alloc(size * (size_t)n_x);
    float *x = floats((size_t)d_in);
    float *y = floats((size_t)n_x * (size_t)n_out);
    float *scratch = floats(GEMM_SCRATCH);
    double s, sx;

    BEST(sx, k->rows_x(xq, x, type, d_in, false));
    for (int t = 1; t < n_x; t++)
        k->rows_x(xq + (size_t)t * size, x, type, d_in, false);
    BEST(s, k->rows(y, (size_t)n_out, xq, size, n_x, &w, 0, n_out, false,
                    scratch));
    printf("rows,%s,n_x %d,K %d,%.0f MB,%.1f GB/s,%.1f GMAC/s,x %.2f us\n",
           name, n_x, d_in, mb, row * n_out / s * 1e-9,
           (double)n_x * d_in * n_out / s * 1e-9, sx * 1e6);
    free((void *)(uintptr_t)(w.data - 2));
    free(xq);
    free(x);
    free(y);
    free(scratch);
}

/* the same position everywhere: all keys are visible to all rows */
static void attn_spans(const struct kernels *k, const struct attn_job *job,
                       int n_tile, int n_span)
{
    for (int i = 0; i < n_span; i++) {
        struct attn_job one = *job;

        one.n_tile = n_tile;
        one.k += i * n_tile;
        one.v += i * n_tile;
        one.ks += i * n_tile;
        one.vs += i * n_tile;
        k->attn(&one);
    }
}

static void bench_attn(const struct kernels *k, int type, int d, int n_row,
                       int n_key)
{
    int nt = n_key / KV_TILE, spans = 0;
    size_t bytes = (size_t)d * KV_TILE * (type == KV_Q8H ? 1 : 2);
    uint16_t *kv = alloc(2 * bytes * (size_t)nt);
    uint16_t *scale = alloc(4 * KV_TILE * (size_t)nt);
    float *q = floats((size_t)(n_row * d)), *o = floats((size_t)(n_row * d));
    float *scratch = floats(ATTN_SCRATCH), m[ATTN_ROWS], l[ATTN_ROWS];
    const void **kt = alloc(4 * sizeof *kt * (size_t)nt), **vt = kt + nt;
    const void **ks = vt + nt, **vs = ks + nt;
    int32_t last[ATTN_ROWS];
    double s, flop = 4.0 * n_row * n_key * d;
    struct attn_job job = { .kv_type = type,
                            .d_head = d,
                            .n_row = n_row,
                            .q = q,
                            .ldq = (size_t)d,
                            .last = last,
                            .k = kt,
                            .v = vt,
                            .ks = ks,
                            .vs = vs,
                            .m = m,
                            .l = l,
                            .o = o,
                            .scratch = scratch };

    for (size_t i = 0; i < bytes * (size_t)nt; i++)
        kv[i] = f32_to_f16(rnd());
    for (int i = 0; i < 2 * KV_TILE * nt; i++)
        scale[i] = f32_to_f16(0.01f);
    for (int i = 0; i < nt; i++) {
        ks[i] = scale + KV_TILE * i;
        vs[i] = scale + KV_TILE * (nt + i);
        kt[i] = (uint8_t *)kv + bytes * (size_t)i;
        vt[i] = (uint8_t *)kv + bytes * (size_t)(nt + i);
    }
    for (int r = 0; r < n_row; r++) {
        last[r] = n_key;
        m[r] = -3.0f;
        l[r] = 1.0f;
    }
    for (int i = 0; i < nt; i += KV_SPAN / KV_TILE)
        spans++;
    BEST(s, attn_spans(k, &job, nt / spans, spans));
    if (type == KV_Q8H)
        bytes += 2 * KV_TILE;
    printf("attn,%s,d %d,rows %d,keys %d,%.1f GFLOP/s,%.1f GB/s,"
           "%.2f ns per key\n",
           type == KV_Q8H ? "q8h" : "f16", d, n_row, n_key, flop / s * 1e-9,
           2.0 * (double)bytes * nt / s * 1e-9, s * 1e9 / n_key);
    free(kv);
    free(scale);
    free(q);
    free(o);
    free(scratch);
    free(kt);
}

static void bench_layer(const struct kernels *k)
{
    enum { N = 1536, D = 576, T = 64 };
    float *x = floats(N * T), *y = floats(N * T), *z = floats(N * T);
    uint16_t *tile = alloc(2 * 64 * KV_TILE * 2);
    bool ok = true;
    double s;

    BEST(s, k->rmsnorm(y, D, x, D, z, T, D, 1e-5f));
    printf("rmsnorm,d %d,%.1f ns a row\n", D, s * 1e9 / T);
    BEST(s, k->swiglu(y, x, z, N * T));
    printf("swiglu,%.2f ns an element\n", s * 1e9 / (N * T));
    BEST(s, k->add(y, x, N * T));
    printf("add,%.2f ns an element\n", s * 1e9 / (N * T));
    memset(y, 0, N * sizeof *y);
    BEST(s, k->rope(y, 9, 64, x, z, 1.0f));
    printf("rope,9 heads of 64,%.1f ns\n", s * 1e9);
    BEST(s, for (int t = 0; t < KV_TILE; t++) ok &=
            k->kv_store(KV_F16, tile, tile + 64 * KV_TILE, t, x, z, 64));
    printf("kv_store,64,%.1f ns a token%s\n", s * 1e9 / KV_TILE,
           ok ? "" : " (overflow)");
    BEST(s, rope_table(x, y, 4321, z, 32, 1.0f));
    printf("rope_table,32,%.1f ns\n", s * 1e9);
    free(x);
    free(y);
    free(z);
    free(tile);
}

static void bench_all_gemm(const struct kernels *k)
{
    static const int ms[] = { 4, 14, 16, 32, 128, 512 };

    for (int i = 0; i < N_TYPE; i++)
        bench_gemm(k, types[i].type, types[i].name, 512, 768, 768);
    for (int i = 0; i < 6; i++) {
        bench_gemm(k, KT_Q4_1, "Q4_1", ms[i], 576, 1536);
        bench_gemm(k, KT_Q4_1, "Q4_1", ms[i], 1536, 576);
    }
    bench_gemm(k, KT_Q8_0, "Q8_0", 512, 1024, 3072);
}

/* The families of less precision, each in the place of the set's gemm. */
static void bench_fast(const struct kernels *k)
{
    static const int ms[] = { 14, 32, 128, 512 };
    const struct kernels_fast *f;
    bool usable;

    for (int i = 0; (f = kernels_fast_at(i, &usable)); i++) {
        struct kernels with = *k;

        if (!usable || strstr(f->name, "scalar"))
            continue;
        with.gemm_pack_size = f->gemm_pack_size;
        with.gemm_pack = f->gemm_pack;
        with.gemm = f->gemm;
        printf("fast,%s,%s\n", f->name, f->numerics);
        for (int j = 0; j < 4; j++) {
            bench_gemm(&with, KT_Q4_1, "Q4_1", ms[j], 576, 1536);
            bench_gemm(&with, KT_Q4_1, "Q4_1", ms[j], 1536, 576);
        }
        for (int j = 0; j < N_TYPE; j++)
            if (f->takes(types[j].type))
                bench_gemm(&with, types[j].type, types[j].name, 512, 1024,
                           1024);
        if (!f->attn)
            continue;
        with.attn = f->attn;
        for (int j = 0; j < 2; j++) {
            bench_attn(&with, j ? KV_Q8H : KV_F16, 64, 42, 4096);
            bench_attn(&with, j ? KV_Q8H : KV_F16, 64, 96, 4096);
            bench_attn(&with, j ? KV_Q8H : KV_F16, 128, 96, 4096);
        }
    }
}

static void bench_all_rows(const struct kernels *k)
{
    for (int i = 0; i < N_TYPE; i++)
        for (int n_x = 1; n_x <= ROWS_MAX; n_x *= 4) {
            bench_rows(k, types[i].type, types[i].name, n_x, 1536, 1);
            bench_rows(k, types[i].type, types[i].name, n_x, 1536, 100);
        }
    bench_rows(k, KT_Q4_1, "Q4_1", 1, 576, 1);
    bench_rows(k, KT_Q8_0, "Q8_0", 1, 576, 1);
}

static void bench_all_attn(const struct kernels *k)
{
    static const int rows[] = { 1, 2, 3, 4, 6, 9, 12, 24, 48, 96 };

    for (int t = 0; t < 2; t++) {
        int type = t ? KV_Q8H : KV_F16;

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            bench_attn(k, type, 64, rows[i], 4096);
        bench_attn(k, type, 64, 3, 131072);
        bench_attn(k, type, 128, 2, 4096);
        bench_attn(k, type, 128, 96, 4096);
        bench_attn(k, type, 80, 96, 4096);
    }
}

int main(int argc, char **argv)
{
    const char *why = NULL, *what = argc > 1 ? argv[1] : "";
    const struct kernels *k = kernels_get(&why);

    if (!k) {
        fprintf(stderr, "bench_kernels: %s\n", why);
        return 78;
    }
    printf("set,%s\n", k->name);
    probe_peak();
    probe_read();
    if (!*what || strcmp(what, "gemm") == 0)
        bench_all_gemm(k);
    if (!*what || strcmp(what, "fast") == 0)
        bench_fast(k);
    if (!*what || strcmp(what, "rows") == 0)
        bench_all_rows(k);
    if (!*what || strcmp(what, "attn") == 0)
        bench_all_attn(k);
    if (!*what || strcmp(what, "layer") == 0)
        bench_layer(k);
    return 0;
}
