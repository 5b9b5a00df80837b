/*
 * tok_build.c - collect a vocabulary (tok_compile.c writes it as a blob).
 *
 * Whatever the source spells, a token is stored as the bytes it stands for:
 * GPT-2's letters for bytes are bytes again, SentencePiece's U+2581 is a
 * space.  Then encoding and decoding need no tables of letters, and one
 * search serves both families.  Spelling is injective, so merges can be
 * looked up by the decoded text.
 */
#include "tokenizer/tok_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/mem.h"
#include "util/text.h"

#define TOK_MODEL  256u  /* builder only: the model's own token */
#define MAX_TEXT   4096u /* bytes of one model token            */
#define SPACE_MARK "\xe2\x96\x81"

/* Bytes that GPT-2's alphabet leaves as they are; the others are moved to
 * U+0100 and up, in order. */
static bool is_plain_letter(int c)
{
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) ||
           (c >= 174 && c <= 255);
}

void tok_build_init(struct tok_build *b, const char *file)
{
    int next = 256;
    memset(b, 0, sizeof *b);
    b->file = file;
    b->bos = b->unk = -1;
    for (int i = 0; i < 512; i++)
        b->letter[i] = -1;
    for (int c = 0; c < 256; c++)
        b->letter[is_plain_letter(c) ? c : next++] = (int16_t)c;
}

void tok_build_release(struct tok_build *b)
{
    buf_free(&b->bytes);
    buf_free(&b->pattern);
    mem_free(b->token);
    mem_free(b->slot);
    mem_free(b->merge);
    mem_free(b->added);
}

/* Room for n items in *p. */
static bool reserve(void **p, size_t *cap, size_t n, size_t item)
{
    size_t want = *cap ? *cap : 256, bytes;
    void *q;
    if (n <= *cap)
        return true;
    while (want < n)
        want *= 2;
    if (!mem_mul(&bytes, want, item))
        return false;
    q = mem_realloc(*p, bytes);
    if (!q)
        return false;
    *p = q;
    *cap = want;
    return true;
}

/* Decode a spelling, appending to out; false if no text can produce it,
 * then what was appended is the spelling itself. */
static bool decode(const struct tok_build *b, const char *s, size_t n,
                   struct buf *out)
{
    size_t start = out->size;
    if (b->flags & TOK_F_BYTE_LEVEL) {
        for (size_t i = 0; i < n;) {
            uint32_t cp;
            i += (size_t)utf8_decode(s + i, n - i, &cp);
            if (cp >= 512 || b->letter[cp] < 0)
                goto raw;
            buf_char(out, (char)b->letter[cp]);
        }
        return true;
    }
    if (!(b->flags & TOK_F_SPACE_MARK)) {
        buf_add(out, s, n);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ')
            goto raw;
        if (n - i >= 3 && memcmp(s + i, SPACE_MARK, 3) == 0) {
            buf_char(out, ' ');
            i += 2;
        } else {
            buf_char(out, s[i]);
        }
    }
    return true;
raw:
    buf_truncate(out, start);
    buf_add(out, s, n);
    return false;
}

int tok_build_byte(const char *s, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    const char *h = memchr(hex, s[3], 16), *l = memchr(hex, s[4], 16);
    return h && l ? (int)((h - hex) * 16 + (l - hex)) : -1;
}

static cag_status new_id(struct tok_build *b, int64_t id, cag_error *err)
{
    void *p = b->token;
    if (id < 0 || id >= TOK_MAX_VOCAB)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "token id %lld, expected 0..%u", (long long)id,
                        TOK_MAX_VOCAB - 1);
    if ((size_t)id < b->n_token)
        return CAG_OK;
    if (!reserve(&p, &b->cap_token, (size_t)id + 1, sizeof *b->token))
        return cag_fail_nomem(err, "vocabulary");
    b->token = p;
    memset(b->token + b->n_token, 0,
           ((size_t)id + 1 - b->n_token) * sizeof *b->token);
    b->n_token = (size_t)id + 1;
    return CAG_OK;
}

