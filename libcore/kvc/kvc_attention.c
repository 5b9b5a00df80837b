/*
 * kvc_attention.c - see kvc_attention.h.
 */
#include "kvc/kvc_attention.h"

#include <stdio.h>
#include <string.h>

#include "kvc/kvc_member.h"
#include "util/error.h"

/* ----------------------------------------------------------------- write */

static bool set_f32(jv *o, const char *key, float x)
{
    char hex[9];

    kvc_f32_hex(x, hex);
    return jv_set_str(o, key, hex);
}

static jv *heads_json(const cag_kvc_attention *a)
{
    jv *list = jv_new_array();

    for (int i = 0; list && i < a->n_head; i++) {
        jv *o = jv_new_object();

        if (!o || !jv_set_int(o, "head", a->head[i].head) ||
            !jv_set_int(o, "layer", a->head[i].layer) ||
            !set_f32(o, "mass", a->head[i].mass)) {
            jv_free(o);
            jv_free(list);
            return NULL;
        }
        if (!jv_append(list, o)) {
            jv_free(list);
            return NULL;
        }
    }
    return list;
}

static jv *quotes_json(const cag_kvc_attention *a)
{
    jv *o = jv_new_object();

    if (o && jv_set_int(o, "lines", a->n_line) &&
        jv_set_int(o, "rows", a->n_row) && jv_set_int(o, "tokens", a->n_tok))
        return o;
    jv_free(o);
    return NULL;
}

static jv *null_json(const cag_kvc_attention *a)
{
    jv *o = jv_new_object();

    if (o && jv_set_int(o, "questions", a->n_question) &&
        jv_set_int(o, "quantile", a->quantile) &&
        jv_set_str(o, "sha256", a->questions_sha256) &&
        set_f32(o, "value", a->null))
        return o;
    jv_free(o);
    return NULL;
}

static jv *looks_json(const cag_kvc_attention *a)
{
    jv *o = jv_new_object();

    if (o && jv_set_int(o, "answerable", a->n_answerable) &&
        jv_set_int(o, "mask", a->n_mask) &&
        jv_set_int(o, "reread", a->n_reread) &&
        jv_set_int(o, "whole", a->n_whole))
        return o;
    jv_free(o);
    return NULL;
}

cag_status kvc_attention_to_json(const cag_kvc_attention *a, jv **out,
                                 cag_error *err)
{
    jv *o = jv_new_object();

    if (o && jv_set(o, "heads", heads_json(a)) &&
        (!a->has_looks || jv_set(o, "looks", looks_json(a))) &&
        (!a->has_null || jv_set(o, "null", null_json(a))) &&
        jv_set(o, "quotes", quotes_json(a)) &&
        jv_set_int(o, "version", a->version)) {
        *out = o;
        return CAG_OK;
    }
    jv_free(o);
    return cag_fail_nomem(err, "copy heads");
}

/* ------------------------------------------------------------------ read */

static void read_head(struct kvc_members *r, const jv *o, int i,
                      const struct kvc_shape *s, cag_kvc_head *head)
{
    double most = i ? (double)head[i - 1].mass : 1;
    char where[32];

    snprintf(where, sizeof where, "heads[%d]", i);
    head[i].head =
        (int)kvc_member_int(r, o, where, "head", 0, KVC_MAX_HEAD - 1);
    head[i].layer =
        (int)kvc_member_int(r, o, where, "layer", 0, s->n_layer - 1);
    head[i].mass = kvc_member_f32(r, o, where, "mass", 0, most);
    for (int j = 0; j < i; j++)
        if (head[j].layer == head[i].layer && head[j].head == head[i].head)
            kvc_member_bad(r, where, "head", "a head once");
}

static void read_null(struct kvc_members *r, const jv *v,
                      cag_kvc_attention *out)
{
    const jv *o;
    size_t n;
    const char *sha;

    if (!jv_get(v, "null"))
        return;
    o = kvc_member_object(r, v, "null");
    sha = jv_str(jv_get(o, "sha256"), &n);
    out->has_null = true;
    out->n_question = kvc_member_int(r, o, "null", "questions", 1, INT32_MAX);
    out->quantile = (int)kvc_member_int(r, o, "null", "quantile", 1, 100);
    if (!sha || n != 64 || strspn(sha, "0123456789abcdef") != n)
        kvc_member_bad(r, "null", "sha256", "64 hex digits");
    else
        memcpy(out->questions_sha256, sha, n + 1);
    out->null = kvc_member_f32(r, o, "null", "value", 0, 1);
}

static void read_looks(struct kvc_members *r, const jv *v,
                       cag_kvc_attention *out)
{
    const jv *o;
    int64_t n;

    if (!jv_get(v, "looks"))
        return;
    if (!out->has_null)
        kvc_member_bad(r, "", "looks", "a null of the same questions");
    o = kvc_member_object(r, v, "looks");
    out->has_looks = true;
    n = out->n_answerable =
        kvc_member_int(r, o, "looks", "answerable", 1, out->n_question);
    out->n_mask = kvc_member_int(r, o, "looks", "mask", 0, n);
    out->n_reread = kvc_member_int(r, o, "looks", "reread", 0, n);
    out->n_whole = kvc_member_int(r, o, "looks", "whole", 0, n);
}

cag_status kvc_attention_from_json(const jv *v, const char *file,
                                   const struct kvc_shape *shape,
                                   struct arena *a, cag_kvc_attention **out,
                                   cag_error *err)
{
    struct kvc_members r = { file, "ATTN", err, CAG_OK };
    const jv *list = jv_get(v, "heads"), *quotes;
    size_t n = jv_type(list) == JV_ARRAY ? jv_count(list) : 0;
    cag_kvc_attention *x = arena_array(a, 1, sizeof *x);
    cag_kvc_head *head = arena_array(a, KVC_MAX_COPY_HEAD, sizeof *head);

    if (!x || !head)
        return cag_fail_nomem(err, "copy heads");
    memset(x, 0, sizeof *x);
    if (n < 1 || n > KVC_MAX_COPY_HEAD)
        kvc_member_bad(&r, "", "heads", "an array of 1 to 32 heads");
    for (size_t i = 0; i < n && !r.st; i++)
        read_head(&r, jv_at(list, i), (int)i, shape, head);
    quotes = kvc_member_object(&r, v, "quotes");
    x->n_line = kvc_member_int(&r, quotes, "quotes", "lines", 1, shape->n_tok);
    x->n_row = kvc_member_int(&r, quotes, "quotes", "rows", 1, shape->n_tok);
    x->n_tok = kvc_member_int(&r, quotes, "quotes", "tokens", 1, shape->n_tok);
    read_null(&r, v, x);
    read_looks(&r, v, x);
    x->version = (int)kvc_member_int(&r, v, "", "version", 1, INT32_MAX);
    x->head = head;
    x->n_head = (int)n;
    if (!r.st)
        *out = x;
    return r.st;
}

cag_status kvc_attention_section(const cag_kvc_attention *a,
                                 const struct kvc_shape *shape, struct buf *out,
                                 cag_error *err)
{
    struct arena arena = { NULL };
    cag_kvc_attention *read;
    cag_error why = CAG_ERROR_INIT;
    jv *v = NULL;
    cag_status st = kvc_attention_to_json(a, &v, err);

    if (!st)
        st = jv_dump_canonical(v, out, err);
    if (!st && kvc_attention_from_json(v, NULL, shape, &arena, &read, &why)) {
        if (why.status == CAG_E_FORMAT)
            why.status = CAG_E_USAGE;
        st = cag_error_copy(err, &why);
    }
    arena_release(&arena);
    jv_free(v);
    return st;
}
