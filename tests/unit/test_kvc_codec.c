/*
 * test_kvc_codec.c - byte planes there and back, for sizes around the
 * vector width and for data that packs well, a little and not at all; every
 * damaged head and frame refused, with nothing written behind the output.
 */
#include "tests/lib/kvc_fixture.h"

#include <cag/kvc.h>

#include "kvc/kvc_codec.h"

enum kind { ZERO, REAL, NOISE, HIGH_CONST, N_KIND };

static void fill(uint8_t *p, size_t n, enum kind kind)
{
    uint64_t x = n + (uint64_t)kind;

    for (size_t i = 0; i + 1 < n; i += 2) {
        uint32_t r = fix_rand(&x);

        if (kind == REAL)
            r = (r & 0x83ff) | (12 + (r >> 16) % 3) << 10;
        else if (kind == HIGH_CONST)
            r = (r & 0xff) | 0x3c00;
        else if (kind == ZERO)
            r = 0;
        rd_put16(p + i, (uint16_t)r);
    }
}

static void there_and_back(void **state)
{
    (void)state;
    static const size_t sizes[] = { 2048,   2048 + 8, 4 * 513,       65536,
                                    655360, 1 << 20,  (1 << 20) + 24 };
    struct kvc_coder *c = kvc_coder_new();
    cag_error err = CAG_ERROR_INIT;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < N_KIND; kind++) {
            size_t n = sizes[i] & ~(size_t)7, got;
            uint8_t *raw = mem_alloc(n), *back = mem_alloc(n);
            uint8_t *z = mem_alloc(kvc_encode_bound(n));

            fill(raw, n, (enum kind)kind);
            memset(back, 0xee, n);
            assert_int_equal(kvc_encode(KVC_F16Z, c, raw, n, z, &got, &err),
                             CAG_OK);
            assert_true(got <= kvc_codec_stored_max(KVC_F16Z, n));
            if (kind == NOISE)
                assert_int_equal(got, n + 16);
            if (kind == ZERO)
                assert_true(got < n / 16);
            if (kind == HIGH_CONST)
                assert_true(got < n / 2 + 2048 && got > n / 2);
            if (kind == REAL && n > 60000)
                assert_true(got < n * 9 / 10);
            assert_int_equal(kvc_decode(KVC_F16Z, c, z, got, back, n, &err),
                             CAG_OK);
            assert_memory_equal(raw, back, n);
            mem_free(raw);
            mem_free(back);
            mem_free(z);
        }
    kvc_coder_free(c);
}

/* A plane is what kvc(5) says: decode one by hand. */
static void planes_are_where_the_page_says(void **state)
{
    (void)state;
    size_t n = 4096, p = n / 4, got;
    uint8_t *raw = mem_alloc(n), *z = mem_alloc(kvc_encode_bound(n));
    struct kvc_coder *c = kvc_coder_new();
    const uint8_t *at = z + 16;

    fill(raw, n, NOISE);
    assert_int_equal(kvc_encode(KVC_F16Z, c, raw, n, z, &got, NULL), CAG_OK);
    assert_int_equal(got, n + 16);
    for (size_t plane = 0; plane < 4; plane++) {
        assert_int_equal(rd_le32(z + 4 * plane), p);
        for (size_t i = 0; i < p; i++)
            assert_int_equal(at[plane * p + i],
                             raw[(plane / 2) * 2 * p + 2 * i + plane % 2]);
    }
    kvc_coder_free(c);
    mem_free(raw);
    mem_free(z);
}

static void refuse(struct kvc_coder *c, const uint8_t *z, size_t n, size_t raw,
                   const char *text)
{
    uint8_t *dst = mem_alloc(raw), *copy = mem_alloc(n);
    cag_error err = CAG_ERROR_INIT;

    memcpy(copy, z, n);
    assert_int_equal(kvc_decode(KVC_F16Z, c, copy, n, dst, raw, &err),
                     CAG_E_CORRUPT);
    if (!strstr(err.msg, text))
        fail_msg("\"%s\", expected \"%s\"", err.msg, text);
    mem_free(dst);
    mem_free(copy);
}

