/*
 * tok_compile.c - a collected vocabulary becomes a blob.
 *
 * The blob (tok_blob.h) is what a .kvc carries and what encoding works on in
 * place, so all that takes time is done here, once: the two open hashes, text
 * -> id and pair of ids -> merge, with the longest probe either needs, which
 * bounds every later lookup; the ids of single bytes; whether text may be cut
 * at spaces.
 */
#include "tokenizer/tok_build.h"

#include <string.h>

#include "util/mem.h"

static void put32(struct buf *out, uint32_t v)
{
    uint8_t p[4];
    rd_put32(p, v);
    buf_add(out, p, 4);
}

/* May text be cut before every space that follows a non-space? */
static bool can_cut_words(const struct tok_build *b)
{
    if (b->flags & (TOK_F_BYTE_LEVEL | TOK_F_IGNORE_MERGES) ||
        !(b->flags & TOK_F_SPACE_MARK) || tok_build_find(b, " ", 1) < 0)
        return false;
    for (uint32_t id = 0; id < b->n_token; id++) {
        const struct tok_build_token *t = &b->token[id];
        const char *s = tok_build_bytes(b, t);
        if (!tok_build_can_merge(t))
            continue;
        for (size_t i = 1; i < t->size; i++)
            if (s[i] == ' ' && s[i - 1] != ' ')
                return false;
    }
    return true;
}

/* Open hash of slots of item words; returns the longest probe. */
static uint32_t hash_put(uint32_t *table, uint32_t slots, uint32_t item,
                         uint32_t hash, const uint32_t *value, uint32_t probe)
{
    uint32_t i = tok_slot(hash, slots), k = 0;
    while (table[(size_t)i * item] != TOK_EMPTY) {
        bool same = item == 4 && table[(size_t)i * 4] == value[0] &&
                    table[(size_t)i * 4 + 1] == value[1];
        if (same) /* the same pair again: the later rank holds */
            break;
        i = i + 1 == slots ? 0 : i + 1;
        k++;
    }
    memcpy(table + (size_t)i * item, value, item * sizeof *value);
    return k > probe ? k : probe;
}

struct tables {
    uint32_t *vocab, *merge;
    uint32_t vocab_slots, vocab_probe, merge_slots, merge_probe;
};

static cag_status make_tables(const struct tok_build *b, struct tables *x,
                              cag_error *err)
{
    size_t n = 0;
    for (uint32_t id = 0; id < b->n_token; id++)
        n += tok_build_can_find(b, id);
    x->vocab_slots = (uint32_t)(n + n / 2 + 1);
    x->merge_slots =
        (uint32_t)(b->n_merge ? b->n_merge + b->n_merge / 3 + 1 : 0);
    x->vocab = mem_alloc_array(x->vocab_slots, 4);
    x->merge = mem_alloc_array(x->merge_slots, 16);
    if (!x->vocab || !x->merge)
        return cag_fail_nomem(err, "vocabulary");
    memset(x->vocab, 0xff, (size_t)x->vocab_slots * 4);
    memset(x->merge, 0xff, (size_t)x->merge_slots * 16);
    for (uint32_t id = 0; id < b->n_token; id++) {
        const struct tok_build_token *t = &b->token[id];
        const char *s = tok_build_bytes(b, t);
        if (tok_build_can_find(b, id) &&
            tok_build_find(b, s, t->size) == (int32_t)id)
            x->vocab_probe = hash_put(x->vocab, x->vocab_slots, 1,
                                      (uint32_t)(xxh3_64(s, t->size) >> 32),
                                      &id, x->vocab_probe);
    }
    for (size_t i = 0; i < b->n_merge; i++) {
        const struct tok_build_merge *m = &b->merge[i];
        const uint32_t v[4] = { m->left, m->right, m->rank, m->result };
        if (!(b->token[m->result].flags & TOK_SPECIAL))
            x->merge_probe =
                hash_put(x->merge, x->merge_slots, 4,
                         tok_pair_hash(m->left, m->right), v, x->merge_probe);
    }
    if (x->vocab_probe > TOK_MAX_PROBE || x->merge_probe > TOK_MAX_PROBE)
        return cag_fail(err, CAG_E_LIMIT, b->file, -1,
                        "the vocabulary cannot be hashed");
    return CAG_OK;
}

static void put_words(struct buf *out, const uint32_t *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put32(out, w[i]);
}

