/*
 * test_hash.c - known digests, pieces, hexadecimal.
 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <string.h>

#include "util/hash.h"

static void hex_of(const void *data, size_t n, char out[65])
{
    uint8_t d[SHA256_SIZE];

    assert_int_equal(sha256_buf(data, n, d, NULL), CAG_OK);
    hash_hex(d, sizeof d, out);
}

static void known_digests(void **state)
{
    char hex[65];

    (void)state; /* FIPS 180-4 examples */
    hex_of("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb924"
                             "27ae41e4649b934ca495991b7852b855");
    hex_of("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223"
                             "b00361a396177a9cb410ff61f20015ad");
    assert_true(xxh3_64("", 0) == 0x2D06800538D394C2u); /* XXH3 spec */
}

static void pieces_equal_the_whole(void **state)
{
    uint8_t data[1000], whole[SHA256_SIZE], parts[SHA256_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    sha256_buf(data, sizeof data, whole, NULL);
    for (size_t step = 1; step < 200; step += 13) {
        struct sha256 h;
        assert_int_equal(sha256_init(&h, NULL), CAG_OK);
        for (size_t i = 0; i < sizeof data; i += step)
            sha256_update(&h, data + i,
                          step < sizeof data - i ? step : sizeof data - i);
        sha256_update(&h, NULL, 0);
        sha256_final(&h, parts);
        assert_null(h.ctx);
        assert_memory_equal(parts, whole, SHA256_SIZE);
    }
    struct sha256 unused;
    sha256_init(&unused, NULL);
    sha256_release(&unused);
    sha256_release(&unused);
}

static void *hash_in_thread(void *arg)
{
    uint8_t d[SHA256_SIZE];

    for (int i = 0; i < 200; i++)
        if (sha256_buf("abc", 3, d, NULL) != CAG_OK || d[0] != 0xBA)
            return arg;
    return NULL;
}

static void threads(void **state)
{
    pthread_t t[4];
    char marks[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, hash_in_thread, &marks[i]),
                         0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
}

static void hexadecimal(void **state)
{
    uint8_t d[3] = { 0 };
    char s[7];

    (void)state;
    hash_hex((const uint8_t *)"\x00\xAB\xFF", 3, s);
    assert_string_equal(s, "00abff");
    assert_true(hash_unhex(s, d, 3));
    assert_memory_equal(d, "\x00\xAB\xFF", 3);
    static const char *const bad[] = { "",       "0",      "00abf",  "00abfff",
                                       "00ABFF", "00abfg", "00abf ", "0x00ab" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(hash_unhex(bad[i], d, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(pieces_equal_the_whole),
        cmocka_unit_test(threads),
        cmocka_unit_test(hexadecimal),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
