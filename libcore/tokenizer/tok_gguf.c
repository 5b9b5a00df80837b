/*
 * tok_gguf.c - a tokenizer out of the tokenizer.ggml.* keys.
 *
 * Two kinds are known: "gpt2" (byte-level BPE; `pre` names the pattern, which
 * is not in the file) and "llama" (SentencePiece BPE by scores).  An unknown
 * `pre` is an error: text cut by another pattern gives ids that look fine
 * and make the model worse.
 *
 * GGUF keeps no normalizer, so a family that normalizes (Qwen) is told by
 * its `pre` too.  llama.cpp itself never normalizes.
 */
#include <string.h>

#include "tokenizer/tok_build.h"
#include "util/mem.h"
#include "util/text.h"

enum { T_NORMAL = 1, T_UNKNOWN, T_CONTROL, T_USER, T_UNUSED, T_BYTE };

#define KEY "tokenizer.ggml."

#define MAX_STEPS 6
struct pre {
    const char *name;
    uint32_t flags;
    bool bos; /* when the file does not say */
    const char *step[MAX_STEPS];
};

/* The pieces of llama.cpp's "default" that have no name of their own. */
static const char punct[] = "[\\p{P}\\$\\+<=>\\^~\\|]+";
static const char punct_tick[] = "[\\p{P}\\$\\+<=>\\^~\\|`]+";
static const char three[] = "[0-9][0-9][0-9]";
static const char three_n[] = "\\p{N}{1,3}";
static const char han[] = "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f"
                          "\xe3\x82\xa0-\xe3\x83\xbf]+";
static const char newline[] = "[\r\n]";
static const char spaced_letters[] = "\\s?\\p{L}+";
static const char spaced_punct[] = "\\s?\\p{P}+";
static const char cjk[] = "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-"
                          "\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+";
static const char deepseek3[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]\\^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* Cased letters of the scripts that DeepSeek's first tokenizer names. */
static const char cased_letters[] =
    "\\s?["
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"
    "\\x{370}-\\x{373}\\x{376}-\\x{377}\\x{37b}-\\x{37d}\\x{37f}"
    "\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}"
    "\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"
    "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}"
    "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"
    "\\x{214e}\\x{2183}-\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}-\\x{2cf3}\\x{a640}-\\x{a66d}"
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"
    "\\x{1e900}-\\x{1e943}"
    "]+";
static const char ascii_punct[] =
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}"
    "\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+";
static const char last_space[] = "\\s+(?!\\p{Any})"; /* \s+$, one line */
static const char no_stop[] =
    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}"
    "\\x{6d4}\\x{60c})]+";
