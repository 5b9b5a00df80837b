/*
 * test_cuda_attention.cc - plans of attention, and attention itself against
 * a softmax in double, for timelines with and without a shared prefix, of all
 * of it and of parts; what it gives the tokens of a prefix.
 */
#include "tests/cuda/cuda_test.h"

/* ------------------------------------------------------------------ timelines */

static float h2f(uint16_t h)
{
    return f16_to_f32(h);
}

static size_t k_index(int d, int t, int c)
{
    return (size_t)((t / 16 * d + c) * 16 + t % 16);
}

static size_t v_index(int d, int t, int c)
{
    int g = c / 32, width = d - 32 * g < 32 ? d - 32 * g : 32;

    return (size_t)(g * 32 * KV_TILE + t * width + c % 32);
}

/* A segment of tiles for all layers, in host and device memory. */
struct segment {
    int                    n_kv_head, d, layers;
    bool                   codes;         /* on the device; host: what they
                                             stand for */
    cuk_seg                seg;
    std::vector<uint16_t>  host;
    dev_array<uint16_t>   *mem;
    dev_array<uint8_t>    *raw;

    segment(int heads, int d_head, int n_layer, int n_tile, int chunk_tile)
        : n_kv_head(heads), d(d_head), layers(n_layer), codes(false), raw(NULL)
    {
        size_t tile = (size_t)KV_TILE * (size_t)d * 2;
        size_t chunk = 2 * (size_t)(heads * chunk_tile) * tile;
        size_t layer = 2 * (size_t)(heads * n_tile) * tile;

        host.resize(layer / 2 * (size_t)layers);
        for (uint16_t &h : host)
            h = f32_to_f16(rnd_normal());
        mem = new dev_array<uint16_t>(host);
        seg = { (uint64_t)(uintptr_t)mem->p, layer, chunk, chunk_tile,
                n_tile };
    }
    segment(const segment &) = delete;
    ~segment()
    {
        delete mem;
        delete raw;
    }

    /* The rows of a chunk, of K or of V, as codes in its raw bytes. */
    void code_rows(uint16_t *tiles, uint8_t *to, int here, bool is_v, float spread)
    {
        size_t n = (size_t)(KV_TILE * d), rows = 2 * (size_t)(n_kv_head * here);
        for (int i = 0; i < n_kv_head * here; i++)
            for (int t = 0; t < KV_TILE; t++) {
                size_t r = (size_t)(i + (is_v ? n_kv_head * here : 0));
                std::vector<float> f((size_t)d), x((size_t)d);
                std::vector<int8_t> c((size_t)d);
                float size = exp2f(spread * rnd_normal());
                uint16_t scale;
                memcpy(f.data(), to + rows * (n + 2 * KV_TILE) +
                       (size_t)(i / here * d) * 4, (size_t)d * 4);
                for (float &v : x)
                    v = rnd_normal() * (is_v ? size : 1);
                kernels_ref.q8h_encode(c.data(), &scale, x.data(),
                                       is_v ? NULL : f.data(), d);
                kernels_ref.q8h_decode(x.data(), c.data(), scale,
                                       is_v ? NULL : f.data(), d);
                memcpy(to + rows * n + 2 * (r * KV_TILE + (size_t)t), &scale, 2);
                for (int j = 0; j < d; j++) {
                    size_t at = r * n + (is_v ? v_index(d, t, j) : k_index(d, t, j));
                    to[at] = (uint8_t)c[(size_t)j];
                    tiles[at] = f32_to_f16(x[(size_t)j]);
                }
            }
    }

    /* From here on, codes: factors differ by 2^+-spread, as do V's rows. */
    void to_codes(float spread)
    {
        size_t n = (size_t)(KV_TILE * d), tail = (size_t)(n_kv_head * d) * 4;
        int n_tile = seg.n_tile;
        size_t chunk = 2 * (size_t)(n_kv_head * seg.chunk_tile) *
                           (n + 2 * KV_TILE) + tail;
        size_t n_chunk = (size_t)((n_tile + seg.chunk_tile - 1) / seg.chunk_tile);
        size_t layer = 2 * (size_t)(n_kv_head * n_tile) * (n + 2 * KV_TILE) +
                       n_chunk * tail;
        std::vector<uint8_t> all(layer * (size_t)layers);

        codes = true;
        for (int l = 0; l < layers; l++) {
            std::vector<float> f((size_t)(n_kv_head * d));
            for (float &v : f)
                v = exp2f(spread * rnd_normal());
            factors.insert(factors.end(), f.begin(), f.end());
            for (size_t c = 0; c < n_chunk; c++) {
                int left = n_tile - (int)c * seg.chunk_tile;
                int here = left < seg.chunk_tile ? left : seg.chunk_tile;
                uint8_t *to = &all[layer * (size_t)l + chunk * c];
                uint16_t *tiles = &host[(seg.layer_stride * (size_t)l +
                                         seg.chunk_stride * c) / 2];
                memcpy(to + 2 * (size_t)(n_kv_head * here) * (n + 2 * KV_TILE),
                       f.data(), tail);
                code_rows(tiles, to, here, false, spread);
                code_rows(tiles, to, here, true, spread);
            }
        }
        raw = new dev_array<uint8_t>(all);
        dev_seg = { (uint64_t)(uintptr_t)raw->p, layer, chunk, seg.chunk_tile,
                    n_tile };
    }
    cuk_seg dev_seg = {};
    std::vector<float> factors; /* [layers][heads][d] of codes */

