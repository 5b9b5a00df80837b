/*
 * tok_json.c - a tokenizer out of tokenizer.json and the files beside it.
 *
 * tokenizer.json is a programme: normalizer, pre-tokenizer, model,
 * post-processor, decoder, each one of many types.  The types that BPE
 * families use are read; another one, or a known one with a setting that
 * would be ignored, is CAG_E_UNSUPPORTED with its name: a tokenizer that is
 * nearly right gives answers that are nearly right.
 *
 * What the tokenizer appends (a trailing EOS of its post-processor) is left
 * out on purpose: in this program a text always goes on.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tok_build.h"
#include "util/file.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/text.h"

#define MARK      "\xe2\x96\x81"
#define MAX_BYTES ((size_t)256 << 20)

struct load {
    const char *file; /* tokenizer.json */
    const jv *root;
    const jv *map; /* special_tokens_map.json, where it counts */
    struct tok_build b;
    bool prepend, replace, metaspace, split_spaces;
    int n_real_step; /* pre-tokenizer steps seen so far */
    cag_error *err;
};

static cag_status unsupported(const struct load *l, const char *what,
                              const char *name)
{
    return cag_fail(l->err, CAG_E_UNSUPPORTED, l->file, -1,
                    "%s \"%s\" is not supported", what, name);
}

static cag_status malformed(const struct load *l, const char *what)
{
    return cag_fail(l->err, CAG_E_FORMAT, l->file, -1, "%s", what);
}

