/*
 * test_cuda_kernels.cc - every CUDA kernel but attention against the ref
 * kernels, on odd shapes, on the host shim.
 */
#include "tests/cuda/cuda_test.h"

#include <limits.h>

static const int operand_types[] = { KT_F32, KT_F16, KT_BF16 };

static void sync_ok(int line)
{
    CHECK(cuk_stream_sync(stream) == 0 && cuk_error(dev)->code == 0,
          "line %d: %s in %s (%s:%d)", line, cuk_error(dev)->name,
          cuk_error(dev)->call, cuk_error(dev)->file, cuk_error(dev)->line);
}
#define RUN(call)                                             \
    do {                                                      \
        int st_ = call;                                       \
        CHECK(st_ == 0, "%s gives %d", #call, st_);           \
        sync_ok(__LINE__);                                    \
    } while (0)

/* ------------------------------------------------------------------ weights */

static void dequant_case(int type, int out_type, int perm)
{
    int d = kt_block_weights(type) == 256 ? 512 : kt_quantized(type) ? 96 : 40;
    matrix w(type, 24, d, perm);
    int r0 = rnd_in(0, 5), r1 = rnd_in(6, 24);
    operands out(out_type, (size_t)(r1 - r0) * (size_t)d);

    RUN(cuk_dequant(stream, out.mem.p, out_type, &w.on_dev, r0, r1));
    std::vector<float> got = out.get();
    for (int r = r0; r < r1; r++) {
        std::vector<float> want = w.row(r);
        for (int i = 0; i < d; i++) {
            double x = want[(size_t)i];
            double y = got[(size_t)(r - r0) * (size_t)d + (size_t)i];
            CHECK(fabs(y - x) <= unit_of(out_type) * fabs(x) +
                                     (out_type == KT_F16 ? 3e-8 : 0),
                  "type %d to %d, perm %d, row %d, %d: %g, want %g", type,
                  out_type, perm, r, i, y, x);
        }
    }
}

static void test_dequant(void)
{
    for (int type : all_types)
        for (int out : operand_types)
            for (int perm : { 0, 4 })
                dequant_case(type, out, perm);
}

/* ---------------------------------------------------------------- norms etc. */

static void near_rows(const std::vector<float> &got,
                      const std::vector<float> &want, int type,
                      const char *what)
{
    for (size_t i = 0; i < want.size(); i++)
        CHECK(fabs((double)got[i] - (double)want[i]) <=
                  (unit_of(type) + 1e-5) * fabs((double)want[i]) + 1e-7,
              "%s, operand %d, element %zu: %g, want %g", what, type, i,
              (double)got[i], (double)want[i]);
}

static void embed_case(int type, int h_type, int d)
{
    const int n = 5, n_vocab = 11;
    matrix e(type, n_vocab, d);
    std::vector<float> w = rnd_floats((size_t)d);
    std::vector<cuk_row> row((size_t)n);
    std::vector<float> x((size_t)(n * d)), h((size_t)(n * d));

    for (cuk_row &r : row)
        r = { rnd_in(0, n_vocab - 1), 0, 0, 0 };
    for (int t = 0; t < n; t++) {
        std::vector<float> v = e.row(row[(size_t)t].id);
        memcpy(&x[(size_t)(t * d)], v.data(), (size_t)d * 4);
    }
    kernels_ref.rmsnorm(h.data(), (size_t)d, x.data(), (size_t)d, w.data(), n,
                        d, 1e-5f);
    dev_array<float> dx(x.size()), dw(w);
    dev_array<cuk_row> dr(row);
    operands dh(h_type, h.size());
    RUN(cuk_embed_norm(stream, dx.p, dh.mem.p, h_type, &e.on_dev, dw.p, 1e-5f,
                       dr.p, n));
    CHECK(dx.get() == x, "embedding of type %d differs", type);
    near_rows(dh.get(), h, h_type, "embed_norm");
}

static void test_embed_norm(void)
{
    for (int type : all_types)
        embed_case(type, operand_types[type % 3], 768);
    embed_case(KT_BF16, KT_F32, 8);
    embed_case(KT_F16, KT_F32, 1000);
}

static void test_add_norm(void)
{
    for (int d : { 8, 72, 264, 1000 })
        for (int mask = 0; mask < 8; mask++) {
            const int n = 3, type = operand_types[d % 3];
            std::vector<float> x = rnd_floats((size_t)(n * d)), h = x, z = x;
            std::vector<float> y = rnd_floats(x.size());
            std::vector<float> b = rnd_floats((size_t)d), w = b;
            dev_array<float> dx(x), dy(y), db(b), dw(w);
            operands dh(type, x.size());
            for (size_t i = 0; i < x.size(); i++)
                z[i] = x[i] + (mask & 1 ? y[i] : 0) +
                       (mask & 2 ? b[i % (size_t)d] : 0);
            kernels_ref.rmsnorm(h.data(), (size_t)d, z.data(), (size_t)d,
                                w.data(), n, d, 1e-6f);
            RUN(cuk_add_norm(stream, dx.p, mask & 1 ? dy.p : NULL,
                             mask & 2 ? db.p : NULL,
                             mask & 4 ? dh.mem.p : NULL, type, dw.p, 1e-6f, n,
                             d));
            near_rows(dx.get(), z, KT_F32, "add");
            if (mask & 4)
                near_rows(dh.get(), h, type, "add_norm");
        }
}

static void test_pick_norm(void)
{
    const std::vector<int32_t> index = { 5, 0, 5, 2 };

    for (int type : operand_types)
        for (int d : { 8, 72, 264 }) {
            std::vector<float> x = rnd_floats((size_t)(6 * d)), w, want;
            w = rnd_floats((size_t)d);
            want.resize(index.size() * (size_t)d);
            dev_array<float> dx(x), dw(w);
            dev_array<int32_t> di(index);
            operands dh(type, want.size());
            for (size_t i = 0; i < index.size(); i++)
                kernels_ref.rmsnorm(&want[i * (size_t)d], (size_t)d,
                                    &x[(size_t)(index[i] * d)], (size_t)d,
                                    w.data(), 1, d, 1e-6f);
            RUN(cuk_pick_norm(stream, dh.mem.p, type, dx.p, di.p, dw.p, 1e-6f,
                              (int)index.size(), d));
            near_rows(dh.get(), want, type, "pick_norm");
        }
}

static void test_swiglu(void)
{
    for (int type : operand_types)
        for (int d : { 1, 37, 300 }) {
            const int n = 4, ld = d + 3;
            std::vector<float> g = rnd_floats((size_t)(n * ld), 3);
            std::vector<float> u = rnd_floats(g.size()), want((size_t)(n * d));
            dev_array<float> dg(g), du(u);
            operands out(type, want.size());
            for (int t = 0; t < n; t++)
                kernels_ref.swiglu(&want[(size_t)(t * d)],
                                   &g[(size_t)(t * ld)],
                                   &u[(size_t)(t * ld)], (size_t)d);
            RUN(cuk_swiglu(stream, out.mem.p, type, dg.p, du.p, (size_t)ld, n,
                           d));
            near_rows(out.get(), want, type, "swiglu");
        }
}

/* More rows than a grid's y or z holds: each launcher of many rows takes
 * them.  Recorded, not run. */
static void test_many_rows(void)
{
    const int n = 1 << 17, d = 8;
    dev_array<float> x(8);
    dev_array<cuk_row> row(1);
    dev_array<cuk_kv> kv(1);
    matrix w(KT_F32, 8, d);
    struct cuk_graph *g = NULL;
    cuk_rope r = {};
    cuk_attn a = {};

    r.shape = a.shape = { 2, 1, 8 };
    a.n_row = n;
    a.n_item = n;
    a.n_state = -1;
    CHECK(cuk_capture_begin(stream) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_embed_norm(stream, x.p, x.p, KT_F32, &w.on_dev, x.p, 0, row.p, n) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_add_norm(stream, x.p, NULL, NULL, x.p, KT_F32, x.p, 0, n, d) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_swiglu(stream, x.p, KT_F32, x.p, x.p, d, n, d) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_rope_append(stream, &r, x.p, NULL, row.p, kv.p, n, NULL) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_dequant(stream, x.p, KT_F32, &w.on_dev, 0, 8) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_attention(stream, &a) == 0, "%s", cuk_error(dev)->call);
    CHECK(cuk_capture_end(stream, &g) == 0, "%s", cuk_error(dev)->call);
    cuk_graph_free(g);
}

/* --------------------------------------------------------- rotation, storing */

struct rope_case {
    int  n_head, n_kv_head, d;
    bool bias, norm;
    int  overflow;       /* row whose v is too large, or -1 */
};

/* q of a row, as f16 has it, against what keys of codes are to meet. */
static void check_rotated(const uint16_t *q, const float *f,
                          const uint16_t *rotated, float unit, int d)
{
    std::vector<double> x((size_t)d);
    double top = 0;

    for (int i = 0; i < d; i++)
        x[(size_t)i] = (double)f16_to_f32(q[i]) * (double)f[i];
    for (int h = 1; h < q8h_block(d).n; h *= 2)
        for (int i = 0; i < d; i++)
            if (!(i & h)) {
                double a = x[(size_t)i], b = x[(size_t)(i + h)];
                x[(size_t)i] = a + b;
                x[(size_t)(i + h)] = a - b;
            }
    for (double v : x)
        top = fabs(v) > top ? fabs(v) : top;
    CHECK(fabs((double)unit - top * (double)q8h_block(d).inverse) <=
              1e-5 * (double)unit, "d %d: unit %g of %g", d, (double)unit, top);
    for (int i = 0; i < d; i++) {
        double g = f16_to_f32(rotated[i]), want = x[(size_t)i] / top;
        CHECK(fabs(g - want) <= fabs(want) / 1024 + 1e-5,
              "d %d, rotated %d: %g, want %g", d, i, g, want);
    }
}

static void rope_one(const rope_case &c)
{
    const int n = 3, heads = c.n_head + 2 * c.n_kv_head, half = c.d / 2;
    const int layer = 1, n_layer = 2, n_tile = 3, n_shared = 2, n_pos = 400;
    const size_t tile = (size_t)KV_TILE * (size_t)c.d;     /* elements */
    const size_t layer_elems = 2 * (size_t)(c.n_kv_head * n_tile) * tile;
    const float scale = 0.3f, eps = 1e-6f;
    std::vector<float> qkv = rnd_floats((size_t)(n * heads * c.d));
    std::vector<float> bq = rnd_floats((size_t)(c.n_head * c.d));
    std::vector<float> bk = rnd_floats((size_t)(c.n_kv_head * c.d)), bv = bk;
    std::vector<float> qn = rnd_floats((size_t)c.d), kn = qn;
    std::vector<float> cs, sn, inv((size_t)half);
    /* the second row is empty */
    std::vector<cuk_row> row = { { 0, 130, 1, 0 }, { 0, 0, -1, 0 },
                                 { 0, 319, 1, 0 } };

    if (c.overflow >= 0)
        qkv[(size_t)((c.overflow + 1) * heads * c.d) - 1] = 70000;
    for (int i = 0; i < half; i++)
        inv[(size_t)i] = powf(10000, -2.0f * (float)i / (float)c.d);
    for (int p = 0; p < n_pos; p++) {
        std::vector<float> a((size_t)half), b((size_t)half);
        rope_table(a.data(), b.data(), p, inv.data(), half, 1);
        cs.insert(cs.end(), a.begin(), a.end());
        sn.insert(sn.end(), b.begin(), b.end());
    }
    dev_array<float> dqkv(qkv), dbq(bq), dbk(bk), dbv(bv), dqn(qn), dkn(kn);
    dev_array<float> dcs(cs), dsn(sn);
    dev_array<uint16_t> dq((size_t)(n * c.n_head * c.d));
    dev_array<uint16_t> own(layer_elems * n_layer);
    own.put(std::vector<uint16_t>(own.n, 0));
    cuk_kv kv = {};
    kv.own = { (uint64_t)(uintptr_t)own.p, layer_elems * 2, 0, n_tile,
               n_tile };
    kv.n_shared = n_shared;
    /* a prefix of codes: one chunk, of which only the factors are read */
    const size_t codes = 2 * (size_t)(c.n_kv_head * n_shared) * KV_TILE *
                         (size_t)(c.d + 2) / 4;
    std::vector<float> prefix(codes + (size_t)(c.n_kv_head * c.d));
    for (float &f : prefix)
        f = exp2f(rnd_normal());
    dev_array<float> dprefix(prefix);
    kv.codes = 1;
    kv.shared = { (uint64_t)(uintptr_t)dprefix.p, 0, 0, n_shared, n_shared };
    dev_array<uint16_t> rotated(dq.n);
    dev_array<float> unit((size_t)(n * c.n_head));
    dev_array<cuk_kv> dkv(std::vector<cuk_kv>{ cuk_kv{}, kv });
    dev_array<cuk_row> drow(row);
    dev_array<int32_t> bad(std::vector<int32_t>{ INT32_MAX });
    cuk_rope r = {};
    r.shape = { c.n_head, c.n_kv_head, c.d };
    if (c.bias)
        r.dev_bq = dbq.p, r.dev_bk = dbk.p, r.dev_bv = dbv.p;
    if (c.norm)
        r.dev_q_norm = dqn.p, r.dev_k_norm = dkn.p;
    r.eps = eps;
    r.dev_cos = dcs.p;
    r.dev_sin = dsn.p;
    r.q_scale = scale;
    r.layer = layer;
    r.dev_q_rotated = rotated.p;
    r.dev_q_unit = unit.p;
    RUN(cuk_rope_append(stream, &r, dqkv.p, dq.p, drow.p, dkv.p, n, bad.p));
    CHECK(bad.get()[0] == (c.overflow >= 0 ? c.overflow : INT32_MAX),
          "bad row %d", bad.get()[0]);

    std::vector<uint16_t> q = dq.get(), got = own.get(), want(got.size(), 0);
    std::vector<uint16_t> in_codes = rotated.get();
    std::vector<float> units = unit.get();
    for (int i = 0; i < n * c.n_head; i++)
        if (row[(size_t)(i / c.n_head)].kv >= 0)
            check_rotated(&q[(size_t)(i * c.d)],
                          &prefix[codes + (size_t)(i % c.n_head /
                                                   (c.n_head / c.n_kv_head) *
                                                   c.d)],
                          &in_codes[(size_t)(i * c.d)], units[(size_t)i], c.d);
    for (int t = 0; t < n; t++) {
        float *x = &qkv[(size_t)(t * heads * c.d)];
        float *k = x + c.n_head * c.d, *v = k + c.n_kv_head * c.d;
        if (row[(size_t)t].kv < 0)
            continue;
        if (c.bias) {
            kernels_ref.add(x, bq.data(), bq.size());
            kernels_ref.add(k, bk.data(), bk.size());
            kernels_ref.add(v, bv.data(), bv.size());
        }
        if (c.norm) {
            kernels_ref.rmsnorm(x, (size_t)c.d, x, (size_t)c.d, qn.data(),
                                c.n_head, c.d, eps);
            kernels_ref.rmsnorm(k, (size_t)c.d, k, (size_t)c.d, kn.data(),
                                c.n_kv_head, c.d, eps);
        }
        int pos = row[(size_t)t].pos;
        kernels_ref.rope(x, c.n_head, c.d, &cs[(size_t)(pos * half)],
                         &sn[(size_t)(pos * half)], scale);
        kernels_ref.rope(k, c.n_kv_head, c.d, &cs[(size_t)(pos * half)],
                         &sn[(size_t)(pos * half)], 1);
        for (int i = 0; i < c.n_head * c.d; i++) {
            double w = x[i], g = f16_to_f32(q[(size_t)(t * c.n_head * c.d + i)]);
            CHECK(fabs(w - g) <= fabs(w) / 1024 + 1e-5, "q %d %d: %g, want %g",
                  t, i, g, w);
        }
        for (int h = 0; h < c.n_kv_head && t != c.overflow; h++) {
            size_t at = layer_elems * layer +
                        (size_t)(h * n_tile + pos / KV_TILE - n_shared) * tile;
            kernels_ref.kv_store(KV_F16, &want[at],
                                 &want[at + layer_elems / 2], pos % KV_TILE,
                                 k + h * c.d, v + h * c.d, c.d);
        }
    }
    for (size_t i = 0; i < want.size(); i++) {
        double w = f16_to_f32(want[i]), g = f16_to_f32(got[i]);
        CHECK(fabs(w - g) <= fabs(w) / 1024 + 1e-5 ||
                  (c.overflow >= 0 && w == 0),
              "tile element %zu: %g, want %g", i, g, w);
    }
}

static void test_rope(void)
{
    const rope_case cases[] = {
        { 4, 2, 64, false, false, -1 }, { 5, 1, 128, true, true, -1 },
        { 2, 2, 8, false, true, -1 },   { 6, 3, 40, true, false, -1 },
        { 3, 3, 72, false, false, 2 },  { 2, 1, 96, true, true, 0 },
        { 2, 1, 256, true, true, -1 },  { 4, 2, 192, false, true, 2 },
        { 1, 1, 136, true, false, -1 },
    };

    for (const rope_case &c : cases)
        rope_one(c);
}

/* ------------------------------------------------------------------ products */

/* sum x * w and the sum of magnitudes, of one row with one token */
static double dot(const std::vector<float> &w, const float *x, double *mag)
{
    double sum = 0;

    *mag = 0;
    for (size_t i = 0; i < w.size(); i++) {
        sum += (double)w[i] * (double)x[i];
        *mag += fabs((double)w[i] * (double)x[i]);
    }
    return sum;
}

static void gemm_case(int type, int x_type, int perm, bool add, int n_tok,
                      int panel_rows)
{
    int d = kt_block_weights(type) == 256 ? 256 : kt_quantized(type) ? 64 : 24;
    const int n_out = 12;
    const size_t ldx = (size_t)d + 8, ldy = n_out + 5;
    matrix w(type, n_out, d, perm);
    operands x(x_type, rnd_floats((size_t)n_tok * ldx));
    std::vector<float> y0 = rnd_floats((size_t)n_tok * ldy), xf = x.get();
    dev_array<float> y(y0);
    size_t row = (size_t)d * (x_type == KT_F32 ? 4 : 2);
    dev_array<uint8_t> panel(row * (size_t)panel_rows);

    RUN(cuk_gemm(stream, y.p, ldy, add, x.mem.p, ldx, x_type, n_tok,
                 &w.on_dev, panel.p, panel.n));
    std::vector<float> got = y.get();
    for (int r = 0; r < n_out; r++) {
        operands rounded(x_type, (size_t)d);
        RUN(cuk_dequant(stream, rounded.mem.p, x_type, &w.on_dev, r, r + 1));
        std::vector<float> wr = rounded.get();
        for (int t = 0; t < n_tok; t++) {
            double mag, want = dot(wr, &xf[(size_t)t * ldx], &mag);
            size_t at = (size_t)t * ldy + (size_t)r;
            want += add ? (double)y0[at] : 0;
            CHECK(fabs((double)got[at] - want) <=
                      1e-6 * (sqrt(d) * mag + fabs(want)),
                  "type %d x %d perm %d: y[%d, %d] %g, want %g", type, x_type,
                  perm, t, r, (double)got[at], want);
        }
    }
    for (int t = 0; t < n_tok; t++)
        for (size_t i = n_out; i < ldy; i++)
            CHECK(got[(size_t)t * ldy + i] == y0[(size_t)t * ldy + i],
                  "gemm wrote behind row %d", t);
}

static void test_gemm(void)
{
    for (int type : all_types)
        for (int x_type : operand_types)
            gemm_case(type, x_type, type % 2 ? 3 : 0, x_type == KT_BF16, 3,
                      5);
    gemm_case(KT_BF16, KT_BF16, 0, false, 1, 1);
    gemm_case(KT_BF16, KT_BF16, 6, true, 17, 12);
}

/* What else a launch has: so many rows that a pair of them is not shared by
 * warps; the norm of x. */
enum { PLAIN, WIDE = 64, NORM = 1 };

static void gemv_case(int mode, int n_mat, const int types[3], int n_x,
                      bool bias, int perm, int more = PLAIN)
{
    int d = 40;
    for (int i = 0; i < n_mat; i++)
        if (kt_quantized(types[i]))
            d = kt_block_weights(types[i]) == 256 ? 768 : d == 768 ? d : 96;
    const size_t ldx = (size_t)d + 4;
    std::vector<float> x = rnd_floats((size_t)n_x * ldx), norm;
    dev_array<float> dx(x);
    norm = rnd_floats((size_t)d, 2);
    dev_array<float> dnorm(norm);
    matrix *w[3] = {};
    dev_array<float> *y[3] = {}, *b[3] = {};
    std::vector<float> y0[3], bf[3];
    struct cuk_gemv g = {};

    g.mode = (enum cuk_gemv_mode)mode;
    g.n_mat = n_mat;
    g.dev_x = dx.p;
    g.ldx = ldx;
    g.n_x = n_x;
    if (more & NORM) {
        g.dev_norm = dnorm.p;
        g.eps = 1e-5f;
        kernels_ref.rmsnorm(x.data(), ldx, x.data(), ldx, norm.data(), n_x, d,
                            g.eps);
    }
    for (int i = 0; i < n_mat; i++) {
        int n_out = mode == CUK_SWIGLU ? 8 : 8 + 8 * i + (perm ? 0 : i + 1);
        n_out += more & WIDE;
        w[i] = new matrix(types[i], n_out, d, perm);
        g.ldy[i] = (size_t)n_out + 2;
        y0[i] = rnd_floats((size_t)n_x * g.ldy[i]);
        bf[i] = rnd_floats((size_t)n_out);
        y[i] = new dev_array<float>(y0[i]);
        b[i] = new dev_array<float>(bf[i]);
        g.w[i] = w[i]->on_dev;
        g.dev_y[i] = y[i]->p;
        g.dev_bias[i] = bias ? b[i]->p : NULL;
    }
    RUN(cuk_gemv(stream, &g));
    for (int i = 0; i < n_mat; i++) {
        std::vector<float> got = y[i]->get();
        for (int t = 0; t < n_x; t++)
            for (int r = 0; r < (int)g.ldy[i]; r++) {
                size_t at = (size_t)t * g.ldy[i] + (size_t)r;
                double want = (double)y0[i][at], mag = 0;
                if (r < w[i]->host.n_out && mode == CUK_SWIGLU && i == 0) {
                    double m2, a = dot(w[0]->row(r), &x[(size_t)t * ldx], &mag);
                    double u = dot(w[1]->row(r), &x[(size_t)t * ldx], &m2);
                    want = a / (1 + exp(-a)) * u;
                    mag = mag * (1 + fabs(u)) + m2 * (1 + fabs(a));
                } else if (r < w[i]->host.n_out && mode != CUK_SWIGLU) {
                    double v = dot(w[i]->row(r), &x[(size_t)t * ldx], &mag);
                    want = v + (bias ? (double)bf[i][(size_t)r] : 0) +
                           (mode == CUK_ADD ? want : 0);
                }
                CHECK(fabs((double)got[at] - want) <=
                          1e-6 * (sqrt(d) * mag + fabs(want)) + 1e-30,
                      "mode %d type %d n_x %d: y%d[%d, %d] %g, want %g", mode,
                      types[i], n_x, i, t, r, (double)got[at], want);
            }
        delete w[i];
        delete y[i];
        delete b[i];
    }
}

static void test_gemv(void)
{
    int n_x = 1;

    for (int type : all_types) {
        int t[3] = { type, type, type };
        gemv_case(CUK_STORE, 1, t, n_x, true, 0);
        gemv_case(CUK_ADD, 1, t, n_x % CUK_GEMV_ROWS + 1, false, 0);
        gemv_case(CUK_SWIGLU, 2, t, (n_x + 3) % CUK_GEMV_ROWS + 1, false, 0);
        gemv_case(CUK_STORE, 3, t, 1, false, 4);
        n_x = n_x % CUK_GEMV_ROWS + 1;
    }
    const int mixed[3] = { KT_Q4_K, KT_Q6_K, KT_BF16 };
    for (int i = 1; i <= CUK_GEMV_ROWS; i++) {
        gemv_case(CUK_STORE, 3, mixed, i, true, 0, i % 2 ? PLAIN : WIDE);
        gemv_case(CUK_SWIGLU, 2, mixed, i, false, 0, i % 3 ? PLAIN : NORM);
    }
    const int q4[3] = { KT_Q4_0, KT_Q4_0, KT_Q4_0 };
    for (int i : { 1, 3, 9, 16, 27, CUK_GEMV_MOST }) {
        gemv_case(CUK_STORE, 3, q4, i, true, 0, NORM);
        gemv_case(CUK_STORE, 2, q4, i, false, 0, WIDE | NORM);
        gemv_case(CUK_ADD, 1, q4, i, true, 0, WIDE);
        gemv_case(CUK_SWIGLU, 2, q4, i, false, 0, WIDE | NORM);
    }
}

static void test_argmax(void)
{
    for (int n : { 1, 63, 64, 1000, 70000 }) {
        const int rows = 5;
        const size_t ld = (size_t)n + 1;
        std::vector<float> x = rnd_floats((size_t)rows * ld);
        std::vector<int> want((size_t)rows, -1);
        x[ld] = NAN; /* not finite: at the start, everywhere, once inside */
        for (int i = 0; i < n; i++)
            x[2 * ld + (size_t)i] = NAN;
        x[3 * ld + (size_t)n / 2] = -INFINITY;
        x[4 * ld + (size_t)n - 1] = INFINITY;
        if (n > 500)                            /* equal: the first counts */
            x[500] = x[17] = x[(size_t)n - 1] = 1e30f;
        want[0] = 0;
        for (int i = 1; i < n; i++)
            if (x[(size_t)i] > x[(size_t)want[0]])
                want[0] = i;
        dev_array<float> dx(x);
        dev_array<int32_t> id((size_t)rows);
        dev_array<uint8_t> scratch(CUK_ARGMAX_SCRATCH(rows));
        RUN(cuk_argmax(stream, id.p, dx.p, ld, rows, n, scratch.p));
        for (int t = 0; t < rows; t++)
            CHECK(id.get()[(size_t)t] == want[(size_t)t],
                  "%d: row %d: %d, want %d", n, t, id.get()[(size_t)t],
                  want[(size_t)t]);
    }
}

/* Arguments that no kernel was written for are refused, by name. */
static void test_refusals(void)
{
    matrix w(KT_BF16, 4, 16);
    struct kmat odd = w.on_dev;
    dev_array<float> x(64);
    cuk_rope r = {};

    odd.d_in = 12;
    CHECK(cuk_dequant(stream, x.p, KT_F32, &odd, 0, 1) != 0, "d_in 12");
    CHECK(strcmp(cuk_error(dev)->call, "cuk_dequant") == 0 &&
              strcmp(cuk_error(dev)->name, "cudaErrorInvalidValue") == 0 &&
              !cuk_error(dev)->sticky && cuk_error(dev)->line > 0,
          "call %s", cuk_error(dev)->call);
    cuk_clear(dev);
    CHECK(cuk_dequant(stream, x.p, KT_Q8_0, &w.on_dev, 0, 1) != 0, "Q8_0");
    cuk_clear(dev);
    CHECK(cuk_gemm(stream, x.p, 4, false, x.p, 16, KT_F16, 1, &w.on_dev, x.p,
                   8) != 0,
          "a panel of less than a row");
    cuk_clear(dev);
    for (int d_head : { 4, 12, CUK_D_HEAD_MAX + 8 }) {
        cuk_attn a = {};
        r.shape = a.shape = { 4, 2, d_head };
        a.n_item = a.n_row = 1;
        CHECK(cuk_rope_append(stream, &r, x.p, NULL, NULL, NULL, 1, NULL) != 0,
              "d_head %d", d_head);
        cuk_clear(dev);
        CHECK(cuk_attention(stream, &a) != 0, "d_head %d", d_head);
        cuk_clear(dev);
    }
    CHECK(cuk_error(dev)->code == 0, "cleared");
}

int main(void)
{
    dev_open();
    tap("dequant: every type, to every operand", test_dequant);
    tap("embed_norm", test_embed_norm);
    tap("add_norm", test_add_norm);
    tap("pick_norm", test_pick_norm);
    tap("swiglu", test_swiglu);
    tap("131,072 rows", test_many_rows);
    tap("rope_append: norms, rotation, tiles, overflow", test_rope);
    tap("gemm: panels, permuted rows, onto y", test_gemm);
    tap("gemv: every type and number of tokens", test_gemv);
    tap("argmax: ties, what is not finite", test_argmax);
    tap("refusals", test_refusals);
    dev_close();
    tap("nothing is left", [] { CHECK(shim_live() == 0, "%d", shim_live()); });
    return tap_end();
}