    const float *factor(int layer, int head) const
    {
        return &factors[(size_t)((layer * n_kv_head + head) * d)];
    }

    /* by the words of kvc_layout.h, not by the code under test */
    const uint16_t *tile(int layer, int is_v, int head, int t) const
    {
        size_t tile = (size_t)KV_TILE * (size_t)d;
        const uint16_t *p = &host[seg.layer_stride / 2 * (size_t)layer];
        int left = seg.n_tile;

        while (t >= seg.chunk_tile) {
            p += seg.chunk_stride / 2;
            t -= seg.chunk_tile;
            left -= seg.chunk_tile;
        }
        int here = left < seg.chunk_tile ? left : seg.chunk_tile;
        return p + (size_t)((is_v * n_kv_head + head) * here + t) * tile;
    }
};

struct world {
    cuk_shape                shape;
    int                      layer;
    std::vector<segment *>   segs;        /* owned */
    std::vector<segment *>   shared, own; /* of each timeline */
    std::vector<cuk_kv>      kv;
    std::vector<cuk_row>     row;
    std::vector<uint64_t>    view;        /* words of all views */
    std::vector<int32_t>     measured;    /* heads */

    ~world()
    {
        for (segment *s : segs)
            delete s;
    }
    segment *new_segment(int n_tile, int chunk_tile)
    {
        segs.push_back(new segment(shape.n_kv_head, shape.d_head, layer + 1,
                                   n_tile, chunk_tile));
        return segs.back();
    }
    /* a timeline after a prefix (or NULL) of n_shared whole tiles */
    void add(segment *prefix, int n_shared, int first_pos, int n_row)
    {
        int last = first_pos + n_row - 1;
        segment *o = new_segment(last / KV_TILE - n_shared + 1,
                                 last / KV_TILE - n_shared + 1);
        cuk_kv k = {};
        if (prefix)
            k.shared = prefix->codes ? prefix->dev_seg : prefix->seg;
        k.codes = prefix && prefix->codes && n_shared > 0;
        k.own = o->seg;
        k.n_shared = n_shared;
        shared.push_back(prefix);
        own.push_back(o);
        kv.push_back(k);
        for (int i = 0; i < n_row; i++)
            row.push_back({ 0, first_pos + i, (int)kv.size() - 1, 0 });
    }
    /* the last timeline sees of its first tiles what words say, as others
     * that begin at the same words */
    void sees(const std::vector<uint64_t> &words, int at = -1)
    {
        kv.back().view = at < 0 ? (int)view.size() : at;
        kv.back().n_view = (int)words.size();
        if (at < 0)
            view.insert(view.end(), words.begin(), words.end());
    }
    bool seen(const cuk_row &r, int pos) const
    {
        const cuk_kv &k = kv[(size_t)r.kv];
        return pos / KV_TILE >= k.n_view ||
               view[(size_t)(k.view + pos / KV_TILE)] >> pos % KV_TILE & 1;
    }
    bool hidden(const cuk_row &r, int t) const
    {
        const cuk_kv &k = kv[(size_t)r.kv];
        return t < k.n_view && view[(size_t)(k.view + t)] == 0;
    }
    const uint16_t *tile(const cuk_row &r, int is_v, int head, int t) const
    {
        const cuk_kv &k = kv[(size_t)r.kv];
        return t < k.n_shared
                   ? shared[(size_t)r.kv]->tile(layer, is_v, head, t)
                   : own[(size_t)r.kv]->tile(layer, is_v, head,
                                             t - k.n_shared);
    }
};

struct plan {
    std::vector<cuk_item> item;
    std::vector<int32_t>  state0;
    cuk_plan              p;
    bool                  ok;