static void damaged_chunks(void **state)
{
    (void)state;
    size_t n = 8192, got, low;
    uint8_t *raw = mem_alloc(n), *z = mem_alloc(kvc_encode_bound(n));
    struct kvc_coder *c = kvc_coder_new();

    fill(raw, n, HIGH_CONST);
    assert_int_equal(kvc_encode(KVC_F16Z, c, raw, n, z, &got, NULL), CAG_OK);
    low = rd_le32(z);
    assert_int_equal(low, n / 4);
    refuse(c, z, 15, n, "only 15 bytes");
    refuse(c, z, got - 1, n, "its planes take");
    rd_put32(z, 0);
    refuse(c, z, got, n, "K low bytes take 0 bytes");
    rd_put32(z, (uint32_t)n);
    refuse(c, z, got, n, "K low bytes take 8192 bytes");
    rd_put32(z, UINT32_MAX);
    refuse(c, z, got, n, "K low bytes take 4294967295 bytes");
    rd_put32(z, (uint32_t)low);
    /* the frame of K's high bytes: not zstd, then of another size */
    z[16 + low] ^= 1;
    refuse(c, z, got, n, "K high bytes are not a zstd frame of 2048 bytes");
    z[16 + low] ^= 1;
    z[got] = 0;
    refuse(c, z, got + 1, n, "its planes take");
    refuse(c, z, got, n / 2, "");
    refuse(c, z, got, n * 2, "");
    kvc_coder_free(c);
    mem_free(raw);
    mem_free(z);
}

/* A plane is one frame that states its size: RLE blocks made by hand. */
static void frames_of_the_wrong_kind(void **state)
{
    (void)state;
    enum { P = 2048, N = 4 * P };
    static const struct {
        const char *frame;
        uint32_t n;
        bool ok;
    } cases[] = {
        /* magic, 2-byte size 256 + 1792, window, last RLE block of 2048 */
        { "\x28\xb5\x2f\xfd\x60\x00\x07\x03\x40\x00\x3c", 11, true },
        /* the same without a size */
        { "\x28\xb5\x2f\xfd\x00\x58\x03\x40\x00\x3c", 10, false },
        /* of 2049 bytes by its own account */
        { "\x28\xb5\x2f\xfd\x60\x01\x07\x0b\x40\x00\x3c", 11, false },
        /* followed by a skippable frame */
        { "\x28\xb5\x2f\xfd\x60\x00\x07\x03\x40\x00\x3c"
          "\x50\x2a\x4d\x18\0\0\0\0",
          19, false },
    };
    struct kvc_coder *c = kvc_coder_new();
    uint8_t *z = mem_zalloc(16 + N), *dst = mem_alloc(N);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t at = 16 + P, n = cases[i].n;

        for (int j = 0; j < 4; j++)
            rd_put32(z + 4 * j, j == 1 ? cases[i].n : P);
        memcpy(z + at, cases[i].frame, n);
        memset(z + at + n, 0, 2 * P);
        if (!cases[i].ok) {
            refuse(c, z, 16 + 3 * P + n, N, "K high bytes are not a zstd");
            continue;
        }
        assert_int_equal(
            kvc_decode(KVC_F16Z, c, z, 16 + 3 * P + n, dst, N, NULL), CAG_OK);
        for (int j = 0; j < N; j++)
            assert_int_equal(dst[j], j < 2 * P && j % 2 ? 0x3c : 0);
    }
    kvc_coder_free(c);
    mem_free(z);
    mem_free(dst);
}

