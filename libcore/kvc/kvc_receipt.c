/*
 * kvc_receipt.c - see kvc_receipt.h.
 *
 * Members are read by a table: name, place, and what the number may be.
 * Nothing is shown or compared before it is known to be finite and in range.
 */
#include "kvc/kvc_receipt.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_layout.h"
#include "kvc/kvc_member.h"
#include "util/error.h"

#define FLT_TOP 3.4028234663852886e38 /* the largest f32 */

uint64_t kvc_receipt_bound(int n_layer)
{
    /* a count has at most 16 digits: 53 bits */
    return 512 + (uint64_t)n_layer * 2 * 128;
}

/* --------------------------------------------------------------- members */

struct member {
    const char *name;
    bool is_f32;
    size_t off;
};

#define LOSS(name, m, real)                   \
    {                                         \
        name, real, offsetof(cag_kvc_loss, m) \
    }
static const struct member loss_members[] = {
    LOSS("max", max_abs, true),
    LOSS("overflow", n_overflow, false),
    LOSS("rel_rms", rel_rms, true),
    LOSS("subnormal", n_subnormal, false),
};
#define KL(name, m)                              \
    {                                            \
        name, true, offsetof(cag_kvc_receipt, m) \
    }
static const struct member kl_members[] = {
    KL("max", kl_max),
    KL("mean", kl_mean),
    KL("p99", kl_p99),
};
#define INT(name, m)                              \
    {                                             \
        name, false, offsetof(cag_kvc_receipt, m) \
    }
static const struct member probe_members[] = {
    INT("begin", begin),
    INT("end", end),
};
static const struct member top1_members[] = {
    INT("clear_flips", n_clear_flip),
    INT("same", n_same),
};
#define N_OF(table) (sizeof(table) / sizeof *(table))

/* ----------------------------------------------------------------- write */

static bool set_f32(jv *o, const char *key, float x)
{
    char hex[9];

    kvc_f32_hex(x, hex);
    return jv_set_str(o, key, hex);
}

/* An object of a table's members of the struct at base; NULL: no memory. */
static jv *object_of(const struct member *m, size_t n, const void *base)
{
    jv *o = jv_new_object();

    for (size_t i = 0; o && i < n; i++) {
        const char *at = (const char *)base + m[i].off;
        int64_t v;
        float x;
        bool ok;

        if (m[i].is_f32) {
            memcpy(&x, at, sizeof x);
            ok = set_f32(o, m[i].name, x);
        } else {
            memcpy(&v, at, sizeof v);
            ok = jv_set_int(o, m[i].name, v);
        }
        if (!ok) {
            jv_free(o);
            return NULL;
        }
    }
    return o;
}

static jv *layers_json(const cag_kvc_loss *loss, int n_layer)
{
    jv *a = jv_new_array();

    for (int l = 0; a && l < n_layer; l++) {
        jv *o = jv_new_object();
        bool ok =
            o &&
            jv_set(o, "k",
                   object_of(loss_members, N_OF(loss_members), &loss[2 * l])) &&
            jv_set(
                o, "v",
                object_of(loss_members, N_OF(loss_members), &loss[2 * l + 1]));

        if (!ok) {
            jv_free(o);
            jv_free(a);
            return NULL;
        }
        if (!jv_append(a, o)) {
            jv_free(a);
            return NULL;
        }
    }
    return a;
}

cag_status kvc_receipt_to_json(const cag_kvc_receipt *r, const char *codec,
                               int n_layer, jv **out, cag_error *err)
{
    jv *o = jv_new_object();

    if (o && jv_set_str(o, "codec", codec) &&
        jv_set(o, "kl", object_of(kl_members, N_OF(kl_members), r)) &&
        jv_set(o, "layers", layers_json(r->loss, n_layer)) &&
        set_f32(o, "ppl_change", r->ppl_change) &&
        jv_set(o, "probe", object_of(probe_members, N_OF(probe_members), r)) &&
        jv_set(o, "top1", object_of(top1_members, N_OF(top1_members), r)) &&
        jv_set_int(o, "version", r->version)) {
        *out = o;
        return CAG_OK;
    }
    jv_free(o);
    return cag_fail_nomem(err, "receipt");
}