    plan(const world &w, int n_block, int split, int cap_item, int cap_state)
        : item((size_t)cap_item), state0(w.row.size() + 1)
    {
        p = { item.data(), state0.data(), cap_item, (int)w.row.size(),
              cap_state, 0, 0, w.view.data() };
        ok = cuk_plan_make(&p, &w.shape, w.row.data(), (int)w.row.size(),
                           w.kv.data(), n_block, split);
        item.resize((size_t)(ok ? p.n_item : 0));
    }
};

/* Every visible tile of every row exactly once, every state written once. */
static void check_plan(const world &w, const plan &p)
{
    int group = w.shape.n_head / w.shape.n_kv_head;

    for (size_t r = 0; r < w.row.size(); r++) {
        int n_tile = w.row[r].kv < 0 ? 0 : w.row[r].pos / KV_TILE + 1;
        int n_state = p.state0[r + 1] - p.state0[r];
        std::vector<int> seen((size_t)n_tile, 0);
        std::vector<int> state((size_t)(n_state > 0 ? n_state : 0), 0);
        int direct = 0;
        for (const cuk_item &it : p.item) {
            if ((int)r < it.row0 || (int)r >= it.row0 + it.n_row)
                continue;
            CHECK(it.n_row * group <= CUK_ATTN_ROWS, "%d rows", it.n_row);
            CHECK(it.tile1 > it.tile0, "an item without tiles");
            CHECK(!w.hidden(w.row[r], it.tile0),
                  "row %zu: an item begins with a hidden tile", r);
            for (int t = it.tile0; t < it.tile1 && t < n_tile; t++) {
                const cuk_kv &a = w.kv[(size_t)it.kv];
                const cuk_kv &b = w.kv[(size_t)w.row[r].kv];
                seen[(size_t)t]++;
                CHECK(!a.codes || (t < a.n_shared) == (it.tile0 < a.n_shared),
                      "codes and f16 in one item");
                CHECK(it.kv == w.row[r].kv ||
                          (t < a.n_shared && t < b.n_shared &&
                           a.shared.base == b.shared.base),
                      "row %zu reads tile %d of timeline %d", r, t, it.kv);
            }
            if (it.split < 0)
                direct++;
            else if (it.split < n_state)
                state[(size_t)it.split]++;
            else
                CHECK(false, "split %d of %d states", it.split, n_state);
        }
        for (size_t t = 0; t < seen.size(); t++)
            CHECK(seen[t] == 1 || (seen[t] == 0 && w.hidden(w.row[r], (int)t)),
                  "row %zu sees tile %zu %d times", r, t, seen[t]);
        for (int n : state)
            CHECK(n == 1, "row %zu: a state is written %d times", r, n);
        CHECK(n_tile == 0 || direct == (n_state == 0), "row %zu: %d direct",
              r, direct);
    }
}

/* Views have random numbers of their own. */
static int rnd_view(int lo, int hi)
{
    static uint64_t s = 7;

    s = s * 6364136223846793005u + 1442695040888963407u;
    return lo + (int)((s >> 33) % (uint64_t)(hi - lo + 1));
}

/* Words of n tiles: some hidden, some whole, some in part. */
static std::vector<uint64_t> random_view(int n)
{
    std::vector<uint64_t> v((size_t)n);

    for (uint64_t &word : v)
        switch (rnd_view(0, 4)) {
        case 0:
            word = ~(uint64_t)0;
            break;
        case 1:
            word = (uint64_t)rnd_view(0, INT_MAX - 1) << 32 |
                   (uint64_t)rnd_view(0, INT_MAX - 1);
            break;
        case 2:
            word = (uint64_t)1 << rnd_view(0, 63);
            break;
        default:
            word = 0;
        }
    return v;
}

static void random_rows(world &w, int max_row, bool codes)
{
    int n_group = rnd_in(1, 3);

    for (int g = 0; g < n_group && (int)w.row.size() < max_row; g++) {
        int n_shared = rnd_in(0, 2) ? rnd_in(1, 9) : 0;
        segment *prefix = n_shared ? w.new_segment(n_shared + rnd_in(0, 1),
                                                   1 << rnd_in(0, 3))
                                   : NULL;
        if (prefix && codes && rnd_in(0, 3))
            prefix->to_codes(1);
        std::vector<uint64_t> words = random_view(n_shared + 1);
        words.back() |= ~(uint64_t)0 << rnd_view(1, 63);
        bool all = rnd_view(0, 2) > 0;
        for (int i = rnd_in(1, 3), at = -1; i > 0; i--) {
            /* every row sees itself: a view's last word ends with a one */
            int n = rnd_in(0, 2) ? 1 : rnd_in(1, 40), pos = rnd_in(0, 150);
            w.add(prefix, n_shared, n_shared * KV_TILE + pos, n);
            if (pos >= KV_TILE - 1 && (!all || rnd_view(0, 3) == 0)) {
                w.sees(words, at);
                at = w.kv.back().view;
            }
        }
        if (rnd_in(0, 3) == 0)
            w.row.push_back({ 0, 0, -1, 0 });
    }
}

