/*
 * test_rd.c - ranges, the end of the buffer, and what a message says.
 */
#include "tests/lib/unit.h"

#include <string.h>

#include "util/rd.h"

static const uint8_t bytes[] = {
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0xC0, 0x3F,
};

static void reads_little_endian(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct rd r;

    (void)state;
    rd_init(&r, bytes, sizeof bytes, "f", 0, &e);
    assert_int_equal(rd_u8(&r, "a", 0, 255), 1);
    assert_int_equal(rd_u8(&r, "a", 2, 2), 2);
    assert_int_equal(rd_u16(&r, "b", 0, UINT16_MAX), 0x0403);
    assert_int_equal(rd_u32(&r, "c", 0, UINT32_MAX), 0x08070605);
    assert_int_equal(rd_i32(&r, "d", -1, 1), -1);
    assert_true(rd_f32(&r, "e") == 1.5f);
    assert_int_equal(rd_left(&r), 0);
    assert_int_equal(r.status, CAG_OK);
    rd_seek(&r, "back", 0);
    assert_true(rd_u64(&r, "g", 0, UINT64_MAX) == 0x0807060504030201u);
    const uint8_t *p = rd_bytes(&r, "h", 4);
    assert_ptr_equal(p, bytes + 8);
    assert_ptr_equal(rd_bytes(&r, "nothing", 0), bytes + 12);
    assert_int_equal(rd_le16(bytes), 0x0201);
    assert_int_equal(rd_le32(bytes + 1), 0x05040302);
    assert_true(rd_le64(bytes) == 0x0807060504030201u);
    uint8_t out[8];
    rd_put64(out, 0x0807060504030201u);
    assert_memory_equal(out, bytes, 8);
}

static void out_of_range_names_place_and_range(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct rd r;

    (void)state;
    rd_init(&r, bytes, sizeof bytes, "notes.kvc", 1000, &e);
    rd_seek(&r, "start", 4);
    assert_int_equal(rd_u16(&r, "n_layer", 1, 1024), 0);
    assert_int_equal(r.status, CAG_E_FORMAT);
    assert_string_equal(e.file, "notes.kvc");
    assert_int_equal(e.offset, 1004);
    assert_string_equal(e.msg, "n_layer is 1541, expected 1..1024");
    /* the first failure stays, and nothing moves any more */
    size_t pos = r.pos;
    assert_int_equal(rd_u8(&r, "later", 0, 255), 0);
    assert_null(rd_bytes(&r, "later", 1));
    rd_seek(&r, "later", 0);
    rd_fail(&r, CAG_E_CORRUPT, "later");
    assert_true(rd_f32(&r, "later") == 0);
    assert_int_equal(r.pos, pos);
    assert_int_equal(r.status, CAG_E_FORMAT);
    assert_string_equal(e.msg, "n_layer is 1541, expected 1..1024");
}

static void one_allowed_value_reads_well(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct rd r;

    (void)state;
    rd_init(&r, bytes, 4, "f", 0, &e);
    rd_u8(&r, "major version", 9, 9);
    assert_string_equal(e.msg, "major version is 1, expected 9");
    rd_init(&r, bytes + 8, 4, "f", 0, &e);
    rd_i32(&r, "delta", 0, 5);
    assert_string_equal(e.msg, "delta is -1, expected 0..5");
    assert_int_equal(e.offset, 0);
}

static void every_short_buffer_is_noticed(void **state)
{
    (void)state;
    for (size_t n = 0; n < 8; n++) {
        cag_error e = CAG_ERROR_INIT;
        struct rd r;
        rd_init(&r, n ? bytes : NULL, n, "f", 0, &e);
        assert_true(rd_u64(&r, "size", 0, UINT64_MAX) == 0);
        assert_int_equal(r.status, CAG_E_FORMAT);
        assert_non_null(strstr(e.msg, "file ends inside size"));
        assert_int_equal(r.pos, 0);
    }
}

static void huge_lengths_do_not_wrap(void **state)
{
    struct rd r;

    (void)state;
    rd_init(&r, bytes, sizeof bytes, "f", 0, NULL);
    rd_u32(&r, "skip", 0, UINT32_MAX);
    assert_null(rd_bytes(&r, "name", SIZE_MAX));
    assert_int_equal(r.status, CAG_E_FORMAT);
    rd_init(&r, bytes, sizeof bytes, "f", 0, NULL);
    rd_seek(&r, "table", SIZE_MAX);
    assert_int_equal(r.status, CAG_E_FORMAT);
    rd_init(&r, bytes, sizeof bytes, "f", 0, NULL);
    rd_seek(&r, "end", sizeof bytes);
    assert_int_equal(r.status, CAG_OK);
    assert_int_equal(rd_left(&r), 0);
}

static void signed_extremes(void **state)
{
    static const uint8_t min[] = { 0, 0, 0, 0x80 },
                         max[] = { 255, 255, 255, 127 };
    struct rd r;

    (void)state;
    rd_init(&r, min, 4, "f", 0, NULL);
    assert_int_equal(rd_i32(&r, "x", INT32_MIN, INT32_MAX), INT32_MIN);
    rd_init(&r, max, 4, "f", 0, NULL);
    assert_int_equal(rd_i32(&r, "x", INT32_MIN, INT32_MAX), INT32_MAX);
    assert_int_equal(r.status, CAG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_little_endian),
        cmocka_unit_test(out_of_range_names_place_and_range),
        cmocka_unit_test(one_allowed_value_reads_well),
        cmocka_unit_test(every_short_buffer_is_noticed),
        cmocka_unit_test(huge_lengths_do_not_wrap),
        cmocka_unit_test(signed_extremes),
    };
    return cmocka_run_group_tests_name("rd", tests, NULL, NULL);
}
