/*
 * kvc_meta.c - rules of META, SRCS and PRMT (listed in kvc_write.h and
 * kvc(5)), and the binding and content id made from them.
 *
 * A check names the section, the member's path and what was found.  Members
 * that are not listed are kept and ignored: a later version may add some.
 */
#include "kvc/kvc_meta.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_codec.h"
#include "kvc/kvc_write.h"
#include "util/mem.h"
#include "util/rd.h"

/* Where a member is: "META: model.name", "SRCS: source 3: path". */
struct at {
    const char *section, *object; /* object: "model." or "" */
    int64_t item;                 /* of an array, -1 if none */
    const jv *v;
};

static void bad(struct kvc_check *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void bad(struct kvc_check *c, const char *fmt, ...)
{
    char msg[512];
    va_list ap;

    if (c->st)
        return;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    c->st = cag_fail(c->err, c->bad, c->file, -1, "%s", msg);
}

/* found: NULL names the member's type */
static void bad_member(struct kvc_check *c, const struct at *a, const char *key,
                       const char *found, const char *expected)
{
    const jv *v = jv_get(a->v, key);
    char item[40] = "";

    if (a->item >= 0)
        snprintf(item, sizeof item, "source %lld: ", (long long)a->item);
    if (!found && !v)
        bad(c, "%s: %s%s%s is missing, expected %s", a->section, item,
            a->object, key, expected);
    else
        bad(c, "%s: %s%s%s is %s, expected %s", a->section, item, a->object,
            key, found ? found : jv_type_name(v), expected);
}

static const jv *need_object(struct kvc_check *c, const struct at *a,
                             const char *key)
{
    const jv *v = jv_get(a->v, key);

    if (jv_type(v) == JV_OBJECT)
        return v;
    bad_member(c, a, key, NULL, "an object");
    return NULL;
}

/* A string without NUL; "" after a failure, so that nobody sees NULL. */
static const char *need_str(struct kvc_check *c, const struct at *a,
                            const char *key)
{
    size_t n;
    const char *s = jv_str(jv_get(a->v, key), &n);

    if (s && memchr(s, 0, n) == NULL)
        return s;
    bad_member(c, a, key, NULL, "a string without NUL");
    return "";
}

/* A string or null; the member must be there. */
static const char *need_opt(struct kvc_check *c, const struct at *a,
                            const char *key)
{
    const jv *v = jv_get(a->v, key);

    if (v && jv_type(v) == JV_NULL)
        return NULL;
    return need_str(c, a, key);
}

static const char *need_sha(struct kvc_check *c, const struct at *a,
                            const char *key)
{
    uint8_t d[SHA256_SIZE];
    size_t n;
    const char *s = jv_str(jv_get(a->v, key), &n);

    if (s && n == 2 * SHA256_SIZE && hash_unhex(s, d, sizeof d))
        return s;
    bad_member(c, a, key, NULL, "64 lower-case hex digits");
    return "";
}

static int64_t need_int(struct kvc_check *c, const struct at *a,
                        const char *key, int64_t min, int64_t max)
{
    const jv *v = jv_get(a->v, key);
    char want[64], found[24];
    int64_t i;

    snprintf(want, sizeof want, "an integer in %lld..%lld", (long long)min,
             (long long)max);
    if (jv_type(v) != JV_INT) {
        bad_member(c, a, key, NULL, want);
        return min;
    }
    i = jv_int(v, min);
    if (i < min || i > max) {
        snprintf(found, sizeof found, "%lld", (long long)i);
        bad_member(c, a, key, found, want);
        return min;
    }
    return i;
}

static bool need_bool(struct kvc_check *c, const struct at *a, const char *key)
{
    const jv *v = jv_get(a->v, key);

    if (jv_type(v) != JV_BOOL)
        bad_member(c, a, key, NULL, "true or false");
    return jv_bool(v, false);
}

/* ----------------------------------------------------------------- shape */

static void range(struct kvc_check *c, const char *what, int v, int min,
                  int max)
{
    if (v < min || v > max)
        bad(c, "META: kv.%s is %d, expected %d..%d", what, v, min, max);
}

void kvc_check_shape(struct kvc_check *c, const struct kvc_shape *s)
{
    range(c, "n_layer", s->n_layer, 1, KVC_MAX_LAYER);
    range(c, "n_kv_head", s->n_kv_head, 1, KVC_MAX_HEAD);
    range(c, "d_head", s->d_head, 8, KVC_MAX_DIM);
    range(c, "n_tok", s->n_tok, 1, KVC_MAX_TOK);
    if (c->st)
        return;
    if (s->d_head % 8)
        bad(c, "META: kv.d_head is %d, expected a multiple of 8", s->d_head);
    if (s->chunk_tok < KVC_TILE ||
        s->chunk_tok > kvc_chunk_tok(s->n_kv_head, s->d_head, s->kv_class) ||
        (s->chunk_tok & (s->chunk_tok - 1)))
        bad(c, "META: kv.chunk_tok is %d, expected a power of two in 64..%d",
            s->chunk_tok, kvc_chunk_tok(s->n_kv_head, s->d_head, s->kv_class));
}

/* ------------------------------------------------------------------ META */

void kvc_check_meta(struct kvc_check *c, const jv *meta, cag_kvc_info *info)
{
    struct at top = { "META", "", -1, meta };
    struct at bind = { "META", "binding.", -1, NULL };
    struct at build = { "META", "build.", -1, NULL };
    struct at model = { "META", "model.", -1, NULL };
    struct at prompt = { "META", "prompt.", -1, NULL };
    struct at prov = { "META", "provenance.", -1, NULL };
    struct at ckpt = { "META", "checkpoint.", -1, NULL };

    if (jv_type(meta) != JV_OBJECT) {
        bad(c, "META is %s, expected an object", jv_type_name(meta));
        return;
    }
    bind.v = need_object(c, &top, "binding");
    build.v = need_object(c, &top, "build");
    model.v = need_object(c, &top, "model");
    prompt.v = need_object(c, &top, "prompt");
    prov.v = need_object(c, &top, "provenance");
    if (jv_get(meta, "checkpoint"))
        ckpt.v = need_object(c, &top, "checkpoint");
    if (c->st)
        return;
    if (ckpt.v)
        info->checkpoint_of = need_int(c, &ckpt, "of", 1, KVC_MAX_TOK);
    info->config_sha256 = need_sha(c, &bind, "config_sha256");
    info->template_sha256 = need_sha(c, &bind, "template_sha256");
    info->weights_sha256 = need_sha(c, &bind, "weights_sha256");
    need_str(c, &bind, "rope");
    info->n_ctx = need_int(c, &build, "n_ctx", 0, INT32_MAX);
    info->reserve = need_int(c, &build, "reserve", 0, INT32_MAX);
    info->model_name = need_str(c, &model, "name");
    info->model_arch = need_str(c, &model, "arch");
    info->model_path = need_opt(c, &model, "path");
    info->model_hub = need_opt(c, &model, "hub");
    info->n_vocab = (int)need_int(c, &model, "n_vocab", 1, INT32_MAX);
    info->system = need_str(c, &prompt, "system");
    info->label = need_str(c, &prompt, "label");
    info->refusal = need_str(c, &prompt, "refusal");
    if (jv_get(prompt.v, "acknowledgement"))
        info->acknowledgement = need_str(c, &prompt, "acknowledgement");
    info->precision = need_str(c, &prov, "precision");
    info->numerics = need_str(c, &prov, "numerics");
    info->device = need_str(c, &prov, "device");
    info->tool = need_str(c, &prov, "tool");
}

void kvc_check_meta_kv(struct kvc_check *c, const jv *meta, cag_kvc_info *info,
                       struct kvc_shape *shape, enum kvc_codec *codec,
                       uint64_t *text_size)
{
    struct at top = { "META", "", -1, meta };
    struct at kv = { "META", "kv.", -1, need_object(c, &top, "kv") };
    struct at text = { "META", "text.", -1, need_object(c, &top, "text") };
    struct at bind = { "META", "binding.", -1,
                       need_object(c, &top, "binding") };
    const char *name, *class;
    char list[64];
    int found;

    if (c->st)
        return;
    info->binding = need_sha(c, &top, "binding_sha256");
    info->content_id = need_sha(c, &top, "content_id");
    info->tokenizer_sha256 = need_sha(c, &bind, "tokenizer_sha256");
    info->text_sha256 = need_sha(c, &text, "sha256");
    *text_size =
        (uint64_t)need_int(c, &text, "size_bytes", 0, (int64_t)KVC_MAX_TEXT);
    name = need_str(c, &kv, "codec");
    class = need_str(c, &kv, "class");
    need_int(c, &kv, "layout", KVC_LAYOUT_TILES, KVC_LAYOUT_TILES);
    shape->n_layer = (int)need_int(c, &kv, "n_layer", 1, KVC_MAX_LAYER);
    shape->n_kv_head = (int)need_int(c, &kv, "n_kv_head", 1, KVC_MAX_HEAD);
    shape->d_head = (int)need_int(c, &kv, "d_head", 8, KVC_MAX_DIM);
    shape->n_tok = (int)need_int(c, &kv, "n_tok", 1, KVC_MAX_TOK);
    shape->chunk_tok =
        (int)need_int(c, &kv, "chunk_tok", KVC_TILE, KVC_MAX_TOK);
    if (c->st)
        return;
    found = kvc_codec_find(name);
    if (found < 0) {
        c->st = cag_fail(c->err, CAG_E_UNSUPPORTED, c->file, -1,
                         "META: kv.codec is \"%.32s\": this program reads %s",
                         name, kvc_codec_list(list, sizeof list, "and"));
        return;
    }
    *codec = (enum kvc_codec)found;
    shape->kv_class = kvc_codec_class(*codec);
    if (strcmp(class, kvc_class_name(shape->kv_class)) != 0)
        bad(c, "META: kv.class is \"%.32s\", expected \"%s\" for codec %s",
            class, kvc_class_name(shape->kv_class), name);
    kvc_check_shape(c, shape);
    info->codec = kvc_codec_name(*codec);
    info->kv_class = kvc_class_name(shape->kv_class);
    info->row_bytes = (int)kvc_row_bytes(shape);
    info->n_layer = shape->n_layer;
    info->n_kv_head = shape->n_kv_head;
    info->d_head = shape->d_head;
    info->n_tok = shape->n_tok;
    info->chunk_tok = shape->chunk_tok;
}

/* ------------------------------------------------------------------ SRCS */

static void check_source(struct kvc_check *c, const struct at *a,
                         uint64_t text_size, int64_t n_tok, cag_kvc_source *s)
{
    const char *raw, *text;

    if (jv_type(a->v) != JV_OBJECT) {
        bad(c, "SRCS: source %lld is %s, expected an object",
            (long long)a->item, jv_type_name(a->v));
        return;
    }
    s->name = need_str(c, a, "name");
    s->path = need_opt(c, a, "path");
    s->filter = need_opt(c, a, "filter");
    s->group = need_opt(c, a, "group");
    s->size_bytes = (uint64_t)need_int(c, a, "size_bytes", 0, INT64_C(1) << 53);
    raw = need_sha(c, a, "sha256_raw");
    text = need_sha(c, a, "sha256_text");
    s->text_off = (uint64_t)need_int(c, a, "text_off", 0, (int64_t)text_size);
    s->text_bytes = (uint64_t)need_int(c, a, "text_bytes", 0,
                                       (int64_t)(text_size - s->text_off));
    s->tok_begin = need_int(c, a, "tok_begin", 0, n_tok);
    s->tok_end = need_int(c, a, "tok_end", s->tok_begin, n_tok);
    if (c->st)
        return;
    memcpy(s->sha256_raw, raw, sizeof s->sha256_raw);
    memcpy(s->sha256_text, text, sizeof s->sha256_text);
}

void kvc_check_srcs(struct kvc_check *c, const jv *srcs, uint64_t text_size,
                    int64_t n_tok, struct arena *a, cag_kvc_source **out,
                    int *n)
{
    size_t count = jv_count(srcs);
    cag_kvc_source *s;

    if (c->st)
        return;
    if (jv_type(srcs) != JV_ARRAY) {
        bad(c, "SRCS is %s, expected an array", jv_type_name(srcs));
        return;
    }
    if (count > KVC_MAX_SOURCE) {
        bad(c, "SRCS has %zu sources, expected at most %d", count,
            KVC_MAX_SOURCE);
        return;
    }
    s = arena_array(a, count ? count : 1, sizeof *s);
    if (!s) {
        c->st = cag_fail_nomem(c->err, "sources");
        return;
    }
    for (size_t i = 0; i < count && !c->st; i++) {
        struct at at = { "SRCS", "", (int64_t)i, jv_at(srcs, i) };

        check_source(c, &at, text_size, n_tok, &s[i]);
        if (!c->st && i &&
            (s[i].text_off < s[i - 1].text_off + s[i - 1].text_bytes ||
             s[i].tok_begin < s[i - 1].tok_end))
            bad(c, "SRCS: source %zu begins before the end of source %zu", i,
                i - 1);
    }
    *out = s;
    *n = (int)count;
}

/* ------------------------------------------------------------------ PRMT */

static bool is_day(const char *s)
{
    return strlen(s) == 10 && strspn(s, "0123456789") == 4 && s[4] == '-' &&
           strspn(s + 5, "0123456789") == 2 && s[7] == '-' &&
           strspn(s + 8, "0123456789") == 2;
}

void kvc_check_prmt(struct kvc_check *c, const jv *prmt, int n_vocab,
                    cag_kvc_info *info)
{
    struct at top = { "PRMT", "", -1, prmt };
    const jv *stop = jv_get(prmt, "stop_ids");
    const char *day;

    if (c->st)
        return;
    if (jv_type(prmt) != JV_OBJECT) {
        bad(c, "PRMT is %s, expected an object", jv_type_name(prmt));
        return;
    }
    day = need_opt(c, &top, "date");
    if (day && !c->st && !is_day(day))
        bad(c, "PRMT: date is \"%.32s\", expected YYYY-MM-DD", day);
    info->template_date = day;
    info->knows_thinking = need_bool(c, &top, "knows_thinking");
    need_bool(c, &top, "trims_question");
    need_str(c, &top, "mid");
    need_str(c, &top, "suffix");
    need_str(c, &top, "suffix_think");
    if (jv_type(stop) != JV_ARRAY)
        bad_member(c, &top, "stop_ids", NULL, "an array of token ids");
    for (size_t i = 0; i < jv_count(stop) && !c->st; i++) {
        int64_t id = jv_int(jv_at(stop, i), -1);

        if (id < 0 || id >= n_vocab)
            bad(c, "PRMT: stop_ids[%zu] is not a token id in 0..%d", i,
                n_vocab - 1);
    }
}

/* --------------------------------------------------------------- digests */

static bool set_sha(jv *o, const char *key, const uint8_t d[SHA256_SIZE])
{
    char hex[2 * SHA256_SIZE + 1];

    hash_hex(d, SHA256_SIZE, hex);
    return jv_set_str(o, key, hex);
}

/* { member: SHA-256 of the string } for every string member of META.prompt */
static cag_status prompt_digests(const jv *prompt, jv **out, cag_error *err)
{
    jv *o = jv_new_object();
    uint8_t d[SHA256_SIZE];
    cag_status st = CAG_OK;

    if (!o)
        return cag_fail_nomem(err, "binding");
    for (void *it = jv_iter(prompt); it && !st; it = jv_next(prompt, it)) {
        size_t n;
        const char *s = jv_str(jv_iter_value(it), &n);

        if (!s)
            continue;
        st = sha256_buf(s, n, d, err);
        if (!st && !set_sha(o, jv_iter_key(it, &n), d))
            st = cag_fail_nomem(err, "binding");
    }
    if (st) {
        jv_free(o);
        return st;
    }
    *out = o;
    return CAG_OK;
}

static jv *source_digests(const jv *sources)
{
    jv *a = jv_new_array();

    for (size_t i = 0; a && i < jv_count(sources); i++) {
        const char *s = jv_get_str(jv_at(sources, i), "sha256_text", "");

        if (!jv_append(a, jv_new_str(s, strlen(s)))) {
            jv_free(a);
            return NULL;
        }
    }
    return a;
}

cag_status kvc_binding(const jv *meta, const jv *sources, const char *kv_class,
                       const uint8_t tokenizer_sha256[SHA256_SIZE],
                       jv **binding, uint8_t digest[SHA256_SIZE],
                       cag_error *err)
{
    struct buf text = BUF_INIT;
    jv *b = jv_copy(jv_get(meta, "binding")), *prompt = NULL;
    cag_status st = CAG_OK;

    if (!b)
        return cag_fail_nomem(err, "binding");
    st = prompt_digests(jv_get(meta, "prompt"), &prompt, err);
    if (st)
        goto out;
    if (!jv_set(b, "prompt", prompt) ||
        !jv_set(b, "sources", source_digests(sources)) ||
        !jv_set_str(b, "kv_class", kv_class) ||
        !set_sha(b, "tokenizer_sha256", tokenizer_sha256)) {
        st = cag_fail_nomem(err, "binding");
        goto out;
    }
    st = jv_dump_canonical(b, &text, err);
    if (!st)
        st = sha256_buf(text.data, text.size, digest, err);
    if (!st) {
        *binding = b;
        b = NULL;
    }
out:
    buf_free(&text);
    jv_free(b);
    return st;
}

cag_status kvc_content_id(const uint8_t binding[SHA256_SIZE],
                          const int32_t *ids, size_t n_ids,
                          const uint8_t *digest, size_t stride, size_t n_chunk,
                          uint8_t out[SHA256_SIZE], cag_error *err)
{
    struct sha256 h = { NULL };
    uint8_t le[4 * 256];
    size_t fill = 0;
    cag_status st = sha256_init(&h, err);

    if (st)
        return st;
    sha256_update(&h, binding, SHA256_SIZE);
    for (size_t i = 0; i < n_ids; i++) {
        rd_put32(le + fill, (uint32_t)ids[i]);
        fill += 4;
        if (fill == sizeof le || i + 1 == n_ids) {
            sha256_update(&h, le, fill);
            fill = 0;
        }
    }
    for (size_t i = 0; i < n_chunk; i++)
        sha256_update(&h, digest + i * stride, SHA256_SIZE);
    sha256_final(&h, out);
    return CAG_OK;
}