static void test_plan(void)
{
    for (int i = 0; i < 60; i++) {
        world w;
        int group = rnd_in(1, 9), heads = rnd_in(1, 3);
        w.shape = { group * heads, heads, 8 };
        w.layer = 0;
        random_rows(w, 100, i % 2);
        int n_row = (int)w.row.size(), n_run = (int)w.kv.size();
        int n_block = 1 << rnd_in(0, 8), cap_item, cap_state;
        cuk_plan_bound(&w.shape, n_row, n_run, n_block, &cap_item,
                       &cap_state);
        plan p(w, n_block, 0, cap_item, cap_state);
        CHECK(p.ok, "%d rows, %d timelines, %d blocks: the bound of %d items "
              "and %d states is too small",
              n_row, n_run, n_block, cap_item, cap_state);
        if (p.ok)
            check_plan(w, p);
        plan q(w, n_block, rnd_in(1, 5), 100000, 100000);
        CHECK(q.ok, "a given split");
        check_plan(w, q);
        plan small(w, n_block, 1, 0, 0);
        CHECK(!small.ok, "no capacity, and yet a plan");
    }
}

/* Blocks that fit, by their shared memory: 64 KiB and 32 of the shim's 100.
 * Heads above 128 take no more. */
static void test_blocks(void)
{
    const int n_sm = cuk_get_info(dev)->n_sm;
    struct cuk_shape s = { 2, 1, 128 };
    int n = 0;

    CHECK(cuk_attention_blocks(dev, &s, &n) == 0 && n >= n_sm && n % n_sm == 0,
          "d 128: %d on %d", n, n_sm);
    int wide = n;
    s.d_head = 64;
    CHECK(cuk_attention_blocks(dev, &s, &n) == 0 && n > wide,
          "d 64: %d blocks, %d of 128", n, wide);
    for (s.d_head = 136; s.d_head <= CUK_D_HEAD_MAX; s.d_head += 120)
        CHECK(cuk_attention_blocks(dev, &s, &n) == 0 && n == wide,
              "d %d: %d blocks, %d of 128", s.d_head, n, wide);
}

/* A lone long timeline is split for the whole device, a long prompt is not. */
static void test_plan_sizes(void)
{
    world w;

    w.shape = { 16, 8, 8 };
    w.layer = 0;
    w.add(NULL, 0, 8191, 1);
    plan one(w, 256, 0, 1000, 1000);
    CHECK(one.ok && one.p.n_item == 32, "%d items", one.p.n_item);
    w.row.clear();
    for (int i = 0; i < 8192; i++)
        w.row.push_back({ 0, i, 0, 0 });
    plan all(w, 256, 0, 1000, 0);
    CHECK(all.ok && all.p.n_item == 256 && all.p.n_state == 0,
          "%d items, %d states", all.p.n_item, all.p.n_state);
}

/* ------------------------------------------------------------------ attention */

/*
 * What cuk_rope_append leaves of q for a prefix of codes: times the factors of
 * K's channels, through the transform of kernels.h, in units of the largest.
 */
static void rotate_q(const world &w, const std::vector<uint16_t> &q,
                     std::vector<uint16_t> &rotated, std::vector<float> &unit)
{
    const cuk_shape &s = w.shape;
    const int d = s.d_head, n = q8h_block(d).n;

    for (size_t i = 0; i < unit.size(); i++) {
        const cuk_row &row = w.row[i / (size_t)s.n_head];
        const int head = (int)(i % (size_t)s.n_head) / (s.n_head / s.n_kv_head);
        std::vector<double> x((size_t)d);
        double top = 0;
        if (row.kv < 0 || !w.kv[(size_t)row.kv].codes)
            continue;
        const float *f = w.shared[(size_t)row.kv]->factor(w.layer, head);
        for (int c = 0; c < d; c++)
            x[(size_t)c] = (double)h2f(q[i * (size_t)d + (size_t)c]) *
                           (double)f[c];
        for (int h = 1; h < n; h *= 2)
            for (int c = 0; c < d; c++)
                if (!(c & h)) {
                    double a = x[(size_t)c], b = x[(size_t)(c + h)];
                    x[(size_t)c] = a + b;
                    x[(size_t)(c + h)] = a - b;
                }
        for (double v : x)
            top = fabs(v) > top ? fabs(v) : top;
        unit[i] = (float)(top * (double)q8h_block(d).inverse);
        for (int c = 0; c < d; c++)
            rotated[i * (size_t)d + (size_t)c] =
                f32_to_f16((float)(top > 0 ? x[(size_t)c] / top : 0));
    }
}