/* Flip every bit of a frame: never a crash, never bytes behind dst. */
static void any_bit_of_a_frame(void **state)
{
    (void)state;
    size_t n = 4096, got;
    uint8_t *raw = mem_alloc(n), *dst = mem_alloc(n);
    uint8_t *z = mem_alloc(kvc_encode_bound(n));
    struct kvc_coder *c = kvc_coder_new();

    fill(raw, n, HIGH_CONST);
    assert_int_equal(kvc_encode(KVC_F16Z, c, raw, n, z, &got, NULL), CAG_OK);
    for (size_t bit = 0; bit < got * 8; bit++) {
        cag_status st;

        if (bit / 8 >= 16 && bit / 8 < 16 + n / 4)
            continue; /* a plane stored as it is */
        z[bit / 8] ^= (uint8_t)(1 << bit % 8);
        st = kvc_decode(KVC_F16Z, c, z, got, dst, n, NULL);
        assert_true(st == CAG_OK || st == CAG_E_CORRUPT);
        z[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(kvc_decode(KVC_F16Z, c, z, got, dst, n, NULL), CAG_OK);
    assert_memory_equal(raw, dst, n);
    kvc_coder_free(c);
    mem_free(raw);
    mem_free(dst);
    mem_free(z);
}

static void text_there_and_back(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "a", "Sparrow-7 flies 47 min",
                                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

    for (size_t i = 0; i < 4; i++) {
        size_t n = strlen(texts[i]);
        struct buf b = BUF_INIT;
        uint32_t method = 9;
        char back[128];

        buf_str(&b, "head");
        assert_int_equal(kvc_text_pack(texts[i], n, &b, &method, NULL), CAG_OK);
        assert_int_equal(method, i == 3 ? KVC_TEXT_ZSTD : KVC_TEXT_RAW);
        if (method == KVC_TEXT_RAW) {
            assert_int_equal(b.size, n + 4);
            assert_memory_equal(b.data + 4, texts[i], n);
        } else {
            const uint8_t *z = (const uint8_t *)b.data + 4;

            assert_int_equal(kvc_text_expand(z, b.size - 4, back, n, NULL),
                             CAG_OK);
            assert_memory_equal(back, texts[i], n);
            assert_int_equal(kvc_text_expand(z, b.size - 4, back, n - 1, NULL),
                             CAG_E_CORRUPT);
            assert_int_equal(kvc_text_expand(z, b.size - 5, back, n, NULL),
                             CAG_E_CORRUPT);
        }
        buf_free(&b);
    }
}

static void names(void **state)
{
    (void)state;
    for (int i = 0; i < KVC_N_CODEC; i++)
        assert_int_equal(kvc_codec_find(kvc_codec_name((enum kvc_codec)i)), i);
    assert_int_equal(kvc_codec_find("F16"), -1);
    assert_int_equal(kvc_codec_find(NULL), -1);
    assert_int_equal(kvc_codec_class(KVC_F16Z), KVC_CLASS_F16);
}

/* What others ask of a codec follows from its row and nothing else. */
static void rows(void **state)
{
    char list[64];

    (void)state;
    for (int i = 0; i < KVC_N_CODEC; i++) {
        enum kvc_codec c = (enum kvc_codec)i, exact = kvc_codec_exact(c);

        assert_string_equal(cag_kvc_codec_name(i), kvc_codec_name(c));
        assert_false(kvc_codec_lossy(exact));
        assert_int_equal(kvc_codec_lossy(c), c != exact);
        assert_int_equal(kvc_codec_lossy(c), kvc_codec_max_loss(c) > 0);
        assert_int_equal(cag_kvc_codec_lossy(cag_kvc_codec_name(i)),
                         kvc_codec_lossy(c));
        for (int j = 0; j < KVC_N_CODEC; j++)
            assert_int_equal(kvc_codec_recodes(c, (enum kvc_codec)j),
                             (c == KVC_F16 && j == KVC_F16Z) ||
                                 (c == KVC_F16Z && j == KVC_F16));
    }
    assert_null(cag_kvc_codec_name(KVC_N_CODEC));
    assert_null(cag_kvc_codec_name(-1));
    assert_true(cag_kvc_codec_recodes("f16z") && cag_kvc_codec_recodes("f16"));
    assert_false(cag_kvc_codec_recodes("q8h") || cag_kvc_codec_recodes("f32") ||
                 cag_kvc_codec_recodes("f16x"));
    assert_false(cag_kvc_codec_lossy("nothing"));
    assert_false(kvc_codec_in_place(KVC_F16Z));
    assert_true(kvc_codec_in_place(KVC_F16) && kvc_codec_in_place(KVC_Q8H));
    assert_string_equal(kvc_codec_list(list, sizeof list, "or"),
                        "f16z, f16, q8h or f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(planes_are_where_the_page_says),
        cmocka_unit_test(damaged_chunks),
        cmocka_unit_test(frames_of_the_wrong_kind),
        cmocka_unit_test(any_bit_of_a_frame),
        cmocka_unit_test(text_there_and_back),
        cmocka_unit_test(names),
        cmocka_unit_test(rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