cag_status tok_build_token(struct tok_build *b, int64_t id, const char *s,
                           size_t n, uint32_t flags, cag_error *err)
{
    struct tok_build_token *t;
    cag_status st = new_id(b, id, err);
    int byte;

    if (st)
        return st;
    if (n > MAX_TEXT)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "token %lld has %zu bytes, at most %u are expected",
                        (long long)id, n, MAX_TEXT);
    t = &b->token[id];
    if (t->flags & TOK_SET)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "two tokens have the id %lld", (long long)id);
    if (b->bytes.size > UINT32_MAX - MAX_TEXT)
        return cag_fail(err, CAG_E_LIMIT, b->file, -1,
                        "the vocabulary's texts exceed 4 GiB");
    t->off = (uint32_t)b->bytes.size;
    t->flags = flags | TOK_SET | TOK_MODEL;
    byte = flags & TOK_BYTE ? tok_build_byte(s, n) : 0;
    if (byte < 0)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "byte token %lld is not spelled <0xNN>", (long long)id);
    if (flags & TOK_BYTE)
        buf_char(&b->bytes, (char)byte);
    else if (flags & TOK_RAW)
        buf_add(&b->bytes, s, n);
    else if (!decode(b, s, n, &b->bytes))
        t->flags |= TOK_RAW;
    t->size = (uint32_t)(b->bytes.size - t->off);
    return buf_failed(&b->bytes) ? cag_fail_nomem(err, "vocabulary") : CAG_OK;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i]) || s[i] == 0)
            return false;
    return n > 0;
}

cag_status tok_build_added(struct tok_build *b, int64_t id, const char *s,
                           size_t n, bool special, uint32_t flags,
                           cag_error *err)
{
    void *p = b->added;
    struct tok_build_token *t;
    cag_status st = new_id(b, id, err);
    struct buf plain = BUF_INIT;

    if (st)
        return st;
    if (n == 0 || n > MAX_TEXT || b->n_added >= TOK_MAX_ADDED)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "added token %lld has %zu bytes, expected 1..%u",
                        (long long)id, n, MAX_TEXT);
    t = &b->token[id];
    if (t->flags & TOK_ADDED)
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "two added tokens have the id %lld", (long long)id);
    if (t->flags & TOK_SET) { /* it is in the model too: same text? */
        bool same;
        decode(b, s, n, &plain);
        if (buf_failed(&plain)) {
            buf_free(&plain);
            return cag_fail_nomem(err, "added token");
        }
        same = t->size == plain.size &&
               memcmp(tok_build_bytes(b, t), plain.data, plain.size) == 0;
        if (!same)
            same = t->size == n && memcmp(tok_build_bytes(b, t), s, n) == 0;
        buf_free(&plain);
        if (!same)
            return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                            "added token %lld has another text in the "
                            "vocabulary",
                            (long long)id);
    }
    if (!reserve(&p, &b->cap_added, b->n_added + 1, sizeof *b->added))
        return cag_fail_nomem(err, "added tokens");
    b->added = p;
    if (!special && is_blank(s, n))
        flags |= TOK_A_PLAIN;
    b->added[b->n_added].id = (uint32_t)id;
    b->added[b->n_added++].flags = flags;
    /* matched literally, so stored literally; a model token that is spelled
     * otherwise can then no longer be the result of a lookup by its text */
    if (!(t->flags & TOK_SET) || t->size != n ||
        memcmp(tok_build_bytes(b, t), s, n) != 0) {
        t->off = (uint32_t)b->bytes.size;
        t->size = (uint32_t)n;
        t->flags = 0;
        buf_add(&b->bytes, s, n);
    }
    t->flags |= TOK_SET | TOK_ADDED | (special ? TOK_SPECIAL : 0);
    t->flags &= ~TOK_BYTE;
    return buf_failed(&b->bytes) ? cag_fail_nomem(err, "vocabulary") : CAG_OK;
}