/* Runs of a world: rows of one timeline, its first tiles as its prefix but for
 * three tokens; every third one is not measured, one breaks in two. */
static std::vector<cuk_run> runs_of(const world &w)
{
    std::vector<cuk_run> run;

    for (size_t r = 0, end; r < w.row.size(); r = end) {
        const int kv = w.row[r].kv;
        for (end = r + 1; end < w.row.size() && w.row[end].kv == kv;)
            end++;
        if (kv < 0 || kv % 3 == 2)
            continue;
        int n_tok = w.kv[(size_t)kv].n_shared * KV_TILE;
        n_tok = n_tok ? n_tok - 3 : w.row[r].pos;
        if (kv % 3 == 1 && end - r > 4) {
            run.push_back({ (int)r, 4, n_tok, 0 });
            r += 4;
        }
        if (n_tok > 0)
            run.push_back({ (int)r, (int)(end - r), n_tok, 0 });
    }
    return run;
}

/* Weights of a row's keys, by plain softmax. */
static std::vector<double> weights(const world &w, const cuk_row &row,
                                   const uint16_t *q, int head)
{
    const int d = w.shape.d_head;
    std::vector<double> x;
    double top = -INFINITY, sum = 0;

    for (int k = 0; k <= row.pos; k++) {
        const uint16_t *t = w.tile(row, 0, head / (w.shape.n_head /
                                                   w.shape.n_kv_head),
                                   k / KV_TILE);
        x.push_back(w.seen(row, k) ? 0 : -INFINITY);
        for (int c = 0; c < d && x.back() != -INFINITY; c++)
            x.back() += (double)h2f(q[c]) *
                        (double)h2f(t[k_index(d, k % KV_TILE, c)]);
        top = fmax(top, x.back());
    }
    for (double &v : x)
        sum += v = exp2(v - top);
    for (double &v : x)
        v /= sum;
    return x;
}

/* What the measured heads gave each token, after attention. */
static void mass_case(const world &w, const cuk_attn &a,
                      const std::vector<uint16_t> &q)
{
    const cuk_shape &s = w.shape;
    std::vector<cuk_run> run = runs_of(w);
    const size_t heads = w.measured.size();
    int n_tile = 1;

    if (run.empty())
        return;
    for (const cuk_run &u : run)
        n_tile = n_tile > (u.n_tok + KV_TILE - 1) / KV_TILE
                     ? n_tile
                     : (u.n_tok + KV_TILE - 1) / KV_TILE;
    dev_array<cuk_run> drun(run);
    dev_array<int32_t> dhead(w.measured);
    const size_t size = heads * (size_t)n_tile * KV_TILE;
    dev_array<float> dout(std::vector<float>(run.size() * size, -7));
    struct cuk_mass m = {};
    m.attn = a;
    m.dev_run = drun.p;
    m.dev_head = dhead.p;
    m.n_run = (int)run.size();
    m.n_head = (int)heads;
    m.n_tile = n_tile;
    m.dev_out = dout.p;
    m.run_stride = size;
    CHECK(cuk_mass(stream, &m) == 0 && cuk_stream_sync(stream) == 0, "%s",
          cuk_error(dev)->call);
    std::vector<float> got = dout.get();
    for (size_t u = 0; u < run.size(); u++)
        for (size_t h = 0; h < heads; h++) {
            std::vector<double> want((size_t)n_tile * KV_TILE, 0);
            for (int r = run[u].row0; r < run[u].row0 + run[u].n_row; r++) {
                size_t at = ((size_t)r * (size_t)s.n_head +
                             (size_t)w.measured[h]) * (size_t)s.d_head;
                std::vector<double> x = weights(w, w.row[(size_t)r], &q[at],
                                                w.measured[h]);
                for (size_t k = 0; k < want.size() && k < x.size(); k++)
                    want[k] += x[k];
            }
            for (int k = 0; k < n_tile * KV_TILE; k++) {
                double x = got[u * size + h * (size_t)n_tile * KV_TILE +
                               (size_t)k];
                double y = k < run[u].n_tok ? want[(size_t)k] : -7;
                CHECK(fabs(x - y) <= 1e-3 * run[u].n_row &&
                          (y != 0 || x == 0),
                      "d %d run %zu head %d token %d: %g, want %g", s.d_head,
                      u, w.measured[h], k, x, y);
            }
        }
}

