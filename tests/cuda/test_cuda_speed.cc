/*
 * test_cuda_speed.cc - each kernel timed by itself at the shapes of Qwen3-0.6B,
 * one JSON object a line:
 *
 *   test_cuda_speed [SECONDS]
 *
 * A measurement is a graph of many launches, replayed once untimed and then
 * timed by events, so it has what a step has between kernels and nothing of
 * the host.  Weights and caches lie at a new place for each launch, for they
 * would otherwise stay in the L2 cache.  bytes are what has to be read and
 * written once.  Nothing begins after SECONDS (default 20).  On the host shim
 * the shapes are small: there it shows that everything runs.
 */
#include "tests/cuda/cuda_test.h"

#include <time.h>

static const struct shape {
    int d, d_ff, n_head, n_kv_head, d_head, n_vocab;
    int row_many, depth[3];
    size_t pool;
    int launches;
} qwen = { 1024, 3072, 16, 8, 128, 151936, 2048, { 2048, 8192, 32768 },
           (size_t)1 << 30, 40 },
  tiny = { 256, 256, 2, 1, 128, 40, 5, { 64, 64, 64 }, (size_t)1 << 21, 1 };
static const struct shape *sh;

static uint8_t *pool;
static size_t pool_bytes, pool_at;
static struct cuk_event *from, *to;
static double deadline;
static int n_timed, n_late;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes of the pool, not those of the last calls. */
static void *fresh(size_t n)
{
    n = (n + 255) & ~(size_t)255;
    if (pool_at + n > pool_bytes)
        pool_at = 0;
    CHECK(n <= pool_bytes, "the pool is smaller than %zu bytes", n);
    void *p = pool + pool_at;
    pool_at += n;
    return p;
}

static const char *type_name(int type)
{
    return type == KT_F32    ? "F32"
           : type == KT_F16  ? "F16"
           : type == KT_BF16 ? "BF16"
           : type == KT_Q4_0 ? "Q4_0"
           : type == KT_Q4_1 ? "Q4_1"
           : type == KT_Q5_0 ? "Q5_0"
           : type == KT_Q5_1 ? "Q5_1"
           : type == KT_Q8_0 ? "Q8_0"
           : type == KT_Q4_K ? "Q4_K"
           : type == KT_Q5_K ? "Q5_K"
                             : "Q6_K";
}

/*
 * Time launches of fn, which is given their number and returns a code; name
 * and rest describe it, in JSON.
 */
template <class F>
static void measure(const char *name, const char *rest, int rows, double bytes,
                    F fn)
{
    struct cuk_graph *g = NULL;
    float ms = 0;
    int code = 0;

    if (now() > deadline) {
        n_late++;
        return;
    }
    code = fn(0); /* loads the kernel: not in a capture */
    if (code == 0)
        code = cuk_capture_begin(stream);
    for (int i = 0; code == 0 && i < sh->launches; i++)
        code = fn(i);
    int end = cuk_capture_end(stream, &g);
    code = code != 0 ? code : end;
    for (int i = 0; code == 0 && i < 2; i++) {
        code = cuk_event_record(from, stream);
        if (code == 0)
            code = cuk_graph_launch(g, stream);
        if (code == 0)
            code = cuk_event_record(to, stream);
        if (code == 0)
            code = cuk_event_sync(to);
    }
    if (code == 0)
        code = cuk_event_ms(from, to, &ms);
    CHECK(code == 0, "%s %s: %s gave %d", name, rest, cuk_error(dev)->call,
          code);
    cuk_graph_free(g);
    double us = 1e3 * (double)ms / sh->launches;
    if (code == 0)
        printf("{\"kernel\":\"%s\",%s\"rows\":%d,\"us\":%.2f,"
               "\"gb_per_s\":%.1f}\n",
               name, rest, rows, us, us > 0 ? bytes / us * 1e-3 : 0.0);
    fflush(stdout);
    n_timed += code == 0;
}

/* ----------------------------------------------------------------- products */

static struct kmat matrix_at(int type, int n_out, int d_in)
{
    size_t row = (size_t)d_in / (size_t)kt_block_weights(type) *
                 kt_block_bytes(type);

    return { type, n_out, d_in, row,
             (const uint8_t *)fresh(row * (size_t)n_out), 0 };
}

struct product {
    const char *name;
    enum cuk_gemv_mode mode;
    int n_mat, d_in, n_out[3];
    bool norm;
};

