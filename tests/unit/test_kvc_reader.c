/*
 * test_kvc_reader.c - the second reader (tests/tools/kvc_reader.py, written
 * from kvc(5) alone) and ours say the same: of META, sections and every
 * value of a row, and of forged files, which both accept or both refuse.
 */
#include "tests/lib/kvc_test.h"

#include <math.h>
#include <sys/wait.h>

#include "engine/q8h_decode.h"
#include "kernels/kernels.h"

/* Run the reader; *out gets stdout and stderr. */
static int reader(const char *args, struct buf *out)
{
    struct buf cmd = BUF_INIT;
    cag_error err = CAG_ERROR_INIT;
    FILE *p;
    int status;

    buf_printf(&cmd, "python3 tests/tools/kvc_reader.py %s 2>&1", args);
    assert_false(buf_failed(&cmd));
    p = popen(cmd.data, "r");
    assert_non_null(p);
    if (file_read_fd(fileno(p), "kvc_reader", 1 << 26, out, &err) != CAG_OK)
        fail_msg("%s", err.msg);
    status = pclose(p);
    buf_free(&cmd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* What the reader should print, from our reader and from the fixture. */
static void expected(const struct fix *f, const int where[][4], size_t n,
                     struct buf *out)
{
    cag_kvc *k = NULL;
    size_t size;
    const char *meta;

    assert_int_equal(cag_kvc_open(path, &k, NULL), CAG_OK);
    meta = cag_kvc_meta_json(k, &size);
    buf_add(out, meta, size);
    buf_char(out, '\n');
    for (int i = 0; i < cag_kvc_n_section(k); i++) {
        cag_kvc_section s;

        cag_kvc_get_section(k, i, &s);
        buf_printf(out, "%s %llu %llu %d %s\n", s.name,
                   (unsigned long long)s.off, (unsigned long long)s.size_bytes,
                   s.required, s.sha256);
    }
    for (size_t i = 0; i < n; i++) {
        int q8h = kvc_is_q8h(&f->shape), d = f->shape.d_head;

        for (int c = 0; c < d; c++)
            buf_printf(out, "%0*x%c", 2 * kvc_elem_bytes(&f->shape),
                       fix_value(&f->shape, where[i][1], where[i][0],
                                 where[i][2], where[i][3], c),
                       c + 1 < d || q8h ? ' ' : '\n');
        if (q8h)
            buf_printf(
                out, "%04x\n",
                fix_scale(where[i][1], where[i][0], where[i][2], where[i][3]));
    }
    assert_false(buf_failed(out));
    cag_kvc_close(k);
}

static void both_read_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *codec;
        struct kvc_shape shape;
    } cases[] = {
        { "f16z", { 2, 2, 40, KVC_CLASS_F16, 150, 64 } },
        { "f16z", { 1, 3, 64, KVC_CLASS_F16, 200, 128 } },
        { "f16", { 2, 1, 80, KVC_CLASS_F16, 64, 0 } },
        { "f32", { 1, 2, 128, KVC_CLASS_F32, 65, 64 } },
        { "q8h", { 2, 2, 40, KVC_CLASS_Q8H, 150, 64 } },
        { "q8h", { 1, 3, 64, KVC_CLASS_Q8H, 200, 0 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fix f = { .codec = cases[i].codec, .shape = cases[i].shape };
        int last = f.shape.n_tok - 1, layer = f.shape.n_layer - 1;
        int head = f.shape.n_kv_head - 1;
        const int where[][4] = { { 0, 0, 0, 0 },
                                 { 1, 0, 0, 17 },
                                 { 0, layer, head, last },
                                 { 1, layer, head, last },
                                 { 1, layer, 0, 63 } };
        struct buf args = BUF_INIT, want = BUF_INIT, have = BUF_INIT;
        size_t n = sizeof where / sizeof *where;

        fix_init(&f);
        fix_write(&f, path, 2);
        for (size_t j = 0; j < n; j++)
            buf_printf(&args, "--row %c %d %d %d ", where[j][0] ? 'V' : 'K',
                       where[j][1], where[j][2], where[j][3]);
        buf_printf(&args, "--sections %s", path);
        expected(&f, where, n, &want);
        if (reader(args.data, &have) != 0)
            fail_msg("%s", have.data);
        assert_string_equal(have.data, want.data);
        buf_free(&args);
        buf_free(&want);
        buf_free(&have);
        fix_free(&f);
    }
}

/* Change one byte of a small section or of the header and repair digests. */
static void forge(struct buf *b, uint64_t *x)
{
    static const char *const names[] = { "META", "SRCS", "PRMT", "TOKS",
                                         "CHNK", "TEXT", "" };
    const char *name = names[fix_rand(x) % 7];
    uint8_t *e, *p;
    size_t at;

    if (!*name) {
        at = fix_rand(x) % 640;
        if (at < 8 || (at >= 32 && at < 64))
            at = 64;
        b->data[at] ^= (char)(1 << fix_rand(x) % 8);
        fix_seal(b);
        return;
    }
    e = fix_entry(b, name);
    p = fix_data(b, name);
    at = fix_rand(x) % rd_le64(e + 16);
    if (fix_rand(x) % 2)
        p[at] ^= (uint8_t)(1 << fix_rand(x) % 8);
    else
        p[at] = (uint8_t) "0 \"}9,n\\"[fix_rand(x) % 8];
    fix_seal_section(b, name);
}

/* What the codes of q8h stand for, by kvc(5) alone and by ours. */
static void values_of_codes(void **state)
{
    (void)state;
    static const int dims[] = { 8, 40, 64, 80, 96 };

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct fix f = { .codec = "q8h",
                         .shape = { 1, 2, dims[i], KVC_CLASS_Q8H, 70, 64 } };
        int d = dims[i];
        size_t n = (size_t)(KVC_TILE * d);
        float *tile[2];
        struct buf args = BUF_INIT, have = BUF_INIT;
        const char *at;
        cag_kvc *k = NULL;
        const uint8_t *raw;

        fix_init(&f);
        fix_write(&f, path, 1);
        buf_printf(&args, "--quiet --value K 0 1 68 --value V 0 1 68 %s", path);
        assert_int_equal(reader(args.data, &have), 0);
        assert_int_equal(cag_kvc_open(path, &k, NULL), CAG_OK);
        assert_int_equal(kvc_chunk_load(k, 0, 1, NULL, &raw, NULL), CAG_OK);
        for (int v = 0; v < 2; v++) {
            tile[v] = mem_alloc_array(n, sizeof **tile);
            assert_non_null(tile[v]);
        }
        struct q8h_chunk from = { &f.shape, raw, 0, 1, path };
        struct kv_pair to = { KV_F32, tile[0], tile[1] };
        assert_int_equal(q8h_tile(&from, 1, 0, 6, &to, NULL), CAG_OK);
        at = have.data;
        for (int c = 0; c < 2 * d; c++) {
            int v = c / d, e = c % d, w = d - e / 32 * 32 < 32 ? d % 32 : 32;
            double x = strtod(at, (char **)(uintptr_t)&at);
            double y = (double)(v ? tile[1][e / 32 * 64 * 32 + 4 * w + e % 32]
                                  : tile[0][e * 16 + 4]);

            assert_true(fabs(x - y) <= 1e-5 * (1 + fabs(x)));
        }
        for (int v = 0; v < 2; v++)
            mem_free(tile[v]);
        cag_kvc_close(k);
        buf_free(&args);
        buf_free(&have);
        fix_free(&f);
    }
}

static void refuse_the_same(const char *codec)
{
    enum { N = 150 };
    struct fix f = fix_default(codec);
    struct buf good, args = BUF_INIT, have = BUF_INIT;
    bool ok[N];
    char name[32];
    uint64_t x = 4711;
    int n_ok = 0;

    f.shape.n_kv_head = 1;
    f.shape.d_head = 8;
    fix_init(&f);
    good = written(&f, 1);
    buf_str(&args, "--quiet");
    for (int i = 0; i < N; i++) {
        struct buf b = BUF_INIT;
        FILE *o;
        cag_error err = CAG_ERROR_INIT;

        buf_add(&b, good.data, good.size);
        forge(&b, &x);
        ok[i] = fix_try(b.data, b.size, true, &err) == CAG_OK;
        n_ok += ok[i];
        buf_printf(&args, " %s/f%d.kvc", dir, i);
        o = fopen(strrchr(args.data, ' ') + 1, "wb");
        assert_non_null(o);
        assert_int_equal(fwrite(b.data, 1, b.size, o), b.size);
        assert_int_equal(fclose(o), 0);
        buf_free(&b);
    }
    assert_int_equal(reader(args.data, &have), 1);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "/f%d.kvc: ", i);
        if (ok[i] == (strstr(have.data, name) != NULL))
            fail_msg("forged file %d: ours %s it, the second reader does not",
                     i, ok[i] ? "accepts" : "refuses");
        snprintf(name, sizeof name, "f%d.kvc", i);
        fix_unlink(dir, name);
    }
    assert_true(n_ok > 0 && n_ok < N / 2); /* both kinds were met */
    buf_free(&good);
    buf_free(&args);
    buf_free(&have);
    fix_free(&f);
}

static void both_refuse_the_same(void **state)
{
    (void)state;
    refuse_the_same("f16");
    refuse_the_same("q8h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(both_read_the_same),
        T(values_of_codes),
        T(both_refuse_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