static void attention_case(world &w, int out_type, int n_block, int split)
{
    const cuk_shape &s = w.shape;
    const int d = s.d_head, group = s.n_head / s.n_kv_head;
    const size_t n = w.row.size() * (size_t)(s.n_head * d);
    const float inverse = q8h_block(d).inverse;
    plan p(w, n_block, split, 1000, 10000);
    std::vector<uint16_t> q(n);

    CHECK(p.ok, "no plan");
    check_plan(w, p);
    p.item.push_back({});                        /* padding of a graph */
    for (uint16_t &h : q)
        h = f32_to_f16(rnd_normal() * 2 / sqrtf((float)d));
    std::vector<uint16_t> rotated(n, 0xffff);
    std::vector<float> unit(w.row.size() * (size_t)s.n_head, NAN);
    rotate_q(w, q, rotated, unit);
    dev_array<uint16_t> dq(q), drotated(rotated);
    dev_array<float> dunit(unit);
    dev_array<cuk_row> drow(w.row);
    dev_array<cuk_kv> dkv(w.kv);
    dev_array<cuk_item> ditem(p.item);
    dev_array<int32_t> dstate0(p.state0);
    dev_array<uint8_t> dstate(cuk_state_bytes(&s, p.p.n_state) + 1);
    operands out(out_type, n);
    cuk_attn a = {};
    a.shape = s;
    a.layer = w.layer;
    a.dev_q = dq.p;
    a.dev_q_rotated = drotated.p;
    a.dev_q_unit = dunit.p;
    a.n_state = p.p.n_state;
    a.dev_row = drow.p;
    a.dev_kv = dkv.p;
    a.n_row = (int)w.row.size();
    a.dev_item = ditem.p;
    a.n_item = (int)p.item.size();
    a.dev_state0 = dstate0.p;
    a.dev_state = dstate.p;
    a.dev_out = out.mem.p;
    a.out_type = out_type;
    std::vector<uint64_t> words = w.view;
    words.push_back(0); /* of no view */
    dev_array<uint64_t> dview(words);
    dev_array<float> dnorm(2 * unit.size());
    a.dev_view = dview.p;
    a.dev_norm = w.measured.empty() ? NULL : dnorm.p;
    CHECK(cuk_attention(stream, &a) == 0 && cuk_stream_sync(stream) == 0,
          "%s", cuk_error(dev)->call);
    std::vector<float> got = out.get();
    if (!w.measured.empty())
        mass_case(w, a, q);

    for (size_t r = 0; r < w.row.size(); r++)
        for (int h = 0; h < s.n_head && w.row[r].kv >= 0; h++) {
            size_t at = (r * (size_t)s.n_head + (size_t)h) * (size_t)d;
            std::vector<double> p2, o((size_t)d, 0);
            double top = -1e300, sum = 0, vmax = 0, smax = 0;
            const bool codes = w.kv[(size_t)w.row[r].kv].codes;
            for (int k = 0; k <= w.row[r].pos; k++) {
                const uint16_t *t = w.tile(w.row[r], 0, h / group,
                                           k / KV_TILE);
                double x = 0;
                if (!w.seen(w.row[r], k)) {
                    p2.push_back(-INFINITY);
                    continue;
                }
                double size = 0; /* of the key, before its factors */
                for (int c = 0; c < d; c++) {
                    double y = h2f(t[k_index(d, k % KV_TILE, c)]);
                    double f = codes ? w.shared[(size_t)w.row[r].kv]->factor(
                                           w.layer, h / group)[c]
                                     : 1;
                    x += (double)h2f(q[at + (size_t)c]) * y;
                    size += y / f * (y / f);
                }
                p2.push_back(x);
                top = x > top ? x : top;
                /* what the f16 of a rotated q, in units of its largest, may be
                 * off by: 2^-12 of these */
                size = codes ? (double)(unit[r * (size_t)s.n_head + (size_t)h] /
                                        inverse) * sqrt(size)
                             : fabs(x);
                smax = size > smax ? size : smax;
            }
            for (int k = 0; k <= w.row[r].pos; k++) {
                const uint16_t *t = w.tile(w.row[r], 1, h / group,
                                           k / KV_TILE);
                double e = exp2(p2[(size_t)k] - top);
                if (!w.seen(w.row[r], k))
                    continue;
                sum += e;
                for (int c = 0; c < d; c++) {
                    double v = h2f(t[v_index(d, k % KV_TILE, c)]);
                    o[(size_t)c] += e * v;
                    vmax = fabs(v) > vmax ? fabs(v) : vmax;
                }
            }
            for (int c = 0; c < d; c++) {
                double want = o[(size_t)c] / sum;
                double x = got[at + (size_t)c];
                double slack = codes ? (1 + smax) / 2048 : 1.0 / 1024;
                CHECK(fabs(x - want) <=
                          (unit_of(out_type) + slack) * vmax,
                      "d %d group %d row %zu (pos %d) head %d, %d: %g, want "
                      "%g",
                      d, group, r, w.row[r].pos, h, c, x, want);
            }
        }
}

