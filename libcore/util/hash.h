/*
 * hash.h - SHA-256 (libcrypto) is the record, XXH3-64 the quick check.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

#define SHA256_SIZE 32
struct sha256 {
    void *ctx;
}; /* one per thread; {0} is released */

/* The EVP algorithm is fetched once per process.  CAG_E_NOMEM on failure. */
cag_status sha256_init(struct sha256 *h, cag_error *err);
void sha256_update(struct sha256 *h, const void *data, size_t n);
void sha256_final(struct sha256 *h, uint8_t out[SHA256_SIZE]);
void sha256_release(struct sha256 *h); /* without a digest */
cag_status sha256_buf(const void *data, size_t n, uint8_t out[SHA256_SIZE],
                      cag_error *err);

uint64_t xxh3_64(const void *data, size_t n);

void hash_hex(const uint8_t *digest, size_t n, char *out); /* 2n+1 */
/* false unless s is exactly 2n lower-case hex digits */
int hash_unhex(const char *s, uint8_t *out, size_t n);

/* "OpenSSL 3.0.17 1 Jul 2025", "0.8.1": what is linked; static */
const char *hash_sha256_library(void);
const char *hash_xxh3_library(void);

#endif
