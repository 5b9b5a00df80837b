/*
 * bpe.c - byte-pair merging by rank.
 *
 * A short piece (nearly all are) is merged by looking for the lowest rank in
 * a small array: no heap, no pointers.  A long one (a million letters, a
 * page of blanks, a whole text of a SentencePiece model) goes through a heap
 * of (rank, position) over a linked list: O(n log n), and nothing recurses.
 * Entries are never taken out of the heap early; one is stale when its
 * symbol's rank is no longer the entry's.
 *
 * Both ways give the same ids.
 */
#include "tokenizer/bpe.h"

#include <string.h>

#include "util/mem.h"
#include "util/text.h"

#define NONE        UINT32_MAX
#define SHORT_PIECE 64 /* symbols */

cag_status bpe_out_reserve(struct bpe_out *o, size_t n, cag_error *err)
{
    size_t want = o->cap ? o->cap : 64;
    void *p;
    if (n <= o->cap - o->n)
        return CAG_OK;
    if (n > SIZE_MAX / 16 - o->n)
        return cag_fail_nomem(err, "token ids");
    while (want < o->n + n)
        want *= 2;
    p = mem_realloc(o->id, want * sizeof *o->id);
    if (!p)
        return cag_fail_nomem(err, "token ids");
    o->id = p;
    p = mem_realloc(o->start, want * sizeof *o->start);
    if (!p)
        return cag_fail_nomem(err, "token ids");
    o->start = p;
    o->cap = want;
    return CAG_OK;
}

void bpe_out_release(struct bpe_out *o)
{
    mem_free(o->id);
    mem_free(o->start);
}

void bpe_release(struct bpe *b)
{
    mem_free(b->sym);
    mem_free(b->heap);
}

/* ---- first symbols ------------------------------------------------------- */

static void put(struct bpe *b, size_t *n, int32_t id, size_t start)
{
    struct bpe_symbol *s = &b->sym[(*n)++];
    s->id = id;
    s->start = (uint32_t)start;
}

/* One character that is no token: its bytes, or the unknown token. */
static void put_unknown(struct bpe *b, const char *s, size_t start, int len,
                        size_t *n, struct bpe_out *out)
{
    const cag_tokenizer *t = b->t;
    bool bytes = (t->flags & TOK_F_BYTE_FALLBACK) != 0;

    for (int i = 0; bytes && i < len; i++)
        bytes = t->byte_id[(unsigned char)s[start + (size_t)i]] >= 0;
    if (bytes) {
        for (int i = 0; i < len; i++)
            put(b, n, t->byte_id[(unsigned char)s[start + (size_t)i]],
                start + (size_t)i);
    } else if (t->unk < 0) {
        out->n_dropped += (size_t)len;
    } else if (!(t->flags & TOK_F_FUSE_UNK) || *n == 0 ||
               b->sym[*n - 1].id != t->unk) {
        put(b, n, t->unk, start);
    }
}

static size_t first_symbols(struct bpe *b, const char *s, size_t size,
                            struct bpe_out *out)
{
    const cag_tokenizer *t = b->t;
    size_t n = 0;

    if (t->flags & TOK_F_BYTE_LEVEL) {
        for (size_t i = 0; i < size; i++) {
            int32_t id = t->byte_id[(unsigned char)s[i]];
            if (id >= 0)
                put(b, &n, id, i);
            else /* its neighbours become neighbours, as in HF */
                out->n_dropped++;
        }
        return n;
    }
    for (size_t i = 0; i < size;) {
        uint32_t cp;
        int len = utf8_decode(s + i, size - i, &cp);
        int32_t id = tok_find(t, s + i, (size_t)len);
        if (id >= 0)
            put(b, &n, id, i);
        else
            put_unknown(b, s, i, len, &n, out);
        i += (size_t)len;
    }
    return n;
}

/* ---- merging ------------------------------------------------------------ */

/* Rank of merging symbol i with j, into symbol i. */
static void rate(struct bpe *b, uint32_t i, uint32_t j)
{
    struct bpe_symbol *s = &b->sym[i];
    if (!tok_merge(b->t, s->id, b->sym[j].id, &s->rank, &s->result))
        s->rank = NONE;
}

static size_t merge_short(struct bpe *b, size_t n)
{
    struct bpe_symbol *s = b->sym;

    for (uint32_t i = 0; i + 1 < n; i++)
        rate(b, i, i + 1);
    while (n > 1) {
        size_t at = 0;
        s[n - 1].rank = NONE;
        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].rank < s[at].rank)
                at = i;
        if (s[at].rank == NONE)
            break;
        s[at].id = s[at].result;
        memmove(&s[at + 1], &s[at + 2], (n - at - 2) * sizeof *s);
        n--;
        if (at + 1 < n)
            rate(b, (uint32_t)at, (uint32_t)at + 1);
        if (at > 0)
            rate(b, (uint32_t)at - 1, (uint32_t)at);
    }
    return n;
}