static const char seed_coder[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char by_thousands[] = "(?=(\\d{3})+(?!\\d))";

#define Q2           \
    {                \
        PRETOK_QWEN2 \
    }
#define G2          \
    {               \
        PRETOK_GPT2 \
    }
#define DG2                       \
    {                             \
        PRETOK_DIGIT, PRETOK_GPT2 \
    }
#define L3            \
    {                 \
        PRETOK_LLAMA3 \
    }
static const struct pre pres[] = {
    { "default", 0, false, { punct, PRETOK_GPT2, PRETOK_DIGITS, three } },
    { "gpt-2", 0, false, G2 },
    { "phi-2", 0, false, G2 },
    { "mpt", 0, false, G2 },
    { "olmo", 0, false, G2 },
    { "jais", 0, false, G2 },
    { "trillion", 0, false, G2 },
    { "jina-es", 0, false, G2 },
    { "jina-de", 0, false, G2 },
    { "jina-v2-es", 0, false, G2 },
    { "jina-v2-de", 0, false, G2 },
    { "gigachat", 0, false, G2 },
    { "a.x-4.0", 0, false, G2 },
    { "mellum", 0, false, G2 },
    { "modern-bert", 0, false, G2 },
    { "exaone4", 0, false, G2 },
    { "granite-docling", 0, false, G2 },
    { "smollm", 0, false, DG2 },
    { "starcoder", 0, false, DG2 },
    { "refact", 0, false, DG2 },
    { "command-r", 0, false, DG2 },
    { "codeshell", 0, false, DG2 },
    { "exaone", 0, false, DG2 },
    { "minerva-7b", 0, false, DG2 },
    { "mellum2", 0, false, DG2 },
    { "falcon", 0, false, { punct_tick, PRETOK_GPT2, three } },
    { "llama-bpe", TOK_F_IGNORE_MERGES, true, L3 },
    { "llama3", TOK_F_IGNORE_MERGES, true, L3 },
    { "llama-v3", TOK_F_IGNORE_MERGES, true, L3 },
    { "falcon3", TOK_F_IGNORE_MERGES, true, L3 },
    { "pixtral", TOK_F_IGNORE_MERGES, true, L3 },
    { "falcon-h1", TOK_F_IGNORE_MERGES, true, L3 },
    { "midm-2.0", TOK_F_IGNORE_MERGES, true, L3 },
    { "lfm2", TOK_F_IGNORE_MERGES, true, L3 },
    { "jina-v5-nano", TOK_F_IGNORE_MERGES, true, L3 },
    { "minicpm5", TOK_F_IGNORE_MERGES, false, { three_n, PRETOK_LLAMA3 } },
    { "dbrx", 0, false, L3 },
    { "smaug-bpe", 0, false, L3 },
    { "chatglm-bpe", 0, false, L3 },
    { "glm4", TOK_F_IGNORE_MERGES, false, L3 },
    { "qwen2", TOK_F_NFC, false, Q2 },
    { "deepseek-r1-qwen", TOK_F_NFC, false, Q2 },
    { "f2llmv2", TOK_F_NFC, false, Q2 },
    { "kormo", 0, false, Q2 },
    { "megrez", 0, false, Q2 },
    { "stablelm2", 0, false, Q2 },
    { "hunyuan", 0, false, Q2 },
    { "solar-open", 0, false, Q2 },
    { "grok-2", 0, false, Q2 },
    { "qwen35", TOK_F_NFC, false, { PRETOK_QWEN35 } },
    { "gpt-4o", 0, false, { PRETOK_GPT4O } },
    { "llama4", 0, false, { PRETOK_GPT4O } },
    { "kanana2", 0, false, { PRETOK_GPT4O } },
    { "talkie", 0, false, { PRETOK_GPT4O } },
    { "minimax-m2", 0, false, { PRETOK_GPT4O } },
    { "tekken", TOK_F_IGNORE_MERGES, true, { PRETOK_TEKKEN } },
    { "deepseek-coder",
      0,
      false,
      { newline, spaced_letters, spaced_punct, cjk, PRETOK_DIGIT } },
    { "deepseek-v3", 0, false, { three_n, han, deepseek3 } },
    { "hunyuan-dense", 0, false, { three_n, han, deepseek3 } },
    { "deepseek-llm",
      0,
      false,
      { newline, cased_letters, ascii_punct, last_space, cjk, PRETOK_DIGITS } },
    { "seed-coder", 0, false, { seed_coder } },
    { "viking", 0, false, { no_stop, PRETOK_DIGIT } },
    { "poro-chat", 0, false, { no_stop } },
    { "bloom", 0, false, { no_stop } },
    { "gpt3-finnish", 0, false, { no_stop } },
    { "superbpe", 0, false, { PRETOK_DIGITS, by_thousands } },
};

struct source {
    const struct gguf *g;
    const char *file;
    struct gguf_str *text;
    int64_t *type; /* NULL: all normal */
    size_t n;
    bool spm; /* model "llama" */
};

static cag_status read_tokens(struct source *s, cag_error *err)
{
    size_t n_type = 0;
    cag_status st =
        gguf_get_strs(s->g, KEY "tokens", true, &s->text, &s->n, err);
    if (!st)
        st = gguf_get_ints(s->g, KEY "token_type", false, &s->type, &n_type,
                           err);
    if (st)
        return st;
    if (s->n == 0 || s->n > TOK_MAX_VOCAB)
        return cag_fail(err, CAG_E_FORMAT, s->file, -1,
                        KEY "tokens has %zu elements, expected 1..%u", s->n,
                        TOK_MAX_VOCAB);
    if (s->type && n_type != s->n)
        return cag_fail(err, CAG_E_FORMAT, s->file, -1,
                        KEY "token_type has %zu elements for %zu tokens",
                        n_type, s->n);
    for (size_t i = 0; i < s->n; i++)
        if (!utf8_valid(s->text[i].s, s->text[i].n, NULL))
            return cag_fail(err, CAG_E_FORMAT, s->file, -1,
                            "token %zu is not UTF-8", i);
    return CAG_OK;
}

/*
 * Texts that mark turns and nothing else.  Old files have them as normal or
 * user-defined tokens, or have no types at all; a control token is what they
 * are, whatever the file says: no text may hold one.
 */
static bool marks_turn(const struct gguf_str *t, bool spm)
{
    static const char *const all[] = {
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|start_header_id|>",
        "<|user|>",
        "<|end_header_id|>",
        "<|begin_of_text|>",
        "<|system|>",
        "<|end_of_text|>",
        "<|assistant|>",
        "<|end|>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<|end_of_turn|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|USER_TOKEN|>",
        "<|CHATBOT_TOKEN|>",
        "<|SYSTEM_TOKEN|>",
    };

    if (t->n < 3 || t->s[0] != '<' || t->s[t->n - 1] != '>')
        return false;
    if (spm && ((t->n == 3 && memcmp(t->s, "<s>", 3) == 0) ||
                (t->n == 4 && memcmp(t->s, "</s>", 4) == 0)))
        return true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i]) == t->n && memcmp(all[i], t->s, t->n) == 0)
            return true;
    return false;
}