static bool text_is(const struct tok_build *b, uint32_t id, const char *s,
                    size_t n)
{
    const struct tok_build_token *t = &b->token[id];
    return t->size == n && memcmp(tok_build_bytes(b, t), s, n) == 0;
}

bool tok_build_can_merge(const struct tok_build_token *t)
{
    return (t->flags & TOK_MODEL) && !(t->flags & (TOK_RAW | TOK_BYTE)) &&
           t->size > 0;
}

bool tok_build_can_find(const struct tok_build *b, uint32_t id)
{
    const struct tok_build_token *t = &b->token[id];
    uint32_t cp;
    if (!tok_build_can_merge(t) || t->flags & TOK_SPECIAL)
        return false;
    if (!(t->flags & TOK_ADDED))
        return true;
    return utf8_decode(tok_build_bytes(b, t), t->size, &cp) == (int)t->size;
}

cag_status tok_build_index(struct tok_build *b, cag_error *err)
{
    b->n_slot = b->n_token * 2 + 1;
    b->slot = mem_alloc_array(b->n_slot, sizeof *b->slot);
    if (!b->slot)
        return cag_fail_nomem(err, "vocabulary");
    memset(b->slot, 0xff, b->n_slot * sizeof *b->slot);
    for (uint32_t id = 0; id < b->n_token; id++) {
        const struct tok_build_token *t = &b->token[id];
        const char *s = tok_build_bytes(b, t);
        if (!tok_build_can_merge(t) || tok_build_find(b, s, t->size) >= 0)
            continue;
        size_t i = xxh3_64(s, t->size) % b->n_slot;
        while (b->slot[i] != TOK_EMPTY)
            i = i + 1 == b->n_slot ? 0 : i + 1;
        b->slot[i] = id;
    }
    return CAG_OK;
}

int32_t tok_build_find(const struct tok_build *b, const char *s, size_t n)
{
    size_t i = xxh3_64(s, n) % b->n_slot;
    while (b->slot[i] != TOK_EMPTY) {
        if (text_is(b, b->slot[i], s, n))
            return (int32_t)b->slot[i];
        i = i + 1 == b->n_slot ? 0 : i + 1;
    }
    return -1;
}

cag_status tok_build_add_merge(struct tok_build *b, uint32_t left,
                               uint32_t right, uint32_t rank, uint32_t result,
                               cag_error *err)
{
    void *p = b->merge;
    if (b->n_merge >= 0x10000000)
        return cag_fail(err, CAG_E_LIMIT, b->file, -1, "too many merges");
    if (!reserve(&p, &b->cap_merge, b->n_merge + 1, sizeof *b->merge))
        return cag_fail_nomem(err, "merges");
    b->merge = p;
    b->merge[b->n_merge++] =
        (struct tok_build_merge){ left, right, rank, result };
    return CAG_OK;
}

cag_status tok_build_merge(struct tok_build *b, const char *left, size_t nl,
                           const char *right, size_t nr, cag_error *err)
{
    struct buf text = BUF_INIT;
    cag_status st = CAG_OK;
    int32_t l, r, whole;
    size_t cut;
    bool ok = decode(b, left, nl, &text);

    cut = text.size;
    ok = decode(b, right, nr, &text) && ok;
    if (buf_failed(&text)) {
        st = cag_fail_nomem(err, "merges");
        goto out;
    }
    const char *s = text.data ? text.data : ""; /* both parts empty */
    l = ok ? tok_build_find(b, s, cut) : -1;
    r = ok ? tok_build_find(b, s + cut, text.size - cut) : -1;
    whole = ok ? tok_build_find(b, s, text.size) : -1;
    if (l < 0 || r < 0 || whole < 0)
        st = cag_fail(err, CAG_E_FORMAT, b->file, -1,
                      "merge %zu (\"%.*s\" + \"%.*s\") has no token in the "
                      "vocabulary",
                      b->n_merge, (int)(nl < 60 ? nl : 60), left,
                      (int)(nr < 60 ? nr : 60), right);
    else
        st = tok_build_add_merge(b, (uint32_t)l, (uint32_t)r,
                                 (uint32_t)b->n_merge, (uint32_t)whole, err);
out:
    buf_free(&text);
    return st;
}