static void put_bytes_table(const struct tok_build *b, struct buf *out)
{
    int32_t byte[256];
    for (int c = 0; c < 256; c++) {
        char s = (char)c;
        byte[c] = -1;
        if (b->flags & TOK_F_BYTE_LEVEL) {
            byte[c] = tok_build_find(b, &s, 1);
            if (byte[c] >= 0 && !tok_build_can_find(b, (uint32_t)byte[c]))
                byte[c] = -1;
        }
    }
    if (b->flags & TOK_F_BYTE_FALLBACK)
        for (uint32_t id = 0; id < b->n_token; id++)
            if (b->token[id].flags & TOK_BYTE)
                byte[(unsigned char)*tok_build_bytes(b, &b->token[id])] =
                    (int32_t)id;
    for (int c = 0; c < 256; c++)
        put32(out, (uint32_t)byte[c]);
}

static void put_section(const struct tok_build *b, const struct tables *x,
                        int section, struct buf *out)
{
    uint32_t off = 0;
    switch (section) {
    case TOK_S_OFF:
        for (size_t i = 0; i < b->n_token; off += b->token[i++].size)
            put32(out, off);
        put32(out, off);
        break;
    case TOK_S_FLAG:
        for (size_t i = 0; i < b->n_token; i++)
            buf_char(out, (char)(b->token[i].flags & 255u));
        break;
    case TOK_S_BYTES:
        for (size_t i = 0; i < b->n_token; i++)
            buf_add(out, tok_build_bytes(b, &b->token[i]), b->token[i].size);
        break;
    case TOK_S_VOCAB:
        put_words(out, x->vocab, x->vocab_slots);
        break;
    case TOK_S_MERGE:
        put_words(out, x->merge, (size_t)x->merge_slots * 4);
        break;
    case TOK_S_BYTE:
        put_bytes_table(b, out);
        break;
    case TOK_S_ADDED:
        for (size_t i = 0; i < b->n_added; i++) {
            put32(out, b->added[i].id);
            put32(out, b->added[i].flags);
        }
        break;
    case TOK_S_STEP:
        for (size_t i = 0; i < b->n_step; i++) {
            put32(out, b->step[i].kind);
            put32(out, b->step[i].off);
            put32(out, b->step[i].size);
            put32(out, 0);
        }
        break;
    case TOK_S_TEXT:
        buf_add(out, b->pattern.data, b->pattern.size);
        break;
    default:
        for (size_t i = 0; i < b->n_prefix; i++)
            put32(out, (uint32_t)b->prefix[i]);
        for (size_t i = 0; i < b->n_eos; i++)
            put32(out, (uint32_t)b->eos[i]);
    }
}

static void put_head(const struct tok_build *b, const struct tables *x,
                     uint32_t flags, uint8_t *h)
{
    memcpy(h, TOK_MAGIC, 8);
    rd_put32(h + 8, TOK_VERSION);
    rd_put32(h + 12, flags);
    rd_put32(h + 24, (uint32_t)b->n_token);
    rd_put32(h + 28, (uint32_t)b->n_added);
    rd_put32(h + 32, (uint32_t)b->n_step);
    rd_put32(h + 36, x->vocab_slots);
    rd_put32(h + 40, x->vocab_probe);
    rd_put32(h + 44, x->merge_slots);
    rd_put32(h + 48, x->merge_probe);
    rd_put32(h + 52, (uint32_t)b->n_prefix);
    rd_put32(h + 56, (uint32_t)b->n_eos);
    rd_put32(h + 60, (uint32_t)b->bos);
    rd_put32(h + 64, (uint32_t)b->unk);
    rd_put32(h + 68, b->prepend);
}

cag_status tok_build_finish(struct tok_build *b, cag_tokenizer **out,
                            cag_error *err)
{
    struct buf blob = BUF_INIT;
    struct tables x = { NULL, NULL, 0, 0, 0, 0 };
    uint8_t head[TOK_HEAD_SIZE] = { 0 };
    cag_status st;
    char *data;
    size_t size;

    if (b->n_token == 0)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "the vocabulary is empty");
    st = make_tables(b, &x, err);
    if (st)
        goto out;
    put_head(b, &x, b->flags | (can_cut_words(b) ? TOK_F_WORD_CUT : 0), head);
    buf_add(&blob, head, sizeof head);
    for (int i = 0; i < TOK_N_SECTION; i++) {
        while (blob.size % 8 && !buf_failed(&blob))
            buf_char(&blob, 0);
        rd_put64(head + 80 + 16 * i, blob.size);
        size = blob.size;
        put_section(b, &x, i, &blob);
        rd_put64(head + 88 + 16 * i, blob.size - size);
    }
    rd_put64(head + 16, blob.size);
    if (buf_failed(&blob)) {
        st = cag_fail_nomem(err, "compiled tokenizer");
        goto out;
    }
    memcpy(blob.data, head, sizeof head);
    data = buf_detach(&blob, &size);
    st = tok_from_heap(data, size, b->file, out, err);
out:
    mem_free(x.vocab);
    mem_free(x.merge);
    buf_free(&blob);
    return st;
}
