/*
 * keys.c - see keys.h.
 */
#include "cmd/serve/keys.h"

#include <string.h>

#include "util/error.h"
#include "util/mem.h"

struct line {
    const char *s;
    size_t n;
};

static cag_status wrong(const char *file, int line, const char *what,
                        cag_error *err)
{
    cag_status st = cag_fail(
        err, CAG_E_CONFIG, file, -1,
        "%s; expected ID:SHA-256 of the key in hex:CACHE[,CACHE]", what);

    if (err)
        err->line = line;
    return st;
}

/* What stands before the next c, or to the end; l is what follows. */
static struct line cut(struct line *l, char c)
{
    const char *end = memchr(l->s, c, l->n);
    struct line part = { l->s, end ? (size_t)(end - l->s) : l->n };
    size_t used = part.n + (end != NULL);

    l->s += used;
    l->n -= used;
    return part;
}

static bool is_word(struct line l)
{
    for (size_t i = 0; i < l.n; i++)
        if ((unsigned char)l.s[i] <= ' ' || l.s[i] == 0x7f)
            return false;
    return l.n > 0;
}

static cag_status take_caches(struct key *k, struct line rest, cag_error *err)
{
    size_t n = 1;

    for (size_t i = 0; i < rest.n; i++)
        n += rest.s[i] == ',';
    k->cache = mem_alloc_array(n, sizeof *k->cache);
    if (!k->cache)
        return cag_fail_nomem(err, "keys");
    while (rest.n) {
        struct line name = cut(&rest, ',');

        if (!is_word(name))
            return CAG_E_CONFIG;
        k->all = k->all || (name.n == 1 && name.s[0] == '*');
        k->cache[k->n_cache] = mem_strndup(name.s, name.n);
        if (!k->cache[k->n_cache])
            return cag_fail_nomem(err, "keys");
        k->n_cache++;
    }
    return k->n_cache ? CAG_OK : CAG_E_CONFIG;
}

static cag_status take_key(struct keys *all, struct line l, const char *file,
                           int line, cag_error *err)
{
    struct key *k = &all->key[all->n];
    struct line id = cut(&l, ':'), digest = cut(&l, ':');
    char hex[2 * SHA256_SIZE + 1];
    cag_status st;

    if (!is_word(id))
        return wrong(file, line, "the key has no id", err);
    for (int i = 0; i < all->n; i++)
        if (strlen(all->key[i].id) == id.n &&
            !memcmp(all->key[i].id, id.s, id.n))
            return wrong(file, line, "the id was given before", err);
    if (digest.n != sizeof hex - 1)
        return wrong(file, line, "the digest has not 64 digits", err);
    memcpy(hex, digest.s, digest.n);
    hex[digest.n] = '\0';
    if (!hash_unhex(hex, k->digest, SHA256_SIZE))
        return wrong(file, line, "the digest is not lower-case hex", err);
    all->n++;
    k->id = mem_strndup(id.s, id.n);
    if (!k->id)
        return cag_fail_nomem(err, "keys");
    st = take_caches(k, l, err);
    return st == CAG_E_CONFIG ? wrong(file, line, "no cache is named", err)
                              : st;
}

cag_status keys_parse(const char *text, size_t size, const char *file,
                      struct keys *k, cag_error *err)
{
    struct line all = { text, size };
    cag_status st = CAG_OK;

    memset(k, 0, sizeof *k);
    k->key = mem_alloc_array(KEYS_MAX, sizeof *k->key);
    if (!k->key)
        return cag_fail_nomem(err, "keys");
    for (int n = 1; all.n && !st; n++) {
        struct line l = cut(&all, '\n');

        if (l.n && l.s[l.n - 1] == '\r')
            l.n--;
        if (!l.n || l.s[0] == '#')
            continue;
        if (memchr(l.s, '\0', l.n))
            st = wrong(file, n, "a NUL byte", err);
        else if (k->n == KEYS_MAX)
            st = wrong(file, n, "more than 4096 keys", err);
        else
            st = take_key(k, l, file, n, err);
    }
    if (st)
        keys_release(k);
    return st;
}

void keys_release(struct keys *k)
{
    for (int i = 0; i < k->n; i++) {
        for (int c = 0; c < k->key[i].n_cache; c++)
            mem_free(k->key[i].cache[c]);
        mem_free(k->key[i].cache);
        mem_free(k->key[i].id);
    }
    mem_free(k->key);
    memset(k, 0, sizeof *k);
}

/* All bytes are looked at, whether they differ or not. */
static bool same_digest(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t differ = 0;

    for (int i = 0; i < SHA256_SIZE; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

const struct key *keys_find(const struct keys *k, const char *secret)
{
    uint8_t digest[SHA256_SIZE];
    const struct key *found = NULL;

    if (sha256_buf(secret, strlen(secret), digest, NULL))
        return NULL;
    for (int i = 0; i < k->n; i++)
        if (same_digest(k->key[i].digest, digest))
            found = &k->key[i];
    return found;
}

bool key_may(const struct key *k, const char *cache)
{
    bool may = k->all;

    for (int i = 0; i < k->n_cache && !may; i++)
        may = !strcmp(k->cache[i], cache);
    return may;
}