/* ---- merges out of scores ------------------------------------------------ */

struct scored {
    float score;
    uint32_t id;
};

static int by_score(const void *pa, const void *pb)
{
    const struct scored *a = pa, *b = pb;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Every way to put token id together from two others. */
static cag_status merges_into(struct tok_build *b, uint32_t id, uint32_t rank,
                              cag_error *err)
{
    const struct tok_build_token *t = &b->token[id];
    const char *s = tok_build_bytes(b, t);
    cag_status st = CAG_OK;

    for (size_t i = 1; !st && i < t->size; i++) {
        if (((unsigned char)s[i] & 0xC0) == 0x80)
            continue;
        int32_t l = tok_build_find(b, s, i);
        int32_t r = l < 0 ? -1 : tok_build_find(b, s + i, t->size - i);
        if (r >= 0 && tok_build_can_find(b, (uint32_t)l) &&
            tok_build_can_find(b, (uint32_t)r))
            st =
                tok_build_add_merge(b, (uint32_t)l, (uint32_t)r, rank, id, err);
    }
    return st;
}

cag_status tok_build_merges_of_scores(struct tok_build *b, const float *score,
                                      size_t n, cag_error *err)
{
    struct scored *order = mem_alloc_array(n, sizeof *order);
    size_t m = 0;
    uint32_t rank = 0;
    cag_status st = CAG_OK;

    if (!order)
        return cag_fail_nomem(err, "scores");
    for (uint32_t id = 0; id < n; id++) {
        if (isnan(score[id])) {
            st = cag_fail(err, CAG_E_FORMAT, b->file, -1,
                          "score of token %u is not a number", id);
            goto out;
        }
        if (tok_build_can_find(b, id))
            order[m++] = (struct scored){ score[id], id };
    }
    qsort(order, m, sizeof *order, by_score);
    for (size_t i = 0; !st && i < m; i++) {
        /* equal scores have equal rank: then the leftmost pair goes first */
        if (i > 0 && order[i].score != order[i - 1].score)
            rank++;
        st = merges_into(b, order[i].id, rank, err);
    }
out:
    mem_free(order);
    return st;
}

/* ---- small parts -------------------------------------------------------- */

cag_status tok_build_step(struct tok_build *b, int kind, const char *pattern,
                          size_t n, cag_error *err)
{
    if (b->n_step >= PRETOK_MAX_STEP || n > PRETOK_MAX_PATTERN)
        return cag_fail(err, CAG_E_UNSUPPORTED, b->file, -1,
                        "pre-tokenizer with more than %d steps, or a pattern "
                        "of more than %d bytes",
                        PRETOK_MAX_STEP, PRETOK_MAX_PATTERN);
    b->step[b->n_step].kind = (uint32_t)kind;
    b->step[b->n_step].off = (uint32_t)b->pattern.size;
    b->step[b->n_step++].size = (uint32_t)n;
    buf_add(&b->pattern, pattern, n);
    return buf_failed(&b->pattern) ? cag_fail_nomem(err, "pre-tokenizer")
                                   : CAG_OK;
}

cag_status tok_build_eos(struct tok_build *b, int64_t id, cag_error *err)
{
    if (id < 0 || (size_t)id >= b->n_token || !(b->token[id].flags & TOK_SET))
        return cag_fail(err, CAG_E_FORMAT, b->file, -1,
                        "end token %lld is not in the vocabulary",
                        (long long)id);
    for (size_t i = 0; i < b->n_eos; i++)
        if (b->eos[i] == (int32_t)id)
            return CAG_OK;
    if (b->n_eos == TOK_MAX_IDS)
        return cag_fail(err, CAG_E_UNSUPPORTED, b->file, -1,
                        "more than %u end tokens", TOK_MAX_IDS);
    b->eos[b->n_eos++] = (int32_t)id;
    return CAG_OK;
}