static void time_product(const struct product &p, int type, int rows)
{
    dev_array<float> x((size_t)(rows * p.d_in)), norm((size_t)p.d_in);
    std::vector<dev_array<float> *> y;
    double bytes = 0;
    char rest[96];

    cuk_memset(stream, x.p, 0x3c, x.n * 4);
    cuk_memset(stream, norm.p, 0x3c, norm.n * 4);
    for (int i = 0; i < p.n_mat; i++) {
        y.push_back(new dev_array<float>((size_t)(rows * p.n_out[i])));
        cuk_memset(stream, y[(size_t)i]->p, 0, y[(size_t)i]->n * 4);
        struct kmat w = matrix_at(type, p.n_out[i], p.d_in);
        bytes += (double)w.row_bytes * w.n_out;
    }
    snprintf(rest, sizeof rest, "\"of\":\"%s\",\"type\":\"%s\",", p.name,
             type_name(type));
    measure("gemv", rest, rows, bytes, [&](int) {
        struct cuk_gemv g = {};
        g.mode = p.mode;
        g.n_mat = p.n_mat;
        g.dev_x = x.p;
        g.ldx = (size_t)p.d_in;
        g.n_x = rows;
        g.dev_norm = p.norm ? norm.p : NULL;
        g.eps = 1e-6f;
        for (int i = 0; i < p.n_mat; i++) {
            g.w[i] = matrix_at(type, p.n_out[i], p.d_in);
            g.dev_y[i] = y[(size_t)i]->p;
            g.ldy[i] = (size_t)p.n_out[i];
        }
        return cuk_gemv(stream, &g);
    });
    for (dev_array<float> *a : y)
        delete a;
}

static void time_products(void)
{
    const int q = sh->n_head * sh->d_head, kv = sh->n_kv_head * sh->d_head;
    const struct product all[] = {
        { "qkv", CUK_STORE, 3, sh->d, { q, kv, kv }, true },
        { "o", CUK_ADD, 1, q, { sh->d }, false },
        { "gate_up", CUK_SWIGLU, 2, sh->d, { sh->d_ff, sh->d_ff }, true },
        { "down", CUK_ADD, 1, sh->d_ff, { sh->d }, false },
        { "head", CUK_STORE, 1, sh->d, { sh->n_vocab }, false },
    };
    /* what is used most first */
    const int types[] = { KT_BF16, KT_Q4_K, KT_Q8_0, KT_Q4_0, KT_Q6_K, KT_F16,
                          KT_Q5_K, KT_Q4_1, KT_Q5_0, KT_Q5_1, KT_F32 };

    for (int type : types)
        for (int rows : { 1, CUK_GEMV_ROWS })
            for (const struct product &p : all)
                time_product(p, type, rows);
    for (int type : { KT_Q4_0, KT_Q4_K })
        for (const struct product &p : all)
            time_product(p, type, CUK_GEMV_MOST);
}

static void time_dequant(void)
{
    dev_array<uint16_t> out((size_t)(sh->d_ff * sh->d));
    char rest[64];

    for (int type : all_types) {
        struct kmat w = matrix_at(type, sh->d_ff, sh->d);
        double bytes = (double)w.row_bytes * w.n_out + 2.0 * (double)out.n;
        snprintf(rest, sizeof rest, "\"type\":\"%s\",", type_name(type));
        measure("dequant", rest, sh->d_ff, bytes, [&](int) {
            struct kmat m = matrix_at(type, sh->d_ff, sh->d);
            return cuk_dequant(stream, out.p, KT_BF16, &m, 0, m.n_out);
        });
    }
}

/* ------------------------------------------------------------ small kernels */

static void time_small(void)
{
    const size_t d = (size_t)sh->d, ff = (size_t)sh->d_ff;
    dev_array<float> w(d), id(64), logits((size_t)sh->n_vocab);
    dev_array<uint8_t> scratch(CUK_ARGMAX_SCRATCH(1));

    cuk_memset(stream, w.p, 0, d * 4);
    cuk_memset(stream, logits.p, 0, logits.n * 4);
    for (int rows : { 1, sh->row_many }) {
        const size_t n = (size_t)rows;
        dev_array<float> g(2 * n * ff);
        dev_array<uint16_t> out(n * ff);
        cuk_memset(stream, g.p, 0, g.n * 4);
        measure("add_norm", "", rows, (double)(n * d) * 10, [&](int) {
            return cuk_add_norm(stream, (float *)fresh(n * d * 4), NULL, NULL,
                                out.p, KT_BF16, w.p, 1e-6f, rows, sh->d);
        });
        measure("swiglu", "", rows, (double)(n * ff) * 10, [&](int) {
            return cuk_swiglu(stream, out.p, KT_BF16, g.p, g.p + ff, 2 * ff,
                              rows, sh->d_ff);
        });
    }
    measure("argmax", "", 1, (double)sh->n_vocab * 4, [&](int) {
        return cuk_argmax(stream, (int32_t *)id.p, logits.p,
                          (size_t)sh->n_vocab, 1, sh->n_vocab, scratch.p);
    });
}

/* ---------------------------------------------------------------- attention */

/* Rows after a prefix of whole tiles, of f16 or of codes, one layer; rotation
 * and merge are timed with it as in a pass. */
struct reading {
    cuk_shape            shape;
    std::vector<cuk_row> row;
    cuk_kv               kv = {};
    std::vector<cuk_item> item;
    std::vector<int32_t> state0;
    cuk_plan             plan = {};
    double               bytes; /* of K and V */

