/*
 * tok_blob.c - open a compiled tokenizer where it lies.
 *
 * A .kvc is outside input, so is its blob: the header, all sections and the
 * short tables are checked here, and every longer table at the place that
 * reads it (tok_blob.h).  Nothing is parsed or copied but the added tokens,
 * a few hundred at most, which are sorted for the search.
 */
#include "tokenizer/tok_blob.h"

#include "tokenizer/tok_norm.h"

#include <stdlib.h>
#include <string.h>

#include "util/mem.h"
#include "util/text.h"

static cag_status bad(const cag_tokenizer *t, const char *what, cag_error *err)
{
    return cag_fail(err, CAG_E_FORMAT, t->name, -1, "compiled tokenizer: %s",
                    what);
}

/* The section's size must be exactly what the counts say. */
static cag_status check_sections(cag_tokenizer *t, struct rd *r,
                                 uint32_t n_added, uint32_t n_step,
                                 cag_error *err)
{
    const size_t want[TOK_N_SECTION] = {
        [TOK_S_OFF] = ((size_t)t->n_vocab + 1) * 4,
        [TOK_S_FLAG] = t->n_vocab,
        [TOK_S_BYTES] = SIZE_MAX,
        [TOK_S_VOCAB] = (size_t)t->vocab_slots * 4,
        [TOK_S_MERGE] = (size_t)t->merge_slots * 16,
        [TOK_S_BYTE] = 256 * 4,
        [TOK_S_ADDED] = (size_t)n_added * 8,
        [TOK_S_STEP] = (size_t)n_step * 16,
        [TOK_S_TEXT] = SIZE_MAX,
        [TOK_S_IDS] = (t->n_prefix + t->n_eos) * 4
    };
    for (int i = 0; i < TOK_N_SECTION; i++) {
        uint64_t off = rd_u64(r, "section offset", TOK_HEAD_SIZE, t->size);
        uint64_t size = rd_u64(r, "section size", 0, t->size);
        if (r->status)
            return r->status;
        if (off % 8 || size > t->size - off ||
            (want[i] != SIZE_MAX && size != want[i]))
            return bad(t, "a section is out of place", err);
        t->sec[i] = t->blob + off;
        t->sec_size[i] = (size_t)size;
    }
    return CAG_OK;
}

static cag_status read_ids(cag_tokenizer *t, cag_error *err)
{
    for (int i = 0; i < 256; i++) {
        t->byte_id[i] = (int32_t)rd_le32(t->sec[TOK_S_BYTE] + (size_t)i * 4);
        if (t->byte_id[i] < -1 || t->byte_id[i] >= (int32_t)t->n_vocab)
            return bad(t, "byte token out of range", err);
    }
    for (size_t i = 0; i < t->n_prefix + t->n_eos; i++) {
        int32_t id = (int32_t)rd_le32(t->sec[TOK_S_IDS] + i * 4);
        if (id < 0 || id >= (int32_t)t->n_vocab)
            return bad(t, "id out of range", err);
        if (i < t->n_prefix)
            t->prefix[i] = id;
        else
            t->eos[i - t->n_prefix] = id;
    }
    return CAG_OK;
}

