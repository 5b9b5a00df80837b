/*
 * test_kvc_layout.c - the arithmetic of chunks and tiles: known sizes, and
 * that tiles cover every chunk once without a gap.
 */
#include "tests/lib/kvc_fixture.h"

static void chunk_tok_of_real_models(void **state)
{
    (void)state;
    /* SmolLM2-135M: 3 heads of 64: 768 bytes a token and layer */
    assert_int_equal(kvc_chunk_tok(3, 64, KVC_CLASS_F16), 1024);
    /* Qwen3-0.6B: 8 heads of 128: 4096 */
    assert_int_equal(kvc_chunk_tok(8, 128, KVC_CLASS_F16), 256);
    assert_int_equal(kvc_chunk_tok(8, 128, KVC_CLASS_F32), 128);
    /* one tile is the least, however large */
    assert_int_equal(kvc_chunk_tok(64, 128, KVC_CLASS_F32), 64);
    assert_int_equal(kvc_chunk_tok(1, 8, KVC_CLASS_F16), 32768);
}

static void bytes_per_token(void **state)
{
    (void)state;
    struct kvc_shape s = { 30, 3, 64, KVC_CLASS_F16, 4096, 1024 };

    assert_int_equal(kvc_n_tile(&s), 64);
    assert_int_equal(kvc_n_chunk(&s), 4);
    assert_int_equal(kvc_tile_bytes(&s), 64 * 64 * 2);
    assert_int_equal(kvc_chunk_bytes(&s, 0), 1024 * 768);
    assert_int_equal(30 * 4 * kvc_chunk_bytes(&s, 0) / 4096, 23040);
    s.n_tok = 4097; /* one more tile, one more chunk */
    assert_int_equal(kvc_n_chunk(&s), 5);
    assert_int_equal(kvc_chunk_tiles(&s, 4), 1);
    assert_int_equal(kvc_chunk_bytes(&s, 4), 64 * 768);
}

static void tiles_cover_a_chunk_once(void **state)
{
    (void)state;
    static const int n_tok[] = { 1, 63, 64, 65, 128, 129, 700, 1025 };

    for (size_t i = 0; i < sizeof n_tok / sizeof *n_tok; i++)
        for (int heads = 1; heads <= 3; heads++) {
            struct kvc_shape s = { 1, heads, 40, KVC_CLASS_F16, n_tok[i], 256 };
            int total = 0;

            for (int c = 0; c < kvc_n_chunk(&s); c++) {
                size_t at = 0;

                for (int v = 0; v < 2; v++)
                    for (int h = 0; h < heads; h++)
                        for (int t = 0; t < kvc_chunk_tiles(&s, c); t++) {
                            assert_int_equal(kvc_tile_off(&s, c, v, h, t), at);
                            at += kvc_tile_bytes(&s);
                        }
                assert_int_equal(kvc_chunk_bytes(&s, c), at);
                total += kvc_chunk_tiles(&s, c);
            }
            assert_int_equal(total, kvc_n_tile(&s));
            assert_int_equal(total, (n_tok[i] + 63) / 64);
        }
}

/* q8h: codes, scales and factors follow each other without a gap. */
static void codes_scales_factors(void **state)
{
    (void)state;
    struct kvc_shape s = { 30, 3, 64, KVC_CLASS_Q8H, 4257, 0 };

    s.chunk_tok = kvc_chunk_tok(3, 64, KVC_CLASS_Q8H);
    assert_int_equal(s.chunk_tok, 2048);
    assert_int_equal(kvc_row_bytes(&s), 66);
    assert_int_equal(kvc_chunk_bytes(&s, 0), 2048 * 2 * 3 * 66 + 3 * 64 * 4);
    assert_int_equal(30 * 2 * 3 * kvc_row_bytes(&s), 11880);
    for (int c = 0; c < kvc_n_chunk(&s); c++) {
        size_t at = 0;
        int tiles = kvc_chunk_tiles(&s, c);

        for (int i = 0; i < 6 * tiles; i++, at += 64 * 64)
            assert_int_equal(
                kvc_tile_off(&s, c, i / (3 * tiles), i / tiles % 3, i % tiles),
                at);
        for (int i = 0; i < 6 * tiles; i++, at += 2 * 64)
            assert_int_equal(
                kvc_scale_off(&s, c, i / (3 * tiles), i / tiles % 3, i % tiles),
                at);
        for (int h = 0; h < 3; h++, at += 4 * 64)
            assert_int_equal(kvc_factor_off(&s, c, h), at);
        assert_int_equal(kvc_chunk_bytes(&s, c), at);
    }
    /* the factors count: 1 MiB is not exceeded by them */
    for (int heads = 1; heads < 200; heads++)
        for (int d = 8; d <= 256; d *= 2) {
            struct kvc_shape t = { 1, heads, d, KVC_CLASS_Q8H, 1 << 20, 0 };

            t.chunk_tok = kvc_chunk_tok(heads, d, KVC_CLASS_Q8H);
            assert_true(t.chunk_tok == 64 ||
                        kvc_chunk_bytes(&t, 0) <= KVC_MAX_CHUNK);
            t.chunk_tok *= 2;
            assert_true(kvc_chunk_bytes(&t, 0) > KVC_MAX_CHUNK);
        }
}

/* The largest shape the format allows does not overflow. */
static void the_largest_shape_fits(void **state)
{
    (void)state;
    struct kvc_shape s = { KVC_MAX_LAYER, KVC_MAX_HEAD, KVC_MAX_DIM,
                           KVC_CLASS_F32, KVC_MAX_TOK,  64 };

    assert_int_equal(kvc_n_chunk(&s), 1 << 18);
    assert_true(kvc_chunk_bytes(&s, 0) == (size_t)1 << 29);
    assert_true(kvc_tile_off(&s, 0, 1, KVC_MAX_HEAD - 1, 0) ==
                ((size_t)1 << 29) - kvc_tile_bytes(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_tok_of_real_models),
        cmocka_unit_test(bytes_per_token),
        cmocka_unit_test(tiles_cover_a_chunk_once),
        cmocka_unit_test(codes_scales_factors),
        cmocka_unit_test(the_largest_shape_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
