/*
 * words_table.h - different words, numbered in the order they came.
 */
#ifndef EVIDENCE_WORDS_TABLE_H
#define EVIDENCE_WORDS_TABLE_H

#include <stdint.h>

#include "util/buf.h"
#include "util/error.h"

struct words_table {
    struct buf bytes; /* of all words, one after the other */
    struct words_entry {
        uint64_t off;
        uint32_t size, hash;
    } * word;       /* [n], by number              */
    uint32_t *slot; /* [n_slot] number + 1; 0 free */
    size_t n, cap, n_slot;
};

/* The number of a word, which is added if it is new.  CAG_E_NOMEM. */
cag_status words_table_add(struct words_table *t, const char *s, size_t size,
                           uint32_t *number, cag_error *err);
/* Its number, or -1. */
int64_t words_table_find(const struct words_table *t, const char *s,
                         size_t size);
/* A zeroed struct is an empty table. */
void words_table_release(struct words_table *t);

#endif