/* By first byte, then longest first, then id: the first hit is the match. */
static int by_first_byte(const void *pa, const void *pb)
{
    const struct tok_added *a = pa, *b = pb;
    int fa = (unsigned char)a->text[0], fb = (unsigned char)b->text[0];
    if (fa != fb)
        return fa - fb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static void sort_added(struct tok_added *a, size_t n, uint32_t begin[257])
{
    qsort(a, n, sizeof *a, by_first_byte);
    for (size_t i = n; i-- > 0;)
        begin[(unsigned char)a[i].text[0]] = (uint32_t)i;
    /* empty buckets begin where the next one does */
    begin[256] = (uint32_t)n;
    for (size_t c = 256; c-- > 0;)
        if (begin[c] == 0 && (unsigned char)a[0].text[0] != c)
            begin[c] = begin[c + 1];
}

/* Added tokens as normalizers leave them, where there are such. */
static cag_status read_normal(cag_tokenizer *t, cag_error *err)
{
    struct buf text = BUF_INIT;
    size_t n = 0;
    cag_status st = CAG_OK;

    if (!(t->flags & (TOK_F_NFC | TOK_F_NORM_MARK)))
        return CAG_OK;
    for (size_t i = 0; i < t->n_added; i++)
        n += (t->added[i].flags & TOK_A_NORMALIZED) != 0;
    if (!n)
        return CAG_OK;
    t->normal = mem_alloc_array(n, sizeof *t->normal);
    if (!t->normal)
        return cag_fail_nomem(err, "added tokens");
    n = 0;
    for (size_t i = 0; !st && i < t->n_added; i++) {
        struct tok_added a = t->added[i];
        size_t at = text.size;

        if (!(a.flags & TOK_A_NORMALIZED))
            continue;
        st = tok_norm_text(t, a.text, 0, a.size, &text, NULL, err);
        a.size = (uint32_t)(text.size - at);
        t->normal[n++] = a;
    }
    if (!st && buf_failed(&text))
        st = cag_fail_nomem(err, "added tokens");
    if (st) {
        buf_free(&text);
        return st;
    }
    t->normal_text = buf_detach(&text, NULL);
    for (size_t i = 0, at = 0; i < n; at += t->normal[i++].size)
        t->normal[i].text = t->normal_text + at;
    sort_added(t->normal, n, t->normal_begin);
    return CAG_OK;
}

static cag_status read_added(cag_tokenizer *t, uint32_t n, bool *word,
                             cag_error *err)
{
    *word = false;
    if (n == 0)
        return CAG_OK;
    t->added = mem_alloc_array(n, sizeof *t->added);
    if (!t->added)
        return cag_fail_nomem(err, "added tokens");
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = t->sec[TOK_S_ADDED] + (size_t)i * 8;
        uint32_t id = rd_le32(p), flags = rd_le32(p + 4);
        size_t size;
        if (id >= t->n_vocab || flags & ~TOK_A_ALL)
            return bad(t, "added token out of range", err);
        const char *text = tok_text(t, id, &size);
        if (size == 0 || !utf8_valid(text, size, NULL))
            return bad(t, "added token is not a text", err);
        t->added[i] =
            (struct tok_added){ (int32_t)id, flags, (uint32_t)size, text };
        t->has_plain |= (flags & TOK_A_PLAIN) != 0;
        *word |= (flags & TOK_A_WORD) != 0;
    }
    t->n_added = n;
    sort_added(t->added, n, t->added_begin);
    return read_normal(t, err);
}

static cag_status read_steps(cag_tokenizer *t, uint32_t n, cag_error *err)
{
    struct pretok_step step[PRETOK_MAX_STEP];
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = t->sec[TOK_S_STEP] + (size_t)i * 16;
        uint32_t kind = rd_le32(p), off = rd_le32(p + 4);
        uint32_t size = rd_le32(p + 8);
        if (kind >= PRETOK_N_KIND || off > t->sec_size[TOK_S_TEXT] ||
            size > t->sec_size[TOK_S_TEXT] - off || rd_le32(p + 12) != 0)
            return bad(t, "pre-tokenizer step out of range", err);
        step[i].kind = (int)kind;
        step[i].pattern = (const char *)t->sec[TOK_S_TEXT] + off;
        step[i].n = size;
        if (!utf8_valid(step[i].pattern, size, NULL))
            return bad(t, "pre-tokenizer pattern is not UTF-8", err);
    }
    return pretok_new(step, n, t->name, &t->pretok, err);
}

static cag_status read_head(cag_tokenizer *t, struct rd *r, cag_error *err)
{
    const uint8_t *magic = rd_bytes(r, "magic", 8);
    uint32_t n_added, n_step;
    bool word = false;
    cag_status st;

    if (magic && memcmp(magic, TOK_MAGIC, 8) != 0)
        return bad(t, "magic not found", err);
    uint32_t version = rd_u32(r, "version", 0, UINT32_MAX);
    if (!r->status && version != TOK_VERSION)
        return cag_fail(err, CAG_E_UNSUPPORTED, t->name, -1,
                        "compiled tokenizer: version %u, this program reads "
                        "version %u",
                        version, TOK_VERSION);
    t->flags = rd_u32(r, "flags", 0, TOK_F_ALL);
    rd_u64(r, "size", t->size, t->size);
    t->n_vocab = rd_u32(r, "n_vocab", 1, TOK_MAX_VOCAB);
    n_added = rd_u32(r, "n_added", 0, TOK_MAX_ADDED);
    n_step = rd_u32(r, "n_step", 0, PRETOK_MAX_STEP);
    t->vocab_slots = rd_u32(r, "vocab slots", 0, UINT32_MAX);
    t->vocab_probe = rd_u32(r, "vocab probe", 0, TOK_MAX_PROBE);
    t->merge_slots = rd_u32(r, "merge slots", 0, UINT32_MAX);
    t->merge_probe = rd_u32(r, "merge probe", 0, TOK_MAX_PROBE);
    t->n_prefix = rd_u32(r, "n_prefix", 0, TOK_MAX_IDS);
    t->n_eos = rd_u32(r, "n_eos", 0, TOK_MAX_IDS);
    t->bos = rd_i32(r, "bos", -1, (int32_t)t->n_vocab - 1);
    t->unk = rd_i32(r, "unk", -1, (int32_t)t->n_vocab - 1);
    t->prepend = rd_u32(r, "prepend", 0, TOK_N_PREPEND - 1);
    rd_u64(r, "reserved", 0, 0);
    st = r->status;
    if (!st)
        st = check_sections(t, r, n_added, n_step, err);
    if (!st)
        st = read_ids(t, err);
    if (!st)
        st = read_added(t, n_added, &word, err);
    if (!st)
        st = read_steps(t, n_step, err);
    if (!st && word) {
        static const char pattern[] = "[\\w\\x{200c}\\x{200d}]";
        struct pretok_step s = { PRETOK_MATCHES, pattern, sizeof pattern - 1 };
        st = pretok_new(&s, 1, t->name, &t->word, err);
    }
    return st;
}

