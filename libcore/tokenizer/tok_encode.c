/*
 * tok_encode.c - text to ids and back.
 *
 *   pieces -> one text -> cut at added tokens -> normalize -> pre-tokenize
 *          -> merge each word
 *
 * Added tokens (control tokens, and others such as <think>) are looked for
 * in template text only: no document and no question can hold one, whatever
 * it spells.  The exception are added tokens of white space alone (GPT-NeoX
 * and others have them for indentation): they are text.
 *
 * Words repeat, so the ids of short words are remembered for the call.  The
 * text is never taken in chunks: a chunk border inside white space would
 * give other ids.
 */
#include <string.h>

#include "tokenizer/bpe.h"
#include "tokenizer/tok_norm.h"
#include "util/mem.h"
#include "util/text.h"

#define MAX_TEXT       ((size_t)INT32_MAX)
#define CACHE_MAX_WORD 48
#define CACHE_MAX_SLOT 65536

/* A word seen before: where its text and its ids are. */
struct word {
    uint32_t text, first; /* in norm; in out */
    uint16_t size, n_id;
    uint32_t hash;
};

struct range {
    size_t begin, end;
};

struct encode {
    const cag_tokenizer *t;
    const char *text; /* all pieces joined                      */
    size_t size;
    struct buf joined;  /* owns text if there is more than one    */
    struct range *tmpl; /* [n_tmpl] template text, in order       */
    size_t n_tmpl;
    struct buf norm; /* normal form of all segments so far     */
    struct norm_map map;
    /* what normalizers made of the text between two added tokens, where the
     * others are looked for there */
    struct buf whole;
    struct norm_map whole_map;
    bool offsets;
    struct pretok_run *run, *word_run;
    struct bpe bpe;
    struct bpe_out out;
    int64_t *off; /* [cap_off]                              */
    size_t cap_off;
    struct word *cache; /* [n_slot], n_slot a power of two        */
    size_t n_slot, n_cached;
};

static cag_status reserve_off(struct encode *e, cag_error *err)
{
    void *p;
    if (e->out.cap <= e->cap_off)
        return CAG_OK;
    p = mem_realloc(e->off, e->out.cap * sizeof *e->off);
    if (!p)
        return cag_fail_nomem(err, "offsets");
    e->off = p;
    e->cap_off = e->out.cap;
    return CAG_OK;
}

static cag_status put_id(struct encode *e, int32_t id, size_t off,
                         cag_error *err)
{
    cag_status st = bpe_out_reserve(&e->out, 1, err);
    if (!st && e->offsets)
        st = reserve_off(e, err);
    if (st)
        return st;
    if (e->offsets)
        e->off[e->out.n] = (int64_t)off;
    e->out.start[e->out.n] = 0;
    e->out.id[e->out.n++] = id;
    return CAG_OK;
}

/* ---- words -------------------------------------------------------------- */

/* Offsets of the ids from first on, which came from norm at base. */
static cag_status put_offsets(struct encode *e, size_t first, size_t base,
                              cag_error *err)
{
    cag_status st;
    if (!e->offsets)
        return CAG_OK;
    st = reserve_off(e, err);
    for (size_t i = first; !st && i < e->out.n; i++)
        e->off[i] =
            (int64_t)norm_map_find(&e->map, base + e->out.start[i], e->text);
    return st;
}

static cag_status repeat(struct encode *e, const struct word *w, size_t base,
                         cag_error *err)
{
    size_t first = e->out.n;
    cag_status st = bpe_out_reserve(&e->out, w->n_id, err);
    if (st)
        return st;
    memcpy(e->out.id + first, e->out.id + w->first, w->n_id * 4u);
    memcpy(e->out.start + first, e->out.start + w->first, w->n_id * 4u);
    e->out.n += w->n_id;
    return put_offsets(e, first, base, err);
}

