/*
 * hash.c - SHA-256 and XXH3-64; the only file with openssl and xxhash
 * headers.
 *
 * EVP_sha256() would look the algorithm up in the provider on every init
 * (OpenSSL 3); it is fetched once here.  A context that exists cannot fail
 * in update or final (the provider only fails on misuse), so only
 * sha256_init has a status.
 */
#include "util/hash.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <xxhash.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256_md;

static void fetch_md(void)
{
    sha256_md = EVP_MD_fetch(NULL, "SHA256", NULL);
}

cag_status sha256_init(struct sha256 *h, cag_error *err)
{
    EVP_MD_CTX *ctx;

    h->ctx = NULL;
    pthread_once(&once, fetch_md);
    if (!sha256_md)
        return cag_fail(err, CAG_E_NOMEM, NULL, -1,
                        "libcrypto offers no SHA-256");
    ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex2(ctx, sha256_md, NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return cag_fail_nomem(err, "SHA-256 context");
    }
    h->ctx = ctx;
    return CAG_OK;
}

void sha256_update(struct sha256 *h, const void *data, size_t n)
{
    if (n)
        EVP_DigestUpdate(h->ctx, data, n);
}

void sha256_final(struct sha256 *h, uint8_t out[SHA256_SIZE])
{
    unsigned n = 0;

    EVP_DigestFinal_ex(h->ctx, out, &n);
    sha256_release(h);
}

void sha256_release(struct sha256 *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}

cag_status sha256_buf(const void *data, size_t n, uint8_t out[SHA256_SIZE],
                      cag_error *err)
{
    struct sha256 h;
    cag_status st = sha256_init(&h, err);

    if (st)
        return st;
    sha256_update(&h, data, n);
    sha256_final(&h, out);
    return CAG_OK;
}

uint64_t xxh3_64(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

void hash_hex(const uint8_t *digest, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * n] = 0;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hash_unhex(const char *s, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int hi = nibble(s[2 * i]);
        int lo = hi < 0 ? -1 : nibble(s[2 * i + 1]);
        if (lo < 0)
            return 0;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return s[2 * n] == 0;
}

const char *hash_sha256_library(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *hash_xxh3_library(void)
{
    return TEXT(XXH_VERSION_MAJOR) "." TEXT(XXH_VERSION_MINOR) "." TEXT(
        XXH_VERSION_RELEASE);
}
