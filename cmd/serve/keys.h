/*
 * keys.h - who may ask which cache.
 *
 *   # id : SHA-256 of the key, in hex : caches it may ask, or *
 *   alice:2bd8...:handbook,rules
 */
#ifndef CMD_SERVE_KEYS_H
#define CMD_SERVE_KEYS_H

#include <cag/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hash.h"

enum { KEYS_MAX = 4096 };

struct key {
    char *id;
    uint8_t digest[SHA256_SIZE];
    char **cache; /* [n_cache] */
    int n_cache;
    bool all; /* "*" */
};

struct keys {
    struct key *key; /* [n] */
    int n;
};

/* CAG_E_CONFIG with file and line; CAG_E_NOMEM.  k is empty after an error. */
cag_status keys_parse(const char *text, size_t size, const char *file,
                      struct keys *k, cag_error *err);
void keys_release(struct keys *k);
/* The one whose key it is, or NULL.  The time it takes says nothing of how
 * much of a key is right. */
const struct key *keys_find(const struct keys *k, const char *secret);
bool key_may(const struct key *k, const char *cache);

#endif