static cag_status word(void *ctx, const char *s, size_t n, cag_error *err)
{
    struct encode *e = ctx;
    size_t base = (size_t)(s - e->norm.data), first = e->out.n;
    size_t dropped = e->out.n_dropped;
    struct word *w = NULL;
    cag_status st;

    if (n <= CACHE_MAX_WORD && e->n_slot) {
        uint32_t hash = (uint32_t)xxh3_64(s, n);
        size_t i = hash & (e->n_slot - 1);
        for (w = &e->cache[i]; w->size; w = &e->cache[i]) {
            if (w->hash == hash && w->size == n &&
                memcmp(e->norm.data + w->text, s, n) == 0)
                return repeat(e, w, base, err);
            i = (i + 1) & (e->n_slot - 1);
        }
        w->hash = hash;
    }
    st = bpe_piece(&e->bpe, s, n, &e->out, err);
    if (st)
        return st;
    /* three quarters full is full; a word that lost bytes is not kept, so
     * that they are counted each time */
    if (w && e->n_cached < e->n_slot / 4 * 3 && dropped == e->out.n_dropped) {
        w->text = (uint32_t)base;
        w->first = (uint32_t)first;
        w->n_id = (uint16_t)(e->out.n - first);
        w->size = (uint16_t)n;
        e->n_cached++;
    }
    return put_offsets(e, first, base, err);
}

/* SentencePiece text is one piece; cut it before a space after a non-space
 * where the vocabulary allows that (TOK_F_WORD_CUT). */
static cag_status cut_words(struct encode *e, const char *s, size_t n,
                            cag_error *err)
{
    size_t done = 0;
    cag_status st = CAG_OK;
    for (size_t i = 1; !st && i < n; i++)
        if (s[i] == ' ' && s[i - 1] != ' ') {
            st = word(e, s + done, i - done, err);
            done = i;
        }
    return st ? st : word(e, s + done, n - done, err);
}

static cag_status piece(void *ctx, const char *s, size_t n, cag_error *err)
{
    struct encode *e = ctx;
    if (e->t->flags & TOK_F_WORD_CUT)
        return cut_words(e, s, n, err);
    return word(e, s, n, err);
}

/* Words of the normal form from base on. */
static cag_status words(struct encode *e, size_t base, cag_error *err)
{
    if (e->norm.size > MAX_TEXT)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "the text is longer than 2 GiB");
    return pretok_split(e->run, e->norm.data + base, e->norm.size - base, piece,
                        e, err);
}

/* Text without added tokens. */
static cag_status segment(struct encode *e, size_t begin, size_t end,
                          cag_error *err)
{
    size_t base = e->norm.size;

    e->map.n = e->map.at = 0;
    cag_status st = tok_norm(e->t, e->text, begin, end, &e->norm,
                             e->offsets ? &e->map : NULL, err);
    return st ? st : words(e, base, err);
}

/* The same of text that the normalizers have seen. */
static cag_status normal_segment(struct encode *e, size_t begin, size_t end,
                                 cag_error *err)
{
    size_t base = e->norm.size;

    e->map.n = e->map.at = 0;
    cag_status st =
        tok_norm_piece(e->t, e->whole.data, begin, end, &e->whole_map, &e->norm,
                       e->offsets ? &e->map : NULL, err);
    return st ? st : words(e, base, err);
}

/* ---- added tokens ------------------------------------------------------- */

/* Length of the white space character at s, 0 if it is none. */
static size_t space_at(const char *s, size_t n)
{
    uint32_t cp;
    int len;
    if (n == 0)
        return 0;
    len = utf8_decode(s, n, &cp);
    return text_is_space(cp) ? (size_t)len : 0;
}

static size_t char_before(const char *s, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80);
    return at;
}

static cag_status note(void *ctx, const char *s, size_t n, cag_error *err)
{
    (void)s;
    (void)n;
    (void)err;
    *(bool *)ctx = true;
    return CAG_OK;
}

/* What added tokens are looked for in. */
enum look {
    LOOK_TEXT,      /* those that are not normalized, in the text  */
    LOOK_UNCHANGED, /* the others, where normalizers change nothing */
    LOOK_NORMAL     /* the others, in what normalizers made          */
};

static const char *text_of(const struct encode *e, enum look look)
{
    return look == LOOK_NORMAL ? e->whole.data : e->text;
}