    reading(int depth, int rows, int d_head, bool codes)
    {
        int n_tile = depth / KV_TILE, own = (rows + KV_TILE - 1) / KV_TILE;
        int cap_item, cap_state;
        size_t heads = 2 * (size_t)sh->n_kv_head, d = (size_t)d_head;

        shape = { sh->n_head, sh->n_kv_head, d_head };
        chunk = heads * (size_t)n_tile * KV_TILE * (codes ? d + 2 : 2 * d) +
                (codes ? heads / 2 * d * 4 : 0);
        mine = heads * (size_t)own * KV_TILE * 2 * d;
        kv.shared = { 0, chunk, chunk, n_tile, n_tile };
        kv.own = { 0, mine, mine, own, own };
        kv.n_shared = n_tile;
        kv.codes = codes;
        for (int i = 0; i < rows; i++)
            row.push_back({ 0, depth + i, 0, 0 });
        int n_block = 1;
        CHECK(cuk_attention_blocks(dev, &shape, &n_block) == 0, "blocks");
        cuk_plan_bound(&shape, rows, 1, n_block, &cap_item, &cap_state);
        item.resize((size_t)cap_item);
        state0.resize((size_t)rows + 1);
        plan.item = item.data();
        plan.state0 = state0.data();
        plan.cap_item = cap_item;
        plan.cap_row = rows;
        plan.cap_state = cap_state;
        CHECK(cuk_plan_make(&plan, &shape, row.data(), rows, &kv, n_block, 0),
              "no plan for %d rows", rows);
        bytes = (double)(chunk + mine);
    }
    size_t chunk, mine;
};

static void time_attention(int depth, int rows, int d_head, bool codes)
{
    reading r(depth, rows, d_head, codes);
    const size_t n = (size_t)rows * (size_t)sh->n_head;
    const size_t d = (size_t)d_head;
    dev_array<uint16_t> q(n * d), rotated(n * d), out(n * d);
    dev_array<float> unit(n);
    dev_array<cuk_row> row(r.row);
    dev_array<cuk_item> item(r.item);
    dev_array<int32_t> state0(r.state0);
    dev_array<uint8_t> state(cuk_state_bytes(&r.shape, r.plan.n_state) + 1);
    std::vector<cuk_kv> kvs;
    char rest[96];

    /* each launch reads another cache, where the pool is large enough */
    for (int i = 0; i < sh->launches; i++) {
        cuk_kv kv = r.kv;
        kv.shared.base = (uint64_t)(uintptr_t)fresh(r.chunk);
        kv.own.base = (uint64_t)(uintptr_t)fresh(r.mine);
        kvs.push_back(kv);
    }
    dev_array<cuk_kv> kv(kvs);
    cuk_memset(stream, q.p, 0, q.n * 2);
    cuk_memset(stream, rotated.p, 0, q.n * 2);
    cuk_memset(stream, unit.p, 0, n * 4);
    snprintf(rest, sizeof rest,
             "\"depth\":%d,\"d_head\":%d,\"codec\":\"%s\",", depth, d_head,
             codes ? "q8h" : "f16");
    measure("attention", rest, rows, r.bytes, [&](int i) {
        cuk_attn a = {};
        a.shape = r.shape;
        a.dev_q = q.p;
        a.dev_q_rotated = rotated.p;
        a.dev_q_unit = unit.p;
        a.dev_row = row.p;
        a.dev_kv = kv.p + i;
        a.n_row = rows;
        a.dev_item = item.p;
        a.n_item = r.plan.n_item;
        a.dev_state0 = state0.p;
        a.dev_state = state.p;
        a.n_state = r.plan.n_state;
        a.dev_out = out.p;
        a.out_type = KT_BF16;
        return cuk_attention(stream, &a);
    });
}

static void time_attentions(void)
{
    for (int codes = 0; codes < 2; codes++)
        for (int depth : sh->depth)
            for (int rows : { 1, sh->row_many })
                for (int d_head : { sh->d_head, CUK_D_HEAD_MAX })
                    if (d_head == sh->d_head || depth == sh->depth[1])
                        time_attention(depth, rows, d_head, codes != 0);
}

int main(int argc, char **argv)
{
    uint64_t free_bytes = 0, total = 0;
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 20;

    dev_open();
    sh = strstr(cuk_get_info(dev)->name, "host shim") ? &tiny : &qwen;
    deadline = now() + seconds;
    if (sh == &tiny)
        deadline += 1e6;
    CHECK(cuk_mem(dev, &free_bytes, &total) == 0, "memory");
    pool_bytes = free_bytes / 2 < sh->pool ? (size_t)(free_bytes / 2) : sh->pool;
    {
        dev_array<uint8_t> memory(pool_bytes);
        pool = memory.p;
        /* any bits but NaNs and infinities of every type */
        cuk_memset(stream, pool, 0x11, pool_bytes);
        cuk_event_new(dev, true, &from);
        cuk_event_new(dev, true, &to);
        tap("attention", time_attentions);
        tap("products of few rows", time_products);
        tap("dequant", time_dequant);
        tap("small kernels", time_small);
        cuk_event_free(from);
        cuk_event_free(to);
    }
    printf("# %d timed, %d had no time\n", n_timed, n_late);
    dev_close();
    tap("something was timed, nothing is left", [] {
        CHECK(n_timed > 0 && shim_live() == 0, "%d timed, %d left", n_timed,
              shim_live());
    });
    return tap_end();
}