static bool push(struct bpe *b, uint64_t key)
{
    size_t i = b->n_heap;
    if (i == b->cap_heap) {
        size_t cap = i ? i * 2 : 1024, bytes;
        void *p = mem_mul(&bytes, cap, sizeof *b->heap)
                      ? mem_realloc(b->heap, bytes)
                      : NULL;
        if (!p)
            return false;
        b->heap = p;
        b->cap_heap = cap;
    }
    b->n_heap++;
    while (i > 0 && b->heap[(i - 1) / 2] > key) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = key;
    return true;
}

static uint64_t pop(struct bpe *b)
{
    uint64_t top = b->heap[0];
    uint64_t key = b->heap[--b->n_heap];
    size_t i = 0;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= b->n_heap)
            break;
        if (c + 1 < b->n_heap && b->heap[c + 1] < b->heap[c])
            c++;
        if (b->heap[c] >= key)
            break;
        b->heap[i] = b->heap[c];
        i = c;
    }
    if (b->n_heap)
        b->heap[i] = key;
    return top;
}

static bool rate_and_push(struct bpe *b, uint32_t i)
{
    struct bpe_symbol *s = &b->sym[i];
    s->rank = NONE;
    if (s->next == NONE)
        return true;
    rate(b, i, s->next);
    return s->rank == NONE || push(b, (uint64_t)s->rank << 32 | i);
}

static cag_status merge_long(struct bpe *b, size_t *n, cag_error *err)
{
    struct bpe_symbol *s = b->sym;
    size_t m = 0;

    b->n_heap = 0;
    for (size_t i = 0; i < *n; i++) {
        s[i].prev = i ? (uint32_t)i - 1 : NONE;
        s[i].next = i + 1 < *n ? (uint32_t)i + 1 : NONE;
    }
    for (size_t i = 0; i < *n; i++)
        if (!rate_and_push(b, (uint32_t)i))
            return cag_fail_nomem(err, "merges");
    while (b->n_heap) {
        uint64_t key = pop(b);
        uint32_t i = (uint32_t)key, dead;
        if (s[i].rank != (uint32_t)(key >> 32))
            continue;
        s[i].id = s[i].result;
        dead = s[i].next;
        s[i].next = s[dead].next;
        if (s[i].next != NONE)
            s[s[i].next].prev = i;
        s[dead].rank = NONE;
        if (!rate_and_push(b, i) ||
            (s[i].prev != NONE && !rate_and_push(b, s[i].prev)))
            return cag_fail_nomem(err, "merges");
    }
    /* the list is in order: gather what is left */
    for (uint32_t i = *n ? 0 : NONE; i != NONE;) {
        uint32_t next = s[i].next;
        s[m++] = s[i];
        i = next;
    }
    *n = m;
    return CAG_OK;
}

static bool room(struct bpe *b, size_t n)
{
    size_t bytes;
    void *p;
    if (n <= b->cap)
        return true;
    n = n < 256 ? 256 : n + n / 4;
    if (!mem_mul(&bytes, n, sizeof *b->sym))
        return false;
    p = mem_realloc(b->sym, bytes);
    if (!p)
        return false;
    b->sym = p;
    b->cap = n;
    return true;
}

cag_status bpe_piece(struct bpe *b, const char *s, size_t n,
                     struct bpe_out *out, cag_error *err)
{
    cag_status st = CAG_OK;
    size_t n_sym;

    if (!room(b, n))
        return cag_fail_nomem(err, "text symbols");
    if (b->t->flags & TOK_F_IGNORE_MERGES) {
        int32_t id = tok_find(b->t, s, n);
        if (id >= 0) {
            st = bpe_out_reserve(out, 1, err);
            if (st)
                return st;
            out->start[out->n] = 0;
            out->id[out->n++] = id;
            return CAG_OK;
        }
    }
    n_sym = first_symbols(b, s, n, out);
    if (n_sym <= SHORT_PIECE)
        n_sym = merge_short(b, n_sym);
    else
        st = merge_long(b, &n_sym, err);
    if (!st)
        st = bpe_out_reserve(out, n_sym, err);
    for (size_t i = 0; !st && i < n_sym; i++) {
        out->start[out->n] = b->sym[i].start;
        out->id[out->n++] = b->sym[i].id;
    }
    return st;
}