cag_status tok_from_blob(const void *blob, size_t size, const char *name,
                         cag_tokenizer **out, cag_error *err)
{
    struct rd r;
    cag_status st;
    cag_tokenizer *t = mem_zalloc(sizeof *t);

    if (!t)
        return cag_fail_nomem(err, "tokenizer");
    t->blob = blob;
    t->size = size;
    t->name = mem_strdup(name ? name : "");
    if (!t->name) {
        st = cag_fail_nomem(err, "tokenizer");
        goto out;
    }
    rd_init(&r, blob, size, t->name, 0, err);
    st = read_head(t, &r, err);
out:
    if (st)
        tok_free(t);
    else
        *out = t;
    return st;
}

cag_status tok_from_heap(void *blob, size_t size, const char *name,
                         cag_tokenizer **out, cag_error *err)
{
    cag_status st = tok_from_blob(blob, size, name, out, err);
    if (st)
        mem_free(blob);
    else
        (*out)->own = blob;
    return st;
}

void tok_free(cag_tokenizer *t)
{
    if (!t)
        return;
    pretok_free(t->pretok);
    pretok_free(t->word);
    mem_free(t->added);
    mem_free(t->normal);
    mem_free(t->normal_text);
    mem_free(t->name);
    mem_free(t->own);
    mem_free(t);
}

const void *tok_blob(const cag_tokenizer *t, size_t *size)
{
    *size = t->size;
    return t->blob;
}

/* ---- vocabulary --------------------------------------------------------- */

int32_t tok_find(const cag_tokenizer *t, const char *s, size_t n)
{
    uint32_t slots = t->vocab_slots;
    if (slots == 0)
        return -1;
    uint32_t i = tok_slot((uint32_t)(xxh3_64(s, n) >> 32), slots);
    for (uint32_t k = 0; k <= t->vocab_probe; k++) {
        uint32_t id = rd_le32(t->sec[TOK_S_VOCAB] + (size_t)i * 4);
        if (id == TOK_EMPTY)
            return -1;
        if (id < t->n_vocab) {
            size_t size;
            const char *text = tok_text(t, id, &size);
            if (size == n && memcmp(text, s, n) == 0)
                return (int32_t)id;
        }
        if (++i == slots)
            i = 0;
    }
    return -1;
}

static unsigned flags_of(const cag_tokenizer *t, int32_t id)
{
    if (id < 0 || (uint32_t)id >= t->n_vocab)
        return 0;
    return t->sec[TOK_S_FLAG][id];
}

const char *cag_token_bytes(const cag_tokenizer *t, int32_t id, bool special,
                            size_t *size)
{
    unsigned flags = flags_of(t, id);
    *size = 0;
    if (!(flags & TOK_SET))
        return NULL;
    if (flags & TOK_SPECIAL && !special)
        return "";
    return tok_text(t, (uint32_t)id, size);
}

int32_t cag_token_id(const cag_tokenizer *t, const char *text, size_t size)
{
    if (size == 0)
        return -1;
    uint32_t c = (unsigned char)text[0];
    for (uint32_t i = t->added_begin[c]; i < t->added_begin[c + 1]; i++)
        if (t->added[i].size == size &&
            memcmp(t->added[i].text, text, size) == 0)
            return t->added[i].id;
    return tok_find(t, text, size);
}

bool cag_token_is_special(const cag_tokenizer *t, int32_t id)
{
    return (flags_of(t, id) & TOK_SPECIAL) != 0;
}

int cag_tokenizer_n_vocab(const cag_tokenizer *t)
{
    return (int)t->n_vocab;
}

int32_t cag_tokenizer_bos(const cag_tokenizer *t)
{
    return t->bos;
}

bool cag_tokenizer_adds_bos(const cag_tokenizer *t)
{
    return t->n_prefix > 0;
}

const int32_t *cag_tokenizer_eos(const cag_tokenizer *t, size_t *n)
{
    *n = t->n_eos;
    return t->eos;
}
