/*
 * words_table.c - see words_table.h.  Open hashing, at most half full.
 */
#include "evidence/words_table.h"

#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

#define MAX_WORDS ((size_t)1 << 30)

/* The slot of a word: where it stands, or where it would. */
static size_t probe(const struct words_table *t, const char *s, size_t size,
                    uint32_t hash)
{
    size_t i = hash & (t->n_slot - 1);

    for (; t->slot[i]; i = (i + 1) & (t->n_slot - 1)) {
        const struct words_entry *w = &t->word[t->slot[i] - 1];

        if (w->hash == hash && w->size == size &&
            !memcmp(t->bytes.data + w->off, s, size))
            break;
    }
    return i;
}

static bool grow(struct words_table *t)
{
    size_t cap = t->cap ? 2 * t->cap : 64, bytes;
    struct words_entry *word;
    uint32_t *slot;

    if (cap > MAX_WORDS || !mem_mul(&bytes, cap, sizeof *word))
        return false;
    word = mem_realloc(t->word, bytes);
    if (!word)
        return false;
    t->word = word;
    slot = mem_alloc_array(2 * cap, sizeof *slot);
    if (!slot)
        return false;
    mem_free(t->slot);
    t->slot = slot;
    t->n_slot = 2 * cap;
    t->cap = cap;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = word[i].hash & (t->n_slot - 1);

        while (slot[at])
            at = (at + 1) & (t->n_slot - 1);
        slot[at] = (uint32_t)i + 1;
    }
    return true;
}

cag_status words_table_add(struct words_table *t, const char *s, size_t size,
                           uint32_t *number, cag_error *err)
{
    uint32_t hash = (uint32_t)xxh3_64(s, size);
    size_t at;

    if (t->n == t->cap && !grow(t))
        return cag_fail_nomem(err, "table of words");
    at = probe(t, s, size, hash);
    if (!t->slot[at]) {
        t->word[t->n] =
            (struct words_entry){ t->bytes.size, (uint32_t)size, hash };
        buf_add(&t->bytes, s, size);
        if (buf_failed(&t->bytes))
            return cag_fail_nomem(err, "table of words");
        t->slot[at] = (uint32_t)++t->n;
    }
    *number = t->slot[at] - 1;
    return CAG_OK;
}

int64_t words_table_find(const struct words_table *t, const char *s,
                         size_t size)
{
    size_t at;

    if (!t->n)
        return -1;
    at = probe(t, s, size, (uint32_t)xxh3_64(s, size));
    return (int64_t)t->slot[at] - 1;
}

void words_table_release(struct words_table *t)
{
    buf_free(&t->bytes);
    mem_free(t->word);
    mem_free(t->slot);
    memset(t, 0, sizeof *t);
}