/* Does a token that must be a word of its own stand free in [begin, end)? */
static cag_status stands_free(struct encode *e, const char *s, size_t begin,
                              size_t end, size_t b, size_t n, bool *is_free,
                              cag_error *err)
{
    bool hit = false;
    uint32_t cp;
    cag_status st = CAG_OK;

    if (b > begin) {
        size_t p = char_before(s, b);
        st = pretok_split(e->word_run, s + p, b - p, note, &hit, err);
    }
    if (!st && !hit && b + n < end)
        st = pretok_split(e->word_run, s + b + n,
                          (size_t)utf8_decode(s + b + n, end - b - n, &cp),
                          note, &hit, err);
    *is_free = !hit;
    return st;
}

/* Is i in template text?  *end: how far text of that kind goes, at most
 * to end.  r is the first range that does not end before i. */
static bool in_template(const struct encode *e, size_t i, size_t *r,
                        size_t *end)
{
    while (*r < e->n_tmpl && e->tmpl[*r].end <= i)
        (*r)++;
    if (*r == e->n_tmpl)
        return false;
    if (i >= e->tmpl[*r].begin) {
        if (e->tmpl[*r].end < *end)
            *end = e->tmpl[*r].end;
        return true;
    }
    if (e->tmpl[*r].begin < *end)
        *end = e->tmpl[*r].begin;
    return false;
}

/* Did [b, b + n) of the normal text come from template text alone? */
static bool from_template(struct encode *e, size_t b, size_t n)
{
    size_t r = 0, end = e->size, orig, last;

    orig = norm_map_find(&e->whole_map, b, e->text);
    last = norm_map_find(&e->whole_map, b + n - 1, e->text);
    return in_template(e, orig, &r, &end) && last < end;
}

/* The longest added token at i that ends in [i, end); NULL if none. */
static const struct tok_added *match_at(struct encode *e, size_t i, size_t end,
                                        bool plain, enum look look)
{
    const cag_tokenizer *t = e->t;
    const struct tok_added *all = look == LOOK_NORMAL ? t->normal : t->added;
    const uint32_t *begin =
        look == LOOK_NORMAL ? t->normal_begin : t->added_begin;
    const char *s = text_of(e, look);
    uint32_t c = (unsigned char)s[i];

    for (uint32_t k = begin[c]; k < begin[c + 1]; k++) {
        const struct tok_added *a = &all[k];
        if (a->size <= end - i && (!plain || a->flags & TOK_A_PLAIN) &&
            !(a->flags & TOK_A_NORMALIZED) == (look == LOOK_TEXT) &&
            memcmp(a->text, s + i, a->size) == 0 &&
            (look != LOOK_NORMAL || a->flags & TOK_A_PLAIN ||
             from_template(e, i, a->size)))
            return a;
    }
    return NULL;
}

static cag_status put_added(struct encode *e, const struct tok_added *a,
                            size_t at, enum look look, cag_error *err)
{
    if (look == LOOK_NORMAL)
        at = norm_map_find(&e->whole_map, at, e->text);
    return put_id(e, a->id, at, err);
}

static cag_status scan(struct encode *e, size_t begin, size_t end,
                       enum look look, cag_error *err);

/* Can [begin, end) hold an added token at all? */
static bool may_hold(const struct encode *e, size_t begin, size_t end)
{
    size_t r = 0, stop = end;

    return e->t->has_plain || in_template(e, begin, &r, &stop) || stop < end;
}

/* Text between two tokens found: look for the second kind, or encode. */
static cag_status between(struct encode *e, size_t begin, size_t end,
                          enum look look, cag_error *err)
{
    if (begin == end)
        return CAG_OK;
    if (look == LOOK_UNCHANGED)
        return segment(e, begin, end, err);
    if (look == LOOK_NORMAL)
        return normal_segment(e, begin, end, err);
    if (!e->t->normal)
        return scan(e, begin, end, LOOK_UNCHANGED, err);
    if (!may_hold(e, begin, end))
        return segment(e, begin, end, err);
    buf_truncate(&e->whole, 0);
    e->whole_map.n = e->whole_map.at = 0;
    cag_status st =
        tok_norm_text(e->t, e->text, begin, end, &e->whole, &e->whole_map, err);
    return st ? st : scan(e, 0, e->whole.size, LOOK_NORMAL, err);
}