static int64_t type_of(const struct source *s, size_t i)
{
    int64_t type = s->type ? s->type[i] : T_NORMAL;

    if ((type == T_NORMAL || type == T_USER || type == T_UNUSED) &&
        marks_turn(&s->text[i], s->spm))
        return T_CONTROL;
    return type;
}

static cag_status add_tokens(const struct source *s, struct tok_build *b,
                             cag_error *err)
{
    cag_status st = CAG_OK;
    for (size_t i = 0; !st && i < s->n; i++) {
        const char *p = s->text[i].s;
        size_t n = s->text[i].n;
        switch (type_of(s, i)) {
        case T_NORMAL:
            st = tok_build_token(b, (int64_t)i, p, n, 0, err);
            break;
        case T_UNUSED:
            st = tok_build_token(b, (int64_t)i, p, n, TOK_RAW, err);
            break;
        case T_BYTE:
            st = tok_build_token(b, (int64_t)i, p, n, TOK_BYTE, err);
            break;
        case T_USER: /* may be a part of merges as well */
            st = tok_build_token(b, (int64_t)i, p, n, 0, err);
            if (!st && n > 0)
                st = tok_build_added(b, (int64_t)i, p, n, false, 0, err);
            break;
        case T_UNKNOWN:
        case T_CONTROL:
            st = n > 0 ? tok_build_added(b, (int64_t)i, p, n, true, 0, err)
                       : tok_build_token(b, (int64_t)i, p, n, TOK_RAW, err);
            break;
        default:
            st = cag_fail(err, CAG_E_UNSUPPORTED, s->file, -1,
                          "token %zu has the type %lld", i,
                          (long long)type_of(s, i));
        }
    }
    return st ? st : tok_build_index(b, err);
}

static cag_status get_id(const struct source *s, const char *key, int32_t *id,
                         cag_error *err)
{
    int64_t v = -1;
    cag_status st =
        gguf_get_int(s->g, key, false, 0, (int64_t)s->n - 1, &v, err);
    if (!st)
        *id = (int32_t)v;
    return st;
}

/* What ends an answer: the keys, and control tokens that end a turn or a
 * text in the known families, for files whose keys name only one. */
static cag_status read_ends(const struct source *s, struct tok_build *b,
                            cag_error *err)
{
    static const char *const key[] = { KEY "eos_token_id", KEY "eot_token_id",
                                       KEY "eom_token_id" };
    static const char *const text[] = { "<|eot_id|>",     "<|eom_id|>",
                                        "<|im_end|>",     "<|end|>",
                                        "<end_of_turn>",  "<|endoftext|>",
                                        "<|end_of_text|>" };
    cag_status st = CAG_OK;

    for (size_t i = 0; !st && i < sizeof key / sizeof key[0]; i++) {
        int32_t id = -1;
        st = get_id(s, key[i], &id, err);
        if (!st && id >= 0)
            st = tok_build_eos(b, id, err);
    }
    for (size_t k = 0; !st && k < sizeof text / sizeof text[0]; k++)
        for (size_t i = 0; !st && i < s->n; i++)
            if (type_of(s, i) == T_CONTROL && s->text[i].n == strlen(text[k]) &&
                memcmp(s->text[i].s, text[k], s->text[i].n) == 0)
                st = tok_build_eos(b, (int64_t)i, err);
    return st;
}

static cag_status read_bos(const struct source *s, struct tok_build *b,
                           bool add, cag_error *err)
{
    cag_status st = get_id(s, KEY "bos_token_id", &b->bos, err);
    if (!st)
        st = gguf_get_bool(s->g, KEY "add_bos_token", false, &add, err);
    if (!st && add && b->bos < 0)
        st = cag_fail(err, CAG_E_FORMAT, s->file, -1,
                      "the tokenizer adds a first token, but " KEY
                      "bos_token_id is missing");
    if (!st && add)
        b->prefix[b->n_prefix++] = b->bos;
    return st;
}

static cag_status find_pre(const struct source *s, const struct pre **out,
                           cag_error *err)
{
    struct gguf_str name = { "default", 7 };
    cag_status st = gguf_get_str(s->g, KEY "pre", false, &name, err);
    for (size_t i = 0; !st && i < sizeof pres / sizeof pres[0]; i++)
        if (strlen(pres[i].name) == name.n &&
            memcmp(pres[i].name, name.s, name.n) == 0) {
            *out = &pres[i];
            return CAG_OK;
        }
    return st ? st
              : cag_fail(err, CAG_E_UNSUPPORTED, s->file, -1,
                         KEY "pre is \"%.*s\", which is not known",
                         (int)(name.n < 80 ? name.n : 80), name.s);
}