static void test_prompt(void)
{
    const int heads[][2] = { { 2, 1 }, { 3, 3 }, { 7, 1 }, { 4, 2 } };
    const int dims[] = { 64, 128, 8, 40, 72, 96, 24, 112, 256, 136, 192 };

    for (int i = 0; i < 11; i++) {
        world w;
        w.shape = { heads[i % 4][0], heads[i % 4][1], dims[i] };
        w.layer = i % 2;
        w.add(NULL, 0, i % 3 ? 0 : 70, i % 2 ? 30 : 70);
        attention_case(w, i % 3 == 0 ? KT_F32 : i % 3 == 1 ? KT_BF16 : KT_F16,
                       4, i % 4 == 3 ? 1 : 0);
    }
}

/* Questions on one prefix, whose last chunk is not full, and others. */
static void test_shared(void)
{
    for (int i = 0; i < 4; i++) {
        world w;
        w.shape = { i % 2 ? 3 : 4, i % 2 ? 1 : 2, i < 2 ? 64 : 40 };
        w.layer = 1;
        segment *prefix = w.new_segment(3, 2);
        for (int j = 0; j < 5; j++)
            w.add(prefix, 2 + i % 2, (2 + i % 2) * KV_TILE + 13 * j + i, 1);
        w.row.push_back({ 0, 0, -1, 0 });
        w.add(NULL, 0, 100, 1);
        attention_case(w, KT_F32, 8, i < 3 ? 0 : 1);
    }
}

static void test_random(void)
{
    for (int i = 0; i < 4; i++) {
        world w;
        int group = rnd_in(1, 8);
        w.shape = { group, 1, 8 * rnd_in(1, 8) };
        w.layer = 0;
        random_rows(w, 20, i % 2);
        attention_case(w, KT_F32, 1 << rnd_in(0, 4), 0);
    }
}

/*
 * A prefix of codes, by one question and by many, in items of few rows and of
 * many; rows of V whose scales lie far apart, factors that f16 would not hold.
 */
static void test_codes(void)
{
    const int heads[][2] = { { 2, 1 }, { 3, 3 }, { 7, 1 }, { 4, 2 } };
    const int dims[] = { 128, 64, 40, 8, 96, 72, 256, 192, 136 };

    for (int i = 0; i < 12; i++) {
        world w;
        w.shape = { heads[i % 4][0], heads[i % 4][1], dims[i % 9] };
        w.layer = i % 2;
        int n_shared = 1 + i % 3;
        segment *prefix = w.new_segment(n_shared + i % 2, 2);
        prefix->to_codes(i == 3 ? 5 : 1);
        if (i % 2)      /* a long question */
            w.add(prefix, n_shared, n_shared * KV_TILE + 3, 30);
        for (int j = 0; j < (i < 4 ? 1 : 4); j++)
            w.add(prefix, n_shared, n_shared * KV_TILE + 13 * j + i, 1);
        if (i > 5)
            w.add(NULL, 0, 100, 1);
        attention_case(w, i % 3 ? KT_F32 : KT_BF16, 8, i % 5 ? 0 : 1);
    }
}

/* The tiles of a prefix, from tile t on, as no number. */
static void poison(segment *s, const std::vector<uint64_t> &words)
{
    std::vector<uint16_t> all = s->mem->get();

    for (int v = 0; v < 2; v++)
        for (int h = 0; h < s->n_kv_head; h++)
            for (size_t t = 0; t < words.size(); t++)
                for (int i = 0; words[t] == 0 && i < KV_TILE * s->d; i++)
                    all[(size_t)(s->tile(s->layers - 1, v, h, (int)t) -
                                 s->host.data()) + (size_t)i] = 0x7e00;
    s->mem->put(all);
}

/*
 * Parts of a prefix, f16 and codes, by one row and by many, with items of a
 * tile and of all; what is hidden is not read.
 */