static const char *type_of(const jv *v)
{
    return jv_get_str(v, "type", "?");
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool is_null(const jv *v)
{
    return jv_type(v) == JV_NULL;
}

/* {"String": s} with exactly this s */
static bool pattern_is(const jv *object, const char *s)
{
    return is(jv_get_str(jv_get(object, "pattern"), "String", ""), s);
}

/* Call fn for v, or for each element if it is a Sequence. */
typedef cag_status each_fn(struct load *l, const jv *v);

static cag_status each(struct load *l, const jv *v, const char *list,
                       each_fn *fn, int depth)
{
    cag_status st = CAG_OK;
    if (is_null(v))
        return CAG_OK;
    if (!is(type_of(v), "Sequence"))
        return fn(l, v);
    if (depth > 4)
        return malformed(l, "sequences are nested too deeply");
    const jv *items = jv_get(v, list);
    for (size_t i = 0; !st && i < jv_count(items); i++)
        st = each(l, jv_at(items, i), list, fn, depth + 1);
    return st;
}

/* ---- normalizer --------------------------------------------------------- */

static cag_status one_normalizer(struct load *l, const jv *v)
{
    const char *type = type_of(v);
    if (is(type, "NFC")) {
        l->b.flags |= TOK_F_NFC;
    } else if (is(type, "Prepend")) {
        if (!is(jv_get_str(v, "prepend", ""), MARK) || l->prepend)
            return unsupported(l, "normalizer", "Prepend (this text)");
        l->prepend = true;
    } else if (is(type, "Replace")) {
        if (!pattern_is(v, " ") || !is(jv_get_str(v, "content", ""), MARK))
            return unsupported(l, "normalizer", "Replace (this pattern)");
        l->replace = true;
    } else {
        return unsupported(l, "normalizer", type);
    }
    return CAG_OK;
}

/* ---- pre-tokenizer ------------------------------------------------------ */

/*
 * A pattern sees what the normalizers made.  After a Replace of spaces that
 * text holds U+2581 for each of them, where it holds spaces here: a literal
 * is translated, one with a space in it matches nothing, and of a regular
 * expression it is not known what it takes U+2581 for.
 */
static cag_status split_pattern(struct load *l, const jv *v, int kind)
{
    const jv *pattern = jv_get(v, "pattern");
    size_t n, mark = strlen(MARK);
    const char *s = jv_str(jv_get(pattern, "Regex"), &n);
    struct buf text = BUF_INIT;
    cag_status st;

    if (s && l->replace)
        return unsupported(l,
                           "normalizer Replace before pre-tokenizer Split "
                           "by Regex",
                           s);
    if (s)
        return tok_build_step(&l->b, kind, s, n, l->err);
    s = jv_str(jv_get(pattern, "String"), &n);
    if (!s)
        return malformed(l, "pre-tokenizer Split has no pattern");
    if (l->replace && memchr(s, ' ', n))
        return kind != PRETOK_MATCHES
                   ? CAG_OK
                   : unsupported(l,
                                 "normalizer Replace before inverted "
                                 "pre-tokenizer Split, Removed, by",
                                 s);
    for (size_t i = 0; i < n; i++) {
        if (l->replace && n - i >= mark && memcmp(s + i, MARK, mark) == 0) {
            buf_char(&text, ' ');
            i += mark - 1;
            continue;
        }
        if (ispunct((unsigned char)s[i]))
            buf_char(&text, '\\');
        buf_char(&text, s[i]);
    }
    st = buf_failed(&text)
             ? cag_fail_nomem(l->err, "pre-tokenizer")
             : tok_build_step(&l->b, kind, text.data, text.size, l->err);
    buf_free(&text);
    return st;
}

static cag_status split(struct load *l, const jv *v)
{
    const char *how = jv_get_str(v, "behavior", "?");
    bool invert = jv_get_bool(v, "invert", false);
    if (is(how, "Isolated"))
        return split_pattern(l, v, PRETOK_ISOLATED);
    if (is(how, "Removed"))
        return split_pattern(l, v, invert ? PRETOK_MATCHES : PRETOK_GAPS);
    if (is(how, "MergedWithPrevious") && !invert)
        return split_pattern(l, v, PRETOK_MERGE_PREV);
    if (is(how, "MergedWithNext") && !invert)
        return split_pattern(l, v, PRETOK_MERGE_NEXT);
    return unsupported(l,
                       invert ? "inverted pre-tokenizer Split with behavior"
                              : "pre-tokenizer Split with behavior",
                       how);
}

static cag_status byte_level(struct load *l, const jv *v)
{
    l->b.flags |= TOK_F_BYTE_LEVEL;
    if (jv_get_bool(v, "add_prefix_space", true)) {
        if (l->n_real_step > 0)
            return unsupported(l, "pre-tokenizer",
                               "ByteLevel with "
                               "add_prefix_space behind another step");
        l->b.prepend = TOK_PREPEND_UNLESS;
    }
    if (!jv_get_bool(v, "use_regex", true))
        return CAG_OK;
    return tok_build_step(&l->b, PRETOK_ISOLATED, PRETOK_GPT2,
                          strlen(PRETOK_GPT2), l->err);
}

static cag_status metaspace(struct load *l, const jv *v)
{
    bool legacy = jv_get_bool(v, "add_prefix_space", true);
    const char *how =
        jv_get_str(v, "prepend_scheme", legacy ? "always" : "never");
    const char *mark = jv_get_str(v, "replacement", MARK);

    if (!is(mark, MARK))
        return unsupported(l, "Metaspace with replacement", mark);
    if (l->n_real_step > 0)
        return unsupported(l, "pre-tokenizer", "Metaspace behind another");
    if (is(how, "always"))
        l->b.prepend = TOK_PREPEND_UNLESS;
    else if (is(how, "first"))
        l->b.prepend = TOK_PREPEND_FIRST;
    else if (!is(how, "never"))
        return unsupported(l, "Metaspace with prepend_scheme", how);
    l->metaspace = true;
    if (!jv_get_bool(v, "split", true))
        return CAG_OK;
    return tok_build_step(&l->b, PRETOK_MERGE_NEXT, " ", 1, l->err);
}

static cag_status one_pre_tokenizer(struct load *l, const jv *v)
{
    const char *type = type_of(v);
    const char *digits;
    cag_status st;

    if (l->b.flags & TOK_F_BYTE_LEVEL || l->metaspace)
        return cag_fail(l->err, CAG_E_UNSUPPORTED, l->file, -1,
                        "pre-tokenizer \"%s\" behind ByteLevel or Metaspace "
                        "is not supported",
                        type);
    if (is(type, "ByteLevel")) {
        st = byte_level(l, v);
    } else if (is(type, "Metaspace")) {
        st = metaspace(l, v);
    } else if (is(type, "Split")) {
        st = split(l, v);
    } else if (is(type, "Digits")) {
        digits = jv_get_bool(v, "individual_digits", false) ? PRETOK_DIGIT
                                                            : PRETOK_DIGITS;
        st = tok_build_step(&l->b, PRETOK_ISOLATED, digits, strlen(digits),
                            l->err);
    } else {
        st = unsupported(l, "pre-tokenizer", type);
    }
    l->n_real_step++;
    return st;
}

/* ---- decoder ------------------------------------------------------------ */

static cag_status one_decoder(struct load *l, const jv *v)
{
    const char *type = type_of(v);
    if (is(type, "ByteLevel") || is(type, "ByteFallback") || is(type, "Fuse"))
        return CAG_OK;
    if (is(type, "Replace")) {
        if (pattern_is(v, MARK) && is(jv_get_str(v, "content", ""), " "))
            return CAG_OK;
        return unsupported(l, "decoder", "Replace (this pattern)");
    }
    if (is(type, "Strip")) {
        if (!is(jv_get_str(v, "content", ""), " ") ||
            jv_get_int(v, "start", 0) > 1 || jv_get_int(v, "stop", 0) != 0)
            return unsupported(l, "decoder", "Strip (these settings)");
        if (jv_get_int(v, "start", 0) == 1)
            l->b.flags |= TOK_F_STRIP_SPACE;
        return CAG_OK;
    }
    if (is(type, "Metaspace")) {
        bool legacy = jv_get_bool(v, "add_prefix_space", true);
        if (!is(jv_get_str(v, "prepend_scheme", legacy ? "always" : "never"),
                "never"))
            l->b.flags |= TOK_F_STRIP_SPACE;
        return CAG_OK;
    }
    return unsupported(l, "decoder", type);
}

/* ---- what kind of tokenizer --------------------------------------------- */

static cag_status read_pipeline(struct load *l)
{
    cag_status st = each(l, jv_get(l->root, "normalizer"), "normalizers",
                         one_normalizer, 0);
    if (!st)
        st = each(l, jv_get(l->root, "pre_tokenizer"), "pretokenizers",
                  one_pre_tokenizer, 0);
    if (!st)
        st = each(l, jv_get(l->root, "decoder"), "decoders", one_decoder, 0);
    if (st)
        return st;
    if (l->b.flags & TOK_F_BYTE_LEVEL) {
        if (l->prepend || l->replace)
            return unsupported(l, "pre-tokenizer",
                               "ByteLevel after a Prepend or Replace");
        l->b.flags &= ~TOK_F_STRIP_SPACE;
        return CAG_OK;
    }
    if (!l->replace && !l->metaspace)
        return cag_fail(l->err, CAG_E_UNSUPPORTED, l->file, -1,
                        "a BPE tokenizer with neither ByteLevel nor Metaspace "
                        "nor a Replace of spaces is not supported");
    if (l->b.flags & TOK_F_NFC)
        return unsupported(l, "normalizer", "NFC with Replace");
    if (l->prepend && l->metaspace)
        return unsupported(l, "normalizer", "Prepend with Metaspace");
    l->b.flags |= TOK_F_SPACE_MARK;
    if (l->prepend)
        l->b.prepend = TOK_PREPEND_ALWAYS;
    return CAG_OK;
}

/* ---- model -------------------------------------------------------------- */

static cag_status model_flags(struct load *l, const jv *m)
{
    static const char *const affix[] = { "continuing_subword_prefix",
                                         "end_of_word_suffix" };
    const char *type = jv_get_str(m, "type", "BPE");

    if (!is(type, "BPE"))
        return unsupported(l, "model", type);
    for (int i = 0; i < 2; i++)
        if (!is(jv_get_str(m, affix[i], ""), ""))
            return unsupported(l, "model setting", affix[i]);
    if (jv_get_num(m, "dropout", 0) != 0)
        return unsupported(l, "model setting", "dropout");
    if (jv_get_bool(m, "ignore_merges", false))
        l->b.flags |= TOK_F_IGNORE_MERGES;
    if (l->b.flags & TOK_F_BYTE_LEVEL)
        return CAG_OK;
    if (jv_get_bool(m, "byte_fallback", false))
        l->b.flags |= TOK_F_BYTE_FALLBACK;
    if (jv_get_bool(m, "fuse_unk", false))
        l->b.flags |= TOK_F_FUSE_UNK;
    return CAG_OK;
}

static cag_status read_vocab(struct load *l, const jv *m)
{
    const jv *vocab = jv_get(m, "vocab");
    /* a byte-level tokenizer's unknown token is a control token: a byte
     * without a token is dropped and counted instead */
    const char *unk =
        l->b.flags & TOK_F_BYTE_LEVEL ? NULL : jv_get_str(m, "unk_token", NULL);
    cag_status st = CAG_OK;

    if (jv_type(vocab) != JV_OBJECT)
        return malformed(l, "model.vocab is missing or not an object");
    for (void *it = jv_iter(vocab); !st && it; it = jv_next(vocab, it)) {
        size_t n;
        const char *s = jv_iter_key(it, &n);
        int64_t id = jv_int(jv_iter_value(it), -1);
        bool byte =
            l->b.flags & TOK_F_BYTE_FALLBACK && tok_build_byte(s, n) >= 0;
        st = tok_build_token(&l->b, id, s, n, byte ? TOK_BYTE : 0, l->err);
        if (!st && unk && n == strlen(unk) && memcmp(s, unk, n) == 0)
            l->b.unk = (int32_t)id;
    }
    return st;
}

static cag_status one_added(struct load *l, int64_t id, const jv *v)
{
    static const struct {
        const char *key;
        uint32_t flag;
    } known[] = { { "lstrip", TOK_A_LSTRIP },
                  { "rstrip", TOK_A_RSTRIP },
                  { "single_word", TOK_A_WORD },
                  { "normalized", TOK_A_NORMALIZED } };
    uint32_t flags = 0;
    size_t n;
    const char *s = jv_str(jv_get(v, "content"), &n);

    if (!s)
        return malformed(l, "an added token has no content");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (jv_get_bool(v, known[i].key, false))
            flags |= known[i].flag;
    if (flags & TOK_A_NORMALIZED && l->replace)
        l->b.flags |= TOK_F_NORM_MARK;
    return tok_build_added(&l->b, id, s, n, jv_get_bool(v, "special", false),
                           flags, l->err);
}

static cag_status read_added(struct load *l)
{
    const jv *added = jv_get(l->root, "added_tokens");
    cag_status st = CAG_OK;
    for (size_t i = 0; !st && i < jv_count(added); i++)
        st = one_added(l, jv_get_int(jv_at(added, i), "id", -1),
                       jv_at(added, i));
    return st;
}

/* Tokens that only tokenizer_config.json declares. */
static cag_status read_more_added(struct load *l, const jv *config)
{
    const jv *more = jv_get(config, "added_tokens_decoder");
    cag_status st = CAG_OK;
    for (void *it = jv_iter(more); !st && it; it = jv_next(more, it)) {
        size_t n;
        const char *key = jv_iter_key(it, &n);
        char *end;
        long long id = strtoll(key, &end, 10);
        if (n == 0 || *end || id < 0)
            return malformed(l, "a key of added_tokens_decoder in "
                                "tokenizer_config.json is not an id");
        if ((uint64_t)id < l->b.n_token && l->b.token[id].flags & TOK_ADDED)
            continue;
        st = one_added(l, id, jv_iter_value(it));
    }
    return st;
}

/* A merge is "a b" or ["a", "b"]. */
static cag_status one_merge(struct load *l, const jv *v)
{
    size_t n, nl, nr;
    const char *s = jv_str(v, &n);
    const char *a, *b;

    if (s) {
        const char *cut = memchr(s, ' ', n);
        if (!cut || memchr(cut + 1, ' ', n - (size_t)(cut - s) - 1))
            return malformed(l, "a merge is not two tokens with a space "
                                "between");
        nl = (size_t)(cut - s);
        return tok_build_merge(&l->b, s, nl, cut + 1, n - nl - 1, l->err);
    }
    a = jv_str(jv_at(v, 0), &nl);
    b = jv_str(jv_at(v, 1), &nr);
    if (!a || !b || jv_count(v) != 2)
        return malformed(l, "a merge is neither a string nor a pair");
    return tok_build_merge(&l->b, a, nl, b, nr, l->err);
}

static cag_status read_merges(struct load *l, const jv *m)
{
    const jv *merges = jv_get(m, "merges");
    cag_status st = CAG_OK;
    if (jv_type(merges) != JV_ARRAY)
        return malformed(l, "model.merges is missing or not a list");
    for (size_t i = 0; !st && i < jv_count(merges); i++)
        st = one_merge(l, jv_at(merges, i));
    return st;
}

/* ---- first and last tokens ---------------------------------------------- */

/* Id of a token by the text its files write; -1 if none. */
static int32_t find_text(const struct load *l, const char *s)
{
    const struct tok_build *b = &l->b;
    size_t n = strlen(s);
    for (size_t i = 0; i < b->n_added; i++) {
        const struct tok_build_token *t = &b->token[b->added[i].id];
        if (t->size == n && memcmp(tok_build_bytes(b, t), s, n) == 0)
            return (int32_t)b->added[i].id;
    }
    return tok_build_find(b, s, n);
}

/* A token in tokenizer_config.json, or in the map that comes before it: text,
 * or an object with content. */
static cag_status config_token(const struct load *l, const jv *config,
                               const char *key, int32_t *id)
{
    bool mapped = !is_null(jv_get(l->map, key));
    const jv *v = jv_get(mapped ? l->map : config, key);
    const char *s = jv_str(v, NULL);
    if (!s)
        s = jv_get_str(v, "content", NULL);
    if (!s)
        return CAG_OK;
    *id = find_text(l, s);
    if (*id < 0)
        return cag_fail(l->err, CAG_E_FORMAT, l->file, -1,
                        "%s \"%s\" of %s is not in the vocabulary", key, s,
                        mapped ? "special_tokens_map.json"
                               : "tokenizer_config.json");
    return CAG_OK;
}

static cag_status put_prefix(struct load *l, int64_t id)
{
    struct tok_build *b = &l->b;
    if (id < 0 || (uint64_t)id >= b->n_token)
        return malformed(l, "the post-processor adds a token that is not in "
                            "the vocabulary");
    if (b->n_prefix == TOK_MAX_IDS)
        return malformed(l, "the post-processor adds too many tokens");
    b->prefix[b->n_prefix++] = (int32_t)id;
    return CAG_OK;
}

static cag_status one_post_processor(struct load *l, const jv *v)
{
    const jv *single = jv_get(v, "single"), *known;
    cag_status st = CAG_OK;

    if (is(type_of(v), "ByteLevel"))
        return CAG_OK; /* trims offsets only */
    if (!is(type_of(v), "TemplateProcessing"))
        return unsupported(l, "post-processor", type_of(v));
    known = jv_get(v, "special_tokens");
    for (size_t i = 0; !st && i < jv_count(single); i++) {
        const jv *special = jv_get(jv_at(single, i), "SpecialToken");
        const jv *ids;
        if (!special) /* the text itself: the rest follows it */
            break;
        ids = jv_get(jv_get(known, jv_get_str(special, "id", "")), "ids");
        if (jv_count(ids) == 0)
            return malformed(l, "the post-processor's special token has no "
                                "ids");
        for (size_t k = 0; !st && k < jv_count(ids); k++)
            st = put_prefix(l, jv_int(jv_at(ids, k), -1));
    }
    return st;
}

/* eos_token_id of a config: an id, a list of ids, or nothing. */
static cag_status eos_ids(struct load *l, const jv *config, const char *file)
{
    const jv *v = jv_get(config, "eos_token_id");
    size_t n = jv_type(v) == JV_ARRAY ? jv_count(v) : is_null(v) ? 0 : 1;
    const char *own = l->b.file;
    cag_status st = CAG_OK;

    l->b.file = file;
    for (size_t i = 0; !st && i < n; i++)
        st = tok_build_eos(&l->b,
                           jv_int(jv_type(v) == JV_ARRAY ? jv_at(v, i) : v, -1),
                           l->err);
    l->b.file = own;
    return st;
}

static cag_status read_bos(struct load *l, const jv *config)
{
    struct tok_build *b = &l->b;
    const char *class = jv_get_str(config, "tokenizer_class", "");
    const jv *add = jv_get(config, "add_bos_token");
    cag_status st = each(l, jv_get(l->root, "post_processor"), "processors",
                         one_post_processor, 0);
    if (!st)
        st = config_token(l, config, "bos_token", &b->bos);
    if (st)
        return st;
    /* the Llama classes of transformers obey this key, whatever the
     * post-processor says; others do not read it */
    if (strstr(class, "Llama") && jv_type(add) == JV_BOOL && b->bos >= 0) {
        b->n_prefix = 0;
        if (jv_bool(add, false))
            st = put_prefix(l, b->bos);
    }
    if (!config && !l->map && b->n_prefix)
        b->bos = b->prefix[0];
    return st;
}

/* ---- files -------------------------------------------------------------- */

/* A file that may be absent: *out stays NULL then. */
static cag_status parse_optional(const char *path, jv **out, cag_error *err)
{
    return file_exists(path) ? jv_parse_object(path, MAX_BYTES, out, err)
                             : CAG_OK;
}

static cag_status compile(struct load *l, const jv *config)
{
    const jv *m = jv_get(l->root, "model");
    cag_status st;

    if (jv_type(m) != JV_OBJECT)
        return malformed(l, "no \"model\": this is not a tokenizer.json");
    st = read_pipeline(l);
    if (!st)
        st = model_flags(l, m);
    if (!st)
        st = read_vocab(l, m);
    if (!st)
        st = read_added(l);
    if (!st)
        st = read_more_added(l, config);
    if (!st)
        st = tok_build_index(&l->b, l->err);
    if (!st)
        st = read_merges(l, m);
    return st ? st : read_bos(l, config);
}

cag_status tok_from_json(const char *text, size_t n, const char *name,
                         cag_tokenizer **out, cag_error *err)
{
    struct load l = { .file = name, .err = err };
    jv *root = NULL;
    cag_status st;

    tok_build_init(&l.b, name);
    st = jv_parse(text, n, name, &root, err);
    l.root = root;
    if (!st)
        st = compile(&l, NULL);
    if (!st)
        st = tok_build_finish(&l.b, out, err);
    tok_build_release(&l.b);
    jv_free(root);
    return st;
}

enum {
    F_TOKENIZER,
    F_TOK_CONFIG,
    F_GENERATION,
    F_CONFIG,
    F_MAP,
    F_ADDED,
    N_FILE
};

/* Tokens of added_tokens.json: transformers would add those that are not in
 * tokenizer.json. */
static cag_status check_added(const struct load *l, const jv *added,
                              const char *file)
{
    for (void *it = jv_iter(added); it; it = jv_next(added, it)) {
        size_t n;
        const char *s = jv_iter_key(it, &n);

        int64_t id = jv_int(jv_iter_value(it), -1);

        if (id < 0)
            return cag_fail(l->err, CAG_E_FORMAT, file, -1,
                            "the id of \"%s\" is no number from 0 on", s);
        if (strlen(s) != n || find_text(l, s) != id)
            return cag_fail(
                l->err, CAG_E_UNSUPPORTED, file, -1,
                "has \"%s\", which is not a token of that id in "
                "tokenizer.json; save the tokenizer again with transformers, "
                "so that that file has all tokens",
                s);
    }
    return CAG_OK;
}

cag_status tok_from_dir(const char *dir, cag_tokenizer **out, cag_error *err)
{
    static const char *const name[N_FILE] = {
        "tokenizer.json", "tokenizer_config.json",   "generation_config.json",
        "config.json",    "special_tokens_map.json", "added_tokens.json"
    };
    char *path[N_FILE] = { NULL };
    jv *doc[N_FILE] = { NULL };
    struct load l = { .err = err };
    int32_t eos = -1;
    bool legacy;
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < N_FILE; i++) {
        path[i] = file_join(dir, name[i]);
        if (!path[i])
            st = cag_fail_nomem(err, "path");
        else if (i == F_TOKENIZER)
            st = jv_parse_object(path[i], MAX_BYTES, &doc[i], err);
        else
            st = parse_optional(path[i], &doc[i], err);
    }
    l.file = path[F_TOKENIZER];
    l.root = doc[F_TOKENIZER];
    /* as transformers has it: since it writes added_tokens_decoder, the other
     * two files are left over from before */
    legacy = is_null(jv_get(doc[F_TOK_CONFIG], "added_tokens_decoder"));
    l.map = legacy ? doc[F_MAP] : NULL;
    tok_build_init(&l.b, l.file);
    if (!st)
        st = compile(&l, doc[F_TOK_CONFIG]);
    if (!st && legacy)
        st = check_added(&l, doc[F_ADDED], path[F_ADDED]);
    if (!st)
        st = config_token(&l, doc[F_TOK_CONFIG], "eos_token", &eos);
    if (!st && eos >= 0)
        st = tok_build_eos(&l.b, eos, err);
    for (int i = F_GENERATION; !st && i <= F_CONFIG; i++)
        st = eos_ids(&l, doc[i], path[i]);
    if (!st)
        st = tok_build_finish(&l.b, out, err);
    tok_build_release(&l.b);
    for (int i = 0; i < N_FILE; i++) {
        jv_free(doc[i]);
        mem_free(path[i]);
    }
    return st;
}