/* ------------------------------------------------------------------ read */

static void read_loss(struct kvc_members *r, const jv *layer, int l, bool is_v,
                      int64_t n_value, cag_kvc_loss *out)
{
    const jv *o = jv_get(layer, is_v ? "v" : "k");
    char where[40];

    snprintf(where, sizeof where, "layers[%d].%c", l, is_v ? 'v' : 'k');
    out->max_abs = kvc_member_f32(r, o, where, "max", 0, FLT_TOP);
    out->rel_rms = kvc_member_f32(r, o, where, "rel_rms", 0, FLT_TOP);
    out->n_subnormal = kvc_member_int(r, o, where, "subnormal", 0, n_value);
    out->n_overflow = kvc_member_int(r, o, where, "overflow", 0, n_value);
}

static void read_layers(struct kvc_members *r, const jv *v,
                        const struct kvc_shape *s, cag_kvc_loss *loss)
{
    const jv *a = jv_get(v, "layers");
    int64_t n = (int64_t)s->n_tok * s->n_kv_head * s->d_head;
    char want[48];

    if (jv_type(a) != JV_ARRAY || jv_count(a) != (size_t)s->n_layer) {
        snprintf(want, sizeof want, "an array of %d layers", s->n_layer);
        kvc_member_bad(r, "", "layers", want);
        return;
    }
    for (int l = 0; l < s->n_layer && !r->st; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            read_loss(r, jv_at(a, (size_t)l), l, is_v != 0, n,
                      &loss[2 * l + is_v]);
}

static void read_all(struct kvc_members *r, const jv *v, const char *codec,
                     const struct kvc_shape *s, cag_kvc_receipt *out)
{
    const jv *kl = kvc_member_object(r, v, "kl"),
             *top1 = kvc_member_object(r, v, "top1");
    const jv *probe = kvc_member_object(r, v, "probe");
    int64_t n;

    if (strcmp(jv_get_str(v, "codec", ""), codec) != 0)
        kvc_member_bad(r, "", "codec", codec);
    out->version = (int)kvc_member_int(r, v, "", "version", 1, INT32_MAX);
    out->begin = kvc_member_int(r, probe, "probe", "begin", 1, s->n_tok - 1);
    out->end =
        kvc_member_int(r, probe, "probe", "end", out->begin + 1, s->n_tok);
    n = out->end - out->begin;
    out->kl_max = kvc_member_f32(r, kl, "kl", "max", 0, FLT_TOP);
    out->kl_p99 = kvc_member_f32(r, kl, "kl", "p99", 0, (double)out->kl_max);
    out->kl_mean = kvc_member_f32(r, kl, "kl", "mean", 0, (double)out->kl_max);
    out->n_same = kvc_member_int(r, top1, "top1", "same", 0, n);
    out->n_clear_flip =
        kvc_member_int(r, top1, "top1", "clear_flips", 0, n - out->n_same);
    out->ppl_change = kvc_member_f32(r, v, "", "ppl_change", -1, FLT_TOP);
}

cag_status kvc_receipt_from_json(const jv *v, const char *file,
                                 const char *codec,
                                 const struct kvc_shape *shape, struct arena *a,
                                 cag_kvc_receipt **out, cag_error *err)
{
    struct kvc_members r = { file, "RCPT", err, CAG_OK };
    cag_kvc_receipt *rc = arena_array(a, 1, sizeof *rc);
    cag_kvc_loss *loss =
        arena_array(a, (size_t)shape->n_layer * 2, sizeof *loss);

    if (!rc || !loss)
        return cag_fail_nomem(err, "receipt");
    memset(rc, 0, sizeof *rc);
    read_all(&r, v, codec, shape, rc);
    read_layers(&r, v, shape, loss);
    rc->loss = loss;
    if (!r.st)
        *out = rc;
    return r.st;
}