/* [b, *stop) with the white space that a's flags take in, from done on.
 * marks: spaces of s stand for U+2581, which is none. */
static void strip(const struct tok_added *a, const char *s, bool marks,
                  size_t done, size_t end, size_t *b, size_t *stop)
{
    while (a->flags & TOK_A_LSTRIP && *b > done) {
        size_t p = char_before(s, *b);
        if (!space_at(s + p, *b - p) || (marks && s[p] == ' '))
            break;
        *b = p;
    }
    if (a->flags & TOK_A_RSTRIP)
        for (size_t n; (n = space_at(s + *stop, end - *stop)) > 0 &&
                       !(marks && s[*stop] == ' ');)
            *stop += n;
    if (a->flags & TOK_A_LSTRIP && *b < done)
        *b = done;
}

/*
 * Find added tokens in [begin, end), first those that are matched in the
 * text as it is, between them those matched in normal text (a second call).
 * Leftmost first, then longest, as the tokenizers library does; a token in
 * white space that another one strips counts, too.
 */
static cag_status scan(struct encode *e, size_t begin, size_t end,
                       enum look look, cag_error *err)
{
    const char *s = text_of(e, look);
    bool marks = look == LOOK_NORMAL && e->t->flags & TOK_F_NORM_MARK;
    size_t done = begin, i = begin, r = 0;
    cag_status st = CAG_OK;

    while (!st && i < end) {
        size_t kind_end = end, b = i, stop;
        bool tmpl = look == LOOK_NORMAL || in_template(e, i, &r, &kind_end);
        bool is_free = true;
        const struct tok_added *a;

        if (!tmpl && !e->t->has_plain) {
            i = kind_end;
            continue;
        }
        /* white space that is text may run on through other pieces */
        a = match_at(e, i, tmpl ? kind_end : end, !tmpl, look);
        if (a && a->flags & TOK_A_WORD)
            st = stands_free(e, s, begin, end, i, a->size, &is_free, err);
        if (st)
            break;
        i += a ? a->size : 1;
        if (!a || !is_free)
            continue;
        stop = i;
        strip(a, s, marks, done, end, &b, &stop);
        if (done < b)
            st = between(e, done, b, look, err);
        if (!st && b < stop)
            st = put_added(e, a, b, look, err);
        done = stop;
    }
    return st ? st : between(e, done, end, look, err);
}

/* ---- one call ----------------------------------------------------------- */

static cag_status join(struct encode *e, const cag_text *piece_, size_t n,
                       cag_error *err)
{
    size_t bad, total = 0, at = 0;

    for (size_t i = 0; i < n; i++)
        if (!mem_add(&total, total, piece_[i].size) || total > MAX_TEXT)
            return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                            "the text is longer than 2 GiB");
    e->tmpl = mem_alloc_array(n ? n : 1, sizeof *e->tmpl);
    if (!e->tmpl)
        return cag_fail_nomem(err, "text");
    for (size_t i = 0; i < n; i++) {
        if (piece_[i].flags & CAG_TEXT_TEMPLATE && piece_[i].size) {
            if (e->n_tmpl && e->tmpl[e->n_tmpl - 1].end == at)
                e->n_tmpl--;
            else
                e->tmpl[e->n_tmpl].begin = at;
            e->tmpl[e->n_tmpl++].end = at + piece_[i].size;
        }
        at += piece_[i].size;
        if (n > 1 && piece_[i].size)
            buf_add(&e->joined, piece_[i].text, piece_[i].size);
    }
    if (buf_failed(&e->joined))
        return cag_fail_nomem(err, "text");
    e->text = n == 1 ? piece_[0].text : e->joined.data;
    e->size = total;
    if (total && !utf8_valid(e->text, total, &bad))
        return cag_fail(err, CAG_E_FORMAT, NULL, (int64_t)bad,
                        "the text is not UTF-8");
    return CAG_OK;
}