static void test_views(void)
{
    const int dims[] = { 128, 64, 40, 256, 184 };
    const uint64_t all = ~(uint64_t)0;
    const std::vector<std::vector<uint64_t>> views = {
        { 0, 0, 0, 0, 0, 0, 0 },
        { all, all, all, all, all, all, all },
        { 1, 0, 0, 0, 0, 0, 0 },
        { 0, 0, 0, 0, 0, 0, (uint64_t)1 << 63 },
        { 0, 0, all << 7, 0, 0, 0xff00, 0 },
        { 3, 0, (uint64_t)1 << 16, 0, all, 0, 0 },
    };

    for (size_t i = 0; i < 2 * views.size(); i++) {
        world w;
        const std::vector<uint64_t> &v = views[i / 2];
        w.shape = { i % 4 < 2 ? 4 : 3, i % 4 < 2 ? 2 : 1, dims[i % 5] };
        w.layer = (int)(i % 2);
        segment *prefix = w.new_segment(7, 2);
        if (i % 2)
            prefix->to_codes(1);
        else
            poison(prefix, v);
        for (int j = 0; j < 3; j++) {
            w.add(prefix, 7, 7 * KV_TILE + 13 * j, j == 1 ? 30 : 1);
            w.sees(v, j ? w.kv[0].view : -1);
        }
        w.measured = { 0, 2 };
        attention_case(w, KT_F32, 8, i % 3 == 2 ? 1 : 0);
    }
}

/* One view each; a prefix's last tile that a timeline has for itself. */
static void test_views_mixed(void)
{
    for (int i = 0; i < 4; i++) {
        world w;
        w.shape = { 4, 2, i == 0 ? 256 : i % 2 ? 128 : 64 };
        w.layer = 0;
        segment *prefix = w.new_segment(4, 4);
        if (i > 1)
            prefix->to_codes(1);
        for (int j = 0; j < 5; j++) {
            w.add(prefix, 4, 4 * KV_TILE + 20 + j, j % 2 ? 6 : 1);
            if (j == 3)
                continue;
            std::vector<uint64_t> v = random_view(5);
            v.back() |= ~(uint64_t)0 << 17;
            w.sees(v);
        }
        w.add(NULL, 0, 200, 9);
        w.sees({ 0, 0, 5, ~(uint64_t)0 << 8 });
        w.measured = { 1, 3 };
        attention_case(w, KT_F32, 8, i % 2);
    }
}

/* Weights of codes are small where the values are: they count all the same. */
static void test_codes_far(void)
{
    world w;

    w.shape = { 2, 1, 64 };
    w.layer = 0;
    segment *prefix = w.new_segment(3, 3);
    prefix->to_codes(0);
    /* V's scales of all keys down by 2^-9, and up by 2^9 in the second tile:
     * decoded values with them (powers of two are exact) */
    size_t n = KV_TILE * 64, at = 6 * n;
    std::vector<uint8_t> all = prefix->raw->get();
    for (int t = 0; t < 3 * KV_TILE; t++) {
        uint16_t s;
        size_t i = at + 2 * (size_t)(3 * KV_TILE + t);
        float by = t / KV_TILE == 1 ? 512 : 1.0f / 512;
        memcpy(&s, &all[i], 2);
        s = f32_to_f16(f16_to_f32(s) * by);
        memcpy(&all[i], &s, 2);
        for (int c = 0; c < 64; c++) {
            uint16_t *v = &prefix->host[3 * n + (size_t)(t / KV_TILE) * n +
                                        v_index(64, t % KV_TILE, c)];
            *v = f32_to_f16(f16_to_f32(*v) * by);
        }
    }
    prefix->raw->put(all);
    w.add(prefix, 3, 3 * KV_TILE, 1);
    w.add(prefix, 3, 3 * KV_TILE + 1, 1);
    attention_case(w, KT_F32, 1, 0);
    attention_case(w, KT_F32, 64, 1);
}

/* Scores far apart: the running maximum moves, nothing overflows. */
static void test_extreme(void)
{
    world w;

    w.shape = { 2, 1, 16 };
    w.layer = 0;
    w.add(NULL, 0, 140, 1);
    for (size_t i = 0; i < w.own[0]->host.size() / 2; i++)
        w.own[0]->host[i] = f32_to_f16(rnd_normal() * 500);
    w.own[0]->mem->put(w.own[0]->host);
    attention_case(w, KT_F32, 1, 0);
    attention_case(w, KT_F32, 64, 1);
}

int main(void)
{
    dev_open();
    tap("a plan covers every tile once, within its bound", test_plan);
    tap("plans of a step and of a prompt", test_plan_sizes);
    tap("blocks that fit a multiprocessor", test_blocks);
    tap("a prompt: odd head sizes and groups", test_prompt);
    tap("questions share a prefix", test_shared);
    tap("random timelines", test_random);
    tap("codes of q8h: few rows and many, odd head sizes", test_codes);
    tap("codes of q8h: values of all sizes", test_codes_far);
    tap("parts of a prefix, and what they are given", test_views);
    tap("a view each", test_views_mixed);
    tap("scores far apart", test_extreme);
    dev_close();
    tap("nothing is left", [] { CHECK(shim_live() == 0, "%d", shim_live()); });
    return tap_end();
}