static cag_status add_merges(const struct source *s, struct tok_build *b,
                             cag_error *err)
{
    struct gguf_str *m = NULL;
    size_t n = 0;
    cag_status st = gguf_get_strs(s->g, KEY "merges", true, &m, &n, err);

    for (size_t i = 0; !st && i < n; i++) {
        /* the left half is never empty, so it may be a space itself */
        const char *cut =
            m[i].n > 1 ? memchr(m[i].s + 1, ' ', m[i].n - 1) : NULL;
        size_t nl = cut ? (size_t)(cut - m[i].s) : 0;
        if (!cut || !utf8_valid(m[i].s, m[i].n, NULL))
            st =
                cag_fail(err, CAG_E_FORMAT, s->file, -1,
                         "merge %zu is not two tokens with a space between", i);
        else
            st = tok_build_merge(b, m[i].s, nl, cut + 1, m[i].n - nl - 1, err);
    }
    mem_free(m);
    return st;
}

static cag_status read_gpt2(const struct source *s, struct tok_build *b,
                            cag_error *err)
{
    const struct pre *pre = NULL;
    bool space = false;
    cag_status st = find_pre(s, &pre, err);

    if (!st)
        st = gguf_get_bool(s->g, KEY "add_space_prefix", false, &space, err);
    if (st)
        return st;
    b->flags = TOK_F_BYTE_LEVEL | pre->flags;
    b->prepend = space ? TOK_PREPEND_ALWAYS : TOK_PREPEND_NONE;
    for (int i = 0; !st && i < MAX_STEPS && pre->step[i]; i++)
        st = tok_build_step(b, PRETOK_ISOLATED, pre->step[i],
                            strlen(pre->step[i]), err);
    if (!st)
        st = add_tokens(s, b, err);
    if (!st)
        st = add_merges(s, b, err);
    return st ? st : read_bos(s, b, pre->bos, err);
}

static cag_status read_llama(const struct source *s, struct tok_build *b,
                             cag_error *err)
{
    float *score = NULL;
    size_t n_score = 0;
    bool space = true, squeeze = false;
    cag_status st =
        gguf_get_bool(s->g, KEY "add_space_prefix", false, &space, err);
    if (!st)
        st = gguf_get_bool(s->g, KEY "remove_extra_whitespaces", false,
                           &squeeze, err);
    if (!st && squeeze)
        st = cag_fail(err, CAG_E_UNSUPPORTED, s->file, -1,
                      KEY "remove_extra_whitespaces is not supported");
    if (!st)
        st = gguf_get_floats(s->g, KEY "scores", true, &score, &n_score, err);
    if (!st && n_score != s->n)
        st = cag_fail(err, CAG_E_FORMAT, s->file, -1,
                      KEY "scores has %zu elements for %zu tokens", n_score,
                      s->n);
    if (st)
        goto out;
    b->flags = TOK_F_SPACE_MARK | TOK_F_BYTE_FALLBACK | TOK_F_FUSE_UNK;
    if (space) {
        b->prepend = TOK_PREPEND_ALWAYS;
        b->flags |= TOK_F_STRIP_SPACE;
    }
    st = add_tokens(s, b, err);
    if (!st)
        st = tok_build_merges_of_scores(b, score, n_score, err);
    if (!st)
        st = get_id(s, KEY "unknown_token_id", &b->unk, err);
    if (!st)
        st = read_bos(s, b, true, err);
out:
    mem_free(score);
    return st;
}

cag_status tok_from_gguf(const struct gguf *g, cag_tokenizer **out,
                         cag_error *err)
{
    struct source s = { g, gguf_path(g), NULL, NULL, 0, false };
    struct tok_build b;
    struct gguf_str model = { "", 0 };
    cag_status st;

    tok_build_init(&b, s.file);
    st = gguf_get_str(g, KEY "model", true, &model, err);
    s.spm = model.n == 5 && memcmp(model.s, "llama", 5) == 0;
    if (!st)
        st = read_tokens(&s, err);
    if (st)
        goto out;
    if (model.n == 4 && memcmp(model.s, "gpt2", 4) == 0)
        st = read_gpt2(&s, &b, err);
    else if (s.spm)
        st = read_llama(&s, &b, err);
    else
        st = cag_fail(err, CAG_E_UNSUPPORTED, s.file, -1,
                      KEY "model is \"%.*s\", expected \"gpt2\" or \"llama\"",
                      (int)(model.n < 80 ? model.n : 80), model.s);
    if (!st)
        st = read_ends(&s, &b, err);
    if (!st)
        st = tok_build_finish(&b, out, err);
out:
    tok_build_release(&b);
    mem_free(s.text);
    mem_free(s.type);
    return st;
}