static cag_status start(struct encode *e, cag_error *err)
{
    cag_status st = pretok_begin(e->t->pretok, &e->run, err);
    if (!st && e->t->word)
        st = pretok_begin(e->t->word, &e->word_run, err);
    if (st || e->size < 256) /* a question is not worth a cache */
        return st;
    e->n_slot = 64;
    while (e->n_slot < e->size / 8 && e->n_slot < CACHE_MAX_SLOT)
        e->n_slot *= 2;
    e->cache = mem_alloc_array(e->n_slot, sizeof *e->cache);
    return e->cache ? CAG_OK : cag_fail_nomem(err, "word cache");
}

/* What the tokenizer puts in front, unless the text begins with it. */
static cag_status put_prefix(struct encode *e, cag_error *err)
{
    const cag_tokenizer *t = e->t;
    size_t k = t->n_prefix;
    cag_status st;

    if (k == 0 || (e->out.n >= k &&
                   memcmp(e->out.id, t->prefix, k * sizeof *t->prefix) == 0))
        return CAG_OK;
    st = bpe_out_reserve(&e->out, k, err);
    if (!st && e->offsets)
        st = reserve_off(e, err);
    if (st)
        return st;
    memmove(e->out.id + k, e->out.id, e->out.n * sizeof *e->out.id);
    memcpy(e->out.id, t->prefix, k * sizeof *t->prefix);
    if (e->offsets) {
        memmove(e->off + k, e->off, e->out.n * sizeof *e->off);
        memset(e->off, 0, k * sizeof *e->off);
    }
    e->out.n += k;
    return CAG_OK;
}

cag_status cag_encode(const cag_tokenizer *t, const cag_text *piece_, size_t n,
                      unsigned flags, cag_ids *out, cag_error *err)
{
    struct encode e = { .t = t,
                        .offsets = (flags & CAG_ENCODE_OFFSETS) != 0,
                        .bpe = { .t = t } };
    cag_status st = join(&e, piece_, n, err);

    if (!st)
        st = start(&e, err);
    if (!st)
        st = scan(&e, 0, e.size, LOOK_TEXT, err);
    if (!st && flags & CAG_ENCODE_BOS)
        st = put_prefix(&e, err);
    /* never NULL on success, even without ids */
    if (!st)
        st = bpe_out_reserve(&e.out, 1, err);
    if (!st && e.offsets)
        st = reserve_off(&e, err);
    if (!st) {
        *out = (cag_ids){ e.out.id, e.off, e.out.n, e.out.n_dropped };
        e.out.id = NULL;
        e.off = NULL;
    }
    pretok_end(e.run);
    pretok_end(e.word_run);
    bpe_release(&e.bpe);
    bpe_out_release(&e.out);
    mem_free(e.off);
    mem_free(e.cache);
    mem_free(e.tmpl);
    mem_free(e.map.span);
    mem_free(e.whole_map.span);
    buf_free(&e.whole);
    buf_free(&e.joined);
    buf_free(&e.norm);
    return st;
}

void cag_ids_free(cag_ids *ids)
{
    if (!ids)
        return;
    mem_free(ids->id);
    mem_free(ids->off);
    *ids = (cag_ids)CAG_IDS_INIT;
}

cag_status cag_decode(const cag_tokenizer *t, const int32_t *id, size_t n,
                      bool special, char **text, size_t *size, cag_error *err)
{
    struct buf out = BUF_INIT;
    size_t len;
    bool strip = (t->flags & TOK_F_STRIP_SPACE) != 0;
    cag_status st = CAG_OK;

    for (size_t i = 0; i < n; i++) {
        const char *s = cag_token_bytes(t, id[i], special, &len);
        if (!s) {
            st = cag_fail(err, CAG_E_USAGE, NULL, -1,
                          "id %d is outside the vocabulary of %u", id[i],
                          t->n_vocab);
            goto out;
        }
        if (strip && len) { /* the space that encoding put in front */
            strip = false;
            if (s[0] == ' ') {
                s++;
                len--;
            }
        }
        buf_add(&out, s, len);
    }
    if (buf_failed(&out)) {
        st = cag_fail_nomem(err, "text");
        goto out;
    }
    *text = buf_detach(&out, &len);
    if (!*text)
        st = cag_fail_nomem(err, "text");
    else if (size)
        *size = len;
out:
    buf_free(&out);
    return st;
}
